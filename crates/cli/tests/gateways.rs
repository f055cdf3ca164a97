//! Several gateways, real processes: each serves every key, and what one owned the others serve when it dies or stalls.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde_json::Value;

use crate::processes::{Cluster, PATIENCE, kill, pid};

/// Keys of a writer: enough that every partition has some.
const KEYS: u64 = 40;

/// Three gateways.
fn start() -> Cluster {
    Cluster::start(&["--node-memory", "32MiB", "--nodes", "6", "--gateways", "3"])
}

/// Process and memcached address of each gateway that serves.
fn gateways(cluster: &Cluster) -> Vec<(Pid, String)> {
    let status = cluster.status();
    let serving = status["gateways"].as_array().expect("gateways").iter().filter(|one| one["serving"] == true);
    serving.map(|one| (pid(one), one["memcached"].as_str().expect("an address").to_owned())).collect()
}

/// A memcached connection, made again when it breaks.
struct Client {
    address: String,
    stream: Option<BufReader<TcpStream>>,
}

impl Client {
    fn new(address: &str) -> Self {
        Client { address: address.to_owned(), stream: None }
    }

    fn send(&mut self, command: &str) -> std::io::Result<()> {
        if self.stream.is_none() {
            let stream = TcpStream::connect(&self.address)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            self.stream = Some(BufReader::new(stream));
        }
        let result = self.stream.as_mut().expect("connected above").get_mut().write_all(command.as_bytes());
        if result.is_err() {
            self.stream = None;
        }
        result
    }

    fn line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        let stream = self.stream.as_mut().ok_or(std::io::ErrorKind::NotConnected)?;
        match stream.read_line(&mut line) {
            Ok(0) => {
                self.stream = None;
                Err(std::io::ErrorKind::UnexpectedEof.into())
            }
            Ok(_) => Ok(line),
            Err(error) => {
                self.stream = None;
                Err(error)
            }
        }
    }

    /// Was it stored for sure?
    fn set(&mut self, key: &str, number: u64) -> bool {
        let text = number.to_string();
        let command = format!("set {key} 0 0 {}\r\n{text}\r\n", text.len());
        self.send(&command).and_then(|()| self.line()).is_ok_and(|line| line == "STORED\r\n")
    }

    /// The number that a key holds; `None`: no answer, or an error.
    fn get(&mut self, key: &str) -> Option<u64> {
        self.send(&format!("get {key}\r\n")).ok()?;
        self.number()
    }

    fn number(&mut self) -> Option<u64> {
        let first = self.line().ok()?;
        match first.split(' ').next() {
            Some("END\r\n") => Some(0),
            Some("VALUE") => {
                let number = self.line().ok()?.trim_end().parse().ok()?;
                (self.line().ok()? == "END\r\n").then_some(number)
            }
            _ => None,
        }
    }
}

/// Stores growing numbers under its keys, until it is told to stop; the last ones that were acknowledged.
fn write(name: &str, address: &str, stop: &AtomicBool) -> BTreeMap<String, u64> {
    let mut client = Client::new(address);
    let mut acknowledged = BTreeMap::new();
    let mut number = 0;
    while !stop.load(Ordering::Acquire) {
        number += 1;
        let key = format!("{name}-{}", number % KEYS);
        if client.set(&key, number) {
            acknowledged.insert(key, number);
        }
    }
    acknowledged
}

/// Reads a key through a gateway until it answers.
fn read(client: &mut Client, key: &str) -> u64 {
    let started = Instant::now();
    loop {
        if let Some(number) = client.get(key) {
            return number;
        }
        assert!(started.elapsed() < PATIENCE, "{key} is not served");
    }
}

fn ready(cluster: &Cluster) -> Vec<(Pid, String)> {
    let is_ready = |status: &Value| {
        let gateways = status["gateways"].as_array().expect("gateways");
        let serving = gateways.iter().filter(|gateway| gateway["serving"] == true);
        serving.filter(|gateway| gateway["tenures"].as_array().is_some_and(|tenures| !tenures.is_empty())).count() == 3
    };
    cluster.await_status("shared", is_ready);
    gateways(cluster)
}

#[test]
fn every_gateway_serves_every_key() {
    let cluster = start();
    let gateways = ready(&cluster);
    let mut clients: Vec<Client> = gateways.iter().map(|(_, address)| Client::new(address)).collect();
    for number in 1..=KEYS {
        let at = usize::try_from(number).expect("few") % clients.len();
        assert!(clients[at].set(&format!("key{number}"), number));
    }
    for client in &mut clients {
        (1..=KEYS).for_each(|number| assert_eq!(client.get(&format!("key{number}")), Some(number)));
        client.send("stats\r\n").expect("sent");
        let mut stats = String::new();
        while !stats.ends_with("END\r\n") {
            stats += &client.line().expect("an answer");
        }
        assert!(stats.contains(&format!("STAT curr_items {KEYS}\r\n")), "{stats}");
    }
    clients[0].send("flush_all\r\n").expect("sent");
    assert_eq!(clients[0].line().expect("an answer"), "OK\r\n");
    for client in &mut clients {
        (1..=KEYS).for_each(|number| assert_eq!(client.get(&format!("key{number}")), Some(0), "flushed everywhere"));
    }
}

#[test]
fn what_a_killed_gateway_owned_the_others_serve() {
    let cluster = start();
    let gateways = ready(&cluster);
    let stop = AtomicBool::new(false);
    let (victim, _) = gateways[1];
    let acknowledged: Vec<BTreeMap<String, u64>> = std::thread::scope(|scope| {
        let mut writers = Vec::new();
        for (place, (_, address)) in gateways.iter().enumerate() {
            let (stop, name) = (&stop, format!("w{place}"));
            writers.push(scope.spawn(move || write(&name, address, stop)));
        }
        let mut probe = Client::new(&gateways[0].1);
        (0..KEYS).for_each(|number| _ = read(&mut probe, &format!("w0-{number}")));
        kill(victim, Signal::SIGKILL);
        let killed = Instant::now();
        for number in 0..KEYS {
            read(&mut probe, &format!("w0-{number}"));
            let key = format!("probe-{number}");
            while !probe.set(&key, 1) {
                assert!(killed.elapsed() < PATIENCE, "{key} cannot be stored");
            }
        }
        println!("every key was served again {} ms after a gateway was killed", killed.elapsed().as_millis());
        stop.store(true, Ordering::Release);
        writers.into_iter().map(|writer| writer.join().expect("no panic")).collect()
    });
    for place in [0, 2] {
        let mut client = Client::new(&gateways[place].1);
        for (key, &number) in acknowledged.iter().flatten() {
            let found = read(&mut client, key);
            assert!(found >= number, "{key} is {found} through gateway {place}, and {number} was acknowledged");
        }
    }
    // Its successor gets a share.
    ready(&cluster);
}

#[test]
fn a_gateway_that_was_stopped_tells_nothing_old() {
    let cluster = start();
    let gateways = ready(&cluster);
    let (stopped, address) = &gateways[2];
    let mut writer = Client::new(&gateways[0].1);
    let mut acknowledged = vec![0; usize::try_from(KEYS).expect("few")];
    let mut number = 0;
    let mut round = |acknowledged: &mut Vec<u64>| {
        for (place, last) in acknowledged.iter_mut().enumerate() {
            number += 1;
            if writer.set(&format!("key{place}"), number) {
                *last = number;
            }
        }
    };
    round(&mut acknowledged);
    assert!(acknowledged.iter().all(|&last| last > 0));
    let mut early = Client::new(address);
    assert!(early.get("key0").is_some());
    kill(*stopped, Signal::SIGSTOP);
    let began = Instant::now();
    let asked = acknowledged.clone();
    (0..asked.len()).for_each(|place| early.send(&format!("get key{place}\r\n")).expect("the system takes it"));
    while began.elapsed() < Duration::from_secs(3) {
        round(&mut acknowledged);
    }
    let before_it_woke = acknowledged.clone();
    kill(*stopped, Signal::SIGCONT);
    let mut late = Client::new(address);
    for (place, &last) in before_it_woke.iter().enumerate() {
        let key = format!("key{place}");
        // An error is right, too: it says nothing old.
        if let Some(found) = late.get(&key) {
            assert!(found >= last, "{key} is {found} after it woke, and {last} was acknowledged before");
        }
    }
    for (place, &last) in asked.iter().enumerate() {
        if let Some(found) = early.number() {
            assert!(found >= last, "key{place} is {found}, and {last} was acknowledged before it was asked for");
        }
    }
    // Not for ever, and it is not another process that answers.
    let found = read(&mut late, "key0");
    assert!(found >= before_it_woke[0], "key0 is {found}");
    assert!(nix::sys::signal::kill(*stopped, None).is_ok(), "it ended");
    let moved = before_it_woke.iter().zip(&asked).filter(|(now, then)| now > then).count();
    assert_eq!(moved, asked.len(), "every key was written while it stood still");
}
