//! How processes end that are told to: supervisors go by it.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::processes::{ANY_PORT, Cluster, PATIENCE, Process, await_some, program};

fn terminate(process: &mut Process) -> ExitStatus {
    process.signal(Signal::SIGTERM);
    process.end()
}

/// Waits until the cluster uses a process.
fn await_used(cluster: &Cluster, process: &Process, kind: &str, is_used: impl Fn(&Value) -> bool) {
    cluster.await_status("used", |status| {
        let entries = status[kind].as_array().expect("entries");
        entries.iter().any(|entry| entry["pid"] == process.0.id() && is_used(entry))
    });
}

#[test]
fn nodes_gateways_and_up_end_without_an_error() {
    let cluster = Cluster::start(&["--nodes", "3", "--code", "rs:2+1", "--node-memory", "32MiB"]);
    let node = Process(cluster.node_beside(3).spawn().expect("the program runs"));
    let flags = ["--memcached", ANY_PORT, "--redis", ANY_PORT];
    let gateway = Process(cluster.beside("gateway", &flags).spawn().expect("the program runs"));
    await_used(&cluster, &node, "nodes", |node| node["state"] == "normal");
    await_used(&cluster, &gateway, "gateways", |gateway| gateway["serving"] == true);
    assert_eq!(terminate(&mut { node }).code(), Some(0));
    assert_eq!(terminate(&mut { gateway }).code(), Some(0));
    assert_eq!(cluster.end(Signal::SIGTERM).0.code(), Some(0));
}

#[test]
fn a_coordinator_that_runs_alone_ends_without_an_error() {
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("control.sock");
    let mut command = program();
    command.args(["coordinator", "--admin", "off", "--listen", &format!("unix:{}", path.display())]);
    let mut coordinator = Process(command.spawn().expect("the program runs"));
    let mut stranger = await_some("listening", || UnixStream::connect(&path).ok());
    // It lets those go that speak something else, once it does anything.
    stranger.set_read_timeout(Some(PATIENCE)).expect("a socket");
    stranger.write_all(&[0xFF; 64]).expect("sent");
    if let Err(error) = stranger.read_to_end(&mut Vec::new()) {
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "still there");
    }
    assert_eq!(terminate(&mut coordinator).code(), Some(0));
}

/// It waits for its predecessor to let go of the directory: whoever told it to end need not.
#[test]
fn a_coordinator_that_has_yet_to_begin_ends_without_an_error() {
    let temp = tempfile::tempdir().expect("a directory");
    let start = |name: &str| {
        let mut command = program();
        let listen = format!("unix:{}", temp.path().join(name).display());
        command.args(["coordinator", "--admin", "off", "--listen", &listen, "--dir"]).arg(temp.path().join("state"));
        Process(command.spawn().expect("the program runs"))
    };
    let is_there = |name: &str| temp.path().join(name).exists().then_some(());
    let mut first = start("first.sock");
    await_some("the first", || is_there("first.sock").and(is_there("state")));
    // On a slow machine it may have waited as long as it does: then it ended by itself, with 1.
    let ends = (0..PATIENCE.as_secs()).map(|_| {
        let mut second = start("second.sock");
        await_some("the second", || catches(second.0.id() as i32, Signal::SIGTERM).then_some(()));
        terminate(&mut second).code()
    });
    assert_eq!(ends.into_iter().find(|&code| code != Some(1)), Some(Some(0)));
    assert_eq!(terminate(&mut first).code(), Some(0));
}

/// The first process of a container does not end by a signal that it does not catch. This one waits for its file.
#[test]
fn the_first_process_of_a_container_ends_before_it_has_begun() {
    let temp = tempfile::tempdir().expect("a directory");
    let file = temp.path().join("file");
    nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).expect("a pipe with a name");
    for role in ["node", "gateway", "coordinator", "up"] {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--pid", "--fork", "--kill-child"]);
        command.arg(program().get_program()).args([role, "--config"]).arg(&file);
        let mut outside = Process(command.spawn().expect("unshare runs"));
        let children = format!("/proc/{0}/task/{0}/children", outside.0.id());
        let first = || std::fs::read_to_string(&children).ok()?.trim().parse().ok();
        let first: i32 = await_some("the first process", first);
        await_some("it listens", || catches(first, Signal::SIGTERM).then_some(()));
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(first), Signal::SIGTERM).expect("it is there");
        assert_eq!(outside.end().code(), Some(0), "{role}");
    }
}

/// Does it do something of its own at this signal?
fn catches(process: i32, signal: Signal) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("nobody has reaped it");
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("Linux tells");
    u64::from_str_radix(caught.trim(), 16).expect("a mask") & (1 << (signal as u32 - 1)) != 0
}

/// Processes that were started with a word in their environment.
fn processes_with(word: &str) -> usize {
    let of_process = |entry: std::io::Result<std::fs::DirEntry>| std::fs::read(entry.ok()?.path().join("environ")).ok();
    let environments = std::fs::read_dir("/proc").expect("a system that tells").filter_map(of_process);
    environments.filter(|environment| environment.windows(word.len()).any(|part| part == word.as_bytes())).count()
}

#[test]
fn a_measurement_that_a_signal_ends_leaves_nothing() {
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().to_str().expect("ascii");
    let entries = || std::fs::read_dir(path).expect("ours").map(|entry| entry.expect("ours").path());
    for signal in [Signal::SIGTERM, Signal::SIGHUP] {
        // Whoever runs the tests may have told its processes to take no notice of it.
        let mut command = Command::new("env");
        command.args(["--default-signal=HUP,INT,TERM"]).arg(program().get_program());
        command.args(["bench", "kill", "--nodes", "3", "--code", "rs:2+1", "--node-memory", "32MiB", "--quiet"]);
        command.args(["--keys", "100", "--seconds", "1000", "--kill-at", "900"]).env("TMPDIR", path);
        let mut bench = Process(command.spawn().expect("the program runs"));
        // The coordinator's directory, and that of what the others listen on.
        let has_cluster = || entries().any(|made| std::fs::read_dir(made).is_ok_and(|inside| inside.count() > 1));
        await_some("a cluster", || has_cluster().then_some(()));
        bench.signal(signal);
        assert_eq!(bench.end().signal(), Some(signal as i32));
        // Its servers end by themselves.
        await_some("the end of all", || (processes_with(path) == 0).then_some(()));
        assert_eq!(entries().collect::<Vec<_>>(), Vec::<std::path::PathBuf>::new());
    }
}
