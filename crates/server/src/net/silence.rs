//! Whether the other end of a silent connection is still there. A machine that vanishes says nothing, so the system
//! asks now and then, and a connection on which nobody answers breaks.
//!
//! Must not know: what is said on it.

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::sockopt;
use shorttail_gateway::limits::KEEPALIVE_S;

/// Milliseconds for which what was said on a control connection may stay unconfirmed: as long as a node may be silent.
/// By itself the system would resend for a quarter of an hour.
const CONTROL_UNCONFIRMED_MS_MAX: u32 = 5_000;

/// The same of a connection that another role began: it asks and may go on to ask, but takes no answer. One that
/// vanished while it is answered would keep what it was sent for as long, as the system asks nothing meanwhile.
const ASKER_UNCONFIRMED_MS_MAX: u32 = 30_000;

/// Who is at the other end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OtherEnd {
    /// Of people and their programs there may be many, far away: asked as rarely as Redis does.
    Client,
    /// A process of this cluster. What is kept for one that is gone may be much, and nothing else ends it.
    Role,
    /// As a role, on a connection that it began.
    Asker,
    /// As a role, on a control connection, on which both ends say something twice a second.
    Control,
}

/// How long nothing is said before the system asks, between two questions, and how many go unanswered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Questions {
    after: Duration,
    every: Duration,
    count: u32,
}

impl OtherEnd {
    /// Has the system watch a TCP connection. Where that cannot be, it stays until somebody says something.
    pub fn watch(self, socket: impl AsFd) {
        let _ = self.questions().put(&socket);
        if let Some(milliseconds) = self.unconfirmed_ms_max() {
            let _ = sockopt::set_tcp_user_timeout(&socket, milliseconds);
        }
    }

    fn unconfirmed_ms_max(self) -> Option<u32> {
        match self {
            OtherEnd::Client | OtherEnd::Role => None,
            OtherEnd::Asker => Some(ASKER_UNCONFIRMED_MS_MAX),
            OtherEnd::Control => Some(CONTROL_UNCONFIRMED_MS_MAX),
        }
    }

    fn questions(self) -> Questions {
        let seconds = Duration::from_secs;
        match self {
            OtherEnd::Client => Questions { after: seconds(KEEPALIVE_S), every: seconds(30), count: 3 },
            OtherEnd::Role | OtherEnd::Asker | OtherEnd::Control => {
                Questions { after: seconds(15), every: seconds(5), count: 3 }
            }
        }
    }
}

impl Questions {
    fn put(self, socket: impl AsFd) -> rustix::io::Result<()> {
        sockopt::set_tcp_keepidle(&socket, self.after)?;
        sockopt::set_tcp_keepintvl(&socket, self.every)?;
        sockopt::set_tcp_keepcnt(&socket, self.count)?;
        sockopt::set_socket_keepalive(&socket, true)
    }
}

#[cfg(test)]
impl OtherEnd {
    /// Is a connection watched as one with this at its other end?
    pub fn is_watched(self, socket: impl AsFd) -> bool {
        let told = Questions {
            after: sockopt::tcp_keepidle(&socket).expect("a TCP socket"),
            every: sockopt::tcp_keepintvl(&socket).expect("a TCP socket"),
            count: sockopt::tcp_keepcnt(&socket).expect("a TCP socket"),
        };
        let unconfirmed_ms_max = sockopt::tcp_user_timeout(&socket).expect("a TCP socket");
        let is_asked = sockopt::socket_keepalive(&socket).expect("a socket") && told == self.questions();
        is_asked && self.unconfirmed_ms_max().is_none_or(|it| it == unconfirmed_ms_max)
    }
}
