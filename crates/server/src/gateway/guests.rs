//! A connection from another gateway: its greeting, what it asks, and what it is answered.
//!
//! Must not know: whose partitions are asked for.

use shorttail_gateway::command::StoreError;
use shorttail_gateway::forward::{Ask, put_reply};
use shorttail_gateway::request::Reply;
use shorttail_units::ClusterId;
use shorttail_wire::gateway::{Hello, Kind, Welcome, begin_frame, next_frame, next_kind, put_frame};

use super::exchange::Answer;
use super::limits::GREETING_US_MAX;
use super::neighbours::Identity;
use crate::net::Link;

pub struct Guest {
    pub link: Link,
    pub outbox: Vec<u8>,
    is_greeted: bool,
    since_us: u64,
    /// To be closed once the outbox has left.
    pub is_over: bool,
}

impl Guest {
    pub fn new(link: Link, now_us: u64) -> Self {
        Guest { link, outbox: Vec::new(), is_greeted: false, since_us: now_us, is_over: false }
    }

    /// Has it been here for long without saying who it is?
    pub fn is_silent(&self, now_us: u64) -> bool {
        !self.is_greeted && now_us >= self.since_us + GREETING_US_MAX
    }

    /// Takes all whole frames of `input`, and says how many bytes they were. Requests go to `sink` with their tags.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn take_frames(
        is_greeted: &mut bool,
        identity: Identity,
        input: &[u8],
        outbox: &mut Vec<u8>,
        mut sink: impl FnMut(u64, Ask),
    ) -> Result<usize, &'static str> {
        let mut taken = 0;
        // Who has not said who it is makes this gateway keep no more than a greeting.
        if !*is_greeted && next_kind(input).map_err(|_| "no frame")?.is_some_and(|kind| kind != Kind::Hello) {
            return Err("a message before the greeting");
        }
        while let Some((frame, frame_bytes)) = next_frame(&input[taken..]).map_err(|_| "no frame")? {
            taken += frame_bytes;
            match (frame.kind, *is_greeted) {
                (Kind::Hello, false) => {
                    let hello = Hello::parse(frame.body).map_err(|_| "a greeting that does not parse")?;
                    greet(&hello, identity, outbox)?;
                    *is_greeted = true;
                }
                (Kind::Ask, true) => {
                    sink(frame.tag, Ask::parse(frame.body).map_err(|_| "a request that does not parse")?);
                }
                _ => return Err("a message out of order"),
            }
        }
        Ok(taken)
    }

    /// Link and the rest apart, to be used at the same time.
    pub fn parts(&mut self) -> (&mut Link, &mut Vec<u8>, &mut bool) {
        (&mut self.link, &mut self.outbox, &mut self.is_greeted)
    }

    pub fn answer(&mut self, tag: u64, answer: &Answer) {
        match answer {
            None | Some(Reply::Keyspace(Err(StoreError::NotOwner)) | Reply::Group(Err(StoreError::NotOwner))) => {
                begin_frame(&mut self.outbox, Kind::NotOwner, tag, |_| {});
            }
            Some(reply) => put_reply(&mut self.outbox, tag, reply),
        }
    }
}

fn greet(hello: &Hello, identity: Identity, outbox: &mut Vec<u8>) -> Result<(), &'static str> {
    let ClusterId(cluster_id) = identity.cluster;
    match hello.check(cluster_id) {
        Ok(()) => put_frame(outbox, Kind::Welcome, 0, &Welcome { gateway: identity.gateway }),
        Err(refusal) => {
            put_frame(outbox, Kind::Refused, 0, &refusal);
            return Err("a stranger");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use shorttail_wire::gateway::{GATEWAY_PROTOCOL_VERSION, HEADER_BYTES, HELLO_BYTES_MAX};

    const IDENTITY: Identity = Identity { cluster: ClusterId(7), gateway: 1 };

    fn take(input: &[u8]) -> Result<usize, &'static str> {
        Guest::take_frames(&mut false, IDENTITY, input, &mut Vec::new(), |_, _| panic!("nothing was asked"))
    }

    /// The header of a frame with so long a body.
    fn begun(kind: Kind, body_bytes: usize) -> Vec<u8> {
        let mut frame = Vec::new();
        begin_frame(&mut frame, kind, 0, |out| out.resize(HEADER_BYTES + body_bytes, 0));
        frame.truncate(HEADER_BYTES);
        frame
    }

    #[test]
    fn nothing_but_a_greeting_is_waited_for_before_the_greeting() {
        for (kind, body_bytes) in [(Kind::Ask, 1 << 20), (Kind::Answer, 1), (Kind::Welcome, 1), (Kind::Refused, 1)] {
            take(&begun(kind, body_bytes)).expect_err("it would be buffered");
        }
        assert_eq!(take(&begun(Kind::Ask, 1)[..HEADER_BYTES - 1]), Ok(0), "nobody knows yet");
        let mut greeting = begun(Kind::Hello, HELLO_BYTES_MAX);
        assert_eq!(take(&greeting), Ok(0), "the rest of a greeting is to come");
        greeting[..4].copy_from_slice(&(HELLO_BYTES_MAX as u32 + 1).to_le_bytes());
        take(&greeting).expect_err("too long for a greeting");
    }

    #[test]
    fn after_the_greeting_a_long_request_is_waited_for() {
        let hello = Hello { version: GATEWAY_PROTOCOL_VERSION, cluster_id: 7, gateway: 2, auth: Vec::new() };
        let mut input = Vec::new();
        put_frame(&mut input, Kind::Hello, 0, &hello);
        let greeting_bytes = input.len();
        input.extend_from_slice(&begun(Kind::Ask, 1 << 20));
        let (mut is_greeted, mut outbox) = (false, Vec::new());
        let taken = Guest::take_frames(&mut is_greeted, IDENTITY, &input, &mut outbox, |_, _| panic!("not whole"));
        assert_eq!((taken, is_greeted), (Ok(greeting_bytes), true));
    }
}
