//! Builds the images of our GPU kernels: each `src/hip/*.hip` for each target, by clang alone, in parallel, to the same
//! bytes on every machine. `rocm` builds gfx targets, `nvidia` PTX; without features nothing is built.
//!
//! `TAPER_CLANG` names the compiler, `TAPER_GPU_TARGETS` narrows the targets ("gfx1151,gfx1201"),
//! `TAPER_KERNEL_IMAGES` names a directory of images that were built elsewhere (`cargo run -p taper-kernels --example
//! report -- --write DIR`). They must come from the very sources that are here, which a list beside them says.

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
/// The one that our own tests run with. Others know warnings that nobody here has seen: those stop no build.
const OUR_CLANG: u32 = 19;
/// Lies beside prebuilt images: what they were made from.
const SOURCE_LIST: &str = "sources.txt";
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
    for variable in ["TAPER_CLANG", "TAPER_GPU_TARGETS", "TAPER_KERNEL_IMAGES", "ROCM_PATH"] {
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
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    let modules = modules()?;
    let sources = source_list()?;
    let jobs: Vec<Image> =
        targets.iter().flat_map(|target| modules.iter().map(|module| Image { module, target })).collect();
    let mut compiler = None;
    match env::var_os("TAPER_KERNEL_IMAGES") {
        _ if jobs.is_empty() => {}
        Some(directory) => take_prebuilt(&jobs, Path::new(&directory), &sources, &out)?,
        None => {
            let clang = find_clang()?;
            compile_all(&jobs, &clang, &out)?;
            compiler = Some(clang);
        }
    }
    fs::write(out.join(SOURCE_LIST), sources).map_err(|error| format!("writing {SOURCE_LIST}: {error}"))?;
    for job in &jobs {
        compress(&out.join(job.file())).map_err(|error| format!("compressing {}: {error}", job.file()))?;
    }
    write_table(&jobs, compiler.as_deref(), &out).map_err(|error| format!("writing the table of images: {error}"))
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

/// A line for every file that images are made from, and for how: its name and a hash (64-bit FNV-1a) of its content.
fn source_list() -> Result<String, String> {
    let hash = |bytes: &[u8]| {
        bytes
            .iter()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
    };
    let how = GFX.iter().chain(&PTX).flat_map(|target| flags(target, OUR_CLANG)).collect::<Vec<_>>().join(" ");
    let mut list = format!("flags {:016x}\n", hash(how.as_bytes()));
    for path in [sources("h")?, sources("hip")?].concat() {
        let content = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let name = path.file_name().unwrap_or_default().display();
        list += &format!("{name} {:016x}\n", hash(&content));
    }
    Ok(list)
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
    let compiler = Compiler { clang, version: clang_version(clang).unwrap_or_default(), origin: origin(clang)? };
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            compiler.compile(job, out)?;
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

struct Compiler<'a> {
    clang: &'a str,
    version: u32,
    origin: u64,
}

impl Compiler<'_> {
    /// Unless the image is there already, made from the same by the same.
    fn compile(&self, job: &Image, out: &Path) -> Result<(), String> {
        let (clang, flags) = (self.clang, flags(job.target, self.version));
        let source = format!("src/hip/{}.hip", job.module);
        let stamp_path = stamp_path(job, out);
        let stamp = {
            let mut hasher = DefaultHasher::new();
            let text = fs::read(&source).map_err(|error| format!("{source}: {error}"))?;
            (self.origin, &flags, text).hash(&mut hasher);
            hasher.finish().to_string()
        };
        if fs::read_to_string(&stamp_path).is_ok_and(|before| before == stamp) {
            return Ok(());
        }
        remove_stamp(&stamp_path)?;
        let mut command = Command::new(clang);
        command.args(flags).arg(&source).arg("-o").arg(out.join(job.file()));
        let output = command.output().map_err(|error| format!("{clang}: {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{clang} failed on {source} for {}: {said}", job.target));
        }
        fs::write(&stamp_path, stamp).map_err(|error| format!("{}: {error}", stamp_path.display()))
    }
}

/// Says what an image was made from.
fn stamp_path(job: &Image, out: &Path) -> PathBuf {
    out.join(format!("{}.from", job.file()))
}

/// Before the image changes: a stamp without its image would be believed by the next build.
fn remove_stamp(path: &Path) -> Result<(), String> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(format!("{}: {error}", path.display())),
        _ => Ok(()),
    }
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
fn flags(target: &str, clang_version: u32) -> Vec<String> {
    let (language, vendor): (_, &[&str]) = if is_ptx(target) {
        let device = ["--cuda-device-only", "-nocudainc", "-nocudalib", "-S", "-Xclang", "-target-feature", "-Xclang"];
        ("cuda", &[&device[..], &["+ptx80"]].concat())
    } else {
        ("hip", &["--offload-device-only", "--no-gpu-bundle-output", "-nogpuinc", "-nogpulib", "-fuse-cuid=none"])
    };
    let common = ["-std=c++20", "-O3", "-Wall", "-Wextra", "-x", language];
    let mut flags: Vec<String> = common.iter().chain(vendor).map(|flag| (*flag).to_owned()).collect();
    if clang_version == OUR_CLANG {
        flags.push("-Werror".to_owned());
    }
    flags.push(format!("--{}={target}", if is_ptx(target) { "cuda-gpu-arch" } else { "offload-arch" }));
    flags
}

fn take_prebuilt(jobs: &[Image], directory: &Path, sources: &str, out: &Path) -> Result<(), String> {
    println!("cargo::rerun-if-changed={}", directory.display());
    let read = |name: &str| {
        let path = directory.join(name);
        fs::read(&path).map_err(|error| {
            format!(
                "TAPER_KERNEL_IMAGES: {}: {error}; the directory must be one that `report --write` made, with an image \
                 for every kernel file",
                path.display()
            )
        })
    };
    let theirs = read(SOURCE_LIST)?;
    let theirs = String::from_utf8_lossy(&theirs);
    if let Some(line) = sources.lines().find(|line| !theirs.lines().any(|other| other == *line)) {
        let name = line.split(' ').next().unwrap_or_default();
        return Err(format!(
            "TAPER_KERNEL_IMAGES: the images in {} were made from another {name} than the one here; make them anew",
            directory.display()
        ));
    }
    for job in jobs {
        remove_stamp(&stamp_path(job, out))?;
        let to = out.join(job.file());
        fs::write(&to, read(&job.file())?).map_err(|error| format!("{}: {error}", to.display()))?;
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

/// The sources of `images::TABLE` and `images::COMMANDS`.
fn write_table(jobs: &[Image], compiler: Option<&str>, out: &Path) -> io::Result<()> {
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
    fs::write(out.join("images.rs"), format!("&[\n{rows}]"))?;
    let mut commands = String::new();
    let mut targets: Vec<_> = jobs.iter().map(|job| job.target).collect();
    targets.dedup();
    for (clang, target) in compiler.iter().flat_map(|clang| targets.iter().map(move |target| (clang, target))) {
        let flags = flags(target, clang_version(clang).unwrap_or_default());
        commands += &format!("({target:?}, {clang:?}, &{flags:?}),\n");
    }
    fs::write(out.join("commands.rs"), format!("&[\n{commands}]"))
}
