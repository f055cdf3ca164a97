//! Files, environment and flags: what wins, and what is said of mistakes.

use std::io::Write;
use std::path::Path;

use clap::{Args, Command, FromArgMatches};

use super::environment::known_names;
use super::*;

fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("written");
    file
}

fn check(text: &str) -> Result<(), String> {
    notes(text).map(drop)
}

fn notes(text: &str) -> Result<Vec<String>, String> {
    ConfigFile::check(file(text).path()).map_err(|error| error.to_string())
}

fn up_flags(flags: &[&str]) -> UpOptions {
    let command = UpOptions::augment_args(Command::new("up"));
    let matches = command.try_get_matches_from(std::iter::once(&"up").chain(flags)).expect("well-formed flags");
    UpOptions::from_arg_matches(&matches).expect("well-formed values")
}

#[test]
fn an_unknown_key_is_named_with_its_line() {
    let error = check("[node]\nlisten = \"127.0.0.1:1\"\nmemroy = \"1g\"\n").expect_err("misspelt");
    assert!(error.contains("memroy") && error.contains("line 3"), "{error}");
    let error = check("[nodes]\n").expect_err("no such section");
    assert!(error.contains("nodes") && error.contains("line 1"), "{error}");
}

#[test]
fn a_value_that_makes_no_sense_is_named_with_its_line() {
    let error = check("[up]\nnodes = 8\nnode_memory = \"much\"\n").expect_err("not a size");
    assert!(error.contains("node_memory") && error.contains("line 3") && error.contains("not a size"), "{error}");
    let error = check("[up]\ncode = \"rs:4+2\"\nnodes = 5\n").expect_err("too few");
    assert!(error.contains("line 3: up.nodes: 5 is too few: rs:4+2 places each stripe on 6"), "{error}");
    let error = check("[node]\ncoordinator = \"a\"\n").expect_err("no port");
    assert!(error.contains("line 2") && error.contains("host:port"), "{error}");
}

#[test]
fn flags_win_over_the_file_which_wins_over_defaults() {
    let text = "[up]\nnodes = 10\npartitions = 7\nrestart_nodes = true\n";
    let file = ConfigFile::read(Some(file(text).path())).expect("well-formed");
    let flags = up_flags(&["--nodes", "12", "--code", "rs:8+2"]);
    let config = flags.or(file.up).resolve().expect("sensible");
    assert_eq!((config.node_count, config.partition_count, config.restart_nodes), (12, Some(7), true));
    assert_eq!((config.code.to_string().as_str(), config.node_memory), ("rs:8+2", NODE_MEMORY_DEFAULT));
}

#[test]
fn every_thread_of_a_gateway_has_stripe_ids_of_its_own() {
    let of_gateway = |threads| {
        let coordinator = Some("127.0.0.1:1".parse().expect("an address"));
        GatewayOptions { coordinator, threads: Some(threads), ..GatewayOptions::default() }.resolve()
    };
    assert_eq!(of_gateway(64).expect("the most").threads, 64);
    let error = of_gateway(65).expect_err("one too many").to_string();
    assert!(error.contains("--threads: 65 is not within 1 to 64"), "{error}");
    let error = up_flags(&["--gateway-threads", "65"]).resolve().expect_err("one too many").to_string();
    assert!(error.contains("--gateway-threads: 65 is not within 1 to 64"), "{error}");
}

#[test]
fn every_setting_can_be_said_in_every_place() {
    for name in known_names() {
        let (section, key) = name["SHORTTAIL_".len()..].split_once('_').expect("section and key");
        let (section, key) = (section.to_lowercase(), key.to_lowercase());
        let start = EXAMPLE.find(&format!("\n[{section}]\n")).expect("the example has the section");
        let rest = &EXAMPLE[start + 2..];
        let text = &rest[..rest.find("\n[").unwrap_or(rest.len())];
        assert!(text.contains(&format!("\n#{key} = ")), "the example has no {section}.{key}");
        let command = match section.as_str() {
            "up" => UpOptions::augment_args(Command::new("x")),
            "node" => NodeOptions::augment_args(Command::new("x")),
            "gateway" => GatewayOptions::augment_args(Command::new("x")),
            _ => CoordinatorOptions::augment_args(Command::new("x")),
        };
        let flag = key.replace('_', "-");
        let argument = command.get_arguments().find(|argument| argument.get_long() == Some(&flag));
        let env = argument.unwrap_or_else(|| panic!("no flag --{flag}")).get_env().expect("a variable");
        assert_eq!(env.to_str(), Some(name.as_str()));
    }
}

#[test]
fn the_example_with_all_settings_on_is_understood() {
    let on: String = EXAMPLE
        .lines()
        .filter(|line| !line.starts_with("# "))
        .map(|line| format!("{}\n", line.strip_prefix('#').unwrap_or(line)))
        .collect();
    let text = file(&on);
    ConfigFile::read(Some(text.path())).unwrap_or_else(|error| panic!("{error}\n{on}"));
    assert_eq!(check(EXAMPLE), Ok(()), "with everything commented out, it says nothing");
}

#[test]
fn nodes_and_coordinators_name_what_waits_for_the_next_start() {
    let read = |text: &str| ConfigFile::read(Some(file(text).path())).expect("well-formed");
    let node = |text: &str| {
        read(&format!("[node]\ncoordinator = \"127.0.0.1:7000\"\n{text}")).node.resolve().expect("sensible")
    };
    let mut running = node("");
    assert_eq!(running.take_live(node("")), [""; 0]);
    assert_eq!(
        running.take_live(node("domain = \"rack\"\nid = 3\n")),
        ["--coordinator, --cluster-id or --id", "--domain"]
    );
    assert_eq!(running, node(""), "it goes on as it was");
    let paces = "repair_bandwidth = \"1m\"\nscrub_bandwidth = \"0\"\n";
    assert_eq!(running.take_live(node(paces)), [""; 0]);
    assert_eq!(running, node(paces));
    let coordinator = |text: &str| read(&format!("[coordinator]\n{text}")).coordinator.resolve().expect("sensible");
    let mut running = coordinator("");
    let wanted = coordinator("dir = \"d\"\nretire_after = 7\n");
    assert_eq!(running.take_live(wanted), ["--metadata or --dir", "--retire-after"]);
}

#[test]
fn a_misspelt_variable_is_named() {
    let names = |names: &[&str]| check_environment(names.iter().map(|name| (*name).to_owned()));
    assert_eq!(names(&["PATH", "SHORTTAIL_UP_NODES", "SHORTTAIL_LOG"]), Ok(()));
    let misspelt = "SHORTTAIL_NODE_MEMROY";
    assert_eq!(names(&[misspelt]), Err(ConfigError::Environment(misspelt.to_owned())));
}

#[test]
fn a_local_cluster_that_makes_no_sense_is_refused_by_name() {
    for (flags, wanted) in [
        (&["--nodes", "5"][..], "--nodes: 5 is too few"),
        (&["--nodes", "257"], "--nodes: 257 is not within 1 to 256"),
        (&["--node-memory", "15m"], "--node-memory: 15MiB is less than 16MiB"),
        (&["--node-memory", "16m", "--node-threads", "2"], "--node-memory: 16MiB is less than 32MiB"),
        (&["--value-bytes-max", "2g"], "--value-bytes-max: 2GiB is not within 1KiB to 1GiB"),
        (&["--redis", "127.0.0.1:11211"], "--redis: 127.0.0.1:11211 is also the address of --memcached"),
        (&["--admin", "127.0.0.1:6379"], "--admin: 127.0.0.1:6379 is also an address of --redis"),
        (&["--redis", "off", "--memcached", "off"], "--memcached: with --redis off too"),
        (&["--auth-file", "/nonexistent"], "--auth-file: /nonexistent: "),
    ] {
        let error = up_flags(flags).resolve().expect_err("senseless").to_string();
        assert!(error.starts_with(wanted), "{error}");
    }
}

#[test]
fn partitions_are_within_their_limits_wherever_they_are_said() {
    let flag = |count: &str| {
        let command = UpOptions::augment_args(Command::new("up"));
        command.try_get_matches_from(["up", "--partitions", count]).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!((flag("1"), flag("1024")), (Ok(()), Ok(())));
    for count in ["0", "1025", "1000000"] {
        let error = flag(count).expect_err("beyond");
        assert!(error.contains(&format!("{count} is not in 1..=1024")), "{error}");
    }
    let error = check("[up]\npartitions = 1025\n").expect_err("beyond");
    assert!(error.contains("up.partitions: 1025 is not within 1 to 1024"), "{error}");
}

#[test]
fn the_limits_themselves_are_taken() {
    let config = up_flags(&["--node-memory", "16m", "--nodes", "256", "--value-bytes-max", "1k"]).resolve();
    assert_eq!(config.map(|config| config.value_bytes_max), Ok(Size(1024)));
    assert!(up_flags(&["--nodes", "6"]).resolve().is_ok());
    assert!(up_flags(&["--code", "rs:8+3"]).resolve().is_ok_and(|config| config.node_count == 11));
    assert!(up_flags(&["--memcached", "127.0.0.1:0", "--redis", "127.0.0.1:0"]).resolve().is_ok());
}

#[test]
fn members_need_a_coordinator_or_all_that_it_would_say() {
    let node = |text: &str| check(&format!("[node]\n{text}"));
    assert_eq!(node("coordinator = \"127.0.0.1:7000\""), Ok(()));
    assert_eq!(node("cluster_id = \"ab\"\nid = 1"), Ok(()));
    assert!(node("cluster_id = \"ab\"").expect_err("who?").contains("node.id: is needed"));
    assert!(node("cluster_id = \"ab\"\ncoordinator = \"127.0.0.1:7000\"").is_err());
    let gateway = |text: &str| check(&format!("[gateway]\n{text}"));
    let nodes = "nodes = [\"0=127.0.0.1:1\", \"1=127.0.0.1:2\"]\ncode = \"rs:1+1\"\n";
    assert_eq!(gateway(&format!("{nodes}cluster_id = \"ab\"\nepoch = 1")), Ok(()));
    assert!(gateway(nodes).expect_err("which?").contains("gateway.cluster_id: is needed"));
    assert!(gateway(&format!("{nodes}cluster_id = \"ab\"\nepoch = 0")).expect_err("no epoch").contains("line 5"));
    let twice = "nodes = [\"0=127.0.0.1:1\", \"0=127.0.0.1:2\"]\ncode = \"rs:1+1\"\ncluster_id = \"ab\"\nepoch = 1";
    assert!(gateway(twice).expect_err("twice").contains("names a node id twice"));
}

#[test]
fn what_others_are_told_is_an_address_that_one_can_connect_to() {
    let role = |section: &str, key: &str, address: &str| {
        check(&format!("[{section}]\ncoordinator = \"127.0.0.1:7000\"\n{key} = \"{address}\"\n"))
    };
    let gateway = |key: &str, address: &str| role("gateway", key, address);
    assert!(role("node", "advertise", "0.0.0.0:1").expect_err("no address").contains("it must name one host"));
    assert_eq!(role("node", "advertise", "10.0.0.7:7001"), Ok(()));
    for key in ["redis_advertise", "forward_advertise"] {
        for (address, lacks) in [("0.0.0.0:6379", "one host"), ("[::]:6379", "one host"), ("10.0.0.7:0", "a port")] {
            let error = gateway(key, address).expect_err("no address");
            let wanted =
                format!("line 3: gateway.{key}: {address} is what others are told to connect to: it must name {lacks}");
            assert!(error.contains(&wanted), "{error}");
        }
        assert_eq!(gateway(key, "10.0.0.7:6379"), Ok(()));
    }
    assert_eq!(gateway("redis_advertise", "off"), Ok(()));
    assert_eq!(gateway("forward_advertise", "unix:/run/g.sock"), Ok(()));
}

#[test]
fn a_coordinator_that_a_flag_may_name_is_only_noted() {
    let said = |text: &str| notes(text).map(|notes| notes.join("; "));
    let needs = |section: &str| Ok(format!("[{section}] needs --coordinator on the command line"));
    assert_eq!(said("[node]\nmemory = \"1g\"\n"), needs("node"));
    assert_eq!(said("[node]\nid = 1\n"), needs("node"));
    assert_eq!(said("[gateway]\nthreads = 2\n"), needs("gateway"));
    assert_eq!(said("[node]\ncoordinator = \"127.0.0.1:7000\"\n"), Ok(String::new()));
    assert!(said("[node]\nmemory = \"1\"\n").expect_err("too little").contains("node.memory"));
    assert!(said("[gateway]\nepoch = 1\n").expect_err("static").contains("gateway.coordinator: is needed"));
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = ConfigFile::read(Some(Path::new("/nonexistent.toml"))).expect_err("not there");
    assert!(error.to_string().starts_with("/nonexistent.toml: "), "{error}");
}

#[test]
fn memory_that_no_node_can_have_is_refused_before_anything_starts() {
    for (text, flag) in [
        ("[up]\nnode_memory = \"100TiB\"\n", "node_memory"),
        ("[up]\nnode_memory = \"1MiB\"\n", "node_memory"),
        ("[node]\ncoordinator = \"127.0.0.1:1\"\nmemory = \"2TiB\"\n", "memory"),
    ] {
        let error = check(text).expect_err(text);
        assert!(error.contains(flag) && error.contains("1 thread(s)"), "{error}");
    }
}
