//! Faults that a measurement brings about in a running cluster, and takes back.
//!
//! ```text
//! Chaos   shorttail chaos slow 3 --delay 50ms     the cluster's own injection
//! Duty    SIGSTOP, wait, SIGCONT, wait, ...       by process id
//! Quota   CPU bandwidth of a control group        by process id
//! Link    tbf on the node's own link              by network namespace, see `namespace`
//! ```
//!
//! Whatever is started ends when its guard is dropped; if a signal ends the program, all but what was asked of the
//! cluster itself does. Must not know: what is measured meanwhile.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};

mod duty;
mod namespace;
mod quota;

use duty::Duty;
pub use namespace::Namespace;
use quota::Quota;

/// What goes wrong.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// Words of `shorttail chaos`; the nodes are put after the first.
    Chaos(Vec<String>),
    /// Stopped for the first time, running for the second, and so on.
    Duty(Duration, Duration),
    /// Share of one processor.
    Quota(f64),
    /// Bits a second of the link.
    Link(u64),
}

/// Whom it befalls.
#[derive(Clone, Debug)]
pub struct Victim {
    /// As `shorttail chaos` takes it: a number, or all.
    pub nodes: String,
    pub pid: u32,
    pub namespace: Option<Namespace>,
}

/// Where the cluster is, for its own injection.
#[derive(Clone, Debug)]
pub struct Site {
    pub program: PathBuf,
    pub admin: String,
}

/// A fault that lasts until this is dropped.
pub enum Guard {
    Chaos { site: Site, nodes: String },
    Duty(#[expect(dead_code, reason = "dropped to end it")] Duty),
    Quota(#[expect(dead_code, reason = "dropped to end it")] Quota),
    Link(Namespace),
}

impl Fault {
    /// `slow NODE --delay N ms` of the cluster's own injection.
    pub fn slow(delay_ms: u64) -> Self {
        Fault::Chaos(vec!["slow".to_owned(), "--delay".to_owned(), format!("{delay_ms}ms")])
    }

    /// Begins. It is in effect when this returns.
    ///
    /// # Errors
    /// The machine lacks what it needs (control groups, namespaces, rights), or the cluster refuses.
    pub fn begin(&self, site: &Site, victim: &Victim) -> anyhow::Result<Guard> {
        match self {
            Fault::Chaos(words) => {
                let (verb, flags) = words.split_first().context("chaos without a verb")?;
                let words: Vec<&str> =
                    [verb.as_str(), &victim.nodes].into_iter().chain(flags.iter().map(String::as_str)).collect();
                chaos(site, &words)?;
                Ok(Guard::Chaos { site: site.clone(), nodes: victim.nodes.clone() })
            }
            Fault::Duty(stopped, running) => Ok(Guard::Duty(Duty::begin(victim.pid, *stopped, *running)?)),
            Fault::Quota(share) => Ok(Guard::Quota(Quota::begin(victim.pid, *share)?)),
            Fault::Link(bits_per_s) => {
                let namespace = victim.namespace.clone().context("this node has no link of its own")?;
                namespace.limit(*bits_per_s)?;
                Ok(Guard::Link(namespace))
            }
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let ended = match self {
            Guard::Chaos { site, nodes } => chaos(site, &["clear", nodes]),
            Guard::Link(namespace) => namespace.unlimit(),
            Guard::Duty(_) | Guard::Quota(_) => Ok(()),
        };
        if let Err(error) = ended {
            // The cluster may have been stopped already; the measurement is over anyway.
            eprintln!("a fault could not be taken back: {error:#}");
        }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::Chaos(words) => write!(f, "chaos {}", words.join(" ")),
            Fault::Duty(stopped, running) => {
                write!(f, "SIGSTOP {} ms / SIGCONT {} ms", stopped.as_millis(), running.as_millis())
            }
            Fault::Quota(share) => write!(f, "CPU quota {:.0} %", 100.0 * share),
            Fault::Link(bits_per_s) => write!(f, "tbf {:.1} Mbit/s", *bits_per_s as f64 / 1e6),
        }
    }
}

fn chaos(site: &Site, words: &[&str]) -> anyhow::Result<()> {
    let mut command = Command::new(&site.program);
    command.args(["chaos", "--admin", &site.admin]).args(words);
    execute(command)
}

/// Runs a program to its end.
fn execute(mut command: Command) -> anyhow::Result<()> {
    let shown = format!("{command:?}").replace('"', "");
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {shown}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{shown}: {}", said.trim());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What this machine lacks to test; past the harness, which keeps for itself what a test that passes prints.
    pub(super) fn say_not_tested(what: &str, why: &anyhow::Error) {
        let told = format!("\nnot tested here: {what}: {why:#}\n");
        std::io::Write::write_all(&mut std::io::stderr(), told.as_bytes()).expect("told");
    }

    fn site(program: &str) -> Site {
        Site { program: program.into(), admin: "127.0.0.1:1".to_owned() }
    }

    fn victim(pid: u32) -> Victim {
        Victim { nodes: "3".to_owned(), pid, namespace: None }
    }

    #[test]
    fn the_cluster_is_told_which_node_and_told_again_at_the_end() {
        let log = std::env::temp_dir().join(format!("shorttail-bench-chaos-{}", std::process::id()));
        let script = log.with_extension("sh");
        // By another process: a program that this one writes cannot run while any of its threads starts a child, who
        // has the file open for writing until it is another program.
        let text = format!("#!/bin/sh\necho \"$@\" >> {}\n", log.display());
        let write = "printf %s \"$1\" > \"$0\" && chmod 700 \"$0\"";
        let status = Command::new("sh").args(["-c", write]).arg(&script).arg(text).status();
        assert!(status.expect("sh runs").success(), "a file");
        drop(Fault::slow(50).begin(&site(script.to_str().expect("ascii")), &victim(1)).expect("it obeys"));
        let said = std::fs::read_to_string(&log).expect("written");
        std::fs::remove_file(&log).expect("ours");
        std::fs::remove_file(&script).expect("ours");
        assert_eq!(said, "chaos --admin 127.0.0.1:1 slow 3 --delay 50ms\nchaos --admin 127.0.0.1:1 clear 3\n");
    }

    #[test]
    fn a_refusal_and_a_missing_link_are_told() {
        let refused = Fault::slow(50).begin(&site("/bin/false"), &victim(1)).map(|_| ()).expect_err("refused");
        assert!(refused.to_string().contains("slow 3"), "{refused}");
        let missing = Fault::Link(1).begin(&site("/bin/true"), &victim(1)).map(|_| ()).expect_err("no link");
        assert!(missing.to_string().contains("link"), "{missing}");
    }
}
