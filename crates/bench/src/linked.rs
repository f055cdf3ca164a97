//! A cluster of which one node is behind a network link of its own: every role by itself, over TCP, and that node in a
//! network namespace.

use std::process::Command;

use anyhow::Context;

use crate::admin::Status;
use crate::child::Child;
use crate::faults::Namespace;
use crate::peers::{ClusterOptions, Running, free_port};
use crate::scratch::Scratch;

/// What the cluster is like.
pub struct Shape<'a> {
    pub nodes: u32,
    pub code: &'a str,
    pub node_memory_mib: u64,
    /// The node in the namespace.
    pub linked: u32,
    /// Further flags of the gateway.
    pub gateway_flags: &'a [String],
}

/// Starts it and waits until its gateway serves.
///
/// # Errors
/// No rights to make a namespace, or a role does not start.
pub fn start(options: &ClusterOptions, shape: &Shape) -> anyhow::Result<(Running, Namespace)> {
    let program = options.program()?;
    let scratch = Scratch::new("linked")?;
    let namespace = Namespace::create().context("a node behind a link of its own")?;
    let here = namespace.machine();
    let (coordinator, admin) = (format!("{here}:{}", free_port()?), format!("127.0.0.1:{}", free_port()?));
    let memory = options.node_memory.clone().unwrap_or(format!("{}MiB", shape.node_memory_mib));
    let command = |role: &str, flags: &[&str]| {
        let mut command = Command::new(&program);
        command.arg(role).args(flags);
        command
    };
    let (nodes, state) = (shape.nodes.to_string(), scratch.path().join("state"));
    let state = state.to_str().context("the temporary directory has no plain name")?;
    let flags = ["--listen", &coordinator, "--admin", &admin, "--dir", state, "--code", shape.code, "--nodes", &nodes];
    let mut children = vec![Child::spawn("shorttail coordinator", command("coordinator", &flags))?];
    children[0].wait_until(|| Status::get(&admin).is_ok())?;
    for node in 0..shape.nodes {
        let id = node.to_string();
        let address = if node == shape.linked { namespace.address() } else { here };
        let listen = format!("{address}:{}", free_port()?);
        let flags = ["--listen", &listen, "--coordinator", &coordinator, "--id", &id, "--memory", &memory];
        let command = match node == shape.linked {
            true => {
                let mut inside = namespace.command(&program);
                inside.arg("node").args(flags);
                inside
            }
            false => command("node", &flags),
        };
        children.push(Child::spawn("shorttail node", command)?);
    }
    let memcached = format!("127.0.0.1:{}", free_port()?);
    let flags = ["--memcached", &memcached, "--redis", "off", "--coordinator", &coordinator];
    let mut command = command("gateway", &flags);
    command.args(shape.gateway_flags);
    let mut gateway = Child::spawn("shorttail gateway", command)?;
    let serves = |status: Status| status.gateways.iter().any(|gateway| gateway.serving && gateway.memcached.is_some());
    gateway.wait_until(|| Status::get(&admin).is_ok_and(serves))?;
    children.push(gateway);
    Ok((Running::of_roles(program, admin, children, scratch)?, namespace))
}
