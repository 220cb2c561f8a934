//! A project in another folder that takes the open device from git, with nothing but the lines that README.md gives it.
//!
//! The repository it names is made here from the working tree, so that what is tested is what is about to be committed. Cargo's
//! downloads are shared with this build, its git checkouts are not, and nothing comes over a network: cargo is kept offline, but
//! for the one step that clones the repository.

use crate::{overlay, workspace};
use candle_overlay_build::copy_tree;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const MANIFEST: &str = r#"
[package]
name = "elsewhere"
version = "0.0.0"
edition = "2021"

[dependencies]
candle-core = "0.11.1"
candle-nn = "0.11.1"

# No optimisation: this is about what is built, and in how little time.
[profile.dev]
debug = false

[workspace]
"#;

const PROGRAM: &str = r#"
use candle_core::custom::{cpu_storage_as_bytes, cpu_storage_from_bytes, BoxedStorage, RoundTrips};
use candle_core::quantized::GgmlDType;
use candle_core::{CpuStorage, CustomDevice, CustomQStorage, CustomStorage, DType, Device, Layout, Result, Tensor};
use candle_nn::ops;
use std::sync::Arc;

static ROUND_TRIPS: std::sync::OnceLock<RoundTrips> = std::sync::OnceLock::new();

#[derive(Debug)]
struct Mine;

impl CustomDevice for Mine {
    fn name(&self) -> &'static str { "mine" }
    fn ordinal(&self) -> usize { 0 }
    fn round_trips(&self) -> &RoundTrips { ROUND_TRIPS.get_or_init(RoundTrips::new) }
    fn storage_from_cpu_storage_owned(&self, src: CpuStorage) -> Result<BoxedStorage> {
        let dtype = candle_core::backend::BackendStorage::dtype(&src);
        Ok(Box::new(Elements(dtype, cpu_storage_as_bytes(&src).to_vec())))
    }
    fn synchronize(&self) -> Result<()> { Ok(()) }
    fn load_quantized(&self, _: &[u8], _: GgmlDType) -> Result<Box<dyn CustomQStorage>> { candle_core::bail!("none") }
}

#[derive(Debug)]
struct Elements(DType, Vec<u8>);

impl CustomStorage for Elements {
    fn dtype(&self) -> DType { self.0 }
    fn device(&self) -> Arc<dyn CustomDevice> { Arc::new(Mine) }
    fn try_clone(&self, _: &Layout) -> Result<BoxedStorage> { Ok(Box::new(Elements(self.0, self.1.clone()))) }
    fn to_cpu_storage(&self) -> Result<CpuStorage> { cpu_storage_from_bytes(self.0, &self.1) }
    fn write_cpu_storage(&mut self, src: CpuStorage) -> Result<()> {
        self.1.copy_from_slice(cpu_storage_as_bytes(&src));
        Ok(())
    }
}

fn main() -> Result<()> {
    let x = Tensor::new(&[[1f32, 2.], [3., 4.]], &Device::new_custom(Mine))?;
    println!("{:?} on {:?}", x.matmul(&x)?.to_vec2::<f32>()?, x.device().location());
    // The mean square of (0, 2) is 2; with the epsilon, 4.
    let row = Tensor::new(&[[0f32, 2.]], x.device())?;
    let weight = Tensor::new(&[1f32, 3.], x.device())?;
    println!("rms_norm {:?}", ops::rms_norm(&row, &weight, 2.)?.to_vec2::<f32>()?);
    // One query that sees one key: the result is its value.
    let q = row.reshape((1, 1, 1, 2))?;
    match ops::sdpa(&q, &q, &q, None, false, 1., 1.) {
        Ok(y) => println!("sdpa {:?}", y.flatten_all()?.to_vec1::<f32>()?),
        Err(error) => println!("sdpa: {}", error.to_string().lines().next().unwrap_or_default()),
    }
    Ok(())
}
"#;

/// A package of the repository without dependencies: to ask for it clones the repository, and asks no registry for anything.
const CLONED: &str = "[package]\nname = \"cloned\"\nversion = \"0.0.0\"\nedition = \"2021\"\n[workspace]\n";

/// The lines that take the open device from git, as README.md has them, for this repository.
fn lines_of_the_readme(repository: &Path) -> String {
    let readme = fs::read_to_string(overlay("candle-core").join("README.md")).unwrap();
    let start = readme.find("[patch.crates-io]").unwrap();
    let block = readme[start..].split("```").next().unwrap();
    let address = block.split('"').nth(1).unwrap();
    block.replace(address, &format!("file://{}", repository.display()))
}

struct Project {
    folder: tempfile::TempDir,
}

impl Project {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let project = Self { folder };
        project.make_repository();
        project.make_cargo_home();
        project.clone();
        let root = project.path("elsewhere");
        let manifest = MANIFEST.to_owned() + &lines_of_the_readme(&project.path("repository"));
        write_package(&root, &manifest, "main.rs", PROGRAM);
        // The versions that this build has downloaded.
        fs::copy(workspace().join("Cargo.lock"), root.join("Cargo.lock")).unwrap();
        project
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What a clone of this repository holds, as far as cargo looks at it.
    fn make_repository(&self) {
        let repository = self.path("repository");
        for name in ["candle-core", "candle-nn", "overlay-build", "upstream"] {
            copy_tree(&overlay(name), &repository.join("candle-rocm").join(name)).unwrap();
        }
        let manifest = fs::read_to_string(workspace().join("Cargo.toml")).unwrap();
        // Members that were not copied are not named.
        let members = manifest.lines().find(|line| line.starts_with("members = ")).unwrap();
        let manifest = manifest.replace(members, "members = [\"candle-rocm/overlay-build\"]");
        fs::write(repository.join("Cargo.toml"), manifest).unwrap();
        write_package(&repository.join("cloned"), CLONED, "lib.rs", "");
        self.git(&["init", "--quiet"]);
        self.commit();
    }

    /// Makes what is in the repository what cargo has of it.
    fn commit(&self) {
        self.git(&["add", "--all"]);
        let who = ["-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false"];
        self.git(&[&who[..], &["commit", "--quiet", "--message=all"]].concat());
    }

    fn clone(&self) {
        let dependency =
            format!("[dependencies]\ncloned = {{ git = \"file://{}\" }}\n", self.path("repository").display());
        let manifest = CLONED.replace("\"cloned\"", "\"clone\"") + &dependency;
        write_package(&self.path("clone"), &manifest, "lib.rs", "");
        let update = self.command("clone", &["update"]).output().unwrap();
        assert!(update.status.success(), "{}", said(&update));
    }

    fn git(&self, arguments: &[&str]) {
        let output = Command::new("git").args(arguments).current_dir(self.path("repository")).output().unwrap();
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// A home with this build's downloads and settings, and its own checkouts.
    fn make_cargo_home(&self) {
        let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo"))).unwrap();
        fs::create_dir(self.path("home")).unwrap();
        for name in ["registry", "config.toml"] {
            if home.join(name).exists() {
                std::os::unix::fs::symlink(home.join(name), self.path("home").join(name)).unwrap();
            }
        }
    }

    fn cargo(&self, arguments: &[&str]) -> Output {
        self.command("elsewhere", arguments).arg("--offline").output().unwrap()
    }

    /// What the lock file has of a package.
    fn locked(&self, name: &str) -> String {
        let lock = fs::read_to_string(self.path("elsewhere/Cargo.lock")).unwrap();
        let name = format!("name = \"{name}\"");
        lock.split("[[package]]").find(|package| package.contains(&name)).unwrap().to_owned()
    }

    fn command(&self, folder: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO"));
        command.args(arguments).current_dir(self.path(folder));
        command
            .env("CARGO_HOME", self.path("home"))
            .env("CARGO_TARGET_DIR", self.path("target"))
            .env("CARGO_INCREMENTAL", "0");
        // Flags of this build are not theirs.
        command.env_remove("RUSTFLAGS");
        command
    }
}

fn write_package(folder: &Path, manifest: &str, file: &str, source: &str) {
    fs::create_dir_all(folder.join("src")).unwrap();
    fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    fs::write(folder.join("src").join(file), source).unwrap();
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const COMPUTED: &str = "[[7.0, 10.0], [15.0, 22.0]] on Custom { name: \"mine\", ordinal: 0 }\nrms_norm [[0.0, 3.0]]\n";

/// With the one line of README.md, candle-nn is the published one.
#[test]
fn a_project_elsewhere_has_the_open_device_for_its_lines() {
    let project = Project::new();
    let run = project.cargo(&["run", "--quiet"]);
    assert!(run.status.success(), "{}", said(&run));
    assert_eq!(printed(&run), format!("{COMPUTED}sdpa: SDPA has no cpu impl\n"));
    assert!(said(&run).contains("warning: mine does not implement matmul"), "{}", said(&run));

    let tree = printed(&project.cargo(&["tree", "--invert", "candle-core"]));
    assert!(tree.starts_with("candle-core v0.11.1 (file://"), "{tree}");
    assert!(!project.locked("candle-core").contains("registry+"));
    assert!(project.locked("candle-nn").contains("registry+"));

    both_overlays_by_path(&project);
}

/// As whoever works on the patches has them: both overlays, by path, and a patch that is edited where it lies. In the same folder
/// as what was built before, which saves the dependencies.
fn both_overlays_by_path(project: &Project) {
    let folder = project.path("repository/candle-rocm");
    let line = |name: &str| format!("{name} = {{ path = \"{}\" }}\n", folder.join(name).display());
    let lines = format!("[patch.crates-io]\n{}{}", line("candle-core"), line("candle-nn"));
    fs::write(project.path("elsewhere/Cargo.toml"), MANIFEST.to_owned() + &lines).unwrap();
    let run = project.cargo(&["run", "--quiet"]);
    assert!(run.status.success(), "{}", said(&run));
    assert_eq!(printed(&run), format!("{COMPUTED}sdpa [0.0, 2.0]\n"));
    assert!(!project.locked("candle-nn").contains("registry+"));

    let file = folder.join("candle-core/open-device.patch");
    let patch = fs::read_to_string(&file).unwrap();
    let hash = patch.find("sha256:").unwrap() + "sha256:".len();
    let altered = if &patch[hash..=hash] == "0" { "1" } else { "0" };
    fs::write(&file, format!("{}{altered}{}", &patch[..hash], &patch[hash + 1..])).unwrap();
    let build = project.cargo(&["build"]);
    assert!(!build.status.success(), "a changed patch was not noticed");
    assert!(said(&build).contains("is not the file that open-device.patch was made for"), "{}", said(&build));
}
