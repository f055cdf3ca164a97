//! Faults on order in a cluster of real processes: they befall the node that is meant, clients get right answers all
//! the while, and nodes that were not started for it refuse.

use std::io::BufReader;
use std::net::TcpStream;
use std::time::Instant;

use crate::processes::{Cluster, PATIENCE, check, connect, store_all};

/// RS(4,2) and one to spare.
const NODES: &str = "7";
const VICTIM: usize = 3;
const KEYS_PER_ROUND: u64 = 64;

/// A cluster, and a client that works with it.
struct Scene {
    cluster: Cluster,
    memcached: BufReader<TcpStream>,
}

impl Scene {
    fn start(flags: &[&str]) -> Self {
        let usual = ["--log", "error", "--nodes", NODES, "--node-memory", "16MiB", "--redis", "off"];
        let cluster = Cluster::start(&[&usual[..], flags].concat());
        let memcached = connect(&cluster.memcached);
        Scene { cluster, memcached }
    }

    /// `shorttail chaos`, which must succeed; what it prints.
    fn chaos(&self, words: &str) -> String {
        self.cluster.succeed(&format!("chaos {words}"))
    }

    /// What the victim's faults did.
    fn count(&self, what: &str) -> u64 {
        self.cluster.status()["nodes"][VICTIM]["chaos"][what].as_u64().expect("a count")
    }

    fn store(&mut self, round: u64) -> std::ops::Range<u64> {
        let keys = round * KEYS_PER_ROUND..(round + 1) * KEYS_PER_ROUND;
        store_all(&mut self.memcached, keys.clone().map(|key| (format!("key{key}"), value_of(key))));
        keys
    }

    /// Stores values and reads them back, so that every node has something to do.
    fn work(&mut self, round: u64) {
        let keys = self.store(round);
        // What was stored last lies in the owner's memory, what came before it in sealed chunks.
        for key in (keys.start.saturating_sub(4096)..keys.end).step_by(31) {
            self.check(key);
        }
    }

    fn check(&mut self, key: u64) {
        check(&mut self.memcached, &format!("key{key}"), &value_of(key));
    }

    /// Waits until the scrubber found what is damaged, and all of it is mended.
    fn await_mended(&mut self, round: u64) {
        let begin = Instant::now();
        loop {
            let status = self.cluster.status();
            let victim = &status["nodes"][VICTIM];
            let count = |what: &str| victim[what].as_u64().expect("a count");
            let (found, repaired) = (count("corruptions_found_total"), count("corruptions_repaired_total"));
            if repaired > 0 && count("chunks_damaged") == 0 && status["repair"]["chunks_missing"] == 0 {
                assert!(count("scrubbed_bytes_total") > 0);
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "{found} found, {repaired} mended: {status}");
            self.work(round);
        }
    }

    /// Works until the victim's fault did something: a node that is known to be slow is asked only now and then, and
    /// the more often it was slow the longer it has to be good before it is used as before.
    fn work_until(&mut self, round: &mut u64, what: &str) {
        let before = self.count(what);
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            self.work(*round);
            *round += 1;
            if self.count(what) > before {
                return;
            }
        }
        panic!("{what} stays {before}:\n{}{:#}", self.chaos("show"), self.cluster.status());
    }
}

fn value_of(key: u64) -> String {
    format!("{key:0>1000}")
}

#[test]
fn clients_get_right_answers_whatever_one_node_does() {
    let mut scene = Scene::start(&["--allow-chaos"]);
    let mut round = 0;
    scene.work(round);
    round += 1;
    for (fault, what) in [
        ("slow 3 --delay 2ms --jitter", "delayed_total"),
        ("slow 3 --tail 50%:3ms --reads-only", "delayed_total"),
        ("slow 3 --bandwidth 10MiB/s", "delayed_total"),
        ("stall 3 --duty 5ms/5ms", "delayed_total"),
        ("corrupt 3 --share 50%", "corrupted_total"),
        ("drop 3 --share 20% --reset", "dropped_total"),
        ("drop 3", "dropped_total"),
    ] {
        assert!(scene.chaos(fault).starts_with("node 3: "), "{fault}");
        scene.work_until(&mut round, what);
        assert_eq!(scene.chaos("clear 3"), "node 3: no fault\n");
    }
    // Only a node that is used again after all this can be slow.
    scene.chaos("slow 3 --delay 1ms");
    scene.work_until(&mut round, "delayed_total");
    assert!(scene.chaos("show").contains("slow 1ms"));
    scene.chaos("clear");
    // While it was slow little came to it, and of that nothing may be sealed yet.
    let begin = Instant::now();
    loop {
        assert!(scene.chaos("corrupt 3 --bits 2000").ends_with("bits flipped\n"));
        if scene.count("bits_flipped_total") > 0 {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "nothing is sealed there");
        scene.work(round);
        round += 1;
    }
    scene.work(round);
    scene.await_mended(round);
    let killed = scene.chaos("kill 3");
    assert_eq!(killed, "node 3: killed\n");
    let line = scene.cluster.line_with("node 3");
    assert!(line.contains("killed by SIGKILL"), "{line}");
    scene.work(round + 1);
    let refused = scene.cluster.run("chaos slow 3 --delay 1ms");
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("node 3 is dead"));
}

#[test]
fn a_full_cache_goes_on_whichever_node_is_dead() {
    let mut scene = Scene::start(&["--allow-chaos"]);
    // More than fits, and more with one node less.
    let rounds = 1250;
    for round in 0..rounds {
        scene.store(round);
    }
    scene.chaos("kill 3");
    for round in rounds..rounds + 500 {
        scene.store(round);
    }
    let newest = (rounds + 500) * KEYS_PER_ROUND;
    for key in newest - 4096..newest {
        scene.check(key);
    }
}

#[test]
fn a_cluster_that_was_not_started_for_it_refuses() {
    let mut scene = Scene::start(&[]);
    for order in ["slow 3 --delay 1ms", "kill 3", "clear"] {
        let output = scene.cluster.run(&format!("chaos {order}"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{order}: {said}");
        assert!(said.contains("was not started with --allow-chaos"), "{order}: {said}");
    }
    scene.work(0);
    assert_eq!(scene.count("delayed_total"), 0);
    let senseless = scene.cluster.run("chaos slow 3");
    assert_eq!(senseless.status.code(), Some(2));
}
