//! What this coordinator does when it begins to lead, or another one does.

use std::io::Read;

use anyhow::Context;
use shorttail_coordinator::candidate::{News, State};

use super::Server;

impl Server {
    pub(super) fn leads(&self) -> bool {
        self.seat.leads(self.now().mono_us)
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
    /// When this is another cluster than was asked for.
    pub(super) fn handle_news(&mut self, news: News) -> anyhow::Result<()> {
        if !matches!(news, News::Away(_)) && self.about.metadata_problem.take().is_some() {
            tracing::warn!("the metadata store answers again");
        }
        match news {
            News::Leads { reign, state, until_us } => self.begin_reign(reign, state, until_us)?,
            News::Renewed { until_us } => {
                self.seat.renew(until_us);
                if self.seat.machine().is_some() {
                    self.about.leader = Some(self.about.name.clone());
                }
            }
            News::Saved { reign } => {
                self.seat.handle_saved(reign);
                self.put_out();
            }
            News::Follows { leader } => self.follow(leader),
            News::Away(problem) => {
                if self.about.metadata_problem.is_none() {
                    tracing::warn!(problem, "the metadata store does not answer; what must be saved waits");
                }
                self.about.metadata_problem = Some(problem);
            }
        }
        Ok(())
    }

    fn begin_reign(&mut self, number: u64, state: State, until_us: Option<u64>) -> anyhow::Result<()> {
        self.end_reign();
        let is_new = state == State::NewCluster;
        let identity = random_u64().context("cannot draw the identity of a new cluster")?;
        let now = self.now();
        let epoch = self.seat.begin_reign(now, number, state, identity, until_us).map_err(anyhow::Error::msg)?;
        tracing::info!(coordinator = self.about.name, epoch, is_new, "leads");
        self.about.leader = Some(self.about.name.clone());
        self.put_out();
        Ok(())
    }

    fn follow(&mut self, leader: Option<String>) {
        if self.end_reign() {
            tracing::warn!(leader, "another coordinator leads now; members are sent away");
        } else if leader != self.about.leader {
            tracing::info!(leader, "stands by");
        }
        self.about.leader = leader;
    }

    /// Members of an earlier reign find the one that leads by themselves; whoever waits for an order is told by the
    /// end of its channel.
    fn end_reign(&mut self) -> bool {
        let has_reigned = self.seat.end_reign();
        if has_reigned {
            self.connections.clear();
            self.ordered.clear();
        }
        has_reigned
    }
}

/// From the system's generator.
fn random_u64() -> std::io::Result<u64> {
    let mut bytes = [0; 8];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}
