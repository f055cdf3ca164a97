//! A connection from another gateway: its greeting, what it asks, and what it is answered.
//!
//! Must not know: whose partitions are asked for.

use shorttail_gateway::command::StoreError;
use shorttail_gateway::forward::{Ask, put_reply};
use shorttail_gateway::request::Reply;
use shorttail_units::ClusterId;
use shorttail_wire::gateway::{Body, Hello, Kind, Welcome, begin_frame, next_frame, put_frame};

use super::exchange::Answer;
use super::neighbours::Identity;
use crate::net::Link;

pub struct Guest {
    pub link: Link,
    pub outbox: Vec<u8>,
    is_greeted: bool,
    /// To be closed once the outbox has left.
    pub is_over: bool,
}

impl Guest {
    pub fn new(link: Link) -> Self {
        Guest { link, outbox: Vec::new(), is_greeted: false, is_over: false }
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
        while let Some((frame, frame_bytes)) = next_frame(&input[taken..]).map_err(|_| "no frame")? {
            taken += frame_bytes;
            match (frame.kind, *is_greeted) {
                (Kind::Hello, false) => {
                    let hello = Hello::from_body(frame.body).map_err(|_| "a greeting that does not parse")?;
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
