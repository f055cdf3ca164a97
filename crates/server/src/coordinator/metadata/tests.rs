//! What every engine promises, shown of a directory and of a real etcd; and what etcd promises beyond it.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;

use super::etcd::Etcd;
use super::file::Directory;
use shorttail_coordinator::{DurableChoice, DurableNode, DurableTenure};

use super::*;
use crate::clock::Clock;
use crate::config::{EtcdConfig, EtcdTls};

mod crashes;
mod watching;

/// So long that a test which needs it fails first.
const POLL: Duration = Duration::from_secs(3600);
/// How long something that is about to happen is waited for.
const PATIENCE: Duration = Duration::from_secs(240);

/// The directory, which nobody holds for long: a process that another test is starting has the lock of this one, too,
/// until it runs its own program.
fn directory(path: &Path) -> Directory {
    let began = Instant::now();
    loop {
        match Directory::open(path) {
            Ok(directory) => return directory,
            Err(error) => {
                assert!(error.to_string().starts_with("another coordinator uses"), "{error:#}");
                assert!(began.elapsed() < PATIENCE, "{error:#}");
            }
        }
        std::thread::yield_now();
    }
}

/// An etcd of one member with nothing in it, killed when dropped. `./test` installs the program.
pub struct EtcdServer {
    process: Child,
    url: String,
    peer_url: String,
    dir: tempfile::TempDir,
}

impl EtcdServer {
    pub fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let ports = [free_port(), free_port()];
        let [url, peer_url] = ports.map(|port| format!("http://127.0.0.1:{port}"));
        EtcdServer { process: EtcdServer::spawn(&dir, &url, &peer_url), url, peer_url, dir }
    }

    /// Ends it, as by kill -9, and starts it again with what it stored.
    pub fn restart(&mut self) {
        self.process.kill().expect("runs");
        self.process.wait().expect("is ours");
        self.process = EtcdServer::spawn(&self.dir, &self.url, &self.peer_url);
    }

    fn spawn(dir: &tempfile::TempDir, url: &str, peer_url: &str) -> Child {
        let mut command = Command::new("etcd");
        command.arg("--data-dir").arg(dir.path().join("data")).args(["--name", "alone"]);
        command.args(["--listen-client-urls", url, "--advertise-client-urls", url]);
        command.args(["--listen-peer-urls", peer_url, "--initial-advertise-peer-urls", peer_url]);
        command.args(["--initial-cluster", &format!("alone={peer_url}"), "--unsafe-no-fsync"]);
        let piped = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = piped.spawn().expect("etcd is installed (Debian: etcd-server)");
        let mut log = BufReader::new(process.stderr.take().expect("piped"));
        let mut said = String::new();
        while !said.contains("ready to serve client requests") {
            assert_ne!(log.read_line(&mut said).expect("text"), 0, "etcd ended: {said}");
        }
        // Whatever it says later must not fill the pipe.
        std::thread::spawn(move || std::io::copy(&mut log.by_ref(), &mut std::io::sink()));
        process
    }

    pub fn config(&self) -> EtcdConfig {
        let urls = vec!["http://127.0.0.1:1".to_owned(), self.url.clone()];
        EtcdConfig { urls, prefix: "/test/".into(), credential: None, tls: EtcdTls::default(), poll: POLL }
    }

    /// A coordinator's end; the first address of its list answers nothing.
    pub fn open(&self, name: &str) -> Etcd {
        Etcd::new(&self.config(), name, Clock::start()).expect("no certificates")
    }
}

impl Drop for EtcdServer {
    fn drop(&mut self) {
        // Gone already is as good.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).and_then(|it| it.local_addr()).expect("a free port").port()
}

pub fn state(epoch: u32) -> Durable {
    let choice = Some(DurableChoice { code: "rs:4+2".to_owned(), partitions: 4 });
    Durable { epoch, choice, ..Durable::new(7) }
}

fn won(campaign: Result<Campaign, Trouble>) -> Option<State> {
    match campaign {
        Ok(Campaign::Won { news, lease }) => {
            assert!(lease.is_none_or(|term| term.renew_at_us < term.until_us));
            news
        }
        other => panic!("{other:?}"),
    }
}

/// What holds of every store that outlives a coordinator.
fn keeps_its_promises(open: impl Fn() -> Box<dyn Metadata>) {
    let mut first = open();
    assert_eq!(won(first.campaign()), Some(State::NewCluster));
    first.save(&state(1)).expect("saved");
    first.renew().expect("leads");
    first.save(&state(2)).expect("saved");
    first.resign();
    drop(first);
    let mut second = open();
    assert_eq!(won(second.campaign()), Some(State::Known(state(2))), "the last that was saved");
    second.save(&state(3)).expect("saved");
    second.save(&state(3)).expect("saved again, as after an answer that was lost");
    second.resign();
    drop(second);
    assert_eq!(won(open().campaign()), Some(State::Known(state(3))));
}

#[test]
fn a_directory_keeps_its_promises() {
    let dir = tempfile::tempdir().expect("a directory");
    keeps_its_promises(|| Box::new(directory(dir.path())));
}

#[test]
fn etcd_keeps_its_promises() {
    let server = EtcdServer::start();
    keeps_its_promises(|| Box::new(server.open("a")));
}

/// The largest cluster, in the middle of a change of voters and of owners.
fn large_state() -> Durable {
    let node = |id: u16| DurableNode {
        incarnation: u64::MAX - u64::from(id),
        retired_through: u64::MAX / 3,
        address: "node-0000.storage.cluster.example:65535".into(),
        domain: "room-00-rack-00".into(),
        ..DurableNode::default()
    };
    let voters = |round: u64| (0..4096).map(|id| (id, u64::MAX - u64::from(id) - round)).collect::<Vec<_>>();
    let tenure = |epoch: u32| DurableTenure {
        gateway: 1,
        gateway_life: u64::MAX,
        partitions: (0..1024).filter(|partition| u32::from(*partition) % 256 == epoch).collect(),
        terms: 7,
        voters: vec![voters(0), voters(1)],
        before: vec![voters(0), voters(2)],
        stored_on: vec![voters(0), voters(1)],
        lost: u16::MAX,
    };
    let nodes = (0..4096).map(|id| (id, node(id))).collect();
    Durable { nodes, tenures: (0..256).map(|epoch| (epoch, tenure(epoch))).collect(), ..state(9) }
}

#[test]
fn the_state_of_the_largest_cluster_can_be_read_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let large = large_state();
    directory(dir.path()).save(&large).expect("saved");
    let found = won(directory(dir.path()).campaign());
    assert!(found == Some(State::Known(large.clone())), "what was saved");
    // What etcd takes, if nobody allowed it more.
    let bytes = serde_json::to_vec(&large).expect("plain data").len();
    assert!(bytes < 3 << 19, "{bytes}");
}

#[test]
fn a_tenure_without_its_voters_is_fatal() {
    let text = r#"{"format":3,"cluster_id":7,"epoch":1,"gateway_id_next":0,"nodes":{},"voter_sets":[[[0,1]]],"tenures":
        {"1":{"gateway":0,"gateway_life":1,"partitions":[0],"terms":1,"voters":[PLACE],"before":[]}}}"#;
    let durable = decode(&text.replace("PLACE", "0"), "the test").expect("whole");
    assert_eq!(durable.tenures[&1].voters, [[(0, 1)]]);
    let older = decode(r#"{"format":2,"tenures":7}"#, "the test").expect_err("another layout");
    assert_eq!(older.to_string(), "the test has format 2, this program knows 3");
    let error = decode(&text.replace("PLACE", "1"), "the test").expect_err("there is no such set");
    assert!(format!("{error:#}").contains("names set 1 of voters, and there are 1"), "{error:#}");
}

/// Whoever is told that a sound state is damaged may remove it.
#[test]
fn a_state_of_a_later_version_is_not_called_damaged() {
    let text = serde_json::to_string(&state(4)).expect("plain data");
    let later = text.replacen('{', r#"{"later":1,"#, 1);
    let error = format!("{:#}", decode(&later, "the test").expect_err("it knows no such field"));
    assert!(error.contains("start the version that wrote it") && error.contains("unknown field `later`"), "{error}");
    assert!(!error.contains("damaged"), "{error}");
}

#[test]
fn two_coordinators_do_not_share_a_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    let _first = Directory::open(dir.path()).expect("free");
    let error = Directory::open(dir.path()).expect_err("held");
    assert!(error.to_string().starts_with("another coordinator uses"), "{error}");
}

/// As when it was killed, and is started again before the system is done with it.
#[test]
fn a_directory_whose_coordinator_is_ending_is_waited_for() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut first = Some(Directory::open(dir.path()).expect("free"));
    assert!(Directory::open_within(dir.path(), Duration::ZERO, || ()).is_err(), "it does not end");
    Directory::open_within(dir.path(), PATIENCE, || drop(first.take())).expect("free");
    assert!(first.is_none(), "it was waited for");
}

/// The old state stays, and what is to be saved is saved once that can be.
#[test]
fn a_state_that_cannot_be_written_is_saved_later() {
    let dir = tempfile::tempdir().expect("a directory");
    let new = dir.path().join("coordinator.json.new");
    let mut store = Directory::open(dir.path()).expect("free");
    store.save(&state(1)).expect("saved");
    let block: [(&dyn Fn(), &str); 2] = [
        (&|| std::os::unix::fs::symlink("/dev/full", &new).expect("linked"), "No space left on device"),
        (&|| std::fs::create_dir_all(&new).expect("made"), "Is a directory"),
    ];
    for (epoch, (block, why)) in (2..).zip(block) {
        block();
        for _ in 0..2 {
            match store.save(&state(epoch)) {
                Err(Trouble::Away(told)) => assert!(told.contains(why) && told.contains("cannot save"), "{told}"),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(won(store.campaign()), Some(State::Known(state(epoch - 1))));
        std::fs::remove_file(&new).or_else(|_| std::fs::remove_dir(&new)).expect("removed");
        store.save(&state(epoch)).expect("there is room again");
        assert_eq!(won(store.campaign()), Some(State::Known(state(epoch))));
    }
}

#[test]
fn of_two_coordinators_one_leads() {
    let server = EtcdServer::start();
    let (mut first, mut second) = (server.open("first"), server.open("second"));
    assert_eq!(won(first.campaign()), Some(State::NewCluster));
    match second.campaign() {
        Ok(Campaign::Lost { leader, choice: None, .. }) => assert_eq!(leader.as_deref(), Some("first")),
        other => panic!("{other:?}"),
    }
    assert!(matches!(second.save(&state(9)), Err(Trouble::Lapsed)), "who stands by saves nothing");
    first.save(&state(1)).expect("saved");
    assert_eq!(won(first.campaign()), None, "who leads already finds what it saved");
    first.resign();
    assert_eq!(won(second.campaign()), Some(State::Known(state(1))));
}

#[test]
fn who_stands_by_learns_what_the_cluster_was_made_with() {
    let server = EtcdServer::start();
    let (mut first, mut second) = (server.open("first"), server.open("second"));
    won(first.campaign());
    let mut found = || match second.campaign() {
        Ok(Campaign::Lost { choice, .. }) => choice,
        other => panic!("{other:?}"),
    };
    assert_eq!(found(), None, "nothing is saved yet");
    first.save(&state(1)).expect("saved");
    assert_eq!(found(), state(1).choice);
    first.save(&state(2)).expect("saved");
    assert_eq!(found(), state(1).choice, "it stays");
}

/// The one that leads is of a later version.
#[test]
fn who_stands_by_says_that_it_cannot_read_what_is_saved() {
    let server = EtcdServer::start();
    let (mut first, mut second) = (server.open("first"), server.open("second"));
    won(first.campaign());
    first.save(&state(1)).expect("saved");
    assert!(matches!(second.campaign(), Ok(Campaign::Lost { .. })));
    let later = serde_json::to_string(&state(2)).expect("plain data").replacen('{', r#"{"later":1,"#, 1);
    second.put_state(base64::engine::general_purpose::STANDARD.encode(later).as_bytes());
    match second.campaign() {
        Err(Trouble::Fatal(error)) => assert!(error.to_string().contains("start the version that wrote it"), "{error}"),
        other => panic!("{other:?}"),
    }
}

/// A store that this version can never use, as it finds when it begins to lead.
struct Unreadable(Arc<AtomicBool>);

impl Metadata for Unreadable {
    fn watch(&mut self, _: Changed) -> anyhow::Result<()> {
        Ok(())
    }

    fn campaign(&mut self) -> Result<Campaign, Trouble> {
        Err(Trouble::Fatal(anyhow::anyhow!("not as this program writes it")))
    }

    fn renew(&mut self) -> Result<Lease, Trouble> {
        Ok(None)
    }

    fn save(&mut self, _: &Durable) -> Result<(), Trouble> {
        Ok(())
    }

    fn resign(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[test]
fn who_can_never_use_the_store_resigns_before_it_ends() {
    let has_resigned = Arc::new(AtomicBool::new(false));
    let poll = mio::Poll::new().expect("epoll");
    let waker = Arc::new(mio::Waker::new(poll.registry(), mio::Token(0)).expect("a waker"));
    let store = Box::new(Unreadable(Arc::clone(&has_resigned)));
    let keeper = keeper::Keeper::start(store, Clock::start(), waker).expect("a thread");
    let began = Instant::now();
    let news = loop {
        assert!(began.elapsed() < PATIENCE, "nothing is told");
        match keeper.poll_news() {
            Some(news) => break news,
            None => std::thread::yield_now(),
        }
    };
    assert!(news.is_err() && has_resigned.load(Ordering::Acquire), "{news:?}");
}

#[test]
fn a_leader_whose_lease_ended_saves_nothing_any_more() {
    let server = EtcdServer::start();
    let (mut old, mut new) = (server.open("old"), server.open("new"));
    won(old.campaign());
    old.save(&state(1)).expect("saved");
    old.forget_lease_at_etcd();
    assert!(matches!(old.save(&state(2)), Err(Trouble::Lapsed)), "even before another one leads");
    assert_eq!(won(new.campaign()), Some(State::Known(state(1))));
    new.save(&state(5)).expect("saved");
    assert!(matches!(old.save(&state(2)), Err(Trouble::Lapsed)));
    assert!(matches!(old.renew(), Err(Trouble::Lapsed)));
    assert!(matches!(old.campaign(), Ok(Campaign::Lost { .. })));
    new.resign();
    assert_eq!(won(old.campaign()), Some(State::Known(state(5))), "what was changed meanwhile is news");
}

#[test]
fn a_leader_whose_lease_ended_goes_on_if_nothing_was_changed() {
    let server = EtcdServer::start();
    let mut alone = server.open("alone");
    won(alone.campaign());
    alone.save(&state(1)).expect("saved");
    alone.forget_lease_at_etcd();
    assert!(matches!(alone.renew(), Err(Trouble::Lapsed)));
    assert_eq!(won(alone.campaign()), None);
    alone.save(&state(2)).expect("saved");
}

/// As after a copy of all keys.
#[test]
fn a_leader_without_a_lease_is_told_and_followed_once_its_key_is_gone() {
    let server = EtcdServer::start();
    let mut leader = server.open("leader");
    won(leader.campaign());
    leader.save(&state(1)).expect("saved");
    leader.overwrite_leader("copied", None);
    for mut other in [leader, server.open("other")] {
        match other.campaign() {
            Err(Trouble::Gone(why)) => {
                assert!(why.contains("etcdctl del /test/leader") && why.contains("copied"), "{why}")
            }
            campaign => panic!("{campaign:?}"),
        }
    }
    let mut next = server.open("next");
    next.delete_leader();
    assert_eq!(won(next.campaign()), Some(State::Known(state(1))));
}

#[test]
fn a_save_whose_answer_was_lost_is_recognised() {
    let server = EtcdServer::start();
    let mut leader = server.open("leader");
    won(leader.campaign());
    leader.save(&state(1)).expect("saved");
    leader.save_and_lose_the_answer(&state(2));
    leader.save(&state(2)).expect("it was saved already");
    leader.save_and_lose_the_answer(&state(3));
    assert_eq!(won(leader.campaign()), None, "what it tried to save is no news");
    leader.save(&state(4)).expect("saved");
    assert_eq!(
        {
            leader.resign();
            won(server.open("next").campaign())
        },
        Some(State::Known(state(4)))
    );
}

#[test]
fn etcd_that_nobody_reaches_is_away() {
    let config = EtcdConfig {
        urls: vec![format!("http://127.0.0.1:{}", free_port())],
        prefix: "/".into(),
        credential: None,
        tls: EtcdTls::default(),
        poll: POLL,
    };
    let mut store = Etcd::new(&config, "a", Clock::start()).expect("no certificates");
    assert!(matches!(store.campaign(), Err(Trouble::Away(why)) if why.starts_with("http://127.0.0.1:")));
}
