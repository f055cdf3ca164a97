//! A blocking control connection over TCP or a Unix socket, with timeouts on every operation.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde::Serialize;
use serde::de::DeserializeOwned;
use shorttail_wire::control::{next_message, put_message};

use crate::config::{Address, NamedAddress};
use crate::net::OtherEnd;

/// Until a connection stands, and until a message that is being written has left.
pub const IO_TIMEOUT: Duration = Duration::from_secs(2);
/// Bytes asked of the socket at once.
const READ_BYTES: usize = 16 << 10;

/// The least time for which it is listened: a socket without any waits for ever.
const LOOK: Duration = Duration::from_millis(1);

enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A connection to the coordinator and what has arrived on it so far.
pub struct ControlStream {
    socket: Socket,
    received: Vec<u8>,
}

/// Ends a connection from another thread.
pub struct Closer(Socket);

impl Closer {
    pub fn close(&self) {
        // An error means that it is closed already.
        let _ = match &self.0 {
            Socket::Tcp(socket) => socket.shutdown(Shutdown::Both),
            Socket::Unix(socket) => socket.shutdown(Shutdown::Both),
        };
    }
}

impl ControlStream {
    pub fn connect(address: &Address) -> io::Result<Self> {
        ControlStream::connect_within(address, IO_TIMEOUT)
    }

    /// Connects where the coordinator was last, else at the first other address of its name where somebody listens; it
    /// is noted. If nobody there let the member in, the others have their turn first.
    pub fn connect_at(place: &mut NamedAddress, was_in_vain: bool) -> io::Result<Self> {
        let last = place.address.clone();
        let mut addresses = place.others();
        addresses.insert(if was_in_vain { addresses.len() } else { 0 }, last);
        let mut result = Err(ErrorKind::NotConnected.into());
        for address in addresses {
            result = ControlStream::connect(&address);
            if result.is_ok() {
                place.address = address;
                break;
            }
        }
        result
    }

    pub fn connect_within(address: &Address, timeout: Duration) -> io::Result<Self> {
        let socket = match address {
            Address::Tcp(address) => {
                let socket = TcpStream::connect_timeout(address, timeout)?;
                socket.set_nodelay(true)?;
                socket.set_write_timeout(Some(IO_TIMEOUT))?;
                OtherEnd::Control.watch(&socket);
                Socket::Tcp(socket)
            }
            Address::Unix(path) => {
                let socket = connect_unix(path, timeout)?;
                socket.set_write_timeout(Some(IO_TIMEOUT))?;
                Socket::Unix(socket)
            }
        };
        Ok(ControlStream { socket, received: Vec::new() })
    }

    pub fn closer(&self) -> io::Result<Closer> {
        Ok(Closer(match &self.socket {
            Socket::Tcp(socket) => Socket::Tcp(socket.try_clone()?),
            Socket::Unix(socket) => Socket::Unix(socket.try_clone()?),
        }))
    }

    /// # Errors
    /// When the connection is broken, or the message is longer than any.
    pub fn send<M: Serialize>(&mut self, message: &M) -> io::Result<()> {
        let mut bytes = Vec::new();
        put_message(&mut bytes, message).map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))?;
        match &mut self.socket {
            Socket::Tcp(socket) => socket.write_all(&bytes),
            Socket::Unix(socket) => socket.write_all(&bytes),
        }
    }

    /// The next message, waited for as long as one operation may take.
    pub fn receive<M: DeserializeOwned>(&mut self) -> io::Result<M> {
        let message = self.receive_until(Instant::now() + IO_TIMEOUT)?;
        message.ok_or_else(|| io::Error::new(ErrorKind::TimedOut, "no answer"))
    }

    /// The next message, or `None` at `deadline`. What has arrived is looked at even if that is past: who is always
    /// late would hear nothing.
    pub fn receive_until<M: DeserializeOwned>(&mut self, deadline: Instant) -> io::Result<Option<M>> {
        let mut has_looked = false;
        loop {
            let next = next_message(&self.received);
            if let Some((message, taken)) = next.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))? {
                self.received.drain(..taken);
                return Ok(Some(message));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() && has_looked {
                return Ok(None);
            }
            has_looked = true;
            match self.read_some(left.max(LOOK)) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if is_pause(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn read_some(&mut self, timeout: Duration) -> io::Result<usize> {
        let length = self.received.len();
        self.received.resize(length + READ_BYTES, 0);
        let result = match &mut self.socket {
            Socket::Tcp(socket) => {
                socket.set_read_timeout(Some(timeout)).and_then(|()| socket.read(&mut self.received[length..]))
            }
            Socket::Unix(socket) => {
                socket.set_read_timeout(Some(timeout)).and_then(|()| socket.read(&mut self.received[length..]))
            }
        };
        self.received.truncate(length + *result.as_ref().unwrap_or(&0));
        result
    }
}

/// One that stands still takes connections until its queue is full: whoever comes then would wait for ever.
fn connect_unix(path: &Path, timeout: Duration) -> io::Result<UnixStream> {
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(timeout))?;
    net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket.into())
}

fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use shorttail_wire::control::{CONTROL_BODY_BYTES_MAX, ChaosStatus, FromCoordinator, ToCoordinator};

    use super::*;
    use crate::config::with_resolver;

    #[test]
    fn what_has_arrived_is_heard_by_who_came_too_late_for_it() {
        let (here, mut there) = UnixStream::pair().expect("sockets");
        let mut stream = ControlStream { socket: Socket::Unix(here), received: Vec::new() };
        let mut bytes = Vec::new();
        put_message(&mut bytes, &FromCoordinator::Beat).expect("it is short");
        there.write_all(&bytes).expect("there is room");
        let late = Instant::now();
        assert_eq!(stream.receive_until(late).expect("it stands"), Some(FromCoordinator::Beat));
        assert_eq!(stream.receive_until::<FromCoordinator>(late).expect("it stands"), None);
    }

    #[test]
    fn a_message_that_is_longer_than_any_is_told_from_a_broken_connection() {
        let (here, _there) = UnixStream::pair().expect("sockets");
        let mut stream = ControlStream { socket: Socket::Unix(here), received: Vec::new() };
        let outcome = Ok("x".repeat(CONTROL_BODY_BYTES_MAX));
        let long = ToCoordinator::Obeyed { number: 1, outcome, chaos: ChaosStatus::default() };
        let error = stream.send(&long).expect_err("too long");
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("is longer than any"), "{error}");
    }

    #[test]
    fn a_coordinator_on_this_machine_that_stands_still_is_not_waited_for() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("control.sock");
        let listener = std::os::unix::net::UnixListener::bind(&path).expect("a free path");
        net::listen(&listener, 1).expect("it listens");
        let connect = || ControlStream::connect_within(&Address::Unix(path.clone()), Duration::from_millis(20));
        let mut in_queue = Vec::new();
        let error = loop {
            match connect() {
                Ok(stream) => in_queue.push(stream),
                Err(error) => break error,
            }
        };
        assert!(is_pause(&error) && !in_queue.is_empty(), "{error}");
    }

    #[test]
    fn a_coordinator_is_looked_for_at_all_addresses_of_its_name() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let there = Address::Tcp(listener.local_addr().expect("it listens"));
        let name = format!("coordinator:{}", listener.local_addr().expect("it listens").port());
        // Nobody listens at the first one.
        let answers = |name: &str| {
            let port = name.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).expect("a port");
            Ok(vec![([127, 0, 0, 2], port).into(), ([127, 0, 0, 1], port).into()])
        };
        with_resolver(answers, || {
            let mut place: NamedAddress = name.parse().expect("it is known");
            assert_ne!(place.address, there);
            for was_in_vain in [false, true, true] {
                ControlStream::connect_at(&mut place, was_in_vain).expect("somebody listens");
                assert_eq!(place.address, there, "nobody else does");
            }
        });
    }

    #[test]
    fn a_coordinator_whose_machine_vanished_is_noticed() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it listens");
        let stream = ControlStream::connect(&Address::Tcp(address)).expect("somebody listens");
        let Socket::Tcp(socket) = stream.socket else { unreachable!("it is one of TCP") };
        assert!(OtherEnd::Control.is_watched(&socket));
    }
}
