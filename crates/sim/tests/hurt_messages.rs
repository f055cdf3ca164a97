//! Bits of messages between the owner and nodes turn over on the way, and the sums of their segments let it pass:
//! whoever receives such a message notices, and ends the session. Nothing wrong is believed, and nothing is lost.

use shorttail_sim::config::SimConfig;
use shorttail_sim::model::Action;
use shorttail_sim::scenario::*;
use shorttail_sim::world::Outcome;
use shorttail_wire::control::CONTROL_HEADER_BYTES;
use shorttail_wire::node::FRAME_HEADER_BYTES;

const KEYS: u64 = 20;
/// A message takes less, and the turn of who receives it.
const ARRIVAL_US: u64 = 30_000;

/// Kind, tag, length, checksum, whatever is hurt of a header, and the first bytes of what follows:
/// nobody waits for more.
#[test]
fn every_bit_of_a_header_is_noticed_when_it_arrives() {
    for is_request in [true, false] {
        let mut world = cluster_of(SimConfig::scripted(), 1);
        fill(&mut world, 0..KEYS);
        for bit in 0..8 * (FRAME_HEADER_BYTES + 4) {
            let (node, before) = (bit % 8, world.counts());
            match is_request {
                true => world.flip_next_request(node, bit),
                false => world.flip_next_reply(node, bit),
            }
            let mut names = (0..KEYS).cycle();
            while world.counts().flips == before.flips {
                fill(&mut world, names.next());
                holds(&mut world, names.next());
            }
            await_within(&mut world, ARRIVAL_US, &format!("noticed: bit {bit}"), |world| {
                world.counts().flips_noticed > before.flips_noticed
            });
            // The session is opened again.
            pass(&mut world, NOTICED_US);
        }
        holds(&mut world, 0..KEYS);
        let (by_nodes, by_owner) = (world.messages_damaged(), world.engine_stats().totals.messages_damaged_total);
        let noticed = world.counts().flips_noticed;
        assert_eq!((by_nodes, by_owner), if is_request { (noticed, 0) } else { (0, noticed) });
        concludes(world);
    }
}

/// The same of messages between the coordinator and a member, in both directions; and the member is let in again.
#[test]
fn every_bit_of_the_header_of_a_control_message_is_noticed_when_it_arrives() {
    let mut config = SimConfig { partition_count: 4, coordinated: true, ..SimConfig::scripted() };
    config.share(2);
    let mut world = cluster_of(config, 1);
    fill(&mut world, 0..KEYS);
    for is_to_member in [true, false] {
        for bit in 0..8 * (CONTROL_HEADER_BYTES + 1) {
            let (node, before) = (bit % 8, world.counts());
            match is_to_member {
                true => world.flip_next_of_coordinator(node, bit),
                false => world.flip_next_to_coordinator(node, bit),
            }
            await_within(&mut world, 2_000_000, "hurt", |world| world.counts().flips > before.flips);
            await_within(&mut world, ARRIVAL_US, &format!("noticed: bit {bit}"), |world| {
                world.counts().flips_noticed > before.flips_noticed
            });
        }
    }
    holds(&mut world, 0..KEYS);
    concludes(world);
}

/// What clients see is judged at the end: a request may fail while sessions are opened again, and none may lie.
#[test]
fn bits_turn_over_everywhere_and_nothing_wrong_is_shown() {
    for seed in 0..6 {
        let config = SimConfig { flip_ppm: 5_000, node_core_count: 1 + (seed % 2) as u16, ..SimConfig::scripted() };
        let mut world = cluster_of(config, seed);
        let mut answered = 0;
        for round in 0..12 {
            for name in 0..KEYS {
                let key = format!("key{name}");
                let asked =
                    [Action::Set(value_of(name, round)), Action::Get].map(|action| world.request(0, &key, action));
                let ended = asked.map(|op| world.await_op(op));
                answered += ended.iter().filter(|outcome| matches!(outcome, Outcome::Answered(_))).count();
                pass(&mut world, 3_000);
            }
            if round % 3 == 2 {
                take_over(&mut world, 5_000);
            }
        }
        let counts = world.counts();
        assert!(counts.flips >= 10 && counts.flips_noticed > counts.flips / 2, "{counts:?}");
        assert!(answered > 400, "{answered} of 480 requests were answered");
        concludes(world);
    }
}
