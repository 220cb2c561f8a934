//! The life of the server: it listens, its model comes, it answers, a signal ends it, it drains.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::thread::JoinHandle;
use std::time::Duration;

use actix_web::dev::ServerHandle;
use actix_web::web::{self, Data};
use actix_web::{App, HttpServer};

use super::layer::{self, Access};
use super::service::Server;
use crate::engine::{EngineHandle, Shutdown};

/// Threads that read and write; the answers are made elsewhere.
const HTTP_THREADS: usize = 2;
/// How long open connections may take to hear the end of their answers, once no more is coming.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// Connections at once, for each thread; further ones wait to be accepted.
const CONNECTIONS_PER_THREAD: usize = 4096;
/// How long a client may take to send the head of a request.
const REQUEST_HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// A server that listens.
pub struct Listening {
    /// Where to reach it: of several addresses, the first.
    pub address: SocketAddr,
    pub handle: ServerHandle,
}

/// Binds the address of `server`'s settings and begins to answer: everything but the status routes with 503, until the
/// model is there.
pub fn listen(server: Data<Server>, access: Data<Access>) -> std::io::Result<Listening> {
    let listeners = bind(&access.listen.addresses, server.settings.port)?;
    let address = listeners[0].local_addr()?;
    let http = HttpServer::new(move || {
        let routes = web::scope(access.prefix()).configure(super::routes);
        layer::wrap(access.clone(), App::new().app_data(server.clone()).service(routes))
    })
    .workers(HTTP_THREADS)
    .max_connections(CONNECTIONS_PER_THREAD)
    .client_request_timeout(REQUEST_HEAD_TIMEOUT)
    .shutdown_timeout(LAST_WORDS.as_secs())
    // A client that closes its connection has left, even if its answer is not streamed: its handler is dropped.
    .h1_allow_half_closed(false)
    .disable_signals();
    let http = listeners.into_iter().try_fold(http, HttpServer::listen)?.run();
    let handle = http.handle();
    actix_web::rt::spawn(http);
    Ok(Listening { address, handle })
}

/// One listener for each address, all on one port.
fn bind(addresses: &[IpAddr], mut port: u16) -> std::io::Result<Vec<TcpListener>> {
    let (mut listeners, mut failure) = (Vec::new(), None);
    for address in addresses {
        match TcpListener::bind((*address, port)) {
            Ok(listener) => {
                port = listener.local_addr()?.port();
                listeners.push(listener);
            }
            // Of a name, such as localhost, an address may be of a kind that this machine does not have.
            Err(error) if error.kind() == ErrorKind::AddrNotAvailable => failure = Some(error),
            Err(error) => return Err(error),
        }
    }
    match failure {
        Some(failure) if listeners.is_empty() => Err(failure),
        _ => Ok(listeners),
    }
}

/// Why the server ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// A signal, and every answer was finished.
    Drained,
    /// A signal; some answers were cut off.
    Aborted,
    /// The engine's thread ended by itself.
    EngineStopped,
}

/// Answers until a signal comes or the engine fails; then drains and closes.
pub async fn until_the_end(
    server: &Server,
    engine: &EngineHandle,
    thread: JoinHandle<()>,
    http: &ServerHandle,
    mut signals: Signals,
) -> Ended {
    tokio::select! {
        () = signals.next() => {}
        () = ended(&thread) => {
            http.stop(true).await;
            return Ended::EngineStopped;
        }
    }
    server.drain();
    engine.shutdown(Shutdown::Drain);
    let timeout = server.settings.drain_timeout;
    tracing::info!("shutting down: running answers have {} s", timeout.as_secs());
    let drained = tokio::select! {
        () = ended(&thread) => true,
        () = tokio::time::sleep(timeout) => false,
        () = signals.next() => false,
    };
    if !drained {
        engine.shutdown(Shutdown::Abort);
        // An engine that does not hear is left behind.
        let _ = tokio::time::timeout(LAST_WORDS, ended(&thread)).await;
    }
    http.stop(true).await;
    if drained { Ended::Drained } else { Ended::Aborted }
}

/// Waiting for a thread has no async form.
const POLL: Duration = Duration::from_millis(20);

async fn ended(thread: &JoinHandle<()>) {
    while !thread.is_finished() {
        tokio::time::sleep(POLL).await;
    }
}

/// SIGTERM and SIGINT. Handled also as process 1 of a container, where nothing does it by default.
pub struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    pub fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// The next of either.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
