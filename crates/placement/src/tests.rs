//! Every rule of placement, on a few nodes.

use std::collections::BTreeMap;

use shorttail_units::{CodeShape, NodeId};

use super::*;

fn shape(text: &str) -> CodeShape {
    text.parse().expect(text)
}

/// A stripe of so many chunks of which two may be lost.
fn wish(count: usize, turn: u64) -> Wish {
    Wish { shape: CodeShape::reed_solomon(count - 2, 2).expect("counts"), turn, seed: turn }
}

fn choose_around(candidates: &[Candidate], count: usize, turn: u64) -> Option<Choice> {
    choose(Placement::LeastLoaded, &List::new(candidates.to_vec()), &wish(count, turn))
}

fn candidates(loads: &[u64]) -> Vec<Candidate> {
    let candidate = |(node, &load): (usize, &u64)| Candidate {
        node: NodeId(node as u16),
        load,
        is_evaded: false,
        redirect_count: 0,
        domain: None,
        set: None,
    };
    loads.iter().enumerate().map(candidate).collect()
}

fn sorted(mut members: Vec<NodeId>) -> Vec<u16> {
    members.sort();
    members.into_iter().map(|node| node.0).collect()
}

#[test]
fn the_least_loaded_are_taken_once_each() {
    let choice = choose_around(&candidates(&[5, 1, 9, 2, 3]), 3, 7).expect("enough");
    assert_eq!(sorted(choice.members), [1, 3, 4]);
    assert_eq!(choice.stand_ins, []);
    assert_eq!(choose_around(&candidates(&[1, 1]), 3, 0), None);
}

#[test]
fn roles_and_load_even_out() {
    let mut loads = vec![0u64; 8];
    let mut parities: BTreeMap<NodeId, u64> = BTreeMap::new();
    for turn in 0..800 {
        let members = choose_around(&candidates(&loads), 6, turn).expect("enough").members;
        members.iter().for_each(|node| loads[usize::from(node.0)] += 1);
        members[4..].iter().for_each(|&node| *parities.entry(node).or_default() += 1);
    }
    assert!(loads.iter().all(|load| load.abs_diff(600) <= 1), "{loads:?}");
    assert!(parities.values().all(|&count| (100..300).contains(&count)), "{parities:?}");
}

/// The paper's figure 4: eight nodes, node 2 is fail-slow, node 5 has the smallest redirection count.
#[test]
fn who_stood_in_least_often_stands_in() {
    let mut nodes = candidates(&[1, 1, 1, 1, 1, 2, 2, 2]);
    nodes[2].is_evaded = true;
    for (node, count) in [(5, 1), (6, 4), (7, 2)] {
        nodes[node].redirect_count = count;
    }
    let choice = choose_around(&nodes, 5, 0).expect("enough");
    assert_eq!(sorted(choice.members), [0, 1, 3, 4, 5]);
    assert_eq!(choice.stand_ins, [NodeId(5)]);
}

#[test]
fn stand_ins_take_turns() {
    let mut nodes = candidates(&[0; 8]);
    nodes[3].is_evaded = true;
    for turn in 0..700 {
        let choice = choose_around(&nodes, 6, turn).expect("enough");
        assert!(!choice.members.contains(&NodeId(3)));
        assert_eq!(sorted(choice.members.clone()).windows(2).filter(|pair| pair[0] == pair[1]).count(), 0);
        choice.stand_ins.iter().for_each(|node| nodes[usize::from(node.0)].redirect_count += 1);
        choice.members.iter().for_each(|node| nodes[usize::from(node.0)].load += 1);
    }
    let counts: Vec<u64> = nodes.iter().map(|node| node.redirect_count).collect();
    let (least, most) = (counts.iter().enumerate().filter(|(node, _)| *node != 3))
        .fold((u64::MAX, 0), |(least, most), (_, &count)| (least.min(count), most.max(count)));
    assert!(most - least <= 2 + most / 10, "{counts:?}");
}

#[test]
fn evaded_nodes_stay_when_there_are_no_others_and_hold_data() {
    let mut nodes = candidates(&[0; 6]);
    nodes[1].is_evaded = true;
    nodes[4].is_evaded = true;
    for turn in 0..12 {
        let choice = choose_around(&nodes, 6, turn).expect("enough");
        assert_eq!(sorted(choice.members[..2].to_vec()), [1, 4]);
        assert_eq!(sorted(choice.members), [0, 1, 2, 3, 4, 5]);
    }
}

const RULES: [Placement; 4] =
    [Placement::LeastLoaded, Placement::CodingSets { spare_count: 2 }, Placement::Random, Placement::TwoChoices];

/// Nodes from 0, the domain of each by its letter; a dot: none.
fn labelled(domains: &str) -> Vec<Candidate> {
    let mut nodes = candidates(&vec![0; domains.len()]);
    for (node, letter) in nodes.iter_mut().zip(domains.bytes()) {
        node.domain = (letter != b'.').then_some(Domain(u16::from(letter)));
    }
    nodes
}

fn in_sets(nodes: &mut [Candidate], shape: CodeShape, spare_count: u8) {
    let known = nodes.iter().map(|node| (node.node, node.domain)).collect();
    let sets = CodingSets::new(&known, shape, spare_count);
    nodes.iter_mut().for_each(|node| node.set = sets.set_of(node.node));
}

/// How many members are in the domain that has most of them.
fn most_in_a_domain(nodes: &[Candidate], members: &[NodeId]) -> usize {
    let domain_of = |member: &NodeId| nodes[usize::from(member.0)].domain;
    let count = |domain| members.iter().filter(|other| domain_of(other) == Some(domain)).count();
    members.iter().filter_map(domain_of).map(count).max().unwrap_or(0)
}

#[test]
fn every_rule_takes_distinct_nodes_and_says_when_there_are_too_few() {
    for rule in RULES {
        let mut nodes = candidates(&[7; 20]);
        in_sets(&mut nodes, CodeShape::default(), 2);
        let list = List::new(nodes.clone());
        for turn in 0..200 {
            let mut members = choose(rule, &list, &wish(6, turn)).expect("enough").members;
            members.sort();
            members.dedup();
            assert_eq!(members.len(), 6, "{rule}");
        }
        assert_eq!(choose(rule, &List::new(nodes[..5].to_vec()), &wish(6, 0)), None, "{rule}");
    }
}

#[test]
fn coding_sets_stay_within_a_set_and_even_out() {
    let mut nodes = candidates(&[0; 24]);
    in_sets(&mut nodes, CodeShape::default(), 2);
    for turn in 0..2000 {
        let choice = choose(Placement::CodingSets { spare_count: 2 }, &List::new(nodes.clone()), &wish(6, turn));
        let members = choice.expect("enough").members;
        let sets: Vec<_> = members.iter().map(|node| nodes[usize::from(node.0)].set).collect();
        assert!(sets.iter().all(|set| *set == sets[0]), "{sets:?}");
        members.iter().for_each(|node| nodes[usize::from(node.0)].load += 1);
    }
    let loads: Vec<u64> = nodes.iter().map(|node| node.load).collect();
    assert!(loads.iter().all(|load| load.abs_diff(500) <= 3), "{loads:?}");
}

#[test]
fn a_set_with_too_few_nodes_is_left_out_and_without_any_set_all_nodes_serve() {
    let mut nodes = candidates(&[0; 16]);
    in_sets(&mut nodes, CodeShape::default(), 2);
    let rule = Placement::CodingSets { spare_count: 2 };
    let second_set: Vec<Candidate> = nodes.iter().filter(|node| node.node.0 >= 3).copied().collect();
    for turn in 0..20 {
        let members = choose(rule, &List::new(second_set.clone()), &wish(6, turn)).expect("enough").members;
        assert!(members.iter().all(|node| node.0 >= 8), "{members:?}");
    }
    let few: Vec<Candidate> = nodes.iter().filter(|node| node.node.0 % 8 < 4).copied().collect();
    assert_eq!(choose(rule, &List::new(few), &wish(6, 1)).expect("enough").members.len(), 6);
}

#[test]
fn two_choices_are_more_even_than_one() {
    let spread = |rule| {
        let mut nodes = candidates(&[0; 100]);
        for turn in 0..2000 {
            let members = choose(rule, &List::new(nodes.clone()), &wish(5, turn)).expect("enough").members;
            members.iter().for_each(|node| nodes[usize::from(node.0)].load += 1);
        }
        let loads = nodes.iter().map(|node| node.load);
        loads.clone().max().expect("some") - loads.min().expect("some")
    };
    let (random, two) = (spread(Placement::Random), spread(Placement::TwoChoices));
    assert!(two * 3 < random && random > 20, "random {random}, two choices {two}");
}

#[test]
fn no_domain_has_more_chunks_than_may_be_lost() {
    for rule in RULES {
        let mut nodes = labelled("aaaaaaaabbbbccccdddd");
        // The first domain is the least loaded one.
        nodes.iter_mut().for_each(|node| node.load = u64::from(node.node.0));
        in_sets(&mut nodes, CodeShape::default(), 2);
        for turn in 0..100 {
            let members = choose(rule, &List::new(nodes.clone()), &wish(6, turn)).expect("enough").members;
            assert!(most_in_a_domain(&nodes, &members) <= 2, "{rule}: {members:?}");
        }
    }
}

/// Sets of aaabbbcc and aabbbccc. Without a node of the first one's third domain the others would hold three chunks.
#[test]
fn a_set_that_cannot_keep_to_domains_is_left_out_while_another_one_can() {
    let mut nodes = labelled("aaaaaabbbbbccccc");
    in_sets(&mut nodes, CodeShape::default(), 2);
    let rule = Placement::CodingSets { spare_count: 2 };
    let is_of =
        |node: &Candidate, set, letter: u8| node.set == Some(set) && node.domain == Some(Domain(u16::from(letter)));
    let few = (0..2).find(|&set| nodes.iter().filter(|node| is_of(node, set, b'c')).count() == 2);
    let few = few.expect("a set has two of the third domain");
    let gone = nodes.iter().position(|node| is_of(node, few, b'c')).expect("a node");
    let mut able = nodes.clone();
    able.remove(gone);
    // It is the less loaded one.
    able.iter_mut().for_each(|node| node.load = u64::from(node.set != Some(few)));
    for turn in 0..200 {
        let members = choose(rule, &List::new(able.clone()), &wish(6, turn)).expect("enough").members;
        assert!(most_in_a_domain(&nodes, &members) <= 2, "{members:?}");
    }
    // The other one is full.
    able.retain(|node| node.set == Some(few));
    let members = choose(rule, &List::new(able), &wish(6, 0)).expect("to store at all comes first").members;
    assert_eq!(most_in_a_domain(&nodes, &members), 3);
}

#[test]
fn too_few_domains_share_the_chunks_as_evenly_as_can_be() {
    for rule in RULES {
        for (domains, most) in [("aaaaaabbbbbb", 3), ("aaaaaaaaaabb", 4), ("aaaaaaaa", 6), ("aaaaa..bbb", 2)] {
            let mut nodes = labelled(domains);
            in_sets(&mut nodes, CodeShape::default(), domains.len() as u8 - 6);
            let members = choose(rule, &List::new(nodes.clone()), &wish(6, 3)).expect("enough").members;
            assert_eq!(most_in_a_domain(&nodes, &members), most, "{rule}, {domains}: {members:?}");
        }
    }
}

#[test]
fn stand_ins_keep_to_the_domains() {
    let mut nodes = labelled("aabbccaabb");
    nodes[4].is_evaded = true;
    nodes.iter_mut().skip(6).for_each(|node| node.load = 9);
    let choice = choose(Placement::LeastLoaded, &List::new(nodes.clone()), &wish(6, 0)).expect("enough");
    assert!(choice.members.contains(&NodeId(4)) && choice.stand_ins.is_empty(), "{choice:?}");
    nodes[8].domain = Some(Domain(u16::from(b'c')));
    let choice = choose(Placement::LeastLoaded, &List::new(nodes), &wish(6, 0)).expect("enough");
    assert_eq!(choice.stand_ins, [NodeId(8)]);
}

#[test]
fn local_groups_lie_in_domains_where_they_fit() {
    // Groups of two data chunks and their parity: three chunks, as many as may be lost.
    let code = shape("lrc:4+2+2");
    let nodes = labelled("abcabcabcabc");
    for turn in 0..24 {
        let choice = choose(Placement::LeastLoaded, &List::new(nodes.clone()), &Wish { shape: code, turn, seed: turn });
        let members = choice.expect("enough").members;
        assert!(most_in_a_domain(&nodes, &members) <= code.tolerance());
        for group in [[0, 1, 4], [2, 3, 5]] {
            let domains = group.map(|chunk| nodes[usize::from(members[chunk].0)].domain);
            assert!(domains.iter().all(|domain| *domain == domains[0]), "turn {turn}, {members:?}");
        }
    }
}

#[test]
fn with_local_groups_too_evaded_nodes_hold_data() {
    let mut nodes = labelled("aaabbbcc");
    for evaded in 0..8 {
        nodes.iter_mut().for_each(|node| node.is_evaded = usize::from(node.node.0) == evaded);
        for turn in 0..8 {
            let wish = Wish { shape: shape("lrc:4+2+2"), turn, seed: turn };
            let members = choose(Placement::LeastLoaded, &List::new(nodes.clone()), &wish).expect("enough").members;
            assert_eq!(sorted(members.clone()), [0, 1, 2, 3, 4, 5, 6, 7]);
            assert!(members[..4].contains(&NodeId(evaded as u16)), "{members:?}");
        }
    }
}

#[test]
fn a_replacement_keeps_to_domain_and_set() {
    let mut nodes = labelled("aabbccddaabbccdd");
    in_sets(&mut nodes, CodeShape::default(), 2);
    nodes.iter_mut().for_each(|node| node.load = u64::from(node.node.0 != 8));
    let others: Vec<_> = nodes[..5].iter().map(|node| (node.domain, node.set)).collect();
    let able = |from: usize| nodes[from..].to_vec();
    let replace = |rule, able: &[Candidate]| choose_replacement(rule, able, &others, &wish(6, 1)).expect("enough");
    let sets = Placement::CodingSets { spare_count: 2 };
    for rule in RULES {
        let domain = nodes[usize::from(replace(rule, &able(8)).0)].domain;
        assert!(["c", "d"].iter().any(|name| domain == labelled(name)[0].domain), "{rule}: {domain:?}");
    }
    assert!(replace(sets, &able(5)).0 < 8, "in the set of the others");
    assert_eq!(replace(sets, &able(8)[..4]).0, 8, "if there is no better domain, the least loaded of any");
    assert_eq!(choose_replacement(sets, &[], &others, &wish(6, 1)), None);
    let mut busy = able(8);
    busy.iter_mut().filter(|node| node.node.0 >= 12).for_each(|node| node.is_evaded = true);
    assert_eq!(choose_replacement(Placement::LeastLoaded, &busy, &others, &wish(6, 1)), None, "better wait for them");
}

/// Thirty-nine nodes in four domains, and one that fails alone and holds most.
fn one_alone() -> Vec<Candidate> {
    let mut nodes = labelled(&format!("{}.", &"abcd".repeat(10)[..39]));
    nodes[39].load = 99;
    nodes
}

#[test]
fn who_fails_alone_is_no_better_as_a_replacement_than_others() {
    let nodes = one_alone();
    // Each domain may take one more.
    let others = [(None, None); 5];
    for rule in [Placement::LeastLoaded, Placement::CodingSets { spare_count: 2 }] {
        for turn in 0..40 {
            let chosen = choose_replacement(rule, &nodes, &others, &wish(6, turn)).expect("enough");
            assert_ne!(chosen, NodeId(39), "{rule}");
        }
    }
    for rule in RULES {
        let replace = |turn| choose_replacement(rule, &nodes, &others, &wish(6, turn)).expect("enough");
        let alone = (0..400).filter(|&turn| replace(turn) == NodeId(39)).count();
        assert!(alone < 40, "{rule}: {alone} of 400");
    }
}

/// Such a stripe ends with any of its nodes.
#[test]
fn of_a_code_without_parity_who_fails_alone_holds_no_more_than_others() {
    let code = shape("rs:3+0");
    for rule in RULES {
        let mut nodes = one_alone();
        in_sets(&mut nodes, code, 2);
        let list = List::new(nodes.clone());
        let stripe = |turn| choose(rule, &list, &Wish { shape: code, turn, seed: turn }).expect("enough").members;
        assert!((0..40).all(|turn| most_in_a_domain(&nodes, &stripe(turn)) == 1), "{rule}: while there are others");
        let alone = (0..400).filter(|&turn| stripe(turn).contains(&NodeId(39))).count();
        assert!(alone < 80, "{rule}: {alone} of 400");
    }
}

#[test]
fn of_a_code_without_parity_a_set_of_nodes_that_fail_alone_is_drawn_no_more_often() {
    let code = shape("rs:3+0");
    let mut nodes = labelled("abcabcabc...");
    in_sets(&mut nodes, code, 0);
    let list = List::new(nodes.clone());
    let rule = Placement::CodingSets { spare_count: 0 };
    let stripe = |turn| choose(rule, &list, &Wish { shape: code, turn, seed: turn }).expect("enough").members;
    let alone = (0..400).filter(|&turn| stripe(turn).iter().any(|node| node.0 >= 9)).count();
    assert!((50..200).contains(&alone), "{alone} of 400");
}

/// It had no room beside what was evaded.
#[test]
fn of_a_code_without_parity_whoever_has_a_domain_stands_in() {
    let mut nodes = labelled("abcdef");
    nodes[0].is_evaded = true;
    nodes[1..3].iter_mut().for_each(|node| node.load = 1);
    nodes[3..].iter_mut().for_each(|node| node.load = 2);
    let wish = Wish { shape: shape("rs:3+0"), turn: 0, seed: 0 };
    let choice = choose(Placement::LeastLoaded, &List::new(nodes), &wish).expect("enough");
    assert_eq!((sorted(choice.members), choice.stand_ins), (vec![1, 2, 3], vec![NodeId(3)]));
}
