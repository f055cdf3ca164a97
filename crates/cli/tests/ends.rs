//! How processes end that are told to: supervisors go by it.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

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
fn nodes_and_gateways_that_run_alone_end_by_the_signal_and_up_does_not() {
    let cluster = Cluster::start(&["--nodes", "3", "--code", "rs:2+1", "--node-memory", "32MiB"]);
    let node = Process(cluster.node_beside(3).spawn().expect("the program runs"));
    let flags = ["--memcached", ANY_PORT, "--redis", ANY_PORT];
    let gateway = Process(cluster.beside("gateway", &flags).spawn().expect("the program runs"));
    await_used(&cluster, &node, "nodes", |node| node["state"] == "normal");
    await_used(&cluster, &gateway, "gateways", |gateway| gateway["serving"] == true);
    for (mut process, name) in [(node, "node"), (gateway, "gateway")] {
        assert_eq!(terminate(&mut process).signal(), Some(Signal::SIGTERM as i32), "{name}");
    }
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
