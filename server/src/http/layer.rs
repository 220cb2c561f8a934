//! Everything between the socket and a route, in one place and one order.

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceFactory, ServiceRequest, ServiceResponse};
use actix_web::middleware::from_fn;
use actix_web::{App, Error, HttpMessage, HttpRequest, web};

use super::bind::{self, BindError, Listen};
use super::cors::{OriginError, Origins};
use super::forwarded::{Proxies, ProxyError};
use super::hosts::{HostError, Hosts};
use super::keys::{ApiKeys, KeyError, KeyId};
use super::prefix::{self, PrefixError};
use super::{access_log, headers, hosts, keys, refusals, request_id};
use crate::settings::ServerSettings;

/// Why the server does not start, of what the user said about access to it.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    #[error(transparent)]
    Keys(#[from] KeyError),
    #[error(transparent)]
    Bind(#[from] BindError),
    #[error(transparent)]
    Hosts(#[from] HostError),
    #[error(transparent)]
    Proxies(#[from] ProxyError),
    #[error(transparent)]
    Origins(#[from] OriginError),
    #[error(transparent)]
    Prefix(#[from] PrefixError),
}

/// Who may ask, from where, and under which address. Built once; every worker and request reads it.
pub struct Access {
    /// What to bind.
    pub listen: Listen,
    pub keys: ApiKeys,
    pub proxies: Proxies,
    pub(super) hosts: Hosts,
    pub(super) body_limit: usize,
    origins: Origins,
    prefix: String,
}

impl Access {
    pub fn new(settings: &ServerSettings) -> Result<Self, AccessError> {
        let keys = ApiKeys::load(settings)?;
        let listen = bind::check_address(&settings.host, !keys.is_empty(), settings.insecure)?;
        Ok(Self {
            hosts: Hosts::new(settings, &listen)?,
            listen,
            keys,
            proxies: Proxies::parse(&settings.trusted_proxies)?,
            origins: Origins::parse(&settings.allowed_origins)?,
            prefix: prefix::normalise(&settings.api_prefix)?,
            body_limit: settings.limits.body_bytes,
        })
    }

    /// Where the routes are mounted: empty, or a path such as `/llm`.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The prefix as the client sees it, for links: what a trusted proxy took away, and ours.
    pub fn outer_prefix(&self, req: &HttpRequest) -> String {
        format!("{}{}", self.proxies.prefix(req), self.prefix)
    }

    /// Whose cached prefixes the request may use: of several keys, each its own.
    pub(super) fn cache_owner(&self, req: &HttpRequest) -> Option<KeyId> {
        self.keys.are_several().then(|| req.extensions().get::<KeyId>().copied()).flatten()
    }

    /// `path` without the prefix. `None`: it is not under it.
    pub fn route_of<'a>(&self, path: &'a str) -> Option<&'a str> {
        path.strip_prefix(self.prefix.as_str()).filter(|route| route.starts_with('/'))
    }
}

/// Puts the layer around `app`. It must be the last change to the app, so that nothing stands outside.
///
/// From the outside in, each for a reason:
/// 1. request id: everything below logs and answers with it.
/// 2. access log: sees what the client gets, refusals included.
/// 3. headers: on refusals too.
/// 4. refusals of actix in our shape: below it, CORS and routes make them.
/// 5. CORS: outside the checks, so that a page can read why it was refused, and a preflight, which has no key, is
///    answered.
/// 6. host: a name that is not ours learns nothing, not even whether a key is right.
/// 7. key: last, since it is what makes the request somebody's.
pub fn wrap<T, B>(
    access: web::Data<Access>,
    app: App<T>,
) -> App<
    impl ServiceFactory<ServiceRequest, Config = (), Response = ServiceResponse<BoxBody>, Error = Error, InitError = ()>,
>
where
    T: ServiceFactory<ServiceRequest, Config = (), Response = ServiceResponse<B>, Error = Error, InitError = ()>
        + 'static,
    B: MessageBody + 'static,
{
    app.wrap(from_fn(keys::require_key))
        .wrap(from_fn(hosts::check_host))
        .wrap(access.origins.middleware())
        .wrap(from_fn(refusals::as_api_errors))
        .wrap(from_fn(headers::strict))
        .wrap(from_fn(access_log::log))
        .wrap(from_fn(request_id::name_request))
        .app_data(access)
}

/// The access of a server on 127.0.0.1 with settings changed by `change`.
#[cfg(test)]
pub(super) fn access_with(change: impl FnOnce(&mut ServerSettings)) -> web::Data<Access> {
    let mut settings = ServerSettings { host: "127.0.0.1".into(), ..ServerSettings::default() };
    change(&mut settings);
    web::Data::new(Access::new(&settings).unwrap())
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::{
        ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_REQUEST_METHOD, AUTHORIZATION, HOST, HeaderMap, ORIGIN,
        X_CONTENT_TYPE_OPTIONS,
    };
    use actix_web::http::{Method, StatusCode};
    use actix_web::test::{self, TestRequest};
    use actix_web::{HttpResponse, web};
    use serde_json::Value;

    use super::super::access_log::logged_lines;
    use super::super::request_id::REQUEST_ID;
    use super::*;

    /// Asks a server under `/llm` with the key `k` for a page of `https://app.example`.
    async fn ask(request: TestRequest) -> (StatusCode, HeaderMap, Value) {
        let access = access_with(|settings| {
            settings.api_keys = vec!["k".into()];
            settings.api_prefix = "llm/".into();
            settings.allowed_origins = vec!["https://app.example".into()];
        });
        let routes = web::scope(access.prefix())
            .service(web::resource("/health").get(|| async { HttpResponse::Ok().finish() }))
            .service(web::resource("/v1/models").get(|| async { HttpResponse::Ok().json("models") }));
        let app = test::init_service(wrap(access, App::new().service(routes))).await;
        let response = test::call_service(&app, request.insert_header((ORIGIN, "https://app.example")).to_request());
        let response = response.await;
        let (status, headers) = (response.status(), response.headers().clone());
        let body = serde_json::from_slice(&test::read_body(response).await).unwrap_or_default();
        (status, headers, body)
    }

    fn get(path: &str) -> TestRequest {
        TestRequest::get().uri(path).insert_header((AUTHORIZATION, "Bearer k")).insert_header((HOST, "localhost:8080"))
    }

    #[tokio::test]
    async fn every_refusal_has_all_that_an_answer_has() {
        for (request, expected) in [
            (get("/llm/v1/models"), 200),
            (get("/llm/v1/models").insert_header((AUTHORIZATION, "Bearer x")), 401),
            (get("/llm/v1/models").insert_header((HOST, "evil.example")), 403),
            (get("/llm/health").insert_header((HOST, "evil.example")), 403),
            (get("/llm/v1/nowhere"), 404),
            (get("/v1/models"), 404),
            (get("/llmv1/models"), 404),
            (get("/llm/v1/models").method(Method::PUT), 405),
        ] {
            let (status, headers, body) = ask(request.insert_header((REQUEST_ID, "abc"))).await;
            assert_eq!(status.as_u16(), expected, "{body}");
            assert_eq!(headers.get(REQUEST_ID).unwrap(), "abc", "{expected}");
            assert_eq!(headers.get(X_CONTENT_TYPE_OPTIONS).unwrap(), "nosniff", "{expected}");
            assert_eq!(headers.get(ACCESS_CONTROL_ALLOW_ORIGIN).unwrap(), "https://app.example", "{expected}");
            assert_eq!(body["error"]["message"].is_string(), expected >= 400, "{body}");
        }
    }

    #[tokio::test]
    async fn a_stranger_s_unknown_route_is_a_401() {
        let (status, ..) = ask(TestRequest::get().uri("/llm/v1/nowhere")).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED);
    }

    #[tokio::test]
    async fn a_preflight_needs_no_key_and_a_refused_one_is_json() {
        let preflight = |method| {
            let request = TestRequest::default().method(Method::OPTIONS).uri("/llm/v1/models");
            request.insert_header((ACCESS_CONTROL_REQUEST_METHOD, method))
        };
        let (status, headers, _) = ask(preflight("POST")).await;
        assert_eq!(status, StatusCode::OK);
        assert!(headers.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN) && headers.contains_key(REQUEST_ID));
        let (status, _, body) = ask(preflight("DELETE")).await;
        assert_eq!((status.as_u16(), body["error"]["type"].as_str()), (400, Some("invalid_request_error")));
    }

    #[tokio::test]
    async fn the_access_line_has_the_key_s_id_and_no_query() {
        let lines = logged_lines(async {
            ask(get("/llm/v1/models?secret=1").peer_addr("127.0.0.1:5".parse().unwrap())).await;
        });
        let lines = lines.await;
        let line = lines.iter().find(|line| line.contains("taper::access")).unwrap();
        for part in
            ["client=127.0.0.1", "key=", "method=GET", "path=\"/llm/v1/models\"", "status=200", "bytes=8", "ms="]
        {
            assert!(line.contains(part), "{part} is not in {line}");
        }
        assert!(!line.contains("secret"), "{line}");
    }

    #[tokio::test]
    async fn a_proxy_s_prefix_comes_before_ours() {
        let access = access_with(|settings| {
            settings.api_prefix = "/llm".into();
            settings.trusted_proxies = vec!["127.0.0.1".into()];
        });
        let request = |prefix: &str| {
            let request = TestRequest::get().peer_addr("127.0.0.1:5".parse().unwrap());
            request.insert_header(("X-Forwarded-Prefix", prefix)).to_http_request()
        };
        assert_eq!(access.outer_prefix(&request("/edge")), "/edge/llm");
        assert_eq!(access.outer_prefix(&request("//evil")), "/llm");
    }
}
