//! Gateways that are told to end (SIGTERM) while clients and other gateways go on.

use std::io::{Read, Write};
use std::process::Stdio;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::apart::{await_serving, coordinator_and_nodes, free, get, start};
use crate::processes::{Process, await_that, connect, line, program};

const KEYS: usize = 64;

fn gateway(control: &str, memcached: &str, admin: &str) -> Process {
    start(&["gateway", "--coordinator", control, "--memcached", memcached, "--redis", "off", "--admin", admin])
}

fn store_all(memcached: &str) {
    let mut client = connect(memcached);
    for number in 0..KEYS {
        client.get_mut().write_all(format!("set key{number} 0 0 1\r\nx\r\n").as_bytes()).expect("sent");
        assert_eq!(line(&mut client), "STORED\r\n", "key{number}");
    }
}

fn read_all(memcached: &str) {
    let mut client = connect(memcached);
    for number in 0..KEYS {
        client.get_mut().write_all(format!("get key{number}\r\n").as_bytes()).expect("sent");
        let answer = [(); 3].map(|()| line(&mut client)).concat();
        assert_eq!(answer, format!("VALUE key{number} 0 1\r\nx\r\nEND\r\n"));
    }
}

fn status(admin: &str) -> Value {
    let status = get(admin, "/status");
    serde_json::from_str(status.split_once("\r\n\r\n").expect("a body").1).expect("JSON")
}

#[test]
fn a_gateway_that_is_told_to_end_hands_over_what_it_owns_first() {
    let [control, cluster_admin, memcached_one, memcached_two, admin_one, admin_two] = free();
    let _others = coordinator_and_nodes(&control, &cluster_admin, "2");
    let mut leaves = gateway(&control, &memcached_one, &admin_one);
    let _stays = gateway(&control, &memcached_two, &admin_two);
    await_serving(&admin_one);
    await_serving(&admin_two);
    let owns = |status: &Value| {
        let gateways = status["gateways"].as_array().expect("gateways");
        gateways.iter().filter(|one| one["tenures"].as_array().is_some_and(|tenures| !tenures.is_empty())).count()
    };
    await_that("both own something", || owns(&status(&cluster_admin)) == 2);
    store_all(&memcached_one);
    let before = status(&cluster_admin);
    leaves.signal(Signal::SIGTERM);
    assert_eq!(leaves.end().code(), Some(0));
    read_all(&memcached_two);
    let after = status(&cluster_admin);
    assert_eq!(after["tenures_lost_total"], before["tenures_lost_total"], "{after:#}");
    let handed_over = |status: &Value| status["tenures_handed_over_total"].as_u64().expect("a number");
    assert!(handed_over(&after) > handed_over(&before), "{after:#}");
}

#[test]
fn a_gateway_that_nobody_can_follow_ends_and_the_next_one_goes_on() {
    let [control, cluster_admin, memcached, admin, memcached_next, admin_next] = free();
    let _others = coordinator_and_nodes(&control, &cluster_admin, "1");
    let words = ["--log", "info", "gateway", "--coordinator", &control, "--memcached", &memcached, "--admin", &admin];
    let mut command = program();
    command.args(words).args(["--redis", "off"]).stderr(Stdio::piped());
    let mut only = Process(command.spawn().expect("the program runs"));
    await_serving(&admin);
    store_all(&memcached);
    only.signal(Signal::SIGTERM);
    assert_eq!(only.end().code(), Some(0));
    let mut said = String::new();
    only.0.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
    assert!(said.contains("ends as it was told to owns=false"), "it let go: {said}");
    let _next = gateway(&control, &memcached_next, &admin_next);
    await_serving(&admin_next);
    read_all(&memcached_next);
}

#[test]
fn a_gateway_that_is_not_let_in_ends_at_once() {
    let [control, _, memcached, admin] = free();
    let mut stranger = gateway(&control, &memcached, &admin);
    await_that("it runs", || get(&admin, "/health").starts_with("HTTP/1.1 503"));
    stranger.signal(Signal::SIGTERM);
    assert_eq!(stranger.end().code(), Some(0));
}
