//! `shorttail sim`: one seed with its event log, or a campaign over many for as long as told.
//!
//! Threads only split the seeds of a campaign; a run itself knows none.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::config::{Profile, SimConfig};
use crate::limits::CAMPAIGN_THREADS_MAX;
use crate::progress::{Progress, ends_on_signal};
use crate::world::{Counts, Violation, World};

/// Flags of `shorttail sim`.
#[derive(Clone, Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct SimOptions {
    #[command(subcommand)]
    pub experiment: Option<Experiment>,
    /// Run this one seed, and print what happened.
    #[arg(long)]
    pub seed: Option<u64>,
    /// First seed of a campaign.
    #[arg(long, default_value_t = 1, conflicts_with = "seed")]
    pub first: u64,
    /// End a campaign after so many seeds.
    #[arg(long, conflicts_with = "seed")]
    pub seeds: Option<u64>,
    /// End a campaign after so many seconds.
    #[arg(long, conflicts_with = "seed")]
    pub seconds: Option<u64>,
    /// End a campaign after so many simulated hours.
    #[arg(long, conflicts_with = "seed")]
    pub hours: Option<f64>,
    /// Family of runs: mixed, calm, crash, stall, full, large, takeover, gateways, long, restart, members, rot, near,
    /// coordinated, lossy, prompt, cramped, flushes, apart.
    #[arg(long, alias = "config", default_value_t = Profile::Mixed)]
    pub profile: Profile,
    /// Write down what the clients of each seed saw, a file each, in runs in which nothing ends by itself.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["seconds", "hours", "threads"])]
    pub histories: Option<PathBuf>,
    /// Threads of a campaign.
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    /// Lines of the event log that a failure prints.
    #[arg(long, default_value_t = 60)]
    pub lines: usize,
}

/// Simulations of a part, instead of a whole cluster.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Experiment {
    /// How soon the request monitor finds a slow node, and whom it suspects wrongly: a table.
    Detect(crate::detect::DetectOptions),
    /// Judge histories that clients of a real cluster wrote down: is every key linearizable?
    Judge(crate::judge::JudgeOptions),
}

/// How one seed went.
#[derive(Debug)]
pub struct SeedReport {
    pub seed: u64,
    pub profile: Profile,
    /// What the run was about, if its profile draws that.
    pub kind: Profile,
    pub trace_hash: u64,
    pub simulated_us: u64,
    pub events: u64,
    pub counts: Counts,
    /// The violation and the end of the event log.
    pub failure: Option<(Violation, Vec<String>)>,
}

/// Runs one seed.
pub fn run_seed(profile: Profile, seed: u64) -> SeedReport {
    run_config(profile, seed, SimConfig::draw(profile, seed))
}

/// Runs one seed of a profile as this run, whatever it draws.
pub fn run_config(profile: Profile, seed: u64, config: SimConfig) -> SeedReport {
    let kind = config.kind;
    let mut world = World::with_config(config, seed);
    let outcome = world.run();
    let failure = outcome.err().map(|violation| (violation, world.trace().lines().map(str::to_owned).collect()));
    SeedReport {
        seed,
        profile,
        kind,
        trace_hash: world.trace().hash(),
        simulated_us: world.now_us(),
        events: world.trace().event_count(),
        counts: world.counts(),
        failure,
    }
}

impl SeedReport {
    /// The command that runs the seed again.
    pub fn replay(&self) -> String {
        format!("shorttail sim --seed {} --profile {}", self.seed, self.profile)
    }

    /// What went wrong, for people: the end of the event log, the violation, the command to replay.
    pub fn explain(&self, lines_max: usize) -> String {
        let Some((violation, lines)) = &self.failure else { return String::new() };
        let tail = lines[lines.len().saturating_sub(lines_max)..].join("\n");
        format!("{tail}\n\nseed {}: {violation}\nreplay: {}\n", self.seed, self.replay())
    }
}

/// Sums over a campaign.
#[derive(Debug, Default)]
struct Totals {
    seeds: u64,
    /// Runs of each kind, by its name.
    kinds: BTreeMap<String, u64>,
    simulated_us: u64,
    events: u64,
    counts: Counts,
    violations: u64,
}

impl Totals {
    fn add(&mut self, report: &SeedReport) {
        self.seeds += 1;
        *self.kinds.entry(report.kind.to_string()).or_default() += 1;
        self.simulated_us += report.simulated_us;
        self.events += report.events;
        self.counts.add(&report.counts);
        self.violations += u64::from(report.failure.is_some());
    }

    fn hours(&self) -> f64 {
        self.simulated_us as f64 / 3.6e9
    }

    /// Every kind of fault, so that one that never happened is seen.
    fn put_faults_by_kind(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let counts = &self.counts;
        writeln!(
            f,
            "beside: stalls of gateways {} and of coordinators {}, cuts between coordinator and gateway {}, its store away {}, \
             hand-overs {}; joins {}, drains {}, removals {}; bits of memory {}, of messages {} ({} noticed), memory \
             read wrong {}, answers lost {}; stalls of single cores {}, cuts between nodes {}",
            counts.gateway_stalls,
            counts.coordinator_stalls,
            counts.coordinator_cuts,
            counts.store_absences,
            counts.handovers,
            counts.joins,
            counts.drains,
            counts.removals,
            counts.rotten_bits,
            counts.flips,
            counts.flips_noticed,
            counts.misreads,
            counts.losses,
            counts.core_stalls,
            counts.partings
        )?;
        let [away, gone_round, in_use, whole] = counts.steps;
        writeln!(
            f,
            "nodes to owners: away {away}, gone round {gone_round}, in use again {in_use}, nothing missing {whole}; \
             near reads {}, appends put {}; damage found {}, repaired {}",
            counts.near_reads, counts.appends_put, counts.corruptions_found, counts.corruptions_repaired
        )?;
        writeln!(
            f,
            "beside cores: orders with room {}, chunks found {} and copied {}, memories of nodes opened {}",
            counts.rooms_left, counts.places_told, counts.copies_made, counts.memories_opened
        )
    }

    /// What is bounded: how often it was timed.
    fn put_bounds(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let counts = &self.counts;
        writeln!(f, "timed: partitions whose gateway failed {}", counts.outages)?;
        writeln!(
            f,
            "timed: planned hand-overs {}; requests beside them {}",
            counts.hand_overs_timed, counts.requests_timed
        )?;
        writeln!(f, "timed: operations while few nodes fail {}", counts.prompt)
    }
}

impl std::fmt::Display for Totals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let counts = &self.counts;
        writeln!(f, "seeds {}, simulated hours {:.3}, events {}", self.seeds, self.hours(), self.events)?;
        let kinds: Vec<String> = self.kinds.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        writeln!(f, "kinds: {}", kinds.join(", "))?;
        writeln!(
            f,
            "operations {}: answered {}, refused {}, outcome unknown {}; the longest took {} ms",
            counts.operations,
            counts.answered,
            counts.refused,
            counts.unknown,
            counts.latency_us_max / 1000
        )?;
        writeln!(
            f,
            "faults {}: crashes {}, restarts {}, stalls {}, breaks {}, slow {}, cuts {}, takeovers {}",
            counts.faults(),
            counts.crashes,
            counts.restarts,
            counts.stalls,
            counts.breaks,
            counts.slowdowns,
            counts.cuts,
            counts.takeovers
        )?;
        self.put_faults_by_kind(f)?;
        writeln!(
            f,
            "nodes: folds {}, seals {}, installs {}, frees {}, rebuilds {} (and {} that failed); degraded reads {}",
            counts.folds,
            counts.seals,
            counts.installs,
            counts.frees,
            counts.rebuilds,
            counts.rebuild_failures,
            counts.degraded_reads
        )?;
        writeln!(
            f,
            "coordinators: crashes {}, reigns {}, saves refused {}, members that changed over {}; tenures taken over {}, \
             handed over {}, several made one {}",
            counts.coordinator_crashes,
            counts.reigns,
            counts.saves_refused,
            counts.changes_over,
            counts.tenures_taken_over,
            counts.tenures_handed_over,
            counts.tenures_united
        )?;
        self.put_bounds(f)?;
        writeln!(
            f,
            "audited: stripes {}, acknowledgements {}",
            counts.stripes_audited, counts.acknowledgements_audited
        )?;
        write!(f, "violations {}", self.violations)
    }
}

/// Runs the command.
///
/// # Errors
/// When a seed shows a violation, or the flags make no sense.
pub fn run(options: SimOptions) -> anyhow::Result<()> {
    match &options.experiment {
        Some(Experiment::Detect(options)) => return crate::detect::run(options),
        Some(Experiment::Judge(options)) => return crate::judge::run(options),
        None => {}
    }
    if let Some(directory) = &options.histories {
        return crate::export::run(&options, directory);
    }
    if options.threads == 0 || options.threads > CAMPAIGN_THREADS_MAX {
        bail!("--threads must be 1 to {CAMPAIGN_THREADS_MAX}, not {}", options.threads);
    }
    match options.seed {
        Some(seed) => run_one(&options, seed),
        None => {
            brief_panics();
            run_campaign(&options)
        }
    }
}

/// In a campaign a machine's panic is a finding with a seed, and a line is enough: replaying the seed shows where it
/// was.
fn brief_panics() {
    std::panic::set_hook(Box::new(|panic| _ = writeln!(std::io::stderr(), "{panic}")));
}

fn run_one(options: &SimOptions, seed: u64) -> anyhow::Result<()> {
    let started = Instant::now();
    let report = run_seed(options.profile, seed);
    let mut totals = Totals::default();
    totals.add(&report);
    let mut out = std::io::stdout().lock();
    write!(out, "{}", report.explain(options.lines)).context("cannot print")?;
    writeln!(out, "{totals}").context("cannot print")?;
    writeln!(out, "trace hash {:016x}, {} ms", report.trace_hash, started.elapsed().as_millis())
        .context("cannot print")?;
    if report.failure.is_some() { bail!("seed {seed} shows a violation") } else { Ok(()) }
}

/// Seeds and time that are left, shared by the threads of a campaign.
struct Campaign<'a> {
    options: &'a SimOptions,
    started: Instant,
    next: AtomicU64,
    is_over: Arc<AtomicBool>,
    totals: Mutex<Totals>,
    progress: Mutex<Progress>,
}

impl Campaign<'_> {
    fn work(&self) {
        while !self.is_over.load(Ordering::Relaxed) {
            let seed = self.next.fetch_add(1, Ordering::Relaxed);
            if self.options.seeds.is_some_and(|seeds| seed >= self.options.first.saturating_add(seeds)) {
                return;
            }
            self.take(&run_seed(self.options.profile, seed));
        }
    }

    fn take(&self, report: &SeedReport) {
        let mut totals = self.totals.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        totals.add(report);
        let is_late = self.options.seconds.is_some_and(|it| self.started.elapsed() >= Duration::from_secs(it));
        if is_late || self.options.hours.is_some_and(|hours| totals.hours() >= hours) {
            self.is_over.store(true, Ordering::Relaxed);
        }
        if report.failure.is_some() {
            println!("{}", report.explain(self.options.lines));
        }
        let mut progress = self.progress.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        progress.tell(|| {
            let (seeds, hours, faults) = (totals.seeds, totals.hours(), totals.counts.faults());
            format!(
                "so far: seeds {seeds}, simulated hours {hours:.1}, faults {faults}, violations {}",
                totals.violations
            )
        });
        if totals.violations >= crate::limits::CAMPAIGN_VIOLATIONS_MAX {
            self.is_over.store(true, Ordering::Relaxed);
        }
    }
}

fn run_campaign(options: &SimOptions) -> anyhow::Result<()> {
    if options.seeds.is_none() && options.seconds.is_none() && options.hours.is_none() {
        bail!("say when a campaign ends: --seeds, --seconds or --hours; or replay one run with --seed");
    }
    let campaign = Campaign {
        options,
        started: Instant::now(),
        next: AtomicU64::new(options.first),
        is_over: ends_on_signal()?,
        totals: Mutex::default(),
        progress: Mutex::new(Progress::begin()),
    };
    std::thread::scope(|scope| (0..options.threads).for_each(|_| _ = scope.spawn(|| campaign.work())));
    let totals = campaign.totals.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    println!("{totals}");
    println!("{:.1} s, {:.1} ms a seed and thread", campaign.started.elapsed().as_secs_f64(), {
        let per_seed = campaign.started.elapsed().as_secs_f64() * 1e3 * options.threads as f64;
        per_seed / totals.seeds.max(1) as f64
    });
    if totals.violations > 0 { bail!("{} seeds show violations", totals.violations) } else { Ok(()) }
}
