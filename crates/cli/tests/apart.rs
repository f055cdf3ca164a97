//! A cluster whose processes are started one by one, as on several machines: what clients are told of where gateways
//! are, and what a gateway does that nobody lets in.

use std::io::{BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{self, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Instant;

use crate::processes::{PATIENCE, Process, connect, line, program};

/// Addresses on this machine that were free a moment ago.
pub fn free<const COUNT: usize>() -> [String; COUNT] {
    // Connections of clients have ports above these: one of them could take the port before the server does.
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 10_000 + (process::id() % 2_000) as u16 * 10;
    [(); COUNT].map(|()| {
        loop {
            let port = first + NEXT.fetch_add(1, Ordering::Relaxed) % 2_000;
            if TcpListener::bind(("127.0.0.1", port)).is_ok() {
                break format!("127.0.0.1:{port}");
            }
        }
    })
}

/// As `0.0.0.0` with the same port.
fn anywhere(address: &str) -> String {
    address.replace("127.0.0.1", "0.0.0.0")
}

pub fn start(words: &[&str]) -> Process {
    Process(program().args(words).stdout(Stdio::null()).spawn().expect("the program runs"))
}

/// A coordinator and as many nodes as a stripe needs.
pub fn coordinator_and_nodes(control: &str, admin: &str, gateways: &str) -> Vec<Process> {
    let coordinator = ["coordinator", "--listen", control, "--admin", admin, "--code", "rs:2+1", "--nodes", "3"];
    let mut started = vec![start(&[&coordinator[..], &["--gateways", gateways]].concat())];
    let node = ["node", "--listen", "127.0.0.1:0", "--memory", "32MiB", "--coordinator", control];
    started.extend((0..3).map(|_| start(&node)));
    started
}

/// The answer of an admin port, for which it waits.
pub fn get(admin: &str, path: &str) -> String {
    let began = Instant::now();
    loop {
        if let Ok(mut stream) = TcpStream::connect(admin) {
            let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            let mut answer = String::new();
            let sent = stream.write_all(request.as_bytes());
            // Once it is let in a member listens anew, and may reset who came just before.
            if sent.and_then(|()| stream.read_to_string(&mut answer)).is_ok() {
                return answer;
            }
        }
        assert!(began.elapsed() < PATIENCE, "nobody listens on {admin}");
    }
}

pub fn await_serving(admin: &str) {
    let began = Instant::now();
    while !get(admin, "/health").starts_with("HTTP/1.1 200") {
        assert!(began.elapsed() < PATIENCE, "the gateway with {admin} does not serve");
    }
}

/// A Redis command without blanks in its words; its answer: a line, or the text of a bulk.
fn redis(stream: &mut BufReader<TcpStream>, command: &str) -> String {
    stream.get_mut().write_all(format!("{command}\r\n").as_bytes()).expect("sent");
    let first = line(stream);
    let Some(length) = first.strip_prefix('$') else { return first };
    let mut text = vec![0; length.trim_end().parse::<usize>().expect("a length") + 2];
    stream.read_exact(&mut text).expect("the text");
    String::from_utf8(text).expect("text")
}

/// The words of an array of a known number of them, lengths and counts included.
fn redis_lines(stream: &mut BufReader<TcpStream>, command: &str, count: usize) -> Vec<String> {
    stream.get_mut().write_all(format!("{command}\r\n").as_bytes()).expect("sent");
    (0..count).map(|_| line(stream).trim_end().to_owned()).collect()
}

#[test]
fn gateways_that_listen_anywhere_tell_clients_of_each_other() {
    let [control, redis_one, redis_two, memcached_one, memcached_two, admin_one, admin_two] = free();
    let _others = coordinator_and_nodes(&control, "off", "2");
    let gateway = |redis: &str, memcached: &str, admin: &str, more: &[&str]| {
        let (redis, memcached) = (anywhere(redis), anywhere(memcached));
        let words = ["gateway", "--coordinator", &control, "--redis-cluster", "on", "--redis", &redis];
        start(&[&words[..], &["--memcached", &memcached, "--admin", admin], more].concat())
    };
    let _one = gateway(&redis_one, &memcached_one, &admin_one, &[]);
    let _two = gateway(&redis_two, &memcached_two, &admin_two, &[]);
    await_serving(&admin_one);
    await_serving(&admin_two);
    // They reach each other: whatever one does not own it asks of the other.
    let mut client = connect(&memcached_one);
    for number in 0..16 {
        client.get_mut().write_all(format!("set key{number} 0 0 1\r\nx\r\n").as_bytes()).expect("sent");
        assert_eq!(line(&mut client), "STORED\r\n", "key{number}");
    }
    // Another address of the same machine: the host by which the client came.
    for host in ["127.0.0.1", "127.0.0.2"] {
        let [here, there] = [&redis_one, &redis_two].map(|address| address.replace("127.0.0.1", host));
        let mut client = connect(&here);
        let began = Instant::now();
        while !redis(&mut client, "CLUSTER INFO").contains("cluster_state:ok\r\ncluster_slots_assigned:16384\r\n") {
            assert!(began.elapsed() < PATIENCE, "not all slots are served");
        }
        let nodes = redis(&mut client, "CLUSTER NODES");
        for address in [&here, &there] {
            assert!(nodes.contains(&format!(" {address}@0 ")), "{address} in {nodes}");
        }
        let port = |address: &str| address.rsplit_once(':').expect("a port").1.to_owned();
        let shards = redis_lines(&mut client, "CLUSTER SHARDS", 1)[0].clone();
        assert_eq!(shards, "*2");
        let mut told = Vec::new();
        while told.iter().filter(|word| *word == "online").count() < 2 {
            told.push(line(&mut client).trim_end().to_owned());
        }
        for address in [&here, &there] {
            let place = [&format!(":{}", port(address)), "$2", "ip", "$9", host, "$8", "endpoint", "$9", host];
            assert!(told.windows(place.len()).any(|words| words == place), "{address} in {told:?}");
        }
        // A key of the other one: the client is sent there, and is served.
        let mut moved = (0..).map(|number| redis(&mut client, &format!("SET k{number} 1")));
        let moved = moved.find(|answer| answer.starts_with("-MOVED")).expect("there are keys without end");
        assert!(moved.ends_with(&format!(" {there}\r\n")), "{moved}");
        let mut answers = (0..).map(|number| redis(&mut connect(&there), &format!("SET k{number} 1")));
        assert!(answers.any(|answer| answer == "+OK\r\n"));
    }
    // A third one says where it is.
    let [redis_three, memcached_three, admin_three] = free();
    let _three = gateway(&redis_three, &memcached_three, &admin_three, &["--redis-advertise", "192.0.2.7:6379"]);
    let began = Instant::now();
    while !redis(&mut connect(&redis_one), "CLUSTER NODES").contains(" 192.0.2.7:6379@0 master ") {
        assert!(began.elapsed() < PATIENCE, "nobody is told of it");
    }
}

/// A balancer sends nobody to a gateway that may be about to be stopped; who is connected is served.
#[test]
fn a_gateway_that_is_drained_is_not_healthy_and_serves() {
    let [control, cluster_admin, memcached, memcached_other, admin, admin_other] = free();
    let _others = coordinator_and_nodes(&control, &cluster_admin, "2");
    let gateway = |memcached: &str, admin: &str| {
        start(&["gateway", "--coordinator", &control, "--memcached", memcached, "--redis", "off", "--admin", admin])
    };
    let _drained = gateway(&memcached, &admin);
    await_serving(&admin);
    let id = {
        let status = get(&cluster_admin, "/status");
        let json: serde_json::Value =
            serde_json::from_str(status.split_once("\r\n\r\n").expect("a body").1).expect("JSON");
        json["gateways"][0]["id"].to_string()
    };
    let _other = gateway(&memcached_other, &admin_other);
    await_serving(&admin_other);
    let order = |words: &[&str]| {
        let words = [&["drain", "gateway", &id, "--admin", &cluster_admin], words].concat();
        let output = program().args(&words).output().expect("the program runs");
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    order(&[]);
    let began = Instant::now();
    while !get(&admin, "/health").ends_with("\r\n\r\ndraining: send clients to another gateway\n") {
        assert!(began.elapsed() < PATIENCE, "{}", get(&admin, "/health"));
    }
    assert!(get(&admin, "/health").starts_with("HTTP/1.1 503"));
    assert!(get(&admin_other, "/health").starts_with("HTTP/1.1 200"));
    let mut client = connect(&memcached);
    client.get_mut().write_all(b"set key 0 0 1\r\nx\r\n").expect("sent");
    assert_eq!(line(&mut client), "STORED\r\n");
    order(&["--cancel"]);
    await_serving(&admin);
}

#[test]
fn a_gateway_that_is_not_let_in_says_so() {
    let [control, redis_address, memcached, admin] = free();
    let words = ["gateway", "--coordinator", &control, "--redis", &redis_address, "--memcached", &memcached];
    let _gateway = start(&[&words[..], &["--admin", &admin]].concat());
    let health = get(&admin, "/health");
    assert!(health.starts_with("HTTP/1.1 503"), "{health}");
    let began = Instant::now();
    while !get(&admin, "/health")
        .contains(&format!("not let this gateway in yet: no answer from the coordinator at {control}"))
    {
        assert!(began.elapsed() < PATIENCE, "{health}");
    }
    assert!(get(&admin, "/metrics").ends_with("\nshorttail_gateway_serving 0\n"));
    assert!(get(&admin, "/status").contains("\"serving\":false"));
    let hear = |address: &str, say: &str| {
        let mut stream = connect(address);
        stream.get_mut().write_all(say.as_bytes()).expect("sent");
        line(&mut stream)
    };
    assert_eq!(hear(&redis_address, "PING\r\n"), "-LOADING the coordinator has not let this gateway in yet\r\n");
    assert_eq!(hear(&memcached, "version\r\n"), "SERVER_ERROR the coordinator has not let this gateway in yet\r\n");
    let _others = coordinator_and_nodes(&control, "off", "1");
    await_serving(&admin);
    assert_eq!(hear(&redis_address, "PING\r\n"), "+PONG\r\n");
    assert_eq!(hear(&memcached, "set key 0 0 1\r\nx\r\n"), "STORED\r\n");
    assert!(get(&admin, "/metrics").contains("\nshorttail_gateway_serving{gateway=\""));
}

#[test]
fn a_gateway_without_nodes_answers_and_says_that_no_slot_is_served() {
    let [control, redis_address, admin] = free();
    let coordinator = ["coordinator", "--listen", &control, "--admin", "off", "--code", "rs:2+1", "--nodes", "3"];
    let _coordinator = start(&coordinator);
    let words = ["gateway", "--coordinator", &control, "--redis", &redis_address, "--memcached", "off"];
    let _gateway = start(&[&words[..], &["--admin", &admin]].concat());
    get(&admin, "/health");
    // The coordinator has just begun, too.
    let began = Instant::now();
    let mut client = connect(&redis_address);
    while redis(&mut client, "PING") != "+PONG\r\n" {
        assert!(began.elapsed() < PATIENCE, "it is not let in");
        client = connect(&redis_address);
    }
    let info = redis(&mut client, "CLUSTER INFO");
    assert!(info.starts_with("cluster_state:fail\r\ncluster_slots_assigned:0\r\ncluster_slots_ok:0\r\n"), "{info}");
    assert!(get(&admin, "/health").starts_with("HTTP/1.1 503"));
    let answer = redis(&mut client, "SET key 1");
    assert!(answer.starts_with("-TRYAGAIN "), "{answer}");
}
