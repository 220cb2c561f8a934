//! Which web pages may call the API from a browser: those of the listed origins, and none without a list.

use actix_cors::Cors;
use actix_web::http::Uri;
use actix_web::middleware::Condition;

/// Seconds for which a browser need not ask again.
const PREFLIGHT_AGE: usize = 3600;

#[derive(Debug, thiserror::Error)]
#[error("--allowed-origins is {0:?}; it must be scheme://host or scheme://host:port, without a path, or *")]
pub struct OriginError(String);

/// The origins that are allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origins {
    Any,
    /// Maybe none.
    Listed(Vec<String>),
}

impl Origins {
    pub fn parse(given: &[String]) -> Result<Self, OriginError> {
        let listed =
            given.iter().filter(|text| *text != "*").map(|text| origin(text)).collect::<Result<Vec<_>, _>>()?;
        Ok(if listed.len() < given.len() { Self::Any } else { Self::Listed(listed) })
    }

    /// Middleware: answers preflights and adds the CORS headers. Credentials are never allowed: keys are sent in
    /// headers, and there are no cookies.
    pub(super) fn middleware(&self) -> Condition<Cors> {
        let cors = Cors::default()
            .allowed_methods(["GET", "POST", "OPTIONS"])
            // The OpenAI SDK sends its own, and more with each version.
            .allow_any_header()
            .expose_headers(["X-Request-Id", "Retry-After", "X-Ignored"])
            .max_age(PREFLIGHT_AGE);
        match self {
            Self::Any => Condition::new(true, cors.allow_any_origin().send_wildcard()),
            Self::Listed(origins) => {
                let cors = origins.iter().fold(cors, |cors, origin| cors.allowed_origin(origin));
                Condition::new(!origins.is_empty(), cors)
            }
        }
    }
}

/// An origin as browsers write it: in lower case, without the scheme's own port.
fn origin(given: &str) -> Result<String, OriginError> {
    let refused = || OriginError(given.to_owned());
    let text = given.to_ascii_lowercase();
    let (scheme, authority) = text.split_once("://").ok_or_else(refused)?;
    let uri: Uri = text.parse().map_err(|_| refused())?;
    let plain = uri.authority().is_some_and(|found| found.as_str() == authority && !found.host().is_empty());
    if !plain || authority.contains(['@', '*']) || authority.ends_with(':') {
        return Err(refused());
    }
    let authority = match scheme {
        "http" => authority.strip_suffix(":80").unwrap_or(authority),
        "https" => authority.strip_suffix(":443").unwrap_or(authority),
        _ => authority,
    };
    Ok(format!("{scheme}://{authority}"))
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::{
        ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_ORIGIN,
        ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, HeaderMap,
        ORIGIN,
    };
    use actix_web::http::{Method, StatusCode};
    use actix_web::test::{self, TestRequest};
    use actix_web::{App, HttpResponse, web};

    use super::*;

    async fn ask(allowed: &[&str], request: TestRequest) -> (StatusCode, HeaderMap) {
        let origins = Origins::parse(&allowed.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap();
        let app =
            App::new().default_service(web::to(|| async { HttpResponse::Ok().finish() })).wrap(origins.middleware());
        let response = test::call_service(&test::init_service(app).await, request.to_request()).await;
        (response.status(), response.headers().clone())
    }

    fn post(origin: &str) -> TestRequest {
        TestRequest::post().insert_header((ORIGIN, origin))
    }

    fn preflight(origin: &str) -> TestRequest {
        post(origin)
            .method(Method::OPTIONS)
            .insert_header((ACCESS_CONTROL_REQUEST_METHOD, "POST"))
            .insert_header((ACCESS_CONTROL_REQUEST_HEADERS, "authorization,content-type,x-stainless-lang"))
    }

    #[tokio::test]
    async fn without_a_list_there_are_no_headers() {
        let (status, headers) = ask(&[], post("https://app.example")).await;
        assert_eq!(status, StatusCode::OK);
        assert!(headers.keys().all(|name| !name.as_str().starts_with("access-control")), "{headers:?}");
    }

    #[tokio::test]
    async fn a_listed_origin_may_read_the_answer() {
        let allowed = ["https://App.example:443", "http://localhost:3000"];
        let (_, headers) = ask(&allowed, post("https://app.example")).await;
        assert_eq!(headers.get(ACCESS_CONTROL_ALLOW_ORIGIN).unwrap(), "https://app.example");
        assert!(headers.contains_key(ACCESS_CONTROL_EXPOSE_HEADERS));
        assert!(!headers.contains_key(ACCESS_CONTROL_ALLOW_CREDENTIALS));
        let (status, headers) = ask(&allowed, preflight("http://localhost:3000")).await;
        assert_eq!(status, StatusCode::OK);
        assert!(headers.get(ACCESS_CONTROL_ALLOW_HEADERS).unwrap().to_str().unwrap().contains("x-stainless-lang"));
    }

    #[tokio::test]
    async fn another_origin_may_not() {
        for origin in ["https://evil.example", "http://app.example", "https://app.example.evil", "null"] {
            let (_, headers) = ask(&["https://app.example"], post(origin)).await;
            assert!(!headers.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN), "{origin}");
            let (status, headers) = ask(&["https://app.example"], preflight(origin)).await;
            assert_eq!(status, StatusCode::BAD_REQUEST, "{origin}");
            assert!(!headers.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN), "{origin}");
        }
    }

    #[tokio::test]
    async fn a_star_allows_all() {
        for request in [post("https://any.example"), preflight("null")] {
            let (status, headers) = ask(&["https://app.example", "*"], request).await;
            assert_eq!(status, StatusCode::OK);
            assert_eq!(headers.get(ACCESS_CONTROL_ALLOW_ORIGIN).unwrap(), "*");
        }
    }

    #[test]
    fn an_origin_that_is_none_is_named() {
        for given in [
            "app.example",
            "https://app.example/",
            "https://app.example/x",
            "https://",
            "null",
            "",
            "https://u@a.example",
            "https://*.example",
            "https://a.example:",
            "https://a b",
        ] {
            let error = Origins::parse(&[given.into()]).unwrap_err().to_string();
            assert!(error.contains(&format!("{given:?}")), "{error}");
        }
        for given in ["vscode-webview://abc", "app://obsidian.md", "http://[::1]:3000"] {
            assert_eq!(Origins::parse(&[given.into()]).unwrap(), Origins::Listed(vec![given.into()]));
        }
    }
}
