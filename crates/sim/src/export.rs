//! `shorttail sim --histories DIR`: what the clients of simulated runs saw, as files for another judge
//! (`tests/clients/porcupine`, or `shorttail sim judge`).
//!
//! The runs are those in which nothing ends by itself: a judge that knows no clock and no memory has to explain them.
//!
//! Must not know: what another judge makes of them.

use std::path::Path;

use anyhow::{Context, bail};

use crate::cli::SimOptions;
use crate::config::SimConfig;
use crate::history::History;
use crate::lines;
use crate::world::World;

/// Runs the seeds one after the other, and writes a file for each.
///
/// # Errors
/// When a seed shows a violation (its file is written too), a file cannot be, or no seeds are named.
pub fn run(options: &SimOptions, directory: &Path) -> anyhow::Result<()> {
    let (first, count) = match (options.seed, options.seeds) {
        (Some(seed), _) => (seed, 1),
        (None, Some(seeds)) => (options.first, seeds),
        (None, None) => bail!("--histories wants to know which: --seed, or --first and --seeds"),
    };
    std::fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    let (mut operations, mut keys, mut violations) = (0, 0, 0);
    for seed in first..first.saturating_add(count) {
        let mut world = World::with_config(SimConfig::endless(options.profile, seed), seed);
        let outcome = world.run();
        let name = format!("{}-{seed}", options.profile);
        let path = directory.join(format!("{name}.history"));
        std::fs::write(&path, text(&name, world.history())?).with_context(|| path.display().to_string())?;
        keys += world.history().keys().count();
        operations += world.history().keys().map(|key| world.history().operations(key).len()).sum::<usize>();
        if let Err(violation) = outcome {
            println!("{}: {violation}", path.display());
            violations += 1;
        }
    }
    println!("{count} histories: {operations} operations on {keys} keys; violations {violations}");
    if violations > 0 { bail!("{violations} seeds show violations") } else { Ok(()) }
}

/// All of a history; each key has the run's name before its own, so that runs may be judged together.
fn text(run: &str, history: &History) -> anyhow::Result<String> {
    let name = |key: &[u8]| format!("{run}/{}", key.escape_ascii());
    history.keys().map(|key| lines::write(&name(key), history.operations(key))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Profile;
    use crate::judge::{JudgeOptions, run as judge};

    #[test]
    fn what_simulated_clients_saw_can_be_judged_elsewhere() {
        let directory = tempfile::tempdir().expect("a directory");
        for profile in [Profile::Gateways, Profile::Mixed] {
            let mut world = World::with_config(SimConfig::endless(profile, 1), 1);
            world.run().expect("no violation");
            let path = directory.path().join("history");
            let written = text("run", world.history()).expect("nothing ends by itself");
            std::fs::write(&path, &written).expect("written");
            judge(&JudgeOptions { files: vec![path.clone()] }).expect("linearizable");
            let count: usize = world.history().keys().map(|key| world.history().operations(key).len()).sum();
            assert_eq!(written.lines().count(), count);
            // Conditional stores that were done are said to have been refused.
            let wrong = written.replace("\tok\tstored\n", "\trefused\t-\n");
            std::fs::write(&path, wrong).expect("written");
            judge(&JudgeOptions { files: vec![path] }).expect_err("values come from nowhere");
        }
    }
}
