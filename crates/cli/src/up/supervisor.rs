//! Starts the children, waits until they serve, and reports and replaces what dies.
//!
//! A dead coordinator or gateway is started again: both lose nothing but time (what a gateway owned, the others serve
//! meanwhile, and it gets its share back). A dead node is reported only, unless the user asked otherwise, or it has its
//! memory in a file: else its memory is gone, and a new process under its number ends the hope for the old one. One
//! that was removed from the cluster is never started again.
//!
//! Once the cluster serves, nothing that fails here ends those that run.

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use shorttail_server::config::{ConfigError, ConfigFile, LogLevel, UpConfig, UpOptions};
use shorttail_wire::control::{ClusterStatus, GatewayStatusEntry, NodeState};

use super::child::{RunningChild, describe};
use super::plan::{Part, Plan};
use super::probe::{Found, NodesLeft, Probes, Wanted};
use super::problems::Problems;
use super::repairs::{self, Repairs};
use super::screen::Screen;
use super::silent::{News, Silent};
use super::{banner, feasible, probe};
use crate::exit::{Failure, REMOVED};
use crate::reload::log_level;
use crate::{lines, logging};

/// A cluster of 256 nodes on two busy cores is there in half of it.
const START_WITHIN: Duration = Duration::from_secs(60);
/// A child that was started again and ends sooner than this is started again only after [`RESTART_PAUSE`].
const SHORT_LIFE: Duration = Duration::from_secs(2);
const RESTART_PAUSE: Duration = Duration::from_secs(1);
/// For children to end by themselves once told.
const STOP_WITHIN: Duration = Duration::from_secs(1);
const STOP_POLL: Duration = Duration::from_millis(5);

/// What the main thread waits for.
pub enum Event {
    /// A signal to end.
    End,
    /// A signal to read the configuration again.
    Reload,
    /// Some child ended, or stopped, or went on.
    ChildChanged,
    /// Does the cluster serve? By the probe of this number.
    Probed { number: u64, found: Found },
    /// How the cluster is.
    Looked(Box<ClusterStatus>),
}

struct Member {
    part: Part,
    child: Option<RunningChild>,
    started: Instant,
    start_count: usize,
    restart_at: Option<Instant>,
    /// Why it cannot be started again, as was said.
    trouble: Option<String>,
    /// A gateway's number: the coordinator gives each process its own.
    gateway_id: Option<u16>,
    /// A node that is no part of the cluster any more.
    is_removed: bool,
}

/// Where the configuration came from.
pub struct Source {
    pub file: Option<PathBuf>,
    /// What flags and environment say.
    pub options: UpOptions,
    pub log: Option<LogLevel>,
}

/// All children of one run.
pub struct Supervisor {
    plan: Plan,
    source: Source,
    members: Vec<Member>,
    tell: Sender<Event>,
    events: Receiver<Event>,
    probes: Probes,
    is_ready: bool,
    repairs: Repairs,
    problems: Problems,
    silent: Silent,
    screen: Screen,
}

impl Supervisor {
    pub fn new(plan: Plan, source: Source, tell: Sender<Event>, events: Receiver<Event>) -> Self {
        Supervisor {
            plan,
            source,
            members: Vec::new(),
            tell,
            events,
            probes: Probes::default(),
            is_ready: false,
            repairs: Repairs::default(),
            problems: Problems::default(),
            silent: Silent::default(),
            screen: Screen::new(),
        }
    }

    /// Runs the cluster until a signal ends it.
    ///
    /// # Errors
    /// When it does not come to serve.
    pub fn run(&mut self) -> anyhow::Result<()> {
        self.plan.write_children_file().context("cannot write the children's file")?;
        for part in self.plan.parts() {
            self.members.push(Member::new(part));
            self.start(self.members.len() - 1)?;
        }
        self.probe()?;
        loop {
            match self.next_event()? {
                Some(Event::End) => return Ok(()),
                Some(Event::Reload) => self.reload(),
                Some(Event::ChildChanged) => self.reap()?,
                Some(Event::Probed { number, found }) if self.probes.is_last(number) => self.handle_found(found)?,
                Some(Event::Probed { .. }) => {}
                Some(Event::Looked(status)) => self.handle_look(&status),
                None => self.restart_due()?,
            }
        }
    }

    /// Ends all children: asks first, then kills what is left.
    pub fn stop(&mut self) {
        let mut running: Vec<RunningChild> = self.members.iter_mut().filter_map(|member| member.child.take()).collect();
        running.iter().for_each(RunningChild::interrupt);
        let deadline = Instant::now() + STOP_WITHIN;
        while !running.is_empty() && Instant::now() < deadline {
            running.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
            if !running.is_empty() {
                std::thread::sleep(STOP_POLL);
            }
        }
        // Dropping kills.
        drop(running);
    }

    /// Reads the file again and passes on what may change while the children run.
    fn reload(&mut self) {
        match self.read_again() {
            Ok(changed) if changed.is_empty() => self.screen.say("the configuration was read again"),
            Ok(changed) => {
                self.screen.say(&format!("the configuration was read again; at the next start change: {changed}"));
            }
            Err(failure) => {
                self.screen.erase();
                _ = failure.report();
            }
        }
    }

    /// Settings that change only at the next start, for people.
    pub(super) fn read_again(&mut self) -> Result<String, Failure> {
        let (level, config) = self.read_settings().map_err(|error| {
            Failure::Usage(format!("{error}\nnothing was changed: the cluster runs on as it was configured before"))
        })?;
        self.plan.log = level;
        logging::set(level);
        let changed = self.plan.config.take_live(config);
        self.plan.write_children_file().context("cannot write the children's file")?;
        self.members.iter().filter_map(|member| member.child.as_ref()).for_each(RunningChild::reload);
        Ok(changed.join(", "))
    }

    fn read_settings(&self) -> Result<(LogLevel, UpConfig), ConfigError> {
        let file = ConfigFile::read(self.source.file.as_deref())?;
        Ok((log_level(self.source.log, &file), self.source.options.clone().or(file.up).resolve()?))
    }

    fn next_event(&self) -> anyhow::Result<Option<Event>> {
        let Some(at) = self.members.iter().filter_map(|member| member.restart_at).min() else {
            return Ok(Some(self.events.recv().context("the signal thread ended")?));
        };
        match self.events.recv_timeout(at.saturating_duration_since(Instant::now())) {
            Ok(event) => Ok(Some(event)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => bail!("the signal thread ended"),
        }
    }

    fn start(&mut self, index: usize) -> anyhow::Result<()> {
        let name = self.name(index);
        let member = &mut self.members[index];
        let child = RunningChild::start(self.plan.command(member.part));
        member.child = Some(child.with_context(|| format!("cannot start {name}"))?);
        member.gateway_id = None;
        member.started = Instant::now();
        member.start_count += 1;
        member.restart_at = None;
        if member.trouble.take().is_some() {
            self.screen.say(&format!("{name} was started"));
        }
        Ok(())
    }

    /// Once the cluster serves, what fails is said and no more: it must not end those that run.
    fn bear<T>(&mut self, result: anyhow::Result<T>) -> anyhow::Result<Option<T>> {
        match result {
            Ok(found) => Ok(Some(found)),
            Err(error) if self.is_ready => {
                self.screen.say(&format!("{error:#}"));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn probe(&mut self) -> anyhow::Result<()> {
        let begun = self.begin_probe();
        self.bear(begun).map(drop)
    }

    fn begin_probe(&self) -> anyhow::Result<()> {
        let gateways = self.members.iter().filter(|member| matches!(member.part, Part::Gateway(_)));
        let gateway_pids = gateways.filter_map(|member| Some(member.child.as_ref()?.pid())).collect();
        let nodes = self.members.iter().filter(|member| is_node(member.part) && !member.is_removed);
        let node_count = if self.is_ready { 0 } else { nodes.count() };
        let wanted = Wanted { gateway_pids, node_count, within: START_WITHIN };
        probe::start(self.plan.coordinator(), wanted, &self.probes, self.tell.clone()).context("cannot start a thread")
    }

    /// Tells who does not answer, what becomes of lost chunks, and what else is wrong.
    fn handle_look(&mut self, status: &ClusterStatus) {
        self.tell_silent(status);
        let lines = self.repairs.note(Instant::now(), status);
        lines.iter().chain(&self.problems.note(&status.problems)).for_each(|line| self.screen.say(line));
        self.screen.show(self.repairs.progress(status));
    }

    fn tell_silent(&mut self, status: &ClusterStatus) {
        let pids = self.members.iter().map(|member| member.child.as_ref().map(RunningChild::pid)).collect::<Vec<_>>();
        let News { silent, back } = self.silent.note(&pids.iter().copied().flatten().collect(), status);
        for (index, pid) in pids.into_iter().enumerate() {
            let Some(pid) = pid else { continue };
            let name = self.name(index);
            if silent.contains(&pid) {
                let left = probe::left(status, pid).told(self.plan.config.code);
                let left = if is_node(self.members[index].part) { format!("; {left}") } else { String::new() };
                self.screen.say(&format!("{name} (pid {pid}) does not answer, though its process runs{left}"));
            } else if back.contains(&pid) {
                self.screen.say(&format!("{name} (pid {pid}) answers again"));
            }
        }
    }

    fn handle_found(&mut self, found: Found) -> anyhow::Result<()> {
        match found {
            Found::Serving(status) => self.handle_serving(&status)?,
            Found::Waiting(status) => self.handle_waiting(status.as_deref()),
            Found::NotServing(status) => self.handle_not_serving(status.as_deref())?,
        }
        Ok(())
    }

    fn handle_serving(&mut self, status: &ClusterStatus) -> anyhow::Result<()> {
        let is_new = self.note_gateways(status);
        if self.is_ready {
            let only = self.gateways_by_place(status).pop().filter(|_| self.plan.config.gateway_count == 1);
            let line = match only {
                Some(gateway) => format!("the gateway serves again (pid {}, epoch {})", gateway.pid, gateway.epoch),
                None => {
                    let new: Vec<String> = is_new.into_iter().map(|index| self.name(index)).collect();
                    format!("all gateways serve again; new: {}", new.join(", "))
                }
            };
            self.screen.say(&line);
            return Ok(());
        }
        self.is_ready = true;
        if !feasible::problems(&self.plan.config).is_empty() {
            // These, in the words of who asked for it.
            self.problems = Problems::knowing(&status.problems);
        }
        let gateways = self.gateways_by_place(status);
        let program = std::env::args().next().unwrap_or_else(|| "shorttail".to_owned());
        self.screen.say(&banner::lines(&self.plan.config, status, &gateways, &program));
        shorttail_server::footprint::drop_unused_pages();
        // What was any free port is this port from now on, also for a gateway that takes over.
        let port = |address: &Option<String>| address.as_ref().and_then(|address| address.parse().ok());
        let found: Vec<_> = gateways.iter().map(|gateway| (port(&gateway.memcached), port(&gateway.redis))).collect();
        self.plan.config.admin = port(&status.coordinator.admin).or(self.plan.config.admin);
        for (known, (memcached, redis)) in self.plan.client_addresses.iter_mut().zip(found) {
            *known = (memcached.or(known.0), redis.or(known.1));
        }
        let tell = self.tell.clone();
        let look = move |status| tell.send(Event::Looked(status)).is_ok();
        let begun = repairs::start(self.plan.coordinator(), look).context("cannot start a thread that looks at repair");
        self.bear(begun).map(drop)
    }

    /// Keeps the numbers that gateways have in the status; which members' were not known.
    fn note_gateways(&mut self, status: &ClusterStatus) -> Vec<usize> {
        let mut noted = Vec::new();
        for (index, member) in self.members.iter_mut().enumerate() {
            let pid = member.child.as_ref().map(RunningChild::pid);
            let is_gateway = matches!(member.part, Part::Gateway(_)) && member.gateway_id.is_none();
            let found = status.gateways.iter().find(|gateway| is_gateway && Some(gateway.pid) == pid);
            if let Some(gateway) = found {
                member.gateway_id = Some(gateway.id);
                noted.push(index);
            }
        }
        noted
    }

    /// The gateways of the status, in the order of their places.
    fn gateways_by_place<'a>(&self, status: &'a ClusterStatus) -> Vec<&'a GatewayStatusEntry> {
        let own = self.members.iter().filter(|member| matches!(member.part, Part::Gateway(_)));
        let pids = own.filter_map(|member| Some(member.child.as_ref()?.pid()));
        pids.filter_map(|pid| status.gateways.iter().find(|gateway| gateway.pid == pid)).collect()
    }

    fn handle_waiting(&self, status: Option<&ClusterStatus>) {
        if !self.is_ready {
            lines::warn(&format!("shorttail: still waiting: {}", self.found(status)));
            self.reasons(status).iter().for_each(|reason| lines::warn(&format!("shorttail: {reason}")));
        }
    }

    /// Why the cluster does not serve yet, as far as the coordinator knows.
    pub(super) fn reasons(&self, status: Option<&ClusterStatus>) -> Vec<String> {
        let Some(status) = status.filter(|status| !status.is_standby()) else { return Vec::new() };
        let away: Vec<_> = status.nodes.iter().filter(|node| !node.state.is_alive()).collect();
        let problems = status.problems.iter().map(|problem| format!("problem: {problem}"));
        problems.chain(banner::not_started(&away)).collect()
    }

    /// How far the cluster is.
    pub(super) fn found(&self, status: Option<&ClusterStatus>) -> String {
        let Some(status) = status else {
            let place = self.plan.config.metadata.metadata.as_ref();
            let place = place.map_or_else(String::new, |place| format!(" (--metadata {place}: can it be reached?)"));
            return format!("the coordinator does not answer{place}");
        };
        if let Some(problem) = &status.coordinator.metadata_problem {
            return format!("the metadata store {} cannot be used ({problem})", status.coordinator.metadata);
        }
        if let Some(leader) = status.coordinator.leader.as_ref().filter(|_| status.is_standby()) {
            return format!("the coordinator stands by, since {leader}, leads this cluster");
        }
        let normal = status.nodes.iter().filter(|node| node.state == NodeState::Normal).count();
        format!(
            "{normal} of {} nodes and {} gateway(s) are there, {} of {} partitions are served",
            status.nodes_expected,
            status.gateways.len(),
            status.partitions_served,
            status.partitions
        )
    }

    fn handle_not_serving(&mut self, status: Option<&ClusterStatus>) -> anyhow::Result<()> {
        let found = self.found(status);
        if !self.is_ready {
            let why: String = self.reasons(status).iter().map(|reason| format!("\n{reason}")).collect();
            bail!("the cluster does not serve after {} s: {found}{why}", START_WITHIN.as_secs());
        }
        self.screen.erase();
        lines::warn(&format!("shorttail: not all gateways serve again yet: {found}"));
        self.probe()
    }

    /// Finds out who ended.
    fn reap(&mut self) -> anyhow::Result<()> {
        for index in 0..self.members.len() {
            let member = &mut self.members[index];
            let Some(child) = &mut member.child else { continue };
            let pid = child.pid();
            let ended = child.try_wait().context("cannot ask for a child");
            let Some(status) = self.bear(ended)?.flatten() else { continue };
            self.members[index].child = None;
            let how = if status.success() { "ended".to_owned() } else { format!("died: {}", describe(status)) };
            if is_node(self.members[index].part) && status.code() == Some(i32::from(REMOVED)) {
                self.handle_removal(index, pid)?;
            } else if self.is_ready {
                self.handle_death(index, pid, &how);
            } else {
                return Err(anyhow!(
                    "{} (pid {pid}) ended before the cluster served: {}",
                    self.name(index),
                    describe(status)
                ));
            }
        }
        self.restart_due()
    }

    /// With a coordinator that was here before, a node may have been removed in an earlier run.
    fn handle_removal(&mut self, index: usize, pid: u32) -> anyhow::Result<()> {
        self.members[index].is_removed = true;
        self.screen
            .say(&format!("{} (pid {pid}) was removed from the cluster; it is not started again", self.name(index)));
        if self.is_ready { Ok(()) } else { self.probe() }
    }

    fn handle_death(&mut self, index: usize, pid: u32, how: &str) {
        let name = self.name(index);
        let member = &mut self.members[index];
        let again_and_again = member.start_count > 1 && member.started.elapsed() < SHORT_LIFE;
        if !is_node(member.part) || self.plan.config.restart_nodes {
            let pause = if again_and_again { RESTART_PAUSE } else { Duration::ZERO };
            member.restart_at = Some(Instant::now() + pause);
            self.screen.say(&format!("{name} (pid {pid}) {how}; it is started again"));
            return;
        }
        let left = probe::nodes_left(self.plan.coordinator(), pid).unwrap_or_else(|| self.nodes_left());
        self.screen.say(&format!("{name} (pid {pid}) {how}; {}", left.told(self.plan.config.code)));
    }

    /// As far as it is known here.
    fn nodes_left(&self) -> NodesLeft {
        let nodes = || self.members.iter().filter(|member| is_node(member.part) && !member.is_removed);
        let dead = nodes().filter(|member| member.child.is_none()).count();
        NodesLeft { dead, rebuilt: 0, alive: nodes().count() - dead }
    }

    /// A member, for people: with the number that the status has.
    fn name(&self, index: usize) -> String {
        let member = &self.members[index];
        match member.part {
            Part::Coordinator => "the coordinator".to_owned(),
            Part::Node(id) => format!("node {id}"),
            Part::Gateway(_) if self.plan.config.gateway_count == 1 => "the gateway".to_owned(),
            Part::Gateway(place) => {
                let (memcached, redis) = self.plan.client_addresses[place];
                let address = memcached.or(redis).map_or_else(String::new, |address| format!(" at {address}"));
                match member.gateway_id {
                    Some(id) => format!("gateway {id}{address}"),
                    None => format!("the gateway{address}"),
                }
            }
        }
    }

    /// Only of a cluster that serves is anybody started again.
    fn restart_due(&mut self) -> anyhow::Result<()> {
        let now = Instant::now();
        for index in 0..self.members.len() {
            if self.members[index].restart_at.is_none_or(|at| at > now) {
                continue;
            }
            if let Err(error) = self.start(index) {
                self.put_off(index, &error);
            } else if matches!(self.members[index].part, Part::Gateway(_)) {
                self.probe()?;
            }
        }
        Ok(())
    }

    /// The program may be on its way to be replaced, or the machine out of memory: it is tried again, as often as it
    /// takes.
    fn put_off(&mut self, index: usize, error: &anyhow::Error) {
        let member = &mut self.members[index];
        member.restart_at = Some(Instant::now() + RESTART_PAUSE);
        let trouble = format!("{error:#}");
        if member.trouble.as_ref() != Some(&trouble) {
            self.screen.say(&format!("{trouble}; it is tried again and again"));
            member.trouble = Some(trouble);
        }
    }
}

impl Member {
    fn new(part: Part) -> Self {
        Member {
            part,
            child: None,
            started: Instant::now(),
            start_count: 0,
            restart_at: None,
            trouble: None,
            gateway_id: None,
            is_removed: false,
        }
    }
}

fn is_node(part: Part) -> bool {
    matches!(part, Part::Node(_))
}
