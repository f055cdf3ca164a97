//! memcached's flags, as scripts and suites write them.

use std::path::PathBuf;

use shorttail_server::config::{LauncherOptions, UnixSocketConfig, WhenFull};
use shorttail_server::single::memory_bytes_max;
use shorttail_units::CodeShape;

use super::options::{Parsed, Request, parse};
use super::*;

fn parsed(line: &str) -> Result<Parsed, Refusal> {
    let flags: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    parse(&flags, |_| None)
}

fn request(line: &str) -> Request {
    match parsed(line) {
        Ok(Parsed::Serve(request)) => *request,
        other => panic!("{line}: {other:?}"),
    }
}

fn options(line: &str) -> LauncherOptions {
    request(line).options
}

fn refusal(line: &str) -> Refusal {
    parsed(line).err().unwrap_or_else(|| panic!("{line} was accepted"))
}

fn listen(line: &str) -> Vec<String> {
    options(line).listen.iter().map(ToString::to_string).collect()
}

#[test]
fn the_program_is_memcached_by_name_or_by_verb() {
    let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
    assert_eq!(flags_of(&words("/usr/bin/memcached -p 1")).map(<[_]>::len), Some(2));
    assert_eq!(flags_of(&words("./memcached-debug -h")).map(<[_]>::len), Some(1));
    assert_eq!(flags_of(&words("shorttail memcached -p 1")).map(<[_]>::len), Some(2));
    assert_eq!(flags_of(&words("shorttail up")), None);
    assert_eq!(flags_of(&words("shorttail up memcached")), None);
}

#[test]
fn defaults_are_memcacheds() {
    let options = options("");
    assert_eq!(options.listen, ["0.0.0.0:11211".parse().expect("literal")]);
    assert_eq!((options.memory_bytes, options.value_bytes_max), (64 << 20, 1 << 20));
    assert_eq!((options.connection_count_max, options.threads, options.backlog), (1024, 4, 1024));
    assert_eq!(options.core_count, 1);
    for (line, threads, core_count) in [("-t 2", 2, 2), ("-t 9", 9, 4)] {
        let options = self::options(line);
        assert_eq!((options.threads, options.core_count), (threads, core_count), "{line}");
    }
    assert_eq!((options.code.to_string().as_str(), options.node_count), ("rs:4+2", 8));
    assert_eq!(options.when_full, WhenFull::Evict);
}

#[test]
fn flags_are_taken_in_every_spelling() {
    for line in ["-p 11300 -m 128", "-p11300 -m128", "--port=11300 --memory-limit=128", "--port 11300 --memory-l 128"] {
        let options = options(line);
        assert_eq!((options.listen[0].port(), options.memory_bytes), (11300, 128 << 20), "{line}");
    }
    assert_eq!(options("-vvv").verbosity, 3);
    assert_eq!(options("-v -vv --verbose").verbosity, 4);
    let options = options("-MFvp 11300 -c10");
    assert_eq!((options.when_full, options.flush_disabled, options.verbosity), (WhenFull::Error, true, 1));
    assert_eq!((options.listen[0].port(), options.connection_count_max), (11300, 10));
}

#[test]
fn flags_in_the_way_of_the_c_library_are_refused_in_its_words() {
    for (line, words) in [
        ("-x", "memcached: invalid option -- 'x'"),
        ("-p", "memcached: option requires an argument -- 'p'"),
        ("--nothing", "memcached: unrecognized option '--nothing'"),
        ("--disable", "memcached: option '--disable' is ambiguous"),
        ("--port", "memcached: option '--port' requires an argument"),
        ("--daemon=1", "memcached: option '--daemon' doesn't allow an argument"),
    ] {
        let refusal = refusal(line);
        assert!(refusal.message.starts_with(words), "{line}: {}", refusal.message);
        assert_eq!(refusal.code, EXIT_FAILURE, "{line}");
    }
}

#[test]
fn what_only_prints_prints() {
    assert_eq!(parsed("-h"), Ok(Parsed::Help));
    assert_eq!(parsed("-V -p 1"), Ok(Parsed::Version));
    assert_eq!(parsed("-i"), Ok(Parsed::License));
    assert_eq!(parsed("--help"), Ok(Parsed::Help));
}

#[test]
fn the_help_names_no_feature_that_is_not_there() {
    for word in ["sasl", "enable-ssl", "ext_path", "proxy_config", "no_drop_privileges", "memory-file"] {
        assert!(!usage::HELP.to_lowercase().contains(word), "{word}");
    }
    assert!(usage::HELP.contains("unix-socket"));
    assert!(usage::HELP.starts_with(usage::VERSION));
}

#[test]
fn addresses_are_taken_as_memcached_takes_them() {
    assert_eq!(listen("-l 127.0.0.1"), ["127.0.0.1:11211"]);
    assert_eq!(listen("-l 127.0.0.1:1,127.0.0.2:2 -l 127.0.0.3"), ["127.0.0.1:1", "127.0.0.2:2", "127.0.0.3:11211"]);
    assert_eq!(listen("-l 127.0.0.1 -l 127.0.0.1"), ["127.0.0.1:11211"]);
    assert_eq!(listen("-l [::1]:5,::1 -p 6"), ["[::1]:5", "[::1]:6"]);
    assert_eq!(listen("-l *:7"), ["0.0.0.0:7"]);
    let many = |count: u16| (1..=count).map(|port| format!("127.0.0.1:{port}")).collect::<Vec<_>>().join(",");
    assert_eq!(listen(&format!("-l {}", many(63))).len(), 63);
    assert_eq!(refusal(&format!("-l {}", many(64))).message, "-l: 64 addresses, at most 63 are served");
    assert_eq!(listen("-l proto[ascii]:tag[web]:127.0.0.1:8,tag_web_:127.0.0.1:9"), ["127.0.0.1:8", "127.0.0.1:9"]);
    assert_eq!(refusal("-l 127.0.0.1:x").message, "Invalid port number: \"x\"");
    assert_eq!(refusal("-l mtls:127.0.0.1").code, EX_USAGE);
    assert_eq!(refusal("-l proto[binary]:127.0.0.1").code, EX_USAGE);
    assert_eq!(refusal("-l tag[toolongname]:127.0.0.1").code, EX_USAGE);
}

#[test]
fn special_ports_mean_what_they_mean_in_memcached() {
    assert_eq!(listen("-p -1"), ["0.0.0.0:0"], "any free port");
    assert!(listen("-p 0").is_empty(), "no TCP");
    assert_eq!(listen("-U 11222"), ["0.0.0.0:11222"], "a UDP port alone is the TCP port too");
    assert_eq!(listen("-U -1"), ["0.0.0.0:0"]);
    assert_eq!(listen("-p 5 -U 6"), ["0.0.0.0:5"]);
    assert_eq!(refusal("-p 65536"), Refusal::new(EX_USAGE, "ERROR: Invalid port number 65536."));
    assert_eq!(request("-U 0").warnings, [""; 0]);
    assert_eq!(request("-U 5").warnings.len(), 1, "that UDP is not served is said");
}

#[test]
fn a_unix_socket_turns_the_network_off() {
    let options = options("-s /run/m.sock -a 777 -p 11211");
    assert_eq!(options.unix_socket, Some(UnixSocketConfig { path: PathBuf::from("/run/m.sock"), mode: 0o777 }));
    assert!(options.listen.is_empty());
    assert_eq!(refusal("-s /run/m.sock -a 9").code, EX_USAGE);
}

#[test]
fn item_sizes_have_memcacheds_limits_and_messages() {
    for (line, bytes) in [("-I 1024", 1024), ("-I 512k", 512 << 10), ("-m 256 -I 32M", 32 << 20), ("-I 1k", 1024)] {
        assert_eq!(options(line).value_bytes_max, bytes, "{line}");
    }
    assert_eq!(options("-m 2048 -I 1g").value_bytes_max, 1 << 30);
    for (line, message) in [
        ("-I 1000", "Item max size cannot be less than 1024 bytes."),
        ("-I 256m", "Cannot set item size limit higher than 1/2 of memory max."),
        ("-m 4096 -I 1025m", "Cannot set item size limit higher than a gigabyte."),
    ] {
        assert_eq!(refusal(line), Refusal::new(EX_USAGE, message), "{line}");
    }
}

#[test]
fn what_cannot_be_honoured_is_an_error() {
    for line in ["-S", "-Z", "-e /tmpfs/m", "-B binary", "-B http", "-o ssl_key=k", "-o ext_path=/x:1g"] {
        assert_eq!(refusal(line).code, EX_USAGE, "{line}");
    }
    for line in ["-c 0", "-c -1", "-t 0", "-R 0", "-f 1", "-n 0", "-o nothing", "-o hashpower", "-o hash_algorithm=x"] {
        assert_eq!(refusal(line).code, EXIT_FAILURE, "{line}");
    }
    assert_eq!(refusal("-c 0").message, "Maximum connections must be greater than 0");
    assert_eq!(refusal("-Y /nonexistent").code, EXIT_FAILURE);
}

#[test]
fn what_has_no_meaning_is_accepted_and_noted() {
    let request =
        request("-R 500 -f 1.5 -n 48 -k -r -L -X -W -N 1 -b 8675 -o no_modern,no_lru_crawler,slab_chunk_max=16");
    assert_eq!(request.notes.len(), 11, "{:#?}", request.notes);
    assert!(request.warnings.is_empty());
    assert_eq!(request.options.backlog, 8675);
    assert_eq!(request.options.pipeline_count_max, Some(500));
    for reported in [("growth_factor", "1.50"), ("lru_crawler", "no")] {
        let reported = (reported.0, reported.1.to_owned());
        assert!(request.options.reported.contains(&reported), "{reported:?}");
    }
}

#[test]
fn every_start_of_memcacheds_own_suite_is_understood() {
    for line in [
        "-m 4098 -M -u root -o relaxed_privileges",
        "-l 127.0.0.1 -u root -o relaxed_privileges -p 30123 -U 30124",
        "-o read_buf_mem_limit=1 -t 32 -R 500",
        "-m 3 -o modern,slab_automove_window=3",
        "-o idle_timeout=3 -l 127.0.0.1",
        "-o slab_reassign,no_slab_automove -m 8",
        "-o no_lru_crawler,slab_reassign,slab_automove=0,slab_chunk_max=16 -m 12",
        "-m 60 -o slab_reassign,slab_automove,lru_crawler,lru_maintainer,slab_chunk_max=4",
        "-I 1024 -o slab_chunk_max=1,no_lru_crawler,no_lru_maintainer",
        "-m 2 -o lru_maintainer,lru_crawler,temporary_ttl=61",
        "-vv -B auto",
        "-o drop_privileges",
        "-s /run/x -C -F -A -b 8675",
    ] {
        assert!(parsed(line).is_ok(), "{line}: {:?}", parsed(line));
    }
    assert_eq!(options("-o idle_timeout=3 -l 127.0.0.1").idle_timeout_s, 3);
}

#[test]
fn the_environment_names_the_port_file_and_the_cluster() {
    let environment = |name: &str| {
        let value = match name {
            "MEMCACHED_PORT_FILENAME" => "/run/ports",
            "SHORTTAIL_MEMCACHED_CODE" => "rs:8+2",
            _ => return None,
        };
        Some(value.to_owned())
    };
    let Ok(Parsed::Serve(request)) = parse(&[], environment) else { panic!("refused") };
    assert_eq!(request.options.port_file, Some(PathBuf::from("/run/ports")));
    assert_eq!(request.options.node_count, 10);
    let too_few = |name: &str| (name == "SHORTTAIL_MEMCACHED_NODES").then(|| "5".to_owned());
    assert_eq!(parse(&[], too_few).err().map(|refusal| refusal.code), Some(EX_USAGE));
}

#[test]
fn memory_beyond_what_nodes_take_is_refused_by_its_flag() {
    let parsed = |mib: u64| parse(&["-m".to_owned(), mib.to_string()], |_| None);
    let max = memory_bytes_max(CodeShape::default(), 8) >> 20;
    assert!(parsed(max).is_ok());
    for mib in [max + 1, 1_000_000_000, u64::MAX] {
        let refusal = parsed(mib).expect_err("too much");
        assert!(refusal.code == EX_USAGE && refusal.message.starts_with(&format!("-m {mib}: ")), "{refusal:?}");
    }
}

#[test]
fn around_serving_is_kept_apart() {
    let request = request("-d -P /run/m.pid -u nobody -r");
    assert!(request.daemonize && request.keep_directory);
    assert_eq!(request.pid_file, Some(PathBuf::from("/run/m.pid")));
    assert_eq!(request.user.as_deref(), Some("nobody"));
}

#[test]
fn a_pid_file_holds_the_number_and_goes() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("m.pid");
    let file = daemon::PidFile::write(&path);
    assert_eq!(std::fs::read_to_string(&path).expect("written"), format!("{}\n", std::process::id()));
    file.remove();
    assert!(!path.exists());
}
