//! What was asked: one line a request, written when its answer has ended. It has no query and no text of prompts.

use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::Method;
use actix_web::middleware::Next;
use actix_web::web::{self, Bytes};
use actix_web::{Error, HttpMessage};
use tracing::field::display;

use super::keys::{KeyId, OPEN_ROUTES};
use super::layer::Access;
use super::request_id::RequestId;

/// Logged instead of the status when the client left before the end of the answer (nginx's number).
const CLIENT_LEFT: u16 = 499;

/// A path may be as long as a request's head.
const MAX_PATH_BYTES: usize = 256;

/// Middleware: logs the request.
pub(super) async fn log(
    access: web::Data<Access>,
    req: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let mut line = Line::new(&access, &req);
    let res = match next.call(req).await {
        Ok(res) => res,
        Err(error) => {
            line.status = error.as_response_error().status_code().as_u16();
            return Err(error);
        }
    };
    let status = res.status().as_u16();
    line.key = res.request().extensions().get::<KeyId>().copied();
    Ok(res.map_body(|_, body| {
        // Such a body is dropped without being read.
        if let BodySize::None | BodySize::Sized(0) = body.size() {
            line.status = status;
        }
        BoxBody::new(Logged { body: body.boxed(), status, line })
    }))
}

/// The line of a request. It is written when dropped: after the end of the answer, or when the server gives the
/// request up because the client is gone, be that before or during the answer.
struct Line {
    id: Option<RequestId>,
    client: Option<IpAddr>,
    key: Option<KeyId>,
    method: Method,
    path: String,
    /// Asked every few seconds by machines: logged only if it fails.
    quiet: bool,
    start: Instant,
    status: u16,
    bytes: usize,
    /// We ended the answer early.
    cut: Option<bool>,
}

impl Line {
    fn new(access: &Access, req: &ServiceRequest) -> Self {
        let route = access.route_of(req.path());
        let mut path = req.path().to_owned();
        path.truncate(path.floor_char_boundary(MAX_PATH_BYTES));
        Self {
            id: req.extensions().get::<RequestId>().cloned(),
            client: access.proxies.client_address(req.request()),
            key: None,
            method: req.method().clone(),
            path,
            quiet: route.is_some_and(|route| route == "/metrics" || OPEN_ROUTES.contains(&route)),
            start: Instant::now(),
            status: CLIENT_LEFT,
            bytes: 0,
            cut: None,
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // A panic in a handler drops the request just as a client that leaves.
        if std::thread::panicking() {
            self.status = 500;
        }
        let (id, client, key) = (self.id.as_ref().map(display), self.client.map(display), self.key.map(display));
        let ms = (self.start.elapsed().as_secs_f64() * 1e4).round() / 10.0;
        let Self { method, path, status, bytes, cut, .. } = self;
        // No parent: the span would only repeat the id.
        macro_rules! write_line {
            ($level:expr) => {
                tracing::event!(
                    target: "taper::access", parent: None, $level,
                    id, client, key, %method, path, status, bytes, ms, cut
                )
            };
        }
        if self.quiet && *status < 400 { write_line!(tracing::Level::DEBUG) } else { write_line!(tracing::Level::INFO) }
    }
}

/// A body that knows whether it was read to its end.
struct Logged {
    body: BoxBody,
    status: u16,
    line: Line,
}

impl MessageBody for Logged {
    type Error = <BoxBody as MessageBody>::Error;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        let this = self.get_mut();
        let piece = ready!(Pin::new(&mut this.body).poll_next(cx));
        match &piece {
            Some(Ok(bytes)) => this.line.bytes += bytes.len(),
            Some(Err(_)) => (this.line.status, this.line.cut) = (this.status, Some(true)),
            None => this.line.status = this.status,
        }
        Poll::Ready(piece)
    }
}

/// Runs `work` and returns the lines that it logged, at any level.
#[cfg(test)]
pub(super) async fn logged_lines(work: impl Future<Output = ()>) -> Vec<String> {
    use std::io::Write;
    use std::sync::{Arc, Mutex, PoisonError};

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    let buffer = Buffer::default();
    let writer = buffer.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let guard = tracing::subscriber::set_default(subscriber);
    work.await;
    drop(guard);
    let text = buffer.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    String::from_utf8(text).unwrap().lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use actix_web::body::to_bytes;
    use actix_web::dev::Service;
    use actix_web::middleware::from_fn;
    use actix_web::test::{self, TestRequest};
    use actix_web::{App, HttpResponse};
    use futures_util::stream;

    use super::*;
    use crate::http::layer::access_with;
    use crate::http::request_id::name_request;

    async fn endless() -> HttpResponse {
        HttpResponse::Ok().streaming(stream::repeat_with(|| Ok::<_, Error>(Bytes::from_static(b"data"))))
    }

    async fn broken() -> HttpResponse {
        HttpResponse::Ok().streaming(stream::once(std::future::ready(Err::<Bytes, _>(std::io::Error::other("slow")))))
    }

    async fn never() -> HttpResponse {
        std::future::pending().await
    }

    /// How far a client goes.
    enum Until {
        Asked,
        FirstPiece,
        End,
    }

    /// The access line of `GET uri`, of which so much is done.
    async fn line_of(uri: &str, until: Until) -> String {
        let lines = logged_lines(async {
            let access = access_with(|settings| settings.trusted_proxies = vec!["10.0.0.0/8".into()]);
            let app = App::new()
                .app_data(access)
                .route("/health", web::to(|| async { HttpResponse::Ok().finish() }))
                .route("/ready", web::to(|| async { HttpResponse::ServiceUnavailable().finish() }))
                .route("/hello", web::to(|| async { HttpResponse::Ok().body("hello") }))
                .route("/endless", web::to(endless))
                .route("/broken", web::to(broken))
                .route("/never", web::to(never))
                .wrap(from_fn(log))
                .wrap(from_fn(name_request));
            let app = test::init_service(app).await;
            let request = TestRequest::get()
                .uri(uri)
                .insert_header(("X-Request-Id", "abc"))
                .insert_header(("X-Forwarded-For", "198.51.100.7"))
                .peer_addr("10.0.0.1:5".parse().unwrap());
            let mut answer = Box::pin(app.call(request.to_request()));
            match until {
                Until::End => drop(to_bytes(answer.await.unwrap().into_body()).await),
                Until::FirstPiece => {
                    let mut body = answer.await.unwrap().into_body();
                    assert!(poll_fn(|cx| Pin::new(&mut body).poll_next(cx)).await.is_some());
                }
                Until::Asked => assert!(poll_fn(|cx| Poll::Ready(answer.as_mut().poll(cx).is_pending())).await),
            }
        })
        .await;
        let mut lines = lines.into_iter().filter(|line| line.contains("taper::access"));
        let line = lines.next().unwrap();
        assert_eq!(lines.next(), None, "one line");
        line
    }

    fn has(line: &str, parts: &[&str]) {
        for part in parts {
            assert!(line.contains(part), "{part} is not in {line}");
        }
    }

    #[tokio::test]
    async fn an_answer_is_logged_at_its_end() {
        let line = line_of("/hello?q=secret", Until::End).await;
        has(
            &line,
            &["INFO", "id=abc", "client=198.51.100.7", "method=GET", "path=\"/hello\"", "status=200", "bytes=5"],
        );
        assert!(!line.contains("secret") && !line.contains("key=") && !line.contains("request{"), "{line}");
        has(&line_of("/nowhere", Until::End).await, &["INFO", "status=404", "bytes=0"]);
    }

    #[tokio::test]
    async fn a_client_that_left_is_a_499() {
        has(&line_of("/endless", Until::FirstPiece).await, &["status=499", "bytes=4"]);
        has(&line_of("/never", Until::Asked).await, &["status=499", "bytes=0"]);
    }

    #[tokio::test]
    async fn an_answer_that_we_cut_keeps_its_status() {
        has(&line_of("/broken", Until::End).await, &["status=200", "cut=true"]);
    }

    #[tokio::test]
    async fn health_is_quiet_unless_it_fails() {
        has(&line_of("/health", Until::End).await, &["DEBUG", "status=200"]);
        has(&line_of("/ready", Until::End).await, &["INFO", "status=503"]);
    }

    #[tokio::test]
    async fn a_long_path_is_cut() {
        let line = line_of(&format!("/{}", "x".repeat(5000)), Until::End).await;
        assert!(line.len() < 600, "{line}");
    }
}
