//! The monitor through its interface: small scenes in virtual time.

use shorttail_monitor::{Class, Detector, Monitor, MonitorConfig, Reason, Ticket};
use shorttail_units::NodeId;

const NODES: u16 = 6;

/// A monitor whose nodes answer one after the other, each as fast as it is told to.
struct Scene {
    monitor: Monitor,
    now_us: u64,
    latency_us: [u64; NODES as usize],
    under_way: Vec<(u64, Ticket)>,
}

impl Scene {
    fn new(config: MonitorConfig) -> Self {
        let mut monitor = Monitor::new(config, 0);
        (0..NODES).for_each(|node| monitor.add_node(NodeId(node)));
        Scene { monitor, now_us: 0, latency_us: [300; NODES as usize], under_way: Vec::new() }
    }

    fn calibrated(detector: Detector) -> Self {
        let mut scene = Scene::new(MonitorConfig { detector, ..MonitorConfig::default() });
        scene.run(2000);
        scene
    }

    fn slow(&mut self, node: u16, latency_us: u64) {
        self.latency_us[usize::from(node)] = latency_us;
    }

    fn send(&mut self, node: u16) {
        let ticket = self.monitor.sent(NodeId(node), Class::Read, 100, self.now_us);
        self.under_way.push((self.now_us + self.latency_us[usize::from(node)], ticket));
    }

    fn answer_due(&mut self) {
        let (due, later) = self.under_way.iter().partition(|(at_us, _)| *at_us <= self.now_us);
        self.under_way = later;
        let due: Vec<(u64, Ticket)> = due;
        due.into_iter().for_each(|(_, ticket)| self.monitor.answered(ticket, self.now_us));
    }

    /// Every half a millisecond each node gets a request, unless it is avoided and wants no probe.
    fn run(&mut self, ms: u64) {
        for _ in 0..2 * ms {
            self.now_us += 500;
            self.answer_due();
            for node in 0..NODES {
                let id = NodeId(node);
                if !self.monitor.is_fail_slow(id) || self.monitor.wants_class_probe(id, Class::Read, self.now_us) {
                    self.send(node);
                }
            }
            self.monitor.tick(self.now_us);
        }
    }

    fn slow_nodes(&self) -> Vec<u16> {
        (0..NODES).filter(|&node| self.monitor.is_fail_slow(NodeId(node))).collect()
    }
}

const DETECTORS: [Detector; 3] =
    [Detector::Adaptive, Detector::Fixed { by_age: false }, Detector::Fixed { by_age: true }];

#[test]
fn a_slow_node_is_found_and_forgiven() {
    for detector in DETECTORS {
        let mut scene = Scene::calibrated(detector);
        assert_eq!(scene.monitor.poll_verdict(), None, "{detector:?}");
        scene.slow(2, 50_000);
        scene.run(250);
        assert_eq!(scene.slow_nodes(), [2], "{detector:?}");
        let verdict = scene.monitor.poll_verdict().expect("it is announced");
        assert_eq!((verdict.node, verdict.class, verdict.fail_slow), (NodeId(2), Class::Read, true));
        assert!(verdict.latency_us > verdict.threshold_us && verdict.threshold_us > verdict.peers_us, "{verdict}");
        scene.slow(2, 300);
        scene.run(2000);
        assert_eq!(scene.slow_nodes(), [] as [u16; 0], "{detector:?}");
        assert!(!scene.monitor.poll_verdict().expect("it is announced").fail_slow);
        assert!((100_000..2_300_000).contains(&scene.monitor.flagged_us(NodeId(2))));
    }
}

#[test]
fn a_node_that_never_answers_is_found_by_the_age_of_what_it_owes() {
    for (detector, expected) in [
        (Detector::Adaptive, vec![1]),
        (Detector::Fixed { by_age: true }, vec![1]),
        (Detector::Fixed { by_age: false }, vec![]),
    ] {
        let mut scene = Scene::calibrated(detector);
        scene.slow(1, 60_000_000);
        scene.run(200);
        assert_eq!(scene.slow_nodes(), expected, "{detector:?}");
    }
}

#[test]
fn nobody_is_judged_before_the_calibration_or_when_switched_off() {
    let mut scene = Scene::new(MonitorConfig::default());
    scene.slow(0, 50_000);
    scene.run(300);
    assert_eq!(scene.slow_nodes(), [] as [u16; 0]);
    scene.run(1000);
    assert_eq!(scene.slow_nodes(), [0]);
    scene.monitor.set_config(MonitorConfig { detector: Detector::Off, ..MonitorConfig::default() });
    assert_eq!(scene.slow_nodes(), [] as [u16; 0]);
    scene.run(1000);
    assert_eq!(scene.slow_nodes(), [] as [u16; 0]);
}

#[test]
fn a_lost_session_takes_its_requests_and_its_verdict_along() {
    let mut scene = Scene::calibrated(Detector::Adaptive);
    scene.slow(3, 50_000);
    scene.run(400);
    assert_eq!(scene.slow_nodes(), [3]);
    assert!(scene.monitor.outstanding(NodeId(3)).0 > 0);
    scene.monitor.node_lost(NodeId(3));
    assert_eq!((scene.slow_nodes(), scene.monitor.outstanding(NodeId(3))), (vec![], (0, 0)));
    let last = std::iter::from_fn(|| scene.monitor.poll_verdict()).last().expect("it is announced");
    assert_eq!((last.fail_slow, last.reason), (false, Reason::Forgotten));
    // Late answers of the old session mean nothing.
    let count = scene.monitor.latency(NodeId(3), Class::Read).count();
    let late = std::mem::take(&mut scene.under_way);
    late.into_iter().for_each(|(_, ticket)| scene.monitor.answered(ticket, scene.now_us));
    assert_eq!(scene.monitor.outstanding(NodeId(3)), (0, 0));
    assert_eq!(scene.monitor.latency(NodeId(3), Class::Read).count(), count);
}

#[test]
fn the_slowest_come_first_and_no_more_than_may_be_avoided() {
    let mut scene = Scene::calibrated(Detector::Adaptive);
    [(0, 20_000), (3, 80_000), (5, 40_000)].iter().for_each(|&(node, us)| scene.slow(node, us));
    scene.run(600);
    assert_eq!(scene.slow_nodes(), [0, 3, 5]);
    assert_eq!(scene.monitor.avoided().collect::<Vec<_>>(), [NodeId(3), NodeId(5)]);
}

#[test]
fn unknown_nodes_are_ignored_and_a_ticket_ends_once() {
    let mut scene = Scene::calibrated(Detector::Adaptive);
    let stranger = NodeId(99);
    let ticket = scene.monitor.sent(stranger, Class::Write, 10, scene.now_us);
    scene.monitor.answered(ticket, scene.now_us + 5);
    assert!(!scene.monitor.is_fail_slow(stranger) && scene.monitor.latency(stranger, Class::Write).count() == 0);
    let ticket = scene.monitor.sent(NodeId(0), Class::Write, 10, scene.now_us);
    assert_eq!(scene.monitor.outstanding(NodeId(0)).1 % 100, 10);
    (0..3).for_each(|_| scene.monitor.answered(ticket, scene.now_us + 5));
    assert_eq!(scene.monitor.latency(NodeId(0), Class::Write).count(), 1);
}

/// Requests come in bursts, and the caller when it is asked to: how long each took is seen all the same, whatever class
/// was asked before.
#[test]
fn what_comes_after_a_pause_takes_as_long_as_it_takes() {
    const PAUSE_US: u64 = 200_000;
    const LATENCY_US: u64 = 50_000;
    let mut scene = Scene::calibrated(Detector::Adaptive);
    scene.now_us += 1_000;
    scene.answer_due();
    for burst in 0..100 {
        scene.now_us += PAUSE_US + burst * 777;
        let began_us = scene.now_us;
        let class = if burst % 2 == 0 { Class::Read } else { Class::Write };
        let tickets = [0, 1].map(|node| scene.monitor.sent(NodeId(node), class, 100, began_us));
        while scene.now_us < began_us + LATENCY_US {
            let due_us = scene.monitor.poll_deadline().max(scene.now_us + 1);
            scene.now_us = due_us.min(began_us + LATENCY_US);
            if due_us <= scene.now_us {
                scene.monitor.tick(scene.now_us);
            }
        }
        let sum_us = |scene: &Scene| scene.monitor.latency(NodeId(0), class).sum_us();
        let before_us = sum_us(&scene);
        tickets.into_iter().for_each(|ticket| scene.monitor.answered(ticket, scene.now_us));
        assert_eq!(sum_us(&scene) - before_us, LATENCY_US, "burst {burst}");
    }
}
