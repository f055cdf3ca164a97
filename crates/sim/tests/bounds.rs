//! What is bounded in virtual time is timed, and each step of a node's absence is one of MemEC's: of runs with little
//! else in them, so that much of it is. Long runs do the same among everything.

use shorttail_sim::cli::run_config;
use shorttail_sim::config::{FaultWeights, Profile, SimConfig};
use shorttail_sim::world::Counts;

/// Runs that a profile draws, with these faults only; what happened in all of them.
fn counts_of(profile: Profile, seeds: std::ops::Range<u64>, change: impl Fn(&mut SimConfig)) -> Counts {
    let mut counts = Counts::default();
    for seed in seeds {
        let mut config = SimConfig::draw(profile, seed);
        change(&mut config);
        let report = run_config(profile, seed, config);
        assert!(report.failure.is_none(), "{}", report.explain(60));
        counts.add(&report.counts);
    }
    counts
}

/// One fault after the other, each of them alone.
fn only(faults: FaultWeights) -> impl Fn(&mut SimConfig) {
    move |config| {
        config.faults = faults;
        (config.flip_ppm, config.late_node_count) = (0, 0);
        // Several wait for a store that is slow now and then, which is a trouble.
        config.coordinator_count = 1;
    }
}

#[test]
fn a_partition_whose_gateway_fails_is_served_again_in_time() {
    let faults = FaultWeights { gateway_crash: 2, gateway_stall: 1, cut_coordinator: 1, ..FaultWeights::default() };
    let coordinated = counts_of(Profile::Coordinated, 0..16, |config| {
        only(faults)(config);
        (config.active_us, config.fault_us_mean) = (60_000_000, 5_000_000);
    });
    assert!(coordinated.outages.count >= 10 && coordinated.outages.longest_us > 1_000_000, "{coordinated:?}");
    let scripted = counts_of(Profile::Gateways, 0..20, |config| {
        only(faults)(config);
        (config.active_us, config.fault_us_mean) = (5_000_000, 1_000_000);
    });
    assert!(scripted.outages.count >= 20, "{scripted:?}");
}

#[test]
fn a_planned_hand_over_holds_up_nobody_for_long() {
    let faults = FaultWeights { hand_over: 1, ..FaultWeights::default() };
    for (profile, active_us, fault_us_mean) in
        [(Profile::Coordinated, 60_000_000, 8_000_000), (Profile::Gateways, 2_500_000, 100_000)]
    {
        let counts = counts_of(profile, 0..8, |config| {
            only(faults)(config);
            (config.active_us, config.fault_us_mean) = (active_us, fault_us_mean);
            config.think_us_mean = active_us * u64::from(config.client_count) / 2_000;
        });
        assert!(counts.hand_overs_timed.count >= 5, "{profile}: {counts:?}");
    }
}

#[test]
fn nodes_go_round_memecs_states() {
    let faults = FaultWeights { crash: 2, stall: 2, break_session: 2, cut: 1, ..FaultWeights::default() };
    let counts = counts_of(Profile::Mixed, 0..30, only(faults));
    assert!(counts.steps.iter().all(|&steps| steps >= 50), "{counts:?}");
}
