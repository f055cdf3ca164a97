//! Typed configuration: what each role is told, checked before anything starts.
//!
//! One meaning per setting, four places to say it: a flag wins over an environment variable
//! (`SHORTTAIL_<SECTION>_<KEY>`), which wins over the file, which wins over the default.
//!
//! Must not know: what the roles do with a setting.

mod address;
mod code;
mod coordinator;
mod gateway;
mod launcher;
pub mod limits;
mod node;
mod size;

pub use address::{Address, AddressError, SOCKET_PATH_BYTES_MAX, TcpAddress, parse_tcp_address};
pub use code::{CodeSpec, CodeSpecError};
pub use coordinator::CoordinatorConfig;
pub use gateway::{GatewayConfig, GatewayMembership, StaticCluster, StaticNode, UnixSocketConfig, WhenFull};
pub use launcher::LauncherOptions;
pub use node::{NODE_MEMORY_DEFAULT, NodeConfig, NodeMembership};
pub use size::{Size, SizeError};
