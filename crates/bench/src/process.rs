//! What /proc says about a process: CPU time and memory. Linux only.

use anyhow::{Context, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

/// CPU seconds of a process and all its threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuSeconds {
    pub user: f64,
    pub system: f64,
}

/// Memory of a process, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Resident set: pages shared with others count whole.
    pub rss_bytes: u64,
    /// Proportional set: a page shared by n processes counts 1/n.
    pub pss_bytes: u64,
}

impl CpuSeconds {
    pub fn total(self) -> f64 {
        self.user + self.system
    }

    pub fn plus(self, other: CpuSeconds) -> CpuSeconds {
        CpuSeconds { user: self.user + other.user, system: self.system + other.system }
    }

    pub fn since(self, earlier: CpuSeconds) -> CpuSeconds {
        CpuSeconds { user: self.user - earlier.user, system: self.system - earlier.system }
    }
}

/// CPU time that a process has used so far.
///
/// # Errors
/// There is no such process.
pub fn cpu(pid: u32) -> anyhow::Result<CpuSeconds> {
    let path = format!("/proc/{pid}/stat");
    let stat = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    parse_stat(&stat).with_context(|| format!("{path} is not as proc(5) says"))
}

fn parse_stat(stat: &str) -> Option<CpuSeconds> {
    // The name, in brackets, may hold spaces and brackets; fields 14 and 15 are utime and stime.
    let after_name = &stat[stat.rfind(')')? + 1..];
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    let ticks_per_second = rustix::param::clock_ticks_per_second() as f64;
    let mut seconds = || fields.next()?.parse::<u64>().ok().map(|ticks| ticks as f64 / ticks_per_second);
    Some(CpuSeconds { user: seconds()?, system: seconds()? })
}

/// Memory that a process holds now.
///
/// # Errors
/// There is no such process, or it is not ours to look at.
pub fn memory(pid: u32) -> anyhow::Result<Memory> {
    Ok(Memory { rss_bytes: kib_field(pid, "status", "VmRSS:")?, pss_bytes: kib_field(pid, "smaps_rollup", "Pss:")? })
}

/// Raises the soft limit of open files, as far as the hard one allows, so that `count` connections fit. If they do not,
/// the connection that fails says so.
pub fn allow_files(count: usize) {
    const OTHER_FILES: u64 = 64;
    let wanted = count as u64 + OTHER_FILES;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted) {
        let raised = limit.maximum.map_or(wanted, |maximum| wanted.min(maximum));
        // A refusal leaves the old limit in place.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum: limit.maximum });
    }
}

/// The machine in a line: processor, cores, kernel. Results without it mean little.
pub fn machine() -> String {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ").map(|pair| pair.1));
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{}, {cores} cores, Linux {}", model.unwrap_or("unknown processor"), kernel.trim())
}

/// Processor time that the host gave to others while this machine wanted it, of all processors, so far; in steps of 10
/// ms.
///
/// # Errors
/// The system does not tell.
pub fn stolen_ms() -> anyhow::Result<u64> {
    let stat = std::fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
    parse_stolen_ms(&stat).context("/proc/stat is not as proc(5) says")
}

fn parse_stolen_ms(stat: &str) -> Option<u64> {
    // The first line is of all processors; steal is the eighth number.
    let ticks: u64 = stat.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace().nth(7)?.parse().ok()?;
    Some(ticks * 1000 / rustix::param::clock_ticks_per_second())
}

/// All processes below `root`: its children, theirs, and so on. Those that end meanwhile may be missing.
pub fn descendants(root: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter_map(|pid| Some((pid, parent(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?)))
        .collect();
    let mut found = vec![root];
    let mut next = 0;
    while next < found.len() {
        let above = found[next];
        found.extend(parents.iter().filter(|(_, parent)| *parent == above).map(|(pid, _)| *pid));
        next += 1;
    }
    found.split_off(1)
}

fn parent(stat: &str) -> Option<u32> {
    // The parent is the second field after the name.
    stat[stat.rfind(')')? + 1..].split_ascii_whitespace().nth(1)?.parse().ok()
}

fn kib_field(pid: u32, file: &str, name: &str) -> anyhow::Result<u64> {
    let path = format!("/proc/{pid}/{file}");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let Some(kib) = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()) else {
        bail!("{path} has no {name}");
    };
    Ok(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_of_all_processors() {
        let stat = "cpu  2067388 381551 737961 1645733 5526 0 89149 11287 3 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        assert_eq!(parse_stolen_ms(stat), Some(11_287 * 1000 / rustix::param::clock_ticks_per_second()));
        assert_eq!(parse_stolen_ms("cpu  1 2 3\n"), None);
        stolen_ms().expect("Linux tells");
    }

    #[test]
    fn a_name_with_brackets_and_spaces_is_no_obstacle() {
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        let stat = "7 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20";
        assert_eq!(parse_stat(stat), Some(CpuSeconds { user: 250.0 / ticks, system: 50.0 / ticks }));
        assert_eq!(parse_stat("7 (a) S 1"), None);
    }

    #[test]
    fn grandchildren_are_found() {
        // The shell's child is a shell whose child is the sleep.
        let mut shell = std::process::Command::new("/bin/sh")
            .args(["-c", "(sleep 1000; true) & echo; wait"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("a shell");
        let mut line = [0; 1];
        std::io::Read::read_exact(shell.stdout.as_mut().expect("piped"), &mut line).expect("it says so");
        let below = descendants(shell.id());
        assert!(!below.is_empty());
        assert!(descendants(std::process::id()).contains(&below[0]));
        for pid in descendants(shell.id()).into_iter().rev().chain([shell.id()]) {
            let pid = rustix::process::Pid::from_raw(i32::try_from(pid).expect("a pid")).expect("not 0");
            // The inner ones may have ended with their children.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        shell.wait().expect("our child");
    }

    #[test]
    fn this_process_has_memory_and_a_missing_one_is_named() {
        let own = memory(std::process::id()).expect("our own");
        assert!(own.rss_bytes > 0 && own.pss_bytes > 0);
        assert!(cpu(std::process::id()).is_ok());
        assert!(cpu(u32::MAX).expect_err("no such process").to_string().contains("/proc/4294967295/stat"));
    }
}
