//! Keeps what a long-running process occupies to what it uses.
//!
//! Starting a role runs much code once: flags, configuration, registration. Its pages stay mapped and count as resident in
//! every process of a cluster, although they are never run again. They are let go; what is needed comes back from the
//! page cache at the next use.

/// Lets go of the program text and constants that only the start needed. Costs some page faults, once.
pub fn drop_startup_pages() {
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
