//! How much of Redis Cluster clients see: `--redis-cluster`.

use std::fmt;
use std::str::FromStr;

/// What Redis clients are told of other gateways.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RedisCluster {
    /// They are sent to the gateway that owns a key.
    On,
    /// Who owns what is told, and any gateway serves any key.
    #[default]
    Off,
    /// Nothing, as by a Redis without cluster: there are clients that take whoever answers CLUSTER for a part of one.
    None,
}

impl RedisCluster {
    /// Are clients sent to the gateway that owns a key, and must the keys of a request share a slot?
    pub fn sends_clients(self) -> bool {
        self == RedisCluster::On
    }

    /// Are they told who owns a key, whether they are sent there or not?
    pub fn tells_owners(self) -> bool {
        self != RedisCluster::None
    }
}

impl FromStr for RedisCluster {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "on" => Ok(RedisCluster::On),
            "off" => Ok(RedisCluster::Off),
            "none" => Ok(RedisCluster::None),
            _ => Err(format!("{text:?} is neither on nor off nor none")),
        }
    }
}

impl fmt::Display for RedisCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RedisCluster::On => "on",
            RedisCluster::Off => "off",
            RedisCluster::None => "none",
        })
    }
}
