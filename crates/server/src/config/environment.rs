//! Environment variables: `SHORTTAIL_<SECTION>_<KEY>`, read by the flag parser. Here only misspelt ones are found.

use clap::{Args, Command};

use super::coordinator::CoordinatorOptions;
use super::error::ConfigError;
use super::gateway::GatewayOptions;
use super::node::NodeOptions;
use super::up::UpOptions;

/// Sections whose variables are checked; other variables that begin with `SHORTTAIL_` are none of ours to judge.
pub const ENVIRONMENT_SECTIONS: [&str; 4] =
    ["SHORTTAIL_UP_", "SHORTTAIL_NODE_", "SHORTTAIL_GATEWAY_", "SHORTTAIL_COORDINATOR_"];

/// Refuses a variable of one of our sections that names no setting: most likely a misspelt one.
///
/// # Errors
/// Names the variable.
pub fn check_environment(names: impl Iterator<Item = String>) -> Result<(), ConfigError> {
    let known = known_names();
    let ours = |name: &String| ENVIRONMENT_SECTIONS.iter().any(|section| name.starts_with(section));
    match names.filter(ours).find(|name| !known.contains(name)) {
        Some(name) => Err(ConfigError::Environment(name)),
        None => Ok(()),
    }
}

/// The variables of all settings.
pub fn known_names() -> Vec<String> {
    let command = Command::new("names");
    let commands = [
        UpOptions::augment_args(command.clone()),
        NodeOptions::augment_args(command.clone()),
        GatewayOptions::augment_args(command.clone()),
        CoordinatorOptions::augment_args(command),
    ];
    let names = commands.iter().flat_map(|command| command.get_arguments().filter_map(|argument| argument.get_env()));
    names.map(|name| name.to_string_lossy().into_owned()).collect()
}
