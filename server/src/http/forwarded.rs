//! Who really asked, where a reverse proxy stands before the server. Only a proxy that the user named is believed:
//! anyone can send these headers.

use std::net::{IpAddr, SocketAddr};

use actix_web::HttpRequest;
use actix_web::http::header::{FORWARDED, HeaderMap, X_FORWARDED_FOR};
use ipnet::IpNet;

use super::prefix;

const FORWARDED_PREFIX: &str = "x-forwarded-prefix";

/// Proxies between client and server that are followed; a longer chain is a loop or an attack.
const MAX_HOPS: usize = 32;

#[derive(Debug, thiserror::Error)]
#[error("--trusted-proxies is {0:?}; it must be an address such as 10.0.0.1 or a network such as 10.0.0.0/8")]
pub struct ProxyError(String);

/// The proxies whose headers are believed.
#[derive(Debug, Default)]
pub struct Proxies {
    networks: Vec<IpNet>,
}

impl Proxies {
    pub fn parse(given: &[String]) -> Result<Self, ProxyError> {
        let network = |text: &String| {
            let network = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
            network.map_err(|_| ProxyError(text.clone()))
        };
        Ok(Self { networks: given.iter().map(network).collect::<Result<_, _>>()? })
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(&address))
    }

    /// The request comes straight from a trusted proxy.
    pub fn sent(&self, req: &HttpRequest) -> bool {
        peer(req).is_some_and(|peer| self.trusts(peer))
    }

    /// The peer or, going back through trusted proxies, the last address that none of them vouches for. `None` only
    /// without a network peer, as in tests.
    pub fn client_address(&self, req: &HttpRequest) -> Option<IpAddr> {
        let mut client = peer(req)?;
        let mut hops = hops(req.headers()).into_iter();
        while self.trusts(client)
            && let Some(Some(before)) = hops.next()
        {
            client = before;
        }
        Some(client)
    }

    /// The path that a trusted proxy took away before passing the request on; empty where there is none.
    pub fn prefix(&self, req: &HttpRequest) -> String {
        let Some(value) = req.headers().get(FORWARDED_PREFIX).filter(|_| self.sent(req)) else { return String::new() };
        let valid = value.to_str().ok().and_then(prefix::of_header);
        valid.unwrap_or_else(|| {
            let shown: String = String::from_utf8_lossy(value.as_bytes()).chars().take(80).collect();
            tracing::warn!("X-Forwarded-Prefix is {shown:?}, which is not a path such as /llm; it is ignored");
            String::new()
        })
    }
}

fn peer(req: &HttpRequest) -> Option<IpAddr> {
    req.peer_addr().map(|peer| peer.ip().to_canonical())
}

/// What the proxies say, nearest first: `X-Forwarded-For` or, without it, `Forwarded`. `None` is a hop without an
/// address, such as `unknown`.
fn hops(headers: &HeaderMap) -> Vec<Option<IpAddr>> {
    let name = if headers.contains_key(X_FORWARDED_FOR) { X_FORWARDED_FOR } else { FORWARDED };
    let values: Vec<_> = headers.get_all(&name).map(|value| value.to_str().unwrap_or_default()).collect();
    let elements = values.into_iter().rev().flat_map(|value| value.rsplit(',')).take(MAX_HOPS);
    elements.map(|element| address(if name == FORWARDED { for_of(element)? } else { element })).collect()
}

/// The node of `for=` in an element of `Forwarded`.
fn for_of(element: &str) -> Option<&str> {
    element.split(';').find_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        name.trim().eq_ignore_ascii_case("for").then(|| value.trim().trim_matches('"'))
    })
}

/// `1.2.3.4`, `1.2.3.4:5`, `::1`, `[::1]`, `[::1]:5`.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse().ok().or_else(|| text.parse().ok().map(|address: SocketAddr| address.ip()));
    address.map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    fn from(peer: &str, headers: &[(&str, &str)]) -> HttpRequest {
        let request = TestRequest::get().peer_addr(SocketAddr::new(peer.parse().unwrap(), 9));
        headers.iter().fold(request, |request, header| request.append_header(*header)).to_http_request()
    }

    fn proxies() -> Proxies {
        Proxies::parse(&["10.0.0.0/8".into(), "::1".into(), "127.0.0.1".into()]).unwrap()
    }

    fn client(peer: &str, headers: &[(&str, &str)]) -> String {
        proxies().client_address(&from(peer, headers)).unwrap().to_string()
    }

    #[test]
    fn an_untrusted_peer_s_word_is_ignored() {
        assert_eq!(client("192.0.2.1", &[("X-Forwarded-For", "198.51.100.7")]), "192.0.2.1");
        assert_eq!(client("192.0.2.1", &[("Forwarded", "for=198.51.100.7")]), "192.0.2.1");
        let request = from("192.0.2.1", &[("X-Forwarded-Prefix", "/llm")]);
        assert_eq!(proxies().prefix(&request), "");
    }

    #[test]
    fn the_right_most_untrusted_address_is_the_client() {
        let forwarded = |value| client("127.0.0.1", &[("X-Forwarded-For", value)]);
        assert_eq!(forwarded("198.51.100.7"), "198.51.100.7");
        assert_eq!(forwarded("6.6.6.6, 198.51.100.7:443, 10.1.2.3"), "198.51.100.7");
        assert_eq!(forwarded("10.1.2.3, 10.1.2.4"), "10.1.2.3");
        assert_eq!(forwarded("6.6.6.6, unknown, 10.1.2.3"), "10.1.2.3");
        assert_eq!(forwarded("[2001:db8::1]:99"), "2001:db8::1");
        assert_eq!(forwarded(""), "127.0.0.1");
        let two = [("X-Forwarded-For", "6.6.6.6"), ("X-Forwarded-For", "198.51.100.7")];
        assert_eq!(client("::ffff:127.0.0.1", &two), "198.51.100.7");
        assert_eq!(client("::1", &[]), "::1");
    }

    #[test]
    fn forwarded_is_read_where_x_forwarded_for_is_missing() {
        let header = ("Forwarded", "for=6.6.6.6, proto=https;For=\"[2001:db8::1]:99\"");
        assert_eq!(client("127.0.0.1", &[header]), "2001:db8::1");
        assert_eq!(client("127.0.0.1", &[("Forwarded", "for=_hidden")]), "127.0.0.1");
        assert_eq!(client("127.0.0.1", &[header, ("X-Forwarded-For", "198.51.100.7")]), "198.51.100.7");
    }

    #[test]
    fn a_proxy_s_prefix_is_taken_if_it_is_one() {
        for (given, prefix) in [("/llm", "/llm"), ("/a/b/", "/a/b"), ("/", ""), ("//evil", ""), ("/a, /b", "")] {
            let request = from("10.0.0.1", &[("X-Forwarded-Prefix", given)]);
            assert_eq!(proxies().prefix(&request), prefix, "{given}");
        }
    }

    #[test]
    fn a_proxy_that_is_no_address_is_named() {
        for given in ["proxy.example", "10.0.0.0/33", ""] {
            let error = Proxies::parse(&["10.0.0.1".into(), given.into()]).unwrap_err().to_string();
            assert!(error.contains(&format!("{given:?}")), "{error}");
        }
    }
}
