//! What this build's kernels take from the hardware, a line for each kernel and target; with `--write DIR`, the images
//! themselves, for people without clang (`TAPER_KERNEL_IMAGES`).

use std::path::Path;
use std::process::ExitCode;

use taper_kernels::metadata::{Kernel, Metadata};
use taper_kernels::{images, occupancy};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match &arguments[..] {
        [] => report(),
        [flag, directory] if flag == "--write" => write(Path::new(directory)),
        _ => Err("usage: report [--write DIR]".to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn report() -> Result<(), String> {
    println!(
        "{:<34} {:<8} {:>5} {:>5} {:>6} {:>6} {:>7}",
        "kernel", "target", "VGPR", "SGPR", "LDS", "waves", "spills"
    );
    for module in images::modules() {
        for target in images::targets() {
            for kernel in metadata(module, target)?.kernels {
                line(&kernel, target);
            }
        }
    }
    println!("{} bytes of images in this binary", images::embedded_bytes());
    Ok(())
}

fn metadata(module: &str, target: &str) -> Result<Metadata, String> {
    let image = images::image(module, target).ok_or_else(|| format!("no image of {module} for {target}"))?;
    Metadata::parse(&image).map_err(|error| format!("{module} for {target}: {error}"))
}

/// PTX says nothing of registers, so has no line.
fn line(kernel: &Kernel, target: &str) {
    let (Some(resources), Some(waves)) = (kernel.resources, occupancy::waves_per_simd(kernel, target)) else { return };
    let spills = resources.vgpr_spills + resources.sgpr_spills + resources.scratch;
    let (name, lds) = (&kernel.name, kernel.lds);
    println!("{name:<34} {target:<8} {:>5} {:>5} {lds:>6} {waves:>6} {spills:>7}", resources.vgprs, resources.sgprs);
}

fn write(directory: &Path) -> Result<(), String> {
    std::fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let sources = directory.join("sources.txt");
    std::fs::write(&sources, images::SOURCE_LIST).map_err(|error| format!("{}: {error}", sources.display()))?;
    for module in images::modules() {
        for target in images::targets() {
            let extension = if target.starts_with("gfx") { "hsaco" } else { "ptx" };
            let path = directory.join(format!("{module}.{target}.{extension}"));
            let image = images::image(module, target).ok_or_else(|| format!("no image of {module} for {target}"))?;
            std::fs::write(&path, image).map_err(|error| format!("{}: {error}", path.display()))?;
        }
    }
    Ok(())
}
