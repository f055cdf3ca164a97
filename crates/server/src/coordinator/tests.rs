//! A real coordinator on free ports, with real control clients.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Condvar, Mutex};
use std::thread::JoinHandle;

use shorttail_coordinator::candidate;
use shorttail_units::{CodeShape, Incarnation, NodeId};
use shorttail_wire::control::{ChaosStatus, GatewayStatus, NodeState, NodeStatus, Refusal, StoreTotals, View};

use super::*;
use crate::admin::tests::post;
use crate::config::{Address, Addresses, MetadataPlace, NodeConfig, NodeMembership};
use crate::control::tests::{Peer, registration};
use crate::control::{self, ControlError, ControlEvent, GatewayAddresses, GatewayControl, NodeControl};

/// A coordinator on a thread, stopped when dropped.
pub struct RunningCoordinator {
    pub admin: SocketAddr,
    pub control: Address,
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
    _socket_dir: Option<tempfile::TempDir>,
}

impl RunningCoordinator {
    pub fn start(dir: Option<PathBuf>) -> Self {
        let socket_dir = tempfile::tempdir().expect("a directory");
        let control = Address::Unix(socket_dir.path().join("control.sock"));
        let mut running = RunningCoordinator::start_at(control, dir);
        running._socket_dir = Some(socket_dir);
        running
    }

    pub fn start_at(control: Address, dir: Option<PathBuf>) -> Self {
        RunningCoordinator::start_with(control, dir.map_or(MetadataPlace::Nowhere, MetadataPlace::File))
    }

    fn start_with(control: Address, metadata: MetadataPlace) -> Self {
        let server = Server::bind(&config(&control, metadata)).expect("free addresses");
        RunningCoordinator::run(control, server)
    }

    fn run(control: Address, mut server: Server) -> Self {
        RunningCoordinator {
            admin: server.admin_address().expect("was asked for"),
            control,
            stopper: server.stopper(),
            thread: Some(std::thread::spawn(move || server.run().expect("runs to its end"))),
            _socket_dir: None,
        }
    }
}

fn config(control: &Address, metadata: MetadataPlace) -> CoordinatorConfig {
    CoordinatorConfig {
        listen: control.clone(),
        admin: Some("127.0.0.1:0".parse().expect("literal")),
        metadata,
        code: CodeShape::default(),
        partition_count: Some(4),
        node_count: 8,
        gateway_count: 1,
        gateway_threads: 1,
        retire_after_ms: 30_000,
        allow_chaos: true,
    }
}

impl Drop for RunningCoordinator {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the coordinator ends without a panic");
        }
    }
}

/// A member's view of the control plane: waits for wake-ups, never for time.
pub struct Events {
    woken: Receiver<()>,
}

fn wake() -> (control::Wake, Events) {
    let (waking, woken) = sync_channel(1000);
    let wake = move || {
        let _ = waking.try_send(());
    };
    (Box::new(wake), Events { woken })
}

impl Events {
    fn until<R: control::Role>(&self, client: &control::ControlClient<R>, wanted: impl Fn(&ControlEvent) -> bool) {
        loop {
            while let Some(event) = client.poll_event() {
                if wanted(&event) {
                    return;
                }
            }
            self.woken.recv().expect("the client lives");
        }
    }

    fn until_view<R: control::Role>(&self, client: &control::ControlClient<R>, wanted: impl Fn(&View) -> bool) {
        self.until(client, |event| matches!(event, ControlEvent::View(view) if wanted(view)));
    }
}

/// A node that was not started to be faulty.
pub const MEEK: u16 = 6;

pub fn node(control: &Address, id: u16, incarnation: u64) -> (NodeControl, Events) {
    node_of(control.clone().into(), id, incarnation)
}

fn node_of(addresses: Addresses, id: u16, incarnation: u64) -> (NodeControl, Events) {
    let listen: Address = format!("127.0.0.1:{}", 7000 + id).parse().expect("literal");
    let config = NodeConfig {
        listen: listen.clone(),
        advertise: None,
        membership: NodeMembership::Coordinator { addresses, wanted_id: Some(NodeId(id)) },
        memory_bytes: 16 << 20,
        threads: 1,
        memory_file: None,
        domain: String::new(),
        allow_chaos: id != MEEK,
        repair_bytes_per_s: 1 << 26,
        scrub_bytes_per_s: 0,
    };
    let (wake, events) = wake();
    let obey = |order| control::Obeyed { outcome: Ok(format!("{order:?}")), chaos: ChaosStatus::default() };
    (control::start_node(&config, &listen, Incarnation(incarnation), None, wake, Box::new(obey)), events)
}

pub fn gateway(control: &Address) -> (GatewayControl, Events) {
    gateway_of(control.clone().into())
}

fn gateway_of(addresses: Addresses) -> (GatewayControl, Events) {
    use crate::config::{GatewayConfig, GatewayMembership, RedisCluster, WhenFull};
    let config = GatewayConfig {
        memcached: None,
        redis: None,
        unix_socket: None,
        admin: None,
        membership: GatewayMembership::Coordinator(addresses),
        redis_cluster: RedisCluster::Off,
        when_full: WhenFull::Evict,
        value_bytes_max: 1 << 20,
        block_bytes: 4 << 10,
        key_bytes_max: 8 << 10,
        connection_count_max: 1024,
        idle_timeout_s: 0,
        threads: 1,
        forward: None,
        forward_advertise: None,
        redis_advertise: None,
        request_deadline_ms: 1000,
        credentials: Vec::new(),
        placement: shorttail_placement::Placement::default(),
        sidestep: Default::default(),
    };
    let addresses = GatewayAddresses { memcached: Some("127.0.0.1:11211".into()), ..GatewayAddresses::default() };
    let (wake, events) = wake();
    let obey = |order| control::Obeyed { outcome: Ok(format!("{order:?}")), chaos: ChaosStatus::default() };
    let life = control::fresh_life().expect("random");
    (control::start_gateway(&config, addresses, life, wake, Box::new(obey)), events)
}

fn state_of(view: &View, id: u16) -> Option<NodeState> {
    view.nodes.iter().find(|node| node.id == NodeId(id)).map(|node| node.state)
}

#[test]
fn a_gateway_sees_nodes_come_and_die() {
    let running = RunningCoordinator::start(None);
    let (gateway, events) = gateway(&running.control);
    let welcome = gateway.registered().expect("let in");
    assert_eq!(welcome.partition_count, 4);
    let (node, _) = node(&running.control, 3, 1);
    assert_eq!(node.registered().expect("let in").session.node_id, NodeId(3));
    events.until_view(&gateway, |view| state_of(view, 3) == Some(NodeState::Normal));
    drop(node);
    events.until_view(&gateway, |view| state_of(view, 3) == Some(NodeState::Dead));
}

#[test]
fn a_published_status_is_in_the_picture_of_the_cluster() {
    let running = RunningCoordinator::start(None);
    let (gateway, _) = gateway(&running.control);
    let totals = StoreTotals { objects: 12, ..StoreTotals::default() };
    gateway.publish(GatewayStatus { serving: true, totals, ..GatewayStatus::default() });
    gateway.registered().expect("let in");
    loop {
        let status = control::read_status(&running.control).expect("the coordinator answers");
        if status.objects == 12 {
            assert_eq!(status.coordinator.admin, Some(running.admin.to_string()));
            assert_eq!(status.gateways[0].admin, None, "it was asked for none");
            return assert!(status.gateways[0].serving);
        }
    }
}

#[test]
fn members_outlive_the_coordinator_and_keep_their_place() {
    let dir = tempfile::tempdir().expect("a directory");
    let control = Address::Unix(dir.path().join("control.sock"));
    let running = RunningCoordinator::start_at(control.clone(), Some(dir.path().join("state")));
    let (first, events) = gateway(&control);
    let before = first.registered().expect("let in");
    drop(running);
    events.until(&first, |event| *event == ControlEvent::Disconnected);
    let _again = RunningCoordinator::start_at(control.clone(), Some(dir.path().join("state")));
    events.until(&first, |event| *event == ControlEvent::Connected);
    let (second, _) = gateway(&control);
    let after = second.registered().expect("let in");
    assert_eq!(after.session.cluster_id, before.session.cluster_id);
    assert_ne!(after.session.gateway_id, before.session.gateway_id, "the first is alive and keeps its number");
}

/// Clients are served meanwhile, and everything goes on when there is room.
#[test]
fn a_coordinator_whose_disk_is_full_waits_and_says_so() {
    let dir = tempfile::tempdir().expect("a directory");
    let (control, state) = (Address::Unix(dir.path().join("control.sock")), dir.path().join("state"));
    let new = state.join("coordinator.json.new");
    let running = RunningCoordinator::start_at(control.clone(), Some(state));
    let (first, _) = gateway(&control);
    first.registered().expect("let in");
    std::os::unix::fs::symlink("/dev/full", &new).expect("nothing is being saved");
    let (second, events) = gateway(&control);
    let problem = loop {
        let status = control::read_status(&control).expect("the coordinator lives");
        if let Some(problem) = status.coordinator.metadata_problem {
            assert!(status.problems.iter().any(|line| line.contains(&problem)), "{:?}", status.problems);
            break problem;
        }
    };
    assert!(problem.contains("cannot save the state") && problem.contains("No space left"), "{problem}");
    std::fs::remove_file(&new).expect("removed");
    events.until(&second, |event| *event == ControlEvent::Connected);
    while control::read_status(&control).expect("it answers").coordinator.metadata_problem.is_some() {}
    drop(running);
}

/// Somebody deletes the keys of a cluster that runs.
#[test]
fn a_coordinator_whose_state_is_gone_makes_no_new_cluster() {
    let etcd = super::metadata::tests::EtcdServer::start();
    let dir = tempfile::tempdir().expect("a directory");
    let control = Address::Unix(dir.path().join("control.sock"));
    let running = RunningCoordinator::start_with(control.clone(), MetadataPlace::Etcd(etcd.config()));
    let (member, events) = gateway(&control);
    let cluster = member.registered().expect("let in").session.cluster_id;
    let mut hand = etcd.open("an operator");
    let kept = hand.delete_state();
    let missed = loop {
        let status = control::read_status(&control).expect("it answers");
        assert_eq!(status.cluster_id, format!("{:016x}", cluster.0), "it is the same cluster");
        if let Some(problem) = status.problems.into_iter().find(|problem| problem.contains("is gone from etcd")) {
            break problem;
        }
    };
    assert!(missed.contains("key /test/state") && missed.contains("put it back"), "{missed}");
    hand.put_state(&kept);
    while control::read_status(&control).expect("it answers").coordinator.metadata_problem.is_some() {}
    events.until(&member, |event| *event == ControlEvent::Disconnected);
    events.until(&member, |event| *event == ControlEvent::Connected);
    let status = control::read_status(&control).expect("it answers");
    assert!(status.coordinator.leading && status.cluster_id == format!("{:016x}", cluster.0), "{status:?}");
    drop(running);
}

#[test]
fn a_member_that_another_cluster_does_not_let_in_waits_for_its_own() {
    let dir = tempfile::tempdir().expect("a directory");
    let control = Address::Unix(dir.path().join("control.sock"));
    let state = || Some(dir.path().join("state"));
    let running = RunningCoordinator::start_at(control.clone(), state());
    let (node, node_events) = node(&control, 0, 1);
    let (gateway, gateway_events) = gateway(&control);
    node.registered().expect("let in");
    gateway.registered().expect("let in");
    drop(running);
    let other = RunningCoordinator::start_at(control.clone(), None);
    let is_turned_away = |event: &ControlEvent| matches!(event, ControlEvent::NotLetIn(Refusal::OtherCluster(_)));
    node_events.until(&node, is_turned_away);
    gateway_events.until(&gateway, is_turned_away);
    let problems = control::read_status(&other.control).expect("it answers").problems;
    assert!(problems.iter().any(|problem| problem.contains("they belong to another cluster")), "{problems:?}");
    drop(other);
    let _own = RunningCoordinator::start_at(control, state());
    node_events.until(&node, |event| *event == ControlEvent::Connected);
    gateway_events.until(&gateway, |event| *event == ControlEvent::Connected);
}

/// Whatever follows the version: another layout is not for this coordinator to read.
#[test]
fn a_member_of_another_version_is_refused_in_words() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("control.sock");
    let _running = RunningCoordinator::start_at(Address::Unix(path.clone()), None);
    for version in [CONTROL_PROTOCOL_VERSION - 1, CONTROL_PROTOCOL_VERSION + 1, 300] {
        for kind in [0_u8, 1] {
            let mut member = Peer::connect(&path);
            member.say(&(kind, version, [0xff_u8; 30]));
            let refusal = Refusal::ProtocolVersion(CONTROL_PROTOCOL_VERSION);
            assert_eq!(member.hear::<FromCoordinator>(), FromCoordinator::Refused(refusal));
            assert!(member.is_over());
        }
    }
}

/// A member asks again while the coordinator stands still: by the time it goes on, nobody is at the other end.
#[test]
fn who_left_before_it_was_heard_is_not_let_in() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("control.sock");
    let control = Address::Unix(path.clone());
    let server = Server::bind(&config(&control, MetadataPlace::Nowhere)).expect("free addresses");
    let mut gone = Peer::connect(&path);
    gone.say(&ToCoordinator::RegisterNode(registration(3)));
    drop(gone);
    let running = RunningCoordinator::run(control, server);
    let (there, _) = node(&running.control, 4, 1);
    there.registered().expect("let in");
    let known = control::read_status(&running.control).expect("it answers");
    assert_eq!(known.nodes.iter().map(|node| node.id).collect::<Vec<_>>(), [4]);
}

#[test]
fn a_number_that_is_alive_elsewhere_is_not_given_twice() {
    let running = RunningCoordinator::start(None);
    let (first, _) = node(&running.control, 0, 1);
    first.registered().expect("let in");
    let (second, _) = node(&running.control, 0, 2);
    drop(first);
    second.registered().expect("let in once the first is gone");
}

#[test]
fn stopping_ends_a_client_that_never_reached_a_coordinator() {
    let (node, _) = node(&"/nonexistent/control.sock".parse().expect("literal"), 0, 1);
    let shared = std::sync::Arc::new(node);
    let waiting = std::sync::Arc::clone(&shared);
    let thread = std::thread::spawn(move || waiting.registered());
    shared.stop();
    assert_eq!(thread.join().expect("no panic"), Err(ControlError::Stopped));
}

#[test]
fn members_find_the_coordinator_that_leads() {
    let etcd = super::metadata::tests::EtcdServer::start();
    let dir = tempfile::tempdir().expect("a directory");
    let addresses = ["a.sock", "b.sock"].map(|name| Address::Unix(dir.path().join(name)));
    let start =
        |place: usize| RunningCoordinator::start_with(addresses[place].clone(), MetadataPlace::Etcd(etcd.config()));
    let both = || Addresses(addresses.iter().cloned().map(Into::into).collect());
    let first = start(0);
    let (gateway, events) = gateway_of(both());
    let before = gateway.registered().expect("let in");
    let second = start(1);
    let (node, _) = node_of(both(), 3, 1);
    node.registered().expect("let in");
    events.until_view(&gateway, |view| state_of(view, 3) == Some(NodeState::Normal));
    let standby = control::read_status(&second.control).expect("it answers").coordinator;
    assert!(!standby.leading, "{standby:?}");
    drop(first);
    events.until(&gateway, |event| *event == ControlEvent::Connected);
    let leader = control::read_status(&second.control).expect("it answers").coordinator;
    assert!(leader.leading && leader.leader == Some(leader.name.clone()), "{leader:?}");
    let (late, _) = gateway_of(both());
    let after = late.registered().expect("let in");
    assert_eq!(after.session.cluster_id, before.session.cluster_id);
    assert_ne!(after.session.gateway_id, before.session.gateway_id, "the first keeps its number");
}

#[test]
fn a_coordinator_that_could_never_lead_ends_while_it_stands_by() {
    let etcd = super::metadata::tests::EtcdServer::start();
    let dir = tempfile::tempdir().expect("a directory");
    let place = || MetadataPlace::Etcd(etcd.config());
    let control = |name: &str| Address::Unix(dir.path().join(name));
    let leader = RunningCoordinator::start_with(control("a.sock"), place());
    // Whoever is let in knows that the cluster was made and saved.
    let (member, _) = gateway(&leader.control);
    member.registered().expect("let in");
    let told_otherwise = [
        CoordinatorConfig { code: "rs:2+1".parse().expect("a code"), ..config(&control("b.sock"), place()) },
        CoordinatorConfig { partition_count: Some(8), ..config(&control("c.sock"), place()) },
    ];
    for (config, named) in told_otherwise.into_iter().zip(["--code rs:4+2", "--partitions 4"]) {
        let error = Server::bind(&config).expect("free addresses").run().expect_err("it could never lead");
        assert!(error.to_string().starts_with(&format!("this cluster was made with {named}")), "{error}");
    }
    let unsaid = CoordinatorConfig { partition_count: None, ..config(&control("d.sock"), place()) };
    let mut server = Server::bind(&unsaid).expect("free addresses");
    let stopper = server.stopper();
    let standby = std::thread::spawn(move || server.run());
    while control::read_status(&control("d.sock")).map_or(true, |status| status.coordinator.leader.is_none()) {
        std::thread::yield_now();
    }
    stopper.stop();
    standby.join().expect("no panic").expect("it may stand by");
}

/// A store that saves nothing while a test holds it.
struct HeldStore(Arc<(Mutex<bool>, Condvar)>);

impl metadata::Metadata for HeldStore {
    fn watch(&mut self, _: metadata::Changed) -> anyhow::Result<()> {
        Ok(())
    }

    fn campaign(&mut self) -> Result<metadata::Campaign, metadata::Trouble> {
        Ok(metadata::Campaign::Won { lease: None, news: Some(metadata::State::NewCluster) })
    }

    fn renew(&mut self) -> Result<metadata::Lease, metadata::Trouble> {
        Ok(None)
    }

    fn save(&mut self, _: &shorttail_coordinator::Durable) -> Result<(), metadata::Trouble> {
        let (is_held, changed) = &*self.0;
        let free = changed.wait_while(is_held.lock().expect("no panic"), |is_held| *is_held);
        drop(free.expect("no panic"));
        Ok(())
    }

    fn resign(&mut self) {}
}

/// A coordinator over such a store, and the hand that holds it.
struct Held {
    running: RunningCoordinator,
    hold: Arc<(Mutex<bool>, Condvar)>,
    path: PathBuf,
    _dir: tempfile::TempDir,
}

impl Held {
    /// It leads, and the store is not held yet.
    fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("control.sock");
        let control = Address::Unix(path.clone());
        let hold = Arc::new((Mutex::new(false), Condvar::new()));
        let config = config(&control, MetadataPlace::Nowhere);
        let store = Box::new(HeldStore(Arc::clone(&hold)));
        let server = Server::bind_with(&config, about(&config), Clock::start(), store);
        let running = RunningCoordinator::run(control, server.expect("free addresses"));
        let held = Held { running, hold, path, _dir: dir };
        while !held.status().coordinator.leading {}
        held
    }

    fn set_held(&self, is_held: bool) {
        *self.hold.0.lock().expect("no panic") = is_held;
        self.hold.1.notify_all();
    }

    fn register(&self, id: u16) -> Peer {
        let mut member = Peer::connect(&self.path);
        member.say(&ToCoordinator::RegisterNode(registration(id)));
        member
    }

    fn status(&self) -> ClusterStatus {
        control::read_status(&self.running.control).expect("it answers")
    }
}

/// The coordinator ends once its store does.
impl Drop for Held {
    fn drop(&mut self) {
        self.set_held(false);
    }
}

#[test]
fn who_is_let_in_hears_that_before_any_beat() {
    let held = Held::start();
    let mut first = held.register(1);
    assert!(matches!(first.hear(), FromCoordinator::NodeRegistered(_)));
    held.set_held(true);
    // It waits for the store.
    let mut second = held.register(2);
    let mut beats = 0;
    while beats < 3 {
        beats += usize::from(matches!(first.hear(), FromCoordinator::Beat));
    }
    held.set_held(false);
    assert!(matches!(second.hear(), FromCoordinator::NodeRegistered(_)));
}

/// Who listens to a port that is open to all must not keep a place for whoever comes.
#[test]
fn who_does_not_say_who_it_is_has_its_connection_closed() {
    let held = Held::start();
    let mut member = held.register(1);
    assert!(matches!(member.hear(), FromCoordinator::NodeRegistered(_)));
    let mut strangers = [&b""[..], &b"SHTC"[..]].map(|said| {
        let mut stranger = std::os::unix::net::UnixStream::connect(&held.path).expect("it listens");
        stranger.write_all(said).expect("it is there");
        stranger
    });
    for stranger in &mut strangers {
        let mut told = Vec::new();
        // Closed with something unread is an error.
        _ = stranger.read_to_end(&mut told);
        assert!(told.is_empty(), "{told:?}");
    }
    let mut beats = 0;
    while beats < 3 {
        beats += usize::from(matches!(member.hear(), FromCoordinator::Beat));
    }
}

/// A few bytes ask for very many.
#[test]
fn who_asks_for_the_status_very_often_at_once_is_told_once() {
    let held = Held::start();
    let mut visitor = Peer::connect(&held.path);
    for _ in 0..2 {
        visitor.say_often(&ToCoordinator::ReadStatus, 500);
        assert!(matches!(visitor.hear(), FromCoordinator::Status(_)));
    }
    assert_eq!(visitor.leave(), 0);
}

/// It heard nothing of a coordinator that stood still, asks anew, and does not wait for long.
#[test]
fn a_member_that_asks_anew_while_something_is_saved_keeps_its_connection() {
    let held = Held::start();
    let mut first = held.register(1);
    assert!(matches!(first.hear(), FromCoordinator::NodeRegistered(_)));
    held.set_held(true);
    let _waits = held.register(2);
    while held.status().nodes.len() < 2 {}
    let mut second = held.register(1);
    // By then it was heard.
    held.status();
    second.leave();
    let nodes = held.status().nodes;
    assert!(nodes.iter().any(|node| node.id == 1 && node.state != NodeState::Dead), "{nodes:?}");
    first.say(&ToCoordinator::NodeStatus(NodeStatus::default()));
    held.set_held(false);
    while !matches!(first.hear(), FromCoordinator::View(view) if view.nodes.len() == 2) {}
}

/// Or it would be carried out when the store is back, and whoever gave it was told that it failed.
#[test]
fn an_order_is_not_taken_while_the_store_does_not_answer() {
    let held = Held::start();
    let order = |path: &str, body: &str| post(held.running.admin, path, "application/json", body);
    let mut nodes: Vec<Peer> = (0..8).map(|id| held.register(id)).collect();
    nodes.iter_mut().for_each(|node| assert!(matches!(node.hear(), FromCoordinator::NodeRegistered(_))));
    assert!(order("/drain", r#"{"node":0}"#).contains("node 0 drains"));
    held.set_held(true);
    let _waits = held.register(8);
    // The answer to what was ordered in the first moment waits, too.
    while !order("/acknowledge", r#""losses""#).contains("no answer in time: it may be carried out later") {}
    let refused = [
        order("/drain", r#"{"node":1}"#),
        order("/drain", r#"{"cancel_node":0}"#),
        order("/remove", r#"{"node":2,"lost":true}"#),
        order("/acknowledge", r#""losses""#),
    ];
    for answer in refused {
        assert!(answer.contains("the metadata store cannot be used (it does not answer)"), "{answer}");
    }
    let status = held.status();
    assert_eq!(status.coordinator.metadata_problem.as_deref(), Some("it does not answer"));
    let is_told = |problem: &String| problem.starts_with("the metadata store cannot be used (it does not answer): ");
    assert!(status.problems.iter().any(is_told), "{:?}", status.problems);
    assert!(
        matches!(held.register(9).hear(), FromCoordinator::Refused(Refusal::NotLeading(why)) if why.contains("does not answer"))
    );
    held.set_held(false);
    while !order("/acknowledge", r#""losses""#).contains("no loss is known") {}
    let nodes = held.status().nodes;
    let draining: Vec<u16> = nodes.iter().filter(|node| node.drain.is_some()).map(|node| node.id).collect();
    assert_eq!(draining, [0]);
    assert!(nodes.iter().any(|node| node.id == 2), "it is not taken out: {nodes:?}");
}

/// A store that prolongs a lease again and again, and saves nothing.
struct MeanStore {
    clock: Clock,
    has_resigned: bool,
}

impl MeanStore {
    fn lease(&self) -> metadata::Lease {
        let now_us = self.clock.now().mono_us;
        Some(candidate::Term { until_us: now_us + 60_000_000, renew_at_us: now_us + 1_000 })
    }
}

impl metadata::Metadata for MeanStore {
    fn watch(&mut self, _: metadata::Changed) -> anyhow::Result<()> {
        Ok(())
    }

    fn campaign(&mut self) -> Result<metadata::Campaign, metadata::Trouble> {
        match self.has_resigned {
            true => Err(metadata::Trouble::Away("permission denied".to_owned())),
            false => Ok(metadata::Campaign::Won { lease: self.lease(), news: Some(metadata::State::NewCluster) }),
        }
    }

    fn renew(&mut self) -> Result<metadata::Lease, metadata::Trouble> {
        Ok(self.lease())
    }

    fn save(&mut self, _: &shorttail_coordinator::Durable) -> Result<(), metadata::Trouble> {
        Err(metadata::Trouble::Away("permission denied".to_owned()))
    }

    fn resign(&mut self) {
        self.has_resigned = true;
    }
}

#[test]
fn a_leader_that_may_not_save_resigns_and_says_why() {
    let dir = tempfile::tempdir().expect("a directory");
    let control = Address::Unix(dir.path().join("control.sock"));
    let config = config(&control, MetadataPlace::Nowhere);
    let clock = Clock::start();
    let store = Box::new(MeanStore { clock, has_resigned: false });
    let server = Server::bind_with(&config, about(&config), clock, store).expect("free addresses");
    let running = RunningCoordinator::run(control, server);
    let is_told = |status: &ClusterStatus| status.problems.iter().any(|problem| problem.contains("permission denied"));
    let mut is_known = false;
    loop {
        // One that resigns lets go of whoever asks it at that moment.
        let Ok(status) = control::read_status(&running.control) else { continue };
        // That the lease was prolonged says nothing of what is to be saved.
        assert!(!is_known || is_told(&status), "{status:?}");
        is_known = is_told(&status);
        if is_known && !status.coordinator.leading {
            assert_eq!((status.coordinator.leader, status.nodes.len()), (None, 0));
            return;
        }
        std::thread::yield_now();
    }
}

/// Each that is missed is news for the others, of whom the next is missed.
#[test]
fn members_that_leave_together_are_missed_one_after_the_other() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("control.sock");
    let mut server = Server::bind(&config(&Address::Unix(path.clone()), MetadataPlace::Nowhere)).expect("free");
    let stopper = server.stopper();
    let serving = std::thread::spawn(move || server.run().map(|()| server));
    // While all processors are busy elsewhere it may be that nobody leads for a moment.
    let join = |id: u16| loop {
        let mut peer = Peer::connect(&path);
        peer.say(&ToCoordinator::RegisterNode(registration(id)));
        match peer.hear() {
            FromCoordinator::NodeRegistered(_) => break peer,
            refused => assert!(matches!(refused, FromCoordinator::Refused(_)), "{refused:?}"),
        }
    };
    let peers: Vec<Peer> = (0..200).map(join).collect();
    stopper.stop();
    let mut server = serving.join().expect("no panic").expect("runs to its end");
    assert_eq!(server.connections.len(), peers.len());
    drop(peers);
    let first = *server.connections.keys().min().expect("they came");
    // So little that nothing may be done within what is being done.
    let forgetting = std::thread::Builder::new().stack_size(128 << 10).spawn(move || {
        server.forget(first);
        server.put_out();
        server.connections.len()
    });
    assert_eq!(forgetting.expect("a thread").join().expect("no panic"), 0);
}
