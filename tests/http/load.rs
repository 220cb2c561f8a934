//! Many clients at once, many of them gone before their answer, and a cache that is too small for all.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::server::Server;

const CLIENTS: u64 = 32;
const TIME: Duration = Duration::from_secs(6);

/// A small random generator (xorshift): the same numbers in every run.
pub struct Random(pub u64);

impl Random {
    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// One of eight requests, half of which share their beginning.
fn request(number: u64) -> Value {
    let (prompt, tokens) = (["shared beginning of the prompt ", ""][number as usize % 2], 20 + 15 * number);
    json!({
        "prompt": format!("{}{number}", prompt.repeat(3)),
        "max_tokens": tokens, "temperature": 0, "ignore_eos": true,
    })
}

/// One request: its text, unless the client leaves before.
fn ask(server: &Server, random: &mut Random, number: u64) -> Option<String> {
    let mut body = request(number);
    body["stream"] = json!(random.below(2) == 0);
    if random.below(3) == 0 {
        let mut wire = server.wire("/v1/completions", &body);
        if body["stream"] == true {
            assert_eq!(wire.head().0, 200);
            for _ in 0..random.below(20) {
                wire.event().expect("the stream goes on");
            }
        } else {
            wire.is_silent_for(Duration::from_millis(1 + random.below(30)));
        }
        return None;
    }
    if body["stream"] == true {
        let events = server.stream("/v1/completions", &body);
        return Some(
            events.iter().map(|event| event["choices"][0]["text"].as_str().expect("no error event")).collect(),
        );
    }
    Some(server.ok("/v1/completions", &body)["choices"][0]["text"].as_str().unwrap().to_owned())
}

#[test]
fn clients_that_come_and_go_leave_equal_answers_and_no_blocks() {
    // 256 bytes a token: room for 1024 tokens, where 16 sequences of up to 230 would take 3680.
    let server = Server::start(&["--kv-cache-memory", "256K", "-c", "512", "--parallel", "16"]);
    // 32 tokens a block; told from the first moment.
    let total = 32.0;
    assert_eq!(server.metric("taper_kv_blocks{state=\"free\"}"), total);
    let answers = Mutex::new(HashMap::new());
    let end = Instant::now() + TIME;
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (server, answers) = (&server, &answers);
            scope.spawn(move || {
                let mut random = Random(client + 1);
                while Instant::now() < end {
                    let number = random.below(8);
                    let Some(text) = ask(server, &mut random, number) else { continue };
                    let first = answers.lock().unwrap().entry(number).or_insert_with(|| text.clone()).clone();
                    assert_eq!(text, first, "request {number}");
                }
            });
        }
    });
    assert_eq!(answers.lock().unwrap().len(), 8, "every request was answered");
    server.becomes_idle();
    let metrics = server.metrics();
    let blocks = |state: &str| metrics[&format!("taper_kv_blocks{{state=\"{state}\"}}")];
    assert_eq!(blocks("free") + blocks("cached"), total);
    assert!(metrics["taper_preemptions_total"] > 0.0, "the cache was too large for this test");
    let finished =
        |reason: &str| metrics.get(&format!("taper_requests_finished_total{{finished_reason=\"{reason}\"}}"));
    assert_eq!(finished("error"), None);
    assert!(finished("abort") > Some(&0.0) && finished("length") > Some(&0.0));
}
