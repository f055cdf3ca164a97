//! The life of a run: work and faults, healing, progress, final reads, everything deleted, memory back.

use std::panic::{AssertUnwindSafe, catch_unwind};

use shorttail_gateway::engine::Engine;
use shorttail_gateway::engine::limits::OPEN_MAX;

use super::{Outcome, Violation, World};
use crate::config::Profile;
use crate::model::Action;

/// Virtual time in which everything must come to an end after healing: far longer than any deadline and retry.
const PROGRESS_US: u64 = 20_000_000;
/// Virtual time in which memory must be reclaimed after everything was deleted.
const RECLAIM_US: u64 = 30_000_000;
/// Virtual time in which what nodes know to be damaged must be mended: more than stripes and orders rest.
const MEND_US: u64 = 20_000_000;
/// Everything lost is rebuilt in less, once all nodes are there.
const REBUILT_US: u64 = 120_000_000;
/// From the beginning of a scrubber's pass to that of the next one, without the time that it takes.
const SCRUB_PASS_US: u64 = 10_000_000;
/// Attempts at a final read or delete, and the time between two.
const ATTEMPTS_MAX: u32 = 20;
const ATTEMPT_US: u64 = 200_000;
/// So many of a million runs end with owners that know nothing, as that takes more than half as long again.
const ENDS_AFRESH_PPM: u32 = 300_000;
/// At the end, nodes that lose their memory and gateways that begin anew are away for so long.
const LAST_NODES_AWAY_US: u64 = 3_000_000;
const LAST_GATEWAYS_AWAY_US: u64 = 10_000;
/// The client of the final reads.
const AUDITOR: u32 = 1_000;

impl World {
    /// Runs it all.
    ///
    /// # Errors
    /// The first violation; a machine's panic is one.
    pub fn run(&mut self) -> Result<(), Violation> {
        self.guard(Self::live)
    }

    /// Ends a scenario: all faults end, everything is read back, deleted, reclaimed, and judged.
    ///
    /// # Errors
    /// As [`World::run`].
    pub fn conclude(&mut self) -> Result<(), Violation> {
        self.guard(|world| {
            world.heal();
            world.finish();
        })
    }

    fn guard(&mut self, act: impl FnOnce(&mut Self)) -> Result<(), Violation> {
        let outcome = catch_unwind(AssertUnwindSafe(|| act(self)));
        if let Err(panic) = outcome {
            return Err(Violation::Panic(text_of(&*panic)));
        }
        match self.failure.take() {
            Some(violation) => Err(violation),
            None => Ok(()),
        }
    }

    fn live(&mut self) {
        if self.config.latency_us_max.is_some() {
            // Who comes before the cluster serves is refused.
            self.await_serving();
        }
        self.start_clients();
        self.start_faults();
        self.run_until(self.config.active_us);
        self.heal();
        self.finish();
    }

    /// Clients and faults end; what was asked must be answered soon.
    fn heal(&mut self) {
        self.is_active = false;
        self.end_faults();
        let until_us = self.now_us() + PROGRESS_US;
        let is_done = self.run_while(until_us, |world| !world.clients.is_idle() || !world.is_settled());
        if !is_done && self.failure.is_none() {
            let text = format!("{}; settled: {}", self.clients.pending_text(), self.is_settled());
            self.fail(Violation::NoProgress(text));
        }
        self.settle_flushes();
    }

    /// Reads everything back, deletes it, and waits for the memory: judges the history.
    fn finish(&mut self) {
        self.audit();
        self.history.heal(self.schedule.now_us());
        let keys: Vec<Vec<u8>> = self.history.keys().map(<[u8]>::to_vec).collect();
        self.insist_on_all(&keys, &Action::Get);
        self.await_mended();
        // A full store has no room for what is lost until something is deleted.
        let is_full = self.config.kind == Profile::Cramped;
        if !is_full {
            self.await_rebuilt();
        }
        self.audit();
        let ends_afresh = self.rng.chance_ppm(ENDS_AFRESH_PPM);
        if ends_afresh {
            if !is_full {
                self.lose_some();
            }
            self.replace_gateways();
            self.insist_on_all(&keys, &Action::Get);
            // With fewer nodes nothing may be written.
            self.run_until(self.now_us() + LAST_NODES_AWAY_US);
        }
        self.insist_on_all(&keys, &Action::Delete);
        if ends_afresh {
            self.replace_gateways();
        }
        self.insist_on_all(&keys, &Action::Get);
        if self.failure.is_some() {
            return;
        }
        if let Err(failure) = self.history.check() {
            return self.fail(Violation::History(Box::new(failure)));
        }
        self.await_reclaim();
        if is_full {
            self.await_rebuilt();
        }
        self.audit();
    }

    /// All is whole, so as many nodes may lose their memory as the code survives: any, so that what was rebuilt is
    /// needed. What decayed, or is read wrong, stays with those that it befell.
    fn lose_some(&mut self) {
        if self.is_spoilt {
            return;
        }
        if self.config.faults.rot == 0 && self.config.faults.misread == 0 {
            self.draw_victims(self.members());
        }
        for node in self.victims() {
            self.crash_node(node, LAST_NODES_AWAY_US);
        }
    }

    /// Owners that know nothing but what nodes tell: what those before them knew beside that has to be of no account.
    fn replace_gateways(&mut self) {
        for gateway in 0..self.gateways.len() {
            self.crash_gateway_number(gateway, LAST_GATEWAYS_AWAY_US);
        }
        self.run_until(self.now_us() + LAST_GATEWAYS_AWAY_US);
        let until_us = self.now_us() + PROGRESS_US;
        if self.run_while(until_us, |world| !world.is_settled()) || self.failure.is_some() {
            return;
        }
        self.fail(Violation::NoProgress("nobody takes over at the end".to_owned()));
    }

    /// Lets time pass until everything is served.
    pub fn await_serving(&mut self) {
        let until_us = self.now_us() + PROGRESS_US;
        assert!(self.run_while(until_us, |world| !world.is_settled()), "not everything is served: {:?}", self.failure);
    }

    /// Asks, waits for the end, and returns it.
    pub fn ask(&mut self, key: &str, action: Action) -> Outcome {
        let op = self.request(0, key, action);
        self.await_op(op)
    }

    /// Waits for the end of an operation.
    pub fn await_op(&mut self, op: super::Op) -> Outcome {
        let until_us = self.now_us() + PROGRESS_US;
        self.run_while(until_us, |world| world.outcome(op).is_none());
        self.outcome(op).cloned().unwrap_or_else(|| panic!("{op:?} has no end: {:?}", self.failure))
    }

    /// Asks for every key until it is answered: after healing nothing may be refused for long.
    fn insist_on_all(&mut self, keys: &[Vec<u8>], action: &Action) {
        let mut left: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        for _ in 0..ATTEMPTS_MAX {
            let asked: Vec<_> = left
                .iter()
                .map(|key| {
                    let text = std::str::from_utf8(key).expect("keys are text");
                    (*key, self.request(AUDITOR, text, action.clone()))
                })
                .collect();
            let until_us = self.now_us() + PROGRESS_US;
            if !self.run_while(until_us, |world| !world.clients.is_idle()) {
                let text = self.clients.pending_text();
                return self.fail(Violation::NoProgress(text));
            }
            let is_open = |(_, op): &(&[u8], super::Op)| !matches!(self.outcome(*op), Some(Outcome::Answered(_)));
            left = asked.into_iter().filter(is_open).map(|(key, _)| key).collect();
            if left.is_empty() {
                return;
            }
            self.run_until(self.now_us() + ATTEMPT_US);
        }
        let text = format!("{action} of {} is refused long after healing", left[0].escape_ascii());
        self.fail(Violation::NoProgress(text));
    }

    /// What is damaged is mended: all of it where nodes scrub, else what was noticed.
    fn await_mended(&mut self) {
        let bytes_per_s = self.config.scrub_bytes_per_s;
        if bytes_per_s > 0 && self.nodes.iter().any(|node| node.is_rotten) {
            let pass_us = self.config.node_memory_bytes as u64 * 1_000_000 / bytes_per_s;
            self.run_until(self.now_us() + SCRUB_PASS_US + 2 * pass_us);
        }
        let until_us = self.now_us() + MEND_US;
        if !self.run_while(until_us, |world| world.damaged_chunks() > 0) && self.failure.is_none() {
            let text = format!("{} chunks stay damaged: {}", self.damaged_chunks(), self.damaged_text());
            self.fail(Violation::NoProgress(text));
        }
    }

    /// All nodes are there: what was lost is rebuilt, and who says so is right.
    fn await_rebuilt(&mut self) {
        let until_us = self.now_us() + REBUILT_US;
        if !self.run_while(until_us, |world| !world.is_whole()) && self.failure.is_none() {
            let stats: Vec<_> = self.gateways.iter().flat_map(super::GatewayHost::engines).map(Engine::stats).collect();
            let text = format!("not everything is rebuilt; the owners count {stats:?}; {}", self.held_text());
            return self.fail(Violation::NoProgress(text));
        }
        self.audit_whole();
    }

    /// Nothing is stored: nodes keep what is open, and little else.
    fn await_reclaim(&mut self) {
        let until_us = self.now_us() + RECLAIM_US;
        if !self.run_while(until_us, |world| world.chunk_count() > world.chunks_kept_max()) && self.failure.is_none() {
            let (count, max) = (self.chunk_count(), self.chunks_kept_max());
            let stats: Vec<_> = self.gateways.iter().flat_map(super::GatewayHost::engines).map(Engine::stats).collect();
            let text = format!(
                "{count} chunks are held although all is deleted, not {max}; the owners count {stats:?}; {}",
                self.held_text()
            );
            self.fail(Violation::NoProgress(text));
        }
    }

    /// Chunks on all nodes.
    pub fn chunk_count(&self) -> u64 {
        self.nodes.iter().map(super::NodeHost::chunk_count).sum()
    }

    /// Memory in use on all nodes.
    pub fn used_bytes(&self) -> u64 {
        self.nodes.iter().map(super::NodeHost::used_bytes).sum()
    }

    /// The open stripes of each partition, one that is not worth cleaning, and one that is being freed.
    fn chunks_kept_max(&self) -> u64 {
        let engine_count = self.gateways.iter().flat_map(super::GatewayHost::engines).count() as u64;
        let stripes = u64::from(self.config.partition_count) * OPEN_MAX as u64 + 2 * engine_count;
        stripes * self.config.code.chunk_count() as u64
    }
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}
