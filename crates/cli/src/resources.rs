//! What a server needs of the machine: limits of the process, and memory.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use shorttail_server::config::Size;

/// Files a process holds besides its connections: listeners, epoll instances, files of the machine that it reads.
const FILES_BESIDES: u64 = 128;
/// Connections of a thread of a gateway with other roles: with each core of 250 nodes, twice while partitions are
/// handed over, and with the threads of other gateways.
const GATEWAY_THREAD_CONNECTIONS: usize = 1024;
/// Connections of a thread of a node: with the threads of some gateways, twice as well, and with other nodes.
const NODE_THREAD_CONNECTIONS: usize = 256;
/// Files of a node inside the drop-in: listener, epoll instance, memory, both ends of its session.
const INNER_NODE_FILES: usize = 16;
/// Never more open files than this unless they are asked for: no role has as many, even of the largest cluster.
const FILES_MAX: u64 = 1 << 20;

/// Raises the limit of open files for a gateway with so many clients; answers how many it can let in, so that they
/// leave some for nodes.
pub fn allow_gateway_files(client_count: usize, thread_count: usize) -> usize {
    allow_client_files(client_count, thread_count * GATEWAY_THREAD_CONNECTIONS)
}

/// The same for a cluster inside this process: so many sessions of its gateway's threads with nodes.
pub fn allow_inner_files(client_count: usize, session_count: usize) -> usize {
    allow_client_files(client_count, session_count * INNER_NODE_FILES)
}

fn allow_client_files(client_count: usize, role_count: usize) -> usize {
    let files = raise_file_limit(client_count + role_count);
    let most = files.map_or(client_count, |files| client_count_max(files, role_count).min(client_count));
    if most < client_count {
        tracing::warn!(
            wanted = client_count,
            most,
            "fewer clients are let in, so that files are left for nodes: raise LimitNOFILE (systemd) or ulimit -Hn"
        );
    }
    most
}

/// How many clients a process with so many files can let in beside so many connections with other roles; if that is
/// few, either has half.
fn client_count_max(files: u64, role_count: usize) -> usize {
    let left = usize::try_from(files.saturating_sub(FILES_BESIDES)).unwrap_or(usize::MAX);
    left.saturating_sub(role_count).max(left / 2).max(1)
}

/// Raises the limit of open files for a node.
pub fn allow_node_files(thread_count: usize) {
    raise_file_limit(thread_count * NODE_THREAD_CONNECTIONS);
}

/// Raises the limit of open files for a coordinator.
pub fn allow_coordinator_files(node_count: usize, gateway_count: usize) {
    raise_file_limit(node_count + gateway_count);
}

/// As far as the system lets it: there may be more of everything than is foreseen, and a file that is not open costs
/// nothing. Less than for so many connections is said. Answers the limit; `None`: it is not known.
fn raise_file_limit(connection_count: usize) -> Option<u64> {
    let wanted = connection_count as u64 + FILES_BESIDES;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    if hard < wanted && setrlimit(Resource::RLIMIT_NOFILE, wanted, wanted).is_ok() {
        return Some(wanted);
    }
    let most = files_max(wanted, soft, hard);
    let raised = soft == most || setrlimit(Resource::RLIMIT_NOFILE, most, hard).is_ok();
    let most = if raised { most } else { soft };
    if most < wanted {
        tracing::warn!(
            wanted,
            most,
            "the system allows fewer open files than this process may need: raise LimitNOFILE (systemd) or ulimit -Hn"
        );
    }
    Some(most)
}

/// How many files a process may open that wants so many.
fn files_max(wanted: u64, soft: u64, hard: u64) -> u64 {
    hard.min(wanted.max(FILES_MAX)).max(soft)
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
    fn as_many_files_may_be_open_as_the_system_allows() {
        assert_eq!(files_max(400, 1024, 4096), 4096);
        assert_eq!(files_max(20_000, 1024, 4096), 4096, "not enough");
        assert_eq!(files_max(400, 1024, u64::MAX), FILES_MAX);
        assert_eq!(files_max(2 * FILES_MAX, 1024, u64::MAX), 2 * FILES_MAX);
        assert_eq!(files_max(400, 2 * FILES_MAX, u64::MAX), 2 * FILES_MAX, "never less than before");
    }

    #[test]
    fn clients_leave_files_for_nodes() {
        assert_eq!(client_count_max(4096, 1024), 4096 - 128 - 1024);
        assert_eq!(client_count_max(1024, 1024), 448, "half of what is left");
        assert_eq!(client_count_max(64, 1024), 1);
    }

    #[test]
    fn more_memory_than_the_machine_has_is_told() {
        let problem = |bytes| memory_problem_of("the node", Size(bytes), "MemTotal:       1024 kB\nMemFree: 1 kB\n");
        assert_eq!(problem(1 << 20), None, "as much as there is");
        assert!(problem((1 << 20) + 1).is_some_and(|problem| problem.starts_with("the node may take 1048577, and")));
        assert_eq!(memory_problem_of("the node", Size(u64::MAX), "MemFree: 1 kB\n"), None, "not known");
    }
}
