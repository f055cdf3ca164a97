//! The load generator from its flags to its report, over loopback against small servers that may misbehave.

mod support;

use std::io::BufReader;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Parser;
use shorttail_bench::load::{LoadOptions, check, execute, publish, run, run_until};
use shorttail_bench::report::LoadReport;

use support::{Habit, Store, memcached, redis, start, start_on};

#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    options: LoadOptions,
}

fn flags(target: &str, arguments: &[&str]) -> LoadOptions {
    let fixed = ["load", "--target", target, "--quiet", "--keys", "500", "--connections", "4"];
    Flags::parse_from(fixed.iter().chain(arguments)).options
}

fn measured(target: &str, arguments: &[&str]) -> LoadReport {
    execute(&flags(target, arguments), &mut ()).expect("the run ends")
}

const ALL: [&str; 5] = ["--preload", "--verify-all", "--expect-all", "--operations", "3000"];

fn with(more: &[&'static str]) -> Vec<&'static str> {
    [&ALL[..], more].concat()
}

#[test]
fn every_workload_passes_against_an_honest_memcached() {
    let target = start(Habit::Honest, memcached);
    for workload in ["a", "b", "c", "d", "e", "f"] {
        let options = with(&["--workload", workload, "--deletes", "0.05", "--pipeline", "8", "--value-size", "1-400"]);
        let report = measured(&target, &options);
        check(&report).expect("an honest server");
        assert_eq!((report.operations, report.error_count), (3_000, 0), "{workload}");
        assert!(report.verify.is_some_and(|verify| verify.operations >= 500));
        assert!(report.latency.p50_us > 0.0 && report.latency.max_us >= report.latency.p99_us);
    }
}

#[test]
fn every_workload_passes_against_an_honest_redis() {
    let target = start(Habit::Honest, redis);
    for workload in ["a", "d", "e", "f"] {
        let report = measured(&target, &with(&["--protocol", "redis", "--workload", workload, "--threads", "2"]));
        check(&report).expect("an honest server");
        assert_eq!((report.operations, report.error_count), (3_000, 0), "{workload}");
    }
}

#[test]
fn an_open_loop_keeps_to_its_count_and_reports_the_service_time_too() {
    let target = start(Habit::Honest, memcached);
    let report = measured(&target, &with(&["--rate", "20000", "--arrivals", "poisson"]));
    check(&report).expect("an honest server");
    assert_eq!(report.operations, 3_000);
    assert!(report.classes.iter().all(|class| class.latency.mean_us >= class.service.mean_us));
}

#[test]
fn forgotten_writes_are_found_and_fail_the_run() {
    let target = start(Habit::Forgets, memcached);
    let options = flags(&target, &with(&["--workload", "a"]));
    let error = run(options).expect_err("writes were forgotten").to_string();
    assert!(error.contains("stale"), "{error}");
    let report = measured(&start(Habit::Forgets, memcached), &with(&["--workload", "c"]));
    assert!(report.verification.lost >= 50, "a tenth of the preload: {:?}", report.verification);
    assert!(report.verification.examples.iter().any(|example| example.contains("lost")));
}

#[test]
fn refused_writes_are_errors_by_text_and_not_faults() {
    let report = measured(&start(Habit::Refuses, redis), &with(&["--protocol", "redis", "--workload", "a"]));
    check(&report).expect("a refusal is honest");
    assert_eq!(report.errors.len(), 1);
    assert_eq!(report.errors[0].text, "OOM out of memory storing object");
    assert!(report.errors[0].count > 50 && report.errors[0].count == report.error_count);
}

#[test]
fn lost_connections_are_opened_again() {
    let report = measured(&start(Habit::HangsUp, memcached), &with(&["--workload", "b"]));
    check(&report).expect("no answer was wrong");
    assert!(report.error_count > 0 && report.operations > 2_000);
    assert!(report.errors.iter().all(|error| error.text.contains("connection")), "{:?}", report.errors);
}

#[test]
fn too_few_replicas_fail_the_write() {
    let target = start(Habit::Honest, redis);
    let enough = measured(&target, &with(&["--protocol", "redis", "--wait", "1", "--workload", "set"]));
    assert_eq!((enough.operations, enough.error_count), (3_000, 0));
    let few = measured(&target, &["--protocol", "redis", "--wait", "2", "--workload", "set", "--operations", "10"]);
    assert_eq!((few.operations, few.error_count), (0, 10));
    assert_eq!(few.errors[0].text, "WAIT answered 1 of 2 replicas");
}

#[test]
fn a_trace_is_replayed_in_its_order_and_its_values_are_verified() {
    let target = start(Habit::Honest, memcached);
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/msr.csv.gz");
    let options = ["load", "--target", &target, "--quiet", "-c", "2", "--threads", "2", "--preload", "--verify-all"];
    let measured = |more: &[&str]| {
        let options = Flags::parse_from(options.iter().chain(more)).options;
        let report = execute(&options, &mut ()).expect("the run ends");
        check(&report).expect("an honest server");
        report
    };
    let report = measured(&["--expect-all", "--trace", trace, "--operations", "36"]);
    assert_eq!((report.operations, report.verify.as_ref().map(|verify| verify.operations)), (36, Some(5)));
    let replayed = report.settings.trace.as_ref().expect("told");
    assert_eq!((replayed.requests, replayed.keys, replayed.is_synthetic), (12, 5, false));
    let report = measured(&[
        "--expect-all",
        "--trace",
        "usr_1",
        "--trace-requests",
        "500",
        "--rate",
        "20000",
        "--seconds",
        "0.1",
    ]);
    assert_eq!((report.operations, report.settings.rate_per_s), (2_000, Some(20_000.0)));
}

#[test]
fn presets_run_with_their_lifetimes() {
    let target = start(Habit::Honest, memcached);
    for preset in ["twitter:14", "etc"] {
        let report = measured(&target, &["--preset", preset, "--preload", "--operations", "2000"]);
        check(&report).expect("an honest server");
        assert_eq!(report.operations, 2_000);
        assert_eq!(report.settings.ttl_seconds.is_some(), preset != "etc");
    }
}

#[test]
fn a_run_that_is_ended_early_reports_what_it_measured() {
    let json = std::env::temp_dir().join(format!("shorttail-bench-ended-{}.json", std::process::id()));
    let store = Arc::new(Store::new(Habit::Honest));
    let mut options =
        flags(&start_on(Arc::clone(&store), memcached), &["--preload", "--verify-all", "--seconds", "3600"]);
    options.output.json = Some(json.clone());
    let is_over = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&is_over);
    std::thread::spawn(move || {
        while store.gets.load(Ordering::Relaxed) < 1_000 {
            std::thread::yield_now();
        }
        ends.store(true, Ordering::Relaxed);
    });
    let error = run_until(options.clone(), Arc::clone(&is_over)).expect_err("it was ended").to_string();
    assert!(error.contains("it was ended after "), "{error}");
    let text = std::fs::read_to_string(&json).expect("written");
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert!(report["operations"].as_u64() > Some(0), "{text}");
    std::fs::remove_file(&json).expect("it is there");
    let error = run_until(options, is_over).expect_err("it is over").to_string();
    assert!(error.contains("before anything was measured") && !json.exists(), "{error}");
}

#[test]
fn results_are_written_as_json_and_svg() {
    let directory = std::env::temp_dir().join(format!("shorttail-bench-test-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let mut options = flags(&start(Habit::Honest, memcached), &with(&["--workload", "f"]));
    options.output.json = Some(directory.join("results.json"));
    options.svg = Some(directory.join("results.svg"));
    let own = std::process::id();
    options.server_pids = vec![own];
    let report = execute(&options, &mut ()).expect("the run ends");
    publish(&options, &report).expect("written");
    let json = std::fs::read(directory.join("results.json")).expect("written");
    let svg = std::fs::read_to_string(directory.join("results.svg")).expect("written");
    std::fs::remove_dir_all(&directory).expect("ours");
    let read: LoadReport = serde_json::from_slice(&json).expect("our own format");
    assert_eq!((read.operations, read.cpu.servers[0].pid), (report.operations, own));
    for title in ["latency, microseconds", "operations per second", "time, seconds", "read-modify-write"] {
        assert!(svg.contains(title), "{title}");
    }
    assert!(report.table().contains("p99.99"));
}

#[test]
fn who_wants_a_password_gets_it_first_and_says_if_it_is_wrong() {
    let directory = std::env::temp_dir().join(format!("shorttail-bench-test-auth-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let file = |name: &str, text: &str| {
        std::fs::write(directory.join(name), text).expect("written");
        directory.join(name).to_str().expect("text").to_owned()
    };
    let (right, wrong) = (file("right", "app:secret\n"), file("wrong", "app:secrat\n"));
    let servers = [
        ("memcached", start(Habit::Locked, memcached), "CLIENT_ERROR authentication failure"),
        ("redis", start(Habit::Locked, redis), "-WRONGPASS invalid password"),
    ];
    for (protocol, target, refusal) in &servers {
        let arguments = |file| [&with(&["--protocol", protocol])[..], &["--auth-file", file]].concat();
        let report = measured(target, &arguments(&right));
        assert_eq!((report.operations, report.error_count), (3_000, 0), "{protocol}");
        let error = execute(&flags(target, &arguments(&wrong)), &mut ()).expect_err("refused");
        let error = format!("{error:#}");
        assert!(error.contains("--auth-file") && error.contains(refusal), "{error}");
    }
    std::fs::remove_dir_all(&directory).expect("ours");
}

#[test]
fn nobody_there_is_said_clearly() {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
    let error = format!("{:#}", execute(&flags(&port.to_string(), &[]), &mut ()).expect_err("nobody listens"));
    assert!(error.contains(&port.to_string()) && error.contains("refused"), "{error}");
}

#[test]
fn unix_sockets_work() {
    let path = std::env::temp_dir().join(format!("shorttail-bench-test-{}.sock", std::process::id()));
    let listener = UnixListener::bind(&path).expect("a new path");
    let store = Arc::new(Store::new(Habit::Honest));
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let store = store.clone();
            std::thread::spawn(move || {
                let mut output = stream.try_clone().expect("a descriptor");
                let mut input = BufReader::new(stream);
                while memcached(&store, &mut input, &mut output).is_some() {}
            });
        }
    });
    let report = measured(&format!("unix:{}", path.display()), &with(&["--workload", "a"]));
    std::fs::remove_file(&path).expect("ours");
    check(&report).expect("an honest server");
    assert_eq!((report.operations, report.error_count), (3_000, 0));
}
