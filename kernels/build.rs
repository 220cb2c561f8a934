//! Builds the images of our GPU kernels: each `src/hip/*.hip` for each target, by clang alone, in parallel, to the same
//! bytes on every machine. `rocm` builds gfx targets, `nvidia` PTX; without features nothing is built.
//!
//! `TAPER_CLANG` names the compiler, `TAPER_GPU_TARGETS` narrows the targets ("gfx1151,gfx1201"),
//! `TAPER_KERNEL_IMAGES` names a directory of images that were built elsewhere (`cargo run -p taper-kernels --example
//! report -- --write DIR`).

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, io, thread};

const GFX: [&str; 9] =
    ["gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1200", "gfx1201"];
/// sm_80 is the oldest whose matrix instructions the kernels use; a driver compiles PTX for any newer card.
const PTX: [&str; 2] = ["sm_80", "sm_90"];

const OLDEST_CLANG: u32 = 19;
/// Versioned names first: a plain `clang` is often older.
const CLANGS: [&str; 8] = [
    "clang-19",
    "clang-20",
    "clang-21",
    "clang-22",
    "clang-23",
    "clang",
    "/opt/rocm/llvm/bin/clang",
    "/opt/rocm/lib/llvm/bin/clang",
];

fn main() -> ExitCode {
    for variable in ["TAPER_CLANG", "TAPER_GPU_TARGETS", "TAPER_KERNEL_IMAGES"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/hip");
    match build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            println!("cargo::error={}", message.replace('\n', "\\n"));
            ExitCode::FAILURE
        }
    }
}

fn build() -> Result<(), String> {
    let targets = targets()?;
    if targets.is_empty() {
        return Ok(());
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    let modules = modules()?;
    let jobs: Vec<Image> =
        targets.iter().flat_map(|target| modules.iter().map(|module| Image { module, target })).collect();
    match env::var_os("TAPER_KERNEL_IMAGES") {
        Some(directory) => take_prebuilt(&jobs, Path::new(&directory), &out)?,
        None => compile_all(&jobs, &find_clang()?, &out)?,
    }
    for job in &jobs {
        compress(&out.join(job.file())).map_err(|error| format!("compressing {}: {error}", job.file()))?;
    }
    write_table(&jobs, &out).map_err(|error| format!("writing the table of images: {error}"))
}

struct Image<'a> {
    /// The stem of the source's name.
    module: &'a str,
    target: &'static str,
}

impl Image<'_> {
    fn file(&self) -> String {
        let extension = if is_ptx(self.target) { "ptx" } else { "hsaco" };
        format!("{}.{}.{extension}", self.module, self.target)
    }
}

fn is_ptx(target: &str) -> bool {
    target.starts_with("sm_")
}

fn targets() -> Result<Vec<&'static str>, String> {
    let mut all = Vec::new();
    if env::var_os("CARGO_FEATURE_ROCM").is_some() {
        all.extend(GFX);
    }
    if env::var_os("CARGO_FEATURE_NVIDIA").is_some() {
        all.extend(PTX);
    }
    let Ok(wanted) = env::var("TAPER_GPU_TARGETS") else { return Ok(all) };
    let wanted: Vec<&str> = wanted.split([',', ' ']).filter(|name| !name.is_empty()).collect();
    if let Some(unknown) = wanted.iter().find(|name| !GFX.contains(name) && !PTX.contains(name)) {
        return Err(format!("TAPER_GPU_TARGETS names {unknown}, which is none of {} {}", GFX.join(" "), PTX.join(" ")));
    }
    // The variable narrows each vendor that it names; of the other, all are built.
    let names_vendor_of = |target: &str| wanted.iter().any(|name| is_ptx(name) == is_ptx(target));
    all.retain(|target| wanted.contains(target) || !names_vendor_of(target));
    Ok(all)
}

fn modules() -> Result<Vec<String>, String> {
    let stem = |path: &PathBuf| path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned);
    Ok(sources("hip")?.iter().filter_map(stem).collect())
}

/// Files of `src/hip` that end so, in order.
fn sources(extension: &str) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir("src/hip").map_err(|error| format!("src/hip: {error}"))?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|found| found == extension)).collect();
    paths.sort();
    Ok(paths)
}

fn find_clang() -> Result<String, String> {
    if let Ok(named) = env::var("TAPER_CLANG") {
        return match clang_version(&named) {
            Some(version) if version >= OLDEST_CLANG => Ok(named),
            Some(version) => Err(format!("TAPER_CLANG={named} is clang {version}; {OLDEST_CLANG} or later is needed")),
            None => Err(format!("TAPER_CLANG={named} does not run, or is not clang")),
        };
    }
    let rocm = env::var("ROCM_PATH").map(|path| format!("{path}/llvm/bin/clang"));
    let found = CLANGS
        .iter()
        .map(|name| (*name).to_owned())
        .chain(rocm)
        .find(|name| clang_version(name).is_some_and(|version| version >= OLDEST_CLANG));
    found.ok_or_else(|| {
        "no clang >= 19 was found to build the GPU kernels: install it (Debian, Ubuntu: clang-19 lld-19), name one in \
         TAPER_CLANG, or name a directory of prebuilt images in TAPER_KERNEL_IMAGES"
            .to_owned()
    })
}

/// The major version, from `clang version 19.1.7` and the like.
fn clang_version(clang: &str) -> Option<u32> {
    let output = Command::new(clang).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let (_, after) = text.split_once("clang version ")?;
    after.split('.').next()?.trim().parse().ok()
}

fn compile_all(jobs: &[Image], clang: &str, out: &Path) -> Result<(), String> {
    let workers = env::var("NUM_JOBS").ok().and_then(|n| n.parse().ok()).unwrap_or(1).clamp(1, jobs.len());
    let origin = origin(clang)?;
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            compile(job, clang, origin, out)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let handles: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        handles
            .into_iter()
            .try_for_each(|handle| handle.join().map_err(|_| "a compiling thread panicked".to_owned())?)
    })
}

/// Unless the image is there already, made from the same by the same.
fn compile(job: &Image, clang: &str, origin: u64, out: &Path) -> Result<(), String> {
    let source = format!("src/hip/{}.hip", job.module);
    let stamp_path = out.join(format!("{}.from", job.file()));
    let stamp = {
        let mut hasher = DefaultHasher::new();
        let text = fs::read(&source).map_err(|error| format!("{source}: {error}"))?;
        (origin, flags(job.target), text).hash(&mut hasher);
        hasher.finish().to_string()
    };
    if fs::read_to_string(&stamp_path).is_ok_and(|before| before == stamp) {
        return Ok(());
    }
    let mut command = Command::new(clang);
    command.args(flags(job.target)).arg(&source).arg("-o").arg(out.join(job.file()));
    let output = command.output().map_err(|error| format!("{clang}: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{clang} failed on {source} for {}: {said}", job.target));
    }
    fs::write(&stamp_path, stamp).map_err(|error| format!("{}: {error}", stamp_path.display()))
}

/// What all images come from besides their own source: the compiler and the headers.
fn origin(clang: &str) -> Result<u64, String> {
    let version = Command::new(clang).arg("--version").output().map_err(|error| format!("{clang}: {error}"))?;
    let mut hasher = DefaultHasher::new();
    version.stdout.hash(&mut hasher);
    for header in sources("h")? {
        fs::read(&header).map_err(|error| format!("{}: {error}", header.display()))?.hash(&mut hasher);
    }
    Ok(hasher.finish())
}

/// No vendor's headers or libraries are used. Without `-fuse-cuid=none` every build would differ in the name of a
/// symbol.
fn flags(target: &str) -> Vec<String> {
    let (language, vendor): (_, &[&str]) = if is_ptx(target) {
        let device = ["--cuda-device-only", "-nocudainc", "-nocudalib", "-S", "-Xclang", "-target-feature", "-Xclang"];
        ("cuda", &[&device[..], &["+ptx80"]].concat())
    } else {
        ("hip", &["--offload-device-only", "--no-gpu-bundle-output", "-nogpuinc", "-nogpulib", "-fuse-cuid=none"])
    };
    let common = ["-std=c++20", "-O3", "-Wall", "-Wextra", "-Werror", "-x", language];
    let mut flags: Vec<String> = common.iter().chain(vendor).map(|flag| (*flag).to_owned()).collect();
    flags.push(format!("--{}={target}", if is_ptx(target) { "cuda-gpu-arch" } else { "offload-arch" }));
    flags
}

fn take_prebuilt(jobs: &[Image], directory: &Path, out: &Path) -> Result<(), String> {
    println!("cargo::rerun-if-changed={}", directory.display());
    for job in jobs {
        let from = directory.join(job.file());
        fs::copy(&from, out.join(job.file())).map_err(|error| {
            format!("TAPER_KERNEL_IMAGES: {}: {error}; it must hold an image for every kernel file", from.display())
        })?;
    }
    Ok(())
}

/// `name` to `name.gz`.
#[cfg(feature = "images")]
fn compress(path: &Path) -> io::Result<()> {
    let image = fs::read(path)?;
    let to = fs::File::create(path.with_added_extension("gz"))?;
    let mut encoder = flate2::write::GzEncoder::new(to, flate2::Compression::best());
    io::Write::write_all(&mut encoder, &image)?;
    encoder.finish().map(drop)
}

#[cfg(not(feature = "images"))]
fn compress(_: &Path) -> io::Result<()> {
    Ok(())
}

/// The source of `images::TABLE`.
fn write_table(jobs: &[Image], out: &Path) -> io::Result<()> {
    let rows: String = jobs
        .iter()
        .map(|job| {
            format!(
                "Embedded {{ module: {:?}, target: {:?}, gzip: include_bytes!({:?}) }},\n",
                job.module,
                job.target,
                out.join(format!("{}.gz", job.file()))
            )
        })
        .collect();
    fs::write(out.join("images.rs"), format!("&[\n{rows}]"))
}
