//! What a connection says before anything is asked on it, where the server wants a password.

use std::path::Path;

use anyhow::{Context, ensure};

use crate::codec::{Codec, shown};

/// A user and its password, as in the gateways' `--auth-file`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    user: String,
    password: String,
}

impl Login {
    /// The first line of a file that is not empty.
    ///
    /// # Errors
    /// There is no such file, or that line is not `user:password`.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let name = path.display();
        let text = std::fs::read_to_string(path).with_context(|| format!("--auth-file: {name}"))?;
        Login::parse(&text).with_context(|| format!("--auth-file: {name}: its first line should be 'user:password'"))
    }

    fn parse(text: &str) -> Option<Self> {
        let line = text.lines().find(|line| !line.trim().is_empty())?;
        let (user, password) = line.split_once(':').filter(|(user, _)| !user.is_empty())?;
        Some(Login { user: user.to_owned(), password: password.to_owned() })
    }

    pub fn greeting(&self, codec: Codec) -> Vec<u8> {
        let mut said = Vec::new();
        codec.write_login(&self.user, &self.password, &mut said);
        said
    }
}

/// Is the answer to a greeting, without its line break, a welcome?
///
/// # Errors
/// Says what the server answered instead.
pub fn check_welcome(answer: &[u8]) -> anyhow::Result<()> {
    ensure!([&b"STORED"[..], b"+OK"].contains(&answer), "the server refuses --auth-file: {}", shown(answer));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Protocol;

    #[test]
    fn the_first_line_is_said_in_each_protocol() {
        let login = Login::parse("\napp:pass:word\nother:one\n").expect("well-formed");
        let said = |protocol| login.greeting(Codec { protocol, wait_replicas: None });
        assert_eq!(said(Protocol::Memcached), b"set auth 0 0 13\r\napp pass:word\r\n");
        assert_eq!(said(Protocol::Redis), b"*3\r\n$4\r\nAUTH\r\n$3\r\napp\r\n$9\r\npass:word\r\n");
        for text in ["", "\n", "app\n", ":password\n"] {
            assert_eq!(Login::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn what_is_no_welcome_is_told() {
        for welcome in ["STORED", "+OK"] {
            check_welcome(welcome.as_bytes()).expect("a welcome");
        }
        let refusal = check_welcome(b"-WRONGPASS invalid").expect_err("refused").to_string();
        assert!(refusal.contains("WRONGPASS invalid"), "{refusal}");
    }
}
