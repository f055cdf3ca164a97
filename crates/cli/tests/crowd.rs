//! Ten thousand connections that say nothing, others that ask for more than they read, or end in the middle of a
//! request: each is bounded, and the others go on being served. Requests of very many words are answered.

use std::io::{BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::processes::{Cluster, PATIENCE, connect, line, pid};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

const IDLE: usize = 10_000;
/// Beside them: the test's own files, and those of a gateway.
const OTHER_FILES: u64 = 500;

const GREEDY: usize = 24;
const VALUE_BYTES: usize = 1_000_000;
/// What one of them may have under way, and one value that is on its way into it.
const GREEDY_BYTES_MAX: usize = (16 + 1) * VALUE_BYTES;

/// Of values that are not large, and so many replies that a socket does not take them.
const UNREAD_VALUE_BYTES: usize = 60_000;
const UNREAD: usize = 200;
/// The same for clients of Redis, for which much more is put aside; of so many at least, and at most, the replies are.
const UNREAD_OF_REDIS: usize = 2400;
const PUT_ASIDE: std::ops::Range<usize> = 1100..1800;

/// A request of more bytes than may wait while nothing is wanted.
const WORDS: usize = 100_000;

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

fn cluster_with_redis() -> (Cluster, String) {
    let cluster = Cluster::start(&["--log", "error", "--node-memory", "32MiB"]);
    let redis = cluster.status()["gateways"][0]["redis"].as_str().expect("an address").to_owned();
    (cluster, redis)
}

/// A request of Redis with so many words behind its first.
fn words(first: &str, count: usize) -> String {
    let words: String = (0..count).map(|number| format!("$6\r\n{number:06}\r\n")).collect();
    format!("*{}\r\n${}\r\n{first}\r\n{words}", count + 1, first.len())
}

#[test]
fn requests_of_very_many_words_are_answered() {
    let (cluster, redis) = cluster_with_redis();
    let keys: String = (0..WORDS).map(|number| format!(" {number:06}")).collect();
    let mut stream = connect(&cluster.memcached);
    stream.get_mut().write_all(format!("get{keys}\r\n").as_bytes()).expect("sent");
    assert_eq!(line(&mut stream), "END\r\n");
    let mut stream = connect(&redis);
    let deleted = format!(":{}\r\n", WORDS / 2);
    for (first, reply) in [("MSET", "+OK\r\n"), ("DEL", deleted.as_str()), ("UNLINK", ":0\r\n")] {
        stream.get_mut().write_all(words(first, WORDS).as_bytes()).expect("sent");
        assert_eq!(line(&mut stream), reply, "{first}");
    }
}

/// A number of `stats`.
fn stat(stream: &mut BufReader<TcpStream>, name: &str) -> usize {
    stream.get_mut().write_all(b"stats\r\n").expect("sent");
    let mut said = Vec::new();
    while said.last().is_none_or(|line| line != "END\r\n") {
        said.push(line(stream));
    }
    let found = said.iter().find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
    found.expect("it is told").trim_end().parse().expect("a number")
}

/// Asks until a number of `stats` is as wanted.
fn await_stat(stream: &mut BufReader<TcpStream>, name: &str, is_so: impl Fn(usize) -> bool) {
    let began = Instant::now();
    while !is_so(stat(stream, name)) {
        assert!(began.elapsed() < PATIENCE, "{name}");
    }
}

#[test]
fn who_leaves_in_the_middle_of_very_many_words_is_let_go() {
    let (cluster, redis) = cluster_with_redis();
    let mut user = connect(&cluster.memcached);
    let get = format!("get {}", "key ".repeat(WORDS * 2));
    for (address, said) in [(&cluster.memcached, get), (&redis, words("DEL", WORDS))] {
        let most = &said.as_bytes()[..said.len() - 10];
        let mut stream = TcpStream::connect(address).expect("it is accepted");
        stream.write_all(most).expect("sent");
        // The user's, and this one.
        await_stat(&mut user, "curr_connections", |count| count == 2);
        drop(stream);
        await_stat(&mut user, "curr_connections", |count| count == 1);
    }
}

/// What a client says in its protocol, and hears.
struct Speech {
    address: String,
    get: &'static str,
    stored: &'static str,
    set: fn(&str, &str) -> String,
    value: fn(&str) -> String,
    /// How often it asks without reading, and how many of that are answered.
    unread: usize,
    answered: std::ops::Range<usize>,
}

#[test]
fn who_does_not_read_may_not_send_on() {
    let (cluster, redis) = cluster_with_redis();
    let memcached = Speech {
        address: cluster.memcached.clone(),
        get: "get kept\r\n",
        stored: "STORED\r\n",
        set: |key, value| format!("set {key} 0 0 {}\r\n{value}\r\n", value.len()),
        value: |value| format!("VALUE kept 0 {}\r\n{value}\r\nEND\r\n", value.len()),
        unread: UNREAD,
        answered: UNREAD..UNREAD + 1,
    };
    let redis = Speech {
        address: redis,
        get: "GET kept\r\n",
        stored: "+OK\r\n",
        set: |key, value| {
            let (key_bytes, value_bytes) = (key.len(), value.len());
            format!("*3\r\n$3\r\nSET\r\n${key_bytes}\r\n{key}\r\n${value_bytes}\r\n{value}\r\n")
        },
        value: |value| format!("${}\r\n{value}\r\n", value.len()),
        unread: UNREAD_OF_REDIS,
        answered: PUT_ASIDE,
    };
    let mut user = connect(&cluster.memcached);
    for speech in [memcached, redis] {
        let kept = "v".repeat(UNREAD_VALUE_BYTES);
        let mut stream = connect(&speech.address);
        stream.get_mut().write_all((speech.set)("kept", &kept).as_bytes()).expect("sent");
        assert_eq!(line(&mut stream), speech.stored);
        let set = (speech.set)("own", &"x".repeat(VALUE_BYTES));
        let (beginning, rest) = set.split_at(1000);
        let hits = stat(&mut user, "get_hits");
        stream.get_mut().write_all((speech.get.repeat(speech.unread) + beginning).as_bytes()).expect("sent");
        // What is answered waits for the client, most of it here.
        await_stat(&mut user, "get_hits", |count| count >= hits + speech.answered.start);
        let more = rest.to_owned() + &set.repeat(64);
        stream.get_mut().set_write_timeout(Some(Duration::from_secs(2))).expect("a socket");
        let (mut sent, mut answered) = (0, stat(&mut user, "get_hits") - hits);
        while sent < more.len() {
            match stream.get_mut().write(&more.as_bytes()[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    // A busy machine takes nothing for a while, too, and answers what it took before.
                    let before = std::mem::replace(&mut answered, stat(&mut user, "get_hits") - hits);
                    if answered == before {
                        break;
                    }
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert!(sent < more.len() / 2, "{sent} bytes were taken");
        assert!(answered < speech.answered.end, "{answered} were answered");
        is_served(&mut user);
        // It goes on when the client reads.
        let replies = (speech.value)(&kept).repeat(speech.unread);
        let mut heard = vec![0; replies.len()];
        stream.read_exact(&mut heard).expect("the replies");
        assert!(heard == replies.as_bytes());
        stream.get_mut().set_write_timeout(None).expect("a socket");
        stream.get_mut().write_all(&rest.as_bytes()[sent.min(rest.len())..]).expect("sent");
        assert_eq!(line(&mut stream), speech.stored);
    }
}

/// As the usual libraries do with a pipeline, however long.
#[test]
fn a_client_of_redis_may_write_all_it_asks_before_it_reads() {
    const COUNT: usize = 1_000_000;
    let (_cluster, redis) = cluster_with_redis();
    for (request, reply_of) in [
        ("*2\r\n$4\r\nINCR\r\n$1\r\na\r\n", (|number| format!(":{number}\r\n")) as fn(usize) -> String),
        ("*2\r\n$3\r\nGET\r\n$1\r\na\r\n", |_| format!("${}\r\n{COUNT}\r\n", COUNT.to_string().len())),
    ] {
        let mut stream = connect(&redis);
        stream.get_mut().set_write_timeout(Some(PATIENCE)).expect("a socket");
        stream.get_mut().write_all(request.repeat(COUNT).as_bytes()).expect("it is taken although nothing is read");
        let replies: String = (1..=COUNT).map(reply_of).collect();
        let mut heard = vec![0; replies.len()];
        stream.read_exact(&mut heard).expect("the replies");
        let heard = String::from_utf8_lossy(&heard);
        let wrong = replies.lines().zip(heard.lines()).find(|(reply, line)| reply != line);
        assert!(wrong.is_none(), "{wrong:?}");
    }
}
