//! What does a code object say about its kernels? The MessagePack note that compilers for AMD GPUs write: arguments, and
//! what a wave needs.

use serde::Deserialize;

#[derive(Debug, Deserialize)]
pub struct Metadata {
    #[serde(rename = "amdhsa.target")]
    pub target: String,
    #[serde(rename = "amdhsa.kernels", default)]
    pub kernels: Vec<KernelMetadata>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct KernelMetadata {
    #[serde(rename = ".name")]
    pub name: String,
    /// The kernel descriptor's symbol.
    #[serde(rename = ".symbol")]
    pub symbol: String,
    #[serde(rename = ".args", default)]
    pub arguments: Vec<Argument>,
    /// Bytes.
    #[serde(rename = ".kernarg_segment_size")]
    pub kernarg_size: usize,
    /// LDS bytes, without what a launch adds.
    #[serde(rename = ".group_segment_fixed_size")]
    pub lds_size: usize,
    /// Bytes for each lane.
    #[serde(rename = ".private_segment_fixed_size")]
    pub private_size: usize,
    #[serde(rename = ".uses_dynamic_stack", default)]
    pub uses_dynamic_stack: bool,
    #[serde(rename = ".max_flat_workgroup_size")]
    pub max_threads: u32,
    #[serde(rename = ".wavefront_size")]
    pub wavefront_size: u32,
    #[serde(rename = ".vgpr_count")]
    pub num_vgprs: usize,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Argument {
    #[serde(rename = ".offset")]
    pub offset: usize,
    #[serde(rename = ".size")]
    pub size: usize,
    #[serde(rename = ".value_kind")]
    pub kind: String,
}

impl Argument {
    /// Filled by the runtime, not by who launches.
    pub fn is_hidden(&self) -> bool {
        self.kind.starts_with("hidden_")
    }
}

impl Metadata {
    pub fn parse(note: &[u8]) -> Result<Metadata, String> {
        rmp_serde::from_slice(note).map_err(|error| format!("metadata of the code object: {error}"))
    }

    /// The target's name alone: `gfx1151` of `amdgcn-amd-amdhsa--gfx1151:sramecc+`.
    pub fn target_name(&self) -> &str {
        let name = self.target.rsplit("--").next().unwrap_or(&self.target);
        name.split(':').next().unwrap_or(name)
    }
}
