//! Clients that leave: whatever they had asked for ends at once, and its blocks are free.

use std::io::Read;
use std::time::Duration;

use serde_json::{Value, json};

use crate::server::Server;

const TEXT: &str = "/v1/completions";

/// An answer that goes on for thousands of tokens, three times.
fn long() -> Value {
    json!({ "prompt": "on and on", "n": 3, "ignore_eos": true })
}

fn streamed(mut body: Value) -> Value {
    body["stream"] = json!(true);
    body
}

/// The server still answers, and has nothing of the ones that left.
#[track_caller]
fn assert_unharmed(server: &Server) {
    server.becomes_idle();
    let answer = server.ok(TEXT, &json!({ "prompt": "next", "max_tokens": 2, "ignore_eos": true }));
    assert_eq!(answer["usage"]["completion_tokens"], 2);
    assert!(server.get("/slots").json().as_array().unwrap().iter().all(|slot| slot["is_processing"] == false));
}

#[test]
fn one_that_leaves_its_stream_frees_its_blocks() {
    let server = Server::start(&["--sse-ping-interval", "0"]);
    let mut wire = server.wire(TEXT, &streamed(long()));
    for _ in 0..10 {
        wire.event().unwrap();
    }
    server.until("taper_requests_running", |running| running == 3.0);
    drop(wire);
    assert_unharmed(&server);
    assert_eq!(server.metric("taper_requests_finished_total{finished_reason=\"abort\"}"), 3.0);
}

#[test]
fn one_that_leaves_while_it_waits_for_a_whole_answer_frees_its_blocks() {
    let server = Server::start(&[]);
    let wire = server.wire(TEXT, &long());
    server.until("taper_requests_running", |running| running == 3.0);
    drop(wire);
    assert_unharmed(&server);
}

#[test]
fn one_that_leaves_the_queue_gives_up_its_place() {
    let server = Server::start(&["--parallel", "1", "--sse-ping-interval", "0"]);
    let one = json!({ "prompt": "first", "ignore_eos": true });
    let mut first = server.wire(TEXT, &streamed(one.clone()));
    first.event().unwrap();
    for body in [one.clone(), streamed(one)] {
        let queued = server.wire(TEXT, &body);
        server.until("taper_requests_waiting", |waiting| waiting == 1.0);
        drop(queued);
        server.until("taper_requests_waiting", |waiting| waiting == 0.0);
        assert_eq!(server.metric("taper_requests_running"), 1.0);
    }
    drop(first);
    assert_unharmed(&server);
}

#[test]
fn one_that_leaves_during_its_prompt_frees_its_blocks() {
    // One token a step: the prompt takes thousands of them.
    let server = Server::start(&["-ub", "1", "--sse-ping-interval", "0"]);
    let prompt = vec![7; 8000];
    for body in [json!({ "prompt": prompt }), streamed(json!({ "prompt": prompt }))] {
        let mut body = body;
        body["cache_prompt"] = json!(false);
        let wire = server.wire(TEXT, &body);
        server.until("taper_requests_running", |running| running == 1.0);
        drop(wire);
        assert_unharmed(&server);
    }
    // It was not run to its end.
    assert!(server.metric("taper_engine_steps_total") < 16_000.0);
}

#[test]
fn a_stream_tells_how_far_its_prompt_is() {
    let server = Server::start(&["-ub", "1", "--sse-ping-interval", "1"]);
    let body = json!({ "prompt": vec![7; 8000], "return_progress": true, "max_tokens": 1 });
    let mut wire = server.wire(TEXT, &streamed(body));
    let progress = loop {
        let event: Value = serde_json::from_str(&wire.event().unwrap().expect("progress before the end")).unwrap();
        if let Some(progress) = event.get("prompt_progress") {
            break progress.clone();
        }
    };
    assert_eq!(progress["total"], 8000);
    assert!((1..=8000).contains(&progress["processed"].as_u64().unwrap()), "{progress}");
}

/// Also one that keeps its connection: what it does not take must not be kept for it.
#[test]
fn one_that_does_not_read_its_stream_is_ended() {
    // A name of 20 kB in every chunk fills the system's buffers soon.
    let name = "long".repeat(5000);
    let server = Server::start(&["--slow-client-timeout", "1", "--alias", &name]);
    let mut body = streamed(long());
    body["n"] = json!(2);
    let wire = server.wire(TEXT, &body);
    server.until("taper_requests_running", |running| running == 2.0);
    server.until("taper_requests_finished_total{finished_reason=\"abort\"}", |ended| ended == 2.0);
    server.becomes_idle();
    // What it reads after all does not look like a whole answer.
    let mut wire = wire;
    wire.head();
    let end = wire.events();
    assert!(end.is_err(), "the stream must break off: {:?}", end.map(|events| events.len()));
    assert!(server.logged().contains("did not read its stream"));
}

#[test]
fn a_silent_stream_is_kept_alive_by_comments() {
    let server = Server::start(&["--parallel", "1", "--sse-ping-interval", "1"]);
    let one = streamed(json!({ "prompt": "first", "ignore_eos": true, "n": 5 }));
    let mut first = server.wire(TEXT, &one);
    first.event().unwrap();
    // It waits for the five before it.
    let mut queued = server.wire(TEXT, &one);
    queued.head();
    for _ in 0..5 {
        queued.event().unwrap();
    }
    let mut socket = queued.into_socket();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut bytes = [0; 64];
    let count = socket.read(&mut bytes).unwrap();
    assert!(
        String::from_utf8_lossy(&bytes[..count]).contains("\n: "),
        "{:?}",
        String::from_utf8_lossy(&bytes[..count])
    );
}
