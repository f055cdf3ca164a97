//! What a server needs of the machine: limits of the process, and memory.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use shorttail_server::config::Size;

/// Files a process holds besides its connections: listeners, nodes, epoll instances.
const FILES_BESIDES: u64 = 128;

/// Raises the limit of open files so that so many connections fit, as far as the system lets it.
pub fn raise_file_limit(connection_count: usize) {
    let wanted = connection_count as u64 + FILES_BESIDES;
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    if soft >= wanted || setrlimit(Resource::RLIMIT_NOFILE, wanted, hard.max(wanted)).is_ok() {
        return;
    }
    let most = hard.max(soft);
    let raised = setrlimit(Resource::RLIMIT_NOFILE, most.min(wanted), hard);
    if raised.is_err() || most < wanted {
        tracing::warn!(wanted, most, "the system allows fewer open files than connections were asked for");
    }
}

/// What there is to say when `who` may take more memory than the machine has. It is no error: memory is taken as it is
/// needed.
pub fn memory_problem(who: &str, wanted: Size) -> Option<String> {
    memory_problem_of(who, wanted, &std::fs::read_to_string("/proc/meminfo").ok()?)
}

fn memory_problem_of(who: &str, wanted: Size, meminfo: &str) -> Option<String> {
    let there = total_bytes(meminfo).filter(|there| wanted.0 > *there)?;
    let there = crate::status::rounded(there);
    Some(format!("{who} may take {wanted}, and this machine has {there}: once it is full, the system kills processes"))
}

/// All memory of the machine, as the kernel tells it.
fn total_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_memory_than_the_machine_has_is_told() {
        let problem = |bytes| memory_problem_of("the node", Size(bytes), "MemTotal:       1024 kB\nMemFree: 1 kB\n");
        assert_eq!(problem(1 << 20), None, "as much as there is");
        assert!(problem((1 << 20) + 1).is_some_and(|problem| problem.starts_with("the node may take 1048577, and")));
        assert_eq!(memory_problem_of("the node", Size(u64::MAX), "MemFree: 1 kB\n"), None, "not known");
    }
}
