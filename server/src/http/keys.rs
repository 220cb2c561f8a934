//! Who may ask: API keys, kept only as hashes, and the check that runs before every route that needs one.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::Method;
use actix_web::http::header::{ACCESS_CONTROL_REQUEST_METHOD, AUTHORIZATION, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use actix_web::middleware::Next;
use actix_web::{Error, HttpMessage, web};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use super::error::ApiError;
use super::layer::Access;
use crate::settings::ServerSettings;

/// Routes, relative to the prefix, that supervisors and load balancers ask without a key.
pub const OPEN_ROUTES: &[&str] = &["/health", "/v1/health", "/live", "/ready"];

/// Some 20,000 keys, and far below what could hurt.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Why the keys cannot be used. No message holds a key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("cannot read the API keys in {path}: {source}")]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{0} is larger than {MAX_FILE_BYTES} bytes; it should hold API keys, one a line")]
    TooLarge(PathBuf),
    #[error("{0} holds no API key; each line is one, and a line that begins with # is a comment")]
    Empty(PathBuf),
    #[error("{place}: an API key must be printable ASCII characters, at least one")]
    Invalid { place: String },
}

/// Which key a request had, without telling the key: the first 64 bits of its SHA-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyId(pub u64);

impl fmt::Display for KeyId {
    /// Eight hexadecimal digits: enough to tell the keys of one server apart.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0 >> 32)
    }
}

/// The keys that are accepted; none means that everyone is.
#[derive(Default)]
pub struct ApiKeys {
    digests: Vec<[u8; 32]>,
}

impl ApiKeys {
    /// The keys of the settings and of the file that they name.
    pub fn load(settings: &ServerSettings) -> Result<Self, KeyError> {
        let mut digests = Vec::new();
        // Several in one value, as llama-server has it: the environment has one value only.
        let given = settings.api_keys.iter().flat_map(|keys| keys.split(','));
        for (index, key) in given.enumerate() {
            digests.push(digest(key.as_bytes(), || format!("key {} of --api-key", index + 1))?);
        }
        if let Some(path) = &settings.api_key_file {
            digests.extend(digests_of_file(path)?);
        }
        Ok(Self { digests })
    }

    /// No key is needed.
    pub fn is_empty(&self) -> bool {
        self.digests.is_empty()
    }

    /// There is more than one user.
    pub fn are_several(&self) -> bool {
        self.digests.len() > 1
    }

    /// The key of a request: a bearer token (OpenAI), `x-api-key` (Anthropic), or the password of HTTP's basic scheme,
    /// which is how a browser can send one when it opens a page. `None`: no key is needed.
    pub fn check(&self, headers: &HeaderMap) -> Result<Option<KeyId>, ApiError> {
        if self.is_empty() {
            return Ok(None);
        }
        let basic = basic(headers);
        let given = [bearer(headers), headers.get("x-api-key").map(HeaderValue::as_bytes), basic.as_deref()];
        if given.iter().all(Option::is_none) {
            return Err(ApiError::unauthorized(
                "this server needs an API key; send it as `Authorization: Bearer KEY` or as `x-api-key: KEY`",
            ));
        }
        match given.into_iter().flatten().find_map(|key| self.find(key)) {
            Some(id) => Ok(Some(id)),
            None => Err(ApiError::unauthorized("the API key given is not one of this server's keys")),
        }
    }

    /// Takes the same time whether a key matches or not, and whichever does.
    fn find(&self, key: &[u8]) -> Option<KeyId> {
        let digest: [u8; 32] = Sha256::digest(key).into();
        let found = self.digests.iter().fold(Choice::from(0), |found, known| found | known.ct_eq(&digest));
        bool::from(found).then(|| KeyId(u64::from_be_bytes(digest[..8].try_into().expect("8 of 32 bytes"))))
    }
}

/// Middleware: refuses a request without a valid key, and leaves the [`KeyId`] in its extensions.
pub(super) async fn require_key(
    access: web::Data<Access>,
    req: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let open = access.route_of(req.path()).is_some_and(|route| OPEN_ROUTES.contains(&route));
    if !open && !is_preflight(&req) {
        match access.keys.check(req.headers()) {
            Err(error) => {
                let is_page = access
                    .route_of(req.path())
                    .is_some_and(|route| route.starts_with("/docs") || route == "/openapi.json");
                let mut refused = req.error_response(error);
                if is_page {
                    // The browser asks its user; what it is told goes along with the page's own requests.
                    let ask = HeaderValue::from_static("Basic realm=\"an API key as password\", charset=\"UTF-8\"");
                    refused.headers_mut().insert(WWW_AUTHENTICATE, ask);
                }
                return Ok(refused);
            }
            Ok(Some(id)) => {
                req.extensions_mut().insert(id);
            }
            Ok(None) => {}
        }
    }
    Ok(next.call(req).await?.map_into_boxed_body())
}

/// A browser asks in advance, and cannot send the key then.
fn is_preflight(req: &ServiceRequest) -> bool {
    req.method() == Method::OPTIONS && req.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

/// The password; any user name will do.
fn basic(headers: &HeaderMap) -> Option<Vec<u8>> {
    let (scheme, credentials) = headers.get(AUTHORIZATION)?.as_bytes().split_at_checked(6)?;
    let decoded =
        scheme.eq_ignore_ascii_case(b"basic ").then(|| BASE64_STANDARD.decode(credentials.trim_ascii()))?.ok()?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    Some(decoded[colon + 1..].to_vec())
}

fn digests_of_file(path: &Path) -> Result<Vec<[u8; 32]>, KeyError> {
    let mut text = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut text))
        .map_err(|source| KeyError::Unreadable { path: path.to_owned(), source })?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(KeyError::TooLarge(path.to_owned()));
    }
    let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).enumerate();
    let digests = lines
        .filter(|(_, line)| !line.is_empty() && !line.starts_with(b"#"))
        .map(|(index, line)| digest(line, || format!("{}, line {}", path.display(), index + 1)))
        .collect::<Result<Vec<_>, _>>()?;
    if digests.is_empty() { Err(KeyError::Empty(path.to_owned())) } else { Ok(digests) }
}

fn digest(key: &[u8], place: impl FnOnce() -> String) -> Result<[u8; 32], KeyError> {
    let key = key.trim_ascii();
    if key.is_empty() || !key.iter().all(|byte| (b' '..=b'~').contains(byte)) {
        return Err(KeyError::Invalid { place: place() });
    }
    Ok(Sha256::digest(key).into())
}

#[cfg(test)]
mod tests {
    use actix_web::http::StatusCode;
    use actix_web::middleware::from_fn;
    use actix_web::test::{self, TestRequest};
    use actix_web::{App, HttpRequest, HttpResponse};

    use super::*;
    use crate::http::layer::access_with;

    const KEY: &str = "sk-0123456789";

    /// The status for a request to a server with [`KEY`] and the prefix `/llm`, and the body.
    async fn ask(request: TestRequest) -> (StatusCode, String) {
        let access = access_with(|settings| {
            settings.api_keys = vec!["another".into(), KEY.into()];
            settings.api_prefix = "/llm".into();
        });
        let stub = |req: HttpRequest| async move {
            HttpResponse::Ok().body(req.extensions().get::<KeyId>().map_or("-".to_owned(), ToString::to_string))
        };
        let app = App::new().app_data(access).default_service(web::to(stub)).wrap(from_fn(require_key));
        let response = test::call_service(&test::init_service(app).await, request.to_request()).await;
        let status = response.status();
        (status, String::from_utf8(test::read_body(response).await.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn a_key_is_taken_from_either_header() {
        for header in [
            (AUTHORIZATION.as_str(), format!("Bearer {KEY}")),
            (AUTHORIZATION.as_str(), format!("bearer  {KEY}")),
            (AUTHORIZATION.as_str(), "Basic YW55OnNrLTAxMjM0NTY3ODk=".to_owned()), // any:KEY
            ("x-api-key", KEY.to_owned()),
        ] {
            let (status, id) = ask(TestRequest::post().uri("/llm/v1/models").insert_header(header)).await;
            assert_eq!((status, id.as_str()), (StatusCode::OK, "5c85b6dd"), "the id that sha256sum gives");
        }
        let basic = (AUTHORIZATION, "Basic dXNlcjpwYXNz");
        let (status, _) = ask(TestRequest::get().insert_header(basic).insert_header(("x-api-key", KEY))).await;
        assert_eq!(status, StatusCode::OK);
    }

    #[tokio::test]
    async fn a_wrong_key_of_the_right_length_is_refused_and_not_echoed() {
        let (status, body) = ask(TestRequest::get().insert_header((AUTHORIZATION, "Bearer sk-0123456780"))).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED);
        assert!(body.contains("invalid_api_key") && body.contains("not one of") && !body.contains("sk-"), "{body}");
    }

    #[tokio::test]
    async fn no_key_is_told_how_to_send_one() {
        for request in [TestRequest::get(), TestRequest::get().insert_header((AUTHORIZATION, "Digest QTpC"))] {
            let (status, body) = ask(request.uri("/llm/v1/models")).await;
            assert_eq!(status, StatusCode::UNAUTHORIZED);
            assert!(body.contains("Authorization: Bearer KEY"), "{body}");
        }
    }

    #[tokio::test]
    async fn a_browser_is_asked_for_the_key_of_a_page() {
        let access = access_with(|settings| settings.api_keys = vec![KEY.into()]);
        let app = App::new().app_data(access).default_service(web::to(HttpResponse::Ok)).wrap(from_fn(require_key));
        let app = test::init_service(app).await;
        for (path, scheme) in [("/docs/", "Basic"), ("/v1/models", "Bearer")] {
            let response = test::call_service(&app, TestRequest::get().uri(path).to_request()).await;
            let challenge = response.headers().get(WWW_AUTHENTICATE).unwrap().to_str().unwrap().to_owned();
            assert!(challenge.starts_with(scheme), "{path}: {challenge}");
        }
    }

    #[tokio::test]
    async fn health_and_preflights_need_no_key() {
        for path in ["/llm/health", "/llm/v1/health", "/llm/live", "/llm/ready"] {
            assert_eq!(ask(TestRequest::get().uri(path)).await.0, StatusCode::OK, "{path}");
        }
        for path in ["/llm/health/x", "/llm/HEALTH", "/health", "/llm/metrics", "/llm/%68ealth", "/llm//health"] {
            assert_eq!(ask(TestRequest::get().uri(path)).await.0, StatusCode::UNAUTHORIZED, "{path}");
        }
        let options = || TestRequest::default().method(Method::OPTIONS).uri("/llm/v1/models");
        let preflight = options().insert_header((ACCESS_CONTROL_REQUEST_METHOD, "POST"));
        assert_eq!(ask(preflight).await.0, StatusCode::OK);
        assert_eq!(ask(options()).await.0, StatusCode::UNAUTHORIZED);
    }

    fn load_file(content: &[u8]) -> Result<ApiKeys, KeyError> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keys");
        std::fs::write(&path, content).unwrap();
        ApiKeys::load(&ServerSettings { api_key_file: Some(path), ..ServerSettings::default() })
    }

    #[test]
    fn a_file_has_keys_comments_and_blank_lines() {
        let keys = load_file(b"# ours\r\n\n  one \r\ntwo#2\n#three").unwrap();
        assert_eq!(keys.digests.len(), 2);
        assert!(keys.find(b"one").is_some() && keys.find(b"two#2").is_some() && keys.find(b"three").is_none());
    }

    #[test]
    fn a_bad_key_is_named_by_its_place_only() {
        let error = load_file("good\n# x\nsecr\u{e9}t\n".as_bytes()).err().unwrap().to_string();
        assert!(error.contains("keys, line 3:") && !error.contains("secr"), "{error}");
        let error = load_file(b"a\0b").err().unwrap().to_string();
        assert!(error.contains("line 1:"), "{error}");
        for empty in [&b""[..], b"# only\n\n"] {
            assert!(matches!(load_file(empty), Err(KeyError::Empty(_))));
        }
        let settings = ServerSettings { api_keys: vec!["a".into(), " ".into()], ..ServerSettings::default() };
        assert!(ApiKeys::load(&settings).err().unwrap().to_string().starts_with("key 2 of --api-key:"));
        let settings = ServerSettings { api_key_file: Some("/no/such".into()), ..ServerSettings::default() };
        assert!(ApiKeys::load(&settings).err().unwrap().to_string().contains("/no/such"));
    }
}
