//! A change of policy: another named one, single techniques, or both.

use serde::{Deserialize, Serialize};

use crate::{Hedge, Policy, PolicyName, SmallWrite, Update};

/// What is to be different; what it does not name stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Change {
    /// All techniques as this one has them, before the single ones.
    pub policy: Option<PolicyName>,
    pub read_sidestep: Option<bool>,
    pub write_sidestep: Option<bool>,
    pub hedge: Option<Hedge>,
    pub small_write: Option<SmallWrite>,
    pub update: Option<Update>,
}

impl Change {
    pub fn is_empty(self) -> bool {
        self == Change::default()
    }

    pub fn apply(self, before: Policy) -> Policy {
        let before = self.policy.map_or(before, Policy::of);
        Policy {
            read_sidestep: self.read_sidestep.unwrap_or(before.read_sidestep),
            write_sidestep: self.write_sidestep.unwrap_or(before.write_sidestep),
            hedge: self.hedge.unwrap_or(before.hedge),
            small_write: self.small_write.unwrap_or(before.small_write),
            update: self.update.unwrap_or(before.update),
            reads_least_loaded: before.reads_least_loaded,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_comes_before_single_techniques() {
        let change = Change { policy: Some(PolicyName::Llf), read_sidestep: Some(true), ..Change::default() };
        let after = change.apply(Policy::default());
        assert_eq!(after, Policy { read_sidestep: true, ..Policy::of(PolicyName::Llf) });
        let single = Change { update: Some(Update::Log), ..Change::default() };
        assert_eq!(single.apply(after), Policy { update: Update::Log, ..after });
        assert_eq!(Change::default().apply(after), after);
        assert!(Change::default().is_empty() && !single.is_empty());
    }

    #[test]
    fn json_names_techniques_as_flags_do() {
        let text = r#"{"hedge": "late-binding:2", "small_write": "pad", "write_sidestep": false}"#;
        let change: Change = serde_json::from_str(text).expect("a change");
        assert_eq!((change.hedge, change.small_write), (Some(Hedge::late_binding(2)), Some(SmallWrite::Pad)));
        assert_eq!(change.write_sidestep, Some(false));
        let back: Change = serde_json::from_str(&serde_json::to_string(&change).expect("JSON")).expect("its own JSON");
        assert_eq!(back, change);
        for wrong in [r#"{"hedge": "often"}"#, r#"{"fast": true}"#] {
            assert!(serde_json::from_str::<Change>(wrong).is_err(), "{wrong}");
        }
    }
}
