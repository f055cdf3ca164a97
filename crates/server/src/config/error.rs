//! Why a configuration is not taken.

use std::path::PathBuf;

/// Names the setting and says what is wrong with it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{setting}: {problem}")]
    Setting { setting: Setting, problem: String },
    #[error("{}: {problem}", path.display())]
    File { path: PathBuf, problem: String },
    /// It makes sense, but for names that cannot be resolved now.
    #[error("{}: {problem}", path.display())]
    Unresolved { path: PathBuf, problem: String },
    /// The file cannot be read now.
    #[error("{}: {problem}", path.display())]
    Unread { path: PathBuf, problem: String },
    #[error("the environment variable {0} names no setting")]
    Environment(String),
}

/// One key of one section, written as its flag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setting {
    pub section: &'static str,
    pub key: &'static str,
}

impl std::fmt::Display for Setting {
    /// The flag; the key of a file is the same with `_` for `-`, below its section.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "--{}", self.key.replace('_', "-"))
    }
}

impl ConfigError {
    pub fn setting(section: &'static str, key: &'static str, problem: impl Into<String>) -> Self {
        ConfigError::Setting { setting: Setting { section, key }, problem: problem.into() }
    }
}

/// Checks that a number is within its limits.
///
/// # Errors
/// Names the setting and its limits.
pub fn within<T: PartialOrd + std::fmt::Display + Copy>(
    section: &'static str,
    key: &'static str,
    value: T,
    min: T,
    max: T,
) -> Result<T, ConfigError> {
    if value < min || value > max {
        return Err(ConfigError::setting(section, key, format!("{value} is not within {min} to {max}")));
    }
    Ok(value)
}
