//! The thread and the handle to it.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use shorttail_wire::control::{
    CONTROL_PROTOCOL_VERSION, ChaosStatus, FromCoordinator, Order, Refusal, Terms, ToCoordinator, View,
};

use super::at_hand::AtHand;
use super::backoff::Backoff;
use super::is_ended;
use super::look_up::LookUp;
use super::role::{HURRIED, Role};
use super::search::{Answer, Search};
use super::silence::Silence;
use super::stream::{Closer, ControlStream};
use crate::config::Addresses;
use crate::locks::lock;

/// The thread parses small messages, another one has names looked up; the default of 2 MiB would be most of a small
/// node's memory map.
pub(crate) const STACK_BYTES: usize = 256 << 10;
/// A transient refusal (a number still taken by a life that just ended) is retried this long before it counts, of
/// who was never let in.
const REFUSED_FOR_MAX: Duration = Duration::from_secs(10);
/// Who is refused is refused again within about this.
const REFUSED_AGAIN_WITHIN: Duration = Duration::from_secs(1);
/// Who was never let in gives up when every answer to its registration was a closed connection for so long: a
/// coordinator that starts, ends or loses its store is past that by then, one of another protocol never.
const HUNG_UP_FOR_MAX: Duration = Duration::from_millis(if cfg!(test) { 300 } else { 30_000 });
/// Somebody who is not let in says so again after this long.
const TOLD_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// What a name service finds is waited for so long before it is gone on with what is known: one that answers takes
/// less.
const LOOK_UP_MAX: Duration = Duration::from_secs(1);
/// While another one is asked, it and the one at hand are listened to in turn, for so long.
const LISTEN: Duration = Duration::from_millis(10);

/// Called after an event was queued; must only wake the member's loop.
pub type Wake = Box<dyn Fn() + Send + Sync>;

/// Does what the coordinator orders; called by the connection's own thread.
pub type Obey = Box<dyn FnMut(Order) -> Obeyed + Send>;

/// What became of an order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Obeyed {
    /// What was done, or why it was not.
    pub outcome: Result<String, String>,
    /// The faults of the member now.
    pub chaos: ChaosStatus,
}

/// What a member may want to know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ControlEvent {
    /// The membership; only the latest is kept if the member does not poll.
    View(View),
    /// All tenures of this gateway.
    Terms(Vec<Terms>),
    /// Epochs of tenures of the cluster, and whether they are served.
    Served(Vec<(u32, bool)>),
    /// This member is over for good: a retired node must wipe, a superseded gateway must stop.
    Refused(Refusal),
    /// The coordinator does not let this member in at present. It goes on, and asks again.
    NotLetIn(Refusal),
    /// The connection is gone; the member goes on.
    Disconnected,
    Connected,
}

/// Why a registration failed for good.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ControlError {
    #[error("the coordinator refuses: {0}")]
    Refused(Refusal),
    #[error(
        "the coordinator hangs up on every registration: it is of another version, or something else listens there; this \
         process speaks version {own} of the control protocol",
        own = CONTROL_PROTOCOL_VERSION
    )]
    HungUp,
    #[error("stopped before the coordinator answered")]
    Stopped,
    #[error("cannot start a thread ({0}): raise the limit on processes of this user or container")]
    NoThread(String),
}

struct State<R: Role> {
    registered: Option<Result<R::Welcome, ControlError>>,
    events: VecDeque<ControlEvent>,
    status: R::Status,
    closer: Option<Closer>,
    trouble: Option<String>,
    stopping: bool,
}

struct Shared<R: Role> {
    state: Mutex<State<R>>,
    changed: Condvar,
    wake: Wake,
}

/// Handle of a membership. Dropping it ends the thread and the connection.
pub struct ControlClient<R: Role> {
    shared: Arc<Shared<R>>,
    thread: Option<JoinHandle<()>>,
}

impl<R: Role> ControlClient<R> {
    /// Starts to register, and keeps at it.
    pub fn start(coordinators: Addresses, registration: R::Registration, wake: Wake, obey: Obey) -> Self {
        let shared = Arc::new(Shared::new(wake));
        let backoff = Backoff::new();
        let silence = Silence::default();
        let in_vain = vec![false; coordinators.0.len()];
        let worker = Worker {
            shared: Arc::clone(&shared),
            coordinators,
            in_vain,
            look_up: LookUp::new(),
            current: 0,
            registration,
            obey,
            backoff,
            silence,
            unsendable_told: None,
        };
        let builder = std::thread::Builder::new().name("control".into()).stack_size(STACK_BYTES);
        let thread = builder.spawn(move || worker.run()).map_err(|error| {
            // Who waits for the answer to the registration gets this one.
            lock(&shared.state).registered = Some(Err(ControlError::NoThread(error.to_string())));
        });
        ControlClient { shared, thread: thread.ok() }
    }

    /// A membership that was decided by configuration: no thread, no connection.
    pub fn fixed(welcome: R::Welcome, events: impl IntoIterator<Item = ControlEvent>) -> Self {
        let shared = Shared::new(Box::new(|| {}));
        let mut state = lock(&shared.state);
        state.registered = Some(Ok(welcome));
        state.events.extend(events);
        drop(state);
        ControlClient { shared: Arc::new(shared), thread: None }
    }

    /// Waits for the answer to the registration, for as long as it takes to reach the coordinator.
    ///
    /// # Errors
    /// When the coordinator refuses for good.
    pub fn registered(&self) -> Result<R::Welcome, ControlError> {
        let state = lock(&self.shared.state);
        let answered = self.shared.changed.wait_while(state, |state| state.registered.is_none());
        let state = answered.unwrap_or_else(|poisoned| poisoned.into_inner());
        state.registered.clone().expect("waited for")
    }

    /// The answer to the registration, if there is one.
    pub fn answer(&self) -> Option<Result<R::Welcome, ControlError>> {
        lock(&self.shared.state).registered.clone()
    }

    /// Why the last attempt at a connection was in vain, for people; `None`: there was none since one stood.
    pub fn trouble(&self) -> Option<String> {
        lock(&self.shared.state).trouble.clone()
    }

    /// The next event, without waiting.
    pub fn poll_event(&self) -> Option<ControlEvent> {
        lock(&self.shared.state).events.pop_front()
    }

    /// Ends the connection and the attempts at one; whoever waits in [`ControlClient::registered`] is told.
    pub fn stop(&self) {
        let mut state = lock(&self.shared.state);
        state.stopping = true;
        if let Some(closer) = &state.closer {
            closer.close();
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    /// What the next heartbeats say.
    pub fn publish(&self, status: R::Status) {
        lock(&self.shared.state).status = status;
    }
}

impl<R: Role> Drop for ControlClient<R> {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed when it happened.
            let _ = thread.join();
        }
    }
}

impl<R: Role> Shared<R> {
    fn new(wake: Wake) -> Self {
        let state = State {
            registered: None,
            events: VecDeque::new(),
            status: R::Status::default(),
            closer: None,
            trouble: None,
            stopping: false,
        };
        Shared { state: Mutex::new(state), changed: Condvar::new(), wake }
    }

    /// Queues an event; one that replaces an earlier one of its kind removes it, so that the queue stays short. A view
    /// comes before terms: whoever is told of a tenure is to know all nodes that were there before.
    fn push(&self, event: ControlEvent) {
        let mut state = lock(&self.state);
        let kind = std::mem::discriminant(&event);
        state.events.retain(|queued| std::mem::discriminant(queued) != kind);
        let is_terms = |queued: &ControlEvent| matches!(queued, ControlEvent::Terms(_));
        let terms = state.events.iter().position(is_terms).filter(|_| matches!(event, ControlEvent::View(_)));
        let place = terms.unwrap_or(state.events.len());
        state.events.insert(place, event);
        drop(state);
        (self.wake)();
    }

    fn settle(&self, answer: Result<R::Welcome, ControlError>) {
        let mut state = lock(&self.state);
        state.registered.get_or_insert(answer);
        drop(state);
        self.changed.notify_all();
        (self.wake)();
    }

    fn is_stopping(&self) -> bool {
        lock(&self.state).stopping
    }

    /// Sleeps, unless and until the member stops.
    fn wait(&self, duration: Duration) {
        let state = lock(&self.state);
        // Timed out or stopping: the caller looks.
        let _ = self.changed.wait_timeout_while(state, duration, |state| !state.stopping);
    }
}

struct Worker<R: Role> {
    shared: Arc<Shared<R>>,
    coordinators: Addresses,
    /// Of each, whether it was asked last without being let in.
    in_vain: Vec<bool>,
    look_up: LookUp,
    /// Which of them is tried or served.
    current: usize,
    registration: R::Registration,
    obey: Obey,
    backoff: Backoff,
    silence: Silence,
    /// When it was last said that a report is longer than any message.
    unsendable_told: Option<Instant>,
}

/// How a connection ended.
enum End {
    Lost,
    Refused(Refusal),
    /// The registration was answered by the end of the connection.
    HungUp,
}

/// Why a registered connection is not served any more.
enum Left<W> {
    Broken,
    /// Another coordinator leads.
    For(Answer<W>),
}

/// For how long it was refused again and again, and when last.
#[derive(Default)]
struct Refusals {
    last: Option<Instant>,
    lasted: Duration,
}

impl Refusals {
    /// It is refused now; for how long it has been. In a long pause it was not refused: nobody may have led.
    fn note(&mut self, now: Instant) -> Duration {
        let pause = self.last.map_or(Duration::ZERO, |last| now - last);
        self.last = Some(now);
        self.lasted += pause.min(REFUSED_AGAIN_WITHIN);
        self.lasted
    }
}

impl<R: Role> Worker<R> {
    fn run(mut self) {
        let mut refusals = Refusals::default();
        let mut told: Option<(Refusal, Instant)> = None;
        let mut hung_up_since: Option<Instant> = None;
        let mut failed_count = 0;
        while !self.shared.is_stopping() {
            let mut was_let_in = false;
            let end = self.connect_and_serve();
            hung_up_since = hung_up_since.filter(|_| matches!(end, Ok(End::HungUp)));
            match end {
                Ok(End::HungUp) => {
                    let since = *hung_up_since.get_or_insert_with(Instant::now);
                    if since.elapsed() > HUNG_UP_FOR_MAX && !self.is_member() {
                        return self.shared.settle(Err(ControlError::HungUp));
                    }
                    self.tell_of("it hangs up, as one of another version may".to_owned());
                    failed_count += 1;
                }
                // Another one leads, or will.
                Ok(End::Refused(Refusal::NotLeading(leader))) => {
                    self.tell_of(format!("it does not lead ({leader})"));
                    failed_count += 1;
                }
                Ok(End::Refused(refusal)) if self.is_member() && !refusal.is_final() => {
                    if told.as_ref().is_none_or(|(of, at)| *of != refusal || at.elapsed() > TOLD_AGAIN_AFTER) {
                        told = Some((refusal.clone(), Instant::now()));
                        self.shared.push(ControlEvent::NotLetIn(refusal));
                    }
                    failed_count += 1;
                }
                Ok(End::Refused(refusal)) => {
                    let is_first = refusals.last.is_none();
                    if !refusal.is_transient() || refusals.note(Instant::now()) > REFUSED_FOR_MAX {
                        return self.give_up(refusal);
                    }
                    if is_first {
                        let seconds = REFUSED_FOR_MAX.as_secs();
                        tracing::warn!("the coordinator refuses: {refusal}; it is asked again for {seconds} s");
                    }
                    failed_count = self.coordinators.0.len();
                }
                Ok(End::Lost) => {
                    (refusals, told) = (Refusals::default(), None);
                    (failed_count, was_let_in) = (0, true);
                    self.shared.push(ControlEvent::Disconnected);
                }
                // Not there: it will be.
                Err(error) => {
                    self.tell_of(error.to_string());
                    failed_count += 1;
                }
            }
            lock(&self.shared.state).closer = None;
            // Who led a moment ago is asked again first: that is told at once if it ceased to, or ended.
            self.current = (self.current + usize::from(!was_let_in)) % self.coordinators.0.len();
            // One after the other without a pause, until all were tried.
            if failed_count == 0 || failed_count >= self.coordinators.0.len() {
                failed_count = 0;
                let wait = self.backoff.next_wait();
                self.shared.wait(wait);
            }
        }
        self.shared.settle(Err(ControlError::Stopped));
    }

    /// Was it let in once?
    fn is_member(&self) -> bool {
        matches!(lock(&self.shared.state).registered, Some(Ok(_)))
    }

    /// A person who waits with it learns why.
    fn tell_of(&mut self, why: String) {
        let place = &self.coordinators.0[self.current];
        let address = &place.address;
        lock(&self.shared.state).trouble = Some(format!("no answer from the coordinator at {place}: {why}"));
        if !self.shared.is_stopping() && self.silence.is_to_be_told(Instant::now(), address, &why) {
            tracing::warn!("no answer from the coordinator at {place}: {why}; it is asked again and again");
        }
    }

    /// What it reports is longer than any message: it is let in again and again, and cannot say how it is.
    fn tell_unsendable(&mut self, error: &io::Error) {
        if error.kind() == ErrorKind::InvalidInput
            && self.unsendable_told.is_none_or(|at| at.elapsed() > TOLD_AGAIN_AFTER)
        {
            self.unsendable_told = Some(Instant::now());
            tracing::error!(
                "the connection with the coordinator is closed, as it cannot be told what it is to know: {error}"
            );
        }
    }

    fn give_up(&self, refusal: Refusal) {
        self.shared.settle(Err(ControlError::Refused(refusal.clone())));
        self.shared.push(ControlEvent::Refused(refusal));
    }

    fn connect_and_serve(&mut self) -> io::Result<End> {
        let (mut stream, mut welcome) = match self.register(self.current)? {
            Ok(registered) => registered,
            Err(end) => return Ok(end),
        };
        loop {
            R::remember(&mut self.registration, &welcome);
            self.backoff.reset();
            if std::mem::take(&mut self.silence).was_told() {
                tracing::warn!("the coordinator at {} answers", self.coordinators.0[self.current]);
            }
            lock(&self.shared.state).trouble = None;
            self.shared.settle(Ok(welcome));
            self.shared.push(ControlEvent::Connected);
            let mut search = None;
            // Whatever breaks the connection, the answer is to connect again.
            let left = self.serve(&mut stream, &mut search).unwrap_or_else(|error| {
                self.tell_unsendable(&error);
                Left::Broken
            });
            let answer = match left {
                Left::For(answer) => Some(answer),
                Left::Broken => {
                    let _ = stream.closer().map(|closer| closer.close());
                    let wait_with = |closer| lock(&self.shared.state).closer = Some(closer);
                    search.filter(|_| !self.shared.is_stopping()).and_then(|search| search.finish::<R>(wait_with))
                }
            };
            let found = match answer {
                Some(Answer::LetIn(found)) => found,
                Some(Answer::Over(refusal)) => return Ok(End::Refused(refusal)),
                None => return Ok(End::Lost),
            };
            self.coordinators.0[found.place].address = found.address;
            self.in_vain[found.place] = false;
            (self.current, stream, welcome) = (found.place, found.stream, found.welcome);
            lock(&self.shared.state).closer = Some(stream.closer()?);
        }
    }

    /// Connects to the coordinator at this place of the list, and says who this is.
    fn register(&mut self, place: usize) -> io::Result<Result<(ControlStream, R::Welcome), End>> {
        let was_in_vain = std::mem::replace(&mut self.in_vain[place], true);
        if was_in_vain {
            // It may have moved, or another one of its name lead.
            self.look_up.begin(&self.coordinators);
            self.look_up.take(&mut self.coordinators, LOOK_UP_MAX);
        }
        let mut stream = ControlStream::connect_at(&mut self.coordinators.0[place], was_in_vain)?;
        lock(&self.shared.state).closer = Some(stream.closer()?);
        let sent = stream.send(&R::register(self.registration.clone()));
        let answer = match sent.and_then(|()| stream.receive()) {
            Err(error) if is_ended(&error) => return Ok(Err(End::HungUp)),
            answer => answer?,
        };
        match R::welcome(answer) {
            Ok(welcome) => {
                self.in_vain[place] = false;
                Ok(Ok((stream, welcome)))
            }
            Err(FromCoordinator::Refused(refusal)) => Ok(Err(End::Refused(refusal))),
            Err(_) => Err(io::Error::other("the coordinator answered something else")),
        }
    }

    /// Heartbeats out, views and orders in, until the connection breaks or another coordinator leads. `search`: the
    /// look round that is under way.
    fn serve(&mut self, stream: &mut ControlStream, search: &mut Option<Search>) -> io::Result<Left<R::Welcome>> {
        let mut heartbeat_due = Instant::now();
        // At first more often, so that a starting cluster is seen to start.
        let mut interval = HURRIED;
        let mut at_hand = AtHand::new(Instant::now());
        while !self.shared.is_stopping() {
            let now = Instant::now();
            if now >= heartbeat_due {
                let status = lock(&self.shared.state).status.clone();
                interval = R::next_within(&status, interval);
                stream.send(&R::status(status))?;
                // It may have waited for room: what is due next is counted from when it left.
                heartbeat_due = Instant::now() + interval;
            }
            let until = if search.is_some() { heartbeat_due.min(now + LISTEN) } else { heartbeat_due };
            let message = stream.receive_until(until)?;
            let has_heard_all = message.is_none();
            match message {
                Some(FromCoordinator::Beat) => at_hand.beats(Instant::now()),
                Some(_) => at_hand.says(Instant::now()),
                None => {}
            }
            match message {
                Some(FromCoordinator::View(view)) => self.shared.push(ControlEvent::View(Arc::unwrap_or_clone(view))),
                Some(FromCoordinator::Served(epochs)) => self.shared.push(ControlEvent::Served(epochs)),
                Some(FromCoordinator::Terms(terms)) => {
                    self.shared.push(ControlEvent::Terms(terms));
                    // What becomes of them is waited for.
                    interval = HURRIED;
                    heartbeat_due = Instant::now() + interval;
                }
                Some(FromCoordinator::Order { number, order }) => {
                    let Obeyed { outcome, chaos } = (self.obey)(*order);
                    stream.send(&ToCoordinator::Obeyed { number, outcome, chaos })?;
                }
                Some(FromCoordinator::Beat) | None => {}
                Some(_) => return Err(io::Error::other("only views, terms, beats and orders were expected")),
            }
            let now = Instant::now();
            // Who stood still itself has beats to read first.
            if search.is_none() && has_heard_all && at_hand.is_late(now) {
                self.look_up.take(&mut self.coordinators, Duration::ZERO);
                *search = Some(Search::new(self.current, &self.coordinators, at_hand.is_to_be_asked(now)));
            }
            let Some(looking) = search else { continue };
            if let Some(answer) = looking.advance::<R>(&self.registration, LISTEN) {
                return Ok(Left::For(answer));
            }
            if looking.is_over() {
                at_hand.looked_round(Instant::now(), looking.does_not_lead());
                if looking.asks_at_hand() {
                    // Who leads may be where nobody was when the name was looked up last.
                    self.look_up.begin(&self.coordinators);
                }
                *search = None;
            }
        }
        Ok(Left::Broken)
    }
}

#[cfg(test)]
mod tests {
    use super::super::NodeRole;
    use super::*;

    #[test]
    fn a_view_comes_before_the_terms_that_were_told_after_the_one_before() {
        let shared = Shared::<NodeRole>::new(Box::new(|| {}));
        let view = |number| ControlEvent::View(View { number, ..View::default() });
        [view(1), ControlEvent::Terms(Vec::new()), view(2)].into_iter().for_each(|event| shared.push(event));
        let queued = std::mem::take(&mut lock(&shared.state).events);
        assert_eq!(Vec::from(queued), [view(2), ControlEvent::Terms(Vec::new())]);
    }

    #[test]
    fn a_pause_in_which_nobody_led_makes_no_moment_of_refusals_a_long_one() {
        let begin = Instant::now();
        let refused_for = |at: &[u64]| {
            let mut refusals = Refusals::default();
            let told = at.iter().map(|&second| refusals.note(begin + Duration::from_secs(second)));
            told.last().expect("some") > REFUSED_FOR_MAX
        };
        assert!(!refused_for(&[0, 30]) && !refused_for(&[0, 30, 30, 30, 31, 32, 33]));
        assert!(refused_for(&(0..12).collect::<Vec<_>>()) && !refused_for(&(0..10).collect::<Vec<_>>()));
        assert!(
            refused_for(&(0..12).map(|round| 7 * round).collect::<Vec<_>>()),
            "also where others are asked between"
        );
    }
}
