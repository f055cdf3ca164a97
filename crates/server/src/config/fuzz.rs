//! Entry for fuzzers: any text, as a configuration file and as a credentials file. Runs as a plain test too.
//!
//! Pure: no file is opened and no name is looked up, whatever the text says.

use std::path::Path;

use super::address::with_names_unknown;
use super::credentials::parse_credentials;
use super::error::ConfigError;
use super::file::ConfigFile;

/// What the file is called in messages.
const NAME: &str = "fuzz.toml";

/// Parses and checks a file that holds `text`.
///
/// # Panics
/// If a refusal does not name the file and the problem, or a setting does not survive merging or printing.
pub fn fuzz_config(text: &str) {
    if let Err(problem) = parse_credentials(text) {
        assert!(!problem.is_empty(), "a credentials file is refused without a word");
    }
    with_names_unknown(|| check(Path::new(NAME), text));
}

fn check(path: &Path, text: &str) {
    let file = match ConfigFile::parse(path, text) {
        Ok(file) => without_other_files(file),
        Err(error) => return assert_located(&error),
    };
    // What a file says is what it says beside nothing, in either order.
    assert_eq!(file.up.clone().or(Default::default()), file.up);
    assert_eq!(ConfigFile::default().gateway.or(file.gateway.clone()), file.gateway);
    assert_eq!(file.node.clone().or(Default::default()), file.node);
    assert_eq!(ConfigFile::default().coordinator.or(file.coordinator.clone()), file.coordinator);
    if let Some(size) = file.up.node_memory {
        assert_eq!(size.to_string().parse(), Ok(size), "a size prints as it is read");
    }
    if let Some(address) = &file.node.listen {
        assert_eq!(address.to_string().parse().as_ref(), Ok(address), "an address prints as it is read");
    }
    if let Err(error) = file.check_parsed(path, text) {
        assert_located(&error);
    }
}

/// The file without the names of others that would be opened.
fn without_other_files(mut file: ConfigFile) -> ConfigFile {
    file.up.auth_file = None;
    file.gateway.auth_file = None;
    file
}

fn assert_located(error: &ConfigError) {
    match error {
        ConfigError::File { problem, .. }
        | ConfigError::Unresolved { problem, .. }
        | ConfigError::Unread { problem, .. } => {
            assert!(!problem.trim().is_empty(), "a file is refused without a word")
        }
        other => panic!("does not name the file: {other}"),
    }
    assert!(error.to_string().starts_with(NAME), "{error}");
}
