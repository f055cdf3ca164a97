//! What one connection is and chose: identity, protocol, authentication, names.
//!
//! Must not know: the requests that are in flight.

use shorttail_wire::resp::Protocol;

use crate::roster::{Facts, Seat};
use crate::session::Settings;

/// State of one connection that commands read and change.
#[derive(Debug)]
pub struct Connection {
    /// Its id, and what others are told of it.
    pub seat: Seat,
    pub protocol: Protocol,
    /// The user that authenticated; `None`: nobody yet, and credentials are asked for.
    pub user: Option<Vec<u8>>,
    pub name: Vec<u8>,
    pub library_name: Vec<u8>,
    pub library_version: Vec<u8>,
    pub no_evict: bool,
    /// Reads do not count as accesses.
    pub no_touch: bool,
    pub replies: WantedReplies,
    /// MULTI came and its end did not: nothing is done.
    pub in_transaction: bool,
}

/// Which replies the client wants to have (CLIENT REPLY).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WantedReplies {
    All,
    None,
    /// None to the request at hand, which says so, nor to the next one.
    NoneToNext,
    /// None to the request at hand.
    NoneToThis,
}

/// The user of connections that need no password, and of AUTH with a password only.
pub const DEFAULT_USER: &[u8] = b"default";

impl Connection {
    pub fn new(seat: Seat, settings: &Settings) -> Self {
        let connection = Connection {
            seat,
            protocol: Protocol::Resp2,
            user: initial_user(settings),
            name: Vec::new(),
            library_name: Vec::new(),
            library_version: Vec::new(),
            no_evict: false,
            no_touch: false,
            replies: WantedReplies::All,
            in_transaction: false,
        };
        connection.tell_others();
        connection
    }

    /// Others see it from now on as it is.
    pub fn tell_others(&self) {
        self.seat.tell(Facts {
            name: self.name.clone(),
            user: self.user.clone().unwrap_or_default(),
            library_name: self.library_name.clone(),
            library_version: self.library_version.clone(),
            no_evict: self.no_evict,
            speaks_resp3: self.protocol == Protocol::Resp3,
        });
    }

    /// The next request is at hand.
    pub fn begin_request(&mut self) {
        self.replies = match self.replies {
            WantedReplies::NoneToNext => WantedReplies::NoneToThis,
            WantedReplies::NoneToThis => WantedReplies::All,
            lasting => lasting,
        };
    }

    /// Is no reply wanted to the request at hand?
    pub fn is_mute(&self) -> bool {
        self.replies != WantedReplies::All
    }

    pub fn authenticated(&self) -> bool {
        self.user.is_some()
    }

    /// RESET: as newly connected.
    pub fn reset(&mut self, settings: &Settings) {
        self.protocol = Protocol::Resp2;
        self.user = initial_user(settings);
        self.name.clear();
        self.no_evict = false;
        self.no_touch = false;
        self.replies = WantedReplies::All;
        self.in_transaction = false;
    }

    /// Becomes `user` if the password is right.
    pub fn authenticate(&mut self, user: &[u8], password: &[u8], settings: &Settings) -> bool {
        let right = if settings.credentials.is_empty() {
            user == DEFAULT_USER
        } else {
            // Every credential is compared, so that the time taken tells nothing.
            settings.credentials.iter().fold(false, |found, credential| {
                found | (same_bytes(&credential.user, user) & same_bytes(&credential.password, password))
            })
        };
        if right {
            self.user = Some(user.to_vec());
        }
        right
    }
}

fn initial_user(settings: &Settings) -> Option<Vec<u8>> {
    settings.credentials.is_empty().then(|| DEFAULT_USER.to_vec())
}

/// Equality in a time that depends on the lengths only.
fn same_bytes(left: &[u8], right: &[u8]) -> bool {
    let difference = left.iter().zip(right).fold(0, |seen, (left, right)| seen | (left ^ right));
    std::hint::black_box(difference) == 0 && left.len() == right.len()
}
