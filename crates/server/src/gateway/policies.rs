//! Policies of the partitions: where a change arrives, and how it reaches the cores.
//!
//! ```text
//! coordinator --order--> control thread --ToCore::Policies--> every core
//!             <--answer--                <------------done----
//! ```
//!
//! What was changed is forgotten with the process: a gateway begins with what its flags say. So it is when the
//! configuration is read again and says something else of policies than before.
//!
//! Must not know: what a technique does.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use shorttail_policy::Policy;
use shorttail_units::PartitionId;
use shorttail_wire::control::{PolicyOrder, PolicySpan};

use super::ToCore;
use crate::locks::lock;
use crate::net::Outlet;

/// For all cores: a core's loop never waits for anything else than its events, and whoever waits here hears and says
/// nothing meanwhile of what keeps this gateway alive.
const CORES_ANSWER_WITHIN: Duration = Duration::from_millis(500);

/// Policies for a core, which says when they are in force.
#[derive(Debug)]
pub struct NewPolicies {
    pub changed: Arc<[(PartitionId, Policy)]>,
    pub done: Sender<()>,
}

/// The policies that are in force, and the cores once they run.
#[derive(Clone, Debug, Default)]
pub struct PolicyDesk {
    open: Arc<Mutex<Open>>,
}

#[derive(Debug, Default)]
struct Open {
    /// By partition; empty: the gateway does not serve yet.
    policies: Vec<Policy>,
    cores: Vec<Outlet<ToCore>>,
}

impl PolicyDesk {
    /// The gateway serves: every partition has this policy.
    pub fn open(&self, policy: Policy, partition_count: u16, cores: Vec<Outlet<ToCore>>) {
        *lock(&self.open) = Open { policies: vec![policy; usize::from(partition_count)], cores };
    }

    pub fn spans(&self) -> Vec<PolicySpan> {
        PolicySpan::all(&lock(&self.open).policies)
    }

    /// Changes policies; in force everywhere when this returns. What they are now, for people.
    ///
    /// # Errors
    /// Why nothing was changed, or not everywhere.
    pub fn obey(&self, order: PolicyOrder) -> Result<String, String> {
        let mut open = lock(&self.open);
        let wanted = |partition: u16| order.partition.is_none_or(|only| only == partition);
        let policies = (0..).zip(&open.policies).filter(|(partition, _)| wanted(*partition));
        let changed: Arc<[(PartitionId, Policy)]> =
            policies.map(|(partition, policy)| (PartitionId(partition), order.change.apply(*policy))).collect();
        let Some((_, example)) = changed.first().copied() else {
            return Err(
                if open.policies.is_empty() { "it does not serve yet" } else { "it has no such partition" }.into()
            );
        };
        let told = open.change(&changed);
        drop(open);
        told.wait()?;
        let who = match order.partition {
            Some(partition) => format!("partition {partition}"),
            None => "all partitions".to_owned(),
        };
        tracing::info!(%who, policy = %example, "policy changed");
        let is_same = changed.iter().all(|(_, policy)| *policy == example);
        Ok(if is_same { format!("{who}: {example}") } else { format!("{who}: changed, each as it was otherwise") })
    }

    /// The configuration was read again: every partition has this policy.
    pub fn replace(&self, policy: Policy) {
        let told = {
            let mut open = lock(&self.open);
            let all = 0..u16::try_from(open.policies.len()).expect("partitions are counted in 16 bits");
            open.change(&all.map(|partition| (PartitionId(partition), policy)).collect())
        };
        if let Err(problem) = told.wait() {
            tracing::warn!(problem, "policies may not be in force yet");
        }
    }
}

impl Open {
    fn change(&mut self, changed: &Arc<[(PartitionId, Policy)]>) -> Told {
        for &(partition, policy) in changed.iter() {
            self.policies[usize::from(partition.0)] = policy;
        }
        let (done, answers) = channel();
        for core in &self.cores {
            core.send(ToCore::Policies(NewPolicies { changed: Arc::clone(changed), done: done.clone() }));
        }
        Told { answers, core_count: self.cores.len() }
    }
}

/// Cores that are to say when what they were told is in force.
struct Told {
    answers: Receiver<()>,
    core_count: usize,
}

impl Told {
    /// Not with the lock held: others ask what is in force.
    fn wait(self) -> Result<(), &'static str> {
        let until = Instant::now() + CORES_ANSWER_WITHIN;
        (0..self.core_count).try_for_each(|_| {
            let left = until.saturating_duration_since(Instant::now());
            self.answers.recv_timeout(left).map_err(|_| "a core does not answer")
        })
    }
}

#[cfg(test)]
mod tests {
    use shorttail_policy::{Change, PolicyName};

    use super::*;

    fn order(partition: Option<u16>, name: PolicyName) -> PolicyOrder {
        PolicyOrder { partition, change: Change { policy: Some(name), ..Change::default() } }
    }

    #[test]
    fn a_gateway_that_does_not_serve_has_no_policies() {
        let desk = PolicyDesk::default();
        assert_eq!(desk.obey(order(None, PolicyName::Llf)), Err("it does not serve yet".into()));
        assert_eq!(desk.spans(), []);
    }

    #[test]
    fn one_partition_is_changed_or_all() {
        let desk = PolicyDesk::default();
        desk.open(Policy::default(), 4, Vec::new());
        let said = desk.obey(order(Some(2), PolicyName::Llf)).expect("it has it");
        assert!(said.starts_with("partition 2: read-sidestep off"), "{said}");
        let names = |desk: &PolicyDesk| -> Vec<_> {
            desk.spans().iter().map(|span| (span.first, span.last, span.policy.name())).collect()
        };
        let (usual, llf) = (Some(PolicyName::Adaptive), Some(PolicyName::Llf));
        assert_eq!(names(&desk), [(0, 1, usual), (2, 2, llf), (3, 3, usual)]);
        assert_eq!(desk.obey(order(Some(4), PolicyName::Llf)), Err("it has no such partition".into()));
        let single = Change { read_sidestep: Some(true), ..Change::default() };
        let said = desk.obey(PolicyOrder { partition: None, change: single }).expect("all have it");
        assert!(said.starts_with("all partitions: changed"), "{said}");
        assert_eq!(names(&desk)[1], (2, 2, None));
        desk.obey(order(None, PolicyName::EcCache)).expect("all have it");
        assert_eq!(names(&desk), [(0, 3, Some(PolicyName::EcCache))]);
        desk.replace(Policy::default());
        assert_eq!(names(&desk), [(0, 3, usual)]);
    }
}
