//! Failure domains with real processes: all nodes of one die at once, nothing is missed, and what is rebuilt outlives
//! the death of another one.
//!
//! RS(4,2) on four domains of three nodes: a domain could hold three chunks of a stripe, and two may be lost. Nodes are
//! chosen by chance, as those that take turns would hardly ever be of one domain, whatever labels say.

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::processes::{Cluster, check, connect, kill, pid, store_all};

const NODE_COUNT: u64 = 12;
const DOMAIN_COUNT: u64 = 4;
/// One in four is striped: 150 stripes, besides those of the others.
const KEYS: usize = 600;

fn value(number: usize) -> String {
    let length = if number.is_multiple_of(4) { 20_000 } else { 1_000 };
    format!("value {number:05}; ").repeat(length / 13)
}

fn values() -> impl Iterator<Item = (String, String)> {
    (0..KEYS).map(|number| (format!("key{number}"), value(number)))
}

fn of_domain(status: &Value, domain: u64) -> Vec<&Value> {
    let nodes = status["nodes"].as_array().expect("nodes");
    nodes.iter().filter(|node| node["domain"] == format!("domain {domain}")).collect()
}

fn kill_domain(cluster: &Cluster, domain: u64) {
    let status = cluster.status();
    let nodes = of_domain(&status, domain);
    assert_eq!(nodes.len() as u64, NODE_COUNT / DOMAIN_COUNT, "{status:#}");
    nodes.iter().for_each(|node| kill(pid(node), Signal::SIGKILL));
}

#[test]
fn whole_domains_die_one_after_the_other_and_nothing_is_missed() {
    let counts = [NODE_COUNT, DOMAIN_COUNT].map(|count| count.to_string());
    let flags = ["--nodes", &counts[0], "--domains", &counts[1], "--node-memory", "16MiB", "--retire-after", "1"];
    let cluster = Cluster::start(&[&flags[..], &["--placement", "random", "--redis", "off"]].concat());
    let mut client = connect(&cluster.memcached);
    store_all(&mut client, values());
    let mut check_all = || values().for_each(|(key, value)| check(&mut client, &key, &value));

    kill_domain(&cluster, 1);
    check_all();
    // No more than two nodes are given up before what they held is rebuilt.
    let status = cluster.await_status("rebuilt", |status| {
        let is_over = |node: &&Value| node["rebuilt"] == true;
        of_domain(status, 1).iter().all(is_over) && status["repair"]["chunks_missing"] == 0
    });
    assert!(status["repair"]["chunks_rebuilt_total"].as_u64().expect("a count") > 0, "{status:#}");

    // Where a stripe had three chunks in a domain by now, one of these three loses too many of it.
    kill_domain(&cluster, 2);
    check_all();
}
