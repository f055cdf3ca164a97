//! The real program: what is refused starts nothing and leaves nothing behind.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};

use crate::processes::{Process, await_some};

/// The program with a temporary directory of its own.
fn shorttail(temp: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shorttail"));
    command.args(arguments).env("TMPDIR", temp).output().expect("the program runs")
}

fn is_empty(dir: &Path) -> bool {
    std::fs::read_dir(dir).expect("a directory").next().is_none()
}

#[test]
fn a_taken_port_is_named_and_nothing_is_left_behind() {
    let temp = tempfile::tempdir().expect("a directory");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound").to_string();
    let free = ["127.0.0.1:0"; 2];
    for flag in ["--memcached", "--redis", "--admin"] {
        let others: Vec<&str> = ["--memcached", "--redis", "--admin"].into_iter().filter(|&one| one != flag).collect();
        let line = ["up", flag, &address, others[0], free[0], others[1], free[1]];
        let output = shorttail(temp.path(), &line);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(&format!("{flag} {address}: the port is taken")), "{said}");
        assert!(said.contains("nothing was started"), "{said}");
        assert!(output.stdout.is_empty());
        assert!(is_empty(temp.path()), "something was left behind");
    }
}

/// A port that was not named is explained.
#[test]
fn a_taken_port_of_a_further_gateway_is_said_to_be_one() {
    let temp = tempfile::tempdir().expect("a directory");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound");
    let before = format!("127.0.0.1:{}", address.port() - 1);
    let line = ["up", "--gateways", "2", "--memcached", &before, "--redis", "off", "--admin", "off"];
    let said = String::from_utf8_lossy(&shorttail(temp.path(), &line).stderr).into_owned();
    let wanted = format!("--memcached {address} (--gateways: each takes the next port): the port is taken");
    assert!(said.contains(&wanted), "{said}");
}

#[test]
fn the_users_directory_is_not_made_for_nothing() {
    let temp = tempfile::tempdir().expect("a directory");
    let dir = temp.path().join("cluster");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound").to_string();
    let output = shorttail(temp.path(), &["up", "--memcached", &address, "--dir", dir.to_str().expect("text")]);
    assert_eq!(output.status.code(), Some(1));
    assert!(!dir.exists());
}

#[test]
fn flags_that_make_no_sense_are_usage_errors() {
    let temp = tempfile::tempdir().expect("a directory");
    for (line, wanted) in [
        (&["up", "--nodes", "5"][..], "--nodes: 5 is too few"),
        (&["up", "--node-memory", "1m"], "--node-memory: 1MiB is less than 16MiB"),
        (&["up", "--code", "rs:0+2"], "a code needs 1 to 64 data chunks, not 0"),
        (&["up", "--nodse", "5"], "--nodse"),
        (&["node"], "--coordinator: is needed"),
        (&["gateway"], "--coordinator: is needed"),
        (&["coordinator", "--partitions", "0"], "0 is not in 1..=1024"),
        (&["up", "--partitions", "1000000"], "1000000 is not in 1..=1024"),
        (&["gateway", "--partitions", "1025"], "1025 is not in 1..=1024"),
        (&["config", "check", "/nonexistent"], "/nonexistent: "),
        (&[], "Usage"),
    ] {
        let output = shorttail(temp.path(), line);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line:?}: {said}");
        assert!(said.contains(wanted), "{line:?}: {said}");
        assert!(is_empty(temp.path()), "something was left behind");
    }
}

#[test]
fn a_misspelt_variable_or_key_is_named() {
    let temp = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(env!("CARGO_BIN_EXE_shorttail"));
    let output = command.args(["up"]).env("SHORTTAIL_UP_NODSE", "9").output().expect("the program runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("SHORTTAIL_UP_NODSE"));
    let file = temp.path().join("shorttail.toml");
    std::fs::write(&file, "[up]\nnodes = 8\nmemory = \"1g\"\n").expect("written");
    for line in [&["config", "check"][..], &["up", "--config"]] {
        let output = shorttail(temp.path(), &[line, &[file.to_str().expect("text")]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("unknown field `memory`") && said.contains("line 3"), "{said}");
    }
}

#[test]
fn what_only_prints_succeeds() {
    let temp = tempfile::tempdir().expect("a directory");
    for (line, wanted) in [
        (&["--version"][..], concat!("shorttail ", env!("CARGO_PKG_VERSION"), "\ncontrol protocol ")),
        (&["--version"], ", memory file STM"),
        (&["--version"], ", metadata format "),
        (&["--help"], "shorttail up"),
        (&["up", "--help"], "--node-memory"),
        (&["node", "--help"], "Examples:"),
        (&["bench", "load", "--help"], "Usage"),
        (&["config", "example"], "[gateway]"),
        (&["memcached", "-V"], "memcached 1.6.45\n"),
        (&["memcached", "-h"], "--unix-socket=<file>"),
    ] {
        let output = shorttail(temp.path(), line);
        assert_eq!(output.status.code(), Some(0), "{line:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains(wanted), "{line:?}");
    }
}

#[test]
fn a_link_named_memcached_is_memcached() {
    let temp = tempfile::tempdir().expect("a directory");
    let link = temp.path().join("memcached");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_shorttail"), &link).expect("linked");
    let run = |flags: &[&str]| Command::new(&link).args(flags).output().expect("the program runs");
    assert_eq!(run(&["-V"]).stdout, b"memcached 1.6.45\n");
    assert_eq!(run(&["-S"]).status.code(), Some(64));
    assert_eq!(run(&["-c", "0"]).status.code(), Some(1));
    assert_eq!(run(&["-I", "256m"]).stderr, b"Cannot set item size limit higher than 1/2 of memory max.\n");
}

#[test]
fn a_status_of_nobody_says_whom_it_asked() {
    let temp = tempfile::tempdir().expect("a directory");
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("bound").to_string();
    let output = shorttail(temp.path(), &["status", "--json", "--admin", &free]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains(&free));
}

#[test]
fn the_drop_in_serves_and_ends_at_a_signal() {
    use nix::sys::signal::Signal;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    let temp = tempfile::tempdir().expect("a directory");
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let socket = temp.path().join(format!("{signal}.sock"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_shorttail"));
        command.arg("memcached").arg("-s").arg(&socket).arg("-vv");
        let mut server = Process(command.spawn().expect("the program runs"));
        let mut client = await_some("listening", || {
            let client = UnixStream::connect(&socket).ok();
            assert!(client.is_some() || server.0.try_wait().expect("a child").is_none(), "ended before it listened");
            client
        });
        client.write_all(b"version\r\n").expect("sent");
        let mut answer = [0; 16];
        client.read_exact(&mut answer).expect("an answer");
        assert_eq!(&answer, b"VERSION 1.6.45\r\n");
        server.signal(signal);
        assert_eq!(server.end().code(), Some(0), "{signal}");
    }
}
