//! Near reads with real processes: on one machine small objects are read past the nodes, dead ones decoded as ever;
//! over TCP, and of nodes that are to be faulty on order, every record is asked for.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use crate::processes::{Cluster, PATIENCE, check, connect, kill, pid, store_all};
use nix::sys::signal::Signal;

/// Many times what open stripes hold.
const KEYS: usize = 12_000;

fn cluster(flags: &[&str]) -> Cluster {
    let usual = ["--log", "error", "--nodes", "7", "--node-memory", "32MiB", "--redis", "off"];
    Cluster::start(&[&usual[..], flags].concat())
}

fn value_of(key: usize) -> String {
    format!("{key:06}.").repeat(140)
}

fn store(cluster: &Cluster) {
    store_all(&mut connect(&cluster.memcached), (0..KEYS).map(|key| (format!("key{key}"), value_of(key))));
}

fn read_back(cluster: &Cluster) {
    let mut stream = connect(&cluster.memcached);
    (0..KEYS).step_by(7).for_each(|key| check(&mut stream, &format!("key{key}"), &value_of(key)));
}

/// A counter, of all nodes if it is of nodes, as Prometheus would read it; of latencies those of reads.
fn metric(cluster: &Cluster, name: &str) -> u64 {
    let mut stream = TcpStream::connect(&cluster.admin).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", cluster.admin);
    stream.write_all(request.as_bytes()).expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    let samples = text.lines().filter(|line| line.starts_with(&format!("shorttail_{name}{{")));
    let samples = samples.filter(|line| !line.contains("operation=\"write\""));
    let numbers = samples.map(|line| line.rsplit(' ').next().and_then(|number| number.parse::<u64>().ok()));
    numbers
        .collect::<Option<Vec<_>>>()
        .filter(|all| !all.is_empty())
        .unwrap_or_else(|| panic!("no {name} in {text}"))
        .iter()
        .sum()
}

/// Gateways tell their counters twice a second.
fn await_metric(cluster: &Cluster, name: &str, above: u64) {
    let started = Instant::now();
    while metric(cluster, name) <= above {
        assert!(started.elapsed() < PATIENCE, "{name} stays at most {above}");
        read_back(cluster);
    }
}

#[test]
fn on_one_machine_records_are_read_past_their_nodes_until_those_die() {
    let cluster = cluster(&[]);
    store(&cluster);
    await_metric(&cluster, "gateway_near_reads_total", 2_000);
    let nodes = &cluster.status()["nodes"];
    [2, 5].iter().for_each(|&node: &usize| kill(pid(&nodes[node]), Signal::SIGKILL));
    read_back(&cluster);
    await_metric(&cluster, "gateway_degraded_reads_total", 100);
    let before = metric(&cluster, "gateway_near_reads_total");
    await_metric(&cluster, "gateway_near_reads_total", before);
}

#[test]
fn over_tcp_and_with_faults_on_order_nodes_are_asked() {
    for flag in ["--transport=tcp", "--allow-chaos"] {
        let cluster = cluster(&[flag]);
        store(&cluster);
        await_metric(&cluster, "node_latency_seconds_count", 2_000);
        assert_eq!(metric(&cluster, "gateway_near_reads_total"), 0, "{flag}");
    }
}
