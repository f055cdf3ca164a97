//! Ten thousand connections that say nothing, others that ask for more than they read, or end in the middle of a
//! request: each is bounded, and the others go on being served.

mod processes;

use std::io::{BufReader, ErrorKind, Write};
use std::net::TcpStream;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use processes::{Cluster, connect, line, pid};

const IDLE: usize = 10_000;
/// Beside them: the test's own files, and those of a gateway.
const OTHER_FILES: u64 = 500;

const GREEDY: usize = 24;
const VALUE_BYTES: usize = 1_000_000;
/// What one of them may have under way, and one value that is on its way into it.
const GREEDY_BYTES_MAX: usize = (16 + 1) * VALUE_BYTES;

fn allow_files() {
    let wanted = IDLE as u64 + OTHER_FILES;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("the system tells");
    if soft < wanted {
        setrlimit(Resource::RLIMIT_NOFILE, wanted, hard.max(wanted)).expect("so many files may be open");
    }
}

fn cluster() -> Cluster {
    Cluster::start(&["--log", "error", "--node-memory", "32MiB", "--redis", "off", "--connections-max", "20000"])
}

/// Somebody stores and reads, again and again.
fn is_served(stream: &mut BufReader<TcpStream>) {
    for round in 0..200 {
        let value = round.to_string().repeat(20);
        let length = value.len();
        let ask = format!("set mine 0 0 {length}\r\n{value}\r\nget mine\r\n");
        stream.get_mut().write_all(ask.as_bytes()).expect("sent");
        let answer: String = (0..4).map(|_| line(stream)).collect();
        assert_eq!(answer, format!("STORED\r\nVALUE mine 0 {length}\r\n{value}\r\nEND\r\n"));
    }
}

fn ask_and_do_not_read(cluster: &Cluster) -> TcpStream {
    let mut stream = TcpStream::connect(&cluster.memcached).expect("it is accepted");
    stream.set_nonblocking(true).expect("a socket");
    let ask = b"get large\r\n".repeat(1000);
    // Until the gateway takes no more.
    loop {
        match stream.write(&ask) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return stream,
            Err(error) => panic!("{error}"),
        }
    }
}

fn gateway_resident_bytes(cluster: &Cluster) -> usize {
    let gateway = pid(&cluster.status()["gateways"][0]);
    let status = std::fs::read_to_string(format!("/proc/{gateway}/status")).expect("it runs");
    let field = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("Linux tells");
    let kib: usize = field.trim().trim_end_matches(" kB").parse().expect("a number");
    kib << 10
}

#[test]
fn idle_connections_take_little_and_nobody_waits_for_them() {
    allow_files();
    let cluster = cluster();
    let mut user = connect(&cluster.memcached);
    is_served(&mut user);
    let before = gateway_resident_bytes(&cluster);
    let mut idle: Vec<TcpStream> = Vec::with_capacity(IDLE);
    for number in 0..IDLE {
        let mut stream = TcpStream::connect(&cluster.memcached).expect("it is accepted");
        // Some stopped in the middle of what they had to say.
        let said: &[u8] = [&b""[..], b"get half-a-k", b"set key 0 0 1000\r\nsome of", b"ms key 100 "][number % 4];
        stream.write_all(said).expect("sent");
        idle.push(stream);
    }
    is_served(&mut user);
    let taken = gateway_resident_bytes(&cluster).saturating_sub(before);
    assert!(taken < IDLE * (8 << 10), "{} bytes for each", taken / IDLE);
    // They are still there, all of them.
    for number in [0, IDLE / 2, IDLE - 4] {
        idle[number].write_all(b"mn\r\n").expect("sent");
        assert_eq!(line(&mut BufReader::new(&idle[number])), "MN\r\n");
    }
}

#[test]
fn who_asks_and_does_not_read_takes_what_it_may_and_nobody_waits_for_it() {
    let cluster = cluster();
    let mut user = connect(&cluster.memcached);
    let set = [format!("set large 0 0 {VALUE_BYTES}\r\n").as_bytes(), &[b'x'; VALUE_BYTES], b"\r\n"].concat();
    user.get_mut().write_all(&set).expect("sent");
    assert_eq!(line(&mut user), "STORED\r\n");
    is_served(&mut user);
    let before = gateway_resident_bytes(&cluster);
    // Each comes while a write of the key that they read is under way: what waits for that is bounded as well.
    let greedy: Vec<TcpStream> = (0..GREEDY)
        .map(|_| {
            user.get_mut().write_all(&set).expect("sent");
            let stream = ask_and_do_not_read(&cluster);
            assert_eq!(line(&mut user), "STORED\r\n");
            is_served(&mut user);
            stream
        })
        .collect();
    let taken = gateway_resident_bytes(&cluster).saturating_sub(before);
    assert!(taken < GREEDY * GREEDY_BYTES_MAX * 3 / 2, "{} MiB for each", (taken / GREEDY) >> 20);
    drop(greedy);
    is_served(&mut user);
}
