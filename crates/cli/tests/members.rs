//! Nodes join, are emptied and taken out, real processes: data follows, clients notice nothing, and what is
//! removed stays out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::processes::{Cluster, Process, check, connect, kill, pid, store_all};

const KEYS: usize = 12_000;
const VALUE_BYTES: usize = 2_000;

/// The exit code of a removed node, by which a supervisor knows not to start it again.
const REMOVED: i32 = 3;

/// Two gateways.
fn start(node_count: usize) -> Cluster {
    let node_count = node_count.to_string();
    let nodes = ["--nodes", &node_count, "--node-memory", "32MiB"];
    Cluster::start(&[&nodes[..], &["--gateways", "2", "--node-threads", "2", "--redis", "off"]].concat())
}

fn key(number: usize) -> String {
    format!("key{number:06}")
}

fn value(number: usize) -> String {
    format!("{number:08}").repeat(VALUE_BYTES / 8)
}

fn fill(address: &str) {
    store_all(&mut connect(address), (0..KEYS).map(|number| (key(number), value(number))));
}

/// Reads keys until it is told to stop; each must be there and right. How many were read.
fn read(address: &str, stop: &AtomicBool) -> usize {
    let mut stream = connect(address);
    let mut count = 0;
    while !stop.load(Ordering::Acquire) || count < KEYS {
        let number = count * 7919 % KEYS;
        check(&mut stream, &key(number), &value(number));
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

/// Is every node within so many percent of the mean? Not while the status does not know of anything stored.
fn is_level(status: &Value, percent: u64) -> bool {
    let used = used(status);
    let mean = used.iter().sum::<u64>() / used.len() as u64;
    mean > 0 && used.iter().all(|used| used.abs_diff(mean) * 100 <= mean * percent)
}

#[test]
fn nodes_are_added_drained_and_removed_under_load() {
    let cluster = start(8);
    let address = cluster.memcached.clone();
    fill(&address);
    let stop = Arc::new(AtomicBool::new(false));
    let reader = {
        let (address, stop) = (address.clone(), Arc::clone(&stop));
        std::thread::spawn(move || read(&address, &stop))
    };

    let beside = |id| Process(cluster.node_beside(id).spawn().expect("the program runs"));
    let _joined = [8, 9].map(beside);
    let level = cluster.await_status("level", |status| {
        nodes(status).len() == 10 && is_level(status, 10) && status["moves"]["bytes_per_s"] == 0
    });
    let moved = level["moves"]["bytes_moved_total"].as_u64().expect("bytes");
    // Nothing was written since they came: what is on them had to move.
    let least: u64 = [8, 9].iter().filter_map(|&id| node(&level, id)?["memory_used_bytes"].as_u64()).sum();
    assert!(moved > 0 && moved * 100 <= least * 135, "{moved} bytes moved, {least} had to: {:?}", used(&level));

    let text = cluster.refused("remove node 2");
    assert!(text.contains("shorttail drain node 2"), "{text}");
    cluster.succeed("drain node 2");
    let status = cluster.status();
    let entry = node(&status, 2).expect("a member");
    assert_eq!(entry["drain"]["drained"], true, "{entry:#}");
    assert_eq!(entry["chunks_sealed"], 0);
    assert!(cluster.succeed("status").contains("normal, drained"));

    kill(pid(entry), Signal::SIGKILL);
    let is_over = |status: &Value| node(status, 2).is_some_and(|node| node["state"] != "normal");
    let status = cluster.await_status("stopped", is_over);
    assert_eq!(status["repair"]["chunks_missing"], 0, "nothing was on it");
    cluster.succeed("remove node 2");
    let status = cluster.status();
    assert!(node(&status, 2).is_none() && nodes(&status).len() == 9, "{status:#}");
    assert_eq!(status["repair"]["chunks_rebuilt_total"], 0);

    let returned = cluster.node_beside(2).output().expect("the program runs");
    let text = String::from_utf8_lossy(&returned.stderr).into_owned();
    assert_eq!(returned.status.code(), Some(REMOVED), "{text}");
    assert!(text.contains("node 2 was removed from the cluster"), "{text}");

    stop.store(true, Ordering::Release);
    assert!(reader.join().expect("every read was right") >= KEYS);
}

/// What is new is open: chunks that only move are sealed.
#[test]
fn a_node_whose_drain_is_cancelled_is_used_again() {
    let cluster = start(7);
    let mut client = connect(&cluster.memcached);
    let mut numbers = 0..;
    let mut await_chunks = |what: &str, kinds: &[&str]| {
        cluster.await_status(what, |status| {
            let some = numbers.by_ref().take(KEYS / 40);
            store_all(&mut client, some.map(|number| (key(number), value(number))));
            kinds.iter().all(|&kind| node(status, 3).expect("a member")[kind].as_u64() > Some(0))
        });
    };
    await_chunks("used", &["chunks_open", "chunks_sealed"]);
    cluster.succeed("drain node 3");
    cluster.await_status("empty", |status| {
        let node = node(status, 3).expect("a member");
        node["drain"]["drained"] == true && node["chunks_open"] == 0 && node["chunks_sealed"] == 0
    });
    assert_eq!(cluster.succeed("drain node 3 --cancel"), "node 3 is used again\n");
    assert_eq!(node(&cluster.status(), 3).expect("a member")["drain"], Value::Null);
    await_chunks("used again", &["chunks_open"]);
    assert!(cluster.refused("drain node 3 --cancel").contains("node 3 is not being drained"));
    (0..numbers.start).for_each(|number| check(&mut client, &key(number), &value(number)));
}

/// A drain that cannot be is refused, and it is told that nodes are too few.
#[test]
fn a_cluster_keeps_the_nodes_that_it_needs() {
    let cluster = start(6);
    let text = cluster.refused("drain node 1");
    assert!(text.contains("5 other nodes would stay, and a stripe needs 6"), "{text}");
    kill(pid(&cluster.status()["nodes"][1]), Signal::SIGKILL);
    let says =
        |status: &Value| status["problems"][0].as_str().is_some_and(|text| text.contains("only 5 nodes are alive"));
    cluster.await_status("told", says);
    cluster.succeed("remove node 1 --lost");
    assert_eq!(nodes(&cluster.status()).len(), 5);
}

#[test]
fn the_process_of_a_removed_node_says_by_its_end_that_it_was_removed() {
    let cluster = start(7);
    let mut joined = Process(cluster.node_beside(7).spawn().expect("the program runs"));
    cluster.await_status("joined", |status| node(status, 7).is_some_and(|node| node["state"] == "normal"));
    cluster.succeed("remove node 7 --lost");
    assert_eq!(joined.end().code(), Some(REMOVED));
}

/// Who starts nodes again when they die leaves alone those that were taken out.
#[test]
fn a_removed_node_is_not_started_again() {
    let mut cluster = Cluster::start(&["--nodes", "7", "--node-memory", "32MiB", "--redis", "off", "--restart-nodes"]);
    kill(pid(&cluster.status()["nodes"][2]), Signal::SIGKILL);
    let text = cluster.line_with("node 2 (pid");
    assert!(text.ends_with("it is started again"), "{text}");
    cluster.await_status("back", |status| nodes(status).iter().all(|node| node["state"] == "normal"));
    cluster.succeed("remove node 1 --lost");
    let text = cluster.line_with("node 1 (pid");
    assert!(text.ends_with("was removed from the cluster; it is not started again"), "{text}");
    assert_eq!(nodes(&cluster.status()).len(), 6);
}

/// The next run with the same directory starts without the node, and tells so.
#[test]
fn a_removed_node_keeps_no_later_run_from_starting() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path().to_str().expect("text");
    let flags = ["--nodes", "7", "--node-memory", "32MiB", "--redis", "off", "--dir", dir];
    let cluster = Cluster::start(&flags);
    cluster.succeed("remove node 1 --lost");
    cluster.end(Signal::SIGTERM);
    let cluster = Cluster::start(&flags);
    assert_eq!(nodes(&cluster.status()).len(), 6);
    assert_eq!(cluster.ask("set key 0 0 1\r\n1\r\n", "\r\n"), "STORED\r\n");
}

/// Who stands by the terminal sees what becomes of a node that died, and who is rebuilt does not count as dead.
#[test]
fn what_becomes_of_a_dead_node_is_told() {
    let flags = ["--nodes", "8", "--node-memory", "32MiB", "--redis", "off", "--retire-after", "5"];
    // So slowly that it is seen in the middle of it.
    let mut cluster = Cluster::start(&[&flags[..], &["--repair-bandwidth", "1MiB"]].concat());
    fill(&cluster.memcached);
    kill(pid(&cluster.status()["nodes"][0]), Signal::SIGKILL);
    let text = cluster.line_with("node 0 (pid");
    assert!(text.ends_with("; 1 of 8 nodes is dead and not rebuilt yet, 2 at once are tolerated"), "{text}");
    assert_eq!(cluster.line_with("node 0 is"), "node 0 is given up: what it held is rebuilt on the others");
    let rebuilt = |status: &Value, id| node(status, id).expect("a member")["rebuilt"].as_bool();
    let is_missing = |status: &Value| status["repair"]["chunks_missing"] != 0;
    let text = cluster.refused("remove node 0");
    assert!(text.contains("not all that it held is elsewhere yet"), "{text}");
    cluster.await_status("whole", |status| {
        assert!(!is_missing(status) || rebuilt(status, 0) == Some(false), "{status:#}");
        !is_missing(status)
    });
    let text = cluster.line_with("no chunk");
    assert!(
        text.starts_with("no chunk is missing any more: ") && text.contains(" rebuilt"),
        "{text}: {:#}",
        cluster.status()
    );
    // Owners count what is left of a node now and then, and tell of it later than of what is missing.
    let status = cluster.await_status("rebuilt", |status| rebuilt(status, 0) == Some(true));
    assert_eq!(rebuilt(&status, 1), Some(false));
    kill(pid(&status["nodes"][1]), Signal::SIGKILL);
    let text = cluster.line_with("node 1 (pid");
    let left = "; 1 of 8 nodes is dead and not rebuilt yet (1 more is rebuilt), 2 at once are tolerated";
    assert!(text.ends_with(left), "{text}");
}

#[test]
fn who_waits_until_all_is_there_hears_what_is_missing() {
    let cluster = start(7);
    fill(&cluster.memcached);
    assert_eq!(cluster.succeed("wait"), "all is there\n");
    kill(pid(node(&cluster.status(), 4).expect("a member")), Signal::SIGKILL);
    let dead = "node 4 is dead";
    cluster.await_status("missed", |status| node(status, 4).is_some_and(|node| node["state"] == "dead"));
    let said = cluster.refused("wait --within 0");
    assert!(said.contains(dead), "{said}");
    // Another one takes its place, empty; what it had is rebuilt.
    let _returned = Process(cluster.node_beside(4).spawn().expect("the program runs"));
    assert_eq!(cluster.succeed("wait --within 4m"), "all is there\n");
    let status = cluster.status();
    assert!(status["repair"]["chunks_rebuilt_total"].as_u64() > Some(0), "{status:#}");
}
