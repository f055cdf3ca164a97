//! The credentials file: `user:password` lines, as memcached's `-Y` takes.

use std::path::Path;

use shorttail_gateway::session::Credential;

use super::error::ConfigError;
use super::file::read_text;
use super::limits::CREDENTIAL_COUNT_MAX;

/// All credentials of a file, in order.
///
/// # Errors
/// Names the file and the line that is not `user:password`.
pub fn read_credentials(path: &Path) -> Result<Vec<Credential>, ConfigError> {
    let text = read_text(path)?;
    let credentials = parse_credentials(&text);
    credentials.map_err(|problem| ConfigError::File { path: path.to_owned(), problem })
}

/// The same, of a setting.
///
/// # Errors
/// Names the setting, too.
pub(super) fn read_credentials_of(section: &'static str, path: &Path) -> Result<Vec<Credential>, ConfigError> {
    read_credentials(path).map_err(|error| match error {
        ConfigError::Unread { .. } => error,
        error => ConfigError::setting(section, "auth_file", error.to_string()),
    })
}

pub(super) fn parse_credentials(text: &str) -> Result<Vec<Credential>, String> {
    let mut credentials = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let pair = line.split_once(':').filter(|(user, _)| !user.is_empty());
        let (user, password) = pair.ok_or_else(|| format!("line {}: should be 'user:password'", index + 1))?;
        credentials.push(Credential { user: user.into(), password: password.into() });
    }
    match credentials.len() {
        0 => Err("has no 'user:password' line, and would let nobody in".to_owned()),
        count if count > CREDENTIAL_COUNT_MAX => Err(format!("has more than {CREDENTIAL_COUNT_MAX} lines")),
        _ => Ok(credentials),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_users_and_passwords() {
        let credentials = parse_credentials("foo:bar\nuser:pa:ss\r\n\nempty:\n").expect("well-formed");
        let pairs: Vec<_> = credentials.iter().map(|one| (&one.user[..], &one.password[..])).collect();
        assert_eq!(pairs, [(&b"foo"[..], &b"bar"[..]), (b"user", b"pa:ss"), (b"empty", b"")]);
    }

    #[test]
    fn a_file_that_is_not_there_is_named_with_its_setting() {
        let error = read_credentials_of("up", Path::new("/nowhere/users")).expect_err("none").to_string();
        assert!(error.starts_with("--auth-file: /nowhere/users: "), "{error}");
    }

    #[test]
    fn a_line_without_a_colon_is_named() {
        assert_eq!(parse_credentials("a:b\nfoo\n"), Err("line 2: should be 'user:password'".into()));
        assert_eq!(parse_credentials(":b\n"), Err("line 1: should be 'user:password'".into()));
        assert!(parse_credentials("\n").is_err());
        let many = "a:b\n".repeat(CREDENTIAL_COUNT_MAX + 1);
        assert!(parse_credentials(&many).is_err());
    }
}
