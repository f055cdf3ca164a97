//! Open files: each role may open as many as the system lets it, and when there are none left, who connects waits until
//! there are.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::Command;

use crate::processes::{Cluster, PATIENCE, Process, await_that, pid, program, roles};
use nix::unistd::Pid;
use rustix::process::{Resource, Rlimit, getrlimit, prlimit};

/// A usual limit of shells is 1024.
const SOFT: &str = "300";
/// Connections to a role that has fewer files left.
const CROWD: usize = 60;
const FILES_LEFT: u64 = 20;

fn cluster(command: Command) -> Cluster {
    Cluster::start_by(command, &["--node-memory", "16MiB", "--nodes", "3", "--code", "rs:2+1", "--log", "warn"])
}

/// The soft limit of a process.
fn limit(pid: Pid) -> u64 {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).expect("it runs");
    let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("Linux tells");
    line.split_whitespace().nth(3).expect("a soft limit").parse().expect("a number")
}

#[test]
fn each_role_may_open_as_many_files_as_the_system_allows() {
    let mut command = Command::new("sh");
    let shorttail = program();
    command.args(["-c", &format!("ulimit -S -n {SOFT} && exec \"$0\" \"$@\"")]).arg(shorttail.get_program());
    let cluster = cluster(command);
    let allowed = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX).min(1 << 20);
    for (role, pid) in roles(&cluster.status()) {
        assert!(limit(pid) >= allowed, "{role}: {}", limit(pid));
    }
}

/// Lets a process open so many files more than it has, and no more.
fn leave_files(pid: Pid, count: u64) {
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs").count() as u64;
    let of = rustix::process::Pid::from_raw(pid.as_raw()).expect("a process");
    let hard = getrlimit(Resource::Nofile).maximum;
    prlimit(Some(of), Resource::Nofile, Rlimit { current: Some(open + count), maximum: hard }).expect("it is ours");
}

/// Connections, of which the process takes some.
fn crowd<S>(pid: Pid, connect: impl Fn() -> S) -> Vec<S> {
    leave_files(pid, FILES_LEFT);
    (0..CROWD).map(|_| connect()).collect()
}

fn path(address: &str) -> &str {
    address.strip_prefix("unix:").expect("a Unix socket")
}

fn dial(address: &str) -> UnixStream {
    let stream = UnixStream::connect(path(address)).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    stream
}

/// Nobody else connects meanwhile, of whom an event would tell.
#[test]
fn clients_for_whom_a_gateway_has_no_file_are_served_when_it_has() {
    let cluster = cluster(program());
    let gateway = pid(&cluster.status()["gateways"][0]);
    let mut clients = crowd(gateway, || TcpStream::connect(&cluster.memcached).expect("it listens"));
    let mut last = clients.split_off(CROWD - 2);
    drop(clients);
    for client in &mut last {
        client.set_read_timeout(Some(PATIENCE)).expect("a socket");
        client.write_all(b"mn\r\n").expect("sent");
        let mut answer = [0; 4];
        client.read_exact(&mut answer).expect("an answer");
        assert_eq!(&answer, b"MN\r\n");
    }
}

/// A node lets those go that do not say who they are: in time all, if it takes them in.
#[test]
fn those_for_whom_a_node_has_no_file_are_taken_in_when_it_has() {
    let cluster = cluster(program());
    let node = cluster.status()["nodes"][0].clone();
    let address = node["address"].as_str().expect("an address");
    for mut stranger in crowd(pid(&node), || dial(address)) {
        assert_eq!(stranger.read(&mut [0]).expect("closed"), 0);
    }
}

/// A coordinator lets those go that speak something else.
#[test]
fn members_for_whom_a_coordinator_has_no_file_are_heard_when_it_has() {
    let temp = tempfile::tempdir().expect("a directory");
    let address = format!("unix:{}", temp.path().join("control.sock").display());
    let dir = temp.path().join("metadata");
    let mut command = program();
    command.args(["coordinator", "--listen", &address, "--admin", "off", "--dir"]).arg(&dir);
    let coordinator = Process(command.spawn().expect("the program runs"));
    // Until it leads it needs files of its own.
    await_that("leading", || dir.join("coordinator.json").exists());
    let mut strangers = crowd(Pid::from_raw(coordinator.0.id().cast_signed()), || dial(&address));
    let mut last = strangers.split_off(CROWD - 2);
    drop(strangers);
    for stranger in &mut last {
        stranger.write_all(&[0xFF; 64]).expect("sent");
        let mut said = Vec::new();
        stranger.read_to_end(&mut said).expect("closed");
    }
}
