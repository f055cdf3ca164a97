//! Verdicts where few requests go round: they are reached all the same, they end, and who asks for little more than a
//! sign of life has no opinion.

use shorttail_monitor::{Class, Monitor, MonitorConfig, Opinion, Opinions, Ticket, merge};
use shorttail_units::NodeId;

const NODES: u16 = 8;
const USUAL_US: u64 = 300;
const SLOW_US: u64 = 50_000;
/// What a request moves that is no mere sign of life.
const WORK_BYTES: u32 = 1_000;

struct Scene {
    monitor: Monitor,
    now_us: u64,
    latency_us: [u64; NODES as usize],
    under_way: Vec<(u64, Ticket)>,
    random: u64,
}

impl Scene {
    /// A monitor that knows what is usual.
    fn calibrated() -> Self {
        let mut monitor = Monitor::new(MonitorConfig::default(), 0);
        (0..NODES).for_each(|node| monitor.add_node(NodeId(node)));
        let latency_us = [USUAL_US; NODES as usize];
        let mut scene = Scene { monitor, now_us: 0, latency_us, under_way: Vec::new(), random: 1 };
        scene.run(2_000, |scene, _| scene.load());
        assert_eq!(scene.slow_nodes(), [] as [u16; 0]);
        scene
    }

    fn send(&mut self, node: u16, class: Class) {
        self.send_bytes(node, class, WORK_BYTES);
    }

    fn ping(&mut self, node: u16) {
        self.send_bytes(node, Class::Read, 0);
    }

    fn send_bytes(&mut self, node: u16, class: Class, bytes: u32) {
        let ticket = self.monitor.sent(NodeId(node), class, bytes, self.now_us);
        self.under_way.push((self.now_us + self.latency_us[usize::from(node)], ticket));
    }

    /// A millisecond of load: each node that is not slow gets a read and a write.
    fn load(&mut self) {
        for node in (0..NODES).filter(|&node| !self.monitor.is_fail_slow(NodeId(node))).collect::<Vec<_>>() {
            Class::ALL.into_iter().for_each(|class| self.send(node, class));
        }
    }

    /// So many milliseconds; slow nodes get probes, and nodes whatever `sends` sends in each.
    fn run(&mut self, ms: u64, mut sends: impl FnMut(&mut Self, u64)) {
        for passed_ms in 0..ms {
            self.now_us += 1_000;
            let (due, later) = self.under_way.iter().partition(|(at_us, _)| *at_us <= self.now_us);
            self.under_way = later;
            let due: Vec<(u64, Ticket)> = due;
            due.into_iter().for_each(|(at_us, ticket)| self.monitor.answered(ticket, at_us));
            for (node, class) in (0..NODES).flat_map(|node| Class::ALL.map(|class| (node, class))) {
                if self.monitor.wants_class_probe(NodeId(node), class, self.now_us) {
                    self.send_bytes(node, class, 0);
                }
            }
            sends(self, passed_ms);
            self.monitor.tick(self.now_us);
        }
    }

    fn below(&mut self, bound: u16) -> u16 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.random >> 33) % u64::from(bound)) as u16
    }

    fn slow_nodes(&self) -> Vec<u16> {
        (0..NODES).filter(|&node| self.monitor.is_fail_slow(NodeId(node))).collect()
    }
}

#[test]
fn probes_alone_end_a_verdict_when_nobody_else_is_asked() {
    let mut scene = Scene::calibrated();
    scene.latency_us[2] = SLOW_US;
    scene.run(500, |scene, _| scene.load());
    assert_eq!(scene.slow_nodes(), [2]);
    scene.run(5_000, |_, _| ());
    assert_eq!(scene.slow_nodes(), [2], "it still is slow");
    scene.latency_us[2] = USUAL_US;
    scene.run(2_000, |_, _| ());
    assert_eq!(scene.slow_nodes(), [] as [u16; 0]);
}

#[test]
fn nodes_that_were_slow_one_after_the_other_are_forgiven_without_a_peer() {
    let mut scene = Scene::calibrated();
    for node in 0..usize::from(NODES) {
        scene.latency_us[node] = SLOW_US;
        scene.run(700, |scene, _| scene.load());
    }
    assert!(scene.slow_nodes().len() + 1 >= usize::from(NODES), "{:?}", scene.slow_nodes());
    scene.latency_us = [USUAL_US; NODES as usize];
    scene.run(60_000, |_, _| ());
    assert_eq!(scene.slow_nodes(), [] as [u16; 0]);
}

/// So many reads a second, of any nodes.
fn reads(per_s: u64) -> impl FnMut(&mut Scene, u64) {
    move |scene, passed_ms| {
        if passed_ms.is_multiple_of(1_000 / per_s) {
            let node = scene.below(NODES);
            if !scene.monitor.is_fail_slow(NodeId(node)) {
                scene.send(node, Class::Read);
            }
        }
    }
}

#[test]
fn a_slow_node_is_found_by_few_reads() {
    let mut scene = Scene::calibrated();
    scene.run(5_000, reads(50));
    scene.latency_us[3] = SLOW_US;
    scene.run(4_000, reads(50));
    assert_eq!(scene.slow_nodes(), [3]);
}

#[test]
fn few_reads_that_are_slow_everywhere_flag_nobody() {
    let mut scene = Scene::calibrated();
    scene.run(5_000, reads(50));
    for latency_us in [SLOW_US, USUAL_US, 10 * SLOW_US, USUAL_US] {
        scene.latency_us = [latency_us; NODES as usize];
        scene.run(10_000, reads(50));
        let verdict = scene.monitor.poll_verdict();
        assert!(verdict.is_none(), "{latency_us} us everywhere: {}", verdict.expect("a verdict"));
    }
}

/// Others say that node 3 is slow in reads.
fn hearsay() -> Opinions {
    let (node, class) = (NodeId(3), Class::Read);
    Opinions { reports: vec![Opinion { node, class, fail_slow: true, latency_us: SLOW_US, peers_us: USUAL_US }] }
}

/// Each of a node's eight cores is asked for a sign of life once a second.
fn pings(scene: &mut Scene, passed_ms: u64) {
    if passed_ms.is_multiple_of(1_000) {
        (0..NODES).for_each(|node| (0..8).for_each(|_| scene.ping(node)));
    }
}

#[test]
fn who_only_pings_has_no_opinion_and_takes_that_of_others() {
    let mut scene = Scene::calibrated();
    assert!(!scene.monitor.opinions().reports.is_empty(), "it judged while it was busy");
    scene.run(3_000, pings);
    for _ in 0..10 {
        scene.run(500, pings);
        assert_eq!(scene.monitor.opinions(), Opinions::default());
    }
    scene.monitor.take_opinions(&hearsay(), scene.now_us);
    assert!(scene.monitor.is_fail_slow(NodeId(3)));
}

#[test]
fn probes_that_are_fast_do_not_outvote_who_found_a_node_slow_in_its_work() {
    let mut scene = Scene::calibrated();
    scene.run(5_000, |_, _| ());
    scene.monitor.take_opinions(&hearsay(), scene.now_us);
    scene.run(3_000, |scene, passed_ms| {
        if passed_ms.is_multiple_of(50) {
            scene.ping(3);
            let merged = merge(&[hearsay(), scene.monitor.opinions()]);
            scene.monitor.take_opinions(&merged, scene.now_us);
        }
        assert_eq!(scene.slow_nodes(), [3], "after {passed_ms} ms");
    });
}
