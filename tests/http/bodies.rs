//! Bodies that are not what they should be: broken, hostile, too large, or not sent to their end.

use std::time::Duration;

use serde_json::json;

use crate::server::{Server, shared};

const ROUTES: [&str; 5] = ["/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize", "/apply-template"];

#[test]
fn what_is_not_a_json_object_is_refused_everywhere() {
    let deep_array = "[".repeat(10_000);
    let deep_object = "{\"a\":".repeat(10_000);
    let deep_field = format!("{{\"x\":{}1{}}}", "[".repeat(10_000), "]".repeat(10_000));
    let bodies: [&[u8]; 16] = [
        b"",
        b" ",
        b"{",
        b"{\"prompt\": \"a\"",
        b"{\"prompt\": \"a\"} x",
        b"[]",
        b"[{\"prompt\": \"a\"}]",
        b"null",
        b"5",
        b"\"text\"",
        b"{\"prompt\": \"\xff\xfe\"}",
        b"{\"prompt\": \"\\ud800\"}",
        b"{\"temperature\": 1e400}",
        deep_array.as_bytes(),
        deep_object.as_bytes(),
        deep_field.as_bytes(),
    ];
    for path in ROUTES {
        for body in bodies {
            let answer = shared().post_bytes(path, body);
            let shown = String::from_utf8_lossy(&body[..body.len().min(40)]);
            assert_eq!(answer.error(400)["type"], "invalid_request_error", "{path} {shown}");
        }
    }
}

#[test]
fn numbers_beyond_64_bits_are_refused_with_their_field() {
    // 2^70
    let huge = "1180591620717411303424";
    for field in ["max_tokens", "n", "seed", "top_k", "min_tokens", "temperature"] {
        let body = format!("{{\"prompt\": \"a\", \"{field}\": {huge}}}");
        assert_eq!(shared().post_bytes("/v1/completions", body.as_bytes()).error(400)["param"], field);
    }
    let body = format!("{{\"tokens\": [{huge}]}}");
    assert_eq!(shared().post_bytes("/detokenize", body.as_bytes()).error(400)["param"], "tokens[0]");
}

#[test]
fn of_a_field_given_twice_the_last_counts() {
    let body = br#"{"prompt": "a", "max_tokens": -1, "max_tokens": 2, "ignore_eos": true}"#;
    assert_eq!(shared().post_bytes("/v1/completions", body).json()["usage"]["completion_tokens"], 2);
    let both = br#"{"prompt": "a", "repeat_penalty": 1, "repetition_penalty": 1}"#;
    assert_eq!(shared().post_bytes("/v1/completions", both).error(400)["param"], "repeat_penalty");
}

#[test]
fn a_web_page_must_say_that_its_body_is_json() {
    let body = json!({ "content": "a" }).to_string();
    let mut wire = shared().connect();
    let head = format!(
        "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\nContent-Type: text/plain\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    wire.send(format!("{head}{body}").as_bytes());
    // Middleware that knows the allowed origins may refuse it even before.
    assert!(matches!(wire.head().0, 403 | 415));
}

#[test]
fn a_body_that_is_declared_too_large_is_refused_before_it_is_sent() {
    let mut wire = shared().connect();
    wire.send(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048577\r\n\r\n{");
    let (status, headers) = wire.head();
    let body = wire.body(&headers);
    assert!(status == 413 && body.contains("1048576") && body.contains("body_too_large"), "{status} {body}");
}

#[test]
fn a_body_in_chunks_is_refused_once_it_is_too_large() {
    let mut wire = shared().connect();
    wire.send(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    // A little more than the limit of 1 MiB: the server need not read much that it does not want.
    let chunk = format!("{:x}\r\n{}\r\n", 1 << 16, "a".repeat(1 << 16));
    for _ in 0..17 {
        wire.send(chunk.as_bytes());
    }
    assert_eq!(wire.head().0, 413);
}

#[test]
fn a_body_of_the_largest_size_is_read() {
    let rest = "{\"content\": \"\"}".len();
    let body = json!({ "content": "a".repeat((1 << 20) - rest) }).to_string().replace("\":\"", "\": \"");
    assert_eq!(body.len(), 1 << 20);
    assert_eq!(shared().post_bytes("/tokenize", body.as_bytes()).json()["count"], (1 << 20) - rest);
    shared().post_bytes("/tokenize", format!("{body} ").as_bytes()).error(413);
}

#[test]
fn a_body_that_stops_in_the_middle_does_not_hold_its_connection() {
    let server = Server::start(&["--slow-client-timeout", "1"]);
    let mut wire = server.connect();
    wire.send(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{\"prompt\":");
    assert_eq!(wire.head().0, 408);
}

#[test]
fn a_body_may_come_in_pieces() {
    let mut wire = shared().connect();
    let body = json!({ "content": "in pieces" }).to_string();
    wire.send(
        format!("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes(),
    );
    let (first, second) = body.split_at(7);
    wire.send(first.as_bytes());
    assert!(wire.is_silent_for(Duration::from_millis(50)), "the server must wait for the rest");
    wire.send(second.as_bytes());
    assert_eq!(wire.head().0, 200);
}

#[test]
fn a_connection_serves_after_a_refused_request() {
    let mut wire = shared().connect();
    for body in ["{", "{\"content\": \"a\"}"] {
        let head = format!("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len());
        wire.send(format!("{head}{body}").as_bytes());
        let (status, headers) = wire.head();
        wire.body(&headers);
        assert_eq!(status, if body == "{" { 400 } else { 200 });
    }
}
