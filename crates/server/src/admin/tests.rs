//! The HTTP answers, over a real socket.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use shorttail_gateway::session::Counters;
use shorttail_units::Epoch;
use shorttail_wire::control::{
    ClusterStatus, CoordinatorStatus, DrainStatus, GatewayStatus, GatewayStatusEntry, NodeSeen, NodeStage, NodeState,
    NodeStatusEntry, Standing, StoreTotals, TenureState,
};

use super::metrics::{self, strict};
use super::visitors::VISITORS_MAX;
use super::{Bound, OrderOutcome};
use crate::coordinator::tests::{MEEK, RunningCoordinator, gateway, node};
use crate::gateway::Window;

pub fn get(address: SocketAddr, path: &str) -> String {
    ask(address, &format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
}

pub fn post(address: SocketAddr, path: &str, kind: &str, body: &str) -> String {
    let head = format!("Host: x\r\nConnection: close\r\nContent-Type: {kind}\r\nContent-Length: {}", body.len());
    ask(address, &format!("POST {path} HTTP/1.1\r\n{head}\r\n\r\n{body}"))
}

fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the admin port listens");
    stream.write_all(request.as_bytes()).expect("a request is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the answer is text");
    answer
}

#[test]
fn every_path_answers() {
    let running = RunningCoordinator::start(None);
    let address = running.admin;
    let status = get(address, "/status");
    assert!(status.starts_with("HTTP/1.1 200 OK\r\n"), "{status}");
    let body = status.split_once("\r\n\r\n").expect("a body").1;
    let json: serde_json::Value = serde_json::from_str(body).expect("JSON");
    for key in ["code", "objects", "bytes_stored", "bytes_used", "nodes", "gateways"] {
        assert!(json.get(key).is_some(), "{key} is missing in {body}");
    }
    assert_eq!(json["code"], "rs:4+2");
    assert!(get(address, "/health").starts_with("HTTP/1.1 503"), "nobody serves yet");
    while !get(address, "/metrics").contains("\nshorttail_coordinator_leads 1\n") {
        std::thread::yield_now();
    }
    let metrics = get(address, "/metrics");
    assert!(metrics.contains("\nshorttail_used_bytes 0\n") && metrics.contains("\nshorttail_problems "), "{metrics}");
    for unknown in ["objects", "stored_bytes", "chunks_missing", "stripes_stranded"] {
        assert!(!metrics.contains(&format!("\nshorttail_{unknown} ")), "no gateway is alive: {metrics}");
    }
    assert!(get(address, "/").contains("<title>ShortTail</title>"));
    assert!(get(address, "/nothing").starts_with("HTTP/1.1 404"));
}

#[test]
fn silent_visitors_keep_nobody_out_for_long() {
    let running = RunningCoordinator::start(None);
    let mut silent: Vec<TcpStream> =
        (0..VISITORS_MAX).map(|_| TcpStream::connect(running.admin).expect("the admin port listens")).collect();
    // As many as may be are there: one has to be let go first.
    assert!(get(running.admin, "/status").starts_with("HTTP/1.1 200"));
    let is_let_go = |mut stream: &TcpStream| {
        stream.set_nonblocking(true).expect("a socket");
        let is_over = stream.read(&mut [0]).is_ok();
        stream.set_nonblocking(false).expect("a socket");
        is_over
    };
    assert!(silent.iter().any(is_let_go), "whoever asked waited for a place");
    for stream in &mut silent {
        // Closed with nothing said.
        assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
    }
}

/// What a script asks of a variable: the words after `variable.`.
fn fields<'a>(script: &'a str, variable: &str) -> BTreeSet<&'a str> {
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let dotted = format!("{variable}.");
    let found = script.match_indices(&dotted).filter(|(at, _)| !script[..*at].ends_with(is_word));
    found.map(|(at, _)| script[at + dotted.len()..].split(|letter| !is_word(letter)).next().expect("a word")).collect()
}

#[test]
fn the_page_shows_what_the_status_tells() {
    let drain = Some(DrainStatus::default());
    let nodes = vec![NodeStatusEntry { drain, ..NodeStatusEntry::default() }];
    let gateways = vec![GatewayStatusEntry::default()];
    let status = ClusterStatus { nodes, gateways, ..ClusterStatus::default() };
    let json = serde_json::to_value(status).expect("JSON");
    let node = &json["nodes"][0];
    let (repair, moves, coordinator) = (&json["repair"], &json["moves"], &json["coordinator"]);
    let variables = [
        ("s", &json, "problems repair moves coordinator nodes gateways partitions_served"),
        ("r", repair, "chunks_missing bytes_per_s seconds_left stripes_stranded lacking_of_stripe_max"),
        ("m", moves, "chunks_moved_total bytes_per_s"),
        ("c", coordinator, "name leading leader metadata metadata_problem"),
        ("n", node, "domain state stage rebuilt fail_slow drain latency_us_p99 chunks_damaged chaos"),
        ("d", &node["drain"], "drained chunks_left bytes_left seconds_left problem"),
        ("g", &json["gateways"][0], "serving draining tenures nodes_fail_slow nodes_unreached"),
    ];
    for (variable, told, wanted) in variables {
        let shown = fields(super::PAGE, variable);
        for name in &shown {
            assert!(told.get(name).is_some(), "the page asks for {variable}.{name}, which the status does not have");
        }
        for name in wanted.split(' ') {
            assert!(shown.contains(name), "the page does not show {name}");
        }
    }
}

#[test]
fn orders_reach_the_nodes_that_allow_it_and_no_other_page_may_send_them() {
    let running = RunningCoordinator::start(None);
    let (brave, _) = node(&running.control, 2, 1);
    let (meek, _) = node(&running.control, MEEK, 1);
    for control in [&brave, &meek] {
        control.registered().expect("let in");
    }
    let clear = |kind| post(running.admin, "/chaos", kind, "{\"nodes\":null,\"order\":\"clear\"}");
    let answer = clear("application/json");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let body = answer.split_once("\r\n\r\n").expect("a body").1;
    let outcomes: Vec<OrderOutcome> = serde_json::from_str(body).expect("outcomes");
    let refusal = format!("node {MEEK} was not started with --allow-chaos");
    assert_eq!(
        outcomes,
        [
            OrderOutcome { member: 2, is_done: true, text: "Chaos(Clear)".into() },
            OrderOutcome { member: MEEK, is_done: false, text: refusal },
        ]
    );
    // A browser sends these without asking the other site first.
    for kind in ["text/plain", "application/x-www-form-urlencoded"] {
        assert!(clear(kind).starts_with("HTTP/1.1 415"));
    }
    // A page whose name was made to lead here sends this without asking, too.
    let of_page = clear("application/json\r\nOrigin: http://elsewhere");
    assert!(of_page.starts_with("HTTP/1.1 403") && of_page.contains("web pages"), "{of_page}");
    let senseless = post(running.admin, "/chaos", "application/json", "{\"nodes\":[2],\"order\":\"dance\"}");
    assert!(senseless.starts_with("HTTP/1.1 422"), "{senseless}");
    assert!(get(running.admin, "/chaos").starts_with("HTTP/1.1 405"));
}

#[test]
fn changes_of_policy_reach_the_gateways() {
    let running = RunningCoordinator::start(None);
    let (gateway, _) = gateway(&running.control);
    gateway.registered().expect("let in");
    let set = |body| post(running.admin, "/policy", "application/json", body);
    let outcomes = |answer: &str| -> Vec<OrderOutcome> {
        let body = answer.split_once("\r\n\r\n").expect("a body").1;
        serde_json::from_str(body).expect("outcomes")
    };
    let told = outcomes(&set("{\"partition\":3,\"change\":{\"hedge\":\"off\"}}"));
    assert!(told.len() == 1 && told[0].is_done && told[0].text.contains("partition: Some(3)"), "{told:?}");
    let told = outcomes(&set("{\"partition\":4,\"change\":{\"hedge\":\"off\"}}"));
    assert!(!told[0].is_done && told[0].text == "there is no partition 4: they are 0 to 3", "{told:?}");
    assert!(set("{\"change\":{\"hedge\":\"often\"}}").starts_with("HTTP/1.1 422"));
    assert!(set("{\"change\":{\"speed\":9}}").starts_with("HTTP/1.1 422"));
}

#[test]
fn a_coordinator_that_stands_by_tells_no_numbers_of_the_cluster() {
    let standby = ClusterStatus { partitions: 4, nodes_expected: 8, ..ClusterStatus::default() };
    let samples = strict::read(&metrics::of_cluster(&standby, &[]));
    assert_eq!(samples.len(), 3);
    assert_eq!(strict::value(&samples, "shorttail_coordinator_leads", &[]), Some(0.0));
    assert_eq!(strict::value(&samples, "shorttail_coordinator_metadata_usable", &[]), Some(1.0));
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    assert_eq!(strict::value(&samples, "shorttail_build_info", &version), Some(1.0));
    // The lease is over and nobody else is known to lead: it tells what it sees.
    let coordinator = CoordinatorStatus { metadata_problem: Some("away".into()), ..CoordinatorStatus::default() };
    let lapsed = ClusterStatus { cluster_id: "77".into(), coordinator, ..standby };
    let samples = strict::read(&metrics::of_cluster(&lapsed, &[]));
    let value = |name: &str| strict::value(&samples, &format!("shorttail_{name}"), &[]);
    assert_eq!(
        ["coordinator_leads", "coordinator_metadata_usable", "partitions"].map(value),
        [0.0, 0.0, 4.0].map(Some)
    );
}

#[test]
fn metrics_are_what_a_strict_reader_takes() {
    let node = NodeStatusEntry {
        id: 3,
        state: NodeState::Dead,
        stage: Some(NodeStage::Degraded),
        rebuilt: true,
        memory_used_bytes: 10,
        memory_limit_bytes: 20,
        ..NodeStatusEntry::default()
    };
    // Of gateway 5, which is dead, there is no report.
    let gateways = [0, 2, 5].map(|id| GatewayStatusEntry { id, ..GatewayStatusEntry::default() }).to_vec();
    let cluster_id = "77".to_owned();
    let status = ClusterStatus { cluster_id, objects: 7, nodes: vec![node], gateways, ..ClusterStatus::default() };
    let mut seen = NodeSeen { id: 3, fail_slow: true, flagged_us: 1_500_000, redirect_count: 4, ..NodeSeen::default() };
    seen.read_latency.add(90, 5);
    seen.read_latency.add(50_000, 1);
    let totals = StoreTotals { hedges_sent_total: 9, hedges_won_total: 6, ..StoreTotals::default() };
    let standing = |epoch, state| Standing { epoch: Epoch(epoch), proven_by: 1, state };
    let standings = vec![standing(4, TenureState::Ended), standing(6, TenureState::Serving)];
    let report = GatewayStatus { serving: true, standings, totals, nodes: vec![seen], ..GatewayStatus::default() };
    let text = metrics::of_cluster(&status, &[(0, report.clone()), (2, report)]);
    let samples = strict::read(&text);
    let value = |name: &str, labels: &[(&str, &str)]| strict::value(&samples, &format!("shorttail_{name}"), labels);
    assert_eq!(value("objects", &[]), Some(7.0));
    assert_eq!(value("node_up", &[("node", "3")]), Some(0.0), "one series, whatever its state");
    let state = |state| value("node_state", &[("node", "3"), ("state", state)]);
    assert_eq!(["normal", "suspect", "dead", "retired"].map(state), [0.0, 0.0, 1.0, 0.0].map(Some));
    let stage = |stage| value("node_stage", &[("node", "3"), ("stage", stage)]);
    assert_eq!(["normal", "intermediate", "degraded", "coordinated"].map(stage), [0.0, 0.0, 1.0, 0.0].map(Some));
    assert_eq!(value("node_rebuilt", &[("node", "3")]), Some(1.0));
    assert_eq!(value("node_memory_used_bytes", &[("node", "3")]), Some(10.0));
    assert_eq!(value("gateway_serving", &[("gateway", "5")]), Some(0.0), "an alert is to see it");
    for gateway in ["0", "2"] {
        assert_eq!(value("gateway_serving", &[("gateway", gateway)]), Some(1.0));
        assert_eq!(value("gateway_hedges_sent_total", &[("gateway", gateway)]), Some(9.0));
        let tenures = |state| value("gateway_tenures", &[("gateway", gateway), ("state", state)]);
        assert_eq!(["serving", "ended", "taking over"].map(tenures), [1.0, 1.0, 0.0].map(Some));
        assert_eq!(value("gateway_epoch", &[("gateway", gateway)]), Some(6.0));
        let of_node = [("gateway", gateway), ("node", "3")];
        assert_eq!(value("node_fail_slow", &of_node), Some(1.0));
        assert_eq!(value("node_fail_slow_seconds_total", &of_node), Some(1.5));
        assert_eq!(value("node_redirects_total", &of_node), Some(4.0));
        let of_reads = [("gateway", gateway), ("node", "3"), ("operation", "read")];
        let bucket = |le| value("node_latency_seconds_bucket", &[&of_reads[..], &[("le", le)]].concat());
        assert_eq!(["0.00005", "0.0001", "0.02", "0.05", "+Inf"].map(bucket), [0.0, 5.0, 5.0, 6.0, 6.0].map(Some));
        assert_eq!(value("node_latency_seconds_sum", &of_reads), Some(0.050_45));
    }
}

/// A script would take zeros for what is stored.
#[test]
fn a_gateway_that_is_not_let_in_tells_no_numbers() {
    let bound = Bound::new("127.0.0.1:0".parse().expect("an address")).expect("a free port");
    let address = bound.address;
    bound.serve_gateway(Window::default()).expect("a thread");
    let answer = get(address, "/status");
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("{\"serving\":false,\"why\":"), "{answer}");
    assert!(!answer.contains("objects"), "{answer}");
}

#[test]
fn a_gateway_tells_of_its_clients_too() {
    let mut counters = Counters { get_hits: 5, connections_current: 2, cpu_user_us: 1_250_000, ..Counters::default() };
    [40, 60, 60, 7_000_000].into_iter().for_each(|us| counters.latencies.reads.add(us));
    let samples = strict::read(&metrics::of_gateway(1, &GatewayStatus::default(), &counters));
    let value = |name: &str, labels: &[(&str, &str)]| strict::value(&samples, name, labels);
    let gets = [("gateway", "1"), ("request", "get"), ("outcome", "hit")];
    assert_eq!(value("shorttail_client_requests_total", &gets), Some(5.0));
    assert_eq!(value("shorttail_client_connections", &[("gateway", "1")]), Some(2.0));
    let cpu = [("gateway", "1"), ("mode", "user")];
    assert_eq!(value("shorttail_process_cpu_seconds_total", &cpu), Some(1.25));
    let latency = |operation, le| {
        let labels = [("gateway", "1"), ("operation", operation), ("le", le)];
        value("shorttail_client_latency_seconds_bucket", &labels)
    };
    let of_reads = ["0.00005", "0.0001", "5", "+Inf"].map(|le| latency("read", le));
    assert_eq!(of_reads, [1.0, 3.0, 3.0, 4.0].map(Some));
    assert_eq!(latency("write", "+Inf"), Some(0.0), "a series that is there from the first");
    let of_reads = [("gateway", "1"), ("operation", "read")];
    assert_eq!(value("shorttail_client_latency_seconds_sum", &of_reads), Some(7.000_16));
}

/// The names between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// What operators are told to look at exists, and they are told of all that exists.
#[test]
fn the_manual_names_all_metrics_and_no_others() {
    let manual = include_str!("../../../../docs/REFERENCE.md");
    let rows = manual.lines().skip_while(|line| !line.starts_with("| metric |")).skip(2);
    let cells = rows.map_while(|row| row.strip_prefix("| ")?.split(" | ").next());
    let named: BTreeSet<&str> = cells.flat_map(quoted).collect();
    // What is stored is told of while a gateway is alive.
    let (cluster_id, gateways) = ("77".to_owned(), vec![GatewayStatusEntry::default()]);
    let nodes = vec![NodeStatusEntry::default()];
    let status = ClusterStatus { cluster_id, nodes, gateways, ..ClusterStatus::default() };
    let report = GatewayStatus { nodes: vec![NodeSeen::default()], ..GatewayStatus::default() };
    let text = metrics::of_cluster(&status, &[(0, report.clone())])
        + &metrics::of_gateway(0, &report, &Counters::default())
        + &metrics::of_stranger();
    let families = text.lines().filter_map(|line| line.strip_prefix("# TYPE shorttail_")?.split(' ').next());
    let families: BTreeSet<&str> = families.collect();
    let alone: Vec<_> = named.symmetric_difference(&families).collect();
    assert!(alone.is_empty(), "in the table of the manual, or in the code, alone: {alone:?}");
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let alerts = include_str!("../../../../docs/alerts.yml");
    let in_text = |text: &'static str| text.match_indices("shorttail_").map(move |(at, _)| &text[at..]);
    let asked = in_text(manual).chain(in_text(alerts));
    let asked = asked.map(|rest| rest.split(|letter| !is_word(letter)).next().expect("a word"));
    let samples: BTreeSet<&str> =
        text.lines().map(|line| line.split(['{', ' ']).next().expect("a word")).filter(|&word| word != "#").collect();
    let asked: Vec<&str> = asked.filter(|name| *name != "shorttail_").collect();
    assert!(asked.len() > 10, "the alerts are not read: {asked:?}");
    asked.iter().for_each(|name| assert!(samples.contains(name), "there is no {name}"));
}

#[test]
fn a_reader_that_took_anything_would_prove_nothing() {
    let head = "# HELP a_b B.\n# TYPE a_b gauge\n";
    assert_eq!(strict::read(&format!("{head}a_b{{c=\"d\\\"\"}} 1\n")).len(), 1);
    for bad in [
        "a_b 1\n".to_owned(),
        format!("{head}a_b 1"),
        format!("{head}a_b 1\na_b 1\n"),
        format!("{head}a_c 1\n"),
        format!("{head}a_b x\n"),
        format!("{head}a_b{{c=\"d}} 1\n"),
        format!("{head}{head}a_b 1\n"),
        "# TYPE a_b gauge\na_b 1\n".to_owned(),
        head.replace("gauge", "counter") + "a_b 1\n",
        head.replace("gauge", "histogram") + "a_b_bucket{le=\"1\"} 1\na_b_sum 1\na_b_count 1\n",
    ] {
        assert!(std::panic::catch_unwind(|| strict::read(&bad)).is_err(), "{bad}");
    }
}
