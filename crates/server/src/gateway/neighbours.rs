//! A core's connections to the other gateways, and what it asked them.
//!
//! ```text
//!           connect           Welcome
//! (none) ------------> opening ------> open --- Ask, Ask, ... / Answer, NotOwner ...
//!    ^                    |             |
//!    '---- later again ---'---broken----'     what was not sent to its end, and reads: asked again; writes: unknown
//! ```
//!
//! A connection breaks by itself, or because the other gateway takes nothing of what it is to be sent. Requests of a
//! turn leave together. Must not know: where else a request could go.

mod pace;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use mio::event::Event;
use mio::{Registry, Token as MioToken};
use shorttail_gateway::forward::parse_reply;
use shorttail_gateway::request::Reply;
use shorttail_units::ClusterId;
use shorttail_wire::gateway::{
    Body, GATEWAY_PROTOCOL_VERSION, Hello, Kind, Refusal, next_frame, next_header, put_frame,
};

use self::pace::{Pace, weight_of};
use super::limits::{
    ASKED_BYTES_MAX, ASKED_MAX, CONNECT_FIRST_US, CONNECT_MAX_US, NEIGHBOUR_OUTBOX_BYTES_MAX, STUCK_US_MAX,
    UNCONFIRMED_MS_MAX,
};
use super::peer_error::PeerError;
use super::peers::SESSION_TOKENS_END;
use super::waiting::{Lane, WAIT_US_MAX, Waiter};
use crate::config::Address;
use crate::net::{Link, ReadEnd, Saying, Shortage, Stream};

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    pub cluster: ClusterId,
    pub gateway: u16,
}

/// What came of a request that was asked elsewhere.
#[derive(Debug)]
pub enum Outcome {
    Answered(Waiter, Reply),
    /// Nothing was done.
    NotOwner(Waiter),
    /// Nothing was done, or doing it again does no harm.
    Again(Waiter),
    /// It changes nothing, and was waited for as long as may be.
    Late(Waiter),
    /// It may have been done.
    Unknown(Waiter),
}

/// A request that another gateway is not asked now, and why.
#[derive(Debug)]
pub enum NotAsked {
    /// It cannot be reached, or has not begun to answer of this lane.
    Away(Waiter),
    /// It answers, and less than it is to be asked.
    Behind(Waiter),
}

/// A request that another gateway was asked.
#[derive(Debug)]
struct Asked {
    /// None: nobody waits for the answer any more. It is still to come, and counts until then.
    waiter: Option<Waiter>,
    /// It is waited for until then: beyond the deadline that it came with, while it leaves or its answer arrives.
    until_us: u64,
    lane: Lane,
    /// For how much of its lane's [`Pace`] it counts.
    weight: usize,
    /// Its place in the stream, and its bytes there.
    at: u64,
    bytes: usize,
}

/// One other gateway.
#[derive(Debug)]
struct Neighbour {
    address: Address,
    link: Option<Link>,
    is_open: bool,
    /// What has not left, behind some that has.
    outbox: Vec<u8>,
    /// Since when the socket takes nothing of the outbox, in microseconds.
    stuck_since_us: Option<u64>,
    /// Bytes that were ever put into the outbox of this connection.
    put: u64,
    /// What is asked, by tag.
    asked: BTreeMap<u64, Asked>,
    /// Of what is asked.
    asked_bytes: usize,
    paces: BTreeMap<Lane, Pace>,
    retry_us: u64,
    wait_us: u64,
    /// In the log, that it refuses this one.
    refusal_saying: Saying,
}

/// Between two lines in the log that the same gateway refuses this one.
const REFUSAL_TOLD_EVERY_US: u64 = 60_000_000;

/// Why a connection is of no use.
#[derive(PartialEq, Debug)]
enum Problem {
    Refused(Refusal),
    Foreign(PeerError),
}

impl From<PeerError> for Problem {
    fn from(error: PeerError) -> Self {
        Problem::Foreign(error)
    }
}

#[derive(Debug)]
pub struct Neighbours {
    identity: Identity,
    neighbours: BTreeMap<u16, Neighbour>,
    tag_next: u64,
    /// One that had no room for lack of room in its socket has some.
    has_room_again: bool,
    shortage: Shortage,
    /// Their messages that were hurt on their way.
    pub hurt_total: u64,
}

pub fn token_of(gateway: u16) -> MioToken {
    MioToken(SESSION_TOKENS_END + usize::from(gateway))
}

pub fn gateway_of(token: MioToken) -> Option<u16> {
    u16::try_from(token.0.checked_sub(SESSION_TOKENS_END)?).ok()
}

impl Neighbours {
    pub fn new(identity: Identity) -> Self {
        Neighbours {
            identity,
            neighbours: BTreeMap::new(),
            tag_next: 0,
            has_room_again: false,
            shortage: Shortage::default(),
            hurt_total: 0,
        }
    }

    /// The gateways that can be asked from now on; what others were asked ends as if they had broken the connection.
    pub fn set_addresses(&mut self, addresses: &BTreeMap<u16, Address>, registry: &Registry) -> Vec<Outcome> {
        let is_other = |id: &u16, neighbour: &Neighbour| addresses.get(id) != Some(&neighbour.address);
        let gone: Vec<u16> =
            self.neighbours.iter().filter(|(id, known)| is_other(id, known)).map(|(&id, _)| id).collect();
        let mut outcomes = Vec::new();
        for id in gone {
            outcomes.extend(self.break_off(id, registry));
            self.neighbours.remove(&id);
        }
        for (&id, address) in addresses {
            self.neighbours.entry(id).or_insert_with(|| Neighbour::new(address.clone()));
        }
        outcomes
    }

    /// Connects to those that are not connected and whose time has come.
    pub fn connect(&mut self, now_us: u64, registry: &Registry) {
        for (&id, neighbour) in &mut self.neighbours {
            if neighbour.link.is_some() || neighbour.retry_us > now_us {
                continue;
            }
            neighbour.retry_us = now_us + neighbour.wait_us;
            neighbour.wait_us = (neighbour.wait_us * 2).min(CONNECT_MAX_US);
            let stream = Stream::connect(&neighbour.address).and_then(|stream| {
                stream.break_after(UNCONFIRMED_MS_MAX)?;
                Ok(stream)
            });
            let link = stream.and_then(|stream| Link::new(stream, token_of(id), registry));
            match link {
                Ok(link) => neighbour.greet(link, self.identity),
                Err(error) => self.shortage.tell(now_us, &error, format_args!("gateway {id}")),
            }
        }
    }

    /// Asks another gateway; the request back if that cannot be done now.
    pub fn ask(&mut self, now_us: u64, gateway: u16, waiter: Waiter) -> Option<NotAsked> {
        let neighbour = self.neighbours.get_mut(&gateway).filter(|neighbour| neighbour.is_open);
        let Some(neighbour) = neighbour else { return Some(NotAsked::Away(waiter)) };
        let (has_room, lane) = (neighbour.has_room(), Lane::of(&waiter.ask));
        let pace = neighbour.paces.entry(lane).or_default();
        pace.look(now_us);
        if !has_room || !pace.has_room() {
            return Some(if pace.answers() { NotAsked::Behind(waiter) } else { NotAsked::Away(waiter) });
        }
        let (before, at) = (neighbour.outbox.len(), neighbour.put);
        waiter.ask.put(&mut neighbour.outbox, self.tag_next);
        let bytes = neighbour.outbox.len() - before;
        let weight = weight_of(bytes);
        pace.ask(weight);
        neighbour.put += bytes as u64;
        neighbour.asked_bytes += bytes;
        let until_us = waiter.deadline_us;
        neighbour.asked.insert(self.tag_next, Asked { waiter: Some(waiter), until_us, lane, weight, at, bytes });
        self.tag_next += 1;
        None
    }

    /// Reads what a gateway sent.
    pub fn read(
        &mut self,
        now_us: u64,
        gateway: u16,
        event: &Event,
        scratch: &mut [u8],
        registry: &Registry,
    ) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        let Some(neighbour) = self.neighbours.get_mut(&gateway) else { return outcomes };
        let hurt_total = &mut self.hurt_total;
        if let Some(link) = &mut neighbour.link {
            link.note(event);
        }
        loop {
            let Some(mut link) = neighbour.link.take() else { return outcomes };
            let mut is_sane = true;
            let end = link.read(scratch, |input| {
                neighbour.take_frames(now_us, input, &mut outcomes).unwrap_or_else(|problem| {
                    match problem {
                        Problem::Refused(refusal) => neighbour.tell_refusal(now_us, gateway, &refusal),
                        Problem::Foreign(problem) => {
                            *hurt_total += u64::from(problem.is_damage());
                            tracing::warn!(gateway, %problem, "another gateway is not understood");
                        }
                    }
                    is_sane = false;
                    input.len()
                })
            });
            neighbour.await_rest(now_us, &link.input);
            neighbour.link = Some(link);
            match end {
                ReadEnd::Paused if is_sane => {}
                ReadEnd::Drained if is_sane => return outcomes,
                ReadEnd::Closed | ReadEnd::Paused | ReadEnd::Drained => {
                    outcomes.extend(self.break_off(gateway, registry));
                    return outcomes;
                }
            }
        }
    }

    /// Sends what is to be sent.
    pub fn write(&mut self, now_us: u64, registry: &Registry) -> Vec<Outcome> {
        let mut broken = Vec::new();
        for (&id, neighbour) in &mut self.neighbours {
            let Some(link) = neighbour.link.as_mut().filter(|_| !neighbour.outbox.is_empty()) else { continue };
            let before = link.unsent_bytes(&neighbour.outbox);
            let result = link.write_large(&mut neighbour.outbox, registry);
            neighbour.note_taken(before, now_us);
            let was_full = before >= NEIGHBOUR_OUTBOX_BYTES_MAX;
            self.has_room_again |= was_full && neighbour.unsent_bytes() < NEIGHBOUR_OUTBOX_BYTES_MAX;
            if let Err(error) = result {
                // Connecting takes a moment over TCP: the greeting waits in the outbox.
                if error.kind() != std::io::ErrorKind::NotConnected {
                    broken.push(id);
                }
            }
        }
        broken.into_iter().flat_map(|id| self.break_off(id, registry)).collect()
    }

    /// May more be asked than before this was last asked? No event tells of a socket that took all there was.
    pub fn take_room_again(&mut self) -> bool {
        std::mem::take(&mut self.has_room_again)
    }

    /// Ends what was asked too long ago. The other gateway owes an answer all the same: were it not counted, one that
    /// is behind would be asked more and more.
    pub fn take_expired(&mut self, now_us: u64) -> Vec<Outcome> {
        // All are looked at: tags are not in the order of deadlines, as what is asked again keeps its own.
        let asked = self.neighbours.values_mut().flat_map(|neighbour| neighbour.asked.values_mut());
        let late = asked.filter(|asked| asked.until_us <= now_us).filter_map(|asked| asked.waiter.take());
        let outcome =
            |waiter: Waiter| if waiter.ask.is_write() { Outcome::Unknown(waiter) } else { Outcome::Late(waiter) };
        late.map(outcome).collect()
    }

    /// Ends connections to those that take nothing any more; to be called after what there is to send was tried.
    pub fn break_stuck(&mut self, now_us: u64, registry: &Registry) -> Vec<Outcome> {
        let stuck = self.neighbours.iter().filter(|(_, neighbour)| neighbour.is_stuck(now_us));
        let stuck: Vec<u16> = stuck.map(|(&id, _)| id).collect();
        let mut outcomes = Vec::new();
        for gateway in stuck {
            tracing::warn!(gateway, "another gateway takes nothing that it is sent: it is connected to anew");
            outcomes.extend(self.break_off(gateway, registry));
        }
        outcomes
    }

    fn break_off(&mut self, gateway: u16, registry: &Registry) -> Vec<Outcome> {
        let Some(neighbour) = self.neighbours.get_mut(&gateway) else { return Vec::new() };
        let sent = neighbour.put - neighbour.unsent_bytes() as u64;
        if let Some(mut link) = neighbour.link.take() {
            link.close(registry);
        }
        neighbour.is_open = false;
        neighbour.outbox = Vec::new();
        neighbour.stuck_since_us = None;
        let asked = std::mem::take(&mut neighbour.asked).into_values();
        neighbour.asked_bytes = 0;
        neighbour.paces.clear();
        // What the other gateway does not have to its end it does not do.
        let outcome = |(waiter, end): (Waiter, u64)| match end > sent || !waiter.ask.is_write() {
            true => Outcome::Again(waiter),
            false => Outcome::Unknown(waiter),
        };
        asked.filter_map(|asked| Some((asked.waiter?, asked.at + asked.bytes as u64))).map(outcome).collect()
    }
}

impl Asked {
    /// It is waited for as if it had been asked now.
    fn wait_from(&mut self, now_us: u64) {
        self.until_us = self.until_us.max(now_us + WAIT_US_MAX);
    }
}

impl Neighbour {
    fn new(address: Address) -> Self {
        Neighbour {
            address,
            link: None,
            is_open: false,
            outbox: Vec::new(),
            stuck_since_us: None,
            put: 0,
            asked: BTreeMap::new(),
            asked_bytes: 0,
            paces: BTreeMap::new(),
            retry_us: 0,
            wait_us: CONNECT_FIRST_US,
            refusal_saying: Saying::default(),
        }
    }

    fn greet(&mut self, link: Link, identity: Identity) {
        let (cluster_id, gateway) = (identity.cluster.0, identity.gateway);
        let hello = Hello { version: GATEWAY_PROTOCOL_VERSION, cluster_id, gateway };
        self.link = Some(link);
        self.outbox.clear();
        put_frame(&mut self.outbox, Kind::Hello, 0, &hello);
        self.put = self.outbox.len() as u64;
    }

    fn has_room(&self) -> bool {
        self.asked.len() < ASKED_MAX
            && self.asked_bytes < ASKED_BYTES_MAX
            && self.unsent_bytes() < NEIGHBOUR_OUTBOX_BYTES_MAX
    }

    fn unsent_bytes(&self) -> usize {
        self.link.as_ref().map_or(self.outbox.len(), |link| link.unsent_bytes(&self.outbox))
    }

    /// Of so many bytes the socket was to take some.
    fn note_taken(&mut self, before: usize, now_us: u64) {
        self.stuck_since_us = match self.unsent_bytes() {
            0 => None,
            left if left < before => {
                self.await_leaving(now_us);
                Some(now_us)
            }
            _ => self.stuck_since_us.or(Some(now_us)),
        };
    }

    /// What has left in part is waited for as if it had been asked now: of a long value on a slow link the other
    /// gateway hears only when all is there.
    fn await_leaving(&mut self, now_us: u64) {
        let sent = self.put - self.unsent_bytes() as u64;
        if let Some(asked) = self.asked.values_mut().rev().find(|asked| asked.at < sent)
            && sent < asked.at + asked.bytes as u64
        {
            asked.wait_from(now_us);
        }
    }

    fn is_stuck(&self, now_us: u64) -> bool {
        self.stuck_since_us.is_some_and(|since_us| now_us >= since_us + STUCK_US_MAX)
    }

    /// It has come back, done or not; who waits for it, if anybody still does.
    fn take_asked(&mut self, now_us: u64, tag: u64, is_done: bool) -> Option<Waiter> {
        let asked = self.asked.remove(&tag)?;
        self.asked_bytes -= asked.bytes;
        if let Some(pace) = self.paces.get_mut(&asked.lane) {
            pace.look(now_us);
            pace.take(asked.weight, is_done);
        }
        asked.waiter
    }

    /// An answer is there in part: the rest is waited for as if it had been asked now.
    fn await_rest(&mut self, now_us: u64, input: &[u8]) {
        if let Ok(Some((Kind::Answer, tag))) = next_header(input)
            && let Some(asked) = self.asked.get_mut(&tag)
        {
            asked.wait_from(now_us);
        }
    }

    /// It is tried again every half second, and says the same.
    fn tell_refusal(&mut self, now_us: u64, gateway: u16, refusal: &Refusal) {
        if self.refusal_saying.is_due(now_us, REFUSAL_TOLD_EVERY_US) {
            tracing::error!(gateway, %refusal, "another gateway does not answer this one");
        }
    }

    /// How many bytes were whole frames.
    fn take_frames(&mut self, now_us: u64, input: &[u8], outcomes: &mut Vec<Outcome>) -> Result<usize, Problem> {
        let mut taken = 0;
        while let Some((frame, frame_bytes)) = next_frame(&input[taken..]).map_err(PeerError::Frame)? {
            taken += frame_bytes;
            match frame.kind {
                Kind::Welcome if !self.is_open => {
                    self.is_open = true;
                    // Not sooner: it may close each connection at once.
                    self.wait_us = CONNECT_FIRST_US;
                    self.retry_us = self.retry_us.min(now_us + CONNECT_FIRST_US);
                }
                Kind::Refused => {
                    let refusal = Refusal::from_body(frame.body).map_err(|_| PeerError::Body("a refusal"))?;
                    return Err(Problem::Refused(refusal));
                }
                Kind::Answer => {
                    let reply = parse_reply(frame.body).map_err(|_| PeerError::Body("a reply"))?;
                    let waiter = self.asked.get(&frame.tag).and_then(|asked| asked.waiter.as_ref());
                    if waiter.is_some_and(|waiter| !waiter.ask.is_answered_by(&reply)) {
                        return Err(PeerError::OtherReply.into());
                    }
                    let waiter = self.take_asked(now_us, frame.tag, true);
                    outcomes.extend(waiter.map(|waiter| Outcome::Answered(waiter, reply)));
                }
                Kind::NotOwner => {
                    outcomes.extend(self.take_asked(now_us, frame.tag, false).map(Outcome::NotOwner));
                }
                Kind::Hello | Kind::Ask | Kind::Welcome => {
                    return Err(PeerError::OutOfOrder.into());
                }
            }
        }
        Ok(taken)
    }
}
