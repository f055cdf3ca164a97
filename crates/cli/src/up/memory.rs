//! May the nodes take more memory than the machine has?

use shorttail_server::config::{Size, UpConfig};

/// Says so. It is no error: memory is taken as it is needed.
pub fn warn(config: &UpConfig) {
    let Ok(told) = std::fs::read_to_string("/proc/meminfo") else { return };
    let wanted = config.node_memory.0.saturating_mul(config.node_count as u64);
    if let Some(there) = total_bytes(&told).filter(|there| wanted > *there) {
        eprintln!(
            "shorttail: the nodes may take {} together (--nodes times --node-memory), and this machine has {}: once \
             it is full, the system kills processes",
            Size(wanted),
            crate::status::rounded(there)
        );
    }
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
    fn the_machines_memory_is_what_the_kernel_says() {
        assert_eq!(total_bytes("MemTotal:       24576000 kB\nMemFree: 1 kB\n"), Some(24_576_000 * 1024));
        assert_eq!(total_bytes("MemFree: 1 kB\n"), None);
    }
}
