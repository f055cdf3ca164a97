//! How the program ends when something is wrong.

use std::process::ExitCode;

use shorttail_server::config::ConfigError;

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub enum Failure {
    /// Flags, environment or file make no sense; nothing was started.
    Usage(String),
    /// It was tried, and failed.
    Failed(anyhow::Error),
}

impl Failure {
    /// Says why on standard error.
    pub fn report(&self) -> ExitCode {
        match self {
            Failure::Usage(problem) => {
                eprintln!("shorttail: {problem}");
                ExitCode::from(2)
            }
            Failure::Failed(error) => {
                eprintln!("shorttail: {error:#}");
                ExitCode::from(1)
            }
        }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Failure::Usage(error.to_string())
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Failure::Failed(error)
    }
}
