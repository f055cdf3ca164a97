//! A network namespace with a link of its own, for one node: its bandwidth can be cut without touching anybody else's.
//!
//! ```text
//! the machine                                 namespace
//!   address(1) --- veth pair, tbf both ways --- address(2)     10.213.x.0/30
//! ```
//!
//! Made and removed by `ip` and `tc` of iproute2. Needs root.

use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::Arc;

use super::execute;
use crate::undo::Undo;

/// Removed when its last copy is dropped.
#[derive(Clone, Debug)]
pub struct Namespace {
    names: Names,
    _removal: Arc<Undo>,
}

#[derive(Clone, Debug)]
struct Names {
    namespace: String,
    /// The machine's end of the link, and the namespace's.
    outer: String,
    inner: String,
    subnet: u8,
}

impl Namespace {
    /// # Errors
    /// No rights, or no iproute2.
    pub fn create() -> anyhow::Result<Self> {
        let number = std::process::id();
        // Names of links have at most 15 characters.
        let [namespace, outer, inner] = ["shorttail-", "sto", "sti"].map(|kind| format!("{kind}{number}"));
        let (names, removal) = Undo::making(|| {
            let names = Names { namespace, outer, inner, subnet: (number % 256) as u8 };
            let removed = names.clone();
            let remove = move || removed.remove();
            match names.make() {
                Ok(()) => Ok((names, remove)),
                Err(error) => {
                    remove();
                    Err(error)
                }
            }
        })?;
        Ok(Namespace { names, _removal: Arc::new(removal) })
    }

    /// The machine's address on the link.
    pub fn machine(&self) -> Ipv4Addr {
        self.names.machine()
    }

    /// The address within the namespace.
    pub fn address(&self) -> Ipv4Addr {
        self.names.address()
    }

    /// A command that runs `program` within the namespace, as the process that is started.
    pub fn command(&self, program: &std::path::Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names.namespace]).arg(program);
        command
    }

    /// Lets no more than this through, each way.
    pub(super) fn limit(&self, bits_per_s: u64) -> anyhow::Result<()> {
        let rate = format!("{bits_per_s}bit");
        // A burst of some full packets; what finds no place within 400 ms of sending is dropped.
        let shape = ["root", "tbf", "rate", &rate, "burst", "16kb", "latency", "400ms"];
        let Names { namespace, outer, inner, .. } = &self.names;
        tc(&[&["qdisc", "replace", "dev", outer], &shape[..]].concat())?;
        tc(&[&["-n", namespace, "qdisc", "replace", "dev", inner], &shape[..]].concat())
    }

    pub(super) fn unlimit(&self) -> anyhow::Result<()> {
        let Names { namespace, outer, inner, .. } = &self.names;
        tc(&["qdisc", "del", "dev", outer, "root"])?;
        tc(&["-n", namespace, "qdisc", "del", "dev", inner, "root"])
    }
}

impl Names {
    fn make(&self) -> anyhow::Result<()> {
        let Names { namespace, outer, inner, .. } = self;
        let (here, there) = (format!("{}/30", self.machine()), format!("{}/30", self.address()));
        ip(&["netns", "add", namespace])?;
        ip(&["link", "add", outer, "type", "veth", "peer", "name", inner, "netns", namespace])?;
        ip(&["address", "add", &here, "dev", outer])?;
        ip(&["link", "set", outer, "up"])?;
        ip(&["-n", namespace, "address", "add", &there, "dev", inner])?;
        ip(&["-n", namespace, "link", "set", inner, "up"])?;
        ip(&["-n", namespace, "link", "set", "lo", "up"])
    }

    fn remove(&self) {
        // The link goes with its namespace, unless the namespace was never made.
        let _ = ip(&["netns", "del", &self.namespace]);
        let _ = ip(&["link", "del", &self.outer]);
    }

    fn machine(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 213, self.subnet, 1)
    }

    fn address(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 213, self.subnet, 2)
    }
}

fn ip(words: &[&str]) -> anyhow::Result<()> {
    let mut command = Command::new("ip");
    command.args(words);
    execute(command)
}

fn tc(words: &[&str]) -> anyhow::Result<()> {
    let mut command = Command::new("tc");
    command.args(words);
    execute(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_another_network_and_its_link_can_be_cut() {
        let namespace = match Namespace::create() {
            Ok(namespace) => namespace,
            Err(error) => {
                assert!(format!("{error:#}").contains("ip "), "{error:#}");
                return crate::faults::tests::say_not_tested("a link of its own", &error);
            }
        };
        let name = namespace.names.namespace.clone();
        let listed = || {
            let output = Command::new("ip").args(["netns", "list"]).output().expect("iproute2");
            String::from_utf8_lossy(&output.stdout).contains(&name)
        };
        let output = namespace.command("ip".as_ref()).args(["-o", "address"]).output().expect("iproute2");
        assert!(String::from_utf8_lossy(&output.stdout).contains(&namespace.address().to_string()));
        namespace.limit(1_000_000).expect("a qdisc");
        let shown =
            Command::new("tc").args(["qdisc", "show", "dev", &namespace.names.outer]).output().expect("iproute2");
        let shown = String::from_utf8_lossy(&shown.stdout);
        assert!(shown.contains("tbf") && shown.contains("rate 1Mbit"), "{shown}");
        namespace.unlimit().expect("the same");
        assert!(listed());
        drop(namespace);
        assert!(!listed());
    }
}
