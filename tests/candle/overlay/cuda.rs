//! What a program with Candle's own `cuda` feature depends on: nothing that links a driver.

use crate::workspace;
use std::process::Command;

/// `tests/candle/overlay/cuda` is such a program, with a lock file of its own. `scripts/test` fetches its dependencies.
#[test]
fn cuda_is_opened_at_run_time() {
    let manifest = workspace().join("tests/candle/overlay/cuda/Cargo.toml");
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--locked",
            "--offline",
            "--edges=features",
            "--target=x86_64-unknown-linux-gnu",
            "--manifest-path",
        ])
        .arg(manifest)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).unwrap();
    assert!(tree.contains("cudarc feature \"dynamic-loading\""), "{tree}");
    assert!(!tree.contains("dynamic-linking"), "{tree}");
}
