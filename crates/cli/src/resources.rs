//! Limits of the process that a server needs raised.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

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
