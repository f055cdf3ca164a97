//! The flags of `bench load`, and their translation into a checked [`Plan`].

use std::net::ToSocketAddrs;
use std::path::PathBuf;

use anyhow::{Context, bail, ensure};

use crate::choice::KeyChoice;
use crate::codec::{Codec, Protocol};
use crate::connection::Target;
use crate::lifetimes::Lifetimes;
use crate::limits::{
    CONNECTIONS_MAX, KEY_BYTES_MAX, KEYS_MAX, MULTI_GET_KEYS_MAX, PIPELINE_MAX, RATE_MAX, REPLY_BYTES_MAX, THREADS_MAX,
};
use crate::login::Login;
use crate::names::Names;
use crate::output::OutputOptions;
use crate::pacer::{Arrivals, Limit};
use crate::plan::Plan;
use crate::preset::{Preset, THETA_DEFAULT};
use crate::sizes::SizeDistribution;
use crate::trace::TraceOptions;
use crate::workload::{Mix, OperationClass, Workload};

/// How keys are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum KeyChoiceName {
    Zipfian,
    Uniform,
    Latest,
    Hotspot,
}

/// Puts load on a memcached or Redis server, checks every answer, and reports latencies.
#[derive(Clone, Debug, clap::Args)]
pub struct LoadOptions {
    /// Server: HOST:PORT, or unix:PATH.
    #[arg(long, default_value = "127.0.0.1:11211")]
    pub target: String,
    #[arg(long, value_enum, default_value = "memcached")]
    pub protocol: Protocol,
    /// Logs in with the first line of this file, user:password.
    #[arg(long, value_name = "FILE")]
    pub auth_file: Option<PathBuf>,
    /// Mix of operations: YCSB's A to F, or reads or writes only [default: a, or that of the preset].
    #[arg(long, value_enum, ignore_case = true)]
    pub workload: Option<Workload>,
    /// Sizes, mix, popularity and lifetimes of a published cache: etc, or twitter:N for its cluster N.
    #[arg(long)]
    pub preset: Option<Preset>,
    #[command(flatten)]
    pub trace: TraceOptions,
    /// Share of operations that delete a key; the others shrink alike.
    #[arg(long, default_value_t = 0.0, value_name = "SHARE")]
    pub deletes: f64,
    /// Keys at the start.
    #[arg(long, default_value_t = 100_000)]
    pub keys: u32,
    /// Which keys are touched [default: zipfian; latest for workload D].
    #[arg(long, value_enum)]
    pub key_choice: Option<KeyChoiceName>,
    /// Zipf exponent [default: 0.99, or that of the preset].
    #[arg(long)]
    pub theta: Option<f64>,
    /// Hotspot: share of the keys that are hot.
    #[arg(long, default_value_t = 0.2, value_name = "SHARE")]
    pub hot_keys: f64,
    /// Hotspot: share of the operations that go to them.
    #[arg(long, default_value_t = 0.8, value_name = "SHARE")]
    pub hot_operations: f64,
    /// Bytes of a key: N, MIN-MAX, exp:MEAN or etc-key [default: 24].
    #[arg(long, value_name = "SIZE")]
    pub key_size: Option<SizeDistribution>,
    /// Bytes of a value: N, MIN-MAX, exp:MEAN or etc [default: 100].
    #[arg(long, value_name = "SIZE")]
    pub value_size: Option<SizeDistribution>,
    /// Time to live of what is written: SECONDS, or SECONDS:SHARE and more [default: that of the preset; else none].
    #[arg(long, value_name = "SECONDS")]
    pub ttl: Option<Lifetimes>,
    /// Objects live for ever, whatever the preset says.
    #[arg(long, conflicts_with = "ttl")]
    pub no_ttl: bool,
    /// Put before every key.
    #[arg(long, default_value = "")]
    pub key_prefix: String,
    /// Most keys of a multi-get (workload E).
    #[arg(long, default_value_t = 100)]
    pub multi_get_max: usize,
    /// Connections of all threads.
    #[arg(long, short = 'c', default_value_t = 64)]
    pub connections: usize,
    /// Operations in flight per connection.
    #[arg(long, default_value_t = 1)]
    pub pipeline: usize,
    /// Client threads; each has its own part of the keys.
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    /// Open loop at this many operations a second; latency counts from the intended start. Without: closed loop.
    #[arg(long)]
    pub rate: Option<f64>,
    /// Gaps between the starts of an open loop.
    #[arg(long, value_enum, default_value = "even")]
    pub arrivals: Arrivals,
    /// Length of the measured phase.
    #[arg(long, default_value_t = 10.0)]
    pub seconds: f64,
    /// Length of the measured phase by count, instead of `--seconds`.
    #[arg(long)]
    pub operations: Option<u64>,
    /// Seconds of load before the measured phase.
    #[arg(long, default_value_t = 0.0, value_name = "SECONDS")]
    pub warm_up: f64,
    /// Set every key once before.
    #[arg(long)]
    pub preload: bool,
    /// Read every key once after.
    #[arg(long)]
    pub verify_all: bool,
    /// The store must not evict: an acknowledged key that is absent is lost.
    #[arg(long)]
    pub expect_all: bool,
    /// Redis: follow each write by WAIT N 0, and count both as one operation.
    #[arg(long, value_name = "N")]
    pub wait: Option<u32>,
    /// Milliseconds after which an unanswered operation fails and its connection is dropped.
    #[arg(long, default_value_t = 5_000)]
    pub timeout_ms: u64,
    /// Number from which the sequence of operations is derived.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// An earlier run stored every key, as callers know: with `expect_all` none may be absent.
    #[arg(skip)]
    pub stored_before: bool,
    /// Keep every operation of the measured phase by itself, for callers that look at parts of it.
    #[arg(skip)]
    pub keep_samples: bool,
    /// Process ids of the servers, whose CPU time is reported.
    #[arg(long, value_delimiter = ',', value_name = "PID,...")]
    pub server_pids: Vec<u32>,
    #[command(flatten)]
    pub output: OutputOptions,
    /// Draw latency percentiles and throughput over time.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

impl LoadOptions {
    /// What the flags mean when none is given; for callers that measure with their own settings.
    pub fn with_defaults() -> Self {
        #[derive(clap::Parser)]
        struct Flags {
            #[command(flatten)]
            options: LoadOptions,
        }
        let flags: Flags = clap::Parser::parse_from(["load"]);
        flags.options
    }

    pub fn plan(&self) -> anyhow::Result<Plan> {
        self.check()?;
        let preset = self.preset.as_ref();
        let mix = match (self.workload, preset) {
            (Some(workload), _) => workload.mix(),
            (None, Some(preset)) => preset.mix,
            (None, None) => Workload::A.mix(),
        };
        let key_sizes = self.key_size.clone().or_else(|| preset.map(|preset| preset.key_sizes.clone()));
        let value_sizes = self.value_size.clone().or_else(|| preset.map(|preset| preset.value_sizes.clone()));
        let lifetimes = self.ttl.clone().or_else(|| preset.and_then(|preset| preset.lifetimes.clone()));
        let lifetimes = lifetimes.filter(|_| !self.no_ttl);
        ensure!(
            !(self.expect_all && lifetimes.is_some()),
            "--expect-all: objects with a time to live are gone when it ends; add --no-ttl"
        );
        let trace = self.trace.read(self.seed)?;
        let keys = trace.as_ref().map_or(self.keys, |trace| trace.key_count());
        let names = Names {
            prefix: self.key_prefix.clone(),
            key_sizes: key_sizes.unwrap_or(SizeDistribution::Fixed(24)),
            value_sizes: value_sizes.unwrap_or(SizeDistribution::Fixed(100)),
            trace,
            lifetimes,
            run: run_number(),
        };
        let limit = match self.operations {
            Some(count) => Limit::Operations(count),
            None => Limit::Duration(nanoseconds(self.seconds)),
        };
        let plan = Plan {
            codec: Codec { protocol: self.protocol, wait_replicas: self.wait },
            names,
            keys,
            choice: self.choice()?,
            mix: mix.with_deletes(self.deletes),
            multi_get_max: u32::try_from(self.multi_get_max).context("--multi-get-max")?,
            expect_all: self.expect_all,
            stored_before: self.stored_before,
            rate: self.rate,
            arrivals: self.arrivals,
            warm_up_ns: nanoseconds(self.warm_up),
            limit,
            keep_samples: self.keep_samples,
            seed: self.seed,
            pipeline: self.pipeline,
            connections: self.connections,
            threads: u32::try_from(self.threads).context("--threads")?,
            timeout_ns: self.timeout_ms.saturating_mul(1_000_000),
        };
        check_reply_size(&plan)?;
        let key_bytes = &plan.names.key_sizes;
        if matches!(key_bytes, SizeDistribution::Fixed(_) | SizeDistribution::Uniform { .. }) {
            ensure!(
                key_bytes.largest() <= KEY_BYTES_MAX,
                "--key-size is {key_bytes}: a key has at most {KEY_BYTES_MAX} bytes"
            );
        }
        ensure!(self.threads <= keys as usize, "--threads is {}: there are only {keys} keys", self.threads);
        Ok(plan)
    }

    fn check(&self) -> anyhow::Result<()> {
        let share = |name: &str, value: f64| {
            ensure!((0.0..=1.0).contains(&value), "{name} is {value}: a share is between 0 and 1");
            Ok(())
        };
        share("--deletes", self.deletes)?;
        share("--hot-keys", self.hot_keys)?;
        share("--hot-operations", self.hot_operations)?;
        let within = |name: &str, value: usize, most: usize| {
            ensure!((1..=most).contains(&value), "{name} is {value}: it must be between 1 and {most}");
            Ok(())
        };
        within("--keys", self.keys as usize, KEYS_MAX as usize)?;
        within("--connections", self.connections, CONNECTIONS_MAX)?;
        within("--pipeline", self.pipeline, PIPELINE_MAX)?;
        within("--threads", self.threads, THREADS_MAX.min(self.connections))?;
        within("--multi-get-max", self.multi_get_max, MULTI_GET_KEYS_MAX)?;
        if let Some(rate) = self.rate {
            ensure!(rate > 0.0 && rate <= RATE_MAX, "--rate is {rate}: it must be above 0 and at most {RATE_MAX}");
        }
        const DAY_SECONDS: f64 = 86_400.0;
        for (name, seconds) in [("--seconds", self.seconds), ("--warm-up", self.warm_up)] {
            ensure!((0.0..=DAY_SECONDS).contains(&seconds), "{name} is {seconds}: it must be between 0 and a day");
        }
        ensure!(self.timeout_ms > 0, "--timeout-ms is 0: every operation would fail");
        if self.wait.is_some() && self.protocol != Protocol::Redis {
            bail!("--wait is Redis' WAIT: it needs --protocol redis");
        }
        let longest_number = 7;
        let prefix = self.key_prefix.len() + longest_number;
        ensure!(prefix <= KEY_BYTES_MAX, "--key-prefix leaves no room in a key of {KEY_BYTES_MAX} bytes");
        let printable = self.key_prefix.bytes().all(|byte| byte.is_ascii_graphic());
        ensure!(printable, "--key-prefix has characters that a memcached key must not have");
        Ok(())
    }

    fn choice(&self) -> anyhow::Result<KeyChoice> {
        let theta = self.theta.or(self.preset.as_ref().map(|preset| preset.theta)).unwrap_or(THETA_DEFAULT);
        ensure!((0.0..=10.0).contains(&theta), "--theta is {theta}: it must be between 0 and 10");
        let latest = self.workload == Some(Workload::D);
        let by_default = if latest { KeyChoiceName::Latest } else { KeyChoiceName::Zipfian };
        Ok(match self.key_choice.unwrap_or(by_default) {
            KeyChoiceName::Uniform => KeyChoice::Uniform,
            KeyChoiceName::Zipfian => KeyChoice::Zipfian { theta },
            KeyChoiceName::Latest if theta >= 1.0 => bail!("--theta is {theta}: with latest it must be below 1"),
            KeyChoiceName::Latest => KeyChoice::Latest { theta },
            KeyChoiceName::Hotspot => KeyChoice::Hotspot { keys: self.hot_keys, operations: self.hot_operations },
        })
    }

    /// As whom each connection logs in.
    ///
    /// # Errors
    /// There is no such file, or it is none of passwords.
    pub fn login(&self) -> anyhow::Result<Option<Login>> {
        self.auth_file.as_deref().map(Login::read).transpose()
    }

    /// Address of the server.
    ///
    /// # Errors
    /// The name does not resolve.
    pub fn resolve(&self) -> anyhow::Result<Target> {
        if let Some(path) = self.target.strip_prefix("unix:") {
            return Ok(Target::Unix(path.into()));
        }
        if self.target.starts_with('/') {
            return Ok(Target::Unix(self.target.clone().into()));
        }
        let mut addresses =
            self.target.to_socket_addrs().with_context(|| format!("--target {} is no address", self.target))?;
        addresses.next().map(Target::Tcp).with_context(|| format!("--target {} has no address", self.target))
    }
}

fn check_reply_size(plan: &Plan) -> anyhow::Result<()> {
    let keys = if plan.mix.share(OperationClass::MultiGet) > 0.0 { plan.multi_get_max as usize } else { 1 };
    let largest = keys.saturating_mul(plan.names.value_largest() + 2 * KEY_BYTES_MAX);
    ensure!(
        largest < REPLY_BYTES_MAX,
        "a multi-get could answer {largest} bytes, more than the {REPLY_BYTES_MAX} of a reply: \
         lower --multi-get-max or --value-size"
    );
    Ok(())
}

fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

/// Tells the values of this run from those of earlier ones.
fn run_number() -> u32 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let mixed = crate::names::mix(u64::try_from(now.as_nanos()).unwrap_or(0) ^ u64::from(std::process::id()));
    (mixed >> 32) as u32
}

impl Mix {
    /// Whether writes or deletes occur.
    pub fn writes(&self) -> bool {
        OperationClass::ALL
            .into_iter()
            .any(|class| !matches!(class, OperationClass::Get | OperationClass::MultiGet) && self.share(class) > 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(change: impl FnOnce(&mut LoadOptions)) -> LoadOptions {
        let mut options = LoadOptions::with_defaults();
        change(&mut options);
        options
    }

    fn refusal(change: impl FnOnce(&mut LoadOptions)) -> String {
        options(change).plan().expect_err("refused").to_string()
    }

    #[test]
    fn presets_give_sizes_and_mix_and_flags_override_them() {
        let preset: Preset = "twitter:12".parse().expect("known");
        let plan = options(|options| options.preset = Some(preset.clone())).plan().expect("good");
        assert_eq!((plan.mix, plan.names.key_sizes), (preset.mix, SizeDistribution::Fixed(44)));
        assert_eq!(plan.choice, KeyChoice::Zipfian { theta: 0.3048 });
        assert_eq!(plan.names.lifetimes, preset.lifetimes);
        let plan = options(|options| {
            options.preset = Some(preset);
            options.value_size = Some(SizeDistribution::Fixed(7));
            options.workload = Some(Workload::C);
            options.no_ttl = true;
        });
        let plan = plan.plan().expect("good");
        assert_eq!(plan.names.lifetimes, None);
        assert_eq!((plan.mix, plan.names.value_sizes), (Workload::C.mix(), SizeDistribution::Fixed(7)));
    }

    #[test]
    fn workload_d_reads_the_latest() {
        let plan = options(|options| options.workload = Some(Workload::D)).plan().expect("good");
        assert_eq!(plan.choice, KeyChoice::Latest { theta: 0.99 });
    }

    #[test]
    fn bad_flags_are_named() {
        assert!(refusal(|options| options.deletes = 1.5).contains("--deletes"));
        assert!(refusal(|options| options.deletes = f64::NAN).contains("--deletes"));
        assert!(refusal(|options| options.keys = 0).contains("--keys"));
        assert!(refusal(|options| options.threads = 65).contains("--threads"));
        assert!(refusal(|options| options.key_size = Some(SizeDistribution::Fixed(251))).contains("--key-size"));
        assert!(options(|options| options.key_size = Some(SizeDistribution::Fixed(250))).plan().is_ok());
        assert!(refusal(|options| options.wait = Some(2)).contains("--protocol redis"));
        assert!(refusal(|options| options.rate = Some(0.0)).contains("--rate"));
        let expiring = |options: &mut LoadOptions| {
            (options.expect_all, options.ttl) = (true, "60".parse().ok());
        };
        assert!(refusal(expiring).contains("--no-ttl"));
        assert!(refusal(|options| options.key_prefix = "a b".to_owned()).contains("--key-prefix"));
        let too_large = refusal(|options| {
            options.workload = Some(Workload::E);
            options.multi_get_max = 1024;
            options.value_size = Some(SizeDistribution::Fixed(1_000_000));
        });
        assert!(too_large.contains("--multi-get-max"));
    }

    #[test]
    fn targets_are_addresses_or_sockets() {
        let target = |text: &str| options(|options| options.target = text.to_owned()).resolve();
        assert_eq!(target("127.0.0.1:1").ok(), Some(Target::Tcp(([127, 0, 0, 1], 1).into())));
        assert_eq!(target("unix:a/b").ok(), Some(Target::Unix("a/b".into())));
        assert!(target("nowhere").expect_err("no port").to_string().contains("--target nowhere"));
    }
}
