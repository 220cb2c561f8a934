use taper_kernels::metadata::{Arg, Metadata, MetadataError};

const PTX: &str = "
.version 8.0
.target sm_90
.address_size 64
	// .globl	f
.visible .entry f(
	.param .u64 .ptr .align 1 f_param_0,
	.param .u32 f_param_1,
	.param .align 4 .b8 f_param_2[28],
	.param .u64 f_param_3
)
.maxntid 256, 1, 1                      // @f
{
	ret;
}
";

#[test]
fn ptx_arguments_lie_where_their_alignment_puts_them() {
    let metadata = Metadata::parse(PTX.as_bytes()).unwrap();
    let kernel = metadata.kernel("f").unwrap();
    let args: Vec<_> = kernel.args.iter().map(|Arg { offset, size }| (*offset, *size)).collect();
    assert_eq!(args, [(0, 8), (8, 4), (12, 28), (40, 8)]);
    assert_eq!((metadata.target.as_str(), kernel.max_block_threads), ("sm_90", 256));
}

#[test]
fn what_is_neither_elf_nor_ptx_is_refused() {
    assert_eq!(Metadata::parse(b"MZ"), Err(MetadataError::Format));
    assert_eq!(Metadata::parse(&[0xff, 0xfe]), Err(MetadataError::Format));
}

/// A code object cut at any byte is an error or, where only what is not read is missing, the same.
#[cfg(feature = "rocm")]
#[test]
fn a_code_object_cut_short_is_an_error() {
    let target = taper_kernels::images::targets()[0];
    let image = taper_kernels::images::image("norm", target).unwrap();
    let whole = Metadata::parse(&image).unwrap();
    for len in 0..image.len() {
        if let Ok(metadata) = Metadata::parse(&image[..len]) {
            assert_eq!(metadata, whole, "cut to {len} bytes");
        }
    }
}
