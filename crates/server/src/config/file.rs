//! The configuration file: one TOML file with a section for each role.

use std::io::{self, Read};
use std::path::Path;

use serde::Deserialize;

use super::address::{Address, with_resolver};
use super::coordinator::{COORDINATOR_PORT, CoordinatorOptions};
use super::error::{ConfigError, Setting};
use super::gateway::GatewayOptions;
use super::limits::FILE_BYTES_MAX;
use super::log::LogLevel;
use super::node::NodeOptions;
use super::up::UpOptions;

/// What a file says; a section that is absent says nothing.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConfigFile {
    /// How much is said, by any role that reads the file.
    pub log: Option<LogLevel>,
    pub up: UpOptions,
    pub node: NodeOptions,
    pub gateway: GatewayOptions,
    pub coordinator: CoordinatorOptions,
}

impl ConfigFile {
    /// Reads a file, or says nothing if there is none.
    ///
    /// # Errors
    /// Names the file, and the key and line at fault.
    pub fn read(path: Option<&Path>) -> Result<Self, ConfigError> {
        path.map_or_else(|| Ok(ConfigFile::default()), |path| ConfigFile::parse(path, &read_text(path)?))
    }

    pub(super) fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        toml::from_str(text).map_err(|error| {
            let (path, problem) = (path.to_owned(), in_words(error.to_string().trim_end()));
            match lacks_names_alone(text) {
                true => ConfigError::Unresolved { path, problem },
                false => ConfigError::File { path, problem },
            }
        })
    }

    /// Checks a whole file as if each of its sections were run; what has to be said beside it, for people.
    ///
    /// # Errors
    /// Names the file, and the key and line at fault.
    pub fn check(path: &Path) -> Result<Vec<String>, ConfigError> {
        let text = read_text(path)?;
        ConfigFile::parse(path, &text)?.check_parsed(path, &text)
    }

    /// As [`ConfigFile::check`], of what was parsed from `text`.
    pub(super) fn check_parsed(self, path: &Path, text: &str) -> Result<Vec<String>, ConfigError> {
        let located = |error| match error {
            ConfigError::Setting { setting, problem } => ConfigError::File {
                path: path.to_owned(),
                problem: format!("{}{}.{}: {problem}", line_prefix(text, setting), setting.section, setting.key),
            },
            other => other,
        };
        self.check_sections().map_err(located)
    }

    fn check_sections(mut self) -> Result<Vec<String>, ConfigError> {
        let nothing = ConfigFile::default();
        let notes = self.fill_in_coordinators(&nothing);
        if self.up != nothing.up {
            self.up.resolve()?;
        }
        if self.node != nothing.node {
            self.node.resolve()?;
        }
        if self.gateway != nothing.gateway {
            self.gateway.resolve()?;
        }
        if self.coordinator != nothing.coordinator {
            self.coordinator.resolve()?;
        }
        Ok(notes)
    }

    /// Whom a member registers with may also be said by a flag: some coordinator stands for it. Notes where that is so.
    fn fill_in_coordinators(&mut self, nothing: &ConfigFile) -> Vec<String> {
        let any = || Some(Address::Tcp(([127, 0, 0, 1], COORDINATOR_PORT).into()).into());
        let mut notes = Vec::new();
        let mut note = |section| notes.push(format!("[{section}] needs --coordinator on the command line"));
        let (node, gateway) = (&mut self.node, &mut self.gateway);
        if *node != nothing.node && node.coordinator.is_none() && node.cluster_id.is_none() {
            node.coordinator = any();
            note("node");
        }
        let is_static = gateway.cluster_id.is_some() || gateway.epoch.is_some() || gateway.nodes.is_some();
        if *gateway != nothing.gateway && gateway.coordinator.is_none() && !is_static {
            gateway.coordinator = any();
            note("gateway");
        }
        notes
    }
}

/// Would a text be taken if every name were known? The parser's error says only in words what is wrong.
fn lacks_names_alone(text: &str) -> bool {
    let anywhere = |_: &str| Ok(vec![([127, 0, 0, 1], COORDINATOR_PORT).into()]);
    with_resolver(anywhere, || toml::from_str::<ConfigFile>(text).is_ok())
}

/// The parser names types of the program; people write numbers.
fn in_words(problem: &str) -> String {
    let types = ["usize", "u64", "u32", "u16", "u8"];
    types.iter().fold(problem.to_owned(), |text, name| {
        text.replace(&format!("expected {name}"), "expected a whole number within its limits")
    })
}

/// # Errors
/// When the file cannot be read, is no text or is too long.
pub fn read_text(path: &Path) -> Result<String, ConfigError> {
    let problem = |problem: String| ConfigError::File { path: path.to_owned(), problem };
    let unread = |error: io::Error| match may_pass(error.kind()) {
        true => ConfigError::Unread { path: path.to_owned(), problem: error.to_string() },
        false => problem(error.to_string()),
    };
    let file = std::fs::File::open(path).map_err(unread)?;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(unread)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(problem(format!("is longer than {FILE_BYTES_MAX} bytes")));
    }
    Ok(text)
}

/// May what kept a file from being read be over later, by itself?
fn may_pass(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{InvalidData, InvalidFilename, IsADirectory, NotADirectory, NotFound, PermissionDenied};
    let lasting = [NotFound, PermissionDenied, IsADirectory, NotADirectory, InvalidData, InvalidFilename];
    !lasting.contains(&kind)
}

/// `line 12: ` where the file sets the key, or nothing when a default is at fault.
fn line_prefix(text: &str, setting: Setting) -> String {
    let mut section = "";
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            section = name.trim();
        }
        let key = line.split('=').next().unwrap_or_default().trim().trim_matches('"');
        let dotted = key.split_once('.').is_some_and(|(outer, inner)| outer == setting.section && inner == setting.key);
        if (section == setting.section && key == setting.key) || (section.is_empty() && dotted) {
            return format!("line {}: ", index + 1);
        }
    }
    String::new()
}

/// A file with every setting and its default, as comments.
pub const EXAMPLE: &str = include_str!("example.toml");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::address::with_names_unknown;

    /// A name service may be late, and whoever starts the process is to try again.
    #[test]
    fn a_name_that_cannot_be_resolved_is_not_nonsense() {
        let refused = |text: &str| with_names_unknown(|| ConfigFile::parse(Path::new("f"), text).expect_err(text));
        let error = refused("[node]\ncoordinator = \"coord:7000\"\n");
        assert!(matches!(error, ConfigError::Unresolved { .. }), "{error}");
        assert!(
            error.to_string().contains("\"coord:7000\" cannot be resolved now") && error.to_string().contains("line 2")
        );
        for nonsense in ["coordinator = \"coord\"", "coordinator = \"coord:7000\"\nid = \"x\""] {
            let error = refused(&format!("[node]\n{nonsense}\n"));
            assert!(matches!(error, ConfigError::File { .. }), "{error}");
        }
    }

    /// A file system may be late, and whoever starts the process is to try again.
    #[test]
    fn a_file_that_cannot_be_read_now_is_not_nonsense() {
        let dir = tempfile::tempdir().expect("a directory");
        let text = dir.path().join("text");
        std::fs::write(&text, [0xff]).expect("written");
        for path in [dir.path().join("none"), text.join("below"), dir.path().to_owned(), text] {
            let error = read_text(&path).expect_err("not to be read");
            assert!(matches!(error, ConfigError::File { .. }), "{error}");
        }
        // It can be opened, and reading it is an error of the device.
        let error = read_text(Path::new("/proc/self/mem")).expect_err("nothing is there");
        assert!(matches!(error, ConfigError::Unread { .. }), "{error}");
    }

    #[test]
    fn what_is_expected_is_said_in_words() {
        for text in ["[up]\nnodes = \"x\"\n", "[node]\nid = -1\n", "[node]\nid = 70000\n"] {
            let error = ConfigFile::parse(Path::new("f"), text).expect_err(text).to_string();
            assert!(error.contains("expected a whole number") && error.contains("line 2"), "{error}");
        }
    }
}
