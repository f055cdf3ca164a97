//! `bench load`: runs the phases of one load run and reports.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Instant;

use anyhow::{Context, bail, ensure};

use crate::codec::Protocol;
use crate::driver::{Driver, Progress, Setup};
use crate::engine::{Engine, Part, Phase};
use crate::interrupt::ends_on_signal;
use crate::output::write_results;
use crate::pacer::Limit;
use crate::plan::Plan;
use crate::process::{self, CpuSeconds};
use crate::progress;
use crate::recorder::Recorder;
use crate::report::{
    CpuReport, ErrorReport, LoadReport, PhaseReport, ServerCpu, Settings, TimelineReport, VerificationReport,
    WorstReport, latencies,
};

pub use crate::options::{KeyChoiceName, LoadOptions};
use crate::samples::Sample;
use crate::scheduling;
use crate::workload::OperationClass;

/// Is told when a phase starts; runs on the thread that called [`execute`].
pub trait Observer {
    fn phase_starts(&mut self, phase: Phase);
}

impl Observer for () {
    fn phase_starts(&mut self, _phase: Phase) {}
}

/// Flags that make no sense: nothing was tried.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Senseless(String);

/// Answers broke a promise: whoever leaves out what cannot be measured must not leave out this.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Broken(String);

/// Runs the load, prints and writes the results.
///
/// # Errors
/// [`Senseless`] flags, an unreachable server, operations that failed, answers that break a promise (lost, stale,
/// wrong), or a signal to end.
pub fn run(options: LoadOptions) -> anyhow::Result<()> {
    run_until(options, ends_on_signal()?)
}

/// The same, ended early once `is_over`.
///
/// # Errors
/// As for [`run`].
pub fn run_until(options: LoadOptions, is_over: Arc<AtomicBool>) -> anyhow::Result<()> {
    check_flags(&options).map_err(|error| Senseless(format!("{error:#}")))?;
    let (report, _) = execute_until(&options, &mut (), &is_over)?;
    let was_ended = is_over.load(Ordering::Relaxed);
    if was_ended && report.operations == 0 {
        bail!("it was ended before anything was measured");
    }
    publish(&options, &report)?;
    check(&report)?;
    if let Some(complaint) = complaint(options.protocol, &report) {
        bail!(complaint);
    }
    ensure!(!was_ended, "it was ended after {:.1} s: the report is of what was measured until then", report.seconds);
    Ok(())
}

fn check_flags(options: &LoadOptions) -> anyhow::Result<()> {
    options.plan()?;
    options.resolve()?;
    options.login()?;
    for pid in &options.server_pids {
        process::cpu(*pid).with_context(|| format!("--server-pids: there is no process {pid}"))?;
    }
    Ok(())
}

/// What to say of operations that failed.
fn complaint(protocol: Protocol, report: &LoadReport) -> Option<String> {
    let worst = report.errors.iter().max_by_key(|error| error.count)?;
    let all = report.operations_total + report.error_count;
    let hint = wrong_protocol(protocol, &worst.text).unwrap_or_default();
    Some(format!("{} of {all} operations failed, most often: {}{hint}", report.error_count, worst.text))
}

/// A server that speaks the other protocol answers in its words.
pub(crate) fn wrong_protocol(protocol: Protocol, error: &str) -> Option<&'static str> {
    let begins =
        |words: &[&str]| words.iter().any(|word| error.contains(&format!("`{word}")) || error.starts_with(word));
    match protocol {
        Protocol::Memcached if begins(&["-", "+", "$"]) => Some(" (is it a Redis server? --protocol redis)"),
        Protocol::Redis if begins(&["ERROR", "CLIENT_ERROR", "STORED", "END"]) => {
            Some(" (is it a memcached server? --protocol memcached)")
        }
        _ => None,
    }
}

/// Fails if the answers of a run broke a promise.
///
/// # Errors
/// [`Broken`] says how many answers were lost, stale, resurrected or wrong.
pub fn check(report: &LoadReport) -> anyhow::Result<()> {
    let seen = &report.verification;
    if seen.faults() > 0 {
        return Err(Broken(format!(
            "{} answers lost, {} stale, {} resurrected, {} wrong",
            seen.lost, seen.stale, seen.resurrected, seen.wrong
        ))
        .into());
    }
    Ok(())
}

/// Fails if a run that was to store every key did not.
///
/// # Errors
/// As for [`check`]; or says how many keys were not stored.
pub fn check_stored(report: &LoadReport) -> anyhow::Result<()> {
    check(report)?;
    let first = report.errors.first().map_or("", |error| &error.text);
    ensure!(report.error_count == 0, "{} keys could not be stored: {first}", report.error_count);
    Ok(())
}

/// Prints the table, unless JSON goes to the standard output; writes JSON and SVG where asked.
///
/// # Errors
/// A file cannot be written.
pub fn publish(options: &LoadOptions, report: &LoadReport) -> anyhow::Result<()> {
    write_results(options.output.json.as_deref(), report, || report.table())?;
    if let Some(path) = &options.svg {
        std::fs::write(path, crate::svg::load_plot(report))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// One run without printing results.
///
/// # Errors
/// Flags that make no sense, or an unreachable server.
pub fn execute(options: &LoadOptions, observer: &mut dyn Observer) -> anyhow::Result<LoadReport> {
    execute_with_samples(options, observer).map(|(report, _)| report)
}

/// The same, with every operation of the measured phase if `options` want them kept.
///
/// # Errors
/// As for [`execute`].
pub fn execute_with_samples(
    options: &LoadOptions,
    observer: &mut dyn Observer,
) -> anyhow::Result<(LoadReport, Vec<Sample>)> {
    execute_until(options, observer, &Arc::default())
}

/// What was begun is waited for, and phases that are left have nothing to do.
fn execute_until(
    options: &LoadOptions,
    observer: &mut dyn Observer,
    is_over: &Arc<AtomicBool>,
) -> anyhow::Result<(LoadReport, Vec<Sample>)> {
    let plan = Arc::new(options.plan()?);
    let mut run = Run::connect(options, plan, is_over)?;
    let preload = if options.preload { Some(run.phase(Phase::Preload, observer)?) } else { None };
    if options.warm_up > 0.0 {
        run.phase(Phase::WarmUp, observer)?;
    }
    let before = cpu_now(&options.server_pids)?;
    let mut measured = run.phase(Phase::Measure, observer)?;
    let after = cpu_now(&options.server_pids)?;
    let verify = if options.verify_all { Some(run.phase(Phase::Verify, observer)?) } else { None };
    let cpu = cpu_report(&options.server_pids, &before, &after, measured.recorder.operations);
    let samples = measured.recorder.samples.take().unwrap_or_default();
    Ok((run.report(options, measured, preload, verify, cpu), samples))
}

struct Run<'a> {
    options: &'a LoadOptions,
    plan: Arc<Plan>,
    drivers: Vec<Driver>,
    is_over: Arc<AtomicBool>,
    /// Verdicts and errors of all phases.
    totals: Recorder,
}

struct PhaseResult {
    recorder: Recorder,
    seconds: f64,
}

impl<'a> Run<'a> {
    fn connect(options: &'a LoadOptions, plan: Arc<Plan>, is_over: &Arc<AtomicBool>) -> anyhow::Result<Self> {
        let (target, clock) = (options.resolve()?, Instant::now());
        let greeting: Arc<[u8]> = options.login()?.map_or_else(Vec::new, |login| login.greeting(plan.codec)).into();
        process::allow_files(plan.connections);
        let mut drivers = Vec::new();
        for index in 0..plan.threads {
            let threads = plan.threads as usize;
            let connections = plan.connections / threads + usize::from((index as usize) < plan.connections % threads);
            let setup = Setup {
                codec: plan.codec,
                target: target.clone(),
                greeting: Arc::clone(&greeting),
                connections,
                pipeline: plan.pipeline,
                timeout_ns: plan.timeout_ns,
            };
            let engine = Engine::new(plan.clone(), Part { index, count: plan.threads });
            drivers.push(Driver::connect(engine, &setup, clock)?);
        }
        Ok(Run { options, plan, drivers, is_over: Arc::clone(is_over), totals: Recorder::default() })
    }

    fn phase(&mut self, phase: Phase, observer: &mut dyn Observer) -> anyhow::Result<PhaseResult> {
        observer.phase_starts(phase);
        let (is_over, started) = (Arc::clone(&self.is_over), Instant::now());
        let progress = Progress { is_over, ..Progress::default() };
        let total = match (phase, self.plan.limit) {
            (Phase::Preload, _) => Some(u64::from(self.plan.keys)),
            (Phase::Measure, Limit::Operations(count)) => Some(count),
            // Inserts may have made more keys.
            _ => None,
        };
        let is_paced = self.plan.rate.is_some();
        let (working, done) = std::sync::mpsc::channel();
        let recorders: Vec<anyhow::Result<Recorder>> = std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for driver in &mut self.drivers {
                let (progress, working) = (&progress, working.clone());
                threads.push(scope.spawn(move || {
                    // Dropped at the end, also by a panic: that is what the watcher waits for.
                    let _working: Sender<()> = working;
                    if is_paced {
                        // Where it cannot be, the report says how late it was.
                        let _ = scheduling::be_punctual();
                    }
                    driver.run(phase, progress)
                }));
            }
            drop(working);
            progress::watch(phase, total, &progress, &done, self.options.output.quiet);
            threads.into_iter().map(|thread| thread.join().expect("a client thread panicked")).collect()
        });
        let seconds = started.elapsed().as_secs_f64();
        let mut recorder = Recorder::default();
        for one in recorders {
            recorder.merge(&one?);
        }
        let samples = recorder.samples.take();
        self.totals.merge(&recorder);
        recorder.samples = samples;
        Ok(PhaseResult { recorder, seconds })
    }

    fn report(
        self,
        options: &LoadOptions,
        measured: PhaseResult,
        preload: Option<PhaseResult>,
        verify: Option<PhaseResult>,
        cpu: CpuReport,
    ) -> LoadReport {
        let PhaseResult { recorder, seconds } = measured;
        let (latency, classes) = latencies(&recorder);
        let errors = self.totals.errors.iter().map(|(text, error)| ErrorReport {
            text: text.clone(),
            count: error.count,
            first_at_s: error.first_at_ns as f64 / 1e9,
            example: error.example.clone(),
        });
        LoadReport {
            settings: settings(options, &self.plan),
            seconds,
            operations: recorder.operations,
            operations_total: self.totals.operations,
            throughput_per_s: recorder.operations as f64 / seconds,
            latency,
            classes,
            error_count: self.totals.error_count,
            errors: errors.collect(),
            verification: VerificationReport::new(&self.totals.tally),
            client_late_us_max: recorder.client_late_ns_max as f64 / 1e3,
            worst: recorder.worst.as_ref().map(|worst| WorstReport {
                class: worst.class.name().to_owned(),
                latency_us: worst.latency_ns as f64 / 1e3,
                at_s: worst.at_ns as f64 / 1e9,
                key: worst.key.clone(),
            }),
            preload: preload.as_ref().map(phase_report),
            verify: verify.as_ref().map(phase_report),
            cpu,
            timeline: TimelineReport::new(&recorder.timeline),
        }
    }
}

fn phase_report(result: &PhaseResult) -> PhaseReport {
    let PhaseResult { recorder, seconds } = result;
    PhaseReport { operations: recorder.operations, errors: recorder.error_count, seconds: *seconds }
}

fn settings(options: &LoadOptions, plan: &Plan) -> Settings {
    let shares = OperationClass::ALL.map(|class| (class.name().to_owned(), plan.mix.share(class)));
    Settings {
        target: options.target.clone(),
        protocol: options.protocol,
        wait_replicas: options.wait,
        mix: shares.into_iter().filter(|(_, share)| *share > 0.0).collect(),
        key_choice: format!("{:?}", plan.choice),
        keys: plan.keys,
        key_bytes: plan.names.key_sizes.to_string(),
        value_bytes: plan.names.value_sizes.to_string(),
        connections: plan.connections,
        pipeline: plan.pipeline,
        threads: options.threads,
        rate_per_s: plan.rate,
        ttl_seconds: plan.names.lifetimes.as_ref().map(ToString::to_string),
        trace: plan.names.trace.as_ref().map(|trace| trace.summary.clone()),
        expect_all: plan.expect_all,
        seed: plan.seed,
    }
}

/// CPU so far: of this process first, then of each server; none for a server that is gone.
fn cpu_now(pids: &[u32]) -> anyhow::Result<Vec<Option<CpuSeconds>>> {
    let own = process::cpu(std::process::id())?;
    Ok(std::iter::once(Some(own)).chain(pids.iter().map(|&pid| process::cpu(pid).ok())).collect())
}

fn cpu_report(pids: &[u32], before: &[Option<CpuSeconds>], after: &[Option<CpuSeconds>], operations: u64) -> CpuReport {
    let used = |index: usize| Some(after[index]?.since(before[index]?));
    let servers: Vec<ServerCpu> =
        pids.iter().enumerate().filter_map(|(index, &pid)| Some(ServerCpu { pid, cpu: used(index + 1)? })).collect();
    let servers_total = servers.iter().fold(CpuSeconds::default(), |sum, server| sum.plus(server.cpu));
    // A server that died took its count with it: no figure rather than one too low.
    let complete = !servers.is_empty() && servers.len() == pids.len() && operations > 0;
    let server_us_per_operation = complete.then(|| servers_total.total() * 1e6 / operations as f64);
    CpuReport { client: used(0).unwrap_or_default(), servers, servers_total, server_us_per_operation }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Of a run with which nothing is wrong.
    pub(crate) fn report() -> LoadReport {
        let options = LoadOptions::with_defaults();
        let nothing = PhaseResult { recorder: Recorder::default(), seconds: 1.0 };
        let plan = Arc::new(options.plan().expect("defaults make sense"));
        let (drivers, is_over) = (Vec::new(), Arc::default());
        let run = Run { options: &options, plan, drivers, is_over, totals: Recorder::default() };
        run.report(&options, nothing, None, None, CpuReport::default())
    }

    #[test]
    fn flags_that_make_no_sense_are_told_apart_from_failures() {
        let refusal = |change: fn(&mut LoadOptions)| {
            let mut options = LoadOptions::with_defaults();
            change(&mut options);
            let error = run(options).expect_err("refused");
            assert!(error.downcast_ref::<Senseless>().is_some(), "{error}");
            error.to_string()
        };
        assert!(refusal(|options| options.connections = 0).contains("--connections"));
        assert!(refusal(|options| options.target = "nowhere".into()).contains("--target nowhere"));
        // Beyond the kernel's largest process number.
        assert!(refusal(|options| options.server_pids = vec![u32::MAX]).contains("there is no process"));
    }

    #[test]
    fn errors_of_all_phases_are_a_share_of_the_operations_of_all() {
        let mut report = report();
        assert_eq!(complaint(Protocol::Redis, &report), None);
        (report.operations, report.operations_total, report.error_count) = (0, 40, 2);
        report.errors.push(ErrorReport { text: "late".into(), count: 2, first_at_s: 0.0, example: String::new() });
        let told = complaint(Protocol::Redis, &report).expect("two failed");
        assert_eq!(told, "2 of 42 operations failed, most often: late");
    }

    #[test]
    fn a_server_of_the_other_protocol_is_recognised() {
        let hint = wrong_protocol;
        assert!(hint(Protocol::Memcached, "unexpected reply `-ERR unknown command 'set'`").is_some());
        assert!(hint(Protocol::Redis, "unexpected reply `ERROR`").is_some());
        assert_eq!(hint(Protocol::Memcached, "SERVER_ERROR out of memory storing object"), None);
        assert_eq!(hint(Protocol::Redis, "-OOM command not allowed"), None);
        assert_eq!(hint(Protocol::Memcached, "no answer within 5000 ms"), None);
    }
}
