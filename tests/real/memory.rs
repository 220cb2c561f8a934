//! What a model costs: the promise is that nothing exists twice and nothing is expanded.

use taper_server::loading::Opened;
use taper_tests::test_model;

/// Gemma's embedding table is most of its file. Tied and quantised, it exists once.
#[test]
fn gemma3_takes_its_files_size() {
    let Some(path) = test_model("gemma-3-270m-q4_k_m.gguf") else { return };
    let opened = Opened::open(&path).unwrap();
    assert!(opened.spec.tied_embeddings);
    let file = std::fs::metadata(&path).unwrap().len();
    assert!(opened.weight_bytes() < file, "{} bytes of weights, a file of {file}", opened.weight_bytes());
}
