//! Small memcached and Redis servers that may misbehave, over loopback.
//!
//! Each test binary uses its own part of them.
#![allow(dead_code)]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// What a server does wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Habit {
    Honest,
    /// Every tenth write is acknowledged and forgotten.
    Forgets,
    /// Every tenth write is refused.
    Refuses,
    /// Every hundredth request ends the connection.
    HangsUp,
    /// Each connection has to log in first: `app` with the password `secret`.
    Locked,
}

pub struct Store {
    map: Mutex<HashMap<String, Vec<u8>>>,
    habit: Habit,
    requests: AtomicUsize,
    /// Values that were asked for.
    pub gets: AtomicUsize,
}

impl Store {
    pub fn new(habit: Habit) -> Self {
        Store { map: Mutex::default(), habit, requests: AtomicUsize::new(0), gets: AtomicUsize::new(0) }
    }

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
        self.gets.fetch_add(1, Ordering::Relaxed);
        self.map.lock().expect("no holder panics").get(key).cloned()
    }

    fn delete(&self, key: &str) -> bool {
        self.map.lock().expect("no holder panics").remove(key).is_some()
    }

    fn hangs_up(&self) -> bool {
        self.habit == Habit::HangsUp && self.nth(100)
    }
}

pub type Serve = fn(&Store, &mut dyn BufRead, &mut dyn Write) -> Option<()>;

/// Serves until the test process ends; each connection has a thread that ends with it.
pub fn start(habit: Habit, serve: Serve) -> String {
    start_on(Arc::new(Store::new(habit)), serve)
}

pub fn start_on(store: Arc<Store>, serve: Serve) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
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
    if store.habit == Habit::Locked && unlock(&mut input, &mut output).is_none() {
        return;
    }
    while !store.hangs_up() && serve(store, &mut input, &mut output).is_some() {}
}

/// Answers a login, of either protocol; `None`: it is not the right one.
fn unlock(input: &mut dyn BufRead, output: &mut dyn Write) -> Option<()> {
    let first = line(input)?;
    let is_redis = first == "*3";
    let said = if is_redis { (0..6).map(|_| line(input)).collect::<Option<Vec<_>>>()? } else { vec![line(input)?] };
    let right = if is_redis { &["$4", "AUTH", "$3", "app", "$6", "secret"][..] } else { &["app secret"] };
    let is_right = said == right && (is_redis || first == "set auth 0 0 10");
    let answer = match (is_right, is_redis) {
        (true, true) => "+OK\r\n",
        (true, false) => "STORED\r\n",
        (false, true) => "-WRONGPASS invalid password\r\n",
        (false, false) => "CLIENT_ERROR authentication failure\r\n",
    };
    output.write_all(answer.as_bytes()).ok()?;
    is_right.then_some(())
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
pub fn memcached(store: &Store, input: &mut dyn BufRead, output: &mut dyn Write) -> Option<()> {
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
        ["set", key, "0", ttl, length] if ttl.parse::<u32>().is_ok() => {
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
pub fn redis(store: &Store, input: &mut dyn BufRead, output: &mut dyn Write) -> Option<()> {
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
