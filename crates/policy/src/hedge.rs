//! Extra requests: when there are any.

use std::fmt;
use std::str::FromStr;

use crate::names::as_text;

/// Extra requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Hedge {
    Off,
    /// One more way to the same bytes, or to the same durability, once the first is late; within the budget.
    #[default]
    Adaptive,
    /// So many sources more than are needed, at once; the first that suffice count (Hydra 4.1.2, EC-Cache).
    LateBinding(u8),
}

/// Most sources that late binding may ask beyond what is needed.
pub const LATE_BINDING_MAX: u8 = 8;

impl FromStr for Hedge {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(count) = text.strip_prefix("late-binding:") {
            let count = count.parse().ok().filter(|count| (1..=LATE_BINDING_MAX).contains(count));
            return count
                .map(Hedge::LateBinding)
                .ok_or_else(|| format!("{text:?}: late binding asks 1 to {LATE_BINDING_MAX} more"));
        }
        match text {
            "off" => Ok(Hedge::Off),
            "adaptive" => Ok(Hedge::Adaptive),
            _ => Err(format!("{text:?} is none of off, adaptive, late-binding:N")),
        }
    }
}

impl fmt::Display for Hedge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hedge::Off => f.pad("off"),
            Hedge::Adaptive => f.pad("adaptive"),
            Hedge::LateBinding(count) => f.pad(&format!("late-binding:{count}")),
        }
    }
}

as_text!(Hedge);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hedges_are_read_and_written_alike() {
        for text in ["off", "adaptive", "late-binding:3"] {
            assert_eq!(text.parse::<Hedge>().map(|hedge| hedge.to_string()).as_deref(), Ok(text));
        }
        assert!("late-binding:0".parse::<Hedge>().is_err() && "late-binding:9".parse::<Hedge>().is_err());
        assert!("often".parse::<Hedge>().is_err());
    }
}
