//! What befalls endpoints and the ways between them: crashes, stalls, slowness, cuts.

use std::collections::VecDeque;

use super::session::Side;
use super::{Endpoint, Network, NetworkEvent, Notice, Reason, SessionId};
use crate::schedule::Schedule;

impl Network {
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
