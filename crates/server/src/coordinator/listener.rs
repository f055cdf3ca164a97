//! Listening and accepted sockets of the control port: TCP or Unix behind one type.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use mio::event::Source;
use mio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use mio::{Interest, Registry, Token};

use crate::config::Address;
use crate::net::{bind_unix, watch_control};

/// The control port.
pub enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Listener {
    /// Listens. A socket file that nobody listens on any more is replaced.
    pub fn bind(address: &Address) -> io::Result<Self> {
        match address {
            Address::Tcp(address) => TcpListener::bind(*address).map(Listener::Tcp),
            Address::Unix(path) => bind_unix(path).map(|listener| Listener::Unix(listener, path.clone())),
        }
    }

    /// The next waiting connection.
    ///
    /// # Errors
    /// `WouldBlock` when nobody waits.
    pub fn accept(&self) -> io::Result<Socket> {
        match self {
            Listener::Tcp(listener) => {
                let (socket, _) = listener.accept()?;
                socket.set_nodelay(true)?;
                watch_control(&socket);
                Ok(Socket::Tcp(socket))
            }
            Listener::Unix(listener, _) => listener.accept().map(|(socket, _)| Socket::Unix(socket)),
        }
    }

    /// Removes the socket file, if there is one.
    pub fn remove(&self) {
        if let Listener::Unix(_, path) = self {
            // It may be gone with its directory.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Source for Listener {
    fn register(&mut self, registry: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        match self {
            Listener::Tcp(listener) => listener.register(registry, token, interest),
            Listener::Unix(listener, _) => listener.register(registry, token, interest),
        }
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        match self {
            Listener::Tcp(listener) => listener.reregister(registry, token, interest),
            Listener::Unix(listener, _) => listener.reregister(registry, token, interest),
        }
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Listener::Tcp(listener) => listener.deregister(registry),
            Listener::Unix(listener, _) => listener.deregister(registry),
        }
    }
}

/// An accepted connection.
pub enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Who is at the other end, for people.
    pub fn peer(&self) -> String {
        match self {
            Socket::Tcp(socket) => socket.peer_addr().map_or_else(|_| "nowhere".to_owned(), |peer| peer.to_string()),
            Socket::Unix(_) => "this machine".to_owned(),
        }
    }

    /// The host at the other end, as this machine calls it.
    pub fn host(&self) -> IpAddr {
        let peer = match self {
            Socket::Tcp(socket) => socket.peer_addr().ok(),
            Socket::Unix(_) => None,
        };
        peer.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |peer| peer.ip())
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => socket.read(buffer),
            Socket::Unix(socket) => socket.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => socket.write(bytes),
            Socket::Unix(socket) => socket.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Source for Socket {
    fn register(&mut self, registry: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        match self {
            Socket::Tcp(socket) => socket.register(registry, token, interest),
            Socket::Unix(socket) => socket.register(registry, token, interest),
        }
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        match self {
            Socket::Tcp(socket) => socket.reregister(registry, token, interest),
            Socket::Unix(socket) => socket.reregister(registry, token, interest),
        }
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Socket::Tcp(socket) => socket.deregister(registry),
            Socket::Unix(socket) => socket.deregister(registry),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::is_control_watched;

    #[test]
    fn a_member_whose_machine_vanished_does_not_stay() {
        let listener = Listener::bind(&"127.0.0.1:0".parse().expect("an address")).expect("a port");
        let Listener::Tcp(bound) = &listener else { unreachable!("it is one of TCP") };
        let address = bound.local_addr().expect("it listens");
        let _member = std::net::TcpStream::connect(address).expect("somebody listens");
        let accepted = loop {
            match listener.accept() {
                Ok(socket) => break socket,
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        };
        let Socket::Tcp(accepted) = accepted else { unreachable!("it is one of TCP") };
        assert!(is_control_watched(&accepted));
    }

    #[test]
    fn a_file_at_the_path_of_the_control_socket_is_left_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("notes");
        std::fs::write(&path, "mine").expect("written");
        let error = Listener::bind(&Address::Unix(path.clone())).err().expect("it is no socket");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert_eq!(std::fs::read(&path).expect("it is there"), b"mine");
    }
}
