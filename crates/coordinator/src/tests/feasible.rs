//! Scenarios: what was asked of domains, coding sets and gateways cannot be had.

use super::*;

/// Nodes from 0, the domain of each by its letter; a dot: none. And a gateway.
fn labelled(domains: &str) -> (Scene, ConnectionId) {
    let mut scene = Scene::new();
    for (id, letter) in (0..).zip(domains.chars()) {
        let domain = if letter == '.' { String::new() } else { format!("rack {letter}") };
        scene.node(NodeRegistration { domain, ..node(1, Some(id)) }).1.expect("let in");
    }
    let gateway = scene.gateway(None).0;
    (scene, gateway)
}

fn problem_with(scene: &Scene, words: &str) -> Option<String> {
    scene.coordinator.status().problems.into_iter().find(|problem| problem.contains(words))
}

#[test]
fn domains_that_must_hold_too_much_are_a_problem() {
    for domains in ["abcabca", "aabbcc", "aaa....", "......", "aaab"] {
        assert_eq!(problem_with(&labelled(domains).0, "domain"), None, "{domains}");
    }
    let problem = problem_with(&labelled("abababa").0, "domain").expect("three of six chunks are in a rack");
    let beginning =
        "nodes are in 2 failure domains, so one has to hold 3 chunks of each stripe, and rs:4+2 survives the loss of 2";
    assert!(problem.starts_with(beginning), "{problem}");
    let problem = problem_with(&labelled("aaaaaa").0, "domain").expect("all is in one rack");
    assert!(problem.starts_with("nodes are in one failure domain, so one has to hold 6 chunks"), "{problem}");
}

#[test]
fn a_domain_of_nodes_that_drain_does_not_count() {
    let (mut scene, _) = labelled("aabbccc");
    assert_eq!(problem_with(&scene, "domain"), None);
    scene.order(0, Wanted::DrainNode { cancel: false }).expect("enough others");
    assert!(problem_with(&scene, "3 chunks of each stripe").is_some());
}

/// A report of a gateway whose coding sets have so many nodes.
fn with_sets_of(coding_set_nodes: Option<u16>) -> GatewayStatus {
    GatewayStatus { coding_set_nodes, ..GatewayStatus::default() }
}

/// Together they could do with two in each.
#[test]
fn a_coding_set_in_which_a_domain_must_hold_too_much_is_a_problem() {
    let (mut scene, gateway) = labelled("aaaaaabbbccc");
    assert_eq!(problem_with(&scene, "domain"), None);
    scene.report(gateway, with_sets_of(Some(6)));
    let problem = problem_with(&scene, "domain").expect("two of each are in the first set");
    let beginning = "nodes 2, 3, 4, 5, 8, 11 are a coding set, and in 3 failure domains, so one has to hold 4 chunks";
    assert!(problem.starts_with(beginning), "{problem}");
    scene.report(gateway, with_sets_of(Some(12)));
    assert_eq!(problem_with(&scene, "domain"), None, "all are in one set");
}

#[test]
fn coding_sets_that_nobody_can_fill_are_a_problem() {
    let (mut scene, gateway) = labelled("........");
    scene.report(gateway, with_sets_of(Some(8)));
    assert_eq!(problem_with(&scene, "coding sets"), None);
    scene.report(gateway, with_sets_of(Some(9)));
    let problem = problem_with(&scene, "coding sets").expect("eight nodes");
    assert!(problem.starts_with("coding sets of 9 nodes are asked for and there are 8 nodes"), "{problem}");
    assert!(problem.ends_with("less than --placement coding-sets:3"), "{problem}");
    scene.report(gateway, with_sets_of(None));
    assert_eq!(problem_with(&scene, "coding sets"), None);
}

#[test]
fn a_gateway_that_has_nothing_to_own_is_a_problem() {
    let (mut scene, _) = labelled("........");
    for _ in 0..3 {
        assert_eq!(problem_with(&scene, "gateways and"), None);
        scene.gateway(None).1.expect("let in");
    }
    scene.gateway(None).1.expect("let in");
    let problem = problem_with(&scene, "gateways and").expect("there are four partitions");
    let wanted =
        "there are 5 gateways and 4 partitions: 1 owns nothing and only passes requests on; run fewer gateways";
    assert_eq!(problem, wanted);
}
