//! What children may be told anew while they run, as the file that they read at their start and at SIGHUP.
//!
//! It lies in the run's directory. Everything else that a child is told stands on its command line.

use std::fmt::{Display, Write};
use std::path::Path;

use shorttail_server::config::{LogLevel, UpConfig};

/// Writes the file anew; whoever reads it meanwhile sees the old one or the new one.
pub fn write(path: &Path, config: &UpConfig, log: LogLevel) -> std::io::Result<()> {
    let unfinished = path.with_extension("new");
    std::fs::write(&unfinished, text(config, log))?;
    std::fs::rename(&unfinished, path)
}

fn text(config: &UpConfig, log: LogLevel) -> String {
    let mut text = String::new();
    let said = config.sidestep;
    put(&mut text, "log", Some(log));
    text.push_str("\n[node]\n");
    put(&mut text, "repair_bandwidth", Some(config.repair_bandwidth));
    put(&mut text, "scrub_bandwidth", Some(config.scrub_bandwidth));
    text.push_str("\n[gateway]\n");
    put(&mut text, "when_full", Some(config.when_full));
    put_number(&mut text, "connections_max", config.connection_count_max as u64);
    put_number(&mut text, "idle_timeout", config.idle_timeout_s);
    put(&mut text, "policy", said.policy);
    put(&mut text, "read_sidestep", said.read_sidestep);
    put(&mut text, "write_sidestep", said.write_sidestep);
    put(&mut text, "small_write", said.small_write);
    put(&mut text, "update", said.update);
    put(&mut text, "hedge", said.hedge);
    put(&mut text, "hedge_budget", said.hedge_budget);
    put(&mut text, "detector", said.detector);
    put(&mut text, "slice", said.slice);
    put(&mut text, "fail_slow_above", said.fail_slow_above);
    text
}

/// Words only: none holds what a quoted text must escape.
fn put(text: &mut String, key: &str, value: Option<impl Display>) {
    if let Some(value) = value {
        writeln!(text, "{key} = \"{value}\"").expect("writing to memory");
    }
}

fn put_number(text: &mut String, key: &str, value: u64) {
    writeln!(text, "{key} = {value}").expect("writing to memory");
}
