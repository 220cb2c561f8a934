//! What cannot be had, in the words that a stranger reads.

use serde_json::json;

use super::cache::Cache;
use super::stand_in::StandIn;
use super::{command, done, failed, noise, taper};

fn hub() -> StandIn {
    StandIn::with("o/n", &[("n-Q8_0.gguf", &noise(1000))])
}

/// The error of a pull that ends with `code`; nothing is in the cache then.
#[track_caller]
fn error(hub: &StandIn, arguments: &[&str], code: i32) -> String {
    let cache = Cache::new();
    let told = failed(&taper(hub, &cache, arguments), code);
    assert_eq!(cache.files("o/n"), [""; 0]);
    told.replace(&hub.url, "HUB")
}

#[test]
fn a_repository_that_does_not_exist() {
    let told = error(&hub(), &["pull", "hf://o/other"], 3);
    let expected = "error: o/other does not exist on HUB, or is private: check the spelling; for a private one, set \
                    HF_TOKEN to a token that may read it\n";
    assert_eq!(told, expected);
}

#[test]
fn a_private_repository_is_as_one_that_does_not_exist() {
    let hub = hub();
    hub.set(json!({"access": "private", "token": "hf_secret"}));
    let told = error(&hub, &["pull", "o/n:Q8_0"], 3);
    assert!(told.starts_with("error: o/n does not exist on HUB, or is private"), "{told}");
}

#[test]
fn what_may_be_a_mistyped_path_is_said_to_be_none() {
    let told = error(&hub(), &["pull", "o/other"], 3);
    let expected = "error: there is no file or directory \"o/other\", and o/other does not exist on HUB, or is private";
    assert!(told.starts_with(expected), "{told}");
}

#[test]
fn a_token_that_does_not_help_is_named_by_its_place() {
    let cache = Cache::new();
    let pull = |hub: &StandIn| command(&hub.url, &cache, &["pull", "o/n:Q8_0"]);
    let (private, gated) = (hub(), hub());
    private.set(json!({"access": "private", "token": "hf_secret"}));
    gated.set(json!({"access": "gated", "token": "hf_secret"}));
    let told = failed(&pull(&private).env("HF_TOKEN", "hf_wrong").output().unwrap(), 3);
    assert!(told.contains("if it is private, the token in HF_TOKEN is not valid or may not read it"), "{told}");
    let file = cache.home().join("token");
    std::fs::write(&file, "hf_wrong\n").unwrap();
    let told = failed(&pull(&gated).output().unwrap(), 4);
    let expected = format!("see that the token in {} is of the account that was given it", file.display());
    assert!(told.contains(&expected), "{told}");
}

#[test]
fn an_endpoint_that_is_no_address() {
    let output = command("localhost:8000", &Cache::new(), &["pull", "o/n:Q8_0"]).output().unwrap();
    let expected = "error: HF_ENDPOINT is \"localhost:8000\"; the address of a Hub begins with http:// or https://\n";
    assert_eq!(failed(&output, 2), expected);
}

#[test]
fn a_gated_repository_names_the_page_to_ask_on() {
    let hub = hub();
    hub.set(json!({"access": "gated", "token": "hf_secret"}));
    let told = error(&hub, &["pull", "o/n:Q8_0"], 4);
    let expected = "error: o/n is gated: its owner wants to know who uses it. Ask for access on HUB/o/n, and set \
                    HF_TOKEN to a token of the account that was given it\n";
    assert!(told.ends_with(expected), "{told}");
}

#[test]
fn a_revision_that_does_not_exist() {
    let told = error(&hub(), &["pull", "o/n:Q8_0", "--revision", "v9"], 3);
    assert_eq!(told, "error: o/n has no revision \"v9\"; HUB/o/n lists its branches and tags\n");
}

#[test]
fn a_quantisation_that_does_not_exist() {
    let told = error(&hub(), &["pull", "o/n:Q2_K"], 3);
    assert!(told.starts_with("error: o/n has no \"Q2_K\"; there are Q8_0"), "{told}");
}

#[test]
fn no_network() {
    let cache = Cache::new();
    let output = command("http://127.0.0.1:1", &cache, &["pull", "o/n:Q8_0"]).output().unwrap();
    let told = failed(&output, 4);
    let expected = "error: http://127.0.0.1:1 cannot be reached: Connection refused (os error 111). Check the network, \
                    or HF_ENDPOINT if it names the wrong server; with --offline, models are taken from what was \
                    downloaded before\n";
    assert_eq!(told, expected);
}

#[test]
fn a_refusal_without_the_hubs_codes_is_read_by_its_status() {
    let hub = hub();
    let cache = Cache::new();
    let other = format!("{}/elsewhere", hub.url);
    let told = failed(&command(&other, &cache, &["pull", "o/n:Q8_0"]).output().unwrap(), 3);
    assert!(told.contains("does not exist on"), "{told}");
}

#[test]
fn too_many_requests() {
    let hub = hub();
    hub.set(json!({"faults": [{"kind": "status", "status": 429, "retry_after": 300, "path": "/api"}]}));
    let told = error(&hub, &["pull", "o/n:Q8_0"], 4);
    let expected = "error: HUB takes no more requests for now (429), and wants 300 s of rest; a token in HF_TOKEN raises \
                    the limit\n";
    assert_eq!(told, expected);
}

#[test]
fn a_server_that_fails_for_good() {
    let hub = hub();
    hub.set(json!({"faults": [{"kind": "status", "status": 503, "path": "/api", "times": 100}]}));
    assert_eq!(error(&hub, &["pull", "o/n:Q8_0"], 4), "error: HUB fails (status 503); try again later\n");
}

#[test]
fn file_names_that_lead_elsewhere() {
    for name in ["../../evil.gguf", "/etc/evil.gguf", "a/../../evil.gguf", "a\\..\\evil.gguf", "evil\0.gguf"] {
        let hub = hub();
        hub.set(json!({"extra": [{"type": "file", "path": name, "size": 3, "oid": "0".repeat(40)}]}));
        let told = error(&hub, &["pull", "o/n:Q8_0"], 5);
        assert!(told.contains("which could be written elsewhere than meant; nothing was downloaded"), "{told}");
    }
}

#[test]
fn checksums_that_are_none() {
    let hub = hub();
    hub.set(json!({"extra": [{"type": "file", "path": "n-Q4_0.gguf", "size": 3, "oid": "../../../etc/passwd"}]}));
    let told = error(&hub, &["pull", "o/n:Q4_0"], 4);
    assert!(told.contains("o/n has no checksum for n-Q4_0.gguf"), "{told}");
}

#[test]
fn more_than_the_disk_holds() {
    let hub = hub();
    let exbibyte = 1_u64 << 60;
    let lfs = json!({"oid": "0".repeat(64), "size": exbibyte, "pointerSize": 134});
    let entry = json!({"type": "file", "path": "n-Q4_0.gguf", "size": exbibyte, "oid": "0".repeat(40), "lfs": lfs});
    hub.set(json!({"extra": [entry]}));
    let told = error(&hub, &["pull", "o/n:Q4_0"], 1);
    assert!(told.contains("are still to be downloaded, and ") && told.contains("has room for "), "{told}");
    assert!(told.contains("free some with `taper rm`, or set HF_HUB_CACHE to a directory on a larger disk"), "{told}");
}

#[test]
fn a_pull_offline() {
    let told = error(&hub(), &["pull", "o/n:Q8_0", "--offline"], 3);
    assert_eq!(told, "error: o/n:Q8_0 is not in the cache; nothing is downloaded, since --offline is set\n");
}

#[test]
fn a_pull_offline_of_what_is_here() {
    let (hub, cache) = (hub(), Cache::new());
    done(&taper(&hub, &cache, &["pull", "o/n:Q8_0"]));
    let told = done(&command("http://127.0.0.1:1", &cache, &["pull", "o/n:Q8_0", "--offline"]).output().unwrap());
    assert!(told.starts_with("o/n:Q8_0 is here, and nothing newer was asked for: "), "{told}");
}
