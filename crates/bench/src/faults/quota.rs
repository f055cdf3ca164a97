//! A process that gets only a share of a processor: a control group of its own with a CPU bandwidth.
//!
//! Both versions of control groups are known: version 1 where it has the controller `cpu` mounted, otherwise version 2
//! where `cpu` is among the root's controllers. Needs root.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, bail, ensure};

use crate::undo::Undo;

const V1: &str = "/sys/fs/cgroup/cpu";
const V2: &str = "/sys/fs/cgroup";

/// The kernel's usual period. A share of 5 % is 5 ms of running and then up to 95 ms of waiting.
const PERIOD_US: u64 = 100_000;
/// The least quota that the kernel takes.
const QUOTA_US_MIN: u64 = 1_000;

pub struct Quota {
    group: PathBuf,
    _removal: Undo,
}

impl Quota {
    /// Gives the process and all its threads at most `share` of a processor until this is dropped.
    pub fn begin(pid: u32, share: f64) -> anyhow::Result<Self> {
        ensure!(share > 0.0 && share.is_finite(), "a quota of {share} is none");
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("shorttail-bench-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let quota_us = ((share * PERIOD_US as f64) as u64).max(QUOTA_US_MIN);
        let is_v1 = Path::new(V1).join("cpu.cfs_quota_us").is_file() || Path::new(V1).join("tasks").is_file();
        let group = Path::new(if is_v1 { V1 } else { V2 }).join(name);
        if !is_v1 {
            let controllers = fs::read_to_string(Path::new(V2).join("cgroup.controllers")).unwrap_or_default();
            if !controllers.split_ascii_whitespace().any(|controller| controller == "cpu") {
                bail!("this machine has no control groups with the controller cpu");
            }
            // Already so, or the group's own file will be missing and say it.
            let _ = fs::write(Path::new(V2).join("cgroup.subtree_control"), "+cpu");
        }
        let (group, removal) = Undo::making(|| {
            fs::create_dir(&group).with_context(|| format!("cannot create the control group {}", group.display()))?;
            let removed = group.clone();
            Ok((group, move || remove(&removed, pid)))
        })?;
        let quota = Quota { group, _removal: removal };
        if is_v1 {
            quota.put("cpu.cfs_period_us", PERIOD_US)?;
            quota.put("cpu.cfs_quota_us", quota_us)?;
        } else {
            quota.put("cpu.max", format!("{quota_us} {PERIOD_US}"))?;
        }
        quota.put("cgroup.procs", pid)?;
        Ok(quota)
    }

    fn put(&self, file: &str, value: impl ToString) -> anyhow::Result<()> {
        let path = self.group.join(file);
        fs::write(&path, value.to_string()).with_context(|| format!("cannot write {}", path.display()))
    }
}

fn remove(group: &Path, pid: u32) {
    // Back to the root group; a process that has ended is in none. An empty group can be removed.
    if let Some(root) = group.parent() {
        let _ = fs::write(root.join("cgroup.procs"), pid.to_string());
    }
    let _ = fs::remove_dir(group);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_in_its_group_until_the_end() {
        let mut sleeper = std::process::Command::new("sleep").arg("1000").spawn().expect("sleep");
        let groups = |pid: u32| fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("it lives");
        match Quota::begin(sleeper.id(), 0.05) {
            Ok(quota) => {
                let group = quota.group.clone();
                let name = group.file_name().expect("named").to_string_lossy().into_owned();
                assert!(groups(sleeper.id()).contains(&name));
                drop(quota);
                assert!(!groups(sleeper.id()).contains(&name) && !group.exists());
            }
            Err(error) => {
                assert!(error.to_string().contains("control group"), "{error:#}");
                crate::faults::tests::say_not_tested("a share of a processor", &error);
            }
        }
        sleeper.kill().expect("ours");
        sleeper.wait().expect("ours");
        assert!(Quota::begin(1, 0.0).is_err());
    }
}
