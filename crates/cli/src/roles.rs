//! The roles alone: settings together, checked, and the role run in this process.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;

use anyhow::Context;
use shorttail_server::config::{ConfigFile, LogLevel, MetadataPlace, Size, check_environment, warn_of_fixed};
use signal_hook::consts::SIGTERM;

use crate::arguments::{CoordinatorCommand, GatewayCommand, NodeCommand};
use crate::exit::Failure;
use crate::reload::{Reloads, log_level};
use crate::starting::Starting;
use crate::{lifeline, logging, resources};

pub fn node(command: NodeCommand, log: Option<LogLevel>) -> Result<(), Failure> {
    let reloads = Reloads::begin(command.config)?;
    let file = prepare(reloads.file(), log)?;
    let said = command.options;
    let config = said.clone().or(file.node).resolve()?;
    // `up` has said it of all its nodes together.
    if !lifeline::is_wanted()
        && let Some(problem) = resources::memory_problem("the node (--memory)", Size(config.memory_bytes))
    {
        tracing::warn!("{problem}");
    }
    hold_lifeline()?;
    resources::allow_node_files(config.threads);
    let (tell, changes) = channel();
    reloads.watch(log, move |file| {
        // A node that no longer listens is ending.
        let _ = tell.send(said.clone().or(file.node).resolve()?);
        Ok(())
    })?;
    // The first process of a container would not end by the signal alone.
    signal_hook::flag::register_conditional_shutdown(SIGTERM, 0, Arc::new(AtomicBool::new(true)))
        .context("cannot watch for SIGTERM")?;
    shorttail_server::node::run(config, &changes).map_err(|error| match shorttail_server::node::was_removed(&error) {
        true => Failure::Removed(error),
        false => Failure::Failed(error),
    })
}

pub fn gateway(command: GatewayCommand, log: Option<LogLevel>, starting: &Starting) -> Result<(), Failure> {
    let reloads = Reloads::begin(command.config)?;
    let file = prepare(reloads.file(), log)?;
    let said = command.options;
    let mut config = said.clone().or(file.gateway).resolve()?;
    hold_lifeline()?;
    config.connection_count_max = resources::allow_gateway_files(config.connection_count_max, config.threads);
    let (tell, changes) = channel();
    reloads.watch(log, move |file| {
        let mut config = said.clone().or(file.gateway).resolve()?;
        config.connection_count_max = resources::allow_gateway_files(config.connection_count_max, config.threads);
        // A gateway that no longer listens is ending.
        let _ = tell.send(config);
        Ok(())
    })?;
    let leaves = Arc::new(AtomicBool::new(false));
    leave_at_signal(&leaves).context("cannot watch for SIGTERM")?;
    starting.end();
    Ok(shorttail_server::gateway::run(config, &changes, &leaves)?)
}

/// At SIGTERM a gateway hands over what it owns before it ends. The next one ends it at once.
fn leave_at_signal(leaves: &Arc<AtomicBool>) -> io::Result<()> {
    signal_hook::flag::register_conditional_shutdown(SIGTERM, 0, Arc::clone(leaves))?;
    signal_hook::flag::register(SIGTERM, Arc::clone(leaves))?;
    Ok(())
}

pub fn coordinator(command: CoordinatorCommand, log: Option<LogLevel>, starting: &Starting) -> Result<(), Failure> {
    let reloads = Reloads::begin(command.config)?;
    let file = prepare(reloads.file(), log)?;
    let said = command.options;
    let config = said.clone().or(file.coordinator).resolve()?;
    hold_lifeline()?;
    resources::allow_coordinator_files(config.node_count, config.gateway_count);
    if config.metadata == MetadataPlace::Nowhere && !lifeline::is_wanted() {
        tracing::warn!(
            "metadata is kept nowhere: started again, this coordinator begins a new cluster (--dir keeps it)"
        );
    }
    let mut running = config.clone();
    reloads.watch(log, move |file| {
        warn_of_fixed(&running.take_live(said.clone().or(file.coordinator).resolve()?));
        Ok(())
    })?;
    // `up` prints what becomes of members.
    Ok(shorttail_server::coordinator::run(config, lifeline::is_wanted(), || starting.end())?)
}

/// What all roles begin with: the environment checked, the file read, and as much said as these two want.
pub fn prepare(file: Option<&Path>, log: Option<LogLevel>) -> Result<ConfigFile, Failure> {
    let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    check_environment(names)?;
    let file = ConfigFile::read(file)?;
    logging::set(log_level(log, &file));
    Ok(file)
}

fn hold_lifeline() -> Result<(), Failure> {
    lifeline::hold().map_err(|error| Failure::Failed(anyhow::Error::new(error).context("cannot watch the parent")))
}
