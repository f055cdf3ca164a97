//! The command line.

mod origin;

use std::error::Error;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::LazyLock;

use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use shorttail_server::config::{AddressError, CoordinatorOptions, GatewayOptions, LogLevel, NodeOptions, UpOptions};
use shorttail_server::coordinator::METADATA_FORMAT;
use shorttail_server::node::MEMORY_FILE_LAYOUT;
use shorttail_wire::control::CONTROL_PROTOCOL_VERSION;
use shorttail_wire::gateway::GATEWAY_PROTOCOL_VERSION;
use shorttail_wire::node::PROTOCOL_VERSION;

use crate::acknowledge::AcknowledgeCommand;
use crate::admin::AdminPort;
use crate::chaos::ChaosCommand;
use crate::drain::DrainCommand;
use crate::lines;
use crate::policy::PolicyCommand;
use crate::remove::RemoveCommand;
use crate::wait::WaitCommand;
use crate::watch;

const EXAMPLES: &str = "\
Examples:
  shorttail up                          eight nodes on this machine
  shorttail status                      who is alive, what is stored
  shorttail up --nodes 12 --code rs:8+2 --node-memory 1g
  shorttail memcached -p 11211 -m 1024  in the place of the memcached program

Every flag can also be an environment variable (SHORTTAIL_UP_NODES=12) or a key of a file (--config FILE); a flag wins \
over a variable, which wins over the file. `shorttail config example` prints a file with all settings.

Exit codes: 0 done, 1 failed, 2 the command line or configuration makes no sense, 3 this node was removed from its \
cluster.";

/// What two builds must have in common to be mixed.
static LONG_VERSION: LazyLock<String> = LazyLock::new(|| {
    format!(
        "{}\ncontrol protocol {CONTROL_PROTOCOL_VERSION}, node protocol {PROTOCOL_VERSION}, gateway protocol \
         {GATEWAY_PROTOCOL_VERSION}, memory file {MEMORY_FILE_LAYOUT}, metadata format {METADATA_FORMAT}",
        env!("CARGO_PKG_VERSION")
    )
});

/// An erasure-coded, tail-tolerant in-memory store that memcached and Redis clients use unchanged.
#[derive(Parser, Debug)]
#[command(name = "shorttail", version, long_version = LONG_VERSION.as_str(), after_help = EXAMPLES, max_term_width = 120)]
pub struct Cli {
    /// How much is said on standard error [default: warn]
    #[arg(long, global = true, env = "SHORTTAIL_LOG", value_enum, value_name = "LEVEL")]
    pub log: Option<LogLevel>,
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Subcommand, Debug)]
pub enum Verb {
    /// Run a whole cluster on this machine: nodes, gateway and coordinator as processes
    #[command(after_help = UP_EXAMPLES)]
    Up(UpCommand),
    /// Run a node: lends memory to the cluster
    #[command(after_help = NODE_EXAMPLES)]
    Node(NodeCommand),
    /// Run a gateway: memcached and Redis clients connect to it
    #[command(after_help = GATEWAY_EXAMPLES)]
    Gateway(GatewayCommand),
    /// Run the coordinator: who is a member, who is alive
    #[command(after_help = COORDINATOR_EXAMPLES)]
    Coordinator(CoordinatorCommand),
    /// Show the cluster
    #[command(after_help = STATUS_EXAMPLES)]
    Status(StatusCommand),
    /// Wait until everything is served and nothing is missing
    #[command(after_help = crate::wait::EXAMPLES)]
    Wait(WaitCommand),
    /// Make nodes faulty on purpose, in a cluster that was started with --allow-chaos
    #[command(after_help = crate::chaos::EXAMPLES)]
    Chaos(ChaosCommand),
    /// What is done about slow nodes, and how objects are stored: show it, or change it while the cluster serves
    #[command(after_help = crate::policy::EXAMPLES)]
    Policy(PolicyCommand),
    /// Let a member hand over what it has, so that it may be stopped
    #[command(after_help = crate::drain::EXAMPLES)]
    Drain(DrainCommand),
    /// Take a node out of the cluster for good
    #[command(after_help = crate::remove::EXAMPLES)]
    Remove(RemoveCommand),
    /// Silence the warning that acknowledged writes may be lost
    #[command(after_help = crate::acknowledge::EXAMPLES)]
    Acknowledge(AcknowledgeCommand),
    /// Check a configuration file, or print one to begin with
    #[command(after_help = CONFIG_EXAMPLES)]
    Config(ConfigCommand),
    /// Print what lets a shell complete these commands and flags
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions(CompletionsCommand),
    /// Measure: this store, and those it is compared with
    Bench {
        #[command(subcommand)]
        measurement: shorttail_bench::Command,
    },
    /// Run the roles' own code in simulated time, with faults, and check what clients saw
    Sim(Box<shorttail_sim::cli::SimOptions>),
    /// Run in the place of the memcached program, with its flags (see `shorttail memcached -h`)
    #[command(disable_help_flag = true)]
    Memcached,
}

impl Verb {
    /// Does it run until it is told to end?
    pub fn is_role(&self) -> bool {
        matches!(self, Verb::Up(_) | Verb::Node(_) | Verb::Gateway(_) | Verb::Coordinator(_))
    }
}

const UP_EXAMPLES: &str = "\
Examples:
  shorttail up
  shorttail up --gateways 3               they share the partitions
  shorttail up --nodes 6 --node-memory 1g --when-full error
  shorttail up --memcached 127.0.0.1:0    any free port, printed
  shorttail up --dir /var/lib/shorttail   keeps the cluster's identity

When the cluster serves, one line begins with `ready`. Ctrl-C ends all of it.";

const NODE_EXAMPLES: &str = "\
Examples:
  shorttail node --coordinator 10.0.0.1:7000 --listen 10.0.0.5:7001 --id 4
  shorttail node --cluster-id c1 --id 0 --listen unix:/run/n0.sock

The second one has no coordinator.

Give each node its --id: a node that comes back under its number replaces its former life.";

const GATEWAY_EXAMPLES: &str = "\
Examples:
  shorttail gateway --coordinator 10.0.0.1:7000 --memcached 0.0.0.0:11211
  shorttail gateway --cluster-id c1 --epoch 1 --code rs:1+1 \\
      --nodes 0=127.0.0.1:7001,1=127.0.0.1:7002";

const COORDINATOR_EXAMPLES: &str = "\
Examples:
  shorttail coordinator --listen 10.0.0.1:7000 --admin 10.0.0.1:8080 \\
      --dir /var/lib/shorttail --code rs:4+2 --nodes 8";

const STATUS_EXAMPLES: &str = "\
Examples:
  shorttail status
  shorttail status --admin 10.0.0.1:8080
  shorttail status --watch                every second; --watch 10s
  shorttail status --json | jq '.nodes[] | select(.state != \"normal\")'";

const CONFIG_EXAMPLES: &str = "\
Examples:
  shorttail config example > shorttail.toml
  shorttail config check shorttail.toml";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  source <(shorttail completions bash)
  shorttail completions zsh > ~/.zfunc/_shorttail
  shorttail completions fish > ~/.config/fish/completions/shorttail.fish";

#[derive(Args, Debug)]
pub struct UpCommand {
    /// TOML file; its section [up] is read
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub options: UpOptions,
}

#[derive(Args, Debug)]
pub struct NodeCommand {
    /// TOML file; its section [node] is read
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub options: NodeOptions,
}

#[derive(Args, Debug)]
pub struct GatewayCommand {
    /// TOML file; its section [gateway] is read
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub options: GatewayOptions,
}

#[derive(Args, Debug)]
pub struct CoordinatorCommand {
    /// TOML file; its section [coordinator] is read
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub options: CoordinatorOptions,
}

/// The command line as it was given; one that makes no sense ends the program.
pub fn parse(arguments: &[OsString]) -> Cli {
    Cli::try_parse_from(arguments).unwrap_or_else(|error| {
        let error = origin::name_variable(error, Cli::command(), arguments, |name| std::env::var_os(name));
        if !is_unresolved(&error) {
            error.exit();
        }
        lines::end_with(error.to_string().trim_end());
        std::process::exit(1)
    })
}

/// What lets a shell complete the command line.
pub fn completions(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "shorttail", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Is it about a name that cannot be resolved now? That is no nonsense, and may succeed later.
fn is_unresolved(error: &clap::Error) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref());
    matches!(cause, Some(AddressError::Unresolved(..)))
}

#[derive(Args, Debug)]
pub struct StatusCommand {
    #[command(flatten)]
    pub admin: AdminPort,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub json: bool,
    /// Show it again and again, every second or as said, until Ctrl-C
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = watch::USUAL, value_parser = watch::parse)]
    pub watch: Option<u64>,
}

#[derive(Args, Debug)]
pub struct CompletionsCommand {
    pub shell: Shell,
}

#[derive(Args, Debug)]
pub struct ConfigCommand {
    #[command(subcommand)]
    pub verb: ConfigVerb,
}

#[derive(Subcommand, Debug)]
pub enum ConfigVerb {
    /// Say whether a file is sensible; exit code 2 if not
    Check { file: PathBuf },
    /// Print a commented file with all settings: their defaults, or an example where there is none
    Example,
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind::NotFound;

    use shorttail_server::config::with_resolver;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn shells_are_told_every_command_and_flag() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = completions(shell);
            for word in ["drain", "acknowledge", "node-memory", "repair-bandwidth"] {
                assert!(script.contains(word), "{shell}: {word}");
            }
        }
    }

    fn after_helps(command: &clap::Command) -> Vec<String> {
        let own = command.get_after_help().map(ToString::to_string);
        own.into_iter().chain(command.get_subcommands().flat_map(after_helps)).collect()
    }

    /// A paragraph is one line, which is wrapped to what the terminal has; an example must not be.
    #[test]
    fn help_fits_a_terminal_of_80_columns() {
        let helps = after_helps(&Cli::command());
        assert!(helps.len() > 10, "{helps:?}");
        for help in helps {
            for line in help.lines().filter(|line| line.starts_with(' ')) {
                assert!(line.chars().count() <= 78, "too long: {line}");
            }
            for (line, next) in help.lines().zip(help.lines().skip(1)) {
                let is_prose = |line: &str| !line.is_empty() && !line.starts_with(' ');
                assert!(!is_prose(line) || !is_prose(next), "one paragraph: {line}");
            }
        }
    }

    /// A name service may be late: systemd is to start the process again.
    #[test]
    fn a_name_that_cannot_be_resolved_is_not_nonsense() {
        let refused = |line: &str| {
            let words = line.split_whitespace();
            with_resolver(|_| Err(NotFound.into()), || Cli::try_parse_from(words).expect_err("no name is known"))
        };
        for line in [
            "shorttail node --coordinator coord:7000",
            "shorttail gateway --coordinator 10.0.0.1:7000,coord:7000",
            "shorttail coordinator --listen coord:7000",
        ] {
            let error = refused(line);
            assert!(is_unresolved(&error) && error.to_string().contains("cannot be resolved now"), "{line}: {error}");
        }
        for line in ["shorttail node --coordinator coord", "shorttail node --bogus"] {
            assert!(!is_unresolved(&refused(line)), "{line}");
        }
    }

    #[test]
    fn every_role_takes_its_flags() {
        for line in [
            "shorttail up --nodes 8 --code rs:4+2 --node-memory 256MiB --memcached 127.0.0.1:11211 \
             --redis 127.0.0.1:6379 --admin 127.0.0.1:8080 --dir d --config f",
            "shorttail up --restart-nodes --transport tcp --allow-chaos",
            "shorttail coordinator --listen 127.0.0.1:7000 --admin off --dir d --code rs:4+2 --partitions 4",
            "shorttail node --coordinator unix:/run/c.sock --id 3 --memory 1g",
            "shorttail gateway --cluster-id c1 --epoch 2 --nodes 0=127.0.0.1:7001,1=unix:/run/n1.sock",
            "shorttail status --admin 127.0.0.1:8080 --json",
            "shorttail status --admin http://10.0.0.1:8080,a-name-that-is-looked-up-when-it-is-asked:8080",
            "shorttail status --watch",
            "shorttail status --watch 5s --json",
            "shorttail completions zsh",
            "shorttail wait --within 2m --admin 127.0.0.1:8080",
            "shorttail up --gateways 3",
            "shorttail drain gateway 2 --admin 127.0.0.1:8080",
            "shorttail config check f",
            "shorttail config example",
        ] {
            assert!(Cli::try_parse_from(line.split_whitespace()).is_ok(), "{line}");
        }
    }
}
