//! Addresses at which nobody listens.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use tokio::net::TcpSocket;

/// A base URL (`http://127.0.0.1:PORT/v1`) at which nobody listens, so that connections are
/// refused. The port is given back at once and another server may take it later; where that
/// would matter use a [`RefusedPort`].
///
/// ```
/// let url = toolnexus_testkit::model::free_port_url()?;
/// assert!(url.starts_with("http://127.0.0.1:") && url.ends_with("/v1"));
/// # std::io::Result::Ok(())
/// ```
///
/// # Errors
/// When no loopback port can be bound.
pub fn free_port_url() -> io::Result<String> {
    let addr = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    Ok(format!("http://{addr}/v1"))
}

/// A loopback port that refuses connections for as long as this value lives: it is bound and
/// not listened at, so nobody else gets it.
///
/// ```
/// use toolnexus_testkit::model::RefusedPort;
///
/// let port = RefusedPort::new()?;
/// let refused = std::net::TcpStream::connect(port.addr()).unwrap_err();
/// assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct RefusedPort {
    addr: SocketAddr,
    _socket: TcpSocket,
}

impl RefusedPort {
    /// Takes a free port. Needs no runtime.
    ///
    /// # Errors
    /// When no loopback port can be bound.
    pub fn new() -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        Ok(Self { addr: socket.local_addr()?, _socket: socket })
    }

    /// The address that refuses.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// `http://127.0.0.1:PORT/v1`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.addr)
    }
}
