//! One control connection of the coordinator, non-blocking.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr};

use shorttail_wire::control::{CONTROL_BODY_BYTES_MAX, ControlFrameError, ToCoordinator, next_request};

use crate::net::{self, ReadEnd, Stream};

/// Bytes asked of the socket at once.
const READ_BYTES: usize = 16 << 10;
/// Bytes taken of one connection in a turn; others wait meanwhile. The largest message there is, and some statuses.
const TURN_BYTES_MAX: usize = if cfg!(test) { 2 * READ_BYTES } else { 1 << 20 };
/// Bytes that may wait for a member that does not read; beyond, its connection is closed and it will come again.
const UNSENT_BYTES_MAX: usize = 4 * CONTROL_BODY_BYTES_MAX;
/// Bytes of a first message: it says who somebody is, or asks how the cluster is.
pub const FIRST_BYTES_MAX: usize = 64 << 10;

/// Why nothing more is read from a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WhyClosed {
    /// It is at its end, or broken.
    Closed,
    /// It brings more than a first message, and has said nothing yet.
    Talkative,
    /// What it brings is no message of this version.
    Foreign(ControlFrameError),
}

/// A connection with what has arrived and what has not left yet.
pub struct Connection {
    socket: Stream,
    received: Vec<u8>,
    unsent: Vec<u8>,
    /// It brought a message.
    pub is_heard: bool,
    /// It was told that it is let in.
    pub is_welcome: bool,
    /// Where it comes from, and what it last registered as, for people.
    pub from: String,
    pub member: String,
    /// The host at the other end, as this machine calls it.
    pub host: IpAddr,
}

impl Connection {
    pub fn new(socket: Stream) -> Self {
        let peer = socket.peer_address();
        Connection {
            socket,
            received: Vec::new(),
            unsent: Vec::new(),
            is_heard: false,
            is_welcome: false,
            from: peer.map_or_else(|| "this machine".to_owned(), |peer| peer.to_string()),
            member: "a member".to_owned(),
            host: peer.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |peer| peer.ip()),
        }
    }

    /// Takes what is ready, up to the maximum of a turn; there may be more?
    ///
    /// # Errors
    /// When the connection is at its end or its bytes are no messages; complete ones before that are in `messages`.
    pub fn read(&mut self, messages: &mut Vec<ToCoordinator>) -> Result<bool, WhyClosed> {
        let mut taken = 0;
        while taken < TURN_BYTES_MAX {
            let length = self.received.len();
            self.received.resize(length + READ_BYTES, 0);
            let read = net::read_once(&mut self.socket, &mut self.received[length..]);
            self.received.truncate(length + read.unwrap_or(0));
            match read {
                Ok(count) => {
                    taken += count;
                    self.take_messages(messages).map_err(WhyClosed::Foreign)?;
                    if !self.is_heard && self.received.len() > FIRST_BYTES_MAX {
                        return Err(WhyClosed::Talkative);
                    }
                }
                Err(ReadEnd::Drained) => return Ok(false),
                Err(ReadEnd::Closed | ReadEnd::Paused) => return Err(WhyClosed::Closed),
            }
        }
        Ok(true)
    }

    /// What is left is less than a message, whose length is bounded.
    fn take_messages(&mut self, messages: &mut Vec<ToCoordinator>) -> Result<(), ControlFrameError> {
        let mut start = 0;
        while let Some((message, taken)) = next_request(&self.received[start..])? {
            messages.push(message);
            self.is_heard = true;
            start += taken;
        }
        self.received.drain(..start);
        Ok(())
    }

    /// Sends a message, or keeps what does not fit into the socket now.
    ///
    /// # Errors
    /// When the connection is broken, or its peer reads too little.
    pub fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        self.unsent.extend_from_slice(frame);
        self.flush()?;
        if self.unsent.len() > UNSENT_BYTES_MAX {
            return Err(ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    pub fn flush(&mut self) -> io::Result<()> {
        net::send(&mut self.socket, &mut self.unsent)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use shorttail_wire::control::{FromCoordinator, Refusal, put_message};

    use super::*;

    #[test]
    fn of_who_has_said_nothing_yet_no_more_than_a_first_message_is_kept() {
        let (here, mut there) = mio::net::UnixStream::pair().expect("sockets");
        let mut connection = Connection::new(Stream::Unix(here));
        let mut long = Vec::new();
        let refusal = FromCoordinator::Refused(Refusal::Malformed("x".repeat(2 * FIRST_BYTES_MAX)));
        put_message(&mut long, &refusal).expect("as long as it may be");
        let mut messages = Vec::new();
        there.write_all(&long[..FIRST_BYTES_MAX]).expect("there is room");
        while connection.read(&mut messages).expect("it may be one") {}
        there.write_all(&long[FIRST_BYTES_MAX..=FIRST_BYTES_MAX]).expect("there is room");
        assert_eq!(connection.read(&mut messages), Err(WhyClosed::Talkative));
    }

    #[test]
    fn a_member_that_says_much_is_not_heard_to_the_end_at_once() {
        let (here, mut there) = mio::net::UnixStream::pair().expect("sockets");
        let mut connection = Connection::new(Stream::Unix(here));
        let mut bytes = Vec::new();
        let mut said = 0;
        while bytes.len() <= 2 * TURN_BYTES_MAX {
            put_message(&mut bytes, &ToCoordinator::ReadStatus).expect("it is short");
            said += 1;
        }
        there.write_all(&bytes).expect("there is room");
        let mut messages = Vec::new();
        assert_eq!(connection.read(&mut messages), Ok(true));
        assert!(messages.len() < said);
        while connection.read(&mut messages).expect("it stands") {}
        assert_eq!(messages.len(), said);
    }
}
