//! One experiment: requests to model nodes through a real monitor, in virtual time.
//!
//! The gateway of the model does with a verdict what the real one does: reads of an avoided node go to four
//! others, writes go elsewhere, and a probe goes beside them when the monitor wants one. So an avoided node is
//! known by its probes only.
//!
//! Must not know: how verdicts are reached.

use shorttail_monitor::{Class, Detector, Monitor, MonitorConfig, Ticket};
use shorttail_units::NodeId;

use super::fault::{Fault, Span, Who};
use super::machine::Machine;
use crate::rng::Rng;
use crate::schedule::Schedule;

/// The engine looks after the monitor this often.
const TICK_US: u64 = 5_000;
/// Shape of a stripe: nodes that a degraded read asks, nodes that a write goes to.
const DATA_COUNT: usize = 4;
const WRITE_COUNT: usize = 3;

/// How clients ask.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Load {
    /// So many operations a second, whatever becomes of them.
    Open { per_s: u64 },
    /// So many clients, each waiting for its answer.
    Closed { clients: u32 },
}

/// How large requests are.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Sizes {
    Small,
    /// One of twenty is of 256 KiB.
    Bimodal,
    /// One node gets large ones only.
    OneNodeLarge,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Workload {
    pub nodes: u16,
    pub load: Load,
    pub write_ppm: u32,
    pub sizes: Sizes,
    /// Hiccups of each node, so far apart on average; 0: none.
    pub hiccup_every_us: u64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Experiment {
    pub workload: Workload,
    pub fault: Fault,
    pub who: Who,
    pub span: Span,
    pub end_us: u64,
}

/// What came of an experiment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    pub operations: u64,
    /// From the beginning of the fault to the verdict.
    pub detect_us: Option<u64>,
    /// How long the faulty node was fail-slow while it was faulty.
    pub flagged_us: u64,
    /// From the end of the fault until the node was normal for good.
    pub clear_us: Option<u64>,
    /// Verdicts against nodes that were not at fault, and how long they were fail-slow in all.
    pub false_verdicts: u64,
    pub false_us: u64,
}

#[derive(Debug)]
enum Event {
    Arrive { client: Option<u32> },
    Answer { operation: usize, ticket: Ticket },
    Tick,
}

#[derive(Debug)]
struct Operation {
    waits_for: usize,
    client: Option<u32>,
}

/// The faulty node, if one alone is.
const FAULTY: u16 = 3;

struct Stream {
    experiment: Experiment,
    monitor: Monitor,
    machines: Vec<Machine>,
    schedule: Schedule<Event>,
    operations: Vec<Operation>,
    free: Vec<usize>,
    rng: Rng,
    outcome: Outcome,
    was_slow: Vec<bool>,
}

/// Runs an experiment.
pub fn run(experiment: Experiment, config: MonitorConfig, seed: u64) -> Outcome {
    let mut stream = Stream::new(experiment, config, seed);
    stream.begin();
    while stream.schedule.next_us().is_some_and(|at_us| at_us < experiment.end_us) {
        let Some(event) = stream.schedule.pop() else { break };
        stream.handle(event);
    }
    stream.outcome
}

impl Stream {
    fn new(experiment: Experiment, config: MonitorConfig, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let Experiment { workload, fault, who, span, .. } = experiment;
        let mut monitor = Monitor::new(config, 0);
        let mut machines = Vec::new();
        for node in 0..workload.nodes {
            monitor.add_node(NodeId(node));
            let is_faulty = who == Who::EveryNode || (who == Who::OneNode && node == FAULTY);
            let fault = if is_faulty { fault } else { Fault::Nothing };
            machines.push(Machine::new(fault, span, workload.hiccup_every_us, rng.fork()));
        }
        Stream {
            experiment,
            monitor,
            machines,
            schedule: Schedule::default(),
            operations: Vec::new(),
            free: Vec::new(),
            rng,
            outcome: Outcome::default(),
            was_slow: vec![false; usize::from(workload.nodes)],
        }
    }

    fn begin(&mut self) {
        self.schedule.at(TICK_US, Event::Tick);
        match self.experiment.workload.load {
            Load::Open { .. } => self.schedule.at(0, Event::Arrive { client: None }),
            Load::Closed { clients } => {
                (0..clients)
                    .for_each(|client| self.schedule.at(u64::from(client), Event::Arrive { client: Some(client) }));
            }
        }
    }

    fn handle(&mut self, event: Event) {
        let now_us = self.schedule.now_us();
        if let Some(run_us) = self.gateway_runs_us(now_us) {
            self.schedule.at(run_us, event);
            return;
        }
        match event {
            Event::Arrive { client } => {
                if let Load::Open { per_s } = self.experiment.workload.load {
                    let gap_us = self.rng.exponential_us(1_000_000 / per_s, 10_000_000);
                    self.schedule.after(gap_us, Event::Arrive { client: None });
                }
                self.start(client, now_us);
            }
            Event::Answer { operation, ticket } => {
                self.monitor.answered(ticket, now_us);
                self.end_part(operation);
            }
            Event::Tick => {
                self.monitor.tick(now_us);
                self.look(now_us);
                self.schedule.after(TICK_US, Event::Tick);
            }
        }
    }

    /// When the gateway runs again, if it is stopped.
    fn gateway_runs_us(&self, now_us: u64) -> Option<u64> {
        let Experiment { fault, who, span, .. } = self.experiment;
        let stop = (who == Who::Gateway).then(|| fault.stop_after(span, now_us)).flatten();
        stop.filter(|&(start_us, _)| start_us <= now_us).map(|(_, end_us)| end_us)
    }

    fn start(&mut self, client: Option<u32>, now_us: u64) {
        self.outcome.operations += 1;
        let operation = self.free.pop().unwrap_or_else(|| {
            self.operations.push(Operation { waits_for: 0, client: None });
            self.operations.len() - 1
        });
        self.operations[operation] = Operation { waits_for: 0, client };
        if self.rng.chance_ppm(self.experiment.workload.write_ppm) {
            self.write(operation, now_us);
        } else {
            self.read(operation, now_us);
        }
    }

    fn is_avoided(&self, node: u16) -> bool {
        self.monitor.avoided().any(|avoided| avoided.0 == node)
    }

    fn read(&mut self, operation: usize, now_us: u64) {
        let nodes = self.experiment.workload.nodes;
        let node = self.rng.below(u64::from(nodes)) as u16;
        let bytes = self.bytes(node);
        if !self.is_avoided(node) {
            return self.send(operation, node, Class::Read, bytes, now_us, true);
        }
        if self.monitor.wants_class_probe(NodeId(node), Class::Read, now_us) {
            self.send(operation, node, Class::Read, bytes, now_us, false);
        }
        let mut others: Vec<u16> = (0..nodes).filter(|&other| !self.is_avoided(other)).collect();
        self.rng.shuffle(&mut others);
        others.truncate(DATA_COUNT);
        others.into_iter().for_each(|other| self.send(operation, other, Class::Read, bytes, now_us, true));
    }

    fn write(&mut self, operation: usize, now_us: u64) {
        let nodes = self.experiment.workload.nodes;
        let probed = (0..nodes)
            .find(|&node| self.is_avoided(node) && self.monitor.wants_class_probe(NodeId(node), Class::Write, now_us));
        let mut takers: Vec<u16> = (0..nodes).filter(|&node| !self.is_avoided(node)).collect();
        self.rng.shuffle(&mut takers);
        takers.truncate(WRITE_COUNT);
        let bytes = self.bytes(takers[0]);
        if let Some(probed) = probed {
            self.send(operation, probed, Class::Write, bytes, now_us, false);
        }
        takers.into_iter().for_each(|node| self.send(operation, node, Class::Write, bytes, now_us, true));
    }

    fn bytes(&mut self, node: u16) -> u32 {
        let is_large = match self.experiment.workload.sizes {
            Sizes::Small => false,
            Sizes::Bimodal => self.rng.chance_ppm(50_000),
            Sizes::OneNodeLarge => node == 0,
        };
        if is_large { 256 << 10 } else { 100 }
    }

    fn send(&mut self, operation: usize, node: u16, class: Class, bytes: u32, now_us: u64, is_waited_for: bool) {
        let ticket = self.monitor.sent(NodeId(node), class, bytes, now_us);
        let at_us = self.machines[usize::from(node)].answer_us(now_us, class, bytes);
        let operation = if is_waited_for { operation } else { NOBODY };
        if is_waited_for {
            self.operations[operation].waits_for += 1;
        }
        self.schedule.at(at_us, Event::Answer { operation, ticket });
    }

    fn end_part(&mut self, operation: usize) {
        let Some(waiting) = self.operations.get_mut(operation) else { return };
        waiting.waits_for -= 1;
        if waiting.waits_for == 0 {
            if let Some(client) = waiting.client {
                self.schedule.after(0, Event::Arrive { client: Some(client) });
            }
            self.free.push(operation);
        }
    }

    /// Compares the monitor's verdicts with the truth.
    fn look(&mut self, now_us: u64) {
        let Experiment { who, span, fault, .. } = self.experiment;
        for node in 0..self.experiment.workload.nodes {
            let is_slow = self.monitor.is_fail_slow(NodeId(node));
            let was_slow = std::mem::replace(&mut self.was_slow[usize::from(node)], is_slow);
            let begins = is_slow && !was_slow;
            let is_faulty = who == Who::OneNode && node == FAULTY && fault != Fault::Nothing && now_us >= span.from_us;
            if is_faulty && now_us < span.to_us {
                self.outcome.flagged_us += if is_slow { TICK_US } else { 0 };
                if begins && self.outcome.detect_us.is_none() {
                    self.outcome.detect_us = Some(now_us - span.from_us);
                }
            } else if is_faulty && is_slow {
                self.outcome.clear_us = Some(now_us - span.to_us);
            } else if is_slow {
                self.outcome.false_us += TICK_US;
            }
            self.outcome.false_verdicts += u64::from(begins && !(is_faulty && now_us < span.to_us));
        }
        while self.monitor.poll_verdict().is_some() {}
    }
}

/// Nobody waits for a probe.
const NOBODY: usize = usize::MAX;

/// Names a detector as tables do.
pub fn name_of(detector: Detector) -> &'static str {
    match detector {
        Detector::Adaptive => "adaptive",
        Detector::Fixed { by_age: false } => "fixed",
        Detector::Fixed { by_age: true } => "fixed, ages",
        Detector::Off => "off",
    }
}
