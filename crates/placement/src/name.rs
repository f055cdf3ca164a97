//! Which rule chooses, and the text that names it.

use std::fmt;
use std::str::FromStr;

use shorttail_units::CodeShape;

/// How the members of a new stripe are chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Placement {
    /// The least loaded nodes of all. What each holds is most even; nearly any nodes share some stripe.
    #[default]
    LeastLoaded,
    /// The least loaded nodes of one coding set. Few combinations of nodes share a stripe, so that the death of many at
    /// once rarely hits one stripe too often (Hydra 5).
    CodingSets { spare_count: u8 },
    /// Any nodes (EC-Cache): for comparison.
    Random,
    /// Of two nodes drawn, the less loaded one, chunk by chunk: for comparison.
    TwoChoices,
}

/// `l` where nothing is said: what Hydra was measured with.
const SPARE_COUNT_DEFAULT: u8 = 2;

impl Placement {
    /// Nodes that a coding set is to have: `k+m+l`. `None`: there are no sets.
    pub fn coding_set_nodes(self, shape: CodeShape) -> Option<u16> {
        match self {
            Placement::CodingSets { spare_count } => {
                let chunks = u16::try_from(shape.chunk_count()).expect("a stripe has few chunks");
                Some(chunks + u16::from(spare_count))
            }
            _ => None,
        }
    }
}

impl FromStr for Placement {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let error = || {
            format!(
                "{text:?} is not a placement: write least-loaded, coding-sets, coding-sets:L, random or two-choices"
            )
        };
        match text {
            "least-loaded" => Ok(Placement::LeastLoaded),
            "random" => Ok(Placement::Random),
            "two-choices" => Ok(Placement::TwoChoices),
            "coding-sets" => Ok(Placement::CodingSets { spare_count: SPARE_COUNT_DEFAULT }),
            _ => {
                let spare_count = text.strip_prefix("coding-sets:").and_then(|count| count.parse().ok());
                spare_count.map(|spare_count| Placement::CodingSets { spare_count }).ok_or_else(error)
            }
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Placement::LeastLoaded => f.pad("least-loaded"),
            Placement::CodingSets { spare_count } => f.pad(&format!("coding-sets:{spare_count}")),
            Placement::Random => f.pad("random"),
            Placement::TwoChoices => f.pad("two-choices"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for name in ["least-loaded", "coding-sets:0", "coding-sets:7", "random", "two-choices"] {
            assert_eq!(name.parse::<Placement>().expect(name).to_string(), name);
        }
        assert_eq!("coding-sets".parse(), Ok(Placement::CodingSets { spare_count: 2 }));
        for wrong in ["", "coding-sets:", "coding-sets:-1", "coding-sets:300", "Random"] {
            assert!(wrong.parse::<Placement>().is_err(), "{wrong}");
        }
    }
}
