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
    /// More sources than are needed, at once; the first that suffice count (Hydra 4.1.2, EC-Cache).
    LateBinding(LateBinding),
}

/// How many sources more, and for which reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LateBinding {
    pub more: u8,
    /// Reads that bind late, of a thousand: the extra load is so many times `more`.
    pub per_mille: u16,
}

const EVERY_READ: u16 = 1_000;

/// Most sources that late binding may ask beyond what is needed.
pub const LATE_BINDING_MAX: u8 = 8;

impl Hedge {
    /// Late binding of all reads.
    pub const fn late_binding(more: u8) -> Self {
        Hedge::LateBinding(LateBinding { more, per_mille: EVERY_READ })
    }
}

impl LateBinding {
    /// Does the next read bind late? `due`: kept between reads; those that do are spread evenly.
    pub fn is_next(self, due: &mut u16) -> bool {
        *due += self.per_mille;
        let is_next = *due >= EVERY_READ;
        *due -= if is_next { EVERY_READ } else { 0 };
        is_next
    }
}

impl FromStr for LateBinding {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (more, share) = text.split_once(':').map_or((text, None), |(more, share)| (more, Some(share)));
        let more = more.parse().ok().filter(|more| (1..=LATE_BINDING_MAX).contains(more));
        let more = more.ok_or_else(|| format!("late binding asks 1 to {LATE_BINDING_MAX} more"))?;
        let Some(share) = share else { return Ok(LateBinding { more, per_mille: EVERY_READ }) };
        let percent = share.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
        let percent = percent.filter(|percent| (0.0..=100.0).contains(percent));
        let percent = percent.ok_or("the share of reads is from 0% to 100%, in steps of a tenth")?;
        Ok(LateBinding { more, per_mille: (percent * 10.0).round() as u16 })
    }
}

impl FromStr for Hedge {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Hedge::Off),
            "adaptive" => Ok(Hedge::Adaptive),
            _ => match text.strip_prefix("late-binding:") {
                Some(said) => said.parse().map(Hedge::LateBinding).map_err(|error| format!("{text:?}: {error}")),
                None => Err(format!("{text:?} is none of off, adaptive, late-binding:N, late-binding:N:SHARE%")),
            },
        }
    }
}

impl fmt::Display for Hedge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hedge::Off => f.pad("off"),
            Hedge::Adaptive => f.pad("adaptive"),
            Hedge::LateBinding(LateBinding { more, per_mille: EVERY_READ }) => f.pad(&format!("late-binding:{more}")),
            Hedge::LateBinding(LateBinding { more, per_mille }) => {
                f.pad(&format!("late-binding:{more}:{}%", f64::from(*per_mille) / 10.0))
            }
        }
    }
}

as_text!(Hedge);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_reads_binds_late() {
        let count = |text: &str| {
            let rule: LateBinding = text.parse().expect("a rule");
            let mut due = 0;
            (0..2_000).filter(|_| rule.is_next(&mut due)).count()
        };
        assert_eq!((count("1"), count("1:4.2%"), count("2:0%")), (2_000, 84, 0));
    }

    #[test]
    fn hedges_are_read_and_written_alike() {
        for text in ["off", "adaptive", "late-binding:3", "late-binding:1:4.2%"] {
            assert_eq!(text.parse::<Hedge>().map(|hedge| hedge.to_string()).as_deref(), Ok(text));
        }
        assert!("late-binding:0".parse::<Hedge>().is_err() && "late-binding:9".parse::<Hedge>().is_err());
        assert_eq!("late-binding:3:100%".parse(), Ok(Hedge::late_binding(3)));
        assert!("late-binding:1:101%".parse::<Hedge>().is_err() && "late-binding:1:4".parse::<Hedge>().is_err());
        assert!("often".parse::<Hedge>().is_err());
    }
}
