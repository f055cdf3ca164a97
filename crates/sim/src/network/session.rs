//! One session: its two ends, and what is under way in each direction.
//!
//! ```text
//! opener:    open ------------------------> gone
//! acceptor:  unaware --(Open arrives)--> open --> gone      unaware may also go straight to gone
//! session:   standing --(end)--> breaking                   it is over when nobody can hear of it any more
//! ```
//!
//! A direction is named by the side that it leads to. Its arrivals carry the round in which they were scheduled: when
//! a cut heals, all that waits is scheduled anew in a new round, and the older arrivals are void.

use std::collections::VecDeque;

use super::Endpoint;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    Opener,
    Acceptor,
}

impl Side {
    pub fn other(self) -> Self {
        match self {
            Side::Opener => Side::Acceptor,
            Side::Acceptor => Side::Opener,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub opener: Endpoint,
    pub acceptor: Endpoint,
}

impl Ends {
    pub fn at(self, side: Side) -> Endpoint {
        match side {
            Side::Opener => self.opener,
            Side::Acceptor => self.acceptor,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Parcel {
    Open,
    Connected,
    Bytes(Vec<u8>),
    Close,
}

impl Parcel {
    fn len(&self) -> usize {
        match self {
            Parcel::Bytes(bytes) => bytes.len(),
            Parcel::Open | Parcel::Connected | Parcel::Close => 0,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Unaware,
    Open,
    Gone,
}

/// First in, first out.
#[derive(Debug, Default)]
pub(super) struct Direction {
    /// With the time at which each is due, never descending.
    parcels: VecDeque<(u64, Parcel)>,
    pub bytes: usize,
    pub round: u64,
    due_us_last: u64,
    timeout_is_armed: bool,
}

#[derive(Debug)]
pub(super) struct Session {
    pub ends: Ends,
    /// Mean of the random part of this session's delays.
    pub delay_us_mean: u64,
    breaking: bool,
    opener: End,
    acceptor: End,
    to_opener: Direction,
    to_acceptor: Direction,
}

impl Session {
    pub fn new(ends: Ends, delay_us_mean: u64) -> Self {
        Session {
            ends,
            delay_us_mean,
            breaking: false,
            opener: End::Open,
            acceptor: End::Unaware,
            to_opener: Direction::default(),
            to_acceptor: Direction::default(),
        }
    }

    /// Which end is the endpoint's, as long as it is open.
    pub fn side_of(&self, endpoint: Endpoint) -> Option<Side> {
        let mut sides = [Side::Opener, Side::Acceptor].into_iter();
        sides.find(|&side| self.ends.at(side) == endpoint && self.is_open_at(side))
    }

    pub fn is_open_at(&self, side: Side) -> bool {
        self.end(side) == End::Open
    }

    pub fn is_breaking(&self) -> bool {
        self.breaking
    }

    pub fn begin_breaking(&mut self) {
        self.breaking = true;
    }

    /// Nobody can hear of the session any more.
    pub fn is_over(&self) -> bool {
        let acceptor_is_over = match self.acceptor {
            End::Unaware => self.to_acceptor.parcels.is_empty(),
            End::Open => false,
            End::Gone => true,
        };
        self.opener == End::Gone && acceptor_is_over
    }

    /// The acceptor learns of the session.
    pub fn accept(&mut self) {
        assert_eq!(self.acceptor, End::Unaware, "a session is accepted once");
        self.acceptor = End::Open;
    }

    /// The end hears nothing from now on; what was on its way there is lost.
    pub fn close_end(&mut self, side: Side) {
        match side {
            Side::Opener => self.opener = End::Gone,
            Side::Acceptor => self.acceptor = End::Gone,
        }
        self.keep_parcels(side, 0);
    }

    pub fn towards(&self, side: Side) -> &Direction {
        match side {
            Side::Opener => &self.to_opener,
            Side::Acceptor => &self.to_acceptor,
        }
    }

    /// Whether an arrival or a timeout of this round is still about something.
    pub fn is_current(&self, side: Side, round: u64) -> bool {
        let direction = self.towards(side);
        direction.round == round && !direction.parcels.is_empty()
    }

    /// Appends a parcel, due at this time or when the one before it is. Returns when, and in which round.
    pub fn push_parcel(&mut self, side: Side, parcel: Parcel, due_us: u64) -> (u64, u64) {
        let direction = self.direction(side);
        direction.due_us_last = direction.due_us_last.max(due_us);
        direction.bytes += parcel.len();
        direction.parcels.push_back((direction.due_us_last, parcel));
        (direction.due_us_last, direction.round)
    }

    /// Takes the first parcel.
    ///
    /// # Panics
    /// If there is none: the caller asks [`Session::is_current`] first.
    pub fn take_parcel(&mut self, side: Side) -> Parcel {
        let direction = self.direction(side);
        let (_, parcel) = direction.parcels.pop_front().expect("a current arrival has a parcel");
        direction.bytes -= parcel.len();
        parcel
    }

    pub fn parcel_count(&self, side: Side) -> usize {
        self.towards(side).parcels.len()
    }

    /// Loses all but the first `count` parcels. Returns when the last that is left is due; 0 if none is.
    pub fn keep_parcels(&mut self, side: Side, count: usize) -> u64 {
        let direction = self.direction(side);
        for (_, lost) in direction.parcels.drain(count..) {
            direction.bytes -= lost.len();
        }
        direction.parcels.back().map_or(0, |(due_us, _)| *due_us)
    }

    /// Begins a new round: returns what waits, to be pushed again.
    pub fn restart_direction(&mut self, side: Side) -> Vec<Parcel> {
        let direction = self.direction(side);
        let round = direction.round + 1;
        let waiting = std::mem::replace(direction, Direction { round, ..Direction::default() });
        waiting.parcels.into_iter().map(|(_, parcel)| parcel).collect()
    }

    /// Whether the timeout of a cut direction is still to be scheduled; from now on it is.
    pub fn arm_timeout(&mut self, side: Side) -> bool {
        !std::mem::replace(&mut self.direction(side).timeout_is_armed, true)
    }

    fn end(&self, side: Side) -> End {
        match side {
            Side::Opener => self.opener,
            Side::Acceptor => self.acceptor,
        }
    }

    fn direction(&mut self, side: Side) -> &mut Direction {
        match side {
            Side::Opener => &mut self.to_opener,
            Side::Acceptor => &mut self.to_acceptor,
        }
    }
}
