//! The HTTP answers, over a real socket.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use shorttail_wire::control::{ClusterStatus, GatewayStatusEntry, NodeState, NodeStatusEntry};

use super::{ChaosOutcome, metrics};
use crate::coordinator::tests::{MEEK, RunningCoordinator, node};

fn get(address: SocketAddr, path: &str) -> String {
    ask(address, &format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
}

fn post(address: SocketAddr, path: &str, kind: &str, body: &str) -> String {
    let head = format!("Host: x\r\nConnection: close\r\nContent-Type: {kind}\r\nContent-Length: {}", body.len());
    ask(address, &format!("POST {path} HTTP/1.1\r\n{head}\r\n\r\n{body}"))
}

fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the admin port listens");
    stream.write_all(request.as_bytes()).expect("a request is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the answer is text");
    answer
}

#[test]
fn every_path_answers() {
    let running = RunningCoordinator::start(None);
    let address = running.admin;
    let status = get(address, "/status");
    assert!(status.starts_with("HTTP/1.1 200 OK\r\n"), "{status}");
    let body = status.split_once("\r\n\r\n").expect("a body").1;
    let json: serde_json::Value = serde_json::from_str(body).expect("JSON");
    for key in ["code", "objects", "bytes_stored", "bytes_used", "nodes", "gateways"] {
        assert!(json.get(key).is_some(), "{key} is missing in {body}");
    }
    assert_eq!(json["code"], "rs:4+2");
    assert!(get(address, "/health").starts_with("HTTP/1.1 503"), "nobody serves yet");
    assert!(get(address, "/metrics").contains("\nshorttail_objects 0\n"));
    assert!(get(address, "/").contains("<title>ShortTail</title>"));
    assert!(get(address, "/nothing").starts_with("HTTP/1.1 404"));
}

#[test]
fn orders_reach_the_nodes_that_allow_it_and_no_other_page_may_send_them() {
    let running = RunningCoordinator::start(None);
    let (brave, _) = node(&running.control, 2, 1);
    let (meek, _) = node(&running.control, MEEK, 1);
    for control in [&brave, &meek] {
        control.registered().expect("let in");
    }
    let clear = |kind| post(running.admin, "/chaos", kind, "{\"nodes\":null,\"order\":\"clear\"}");
    let answer = clear("application/json");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let body = answer.split_once("\r\n\r\n").expect("a body").1;
    let outcomes: Vec<ChaosOutcome> = serde_json::from_str(body).expect("outcomes");
    let refusal = format!("node {MEEK} was not started with --allow-chaos");
    assert_eq!(
        outcomes,
        [
            ChaosOutcome { node: 2, is_done: true, text: "Clear".into() },
            ChaosOutcome { node: MEEK, is_done: false, text: refusal },
        ]
    );
    // A browser sends these without asking the other site first.
    for kind in ["text/plain", "application/x-www-form-urlencoded"] {
        assert!(clear(kind).starts_with("HTTP/1.1 415"));
    }
    let senseless = post(running.admin, "/chaos", "application/json", "{\"nodes\":[2],\"order\":\"dance\"}");
    assert!(senseless.starts_with("HTTP/1.1 422"), "{senseless}");
    assert!(get(running.admin, "/chaos").starts_with("HTTP/1.1 405"));
}

#[test]
fn metrics_name_every_node_and_gateway() {
    let node = NodeStatusEntry {
        id: 3,
        state: NodeState::Dead,
        memory_used_bytes: 10,
        memory_limit_bytes: 20,
        ..NodeStatusEntry::default()
    };
    let gateway = GatewayStatusEntry { serving: true, ..GatewayStatusEntry::default() };
    let status = ClusterStatus { objects: 7, nodes: vec![node], gateways: vec![gateway], ..ClusterStatus::default() };
    let text = metrics::text(&status);
    for line in [
        "shorttail_objects 7",
        "shorttail_node_up{node=\"3\",state=\"dead\"} 0",
        "shorttail_node_memory_used_bytes{node=\"3\"} 10",
        "shorttail_gateway_serving{gateway=\"0\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
    }
}
