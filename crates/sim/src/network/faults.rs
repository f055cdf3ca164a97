//! What befalls endpoints and the ways between them: crashes, stalls, slowness, cuts, bits that turn over.

use std::collections::{BTreeMap, VecDeque};

use super::session::Side;
use super::{Endpoint, Network, NetworkEvent, Notice, Reason, SessionId};
use crate::schedule::Schedule;

/// Bits that turned over, and those that are to.
#[derive(Debug, Default)]
pub(super) struct Flips {
    /// By direction: which bit of the next message that is long enough.
    ordered: BTreeMap<(Endpoint, Endpoint), usize>,
    count: u64,
}

impl Network {
    /// This bit of the next message from one endpoint to another that has so many turns over on its way.
    pub fn flip_next(&mut self, from: Endpoint, to: Endpoint, bit: usize) {
        self.flips.ordered.insert((from, to), bit);
    }

    /// From now on bits turn over only where that is ordered.
    pub fn stop_flips(&mut self) {
        self.settings.flip_ppm = 0;
    }

    /// How many bits turned over.
    pub fn flip_count(&self) -> u64 {
        self.flips.count
    }

    pub(super) fn flip_some(&mut self, from: Endpoint, to: Endpoint, bytes: &mut [u8]) {
        let ordered = self.flips.ordered.get(&(from, to)).copied().filter(|bit| bit / 8 < bytes.len());
        let bit = match ordered {
            Some(bit) => bit,
            None if self.settings.flip_ppm > 0 && self.rng.chance_ppm(self.settings.flip_ppm) => {
                self.rng.index(8 * bytes.len())
            }
            None => return,
        };
        if ordered.is_some() {
            self.flips.ordered.remove(&(from, to));
        }
        bytes[bit / 8] ^= 1 << (bit % 8);
        self.flips.count += 1;
    }

    /// The endpoint dies: its sessions break, what waited for it is forgotten. It hears nothing until it starts again.
    pub fn crash<E: From<NetworkEvent>>(&mut self, schedule: &mut Schedule<E>, endpoint: Endpoint) {
        for id in self.sessions_of(endpoint) {
            let side = self.sessions[&id].side_of(endpoint).expect("its own session");
            self.forget_end(id, side);
            self.end(schedule, id, Reason::Reset, None);
        }
        self.hosts.remove(&endpoint);
        self.notices.retain(|notice| notice.at != endpoint);
    }

    /// The endpoint stops taking inputs, as by SIGSTOP; its sessions stand and still accept bytes.
    pub fn stall(&mut self, endpoint: Endpoint) {
        let Some(host) = self.hosts.get_mut(&endpoint) else {
            return;
        };
        host.stalled = true;
        let (own, others) = self.notices.drain(..).partition(|notice| notice.at == endpoint);
        self.notices = others;
        host.waiting.extend::<VecDeque<Notice>>(own);
    }

    /// The endpoint goes on: all that waited is noticed now.
    pub fn resume(&mut self, endpoint: Endpoint) {
        if let Some(host) = self.hosts.get_mut(&endpoint) {
            host.stalled = false;
            self.notices.append(&mut host.waiting);
        }
    }

    /// Messages from and to the endpoint take `times` as long from now on; 1 is as before.
    pub fn slow_down(&mut self, endpoint: Endpoint, times: u64) {
        if let Some(host) = self.hosts.get_mut(&endpoint) {
            host.slowness = times.max(1);
        }
    }

    /// Do messages from and to the endpoint take longer than usual?
    pub fn is_slow(&self, endpoint: Endpoint) -> bool {
        self.hosts.get(&endpoint).is_some_and(|host| host.slowness > 1)
    }

    /// Directions that are cut.
    pub fn cuts(&self) -> impl Iterator<Item = (Endpoint, Endpoint)> {
        self.cuts.iter().copied()
    }

    /// Cuts one direction between two endpoints. Both: a partition; one: an asymmetric fault.
    pub fn cut(&mut self, from: Endpoint, to: Endpoint) {
        self.cuts.insert((from, to));
    }

    /// Cuts every direction between the endpoints of one group and those of the other.
    pub fn partition(&mut self, group: &[Endpoint], others: &[Endpoint]) {
        for &one in group {
            for &other in others {
                self.cut(one, other);
                self.cut(other, one);
            }
        }
    }

    /// Heals all cuts.
    pub fn heal<E: From<NetworkEvent>>(&mut self, schedule: &mut Schedule<E>) {
        for (from, to) in self.cuts.clone() {
            self.mend(schedule, from, to);
        }
    }

    /// Heals one direction between two endpoints: what waited leaves now, in order, with new delays.
    pub fn mend<E: From<NetworkEvent>>(&mut self, schedule: &mut Schedule<E>, from: Endpoint, to: Endpoint) {
        if !self.cuts.remove(&(from, to)) {
            return;
        }
        let directions = self.sessions.iter().flat_map(|(id, session)| {
            let leads = |side: &Side| (session.ends.at(side.other()), session.ends.at(*side)) == (from, to);
            [Side::Opener, Side::Acceptor].into_iter().filter(leads).map(|side| (*id, side))
        });
        for (id, side) in directions.collect::<Vec<_>>() {
            self.redispatch(schedule, id, side);
        }
    }

    /// Sends what waits in a direction anew, in order.
    fn redispatch<E: From<NetworkEvent>>(&mut self, schedule: &mut Schedule<E>, id: SessionId, side: Side) {
        let session = self.sessions.get_mut(&id).expect("a session that parcels wait on");
        if session.is_breaking() {
            return;
        }
        for parcel in session.restart_direction(side) {
            self.dispatch(schedule, id, side, parcel);
        }
    }
}
