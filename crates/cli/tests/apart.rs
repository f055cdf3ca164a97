//! A cluster whose processes are started one by one, as on several machines: what clients are told of where gateways are.

mod processes;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::time::Instant;

use processes::{PATIENCE, Process, connect, line, program};

/// Addresses on this machine that were free a moment ago.
fn free<const COUNT: usize>() -> [String; COUNT] {
    let bound = [(); COUNT].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    bound.map(|listener| listener.local_addr().expect("bound").to_string())
}

/// As `0.0.0.0` with the same port.
fn anywhere(address: &str) -> String {
    address.replace("127.0.0.1", "0.0.0.0")
}

fn start(words: &[&str]) -> Process {
    Process(program().args(words).stdout(Stdio::null()).spawn().expect("the program runs"))
}

/// A coordinator and as many nodes as a stripe needs.
fn coordinator_and_nodes(control: &str, gateways: &str) -> Vec<Process> {
    let coordinator = ["coordinator", "--listen", control, "--admin", "off", "--code", "rs:2+1", "--nodes", "3"];
    let mut started = vec![start(&[&coordinator[..], &["--gateways", gateways]].concat())];
    let node = ["node", "--listen", "127.0.0.1:0", "--memory", "32MiB", "--coordinator", control];
    started.extend((0..3).map(|_| start(&node)));
    started
}

/// The answer of an admin port, for which it waits.
fn get(admin: &str, path: &str) -> String {
    let began = Instant::now();
    loop {
        if let Ok(mut stream) = TcpStream::connect(admin) {
            let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).expect("sent");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("text");
            return answer;
        }
        assert!(began.elapsed() < PATIENCE, "nobody listens on {admin}");
    }
}

fn await_serving(admin: &str) {
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
    let _others = coordinator_and_nodes(&control, "2");
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
