//! How the program ends when something is wrong.

use std::process::ExitCode;

use shorttail_server::config::ConfigError;

use crate::lines;

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub enum Failure {
    /// Flags, environment or file make no sense; nothing was started.
    Usage(String),
    /// It was tried, and failed.
    Failed(anyhow::Error),
    /// This node was taken out of its cluster: it is not to be started again.
    Removed(anyhow::Error),
}

/// What the process of a removed node ends with.
pub const REMOVED: u8 = 3;

impl Failure {
    /// Says why on standard error.
    pub fn report(&self) -> ExitCode {
        lines::end_with(&self.text());
        match self {
            Failure::Usage(_) => ExitCode::from(2),
            Failure::Failed(_) => ExitCode::from(1),
            Failure::Removed(_) => ExitCode::from(REMOVED),
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        match self {
            Failure::Usage(problem) => format!("shorttail: {problem}"),
            Failure::Failed(error) | Failure::Removed(error) => format!("shorttail: {error:#}"),
        }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        match error {
            ConfigError::Unresolved { .. } | ConfigError::Unread { .. } => Failure::Failed(error.into()),
            _ => Failure::Usage(error.to_string()),
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        match error.downcast_ref::<shorttail_bench::load::Senseless>() {
            Some(senseless) => Failure::Usage(senseless.to_string()),
            None => Failure::Failed(error),
        }
    }
}
