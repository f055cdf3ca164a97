//! What a server needs of the machine: limits of the process, and memory.

use std::path::Path;

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
/// Where the system shows control groups.
const CONTROL_GROUPS: &str = "/sys/fs/cgroup";
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
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let of_group = group_bytes(&read("/proc/self/cgroup"), Path::new(CONTROL_GROUPS));
    memory_problem_of(who, wanted, total_bytes(&read("/proc/meminfo")), of_group)
}

fn memory_problem_of(who: &str, wanted: Size, of_machine: Option<u64>, of_group: Option<u64>) -> Option<String> {
    let there =
        [of_machine.map(|there| (there, "this machine has")), of_group.map(|there| (there, "its container has"))];
    let (there, whose) = there.into_iter().flatten().min()?;
    let there = Some(there).filter(|there| wanted.0 > *there).map(crate::status::rounded)?;
    Some(format!("{who} may take {wanted}, and {whose} {there}: once it is full, the system kills processes"))
}

/// What the control groups of this process may use at most, as `/proc/self/cgroup` names them: a group has no more than
/// those above it. In a container the name may be that outside: then there is only the uppermost.
fn group_bytes(groups: &str, mounted: &Path) -> Option<u64> {
    let limits = groups.lines().filter_map(|line| {
        let (controllers, name) = line.split_once(':')?.1.split_once(':')?;
        let is_memory = |controller| controller == "memory";
        match controllers {
            "" => Some((mounted.to_owned(), name, "memory.max")),
            _ if controllers.split(',').any(is_memory) => Some((mounted.join("memory"), name, "memory.limit_in_bytes")),
            _ => None,
        }
    });
    let limits = limits.flat_map(|(root, name, file)| {
        let above = Path::new(name.trim_start_matches('/')).ancestors();
        let read = move |group| std::fs::read_to_string(root.join(group).join(file)).ok();
        above.filter_map(read).collect::<Vec<_>>()
    });
    // Without a limit it is no number, or one beyond all memory.
    limits.filter_map(|limit| limit.trim().parse().ok()).min()
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
        let there = total_bytes("MemTotal:       1024 kB\nMemFree: 1 kB\n");
        let problem = |bytes| memory_problem_of("the node", Size(bytes), there, Some(u64::MAX));
        assert_eq!(problem(1 << 20), None, "as much as there is");
        let told = problem((1 << 20) + 1).expect("more");
        assert!(told.starts_with("the node may take 1048577, and this machine has 1MiB: "), "{told}");
        let told = memory_problem_of("the node", Size(1 << 20), there, Some(1 << 19)).expect("more");
        assert!(told.starts_with("the node may take 1MiB, and its container has 512KiB: "), "{told}");
        assert_eq!(total_bytes("MemFree: 1 kB\n"), None);
        assert_eq!(memory_problem_of("the node", Size(u64::MAX), None, None), None, "not known");
    }

    #[test]
    fn a_container_has_what_the_tightest_group_above_it_may_use() {
        let root = tempfile::tempdir().expect("a directory");
        let put = |group: &str, file: &str, limit: &str| {
            let group = root.path().join(group);
            std::fs::create_dir_all(&group).expect("made");
            std::fs::write(group.join(file), format!("{limit}\n")).expect("written");
        };
        let bytes = |groups: &str| group_bytes(groups, root.path());
        assert_eq!(bytes("0::/a/b\n"), None, "nothing is told");
        put("a/b", "memory.max", "max");
        assert_eq!(bytes("0::/a/b\n"), None, "no limit");
        put("a", "memory.max", "4096");
        assert_eq!(bytes("0::/a/b\n"), Some(4096));
        put("a/b", "memory.max", "8192");
        assert_eq!((bytes("0::/a/b\n"), bytes("0::/\n")), (Some(4096), None));
        put("memory", "memory.limit_in_bytes", "2048");
        assert_eq!(bytes("5:cpu:/a\n4:memory,blkio:/docker/0f\n"), Some(2048), "its name is that outside");
        assert_eq!(bytes("5:cpu:/a\n"), None);
    }
}
