//! `bench kill` and `bench overwrite` against a stand-in for a cluster: a small memcached server, an admin address that
//! answers a status, and sleeping processes as nodes.

mod support;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command};

use clap::Parser;
use serde_json::{Value, json};

use support::{Habit, memcached, start};

#[derive(Parser)]
struct Flags {
    #[command(subcommand)]
    command: shorttail_bench::Command,
}

/// Processes that are ended with the test.
struct Nodes(Vec<Child>);

impl Nodes {
    fn start(count: usize) -> Self {
        let sleep = || Command::new("sleep").arg("1000").spawn().expect("sleep");
        Nodes((0..count).map(|_| sleep()).collect())
    }

    fn status(&self) -> Value {
        let node =
            |(id, child): (usize, &Child)| json!({"id": id, "pid": child.id(), "address": "", "state": "normal"});
        self.0.iter().enumerate().map(node).collect()
    }

    fn ended(&mut self) -> usize {
        self.0.iter_mut().filter_map(|node| node.try_wait().expect("our child")).count()
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for node in &mut self.0 {
            let _ = node.kill();
            let _ = node.wait();
        }
    }
}

/// Answers the status to whoever asks, until the test process ends.
fn admin(nodes: &Nodes, habit: Habit, bytes_used: u64) -> String {
    let gateway = json!({"id": 0, "pid": std::process::id(), "memcached": start(habit, memcached), "admin": ""});
    let status = json!({
        "code": "rs:4+2", "objects": 1, "bytes_stored": 1000, "bytes_used": bytes_used,
        "nodes": nodes.status(), "gateways": [gateway],
    });
    let answer = format!("HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n{status}");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut request = [0; 1024];
            let asked = stream.read(&mut request).expect("a request");
            assert!(request[..asked].starts_with(b"GET /status HTTP/1.0\r\n"));
            stream.write_all(answer.as_bytes()).expect("the client reads");
        }
    });
    address
}

fn measure(arguments: &[&str]) -> anyhow::Result<()> {
    Flags::parse_from([&["bench"], arguments].concat()).command.run()
}

fn scratch_file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("shorttail-bench-test-{}-{name}", std::process::id()))
}

fn read_json(path: &PathBuf) -> Value {
    let text = std::fs::read(path).expect("written");
    std::fs::remove_file(path).expect("ours");
    serde_json::from_slice(&text).expect("JSON")
}

fn kill(admin: &str, worst_ms: &str, more: &[&str]) -> anyhow::Result<()> {
    let load = ["--quiet", "--seconds", "0.5", "--keys", "300", "--rate", "2000", "--connections", "4"];
    let kills = ["--kill-at", "0.1,0.2", "--worst-ms", worst_ms, "--admin", admin];
    measure(&[&["kill"], &load[..], &kills[..], more].concat())
}

/// A bound that no operation reaches.
const ANY: &str = "1e9";

#[test]
fn exactly_the_nodes_named_are_killed_and_an_unmoved_store_passes() {
    let mut nodes = Nodes::start(4);
    let json = scratch_file("kill.json");
    let results = json.to_str().expect("ascii");
    let passed = kill(&admin(&nodes, Habit::Honest, 0), ANY, &["--kill-nodes", "3,1", "--json", results]);
    passed.expect("nothing was lost");
    let results = read_json(&json);
    let killed: Vec<_> = results["killed"].as_array().expect("a list").iter().map(|one| &one["node"]).collect();
    assert_eq!(killed, [3, 1]);
    assert_eq!(results["load"]["operations"], 1_000);
    assert!(!nodes.0[3].wait().expect("ours").success() && !nodes.0[1].wait().expect("ours").success());
    assert_eq!(nodes.ended(), 2);
}

#[test]
fn a_store_that_loses_writes_fails_the_kill_run() {
    let nodes = Nodes::start(4);
    let error = kill(&admin(&nodes, Habit::Forgets, 0), ANY, &[]).expect_err("it forgets").to_string();
    assert!(error.contains("lost"), "{error}");
}

#[test]
fn an_operation_over_the_bound_fails_the_kill_run() {
    let nodes = Nodes::start(2);
    let error = kill(&admin(&nodes, Habit::Honest, 0), "0", &[]).expect_err("nothing takes no time");
    assert!(error.to_string().contains("more than 0 ms"), "{error}");
}

#[test]
fn overwriting_passes_or_fails_by_the_largest_ratio() {
    let nodes = Nodes::start(1);
    let run = |bytes_used: u64, json: &str| {
        let admin = admin(&nodes, Habit::Honest, bytes_used);
        let flags = ["--quiet", "--keys", "200", "--rounds", "3", "--admin", &admin, "--json", json];
        measure(&[&["overwrite"], &flags[..]].concat())
    };
    let json = scratch_file("overwrite.json");
    let path = json.to_str().expect("ascii");
    // 1000 bytes stored under RS(4,2) need 1500: 2025 is the bound of 1.35.
    run(2_000, path).expect("within the bound");
    let results = read_json(&json);
    assert_eq!(results["overwrites"], 600);
    assert!(results["looks"].as_array().is_some_and(|looks| !looks.is_empty()));
    let error = run(2_100, path).expect_err("above the bound").to_string();
    assert_eq!(read_json(&json)["met"], false);
    assert!(error.contains("1.400"), "{error}");
}

#[test]
fn a_missing_cluster_is_named() {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
    let error = format!("{:#}", kill(&port.to_string(), ANY, &[]).expect_err("nobody listens"));
    assert!(error.contains(&port.to_string()), "{error}");
}
