//! Where to listen, and how the place is called.

use std::net::{IpAddr, Ipv4Addr};

use tokio::net::TcpListener;

use crate::error::ServeError;

/// The host of an address that names none.
const DEFAULT_HOST: &str = "127.0.0.1";

/// A place to listen at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// A name, or an address without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Address {
    /// Reads `host:port`, `:port` or `port`.
    pub(crate) fn read(addr: &str) -> Result<Self, ServeError> {
        let (host, port) = addr.rsplit_once(':').unwrap_or(("", addr));
        let bad = || ServeError::Address { addr: addr.to_owned() };
        let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let port = port.parse().ok().filter(|_| digits).ok_or_else(bad)?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let host = if host.is_empty() { DEFAULT_HOST } else { host };
        Ok(Address { host: host.to_owned(), port })
    }

    /// Starts to listen; the address then has the real port.
    pub(crate) async fn bind(mut self, addr: &str) -> Result<(Self, TcpListener), ServeError> {
        let failed = |source| ServeError::Bind { addr: addr.to_owned(), source };
        let listener = TcpListener::bind((self.host.as_str(), self.port)).await.map_err(failed)?;
        self.port = listener.local_addr().map_err(failed)?.port();
        Ok((self, listener))
    }

    fn ip(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// Where a program on this machine finds the listener.
    pub(crate) fn url(&self) -> String {
        let port = self.port;
        match self.ip() {
            Some(ip) if ip.is_unspecified() => format!("http://{}:{port}", Ipv4Addr::LOCALHOST),
            Some(IpAddr::V6(ip)) => format!("http://[{ip}]:{port}"),
            _ => format!("http://{}:{port}", self.host),
        }
    }

    /// The host by which others may know it. `None`: it listens everywhere.
    pub(crate) fn bound_host(&self) -> Option<&str> {
        Some(self.host.as_str()).filter(|_| !self.ip().is_some_and(|ip| ip.is_unspecified()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // SERVE-1, SERVE-2
    #[test]
    fn addresses_are_split_at_the_last_colon() {
        let read = |addr: &str| Address::read(addr).map(|address| (address.url(), address.host));
        let of = |url: &str, host: &str| (url.to_owned(), host.to_owned());
        for (addr, expected) in [
            ("127.0.0.1:8080", of("http://127.0.0.1:8080", "127.0.0.1")),
            ("8080", of("http://127.0.0.1:8080", "127.0.0.1")),
            (":8080", of("http://127.0.0.1:8080", "127.0.0.1")),
            ("localhost:1", of("http://localhost:1", "localhost")),
            ("0.0.0.0:1", of("http://127.0.0.1:1", "0.0.0.0")),
            ("[::]:1", of("http://127.0.0.1:1", "::")),
            ("[::1]:1", of("http://[::1]:1", "::1")),
            ("::1:1", of("http://[::1]:1", "::1")),
        ] {
            assert_eq!(read(addr).unwrap(), expected, "{addr}");
        }
        for bad in ["", "localhost", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:65536", ":-1", ":+1", "h: 1"]
        {
            let error = read(bad).unwrap_err().to_string();
            assert!(error.starts_with(&format!("address {bad:?} has no port")), "{error}");
        }
        assert_eq!(Address::read("[::]:1").unwrap().bound_host(), None);
        assert_eq!(Address::read("box.local:1").unwrap().bound_host(), Some("box.local"));
    }
}
