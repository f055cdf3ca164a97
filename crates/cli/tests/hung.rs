//! Nodes that hang, real processes: stopped, with all their connections. Clients get an answer, and what a node held
//! that hangs for long is rebuilt.

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde_json::Value;

use crate::processes::{Cluster, Process, connect, kill, pid, send_get, store_all, take_value};

/// Packed ones, in sealed stripes and open ones, and striped ones.
const SIZES: [usize; 3] = [8_000, 900, 200_000];
const KEYS: usize = 240;

fn value(number: usize) -> String {
    format!("{number:08}").chars().cycle().take(SIZES[number % SIZES.len()]).collect()
}

fn store(cluster: &Cluster) {
    store_all(&mut connect(&cluster.memcached), (0..KEYS).map(|number| (format!("key{number}"), value(number))));
}

/// All keys at once, each on a connection of its own.
fn get_all(cluster: &Cluster) -> Vec<Result<String, String>> {
    let ask = |number| {
        let mut stream = connect(&cluster.memcached);
        send_get(&mut stream, &format!("key{number}"));
        stream
    };
    let streams: Vec<_> = (0..KEYS).map(ask).collect();
    let answer = |(number, mut stream)| take_value(&mut stream, &format!("key{number}"));
    streams.into_iter().enumerate().map(answer).collect()
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
    let _next = Process(cluster.node_beside(0).spawn().expect("the program runs"));
    cluster.await_status("replaced", |status| {
        status["nodes"][0]["state"] == "normal" && status["gateways"][0]["nodes_unreached"] == Value::Array(Vec::new())
    });
    kill(hung, Signal::SIGCONT);
    let text = cluster.line_with("node 0 (pid");
    assert!(text.starts_with(&format!("node 0 (pid {hung}) died: ")), "{text}");
    pids(&cluster, 1..3).into_iter().for_each(|pid| kill(pid, Signal::SIGKILL));
    check(&cluster);
}
