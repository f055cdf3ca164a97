//! The load generator from its flags to its report, over loopback against small servers that may misbehave.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use clap::Parser;
use shorttail_bench::load::{LoadOptions, check, execute, publish, run};
use shorttail_bench::report::LoadReport;

#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    options: LoadOptions,
}

fn flags(target: &str, arguments: &[&str]) -> LoadOptions {
    let fixed = ["load", "--target", target, "--quiet", "--keys", "500", "--connections", "4"];
    Flags::parse_from(fixed.iter().chain(arguments)).options
}

fn measured(target: &str, arguments: &[&str]) -> LoadReport {
    execute(&flags(target, arguments), &mut ()).expect("the run ends")
}

/// What a server does wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Habit {
    Honest,
    /// Every tenth write is acknowledged and forgotten.
    Forgets,
    /// Every tenth write is refused.
    Refuses,
    /// Every hundredth request ends the connection.
    HangsUp,
}

struct Store {
    map: Mutex<HashMap<String, Vec<u8>>>,
    habit: Habit,
    requests: AtomicUsize,
}

impl Store {
    fn nth(&self, n: usize) -> bool {
        self.requests.fetch_add(1, Ordering::Relaxed) % n == n - 1
    }

    /// Keeps a value, or answers why not.
    fn set(&self, key: &str, value: Vec<u8>) -> Result<(), &'static str> {
        match self.habit {
            Habit::Forgets if self.nth(10) => Ok(()),
            Habit::Refuses if self.nth(10) => Err("out of memory storing object"),
            _ => {
                self.map.lock().expect("no holder panics").insert(key.to_owned(), value);
                Ok(())
            }
        }
    }

    fn get(&self, key: &str) -> Option<Vec<u8>> {
        self.map.lock().expect("no holder panics").get(key).cloned()
    }

    fn delete(&self, key: &str) -> bool {
        self.map.lock().expect("no holder panics").remove(key).is_some()
    }

    fn hangs_up(&self) -> bool {
        self.habit == Habit::HangsUp && self.nth(100)
    }
}

type Serve = fn(&Store, &mut dyn BufRead, &mut dyn Write) -> Option<()>;

/// Serves until the test process ends; each connection has a thread that ends with it.
fn start(habit: Habit, serve: Serve) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    let store = Arc::new(Store { map: Mutex::default(), habit, requests: AtomicUsize::new(0) });
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let store = store.clone();
            std::thread::spawn(move || serve_stream(&store, stream, serve));
        }
    });
    address
}

fn serve_stream(store: &Store, stream: TcpStream, serve: Serve) {
    // Pipelined answers go out one by one: they must not wait for acknowledgements.
    stream.set_nodelay(true).expect("a socket");
    let mut output = stream.try_clone().expect("a descriptor");
    let mut input = BufReader::new(stream);
    while !store.hangs_up() && serve(store, &mut input, &mut output).is_some() {}
}

fn line(input: &mut dyn BufRead) -> Option<String> {
    let mut line = String::new();
    let length = input.read_line(&mut line).ok()?;
    (length > 0).then(|| line.trim_end().to_owned())
}

fn block(input: &mut dyn BufRead, length: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length + 2];
    input.read_exact(&mut bytes).ok()?;
    bytes.truncate(length);
    Some(bytes)
}

/// One memcached request.
fn memcached(store: &Store, input: &mut dyn BufRead, output: &mut dyn Write) -> Option<()> {
    let request = line(input)?;
    let words: Vec<&str> = request.split(' ').collect();
    let mut answer = Vec::new();
    match words[..] {
        ["get", ref keys @ ..] => {
            for key in keys {
                if let Some(value) = store.get(key) {
                    write!(answer, "VALUE {key} 0 {}\r\n", value.len()).ok()?;
                    answer.extend([&value[..], b"\r\n"].concat());
                }
            }
            answer.extend(b"END\r\n");
        }
        ["set", key, "0", "0", length] => {
            let value = block(input, length.parse().ok()?)?;
            match store.set(key, value) {
                Ok(()) => answer.extend(b"STORED\r\n"),
                Err(why) => write!(answer, "SERVER_ERROR {why}\r\n").ok()?,
            }
        }
        ["delete", key] => answer.extend(if store.delete(key) { &b"DELETED\r\n"[..] } else { b"NOT_FOUND\r\n" }),
        _ => answer.extend(b"ERROR\r\n"),
    }
    output.write_all(&answer).ok()
}

/// One Redis request.
fn redis(store: &Store, input: &mut dyn BufRead, output: &mut dyn Write) -> Option<()> {
    let count: usize = line(input)?.strip_prefix('*')?.parse().ok()?;
    let mut words = Vec::new();
    for _ in 0..count {
        let length = line(input)?.strip_prefix('$')?.parse().ok()?;
        words.push(block(input, length)?);
    }
    let name = |index: usize| String::from_utf8_lossy(&words[index]).into_owned();
    let mut answer = Vec::new();
    let mut bulk = |key: String| match store.get(&key) {
        None => answer.extend(b"$-1\r\n"),
        Some(value) => answer.extend([format!("${}\r\n", value.len()).as_bytes(), &value, b"\r\n"].concat()),
    };
    match (name(0).as_str(), count) {
        ("GET", 2) => bulk(name(1)),
        ("MGET", _) => {
            answer.extend(format!("*{}\r\n", count - 1).bytes());
            for index in 1..count {
                match store.get(&name(index)) {
                    None => answer.extend(b"$-1\r\n"),
                    Some(value) => {
                        answer.extend([format!("${}\r\n", value.len()).as_bytes(), &value, b"\r\n"].concat());
                    }
                }
            }
        }
        ("SET", 3) => match store.set(&name(1), words[2].clone()) {
            Ok(()) => answer.extend(b"+OK\r\n"),
            Err(why) => answer.extend(format!("-OOM {why}\r\n").bytes()),
        },
        ("DEL", 2) => answer.extend(format!(":{}\r\n", u8::from(store.delete(&name(1)))).bytes()),
        ("WAIT", 3) => answer.extend(b":1\r\n"),
        _ => answer.extend(b"-ERR unknown command\r\n"),
    }
    output.write_all(&answer).ok()
}

const ALL: [&str; 5] = ["--preload", "--verify-all", "--expect-all", "--operations", "3000"];

fn with(more: &[&'static str]) -> Vec<&'static str> {
    [&ALL[..], more].concat()
}

#[test]
fn every_workload_passes_against_an_honest_memcached() {
    let target = start(Habit::Honest, memcached);
    for workload in ["a", "b", "c", "d", "e", "f"] {
        let options = with(&["--workload", workload, "--deletes", "0.05", "--pipeline", "8", "--value-size", "1-400"]);
        let report = measured(&target, &options);
        check(&report).expect("an honest server");
        assert_eq!((report.operations, report.error_count), (3_000, 0), "{workload}");
        assert!(report.verify.is_some_and(|verify| verify.operations >= 500));
        assert!(report.latency.p50_us > 0.0 && report.latency.max_us >= report.latency.p99_us);
    }
}

#[test]
fn every_workload_passes_against_an_honest_redis() {
    let target = start(Habit::Honest, redis);
    for workload in ["a", "d", "e", "f"] {
        let report = measured(&target, &with(&["--protocol", "redis", "--workload", workload, "--threads", "2"]));
        check(&report).expect("an honest server");
        assert_eq!((report.operations, report.error_count), (3_000, 0), "{workload}");
    }
}

#[test]
fn an_open_loop_keeps_to_its_count_and_reports_the_service_time_too() {
    let target = start(Habit::Honest, memcached);
    let report = measured(&target, &with(&["--rate", "20000", "--arrivals", "poisson"]));
    check(&report).expect("an honest server");
    assert_eq!(report.operations, 3_000);
    assert!(report.classes.iter().all(|class| class.latency.mean_us >= class.service.mean_us));
}

#[test]
fn forgotten_writes_are_found_and_fail_the_run() {
    let target = start(Habit::Forgets, memcached);
    let options = flags(&target, &with(&["--workload", "a"]));
    let error = run(options).expect_err("writes were forgotten").to_string();
    assert!(error.contains("stale"), "{error}");
    let report = measured(&start(Habit::Forgets, memcached), &with(&["--workload", "c"]));
    assert!(report.verification.lost >= 50, "a tenth of the preload: {:?}", report.verification);
    assert!(report.verification.examples.iter().any(|example| example.contains("lost")));
}

#[test]
fn refused_writes_are_errors_by_text_and_not_faults() {
    let report = measured(&start(Habit::Refuses, redis), &with(&["--protocol", "redis", "--workload", "a"]));
    check(&report).expect("a refusal is honest");
    assert_eq!(report.errors.len(), 1);
    assert_eq!(report.errors[0].text, "OOM out of memory storing object");
    assert!(report.errors[0].count > 50 && report.errors[0].count == report.error_count);
}

#[test]
fn lost_connections_are_opened_again() {
    let report = measured(&start(Habit::HangsUp, memcached), &with(&["--workload", "b"]));
    check(&report).expect("no answer was wrong");
    assert!(report.error_count > 0 && report.operations > 2_000);
    assert!(report.errors.iter().all(|error| error.text.contains("connection")), "{:?}", report.errors);
}

#[test]
fn too_few_replicas_fail_the_write() {
    let target = start(Habit::Honest, redis);
    let enough = measured(&target, &with(&["--protocol", "redis", "--wait", "1", "--workload", "set"]));
    assert_eq!((enough.operations, enough.error_count), (3_000, 0));
    let few = measured(&target, &["--protocol", "redis", "--wait", "2", "--workload", "set", "--operations", "10"]);
    assert_eq!((few.operations, few.error_count), (0, 10));
    assert_eq!(few.errors[0].text, "WAIT answered 1 of 2 replicas");
}

#[test]
fn results_are_written_as_json_and_svg() {
    let directory = std::env::temp_dir().join(format!("shorttail-bench-test-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let mut options = flags(&start(Habit::Honest, memcached), &with(&["--workload", "f"]));
    options.json = Some(directory.join("results.json"));
    options.svg = Some(directory.join("results.svg"));
    let own = std::process::id();
    options.server_pids = vec![own];
    let report = execute(&options, &mut ()).expect("the run ends");
    publish(&options, &report).expect("written");
    let json = std::fs::read(directory.join("results.json")).expect("written");
    let svg = std::fs::read_to_string(directory.join("results.svg")).expect("written");
    std::fs::remove_dir_all(&directory).expect("ours");
    let read: LoadReport = serde_json::from_slice(&json).expect("our own format");
    assert_eq!((read.operations, read.cpu.servers[0].pid), (report.operations, own));
    for title in ["latency, microseconds", "operations per second", "time, seconds", "read-modify-write"] {
        assert!(svg.contains(title), "{title}");
    }
    assert!(report.table().contains("p99.99"));
}

#[test]
fn nobody_there_is_said_clearly() {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
    let error = format!("{:#}", execute(&flags(&port.to_string(), &[]), &mut ()).expect_err("nobody listens"));
    assert!(error.contains(&port.to_string()) && error.contains("refused"), "{error}");
}

#[test]
fn unix_sockets_work() {
    let path = std::env::temp_dir().join(format!("shorttail-bench-test-{}.sock", std::process::id()));
    let listener = UnixListener::bind(&path).expect("a new path");
    let store = Arc::new(Store { map: Mutex::default(), habit: Habit::Honest, requests: AtomicUsize::new(0) });
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let store = store.clone();
            std::thread::spawn(move || {
                let mut output = stream.try_clone().expect("a descriptor");
                let mut input = BufReader::new(stream);
                while memcached(&store, &mut input, &mut output).is_some() {}
            });
        }
    });
    let report = measured(&format!("unix:{}", path.display()), &with(&["--workload", "a"]));
    std::fs::remove_file(&path).expect("ours");
    check(&report).expect("an honest server");
    assert_eq!((report.operations, report.error_count), (3_000, 0));
}
