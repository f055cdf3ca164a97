//! Keeps what a long-running process occupies to what it uses.
//!
//! Starting a role runs much code once: flags, configuration, registration. A busy time touches code and heap that a
//! quiet one does not need. Their pages stay mapped and count as resident in every process of a cluster. They are let
//! go once when a role has started, once when it has met its peers, and whenever it falls quiet; what is needed comes
//! back from the page cache at the next use.

use std::time::{Duration, Instant};

/// Lets go of pages when a role has joined its cluster, and when it falls quiet.
#[derive(Debug)]
pub struct Settling {
    joined: Option<Instant>,
    looked: Instant,
    cpu_us: u64,
    was_busy: bool,
}

/// How long joining takes at the most, by experience with a busy machine.
const JOINED_AFTER: Duration = Duration::from_secs(5);

/// How often it is looked whether the role is busy, and how much CPU time in between makes it so.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const BUSY_CPU_US: u64 = 50_000;

impl Settling {
    /// The role begins to serve.
    pub fn begin() -> Self {
        drop_unused_pages();
        let now = Instant::now();
        Settling { joined: Some(now + JOINED_AFTER), looked: now, cpu_us: cpu_us(), was_busy: false }
    }

    /// To be called now and then.
    pub fn check(&mut self) {
        let now = Instant::now();
        if now.duration_since(self.looked) < LOOK_EVERY {
            return;
        }
        let used_us = cpu_us();
        let is_busy = used_us - self.cpu_us > BUSY_CPU_US;
        let falls_quiet = self.was_busy && !is_busy;
        let has_joined = self.joined.take_if(|joined| *joined <= now).is_some();
        (self.looked, self.cpu_us, self.was_busy) = (now, used_us, is_busy);
        if falls_quiet || has_joined {
            drop_unused_pages();
        }
    }
}

/// CPU time of this process so far.
fn cpu_us() -> u64 {
    crate::clock::cpu_times_us().map_or(0, |(user_us, system_us)| user_us + system_us)
}

/// Lets go of program text and constants, and of the memory that was given back to the allocator.
/// Costs some page faults.
pub fn drop_unused_pages() {
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
        tracing::debug!(%error, "unused pages stay mapped");
    }
}
