//! A connection of the data path: what arrived but was not consumed, and writing with as few calls as possible.

use std::io::{self, Read, Write};

use mio::event::Event;
use mio::{Interest, Registry, Token};

use super::socket::Stream;

/// How reading ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadEnd {
    /// Nothing more for now.
    Drained,
    /// Stopped although more may be there.
    Paused,
    /// The other end closed, or the connection broke.
    Closed,
}

#[derive(Debug)]
pub struct Link {
    stream: Stream,
    token: Token,
    /// Bytes that were read and not consumed.
    pub input: Vec<u8>,
    /// Bytes at the front of a large output that have left.
    sent: usize,
    is_full: bool,
    /// The other end sends nothing more than what has arrived.
    has_ended: bool,
}

/// Where large messages arrive, and lie until they are whole.
#[derive(Debug, Default)]
pub struct Intake {
    bytes: Vec<u8>,
    from: usize,
    to: usize,
}

/// Bytes of an intake: some chunks.
const INTAKE_BYTES: usize = 256 << 10;

impl Intake {
    /// At least half of its bytes, however much of a message is there.
    fn make_room(&mut self) -> &mut [u8] {
        if self.bytes.len() - self.to < INTAKE_BYTES / 2 {
            self.bytes.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
            let wanted = (self.to + INTAKE_BYTES / 2).next_multiple_of(INTAKE_BYTES);
            if self.bytes.len() < wanted {
                self.bytes.resize(wanted, 0);
            }
        }
        &mut self.bytes[self.to..]
    }

    /// Gives its memory back, if nothing lies there.
    pub fn trim(&mut self) {
        if self.from == self.to {
            *self = Intake::default();
        }
    }
}

/// Capacity that an empty buffer may keep.
const KEPT_BYTES: usize = 64 << 10;

impl Link {
    /// Registers the stream for reading.
    ///
    /// # Errors
    /// What the system says.
    pub fn new(mut stream: Stream, token: Token, registry: &Registry) -> io::Result<Self> {
        registry.register(&mut stream, token, Interest::READABLE)?;
        Ok(Link { stream, token, input: Vec::new(), sent: 0, is_full: false, has_ended: false })
    }

    /// To be told before what it announces is read: an end that came with the last bytes has no event of its own.
    pub fn note(&mut self, event: &Event) {
        self.has_ended |= event.is_read_closed();
    }

    /// One read into `scratch`, and what `consume` leaves of it (behind what was left before) is kept.
    pub fn read(&mut self, scratch: &mut [u8], mut consume: impl FnMut(&[u8]) -> usize) -> ReadEnd {
        let count = match read_once(&mut self.stream, scratch) {
            Ok(count) => count,
            Err(end) => return end,
        };
        if self.input.is_empty() {
            let consumed = consume(&scratch[..count]);
            self.input.extend_from_slice(&scratch[consumed..count]);
        } else {
            self.input.extend_from_slice(&scratch[..count]);
            let consumed = consume(&self.input);
            self.drop_consumed(consumed);
        }
        self.end_of_read(count < scratch.len())
    }

    /// One read behind what `consume` left, without a copy: for large messages.
    pub fn read_large(&mut self, intake: &mut Intake, mut consume: impl FnMut(&[u8]) -> usize) -> ReadEnd {
        let room = intake.make_room();
        let wanted = room.len();
        let count = match read_once(&mut self.stream, room) {
            Ok(count) => count,
            Err(end) => return end,
        };
        intake.to += count;
        intake.from += consume(&intake.bytes[intake.from..intake.to]);
        self.end_of_read(count < wanted)
    }

    /// A short read means that the socket is empty; the next byte comes with an event of its own.
    fn end_of_read(&self, is_short: bool) -> ReadEnd {
        if is_short && !self.has_ended { ReadEnd::Drained } else { ReadEnd::Paused }
    }

    /// Sends as much as the socket takes; what is left waits for a writable event. Answers how much has left.
    ///
    /// # Errors
    /// When the connection is broken.
    pub fn send(&mut self, bytes: &[u8], registry: &Registry) -> io::Result<usize> {
        let (sent, result) = push(&mut self.stream, bytes);
        result?;
        self.note_full(sent < bytes.len(), registry)?;
        Ok(sent)
    }

    pub fn drop_consumed(&mut self, consumed: usize) {
        if consumed == self.input.len() {
            self.input.clear();
            self.input.shrink_to(KEPT_BYTES);
        } else {
            self.input.drain(..consumed);
            // Else what follows a long request would keep all of its memory.
            if self.input.len() < self.input.capacity() / 4 {
                self.input.shrink_to(KEPT_BYTES);
            }
        }
    }

    /// Sends as much of `output` as the socket takes; what is left waits for a writable event.
    ///
    /// # Errors
    /// When the connection is broken; what is left of `output` was not sent.
    pub fn write(&mut self, output: &mut Vec<u8>, registry: &Registry) -> io::Result<()> {
        send(&mut self.stream, output)?;
        self.note_full(!output.is_empty(), registry)
    }

    /// As [`Link::write`], for an output that may be long, always the same one: what has left of it may stay at its
    /// front, see [`Link::unsent_bytes`]. It is empty when all has left.
    ///
    /// # Errors
    /// When the connection is broken.
    pub fn write_large(&mut self, output: &mut Vec<u8>, registry: &Registry) -> io::Result<()> {
        let result = send_large(&mut self.stream, output, &mut self.sent);
        result?;
        self.note_full(!output.is_empty(), registry)
    }

    /// What of a large output has not left.
    pub fn unsent_bytes(&self, output: &[u8]) -> usize {
        output.len() - self.sent
    }

    fn note_full(&mut self, is_full: bool, registry: &Registry) -> io::Result<()> {
        if is_full != self.is_full {
            self.is_full = is_full;
            let interest = if is_full { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
            registry.reregister(&mut self.stream, self.token, interest)?;
        }
        Ok(())
    }

    /// Did the socket leave some of the last output?
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// The stream, to be used elsewhere.
    ///
    /// # Errors
    /// What the system says.
    pub fn into_stream(mut self, registry: &Registry) -> io::Result<(Stream, Vec<u8>)> {
        registry.deregister(&mut self.stream)?;
        Ok((self.stream, self.input))
    }

    pub fn close(&mut self, registry: &Registry) {
        // Closing the file descriptor removes it from the poll in any case.
        let _ = registry.deregister(&mut self.stream);
    }
}

/// What one read brings: something, or why there is nothing.
pub fn read_once(stream: &mut impl Read, room: &mut [u8]) -> Result<usize, ReadEnd> {
    loop {
        match stream.read(room) {
            Ok(0) => return Err(ReadEnd::Closed),
            Ok(count) => return Ok(count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(ReadEnd::Drained),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Err(ReadEnd::Closed),
        }
    }
}

/// Writes until the stream takes no more, or is broken; answers how much it took all the same.
fn push(stream: &mut impl Write, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut sent = 0;
    let result = loop {
        if sent == bytes.len() {
            break Ok(());
        }
        match stream.write(&bytes[sent..]) {
            Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => sent += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => break Err(error),
        }
    };
    (sent, result)
}

/// Moves bytes from the front of `output` into the stream, until one of them ends.
///
/// # Errors
/// When the stream is broken.
pub fn send(stream: &mut impl Write, output: &mut Vec<u8>) -> io::Result<()> {
    let (sent, result) = push(stream, output);
    // Also when the connection broke: what has left may have been done, and only the rest may go elsewhere.
    if sent < output.len() {
        output.drain(..sent);
    } else {
        output.clear();
        output.shrink_to(KEPT_BYTES);
    }
    result
}

/// As [`send`]; of the front of `output` so many bytes have left, which may stay there.
fn send_large(stream: &mut impl Write, output: &mut Vec<u8>, sent: &mut usize) -> io::Result<()> {
    let (count, result) = push(stream, &output[*sent..]);
    *sent += count;
    drop_sent(output, sent);
    result
}

/// Makes room in an output at whose front so many bytes have left. What is left is moved only if it is less than that:
/// of a large output no more in all than it has bytes.
pub fn drop_sent(output: &mut Vec<u8>, sent: &mut usize) {
    if *sent == output.len() {
        output.clear();
        output.shrink_to(KEPT_BYTES);
    } else if *sent > output.len() / 2 {
        output.drain(..*sent);
    } else {
        return;
    }
    *sent = 0;
}

#[cfg(test)]
mod tests {
    use mio::net::UnixStream;
    use mio::{Events, Poll};

    use super::*;

    /// Takes what its script says, call by call.
    struct Scripted(Vec<io::Result<usize>>);

    impl Write for Scripted {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.remove(0).map(|count| count.min(bytes.len()))
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_follows_a_long_request_does_not_keep_its_memory() {
        let (near, _far) = UnixStream::pair().expect("a pair of sockets");
        let poll = Poll::new().expect("a poll");
        let mut link = Link::new(Stream::Unix(near), Token(0), poll.registry()).expect("registered");
        link.input = [vec![0; 8 << 20], b"next".to_vec()].concat();
        link.drop_consumed(8 << 20);
        assert_eq!(link.input, b"next");
        assert!(link.input.capacity() <= KEPT_BYTES, "{}", link.input.capacity());
    }

    /// Bytes and the end behind them are there before anybody looks: one event tells of both.
    #[test]
    fn an_end_that_came_with_the_last_bytes_is_met() {
        for is_large in [false, true] {
            let (near, mut far) = UnixStream::pair().expect("a pair of sockets");
            let mut poll = Poll::new().expect("a poll");
            let mut link = Link::new(Stream::Unix(near), Token(0), poll.registry()).expect("registered");
            far.write_all(b"the last words").expect("sent");
            drop(far);
            let mut events = Events::with_capacity(4);
            poll.poll(&mut events, None).expect("an event");
            events.iter().for_each(|event| link.note(event));
            let (mut intake, mut scratch, mut heard) = (Intake::default(), [0; 64], Vec::new());
            let mut read = || {
                let take = |input: &[u8]| {
                    heard.extend_from_slice(input);
                    input.len()
                };
                if is_large { link.read_large(&mut intake, take) } else { link.read(&mut scratch, take) }
            };
            assert_eq!([read(), read()], [ReadEnd::Paused, ReadEnd::Closed], "nothing more would tell of the end");
            assert_eq!(heard, b"the last words");
        }
    }

    #[test]
    fn little_of_a_large_output_is_moved_however_slowly_it_leaves() {
        const OUTPUT_BYTES: usize = 16 << 20;
        const TAKEN_BYTES: usize = 64 << 10;
        let all: Vec<u8> = (0..OUTPUT_BYTES).map(|place| (place % 251) as u8).collect();
        let (mut output, mut sent) = (all.clone(), 0);
        let (mut heard, mut moved_bytes) = (Vec::new(), 0);
        while !output.is_empty() {
            let before = output.len();
            heard.extend_from_slice(&output[sent..before.min(sent + TAKEN_BYTES)]);
            let socket = &mut Scripted(vec![Ok(TAKEN_BYTES), Err(io::ErrorKind::WouldBlock.into())]);
            send_large(socket, &mut output, &mut sent).expect("it takes some");
            moved_bytes += if output.len() < before { output.len() } else { 0 };
        }
        assert!(heard == all && sent == 0);
        assert!(moved_bytes <= OUTPUT_BYTES, "{moved_bytes} bytes were moved");
    }

    #[test]
    fn what_is_put_behind_a_large_output_leaves_behind_it() {
        let (mut output, mut sent) = (b"abcdefgh".to_vec(), 0);
        let blocked = || Err(io::ErrorKind::WouldBlock.into());
        send_large(&mut Scripted(vec![Ok(3), blocked()]), &mut output, &mut sent).expect("it takes some");
        output.extend_from_slice(b"ij");
        assert_eq!(&output[sent..], b"defghij");
        let broken = Err(io::ErrorKind::BrokenPipe.into());
        send_large(&mut Scripted(vec![Ok(4), broken]), &mut output, &mut sent).expect_err("it is broken");
        assert_eq!(&output[sent..], b"hij", "what was taken before that has left");
        send_large(&mut Scripted(vec![Ok(9)]), &mut output, &mut sent).expect("it takes all");
        assert!(output.is_empty() && sent == 0);
    }

    #[test]
    fn what_is_left_was_not_sent_however_it_ends() {
        let broken = || Err(io::ErrorKind::BrokenPipe.into());
        type Script = Vec<io::Result<usize>>;
        let cases: [(Script, &[u8], bool); 5] = [
            (vec![Ok(4), Ok(9)], b"", true),
            (vec![Ok(4), Err(io::ErrorKind::WouldBlock.into())], b"efgh", true),
            (vec![Err(io::ErrorKind::Interrupted.into()), Ok(3), broken()], b"defgh", false),
            (vec![broken()], b"abcdefgh", false),
            (vec![Ok(2), Ok(0)], b"cdefgh", false),
        ];
        for (script, left, is_whole) in cases {
            let said = format!("{script:?}");
            let mut output = b"abcdefgh".to_vec();
            assert_eq!(send(&mut Scripted(script), &mut output).is_ok(), is_whole, "{said}");
            assert_eq!(output, left, "{said}");
        }
    }
}
