//! The usual run: a thousand seeds, the proof that a seed is one run, and seeds that once failed.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use shorttail_sim::cli::{run_config, run_seed};
use shorttail_sim::config::{FaultWeights, Profile, SimConfig};
use shorttail_sim::world::Counts;

/// Seeds of the usual run per profile: 1 180 in all. Campaigns draw others.
const SEEDS: [(Profile, u64); 18] = [
    (Profile::Mixed, 200),
    (Profile::Calm, 50),
    (Profile::Crash, 100),
    (Profile::Stall, 100),
    (Profile::Large, 45),
    (Profile::Full, 18),
    (Profile::Takeover, 200),
    (Profile::Gateways, 100),
    (Profile::Long, 4),
    (Profile::Restart, 100),
    (Profile::Members, 8),
    (Profile::Rot, 35),
    (Profile::Near, 50),
    (Profile::Coordinated, 30),
    (Profile::Lossy, 35),
    (Profile::Apart, 35),
    (Profile::Prompt, 35),
    (Profile::Cramped, 35),
];

fn run_all(profile: Profile, seeds: u64) -> (Counts, Vec<String>) {
    let next = AtomicU64::new(0);
    let totals = Mutex::new((Counts::default(), Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds {
                        return;
                    }
                    let report = run_seed(profile, seed);
                    let mut totals = totals.lock().expect("no thread panics here");
                    totals.0.add(&report.counts);
                    if report.failure.is_some() {
                        totals.1.push(report.explain(60));
                    }
                }
            });
        }
    });
    totals.into_inner().expect("no thread panics here")
}

#[test]
fn the_usual_seeds_show_no_violation() {
    let mut counts = Counts::default();
    let mut failures = Vec::new();
    for (profile, seeds) in SEEDS {
        let (some, failed) = run_all(profile, seeds);
        if let Some(what) = missed_of(profile, &some) {
            failures.push(format!("{profile:?} is for what did not happen in it, {what}: {some:?}"));
        }
        counts.add(&some);
        failures.extend(failed);
    }
    assert!(failures.is_empty(), "{} complaints\n{}", failures.len(), failures.join("\n"));
    // What the run is for must have happened in it.
    assert!(counts.answered > 250_000, "{counts:?}");
    assert!(
        counts.takeovers > 250
            && counts.crashes > 500
            && counts.stalls > 500
            && counts.breaks > 500
            && counts.cuts > 250,
        "{counts:?}"
    );
    assert!(counts.handovers > 150 && counts.restarts > 750, "{counts:?}");
    assert!(counts.flips > 150 && counts.flips_noticed > 100, "{counts:?}");
    assert!(counts.unknown > 50 && counts.degraded_reads > 500, "{counts:?}");
    assert!(counts.folds > 50_000 && counts.seals > 5_000 && counts.installs > 5_000, "{counts:?}");
    assert!(counts.rebuilds > 500 && counts.victim_changes > 25, "{counts:?}");
    assert!(counts.stripes_audited > 25_000 && counts.acknowledgements_audited > 2_500, "{counts:?}");
}

/// What a profile is for and hardly happened in its runs.
fn missed_of(profile: Profile, counts: &Counts) -> Option<&'static str> {
    let is_enough = match profile {
        Profile::Near => [
            (counts.near_reads > 500, "reads past nodes"),
            (counts.appends_put > 500, "appends that were put into rings"),
            (counts.rebuilds > 50, "chunks that were rebuilt"),
        ],
        Profile::Rot => [
            (counts.rotten_bits > 250, "bits that turned over"),
            (counts.corruptions_repaired > 5, "damage that was mended"),
            (counts.misreads > 5, "memory that was read wrong"),
        ],
        Profile::Coordinated => [
            (counts.coordinator_crashes > 50 && counts.store_absences > 10, "absences of the coordinator"),
            (counts.tenures_taken_over > 50 && counts.tenures_handed_over > 25, "changes of owners"),
            (counts.takeovers > 50 && counts.cuts > 100 && counts.answered > 15_000, "faults, and answers"),
        ],
        Profile::Members => [
            (counts.joins > 5, "nodes that joined"),
            (counts.drains > 5, "nodes that were to be emptied"),
            (counts.removals > 2, "nodes that were taken out"),
        ],
        Profile::Lossy => [
            (counts.losses > 25, "nodes that lost answers"),
            (counts.rebuilds > 25, "chunks that were rebuilt"),
            (counts.degraded_reads > 50, "reads past a node"),
        ],
        Profile::Apart => [
            (counts.partings > 150, "nodes that lost sight of each other"),
            (counts.core_stalls > 15, "cores that stood still"),
            (counts.rebuilds > 100, "chunks that were rebuilt"),
        ],
        Profile::Prompt => [
            (counts.prompt.count > 500, "operations with a bound"),
            (counts.stalls > 25, "stalls"),
            (counts.slowdowns > 10, "slow nodes"),
        ],
        _ => return None,
    };
    is_enough.into_iter().find(|(is_enough, _)| !is_enough).map(|(_, what)| what)
}

#[test]
fn the_same_seed_is_the_same_run() {
    let mut others = BTreeSet::new();
    for (profile, seed) in [
        (Profile::Mixed, 7),
        (Profile::Crash, 11),
        (Profile::Large, 3),
        (Profile::Stall, 30),
        (Profile::Gateways, 4),
        (Profile::Coordinated, 3),
        (Profile::Near, 2),
        (Profile::Restart, 5),
    ] {
        let (first, again) = (run_seed(profile, seed), run_seed(profile, seed));
        assert_eq!(first.trace_hash, again.trace_hash, "{}", first.replay());
        assert_eq!((first.events, first.counts), (again.events, again.counts));
        assert!(others.insert(first.trace_hash), "{} is another one's, too", first.replay());
    }
}

/// These runs were found when nothing ended by itself: so they are run.
fn passes(profile: Profile, seed: u64) {
    passes_as(profile, seed, SimConfig::endless(profile, seed));
}

/// When these were found all clocks ran alike.
fn passes_as(profile: Profile, seed: u64, config: SimConfig) {
    let report = run_config(profile, seed, SimConfig { clock_gain_ppm_max: 0, ..config });
    assert!(report.failure.is_none(), "{}", report.explain(60));
}

/// As it was drawn when it was found, deadlines included.
fn passes_as_drawn(profile: Profile, seeds: &[u64]) {
    for &seed in seeds {
        passes_as(profile, seed, drawn_then(profile, seed));
    }
}

/// As it was drawn when it was found, with clocks that run apart, too.
fn passes_wholly(profile: Profile, seeds: &[u64]) {
    for &seed in seeds {
        let report = run_config(profile, seed, drawn_then(profile, seed));
        assert!(report.failure.is_none(), "{}", report.explain(60));
    }
}

/// When these were found some kinds of runs had no lifetimes, and nobody read memory wrong.
fn drawn_then(profile: Profile, seed: u64) -> SimConfig {
    let drawn = SimConfig::draw(profile, seed);
    let had_none = matches!(drawn.kind, Profile::Restart | Profile::Rot | Profile::Near | Profile::Coordinated);
    let lifetime_ppm = if had_none { 0 } else { drawn.lifetime_ppm };
    let faults = FaultWeights { misread: 0, ..drawn.faults };
    SimConfig { lifetime_ppm, faults, ..drawn }
}

/// A new stripe confirmed nothing while a late member had not opened its chunk; its records, which all participants
/// held, were not raced, or were raced into the same stripe.
#[test]
fn a_stripe_that_waits_to_be_opened_is_gone_round() {
    passes_as_drawn(Profile::Prompt, &[250, 258, 362, 381, 448, 850, 902]);
}

/// A read waited for pieces on late nodes although its object had been replaced, and the others had freed theirs.
#[test]
fn a_read_of_what_was_replaced_takes_the_newer_value_at_once() {
    passes_as_drawn(Profile::Prompt, &[540, 861, 915]);
}

/// A flush that too few nodes could make durable was refused and had emptied the index all the same.
#[test]
fn a_refused_flush_changes_nothing() {
    passes(Profile::Stall, 5);
    passes(Profile::Crash, 32);
}

/// A round whose older record could not be read was released with both records in the index.
#[test]
fn an_unreadable_older_record_does_not_come_back() {
    passes(Profile::Large, 8);
    passes(Profile::Full, 90);
}

/// A read beside a round that waits for a verification followed a location that a flush had taken away.
#[test]
fn a_read_does_not_follow_what_a_flush_ended() {
    passes(Profile::Large, 74);
}

/// A node that came back was told to drop its chunks of a stripe that was being left, while its records were still on
/// their way elsewhere; the next owner missed them.
#[test]
fn a_stripe_that_is_left_keeps_its_chunks_until_it_is_empty() {
    passes(Profile::Takeover, 140);
    passes(Profile::Takeover, 409);
    passes(Profile::Takeover, 5);
}

/// A new owner took a stripe for what it could read of it at that moment, though members that could
/// tell more were late.
#[test]
fn a_take_over_waits_for_members_that_come_back() {
    passes(Profile::Takeover, 532);
    passes(Profile::Takeover, 304);
    passes(Profile::Takeover, 820);
}

/// A node that restarted empty counted as one that had told all it knew.
#[test]
fn a_lost_memory_is_a_failure_at_the_take_over() {
    passes(Profile::Takeover, 56);
    passes(Profile::Takeover, 180);
}

/// What was moved while a flush was being declared lay above its horizon, and came back when the floor was dropped.
#[test]
fn nothing_moves_out_of_reach_of_a_flush() {
    passes(Profile::Takeover, 348);
}

/// A free of many stripes was cut down to the first of them when a scan of one core met that one.
#[test]
fn a_free_reaches_every_core_of_a_node() {
    passes(Profile::Large, 37);
}

/// Bytes stored were counted wrongly for records that moved into a later epoch's stripe, and cleaning stopped.
#[test]
fn memory_comes_back_after_a_take_over() {
    passes(Profile::Takeover, 62);
}

/// Little memory and nodes that come and go: cleaning wrote for ever, or nobody got the last room (decision 0012).
#[test]
fn cleaning_ends_and_never_stands_still() {
    for seed in [9, 11, 1_032, 1_074, 1_186] {
        passes(Profile::Full, seed);
    }
}

/// As above, in runs of the mixed profile that drew little memory.
#[test]
fn cleaning_ends_among_all_other_faults() {
    passes(Profile::Mixed, 1_154);
    passes(Profile::Mixed, 1_578);
}

/// A move was refused, and the other members went on naming the node that had refused: the next owner, which did not
/// hear the chunk's holder, took the chunk for lost, and freed it when the holder was back.
#[test]
fn a_move_that_is_not_made_loses_no_chunk() {
    passes(Profile::Long, 361);
}

/// A node that was drained was used again, as too few others were ready, and was taken out by what had been told
/// before: with a code without parity what lay there was lost.
#[test]
fn who_may_be_taken_out_is_used_again_only_once_that_is_known() {
    passes_as_drawn(Profile::Coordinated, &[910_022]);
}

/// Of a node that left while stripes were emptied that others had left before it, it was told that it is gone round,
/// although it was a member of these still.
#[test]
fn a_node_is_gone_round_only_when_what_others_left_with_it_is_emptied_too() {
    passes_as_drawn(Profile::Mixed, &[10]);
}

/// A lost chunk of an open stripe was decoded with a parity that had decayed, again and again, and nobody served.
#[test]
fn decayed_memory_keeps_no_owner_from_serving() {
    passes_as_drawn(Profile::Rot, &[166]);
}

/// A local parity whose sum was another one at the seal told of an operation as folded that it was never given.
#[test]
fn a_parity_tells_of_no_operation_that_it_does_not_hold() {
    passes_as_drawn(Profile::Rot, &[449]);
}

/// A write whose older, striped value was flushed while a piece of it was awaited from a node that was cut off was
/// refused, as if too many nodes had failed.
#[test]
fn a_round_whose_older_value_was_flushed_begins_again() {
    passes_as_drawn(Profile::Prompt, &[16]);
}

/// Each of three copies may be the only one: with as many nodes that had lost their memory once, or had come later, a
/// new owner waited for the last node, however long ago everything was rebuilt.
#[test]
fn what_was_rebuilt_long_ago_keeps_no_owner_from_serving() {
    passes_wholly(Profile::Long, &[2_162, 2_485, 2_623]);
}

/// A node that an owner never met was not waited for: the owner told that nothing is missing.
#[test]
fn nothing_is_whole_while_a_node_has_not_come() {
    passes_wholly(Profile::Long, &[2_317, 2_458]);
}

/// A node forgot an owner that had not fenced all of its partitions yet, and promised the next one too early.
#[test]
fn an_owner_that_gave_way_for_one_partition_is_promised_nothing_for_others() {
    passes_wholly(Profile::Long, &[2_429]);
}

/// A core of a node told that it has no chunk of a stripe, and another core of it was late: the owner served before the
/// node was in use, and never noticed what was lost.
#[test]
fn what_a_core_lacks_of_a_node_that_was_late_is_noticed() {
    passes_wholly(Profile::Long, &[2_529]);
}

/// A node came in the turn in which its owner began to serve, and a stripe was opened with it in that turn: it was away
/// and back before anybody looked, and that stripe is none that it left.
#[test]
fn what_is_begun_with_a_node_that_is_back_is_not_what_it_left() {
    passes_wholly(Profile::Long, &[4_082]);
}

/// What was decoded was damaged, and the chunk's own node was asked after all, which was away.
#[test]
fn who_is_away_is_not_asked_whatever_the_others_gave() {
    passes_wholly(Profile::Long, &[4_701]);
}

/// Where nothing may be missing, a drained node was taken out while its owner stalled: the owner that followed waited
/// for its word for ever.
#[test]
fn nobody_is_taken_out_whom_the_next_owner_waits_for() {
    passes_wholly(Profile::Long, &[4_882]);
}

/// A gateway that had stood still, while another one took over and freed a stripe, told that nothing is missing before
/// it noticed.
#[test]
fn an_owner_that_is_over_tells_of_nothing_that_it_cannot_know() {
    passes_wholly(Profile::Long, &[4_728]);
}

/// A node did not hear that a stripe was sealed for a hand-over, and came back after the next owner had begun: nobody
/// noticed that its chunk lacked what the others have.
#[test]
fn a_chunk_that_was_left_open_is_not_taken_for_whole() {
    passes_wholly(Profile::Long, &[4_059]);
}

/// What a node had was rebuilt elsewhere, and it was told that it lacks nothing: a new owner that heard nobody who knew
/// took it for one that had never been given its chunk, and a stored key was gone.
#[test]
fn who_had_what_is_elsewhere_now_is_not_believed() {
    passes_wholly(Profile::Long, &[651]);
}

/// A record that filled a chunk was four bytes longer in a stripe of the next owner, and could never be moved.
#[test]
fn what_filled_a_chunk_is_moved_by_any_owner() {
    passes_wholly(Profile::Long, &[733]);
}

/// With too few nodes to write, a new owner showed what one node held; that one died, and the next owner knew nothing
/// of it.
#[test]
fn what_cannot_be_made_safe_is_not_shown() {
    passes_wholly(Profile::Long, &[200]);
}

/// The simulator's own: flushes for later filled the history of a key that was asked for often.
#[test]
fn flushes_for_later_leave_room_in_every_history() {
    passes_wholly(Profile::Members, &[30_502]);
}

/// The simulator's own: the last gateway that was missing for the first dealing had joined before, and was heard again.
#[test]
fn partitions_are_dealt_once_all_gateways_are_heard() {
    passes_wholly(Profile::Gateways, &[30_334]);
}

/// A stripe that was being emptied, for which there was no memory, lost a chunk, which nobody counted or rebuilt: with
/// the next node a stored key was gone.
#[test]
fn what_is_being_emptied_is_rebuilt_too() {
    passes_wholly(Profile::Full, &[31_901]);
}

/// The simulator's own: a session that an owner had left was never closed, so the node that came back on it stayed
/// unheard.
#[test]
fn who_comes_back_on_a_session_that_was_left_is_greeted_anew() {
    passes_wholly(Profile::Mixed, &[33_395]);
}

/// A chunk that was left open by a hand-over was rebuilt only some time after the node that was needed for it was back,
/// and the next node was lost before.
#[test]
fn what_was_stuck_is_rebuilt_as_soon_as_a_node_is_back() {
    passes_wholly(Profile::Gateways, &[40_645]);
}

/// The pieces of a striped object that was over were freed while the stripe with its manifest was being emptied: the
/// next owner took it for one that never was whole, and showed what it had replaced.
#[test]
fn what_is_over_hides_what_it_replaced_until_its_stripe_is_void() {
    passes_wholly(Profile::Gateways, &[40_515]);
}

/// A read waited for a node until the value that it was to see was over, and answered that the key is absent, though
/// another value had been written long before: the index named both records until the older one was compared.
#[test]
fn a_read_shows_no_end_of_a_value_that_was_replaced_before_it() {
    passes_wholly(Profile::Full, &[41_685]);
}

/// A read waited for a node until the value was over, and answered that the key is absent, beside a write that had seen
/// the value before its end and succeeded after that answer.
#[test]
fn a_read_shows_no_end_beside_a_write_that_saw_the_value() {
    passes_wholly(Profile::Full, &[220_496]);
}

/// A write of unknown outcome changed an object with a lifetime. The object was over, the key was said to be absent,
/// and with the next owner the write came back.
#[test]
fn a_write_of_unknown_outcome_does_not_come_back_after_the_end_of_what_it_changed() {
    passes_wholly(Profile::Takeover, &[53_877]);
}

/// A new owner read a stripe of which one member had said that it was never given its chunk; by the time the others had
/// told, that one was away. The stripe passed for lost, what ended records in it was dropped, and with the next owner,
/// which could read it, a removed key had a value.
#[test]
fn who_is_away_by_the_time_a_stripe_is_read_may_hold_something() {
    passes_wholly(Profile::Long, &[60_443]);
}

/// An heir that prepared believed what a node had told a round before, though that node was not heard under the fence
/// and had freed some of it since.
#[test]
fn an_heir_believes_nothing_that_was_not_told_again() {
    passes_wholly(Profile::Gateways, &[130_087, 130_095]);
}

/// A node that held nothing when it was asked first told of its first chunk neither then nor as a change.
#[test]
fn the_first_chunk_of_a_node_is_a_change() {
    passes_wholly(Profile::Gateways, &[130_059]);
}

/// A step of a scan waited for a slow node until the stripe that it was to read was emptied and gone, and was refused.
#[test]
fn a_step_of_a_scan_whose_stripe_is_gone_begins_anew() {
    passes_wholly(Profile::Prompt, &[140_002]);
}

/// Of two attempts to write a value one failed as its node was suspect; nobody looked whether the other one was late.
#[test]
fn an_attempt_that_is_left_alone_is_raced_again() {
    passes_wholly(Profile::Prompt, &[180_033, 181_024, 191_053]);
}

/// A write was flushed while it waited for a slow node. Nothing of it may be appended again above the flush's horizon,
/// so it waited until that node's session broke.
#[test]
fn a_write_that_is_flushed_under_way_waits_for_no_node() {
    passes_wholly(Profile::Prompt, &[190_025, 191_816, 192_604]);
}

/// A packed record was raced, its second copy's node crashed, and nobody looked again whether the first one was late.
#[test]
fn a_copy_that_goes_on_alone_is_raced_again() {
    passes_wholly(Profile::Prompt, &[223_488]);
}

/// A piece was found damaged while its object was touched; nobody noted that, and it stayed as it was.
#[test]
fn what_is_found_damaged_while_its_object_is_touched_is_rebuilt() {
    passes_wholly(Profile::Near, &[151_132]);
}

/// A new owner had written all anew when it was told of voters that had not accepted it yet; once they had, it did not
/// serve.
#[test]
fn who_is_accepted_late_serves_nevertheless() {
    passes_wholly(Profile::Gateways, &[150_127]);
}

/// A take-over waited for a second node that stood still for as long as reads do where slow nodes are not gone round.
#[test]
fn a_take_over_waits_for_no_second_node_for_long() {
    passes_wholly(Profile::Long, &[100_819]);
}

/// The simulator's own: nodes that lose answers passed for well, and a chunk of which bits had turned over for one that
/// never held what was stored.
#[test]
fn nodes_that_lose_answers_or_bits_are_in_trouble() {
    passes_wholly(Profile::Lossy, &[192_386, 192_696, 193_001]);
    passes_wholly(Profile::Rot, &[191_917]);
}

/// Every node is down, with what it holds, as a client hears that a write is done.
#[test]
fn what_nobody_tells_of_while_all_nodes_restart_is_held_all_the_same() {
    let report = run_seed(Profile::Cramped, 71_232);
    assert!(report.failure.is_none(), "{}", report.explain(60));
}
