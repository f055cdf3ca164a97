//! Nodes whose memory is in files, real processes: what was stored is there when everything was restarted, and a file
//! that is not this node's is refused.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use nix::sys::signal::Signal;

use crate::processes::{ANY_PORT, Cluster, await_over, await_that, check, connect, program, roles, store_all};

/// One in ten is striped.
const KEYS: usize = 300;

fn start(dir: &Path) -> Cluster {
    start_with(dir, &[])
}

fn start_with(dir: &Path, flags: &[&str]) -> Cluster {
    let dir = dir.to_str().expect("text");
    Cluster::start(&[&["--nodes", "6", "--node-memory", "16MiB", "--memory-file", "--dir", dir], flags].concat())
}

fn value(number: usize, round: usize) -> String {
    let length = if number.is_multiple_of(10) { 40_000 } else { 100 };
    format!("value {number} of round {round}; ").repeat(length / 20)
}

fn values(round: usize) -> impl Iterator<Item = (String, String)> {
    (0..KEYS).map(move |number| (format!("key{number}"), value(number, round)))
}

fn store_round(cluster: &Cluster, round: usize) {
    store_all(&mut connect(&cluster.memcached), values(round));
}

fn check_round(cluster: &Cluster, round: usize) {
    let mut client = connect(&cluster.memcached);
    values(round).for_each(|(key, value)| check(&mut client, &key, &value));
}

/// The last things stored are in open stripes; all processes end at once.
#[test]
fn what_was_stored_is_there_when_everything_was_restarted() {
    let temp = tempfile::tempdir().expect("a directory");
    let dir = temp.path().join("cluster");
    let mut cluster = start(&dir);
    for (round, signal) in [Signal::SIGTERM, Signal::SIGKILL, Signal::SIGKILL].into_iter().enumerate() {
        store_round(&cluster, round);
        let roles = roles(&cluster.status());
        cluster.end(signal);
        await_over(&roles);
        cluster = start(&dir);
        check_round(&cluster, round);
    }
}

/// What would make nothing of all that is stored is refused, and everything is there at the next start; gateways may
/// become more.
#[test]
fn a_kept_cluster_is_not_started_as_another_one() {
    let temp = tempfile::tempdir().expect("a directory");
    let dir = temp.path().join("cluster");
    let cluster = start(&dir);
    store_round(&cluster, 0);
    cluster.end(Signal::SIGTERM);
    let others: [(&[&str], &str); 4] = [
        (&["--memory-file", "--code", "rs:2+1"], "--code rs:4+2"),
        (&["--memory-file", "--partitions", "5"], "--partitions 4"),
        (&[], "--memory-file"),
        (
            &["--memory-file", "--node-memory", "32MiB"],
            "--node-memory 16MiB --node-threads 1, as it was; nothing was started",
        ),
    ];
    for (flags, wanted) in others {
        let mut command = program();
        command.args(["up", "--memcached", ANY_PORT, "--redis", "off", "--admin", ANY_PORT, "--nodes", "6"]);
        let usual: &[&str] = if flags.contains(&"--node-memory") { &[] } else { &["--node-memory", "16MiB"] };
        command.args(usual).arg("--dir").arg(&dir).args(flags);
        let Output { status, stderr, .. } = command.output().expect("the program runs");
        let said = String::from_utf8_lossy(&stderr);
        assert!(status.code() == Some(1) && said.contains(wanted), "{flags:?}: {status}: {said}");
    }
    let cluster = start_with(&dir, &["--gateways", "3"]);
    check_round(&cluster, 0);
}

/// A node that is alone: its owners are told by flags.
fn node(file: &Path, flags: &[&str]) -> Command {
    let mut command = program();
    command.args(["node", "--listen", ANY_PORT, "--memory-file"]).arg(file).args(flags);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn refused(file: &Path, flags: &[&str], wanted: &str) {
    let before = std::fs::read(file).expect("a file");
    let Output { status, stderr, .. } = node(file, flags).output().expect("the program runs");
    let said = String::from_utf8_lossy(&stderr);
    assert_eq!(status.code(), Some(1), "{flags:?}: {said}");
    assert!(said.contains(wanted), "{flags:?}: {said}");
    assert!(std::fs::read(file).expect("a file") == before, "{flags:?}: it was changed");
}

#[test]
fn a_file_that_is_not_this_nodes_is_refused_and_not_changed() {
    let temp = tempfile::tempdir().expect("a directory");
    let path = |name: &str| -> PathBuf { temp.path().join(name) };
    let (letter, file) = (path("letter"), path("memory"));
    std::fs::write(&letter, "Dear Sir or Madam,").expect("written");
    let own = ["--cluster-id", "00000000000000aa", "--id", "3", "--memory", "16MiB"];
    refused(&letter, &own, "something else than a node's memory");

    let mut running = node(&file, &own).spawn().expect("the program runs");
    await_that("begun", || {
        assert!(running.try_wait().expect("a child").is_none(), "it ended");
        std::fs::read(&file).is_ok_and(|bytes| bytes.starts_with(b"STM4"))
    });
    let mode = std::fs::metadata(&file).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "nobody else reads what is stored");
    let Output { status, stderr, .. } = node(&file, &own).output().expect("the program runs");
    let said = String::from_utf8_lossy(&stderr);
    assert!(status.code() == Some(1) && said.contains("another process uses it"), "{said}");
    running.kill().expect("it runs");
    running.wait().expect("it ends");

    let with = |at: usize, value| {
        let mut flags = own;
        flags[at] = value;
        flags
    };
    refused(&file, &with(3, "4"), "the memory of node 3, not of node 4");
    refused(&file, &with(1, "00000000000000bb"), "another one");
    refused(&file, &with(5, "32MiB"), "was before (--threads 1 --memory 16MiB)");
    let mut layout = std::fs::read(&file).expect("a file");
    // It says so twice.
    (layout[3], layout[2048 + 3]) = (b'9', b'9');
    std::fs::write(&file, layout).expect("written");
    refused(&file, &own, "written by another version");
}
