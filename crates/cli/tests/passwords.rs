//! Passwords, real processes: every gateway of a cluster that has some lets nobody do anything without one.

use std::io::Write;

use crate::processes::{Cluster, check, connect, line, store};

/// What a client hears to each line that it says.
fn hear(address: &str, said: &[&str]) -> Vec<String> {
    let mut stream = connect(address);
    let ask = |said: &&str| {
        stream.get_mut().write_all(format!("{said}\r\n").as_bytes()).expect("sent");
        line(&mut stream).trim_end().to_owned()
    };
    said.iter().map(ask).collect()
}

#[test]
fn clients_without_a_password_are_refused_and_those_with_one_are_served() {
    let temp = tempfile::tempdir().expect("a directory");
    let file = temp.path().join("users");
    std::fs::write(&file, "app:secret\ndefault:usual\n").expect("written");
    let file = file.to_str().expect("text");
    let nodes = ["--nodes", "3", "--code", "rs:2+1", "--node-memory", "16MiB"];
    let cluster = Cluster::start(&[&nodes[..], &["--gateways", "2", "--auth-file", file]].concat());
    for gateway in cluster.status()["gateways"].as_array().expect("gateways") {
        let [memcached, redis] = ["memcached", "redis"].map(|name| gateway[name].as_str().expect("an address"));
        let unknown = "CLIENT_ERROR unauthenticated";
        assert_eq!(hear(memcached, &["get key", "delete key", "version"]), [unknown; 3]);
        let wrong = "CLIENT_ERROR authentication failure";
        assert_eq!(hear(memcached, &["set auth 0 0 9\r\napp wrong", "get key"]), [wrong, unknown]);
        let unknown = "-NOAUTH Authentication required.";
        assert_eq!(hear(redis, &["GET key", "SET key value", "INFO"]), [unknown; 3]);
        let heard = hear(redis, &["AUTH app wrong", "AUTH wrong", "GET key"]);
        assert!(heard[..2].iter().all(|line| line.starts_with("-WRONGPASS ")) && heard[2] == unknown, "{heard:?}");

        let mut client = connect(memcached);
        client.get_mut().write_all(b"set auth 0 0 10\r\napp secret\r\n").expect("sent");
        assert_eq!(line(&mut client), "STORED\r\n");
        store(&mut client, "key", "value");
        check(&mut client, "key", "value");
        for login in ["AUTH app secret", "AUTH usual"] {
            assert_eq!(hear(redis, &[login, "STRLEN key", "SET key value"]), ["+OK", ":5", "+OK"], "{login}");
        }
    }
}
