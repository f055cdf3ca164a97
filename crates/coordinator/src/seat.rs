//! The machine's place in a coordinator's process: there is one while this coordinator leads, and until it hears that
//! another one does.
//!
//! ```text
//!             stands by            leads                     store away, lease over
//! members     sent to the leader   welcome; beats            those that are there stay, without beats
//! persists                         at once                   wait; so does what would be sent after them
//! dead nodes                       given up in time          not given up; that time does not count
//! ```
//!
//! What the machine puts out after a `Persist` leaves when the store has it.
//!
//! Must not know: what the machine decides, or how the store is asked.

use shorttail_units::Now;
use shorttail_wire::control::ToCoordinator;

use crate::candidate::State;
use crate::coordinator::{Coordinator, Input, Output, Settings};
use crate::durable::{Durable, DurableChoice};

/// Microseconds after which a save is waiting for the store: new members are better told than kept waiting, and what
/// those that stay are to know is told once it is saved, or it would heap up.
const SAVING_LONG_US: u64 = 1_000_000;

/// The time from when this coordinator was found to lead until another one is.
struct Reign {
    number: u64,
    machine: Coordinator,
    /// When the lease ends, by the own clock, unless it is renewed; `None`: never.
    until_us: Option<u64>,
    /// The state of a new cluster, which is saved before anything else.
    first: Option<Durable>,
    /// Since when a state is on its way to the store; what the machine puts out after it waits.
    saving_since_us: Option<u64>,
}

impl Reign {
    fn lasts(&self, now_us: u64) -> bool {
        self.until_us.is_none_or(|until_us| now_us < until_us)
    }

    fn waits_long(&self, now_us: u64) -> bool {
        self.saving_since_us.is_some_and(|since_us| now_us - since_us > SAVING_LONG_US)
    }
}

pub struct Seat {
    /// With as many partitions as a new cluster gets.
    settings: Settings,
    partitions_wanted: Option<u16>,
    reign: Option<Reign>,
    /// The last epoch of all its reigns: a state that was put back from a backup may be older.
    epoch_known: u32,
}

impl Seat {
    pub fn new(settings: Settings, partitions_wanted: Option<u16>) -> Self {
        Seat { settings, partitions_wanted, reign: None, epoch_known: 0 }
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// This coordinator leads from this state on; the identity is that of a cluster that is new. Returns the last
    /// epoch.
    ///
    /// # Errors
    /// The cluster was made otherwise than it is to be.
    pub fn begin_reign(
        &mut self,
        now: Now,
        number: u64,
        state: State,
        identity: u64,
        until_us: Option<u64>,
    ) -> Result<u32, String> {
        self.end_reign();
        let is_new = state == State::NewCluster;
        let mut durable = match state {
            State::Known(durable) => durable,
            State::NewCluster => Durable::new(identity),
        };
        let settings = &self.settings;
        let partition_count = durable.settle(settings.code, self.partitions_wanted, settings.partition_count)?;
        let settings = Settings { partition_count, ..settings.clone() };
        durable.epoch = durable.epoch.max(self.epoch_known);
        let (epoch, first) = (durable.epoch, is_new.then(|| durable.clone()));
        let machine = Coordinator::new(now, settings, durable);
        self.reign = Some(Reign { number, machine, until_us, first, saving_since_us: None });
        Ok(epoch)
    }

    /// Could this coordinator lead a cluster that was made with this?
    ///
    /// # Errors
    /// It was made otherwise than it is to be.
    pub fn check(&self, choice: &DurableChoice) -> Result<(), String> {
        choice.check(self.settings.code, self.partitions_wanted)
    }

    /// It goes on to lead.
    pub fn renew(&mut self, until_us: Option<u64>) {
        if let Some(reign) = &mut self.reign {
            reign.until_us = until_us;
        }
    }

    /// What was given out last to be saved is in the store.
    pub fn handle_saved(&mut self, number: u64) {
        if let Some(reign) = self.reign.as_mut().filter(|reign| reign.number == number) {
            reign.saving_since_us = None;
            reign.machine.hold(false);
        }
    }

    /// Another one leads; was it this one until now?
    pub fn end_reign(&mut self) -> bool {
        let ended = self.reign.take();
        self.epoch_known = ended.as_ref().map_or(0, |reign| reign.machine.epoch()).max(self.epoch_known);
        ended.is_some()
    }

    /// The number of the reign, under which is saved.
    pub fn reign_number(&self) -> Option<u64> {
        self.reign.as_ref().map(|reign| reign.number)
    }

    pub fn machine(&self) -> Option<&Coordinator> {
        self.reign.as_ref().map(|reign| &reign.machine)
    }

    /// Surely: nobody else can.
    pub fn leads(&self, now_us: u64) -> bool {
        self.reign.as_ref().is_some_and(|reign| reign.lasts(now_us))
    }

    /// Can new members be let in? What they are told may have to be saved first.
    pub fn takes_members(&self, now_us: u64) -> bool {
        self.leads(now_us) && !self.reign.as_ref().is_some_and(|reign| reign.waits_long(now_us))
    }

    /// Does this ask to let somebody in who is here on another connection, while the answer would wait for the store?
    /// By then it may have left the new connection and lost the one that it has: it is to ask again.
    pub fn is_to_ask_again(&self, message: &ToCoordinator) -> bool {
        let waits = |machine: &Coordinator| self.waits_for_store() || machine.is_to_save();
        self.machine().is_some_and(|machine| waits(machine) && machine.is_here(message))
    }

    /// Is a state on its way to the store?
    pub fn waits_for_store(&self) -> bool {
        self.reign.as_ref().is_some_and(|reign| reign.saving_since_us.is_some())
    }

    /// Gives the machine an input, if there is one.
    pub fn handle(&mut self, now: Now, input: Input) {
        if let Some(reign) = &mut self.reign {
            reign.machine.hold(reign.waits_long(now.mono_us));
            reign.machine.set_leading(reign.lasts(now.mono_us));
            reign.machine.handle(now, input);
        }
    }

    /// What is to be done next, as far as everything before it is saved.
    pub fn poll_output(&mut self, now_us: u64) -> Option<Output> {
        let reign = self.reign.as_mut().filter(|reign| reign.saving_since_us.is_none())?;
        let output = reign.first.take().map(Output::Persist).or_else(|| reign.machine.poll_output());
        if matches!(output, Some(Output::Persist(_))) {
            reign.saving_since_us = Some(now_us);
        }
        output
    }

    /// Monotonic microseconds at which `Input::Deadline` is due.
    pub fn poll_deadline(&self) -> Option<u64> {
        self.machine()?.poll_deadline()
    }
}
