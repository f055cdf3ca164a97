//! Where the members of etcd are. What a name service said last is used until it says something else: while it is away,
//! or this machine starts no thread, those are still asked that are where they were.
//!
//! Must not know: what they are asked.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use ureq::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

use crate::control::STACK_BYTES;
use crate::locks::lock;

/// What was found is looked up again when it is asked for after so long.
const OLD: Duration = Duration::from_secs(5);

/// Addresses that one question may try.
const ADDRESSES_MAX: usize = 16;

type Found = io::Result<Vec<SocketAddr>>;

#[derive(Debug)]
pub struct Names {
    look_up: fn(&str) -> Found,
    places: Mutex<HashMap<String, Place>>,
}

/// Where one name is.
#[derive(Debug, Default)]
struct Place {
    addresses: Vec<SocketAddr>,
    under_way: Option<Receiver<Found>>,
    asked: Option<Instant>,
}

impl Default for Names {
    fn default() -> Self {
        Names { look_up: |name| Ok(name.to_socket_addrs()?.collect()), places: Mutex::default() }
    }
}

impl Names {
    /// `name` is a host and a port. What is known is answered at once, else within this time.
    fn find(&self, name: &str, within: Duration) -> Found {
        if let Ok(address) = name.parse() {
            return Ok(vec![address]);
        }
        let mut places = lock(&self.places);
        let place = places.entry(name.to_owned()).or_default();
        let mut outcome = place.take(Duration::ZERO);
        if place.under_way.is_none() && (place.addresses.is_empty() || place.is_old()) {
            outcome = place.begin(name, self.look_up);
        }
        if place.addresses.is_empty() && place.under_way.is_some() {
            outcome = place.take(within);
        }
        if place.addresses.is_empty() { outcome.map(|()| Vec::new()) } else { Ok(place.addresses.clone()) }
    }
}

impl Place {
    fn is_old(&self) -> bool {
        self.asked.is_none_or(|asked| asked.elapsed() >= OLD)
    }

    fn begin(&mut self, name: &str, look_up: fn(&str) -> Found) -> io::Result<()> {
        self.asked = Some(Instant::now());
        let (done, under_way) = sync_channel(1);
        let name = name.to_owned();
        // Whoever asked may be gone.
        let run = move || _ = done.send(look_up(&name));
        std::thread::Builder::new().name("names".into()).stack_size(STACK_BYTES).spawn(run)?;
        self.under_way = Some(under_way);
        Ok(())
    }

    /// Takes what was found, if it comes within this time.
    fn take(&mut self, within: Duration) -> io::Result<()> {
        let Some(under_way) = &self.under_way else { return Ok(()) };
        let outcome = match under_way.recv_timeout(within) {
            Err(RecvTimeoutError::Timeout) => return Err(io::ErrorKind::TimedOut.into()),
            Err(RecvTimeoutError::Disconnected) => Err(io::Error::other("the look-up ended")),
            Ok(found) => found,
        };
        self.under_way = None;
        let addresses = outcome?;
        if !addresses.is_empty() {
            self.addresses = addresses;
        }
        Ok(())
    }
}

impl Resolver for Names {
    fn resolve(&self, uri: &Uri, config: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let (Some(scheme), Some(authority)) = (uri.scheme(), uri.authority()) else { return Err(Error::HostNotFound) };
        let name = DefaultResolver::host_and_port(scheme, authority).ok_or(Error::HostNotFound)?;
        let found = self.find(&name, *timeout.after).map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut => Error::Timeout(timeout.reason),
            _ => Error::Io(error),
        })?;
        let mut wanted = self.empty();
        config.ip_family().keep_wanted(found.into_iter()).take(ADDRESSES_MAX).for_each(|address| wanted.push(address));
        if wanted.is_empty() { Err(Error::HostNotFound) } else { Ok(wanted) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "etcd-1:2379";

    fn here(_: &str) -> Found {
        Ok(vec![([10, 0, 0, 1], 2379).into()])
    }

    fn silent(_: &str) -> Found {
        loop {
            std::thread::park();
        }
    }

    fn names(look_up: fn(&str) -> Found) -> Names {
        Names { look_up, ..Names::default() }
    }

    #[test]
    fn what_was_found_is_used_while_nobody_says_anything_else() {
        let mut names = names(here);
        let found = names.find(NAME, Duration::MAX).expect("it answers");
        assert_eq!(found, ["10.0.0.1:2379".parse().expect("literal")]);
        for look_up in [silent, |_: &str| Err(io::Error::other("no such name"))] {
            names.look_up = look_up;
            for _ in 0..3 {
                let place = names.places.get_mut().expect("whole").get_mut(NAME).expect("known");
                (place.asked, place.under_way) = (None, None);
                assert_eq!(names.find(NAME, Duration::MAX).expect("nobody is waited for"), found);
            }
        }
        names.look_up = |_| Ok(vec![([10, 0, 0, 2], 2379).into()]);
        let place = names.places.get_mut().expect("whole").get_mut(NAME).expect("known");
        place.begin(NAME, names.look_up).expect("a thread");
        place.take(Duration::MAX).expect("found");
        assert_ne!(names.find(NAME, Duration::ZERO).expect("known"), found);
    }

    #[test]
    fn who_is_not_known_is_waited_for_and_one_look_up_is_under_way_at_a_time() {
        let names = names(silent);
        for _ in 0..2 {
            let error = names.find(NAME, Duration::from_millis(1)).expect_err("nobody knows");
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        }
        let places = names.places.lock().expect("whole");
        assert!(places[NAME].under_way.is_some());
    }

    #[test]
    fn a_number_takes_no_look_up() {
        for literal in ["127.0.0.1:2379", "[::1]:2379"] {
            let found = names(silent).find(literal, Duration::MAX).expect("nobody is asked");
            assert_eq!(found, [literal.parse().expect("literal")]);
        }
    }
}
