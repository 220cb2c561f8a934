//! Server-sent events: what a stream of chunks is on the wire, and how it is kept alive and bounded.
//!
//! A task of its own makes the events and puts them into a bounded channel. A client that reads slowly makes the task
//! wait; one that does not read at all, or has left, ends it, and with it the request.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use actix_web::web::Bytes;
use futures_util::stream::poll_fn;
use serde::Serialize;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Instant, sleep_until, timeout};
use tracing::Instrument;

use super::error::ApiError;
use crate::settings::ServerSettings;

/// Events that wait for the client. A few, so that a client's short pause does not stop the sampling of text.
const BUFFERED_EVENTS: usize = 32;

/// A comment, which readers pass over.
const PING: &[u8] = b": still working\n\n";

/// The client has left, or does not read.
#[derive(Debug)]
pub struct Gone;

/// The writing end of a stream.
pub struct EventSender {
    events: Sender<Bytes>,
    slow_client_timeout: Duration,
    ping_interval: Duration,
    last_sent: Instant,
    /// Whether all has been said.
    complete: Rc<Cell<bool>>,
}

impl EventSender {
    /// Sends one event with `data` as JSON.
    pub async fn send(&mut self, data: &impl Serialize) -> Result<(), Gone> {
        let json = serde_json::to_vec(data).expect("wire types have string keys and finite numbers");
        self.send_bytes(&[b"data: ", json.as_slice(), b"\n\n"].concat()).await
    }

    /// The error as an event.
    pub async fn send_error(&mut self, error: &ApiError) -> Result<(), Gone> {
        self.send(&error.body()).await
    }

    /// OpenAI's end of a stream.
    pub async fn send_done(&mut self) -> Result<(), Gone> {
        self.complete.set(true);
        self.send_bytes(b"data: [DONE]\n\n").await
    }

    /// Waits for `next`, and sends comments meanwhile if it takes long. `Err` as soon as the client has left.
    pub async fn wait<T>(&mut self, next: impl Future<Output = T>) -> Result<T, Gone> {
        tokio::pin!(next);
        loop {
            let ping = self.last_sent + self.ping_interval;
            tokio::select! {
                biased;
                () = self.events.closed() => return Err(Gone),
                value = &mut next => return Ok(value),
                () = sleep_until(ping), if !self.ping_interval.is_zero() => {
                    self.send_bytes(PING).await?;
                }
            }
        }
    }

    async fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        let sent = timeout(self.slow_client_timeout, self.events.send(Bytes::copy_from_slice(bytes))).await;
        self.last_sent = Instant::now();
        match sent {
            Ok(sent) => sent.map_err(|_| Gone),
            Err(_) => {
                tracing::warn!("a client did not read its stream for {:?}; its request ends", self.slow_client_timeout);
                Err(Gone)
            }
        }
    }
}

/// A response that streams what `write` sends, and the comments in between.
pub fn stream<F>(
    settings: &ServerSettings,
    ignored: Option<String>,
    write: impl FnOnce(EventSender) -> F,
) -> HttpResponse
where
    F: Future<Output = Result<(), Gone>> + 'static,
{
    let (events, receiver) = channel(BUFFERED_EVENTS);
    let complete = Rc::new(Cell::new(false));
    let sender = EventSender {
        events,
        slow_client_timeout: settings.slow_client_timeout,
        ping_interval: settings.ping_interval,
        last_sent: Instant::now(),
        complete: Rc::clone(&complete),
    };
    let task = write(sender);
    let task = async move {
        // The client hears no more either way.
        let _ = task.await;
    };
    actix_web::rt::spawn(task.in_current_span());
    let mut response = HttpResponse::Ok();
    response.insert_header((CONTENT_TYPE, "text/event-stream; charset=utf-8"));
    // For proxies: do not store, do not compress or otherwise hold back (nginx reads the second).
    response.insert_header((CACHE_CONTROL, "no-cache, no-transform"));
    response.insert_header(("X-Accel-Buffering", "no"));
    if let Some(ignored) = ignored {
        response.insert_header((super::body::IGNORED, ignored));
    }
    response.streaming(received(receiver, complete))
}

/// The events as a body. One that was given up breaks off, so that nobody takes what came for the whole answer.
fn received(
    mut receiver: Receiver<Bytes>,
    complete: Rc<Cell<bool>>,
) -> impl futures_util::Stream<Item = io::Result<Bytes>> {
    poll_fn(move |context| match receiver.poll_recv(context) {
        Poll::Ready(None) if !complete.replace(true) => {
            Poll::Ready(Some(Err(io::Error::other("the stream was given up"))))
        }
        next => next.map(|bytes| bytes.map(Ok)),
    })
}

/// The reader of the tests over real sockets.
#[cfg(test)]
#[path = "../../../tests/http/events.rs"]
mod events;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What is on the wire for these texts, with a comment before each.
    async fn written(texts: &[String]) -> String {
        let (events, mut receiver) = channel(2 * texts.len() + 1);
        let complete = Rc::default();
        let (slow_client_timeout, ping_interval) = (Duration::from_secs(1), Duration::ZERO);
        let mut sender =
            EventSender { events, slow_client_timeout, ping_interval, last_sent: Instant::now(), complete };
        for text in texts {
            sender.send_bytes(PING).await.expect("there is room");
            sender.send(text).await.expect("there is room");
        }
        sender.send_done().await.expect("there is room");
        drop(sender);
        let mut bytes = Vec::new();
        while let Some(event) = receiver.recv().await {
            bytes.extend_from_slice(&event);
        }
        String::from_utf8(bytes).expect("JSON is UTF-8")
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_reader_of_the_standard_gets_the_same_texts(
            texts in prop::collection::vec(prop::collection::vec(any::<char>(), 0..20), 0..5),
        ) {
            let texts: Vec<String> = texts.iter().map(|text| text.iter().collect()).collect();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
            let wire = runtime.block_on(written(&texts));
            let mut data = events::data(&wire);
            let last = data.pop();
            prop_assert_eq!(last.as_deref(), Some("[DONE]"));
            let read: Vec<String> = data.iter().map(|data| serde_json::from_str(data).expect("JSON")).collect();
            prop_assert_eq!(read, texts);
        }
    }
}
