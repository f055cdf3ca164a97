//! The servers that are measured side by side: memcached, Redis with replicas, and ours; started on free ports.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context;

use crate::admin::Status;
use crate::child::{Child, find_program};
use crate::codec::Protocol;
use crate::faults::Site;
use crate::load::LoadOptions;
use crate::process;
use crate::scratch::Scratch;

/// A store to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum System {
    Memcached,
    Redis,
    Shorttail,
}

impl System {
    pub fn name(self) -> &'static str {
        match self {
            System::Memcached => "memcached",
            System::Redis => "redis",
            System::Shorttail => "shorttail",
        }
    }
}

/// How our own cluster is started.
#[derive(Clone, Debug, clap::Args)]
pub struct ClusterOptions {
    /// The shorttail program [default: this one].
    #[arg(long, value_name = "FILE")]
    pub binary: Option<PathBuf>,
    /// Nodes of the cluster [default: 8, or 10 for `bench memory`].
    #[arg(long)]
    pub nodes: Option<u32>,
    /// Its erasure code [default: rs:4+2, or rs:8+2 for `bench memory`].
    #[arg(long)]
    pub code: Option<String>,
    /// Memory of a node, as `shorttail up` takes it [default: ample].
    #[arg(long)]
    pub node_memory: Option<String>,
    /// Further arguments of `shorttail up`.
    #[arg(long = "up-arg", value_name = "ARG", allow_hyphen_values = true)]
    pub up_args: Vec<String>,
}

impl ClusterOptions {
    /// The shorttail program.
    ///
    /// # Errors
    /// It was not given, and the system does not say which program this is.
    pub fn program(&self) -> anyhow::Result<PathBuf> {
        match &self.binary {
            Some(program) => Ok(program.clone()),
            None => std::env::current_exe().context("cannot find this program"),
        }
    }

    /// Nothing need be evicted: the memory of a node is what the measurement asks for.
    pub fn has_ample_memory(&self) -> bool {
        self.node_memory.is_none()
    }

    /// The same with further arguments of `shorttail up`.
    pub fn with_up_args(&self, more: impl IntoIterator<Item = String>) -> Self {
        let mut options = self.clone();
        options.up_args.extend(more);
        options
    }
}

/// A process of a running system and what it does there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolePid {
    pub role: &'static str,
    pub pid: u32,
}

/// A system that serves; everything it started ends with it.
pub struct Running {
    pub target: String,
    pub protocol: Protocol,
    pub wait_replicas: Option<u32>,
    pub admin: Option<String>,
    pub pids: Vec<RolePid>,
    /// Our own cluster: the program that it runs.
    pub program: Option<PathBuf>,
    _children: Vec<Child>,
    _scratch: Option<Scratch>,
}

impl Running {
    /// One memcached with one thread and the given memory.
    ///
    /// # Errors
    /// It is not installed or does not start.
    pub fn memcached(memory_mib: u64) -> anyhow::Result<Self> {
        let program = find_program("memcached", "memcached")?;
        let port = free_port()?;
        let mut command = Command::new(program);
        command.args(["-t", "1", "-U", "0", "-l", "127.0.0.1", "-c", "16384"]);
        command.args(["-p", &port.to_string(), "-m", &memory_mib.to_string()]);
        if rustix::process::geteuid().is_root() {
            command.args(["-u", "root"]);
        }
        let mut child = Child::spawn("memcached", command)?;
        child.wait_until(|| TcpStream::connect(("127.0.0.1", port)).is_ok())?;
        Ok(Running {
            target: format!("127.0.0.1:{port}"),
            protocol: Protocol::Memcached,
            wait_replicas: None,
            admin: None,
            pids: vec![RolePid { role: "server", pid: child.pid() }],
            program: None,
            _children: vec![child],
            _scratch: None,
        })
    }

    /// A Redis primary with replicas in memory only; writes wait for all of them.
    ///
    /// # Errors
    /// It is not installed or does not start.
    pub fn redis(replicas: u32) -> anyhow::Result<Self> {
        let program = find_program("redis-server", "redis-server")?;
        let scratch = Scratch::new("redis")?;
        let primary_port = free_port()?;
        let mut children = vec![start_redis(&program, scratch.path(), primary_port, None)?];
        for _ in 0..replicas {
            children.push(start_redis(&program, scratch.path(), free_port()?, Some(primary_port))?);
        }
        children[0].wait_until(|| online_replicas(primary_port) == Some(replicas as usize))?;
        let role = |index: usize| if index == 0 { "primary" } else { "replica" };
        let pids = children.iter().enumerate().map(|(index, child)| RolePid { role: role(index), pid: child.pid() });
        Ok(Running {
            target: format!("127.0.0.1:{primary_port}"),
            protocol: Protocol::Redis,
            wait_replicas: (replicas > 0).then_some(replicas),
            admin: None,
            pids: pids.collect(),
            program: None,
            _children: children,
            _scratch: Some(scratch),
        })
    }

    /// Our own cluster, every role a process. `default_shape` is nodes and code, `node_memory_mib` what a node needs.
    ///
    /// # Errors
    /// It does not start, or does not say where it serves.
    pub fn shorttail(
        options: &ClusterOptions,
        default_shape: (u32, &str),
        node_memory_mib: u64,
    ) -> anyhow::Result<Self> {
        let program = options.program()?;
        let scratch = Scratch::new("cluster")?;
        let (memcached, redis, admin) = (free_address()?, free_address()?, free_address()?);
        let nodes = options.nodes.unwrap_or(default_shape.0).to_string();
        let node_memory = options.node_memory.clone().unwrap_or(format!("{node_memory_mib}MiB"));
        let mut command = Command::new(&program);
        command.args(["up", "--nodes", &nodes, "--code", options.code.as_deref().unwrap_or(default_shape.1)]);
        command.args(["--node-memory", &node_memory, "--memcached", &memcached, "--redis", &redis]);
        command.args(["--admin", &admin]).arg("--dir").arg(scratch.path()).args(&options.up_args);
        let mut child = Child::spawn("shorttail up", command)?;
        child.wait_for_line("ready")?;
        let pids = cluster_pids(&Status::get(&admin)?, child.pid());
        Ok(Running {
            target: memcached,
            protocol: Protocol::Memcached,
            wait_replicas: None,
            admin: Some(admin),
            pids,
            program: Some(program),
            _children: vec![child],
            _scratch: Some(scratch),
        })
    }

    /// Our own cluster, made of processes that were started by themselves. Its coordinator must answer already.
    ///
    /// # Errors
    /// Its gateway is not found.
    pub fn of_roles(program: PathBuf, admin: String, children: Vec<Child>, scratch: Scratch) -> anyhow::Result<Self> {
        let mut running = Running::found(&admin)?;
        let known = |pid: u32| running.pids.iter().any(|one| one.pid == pid);
        let rest = children.iter().map(Child::pid).filter(|&pid| !known(pid));
        let rest: Vec<RolePid> = rest.map(|pid| RolePid { role: "control", pid }).collect();
        running.pids.extend(rest);
        (running.program, running._children, running._scratch) = (Some(program), children, Some(scratch));
        Ok(running)
    }

    /// A cluster that somebody else runs: it is only looked at.
    ///
    /// # Errors
    /// Nobody answers at the admin address, or no gateway there speaks memcached or Redis.
    pub fn found(admin: &str) -> anyhow::Result<Self> {
        let status = Status::get(admin)?;
        let memcached = status.gateways.iter().find_map(|gateway| gateway.memcached.clone());
        let redis = || status.gateways.iter().find_map(|gateway| gateway.redis.clone());
        let (target, protocol) = match memcached {
            Some(target) => (target, Protocol::Memcached),
            None => (redis().context("no gateway of the cluster speaks memcached or Redis")?, Protocol::Redis),
        };
        let nodes = status.nodes.iter().map(|node| RolePid { role: "node", pid: node.pid });
        let gateways = status.gateways.iter().map(|gateway| RolePid { role: "gateway", pid: gateway.pid });
        Ok(Running {
            target,
            protocol,
            wait_replicas: None,
            admin: Some(admin.to_owned()),
            pids: nodes.chain(gateways).collect(),
            program: None,
            _children: Vec::new(),
            _scratch: None,
        })
    }

    /// A load of this system, otherwise as without flags.
    pub fn load(&self) -> LoadOptions {
        LoadOptions {
            target: self.target.clone(),
            protocol: self.protocol,
            wait: self.wait_replicas,
            server_pids: self.pids.iter().map(|one| one.pid).collect(),
            ..LoadOptions::with_defaults()
        }
    }

    /// Where to order faults of our own cluster.
    ///
    /// # Errors
    /// It is not ours, or has no admin address.
    pub fn site(&self) -> anyhow::Result<Site> {
        let program = self.program.clone().context("the cluster was started by somebody else")?;
        Ok(Site { program, admin: self.admin.clone().context("the cluster has no admin address")? })
    }

    pub fn role_of(&self, pid: u32) -> &'static str {
        self.pids.iter().find(|one| one.pid == pid).map_or("other", |one| one.role)
    }
}

/// Nodes and gateways as the status names them; the rest of the process tree is control plane.
fn cluster_pids(status: &Status, up: u32) -> Vec<RolePid> {
    let nodes = status.nodes.iter().map(|node| RolePid { role: "node", pid: node.pid });
    let gateways = status.gateways.iter().map(|gateway| RolePid { role: "gateway", pid: gateway.pid });
    let mut pids: Vec<RolePid> = nodes.chain(gateways).collect();
    let tree = std::iter::once(up).chain(process::descendants(up));
    let rest: Vec<u32> = tree.filter(|pid| pids.iter().all(|known| known.pid != *pid)).collect();
    pids.extend(rest.into_iter().map(|pid| RolePid { role: "control", pid }));
    pids
}

fn start_redis(program: &Path, scratch: &Path, port: u16, primary: Option<u16>) -> anyhow::Result<Child> {
    let mut command = Command::new(program);
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    command.args(["--repl-diskless-sync-delay", "0", "--loglevel", "warning", "--maxclients", "16384", "--dir"]);
    command.arg(scratch);
    if let Some(primary) = primary {
        command.args(["--replicaof", &format!("127.0.0.1 {primary}")]);
    }
    let mut child = Child::spawn("redis-server", command)?;
    child.wait_until(|| TcpStream::connect(("127.0.0.1", port)).is_ok())?;
    Ok(child)
}

/// Replicas that a Redis primary has in step; none if it does not answer.
fn online_replicas(port: u16) -> Option<usize> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    stream.write_all(b"INFO replication\r\nQUIT\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer.lines().filter(|line| line.starts_with("slave") && line.contains("state=online")).count())
}

/// A port that was free a moment ago.
pub fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no free port")?;
    Ok(listener.local_addr()?.port())
}

fn free_address() -> anyhow::Result<String> {
    Ok(format!("127.0.0.1:{}", free_port()?))
}
