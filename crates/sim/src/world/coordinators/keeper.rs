//! A coordinator before the store, as the server's keeper is: does what its candidate says, one question at a time.
//!
//! ```text
//! asked --> on its way, late --> the store does it --> the answer, late --> the candidate's news
//!              |  '-- lost in a cut           '-- lost in a cut
//!              '-- for so long that nobody waits for it any more: done all the same
//! ```
//! What a process asked that dies is done or not, as chance has it, and perhaps after another one began to lead.

use shorttail_coordinator::candidate::{self, AGAIN_AFTER_US, Campaign, News, Next, State};
use shorttail_coordinator::claim::{Answer, Found, Outcome, Question, Step};

use super::{Asked, ControlEvent, Event, STORE, World, endpoint_of_coordinator};
use crate::world::{CLUSTER, Violation};

/// How long a question takes to the store, or an answer from there: on average, and at most; one in ten takes much
/// longer, and a few of those longer than anybody waits.
const WAY_US: u64 = 2_000;
const WAY_US_MAX: u64 = 40_000;
const LONG_WAY_US: std::ops::Range<u64> = 50_000..500_000;
const LONG_WAY_PPM: u32 = 100_000;
const LOST_WAY_US: std::ops::Range<u64> = 1_000_000..9_000_000;
const LOST_WAY_PPM: u32 = 100_000;
/// An answer is waited for so long.
const TIMEOUT_US: u64 = 1_000_000;
/// Seconds that the only coordinator leads for: as long as it lives.
const FOR_EVER_S: i64 = 1_000_000;

impl World {
    /// Does what is due, unless something is asked.
    pub(super) fn turn_of_keeper(&mut self, place: usize) {
        let now_us = self.now_of_coordinator(place).mono_us;
        let process = &mut self.coordinators.processes[place];
        if process.asked.is_some() {
            return;
        }
        let question = match process.candidate.next(now_us) {
            Next::Rest(None) => return,
            Next::Rest(Some(until_us)) => {
                let (life, delay_us) = (process.life, until_us - now_us);
                return self.schedule.after(delay_us, Event::Control(ControlEvent::Keep { place, life }));
            }
            Next::Campaign => Some(process.claim.campaign(now_us)),
            Next::Renew => process.claim.renew(now_us),
            Next::Save(durable) => {
                let text = serde_json::to_vec(&durable).expect("records are plain data");
                let question = process.claim.save(text);
                self.may_die_at_save(place);
                question
            }
            Next::Resign => return self.resign(place),
        };
        match question {
            Some(question) => self.ask_store(place, question),
            None => self.take_outcome(place, Outcome::Lapsed),
        }
    }

    /// Its lease ends by itself: a store that takes nothing of it does not end one for it either.
    fn resign(&mut self, place: usize) {
        let now_us = self.now_of_coordinator(place).mono_us;
        let process = &mut self.coordinators.processes[place];
        process.claim.resign();
        if let Some(news) = process.candidate.handle(now_us, candidate::Answer::Resigned) {
            self.take_news(place, news);
        }
        self.turn_of_keeper(place);
    }

    fn ask_store(&mut self, place: usize, question: Question) {
        let held_us = self.may_stall_before(place, &question);
        let number = self.coordinators.number_next;
        self.coordinators.number_next += 1;
        let process = &mut self.coordinators.processes[place];
        let life = process.life;
        process.asked = Some(number);
        self.coordinators.on_its_way.insert(number, Asked { place, life, question });
        let delay_us = self.way_us() + held_us;
        self.schedule.after(delay_us, Event::Control(ControlEvent::AtStore { number }));
        let why = "no answer in time".to_owned();
        let given_up = ControlEvent::Answered { place, life, number, answer: Answer::Away(why) };
        self.schedule.after(TIMEOUT_US, Event::Control(given_up));
    }

    fn way_us(&mut self) -> u64 {
        if !self.rng.chance_ppm(LONG_WAY_PPM) {
            return self.rng.exponential_us(WAY_US, WAY_US_MAX);
        }
        let is_lost = self.is_active && self.rng.chance_ppm(LOST_WAY_PPM);
        let way_us = self.rng.range(if is_lost { LOST_WAY_US } else { LONG_WAY_US });
        self.coordinators.counts.store_slow_us += way_us;
        self.note_slow_store(way_us);
        way_us
    }

    /// A question is at the store.
    pub(super) fn question_arrives(&mut self, number: u64) {
        let away_until_us = self.coordinators.store.away_until_us;
        if self.schedule.now_us() < away_until_us {
            return self.schedule.at(away_until_us, Event::Control(ControlEvent::AtStore { number }));
        }
        let Some(asked) = self.coordinators.on_its_way.remove(&number) else { return };
        let (place, life) = (asked.place, asked.life);
        if self.network.is_cut(endpoint_of_coordinator(place), STORE) {
            return;
        }
        let answer = self.do_at_store(&asked);
        let delay_us = self.way_us();
        let answered = ControlEvent::Answered { place, life, number, answer };
        if !self.network.is_cut(STORE, endpoint_of_coordinator(place)) {
            self.schedule.after(delay_us, Event::Control(answered));
        }
    }

    fn do_at_store(&mut self, asked: &Asked) -> Answer {
        let now_us = self.schedule.now_us();
        let writes = matches!(asked.question, Question::Lead { .. } | Question::Save { .. });
        if writes && self.coordinators.store.refused == Some(asked.place) {
            return Answer::Away("permission denied".to_owned());
        }
        let ttl_s = if self.config.coordinator_count == 1 { FOR_EVER_S } else { self.config.leader_lease_s };
        let name = format!("coordinator {}", asked.place);
        let answer = self.coordinators.store.answer(now_us, &name, ttl_s, &asked.question);
        if let (Question::Save { text, .. }, Answer::Found { state, .. }) = (&asked.question, &answer)
            && state.as_ref().is_none_or(|state| state.value != *text)
        {
            self.coordinators.counts.saves_refused += 1;
            self.note(format_args!("the store refuses what {name} saves"));
        }
        answer
    }

    /// Whoever asked is gone: what is on its way is done, or not.
    pub(super) fn settle_questions_of(&mut self, place: usize) {
        let of_it = |asked: &Asked| asked.place == place;
        let numbers: Vec<u64> =
            self.coordinators.on_its_way.iter().filter(|(_, it)| of_it(it)).map(|(&number, _)| number).collect();
        for number in numbers {
            let is_done = self.rng.chance_ppm(500_000);
            // A directory is on the machine: what is done is done before another process begins.
            if self.config.coordinator_count > 1 && is_done {
                continue;
            }
            if let Some(asked) = self.coordinators.on_its_way.remove(&number).filter(|_| is_done) {
                self.do_at_store(&asked);
            }
        }
    }

    /// The answer to a question, or its time is over.
    pub(super) fn answer_arrives(&mut self, place: usize, number: u64, answer: Answer) {
        let now_us = self.now_of_coordinator(place).mono_us;
        let process = &mut self.coordinators.processes[place];
        if process.asked != Some(number) {
            return;
        }
        process.asked = None;
        match process.claim.handle(now_us, answer) {
            Step::Ask(question) => self.ask_store(place, question),
            Step::Done(outcome) => self.take_outcome(place, outcome),
        }
    }

    fn take_outcome(&mut self, place: usize, outcome: Outcome) {
        let now_us = self.now_of_coordinator(place).mono_us;
        let answer = match outcome {
            Outcome::Won { term, found } => {
                let news = match found {
                    Found::NoNews => None,
                    Found::Nothing => Some(State::NewCluster),
                    Found::State(text) => {
                        let durable = serde_json::from_slice(&text).expect("the coordinators' own records");
                        Some(State::Known(durable))
                    }
                };
                candidate::Answer::Campaigned(Campaign::Won { lease: Some(term), news })
            }
            Outcome::Lost { leader, .. } => {
                // All are told the same here.
                let (choice, again_after_us) = (None, AGAIN_AFTER_US);
                candidate::Answer::Campaigned(Campaign::Lost { leader, choice, again_after_us })
            }
            Outcome::Renewed(term) => candidate::Answer::Renewed(Some(term)),
            Outcome::Saved => candidate::Answer::Saved,
            Outcome::Lapsed => candidate::Answer::Lapsed,
            Outcome::Gone => candidate::Answer::Gone("the state is gone".to_owned()),
            Outcome::Unbound(leader) => candidate::Answer::Gone(format!("{leader} leads without a lease")),
            Outcome::Away(why) => candidate::Answer::Away(why),
        };
        if let Some(news) = self.coordinators.processes[place].candidate.handle(now_us, answer) {
            self.take_news(place, news);
        }
        self.turn_of_keeper(place);
    }

    fn take_news(&mut self, place: usize, news: News) {
        let now = self.now_of_coordinator(place);
        match news {
            News::Leads { reign, state, until_us } => {
                self.end_reign(place);
                let seat = &mut self.coordinators.processes[place].seat;
                let epoch = seat.begin_reign(now, reign, state, CLUSTER.0, until_us).expect("the same cluster");
                self.coordinators.counts.reigns += 1;
                self.note(format_args!("coordinator {place} leads from epoch {epoch}"));
            }
            News::Renewed { until_us } => self.coordinators.processes[place].seat.renew(until_us),
            News::Saved { reign } => self.coordinators.processes[place].seat.handle_saved(reign),
            News::Follows { .. } => self.end_reign(place),
            News::Resigned(why) => {
                self.coordinators.counts.resignations += 1;
                self.note(format_args!("coordinator {place} resigns: {why}"));
                self.end_reign(place);
            }
            News::Away(why) => self.note(format_args!("coordinator {place}: the store is away, {why}")),
        }
        self.check_sole_leader();
        self.put_out(place);
    }

    /// At most one coordinator says that it leads.
    fn check_sole_leader(&mut self) {
        let leaders: Vec<usize> = (0..self.coordinators.processes.len()).filter(|&place| self.leads(place)).collect();
        if leaders.len() > 1 {
            self.fail(Violation::Audit(format!("coordinators {leaders:?} lead at the same time")));
        }
    }
}
