//! What a user sees when the cluster serves.

use std::net::SocketAddr;

use shorttail_server::config::{Size, UpConfig};
use shorttail_wire::control::{ClusterStatus, GatewayStatusEntry, NodeState, NodeStatusEntry};

use super::feasible;

/// The lines, the last of which begins with `ready`; `program` is how the user called it, so that they can be pasted.
pub fn lines(config: &UpConfig, status: &ClusterStatus, gateways: &[&GatewayStatusEntry], program: &str) -> String {
    let Some((&gateway, others)) = gateways.split_first() else { return String::new() };
    let (running, away): (Vec<_>, Vec<_>) = status.nodes.iter().partition(|node| node.state.is_alive());
    let mut lines = vec![summary(config, running.len())];
    if let Some(address) = port_of(gateway.memcached.as_deref()) {
        let (ip, port) = (address.ip(), address.port());
        lines.push(format!("  memcached  {address}"));
        let try_it = "set greeting 0 0 5\\r\\nhello\\r\\nget greeting\\r\\nquit\\r\\n";
        match &config.auth_file {
            Some(file) => lines.push(format!(
                "             clients say who they are first, as a user of {}: set auth 0 0 N, and N bytes: USER PASSWORD",
                file.display()
            )),
            None => lines.extend([
                format!("             printf '{try_it}' | nc {ip} {port}"),
                format!("             {program} bench load --target {address}"),
            ]),
        }
    }
    if let Some(address) = port_of(gateway.redis.as_deref()) {
        let (ip, port) = (address.ip(), address.port());
        lines.push(format!("  Redis      {address}"));
        let user = if config.auth_file.is_some() { " --user USER --askpass" } else { "" };
        lines.push(format!("             redis-cli -h {ip} -p {port}{user} get greeting"));
    }
    let mut several = if others.is_empty() { Vec::new() } else { gateways.to_vec() };
    several.sort_by_key(|one| one.id);
    lines.extend(several.iter().map(|one| format!("  gateway {:<3}{}", one.id, services(one).join(", "))));
    if let Some(admin) = &status.coordinator.admin {
        lines.push(format!("  admin      http://{admin}"));
        lines.push(format!("             {program} status --admin {admin}"));
    }
    let pids: Vec<String> = running.iter().map(|node| node.pid.to_string()).collect();
    lines.push(format!("  nodes      pids {}", pids.join(" ")));
    let not_started = not_started(&away).map(|line| format!("             {line}"));
    lines.extend(not_started.or_else(|| kill_line(config, &pids)));
    lines.push(ready_line(gateway, status));
    lines.join("\n")
}

fn summary(config: &UpConfig, node_count: usize) -> String {
    let memory = Size(config.node_memory.0.saturating_mul(node_count as u64));
    let (data, chunks) = (config.code.data_count() as f64, config.code.chunk_count() as f64);
    let whole_domain = match config.domain_count {
        0 => "",
        _ if feasible::may_lose_domain(config) => ", or a whole domain",
        _ => ", but no whole domain",
    };
    format!(
        "ShortTail: {node_count} nodes of {}, {memory} in all, {} (any {} may die{whole_domain}; {:.2} bytes of memory a byte)",
        config.node_memory,
        config.code,
        config.code.tolerance(),
        chunks / data
    )
}

/// Members that an earlier run started and this one does not.
pub fn not_started(away: &[&NodeStatusEntry]) -> Option<String> {
    let missed = away.iter().filter(|node| node.state == NodeState::Dead);
    let missed: Vec<String> = missed.map(|node| node.id.to_string()).collect();
    let (who, whose) = match missed.as_slice() {
        [] => return None,
        [one] => (format!("node {one}, a member, is"), "it"),
        _ => (format!("nodes {}, members, are", missed.join(", ")), "them"),
    };
    Some(format!("{who} not started: start the cluster with more --nodes, or take {whose} out (shorttail remove -h)"))
}

fn kill_line(config: &UpConfig, pids: &[String]) -> Option<String> {
    let victims = pids.get(..config.code.tolerance()).filter(|victims| !victims.is_empty())?;
    Some(format!("             kill -9 {}    and nothing is lost", victims.join(" ")))
}

fn ready_line(gateway: &GatewayStatusEntry, status: &ClusterStatus) -> String {
    let mut services = services(gateway);
    services.extend(status.coordinator.admin.as_ref().map(|address| format!("admin http://{address}")));
    format!("ready: {} (Ctrl-C stops all of it)", services.join(", "))
}

fn services(gateway: &GatewayStatusEntry) -> Vec<String> {
    let memcached = gateway.memcached.as_ref().map(|address| format!("memcached {address}"));
    let redis = gateway.redis.as_ref().map(|address| format!("redis {address}"));
    memcached.into_iter().chain(redis).collect()
}

fn port_of(address: Option<&str>) -> Option<SocketAddr> {
    address?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use shorttail_server::config::UpOptions;
    use shorttail_wire::control::CoordinatorStatus;

    #[test]
    fn it_is_said_whether_a_domain_may_die() {
        let of = |domains| summary(&UpOptions { domains, ..UpOptions::default() }.resolve().expect("sensible"), 8);
        assert!(of(None).contains("(any 2 may die; "), "{}", of(None));
        assert!(of(Some(4)).contains("(any 2 may die, or a whole domain; "), "{}", of(Some(4)));
        assert!(of(Some(2)).contains("(any 2 may die, but no whole domain; "), "{}", of(Some(2)));
    }

    #[test]
    fn commands_can_be_pasted_and_gateways_are_in_the_order_of_their_numbers() {
        let config = UpOptions::default().resolve().expect("sensible");
        let gateway = |id, port: u16| GatewayStatusEntry {
            id,
            memcached: Some(format!("127.0.0.1:{port}")),
            ..GatewayStatusEntry::default()
        };
        let (one, other) = (gateway(1, 11211), gateway(0, 11212));
        let admin = Some("127.0.0.1:8080".into());
        let coordinator = CoordinatorStatus { admin, ..CoordinatorStatus::default() };
        let status = ClusterStatus { coordinator, ..ClusterStatus::default() };
        let text = lines(&config, &status, &[&one, &other], "target/release/shorttail");
        for wanted in [
            " target/release/shorttail status --admin 127.0.0.1:8080\n",
            " target/release/shorttail bench load --target 127.0.0.1:11211\n",
            "  gateway 0  memcached 127.0.0.1:11212\n  gateway 1  memcached 127.0.0.1:11211\n",
            "\nready: memcached 127.0.0.1:11211",
        ] {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
        let text = lines(&config, &ClusterStatus::default(), &[&one], "shorttail");
        assert!(!text.contains("gateway"), "the only one needs no number: {text}");
        let one = GatewayStatusEntry { redis: Some("127.0.0.1:6379".into()), ..one };
        let asks = UpConfig { auth_file: Some("users".into()), ..config };
        let text = lines(&asks, &ClusterStatus::default(), &[&one], "shorttail");
        assert!(text.contains("a user of users: set auth") && !text.contains("bench load"), "{text}");
        assert!(text.contains("redis-cli -h 127.0.0.1 -p 6379 --user USER --askpass get greeting\n"), "{text}");
    }

    /// Those of an earlier run may be more, and some may have been removed since.
    #[test]
    fn nodes_that_run_are_counted_and_members_that_do_not_are_named() {
        let config = UpOptions::default().resolve().expect("sensible");
        let node = |id, state| NodeStatusEntry {
            id,
            state,
            pid: if state == NodeState::Normal { 70 + u32::from(id) } else { 0 },
            ..NodeStatusEntry::default()
        };
        let told = |states: &[NodeState]| {
            let nodes = (0..).zip(states).map(|(id, &state)| node(id, state)).collect();
            let status = ClusterStatus { nodes, ..ClusterStatus::default() };
            lines(&config, &status, &[&GatewayStatusEntry::default()], "shorttail")
        };
        let (normal, dead) = (NodeState::Normal, NodeState::Dead);
        let all = told(&[normal, normal, normal]);
        assert!(all.starts_with("ShortTail: 3 nodes of ") && all.contains("  nodes      pids 70 71 72\n"), "{all}");
        assert!(all.contains("kill -9 70 71 ") && !all.contains("not started"), "{all}");
        let some = told(&[normal, dead, normal, dead, NodeState::Retired]);
        assert!(some.contains("  nodes      pids 70 72\n"), "{some}");
        assert!(some.contains(" nodes 1, 3, members, are not started: ") && !some.contains("kill -9"), "{some}");
        assert!(told(&[normal, dead]).contains(" node 1, a member, is not started: "));
    }
}
