//! That no file is left to connect with is told to people, now and then; what else keeps a connection from being made
//! is not news: it is tried again, and the cluster knows who is gone.
//!
//! Must not know: who is connected with, what for.

use std::io;

use super::Saying;

/// Microseconds between two complaints: each attempt fails until files are there.
const TELL_US: u64 = 60_000_000;

#[derive(Debug, Default)]
pub struct Shortage {
    saying: Saying,
}

impl Shortage {
    /// It could not be done. `whom`: for people.
    pub fn tell(&mut self, now_us: u64, error: &io::Error, whom: std::fmt::Arguments<'_>) {
        if self.is_news(now_us, error) {
            tracing::warn!(%error, "no file is left to connect with {whom}: raise LimitNOFILE (systemd) or ulimit -Hn");
        } else {
            tracing::debug!(%error, "cannot connect with {whom}");
        }
    }

    fn is_news(&mut self, now_us: u64, error: &io::Error) -> bool {
        matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) && self.saying.is_due(now_us, TELL_US)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn that_no_file_is_left_is_told_once_in_a_while() {
        let mut shortage = Shortage::default();
        let mut is_news = |now_us, number| shortage.is_news(now_us, &io::Error::from_raw_os_error(number));
        assert!(!is_news(5, libc::ECONNREFUSED), "it may not listen yet");
        assert!(is_news(5, libc::EMFILE));
        assert!(!is_news(5 + TELL_US - 1, libc::EMFILE) && !is_news(5 + TELL_US - 1, libc::ENFILE));
        assert!(is_news(5 + TELL_US, libc::ENFILE));
    }
}
