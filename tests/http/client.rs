//! Two clients: `ureq` for ordinary requests, and a bare socket where the wire itself matters.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::LazyLock;
use std::time::Duration;

use serde_json::{Value, json};
use ureq::http::HeaderMap;

use crate::events;
use crate::server::{Server, within};

/// No answer of a tiny model takes this long.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A response that has come as a whole.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {:?}", self.text))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("headers are text"))
    }

    /// The error object, of a response that must have this status.
    #[track_caller]
    pub fn error(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.json()["error"].clone()
    }
}

impl Server {
    pub fn get(&self, path: &str) -> Answer {
        answer(agent().get(self.url(path)).call())
    }

    pub fn post_bytes(&self, path: &str, body: &[u8]) -> Answer {
        answer(agent().post(self.url(path)).content_type("application/json").send(body))
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_bytes(path, body.to_string().as_bytes())
    }

    /// The JSON of a successful answer.
    #[track_caller]
    pub fn ok(&self, path: &str, body: &Value) -> Value {
        let answer = self.post(path, body);
        assert_eq!(answer.status, 200, "{body}: {}", answer.text);
        answer.json()
    }

    /// A stream to its end: the JSON of its events, without `[DONE]`, which must be the last.
    #[track_caller]
    pub fn stream(&self, path: &str, body: &Value) -> Vec<Value> {
        let mut body = body.clone();
        body["stream"] = json!(true);
        let answer = self.post(path, &body);
        assert_eq!(answer.status, 200, "{}", answer.text);
        let mut events = events::data(&answer.text);
        assert_eq!(events.pop().as_deref(), Some("[DONE]"), "{}", answer.text);
        events.iter().map(|event| serde_json::from_str(event).expect("events are JSON")).collect()
    }

    /// The samples of `/metrics` by their whole name, labels included.
    pub fn metrics(&self) -> BTreeMap<String, f64> {
        let text = self.get("/metrics").text;
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        samples
            .filter_map(|line| line.rsplit_once(' '))
            .map(|(name, v)| (name.to_owned(), v.parse().unwrap()))
            .collect()
    }

    pub fn metric(&self, name: &str) -> f64 {
        self.metrics().get(name).copied().unwrap_or(0.0)
    }

    /// Waits until nothing runs or waits and no block is in use: what is left behind by a client that is gone.
    #[track_caller]
    pub fn becomes_idle(&self) {
        within(Duration::from_secs(20), "the engine is idle and its blocks are free", || {
            let metrics = self.metrics();
            let left = ["taper_requests_running", "taper_requests_waiting", "taper_kv_blocks{state=\"used\"}"];
            left.iter().all(|name| metrics[*name] == 0.0).then_some(())
        });
    }

    /// Waits until a metric has a value.
    #[track_caller]
    pub fn until(&self, metric: &str, is: impl Fn(f64) -> bool) {
        within(Duration::from_secs(20), metric, || is(self.metric(metric)).then_some(()));
    }

    /// Sends a request over a socket of its own and leaves the rest to the caller.
    pub fn wire(&self, path: &str, body: &Value) -> Wire {
        let body = body.to_string();
        let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len());
        let mut wire = self.connect();
        wire.send(head.as_bytes());
        wire.send(body.as_bytes());
        wire
    }

    pub fn connect(&self) -> Wire {
        let socket = TcpStream::connect(self.address).expect("the server listens");
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        socket.set_write_timeout(Some(TIMEOUT)).unwrap();
        Wire { socket: BufReader::new(socket), chunk: Vec::new(), is_in_body: false }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

fn agent() -> &'static ureq::Agent {
    static AGENT: LazyLock<ureq::Agent> = LazyLock::new(|| {
        let config = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(TIMEOUT));
        // A connection that the last test's server has closed is of no use to the next.
        config.max_idle_connections(0).build().into()
    });
    &AGENT
}

fn answer(response: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Answer {
    let (head, mut body) = response.expect("every request gets a response").into_parts();
    let text = body.read_to_string().expect("bodies are UTF-8 and end well");
    Answer { status: head.status.as_u16(), headers: head.headers, text }
}

/// A connection. Closed when dropped.
pub struct Wire {
    socket: BufReader<TcpStream>,
    /// Read and not yet an event.
    chunk: Vec<u8>,
    /// Whether the head has been read.
    is_in_body: bool,
}

impl Wire {
    /// Sends bytes; a server that has already answered and closed is none of the sender's business.
    pub fn send(&mut self, bytes: &[u8]) {
        match self.socket.get_mut().write_all(bytes) {
            Err(error) if !matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
                panic!("{error}")
            }
            _ => {}
        }
    }

    /// Whether nothing comes for so long.
    pub fn is_silent_for(&mut self, time: Duration) -> bool {
        self.socket.get_mut().set_read_timeout(Some(time)).unwrap();
        let silent = self.socket.fill_buf().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        self.socket.get_mut().set_read_timeout(Some(TIMEOUT)).unwrap();
        silent
    }

    /// The status, and the headers in small letters.
    pub fn head(&mut self) -> (u16, BTreeMap<String, String>) {
        let status = self.line();
        let status =
            status.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_else(|| panic!("{status:?}"));
        let mut headers = BTreeMap::new();
        self.is_in_body = true;
        loop {
            let line = self.line();
            let Some((name, value)) = line.split_once(':') else { return (status, headers) };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
    }

    /// The data of the next event; `None` at the proper end of the body.
    ///
    /// # Errors
    /// When the body breaks off.
    pub fn event(&mut self) -> io::Result<Option<String>> {
        if !self.is_in_body {
            assert_eq!(self.head().0, 200);
        }
        loop {
            let text = String::from_utf8_lossy(&self.chunk).into_owned();
            if let Some(end) = text.find("\n\n") {
                self.chunk.drain(..end + 2);
                match events::data(&text[..end + 2]).pop() {
                    Some(data) => return Ok(Some(data)),
                    // A comment.
                    None => continue,
                }
            }
            if !self.next_chunk()? {
                return Ok(None);
            }
        }
    }

    /// All events to the end.
    pub fn events(&mut self) -> io::Result<Vec<String>> {
        std::iter::from_fn(|| self.event().transpose()).collect()
    }

    /// The body of a response with a length.
    pub fn body(&mut self, headers: &BTreeMap<String, String>) -> String {
        let mut body = vec![0; headers["content-length"].parse().unwrap()];
        self.socket.read_exact(&mut body).unwrap();
        String::from_utf8(body).unwrap()
    }

    /// The socket, past whatever was buffered.
    pub fn into_socket(self) -> TcpStream {
        self.socket.into_inner()
    }

    fn next_chunk(&mut self) -> io::Result<bool> {
        let mut size = String::new();
        self.socket.read_line(&mut size)?;
        let size = usize::from_str_radix(size.trim_end(), 16)
            .map_err(|_| io::Error::other(format!("the body breaks off: {size:?}")))?;
        let start = self.chunk.len();
        self.chunk.resize(start + size, 0);
        self.socket.read_exact(&mut self.chunk[start..])?;
        self.socket.read_line(&mut String::new())?;
        Ok(size > 0)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.socket.read_line(&mut line).expect("the head comes");
        line.trim_end().to_owned()
    }
}
