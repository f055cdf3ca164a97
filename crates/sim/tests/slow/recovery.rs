//! A node that was slow in writing only, and recovers: writes use it again soon, though no read ever goes there; and
//! while it is slow, no client's write is spent on finding that out.

use shorttail_chaos::{Class, Fault, FaultKind, Slow};
use shorttail_monitor::Class as Watched;
use shorttail_sim::config::SimConfig;
use shorttail_sim::model::{Action, Value};
use shorttail_sim::world::World;

const SECOND_US: u64 = 1_000_000;
/// Longer than several back-offs: whoever tries the node with clients' writes meanwhile doubles them.
const SLOW_US: u64 = 20 * SECOND_US;
/// Half a second of good answers, and what slices and probes add.
const NORMAL_US: u64 = 3 * SECOND_US / 2;
/// Until it holds a chunk of an open stripe.
const USED_US: u64 = NORMAL_US + SECOND_US;
const GAP_US: u64 = 1_000;

/// Writes and nothing else, always of another key.
struct Writes {
    world: World,
    next: u64,
}

impl Writes {
    fn until(&mut self, until_us: u64, mut is_over: impl FnMut(&mut World) -> bool) {
        while self.world.now_us() < until_us && !is_over(&mut self.world) {
            let value = Value::bytes(format!("value {}", self.next).as_bytes());
            self.world.request(0, &format!("key {}", self.next % 400), Action::Set(value));
            self.next += 1;
            self.world.run_until(self.world.now_us() + GAP_US);
        }
    }

    fn pass(&mut self, us: u64) {
        self.until(self.world.now_us() + us, |_| false);
    }

    /// Verdicts on writes of a node since then.
    fn verdicts(&self, node: usize, since_us: u64) -> Vec<bool> {
        let verdicts = self.world.verdicts().iter().filter(|&&(at_us, _)| at_us >= since_us);
        let of_node = verdicts.filter(|(_, it)| usize::from(it.node.0) == node && it.class == Watched::Write);
        of_node.map(|(_, verdict)| verdict.fail_slow).collect()
    }
}

#[test]
fn writes_use_a_recovered_node_again_soon() {
    for seed in 0..3 {
        let config = SimConfig { node_memory_bytes: 4 << 20, audit_events: 20_000, ..SimConfig::scripted() };
        let mut world = World::with_config(config, seed);
        world.await_serving();
        let mut writes = Writes { world, next: 0 };
        writes.pass(2 * SECOND_US);
        let node = writes.world.holder_of_open(true).expect("a stripe is open");
        let slow = Slow { delay_us: 50_000, only: Some(Class::Write), ..Slow::default() };
        let slow_from_us = writes.world.now_us();
        writes.world.apply_fault(node, Fault { kind: FaultKind::Slow(slow), for_us: None });
        writes.pass(SLOW_US);
        assert_eq!(writes.verdicts(node, slow_from_us), [true], "seed {seed}: found once, and never tried in vain");
        writes.world.clear_fault(node);
        let clear_us = writes.world.now_us();
        let is_normal = |writes: &Writes| writes.verdicts(node, clear_us) == [false];
        while !is_normal(&writes) && writes.world.now_us() < clear_us + NORMAL_US {
            writes.pass(10 * GAP_US);
        }
        assert!(is_normal(&writes), "seed {seed}: not normal {NORMAL_US} us after it recovered");
        writes.until(clear_us + USED_US, |world| world.holders_of_open().contains(&node));
        assert!(writes.world.holders_of_open().contains(&node), "seed {seed}: not used again");
        writes.world.conclude().unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
    }
}
