//! Keeps what a long-running process occupies to what it uses.
//!
//! Starting a role runs much code once: flags, configuration, registration. A busy time touches code and heap that a
//! quiet one does not need. Their pages stay mapped and count as resident in every process of a cluster. They are let
//! go once when a role has started, once when it has met its peers, and whenever it falls quiet; what is needed comes
//! back from the page cache at the next use.

use std::ffi::CStr;
use std::ops::Range;
use std::time::{Duration, Instant};

use rustix::time::ClockId;

use crate::clock;

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

/// How often it is looked whether the role is busy, and how much CPU time in between makes it so: a gateway that nobody
/// asks anything talks to its nodes for up to a third of that.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const BUSY_CPU_US: u64 = 100_000;

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
        let is_busy = used_us.saturating_sub(self.cpu_us) > BUSY_CPU_US;
        let falls_quiet = self.was_busy && !is_busy;
        let has_joined = self.joined.take_if(|joined| *joined <= now).is_some();
        (self.looked, self.cpu_us, self.was_busy) = (now, used_us, is_busy);
        if falls_quiet || has_joined {
            drop_unused_pages();
        }
    }
}

/// So many threads have heaps of their own: those that begin later share them, as each would keep some of what it once
/// had. What a thread had that ended the next one gets.
pub fn share_heaps(threads: usize) {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call only changes how the allocator goes about its work.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, i32::try_from(threads).unwrap_or(i32::MAX));
    }
}

/// CPU time of this process so far. Read every second, so it is not read from a file: that code would stay resident.
fn cpu_us() -> u64 {
    u64::try_from(clock::read(ClockId::ProcessCPUTime).as_micros()).unwrap_or(u64::MAX)
}

/// Lets go of program text and constants, and of the memory that was given back to the allocator.
/// Costs some page faults.
pub fn drop_unused_pages() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the function may be called at any time; it only gives unused pages of the heap back to the system.
    unsafe {
        libc::malloc_trim(0);
    }
    let mut ranges: Vec<Range<usize>> = Vec::new();
    // SAFETY: the callback is called before this returns, with the pointer to `ranges`, which nobody else uses
    // meanwhile.
    unsafe { libc::dl_iterate_phdr(Some(note_read_only_segments), (&raw mut ranges).cast()) };
    // First all are known, then they go: the kernel brings back 64 KiB around whatever runs in between.
    ranges.into_iter().for_each(drop_pages);
}

/// Adds what the program, or one of its libraries, has mapped of its file without permission to write.
///
/// # Safety
/// `ranges` points to a vector of address ranges that nobody else uses; `info` is what the dynamic linker says.
unsafe extern "C" fn note_read_only_segments(
    info: *mut libc::dl_phdr_info,
    _: libc::size_t,
    ranges: *mut libc::c_void,
) -> libc::c_int {
    // SAFETY: promised by the caller; the dynamic linker's facts hold while it calls.
    let (info, ranges) = unsafe { (&*info, &mut *ranges.cast::<Vec<Range<usize>>>()) };
    // SAFETY: the name is null or ends with a zero.
    let name: &[u8] = if info.dlpi_name.is_null() { &[] } else { unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes() };
    // The program itself has no name. What the kernel maps into every process is not of a file, and its name no path.
    if info.dlpi_phdr.is_null() || !(name.is_empty() || name.starts_with(b"/")) {
        return 0;
    }
    // SAFETY: so many headers are there.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    for header in headers.iter().filter(|header| header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_W == 0) {
        let start = (info.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
        ranges.push(start..start + header.p_memsz as usize);
    }
    0
}

fn drop_pages(range: Range<usize>) {
    // Whole pages: what a segment shares with its neighbour stays.
    let page_bytes = rustix::param::page_size();
    let (start, end) = (range.start.next_multiple_of(page_bytes), range.end / page_bytes * page_bytes);
    // SAFETY: the range lies in a segment that is mapped from a file without permission to write (the caller took it
    // from the dynamic linker's list; relocated pointers are in segments with that permission), so no page of it was
    // ever modified and the kernel reads dropped ones from the file again.
    let result = unsafe {
        let pages = std::ptr::without_provenance_mut(start);
        rustix::mm::madvise(pages, end.saturating_sub(start), rustix::mm::Advice::LinuxDontNeed)
    };
    if let Err(error) = result {
        tracing::debug!(%error, "unused pages stay mapped");
    }
}
