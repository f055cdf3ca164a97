//! The experiments: every way of being slow, and every way of not being slow that looks like it.
//!
//! Must not know: what detectors make of them.

use shorttail_monitor::Class;

use super::fault::{Fault, Span, Who};
use super::stream::{Experiment, Load, Sizes, Workload};

const MS: u64 = 1_000;
const S: u64 = 1_000_000;

/// A fault begins when calibration is over for long, and lasts twenty seconds unless said otherwise.
const FROM_US: u64 = 5 * S;
const SPAN: Span = Span { from_us: FROM_US, to_us: FROM_US + 20 * S };
const AFTER_US: u64 = 10 * S;

/// Eight nodes at half of their capacity, hiccups now and then.
pub const STEADY: Workload = Workload {
    nodes: 8,
    load: Load::Open { per_s: 4_000 },
    write_ppm: 500_000,
    sizes: Sizes::Small,
    hiccup_every_us: 2 * S,
};
const CLOSED: Workload = Workload { load: Load::Closed { clients: 32 }, ..STEADY };
const ALONE: Workload = Workload { load: Load::Closed { clients: 1 }, ..STEADY };
const LIGHT: Workload = Workload { load: Load::Open { per_s: 200 }, ..STEADY };
const FEW: Workload = Workload { load: Load::Open { per_s: 50 }, write_ppm: 0, ..STEADY };

pub struct Entry {
    pub name: &'static str,
    pub experiment: Experiment,
}

fn entry(name: &'static str, workload: Workload, who: Who, fault: Fault) -> Entry {
    lasting(name, workload, who, fault, SPAN)
}

fn lasting(name: &'static str, workload: Workload, who: Who, fault: Fault, span: Span) -> Entry {
    Entry { name, experiment: Experiment { workload, fault, who, span, end_us: span.to_us + AFTER_US } }
}

fn delay(us: u64) -> Fault {
    Fault::Delay { us, class: None }
}

/// One node is slow.
pub fn slow() -> Vec<Entry> {
    let one = |name, fault| entry(name, STEADY, Who::OneNode, fault);
    let only = |class| Fault::Delay { us: 50 * MS, class: Some(class) };
    let duty = Fault::Duty { stop_us: 50 * MS, run_us: 2 * MS };
    let square = Fault::Square { us: 50 * MS, period_us: 10 * S };
    let long = Span { from_us: FROM_US, to_us: FROM_US + 40 * S };
    vec![
        one("+1 ms", delay(MS)),
        one("+2 ms", delay(2 * MS)),
        one("+5 ms", delay(5 * MS)),
        one("+50 ms", delay(50 * MS)),
        one("+500 ms", delay(500 * MS)),
        one("+50 ms, reads only", only(Class::Read)),
        one("+50 ms, writes only", only(Class::Write)),
        one("1 % of replies +200 ms", Fault::Tail { ppm: 10_000, us: 200 * MS }),
        one("ramp to 50 ms in 10 s", Fault::Ramp { us: 50 * MS }),
        lasting("square wave 10 s, 50 ms", STEADY, Who::OneNode, square, long),
        one("stopped 50 ms, running 2 ms", duty),
        one("5 % of a CPU: 95 ms of 100 stopped", Fault::Duty { stop_us: 95 * MS, run_us: 5 * MS }),
        one("link of 1 Mbit/s", Fault::Bandwidth { bytes_per_s: 125_000 }),
        one("memory pressure: 60 ms each second", Fault::Pauses { every_us: S, us: 60 * MS }),
        lasting("stopped for 1 s", STEADY, Who::OneNode, Fault::Stop { us: S }, Span { to_us: FROM_US + S, ..SPAN }),
        one("stopped for 20 s", Fault::Stop { us: 20 * S }),
        entry("+50 ms, 32 waiting clients", CLOSED, Who::OneNode, delay(50 * MS)),
        entry("+50 ms, one waiting client", ALONE, Who::OneNode, delay(50 * MS)),
        entry("+50 ms, 200 requests a second", LIGHT, Who::OneNode, delay(50 * MS)),
        entry("+50 ms, 50 reads a second", FEW, Who::OneNode, delay(50 * MS)),
        entry("+20 ms, bimodal sizes", Workload { sizes: Sizes::Bimodal, ..STEADY }, Who::OneNode, delay(20 * MS)),
        entry("50/2 ms, 32 waiting clients", CLOSED, Who::OneNode, duty),
    ]
}

/// Nobody is slow, or everybody: no verdict is right.
pub fn innocent() -> Vec<Entry> {
    let all = |name, fault| entry(name, STEADY, Who::EveryNode, fault);
    let quiet = |name, workload| entry(name, workload, Who::OneNode, Fault::Nothing);
    let half = Fault::Duty { stop_us: 20 * MS, run_us: 20 * MS };
    let starved = Fault::Duty { stop_us: 95 * MS, run_us: 5 * MS };
    vec![
        quiet("healthy", STEADY),
        quiet("healthy, a hiccup each 0.5 s and node", Workload { hiccup_every_us: S / 2, ..STEADY }),
        quiet("healthy, no hiccups", Workload { hiccup_every_us: 0, ..STEADY }),
        quiet("healthy, 32 waiting clients", CLOSED),
        quiet("healthy, one waiting client", ALONE),
        quiet("healthy, 200 requests a second", LIGHT),
        quiet("healthy, 50 reads a second", FEW),
        quiet("healthy, three nodes", Workload { nodes: 3, ..STEADY }),
        quiet("bimodal sizes", Workload { sizes: Sizes::Bimodal, ..STEADY }),
        quiet(
            "one node has the large ones",
            Workload { sizes: Sizes::OneNodeLarge, load: Load::Open { per_s: 2000 }, ..STEADY },
        ),
        all("all +20 ms", delay(20 * MS)),
        all("all +500 ms", delay(500 * MS)),
        all("all stop for 1 s", Fault::Stop { us: S }),
        entry(
            "all +20 ms, bimodal sizes",
            Workload { sizes: Sizes::Bimodal, ..STEADY },
            Who::EveryNode,
            delay(20 * MS),
        ),
        entry("all +20 ms, 32 waiting clients", CLOSED, Who::EveryNode, delay(20 * MS)),
        entry("all +50 ms, 200 requests a second", LIGHT, Who::EveryNode, delay(50 * MS)),
        entry("all +50 ms, 50 reads a second", FEW, Who::EveryNode, delay(50 * MS)),
        entry("all +500 ms, 50 reads a second", FEW, Who::EveryNode, delay(500 * MS)),
        entry("gateway stopped half of the time", STEADY, Who::Gateway, half),
        entry("gateway has 5 % of a CPU", STEADY, Who::Gateway, starved),
        entry("the same, 32 waiting clients", CLOSED, Who::Gateway, starved),
        lasting(
            "one stops for 40 ms",
            STEADY,
            Who::OneNode,
            Fault::Stop { us: 40 * MS },
            Span { to_us: FROM_US + 40 * MS, ..SPAN },
        ),
    ]
}
