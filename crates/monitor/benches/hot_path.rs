//! What a request costs: `sent` and `answered` of a monitor with eight nodes, a thousand requests under way.
//! `cargo bench -p shorttail-monitor` prints the median and the best of rounds.

use std::hint::black_box;
use std::time::Instant;

use shorttail_monitor::{Class, Monitor, MonitorConfig};
use shorttail_units::NodeId;

const NODES: u16 = 8;
const UNDER_WAY: usize = 1000;
const ROUND: usize = 1_000_000;
const ROUNDS: usize = 15;
/// A request each 5 us: ten times what one gateway core handles.
const STEP_US: u64 = 5;
const TICK_EVERY: u64 = 200;

fn main() {
    let mut monitor = Monitor::new(MonitorConfig::default(), 0);
    (0..NODES).for_each(|node| monitor.add_node(NodeId(node)));
    let mut now_us = 0;
    let mut turn = 0u64;
    let first = monitor.sent(NodeId(0), Class::Read, 0, now_us);
    let mut under_way = vec![first; UNDER_WAY];
    let mut round = || {
        let began = Instant::now();
        for _ in 0..ROUND {
            turn += 1;
            now_us += STEP_US;
            let place = turn as usize % UNDER_WAY;
            monitor.answered(black_box(under_way[place]), now_us);
            // A node and size that the branch predictor does not know.
            let drawn = turn.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
            let class = if drawn & 8 == 0 { Class::Read } else { Class::Write };
            under_way[place] =
                monitor.sent(NodeId((drawn % u64::from(NODES)) as u16), class, (drawn >> 8 & 4095) as u32, now_us);
            if turn.is_multiple_of(TICK_EVERY) {
                monitor.tick(now_us);
            }
        }
        began.elapsed().as_nanos() as f64 / ROUND as f64
    };
    let mut taken: Vec<f64> = (0..ROUNDS).map(|_| round()).collect();
    taken.sort_by(f64::total_cmp);
    println!("sent + answered: median {:.1} ns, best {:.1} ns a request", taken[ROUNDS / 2], taken[0]);
    let latencies: u64 = (0..NODES)
        .map(|node| Class::ALL.map(|class| monitor.latency(NodeId(node), class).count()).iter().sum::<u64>())
        .sum();
    assert_eq!(latencies as usize + 1, ROUND * ROUNDS - UNDER_WAY + 2, "every request was counted");
}
