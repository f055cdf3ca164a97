//! Durations, shares and what is made of them, as people write them on the command line.

use std::str::FromStr;

use shorttail_chaos::{Cycle, Ramp, Tail};
use shorttail_server::config::{parse_ppm, parse_us};

/// `50ms`, `1.5s`, `200us`, `2m`, `1h`, or `0`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DurationValue {
    pub us: u64,
}

/// `1%` or `0.25%`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShareValue {
    pub ppm: u32,
}

/// `1%:200ms`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TailValue(pub Tail);

/// `0..50ms/10s`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RampValue(pub Ramp);

/// `50ms/2ms`, or `10s` for `10s/10s`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CycleValue(pub Cycle);

/// Which nodes are meant: `3`, `0,4,7` or `all`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Nodes {
    All,
    Some(Vec<u16>),
}

impl FromStr for DurationValue {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_us(text).map(|us| DurationValue { us })
    }
}

impl FromStr for ShareValue {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match parse_ppm(text)? {
            0 => Err(format!("{text:?} is no share: it is to be above 0%")),
            ppm => Ok(ShareValue { ppm }),
        }
    }
}

impl FromStr for TailValue {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once(':');
        let (share, extra) = parts.ok_or_else(|| format!("{text:?} is not a tail: write for example 1%:200ms"))?;
        let (share, extra) = (share.parse::<ShareValue>()?, extra.parse::<DurationValue>()?);
        Ok(TailValue(Tail { share_ppm: share.ppm, extra_us: extra.us }))
    }
}

impl FromStr for RampValue {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/').and_then(|(delays, over)| Some((delays.split_once("..")?, over)));
        let ((from, to), over) =
            parts.ok_or_else(|| format!("{text:?} is not a ramp: write for example 0..50ms/10s"))?;
        let (from, to, over) =
            (from.parse::<DurationValue>()?, to.parse::<DurationValue>()?, over.parse::<DurationValue>()?);
        Ok(RampValue(Ramp { from_us: from.us, to_us: to.us, over_us: over.us }))
    }
}

impl FromStr for CycleValue {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (bad, good) = text.split_once('/').unwrap_or((text, text));
        let (bad, good) = (bad.parse::<DurationValue>()?, good.parse::<DurationValue>()?);
        Ok(CycleValue(Cycle { bad_us: bad.us, good_us: good.us }))
    }
}

impl FromStr for Nodes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Nodes::All);
        }
        let nodes: Option<Vec<u16>> = text.split(',').map(|id| id.trim().parse().ok()).collect();
        nodes.map(Nodes::Some).ok_or_else(|| format!("{text:?} names no nodes: write 3, or 0,4,7, or all"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(text: &str) -> Option<u64> {
        text.parse::<DurationValue>().ok().map(|duration| duration.us)
    }

    #[test]
    fn durations_and_shares_are_exact() {
        for (text, wanted) in [
            ("50ms", Some(50_000)),
            ("1.5s", Some(1_500_000)),
            ("200us", Some(200)),
            ("0.001ms", Some(1)),
            ("2m", Some(120_000_000)),
            ("1h", Some(3_600_000_000)),
            ("0", Some(0)),
            ("5", None),
            ("ms", None),
            ("1.s", None),
            (".5s", None),
            ("1.5us", None),
            ("1e3s", None),
            ("-1s", None),
            ("99999999999999999999s", None),
        ] {
            assert_eq!(us(text), wanted, "{text}");
        }
        let ppm = |text: &str| text.parse::<ShareValue>().ok().map(|share| share.ppm);
        let shares = ["1%", "0.25%", "100%", "0.0001%"].map(ppm);
        assert_eq!(shares, [Some(10_000), Some(2_500), Some(1_000_000), Some(1)]);
        assert_eq!(["0%", "101%", "1", "x%", "0.00001%"].map(ppm), [None; 5]);
    }

    #[test]
    fn tails_ramps_and_cycles_have_two_parts() {
        assert_eq!("1%:200ms".parse(), Ok(TailValue(Tail { share_ppm: 10_000, extra_us: 200_000 })));
        let ramp = Ramp { from_us: 0, to_us: 50_000, over_us: 10_000_000 };
        assert_eq!("0..50ms/10s".parse(), Ok(RampValue(ramp)));
        assert_eq!("50ms/2ms".parse(), Ok(CycleValue(Cycle { bad_us: 50_000, good_us: 2_000 })));
        assert_eq!("10s".parse(), Ok(CycleValue(Cycle { bad_us: 10_000_000, good_us: 10_000_000 })));
        assert!("200ms".parse::<TailValue>().is_err_and(|why| why.contains("1%:200ms")));
        assert!("50ms/10s".parse::<RampValue>().is_err_and(|why| why.contains("0..50ms/10s")));
        assert!("a/b".parse::<CycleValue>().is_err());
    }

    #[test]
    fn nodes_are_numbers_or_all() {
        assert_eq!("3".parse(), Ok(Nodes::Some(vec![3])));
        assert_eq!("0, 4,7".parse(), Ok(Nodes::Some(vec![0, 4, 7])));
        assert_eq!("all".parse(), Ok(Nodes::All));
        assert!(["", "x", "1,", "70000", "-1"].iter().all(|text| text.parse::<Nodes>().is_err()));
    }
}
