//! Names of coordinators are looked up on a thread of its own: a name service that does not answer keeps nobody from a
//! coordinator that is where it was.

use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use super::client::STACK_BYTES;
use crate::config::{Addresses, Resolver, resolver, with_resolver};

pub struct LookUp {
    resolver: Resolver,
    under_way: Option<Receiver<Addresses>>,
}

impl LookUp {
    /// Asks whom this thread asks.
    pub fn new() -> Self {
        LookUp { resolver: resolver(), under_way: None }
    }

    /// Looks all names up, if there are some and that is not done already.
    pub fn begin(&mut self, coordinators: &Addresses) {
        if self.under_way.is_some() || !coordinators.have_names() {
            return;
        }
        let (done, under_way) = sync_channel(1);
        let (resolver, mut found) = (self.resolver, coordinators.clone());
        let look_up = move || {
            with_resolver(resolver, || found.look_up());
            // The member may have ended.
            let _ = done.send(found);
        };
        // If the system starts no thread now, the addresses are those that are known.
        if std::thread::Builder::new().name("names".into()).stack_size(STACK_BYTES).spawn(look_up).is_ok() {
            self.under_way = Some(under_way);
        }
    }

    /// Takes what was found, for which it waits so long.
    pub fn take(&mut self, coordinators: &mut Addresses, within: Duration) {
        let Some(under_way) = &self.under_way else { return };
        match under_way.recv_timeout(within) {
            Ok(found) => coordinators.take_known(found),
            Err(RecvTimeoutError::Timeout) => return,
            Err(RecvTimeoutError::Disconnected) => {}
        }
        self.under_way = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_service_that_does_not_answer_is_not_waited_for() {
        let first = |_: &str| Ok(vec![([10, 0, 0, 1], 7000).into()]);
        let parse = || "coordinator:7000".parse::<Addresses>().expect("it is known");
        let mut coordinators = with_resolver(first, parse);
        let silent = |_: &str| loop {
            std::thread::park();
        };
        let mut look_up = with_resolver(silent, LookUp::new);
        for _ in 0..2 {
            look_up.begin(&coordinators);
            look_up.take(&mut coordinators, Duration::from_millis(1));
            assert!(look_up.under_way.is_some(), "one is asked at a time");
            assert_eq!(coordinators.0[0].others(), []);
        }
        let moved = |_: &str| Ok(vec![([10, 0, 0, 2], 7000).into()]);
        let mut look_up = with_resolver(moved, LookUp::new);
        look_up.begin(&coordinators);
        look_up.take(&mut coordinators, Duration::MAX);
        assert_eq!(coordinators.0[0].others(), ["10.0.0.2:7000".parse().expect("literal")]);
        assert!(look_up.under_way.is_none());
    }
}
