//! Nodes that hang, real processes: stopped, with all their connections. Clients get an answer, and what a node held
//! that hangs for long is rebuilt.

mod processes;

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde_json::Value;

use processes::{ANY_PORT, Cluster, Process, connect, kill, line, pid, program};

/// Packed ones, in sealed stripes and open ones, and striped ones.
const SIZES: [usize; 3] = [8_000, 900, 200_000];
const KEYS: usize = 240;

fn value(number: usize) -> String {
    format!("{number:08}").chars().cycle().take(SIZES[number % SIZES.len()]).collect()
}

fn store(cluster: &Cluster) {
    for number in 0..KEYS {
        let value = value(number);
        let set = format!("set key{number} 0 0 {}\r\n{value}\r\n", value.len());
        assert_eq!(cluster.ask(&set, "\r\n"), "STORED\r\n");
    }
}

/// What a get answers: the value, or why there is none.
fn answer(stream: &mut BufReader<TcpStream>) -> Result<String, String> {
    let head = line(stream);
    let Some(bytes) = head.strip_prefix("VALUE ") else { return Err(head) };
    let length = bytes.trim_end().rsplit(' ').next().and_then(|it| it.parse().ok()).expect("a length");
    let mut value = vec![0; length];
    stream.read_exact(&mut value).expect("a value");
    assert_eq!((line(stream), line(stream)), ("\r\n".to_owned(), "END\r\n".to_owned()));
    Ok(String::from_utf8(value).expect("text"))
}

/// All keys at once, each on a connection of its own.
fn get_all(cluster: &Cluster) -> Vec<Result<String, String>> {
    let ask = |number| {
        let mut stream = connect(&cluster.memcached);
        stream.get_mut().write_all(format!("get key{number}\r\n").as_bytes()).expect("sent");
        stream
    };
    let streams: Vec<_> = (0..KEYS).map(ask).collect();
    streams.into_iter().map(|mut stream| answer(&mut stream)).collect()
}

fn check(cluster: &Cluster) {
    for (number, answer) in get_all(cluster).into_iter().enumerate() {
        assert_eq!(answer, Ok(value(number)), "key{number}");
    }
}

fn pids(cluster: &Cluster, ids: std::ops::Range<usize>) -> Vec<Pid> {
    let status = cluster.status();
    ids.map(|id| pid(&status["nodes"][id])).collect()
}

#[test]
fn clients_get_an_answer_while_more_nodes_hang_than_the_code_survives() {
    for transport in ["unix", "tcp"] {
        let cluster = Cluster::start(&["--nodes", "8", "--node-memory", "32MiB", "--transport", transport]);
        store(&cluster);
        let hung = pids(&cluster, 0..3);
        hung.iter().for_each(|&pid| kill(pid, Signal::SIGSTOP));
        // Some are asked before it is known that nodes hang, and some afterwards.
        for _ in 0..2 {
            let answers = get_all(&cluster);
            let refused: Vec<&String> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
            let why = "SERVER_ERROR too many nodes failed: the object cannot be read now\r\n";
            assert!(!refused.is_empty() && refused.iter().all(|text| *text == why), "{transport}: {refused:?}");
            for (number, found) in answers.iter().enumerate() {
                assert!(found.as_ref().is_err() || *found == Ok(value(number)), "{transport}: key{number}");
            }
        }
        for length in [10, 900, 200_000] {
            let set = format!("set new 0 0 {length}\r\n{}\r\n", "x".repeat(length));
            let answer = cluster.ask(&set, "\r\n");
            assert!(answer.starts_with("SERVER_ERROR"), "five nodes take no stripe: {answer}");
        }
        hung.iter().for_each(|&pid| kill(pid, Signal::SIGCONT));
        let is_there = |status: &Value| {
            let reached = status["gateways"][0]["nodes_unreached"] == Value::Array(Vec::new());
            reached && status["repair"]["chunks_missing"] == 0
        };
        cluster.await_status("reached again", is_there);
        check(&cluster);
    }
}

#[test]
fn what_a_hung_node_held_is_rebuilt_and_it_may_be_replaced() {
    let mut cluster = Cluster::start(&["--nodes", "8", "--node-memory", "32MiB", "--retire-after", "5"]);
    store(&cluster);
    let hung = pids(&cluster, 0..1)[0];
    kill(hung, Signal::SIGSTOP);
    let missing = |status: &Value| status["repair"]["chunks_missing"].as_u64().is_some_and(|count| count > 0);
    let status = cluster.await_status("missed", missing);
    assert_ne!(status["nodes"][0]["state"], "retired", "it may still go on");
    let text = cluster.line_with("node 0 (pid");
    let told =
        "does not answer, though its process runs; 1 of 8 nodes is dead and not rebuilt yet, 2 at once are tolerated";
    assert_eq!(text, format!("node 0 (pid {hung}) {told}"));
    cluster.line_with("node 0 is given up: ");
    let text = cluster.line_with("no chunk is missing any more: ");
    assert!(text.contains(" rebuilt"), "{text}");
    check(&cluster);

    // Its number is used again, elsewhere, while the process that hangs is still there.
    let status = cluster.status();
    let coordinator = status["coordinator"]["name"].as_str().expect("a name").split(" on ").next().expect("an address");
    let mut command = program();
    command.args(["node", "--coordinator", coordinator, "--listen", ANY_PORT, "--memory", "32MiB", "--id", "0"]);
    let _next = Process(command.stdout(Stdio::null()).spawn().expect("the program runs"));
    cluster.await_status("replaced", |status| {
        status["nodes"][0]["state"] == "normal" && status["gateways"][0]["nodes_unreached"] == Value::Array(Vec::new())
    });
    kill(hung, Signal::SIGCONT);
    let text = cluster.line_with("node 0 (pid");
    assert!(text.starts_with(&format!("node 0 (pid {hung}) died: ")), "{text}");
    pids(&cluster, 1..3).into_iter().for_each(|pid| kill(pid, Signal::SIGKILL));
    check(&cluster);
}
