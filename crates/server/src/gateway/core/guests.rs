//! Connections from other gateways to a core: accepted and dealt out like clients, numbered as they are.
//!
//! Must not know: what guests ask, who owns it, client protocols, nodes.

use std::sync::atomic::Ordering;

use mio::Token as MioToken;
use shorttail_gateway::engine::Token;
use shorttail_gateway::request::RequestId;

use super::reading::ReadQueue;
use super::{Core, ToCore};
use crate::gateway::guests::Guest;
use crate::gateway::limits::{ACCEPTED_PER_TURN, GUEST_COUNT_MAX, GUEST_OUTBOX_BYTES_MAX};
use crate::net::{Link, OtherEnd, Stream};

impl Core {
    pub(super) fn accept_guests(&mut self) {
        let now_us = self.now.mono_us;
        for _ in 0..ACCEPTED_PER_TURN {
            let Some(forward) = &mut self.forward else { return };
            let stream = forward.next(now_us, |listener| listener.accept(OtherEnd::Asker));
            let Some(stream) = stream else { return };
            // As clients, in turn.
            let core = self.totals.guests_total.fetch_add(1, Ordering::Relaxed) as usize % self.exchange.core_count();
            if core == self.core {
                self.serve_guest(stream);
            } else {
                self.exchange.core(core).send(ToCore::Guest { stream });
            }
        }
    }

    pub(super) fn serve_guest(&mut self, stream: Stream) {
        if self.guests.len() >= GUEST_COUNT_MAX {
            return tracing::warn!(limit = GUEST_COUNT_MAX, "too many connections of other gateways");
        }
        let number = self.next_client;
        self.next_client += 1;
        let Ok(link) = Link::new(stream, MioToken(number as usize), self.poll.registry()) else { return };
        self.guests.insert(number, Guest::new(link, self.now.mono_us));
        self.read_guest(number);
    }

    pub(super) fn read_guest(&mut self, number: u64) {
        let Some(guest) = self.guests.get_mut(&number) else { return };
        guest.is_queued = false;
        let (exchange, now) = (&mut self.exchange, self.now);
        guest.read(now.mono_us, self.identity, &mut self.scratch, |tag, ask| {
            let token = Token { connection: number, id: RequestId { seq: tag, part: 0 } };
            exchange.ask_as_guest(now, token, ask);
        });
        self.hurt_by_guests += u64::from(guest.take_hurt());
    }

    pub(super) fn drop_silent_guests(&mut self) {
        let (now_us, registry) = (self.now.mono_us, self.poll.registry());
        self.guests.values_mut().for_each(|guest| guest.refuse_late(now_us));
        let silent = self.guests.extract_if(|_, guest| guest.is_silent(now_us));
        silent.for_each(|(_, mut guest)| guest.link.close(registry));
    }

    pub(super) fn write_guests(&mut self) {
        let (registry, unread) = (self.poll.registry(), &mut self.unread);
        self.guests.retain(|&number, guest| {
            let is_broken = guest.send(registry).is_err();
            let is_over = guest.is_over || is_broken || guest.outbox_bytes() > 2 * GUEST_OUTBOX_BYTES_MAX;
            if is_over {
                guest.link.close(registry);
            } else if guest.may_go_on() {
                guest.queue(number, unread);
            }
            !is_over
        });
    }
}

impl Guest {
    /// It is to be read, in its turn.
    pub(super) fn queue(&mut self, number: u64, unread: &mut ReadQueue) {
        if !std::mem::replace(&mut self.is_queued, true) {
            unread.push(number);
        }
    }
}
