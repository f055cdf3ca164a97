//! One type for TCP and Unix sockets.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use mio::event::Source;
use mio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use mio::{Interest, Registry, Token};

use super::silence::OtherEnd;
use crate::config::Address;

/// Milliseconds between two attempts of TCP to send what nobody confirmed, at most. By itself TCP doubles them, and
/// tries again as long after a cut as the cut took. The least that the system takes.
const RESEND_MS_MAX: libc::c_int = 1_000;
/// The option's number, which the C library does not name yet; since Linux 6.15.
const TCP_RTO_MAX_MS: libc::c_int = 44;

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
    /// Begins to connect with another role; failure may show only when the stream is used.
    ///
    /// # Errors
    /// What the system says at once.
    pub fn connect(address: &Address) -> io::Result<Self> {
        match address {
            Address::Tcp(address) => {
                let stream = TcpStream::connect(*address)?;
                // Not connected yet on some systems: the option is set again by the first use if this fails.
                let _ = stream.set_nodelay(true);
                resend_steadily(&stream);
                spare_pacing(&stream, *address);
                OtherEnd::Role.watch(&stream);
                Ok(Stream::Tcp(stream))
            }
            Address::Unix(path) => UnixStream::connect(path).map(Stream::Unix),
        }
    }

    /// The connection breaks when nobody confirms for so long what was sent on it, or that it was begun.
    ///
    /// # Errors
    /// What the system says.
    pub fn break_after(&self, milliseconds: u32) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => Ok(rustix::net::sockopt::set_tcp_user_timeout(stream, milliseconds)?),
            // Within one machine nothing is lost on the way.
            Stream::Unix(_) => Ok(()),
        }
    }

    /// Address of the other end, for people.
    pub fn peer(&self) -> String {
        match self {
            Stream::Tcp(stream) => stream.peer_addr().map_or_else(|_| "tcp:?".into(), |peer| format!("tcp:{peer}")),
            Stream::Unix(_) => "unix:".into(),
        }
    }

    /// The address at the other end. `None`: it is on this machine, or gone.
    pub fn peer_address(&self) -> Option<SocketAddr> {
        match self {
            Stream::Tcp(stream) => stream.peer_addr().ok(),
            Stream::Unix(_) => None,
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
            Address::Unix(path) => bind_unix(path).map(|listener| Listener::Unix(listener, path.clone())),
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

    /// The next of those who are awaited here.
    ///
    /// # Errors
    /// `WouldBlock` when nobody waits.
    pub fn accept(&self, who: OtherEnd) -> io::Result<Stream> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, peer) = listener.accept()?;
                stream.set_nodelay(true)?;
                resend_steadily(&stream);
                spare_pacing(&stream, peer);
                who.watch(&stream);
                Ok(Stream::Tcp(stream))
            }
            Listener::Unix(listener, _) => listener.accept().map(|(stream, _)| Stream::Unix(stream)),
        }
    }
}

/// Listens at a path. A socket that surely nobody listens on any more is replaced, anything else that is there stays.
///
/// # Errors
/// When something is there, or what the system says.
fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    let taken = |why| Err(io::Error::new(ErrorKind::AddrInUse, why));
    match std::fs::symlink_metadata(path) {
        Ok(there) if !there.file_type().is_socket() => return taken("there is something that is no socket"),
        // It waits for nobody: one that stands still takes connections until its queue is full.
        Ok(_) => match UnixStream::connect(path) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => std::fs::remove_file(path)?,
            Err(error) if error.kind() != ErrorKind::WouldBlock => {} // nobody knows whether somebody listens
            _ => return taken("another process listens there"),
        },
        Err(_) => {}
    }
    UnixListener::bind(path)
}

/// When the way is there again after a cut, what was lost on it goes soon. Where it cannot be set, the system's own
/// stays.
fn resend_steadily(stream: &TcpStream) {
    let value = RESEND_MS_MAX;
    let bytes = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the descriptor is open as long as `stream` lives, and the system reads `bytes` bytes of `value`.
    unsafe {
        let value = (&raw const value).cast();
        libc::setsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, TCP_RTO_MAX_MS, value, bytes);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// `None`: the system does not know the option.
    fn resend_ms_max(stream: &TcpStream) -> Option<libc::c_int> {
        let (mut value, mut bytes) = (0, size_of::<libc::c_int>() as libc::socklen_t);
        // SAFETY: the descriptor is open, and the system writes at most `bytes` bytes to `value`.
        let failed = unsafe {
            let value = (&raw mut value).cast();
            libc::getsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, TCP_RTO_MAX_MS, value, &raw mut bytes)
        };
        (failed == 0).then_some(value)
    }

    /// Whoever listens there may stand still, with as many in its queue as that takes.
    #[test]
    fn a_path_on_which_somebody_listens_is_taken_however_many_wait_there() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("socket");
        let there = std::os::unix::net::UnixListener::bind(&path).expect("a free path");
        rustix::net::listen(&there, 1).expect("it listens");
        for is_full in [false, true] {
            let mut in_queue = Vec::new();
            while is_full && let Ok(stream) = UnixStream::connect(&path) {
                in_queue.push(stream);
            }
            assert_eq!(in_queue.is_empty(), !is_full);
            let error = bind_unix(&path).expect_err("it is taken");
            assert_eq!(
                (error.kind(), error.to_string()),
                (ErrorKind::AddrInUse, "another process listens there".into())
            );
        }
        drop(there);
        bind_unix(&path).expect("nobody listens any more");
    }

    /// Both ends of a connection, once it is accepted as from there.
    fn connection(who: OtherEnd) -> [TcpStream; 2] {
        let listener = Listener::bind(&"127.0.0.1:0".parse().expect("an address")).expect("a port");
        let asker = Stream::connect(&listener.address().expect("it listens")).expect("somebody listens");
        asker.break_after(1_500).expect("a socket takes it");
        let answerer = loop {
            match listener.accept(who) {
                Ok(stream) => break stream,
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        };
        [asker, answerer].map(|stream| match stream {
            Stream::Tcp(stream) => stream,
            Stream::Unix(_) => unreachable!("it is one of TCP"),
        })
    }

    /// Says nothing of resending on a system before Linux 6.15, which cannot be told.
    #[test]
    fn both_ends_of_a_connection_resend_steadily() {
        let ends = connection(OtherEnd::Role);
        for stream in &ends {
            match resend_ms_max(stream) {
                Some(limit) => assert_eq!(limit, RESEND_MS_MAX),
                None => eprintln!("skipped: this system does not know the limit of resending"),
            }
        }
        assert_eq!(rustix::net::sockopt::tcp_user_timeout(&ends[0]).expect("a socket tells"), 1_500);
    }

    #[test]
    fn a_file_at_the_path_of_a_socket_is_left_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("notes");
        std::fs::write(&path, "mine").expect("written");
        let error = Listener::bind(&Address::Unix(path.clone())).expect_err("it is no socket");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert_eq!(std::fs::read(&path).expect("it is there"), b"mine");
    }

    #[test]
    fn only_a_socket_that_nobody_listens_on_is_replaced() {
        let dir = tempfile::tempdir().expect("a directory");
        let address = Address::Unix(dir.path().join("a.sock"));
        let Address::Unix(path) = &address else { unreachable!("it is one") };
        drop(std::os::unix::net::UnixListener::bind(path).expect("a free path"));
        let listener = Listener::bind(&address).expect("nobody listens any more");
        let error = Listener::bind(&address).expect_err("somebody listens");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        drop(listener);
        assert!(!path.exists());
    }

    /// What it does not take keeps the system from asking whether it is there.
    #[test]
    fn a_connection_whose_asker_takes_no_answers_does_not_stay() {
        let [_asker, answerer] = connection(OtherEnd::Asker);
        assert_eq!(rustix::net::sockopt::tcp_user_timeout(&answerer).expect("a socket tells"), 30_000);
    }

    #[test]
    fn a_connection_whose_other_end_vanished_does_not_stay() {
        for who in [OtherEnd::Client, OtherEnd::Role, OtherEnd::Asker, OtherEnd::Control] {
            let [asker, answerer] = connection(who);
            assert!(OtherEnd::Role.is_watched(&asker), "roles connect with roles");
            assert!(who.is_watched(&answerer), "{who:?}");
        }
    }
}
