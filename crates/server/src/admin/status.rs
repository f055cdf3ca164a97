//! The status as JSON. A coordinator that stands by tells of itself and nothing of the cluster: zeros would be read as
//! what is stored. One that has just begun, and does not know yet whether it leads, tells of a cluster without members.

use serde::{Deserialize, Serialize};
use shorttail_wire::control::{ClusterStatus, CoordinatorStatus};

/// What a coordinator that stands by tells.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Standby {
    coordinator: CoordinatorStatus,
}

/// # Errors
/// Never, as it is plain data.
pub fn to_json(status: &ClusterStatus) -> serde_json::Result<serde_json::Value> {
    let about = &status.coordinator;
    match status.is_standby() && (about.leader.is_some() || about.metadata_problem.is_some()) {
        true => serde_json::to_value(Standby { coordinator: status.coordinator.clone() }),
        false => serde_json::to_value(status),
    }
}

/// # Errors
/// When it is not what a coordinator tells.
pub fn from_json(text: &str) -> serde_json::Result<ClusterStatus> {
    let whole = serde_json::from_str(text);
    whole.or_else(|error| {
        let standby = serde_json::from_str(text).map_err(|_| error);
        standby.map(|Standby { coordinator }| ClusterStatus { coordinator, ..ClusterStatus::default() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_stands_by_tells_of_itself_alone() {
        let coordinator = CoordinatorStatus { name: "a".into(), leader: Some("b".into()), ..Default::default() };
        let standby = ClusterStatus { coordinator, ..ClusterStatus::default() };
        let json = to_json(&standby).expect("plain data");
        assert!(json.as_object().expect("an object").keys().eq(["coordinator"]), "{json}");
        assert_eq!(json["coordinator"]["leader"], "b");
        assert_eq!(from_json(&json.to_string()).expect("its own words"), standby);
        let away = CoordinatorStatus { metadata_problem: Some("away".into()), ..Default::default() };
        let json = to_json(&ClusterStatus { coordinator: away, ..ClusterStatus::default() }).expect("plain data");
        assert!(json.get("objects").is_none(), "{json}");
        let begun = to_json(&ClusterStatus::default()).expect("plain data");
        assert!(begun["nodes"].is_array() && begun["objects"] == 0, "{begun}");
    }

    #[test]
    fn what_somebody_else_tells_is_told_from_it() {
        let led = ClusterStatus { cluster_id: "77".into(), objects: 9, ..ClusterStatus::default() };
        let json = to_json(&led).expect("plain data");
        assert_eq!(from_json(&json.to_string()).expect("its own words"), led);
        assert!(from_json("{}").is_err() && from_json("{\"serving\": true}").is_err());
    }
}
