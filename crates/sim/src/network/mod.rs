//! The simulated network: sessions carry bytes between endpoints, and faults befall both.
//!
//! Must not know: what the bytes mean, who the endpoints are, what else is in the schedule.
//!
//! ```text
//! endpoint a                    network                    endpoint b
//!     | open(a, b)                 |                            |
//!     |--------------------------->|--- delay ----------------->| Accepted
//!     |<---------------- delay ----|                            |
//!     | Connected                  |                            |
//!     | send ==bytes, in order, a delay per piece==============>| Received ...
//! ```
//!
//! Invariants:
//! - One direction of a session is first in, first out; different sessions and directions overtake each other freely.
//! - What an end receives is a prefix of what the other sent; nothing is ever doubled, and nothing changed but bits
//!   that were to turn over.
//! - An end hears of its session's end at most once and nothing of that session afterwards; the end that closed it or
//!   that crashed hears nothing more at all.
//! - A stalled endpoint hears nothing; its notices wait in order. A crash forgets them.
//! - A cut direction delivers nothing. What waits there leaves when it heals, or the session breaks after a timeout.

mod faults;
mod notice;
mod session;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::limits::{DIRECTION_BYTES_MAX, ENDPOINTS_MAX, SESSIONS_MAX, STALLED_NOTICES_MAX};
use crate::rng::Rng;
use crate::schedule::Schedule;
use faults::Flips;
pub use notice::{Endpoint, Notice, OpenError, Reason, SendError, SessionId, Settings, What};
use session::{Ends, Parcel, Session, Side};

/// What the network puts into the schedule; given back to [`Network::handle`] when its time comes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NetworkEvent(Event);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Event {
    /// The first parcel on its way to `side` is due. Void if the direction was scheduled anew since.
    Arrival { session: SessionId, side: Side, round: u64 },
    /// A parcel waited too long in the cut direction to `side`. Void likewise.
    CutTimeout { session: SessionId, side: Side, round: u64 },
    /// The end at `side` learns that the session is over.
    Ended { session: SessionId, side: Side, reason: Reason },
}

/// An endpoint that is up.
#[derive(Debug, Default)]
struct Host {
    stalled: bool,
    /// Messages from and to it take this many times as long.
    slowness: u64,
    waiting: VecDeque<Notice>,
}

/// All sessions and endpoints.
#[derive(Debug)]
pub struct Network {
    settings: Settings,
    rng: Rng,
    hosts: BTreeMap<Endpoint, Host>,
    sessions: BTreeMap<SessionId, Session>,
    session_next: u64,
    /// Directions (from, to) that deliver nothing.
    cuts: BTreeSet<(Endpoint, Endpoint)>,
    flips: Flips,
    notices: VecDeque<Notice>,
}

impl Network {
    pub fn new(settings: Settings, rng: Rng) -> Self {
        Network {
            settings,
            rng,
            hosts: BTreeMap::new(),
            sessions: BTreeMap::new(),
            session_next: 1,
            cuts: BTreeSet::new(),
            flips: Flips::default(),
            notices: VecDeque::new(),
        }
    }

    /// Brings an endpoint up, the first time or after a crash; it has no sessions.
    ///
    /// # Panics
    /// If it is up, or if [`ENDPOINTS_MAX`] are.
    pub fn start(&mut self, endpoint: Endpoint) {
        assert!(self.hosts.len() < ENDPOINTS_MAX, "{ENDPOINTS_MAX} endpoints are up already");
        let before = self.hosts.insert(endpoint, Host { stalled: false, slowness: 1, waiting: VecDeque::new() });
        assert!(before.is_none(), "endpoint {} is up already", endpoint.0);
    }

    pub fn is_up(&self, endpoint: Endpoint) -> bool {
        self.hosts.contains_key(&endpoint)
    }

    pub fn is_stalled(&self, endpoint: Endpoint) -> bool {
        self.hosts.get(&endpoint).is_some_and(|host| host.stalled)
    }

    /// Does nothing get from one endpoint to the other?
    pub fn is_cut(&self, from: Endpoint, to: Endpoint) -> bool {
        self.cuts.contains(&(from, to))
    }

    /// The next notice, in the order in which they came about.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    /// Opens a session. The opener may send at once; it hears `Connected`, or `Broken`.
    ///
    /// # Errors
    /// If the opener is not up, is the acceptor, or if there are too many sessions; then nothing happened.
    pub fn open<E: From<NetworkEvent>>(
        &mut self,
        schedule: &mut Schedule<E>,
        opener: Endpoint,
        acceptor: Endpoint,
    ) -> Result<SessionId, OpenError> {
        if !self.is_up(opener) {
            return Err(OpenError::NotUp(opener));
        }
        if opener == acceptor {
            return Err(OpenError::Itself);
        }
        if self.sessions.len() >= SESSIONS_MAX {
            return Err(OpenError::TooMany);
        }
        let id = SessionId(self.session_next);
        self.session_next += 1;
        let delay_us_mean = self.rng.below(self.settings.delay_us_mean_max.saturating_add(1).max(1));
        self.sessions.insert(id, Session::new(Ends { opener, acceptor }, delay_us_mean));
        self.dispatch(schedule, id, Side::Acceptor, Parcel::Open);
        Ok(id)
    }

    /// Sends bytes from one end of a session to the other. On a session that broke before this end heard of it, they
    /// are lost without a word, as in a socket's buffer. Empty bytes are no message.
    ///
    /// # Errors
    /// If the session is not this endpoint's (any more), or too much is under way; then nothing is sent.
    pub fn send<E: From<NetworkEvent>>(
        &mut self,
        schedule: &mut Schedule<E>,
        from: Endpoint,
        id: SessionId,
        mut bytes: Vec<u8>,
    ) -> Result<(), SendError> {
        let session = self.sessions.get(&id).ok_or(SendError::NotOpen)?;
        let side = session.side_of(from).ok_or(SendError::NotOpen)?;
        let direction = session.towards(side.other());
        if direction.bytes + bytes.len() > DIRECTION_BYTES_MAX {
            return Err(SendError::Full);
        }
        if bytes.is_empty() || session.is_breaking() {
            return Ok(());
        }
        let ends = session.ends;
        self.flip_some(from, ends.at(side.other()), &mut bytes);
        if bytes.len() > 1 && self.rng.chance_ppm(self.settings.split_ppm) {
            let rest = bytes.split_off(1 + self.rng.index(bytes.len() - 1));
            self.dispatch(schedule, id, side.other(), Parcel::Bytes(bytes));
            bytes = rest;
        }
        self.dispatch(schedule, id, side.other(), Parcel::Bytes(bytes));
        Ok(())
    }

    /// One end closes a session: what it sent still arrives, then the other end hears `Closed`. What was on the way to
    /// the closer is lost. Closing what is over already does nothing.
    pub fn close<E: From<NetworkEvent>>(&mut self, schedule: &mut Schedule<E>, by: Endpoint, id: SessionId) {
        let Some(side) = self.sessions.get(&id).and_then(|session| session.side_of(by)) else {
            return;
        };
        self.forget_end(id, side);
        let is_of_closed_end = |notice: &Notice| notice.at == by && notice.session == id;
        self.notices.retain(|notice| !is_of_closed_end(notice));
        if let Some(host) = self.hosts.get_mut(&by) {
            host.waiting.retain(|notice| !is_of_closed_end(notice));
        }
        if self.sessions.get(&id).is_some_and(|session| !session.is_breaking()) {
            self.dispatch(schedule, id, side.other(), Parcel::Close);
        }
    }

    /// Breaks a session: what is in flight is lost (see [`Settings::spare_ppm`]), and both ends hear `Reset`.
    pub fn break_session<E: From<NetworkEvent>>(&mut self, schedule: &mut Schedule<E>, id: SessionId) {
        self.end(schedule, id, Reason::Reset, None);
    }

    /// Sessions that an endpoint has an end of, oldest first.
    pub fn sessions_of(&self, endpoint: Endpoint) -> Vec<SessionId> {
        let own = self.sessions.iter().filter(|(_, session)| session.side_of(endpoint).is_some());
        own.map(|(id, _)| *id).collect()
    }

    /// Handles an event that this network scheduled.
    pub fn handle<E: From<NetworkEvent>>(&mut self, schedule: &mut Schedule<E>, NetworkEvent(event): NetworkEvent) {
        match event {
            Event::Arrival { session, side, round } if self.is_current(session, side, round) => {
                self.handle_arrival(schedule, session, side);
            }
            Event::CutTimeout { session, side, round } if self.is_current(session, side, round) => {
                self.end(schedule, session, Reason::TimedOut, Some(side.other()));
            }
            Event::Arrival { .. } | Event::CutTimeout { .. } => {}
            Event::Ended { session, side, reason } => self.handle_ended(session, side, reason),
        }
    }

    fn handle_arrival<E: From<NetworkEvent>>(&mut self, schedule: &mut Schedule<E>, id: SessionId, side: Side) {
        let session = self.sessions.get_mut(&id).expect("a current arrival");
        let ends = session.ends;
        if self.cuts.contains(&(ends.at(side.other()), ends.at(side))) {
            if session.arm_timeout(side) {
                let round = session.towards(side).round;
                let timeout = Event::CutTimeout { session: id, side, round };
                schedule.after(self.settings.cut_timeout_us, NetworkEvent(timeout).into());
            }
            return;
        }
        let at = ends.at(side);
        match session.take_parcel(side) {
            Parcel::Open if !self.hosts.contains_key(&at) => self.end(schedule, id, Reason::Refused, None),
            Parcel::Open => {
                session.accept();
                // The kernel of a stalled process accepts for it.
                self.notify(Notice { at, session: id, what: What::Accepted { peer: ends.opener } });
                if !self.sessions[&id].is_breaking() {
                    self.dispatch(schedule, id, Side::Opener, Parcel::Connected);
                }
            }
            // Sent before the sender knew that this end is gone, or never was.
            _ if !session.is_open_at(side) => self.drop_if_over(id),
            Parcel::Connected => self.notify(Notice { at, session: id, what: What::Connected }),
            Parcel::Bytes(bytes) => self.notify(Notice { at, session: id, what: What::Received(bytes) }),
            Parcel::Close => self.handle_ended(id, side, Reason::Closed),
        }
    }

    fn handle_ended(&mut self, id: SessionId, side: Side, reason: Reason) {
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        let (at, knew) = (session.ends.at(side), session.is_open_at(side));
        self.forget_end(id, side);
        if !knew {
            return;
        }
        self.notify(Notice { at, session: id, what: What::Broken(reason) });
    }

    /// Begins a session's end. `first`: the side that noticed the reason itself, and hears of it now.
    fn end<E: From<NetworkEvent>>(
        &mut self,
        schedule: &mut Schedule<E>,
        id: SessionId,
        reason: Reason,
        first: Option<Side>,
    ) {
        let Some(session) = self.sessions.get_mut(&id).filter(|session| !session.is_breaking()) else {
            return;
        };
        session.begin_breaking();
        let ends = session.ends;
        for side in [Side::Opener, Side::Acceptor] {
            let is_cut = self.cuts.contains(&(ends.at(side.other()), ends.at(side)));
            let parcel_count = self.sessions[&id].parcel_count(side);
            let spared = !is_cut && parcel_count > 0 && self.rng.chance_ppm(self.settings.spare_ppm);
            let kept = if spared { self.rng.index(parcel_count + 1) } else { 0 };
            let delay_us = match is_cut {
                _ if first == Some(side) => 0,
                // Nobody can tell this end; it finds out by itself.
                true => self.rng.below(self.settings.cut_timeout_us.max(1)),
                false => self.delay_us(id),
            };
            let session = self.sessions.get_mut(&id).expect("it is ending");
            let last_us = session.keep_parcels(side, kept);
            let at_us = last_us.max(schedule.now_us().saturating_add(delay_us));
            schedule.at(at_us, NetworkEvent(Event::Ended { session: id, side, reason }).into());
        }
        self.drop_if_over(id);
    }

    /// Puts a parcel on its way, behind those that are.
    fn dispatch<E: From<NetworkEvent>>(
        &mut self,
        schedule: &mut Schedule<E>,
        id: SessionId,
        side: Side,
        parcel: Parcel,
    ) {
        let due_us = schedule.now_us().saturating_add(self.delay_us(id));
        let session = self.sessions.get_mut(&id).expect("a session that parcels are sent on");
        let (due_us, round) = session.push_parcel(side, parcel, due_us);
        schedule.at(due_us, NetworkEvent(Event::Arrival { session: id, side, round }).into());
    }

    fn delay_us(&mut self, id: SessionId) -> u64 {
        let session = &self.sessions[&id];
        let slowness = |endpoint| self.hosts.get(&endpoint).map_or(1, |host| host.slowness);
        let times = slowness(session.ends.opener).max(slowness(session.ends.acceptor));
        let Settings { delay_us_min, delay_us_max, .. } = self.settings;
        let delay = delay_us_min + self.rng.exponential_us(session.delay_us_mean, delay_us_max);
        delay.min(delay_us_max).saturating_mul(times)
    }

    fn is_current(&self, id: SessionId, side: Side, round: u64) -> bool {
        self.sessions.get(&id).is_some_and(|session| session.is_current(side, round))
    }

    fn forget_end(&mut self, id: SessionId, side: Side) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.close_end(side);
        }
        self.drop_if_over(id);
    }

    fn drop_if_over(&mut self, id: SessionId) {
        if self.sessions.get(&id).is_some_and(Session::is_over) {
            self.sessions.remove(&id);
        }
    }

    fn notify(&mut self, notice: Notice) {
        match self.hosts.get_mut(&notice.at) {
            None => {}
            Some(host) if host.stalled => {
                assert!(
                    host.waiting.len() < STALLED_NOTICES_MAX,
                    "{STALLED_NOTICES_MAX} notices wait for one endpoint"
                );
                host.waiting.push_back(notice);
            }
            Some(_) => self.notices.push_back(notice),
        }
    }
}
