//! Nodes join, are emptied and taken out, real processes: data follows, clients notice nothing, and what is removed stays
//! out.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

const ANY_PORT: &str = "127.0.0.1:0";
/// A test that hangs should end; nothing is said about how long things take.
const PATIENCE: Duration = Duration::from_secs(240);
const KEYS: usize = 12_000;
const VALUE_BYTES: usize = 2_000;

/// A running `shorttail up`, and nodes started beside it; killed when dropped.
struct Cluster {
    up: Child,
    admin: String,
    nodes: Vec<Child>,
    _temp: tempfile::TempDir,
}

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_shorttail"))
}

impl Cluster {
    fn start(node_count: usize) -> Self {
        let temp = tempfile::tempdir().expect("a directory");
        let mut command = program();
        command.args(["up", "--node-memory", "32MiB", "--nodes", &node_count.to_string(), "--gateways", "2"]);
        command.args(["--memcached", ANY_PORT, "--redis", "off", "--admin", ANY_PORT]);
        let mut up = command.env("TMPDIR", temp.path()).stdout(Stdio::piped()).spawn().expect("the program runs");
        let mut out = BufReader::new(up.stdout.take().expect("piped"));
        let mut ready = String::new();
        while !ready.starts_with("ready") {
            ready.clear();
            assert!(out.read_line(&mut ready).expect("text") > 0, "it ended");
        }
        // What it says later is read, so that it never waits for a reader.
        std::thread::spawn(move || out.lines().for_each(drop));
        let at = ready.find("http://").expect("an admin port") + "http://".len();
        let admin = ready[at..].split([',', ' ']).next().expect("an address").to_owned();
        Cluster { up, admin, nodes: Vec::new(), _temp: temp }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        program().args(arguments).args(["--admin", &self.admin]).output().expect("the program runs")
    }

    fn status(&self) -> Value {
        let output = self.run(&["status", "--json"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    fn await_status(&self, what: &str, mut is_so: impl FnMut(&Value) -> bool) -> Value {
        let started = Instant::now();
        loop {
            let status = self.status();
            if is_so(&status) {
                return status;
            }
            assert!(started.elapsed() < PATIENCE, "not {what}: {status:#}");
        }
    }

    /// A node with this number, as somebody would start it in another terminal.
    fn node(&self, id: usize) -> Command {
        let status = self.status();
        let coordinator =
            status["coordinator"]["name"].as_str().expect("a name").split(" on ").next().expect("an address");
        let mut command = program();
        command.args(["node", "--coordinator", coordinator, "--listen", ANY_PORT, "--memory", "32MiB"]);
        command.args(["--id", &id.to_string()]);
        command
    }

    fn memcached(&self) -> String {
        let status = self.await_status("served", |status| status["gateways"][0]["serving"] == true);
        status["gateways"][0]["memcached"].as_str().expect("an address").to_owned()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in self.nodes.iter_mut().chain([&mut self.up]) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn key(number: usize) -> String {
    format!("key{number:06}")
}

fn value(number: usize) -> String {
    format!("{number:08}").repeat(VALUE_BYTES / 8)
}

fn fill(address: &str) {
    let mut stream = BufReader::new(TcpStream::connect(address).expect("a gateway"));
    stream.get_ref().set_read_timeout(Some(PATIENCE)).expect("a socket");
    for number in 0..KEYS {
        let set = format!("set {} 0 0 {VALUE_BYTES}\r\n{}\r\n", key(number), value(number));
        stream.get_mut().write_all(set.as_bytes()).expect("sent");
        // Some are under way at a time.
        if number % 64 == 63 || number + 1 == KEYS {
            for _ in 0..=number % 64 {
                let mut line = String::new();
                stream.read_line(&mut line).expect("an answer");
                assert_eq!(line, "STORED\r\n");
            }
        }
    }
}

/// Reads keys until it is told to stop; each must be there and right. How many were read.
fn read(address: &str, stop: &AtomicBool) -> usize {
    let mut stream = BufReader::new(TcpStream::connect(address).expect("a gateway"));
    stream.get_ref().set_read_timeout(Some(PATIENCE)).expect("a socket");
    let mut count = 0;
    while !stop.load(Ordering::Acquire) || count < KEYS {
        let number = count * 7919 % KEYS;
        stream.get_mut().write_all(format!("get {}\r\n", key(number)).as_bytes()).expect("sent");
        let mut line = String::new();
        stream.read_line(&mut line).expect("an answer");
        assert_eq!(line, format!("VALUE {} 0 {VALUE_BYTES}\r\n", key(number)), "no miss and no error");
        let mut rest = vec![0; VALUE_BYTES + "\r\nEND\r\n".len()];
        stream.read_exact(&mut rest).expect("the value");
        assert_eq!(&rest[..VALUE_BYTES], value(number).as_bytes());
        count += 1;
    }
    count
}

fn nodes(status: &Value) -> &Vec<Value> {
    status["nodes"].as_array().expect("nodes")
}

fn node(status: &Value, id: u64) -> Option<&Value> {
    nodes(status).iter().find(|node| node["id"] == id)
}

fn used(status: &Value) -> Vec<u64> {
    nodes(status).iter().map(|node| node["memory_used_bytes"].as_u64().expect("bytes")).collect()
}

/// Is every node within so many percent of the mean?
fn is_level(status: &Value, percent: u64) -> bool {
    let used = used(status);
    let mean = used.iter().sum::<u64>() / used.len() as u64;
    used.iter().all(|used| used.abs_diff(mean) * 100 <= mean * percent)
}

#[test]
fn nodes_are_added_drained_and_removed_under_load() {
    let mut cluster = Cluster::start(8);
    let address = cluster.memcached();
    fill(&address);
    let stop = Arc::new(AtomicBool::new(false));
    let reader = {
        let (address, stop) = (address.clone(), Arc::clone(&stop));
        std::thread::spawn(move || read(&address, &stop))
    };

    for id in [8, 9] {
        let child = cluster.node(id).stdout(Stdio::null()).spawn().expect("the program runs");
        cluster.nodes.push(child);
    }
    let level = cluster.await_status("level", |status| {
        nodes(status).len() == 10 && is_level(status, 10) && status["moves"]["bytes_per_s"] == 0
    });
    let moved = level["moves"]["bytes_moved_total"].as_u64().expect("bytes");
    // Nothing was written since they came: what is on them had to move.
    let least: u64 = [8, 9].iter().filter_map(|&id| node(&level, id)?["memory_used_bytes"].as_u64()).sum();
    assert!(moved > 0 && moved * 100 <= least * 135, "{moved} bytes moved, {least} had to: {:?}", used(&level));

    let refused = cluster.run(&["remove", "node", "2"]);
    assert!(!refused.status.success());
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(text.contains("shorttail drain node 2"), "{text}");
    let drained = cluster.run(&["drain", "node", "2"]);
    assert!(drained.status.success(), "{}", String::from_utf8_lossy(&drained.stderr));
    let status = cluster.status();
    let entry = node(&status, 2).expect("a member");
    assert_eq!(entry["drain"]["drained"], true, "{entry:#}");
    assert_eq!(entry["chunks_sealed"], 0);
    let table = cluster.run(&["status"]);
    assert!(String::from_utf8_lossy(&table.stdout).contains("normal, drained"));

    let pid = i32::try_from(entry["pid"].as_i64().expect("a pid")).expect("a pid");
    kill(Pid::from_raw(pid), Signal::SIGKILL).expect("it runs");
    let is_over = |status: &Value| node(status, 2).is_some_and(|node| node["state"] != "normal");
    let status = cluster.await_status("stopped", is_over);
    assert_eq!(status["repair"]["chunks_missing"], 0, "nothing was on it");
    let removed = cluster.run(&["remove", "node", "2"]);
    assert!(removed.status.success(), "{}", String::from_utf8_lossy(&removed.stderr));
    let status = cluster.status();
    assert!(node(&status, 2).is_none() && nodes(&status).len() == 9, "{status:#}");
    assert_eq!(status["repair"]["chunks_rebuilt_total"], 0);

    let returned = cluster.node(2).output().expect("the program runs");
    assert!(!returned.status.success());
    let text = String::from_utf8_lossy(&returned.stderr).into_owned();
    assert!(text.contains("node 2 was removed from the cluster"), "{text}");

    stop.store(true, Ordering::Release);
    assert!(reader.join().expect("every read was right") >= KEYS);
}

/// A drain that cannot be is refused, and what drains is told and may be cancelled.
#[test]
fn a_cluster_keeps_the_nodes_that_it_needs() {
    let cluster = Cluster::start(6);
    let refused = cluster.run(&["drain", "node", "1"]);
    assert!(!refused.status.success());
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(text.contains("5 other nodes would stay, and a stripe needs 6"), "{text}");
    let entry = cluster.status()["nodes"][1].clone();
    let pid = i32::try_from(entry["pid"].as_i64().expect("a pid")).expect("a pid");
    kill(Pid::from_raw(pid), Signal::SIGKILL).expect("it runs");
    let says =
        |status: &Value| status["problems"][0].as_str().is_some_and(|text| text.contains("only 5 nodes are alive"));
    cluster.await_status("told", says);
    let lost = cluster.run(&["remove", "node", "1", "--lost"]);
    assert!(lost.status.success(), "{}", String::from_utf8_lossy(&lost.stderr));
    assert_eq!(nodes(&cluster.status()).len(), 5);
}
