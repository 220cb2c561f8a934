//! May the server listen on this address? Beyond this machine only with keys, or where that is said to be meant.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};

/// The addresses that a host stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// At least one; of a name, all that it has.
    pub addresses: Vec<IpAddr>,
    /// Only programs of this machine reach it.
    pub loopback: bool,
}

/// Why the server does not start listening.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error("--host is {host:?}, which is no address and no name that resolves: {source}")]
    Unresolved { host: String, source: io::Error },
    #[error("--host is {0:?}, which has no address")]
    NoAddress(String),
    #[error(
        "will not listen on {address} without API keys: whoever reaches that address could use the model. Give \
         --api-key KEY or --api-key-file FILE, or --insecure if this is meant"
    )]
    Unprotected { address: String },
}

/// The addresses of `host`: an IPv4 or IPv6 address (in brackets or not), `localhost`, or a name.
pub fn check_address(host: &str, keys_given: bool, insecure: bool) -> Result<Listen, BindError> {
    let addresses = resolve(host)?;
    let beyond = addresses.iter().find(|address| !is_loopback(**address));
    if let (Some(address), false) = (beyond, keys_given || insecure) {
        let named = address.to_string() == bare(host);
        let address = if named { address.to_string() } else { format!("{host} ({address})") };
        return Err(BindError::Unprotected { address });
    }
    Ok(Listen { loopback: beyond.is_none(), addresses })
}

/// 127.0.0.0/8 and `::1`, also where the former is written as IPv6.
pub(super) fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

fn bare(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

fn resolve(host: &str) -> Result<Vec<IpAddr>, BindError> {
    if let Ok(address) = bare(host).parse() {
        return Ok(vec![address]);
    }
    let found = (host, 0).to_socket_addrs();
    let found = found.map_err(|source| BindError::Unresolved { host: host.to_owned(), source })?;
    let mut addresses: Vec<IpAddr> = found.map(|address| address.ip()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    if addresses.is_empty() { Err(BindError::NoAddress(host.to_owned())) } else { Ok(addresses) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_needs_no_keys() {
        for host in ["127.0.0.1", "127.8.9.10", "::1", "[::1]", "::ffff:127.0.0.1", "localhost"] {
            assert!(check_address(host, false, false).unwrap().loopback, "{host}");
        }
    }

    #[test]
    fn an_open_address_needs_keys_or_a_word() {
        for host in ["0.0.0.0", "::", "[::]", "192.168.1.5", "[2001:db8::1]"] {
            let message = check_address(host, false, false).unwrap_err().to_string();
            assert!(message.contains(&format!("listen on {} without", bare(host))), "{message}");
            for remedy in ["--api-key KEY", "--api-key-file FILE", "--insecure"] {
                assert!(message.contains(remedy), "{message}");
            }
            for (keys, insecure) in [(true, false), (false, true)] {
                assert!(!check_address(host, keys, insecure).unwrap().loopback, "{host}");
            }
        }
    }

    #[test]
    fn what_is_no_host_is_named() {
        for host in ["", "[127.0.0.1", "not a host", "300.1.1.1"] {
            let error = check_address(host, true, true).unwrap_err();
            assert!(error.to_string().contains(&format!("{host:?}")), "{error}");
        }
    }
}
