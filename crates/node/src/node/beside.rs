//! The core's part of what is done beside it: it passes orders on, takes what comes of them, and finds the chunks that
//! other nodes want.
//!
//! Must not know: threads, how a chunk is rebuilt or given.

use shorttail_store::{NearReader, NearWriter};

use super::Node;
use crate::background::{Background, FromBackground, ToBackground};
use crate::config::Pace;
use crate::giver::Giver;
use crate::rebuild::{Content, Rebuilds, Rebuilt};
use crate::session::{Phase, Session};

impl Node {
    /// Before the first input: what rebuilds for this core, which refuses orders without, and gives its chunks. Where
    /// the core's memory cannot be read beside it (`reader`) it makes copies; where it cannot be written (`writer`) it
    /// is handed what was rebuilt.
    pub fn background(
        &mut self,
        reader: Option<Box<dyn NearReader>>,
        writer: Option<Box<dyn NearWriter>>,
    ) -> Background {
        (self.rebuilding.is_begun, self.rebuilding.has_no_room) = (true, writer.is_none());
        let rebuilds = Rebuilds::new(self.config.clone(), writer);
        Background::new(rebuilds, Giver::new(self.config.clone(), self.near.clone(), reader))
    }

    /// From now on this fast, also what was ordered before.
    pub fn set_pace(&mut self, pace: Pace) {
        self.config.pace = pace;
        self.scrubber.set_pace(pace.scrub_bytes_per_s);
        self.rebuilding.said.push_back(ToBackground::RepairPace(pace.repair_bytes_per_s));
    }

    /// Takes what the background says. What other nodes want waits for the end of the turn.
    pub fn handle_background(&mut self, said: FromBackground) {
        match said {
            FromBackground::Rebuilt(rebuilt) => {
                self.rebuilding.order_count -= 1;
                self.settle(rebuilt);
            }
            FromBackground::Forgotten(rooms) => {
                self.rebuilding.order_count -= rooms.len();
                rooms.into_iter().flatten().for_each(|room| self.holdings.store.give_back(room));
            }
            FromBackground::Wanted(wanted) => self.wanted.push(wanted),
            FromBackground::Damaged(stripe) => _ = self.holdings.store.look_at(stripe),
            FromBackground::MessagesDamaged(count) => self.holdings.stats.messages_damaged += count,
            FromBackground::Spent(sources) => drop(sources),
        }
    }

    /// Last in a turn, as what other nodes want waits for whatever else there is: tells the background what there is to
    /// say. Is it to be woken?
    pub fn serve_background(&mut self, mut tell: impl FnMut(ToBackground)) -> bool {
        let has_said = !self.rebuilding.said.is_empty();
        self.rebuilding.said.drain(..).for_each(&mut tell);
        self.wanted.find(&self.holdings.store, |found| tell(ToBackground::Found(found))) || has_said
    }

    /// Are chunks wanted that there was no time for? Then the next turn is to follow at once.
    pub fn has_wanted(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Installs what was rebuilt, and tells who ordered it; if it is not wanted any more, it has no effect.
    fn settle(&mut self, rebuilt: Rebuilt) {
        let Rebuilt { session, description, outcome, unused } = rebuilt;
        unused.into_iter().for_each(|room| self.holdings.store.give_back(room));
        let counts = self.holdings.orders.end(session, &description);
        let is_there = |open: &&mut Session| counts && matches!(open.phase, Phase::Serving { .. });
        let Some(open) = self.sessions.get_mut(&session).filter(is_there) else {
            if let Ok(Content::Written(room, _)) = outcome {
                self.holdings.store.give_back(room);
            }
            return;
        };
        let installed = outcome.and_then(|content| {
            let installed = match content {
                Content::Written(room, written) => self.holdings.install_written(&description, room, written),
                Content::Held { bytes, last } => {
                    let installed = self.holdings.install_rebuilt(&description, &bytes, last);
                    self.rebuilding.said.push_back(ToBackground::Buffer(bytes));
                    installed
                }
            };
            installed.map_err(|refusal| (refusal, None))
        });
        self.holdings.stats.rebuild_failures += u64::from(installed.is_err());
        self.holdings.tell_rebuilt(description.stripe, installed, open);
        self.written.push(session);
    }
}
