//! One type for TCP and Unix sockets.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use mio::event::Source;
use mio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use mio::{Interest, Registry, Token};

use crate::config::Address;

#[derive(Debug)]
pub enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

#[derive(Debug)]
pub enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Stream {
    /// Begins to connect; failure may show only when the stream is used.
    ///
    /// # Errors
    /// What the system says at once.
    pub fn connect(address: &Address) -> io::Result<Self> {
        match address {
            Address::Tcp(address) => {
                let stream = TcpStream::connect(*address)?;
                // Not connected yet on some systems: the option is set again by the first use if this fails.
                let _ = stream.set_nodelay(true);
                spare_pacing(&stream, *address);
                Ok(Stream::Tcp(stream))
            }
            Address::Unix(path) => UnixStream::connect(path).map(Stream::Unix),
        }
    }

    /// Address of the other end, for people.
    pub fn peer(&self) -> String {
        match self {
            Stream::Tcp(stream) => stream.peer_addr().map_or_else(|_| "tcp:?".into(), |peer| format!("tcp:{peer}")),
            Stream::Unix(_) => "unix:".into(),
        }
    }

    pub fn local(&self) -> String {
        match self {
            Stream::Tcp(stream) => stream.local_addr().map_or_else(|_| "?".into(), |local| local.to_string()),
            Stream::Unix(stream) => {
                let path = stream.local_addr().ok().and_then(|local| local.as_pathname().map(Path::to_owned));
                path.map_or_else(|| "unix".into(), |path| path.display().to_string())
            }
        }
    }
}

impl Listener {
    /// # Errors
    /// When the address is taken, or not to be had. A socket file that nobody listens on any more is replaced.
    pub fn bind(address: &Address) -> io::Result<Self> {
        match address {
            Address::Tcp(address) => TcpListener::bind(*address).map(Listener::Tcp),
            Address::Unix(path) => {
                if path.exists() && std::os::unix::net::UnixStream::connect(path).is_err() {
                    std::fs::remove_file(path)?;
                }
                UnixListener::bind(path).map(|listener| Listener::Unix(listener, path.clone()))
            }
        }
    }

    /// # Errors
    /// When the file's permissions cannot be set.
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        match self {
            Listener::Tcp(_) => Ok(()),
            Listener::Unix(_, path) => std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)),
        }
    }

    /// Where it really listens.
    ///
    /// # Errors
    /// What the system says.
    pub fn address(&self) -> io::Result<Address> {
        match self {
            Listener::Tcp(listener) => listener.local_addr().map(Address::Tcp),
            Listener::Unix(_, path) => Ok(Address::Unix(path.clone())),
        }
    }

    pub fn socket_address(&self) -> Option<SocketAddr> {
        match self {
            Listener::Tcp(listener) => listener.local_addr().ok(),
            Listener::Unix(..) => None,
        }
    }

    /// # Errors
    /// `WouldBlock` when nobody waits.
    pub fn accept(&self) -> io::Result<Stream> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, peer) = listener.accept()?;
                stream.set_nodelay(true)?;
                spare_pacing(&stream, peer);
                Ok(Stream::Tcp(stream))
            }
            Listener::Unix(listener, _) => listener.accept().map(|(stream, _)| Stream::Unix(stream)),
        }
    }
}

/// A connection within one machine meets no congestion: the pacing and bookkeeping of the newer congestion controls
/// only cost CPU there. Where it cannot be set, the system's own stays.
fn spare_pacing(stream: &TcpStream, peer: SocketAddr) {
    if peer.ip().is_loopback() {
        let _ = rustix::net::sockopt::set_tcp_congestion(stream, "reno");
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = self {
            // The file may be gone already; nothing else can be done about it here.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(bytes),
            Stream::Unix(stream) => stream.read(bytes),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

macro_rules! source {
    ($type:ty, $($variant:pat => $inner:ident),+) => {
        impl Source for $type {
            fn register(&mut self, registry: &Registry, token: Token, interest: Interest) -> io::Result<()> {
                match self { $($variant => $inner.register(registry, token, interest)),+ }
            }

            fn reregister(&mut self, registry: &Registry, token: Token, interest: Interest) -> io::Result<()> {
                match self { $($variant => $inner.reregister(registry, token, interest)),+ }
            }

            fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
                match self { $($variant => $inner.deregister(registry)),+ }
            }
        }
    };
}

source!(Stream, Stream::Tcp(inner) => inner, Stream::Unix(inner) => inner);
source!(Listener, Listener::Tcp(inner) => inner, Listener::Unix(inner, _) => inner);
