//! Files that are cut off, lie about their sizes, or are something else: an error that says what, and no panic.

use std::path::PathBuf;

use taper_models::weights::Checkpoint;
use taper_models::weights::gguf::Gguf;
use taper_tests::fixture;

fn written(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    std::fs::write(&path, bytes).unwrap();
    (directory, path)
}

fn error(bytes: &[u8]) -> String {
    let (_directory, path) = written(bytes);
    Checkpoint::open(&path).expect_err("the file is not whole").to_string()
}

fn good() -> Vec<u8> {
    std::fs::read(fixture("tiny_gguf/llama.gguf")).unwrap()
}

#[test]
fn a_gguf_cut_off_anywhere_is_an_error() {
    let good = good();
    for len in (0..good.len()).step_by(97).chain([good.len() - 1]) {
        let message = error(&good[..len]);
        assert!(message.contains("damaged or cut off"), "{len} bytes: {message}");
    }
}

#[test]
fn another_kind_of_file_is_named_as_such() {
    assert!(error(b"PK\x03\x04 something zipped").contains("is not a GGUF file"));
}

#[test]
fn counts_that_the_file_cannot_hold_allocate_nothing() {
    let good = good();
    // Tensor count, metadata count, length of the first key.
    for at in [8, 16, 24] {
        let mut bytes = good.clone();
        bytes[at..at + 8].copy_from_slice(&(u64::MAX / 3).to_le_bytes());
        let message = error(&bytes);
        assert!(message.contains("claims") && message.contains("bytes of the file are left"), "offset {at}: {message}");
    }
}

/// Whatever single byte of the header is wrong, reading ends with a value or an error, never with a panic.
#[test]
fn any_flipped_byte_of_the_header_is_survived() {
    let good = good();
    let header =
        Gguf::open(&fixture("tiny_gguf/llama.gguf")).unwrap().tensors.iter().map(|t| t.offset).min().unwrap() as usize;
    for at in 0..header {
        let mut bytes = good.clone();
        bytes[at] ^= 0xff;
        let (_directory, path) = written(&bytes);
        if let Ok(checkpoint) = Checkpoint::open(&path) {
            // What describes a model may be wrong, too.
            let _ = taper_models::families::identify(&checkpoint);
        }
    }
}

#[test]
fn a_safetensors_header_longer_than_its_file_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::copy(fixture("tiny/llama/config.json"), directory.path().join("config.json")).unwrap();
    let mut bytes = std::fs::read(fixture("tiny/llama/model.safetensors")).unwrap();
    bytes[..8].copy_from_slice(&(1u64 << 40).to_le_bytes());
    std::fs::write(directory.path().join("model.safetensors"), &bytes).unwrap();
    let message = Checkpoint::open(directory.path()).unwrap_err().to_string();
    assert!(message.contains("its header claims"), "{message}");
}

#[test]
fn an_index_that_points_out_of_its_directory_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::copy(fixture("tiny/llama/config.json"), directory.path().join("config.json")).unwrap();
    let index = r#"{"weight_map": {"a": "../../etc/passwd"}}"#;
    std::fs::write(directory.path().join("model.safetensors.index.json"), index).unwrap();
    let message = Checkpoint::open(directory.path()).unwrap_err().to_string();
    assert!(message.contains("../../etc/passwd"), "{message}");
}

#[test]
fn an_unknown_family_is_named_with_those_that_are_known() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::copy(fixture("tiny/llama/model.safetensors"), directory.path().join("model.safetensors")).unwrap();
    std::fs::write(directory.path().join("config.json"), r#"{"model_type": "t5"}"#).unwrap();
    let checkpoint = Checkpoint::open(directory.path()).unwrap();
    let message = match taper_models::families::identify(&checkpoint) {
        Ok(_) => panic!("t5 is not supported"),
        Err(error) => error.to_string(),
    };
    assert!(message.contains("\"t5\"") && message.contains("Qwen3"), "{message}");
}

#[test]
fn a_file_that_shrinks_while_it_is_read_is_an_error() {
    let (_directory, path) = written(&good());
    let checkpoint = Checkpoint::open(&path).unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_len(good().len() as u64 / 2).unwrap();
    let loaded = taper_models::Model::from_checkpoint(&checkpoint, &candle_core::Device::Cpu, None, &mut |_, _| true);
    let message = loaded.expect_err("half of it is gone").to_string();
    assert!(message.contains("model.gguf") && message.contains("it has shrunk since it was opened"), "{message}");
}
