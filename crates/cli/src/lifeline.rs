//! A child's second line of life: standard input is a pipe from its parent, and its end is the child's end.
//!
//! The first line is the kernel's parent-death signal; this one also works where that was lost.

use std::io::Read;

/// Set by `up` for its children.
pub const VARIABLE: &str = "SHORTTAIL_LIFELINE";
/// The only value that means something.
pub const STDIN: &str = "stdin";

/// The thread only reads.
const STACK_BYTES: usize = 64 << 10;

/// Whether the parent is `up` and asked for it.
pub fn is_wanted() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|value| value == STDIN)
}

/// Ends the process when standard input does, if the parent asked for it.
pub fn hold() -> std::io::Result<()> {
    if !is_wanted() {
        return Ok(());
    }
    let watch = || {
        let mut byte = [0];
        let mut stdin = std::io::stdin().lock();
        loop {
            match stdin.read(&mut byte) {
                Ok(1..) => {}
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => std::process::exit(1),
            }
        }
    };
    std::thread::Builder::new().name("lifeline".into()).stack_size(STACK_BYTES).spawn(watch).map(drop)
}
