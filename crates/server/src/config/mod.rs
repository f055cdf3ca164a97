//! Typed configuration: what each role is told, checked before anything starts.
//!
//! One meaning per setting, four places to say it: a flag wins over an environment variable
//! (`SHORTTAIL_<SECTION>_<KEY>`), which wins over the file, which wins over the default. Each section has two types:
//! `...Options` is what one place says (every field may be absent), `...Config` is the checked sum.
//!
//! Must not know: what the roles do with a setting.

mod address;
mod coordinator;
mod credentials;
mod environment;
mod error;
mod file;
pub mod fuzz;
mod gateway;
mod launcher;
pub mod limits;
mod log;
mod metadata;
mod node;
mod quantity;
mod sidestep;
mod size;
#[cfg(test)]
mod tests;
mod up;

pub use address::{
    Address, AddressError, Addresses, NamedAddress, OptionalAddress, Resolver, SOCKET_PATH_BYTES_MAX,
    check_tcp_address, parse_tcp_address, resolve, resolver, with_resolver,
};
pub use coordinator::{ADMIN_PORT, CoordinatorConfig, CoordinatorOptions};
pub use credentials::read_credentials;
pub use environment::{ENVIRONMENT_SECTIONS, check_environment};
pub use error::{ConfigError, Setting};
pub use file::{ConfigFile, EXAMPLE};
pub use gateway::{
    GatewayConfig, GatewayMembership, GatewayOptions, Mode, StaticCluster, StaticNode, UnixSocketConfig,
};
pub use launcher::LauncherOptions;
pub use log::LogLevel;
pub use metadata::{EtcdConfig, EtcdTls, METADATA_PREFIX_DEFAULT, MetadataOptions, MetadataPlace, MetadataSpec};
pub use node::{ClusterName, NODE_MEMORY_DEFAULT, NodeConfig, NodeMembership, NodeOptions};
pub use quantity::{parse_ppm, parse_seconds, parse_us};
pub use shorttail_gateway::engine::WhenFull;
pub use shorttail_gateway::redis::RedisCluster;
pub use sidestep::{DetectorName, Micros, Share, SidestepConfig, SidestepOptions, Switch, Text};
pub use size::{Size, SizeError};
pub use up::{Transport, UpConfig, UpOptions};

/// Names settings that differ in a file that was read again, and wait for the next start.
pub fn warn_of_fixed(flags: &[&str]) {
    flags.iter().for_each(|flag| tracing::warn!(flag, "changes only at the next start"));
}

/// Takes each field from the first that says something. Called with braces: then rustfmt leaves the names beside each
/// other.
macro_rules! merge {
    ($these:expr, $those:expr, $type:ident { $($field:ident),* $(,)? }) => {{
        let (these, those) = ($these, $those);
        $type { $($field: these.$field.or(those.$field)),* }
    }};
}
use merge;

/// Takes the fields of the same names.
macro_rules! pick {
    ($from:expr, $type:ident { $($field:ident),* $(,)? }) => {
        $type { $($field: $from.$field),* }
    };
}
use pick;

/// A file says it in the words of a flag: as its `FromStr` takes them.
macro_rules! by_text {
    ($type:ident) => {
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text: String = serde::Deserialize::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
use by_text;

/// Takes over the fields that may change while a role runs, and names the others that differ, as their flags. A field
/// that is in neither list does not compile.
macro_rules! take_live {
    ($running:expr, $wanted:expr, live { $($live:ident),* $(,)? }, fixed { $($fixed:ident = $flag:literal),* $(,)? }) => {{
        let running = $running;
        let Self { $($live,)* $($fixed,)* } = $wanted;
        $(running.$live = $live;)*
        let mut differing: Vec<&'static str> = Vec::new();
        $(if running.$fixed != $fixed { differing.push($flag); })*
        differing
    }};
}
use take_live;
