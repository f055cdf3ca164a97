//! Who was not let in, or cannot be told what it is to know: said in the log, so that the operator need not look for it
//! at the member.
//!
//! A member that is refused comes again every few seconds: the same of the same member is said once in a while.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use shorttail_wire::control::{CONTROL_PROTOCOL_VERSION, ControlFrameError, Refusal, ToCoordinator};

/// The same is said again after this long.
const TOLD_AGAIN_AFTER: Duration = Duration::from_secs(60);
/// Of so many it is remembered: then the oldest is forgotten, and said again too early.
const TOLD_MAX: usize = 256;

/// Who was refused and has not come again for so long is gone: members come every second or two.
const GONE_AFTER: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub struct TurnedAway {
    /// What was said lately, the oldest first.
    told: Vec<(String, Instant)>,
    /// Members of another cluster, and when they came last.
    strangers: BTreeMap<String, Instant>,
}

impl TurnedAway {
    /// `from`: the other end of its connection; `member`: what it says it is.
    pub fn tell(&mut self, now: Instant, from: &str, member: &str, why: &str) {
        if self.is_to_be_told(now, format!("{member}: {why}")) {
            tracing::warn!("{member} (from {from}) is not let in: {why}");
        }
    }

    /// What it must know cannot be said.
    pub fn tell_unsendable(&mut self, now: Instant, from: &str, member: &str, error: ControlFrameError) {
        // The length varies.
        if self.is_to_be_told(now, format!("{member}: unsendable")) {
            tracing::error!(
                "the connection of {member} (from {from}) is closed, as it cannot be told what it is to know: {error}"
            );
        }
    }

    /// There are as many connections as are taken.
    pub fn tell_crowd(&mut self, now: Instant, limit: usize) {
        if self.is_to_be_told(now, "crowd".to_owned()) {
            tracing::warn!("more than {limit} control connections: those beyond are turned away");
        }
    }

    fn is_to_be_told(&mut self, now: Instant, what: String) -> bool {
        self.told.retain(|(_, at)| now.saturating_duration_since(*at) < TOLD_AGAIN_AFTER);
        if self.told.iter().any(|(told, _)| *told == what) {
            return false;
        }
        if self.told.len() == TOLD_MAX {
            self.told.remove(0);
        }
        self.told.push((what, now));
        true
    }

    /// A member is of another cluster.
    pub fn note_stranger(&mut self, now: Instant, member: &str) {
        self.strangers.retain(|_, at| now.saturating_duration_since(*at) < GONE_AFTER);
        if self.strangers.len() < TOLD_MAX {
            self.strangers.insert(member.to_owned(), now);
        }
    }

    /// Members of another cluster that ask to be let in, in words.
    pub fn strangers_problem(&self, now: Instant) -> Option<String> {
        let here = self.strangers.iter().filter(|(_, at)| now.saturating_duration_since(**at) < GONE_AFTER);
        let names: Vec<&str> = here.map(|(name, _)| name.as_str()).collect();
        let (first, others) = names.split_first()?;
        let others = if others.is_empty() { String::new() } else { format!(" and {} others", others.len()) };
        Some(format!(
            "{first}{others} cannot be let in: they belong to another cluster. If it is this one, its coordinator lost the \
             metadata: start it with what it had before; else give them the address of their own"
        ))
    }
}

/// What a registration says of who sends it; `None`: it is none.
pub fn name_of(message: &ToCoordinator) -> Option<String> {
    match message {
        ToCoordinator::RegisterNode(node) => {
            let id = node.session.map(|session| session.node_id.0).or(node.wanted_id);
            let name = id.map_or_else(|| "a new node".to_owned(), |id| format!("node {id}"));
            Some(format!("{name} at {}", node.address))
        }
        ToCoordinator::RegisterGateway(gateway) => {
            let name = gateway.session.map(|session| format!("gateway {}", session.gateway_id));
            let place = gateway.forward.as_ref().map(|address| format!(" at {address}")).unwrap_or_default();
            Some(name.unwrap_or_else(|| "a new gateway".to_owned()) + &place)
        }
        _ => None,
    }
}

/// Why a member is not let in, as the coordinator sees it; `None`: it is to ask another coordinator.
pub fn why_refused(refusal: &Refusal) -> Option<String> {
    match refusal {
        Refusal::NotLeading(_) => None,
        Refusal::OtherCluster(_) => Some("what it holds is of another cluster".to_owned()),
        refusal => Some(refusal.to_string()),
    }
}

/// Why what a connection brings is not read.
pub fn why_foreign(error: ControlFrameError) -> String {
    match error {
        ControlFrameError::Version(version) => format!(
            "it speaks version {version} of the control protocol, and this coordinator version \
             {CONTROL_PROTOCOL_VERSION}; start one of the two with the version of the other"
        ),
        error => format!("{error}; it may be of a version that is older than refusals in words, or no member at all"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::tests::registration;

    #[test]
    fn the_same_is_said_once_in_a_while() {
        let (mut told, now) = (TurnedAway::default(), Instant::now());
        assert!(told.is_to_be_told(now, "node 1: taken".into()) && !told.is_to_be_told(now, "node 1: taken".into()));
        assert!(told.is_to_be_told(now, "node 2: taken".into()));
        assert!(told.is_to_be_told(now + TOLD_AGAIN_AFTER, "node 1: taken".into()));
        for number in 0..2 * TOLD_MAX {
            assert!(told.is_to_be_told(now, number.to_string()));
        }
        assert_eq!(told.told.len(), TOLD_MAX);
    }

    #[test]
    fn members_of_another_cluster_are_a_problem_while_they_come() {
        let (mut turned, now) = (TurnedAway::default(), Instant::now());
        assert_eq!(turned.strangers_problem(now), None);
        turned.note_stranger(now, "node 1");
        let problem = turned.strangers_problem(now).expect("one is there");
        assert!(problem.starts_with("node 1 cannot be let in: they belong to another cluster"), "{problem}");
        (0..2 * TOLD_MAX).for_each(|number| turned.note_stranger(now + GONE_AFTER / 2, &format!("node {number}")));
        let problem = turned.strangers_problem(now + GONE_AFTER).expect("many are there");
        assert!(problem.starts_with("node 0 and "), "{problem}");
        assert_eq!(turned.strangers_problem(now + GONE_AFTER * 2), None, "nobody came again");
        assert_eq!(turned.strangers.len(), TOLD_MAX);
        turned.note_stranger(now + GONE_AFTER * 2, "gateway 3");
        assert_eq!(turned.strangers.len(), 1, "nobody else is remembered");
    }

    #[test]
    fn a_member_is_named_with_its_number_and_address() {
        let name = name_of(&ToCoordinator::RegisterNode(registration(3)));
        assert_eq!(name.as_deref(), Some("node 3 at 127.0.0.1:7003"));
        assert_eq!(name_of(&ToCoordinator::ReadStatus), None);
        let versions = why_foreign(ControlFrameError::Version(CONTROL_PROTOCOL_VERSION + 1));
        for version in [CONTROL_PROTOCOL_VERSION, CONTROL_PROTOCOL_VERSION + 1] {
            assert!(versions.contains(&format!("version {version}")), "{versions}");
        }
    }
}
