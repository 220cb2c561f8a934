//! Under which names a loopback server may be asked. A web page can make its own name resolve to 127.0.0.1 and then
//! read whatever listens there (DNS rebinding); it cannot make the browser send another `Host` than that name.

use std::net::IpAddr;

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{HOST, HeaderMap};
use actix_web::http::uri::Authority;
use actix_web::middleware::Next;
use actix_web::{Error, HttpRequest, web};

use super::bind::{Listen, is_loopback};
use super::error::ApiError;
use super::forwarded::Proxies;
use super::layer::Access;
use crate::settings::ServerSettings;

const FORWARDED_HOST: &str = "x-forwarded-host";

#[derive(Debug, thiserror::Error)]
#[error("--allowed-hosts is {0:?}; it must be a host name or an address, such as llm.example")]
pub struct HostError(String);

/// The names that are answered. Beyond loopback all are: there, a network address is no secret to protect.
pub struct Hosts {
    checked: bool,
    allowed: Vec<String>,
}

impl Hosts {
    pub fn new(settings: &ServerSettings, listen: &Listen) -> Result<Self, HostError> {
        let named = settings.allowed_hosts.iter().map(|host| name_of(host).ok_or_else(|| HostError(host.clone())));
        let mut allowed = named.collect::<Result<Vec<_>, _>>()?;
        // The user who listens on a name means to ask by it.
        allowed.extend(name_of(&settings.host));
        Ok(Self { checked: listen.loopback, allowed })
    }

    /// `Host`, and what a trusted proxy says it was asked for. Both, since a page that reaches a proxy's machine
    /// directly could send `X-Forwarded-Host` as it likes, but not `Host`.
    fn check(&self, req: &HttpRequest, proxies: &Proxies) -> Result<(), ApiError> {
        if !self.checked {
            return Ok(());
        }
        // In a request for a proxy the target names the host, and outranks the header.
        let target = req.uri().authority().map(Authority::as_str);
        // A health check in HTTP/1.0 has none; a browser never does without.
        let host = target.map_or_else(|| header(req.headers(), HOST.as_str()), |host| vec![host]);
        let forwarded = if proxies.sent(req) { header(req.headers(), FORWARDED_HOST) } else { Vec::new() };
        match host.into_iter().chain(forwarded).find(|host| !self.allows(host)) {
            None => Ok(()),
            Some(host) => {
                let host: String = host.chars().take(256).collect();
                let rule = "is not a name of this server; --allowed-hosts adds names";
                Err(ApiError::forbidden(format!("the host {host:?} {rule}")))
            }
        }
    }

    fn allows(&self, host: &str) -> bool {
        name_of(host).is_some_and(|name| is_local(&name) || self.allowed.contains(&name))
    }
}

/// Middleware: refuses a request for another host.
pub(super) async fn check_host(
    access: web::Data<Access>,
    req: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    match access.hosts.check(req.request(), &access.proxies) {
        Ok(()) => Ok(next.call(req).await?.map_into_boxed_body()),
        Err(error) => Ok(req.error_response(error)),
    }
}

/// All values of a header; one that is no text counts as a host that no one has.
fn header<'a>(headers: &'a HeaderMap, name: &str) -> Vec<&'a str> {
    headers.get_all(name).flat_map(|value| value.to_str().unwrap_or_default().split(',').map(str::trim)).collect()
}

/// The host of `host[:port]` in lower case, without the dot that may end a name. An IPv6 address may lack brackets.
fn name_of(host: &str) -> Option<String> {
    if let Ok(IpAddr::V6(address)) = host.parse() {
        return Some(format!("[{address}]"));
    }
    let authority: Authority = host.parse().ok().filter(|_| !host.contains('@'))?;
    let name = authority.host().to_ascii_lowercase();
    let name = name.strip_suffix('.').unwrap_or(&name);
    (!name.is_empty()).then(|| name.to_owned())
}

fn is_local(name: &str) -> bool {
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name == "localhost" || name.ends_with(".localhost") || address.parse().is_ok_and(is_loopback)
}

#[cfg(test)]
mod tests {
    use actix_web::http::StatusCode;
    use actix_web::middleware::from_fn;
    use actix_web::test::{self, TestRequest};
    use actix_web::{App, HttpResponse};

    use super::*;
    use crate::http::layer::access_with;

    async fn ask(change: impl FnOnce(&mut ServerSettings), request: TestRequest) -> (StatusCode, String) {
        let stub = || async { HttpResponse::Ok().finish() };
        let app = App::new().app_data(access_with(change)).default_service(web::to(stub)).wrap(from_fn(check_host));
        let response = test::call_service(&test::init_service(app).await, request.to_request()).await;
        let status = response.status();
        (status, String::from_utf8(test::read_body(response).await.to_vec()).unwrap())
    }

    fn to(host: &str) -> TestRequest {
        TestRequest::get().uri("/health").insert_header((HOST, host))
    }

    #[tokio::test]
    async fn names_of_this_machine_are_answered() {
        for host in [
            "localhost:8080",
            "LocalHost.",
            "app.localhost:1",
            "127.0.0.1",
            "127.9.9.9:80",
            "[::1]:8080",
            "llm.example:8080",
            "LLM.Example.",
            "[2001:db8::1]",
        ] {
            let allow = |settings: &mut ServerSettings| {
                settings.allowed_hosts = vec!["llm.example".into(), "2001:db8::1".into()];
            };
            assert_eq!(ask(allow, to(host)).await.0, StatusCode::OK, "{host}");
        }
        assert_eq!(ask(|_| (), TestRequest::get()).await.0, StatusCode::OK, "no Host");
    }

    #[tokio::test]
    async fn other_names_are_refused_with_the_name_and_the_setting() {
        for host in ["evil.example", "localhost.evil.example", "evillocalhost", "192.168.1.5", "", "localhost@evil.x"] {
            let (status, body) = ask(|_| (), to(host)).await;
            assert_eq!(status, StatusCode::FORBIDDEN, "{host}");
            assert!(body.contains(host) && body.contains("--allowed-hosts"), "{body}");
        }
        let absolute = TestRequest::get().uri("http://evil.example/").insert_header((HOST, "localhost"));
        assert_eq!(ask(|_| (), absolute).await.0, StatusCode::FORBIDDEN);
    }

    #[tokio::test]
    async fn beyond_loopback_no_name_is_checked() {
        let open = |settings: &mut ServerSettings| {
            settings.host = "0.0.0.0".into();
            settings.insecure = true;
        };
        assert_eq!(ask(open, to("evil.example")).await.0, StatusCode::OK);
    }

    #[tokio::test]
    async fn a_proxy_s_word_is_checked_as_well() {
        let proxied = |host: &str, forwarded: &str, peer: &str| {
            to(host).insert_header((FORWARDED_HOST, forwarded)).peer_addr(peer.parse().unwrap())
        };
        let behind = |settings: &mut ServerSettings| {
            settings.trusted_proxies = vec!["127.0.0.1".into()];
            settings.allowed_hosts = vec!["llm.example".into()];
        };
        for (host, forwarded, peer, status) in [
            ("127.0.0.1:8080", "llm.example", "127.0.0.1:9", StatusCode::OK),
            ("127.0.0.1:8080", "evil.example", "127.0.0.1:9", StatusCode::FORBIDDEN),
            ("evil.example", "llm.example", "127.0.0.1:9", StatusCode::FORBIDDEN),
            ("127.0.0.1:8080", "llm.example, evil.example", "127.0.0.1:9", StatusCode::FORBIDDEN),
            ("127.0.0.1:8080", "ignored.example", "127.0.0.2:9", StatusCode::OK),
        ] {
            assert_eq!(ask(behind, proxied(host, forwarded, peer)).await.0, status, "{host} {forwarded} {peer}");
        }
    }

    #[test]
    fn an_allowed_host_that_is_none_is_named() {
        let listen = Listen { addresses: Vec::new(), loopback: true };
        for host in ["http://llm.example", "a/b", ""] {
            let settings = ServerSettings { allowed_hosts: vec![host.into()], ..ServerSettings::default() };
            let error = Hosts::new(&settings, &listen).err().unwrap();
            assert!(error.to_string().contains(&format!("{host:?}")), "{error}");
        }
    }
}
