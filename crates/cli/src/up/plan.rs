//! The command line of each child.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use shorttail_server::config::{Address, ENVIRONMENT_SECTIONS, LogLevel, Transport, UpConfig};

use super::children_file;
use super::run_dir::RunDir;
use crate::lines;

/// What a child is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    Coordinator,
    Node(u16),
    /// By its place: the first has the ports that were asked for.
    Gateway(usize),
}

/// Told to the C library of gateways. A turn frees what some dozen requests used, and the next one uses it again;
/// the seven blocks of a size that are kept at hand by default are too few, and the rest costs a SET a tenth of
/// the program's time.
const ALLOCATOR: (&str, &str) = ("GLIBC_TUNABLES", "glibc.malloc.tcache_count=200");

/// Everything that starts, and with what.
pub struct Plan {
    pub config: UpConfig,
    /// How much the children say.
    pub log: LogLevel,
    pub program: PathBuf,
    pub run_dir: RunDir,
    /// Where clients of each gateway connect, by its place.
    pub client_addresses: Vec<(Option<SocketAddr>, Option<SocketAddr>)>,
}

impl Plan {
    pub fn new(config: UpConfig, log: LogLevel, program: PathBuf, run_dir: RunDir) -> Self {
        let client_addresses = (0..config.gateway_count).map(|place| config.client_addresses(place)).collect();
        Plan { config, log, program, run_dir, client_addresses }
    }

    /// All parts, in the order in which they start.
    pub fn parts(&self) -> Vec<Part> {
        let nodes = (0..self.config.node_count).map(|id| Part::Node(u16::try_from(id).expect("checked to be few")));
        let gateways = (0..self.config.gateway_count).map(Part::Gateway);
        std::iter::once(Part::Coordinator).chain(nodes).chain(gateways).collect()
    }

    /// Writes what children may be told anew; must precede their start.
    pub fn write_children_file(&self) -> std::io::Result<()> {
        children_file::write(&self.run_dir.children_file(), &self.config, self.log)
    }

    pub fn coordinator(&self) -> Address {
        Address::Unix(self.run_dir.coordinator_socket())
    }

    /// The program with the part's flags.
    pub fn command(&self, part: Part) -> Command {
        let mut command = Command::new(&self.program);
        let flags = match part {
            Part::Coordinator => self.coordinator_flags(),
            Part::Node(id) => self.node_flags(id),
            Part::Gateway(place) => self.gateway_flags(place),
        };
        // What may change while a child runs is in a file; the rest stands here.
        command.args(flags).arg("--config").arg(self.run_dir.children_file()).env_remove("SHORTTAIL_LOG");
        for (name, _) in std::env::vars_os() {
            // Settings for roles that run alone are none of these children's.
            if name.to_str().is_some_and(|name| ENVIRONMENT_SECTIONS.iter().any(|section| name.starts_with(section))) {
                command.env_remove(name);
            }
        }
        command.env(lines::VARIABLE, self.speaker(part));
        if matches!(part, Part::Gateway(_)) && std::env::var_os(ALLOCATOR.0).is_none() {
            command.env(ALLOCATOR.0, ALLOCATOR.1);
        }
        command
    }

    /// Who a part is, before each of its lines.
    fn speaker(&self, part: Part) -> String {
        match part {
            Part::Coordinator => "coordinator".to_owned(),
            Part::Node(id) => format!("node {id}"),
            Part::Gateway(_) if self.config.gateway_count == 1 => "gateway".to_owned(),
            Part::Gateway(place) => {
                let (memcached, redis) = self.client_addresses[place];
                memcached.or(redis).map_or_else(|| "gateway".to_owned(), |address| format!("gateway at {address}"))
            }
        }
    }

    fn coordinator_flags(&self) -> Vec<OsString> {
        let config = &self.config;
        let mut flags = Flags::of("coordinator");
        flags.put("--listen", self.coordinator());
        flags.put("--admin", or_off(config.admin));
        let metadata = &config.metadata;
        match &metadata.metadata {
            Some(place) => flags.put("--metadata", place),
            None => flags.put("--dir", self.run_dir.state().display()),
        }
        flags.put_if("--metadata-prefix", metadata.metadata_prefix.as_ref());
        flags.put_if("--metadata-auth-file", metadata.metadata_auth_file.as_ref().map(|file| file.display()));
        flags.put_if("--metadata-tls", metadata.metadata_tls.as_ref());
        flags.put_if("--metadata-poll", metadata.metadata_poll);
        flags.put("--code", config.code);
        flags.put_if("--partitions", config.partition_count);
        flags.put("--nodes", config.node_count);
        flags.put("--gateways", config.gateway_count);
        flags.put("--gateway-threads", config.gateway_threads);
        flags.put("--retire-after", config.retire_after_s);
        flags.put_switch("--allow-chaos", config.allow_chaos);
        flags.0
    }

    fn node_flags(&self, id: u16) -> Vec<OsString> {
        let mut flags = Flags::of("node");
        flags.put("--listen", self.heard_at(self.run_dir.node_socket(id)));
        flags.put("--coordinator", self.coordinator());
        flags.put("--id", id);
        flags.put("--memory", self.config.node_memory);
        if let Some(file) = self.run_dir.node_memory(id) {
            flags.0.extend(["--memory-file".into(), file.into_os_string()]);
        }
        flags.put("--threads", self.config.node_threads);
        if let Some(domain) = usize::from(id).checked_rem(self.config.domain_count) {
            flags.put("--domain", format_args!("domain {domain}"));
        }
        flags.put_switch("--allow-chaos", self.config.allow_chaos);
        flags.0
    }

    fn gateway_flags(&self, place: usize) -> Vec<OsString> {
        let config = &self.config;
        let (memcached, redis) = self.client_addresses[place];
        let mut flags = Flags::of("gateway");
        flags.put("--memcached", or_off(memcached));
        flags.put("--redis", or_off(redis));
        flags.put("--redis-cluster", config.redis_cluster);
        flags.put("--coordinator", self.coordinator());
        flags.put("--forward", self.heard_at(self.run_dir.gateway_socket(place)));
        flags.put("--value-bytes-max", config.value_bytes_max);
        flags.put("--block-bytes", config.block_bytes);
        flags.put("--placement", config.placement);
        flags.put("--threads", config.gateway_threads);
        if let Some(file) = &config.auth_file {
            flags.0.extend(["--auth-file".into(), file.clone().into_os_string()]);
        }
        flags.0
    }
}

impl Plan {
    /// Where gateways connect to a child; at its socket one that is started again is found as before.
    fn heard_at(&self, socket: PathBuf) -> Address {
        match self.config.transport {
            Transport::Unix => Address::Unix(socket),
            Transport::Tcp => Address::Tcp(([127, 0, 0, 1], 0).into()),
        }
    }
}

struct Flags(Vec<OsString>);

impl Flags {
    fn of(verb: &str) -> Self {
        Flags(vec![verb.into()])
    }

    fn put(&mut self, flag: &str, value: impl std::fmt::Display) {
        self.0.extend([flag.into(), value.to_string().into()]);
    }

    fn put_if(&mut self, flag: &str, value: Option<impl std::fmt::Display>) {
        value.into_iter().for_each(|value| self.put(flag, value));
    }

    fn put_switch(&mut self, flag: &str, is_on: bool) {
        self.0.extend(is_on.then(|| flag.into()));
    }
}

fn or_off(address: Option<SocketAddr>) -> String {
    address.map_or_else(|| "off".to_owned(), |address| address.to_string())
}
