//! A whole cluster of real processes: it serves, it survives, and it ends with its parent.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

const ANY_PORT: &str = "127.0.0.1:0";
/// Nothing here takes a second; a test that hangs should end.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running `shorttail up` on free ports, killed when dropped.
struct Cluster {
    up: Child,
    out: BufReader<ChildStdout>,
    memcached: String,
    admin: String,
    temp: tempfile::TempDir,
}

impl Cluster {
    fn start(flags: &[&str]) -> Self {
        Self::start_of(6, flags)
    }

    fn start_of(node_count: usize, flags: &[&str]) -> Self {
        let temp = tempfile::tempdir().expect("a directory");
        let mut command = Command::new(env!("CARGO_BIN_EXE_shorttail"));
        command.args(["up", "--node-memory", "16MiB", "--nodes", &node_count.to_string()]);
        command.args(["--memcached", ANY_PORT, "--redis", ANY_PORT, "--admin", ANY_PORT]).args(flags);
        let mut up = command.env("TMPDIR", temp.path()).stdout(Stdio::piped()).spawn().expect("the program runs");
        let out = BufReader::new(up.stdout.take().expect("piped"));
        let mut cluster = Cluster { up, out, memcached: String::new(), admin: String::new(), temp };
        let ready = cluster.line_with("ready");
        let word_after = |word: &str| {
            let rest = &ready[ready.find(word).unwrap_or_else(|| panic!("no {word} in {ready}")) + word.len()..];
            rest.split([',', ' ']).next().expect("an address").to_owned()
        };
        cluster.memcached = word_after("memcached ");
        cluster.admin = word_after("http://");
        cluster
    }

    /// Reads on until a line that begins so.
    fn line_with(&mut self, beginning: &str) -> String {
        let mut said = String::new();
        loop {
            let mut line = String::new();
            let read = self.out.read_line(&mut line).expect("text");
            assert!(read > 0, "ended without a line that begins with {beginning:?}:\n{said}");
            if line.starts_with(beginning) {
                return line;
            }
            said.push_str(&line);
        }
    }

    fn status(&self) -> Value {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shorttail"));
        let output = command.args(["status", "--json", "--admin", &self.admin]).output().expect("the program runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// Asks for the status until it is as wanted.
    fn await_status(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let started = Instant::now();
        loop {
            let status = self.status();
            if is_so(&status) {
                return status;
            }
            assert!(started.elapsed() < PATIENCE, "not {what}: {status:#}");
        }
    }

    /// One memcached command, and its answer up to a line that ends it.
    fn ask(&self, command: &str, end: &str) -> String {
        let mut stream = TcpStream::connect(&self.memcached).expect("the gateway listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream.write_all(command.as_bytes()).expect("sent");
        let mut answer = String::new();
        let mut reader = BufReader::new(stream);
        while !answer.ends_with(end) {
            assert!(reader.read_line(&mut answer).expect("an answer") > 0, "closed after {answer:?}");
        }
        answer
    }

    fn kill_node(&mut self, id: usize) {
        let pid = self.status()["nodes"][id]["pid"].as_i64().expect("a pid");
        kill(Pid::from_raw(i32::try_from(pid).expect("a pid")), Signal::SIGKILL).expect("it runs");
        let line = self.line_with("node ");
        assert!(line.starts_with(&format!("node {id} (pid {pid}) died: killed by SIGKILL;")), "{line}");
    }

    /// Kills the gateway and waits until another serves; what the status said of the old one.
    fn replace_gateway(&mut self) -> Value {
        let gateway = self.status()["gateways"][0].clone();
        let pid = i32::try_from(gateway["pid"].as_i64().expect("a pid")).expect("a pid");
        kill(Pid::from_raw(pid), Signal::SIGKILL).expect("it runs");
        self.line_with("the gateway (pid");
        self.line_with("the gateway serves again");
        gateway
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.up.id().cast_signed()), signal).expect("it runs");
    }

    /// Connections that end when their process does: one to the gateway and one to each node.
    fn lifelines(&self) -> Vec<Box<dyn Read>> {
        let gateway = TcpStream::connect(&self.memcached).expect("the gateway listens");
        gateway.set_read_timeout(Some(PATIENCE)).expect("a socket");
        let mut lifelines: Vec<Box<dyn Read>> = vec![Box::new(gateway)];
        for node in self.status()["nodes"].as_array().expect("nodes") {
            let address = node["address"].as_str().expect("an address");
            let path = address.strip_prefix("unix:").expect("a Unix socket");
            let stream = UnixStream::connect(path).expect("the node listens");
            stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
            lifelines.push(Box::new(stream));
        }
        lifelines
    }

    fn end(mut self, signal: Signal) -> (ExitStatus, tempfile::TempDir) {
        self.signal(signal);
        let status = self.up.wait().expect("it ends");
        (status, std::mem::replace(&mut self.temp, tempfile::tempdir().expect("a directory")))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // It has ended already when a test ended it.
        let _ = self.up.kill();
        let _ = self.up.wait();
    }
}

/// An end or a reset is an end; running into the time limit is not.
fn expect_end(lifeline: &mut dyn Read) {
    let mut rest = Vec::new();
    match lifeline.read_to_end(&mut rest) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "still alive"),
    }
}

#[test]
fn it_serves_and_says_so_in_the_status() {
    let cluster = Cluster::start(&[]);
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
        (gateway["memcached"].as_str(), gateway["admin"].as_str()),
        (Some(&*cluster.memcached), Some(&*cluster.admin))
    );
    assert!(gateway["redis"].is_string() && gateway["pid"].is_u64());
}

#[test]
fn clients_are_told_what_all_threads_of_the_gateway_counted() {
    let cluster = Cluster::start(&["--gateway-threads", "3"]);
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
    let mut cluster = Cluster::start(&["--config", file.to_str().expect("text")]);
    let settings = |cluster: &Cluster| cluster.ask("stats settings\r\n", "END\r\n");
    assert!(settings(&cluster).contains("STAT maxconns 100\r\n"));
    std::fs::write(&file, "[up]\nconnections_max = 200\nwhen_full = \"error\"\npartitions = 8\n").expect("written");
    cluster.signal(Signal::SIGHUP);
    let line = cluster.line_with("the configuration was read again");
    assert!(line.ends_with("at the next start change: --partitions\n"), "{line}");
    // The gateway follows in its own time.
    let follows = (0..100_000).any(|_| settings(&cluster).contains("STAT maxconns 200\r\n"));
    assert!(follows, "{}", settings(&cluster));
    assert!(settings(&cluster).contains("STAT evictions off\r\n"), "{}", settings(&cluster));
    assert_eq!(cluster.ask("set greeting 0 0 5\r\nhello\r\n", "\r\n"), "STORED\r\n");
}

#[test]
fn a_dead_node_is_reported_and_nothing_is_lost() {
    let mut cluster = Cluster::start(&[]);
    assert_eq!(cluster.ask("set greeting 0 0 5\r\nhello\r\n", "\r\n"), "STORED\r\n");
    [1, 4].into_iter().for_each(|id| cluster.kill_node(id));
    assert_eq!(cluster.ask("get greeting\r\n", "END\r\n"), "VALUE greeting 0 5\r\nhello\r\nEND\r\n");
}

#[test]
fn a_dead_gateway_is_replaced_and_nothing_is_lost() {
    let mut cluster = Cluster::start(&[]);
    assert_eq!(cluster.ask("set greeting 0 0 5\r\nhello\r\n", "\r\n"), "STORED\r\n");
    let gateway = cluster.replace_gateway();
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

    fn store(&self, cluster: &Cluster) {
        let set = |(number, &bytes): (usize, &usize)| {
            format!("set key{number} 0 0 {bytes} noreply\r\n{}\r\n", Self::value(number, bytes))
        };
        let sets: String = self.sizes.iter().enumerate().map(set).collect();
        assert_eq!(cluster.ask(&(sets + "mn\r\n"), "MN\r\n"), "MN\r\n");
    }

    fn check(&self, cluster: &Cluster) {
        for (number, &bytes) in self.sizes.iter().enumerate() {
            let expected = format!("VALUE key{number} 0 {bytes}\r\n{}\r\nEND\r\n", Self::value(number, bytes));
            assert!(cluster.ask(&format!("get key{number}\r\n"), "END\r\n") == expected, "key{number}");
        }
    }
}

#[test]
fn local_groups_and_one_global_parity_survive_two_nodes_and_then_the_gateway() {
    let mut cluster = Cluster::start_of(8, &["--code", "lrc:4+2+1"]);
    assert_eq!(cluster.status()["code"], "lrc:4+2+1");
    let load = Load::new();
    load.store(&cluster);
    [2, 5].into_iter().for_each(|id| cluster.kill_node(id));
    load.check(&cluster);
    cluster.replace_gateway();
    load.check(&cluster);
    assert!(cluster.ask("set more 0 0 1\r\nx\r\n", "\r\n").starts_with("SERVER_ERROR"), "six nodes of seven chunks");
}

/// The third and the fourth death would take every stripe below four chunks, were the first two not made up for.
#[test]
fn lost_chunks_are_rebuilt_and_more_nodes_may_die() {
    let mut cluster = Cluster::start_of(10, &["--repair-grace", "1"]);
    let load = Load::new();
    load.store(&cluster);
    let mut rebuilt = Some(0);
    for pair in [[0, 1], [2, 3]] {
        pair.into_iter().for_each(|id| cluster.kill_node(id));
        let status = cluster.await_status("repaired", |status| {
            let is_given_up = |id: usize| status["nodes"][id]["state"] == "retired";
            pair.into_iter().all(is_given_up) && status["repair"]["chunks_missing"] == 0
        });
        let total = status["repair"]["chunks_rebuilt_total"].as_u64();
        assert!(total > rebuilt, "{status:#}");
        rebuilt = total;
    }
    load.check(&cluster);
    cluster.replace_gateway();
    load.check(&cluster);
    cluster.kill_node(4);
    let few = |status: &Value| status["repair"]["nodes_alive"] == 5 && status["repair"]["chunks_missing"] != 0;
    cluster.await_status("short of a node", few);
    load.check(&cluster);
}

/// With no node to spare: those that died come back empty, and get their own chunks again.
#[test]
fn nodes_that_come_back_empty_are_filled_again() {
    let mut cluster = Cluster::start_of(6, &["--restart-nodes"]);
    let load = Load::new();
    load.store(&cluster);
    for pair in [[0, 1], [2, 3]] {
        let before = cluster.await_status("counted", |status| status["nodes"][0]["chunks_sealed"] != 0);
        pair.into_iter().for_each(|id| cluster.kill_node(id));
        cluster.await_status("refilled", |status| {
            let is_full = |id: usize| {
                let sealed = |status: &Value| status["nodes"][id]["chunks_sealed"].as_u64();
                status["nodes"][id]["pid"] != before["nodes"][id]["pid"] && sealed(status) >= sealed(&before)
            };
            pair.into_iter().all(is_full) && status["repair"]["chunks_missing"] == 0
        });
    }
    load.check(&cluster);
}

#[test]
fn the_data_path_does_not_need_the_coordinator_and_it_is_replaced() {
    let mut cluster = Cluster::start(&[]);
    let before = cluster.status();
    let listing = std::fs::read_dir("/proc").expect("a Linux system").flatten();
    let coordinator = listing.filter_map(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        let mut words = line.split(|&byte| byte == 0).map(String::from_utf8_lossy);
        let ours =
            words.nth(1)? == "coordinator" && words.any(|word| word.contains(&*cluster.temp.path().to_string_lossy()));
        ours.then(|| entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()))?
    });
    let pid = coordinator.last().expect("a coordinator");
    kill(Pid::from_raw(pid), Signal::SIGKILL).expect("it runs");
    assert_eq!(cluster.ask("set greeting 0 0 5\r\nhello\r\n", "\r\n"), "STORED\r\n");
    let line = cluster.line_with("the coordinator (pid");
    assert!(line.contains("it is started again"), "{line}");
    let after = loop {
        match TcpStream::connect(&cluster.admin) {
            Ok(_) => break cluster.status(),
            Err(_) => std::thread::yield_now(),
        }
    };
    assert_eq!(before["cluster_id"], after["cluster_id"]);
}

#[test]
fn an_orderly_end_leaves_nothing_behind() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let cluster = Cluster::start(&[]);
        let mut lifelines = cluster.lifelines();
        let (status, temp) = cluster.end(signal);
        assert_eq!(status.code(), Some(0), "{signal}");
        lifelines.iter_mut().for_each(|lifeline| expect_end(lifeline.as_mut()));
        assert_eq!(std::fs::read_dir(temp.path()).expect("a directory").count(), 0, "{signal}");
    }
}

#[test]
fn children_die_with_a_parent_that_is_killed() {
    let cluster = Cluster::start(&[]);
    let mut lifelines = cluster.lifelines();
    let (status, _temp) = cluster.end(Signal::SIGKILL);
    assert_eq!(status.code(), None);
    lifelines.iter_mut().for_each(|lifeline| expect_end(lifeline.as_mut()));
}

#[test]
fn a_directory_keeps_the_identity_of_the_cluster() {
    let dir = tempfile::tempdir().expect("a directory");
    let flags = ["--dir", dir.path().to_str().expect("text")];
    let first = Cluster::start(&flags);
    let before = first.status();
    first.end(Signal::SIGINT);
    let second = Cluster::start(&flags);
    let after = second.status();
    assert_eq!(before["cluster_id"], after["cluster_id"]);
    assert!(after["epoch"].as_u64() > before["epoch"].as_u64());
}

#[test]
fn nodes_on_tcp_serve_as_well() {
    let cluster = Cluster::start(&["--transport", "tcp"]);
    assert!(cluster.status()["nodes"][0]["address"].as_str().expect("an address").starts_with("127.0.0.1:"));
    assert_eq!(cluster.ask("set greeting 0 0 5\r\nhello\r\n", "\r\n"), "STORED\r\n");
}

/// `shorttail policy` with these words: what it printed, or what it complained of.
fn policy(cluster: &Cluster, words: &str) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shorttail"));
    command.arg("policy").args(words.split_ascii_whitespace()).args(["--admin", &cluster.admin]);
    let output = command.output().expect("the program runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// Chunks that are sealed, once there are so many: heartbeats carry the number.
fn await_sealed(cluster: &Cluster, count: u64) {
    loop {
        let nodes = cluster.status()["nodes"].clone();
        let sealed: u64 =
            nodes.as_array().expect("nodes").iter().filter_map(|node| node["chunks_sealed"].as_u64()).sum();
        assert!(sealed <= count, "{sealed} chunks are sealed");
        if sealed == count {
            return;
        }
    }
}

#[test]
fn policies_change_while_it_serves_and_objects_are_stored_accordingly() {
    let cluster = Cluster::start(&["--code", "rs:2+1", "--partitions", "2", "--gateway-threads", "2"]);
    let shown = |cluster: &Cluster| -> Vec<String> {
        let table = policy(cluster, "show").expect("it serves");
        table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    };
    let until_shown = |lines: &[&str]| while shown(&cluster) != lines {};
    until_shown(&["0 0-1 adaptive on on adaptive packed log off"]);

    let said = policy(&cluster, "set --small-write replicate").expect("it is done");
    assert!(said.starts_with("gateway 0: all partitions: ") && said.contains("small-write replicate"), "{said}");
    until_shown(&["0 0-1 - on on adaptive replicate log off"]);
    cluster.ask("set copied 0 0 4\r\nabcd\r\n", "STORED\r\n");
    await_sealed(&cluster, 2);

    policy(&cluster, "set --policy ecwide --hedge late-binding:1").expect("it is done");
    until_shown(&["0 0-1 ec-cache off off late-binding:1 pad in-place off"]);
    cluster.ask("set padded 0 0 4\r\nefgh\r\n", "STORED\r\n");
    await_sealed(&cluster, 5);

    policy(&cluster, "set --partition 1 --policy llf").expect("it is done");
    until_shown(&["0 0 ec-cache off off late-binding:1 pad in-place off", "0 1 llf off off off pad in-place on"]);
    policy(&cluster, "set --policy adaptive").expect("it is done");
    cluster.ask("set packed 0 0 4\r\nijkl\r\n", "STORED\r\n");
    for (key, value) in [("copied", "abcd"), ("padded", "efgh"), ("packed", "ijkl")] {
        let answer = cluster.ask(&format!("get {key}\r\n"), "END\r\n");
        assert_eq!(answer, format!("VALUE {key} 0 4\r\n{value}\r\nEND\r\n"));
    }
    await_sealed(&cluster, 5);

    let error = policy(&cluster, "set --partition 2 --hedge off").expect_err("there is none");
    assert!(error.contains("there is no partition 2"), "{error}");
    assert!(policy(&cluster, "set").expect_err("nothing is named").contains("Usage"));
    assert!(policy(&cluster, "set --update backwards").expect_err("no such update").contains("none of log, in-place"));
}
