//! A cluster of processes of which nodes are killed and started again, and what its gateway logs meanwhile.

use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, bail};

use super::course::{Course, Event, Moment, Step, Times};
use crate::admin::Status;
use crate::child::Child;
use crate::limits::TRANSITION_SECONDS;
use crate::peers::{ClusterOptions, Running, free_port};
use crate::scratch::Scratch;

/// What a node has when it is back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Memory {
    /// It was in a file.
    Kept,
    Lost,
}

pub struct Cluster {
    // Children end before the directories that they use are removed.
    nodes: Vec<Child>,
    _others: Vec<Child>,
    log: Receiver<String>,
    owner_count: usize,
    pub running: Running,
    recipe: Recipe,
}

/// How a node is started, and started again.
struct Recipe {
    program: std::path::PathBuf,
    coordinator: String,
    node_memory: String,
    scratch: Scratch,
    /// Where the memory is kept, if it is.
    memory: Option<Scratch>,
}

impl Recipe {
    fn command(&self, role: &str, flags: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(role).args(flags);
        command
    }

    fn node(&self, id: usize) -> anyhow::Result<Child> {
        let listen = format!("unix:{}/node{id}", self.scratch.path().display());
        let (name, memory) = (id.to_string(), self.node_memory.as_str());
        let flags = ["--listen", &listen, "--coordinator", &self.coordinator, "--id", &name, "--memory", memory];
        let mut command = self.command("node", &flags);
        if let Some(kept) = &self.memory {
            command.arg("--memory-file").arg(kept.path().join(format!("node{id}")));
        }
        Child::spawn("shorttail node", command)
    }
}

impl Cluster {
    /// Starts it and waits until its gateway serves.
    ///
    /// # Errors
    /// A role does not start.
    pub fn start(options: &ClusterOptions, memory: Memory, node_memory_mib: u64) -> anyhow::Result<Self> {
        let memory = match memory {
            Memory::Kept => Some(memory_directory()?),
            Memory::Lost => None,
        };
        let recipe = Recipe {
            program: options.program()?,
            coordinator: format!("127.0.0.1:{}", free_port()?),
            node_memory: options.node_memory.clone().unwrap_or(format!("{node_memory_mib}MiB")),
            scratch: Scratch::new("transitions")?,
            memory,
        };
        let admin = format!("127.0.0.1:{}", free_port()?);
        let (node_count, code) = (options.nodes.unwrap_or(8), options.code.as_deref().unwrap_or("rs:4+2"));
        let (nodes, state) = (node_count.to_string(), recipe.scratch.path().join("state").display().to_string());
        let flags = ["--listen", &recipe.coordinator, "--admin", &admin, "--dir", &state];
        let mut command = recipe.command("coordinator", &flags);
        command.args(["--code", code, "--nodes", &nodes]);
        let mut others = vec![Child::spawn("shorttail coordinator", command)?];
        others[0].wait_until(|| Status::get(&admin).is_ok())?;
        let nodes = (0..node_count as usize).map(|id| recipe.node(id)).collect::<anyhow::Result<Vec<_>>>()?;
        let memcached = format!("127.0.0.1:{}", free_port()?);
        let flags = ["--memcached", &memcached, "--redis", "off", "--coordinator", &recipe.coordinator];
        let mut command = recipe.command("gateway", &flags);
        command.args(["--log", "info"]);
        let mut gateway = Child::spawn("shorttail gateway", command)?;
        let log = gateway.take_lines();
        let serves = |status: Status| status.gateways.iter().any(|gateway| gateway.serving);
        gateway.wait_until(|| Status::get(&admin).is_ok_and(serves))?;
        others.push(gateway);
        let running = Running::found(&admin)?;
        let owner_count = Status::get(&admin)?.gateways.iter().map(|gateway| gateway.tenures.len()).sum();
        Ok(Cluster { nodes, _others: others, log, owner_count, running, recipe })
    }

    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Kills nodes at once, starts them again some time after they are gone round, and waits until nothing is missing.
    ///
    /// # Errors
    /// A process does not obey, or a step does not come.
    pub fn fail_and_return(&mut self, victims: &[usize], away: Duration) -> anyhow::Result<Times> {
        while self.log.try_recv().is_ok() {}
        let ids: Vec<u64> = victims.iter().map(|&victim| victim as u64).collect();
        let mut course = Course::new(&ids, self.owner_count);
        let killed = Moment::of(SystemTime::now());
        for &victim in victims {
            self.nodes[victim].kill()?;
        }
        self.await_step(&mut course, Step::GoneRound)?;
        std::thread::sleep(away);
        let started = Moment::of(SystemTime::now());
        for &victim in victims {
            self.nodes[victim] = self.recipe.node(victim)?;
        }
        self.await_step(&mut course, Step::Whole)?;
        course.times(killed, started).context("a step was never told")
    }

    fn await_step(&self, course: &mut Course, step: Step) -> anyhow::Result<()> {
        let deadline = Instant::now() + Duration::from_secs(TRANSITION_SECONDS);
        while course.reached(step).is_none() {
            match self.log.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => _ = Event::parse(&line).map(|event| course.take(event)),
                Err(RecvTimeoutError::Timeout) => {
                    bail!("{step:?} was not told of all nodes within {TRANSITION_SECONDS} s")
                }
                Err(RecvTimeoutError::Disconnected) => bail!("the gateway ended"),
            }
        }
        Ok(())
    }
}

/// In memory, if the system has such a place: a node's memory file is memory.
fn memory_directory() -> anyhow::Result<Scratch> {
    let shared = Path::new("/dev/shm");
    if shared.is_dir() { Scratch::within(shared, "memory") } else { Scratch::new("memory") }
}
