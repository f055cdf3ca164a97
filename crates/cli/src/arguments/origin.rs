//! Where a senseless value came from: one that nobody wrote on the command line came from an environment variable, and
//! the error is to name it.
//!
//! Must not know: what any flag means.

use std::ffi::{OsStr, OsString};

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, Command, Error};

/// Adds to an error about a flag's value which variable it was in, if it was in one.
pub fn name_variable(
    mut error: Error,
    mut command: Command,
    arguments: &[OsString],
    variable: impl Fn(&OsStr) -> Option<OsString>,
) -> Error {
    command.build();
    if let Some(name) = named_in(&error, &command, arguments).filter(|name| variable(name).is_some()) {
        let tip = format!("the value is that of the environment variable {}", name.to_string_lossy());
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
    }
    error
}

/// The variable of the flag that the error is about, unless the flag was given.
fn named_in(error: &Error, command: &Command, arguments: &[OsString]) -> Option<OsString> {
    let Some(ContextValue::String(about)) = error.get(ContextKind::InvalidArg) else { return None };
    let verb = arguments.iter().skip(1).fold(command, |verb, word| verb.find_subcommand(word).unwrap_or(verb));
    let flag = verb.get_arguments().find(|flag| flag.to_string() == *about)?;
    let is_given = arguments.iter().any(|word| is_flag(flag, &word.to_string_lossy()));
    flag.get_env().filter(|_| !is_given).map(OsStr::to_owned)
}

/// Does a word of the command line give this flag?
fn is_flag(flag: &Arg, word: &str) -> bool {
    let long = flag.get_long().zip(word.strip_prefix("--"));
    long.is_some_and(|(long, word)| word.split_once('=').map_or(word, |(name, _)| name) == long)
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::arguments::Cli;

    /// What is said of these words, which make no sense, while every variable is set.
    fn said(line: &str, words: &str) -> String {
        let error = Cli::try_parse_from(line.split_whitespace()).expect_err("nonsense");
        let words: Vec<OsString> = words.split_whitespace().map(OsString::from).collect();
        name_variable(error, Cli::command(), &words, |_| Some("x".into())).to_string()
    }

    #[test]
    fn a_variable_with_a_senseless_value_is_named() {
        let text = said("shorttail up --nodes abc", "shorttail up");
        assert!(text.contains("abc") && text.contains("SHORTTAIL_UP_NODES"), "{text}");
        let text = said("shorttail up --restart-nodes=maybe", "shorttail up --dir nodes");
        assert!(text.contains("maybe") && text.contains("SHORTTAIL_UP_RESTART_NODES"), "{text}");
        let text = said("shorttail drain --admin nowhere node 3", "shorttail drain node 3");
        assert!(text.contains("nowhere") && text.contains("SHORTTAIL_ADMIN"), "{text}");
    }

    #[test]
    fn what_was_written_on_the_command_line_is_no_variable_s() {
        for line in ["shorttail up --nodes abc", "shorttail up --nodes=abc", "shorttail up --bogus"] {
            assert!(!said(line, line).contains("SHORTTAIL_"), "{line}");
        }
    }
}
