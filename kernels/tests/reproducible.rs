//! The same source gives the same bytes, wherever it lies.

use std::process::Command;

use taper_kernels::images;

const MODULE: &str = "norm";

#[test]
fn a_build_in_another_directory_gives_the_same_image() {
    let directory = std::env::temp_dir().join(format!("taper-another-directory-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/hip")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, directory.join(path.file_name().unwrap())).unwrap();
    }
    let (first, last) = (images::targets()[0], *images::targets().last().unwrap());
    for target in [first, last] {
        let Some((compiler, flags)) = images::command(target) else {
            eprintln!("SKIPPED: the images of this build came prebuilt");
            continue;
        };
        let source = directory.join(format!("{MODULE}.hip"));
        let mut command = Command::new(compiler);
        command.args(flags).arg(&source).arg("-o").arg("image").current_dir(&directory);
        assert!(command.status().unwrap().success(), "{compiler} fails on {}", source.display());
        let again = std::fs::read(directory.join("image")).unwrap();
        assert!(images::image(MODULE, target).unwrap() == again, "{MODULE} for {target} differs");
    }
    std::fs::remove_dir_all(&directory).unwrap();
}
