//! Orders to be faulty: how they reach the cores of a node, and what a core does about them.
//!
//! ```text
//! coordinator --order--> control thread --CoreOrder--> every core --what it did--> control thread --answer--> coordinator
//! ```
//!
//! A node that was not started for it refuses every order: the decision is the node's, whatever the coordinator says.
//!
//! Must not know: who orders, and why.

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mio::{Poll, Token};
use shorttail_chaos::{ChaosOrder, Fault, FlipBits};
use shorttail_node::Node;
use shorttail_units::Now;
use shorttail_wire::control::ChaosStatus;

use super::CoreGauges;
use super::core::ToNodeCore;
use super::injector::{Broken, Injected, Injector};
use crate::locks::lock;
use crate::net::{Outlet, Timer};

/// No session has this number: they are given from the bottom.
pub const TIMER: Token = Token(usize::MAX);

/// A core's loop never waits for anything else than its events.
const CORE_ANSWERS_WITHIN: Duration = Duration::from_secs(1);

/// An order for one core. Of one that does not obey whoever waits is told by the end of the channel.
#[derive(Debug)]
pub struct CoreOrder {
    order: ChaosOrder,
    done: Sender<CoreAnswer>,
}

/// What a core did: the bits that it flipped.
type CoreAnswer = u32;

/// Faults of one core.
#[derive(Debug)]
pub struct CoreChaos {
    injector: Injector,
    timer: Timer,
    gauges: Arc<CoreGauges>,
    published_us: u64,
    seed: u64,
    flipped: u64,
}

/// Microseconds between two looks at what the faults did.
const PUBLISH_EVERY_US: u64 = 50_000;

impl CoreChaos {
    /// # Errors
    /// When the system gives no timer.
    pub fn new(poll: &Poll, gauges: Arc<CoreGauges>, seed: u64) -> io::Result<Self> {
        let timer = Timer::new(poll, TIMER)?;
        Ok(CoreChaos { injector: Injector::new(seed), timer, gauges, published_us: 0, seed, flipped: 0 })
    }

    pub fn obey(&mut self, now: Now, order: CoreOrder, node: &mut Node) {
        let mut flipped = 0;
        match order.order {
            ChaosOrder::Apply(fault) => self.injector.apply(now.mono_us, fault),
            ChaosOrder::Clear => self.injector.clear(),
            ChaosOrder::FlipBits(FlipBits { count }) => {
                self.seed = self.seed.wrapping_add(1);
                flipped = node.flip_bits(count, self.seed);
                self.flipped += u64::from(flipped);
            }
            // The process dies before its cores would be asked.
            ChaosOrder::Kill => {}
        }
        self.publish(now);
        // Who ordered may have given up waiting.
        let _ = order.done.send(flipped);
    }

    pub fn note_requests(&mut self, now: Now, session: usize, input: &[u8]) {
        self.injector.note_requests(now.mono_us, session, input);
    }

    pub fn adopt(&mut self, session: usize, output: &mut Vec<u8>) {
        self.injector.adopt(session, output);
    }

    pub fn release(&mut self, now: Now, sessions: &mut Vec<usize>) {
        self.injector.release(now.mono_us, sessions);
    }

    /// What to send to a session now, of what it is answered now and was before.
    ///
    /// # Errors
    /// When the session is to be ended.
    pub fn output<'a>(
        &'a mut self,
        now: Now,
        session: usize,
        replies: Option<&'a mut Vec<u8>>,
    ) -> Result<Option<&'a mut Vec<u8>>, Broken> {
        if !self.injector.concerns(now.mono_us, session) {
            return Ok(replies);
        }
        if let Some(replies) = replies {
            self.injector.judge(now.mono_us, session, replies)?;
        }
        Ok(self.injector.ready(session))
    }

    pub fn forget(&mut self, session: usize) {
        self.injector.forget(session);
    }

    /// Ends a turn: wakes the loop again when something is due.
    pub fn end_turn(&mut self, now: Now) {
        self.timer.set(now.mono_us, self.injector.due_us());
        if now.mono_us.saturating_sub(self.published_us) >= PUBLISH_EVERY_US {
            self.publish(now);
        }
    }

    fn publish(&mut self, now: Now) {
        let Injected { delayed, dropped, corrupted } = self.injector.injected();
        self.published_us = now.mono_us;
        *lock(&self.gauges.chaos) = ChaosStatus {
            faults: self.injector.faults(now.mono_us),
            delayed_total: delayed,
            dropped_total: dropped,
            corrupted_total: corrupted,
            bits_flipped_total: self.flipped,
        };
    }
}

/// Where orders for a node arrive: its cores, once they run, if it obeys at all.
#[derive(Clone, Debug)]
pub struct OrderDesk {
    is_allowed: bool,
    cores: Arc<OnceLock<Vec<CoreEnd>>>,
}

/// How a core is reached, and what it publishes.
type CoreEnd = (Outlet<ToNodeCore>, Arc<CoreGauges>);

impl OrderDesk {
    pub fn new(is_allowed: bool) -> Self {
        OrderDesk { is_allowed, cores: Arc::default() }
    }

    pub fn open(&self, cores: Vec<CoreEnd>) {
        // A node starts its cores once.
        let _ = self.cores.set(cores);
    }

    /// The node's faults: all cores have the same ones, and what these did adds up.
    pub fn status(&self) -> ChaosStatus {
        let mut sum = ChaosStatus::default();
        let Some(cores) = self.cores.get() else { return sum };
        for (_, gauges) in cores {
            let core = lock(&gauges.chaos);
            sum.faults.clone_from(&core.faults);
            sum.delayed_total += core.delayed_total;
            sum.dropped_total += core.dropped_total;
            sum.corrupted_total += core.corrupted_total;
            sum.bits_flipped_total += core.bits_flipped_total;
        }
        sum
    }

    /// Has every core do it; what was done, for people.
    ///
    /// # Errors
    /// Why it was not done, or not by all.
    pub fn obey(&self, order: ChaosOrder) -> Result<String, String> {
        if !self.is_allowed {
            return Err("the node was not started with --allow-chaos".into());
        }
        order.check().map_err(|error| error.to_string())?;
        let cores = self.cores.get().ok_or("the node does not serve yet")?;
        tracing::warn!(?order, "obeying an order to be faulty");
        if order == ChaosOrder::Kill {
            return Err(kill_this_process());
        }
        let (done, answers) = channel();
        for (place, (core, _)) in cores.iter().enumerate() {
            let order = share_of(order, place, cores.len());
            core.send(ToNodeCore::Order(CoreOrder { order, done: done.clone() }));
        }
        drop(done);
        let mut flipped = 0;
        for _ in 0..cores.len() {
            flipped += answers.recv_timeout(CORE_ANSWERS_WITHIN).map_err(|_| "a core does not answer")?;
        }
        what_was_done(order, flipped)
    }
}

fn what_was_done(order: ChaosOrder, flipped: CoreAnswer) -> Result<String, String> {
    match order {
        ChaosOrder::Apply(fault) => Ok(fault.to_string()),
        ChaosOrder::FlipBits(_) if flipped == 0 => Err("it holds nothing to corrupt, so no bit was flipped".into()),
        ChaosOrder::FlipBits(_) => Ok(format!("{flipped} bits flipped")),
        ChaosOrder::Clear | ChaosOrder::Kill => Ok("no fault".into()),
    }
}

/// The part of an order that one of `count` cores has to do.
fn share_of(order: ChaosOrder, place: usize, count: usize) -> ChaosOrder {
    let (place, count) = (place as u64, count as u64);
    match order {
        ChaosOrder::Apply(fault) => ChaosOrder::Apply(Fault::for_each_of(fault, count)),
        ChaosOrder::FlipBits(FlipBits { count: bits }) => {
            let bits = u64::from(bits);
            let share = bits / count + u64::from(place < bits % count);
            ChaosOrder::FlipBits(FlipBits { count: u32::try_from(share).unwrap_or(u32::MAX) })
        }
        ChaosOrder::Clear | ChaosOrder::Kill => order,
    }
}

/// Ends this process as `kill -9` does; comes back only with the reason why not.
fn kill_this_process() -> String {
    use rustix::process::{Signal, getpid, kill_process};
    match kill_process(getpid(), Signal::KILL) {
        // The signal is on its way: nothing of this process is answered any more.
        Ok(()) => std::process::abort(),
        Err(error) => format!("cannot kill the process: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_was_not_started_for_it_refuses_everything() {
        let desk = OrderDesk::new(false);
        for order in [ChaosOrder::Clear, ChaosOrder::Kill, ChaosOrder::FlipBits(FlipBits { count: 1 })] {
            assert_eq!(desk.obey(order), Err("the node was not started with --allow-chaos".into()));
        }
    }

    #[test]
    fn senseless_orders_and_early_ones_are_refused() {
        let desk = OrderDesk::new(true);
        assert!(
            desk.obey(ChaosOrder::FlipBits(FlipBits { count: 0 })).is_err_and(|why| why.contains("number of bits"))
        );
        assert_eq!(desk.obey(ChaosOrder::Clear), Err("the node does not serve yet".into()));
    }

    #[test]
    fn an_order_without_an_effect_is_not_done() {
        let order = ChaosOrder::FlipBits(FlipBits { count: 8 });
        assert_eq!(what_was_done(order, 3), Ok("3 bits flipped".into()));
        assert!(what_was_done(order, 0).is_err_and(|why| why.contains("nothing to corrupt")));
    }

    #[test]
    fn cores_share_what_is_counted() {
        let bits = |place| match share_of(ChaosOrder::FlipBits(FlipBits { count: 8 }), place, 3) {
            ChaosOrder::FlipBits(FlipBits { count }) => count,
            other => panic!("{other:?}"),
        };
        assert_eq!([0, 1, 2].map(bits), [3, 3, 2]);
    }
}
