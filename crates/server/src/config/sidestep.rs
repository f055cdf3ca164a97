//! What is done about slow nodes, as flags, environment and file say it: a policy, and each of its techniques alone.
//!
//! `gateway` and `up` have the same settings; `up` hands them on as they are.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer};
use shorttail_monitor::{Detector, MonitorConfig};
use shorttail_policy::{Change, Hedge, Policy, PolicyName, SmallWrite, Update};

use super::by_text;
use super::error::{ConfigError, within};
use super::quantity::{parse_ppm, parse_us};

/// A setting that a file says as a flag does, of a type that knows nothing of files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Text<T>(pub T);

impl<T: FromStr> FromStr for Text<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        text.parse().map(Text)
    }
}

impl<T: fmt::Display> fmt::Display for Text<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A technique that is on or off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Switch(pub bool);

impl FromStr for Switch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "on" => Ok(Switch(true)),
            "off" => Ok(Switch(false)),
            _ => Err(format!("{text:?} is neither on nor off")),
        }
    }
}

impl fmt::Display for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0 { "on" } else { "off" })
    }
}

by_text!(Switch);

/// A share: `5%`, in steps of a tenth.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Share {
    pub per_mille: u16,
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const PER_MILLE_PPM: u32 = 1_000;
        let ppm = parse_ppm(text)?;
        match u16::try_from(ppm / PER_MILLE_PPM) {
            Ok(per_mille) if ppm.is_multiple_of(PER_MILLE_PPM) => Ok(Share { per_mille }),
            _ => Err(format!("{text:?} is finer than a tenth of a percent: write for example 5% or 0.3%")),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", f64::from(self.per_mille) / 10.0)
    }
}

by_text!(Share);

/// A short time: `500us`, `20ms` or `1.5s`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Micros(pub u64);

impl FromStr for Micros {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_us(text).map(Micros)
    }
}

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            us if us > 0 && us.is_multiple_of(1_000_000) => write!(f, "{}s", us / 1_000_000),
            us if us > 0 && us.is_multiple_of(1_000) => write!(f, "{}ms", us / 1_000),
            us => write!(f, "{us}us"),
        }
    }
}

by_text!(Micros);

/// The rule by which a node is found to be slow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DetectorName {
    /// Compared with its peers.
    #[default]
    Adaptive,
    /// The paper's: a slice whose mean exceeds a threshold.
    Fixed,
    Off,
}

impl FromStr for DetectorName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "adaptive" => Ok(DetectorName::Adaptive),
            "fixed" => Ok(DetectorName::Fixed),
            "off" => Ok(DetectorName::Off),
            _ => Err(format!("{text:?} is none of adaptive, fixed, off")),
        }
    }
}

impl fmt::Display for DetectorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DetectorName::Adaptive => "adaptive",
            DetectorName::Fixed => "fixed",
            DetectorName::Off => "off",
        })
    }
}

by_text!(DetectorName);

impl DetectorName {
    /// The one that belongs to a policy.
    fn of(policy: PolicyName) -> Self {
        match policy {
            PolicyName::Shorttail => DetectorName::Fixed,
            // The others look at what it finds for their logs alone.
            PolicyName::Ecwide | PolicyName::Llf | PolicyName::EcCache | PolicyName::Adaptive => DetectorName::Adaptive,
        }
    }
}

/// What one place says of all this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SidestepOptions {
    pub policy: Option<PolicyName>,
    pub read_sidestep: Option<Switch>,
    pub write_sidestep: Option<Switch>,
    pub small_write: Option<SmallWrite>,
    pub update: Option<Update>,
    pub hedge: Option<Hedge>,
    pub hedge_budget: Option<Share>,
    pub detector: Option<DetectorName>,
    pub slice: Option<Micros>,
    pub fail_slow_above: Option<Micros>,
}

/// Bounds of a slice that is set by hand. Longer ones notice nothing in time, shorter ones hold no request.
const SLICE_MIN: Micros = Micros(1_000);
const SLICE_MAX: Micros = Micros(10_000_000);

impl SidestepOptions {
    /// # Errors
    /// Names the setting that makes no sense.
    pub fn resolve(self, section: &'static str) -> Result<SidestepConfig, ConfigError> {
        let name = self.policy.unwrap_or_default();
        let change = Change {
            policy: Some(name),
            read_sidestep: self.read_sidestep.map(|said| said.0),
            write_sidestep: self.write_sidestep.map(|said| said.0),
            hedge: self.hedge,
            small_write: self.small_write,
            update: self.update,
        };
        let slice = self.slice.map(|said| within(section, "slice", said, SLICE_MIN, SLICE_MAX)).transpose()?;
        Ok(SidestepConfig {
            policy: change.apply(Policy::default()),
            hedge_budget: self.hedge_budget.unwrap_or(HEDGE_BUDGET_DEFAULT),
            detector: self.detector.unwrap_or(DetectorName::of(name)),
            slice,
            fail_slow_above: self.fail_slow_above,
        })
    }
}

/// A twentieth: what extra requests may cost when nothing is wrong.
const HEDGE_BUDGET_DEFAULT: Share = Share { per_mille: 50 };

/// What is done about slow nodes, checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SidestepConfig {
    pub policy: Policy,
    pub hedge_budget: Share,
    pub detector: DetectorName,
    /// Length of a slice; `None`: follows the requests.
    pub slice: Option<Micros>,
    /// Mean latency of a slice above which a node is slow; `None`: follows the other nodes.
    pub fail_slow_above: Option<Micros>,
}

impl Default for SidestepConfig {
    fn default() -> Self {
        SidestepConfig {
            policy: Policy::default(),
            hedge_budget: HEDGE_BUDGET_DEFAULT,
            detector: DetectorName::default(),
            slice: None,
            fail_slow_above: None,
        }
    }
}

impl SidestepConfig {
    pub fn monitor(&self) -> MonitorConfig {
        MonitorConfig {
            detector: match self.detector {
                DetectorName::Adaptive => Detector::Adaptive,
                DetectorName::Fixed => Detector::Fixed { by_age: false },
                DetectorName::Off => Detector::Off,
            },
            slice_us: self.slice.map(|slice| slice.0),
            threshold_us: self.fail_slow_above.map(|above| above.0),
            ..MonitorConfig::default()
        }
    }

    pub fn hedge_budget_share(&self) -> f64 {
        f64::from(self.hedge_budget.per_mille) / 1000.0
    }
}

impl fmt::Display for SidestepConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; hedge budget {}, detector {}", self.policy, self.hedge_budget, self.detector)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text<T: FromStr<Err = String>>(text: &str) -> Option<T> {
        Some(text.parse().unwrap_or_else(|error| panic!("{error}")))
    }

    #[test]
    fn a_policy_is_its_techniques_and_each_can_be_switched_alone() {
        let paper = SidestepOptions { policy: text("shorttail"), ..SidestepOptions::default() };
        let config = paper.resolve("gateway").expect("sensible");
        assert_eq!(config.policy, Policy::of(PolicyName::Shorttail));
        assert_eq!(config.monitor().detector, Detector::Fixed { by_age: false });
        let some = SidestepOptions {
            write_sidestep: text("off"),
            small_write: text("pad"),
            update: text("in-place"),
            hedge: text("late-binding:2"),
            detector: text("adaptive"),
            hedge_budget: text("2.5%"),
            slice: text("20ms"),
            ..paper
        };
        let config = some.resolve("gateway").expect("sensible");
        assert!(config.policy.read_sidestep && !config.policy.write_sidestep);
        assert_eq!(config.policy.hedge, Hedge::late_binding(2));
        assert_eq!((config.policy.small_write, config.policy.update), (SmallWrite::Pad, Update::InPlace));
        assert_eq!((config.monitor().slice_us, config.hedge_budget_share()), (Some(20_000), 0.025));
        let error = SidestepOptions { slice: text("900us"), ..paper }.resolve("gateway").expect_err("too short");
        assert!(error.to_string().contains("slice"), "{error}");
    }

    #[test]
    fn texts_are_read_as_they_are_written() {
        for share in ["5%", "0%", "100%", "0.1%"] {
            assert_eq!(share.parse::<Share>().map(|share| share.to_string()).as_deref(), Ok(share));
        }
        for time in ["500us", "20ms", "1s", "0us"] {
            assert_eq!(time.parse::<Micros>().map(|time| time.to_string()).as_deref(), Ok(time));
        }
        for wrong in ["5", "-1%", "101%", "many%", "0.25%"] {
            assert!(wrong.parse::<Share>().is_err(), "{wrong}");
        }
        assert_eq!("1.5s".parse::<Micros>(), Ok(Micros(1_500_000)));
        assert_eq!((" 20 ms".parse(), "5 %".parse()), (Ok(Micros(20_000)), Ok(Share { per_mille: 50 })));
        for wrong in ["20", "ms", "1.5us", "-1ms", "99999999999999999999s", "18446744073709551615s"] {
            assert!(wrong.parse::<Micros>().is_err(), "{wrong}");
        }
    }
}
