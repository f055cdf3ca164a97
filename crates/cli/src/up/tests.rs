//! The children's command lines are ones that the program takes, and mean what the user asked for.

use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc::channel;

use clap::Parser;
use shorttail_server::config::{
    ConfigFile, CoordinatorConfig, GatewayConfig, LogLevel, MetadataPlace, NodeConfig, Size, Text, UpConfig, UpOptions,
};
use shorttail_wire::control::{ClusterStatus, CoordinatorStatus, NodeState, NodeStatusEntry};

use super::plan::{Part, Plan};
use super::run_dir::RunDir;
use super::supervisor::{Source, Supervisor};
use crate::arguments::{Cli, Verb};
use crate::exit::Failure;
use crate::lines;

fn plan(options: UpOptions) -> (Plan, tempfile::TempDir) {
    let parent = tempfile::tempdir().expect("a directory");
    let config: UpConfig = options.resolve().expect("sensible");
    let run_dir = RunDir::create(Some(parent.path())).expect("made");
    (Plan::new(config, LogLevel::Warn, PathBuf::from("shorttail"), run_dir), parent)
}

fn parsed(plan: &Plan, part: Part) -> Verb {
    let command = plan.command(part);
    let line = std::iter::once(command.get_program()).chain(command.get_args());
    Cli::try_parse_from(line).unwrap_or_else(|error| panic!("{part:?}: {error}")).verb
}

fn node(plan: &Plan) -> NodeConfig {
    let Verb::Node(command) = parsed(plan, Part::Node(0)) else { panic!("another verb") };
    plan.write_children_file().expect("written");
    let file = ConfigFile::read(command.config.as_deref()).expect("what children take");
    command.options.or(file.node).resolve().expect("sensible")
}

fn gateway(plan: &Plan) -> GatewayConfig {
    gateway_at(plan, 0)
}

fn gateway_at(plan: &Plan, place: usize) -> GatewayConfig {
    let Verb::Gateway(command) = parsed(plan, Part::Gateway(place)) else { panic!("another verb") };
    plan.write_children_file().expect("written");
    let file = ConfigFile::read(command.config.as_deref()).expect("what children take");
    command.options.or(file.gateway).resolve().expect("sensible")
}

fn coordinator(plan: &Plan) -> CoordinatorConfig {
    let Verb::Coordinator(command) = parsed(plan, Part::Coordinator) else { panic!("another verb") };
    command.options.resolve().expect("sensible")
}

#[test]
fn every_part_gets_flags_that_it_takes() {
    let (plan, _parent) = plan(UpOptions { nodes: Some(6), ..UpOptions::default() });
    assert_eq!(plan.parts().len(), 8);
    for part in plan.parts() {
        match parsed(&plan, part) {
            Verb::Coordinator(command) => {
                let config = command.options.resolve().expect("sensible");
                assert_eq!((config.node_count, config.listen), (6, plan.coordinator()));
                assert!(
                    matches!(config.metadata, MetadataPlace::File(_)),
                    "a coordinator that is started again must know its epochs"
                );
            }
            Verb::Node(command) => {
                let config = command.options.resolve().expect("sensible");
                assert_eq!(config.memory_bytes, plan.config.node_memory.0);
            }
            Verb::Gateway(_) => assert_eq!(gateway(&plan).memcached, plan.config.memcached),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn every_part_knows_its_name() {
    let (plan, _parent) = plan(UpOptions { gateways: Some(2), ..UpOptions::default() });
    let name = |part| {
        let command = plan.command(part);
        let name = command.get_envs().find_map(|(key, value)| value.filter(|_| key == lines::VARIABLE));
        name.and_then(|name| name.to_str()).map(str::to_owned)
    };
    let parts = [Part::Coordinator, Part::Node(3), Part::Gateway(1)];
    assert_eq!(parts.map(name), ["coordinator", "node 3", "gateway at 127.0.0.1:11212"].map(|name| Some(name.into())));
}

#[test]
fn placement_and_domains_reach_those_they_concern() {
    let placement = Some(Text("coding-sets:1".parse().expect("a placement")));
    let (plan, _parent) = plan(UpOptions { placement, domains: Some(3), ..UpOptions::default() });
    assert_eq!(gateway(&plan).placement.to_string(), "coding-sets:1");
    let domain = |id| match parsed(&plan, Part::Node(id)) {
        Verb::Node(command) => command.options.resolve().expect("sensible").domain,
        other => panic!("{other:?}"),
    };
    assert_eq!([0, 2, 5].map(domain), ["domain 0", "domain 2", "domain 2"]);
}

#[test]
fn what_is_said_of_etcd_reaches_the_coordinator() {
    let options = UpOptions {
        metadata: Some("etcd:https://a:1,https://b:1".parse().expect("well-formed")),
        metadata_prefix: Some("/blue".into()),
        metadata_tls: Some("ca,cert,key".into()),
        metadata_poll: Some(7),
        ..UpOptions::default()
    };
    let (plan, _parent) = plan(options);
    let Verb::Coordinator(command) = parsed(&plan, Part::Coordinator) else { panic!("another verb") };
    let MetadataPlace::Etcd(etcd) = command.options.resolve().expect("sensible").metadata else { panic!("no etcd") };
    assert_eq!((etcd.urls.len(), etcd.prefix.as_str(), etcd.tls.client.is_some()), (2, "/blue/", true));
    assert_eq!(etcd.poll.as_secs(), 7);
}

#[test]
fn what_may_change_meanwhile_reaches_gateway_and_nodes_by_their_file() {
    let options = |text: &str| {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(text.as_bytes()).expect("written");
        ConfigFile::read(Some(file.path())).expect("well-formed").up
    };
    let (mut plan, _parent) = plan(options("[up]\nidle_timeout = 7\npartitions = 8\n"));
    assert_eq!(gateway(&plan).idle_timeout_s, 7);
    let paces = |config: NodeConfig| (config.repair_bytes_per_s, config.scrub_bytes_per_s);
    assert_eq!(paces(node(&plan)), (64 << 20, 4 << 20));
    let text = "[up]\nidle_timeout = 9\nconnections_max = 50\nwhen_full = \"error\"\npolicy = \"ecwide\"\n\
                hedge_budget = \"3%\"\nrepair_bandwidth = \"7m\"\nscrub_bandwidth = \"0\"\n";
    let wanted = options(text).resolve().expect("sensible");
    assert_eq!(plan.config.take_live(wanted.clone()), ["--partitions"]);
    let config = gateway(&plan);
    assert_eq!((config.idle_timeout_s, config.connection_count_max, config.when_full), (9, 50, wanted.when_full));
    assert_eq!(Ok(config.sidestep), wanted.sidestep.resolve("up"));
    assert_eq!(paces(node(&plan)), (7 << 20, 0));
    assert_eq!(plan.config.partition_count, Some(8), "until the next start");
}

#[test]
fn whatever_waits_for_the_next_start_is_named() {
    let (mut plan, _parent) =
        plan(UpOptions { admin: Some("127.0.0.1:0".parse().expect("an address")), ..Default::default() });
    // The port that it got.
    plan.config.admin = Some(([127, 0, 0, 1], 8181).into());
    let mut differing = |options: UpOptions| {
        let admin = options.admin.or(Some("127.0.0.1:0".parse().expect("an address")));
        plan.config.take_live(UpOptions { admin, ..options }.resolve().expect("sensible"))
    };
    let address = |text: &str| Some(text.parse().expect("an address"));
    assert_eq!(differing(UpOptions::default()), [""; 0]);
    for (options, flag) in [
        (UpOptions { retire_after: Some(7), ..Default::default() }, "--retire-after"),
        (UpOptions { block_bytes: Some(Size(8 << 10)), ..Default::default() }, "--block-bytes"),
        (UpOptions { memcached: address("127.0.0.1:0"), ..Default::default() }, "--memcached"),
        (UpOptions { redis: address("off"), ..Default::default() }, "--redis"),
        (UpOptions { admin: address("127.0.0.1:9999"), ..Default::default() }, "--admin"),
    ] {
        assert_eq!(differing(options), [flag]);
    }
}

#[test]
fn a_file_that_makes_no_sense_changes_nothing_and_says_so() {
    for text in ["[up\n", "[up]\nidle_timeout = \"x\"\n", "log = \"debug\"\n[up]\nnodes = 1\n"] {
        let (plan, _parent) = plan(UpOptions::default());
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(text.as_bytes()).expect("written");
        let source = Source { file: Some(file.path().into()), options: UpOptions::default(), log: None };
        let (tell, events) = channel();
        let Err(Failure::Usage(problem)) = Supervisor::new(plan, source, tell, events).read_again() else {
            panic!("{text} is taken")
        };
        assert!(problem.lines().last().is_some_and(|line| line.starts_with("nothing was changed")), "{problem}");
    }
}

#[test]
fn what_is_off_stays_off() {
    let options = UpOptions { redis: Some("off".parse().expect("literal")), ..UpOptions::default() };
    let (plan, _parent) = plan(options);
    assert_eq!(gateway(&plan).redis, None);
}

#[test]
fn further_gateways_take_the_next_ports() {
    let (plan, _parent) = plan(UpOptions { gateways: Some(3), nodes: Some(6), ..UpOptions::default() });
    assert_eq!((plan.parts().len(), coordinator(&plan).partition_count_default()), (10, 12));
    let ports: Vec<_> = (0..3).map(|place| gateway_at(&plan, place)).collect();
    let port = |address: Option<std::net::SocketAddr>| address.expect("on").port();
    assert_eq!(ports.iter().map(|gateway| port(gateway.memcached)).collect::<Vec<_>>(), [11211, 11212, 11213]);
    assert_eq!(ports.iter().map(|gateway| port(gateway.redis)).collect::<Vec<_>>(), [6379, 6380, 6381]);
    assert_ne!(ports[0].forward, ports[1].forward);
}

#[test]
fn each_thread_of_a_gateway_gets_partitions() {
    let (plan, _parent) = plan(UpOptions { gateways: Some(2), gateway_threads: Some(8), ..UpOptions::default() });
    assert_eq!(coordinator(&plan).partition_count_default(), 64);
    let (plan, _parent) =
        self::plan(UpOptions { gateway_threads: Some(64), gateways: Some(8), ..UpOptions::default() });
    assert_eq!(coordinator(&plan).partition_count_default(), 1024, "as many as there may be");
}

#[test]
fn ports_that_meet_are_refused() {
    let resolve = |memcached: &str, redis: &str, admin: &str| {
        let options = UpOptions {
            gateways: Some(3),
            memcached: Some(memcached.parse().expect("an address")),
            redis: Some(redis.parse().expect("an address")),
            admin: Some(admin.parse().expect("an address")),
            ..UpOptions::default()
        };
        options.resolve().map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(resolve("127.0.0.1:1000", "127.0.0.1:1003", "off"), Ok(()));
    assert_eq!(resolve("127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"), Ok(()));
    let problem = resolve("127.0.0.1:1000", "127.0.0.1:1002", "off").expect_err("both want 1002");
    assert!(problem.contains("127.0.0.1:1002"), "{problem}");
    assert!(resolve("127.0.0.1:1000", "off", "127.0.0.1:1001").is_err());
    assert!(resolve("127.0.0.1:65534", "off", "off").is_err(), "there are no such ports");
}

#[test]
fn it_is_said_what_a_cluster_waits_for() {
    let metadata = Some("etcd:http://127.0.0.1:1".parse().expect("well-formed"));
    let (plan, _parent) = plan(UpOptions { metadata, ..UpOptions::default() });
    let source = Source { file: None, options: UpOptions::default(), log: None };
    let (tell, events) = channel();
    let supervisor = Supervisor::new(plan, source, tell, events);
    assert!(supervisor.found(None).contains("--metadata etcd:http://127.0.0.1:1"));
    let coordinator = CoordinatorStatus {
        metadata: "etcd".into(),
        metadata_problem: Some("refused".into()),
        ..CoordinatorStatus::default()
    };
    let mut status = ClusterStatus { coordinator, nodes_expected: 8, ..ClusterStatus::default() };
    assert_eq!(supervisor.found(Some(&status)), "the metadata store etcd cannot be used (refused)");
    status.coordinator.metadata_problem = None;
    assert!(supervisor.found(Some(&status)).starts_with("0 of 8 nodes"));
    let dead = NodeStatusEntry { id: 8, state: NodeState::Dead, ..NodeStatusEntry::default() };
    let asked = CoordinatorStatus { leading: true, ..status.coordinator.clone() };
    let known = ClusterStatus { nodes: vec![dead], problems: vec!["why".into()], coordinator: asked, ..status.clone() };
    let reasons = supervisor.reasons(Some(&known));
    assert!(reasons.len() == 2 && reasons[0] == "problem: why", "{reasons:?}");
    assert!(reasons[1].starts_with("node 8, a member, is not started: "), "{reasons:?}");
    assert_eq!(supervisor.reasons(None), [""; 0]);
    status.coordinator.leader = Some("b:1".into());
    assert!(supervisor.found(Some(&status)).starts_with("the coordinator stands by, since b:1, leads"));
}
