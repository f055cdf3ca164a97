//! Who of this program runs when: clients that are to be on time soon, what is to disturb nobody last.

use std::io;

use anyhow::ensure;

/// The shortest slice that Linux grants.
const SLICE_NS: u64 = 100_000;

/// The calling thread asks for short slices (Linux 6.12): it gets no more time than before, only sooner. A client's own
/// waiting for a processor would count as the server's time, as it would not if the client had a machine of its own.
/// Older systems take the number and do nothing.
///
/// # Errors
/// What the system says.
pub fn be_punctual() -> io::Result<()> {
    const BYTES: u32 = size_of::<libc::sched_attr>() as u32;
    // SAFETY: numbers only, for which all zeros are valid.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    // SAFETY: the call writes at most so many bytes to the attributes, which live as long; 0 is the calling thread.
    let outcome = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, BYTES, 0) };
    if outcome != 0 {
        return Err(io::Error::last_os_error());
    }
    attributes.sched_runtime = SLICE_NS;
    // SAFETY: the call reads the attributes, which live as long; 0 is the calling thread, and no flags.
    let outcome = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The calling thread runs while nothing else wants to.
///
/// # Errors
/// The system does not let it.
pub fn enter_lowest_class() -> anyhow::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the call reads the parameters, which live as long; 0 is the calling thread.
    let outcome = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) };
    ensure!(outcome == 0, "no lowest scheduling class: {}", io::Error::last_os_error());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_of_the_ordinary_class_may_be_punctual() {
        std::thread::spawn(|| be_punctual().expect("the system allows")).join().expect("no panic");
    }
}
