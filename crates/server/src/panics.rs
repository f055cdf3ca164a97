//! A panic of any thread ends the process of a role.
//!
//! A broken invariant in one core leaves a role that looks alive and is not: its main thread would go on sending
//! heartbeats for partitions or chunks that nobody serves, so nobody would take over, and nothing would be repaired.
//! Other gateways and nodes know how to go on without a process that ended.
//!
//! Must not know: which role it is.

use std::time::Duration;

/// What a panic has to say takes no longer.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// From now on a panic says what it has to say, and is the process's end.
pub fn end_the_process() {
    let say = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // Where nobody reads what is said it would not come to an end.
        let end = || {
            std::thread::sleep(LAST_WORDS);
            std::process::abort();
        };
        let _ = std::thread::Builder::new().stack_size(64 << 10).spawn(end);
        say(panic);
        std::process::abort();
    }));
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::path::Path;
    use std::process::Command;
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc::channel;

    use crate::config::{CoordinatorOptions, GatewayOptions, NodeOptions};
    use crate::{coordinator, gateway, node, single};

    /// Which role the process of this test is to begin as.
    const ROLE: &str = "PANICKING_ROLE";

    /// Each role begins, in a process of its own, with a socket that is not to be had; then one of its threads panics.
    #[test]
    fn a_panic_of_one_thread_ends_every_role() {
        if let Ok(role) = std::env::var(ROLE) {
            begin(&role).expect_err("there is no such directory");
            let panicked = std::thread::spawn(|| panic!("on purpose")).join().is_err();
            // Without the rule the process lives on.
            std::process::exit(if panicked { 0 } else { 3 });
        }
        for role in ["node", "gateway", "coordinator", "single"] {
            let itself = std::env::current_exe().expect("a name");
            let mut command = Command::new(itself);
            command.args(["--exact", "panics::tests::a_panic_of_one_thread_ends_every_role", "--nocapture"]);
            let output = command.env(ROLE, role).output().expect("started");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(said.contains("on purpose"), "{role}: {said}");
            assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{role}: {said}");
        }
    }

    fn begin(role: &str) -> anyhow::Result<()> {
        let nowhere = "unix:/nonexistent/shorttail";
        let listen = Some(nowhere.parse()?);
        match role {
            "node" => {
                let options =
                    NodeOptions { listen, coordinator: Some("127.0.0.1:1".parse()?), ..NodeOptions::default() };
                node::run(options.resolve()?, &channel().1)
            }
            "gateway" => {
                let coordinator = Some("127.0.0.1:1".parse()?);
                let unix_socket = Some("/nonexistent/shorttail".into());
                let options = GatewayOptions {
                    coordinator,
                    unix_socket,
                    memcached: Some("off".parse()?),
                    redis: Some("off".parse()?),
                    ..GatewayOptions::default()
                };
                gateway::run(options.resolve()?, &channel().1, &AtomicBool::new(false))
            }
            "coordinator" => {
                let options = CoordinatorOptions { listen, ..CoordinatorOptions::default() };
                coordinator::run(options.resolve()?, false, || {})
            }
            _ => single::run(single::tests::options(Path::new("/nonexistent/shorttail"))),
        }
    }
}
