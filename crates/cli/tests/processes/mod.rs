//! A cluster of real processes, as `shorttail up` starts it, and what all tests of such clusters do with one.
//!
//! Must not know: what a test is about.

// Each test program uses some of it.
#![allow(dead_code)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde_json::Value;

pub const ANY_PORT: &str = "127.0.0.1:0";
/// A test that hangs should end; nothing is said about how long things take.
pub const PATIENCE: Duration = Duration::from_secs(240);

/// The program that is tested.
pub fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_shorttail"))
}

/// Killed when dropped.
pub struct Process(pub Child);

impl Process {
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id().cast_signed()), signal);
    }

    /// Waits until it ends by itself; how it did.
    pub fn end(&mut self) -> ExitStatus {
        await_some("at its end", || self.0.try_wait().expect("a child"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running `shorttail up` on free ports.
pub struct Cluster {
    up: Process,
    /// What it says, line by line, without end marks.
    lines: mpsc::Receiver<String>,
    /// Where its first gateway serves.
    pub memcached: String,
    pub admin: String,
    pub temp: tempfile::TempDir,
}

impl Cluster {
    /// Started with these flags; Redis has a free port too, if they do not say where it is.
    pub fn start(flags: &[&str]) -> Self {
        Self::start_by(program(), flags)
    }

    /// As [`Self::start`], by this program.
    pub fn start_by(mut command: Command, flags: &[&str]) -> Self {
        let temp = tempfile::tempdir().expect("a directory");
        command.args(["up", "--memcached", ANY_PORT, "--admin", ANY_PORT]).args(flags);
        if !flags.contains(&"--redis") {
            command.args(["--redis", ANY_PORT]);
        }
        let mut up = command.env("TMPDIR", temp.path()).stdout(Stdio::piped()).spawn().expect("the program runs");
        let out = BufReader::new(up.stdout.take().expect("piped"));
        // All of it is read, so that it never waits for a reader.
        let (said, lines) = mpsc::channel();
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| said.send(line)));
        let mut cluster = Cluster { up: Process(up), lines, memcached: String::new(), admin: String::new(), temp };
        let ready = cluster.line_with("ready");
        let word_after = |word: &str| {
            let rest = &ready[ready.find(word).unwrap_or_else(|| panic!("no {word} in {ready}")) + word.len()..];
            rest.split([',', ' ']).next().expect("an address").to_owned()
        };
        cluster.memcached = word_after("memcached ");
        cluster.admin = word_after("http://");
        cluster
    }

    /// Reads on until a line that begins so.
    pub fn line_with(&mut self, beginning: &str) -> String {
        let mut said = Vec::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if line.starts_with(beginning) => return line,
                Ok(line) => said.push(line),
                Err(error) => panic!("{error}; no line begins with {beginning:?}:\n{}", said.join("\n")),
            }
        }
    }

    /// `shorttail` with these words, about this cluster.
    pub fn run(&self, words: &str) -> Output {
        program().args(words.split_whitespace()).args(["--admin", &self.admin]).output().expect("the program runs")
    }

    /// As [`Self::run`], and it must succeed; what it prints.
    pub fn succeed(&self, words: &str) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    /// As [`Self::run`], and it must fail; what it complains of.
    pub fn refused(&self, words: &str) -> String {
        let output = self.run(words);
        assert!(!output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8(output.stderr).expect("text")
    }

    pub fn status(&self) -> Value {
        serde_json::from_str(&self.succeed("status --json")).expect("JSON")
    }

    /// Asks for the status until it is as wanted.
    pub fn await_status(&self, what: &str, mut is_so: impl FnMut(&Value) -> bool) -> Value {
        let started = Instant::now();
        loop {
            let status = self.status();
            if is_so(&status) {
                return status;
            }
            assert!(started.elapsed() < PATIENCE, "not {what}: {status:#}");
        }
    }

    /// `shorttail` in this role, as somebody would start it in another terminal.
    pub fn beside(&self, role: &str, flags: &[&str]) -> Command {
        let (coordinator, _) = coordinator(&self.status());
        let mut command = program();
        command.args([role, "--coordinator", &coordinator]).args(flags).stdout(Stdio::null());
        command
    }

    /// A node with this number, started likewise.
    pub fn node_beside(&self, id: u16) -> Command {
        self.beside("node", &["--listen", ANY_PORT, "--memory", "32MiB", "--id", &id.to_string()])
    }

    /// One memcached command on a connection of its own, and its answer up to a line that ends it.
    pub fn ask(&self, command: &str, end: &str) -> String {
        let mut stream = connect(&self.memcached);
        stream.get_mut().write_all(command.as_bytes()).expect("sent");
        let mut answer = String::new();
        while !answer.ends_with(end) {
            assert!(stream.read_line(&mut answer).expect("an answer") > 0, "closed after {answer:?}");
        }
        answer
    }

    pub fn signal(&self, signal: Signal) {
        self.up.signal(signal);
    }

    /// How it ended after this signal, and the directory in which it had its own.
    pub fn end(self, signal: Signal) -> (ExitStatus, tempfile::TempDir) {
        self.signal(signal);
        let Cluster { mut up, temp, .. } = self;
        (up.end(), temp)
    }
}

/// Asks until there is an answer.
pub fn await_some<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(started.elapsed() < PATIENCE, "not {what}");
        std::thread::yield_now();
    }
}

/// Asks until it is so.
pub fn await_that(what: &str, mut is_so: impl FnMut() -> bool) {
    await_some(what, || is_so().then_some(()));
}

/// Where the coordinator of a status listens for members, and its process.
pub fn coordinator(status: &Value) -> (String, Pid) {
    let name = status["coordinator"]["name"].as_str().expect("a name");
    let (address, rest) = name.split_once(" on ").expect("an address");
    let number = rest.rsplit_once("process ").expect("its process").1;
    (address.to_owned(), Pid::from_raw(number.parse().expect("a number")))
}

/// All processes of a cluster but the one that started them, and what they are.
pub fn roles(status: &Value) -> Vec<(&'static str, Pid)> {
    let of = |name: &str| status[name].as_array().expect("entries").iter().map(pid).collect::<Vec<_>>();
    let nodes = of("nodes").into_iter().map(|pid| ("node", pid));
    let gateways = of("gateways").into_iter().map(|pid| ("gateway", pid));
    std::iter::once(("coordinator", coordinator(status).1)).chain(nodes).chain(gateways).collect()
}

/// Waits until all of these have ended, and closed their files; whoever inherited them may not have heard of it yet.
pub fn await_over(roles: &[(&str, Pid)]) {
    for (role, pid) in roles {
        await_that(&format!("over: {role} {pid}"), || {
            let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok();
            state.and_then(|text| text.rsplit(") ").next().map(|rest| rest.starts_with(['Z', 'X']))).unwrap_or(true)
        });
    }
}

/// The process of an entry of the status.
pub fn pid(entry: &Value) -> Pid {
    Pid::from_raw(i32::try_from(entry["pid"].as_i64().expect("a pid")).expect("a pid"))
}

/// Sends a signal to a process that runs.
pub fn kill(pid: Pid, signal: Signal) {
    nix::sys::signal::kill(pid, signal).expect("it runs");
}

/// A connection on which one waits for an answer, but not for ever.
pub fn connect(address: &str) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(address).expect("the gateway listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    BufReader::new(stream)
}

/// The next line of an answer, with its end.
pub fn line(stream: &mut impl BufRead) -> String {
    let mut line = String::new();
    stream.read_line(&mut line).expect("an answer");
    line
}

/// Stores a value by memcached.
pub fn store(stream: &mut BufReader<TcpStream>, key: &str, value: &str) {
    store_all(stream, [(key.to_owned(), value.to_owned())]);
}

/// Stores values by memcached, some at a time.
pub fn store_all(stream: &mut BufReader<TcpStream>, values: impl IntoIterator<Item = (String, String)>) {
    const AT_A_TIME: usize = 64;
    let mut values = values.into_iter().peekable();
    while values.peek().is_some() {
        let some = values.by_ref().take(AT_A_TIME);
        let sets: Vec<String> =
            some.map(|(key, value)| format!("set {key} 0 0 {}\r\n{value}\r\n", value.len())).collect();
        stream.get_mut().write_all(sets.concat().as_bytes()).expect("sent");
        sets.iter().for_each(|_| assert_eq!(line(stream), "STORED\r\n"));
    }
}

/// Asks memcached for a key.
pub fn send_get(stream: &mut BufReader<TcpStream>, key: &str) {
    stream.get_mut().write_all(format!("get {key}\r\n").as_bytes()).expect("sent");
}

/// What a get is answered: the value, or the line that says why there is none.
pub fn take_value(stream: &mut BufReader<TcpStream>, key: &str) -> Result<String, String> {
    let head = line(stream);
    let Some(length) = head.strip_prefix(&format!("VALUE {key} 0 ")) else { return Err(head) };
    let mut value = vec![0; length.trim_end().parse().expect("a length")];
    stream.read_exact(&mut value).expect("a value");
    assert_eq!([line(stream), line(stream)], ["\r\n", "END\r\n"], "{key}");
    Ok(String::from_utf8(value).expect("text"))
}

/// By memcached a key has this value.
pub fn check(stream: &mut BufReader<TcpStream>, key: &str, value: &str) {
    send_get(stream, key);
    match take_value(stream, key) {
        Ok(found) => assert!(found == value, "{key} has another value: {found:.100}"),
        Err(why) => panic!("{key}: {why}"),
    }
}
