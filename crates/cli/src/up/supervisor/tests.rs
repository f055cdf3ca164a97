//! What is done about a child that cannot be started, with a program that is there or not.

use std::sync::mpsc::channel;

use super::*;
use crate::up::run_dir::RunDir;

/// Of a cluster that serves, whose program lies there; a node that died, too.
fn supervisor(program: PathBuf, parent: &std::path::Path) -> Supervisor {
    let config: UpConfig = UpOptions::default().resolve().expect("sensible");
    let plan = Plan::new(config, LogLevel::Warn, program, RunDir::create(Some(parent)).expect("made"));
    let source = Source { file: None, options: UpOptions::default(), log: None };
    let (tell, events) = channel();
    let mut supervisor = Supervisor::new(plan, source, tell, events);
    supervisor.is_ready = true;
    supervisor.members.push(Member { start_count: 1, ..Member::new(Part::Node(3)) });
    supervisor
}

/// Now, unless it waits.
fn start_again(supervisor: &mut Supervisor) -> bool {
    supervisor.members[0].restart_at = Some(Instant::now());
    supervisor.restart_due().expect("those that run go on");
    supervisor.members[0].child.is_some()
}

#[test]
fn one_that_cannot_be_started_again_is_tried_again_until_it_can() {
    let parent = tempfile::tempdir().expect("a directory");
    let program = parent.path().join("program");
    let mut supervisor = supervisor(program.clone(), parent.path());
    for _ in 0..2 {
        assert!(!start_again(&mut supervisor));
        let waits = &supervisor.members[0];
        assert!(waits.restart_at.is_some_and(|at| at > Instant::now()), "not at once");
        assert!(waits.trouble.as_ref().is_some_and(|trouble| trouble.starts_with("cannot start node 3: ")));
    }
    std::os::unix::fs::symlink("/bin/true", program).expect("linked");
    assert!(start_again(&mut supervisor));
    let runs = &supervisor.members[0];
    assert_eq!((runs.restart_at, &runs.trouble, runs.start_count), (None, &None, 2));
}

#[test]
fn what_fails_is_borne_once_the_cluster_serves_and_not_before() {
    let parent = tempfile::tempdir().expect("a directory");
    let mut supervisor = supervisor("nowhere".into(), parent.path());
    let failed = || Err::<(), _>(anyhow!("no thread"));
    assert!(supervisor.bear(failed()).is_ok_and(|found| found.is_none()));
    supervisor.is_ready = false;
    assert_eq!(supervisor.bear(failed()).expect_err("it ends").to_string(), "no thread");
}
