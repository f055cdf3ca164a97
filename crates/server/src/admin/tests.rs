//! The HTTP answers, over a real socket.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use shorttail_wire::control::{ClusterStatus, GatewayStatusEntry, NodeState, NodeStatusEntry};

use super::metrics;
use crate::coordinator::tests::RunningCoordinator;

fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the admin port listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("a request is sent");
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
