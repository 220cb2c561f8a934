//! From the first moment to the last: loading, the address, signals, draining.

use std::net::TcpListener;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::server::{Server, model, scratch, spawn, taper, terminate, within};

const TEXT: &str = "/v1/completions";

fn long_stream(max_tokens: u32) -> Value {
    json!({ "prompt": "long", "max_tokens": max_tokens, "ignore_eos": true, "stream": true })
}

/// A port that is free now.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A server that has a port but cannot finish loading, since its chat template comes through a pipe that nobody writes.
fn loading(name: &str) -> (std::process::Child, u16, std::path::PathBuf) {
    let pipe = scratch(name);
    // One from an earlier process of this number may be left.
    let _ = std::fs::remove_file(&pipe);
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let port = free_port();
    let arguments = ["--port", &port.to_string(), "--chat-template-file", pipe.to_str().unwrap()];
    (spawn(taper(), &model(), &arguments), port, pipe)
}

/// Status and body of a bare request to a server that has not said its address yet.
fn get(port: u16, path: &str) -> Option<(u16, String)> {
    let config = ureq::Agent::config_builder().http_status_as_error(false);
    let agent: ureq::Agent = config.timeout_global(Some(Duration::from_secs(20))).build().into();
    let mut response = agent.get(format!("http://127.0.0.1:{port}{path}")).call().ok()?;
    Some((response.status().as_u16(), response.body_mut().read_to_string().ok()?))
}

#[test]
fn while_the_model_loads_the_server_lives_but_is_not_ready() {
    let (child, port, pipe) = loading("template-1");
    within(Duration::from_secs(30), "the port is open", || get(port, "/live").filter(|(status, _)| *status == 200));
    for path in ["/health", "/v1/health", "/ready", "/props", "/slots", "/v1/models"] {
        let (status, body) = get(port, path).unwrap();
        assert!(status == 503 && body.contains("Loading model"), "{path}: {status} {body}");
    }
    assert_eq!(get(port, "/metrics").unwrap().0, 200);
    std::fs::write(&pipe, "{{ messages[0].content }}!").unwrap();
    std::fs::remove_file(&pipe).unwrap();
    let server = Server::of(child);
    assert_eq!((server.get("/health").status, server.get("/ready").status), (200, 200));
    let body = json!({ "messages": [{ "role": "user", "content": "hi" }] });
    assert_eq!(server.ok("/apply-template", &body)["prompt"], "hi!");
}

#[test]
fn a_signal_ends_a_server_that_still_loads() {
    let (mut child, port, pipe) = loading("template-2");
    within(Duration::from_secs(30), "the port is open", || get(port, "/live"));
    terminate(child.id());
    let status = within(Duration::from_secs(10), "it ends", || child.try_wait().unwrap());
    assert_eq!(status.code(), Some(0));
    std::fs::remove_file(&pipe).unwrap();
}

#[test]
fn a_signal_lets_answers_end_and_refuses_new_ones() {
    let server = Server::start(&[]);
    let mut stream = server.wire(TEXT, &long_stream(5000));
    stream.head();
    stream.event().unwrap();
    server.terminate();
    within(Duration::from_secs(5), "new requests are refused", || {
        let answer = server.post(TEXT, &json!({ "prompt": "late", "max_tokens": 1 }));
        (answer.status == 503).then_some(())
    });
    assert_eq!((server.get("/ready").status, server.get("/health").status), (503, 503));
    assert_eq!(server.get("/live").status, 200);
    let events = stream.events().expect("the stream ends well");
    let (done, chunks) = events.split_last().unwrap();
    let end: Value = serde_json::from_str(chunks.last().unwrap()).unwrap();
    assert_eq!((done.as_str(), &end["choices"][0]["finish_reason"]), ("[DONE]", &json!("length")));
    assert_eq!(server.exit_code(), Some(0));
}

#[test]
fn a_signal_ends_an_idle_server_soon() {
    let server = Server::start(&[]);
    // A client that keeps its connection for the next request.
    let mut idle = server.connect();
    idle.send(b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n");
    idle.head();
    let start = Instant::now();
    server.terminate();
    assert_eq!(server.exit_code(), Some(0));
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
}

/// What a stream ends with that was cut, and the exit code.
fn assert_cut(server: &Server, stream: &mut crate::client::Wire) {
    let events = stream.events().expect("the stream ends well");
    let (done, chunks) = events.split_last().unwrap();
    let error: Value = serde_json::from_str(chunks.last().unwrap()).unwrap();
    assert_eq!(done, "[DONE]");
    assert_eq!(error["error"]["type"], "unavailable_error", "{error}");
    assert!(error["error"]["message"].as_str().unwrap().contains("shutting down"), "{error}");
    assert_eq!(server.exit_code(), Some(0));
}

#[test]
fn a_second_signal_cuts_answers_with_an_error() {
    let server = Server::start(&[]);
    let mut stream = server.wire(TEXT, &json!({ "prompt": "long", "ignore_eos": true, "stream": true, "n": 8 }));
    let mut whole = server.wire(TEXT, &json!({ "prompt": "long", "ignore_eos": true, "n": 8 }));
    stream.head();
    server.until("taper_requests_running", |running| running == 16.0);
    server.terminate();
    within(Duration::from_secs(5), "it drains", || (server.get("/ready").status == 503).then_some(()));
    server.terminate();
    assert_eq!(whole.head().0, 503);
    assert_cut(&server, &mut stream);
}

#[test]
fn an_elapsed_drain_timeout_cuts_answers_with_an_error() {
    let server = Server::start(&["--drain-timeout", "1"]);
    let mut stream = server.wire(TEXT, &json!({ "prompt": "long", "ignore_eos": true, "stream": true, "n": 16 }));
    stream.head();
    stream.event().unwrap();
    server.terminate();
    assert_cut(&server, &mut stream);
}

/// Runs a server that cannot start.
fn fails(arguments: &[&str]) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = spawn(taper(), &model(), arguments).wait_with_output().unwrap();
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

#[test]
fn a_port_that_is_taken_is_told() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let (code, stderr) = fails(&["--port", &port]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("127.0.0.1") && stderr.contains(&port) && stderr.contains("in use"), "{stderr}");
}

#[test]
fn an_address_of_another_machine_is_told() {
    // Reserved for documentation, so no machine has it. `--insecure`: the mistake under test is the address.
    let (code, stderr) = fails(&["--host", "203.0.113.1", "--port", "0", "--insecure"]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("203.0.113.1"), "{stderr}");
}

#[test]
fn a_misspelt_option_is_answered_with_the_nearest() {
    let (code, stderr) = fails(&["--api-kay", "secret"]);
    assert!(code == Some(2) && stderr.contains("--api-key"), "{stderr}");
}
