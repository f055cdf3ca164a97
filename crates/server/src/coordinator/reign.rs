//! Whether this coordinator leads, and what it does when that changes.

use std::io::Read;
use std::time::{Duration, Instant};

use anyhow::Context;
use shorttail_coordinator::{Coordinator, Durable, Settings};

use super::Server;
use super::metadata::State;
use super::metadata::keeper::News;

/// A save that takes longer is waiting for the store: new members are better told than kept waiting. Bounds what the
/// machine puts out meanwhile, as members that stay say nothing that is answered.
const SAVING_LONG: Duration = Duration::from_secs(1);

/// The time from when this coordinator was found to lead until another one is.
pub struct Reign {
    pub number: u64,
    pub machine: Coordinator,
    /// When the lease ends, by the own clock, unless it is renewed; `None`: never.
    pub until: Option<Instant>,
    /// A state is on its way to the store; what the machine puts out after it waits.
    pub saving_since: Option<Instant>,
}

impl Reign {
    /// Surely: nobody else can.
    pub fn leads(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| now < until)
    }
}

impl Server {
    pub(super) fn leads(&self) -> bool {
        self.reign.as_ref().is_some_and(|reign| reign.leads(Instant::now()))
    }

    /// Can new members be let in? What they are told may have to be saved first.
    pub(super) fn takes_members(&self) -> bool {
        let now = Instant::now();
        let waits = |reign: &Reign| reign.saving_since.is_some_and(|since| now - since > SAVING_LONG);
        self.reign.as_ref().is_some_and(|reign| reign.leads(now) && !waits(reign))
    }

    /// For members and people that this coordinator is of no use to.
    pub(super) fn who_leads(&self) -> String {
        match (&self.about.metadata_problem, &self.about.leader) {
            (Some(problem), _) => format!("the metadata store does not answer ({problem})"),
            (None, Some(leader)) => format!("{leader}, does"),
            (None, None) => "it is not known yet who does".to_owned(),
        }
    }

    /// # Errors
    /// When the store can never be used again.
    pub(super) fn handle_news(&mut self, news: News) -> anyhow::Result<()> {
        if !matches!(news, News::Away(_)) && self.about.metadata_problem.take().is_some() {
            tracing::warn!("the metadata store answers again");
        }
        match news {
            News::Leads { reign, state, until } => self.begin_reign(reign, state, until)?,
            News::Renewed { until } => {
                if let Some(reign) = &mut self.reign {
                    reign.until = until;
                    self.about.leader = Some(self.about.name.clone());
                }
            }
            News::Saved { reign } => {
                if let Some(reign) = self.reign.as_mut().filter(|current| current.number == reign) {
                    reign.saving_since = None;
                    self.put_out();
                }
            }
            News::Follows { leader } => self.follow(leader),
            News::Away(problem) => {
                if self.about.metadata_problem.is_none() {
                    tracing::warn!(problem, "the metadata store does not answer; what must be saved waits");
                }
                self.about.metadata_problem = Some(problem);
            }
            News::Fatal(error) => return Err(error),
        }
        Ok(())
    }

    fn begin_reign(&mut self, number: u64, state: State, until: Option<Instant>) -> anyhow::Result<()> {
        self.end_reign();
        let (mut durable, is_new) = match state {
            State::Known(durable) => (durable, false),
            State::NewCluster => {
                (Durable::new(random_u64().context("cannot draw the identity of a new cluster")?), true)
            }
        };
        let settings = &self.settings;
        let partition_count = durable
            .settle(settings.code, self.partitions_wanted, settings.partition_count)
            .map_err(anyhow::Error::msg)?;
        tracing::info!(coordinator = self.about.name, epoch = durable.epoch, is_new, "leads");
        let saving_since = is_new.then(Instant::now);
        if is_new {
            self.keeper.save(number, durable.clone());
        }
        let settings = Settings { partition_count, ..self.settings.clone() };
        let machine = Coordinator::new(self.now(), settings, durable);
        self.reign = Some(Reign { number, machine, until, saving_since });
        self.about.leader = Some(self.about.name.clone());
        Ok(())
    }

    fn follow(&mut self, leader: Option<String>) {
        if self.reign.is_some() {
            tracing::warn!(leader, "another coordinator leads now; members are sent away");
        } else if leader != self.about.leader {
            tracing::info!(leader, "stands by");
        }
        self.end_reign();
        self.about.leader = leader;
    }

    /// Members of an earlier reign find the one that leads by themselves; whoever waits for an order is told by the
    /// end of its channel.
    fn end_reign(&mut self) {
        if self.reign.take().is_some() {
            self.connections.clear();
            self.ordered.clear();
        }
    }
}

/// From the system's generator.
fn random_u64() -> std::io::Result<u64> {
    let mut bytes = [0; 8];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}
