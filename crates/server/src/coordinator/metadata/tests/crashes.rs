//! What a directory has of the state whatever moment a process dies in, and what is said of one that is damaged.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};

use super::*;

/// Where the process of a test is to save; only such a process has it.
const DIR: &str = "SAVING_IN";

/// Processes that are killed.
const ROUND_COUNT: usize = 60;
/// Saves that are let begin before one is killed, at most.
const SAVE_COUNT_MAX: u64 = 4;
/// Turns of doing nothing before a process is killed, at most: about what a save takes.
const TURN_COUNT_MAX: u64 = 400_000;

/// Processes that save in turn, and how often each.
const SAVER_COUNT: u32 = 3;
const TURNS_OF_SAVER: u32 = 25;

/// One of these is never part of another: each number of the state is the epoch. Longer and shorter ones take turns.
fn whole(epoch: u32) -> Durable {
    let node = DurableNode { incarnation: epoch.into(), address: format!("h{epoch}:1"), ..DurableNode::default() };
    let count = 1 + epoch * 577 % 1000;
    Durable { nodes: (0..count as u16).map(|id| (id, node.clone())).collect::<BTreeMap<_, _>>(), ..state(epoch) }
}

fn file_in(dir: &Path) -> PathBuf {
    dir.join("coordinator.json")
}

fn new_file_in(dir: &Path) -> PathBuf {
    dir.join("coordinator.json.new")
}

/// 0: nothing was ever saved.
fn epoch_in(dir: &Path) -> u32 {
    match won(directory(dir).campaign()) {
        Some(State::Known(found)) => {
            assert!(found == whole(found.epoch), "a mixture: {found:?}");
            found.epoch
        }
        Some(State::NewCluster) => 0,
        None => panic!("no state is told"),
    }
}

/// A process that saves; killed when dropped.
struct Saver(Child);

impl Drop for Saver {
    fn drop(&mut self) {
        // Gone already is as good.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// This test, as a process of its own that saves there.
fn saver(test: &str, dir: &Path) -> Saver {
    let itself = env::current_exe().expect("a name");
    let mut command = Command::new(itself);
    command.args(["--exact", "--nocapture", "--test-threads=1"]);
    command.arg(format!("coordinator::metadata::tests::crashes::{test}")).env(DIR, dir);
    Saver(command.stdout(Stdio::piped()).spawn().expect("started"))
}

/// Saves until it is killed, and tells of each save before and after.
fn save_for_ever(dir: &Path) -> ! {
    let mut epoch = epoch_in(dir);
    let mut store = directory(dir);
    loop {
        epoch += 1;
        println!("\nbegins {epoch}");
        store.save(&whole(epoch)).expect("saved");
        println!("\nsaved {epoch}");
    }
}

/// What a process told: the last save that it began, and the last that was over.
#[derive(Default)]
struct Told {
    begun: u32,
    saved: u32,
    begin_count: u64,
}

impl Told {
    /// Other lines are of who runs the tests.
    fn hear(&mut self, line: &str) {
        if let Some(epoch) = line.strip_prefix("begins ") {
            self.begun = epoch.parse().expect("a number");
            self.begin_count += 1;
        } else if let Some(epoch) = line.strip_prefix("saved ") {
            self.saved = epoch.parse().expect("a number");
        }
    }
}

#[test]
fn whatever_moment_a_process_dies_in_the_state_before_or_after_a_save_is_there() {
    if let Some(dir) = env::var_os(DIR) {
        save_for_ever(Path::new(&dir));
    }
    let dir = tempfile::tempdir().expect("a directory");
    // A fixed sequence of numbers; the machine adds what it does at the same time.
    let mut chance = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |most: u64| {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (chance >> 33) % most
    };
    let (mut died_in_a_save, mut left_behind, mut last) = (0, 0, 0);
    for round in 0..ROUND_COUNT {
        let mut process =
            saver("whatever_moment_a_process_dies_in_the_state_before_or_after_a_save_is_there", dir.path());
        let mut lines = BufReader::new(process.0.stdout.take().expect("piped")).lines();
        let mut told = Told { begun: last, saved: last, begin_count: 0 };
        let wanted = 1 + next(SAVE_COUNT_MAX);
        while told.begin_count < wanted {
            told.hear(&lines.next().expect("it saves for ever").expect("text"));
        }
        let error = Directory::open(dir.path()).expect_err("it lives").to_string();
        assert!(error.starts_with("another coordinator uses"), "{error}");
        (0..next(TURN_COUNT_MAX)).for_each(|_| std::hint::spin_loop());
        process.0.kill().expect("it runs");
        process.0.wait().expect("it is ours");
        // What it said before it died; the last line may be cut short.
        let rest: Vec<String> = lines.map(|line| line.expect("text")).collect();
        rest.iter().for_each(|line| told.hear(line));
        left_behind += u32::from(new_file_in(dir.path()).exists());
        last = epoch_in(dir.path());
        let Told { begun, saved, .. } = told;
        assert!(begun - saved <= 1, "{begun} {saved}");
        assert!(last == saved || last == begun, "round {round}: {last} is there; {saved} was saved, and {begun} begun");
        died_in_a_save += u32::from(begun > saved);
    }
    // Few or none where a sync takes no time: what is left half written has a test of its own.
    eprintln!("of {ROUND_COUNT} that died {died_in_a_save} were saving; {left_behind} left a file half written");
    assert!(died_in_a_save > 0, "nothing was tried");
}

/// Several processes each add to what they find, whenever they get hold of the directory.
#[test]
fn what_one_process_saved_the_next_one_goes_on_from() {
    let test = "what_one_process_saved_the_next_one_goes_on_from";
    if let Some(dir) = env::var_os(DIR) {
        for _ in 0..TURNS_OF_SAVER {
            let mut store = directory(Path::new(&dir));
            let found = match won(store.campaign()) {
                Some(State::Known(found)) => found.epoch,
                _ => 0,
            };
            store.save(&whole(found + 1)).expect("saved");
        }
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let savers: Vec<Saver> = (0..SAVER_COUNT).map(|_| saver(test, dir.path())).collect();
    for mut saver in savers {
        let mut said = String::new();
        saver.0.stdout.take().expect("piped").read_to_string(&mut said).expect("text");
        assert!(saver.0.wait().expect("it is ours").success(), "{said}");
    }
    assert_eq!(epoch_in(dir.path()), SAVER_COUNT * TURNS_OF_SAVER, "no save was lost");
}

#[test]
fn what_a_process_left_half_written_does_not_count() {
    let dir = tempfile::tempdir().expect("a directory");
    let (file, new) = (file_in(dir.path()), new_file_in(dir.path()));
    directory(dir.path()).save(&whole(9)).expect("saved");
    let later = std::fs::read(&file).expect("it is there");
    let lengths = [0, 1, later.len() / 2, later.len() - 1, later.len()];
    for length in lengths {
        std::fs::remove_file(&file).expect("it is there");
        std::fs::write(&new, &later[..length]).expect("written");
        assert_eq!(epoch_in(dir.path()), 0, "{length} bytes of the first save");
        directory(dir.path()).save(&whole(3)).expect("saved");
        std::fs::write(&new, &later[..length]).expect("written");
        assert_eq!(epoch_in(dir.path()), 3, "{length} bytes of a later one");
        directory(dir.path()).save(&whole(4)).expect("saved");
        assert!(epoch_in(dir.path()) == 4 && !new.exists());
    }
}

/// What the system still holds of it is unknown: the state of before is not replaced by it. A disk may say only then
/// that it is full.
#[test]
fn a_file_that_cannot_be_synced_replaces_nothing_and_is_written_anew() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut store = directory(dir.path());
    store.save(&whole(1)).expect("saved");
    // It takes everything, and cannot be synced.
    std::os::unix::fs::symlink("/dev/null", new_file_in(dir.path())).expect("linked");
    for _ in 0..2 {
        match store.save(&whole(2)) {
            Err(Trouble::Away(why)) => assert!(why.starts_with("cannot save the state"), "{why}"),
            other => panic!("{other:?}"),
        }
        assert!(won(store.campaign()) == Some(State::Known(whole(1))), "what was there");
    }
    std::fs::remove_file(new_file_in(dir.path())).expect("it is there");
    store.save(&whole(2)).expect("it can be synced again");
    drop(store);
    assert_eq!(epoch_in(dir.path()), 2);
}

/// Its lock is gone with the directory: another coordinator may be in the new one.
#[test]
fn a_directory_that_was_made_again_is_not_written_to() {
    let dir = tempfile::tempdir().expect("a directory");
    let place = dir.path().join("state");
    for is_made_again in [true, false] {
        let mut old = directory(&place);
        old.save(&whole(1)).expect("saved");
        std::fs::remove_dir_all(&place).expect("removed");
        let new = is_made_again.then(|| {
            let mut new = directory(&place);
            new.save(&whole(7)).expect("saved");
            new
        });
        match old.save(&whole(2)) {
            Err(Trouble::Fatal(error)) => assert!(error.to_string().contains("was removed or replaced"), "{error}"),
            other => panic!("{other:?}"),
        }
        drop(new);
        assert_eq!(epoch_in(&place), if is_made_again { 7 } else { 0 });
    }
}

/// Nor is it known to outlive the machine: who acted on it might be followed by one that finds the state of before.
#[test]
fn a_state_that_is_read_and_cannot_be_synced_does_not_count() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut store = directory(dir.path());
    store.save(&whole(1)).expect("saved");
    let file = file_in(dir.path());
    let bytes = std::fs::read(&file).expect("it is there");
    std::fs::remove_file(&file).expect("it is there");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &file, rustix::fs::FileType::Fifo, mode, 0).expect("a pipe");
    let writer = std::thread::spawn(move || std::fs::write(file, bytes).expect("written"));
    match store.campaign() {
        Err(Trouble::Fatal(error)) => assert!(error.to_string().starts_with("cannot sync"), "{error}"),
        other => panic!("{other:?}"),
    }
    writer.join().expect("no panic");
}

#[test]
fn directories_above_are_made_too() {
    let dir = tempfile::tempdir().expect("a directory");
    let below = dir.path().join("one/two");
    directory(&below).save(&whole(1)).expect("saved");
    assert_eq!(epoch_in(&below), 1);
}

fn assert_damaged(store: &mut Directory, what: &str) {
    match store.campaign() {
        Err(Trouble::Fatal(error)) => {
            let said = format!("{error:#}");
            assert!(said.contains("coordinator.json is damaged: put it back from a backup"), "{what}: {said}");
        }
        other => panic!("{what}: {other:?}"),
    }
}

#[test]
fn a_damaged_state_is_an_error_whatever_is_damaged() {
    let dir = tempfile::tempdir().expect("a directory");
    let (file, wanted) = (file_in(dir.path()), whole(4).nodes.first_key_value().map(|(&id, node)| (id, node.clone())));
    let wanted = Durable { nodes: wanted.into_iter().collect(), ..state(4) };
    let mut store = directory(dir.path());
    store.save(&wanted).expect("saved");
    let bytes = std::fs::read(&file).expect("it is there");
    let state_bytes = serde_json::to_vec(&wanted).expect("plain data").len();
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&file, damaged).expect("written");
        assert_damaged(&mut store, &format!("bit {bit}"));
    }
    for length in 0..bytes.len() {
        std::fs::write(&file, &bytes[..length]).expect("written");
        // Such a file has the whole state, as one of an earlier version, and perhaps an end of line.
        if (state_bytes..=state_bytes + 1).contains(&length) {
            assert_eq!(won(store.campaign()), Some(State::Known(wanted.clone())));
        } else {
            assert_damaged(&mut store, &format!("{length} bytes"));
        }
    }
    let others = [vec![0; bytes.len()], vec![0xff; 7], b"{}".to_vec(), [&bytes[..], b"\n{}"].concat()];
    for other in others {
        std::fs::write(&file, &other).expect("written");
        assert_damaged(&mut store, &String::from_utf8_lossy(&other));
    }
}

/// As OPERATING says that it is to be done with a backup.
#[test]
fn who_changes_a_state_by_hand_removes_its_checksum() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = file_in(dir.path());
    let mut store = directory(dir.path());
    store.save(&state(4)).expect("saved");
    let text = std::fs::read_to_string(&file).expect("text").replace(r#""epoch":4,"#, r#""epoch":100004,"#);
    std::fs::write(&file, &text).expect("written");
    match store.campaign() {
        Err(Trouble::Fatal(error)) => assert!(format!("{error:#}").ends_with("removes the last line)"), "{error:#}"),
        other => panic!("{other:?}"),
    }
    std::fs::write(&file, text.lines().next().expect("the state")).expect("written");
    assert_eq!(won(store.campaign()), Some(State::Known(state(100_004))));
}
