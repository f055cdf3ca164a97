//! The admin port's way to the coordinator's loop: questions in, answers out.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use mio::Waker;
use shorttail_coordinator::Wanted;
use shorttail_coordinator::limits::ORDER_WITHIN_MS;
use shorttail_wire::control::{ClusterStatus, GatewayStatus};

/// Questions that may wait for the loop.
const QUESTION_COUNT_MAX: usize = 64;

/// Something that another thread asks of the loop.
pub enum Question {
    Status(SyncSender<ClusterStatus>),
    /// What every living gateway reported last.
    Reports(SyncSender<Vec<(u16, GatewayStatus)>>),
    /// That members do something; answered once for each, with its place among them.
    Order {
        members: Vec<u16>,
        wanted: Wanted,
        done: SyncSender<(usize, Outcome)>,
    },
}

/// What became of an order: what was done, or why it was not, for people.
pub type Outcome = Result<String, String>;

/// Asks the running loop.
#[derive(Clone)]
pub struct Desk {
    questions: SyncSender<Question>,
    waker: Arc<Waker>,
}

/// Until the loop must have answered; it has an end for every order itself.
const ANSWERED_WITHIN: Duration = Duration::from_millis(ORDER_WITHIN_MS + 1_000);

impl Desk {
    /// A desk and where its questions arrive; the waker interrupts the loop.
    pub fn open(waker: Arc<Waker>) -> (Self, Receiver<Question>) {
        let (asking, questions) = sync_channel(QUESTION_COUNT_MAX);
        (Desk { questions: asking, waker }, questions)
    }

    /// The status now; `None` when the coordinator ends or is overrun with questions.
    pub fn status(&self) -> Option<ClusterStatus> {
        self.ask(Question::Status)?.recv_timeout(ANSWERED_WITHIN).ok()
    }

    /// What every living gateway reported last, by its number; `None` as for the status.
    pub fn reports(&self) -> Option<Vec<(u16, GatewayStatus)>> {
        self.ask(Question::Reports)?.recv_timeout(ANSWERED_WITHIN).ok()
    }

    /// Has this done to each of the members, or by it; what came of each, in the same order.
    pub fn order(&self, members: Vec<u16>, wanted: Wanted) -> Vec<Outcome> {
        let mut outcomes = vec![Err("the coordinator does not answer".to_owned()); members.len()];
        let (done, answers) = sync_channel(members.len());
        if self.questions.try_send(Question::Order { members, wanted, done }).is_ok() && self.waker.wake().is_ok() {
            // The store may have ceased to answer a moment before.
            outcomes.fill(Err("no answer in time: it may be carried out later, see `shorttail status`".to_owned()));
            // The channel ends when all are answered, or when the coordinator does.
            while let Ok((place, outcome)) = answers.recv_timeout(ANSWERED_WITHIN) {
                outcomes[place] = outcome;
            }
        }
        outcomes
    }

    fn ask<T>(&self, question: impl FnOnce(SyncSender<T>) -> Question) -> Option<Receiver<T>> {
        let (answer, answered) = sync_channel(1);
        self.questions.try_send(question(answer)).ok()?;
        self.waker.wake().ok()?;
        Some(answered)
    }
}
