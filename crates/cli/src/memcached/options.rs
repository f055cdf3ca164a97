//! From memcached's flags to what is served.

use std::path::PathBuf;

use shorttail_gateway::session::Credential;
use shorttail_server::config::limits::{CONNECTION_COUNT_MAX, VALUE_BYTES_MAX, VALUE_BYTES_MIN};
use shorttail_server::config::{LauncherOptions, Mode, UnixSocketConfig, WhenFull, read_credentials};
use shorttail_server::single::memory_bytes_max;
use shorttail_units::CodeShape;

use super::getopt::{self, Flag, Given, Takes};
use super::suboptions::Suboptions;
use super::{EX_USAGE, EXIT_FAILURE, Refusal, listen};

const MIB: u64 = shorttail_units::MIB as u64;
const THREAD_COUNT_MAX: u64 = 256;
/// What `stats` tells when nobody asked for a number, as memcached.
const THREAD_COUNT_DEFAULT: usize = 4;
const NODE_COUNT_DEFAULT: usize = 8;
/// Each is a thread.
const NODE_COUNT_MAX: usize = 256;
const PARTITION_COUNT: u16 = 4;
/// Erasure code and node count of the cluster inside, for who wants others than the defaults.
const CODE_VARIABLE: &str = "SHORTTAIL_MEMCACHED_CODE";
const NODES_VARIABLE: &str = "SHORTTAIL_MEMCACHED_NODES";
const PORT_FILE_VARIABLE: &str = "MEMCACHED_PORT_FILENAME";

/// What the flags ask for.
#[derive(Debug, PartialEq)]
pub enum Parsed {
    Help,
    Version,
    License,
    Serve(Box<Request>),
}

/// What to serve, and what to do around it.
#[derive(Default, Debug, PartialEq)]
pub struct Request {
    pub options: LauncherOptions,
    pub user: Option<String>,
    pub daemonize: bool,
    /// `-r`: a daemon does not leave its directory, so that a core file is found.
    pub keep_directory: bool,
    pub pid_file: Option<PathBuf>,
    /// Said always.
    pub warnings: Vec<String>,
    /// Said with `-v`.
    pub notes: Vec<String>,
}

const FLAGS: [Flag; 39] = {
    const fn flag(short: char, long: &'static str, takes: Takes) -> Flag {
        Flag { short, long: Some(long), takes }
    }
    use Takes::{Maybe, Nothing, Value};
    [
        flag('a', "unix-mask", Value),
        flag('A', "enable-shutdown", Nothing),
        flag('Z', "enable-ssl", Nothing),
        flag('p', "port", Value),
        flag('s', "unix-socket", Value),
        flag('U', "udp-port", Value),
        flag('m', "memory-limit", Value),
        flag('M', "disable-evictions", Nothing),
        flag('c', "conn-limit", Value),
        flag('k', "lock-memory", Nothing),
        flag('h', "help", Nothing),
        flag('i', "license", Nothing),
        flag('V', "version", Nothing),
        flag('r', "enable-coredumps", Nothing),
        flag('v', "verbose", Maybe),
        flag('d', "daemon", Nothing),
        flag('l', "listen", Value),
        flag('u', "user", Value),
        flag('P', "pidfile", Value),
        flag('f', "slab-growth-factor", Value),
        flag('n', "slab-min-size", Value),
        flag('t', "threads", Value),
        Flag { short: 'D', long: None, takes: Value },
        flag('L', "enable-largepages", Nothing),
        flag('R', "max-reqs-per-event", Value),
        flag('C', "disable-cas", Nothing),
        flag('b', "listen-backlog", Value),
        flag('B', "protocol", Value),
        flag('I', "max-item-size", Value),
        flag('S', "enable-sasl", Nothing),
        flag('F', "disable-flush-all", Nothing),
        flag('X', "disable-dumping", Nothing),
        flag('W', "disable-watch", Nothing),
        flag('Y', "auth-file", Value),
        flag('e', "memory-file", Value),
        flag('o', "extended", Value),
        flag('N', "napi-ids", Value),
        // Another name of a flag that Debian's memcached documents.
        flag('l', "interface", Value),
        flag('F', "disable-flush_all", Nothing),
    ]
};

/// Flags as they come, before they are checked against each other.
struct Collected {
    /// What the flags say by themselves; the rest is filled in by the check.
    request: Request,
    port: Option<i64>,
    udp_port: Option<i64>,
    listen: Vec<String>,
    socket_path: Option<PathBuf>,
    socket_mode: u32,
    memory_mib: u64,
    value_bytes: u64,
    auth_file: Option<PathBuf>,
    suboptions: Suboptions,
}

impl Default for Collected {
    /// memcached's defaults.
    fn default() -> Self {
        let options = LauncherOptions {
            connection_count_max: 1024,
            threads: THREAD_COUNT_DEFAULT,
            core_count: 1,
            backlog: 1024,
            partition_count: PARTITION_COUNT,
            ..LauncherOptions::default()
        };
        Collected {
            request: Request { options, ..Request::default() },
            port: None,
            udp_port: None,
            listen: Vec::new(),
            socket_path: None,
            socket_mode: 0o700,
            memory_mib: 64,
            value_bytes: MIB,
            auth_file: None,
            suboptions: Suboptions::default(),
        }
    }
}

/// Parses and checks all flags. `variable` reads the environment.
///
/// # Errors
/// In memcached's words where it has some.
pub fn parse(arguments: &[String], variable: impl Fn(&str) -> Option<String>) -> Result<Parsed, Refusal> {
    let mut collected = Collected::default();
    for given in getopt::parse(&FLAGS, arguments)? {
        match given.short {
            'h' => return Ok(Parsed::Help),
            'V' => return Ok(Parsed::Version),
            'i' => return Ok(Parsed::License),
            _ => collected.take(&given)?,
        }
    }
    collected.check(variable).map(|request| Parsed::Serve(Box::new(request)))
}

impl Collected {
    fn take(&mut self, given: &Given) -> Result<(), Refusal> {
        let value = given.value.as_deref().unwrap_or_default().trim_start();
        let request = &mut self.request;
        let options = &mut request.options;
        match given.short {
            'p' => self.port = Some(number(given, value)?),
            'U' => self.udp_port = Some(number(given, value)?),
            'l' => self.listen.push(value.to_owned()),
            's' => self.socket_path = Some(PathBuf::from(value)),
            'a' => self.socket_mode = octal(value)?,
            'm' => self.memory_mib = number(given, value)?,
            'I' => self.value_bytes = item_size(value)?,
            'c' => {
                let count = positive(given, value, "Maximum connections must be greater than 0")?;
                options.connection_count_max = count.min(CONNECTION_COUNT_MAX as u64) as usize;
            }
            't' => {
                let count = positive(given, value, "Number of threads must be greater than 0")?;
                options.threads = count.min(THREAD_COUNT_MAX) as usize;
                options.core_count = count.min(u64::from(PARTITION_COUNT)) as usize;
            }
            'R' => {
                let count = positive(given, value, "Number of requests per event must be greater than 0")?;
                options.pipeline_count_max = usize::try_from(count).ok();
            }
            'b' => options.backlog = number(given, value)?,
            'v' => options.verbosity = options.verbosity.saturating_add(1),
            'Y' => self.auth_file = Some(PathBuf::from(value)),
            'D' => {
                let delimiter = value.bytes().next();
                options.prefix_delimiter = Some(delimiter.ok_or_else(|| failure("No delimiter specified"))?);
            }
            'M' => options.when_full = WhenFull::Error,
            'F' => options.flush_disabled = true,
            'C' => options.cas_disabled = true,
            'A' => options.shutdown_enabled = true,
            'u' => request.user = Some(value.to_owned()).filter(|user| !user.is_empty()),
            'd' => request.daemonize = true,
            'P' => request.pid_file = Some(PathBuf::from(value)),
            'o' => self.suboptions.take(value)?,
            _ => self.take_without_meaning(given, value)?,
        }
        Ok(())
    }

    /// Flags that tune what is not there, and flags for what is not there.
    fn take_without_meaning(&mut self, given: &Given, value: &str) -> Result<(), Refusal> {
        match given.short {
            'S' => return Err(usage("This server is not built with SASL support.")),
            'Z' => return Err(usage("This server is not built with TLS support.")),
            'e' => return Err(usage("This server does not keep items in a file (-e); its nodes keep them in memory.")),
            'B' => self.take_protocol(value)?,
            'f' => {
                let factor = value.parse::<f64>().ok().filter(|factor| *factor > 1.0);
                let factor = factor.ok_or_else(|| failure("Factor must be greater than 1"))?;
                self.report("growth_factor", format!("{factor:.2}"));
            }
            'n' => {
                let bytes: u64 = positive(given, value, "Chunk size must be greater than 0")?;
                self.report("chunk_size", bytes.to_string());
            }
            'N' => drop(positive(given, value, "Maximum number of NAPI IDs must be greater than 0")?),
            'X' => self.report("dump_enabled", "no".to_owned()),
            'r' => self.request.keep_directory = true,
            _ => {}
        }
        let about = if value.is_empty() { String::new() } else { format!(" {value}") };
        self.suboptions.notes.push(format!("-{}{about}: accepted; it has no meaning for this server", given.short));
        Ok(())
    }

    fn take_protocol(&mut self, value: &str) -> Result<(), Refusal> {
        match value {
            "ascii" => self.report("binding_protocol", "ascii".to_owned()),
            "auto" => self.report("binding_protocol", "auto-negotiate".to_owned()),
            "binary" => return Err(usage("This server does not speak the deprecated binary protocol.")),
            _ => {
                return Err(usage(&format!(
                    "Invalid value for binding protocol: {value}\n -- should be one of auto, binary, or ascii"
                )));
            }
        }
        Ok(())
    }

    fn report(&mut self, setting: &'static str, value: String) {
        self.suboptions.reported.push((setting, value));
    }

    /// Checks the flags against each other.
    fn check(self, variable: impl Fn(&str) -> Option<String>) -> Result<Request, Refusal> {
        self.check_value_bytes()?;
        let (code, node_count) = cluster_of(&variable)?;
        let memory_mib_max = memory_bytes_max(code, node_count) / MIB;
        if self.memory_mib > memory_mib_max {
            return Err(usage(&format!("-m {}: is more than {memory_mib_max}, in megabytes", self.memory_mib)));
        }
        let udp = self.udp_port.filter(|&port| port != 0);
        // A UDP port alone is also the TCP port, as in memcached.
        let port = self.port.or(udp).unwrap_or(11211);
        let unix_socket =
            self.socket_path.as_ref().map(|path| UnixSocketConfig { path: path.clone(), mode: self.socket_mode });
        let listen = if unix_socket.is_some() { Vec::new() } else { listen::addresses(&self.listen, port)? };
        let port_file = variable(PORT_FILE_VARIABLE).filter(|_| unix_socket.is_none()).map(PathBuf::from);
        let udp_warning = udp.map(|port| format!("WARNING: UDP is not served (-U {port}); TCP is"));
        let credentials = self.credentials()?;
        let options = LauncherOptions {
            listen,
            unix_socket,
            memory_bytes: self.memory_mib.saturating_mul(MIB),
            value_bytes_max: self.value_bytes as usize,
            idle_timeout_s: self.suboptions.idle_timeout_s.unwrap_or(0),
            credentials,
            code,
            node_count,
            port_file,
            reported: self.suboptions.reported,
            ..self.request.options
        };
        let warnings = udp_warning.into_iter().collect();
        Ok(Request { options, warnings, notes: self.suboptions.notes, ..self.request })
    }

    fn check_value_bytes(&self) -> Result<(), Refusal> {
        if self.value_bytes < VALUE_BYTES_MIN.0 {
            return Err(usage("Item max size cannot be less than 1024 bytes."));
        }
        if self.value_bytes > self.memory_mib.saturating_mul(MIB) / 2 {
            return Err(usage("Cannot set item size limit higher than 1/2 of memory max."));
        }
        if self.value_bytes > VALUE_BYTES_MAX.0 {
            return Err(usage("Cannot set item size limit higher than a gigabyte."));
        }
        Ok(())
    }

    fn credentials(&self) -> Result<Vec<Credential>, Refusal> {
        let Some(file) = &self.auth_file else { return Ok(Vec::new()) };
        read_credentials(file).map_err(|error| failure(&format!("Authfile: {error}")))
    }
}

fn cluster_of(variable: &impl Fn(&str) -> Option<String>) -> Result<(CodeShape, usize), Refusal> {
    let code = variable(CODE_VARIABLE).map_or(Ok(CodeShape::default()), |text| text.parse());
    let code: CodeShape = code.map_err(|error| usage(&format!("{CODE_VARIABLE}: {error}")))?;
    let least = code.chunk_count();
    let node_count = match variable(NODES_VARIABLE) {
        None => NODE_COUNT_DEFAULT.max(least),
        Some(text) => text.parse().ok().filter(|count| (least..=NODE_COUNT_MAX).contains(count)).ok_or_else(|| {
            usage(&format!("{NODES_VARIABLE}: {text:?} is not a number from {least} (for {code}) to {NODE_COUNT_MAX}"))
        })?,
    };
    Ok((code, node_count))
}

fn number<T: std::str::FromStr>(given: &Given, value: &str) -> Result<T, Refusal> {
    value.parse().map_err(|_| usage(&format!("-{} {value}: not a number that it takes", given.short)))
}

fn positive(given: &Given, value: &str, otherwise: &str) -> Result<u64, Refusal> {
    let number: i64 = number(given, value)?;
    u64::try_from(number).ok().filter(|&number| number > 0).ok_or_else(|| failure(otherwise))
}

fn octal(value: &str) -> Result<u32, Refusal> {
    let mask = value.parse().map(|Mode(mask)| mask);
    mask.map_err(|_| usage(&format!("-a {value}: not an octal access mask (such as 700)")))
}

/// `1024`, `512k`, `4m`, `1g`.
fn item_size(value: &str) -> Result<u64, Refusal> {
    let (digits, factor) = match value.as_bytes().last() {
        Some(b'k' | b'K') => (&value[..value.len() - 1], 1 << 10),
        Some(b'm' | b'M') => (&value[..value.len() - 1], 1 << 20),
        Some(b'g' | b'G') => (&value[..value.len() - 1], 1 << 30),
        _ => (value, 1),
    };
    let count: u64 = digits.parse().map_err(|_| usage(&format!("-I {value}: not a size (such as 1m)")))?;
    Ok(count.saturating_mul(factor))
}

fn usage(message: &str) -> Refusal {
    Refusal::new(EX_USAGE, message)
}

fn failure(message: &str) -> Refusal {
    Refusal::new(EXIT_FAILURE, message)
}
