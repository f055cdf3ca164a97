//! What /proc says about a process: CPU time and memory. Linux only.

use anyhow::{Context, bail};
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
    fn a_name_with_brackets_and_spaces_is_no_obstacle() {
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        let stat = "7 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20";
        assert_eq!(parse_stat(stat), Some(CpuSeconds { user: 250.0 / ticks, system: 50.0 / ticks }));
        assert_eq!(parse_stat("7 (a) S 1"), None);
    }

    #[test]
    fn this_process_has_memory_and_a_missing_one_is_named() {
        let own = memory(std::process::id()).expect("our own");
        assert!(own.rss_bytes > 0 && own.pss_bytes > 0);
        assert!(cpu(std::process::id()).is_ok());
        assert!(cpu(u32::MAX).expect_err("no such process").to_string().contains("/proc/4294967295/stat"));
    }
}
