//! Keeps what a long-running process occupies to what it uses.
//!
//! Starting a role runs much code once: flags, configuration, registration. Its pages stay mapped and count as resident in
//! every process of a cluster, although they are never run again. They are let go; what is needed comes back from the
//! page cache at the next use.

use std::time::{Duration, Instant};

/// Lets go of startup pages once more when a role has joined its cluster and met its peers: that too was run once.
#[derive(Debug)]
pub struct Settling {
    due: Option<Instant>,
}

/// How long joining takes at the most, by experience with a busy machine.
const SETTLED_AFTER: Duration = Duration::from_secs(5);

impl Settling {
    /// The role begins to serve.
    pub fn begin() -> Self {
        drop_startup_pages();
        Settling { due: Some(Instant::now() + SETTLED_AFTER) }
    }

    /// To be called now and then.
    pub fn check(&mut self) {
        if self.due.is_some_and(|due| Instant::now() >= due) {
            self.due = None;
            drop_startup_pages();
        }
    }
}

/// Lets go of the program text and constants that only the start needed, and of the memory that it gave back to the
/// allocator. Costs some page faults, once.
pub fn drop_startup_pages() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the function may be called at any time; it only gives unused pages of the heap back to the system.
    unsafe {
        libc::malloc_trim(0);
    }
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else { return };
    for line in maps.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [range, permissions, offset, _, _, path] = fields[..] else { continue };
        // A read-only mapping at the front of a file holds constants; later ones may hold relocated pointers.
        let is_pristine = permissions == "r-xp" || permissions == "r--p" && offset.bytes().all(|byte| byte == b'0');
        let Some((start, end)) = range.split_once('-').filter(|_| is_pristine && path.starts_with('/')) else {
            continue;
        };
        if let (Ok(start), Ok(end)) = (usize::from_str_radix(start, 16), usize::from_str_radix(end, 16)) {
            drop_pages(start, end - start);
        }
    }
}

fn drop_pages(start: usize, bytes: usize) {
    // SAFETY: the range is a file-backed mapping without write permission (the caller took it from the list of
    // mappings), so no page of it was ever modified and the kernel reads dropped ones from the file again.
    let result = unsafe {
        rustix::mm::madvise(std::ptr::without_provenance_mut(start), bytes, rustix::mm::Advice::LinuxDontNeed)
    };
    if let Err(error) = result {
        tracing::debug!(%error, "startup pages stay mapped");
    }
}
