//! `shorttail status`: the cluster for scripts and for people.

use std::fmt::Write;

use anyhow::Context;
use shorttail_server::admin::status::to_json;
use shorttail_server::config::Size;
use shorttail_wire::control::{
    ClusterStatus, CoordinatorStatus, GatewayStatusEntry, NodeStage, NodeState, NodeStatusEntry, RepairStatus,
    TenureState, counted, ranges,
};

use crate::admin::{Admin, no_leader};
use crate::arguments::StatusCommand;
use crate::drain::progress;
use crate::exit::Failure;
use crate::output::{columns, print};
use crate::watch::watch;

pub fn run(command: &StatusCommand) -> Result<(), Failure> {
    let admin = Admin::new(&command.admin);
    match command.watch {
        Some(every_s) => watch(every_s, !command.json, || look(&admin, command)),
        None => print(&look(&admin, command)?),
    }
}

/// What the coordinator says that leads, or else one that answers; of the others a line each.
fn look(admin: &Admin, command: &StatusCommand) -> Result<String, Failure> {
    let (status, others) = chosen(admin.statuses())?;
    told(&status, &others, command)
}

fn chosen(statuses: Vec<anyhow::Result<ClusterStatus>>) -> anyhow::Result<(ClusterStatus, Vec<String>)> {
    let rank = |status: &anyhow::Result<ClusterStatus>| match status {
        Ok(status) => (!status.coordinator.leading, status.is_standby()),
        Err(_) => (true, true),
    };
    let answered = statuses.iter().enumerate().filter(|(_, status)| status.is_ok());
    let best = answered.min_by_key(|(_, status)| rank(status)).map(|(place, _)| place);
    let (mut best_status, mut others) = (None, Vec::new());
    for (place, status) in statuses.into_iter().enumerate() {
        match status {
            Ok(status) if Some(place) == best => best_status = Some(status),
            Ok(status) => others.push(coordinator_line(&status.coordinator)),
            Err(error) => others.push(format!("{error:#}")),
        }
    }
    best_status.map(|status| (status, others.clone())).ok_or_else(|| no_leader(&others))
}

/// Of many objects each is a line.
fn told(status: &ClusterStatus, others: &[String], command: &StatusCommand) -> Result<String, Failure> {
    if !command.json {
        return Ok(table(status, others));
    }
    let json = to_json(status).context("cannot print the status")?;
    Ok(if command.watch.is_some() { format!("{json}\n") } else { format!("{json:#}\n") })
}

/// The status as lines and columns, with what other coordinators say.
fn table(status: &ClusterStatus, others: &[String]) -> String {
    let mut out = String::new();
    let put = |out: &mut String, line: std::fmt::Arguments| writeln!(out, "{line}").expect("writing to memory");
    if status.is_standby() {
        put(&mut out, format_args!("{}", coordinator_line(&status.coordinator)));
        others.iter().for_each(|other| put(&mut out, format_args!("{other}")));
        put(&mut out, format_args!("it knows nothing of nodes and gateways: ask the one that leads (--admin)"));
        return out;
    }
    put(&mut out, format_args!("cluster {}  {}  {} partitions", status.cluster_id, status.code, status.partitions));
    if let Some(line) = missed_line(status) {
        put(&mut out, format_args!("{line}"));
    }
    put(&mut out, format_args!("{}", objects_line(status)));
    put(&mut out, format_args!("{}", repair_line(&status.repair, is_known(status))));
    for line in move_lines(status) {
        put(&mut out, format_args!("{line}"));
    }
    for problem in &status.problems {
        put(&mut out, format_args!("problem: {problem}"));
    }
    put(&mut out, format_args!("{}", coordinator_line(&status.coordinator)));
    others.iter().for_each(|other| put(&mut out, format_args!("{other}")));
    put(&mut out, format_args!("\n{}", node_table(&status.nodes)));
    let gateways = status.gateways.iter().map(|gateway| {
        let state = match gateway.serving {
            true if gateway.draining => "draining",
            true => "serving",
            false if gateway.state == NodeState::Normal => "not serving",
            false => gateway.state.name(),
        };
        let memcached = gateway.memcached.as_ref().or(gateway.unix_socket.as_ref());
        let or_dash = |address: Option<&String>| address.map_or_else(|| "-".to_owned(), String::clone);
        [
            gateway.id.to_string(),
            state.into(),
            or_dash(memcached),
            or_dash(gateway.redis.as_ref()),
            owned(gateway),
            gateway.pid.to_string(),
            or_dash(gateway.admin.as_ref()),
        ]
    });
    let heads = ["gateway", "state", "memcached", "redis", "owns", "pid", "admin"];
    out.push_str(&columns(&heads, gateways));
    out
}

/// Domains are told where there are any.
fn node_table(nodes: &[NodeStatusEntry]) -> String {
    let has_domains = nodes.iter().any(|node| !node.domain.is_empty());
    let rows = nodes.iter().map(|node| {
        let memory = match node.memory_limit_bytes {
            0 => "-".to_owned(),
            limit => format!("{} of {}", rounded(node.memory_used_bytes), rounded(limit)),
        };
        let leaves = node.drain.as_ref().map(|drain| if drain.drained { ", drained" } else { ", draining" });
        let slow = if node.fail_slow { ", fail-slow" } else { "" };
        let rebuilt = if node.rebuilt { ", rebuilt" } else { "" };
        // What is rebuilt is gone round for good.
        let stage = node.stage.filter(|&stage| stage != NodeStage::Normal && !node.rebuilt);
        let stage = stage.map_or(String::new(), |stage| format!(", {}", stage.name()));
        let state = format!("{}{stage}{rebuilt}{slow}{}", node.state.name(), leaves.unwrap_or_default());
        let domain = if node.domain.is_empty() { "-" } else { &node.domain };
        let domain = has_domains.then(|| domain.to_owned());
        let rest = [
            memory,
            latency(node.latency_us_p50),
            latency(node.latency_us_p99),
            node.redirect_count.to_string(),
            node.pid.to_string(),
            node.address.clone(),
        ];
        [node.id.to_string(), state].into_iter().chain(domain).chain(rest)
    });
    let rest = ["memory", "p50", "p99", "redirects", "pid", "address"];
    let heads: Vec<&str> = ["node", "state"].into_iter().chain(has_domains.then_some("domain")).chain(rest).collect();
    columns(&heads, rows)
}

/// Nodes that are meant to be there and are not.
fn missed_line(status: &ClusterStatus) -> Option<String> {
    let (alive, expected) = (status.repair.nodes_alive, status.nodes_expected);
    (alive < expected).then(|| format!("{alive} of {expected} nodes are alive"))
}

/// What is stored is known while a gateway tells of it.
fn is_known(status: &ClusterStatus) -> bool {
    status.gateways.iter().any(|gateway| gateway.state.is_alive())
}

fn objects_line(status: &ClusterStatus) -> String {
    let used = format!("{} of {}", rounded(status.bytes_used), rounded(status.bytes_limit));
    if !is_known(status) {
        return format!("how many objects there are is not known: no gateway is alive; {used} is used");
    }
    let refused = match status.stores_refused_total {
        0 => String::new(),
        count => format!("{} refused, ", counted(count, "store")),
    };
    format!(
        "{}, {} stored in {used}; {refused}{} evicted, {} expired, {}",
        counted(status.objects, "object"),
        rounded(status.bytes_stored),
        status.evicted_total,
        status.expired_total,
        counted(status.degraded_reads_total, "degraded read")
    )
}

/// Who tells all this, whether it leads, and how it stands with the metadata store.
pub fn coordinator_line(coordinator: &CoordinatorStatus) -> String {
    let CoordinatorStatus { name, leading, leader, metadata, metadata_problem, admin: _ } = coordinator;
    let leads = match leader {
        _ if *leading => "leads".to_owned(),
        Some(leader) if leader != name => format!("stands by, {leader}, leads"),
        _ => "does not lead at present".to_owned(),
    };
    let problem = metadata_problem.as_ref().map_or_else(String::new, |why| format!(", which cannot be used: {why}"));
    let place = if metadata == "nowhere" { "nowhere".to_owned() } else { format!("in {metadata}") };
    format!("coordinator {name}: {leads}; metadata is kept {place}{problem}")
}

/// Partitions of a gateway, by tenure.
fn owned(gateway: &GatewayStatusEntry) -> String {
    let tenures = gateway.tenures.iter().map(|tenure| {
        let state = match tenure.state {
            _ if !gateway.state.is_alive() => "not served",
            TenureState::Serving => "",
            state => state.name(),
        };
        let space = if state.is_empty() { "" } else { " " };
        format!("{} in epoch {}{space}{state}", ranges(&tenure.partitions), tenure.epoch)
    });
    let tenures: Vec<String> = tenures.collect();
    if tenures.is_empty() { "nothing".to_owned() } else { tenures.join("; ") }
}

/// None: no chunk is, as far as is known.
pub fn chunks_missing(repair: &RepairStatus) -> Option<String> {
    match (repair.chunks_missing, repair.lacking_of_stripe_max) {
        (0, 0) => None,
        // Owners have not counted it, or reach a node that the coordinator does not.
        (0, count) => Some(format!("stripes may lack {}, which no gateway counts yet", counted(count.into(), "chunk"))),
        (1, _) => Some("1 chunk is missing".to_owned()),
        (count, _) => Some(format!("{count} chunks are missing")),
    }
}

/// What is lost, how far repair is, and what it waits for.
fn repair_line(repair: &RepairStatus, is_known: bool) -> String {
    let mut line = match is_known {
        true => chunks_missing(repair).unwrap_or_else(|| "no chunk is missing".to_owned()),
        false => "what is missing is not known".to_owned(),
    };
    if repair.chunks_rebuilt_total > 0 {
        line += &format!(", {} rebuilt ({})", repair.chunks_rebuilt_total, rounded(repair.bytes_rebuilt_total));
    }
    if let Some(seconds) = repair.seconds_left {
        line += &format!(", {}/s, {seconds} s left", rounded(repair.bytes_per_s));
    }
    let stripes_stranded = repair.stripes_stranded;
    if stripes_stranded > 0 {
        line += &format!(
            "; {} for a node that has room and holds nothing of them yet",
            if stripes_stranded == 1 {
                "1 stripe waits".to_owned()
            } else {
                format!("{stripes_stranded} stripes wait")
            }
        );
    }
    line
}

/// What moves between nodes, and how far those are that are to be emptied.
fn move_lines(status: &ClusterStatus) -> Vec<String> {
    let moves = &status.moves;
    let mut lines = Vec::new();
    if moves.chunks_moved_total > 0 {
        let rate = match moves.bytes_per_s {
            0 => String::new(),
            rate => format!(", {}/s", rounded(rate)),
        };
        lines.push(format!(
            "{} moved ({}){rate}",
            counted(moves.chunks_moved_total, "chunk"),
            rounded(moves.bytes_moved_total)
        ));
    }
    for node in &status.nodes {
        match &node.drain {
            None => {}
            Some(drain) if drain.drained => {
                lines.push(format!("node {} is drained: it may be stopped or removed", node.id))
            }
            Some(drain) => lines.push(format!("node {} drains: {}", node.id, progress(drain, moves.bytes_per_s))),
        }
    }
    lines
}

/// A latency for people: two digits are enough.
fn latency(us: Option<u64>) -> String {
    match us {
        None => "-".into(),
        Some(us @ ..1_000) => format!("{us}us"),
        Some(us @ ..10_000) => format!("{:.1}ms", us as f64 / 1e3),
        Some(us @ ..1_000_000) => format!("{}ms", us / 1_000),
        Some(us) => format!("{:.1}s", us as f64 / 1e6),
    }
}

/// A size for people: three digits are enough.
pub fn rounded(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit =
        units.iter().enumerate().rev().find(|(power, _)| bytes >> (10 * power) > 0).map_or(0, |(power, _)| power);
    if unit == 0 {
        return format!("{bytes}B");
    }
    if bytes.trailing_zeros() as usize >= 10 * unit {
        return Size(bytes).to_string();
    }
    let value = bytes as f64 / (1u64 << (10 * unit)) as f64;
    format!("{value:.1}{}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;
    use shorttail_wire::control::{DrainStatus, MoveStatus, NodeState, TenureStatusEntry};

    /// As a coordinator that leads tells it.
    fn cluster() -> ClusterStatus {
        let coordinator = CoordinatorStatus { leading: true, ..CoordinatorStatus::default() };
        ClusterStatus { cluster_id: "77".into(), coordinator, ..ClusterStatus::default() }
    }

    #[test]
    fn a_coordinator_that_stands_by_says_that_and_no_numbers() {
        let leader = Some("b:1 on g, process 3".to_owned());
        let coordinator = CoordinatorStatus { name: "a:1 on h, process 2".into(), leader, ..Default::default() };
        let text = table(&ClusterStatus { coordinator, partitions: 4, ..ClusterStatus::default() }, &[]);
        let beginning = "coordinator a:1 on h, process 2: stands by, b:1 on g, process 3, leads; ";
        assert!(text.starts_with(beginning) && text.lines().count() == 2, "{text}");
        assert!(!text.contains(" is used") && !text.contains("partitions"), "{text}");
    }

    #[test]
    fn of_several_coordinators_one_tells_of_the_cluster_and_of_the_others_there_is_a_line() {
        let standby = || ClusterStatus {
            coordinator: CoordinatorStatus { name: "a".into(), ..Default::default() },
            ..ClusterStatus::default()
        };
        let led = ClusterStatus { cluster_id: "77".into(), ..standby() };
        let silent = || Err(anyhow::anyhow!("no answer from b"));
        let (status, others) = chosen(vec![Ok(standby()), silent(), Ok(cluster())]).expect("one leads");
        assert_eq!((&status, others.len()), (&cluster(), 2));
        let text = table(&status, &others);
        assert!(text.contains("leads;") && text.contains("\nno answer from b\n"), "{text}");
        assert_eq!(chosen(vec![Ok(standby()), Ok(led.clone())]).expect("one led").0, led);
        assert_eq!(chosen(vec![silent(), Ok(standby())]).expect("one answers").0, standby());
        let error = chosen(vec![silent(), silent()]).expect_err("nobody answers").to_string();
        assert_eq!(error, "no coordinator tells of the cluster: no answer from b; no answer from b");
        assert_eq!(chosen(vec![silent()]).expect_err("nobody answers").to_string(), "no answer from b");
    }

    #[test]
    fn it_is_told_where_metadata_is_kept() {
        let line =
            |metadata: &str| coordinator_line(&CoordinatorStatus { metadata: metadata.into(), ..Default::default() });
        assert!(line("nowhere").ends_with("metadata is kept nowhere"), "{}", line("nowhere"));
        assert!(line("/var/lib/s").ends_with("metadata is kept in /var/lib/s"), "{}", line("/var/lib/s"));
    }

    #[test]
    fn nodes_that_are_not_there_yet_are_told() {
        let with = |nodes_alive| {
            let repair = RepairStatus { nodes_alive, nodes_needed: 6, ..RepairStatus::default() };
            table(&ClusterStatus { nodes_expected: 7, repair, ..cluster() }, &[])
        };
        assert!(with(6).lines().nth(1).is_some_and(|line| line == "6 of 7 nodes are alive"), "{}", with(6));
        assert!(!with(7).contains("of 7 nodes"), "{}", with(7));
    }

    #[test]
    fn partitions_are_told_by_tenure() {
        let tenure = |epoch, partitions: &[u16], state| TenureStatusEntry {
            epoch,
            partitions: partitions.to_vec(),
            state,
            proven: true,
        };
        let tenures = vec![tenure(3, &[0, 1, 2, 7], TenureState::Serving), tenure(5, &[9], TenureState::TakingOver)];
        let gateway = GatewayStatusEntry { tenures, ..GatewayStatusEntry::default() };
        assert_eq!(owned(&gateway), "0-2,7 in epoch 3; 9 in epoch 5 taking over");
        let dead = GatewayStatusEntry { state: NodeState::Dead, ..gateway };
        assert_eq!(owned(&dead), "0-2,7 in epoch 3 not served; 9 in epoch 5 not served");
        assert_eq!(owned(&GatewayStatusEntry::default()), "nothing");
    }

    #[test]
    fn sizes_are_short() {
        for (bytes, text) in [(0, "0B"), (1023, "1023B"), (1536, "1.5KiB"), (256 << 20, "256MiB"), (5 << 29, "2.5GiB")]
        {
            assert_eq!(rounded(bytes), text);
        }
    }

    #[test]
    fn repair_says_what_it_does_and_what_it_waits_for() {
        let whole = RepairStatus { nodes_alive: 8, nodes_needed: 6, ..RepairStatus::default() };
        assert_eq!(repair_line(&whole, true), "no chunk is missing");
        let busy = RepairStatus {
            chunks_missing: 40,
            chunks_rebuilt_total: 16,
            bytes_rebuilt_total: 1 << 20,
            bytes_per_s: 1 << 18,
            seconds_left: Some(10),
            ..whole
        };
        assert_eq!(repair_line(&busy, true), "40 chunks are missing, 16 rebuilt (1MiB), 256KiB/s, 10 s left");
        let one = RepairStatus { chunks_missing: 1, ..whole };
        assert_eq!(repair_line(&one, true), "1 chunk is missing");
        assert_eq!(repair_line(&whole, false), "what is missing is not known");
        let few = RepairStatus { nodes_alive: 5, ..busy };
        assert_eq!(
            repair_line(&few, true),
            repair_line(&busy, true),
            "what is rebuilt is, however few nodes there are"
        );
        let stranded = RepairStatus { stripes_stranded: 2, ..few };
        assert!(
            repair_line(&stranded, true)
                .ends_with("10 s left; 2 stripes wait for a node that has room and holds nothing of them yet")
        );
        let away = RepairStatus { lacking_of_stripe_max: 3, ..whole };
        assert_eq!(repair_line(&away, true), "stripes may lack 3 chunks, which no gateway counts yet");
    }

    #[test]
    fn nodes_that_drain_are_told_with_what_is_left_and_what_they_wait_for() {
        let drain = DrainStatus {
            chunks_left: 40,
            bytes_left: 5 << 20,
            seconds_left: Some(5),
            problem: Some("no room".into()),
            ..DrainStatus::default()
        };
        let node = |id, drain| NodeStatusEntry { id, drain: Some(drain), ..NodeStatusEntry::default() };
        let drained = DrainStatus { drained: true, ..DrainStatus::default() };
        let moves = MoveStatus {
            chunks_moved_total: 3,
            bytes_moved_total: 1 << 20,
            bytes_per_s: 1 << 20,
            ..Default::default()
        };
        let nodes = vec![node(1, drain), node(2, drained)];
        let problems = vec!["memory is full".to_owned()];
        let text = table(&ClusterStatus { nodes, moves, problems, ..cluster() }, &[]);
        for line in [
            "\n3 chunks moved (1MiB), 1MiB/s\n",
            "\nnode 1 drains: 40 chunks are left (5MiB), 1MiB/s, 5 s left; it waits: no room\n",
            "\nnode 2 is drained: it may be stopped or removed\n",
            "\nproblem: memory is full\n",
            "normal, draining",
            "normal, drained",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }

    #[test]
    fn a_coordinator_says_whether_it_leads() {
        let leads = CoordinatorStatus {
            name: "a:1 on h, process 2".into(),
            leading: true,
            leader: Some("a:1 on h, process 2".into()),
            metadata: "file:/d".into(),
            metadata_problem: None,
            admin: None,
        };
        assert_eq!(coordinator_line(&leads), "coordinator a:1 on h, process 2: leads; metadata is kept in file:/d");
        let lapsed = CoordinatorStatus { leading: false, metadata_problem: Some("refused".into()), ..leads.clone() };
        let line = coordinator_line(&lapsed);
        assert!(line.ends_with("does not lead at present; metadata is kept in file:/d, which cannot be used: refused"));
        let standby = CoordinatorStatus { leading: false, leader: Some("b:1".into()), ..leads };
        assert!(coordinator_line(&standby).contains(": stands by, b:1, leads; "));
    }

    #[test]
    fn a_table_names_every_node_in_its_column() {
        let node = |id: u16, state| NodeStatusEntry {
            id,
            pid: 77,
            address: "unix:/run/n.sock".into(),
            state,
            memory_used_bytes: 1 << 20,
            memory_limit_bytes: 256 << 20,
            ..NodeStatusEntry::default()
        };
        let slow = NodeStatusEntry {
            fail_slow: true,
            latency_us_p50: Some(310),
            latency_us_p99: Some(51_300),
            redirect_count: 7,
            domain: "rack 7".into(),
            ..node(0, NodeState::Normal)
        };
        let (memory_used_bytes, memory_limit_bytes) = (0, 0);
        let gone = node(2, NodeState::Retired);
        let stage = Some(NodeStage::Degraded);
        let rebuilt = NodeStatusEntry { rebuilt: true, stage, memory_used_bytes, memory_limit_bytes, ..gone };
        let suspect = NodeStatusEntry { stage: Some(NodeStage::Normal), ..node(1, NodeState::Suspect) };
        let dead = NodeStatusEntry { stage, ..node(3, NodeState::Dead) };
        let nodes = vec![slow, suspect, rebuilt, dead];
        let gateways = vec![GatewayStatusEntry::default()];
        let mut status = ClusterStatus { objects: 12, code: "rs:4+2".into(), nodes, gateways, ..cluster() };
        let text = table(&status, &[]);
        assert!(text.contains("12 objects"), "{text}");
        let domain = std::mem::take(&mut status.nodes[0].domain);
        assert!(table(&status, &[]).contains("\nnode  state              memory "), "{}", table(&status, &[]));
        status.nodes[0].domain = domain;
        status.gateways[0].state = NodeState::Dead;
        assert!(
            !table(&status, &[]).contains("12 objects")
                && table(&status, &[]).contains("not known: no gateway is alive")
        );
        for line in [
            "\n0     normal, fail-slow  rack 7  1MiB of 256MiB  310us  51ms  7          77   unix:/run/n.sock\n",
            "\n1     suspect            -       1MiB of 256MiB  -      -     0          77   unix:/run/n.sock\n",
            "\n2     retired, rebuilt   -       -               -      -     0          77   unix:/run/n.sock\n",
            "\n3     dead, degraded     -       1MiB of 256MiB  -      -     0          77   unix:/run/n.sock\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
}
