//! Faults on order in a cluster of real processes: they befall the node that is meant, clients get right answers all the
//! while, and nodes that were not started for it refuse.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const ANY_PORT: &str = "127.0.0.1:0";
/// Nothing here takes long; a test that hangs should end.
const PATIENCE: Duration = Duration::from_secs(60);
/// Until a fault has done something: a node that is known to be slow is asked only now and then, and the more often it
/// was slow the longer it has to be good before it is used as before.
const WORK_MAX: Duration = Duration::from_secs(240);
/// RS(4,2) and one to spare.
const NODES: &str = "7";
const VICTIM: usize = 3;
const KEYS_PER_ROUND: u64 = 64;

/// A running `shorttail up` on free ports, killed when dropped.
struct Cluster {
    up: Child,
    out: BufReader<ChildStdout>,
    memcached: TcpStream,
    admin: String,
    _temp: tempfile::TempDir,
}

impl Cluster {
    fn start(flags: &[&str]) -> Self {
        let temp = tempfile::tempdir().expect("a directory");
        let mut command = Command::new(env!("CARGO_BIN_EXE_shorttail"));
        command.args(["--log", "error", "up", "--nodes", NODES, "--redis", "off"]);
        command.args(["--memcached", ANY_PORT, "--admin", ANY_PORT]).args(flags).env("TMPDIR", temp.path());
        let mut up = command.stdout(Stdio::piped()).spawn().expect("the program runs");
        let mut out = BufReader::new(up.stdout.take().expect("piped"));
        let ready = line_with(&mut out, "ready");
        let word_after = |word: &str| {
            let rest = &ready[ready.find(word).expect("named") + word.len()..];
            rest.split([',', ' ']).next().expect("an address").to_owned()
        };
        let memcached = TcpStream::connect(word_after("memcached ")).expect("the gateway listens");
        memcached.set_read_timeout(Some(PATIENCE)).expect("a socket");
        Cluster { up, out, memcached, admin: word_after("http://"), _temp: temp }
    }

    fn run(&self, arguments: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shorttail"));
        command.args(arguments.split_whitespace()).args(["--admin", &self.admin]).output().expect("the program runs")
    }

    /// `shorttail chaos`, which must succeed; what it prints.
    fn chaos(&self, arguments: &str) -> String {
        let output = self.run(&format!("chaos {arguments}"));
        assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    /// What the victim's faults did.
    fn count(&self, what: &str) -> u64 {
        let output = self.run("status --json");
        let status: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        status["nodes"][VICTIM]["chaos"][what].as_u64().expect("a count")
    }

    fn store(&mut self, round: u64) -> std::ops::Range<u64> {
        let keys = round * KEYS_PER_ROUND..(round + 1) * KEYS_PER_ROUND;
        let set = |key| format!("set key{key} 0 0 1000\r\n{}\r\n", value_of(key));
        let stored = self.ask(&keys.clone().map(set).collect::<String>(), KEYS_PER_ROUND as usize);
        assert!(stored.iter().all(|line| line == "STORED"), "{stored:?}");
        keys
    }

    /// Stores values and reads them back, so that every node has something to do.
    fn work(&mut self, round: u64) {
        let keys = self.store(round);
        // What was stored last lies in the owner's memory, what came before it in sealed chunks.
        for key in (keys.start.saturating_sub(4096)..keys.end).step_by(31) {
            let lines = self.ask(&format!("get key{key}\r\n"), 3);
            assert_eq!(lines, [format!("VALUE key{key} 0 1000"), value_of(key), "END".to_owned()]);
        }
    }

    fn ask(&mut self, request: &str, line_count: usize) -> Vec<String> {
        self.memcached.write_all(request.as_bytes()).expect("sent");
        let reader = BufReader::new(&self.memcached);
        reader.lines().take(line_count).map(|line| line.expect("an answer")).collect()
    }

    /// Waits until the scrubber found what is damaged, and all of it is mended.
    fn await_mended(&mut self, round: u64) {
        let begin = Instant::now();
        loop {
            let output = self.run("status --json");
            let status: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            let victim = &status["nodes"][VICTIM];
            let count = |what: &str| victim[what].as_u64().expect("a count");
            let (found, repaired) = (count("corruptions_found_total"), count("corruptions_repaired_total"));
            if repaired > 0 && count("chunks_damaged") == 0 && status["repair"]["chunks_missing"] == 0 {
                assert!(count("scrubbed_bytes_total") > 0);
                return;
            }
            assert!(begin.elapsed() < WORK_MAX, "{found} found, {repaired} mended: {status}");
            self.work(round);
        }
    }

    /// Works until the victim's fault did something.
    fn work_until(&mut self, round: &mut u64, what: &str) {
        let before = self.count(what);
        let begin = Instant::now();
        while begin.elapsed() < WORK_MAX {
            self.work(*round);
            *round += 1;
            if self.count(what) > before {
                return;
            }
        }
        panic!(
            "{what} stays {before}:\n{}{}",
            self.chaos("show"),
            String::from_utf8_lossy(&self.run("status --json").stdout)
        );
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.up.kill();
        let _ = self.up.wait();
    }
}

fn value_of(key: u64) -> String {
    format!("{key:0>1000}")
}

/// Reads on until a line that begins so.
fn line_with(out: &mut impl BufRead, beginning: &str) -> String {
    let mut said = String::new();
    loop {
        let mut line = String::new();
        assert!(out.read_line(&mut line).expect("text") > 0, "no line begins with {beginning:?}:\n{said}");
        if line.starts_with(beginning) {
            return line;
        }
        said.push_str(&line);
    }
}

#[test]
fn clients_get_right_answers_whatever_one_node_does() {
    let mut cluster = Cluster::start(&["--node-memory", "16MiB", "--allow-chaos"]);
    let mut round = 0;
    cluster.work(round);
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
        assert!(cluster.chaos(fault).starts_with("node 3: "), "{fault}");
        cluster.work_until(&mut round, what);
        assert_eq!(cluster.chaos("clear 3"), "node 3: no fault\n");
    }
    // Only a node that is used again after all this can be slow.
    cluster.chaos("slow 3 --delay 1ms");
    cluster.work_until(&mut round, "delayed_total");
    assert!(cluster.chaos("show").contains("slow 1ms"));
    cluster.chaos("clear");
    assert!(cluster.chaos("corrupt 3 --bits 2000").ends_with("bits flipped\n"));
    assert!(cluster.count("bits_flipped_total") > 0, "something was sealed");
    cluster.work(round);
    cluster.await_mended(round);
    let killed = cluster.chaos("kill 3");
    assert_eq!(killed, "node 3: killed\n");
    let line = line_with(&mut cluster.out, "node 3");
    assert!(line.contains("killed by SIGKILL"), "{line}");
    cluster.work(round + 1);
    let refused = cluster.run("chaos slow 3 --delay 1ms");
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("node 3 is dead"));
}

#[test]
fn a_full_cache_goes_on_whichever_node_is_dead() {
    let mut cluster = Cluster::start(&["--node-memory", "16MiB", "--allow-chaos"]);
    // More than fits, and more with one node less.
    let rounds = 1250;
    for round in 0..rounds {
        cluster.store(round);
    }
    cluster.chaos("kill 3");
    for round in rounds..rounds + 500 {
        cluster.store(round);
    }
    let newest = (rounds + 500) * KEYS_PER_ROUND;
    for key in newest - 4096..newest {
        let lines = cluster.ask(&format!("get key{key}\r\n"), 3);
        assert_eq!(lines, [format!("VALUE key{key} 0 1000"), value_of(key), "END".to_owned()]);
    }
}

#[test]
fn a_cluster_that_was_not_started_for_it_refuses() {
    let mut cluster = Cluster::start(&["--node-memory", "16MiB"]);
    for order in ["slow 3 --delay 1ms", "kill 3", "clear"] {
        let output = cluster.run(&format!("chaos {order}"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{order}: {said}");
        assert!(said.contains("was not started with --allow-chaos"), "{order}: {said}");
    }
    cluster.work(0);
    assert_eq!(cluster.count("delayed_total"), 0);
    let senseless = cluster.run("chaos slow 3");
    assert_eq!(senseless.status.code(), Some(2));
}
