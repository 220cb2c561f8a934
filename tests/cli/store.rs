//! Models by name, from a Hub cache that holds tiny ones: what is listed, shown, opened and removed, and how that ends.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use taper_server::store::cache::HubCache;
use taper_server::store::name::HubName;
use tempfile::TempDir;

use crate::{TAPER, command, stderr, tiny};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const OLDER: &str = "fedcba9876543210fedcba9876543210fedcba98";

/// A cache with two quantisations of one model, of which the first is also in an older revision; a split one; one in
/// safetensors; and a download that has not ended.
struct Cache {
    _directory: TempDir,
    cache: HubCache,
}

impl Cache {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let cache = HubCache { root: directory.path().join("hub") };
        let new = Self { _directory: directory, cache };
        new.put("tiny/llama", COMMIT, "llama-Q8_0.gguf", "tiny_gguf/llama.gguf");
        new.put("tiny/llama", COMMIT, "llama-F32.gguf", "tiny_gguf/llama_tied.gguf");
        new.put("tiny/llama", OLDER, "llama-Q8_0.gguf", "tiny_gguf/llama.gguf");
        for part in ["00001-of-00002", "00002-of-00002"] {
            let file = format!("llama_one_kv_head-{part}.gguf");
            new.put("tiny/split", COMMIT, &file, &format!("tiny_gguf/{file}"));
        }
        for file in ["config.json", "model.safetensors"] {
            new.put("tiny/plain", COMMIT, file, &format!("tiny/llama/{file}"));
        }
        new.put("tiny/broken", COMMIT, "broken-Q4_0.gguf", "tiny/llama/config.json");
        let begun = new.cache.blob(&name("tiny/begun"), "abc.incomplete").expect("a safe name");
        std::fs::create_dir_all(begun.parent().expect("it is in a directory")).expect("the cache can be written");
        std::fs::write(begun, "1234567").expect("the cache can be written");
        new.cache.write_ref(&name("tiny/llama"), "old", OLDER).expect("the cache can be written");
        new
    }

    /// Puts a fixture into a snapshot, as a download would; `main` is the commit of the last one.
    fn put(&self, repository: &str, commit: &str, file: &str, fixture: &str) {
        let (name, etag) = (name(repository), fixture.replace('/', "."));
        let blob = self.cache.blob(&name, &etag).expect("a safe name");
        std::fs::create_dir_all(blob.parent().expect("it is in a directory")).expect("the cache can be written");
        std::fs::copy(tiny(fixture), blob).expect("the cache can be written");
        self.cache.link(&name, commit, file, &etag).expect("the cache can be written");
        if commit == COMMIT {
            self.cache.write_ref(&name, "main", commit).expect("the cache can be written");
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command(TAPER);
        command.env("HF_HUB_CACHE", &self.cache.root).args(arguments);
        command
    }

    /// `taper ARGUMENTS` without a terminal. Nothing is asked of the Hub.
    fn taper(&self, arguments: &[&str]) -> Output {
        self.command(arguments).env("TAPER_OFFLINE", "1").output().expect("taper was built for this test")
    }

    #[track_caller]
    fn stdout(&self, arguments: &[&str]) -> String {
        let output = self.taper(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        String::from_utf8(output.stdout).expect("taper prints UTF-8")
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.stdout(arguments)).expect("--json prints JSON")
    }

    #[track_caller]
    fn assert_ends(&self, arguments: &[&str], code: i32, stderr_has: &str) {
        let output = self.taper(arguments);
        let stderr = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
        assert!(stderr.contains(stderr_has), "{arguments:?}: {stderr}");
    }

    fn has(&self, path: &str) -> bool {
        self.cache.root.join(path).symlink_metadata().is_ok()
    }
}

fn name(repository: &str) -> HubName {
    repository.parse().expect(repository)
}

/// A settings file with `[aliases]`.
fn aliases(directory: &Path, text: &str) -> String {
    let path = directory.join("taper.toml");
    std::fs::write(&path, format!("[aliases]\n{text}\n")).expect("the cache can be written");
    path.to_str().expect("a UTF-8 path").to_owned()
}

#[test]
fn list_has_a_line_for_each_model() {
    let cache = Cache::new();
    let table = cache.stdout(&["list"]);
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAME", "REVISION", "FORMAT", "SIZE", "USED", "STATE"]);
    let first = |name: &str| rows.iter().find(|row| row[0] == name).unwrap_or_else(|| panic!("{name}: {table}"));
    assert_eq!(first("tiny/llama:Q8_0")[1..4], ["0123456", "GGUF", "Q8_0"]);
    assert_eq!(first("tiny/llama@old:Q8_0")[1], "fedcba9");
    assert_eq!(first("tiny/plain")[2], "safetensors");
    assert_eq!((first("tiny/plain").last(), first("tiny/begun").last()), (Some(&"complete"), Some(&"incomplete")));
}

#[test]
fn list_gives_programs_the_bytes_and_the_aliases() {
    let cache = Cache::new();
    let config = aliases(&cache.cache.root, "small = 'tiny/llama:F32'");
    let report = cache.json(&["list", "--json", "--config", &config]);
    let models = report["models"].as_array().unwrap();
    let split = models.iter().find(|model| model["name"].as_str().unwrap().starts_with("tiny/split")).unwrap();
    let size = |file: &str| std::fs::metadata(tiny(&format!("tiny_gguf/{file}"))).unwrap().len();
    let parts = ["llama_one_kv_head-00001-of-00002.gguf", "llama_one_kv_head-00002-of-00002.gguf"];
    assert_eq!(split["bytes"], parts.map(size).iter().sum::<u64>());
    assert_eq!((&split["revision"], &split["complete"]), (&COMMIT.into(), &true.into()));
    assert_eq!(report["aliases"]["small"], "tiny/llama:F32");
}

#[test]
fn a_cached_name_runs_offline_as_its_file_does() {
    let cache = Cache::new();
    let say = ["--raw", "-p", "ab", "-n", "5", "--temp", "0"];
    let run = |model: &str| cache.stdout(&[&["run", model], &say[..]].concat());
    let expected = run(&tiny("tiny_gguf/llama.gguf"));
    for model in [
        "tiny/llama:q8_0",
        "tiny/llama@old",
        "hf.co/tiny/llama:Q8_0",
        "https://hf.co/tiny/llama/blob/main/llama-Q8_0.gguf",
    ] {
        assert_eq!(run(model), expected, "{model}");
    }
    assert_eq!(cache.stdout(&[&["run", "-hf", "tiny/llama", "--revision", "old"], &say[..]].concat()), expected);
}

#[test]
fn an_alias_runs_its_model() {
    let cache = Cache::new();
    let model = tiny("tiny_gguf/llama.gguf");
    let config = aliases(&cache.cache.root, &format!("small = 'tiny/llama:Q8_0'\nfile = '{model}'"));
    let family = |name: &str| cache.json(&["inspect", name, "--json", "--config", &config])["family"].clone();
    assert_eq!((family("small"), family("file")), ("Llama".into(), "Llama".into()));
}

#[test]
fn show_tells_where_a_model_is_and_what_inspect_tells() {
    let cache = Cache::new();
    let config = aliases(&cache.cache.root, "small = 'tiny/llama:Q8_0'\nother = 'tiny/plain'");
    let report = cache.json(&["show", "small", "--json", "--config", &config]);
    let path = cache.cache.root.join(format!("models--tiny--llama/snapshots/{COMMIT}/llama-Q8_0.gguf"));
    assert_eq!(report["store"]["path"], path.to_str().unwrap());
    assert_eq!((&report["store"]["revision"], &report["store"]["refs"][0]), (&COMMIT.into(), &"main".into()));
    assert_eq!((&report["store"]["aliases"][0], &report["family"]), (&"small".into(), &"Llama".into()));
    let text = cache.stdout(&["show", "tiny/split"]);
    assert!(text.contains(COMMIT) && text.contains("1 KV head of"), "{text}");
}

#[test]
fn rm_keeps_what_another_revision_uses() {
    let cache = Cache::new();
    cache.stdout(&["rm", "tiny/llama@main", "--yes"]);
    assert!(!cache.has(&format!("models--tiny--llama/snapshots/{COMMIT}")));
    assert!(!cache.has("models--tiny--llama/blobs/tiny_gguf.llama_tied.gguf"));
    assert!(cache.has("models--tiny--llama/blobs/tiny_gguf.llama.gguf"));
    cache.assert_ends(&["inspect", "tiny/llama@old"], 0, "");
}

#[test]
fn rm_removes_several_models_and_unfinished_downloads() {
    let cache = Cache::new();
    let report = cache.json(&["rm", "--json", "-y", "tiny/begun", "tiny/plain", "tiny/llama:F32", "tiny/llama:Q8_0"]);
    assert_eq!(report["removed"].as_array().map(Vec::len), Some(4));
    for gone in ["begun", "plain", "llama"] {
        assert!(!cache.has(&format!("models--tiny--{gone}")), "{gone}");
    }
    assert!(cache.has("models--tiny--split"));
}

#[test]
fn rm_of_a_quantisation_keeps_what_has_begun_of_another() {
    let cache = Cache::new();
    let begun = |blob: &str, file: &str| {
        let blob = cache.cache.blob(&name("tiny/broken"), blob).unwrap();
        std::fs::write(blob.with_extension("taper.incomplete"), "1234567").unwrap();
        std::fs::write(blob.with_extension("taper-ranges.incomplete"), format!("of 9 {file}\n0 7\n")).unwrap();
    };
    begun("aaa", "broken-Q8_0.gguf");
    begun("bbb", "broken-Q4_0.gguf");
    cache.stdout(&["rm", "-y", "tiny/broken:Q4_0"]);
    assert!(cache.has("models--tiny--broken/blobs/aaa.taper.incomplete"));
    assert!(!cache.has("models--tiny--broken/blobs/bbb.taper.incomplete"));
    cache.assert_ends(&["inspect", "tiny/broken:Q8_0"], 3, "its download has only begun: 7 B of 9 B");
    cache.assert_ends(&["rm", "-y", "tiny/broken:Q6_K"], 3, "tiny/broken:Q6_K is not in the cache");
    cache.stdout(&["rm", "-y", "tiny/broken:Q8_0"]);
    assert!(!cache.has("models--tiny--broken"));
}

#[test]
fn rm_asks_and_needs_a_terminal_for_it() {
    let cache = Cache::new();
    let blob = std::fs::metadata(tiny("tiny_gguf/llama_tied.gguf")).unwrap().len();
    let size = taper_server::capacity::bytes(blob);
    cache.assert_ends(&["rm", "tiny/llama:F32"], 2, &format!("tiny/llama:F32: 1 file, {size}"));
    cache.assert_ends(&["rm", "tiny/llama"], 2, "there is no terminal to ask on; --yes removes without asking");
    cache.assert_ends(&["rm", "tiny/llama", "tiny/none", "-y"], 3, "tiny/none is not in the cache");
    cache.assert_ends(&["rm", &tiny("tiny/llama"), "-y"], 2, "is a file or directory of yours, which is left alone");
    assert!(cache.has("models--tiny--llama/blobs/tiny_gguf.llama_tied.gguf"));
}

#[test]
fn what_is_not_here_ends_with_3_and_says_what_is() {
    let cache = Cache::new();
    for (model, expected) in [
        ("tiny/none", "tiny/none is not in the cache; nothing is downloaded, since TAPER_OFFLINE is set"),
        ("tiny/llama:Q6_K", "tiny/llama has no \"Q6_K\"; there are"),
        ("tiny/llama@dev", "it holds main, old, not dev"),
        ("tiny/begun", "tiny/begun is not in the cache"),
        ("llama3", "\"llama3\" is no file or directory here, no alias"),
        ("./none.gguf", "there is no file or directory \"./none.gguf\""),
    ] {
        cache.assert_ends(&["inspect", model], 3, expected);
        cache.assert_ends(&["show", model], 3, "");
    }
}

#[test]
fn what_cannot_be_meant_ends_with_2() {
    let cache = Cache::new();
    cache.assert_ends(&["inspect", "https://example.com/a.gguf"], 2, "plain addresses are not supported");
    cache.assert_ends(&["inspect", "tiny/llama@old", "--revision", "main"], 2, "has a revision already");
    cache.assert_ends(&["inspect", "o--o/n"], 2, "owner and name have 1 to 96");
    cache.assert_ends(&["rm"], 2, "no model was given");
}

#[test]
fn a_damaged_file_of_the_cache_ends_with_5_and_the_remedy() {
    let cache = Cache::new();
    for command in ["inspect", "bench", "show"] {
        cache.assert_ends(&[command, "tiny/broken"], 5, "; `taper rm tiny/broken` and `taper pull tiny/broken` bring");
    }
}

#[test]
fn inspect_reports_a_file_that_cannot_be_run_and_ends_with_5() {
    let cache = Cache::new();
    let path = cache.cache.root.join("renamed.gguf");
    let bytes = std::fs::read(tiny("tiny_gguf/llama.gguf")).unwrap();
    let at = bytes.windows(12).position(|window| window == b"blk.0.attn_q").unwrap();
    std::fs::write(&path, [&bytes[..at], b"blk.0.attn_x", &bytes[at + 12..]].concat()).unwrap();
    let path = path.to_str().unwrap();
    let expected = format!("{path}: tensor \"blk.0.attn_q.weight\" is missing");
    cache.assert_ends(&["inspect", path], 5, &expected);
    let output = cache.taper(&["inspect", path, "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["error"], &report["fit"]["fits"]), (&expected.into(), &false.into()));
}

/// 100 GB/s over the bytes of weights and of the cache that a token reads, as the report itself counts them.
#[test]
fn inspect_computes_the_ceiling_of_a_bandwidth() {
    let model = tiny("tiny/llama");
    let report = Cache::new().json(&["inspect", &model, "--bandwidth", "100", "--json"]);
    let number = |name: &str| report[name].as_f64().unwrap();
    let (weights, kv) = (number("weight_bytes_per_token"), number("kv_bytes_per_token"));
    let ceiling = &report["decode_ceiling"];
    assert_eq!(ceiling["context"], 256);
    assert_eq!(ceiling["empty_context"].as_f64(), Some(100e9 / weights));
    assert_eq!(ceiling["full_context"].as_f64(), Some(100e9 / (weights + 256.0 * kv)));
}

/// Gemma's layer 0 has a window of 8 tokens, layer 1 sees all.
#[test]
fn the_ceiling_counts_a_window_once() {
    let report = Cache::new().json(&["inspect", &tiny("tiny/gemma3_text"), "--bandwidth", "1", "--json"]);
    let number = |name: &str| report[name].as_f64().unwrap();
    let (layer, context) = (number("kv_bytes_per_token") / 2.0, report["decode_ceiling"]["context"].as_f64().unwrap());
    let read = number("weight_bytes_per_token") + layer * (8.0 + context);
    assert_eq!(report["decode_ceiling"]["full_context"].as_f64(), Some(1e9 / read));
}

#[test]
fn inspect_lists_tensors_that_were_asked_for() {
    let cache = Cache::new();
    let report = cache.json(&["inspect", "tiny/plain", "--tensors", "--json"]);
    let list = report["tensor_list"].as_array().unwrap();
    let total = |rows: &[Value]| rows.iter().map(|row| row["bytes"].as_u64().unwrap()).sum::<u64>();
    assert_eq!(total(list), total(report["tensors"].as_array().unwrap()));
    let head = list.iter().find(|row| row["name"] == "lm_head.weight").unwrap();
    assert_eq!((&head["shape"], &head["type"]), (&serde_json::json!([256, 64]), &"BF16".into()));
    let text = cache.stdout(&["inspect", "tiny/plain", "--tensors"]);
    assert!(text.contains("tensor       lm_head.weight [256, 64] BF16, 32.0 KiB"), "{text}");
}

#[test]
fn completions_have_every_command_and_long_flag() {
    let cache = Cache::new();
    let script = cache.stdout(&["completions", "bash"]);
    let help = cache.stdout(&["--help"]);
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let commands: Vec<&str> = commands.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(commands.contains(&"rm") && commands.len() >= 9, "{commands:?}");
    for name in commands.iter().filter(|name| **name != "help") {
        assert!(script.contains(&format!("taper,{name})")), "{name}");
        let help = cache.stdout(&[name, "--help"]);
        // Where an option begins; the text beside it is further in.
        let options = help.lines().filter(|line| line.starts_with("  -") || line.starts_with("      --"));
        let flags = options.filter_map(|line| line.split([' ', '=', '[']).find(|word| word.starts_with("--")));
        flags.for_each(|flag| assert!(script.contains(flag), "{name} {flag}"));
    }
    let file = cache.cache.root.join("taper.bash");
    std::fs::write(&file, script).unwrap();
    let checked = command("bash").arg("-n").arg(&file).output().expect("bash");
    assert!(checked.status.success() && checked.stderr.is_empty(), "{}", stderr(&checked));
    assert!(cache.stdout(&["completions", "zsh"]).starts_with("#compdef taper"));
    assert!(cache.stdout(&["completions", "fish"]).contains("complete -c taper"));
}
