//! One connection of the load generator: a non-blocking socket, its two buffers, the requests that wait for replies.
//!
//! Must not know: what is asked or whether an answer is right.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};

use crate::codec::{Codec, Expect, Found, Reply};
use crate::engine::Pending;
use crate::limits::{READ_BYTES, REPLY_BYTES_MAX};
use crate::login::check_welcome;

/// Where the server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Waits until `retry_ns`.
    Down {
        retry_ns: u64,
    },
    Connecting,
    /// It is to be welcomed.
    Greeting,
    Up,
}

pub struct Connection {
    pub state: State,
    /// When it was last connected to.
    pub began_ns: u64,
    /// Requests sent and not yet answered, oldest first.
    pub queue: VecDeque<Pending>,
    /// Requests not yet given to the socket.
    pub output: Vec<u8>,
    /// What is said before everything else; empty: nothing.
    greeting: Arc<[u8]>,
    stream: Option<Stream>,
    written: usize,
    input: Vec<u8>,
    /// Unparsed bytes are `input[start..end]`.
    start: usize,
    end: usize,
}

/// The plainest of the kernel's congestion controls; every Linux has it.
const LOOPBACK_CONGESTION_CONTROL: &str = "reno";

/// Why a connection ended, in words for the report.
pub type Lost = String;

impl Connection {
    pub fn new(greeting: Arc<[u8]>) -> Self {
        Connection {
            greeting,
            state: State::Down { retry_ns: 0 },
            began_ns: 0,
            queue: VecDeque::new(),
            output: Vec::new(),
            stream: None,
            written: 0,
            input: Vec::new(),
            start: 0,
            end: 0,
        }
    }

    /// Starts to connect; the socket turns writable when it is done.
    ///
    /// # Errors
    /// The system refuses the socket or the address at once.
    pub fn connect(&mut self, target: &Target, registry: &Registry, token: Token) -> io::Result<()> {
        let mut stream = match target {
            Target::Tcp(address) => {
                let stream = TcpStream::connect(*address)?;
                if address.ip().is_loopback() {
                    // A path without congestion needs none of the pacing and bookkeeping of newer controls, which cost
                    // CPU that the servers on this machine need. Where it cannot be set, the system's own stays.
                    let _ = rustix::net::sockopt::set_tcp_congestion(&stream, LOOPBACK_CONGESTION_CONTROL);
                }
                Stream::Tcp(stream)
            }
            Target::Unix(path) => Stream::Unix(UnixStream::connect(path)?),
        };
        registry.register(stream.source(), token, Interest::READABLE | Interest::WRITABLE)?;
        self.stream = Some(stream);
        self.state = State::Connecting;
        Ok(())
    }

    /// Called when a socket that is not up yet reports something. `Ok(false)`: still on its way.
    ///
    /// # Errors
    /// The connection, or what was said first, was refused; or it failed.
    pub fn begin(&mut self) -> anyhow::Result<bool> {
        if self.state == State::Connecting && self.is_connected()? {
            self.output.extend_from_slice(&self.greeting);
            self.state = if self.greeting.is_empty() { State::Up } else { State::Greeting };
        }
        if self.state == State::Greeting {
            self.flush().map_err(anyhow::Error::msg)?;
            while self.receive().map_err(anyhow::Error::msg)? {}
            self.take_welcome()?;
        }
        Ok(self.state == State::Up)
    }

    fn take_welcome(&mut self) -> anyhow::Result<()> {
        let heard = &self.input[self.start..self.end];
        if let Some(length) = memchr::memmem::find(heard, b"\r\n") {
            check_welcome(&heard[..length])?;
            self.start += length + 2;
            self.state = State::Up;
        }
        Ok(())
    }

    fn is_connected(&self) -> io::Result<bool> {
        match self.stream.as_ref() {
            Some(Stream::Tcp(stream)) => {
                if let Some(error) = stream.take_error()? {
                    return Err(error);
                }
                match stream.peer_addr() {
                    Ok(_) => stream.set_nodelay(true).map(|()| true),
                    Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
                    Err(error) => Err(error),
                }
            }
            Some(Stream::Unix(stream)) => stream.take_error()?.map_or(Ok(true), Err),
            None => Ok(false),
        }
    }

    /// Closes the socket and gives back the requests that will never be answered.
    pub fn close(&mut self, retry_ns: u64) -> VecDeque<Pending> {
        self.state = State::Down { retry_ns };
        // Closing the descriptor takes it out of epoll.
        self.stream = None;
        self.output.clear();
        (self.written, self.start, self.end) = (0, 0, 0);
        std::mem::take(&mut self.queue)
    }

    /// Writes as much as the socket takes.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn flush(&mut self) -> Result<(), Lost> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        while self.written < self.output.len() {
            match stream.write(&self.output[self.written..]) {
                Ok(0) => return Err("connection closed by the server".to_owned()),
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(format!("connection lost: {error}")),
            }
        }
        self.output.clear();
        self.written = 0;
        Ok(())
    }

    /// Reads once. `Ok(true)`: there may be more.
    ///
    /// # Errors
    /// The connection is lost, or a reply is longer than a reply may be.
    pub fn receive(&mut self) -> Result<bool, Lost> {
        self.make_room()?;
        let Some(stream) = &mut self.stream else { return Ok(false) };
        let room = self.input.len() - self.end;
        match stream.read(&mut self.input[self.end..]) {
            Ok(0) => Err("connection closed by the server".to_owned()),
            Ok(count) => {
                self.end += count;
                // A short read of a stream has emptied it (epoll(7)), which saves the read that would say so.
                Ok(count == room)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
            Err(error) => Err(format!("connection lost: {error}")),
        }
    }

    fn make_room(&mut self) -> Result<(), Lost> {
        const FIRST_BYTES: usize = READ_BYTES / 16;
        if self.start > 0 {
            self.input.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.input.len() {
            if self.end >= REPLY_BYTES_MAX {
                return Err(format!("a reply is longer than {REPLY_BYTES_MAX} bytes"));
            }
            self.input.resize((self.end * 2).clamp(FIRST_BYTES, REPLY_BYTES_MAX), 0);
        }
        Ok(())
    }

    /// The next whole reply and its bytes, and the request that it answers.
    ///
    /// # Errors
    /// The bytes are no reply, or nothing was asked.
    pub fn next_reply(&mut self, codec: &Codec, found: &mut Found) -> Result<Option<Answer>, Lost> {
        if self.start == self.end {
            return Ok(None);
        }
        let expect: Expect = match self.queue.front() {
            Some(pending) => pending.expect,
            None => return Err("bytes that answer no request".to_owned()),
        };
        let parsed = codec.parse(expect, &self.input[self.start..self.end], found);
        let Some((reply, length)) = parsed.map_err(|error| format!("protocol error: {error}"))? else {
            return Ok(None);
        };
        let pending = self.queue.pop_front().expect("looked at above");
        let bytes = self.start..self.start + length;
        self.start += length;
        Ok(Some(Answer { pending, reply, bytes }))
    }

    /// The bytes of an answer beside the output buffer, to which its follow-up is appended.
    pub fn bytes_and_output(&mut self, answer: std::ops::Range<usize>) -> (&[u8], &mut Vec<u8>) {
        (&self.input[answer], &mut self.output)
    }
}

/// A reply with the request that it answers; `bytes` is its place in the input buffer.
pub struct Answer {
    pub pending: Pending,
    pub reply: Reply,
    pub bytes: std::ops::Range<usize>,
}

impl Stream {
    fn source(&mut self) -> &mut dyn Source {
        match self {
            Stream::Tcp(stream) => stream,
            Stream::Unix(stream) => stream,
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }
}
