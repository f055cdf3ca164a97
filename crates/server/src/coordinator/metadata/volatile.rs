//! No store at all: the cluster ends with its coordinator.

use shorttail_coordinator::Durable;

use super::{Campaign, Changed, Lease, Metadata, State, Trouble};

pub struct Volatile;

impl Metadata for Volatile {
    /// Nobody else can lead.
    fn watch(&mut self, _: Changed) -> anyhow::Result<()> {
        Ok(())
    }

    fn campaign(&mut self) -> Result<Campaign, Trouble> {
        Ok(Campaign::Won { lease: None, news: Some(State::NewCluster) })
    }

    fn renew(&mut self) -> Result<Lease, Trouble> {
        Ok(None)
    }

    fn save(&mut self, _: &Durable) -> Result<(), Trouble> {
        Ok(())
    }

    fn resign(&mut self) {}
}
