//! A whole cluster of real processes: it serves, it survives, and it ends with its parent.

use std::net::TcpStream;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::processes::{
    Cluster, await_over, await_that, check, connect, coordinator, kill, pid, program, roles, store_all,
};

/// Nodes of 16 MiB.
fn start_of(node_count: usize, flags: &[&str]) -> Cluster {
    let node_count = node_count.to_string();
    Cluster::start(&[&["--node-memory", "16MiB", "--nodes", &node_count], flags].concat())
}

fn start(flags: &[&str]) -> Cluster {
    start_of(6, flags)
}

fn kill_node(cluster: &mut Cluster, id: usize) {
    let pid = pid(&cluster.status()["nodes"][id]);
    kill(pid, Signal::SIGKILL);
    let line = cluster.line_with(&format!("node {id} (pid"));
    assert!(line.starts_with(&format!("node {id} (pid {pid}) died: killed by SIGKILL;")), "{line}");
}

/// Kills the gateway and waits until another serves; what the status said of the old one.
fn replace_gateway(cluster: &mut Cluster) -> Value {
    let gateway = cluster.status()["gateways"][0].clone();
    kill(pid(&gateway), Signal::SIGKILL);
    cluster.line_with("the gateway (pid");
    cluster.line_with("the gateway serves again");
    gateway
}

#[test]
fn it_serves_and_says_so_in_the_status() {
    let cluster = start(&[]);
    assert_eq!(cluster.ask("set greeting 0 0 5\r\nhello\r\n", "\r\n"), "STORED\r\n");
    assert_eq!(cluster.ask("get greeting\r\n", "END\r\n"), "VALUE greeting 0 5\r\nhello\r\nEND\r\n");
    let status = cluster.status();
    assert_eq!(status["code"], "rs:4+2");
    for key in ["objects", "bytes_stored", "bytes_used"] {
        assert!(status[key].is_u64(), "{key}");
    }
    let nodes = status["nodes"].as_array().expect("nodes");
    assert_eq!(nodes.len(), 6);
    for node in nodes {
        assert_eq!((&node["state"], &node["memory_limit_bytes"]), (&"normal".into(), &(16 << 20).into()));
        assert!(node["id"].is_u64() && node["pid"].is_u64() && node["memory_used_bytes"].is_u64());
    }
    let gateway = &status["gateways"][0];
    assert_eq!(
        (gateway["memcached"].as_str(), status["coordinator"]["admin"].as_str()),
        (Some(&*cluster.memcached), Some(&*cluster.admin))
    );
    assert!(gateway["redis"].is_string() && gateway["pid"].is_u64());
}

#[test]
fn clients_are_told_what_all_threads_of_the_gateway_counted() {
    let cluster = start(&["--gateway-threads", "3"]);
    // Each connection is another thread's.
    for number in 0..12 {
        assert_eq!(cluster.ask(&format!("set key{number} 0 0 1\r\nx\r\n"), "\r\n"), "STORED\r\n");
        cluster.ask(&format!("get key{number} none{number}\r\n"), "END\r\n");
    }
    for _ in 0..3 {
        let stats = cluster.ask("stats\r\n", "END\r\n");
        for line in ["STAT cmd_set 12\r\n", "STAT get_hits 12\r\n", "STAT get_misses 12\r\n", "STAT threads 3\r\n"] {
            assert!(stats.contains(line), "{line} is not in {stats}");
        }
    }
    assert_eq!(cluster.ask("stats reset\r\n", "\r\n"), "RESET\r\n");
    for _ in 0..3 {
        assert!(cluster.ask("stats\r\n", "END\r\n").contains("STAT cmd_set 0\r\n"), "cleared on all threads");
    }
}

#[test]
fn a_file_that_is_read_again_changes_what_may_change() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("shorttail.toml");
    std::fs::write(&file, "[up]\nconnections_max = 100\n").expect("written");
    let mut cluster = start(&["--config", file.to_str().expect("text")]);
    let settings = |cluster: &Cluster| cluster.ask("stats settings\r\n", "END\r\n");
    assert!(settings(&cluster).contains("STAT maxconns 100\r\n"));
    std::fs::write(&file, "[up]\nconnections_max = 200\nwhen_full = \"error\"\npartitions = 8\n").expect("written");
    cluster.signal(Signal::SIGHUP);
    let line = cluster.line_with("the configuration was read again");
    assert!(line.ends_with("at the next start change: --partitions"), "{line}");
    // The gateway follows in its own time.
    await_that("allowed more", || settings(&cluster).contains("STAT maxconns 200\r\n"));
    assert!(settings(&cluster).contains("STAT evictions off\r\n"), "{}", settings(&cluster));
    assert_eq!(cluster.ask("set greeting 0 0 5\r\nhello\r\n", "\r\n"), "STORED\r\n");
}

#[test]
fn a_dead_node_is_reported_and_nothing_is_lost() {
    let mut cluster = start(&[]);
    assert_eq!(cluster.ask("set greeting 0 0 5\r\nhello\r\n", "\r\n"), "STORED\r\n");
    [1, 4].into_iter().for_each(|id| kill_node(&mut cluster, id));
    assert_eq!(cluster.ask("get greeting\r\n", "END\r\n"), "VALUE greeting 0 5\r\nhello\r\nEND\r\n");
}

#[test]
fn a_dead_gateway_is_replaced_and_nothing_is_lost() {
    let mut cluster = start(&[]);
    assert_eq!(cluster.ask("set greeting 0 0 5\r\nhello\r\n", "\r\n"), "STORED\r\n");
    let gateway = replace_gateway(&mut cluster);
    let status = cluster.status();
    let serving: Vec<&Value> =
        status["gateways"].as_array().expect("gateways").iter().filter(|one| one["serving"] == true).collect();
    assert_eq!(serving.len(), 1);
    assert_eq!(serving[0]["memcached"], gateway["memcached"], "the port stays");
    assert!(serving[0]["epoch"].as_u64() > gateway["epoch"].as_u64(), "the epoch grows");
    assert_eq!(cluster.ask("get greeting\r\n", "END\r\n"), "VALUE greeting 0 5\r\nhello\r\nEND\r\n");
}

/// Objects of all kinds: in unsealed, in sealed and in stripes of their own.
struct Load {
    sizes: Vec<usize>,
}

impl Load {
    fn new() -> Self {
        let small = std::iter::repeat_n(900, 1500);
        Load { sizes: small.chain([70_000, 300_000, 1]).collect() }
    }

    fn value(number: usize, bytes: usize) -> String {
        format!("{number:08x}").chars().cycle().take(bytes).collect()
    }

    fn values(&self) -> impl Iterator<Item = (String, String)> {
        let numbered = self.sizes.iter().enumerate();
        numbered.map(|(number, &bytes)| (format!("key{number}"), Self::value(number, bytes)))
    }

    fn store(&self, cluster: &Cluster) {
        store_all(&mut connect(&cluster.memcached), self.values());
    }

    fn check(&self, cluster: &Cluster) {
        let mut stream = connect(&cluster.memcached);
        self.values().for_each(|(key, value)| check(&mut stream, &key, &value));
    }
}

#[test]
fn local_groups_and_one_global_parity_survive_two_nodes_and_then_the_gateway() {
    let mut cluster = start_of(8, &["--code", "lrc:4+2+1"]);
    assert_eq!(cluster.status()["code"], "lrc:4+2+1");
    let load = Load::new();
    load.store(&cluster);
    [2, 5].into_iter().for_each(|id| kill_node(&mut cluster, id));
    load.check(&cluster);
    replace_gateway(&mut cluster);
    load.check(&cluster);
    assert!(cluster.ask("set more 0 0 1\r\nx\r\n", "\r\n").starts_with("SERVER_ERROR"), "six nodes of seven chunks");
}

/// The third and the fourth death would take every stripe below four chunks, were the first two not made up for.
#[test]
fn lost_chunks_are_rebuilt_and_more_nodes_may_die() {
    let mut cluster = start_of(10, &["--repair-grace", "1"]);
    let load = Load::new();
    load.store(&cluster);
    let mut rebuilt = Some(0);
    for pair in [[0, 1], [2, 3]] {
        pair.into_iter().for_each(|id| kill_node(&mut cluster, id));
        let status = cluster.await_status("repaired", |status| {
            let is_given_up = |id: usize| status["nodes"][id]["state"] == "retired";
            pair.into_iter().all(is_given_up) && status["repair"]["chunks_missing"] == 0
        });
        let total = status["repair"]["chunks_rebuilt_total"].as_u64();
        assert!(total > rebuilt, "{status:#}");
        rebuilt = total;
    }
    load.check(&cluster);
    replace_gateway(&mut cluster);
    load.check(&cluster);
    kill_node(&mut cluster, 4);
    let few = |status: &Value| status["repair"]["nodes_alive"] == 5 && status["repair"]["chunks_missing"] != 0;
    cluster.await_status("short of a node", few);
    load.check(&cluster);
}

/// With no node to spare: those that died come back empty, and get their own chunks again.
#[test]
fn nodes_that_come_back_empty_are_filled_again() {
    let mut cluster = start_of(6, &["--restart-nodes"]);
    let load = Load::new();
    load.store(&cluster);
    // Six nodes and six chunks to a stripe: each node has one of every stripe. How many stripes there are may change
    // meanwhile, for what cannot be sealed without the two that died is written again.
    let sealed = |status: &Value, id: usize| status["nodes"][id]["chunks_sealed"].as_u64();
    for pair in [[0, 1], [2, 3]] {
        let before = cluster.await_status("counted", |status| sealed(status, 0) > Some(0));
        pair.into_iter().for_each(|id| kill_node(&mut cluster, id));
        cluster.await_status("refilled", |status| {
            let is_full = |id: usize| {
                status["nodes"][id]["pid"] != before["nodes"][id]["pid"]
                    && sealed(status, id) > Some(0)
                    && sealed(status, id) == sealed(status, 5)
            };
            pair.into_iter().all(is_full) && status["repair"]["chunks_missing"] == 0
        });
    }
    load.check(&cluster);
}

#[test]
fn the_data_path_does_not_need_the_coordinator_and_it_is_replaced() {
    let mut cluster = start(&[]);
    let before = cluster.status();
    let (_, coordinator) = coordinator(&before);
    kill(coordinator, Signal::SIGKILL);
    assert_eq!(cluster.ask("set greeting 0 0 5\r\nhello\r\n", "\r\n"), "STORED\r\n");
    let line = cluster.line_with("the coordinator (pid");
    assert!(line.contains("it is started again"), "{line}");
    await_that("listening", || TcpStream::connect(&cluster.admin).is_ok());
    let after = cluster.await_status("led", |status| status["cluster_id"] != "");
    assert_eq!(before["cluster_id"], after["cluster_id"]);
}

#[test]
fn an_orderly_end_leaves_nothing_behind() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let cluster = start(&[]);
        let roles = roles(&cluster.status());
        let (status, temp) = cluster.end(signal);
        assert_eq!(status.code(), Some(0), "{signal}");
        await_over(&roles);
        assert_eq!(std::fs::read_dir(temp.path()).expect("a directory").count(), 0, "{signal}");
    }
}

#[test]
fn children_die_with_a_parent_that_is_killed() {
    let cluster = start(&[]);
    let roles = roles(&cluster.status());
    let (status, _temp) = cluster.end(Signal::SIGKILL);
    assert_eq!(status.code(), None);
    await_over(&roles);
}

#[test]
fn a_directory_keeps_the_identity_of_the_cluster() {
    let dir = tempfile::tempdir().expect("a directory");
    let flags = ["--dir", dir.path().to_str().expect("text")];
    let first = start(&flags);
    let before = first.status();
    first.end(Signal::SIGINT);
    let second = start(&flags);
    let after = second.status();
    assert_eq!(before["cluster_id"], after["cluster_id"]);
    assert!(after["epoch"].as_u64() > before["epoch"].as_u64());
}

#[test]
fn nodes_on_tcp_serve_as_well() {
    let cluster = start(&["--transport", "tcp"]);
    assert!(cluster.status()["nodes"][0]["address"].as_str().expect("an address").starts_with("127.0.0.1:"));
    assert_eq!(cluster.ask("set greeting 0 0 5\r\nhello\r\n", "\r\n"), "STORED\r\n");
}

/// Waits until so many chunks are sealed, and no more: heartbeats carry the number.
fn await_sealed(cluster: &Cluster, count: u64) {
    cluster.await_status("sealed", |status| {
        let nodes = status["nodes"].as_array().expect("nodes").iter();
        let sealed: u64 = nodes.filter_map(|node| node["chunks_sealed"].as_u64()).sum();
        assert!(sealed <= count, "{sealed} chunks are sealed");
        sealed == count
    });
}

#[test]
fn policies_change_while_it_serves_and_objects_are_stored_accordingly() {
    let cluster = start(&["--code", "rs:2+1", "--partitions", "2", "--gateway-threads", "2"]);
    let shown = |cluster: &Cluster| -> Vec<String> {
        let table = cluster.succeed("policy show");
        table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    };
    let until_shown = |lines: &[&str]| await_that(&lines.join(", "), || shown(&cluster) == lines);
    until_shown(&["0 0-1 adaptive on on adaptive packed log off"]);

    let said = cluster.succeed("policy set --small-write replicate");
    assert!(said.starts_with("gateway 0: all partitions: ") && said.contains("small-write replicate"), "{said}");
    until_shown(&["0 0-1 - on on adaptive replicate log off"]);
    cluster.ask("set copied 0 0 4\r\nabcd\r\n", "STORED\r\n");
    await_sealed(&cluster, 2);

    cluster.succeed("policy set --policy ecwide --hedge late-binding:1");
    until_shown(&["0 0-1 ec-cache off off late-binding:1 pad in-place off"]);
    cluster.ask("set padded 0 0 4\r\nefgh\r\n", "STORED\r\n");
    await_sealed(&cluster, 5);

    cluster.succeed("policy set --partition 1 --policy llf");
    until_shown(&["0 0 ec-cache off off late-binding:1 pad in-place off", "0 1 llf off off off pad in-place on"]);
    cluster.succeed("policy set --policy adaptive");
    cluster.ask("set packed 0 0 4\r\nijkl\r\n", "STORED\r\n");
    for (key, value) in [("copied", "abcd"), ("padded", "efgh"), ("packed", "ijkl")] {
        let answer = cluster.ask(&format!("get {key}\r\n"), "END\r\n");
        assert_eq!(answer, format!("VALUE {key} 0 4\r\n{value}\r\nEND\r\n"));
    }
    await_sealed(&cluster, 5);

    let error = cluster.refused("policy set --partition 2 --hedge off");
    assert!(error.contains("there is no partition 2"), "{error}");
    assert!(cluster.refused("policy set").contains("Usage"));
    assert!(cluster.refused("policy set --update backwards").contains("none of log, in-place"));
}

/// As while a new version is put in its place.
#[test]
fn a_gateway_whose_program_is_away_comes_back_when_it_does_and_nobody_ends_meanwhile() {
    let temp = tempfile::tempdir().expect("a directory");
    let [own, aside] = ["shorttail", "aside"].map(|name| temp.path().join(name));
    // By another process: what another test starts meanwhile would inherit our open file, and who is being written
    // does not run.
    let copied = std::process::Command::new("cp").arg(program().get_program()).arg(&own).status().expect("cp runs");
    assert!(copied.success(), "{copied}");
    let mut cluster = Cluster::start_by(std::process::Command::new(&own), &["--node-memory", "16MiB", "--nodes", "6"]);
    assert_eq!(cluster.ask("set key 0 0 5\r\nvalue\r\n", "STORED\r\n"), "STORED\r\n");
    let nodes = |status: &Value| status["nodes"].as_array().expect("nodes").iter().map(pid).collect::<Vec<_>>();
    let before = cluster.status();
    std::fs::rename(&own, &aside).expect("moved");
    kill(pid(&before["gateways"][0]), Signal::SIGKILL);
    cluster.line_with("cannot start the gateway: ");
    std::fs::rename(&aside, &own).expect("moved back");
    cluster.line_with("the gateway serves again");
    assert_eq!(nodes(&cluster.status()), nodes(&before), "they went on");
    assert_eq!(cluster.ask("get key\r\n", "END\r\n"), "VALUE key 0 5\r\nvalue\r\nEND\r\n");
}
