//! What this coordinator does when it begins to lead, or another one does.

use std::time::Instant;

use anyhow::Context;
use shorttail_coordinator::DurableChoice;
use shorttail_coordinator::candidate::{News, State};

use super::Server;
use super::chronicle::Chronicle;
use crate::random::random_u64;

const STORE_SILENT: &str = "it does not answer";

impl Server {
    pub(super) fn leads(&self) -> bool {
        self.seat.leads(self.now().mono_us)
    }

    /// For members and people that this coordinator is of no use to.
    pub(super) fn who_leads(&self) -> String {
        match (self.store_problem(), &self.about.leader) {
            (Some(problem), _) => format!("the metadata store cannot be used ({problem})"),
            (None, Some(leader)) => format!("{leader}, does"),
            (None, None) => "it is not known yet who does".to_owned(),
        }
    }

    /// Why an order is not taken now: what waits for the store would be done when it is back, whatever is so by then
    /// and although whoever gave the order was told nothing.
    pub(super) fn why_no_orders(&self) -> Option<String> {
        if self.seat.takes_members(self.now().mono_us) {
            return None;
        }
        Some(match self.seat.machine() {
            None => format!("not leading: {}", self.who_leads()),
            Some(_) => self.who_leads(),
        })
    }

    /// Why the metadata store cannot be used at present, if so. It said so; or it hangs, as a disk may: this leader's
    /// lease is over, or what it wants saved takes longer than members are let wait.
    pub(super) fn store_problem(&self) -> Option<String> {
        let is_silent = || self.seat.machine().is_some() && !self.seat.takes_members(self.now().mono_us);
        self.about.metadata_problem.clone().or_else(|| is_silent().then(|| STORE_SILENT.to_owned()))
    }

    /// # Errors
    /// When this is another cluster than was asked for.
    pub(super) fn handle_news(&mut self, news: News) -> anyhow::Result<()> {
        let is_bad = match &news {
            News::Away(_) | News::Resigned(_) => true,
            // To renew the lease is little: what was saved tells.
            News::Renewed { .. } => self.seat.waits_for_store(),
            _ => false,
        };
        if !is_bad && self.about.metadata_problem.take().is_some() {
            tracing::warn!("the metadata store can be used again");
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
            News::Follows { leader, choice } => self.follow(leader, choice.as_ref())?,
            News::Resigned(problem) => {
                tracing::error!(problem, "the metadata store takes nothing of this coordinator; another one may lead");
                self.end_reign();
                self.about.leader = None;
                self.about.metadata_problem = Some(problem);
            }
            News::Away(problem) => {
                if self.about.metadata_problem.is_none() {
                    tracing::warn!(problem, "the metadata store cannot be used; what must be saved waits");
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
        self.chronicle = self.seat.machine().map(|machine| Chronicle::begin(Instant::now(), &machine.view()));
        self.put_out();
        Ok(())
    }

    /// # Errors
    /// When the cluster was made with something else than this coordinator was told: it could never lead.
    fn follow(&mut self, leader: Option<String>, choice: Option<&DurableChoice>) -> anyhow::Result<()> {
        if self.end_reign() {
            tracing::warn!(leader, "another coordinator leads now; members are sent away");
        } else if leader != self.about.leader {
            tracing::info!(leader, "stands by");
        }
        self.about.leader = leader;
        choice.map_or(Ok(()), |choice| self.seat.check(choice)).map_err(anyhow::Error::msg)
    }

    /// Members of an earlier reign find the one that leads by themselves; whoever waits for an order is told by the
    /// end of its channel.
    fn end_reign(&mut self) -> bool {
        let has_reigned = self.seat.end_reign();
        self.chronicle = None;
        if has_reigned {
            self.connections.clear();
            self.ordered.clear();
        }
        has_reigned
    }
}
