//! Scenarios: a coordinator before the store, whose answers the scenario says.

use crate::candidate::{Answer as Said, Campaign, Candidate, News, Next, RESIGNED_US, State, Term};
use crate::claim::{Answer, Claim, Entry, Found, Outcome, Question, Step};
use crate::{Durable, Output, Seat};

use super::*;

const TTL_S: i64 = 5;
const LEASE: i64 = 3;

fn entry(value: &str, created: i64, changed: i64, lease: i64) -> Entry {
    Entry { value: value.into(), created, changed, lease }
}

/// Both keys: the leader's, and the state at this revision.
fn found(leader: (i64, i64), state: Option<(&str, i64)>) -> Answer {
    let (created, lease) = leader;
    let leader = Some(entry("leader", created, created, lease));
    Answer::Found { leader, state: state.map(|(text, changed)| entry(text, 1, changed, 0)) }
}

fn asks(step: &Step, question: &Question) {
    assert_eq!(*step, Step::Ask(question.clone()));
}

/// One that leads since revision 7 and knows the state at revision 5.
fn leader() -> Claim {
    let mut claim = Claim::default();
    assert_eq!(claim.campaign(1_000), Question::Grant);
    asks(&claim.handle(2_000, Answer::Granted { lease: LEASE, ttl_s: TTL_S }), &Question::Lead { lease: LEASE });
    let term = Term { until_us: 4_501_000, renew_at_us: 1_667_666 };
    let won = Outcome::Won { term, found: Found::State("one".into()) };
    assert_eq!(claim.handle(3_000, found((7, LEASE), Some(("one", 5)))), Step::Done(won), "from when it was asked for");
    claim
}

#[test]
fn a_save_names_the_reign_and_the_state_that_it_rests_on() {
    let mut claim = leader();
    for (text, revision) in [("two", 5), ("three", 9)] {
        let question = claim.save(text.into()).expect("leads");
        assert_eq!(question, Question::Save { reign: 7, revision, text: text.into() });
        let done = claim.handle(0, found((7, LEASE), Some((text, revision + 4))));
        assert_eq!(done, Step::Done(Outcome::Saved));
    }
}

#[test]
fn a_save_that_the_store_refused_ends_the_reign() {
    for refused in [
        found((8, LEASE + 1), Some(("one", 5))),
        found((8, LEASE + 1), Some(("two", 9))),
        found((7, LEASE), Some(("other", 9))),
        Answer::Found { leader: None, state: Some(entry("one", 1, 5, 0)) },
    ] {
        let mut claim = leader();
        claim.save("two".into()).expect("leads");
        assert_eq!(claim.handle(0, refused), Step::Done(Outcome::Lapsed));
        assert_eq!(claim.save("two".into()), None, "it does not lead");
    }
}

/// A store that is slow to write would lose the answer to each attempt.
#[test]
fn what_may_be_saved_is_looked_for_before_it_is_saved_again() {
    let lost = || {
        let mut claim = leader();
        let save = claim.save("two".into()).expect("leads");
        claim.handle(0, Answer::Away("lost".into()));
        assert_eq!(claim.save("two".into()), Some(Question::Look));
        (claim, save)
    };
    let (mut claim, _) = lost();
    assert_eq!(claim.handle(0, found((7, LEASE), Some(("two", 9)))), Step::Done(Outcome::Saved));
    let next = claim.save("three".into()).expect("leads");
    assert_eq!(next, Question::Save { reign: 7, revision: 9, text: "three".into() });
    let (mut claim, save) = lost();
    asks(&claim.handle(0, found((7, LEASE), Some(("one", 5)))), &save);
    assert_eq!(claim.handle(0, found((7, LEASE), Some(("two", 9)))), Step::Done(Outcome::Saved));
    let (mut claim, _) = lost();
    let another = found((8, LEASE + 1), Some(("two", 9)));
    assert_eq!(claim.handle(0, another), Step::Done(Outcome::Lapsed), "another one went on from it");
    let (mut claim, _) = lost();
    assert_eq!(claim.handle(0, Answer::Away("lost".into())), Step::Done(Outcome::Away("lost".into())));
    assert_eq!(claim.save("two".into()), Some(Question::Look), "it is still not known");
}

/// Somebody copied the keys: it would be waited for in vain.
#[test]
fn a_leader_without_a_lease_is_told() {
    let mut claim = leader();
    assert_eq!(claim.campaign(0), Question::KeepAlive { lease: LEASE });
    asks(&claim.handle(0, Answer::Kept { ttl_s: TTL_S }), &Question::Lead { lease: LEASE });
    let unbound = claim.handle(0, found((8, 0), Some(("two", 9))));
    assert_eq!(unbound, Step::Done(Outcome::Unbound("leader".into())));
    assert_eq!(claim.save("two".into()), None, "it does not lead");
}

/// It looks so seldom that its lease has run out each time.
#[test]
fn who_looks_seldom_leads_at_its_first_attempt() {
    let mut claim = leader();
    assert_eq!(claim.campaign(60_000_000), Question::Lead { lease: LEASE });
    asks(&claim.handle(60_000_000, Answer::NoLease), &Question::Grant);
    asks(&claim.handle(60_000_000, Answer::Granted { lease: 11, ttl_s: TTL_S }), &Question::Lead { lease: 11 });
    let ended = claim.handle(60_000_000, Answer::NoLease);
    assert!(matches!(ended, Step::Done(Outcome::Away(_))), "one that is new: {ended:?}");
}

#[test]
fn what_is_no_news_is_told_from_what_another_one_saved() {
    let lost = |claim: &mut Claim| {
        claim.save("two".into()).expect("leads");
        claim.handle(0, Answer::Away("lost".into()));
        assert_eq!(claim.campaign(0), Question::KeepAlive { lease: LEASE });
        asks(&claim.handle(0, Answer::Kept { ttl_s: TTL_S }), &Question::Lead { lease: LEASE });
    };
    for (text, revision, is_news) in [("one", 5, false), ("two", 9, false), ("other", 9, true)] {
        let mut claim = leader();
        lost(&mut claim);
        let Step::Done(Outcome::Won { found, .. }) = claim.handle(0, found((7, LEASE), Some((text, revision)))) else {
            panic!("its own lease leads");
        };
        assert_eq!(found != Found::NoNews, is_news, "{text}");
    }
}

/// A lease that ended is not used: a new one is asked for, and another one may lead by then.
#[test]
fn who_lost_its_lease_asks_anew_and_follows() {
    let mut claim = leader();
    assert_eq!(claim.renew(2_000_000), Some(Question::KeepAlive { lease: LEASE }));
    assert_eq!(claim.handle(9_000_000, Answer::Kept { ttl_s: 0 }), Step::Done(Outcome::Lapsed));
    assert_eq!(claim.campaign(9_000_000), Question::Grant);
    asks(&claim.handle(0, Answer::Granted { lease: 11, ttl_s: TTL_S }), &Question::Lead { lease: 11 });
    let lost = claim.handle(0, found((10, 10), Some(("one", 5))));
    let state = Some(entry("one", 1, 5, 0));
    assert_eq!(lost, Step::Done(Outcome::Lost { leader: Some("leader".into()), state }));
    assert_eq!(claim.save("two".into()), None);
}

/// It may be heard where it hears nothing, and would keep all others from leading.
#[test]
fn who_hears_nothing_prolongs_no_lease_that_has_run_out() {
    let (mut claim, away) = (leader(), || Answer::Away("no answer".into()));
    assert_eq!(claim.renew(4_500_999), Some(Question::KeepAlive { lease: LEASE }));
    assert_eq!(claim.handle(4_600_000, away()), Step::Done(Outcome::Away("no answer".into())));
    assert_eq!(claim.renew(4_600_000), None);
    for at_us in [4_600_000, 60_000_000] {
        assert_eq!(claim.campaign(at_us), Question::Lead { lease: LEASE });
        assert_eq!(claim.handle(at_us, away()), Step::Done(Outcome::Away("no answer".into())));
    }
    assert_eq!(claim.campaign(60_000_000), Question::Lead { lease: LEASE });
    let lost = claim.handle(60_000_000, found((10, 10), None));
    assert_eq!(lost, Step::Done(Outcome::Lost { leader: Some("leader".into()), state: None }));
    assert_eq!(claim.campaign(60_000_000), Question::Grant, "what ran out is of no use");
}

/// It may be gone for good, and the store not say so.
#[test]
fn a_store_that_misses_a_lease_when_it_is_to_grant_one_is_taken_for_away() {
    let mut claim = Claim::default();
    assert_eq!(claim.campaign(0), Question::Grant);
    let done = claim.handle(0, Answer::NoLease);
    assert!(matches!(done, Step::Done(Outcome::Away(_))), "{done:?}");
    assert_eq!(claim.campaign(0), Question::Grant, "it asks again");
}

#[test]
fn a_lease_that_has_run_out_is_not_kept_for_ever() {
    let (mut claim, away) = (leader(), || Answer::Away("refused".into()));
    for at_us in [64_500_999, 64_501_000] {
        assert_eq!(claim.campaign(at_us), Question::Lead { lease: LEASE });
        assert_eq!(claim.handle(at_us, away()), Step::Done(Outcome::Away("refused".into())));
    }
    assert_eq!(claim.campaign(64_501_000), Question::Grant);
}

/// The store was away, and kept the lease.
#[test]
fn who_is_answered_again_leads_on() {
    let mut claim = leader();
    let state = Some(("one", 5));
    assert_eq!(claim.campaign(9_000_000), Question::Lead { lease: LEASE });
    asks(&claim.handle(9_100_000, found((7, LEASE), state)), &Question::KeepAlive { lease: LEASE });
    asks(&claim.handle(9_200_000, Answer::Kept { ttl_s: TTL_S }), &Question::Lead { lease: LEASE });
    let term = Term { until_us: 13_600_000, renew_at_us: 10_766_666 };
    let won = Outcome::Won { term, found: Found::NoNews };
    assert_eq!(claim.handle(9_300_000, found((7, LEASE), state)), Step::Done(won));
    // Again, and only the first question is answered.
    assert_eq!(claim.campaign(20_000_000), Question::Lead { lease: LEASE });
    asks(&claim.handle(20_000_000, found((7, LEASE), state)), &Question::KeepAlive { lease: LEASE });
    assert_eq!(claim.handle(21_000_000, Answer::Away("lost".into())), Step::Done(Outcome::Away("lost".into())));
}

/// Somebody deleted the keys: the state is not that of a new cluster, and nothing is put in its place.
#[test]
fn nobody_leads_once_the_state_that_was_there_is_gone() {
    let campaigns = |claim: &mut Claim, state: Option<(&str, i64)>| {
        assert_eq!(claim.campaign(0), Question::KeepAlive { lease: LEASE });
        asks(&claim.handle(0, Answer::Kept { ttl_s: TTL_S }), &Question::Lead { lease: LEASE });
        claim.handle(0, found((9, LEASE), state))
    };
    let mut claim = leader();
    for _ in 0..2 {
        assert_eq!(campaigns(&mut claim, None), Step::Done(Outcome::Gone));
        assert_eq!(claim.save("two".into()), None, "it does not lead");
    }
    let Step::Done(Outcome::Won { found, .. }) = campaigns(&mut claim, Some(("one", 12))) else {
        panic!("the state is there again");
    };
    assert_eq!(found, Found::State("one".into()));
}

/// Also one that stood by, and one that saved the first state itself; but not one that never saw a state.
#[test]
fn whoever_knew_of_a_state_misses_it() {
    let alone = |saves: bool| {
        let mut claim = Claim::default();
        claim.campaign(0);
        asks(&claim.handle(0, Answer::Granted { lease: LEASE, ttl_s: TTL_S }), &Question::Lead { lease: LEASE });
        let won = claim.handle(0, found((7, LEASE), None));
        assert!(matches!(won, Step::Done(Outcome::Won { found: Found::Nothing, .. })), "{won:?}");
        if saves {
            claim.save("one".into()).expect("leads");
            assert_eq!(claim.handle(0, found((7, LEASE), Some(("one", 8)))), Step::Done(Outcome::Saved));
        }
        claim.campaign(0);
        asks(&claim.handle(0, Answer::Kept { ttl_s: TTL_S }), &Question::Lead { lease: LEASE });
        claim.handle(0, found((9, LEASE), None))
    };
    assert_eq!(alone(true), Step::Done(Outcome::Gone));
    assert!(matches!(alone(false), Step::Done(Outcome::Won { found: Found::NoNews, .. })));
    let mut standby = Claim::default();
    standby.campaign(0);
    asks(&standby.handle(0, Answer::Granted { lease: LEASE, ttl_s: TTL_S }), &Question::Lead { lease: LEASE });
    let lost = standby.handle(0, found((2, LEASE + 1), Some(("one", 5))));
    assert!(matches!(lost, Step::Done(Outcome::Lost { .. })), "{lost:?}");
    standby.campaign(0);
    asks(&standby.handle(0, Answer::Kept { ttl_s: TTL_S }), &Question::Lead { lease: LEASE });
    assert_eq!(standby.handle(0, found((9, LEASE), None)), Step::Done(Outcome::Gone));
}

/// It dropped its machine, and would hold the leader's key for ever without one.
#[test]
fn who_resigned_and_leads_again_begins_from_the_state_that_it_finds() {
    for (text, revision) in [("one", 5), ("two", 9)] {
        let mut claim = leader();
        claim.save("two".into()).expect("leads");
        claim.handle(0, Answer::Away("refused".into()));
        assert_eq!(claim.resign(), Some(LEASE));
        assert_eq!(claim.campaign(0), Question::Grant);
        asks(&claim.handle(0, Answer::Granted { lease: 9, ttl_s: TTL_S }), &Question::Lead { lease: 9 });
        let won = claim.handle(0, found((12, 9), Some((text, revision))));
        let Step::Done(Outcome::Won { found, .. }) = won else { panic!("nobody else leads: {won:?}") };
        assert_eq!(found, Found::State(text.into()), "although it is what it knew");
    }
    let mut claim = leader();
    claim.resign();
    claim.campaign(0);
    asks(&claim.handle(0, Answer::Granted { lease: 9, ttl_s: TTL_S }), &Question::Lead { lease: 9 });
    assert_eq!(claim.handle(0, found((12, 9), None)), Step::Done(Outcome::Gone), "that there was one it still knows");
}

/// Whatever a store says.
#[test]
fn who_did_not_lead_and_hears_of_no_state_resigns() {
    let mut candidate = Candidate::default();
    follows(&mut candidate, 0);
    candidate.look();
    let told = wins(&mut candidate, None);
    assert!(matches!(told, Some(News::Away(_))), "there is no machine that could go on: {told:?}");
    assert_eq!(candidate.next(0), Next::Resign);
    assert!(matches!(candidate.handle(0, Said::Resigned), Some(News::Resigned(_))));
    assert_eq!(candidate.next(RESIGNED_US - 1), Next::Rest(Some(RESIGNED_US)));
    assert_eq!(candidate.next(RESIGNED_US), Next::Campaign);
}

/// A lease that lasts is worth nothing without the state.
#[test]
fn a_candidate_whose_state_is_gone_campaigns_until_it_is_there() {
    let mut candidate = Candidate::default();
    wins(&mut candidate, Some(State::Known(Durable::new(1))));
    candidate.save(1, Durable::new(2));
    candidate.look();
    candidate.handle(0, Said::Lapsed);
    for now_us in [0, 250_000] {
        assert_eq!(candidate.next(now_us), Next::Campaign);
        assert_eq!(candidate.handle(now_us, Said::Gone("gone".into())), Some(News::Away("gone".into())));
        assert_eq!(candidate.next(now_us), Next::Rest(Some(now_us + 250_000)));
    }
    assert_eq!(candidate.next(1_600_000), Next::Campaign, "it does not renew");
    let campaign = Campaign::Won { lease: None, news: Some(State::Known(Durable::new(1))) };
    let leads = candidate.handle(1_600_000, Said::Campaigned(campaign));
    assert!(matches!(leads, Some(News::Leads { reign: 2, .. })), "{leads:?}");
    assert_eq!(candidate.next(1_600_000), Next::Rest(None), "what waited rested on what is over");
}

fn wins(candidate: &mut Candidate, news: Option<State>) -> Option<News> {
    assert_eq!(candidate.next(0), Next::Campaign);
    let lease = Some(Term { until_us: 4_500_000, renew_at_us: 1_600_000 });
    candidate.handle(0, Said::Campaigned(Campaign::Won { lease, news }))
}

#[test]
fn what_an_earlier_reign_wanted_saved_is_dropped() {
    let mut candidate = Candidate::default();
    let leads = wins(&mut candidate, Some(State::NewCluster));
    assert!(matches!(leads, Some(News::Leads { reign: 1, .. })), "{leads:?}");
    candidate.save(1, Durable::new(1));
    assert_eq!(candidate.next(0), Next::Save(Durable::new(1)));
    assert_eq!(candidate.handle(0, Said::Lapsed), None);
    let again = wins(&mut candidate, Some(State::Known(Durable::new(2))));
    assert!(matches!(again, Some(News::Leads { reign: 2, .. })), "{again:?}");
    assert_eq!(candidate.next(0), Next::Rest(Some(1_600_000)), "of the first reign");
    candidate.save(1, Durable::new(1));
    assert_eq!(candidate.next(0), Next::Rest(Some(1_600_000)), "nor later");
}

#[test]
fn what_waits_for_the_store_is_saved_when_it_leads_on() {
    let mut candidate = Candidate::default();
    wins(&mut candidate, Some(State::NewCluster));
    candidate.save(1, Durable::new(1));
    candidate.handle(0, Said::Away("away".into()));
    assert_eq!(candidate.next(0), Next::Rest(Some(250_000)));
    assert_eq!(candidate.next(1_600_000), Next::Renew, "before anything is saved");
    candidate.handle(1_600_000, Said::Lapsed);
    assert_eq!(wins_later(&mut candidate), Some(News::Renewed { until_us: None }));
    assert_eq!(candidate.next(1_600_000), Next::Save(Durable::new(1)));
}

fn wins_later(candidate: &mut Candidate) -> Option<News> {
    assert_eq!(candidate.next(1_600_000), Next::Campaign);
    candidate.handle(1_600_000, Said::Campaigned(Campaign::Won { lease: None, news: None }))
}

fn follows(candidate: &mut Candidate, now_us: u64) {
    assert_eq!(candidate.next(now_us), Next::Campaign);
    let lost = Campaign::Lost { leader: Some("other".into()), choice: None, again_after_us: 2_000_000 };
    let news = candidate.handle(now_us, Said::Campaigned(lost));
    assert_eq!(news, Some(News::Follows { leader: Some("other".into()), choice: None }));
}

#[test]
fn who_follows_looks_when_it_is_told_to_and_by_itself() {
    let mut candidate = Candidate::default();
    follows(&mut candidate, 0);
    assert_eq!(candidate.next(1_000), Next::Rest(Some(2_000_000)));
    candidate.look();
    follows(&mut candidate, 1_000);
    assert_eq!(candidate.next(1_001), Next::Rest(Some(2_001_000)), "one look is enough");
    assert_eq!(candidate.next(2_001_000), Next::Campaign);
    candidate.look();
    candidate
        .handle(2_001_000, Said::Campaigned(Campaign::Lost { leader: None, choice: None, again_after_us: 2_000_000 }));
    assert_eq!(candidate.next(2_001_001), Next::Campaign, "told after it asked");
}

/// It looked before its time: what was left of that is no time of a leader.
#[test]
fn who_was_told_to_look_and_wins_renews_its_lease_in_time() {
    let mut candidate = Candidate::default();
    assert_eq!(candidate.next(0), Next::Campaign);
    let lost = Campaign::Lost { leader: Some("other".into()), choice: None, again_after_us: 60_000_000 };
    candidate.handle(0, Said::Campaigned(lost));
    candidate.look();
    assert!(matches!(wins(&mut candidate, Some(State::NewCluster)), Some(News::Leads { .. })));
    assert_eq!(candidate.next(0), Next::Rest(Some(1_600_000)));
    assert_eq!(candidate.next(1_600_000), Next::Renew);
}

/// Or one that is told often would save nothing, nor keep its lease.
#[test]
fn who_leads_looks_when_nothing_else_is_to_be_done() {
    let mut candidate = Candidate::default();
    wins(&mut candidate, Some(State::NewCluster));
    candidate.save(1, Durable::new(1));
    candidate.look();
    assert_eq!(candidate.next(1_600_000), Next::Renew);
    let lease = Some(Term { until_us: 6_000_000, renew_at_us: 3_200_000 });
    candidate.handle(1_600_000, Said::Renewed(lease));
    assert_eq!(candidate.next(1_600_000), Next::Save(Durable::new(1)));
    candidate.handle(1_600_000, Said::Saved);
    assert_eq!(candidate.next(1_600_000), Next::Campaign);
    candidate.handle(1_600_000, Said::Away("away".into()));
    assert_eq!(candidate.next(1_600_001), Next::Rest(Some(1_850_000)), "a store that is away is not pressed");
    assert_eq!(candidate.next(1_850_000), Next::Campaign, "it has yet to look");
    let news = candidate.handle(1_850_000, Said::Campaigned(Campaign::Won { lease, news: None }));
    assert_eq!(news, Some(News::Renewed { until_us: Some(6_000_000) }));
    assert_eq!(candidate.next(1_850_000), Next::Rest(Some(3_200_000)));
    candidate.look();
    follows(&mut candidate, 1_850_000);
}

/// To prolong a lease a store asks for less than to save.
#[test]
fn who_may_renew_and_not_save_resigns_and_lets_others_lead() {
    let mut candidate = Candidate::default();
    wins(&mut candidate, Some(State::NewCluster));
    candidate.save(1, Durable::new(1));
    let mut now_us = 0;
    for renewal in 0..4 {
        assert_eq!(candidate.next(now_us), Next::Save(Durable::new(1)), "after {renewal} renewals");
        let away = candidate.handle(now_us, Said::Away("permission denied".into()));
        assert_eq!(away, Some(News::Away("permission denied".into())));
        now_us += 1_600_000;
        assert_eq!(candidate.next(now_us), Next::Renew);
        let term = Term { until_us: now_us + 4_500_000, renew_at_us: now_us + 1_600_000 };
        candidate.handle(now_us, Said::Renewed(Some(term)));
    }
    assert_eq!(candidate.next(now_us), Next::Resign, "nothing was saved for longer than the lease");
    assert_eq!(candidate.handle(now_us, Said::Resigned), Some(News::Resigned("permission denied".into())));
    let again_us = now_us + RESIGNED_US;
    candidate.look();
    assert_eq!(candidate.next(again_us - 1), Next::Rest(Some(again_us)), "also when it is told of a change");
    assert_eq!(candidate.next(again_us), Next::Campaign, "it may be alone");
    candidate.save(1, Durable::new(1));
    let lease = Some(Term { until_us: again_us + 4_500_000, renew_at_us: again_us + 1_600_000 });
    let won = Campaign::Won { lease, news: Some(State::NewCluster) };
    assert!(matches!(candidate.handle(again_us, Said::Campaigned(won)), Some(News::Leads { .. })));
    assert_eq!(candidate.next(again_us), Next::Rest(Some(again_us + 1_600_000)), "of a reign that is over");
}

/// A store that is slow, or away now and then.
#[test]
fn who_saves_now_and_then_does_not_resign() {
    let mut candidate = Candidate::default();
    wins(&mut candidate, Some(State::NewCluster));
    let mut now_us = 0;
    for turn in 0..20 {
        candidate.save(1, Durable::new(1));
        assert_eq!(candidate.next(now_us), Next::Save(Durable::new(1)));
        let said = if turn % 4 == 3 { Said::Saved } else { Said::Away("late".into()) };
        candidate.handle(now_us, said);
        now_us += 1_600_000;
        assert_eq!(candidate.next(now_us), Next::Renew);
        let term = Term { until_us: now_us + 4_500_000, renew_at_us: now_us + 1_600_000 };
        candidate.handle(now_us, Said::Renewed(Some(term)));
    }
}

#[test]
fn what_rests_on_records_waits_until_they_are_saved() {
    let mut seat = Seat::new(settings(), Some(4));
    let now = Now::default();
    assert!(seat.poll_output(0).is_none() && !seat.takes_members(0));
    seat.begin_reign(now, 1, State::NewCluster, CLUSTER.0, Some(4_500_000)).expect("a new cluster");
    assert!(matches!(seat.poll_output(0), Some(Output::Persist(durable)) if durable.cluster_id == CLUSTER.0));
    let registration = ToCoordinator::RegisterNode(node(1, Some(0)));
    seat.handle(now, Input::Message { connection: ConnectionId(1), message: registration });
    assert_eq!(seat.poll_output(0), None, "a new cluster is saved first");
    assert!(seat.takes_members(1_000_000) && !seat.takes_members(1_000_001), "the store is away");
    seat.handle_saved(2);
    assert_eq!(seat.poll_output(0), None, "what another reign saved");
    seat.handle_saved(1);
    assert!(matches!(seat.poll_output(0), Some(Output::Persist(_))));
    assert_eq!(seat.poll_output(0), None);
    seat.handle_saved(1);
    let told = seat.poll_output(0);
    assert!(matches!(told, Some(Output::Send { message: FromCoordinator::NodeRegistered(_), .. })), "{told:?}");
    assert!(seat.leads(4_499_999) && !seat.leads(4_500_000) && !seat.takes_members(4_500_000));
}

/// Another one may lead, and have given up others.
#[test]
fn who_does_not_surely_lead_gives_nobody_up() {
    let mut seat = Seat::new(settings(), Some(4));
    let mut now = Now::default();
    seat.begin_reign(now, 1, State::Known(Durable::new(CLUSTER.0)), CLUSTER.0, Some(4_500_000))
        .expect("the same cluster");
    let tell = |seat: &mut Seat, now: Now, input: Input| {
        seat.handle(now, input);
        while seat.poll_output(now.mono_us).is_some() {
            seat.handle_saved(1);
        }
    };
    let message = |number: u64, message: ToCoordinator| Input::Message { connection: ConnectionId(number), message };
    tell(&mut seat, now, message(1, ToCoordinator::RegisterNode(node(1, Some(0)))));
    tell(&mut seat, now, message(2, ToCoordinator::RegisterGateway(gateway_registration(None, 9))));
    tell(&mut seat, now, Input::Closed { connection: ConnectionId(1) });
    let mut pass_ms = |seat: &mut Seat, ms: u64| {
        for _ in 0..ms / 100 {
            now.mono_us += 100_000;
            tell(seat, now, message(2, ToCoordinator::GatewayStatus(sees(&[]))));
        }
        seat.machine().expect("it goes on").view().nodes[0].state
    };
    assert_eq!(pass_ms(&mut seat, 2 * RETIRE_AFTER_MS), NodeState::Dead);
    seat.renew(None);
    // Four and a half seconds are over.
    assert_eq!(pass_ms(&mut seat, RETIRE_AFTER_MS - 5_000), NodeState::Dead, "it may come back only now");
    assert_eq!(pass_ms(&mut seat, 1_000), NodeState::Retired);
}

/// The state was put back from a backup.
#[test]
fn a_reign_does_not_begin_before_an_epoch_that_an_earlier_one_knew() {
    let mut seat = Seat::new(settings(), Some(4));
    let mut begin = |number: u64, epoch: u32| {
        let state = State::Known(Durable { epoch, ..Durable::new(CLUSTER.0) });
        seat.begin_reign(Now::default(), number, state, CLUSTER.0, None).expect("the same cluster")
    };
    assert_eq!([begin(1, 9), begin(2, 5), begin(3, 12)], [9, 9, 12]);
}

/// Each of many changes is a view for everybody, and a state to be saved.
#[test]
fn what_waits_for_a_store_that_is_away_does_not_heap_up() {
    let mut seat = Seat::new(settings(), Some(4));
    let at = |mono_us: u64| Now { mono_us, ..Now::default() };
    seat.begin_reign(at(0), 1, State::Known(Durable::new(CLUSTER.0)), CLUSTER.0, None).expect("the same cluster");
    let tell = |seat: &mut Seat, now_us: u64, connection: u64, message: ToCoordinator| {
        seat.handle(at(now_us), Input::Message { connection: ConnectionId(connection), message });
    };
    tell(&mut seat, 0, 9, ToCoordinator::RegisterGateway(gateway_registration(None, 9)));
    assert!(matches!(seat.poll_output(0), Some(Output::Persist(_))));
    let later_us = SUSPECT_AFTER_MS * 1000;
    for round in 0..100 {
        let incarnation = 1 + round;
        tell(&mut seat, later_us, 9, ToCoordinator::GatewayStatus(sees(&[])));
        tell(&mut seat, later_us, 10 + round, ToCoordinator::RegisterNode(node(incarnation, Some(0))));
        seat.handle(at(later_us), Input::Closed { connection: ConnectionId(10 + round) });
    }
    seat.handle_saved(1);
    let mut outputs = Vec::new();
    while let Some(output) = seat.poll_output(later_us) {
        seat.handle_saved(1);
        outputs.push(output);
    }
    let persisted = outputs.iter().filter_map(|output| match output {
        Output::Persist(durable) => Some(durable.nodes[&0].incarnation),
        _ => None,
    });
    assert_eq!(persisted.collect::<Vec<_>>(), [100], "the last");
    let to_gateway = outputs.iter().filter_map(|output| match output {
        Output::Send { connection: ConnectionId(9), message } => Some(message),
        _ => None,
    });
    let views: Vec<_> = to_gateway.filter(|message| matches!(message, FromCoordinator::View(_))).collect();
    assert_eq!(views.len(), 1, "the last");
    assert!(matches!(views[0], FromCoordinator::View(view) if view.nodes[0].incarnation == Incarnation(100)));
    let is_before = |output: &Output| matches!(output, Output::Persist(_));
    let last_view = |output: &Output| matches!(output, Output::Send { message, .. } if message == views[0]);
    assert!(outputs.iter().position(is_before) < outputs.iter().position(last_view));
}

/// Saves heap up for a second, until what is to be told is held back; what is persisted last holds all the same.
#[test]
fn what_is_saved_after_a_store_was_away_never_goes_back() {
    let mut seat = Seat::new(settings(), Some(4));
    let at = |mono_us: u64| Now { mono_us, ..Now::default() };
    seat.begin_reign(at(0), 1, State::Known(Durable::new(CLUSTER.0)), CLUSTER.0, None).expect("the same cluster");
    let register = |seat: &mut Seat, now_us: u64, id: u16| {
        let message = ToCoordinator::RegisterNode(node(1, Some(id)));
        seat.handle(at(now_us), Input::Message { connection: ConnectionId(10 + u64::from(id)), message });
    };
    register(&mut seat, 0, 0);
    assert!(matches!(seat.poll_output(0), Some(Output::Persist(_))));
    register(&mut seat, 100_000, 1);
    register(&mut seat, 200_000, 2);
    register(&mut seat, 2_000_000, 3);
    let mut persisted = Vec::new();
    let mut told = Vec::new();
    seat.handle_saved(1);
    while let Some(output) = seat.poll_output(2_000_000) {
        seat.handle_saved(1);
        match output {
            Output::Persist(durable) => persisted.push(durable.nodes.len()),
            Output::Send { message: FromCoordinator::NodeRegistered(welcome), .. } => {
                told.push((welcome.session.node_id.0, *persisted.last().unwrap_or(&1)));
            }
            _ => {}
        }
    }
    assert!(persisted.is_sorted(), "{persisted:?}");
    assert_eq!(persisted.last(), Some(&4), "as the machine has it");
    assert!(told.iter().all(|&(id, known)| usize::from(id) < known), "nobody is told what is not saved: {told:?}");
    assert_eq!(told.len(), 4);
}

/// It asks anew since nothing was heard of a coordinator that stood still, and waits no longer than two seconds.
#[test]
fn who_is_here_loses_no_connection_for_a_welcome_that_waits_for_the_store() {
    let mut seat = Seat::new(settings(), Some(4));
    let at = |mono_us: u64| Now { mono_us, ..Now::default() };
    seat.begin_reign(at(0), 1, State::Known(Durable::new(CLUSTER.0)), CLUSTER.0, None).expect("the same cluster");
    let tell = |seat: &mut Seat, now_us: u64, connection: u64, message: &ToCoordinator| {
        seat.handle(at(now_us), Input::Message { connection: ConnectionId(connection), message: message.clone() });
    };
    let put_out = |seat: &mut Seat, now_us: u64| {
        while seat.poll_output(now_us).is_some() {
            seat.handle_saved(1);
        }
    };
    let session = |gateway_id| Some(GatewaySession { cluster_id: CLUSTER, gateway_id });
    let gateway = |session| ToCoordinator::RegisterGateway(gateway_registration(session, 1000));
    let of_node = |id: u16| ToCoordinator::RegisterNode(node(1, Some(id)));
    tell(&mut seat, 0, 10, &gateway(None));
    tell(&mut seat, 0, 11, &of_node(1));
    put_out(&mut seat, 0);
    let known = [gateway(session(0)), gateway(None), of_node(1)];
    assert!(!known.iter().any(|message| seat.is_to_ask_again(message)), "the answer leaves at once");
    tell(&mut seat, 1_000, 12, &of_node(2));
    while !matches!(seat.poll_output(1_000), None | Some(Output::Persist(_))) {}
    assert!(seat.takes_members(1_000));
    assert!(known.iter().all(|message| seat.is_to_ask_again(message)));
    let other_life = ToCoordinator::RegisterNode(node(2, Some(1)));
    let others = [of_node(3), other_life, ToCoordinator::RegisterGateway(gateway_registration(None, 1001))];
    assert!(!others.iter().any(|message| seat.is_to_ask_again(message)), "they wait");
    seat.handle(at(2_000), Input::Closed { connection: ConnectionId(10) });
    assert!(!seat.is_to_ask_again(&known[0]), "it has nothing to lose");
    put_out(&mut seat, 3_000);
    seat.handle_saved(1);
    put_out(&mut seat, 3_000);
    assert!(!known.iter().any(|message| seat.is_to_ask_again(message)));
}
