//! The roles alone: settings together, checked, and the role run in this process.

use std::path::Path;

use shorttail_server::config::{ConfigFile, check_environment};

use crate::arguments::{CoordinatorCommand, GatewayCommand, NodeCommand};
use crate::exit::Failure;
use crate::{lifeline, resources};

pub fn node(command: NodeCommand) -> Result<(), Failure> {
    let file = prepare(command.config.as_deref())?;
    let config = command.options.or(file.node).resolve()?;
    hold_lifeline()?;
    Ok(shorttail_server::node::run(config)?)
}

pub fn gateway(command: GatewayCommand) -> Result<(), Failure> {
    let file = prepare(command.config.as_deref())?;
    let config = command.options.or(file.gateway).resolve()?;
    hold_lifeline()?;
    resources::raise_file_limit(config.connection_count_max);
    Ok(shorttail_server::gateway::run(config)?)
}

pub fn coordinator(command: CoordinatorCommand) -> Result<(), Failure> {
    let file = prepare(command.config.as_deref())?;
    let config = command.options.or(file.coordinator).resolve()?;
    hold_lifeline()?;
    Ok(shorttail_server::coordinator::run(config)?)
}

/// What all roles begin with: the environment checked, the file read.
pub fn prepare(file: Option<&Path>) -> Result<ConfigFile, Failure> {
    let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    check_environment(names)?;
    Ok(ConfigFile::read(file)?)
}

fn hold_lifeline() -> Result<(), Failure> {
    lifeline::hold().map_err(|error| Failure::Failed(anyhow::Error::new(error).context("cannot watch the parent")))
}
