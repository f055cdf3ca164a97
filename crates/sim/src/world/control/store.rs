//! The metadata store: holds the records as text, late, and not at all while it is away.
//!
//! ```text
//! Persist --> on its way --Written--> held --Saved--> the coordinator goes on
//!                 '--the coordinator dies: held or lost, as chance has it
//! ```

use shorttail_coordinator::Durable;

use super::{ControlEvent, Event, World};

/// On average, and at most; one in ten takes much longer.
const SAVE_US: u64 = 2_000;
const SAVE_US_MAX: u64 = 40_000;
const SAVE_LONG_US: std::ops::Range<u64> = 50_000..500_000;
const SAVE_LONG_PPM: u32 = 100_000;

#[derive(Default)]
pub(super) struct Store {
    held: Option<String>,
    /// With the life of the coordinator that sent it.
    on_its_way: Option<(u32, String)>,
    pub away_until_us: u64,
}

impl Store {
    /// The records, if there are any.
    ///
    /// # Panics
    /// If what was written cannot be read.
    pub fn read(&self) -> Option<Durable> {
        self.held.as_deref().map(|text| serde_json::from_str(text).expect("the coordinator's own records"))
    }
}

impl World {
    pub(super) fn save(&mut self, durable: &Durable) {
        let text = serde_json::to_string(durable).expect("records are plain data");
        let life = self.control.life;
        self.control.store.on_its_way = Some((life, text));
        let is_long = self.rng.chance_ppm(SAVE_LONG_PPM);
        let delay_us =
            if is_long { self.rng.range(SAVE_LONG_US) } else { self.rng.exponential_us(SAVE_US, SAVE_US_MAX) };
        self.schedule.after(delay_us, Event::Control(ControlEvent::Written { life }));
    }

    pub(super) fn records_written(&mut self, life: u32) {
        let away_until_us = self.control.store.away_until_us;
        if self.schedule.now_us() < away_until_us {
            return self.schedule.at(away_until_us, Event::Control(ControlEvent::Written { life }));
        }
        let store = &mut self.control.store;
        if let Some((_, text)) = store.on_its_way.take_if(|(of, _)| *of == life) {
            store.held = Some(text);
            let delay_us = self.rng.exponential_us(SAVE_US, SAVE_US_MAX);
            self.schedule.after(delay_us, Event::Control(ControlEvent::Saved { life }));
        }
    }

    /// Whoever sent records is gone.
    pub(super) fn settle_store(&mut self) {
        let was_written = self.rng.chance_ppm(500_000);
        let store = &mut self.control.store;
        if let Some((_, text)) = store.on_its_way.take().filter(|_| was_written) {
            store.held = Some(text);
        }
    }
}
