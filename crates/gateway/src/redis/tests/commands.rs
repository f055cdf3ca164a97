//! Commands on keys, reply by reply as Redis 7.0.15 gives them.

use shorttail_units::Version;

use super::super::key_command::Verb;
use super::super::verbs::{Condition, SetReply, StoreExpiry, WriteVerb};
use super::super::{KeyCommand, connection::Connection};
use super::*;
use crate::command::{ApplyContext, Command, Effect, StoreError};
use crate::limits::GROUP_BYTES_MAX;
use crate::request::Reply;
use crate::roster::ClientProtocol;

#[test]
fn strings_are_stored_and_read() {
    Client::new().script(&[
        ("GET a", "$-1"),
        ("SET a hello", "+OK"),
        ("get a", "$5 hello"),
        ("STRLEN a", ":5"),
        ("STRLEN b", ":0"),
        ("APPEND a !!", ":7"),
        ("APPEND b new", ":3"),
        ("GETRANGE a 1 -3", "$4 ello"),
        ("SUBSTR a 0 0", "$1 h"),
        ("GETRANGE none 0 -1", "$0 "),
        ("GETRANGE a x 0", "-ERR value is not an integer or out of range"),
        ("SETRANGE a 1 EL", ":7"),
        ("GET a", "$7 hELlo!!"),
        ("SETRANGE gap 2 x", ":3"),
        ("GET gap", "$3 \0\0x"),
        ("SETRANGE a -1 x", "-ERR offset is out of range"),
        ("SETRANGE a 9999999999 x", "-ERR string exceeds maximum allowed size (proto-max-bulk-len)"),
        ("SETRANGE a 9999999999 ", ":7"),
        ("SETRANGE none 5 ", ":0"),
        ("EXISTS none", ":0"),
        ("GETSET a new", "$7 hELlo!!"),
        ("GETSET c first", "$-1"),
        ("GETDEL c", "$5 first"),
        ("GETDEL c", "$-1"),
        ("SETNX a x", ":0"),
        ("SETNX d x", ":1"),
        ("TYPE a", "+string"),
        ("TYPE none", "+none"),
    ]);
}

#[test]
fn set_takes_conditions_and_expiry() {
    let mut client = Client::new();
    client.script(&[
        ("SET a 1 XX", "$-1"),
        ("SET a 1 NX", "+OK"),
        ("SET a 2 NX", "$-1"),
        ("SET a 2 XX GET", "$1 1"),
        ("SET a 3 nx get", "$1 2"),
        ("SET n 3 NX GET", "$-1"),
        ("GET n", "$1 3"),
        ("SET a 4 EX 10", "+OK"),
        ("TTL a", ":10"),
        ("SET a 5 KEEPTTL", "+OK"),
        ("PTTL a", ":10000"),
        ("SET a 6", "+OK"),
        ("TTL a", ":-1"),
        ("SET a 7 PX 1500", "+OK"),
        ("SET a 8 EX 1 EX 2", "+OK"),
        ("PTTL a", ":2000"),
        ("SET a 9 PXAT 1700000001000", "+OK"),
        ("PEXPIRETIME a", ":1700000001000"),
        ("SET a 9 EXAT 1700000003", "+OK"),
        ("EXPIRETIME a", ":1700000003"),
        ("SET a 9 EXAT 1", "+OK"),
        ("GET a", "$-1"),
    ]);
    for options in ["NX XX", "EX 1 PX 1", "EX 1 KEEPTTL", "EX", "FOO", "PERSIST", "EX 1 EXAT 1"] {
        assert_eq!(client.say(&format!("SET a v {options}")), "-ERR syntax error", "{options}");
    }
    for time in ["0", "-1", "9223372036854775807"] {
        for (command, name) in [("SET a v EX", "set"), ("SET a v PXAT", "set")] {
            let expected = match (command, time) {
                ("SET a v PXAT", "9223372036854775807") => "+OK".to_owned(),
                _ => format!("-ERR invalid expire time in '{name}' command"),
            };
            assert_eq!(client.say(&format!("{command} {time}")), expected);
        }
    }
    client.script(&[
        ("SET a v EX x", "-ERR value is not an integer or out of range"),
        ("SETEX a 0 v", "-ERR invalid expire time in 'setex' command"),
        ("PSETEX a -1 v", "-ERR invalid expire time in 'psetex' command"),
        ("SETEX a 5 v", "+OK"),
        ("PSETEX a 5000 v", "+OK"),
        ("PTTL a", ":5000"),
    ]);
}

#[test]
fn getex_changes_only_the_expiry() {
    let mut client = Client::new();
    client.script(&[
        ("GETEX a EX 0", "$-1"),
        ("SET a v", "+OK"),
        ("GETEX a EX 0", "-ERR invalid expire time in 'getex' command"),
        ("GETEX a", "$1 v"),
        ("GETEX a EX 100", "$1 v"),
        ("TTL a", ":100"),
        ("GETEX a PERSIST", "$1 v"),
        ("TTL a", ":-1"),
        ("GETEX a KEEPTTL", "-ERR syntax error"),
        ("GETEX a PERSIST EX 1", "-ERR syntax error"),
        ("GETEX a PXAT 1", "$1 v"),
        ("EXISTS a", ":0"),
    ]);
}

#[test]
fn numbers_are_counted_exactly() {
    Client::new().script(&[
        ("INCR n", ":1"),
        ("INCRBY n 41", ":42"),
        ("DECR n", ":41"),
        ("DECRBY n -1", ":42"),
        ("INCRBY n 9223372036854775807", "-ERR increment or decrement would overflow"),
        ("DECRBY n -9223372036854775808", "-ERR decrement would overflow"),
        ("INCRBY n 1.5", "-ERR value is not an integer or out of range"),
        ("SET s 01", "+OK"),
        ("INCR s", "-ERR value is not an integer or out of range"),
        ("SET f 10.50", "+OK"),
        ("INCRBYFLOAT f 0.1", "$4 10.6"),
        ("INCRBYFLOAT f -5e0", "$3 5.6"),
        ("INCRBYFLOAT f nan", "-ERR value is not a valid float"),
        ("INCRBYFLOAT f inf", "-ERR increment would produce NaN or Infinity"),
        ("SET s abc", "+OK"),
        ("INCRBYFLOAT s 1", "-ERR value is not a valid float"),
        ("SET t 5 EX 100", "+OK"),
        ("INCR t", ":6"),
        ("TTL t", ":100"),
    ]);
}

#[test]
fn keys_expire_as_told() {
    let mut client = Client::new();
    client.script(&[
        ("EXPIRE a 10", ":0"),
        ("TTL a", ":-2"),
        ("SET a v", "+OK"),
        ("EXPIRE a 10 XX", ":0"),
        ("EXPIRE a 10 GT", ":0"),
        ("EXPIRE a 10 LT", ":1"),
        ("EXPIRE a 10 NX", ":0"),
        ("EXPIRE a 5 GT", ":0"),
        ("EXPIRE a 20 gt xx", ":1"),
        ("EXPIRE a 30 LT", ":0"),
        ("TTL a", ":20"),
        ("PERSIST a", ":1"),
        ("PERSIST a", ":0"),
        ("PEXPIRE a 1499", ":1"),
        ("TTL a", ":1"),
        ("EXPIRETIME a", ":1700000001"),
        ("EXPIRE a 1 NX GT", "-ERR NX and XX, GT or LT options at the same time are not compatible"),
        ("EXPIRE a 1 LT GT", "-ERR GT and LT options at the same time are not compatible"),
        ("EXPIRE a 1 FOO", "-ERR Unsupported option FOO"),
        ("EXPIRE a 1 F\nO\r\n", "-ERR Unsupported option F O"),
        ("EXPIRE a x", "-ERR value is not an integer or out of range"),
        ("EXPIRE a 9223372036854775807", "-ERR invalid expire time in 'expire' command"),
        ("PEXPIRE a 9223372036854775807", "-ERR invalid expire time in 'pexpire' command"),
    ]);
    client.pass_ms(1498);
    assert_eq!(client.say("PTTL a"), ":1");
    client.pass_ms(1);
    client.script(&[
        ("GET a", "$-1"),
        ("SET a v", "+OK"),
        ("EXPIREAT a 1", ":1"),
        ("EXISTS a", ":0"),
        ("SET a v", "+OK"),
        ("PEXPIREAT a -1", ":1"),
        ("EXISTS a", ":0"),
    ]);
}

#[test]
fn a_time_to_live_begins_when_the_command_is_carried_out() {
    for (command, left) in [
        ("SET a v PX 1000", ":1000"),
        ("SETEX a 1 v", ":1000"),
        ("PSETEX a 1000 v", ":1000"),
        ("EXPIRE a 1", ":1000"),
        ("PEXPIRE a 1000 GT", ":1000"),
        ("GETEX a EX 1", ":1000"),
        ("EXPIREAT a 1700000003", ":1000"),
    ] {
        let mut client = Client::new();
        client.say("SET a old PX 2500");
        client.send(&stream(&[command]));
        // It waits for an owner.
        client.pass_ms(2_000);
        client.settle();
        assert_eq!(client.say("PTTL a"), left, "{command}");
    }
}

#[test]
fn many_keys_at_once() {
    let mut client = Client::new();
    client.script(&[
        ("MSET a 1 b 2 a 3", "+OK"),
        ("MGET a none b", "*3 $1 3 $-1 $1 2"),
        ("MSETNX a 1 b 2", "-CROSSSLOT Keys in request don't hash to the same slot"),
        ("MSETNX {t}1 x {t}2 y {t}1 z", ":1"),
        ("MGET {t}1 {t}2", "*2 $1 z $1 y"),
        ("MSETNX {t}2 x {t}3 y", ":0"),
        ("EXISTS {t}3", ":0"),
        ("MSET {t}2 x {t}3 y", "+OK"),
        ("EXISTS {t}3 {t}3 none a", ":3"),
        ("TOUCH a none", ":1"),
        ("DEL a a b", ":2"),
        ("UNLINK {t}1 {t}2 {t}3", ":3"),
        ("DBSIZE", ":0"),
        ("MSET a", "-ERR wrong number of arguments for 'mset' command"),
        ("MSET a 1 b", "-ERR wrong number of arguments for 'mset' command"),
        ("MSETNX a 1 b", "-ERR wrong number of arguments for 'msetnx' command"),
    ]);
}

#[test]
fn what_an_owner_does_not_store_together_is_stored_one_by_one_or_not_at_all() {
    let asked = |verb: &str, value_bytes: usize| {
        let mut client = Client::new();
        let value = "x".repeat(value_bytes);
        client.send(&stream(&[&format!("{verb} {{t}}a {value} {{t}}b x")]));
        let groups = client.asked.iter().filter(|(_, request)| matches!(request, Request::Group(_))).count();
        (groups, client.asked.len(), String::from_utf8(client.settle()).expect("text"))
    };
    let refused = "-ERR keys and values that are stored together or not at all must be shorter\r\n";
    let most = GROUP_BYTES_MAX - "{t}a{t}bx".len();
    assert_eq!(asked("MSET", most), (1, 1, "+OK\r\n".into()));
    assert_eq!(asked("MSET", most + 1), (0, 2, "+OK\r\n".into()));
    assert_eq!(asked("MSETNX", most), (1, 1, ":1\r\n".into()));
    assert_eq!(asked("MSETNX", most + 1), (0, 0, refused.into()));
    // An owner takes less.
    let mut client = Client::new();
    client.send(&stream(&["MSETNX {t}a x {t}b x"]));
    let (id, _) = client.asked.remove(0);
    let reply = Reply::Group(Err(StoreError::TooLarge));
    client.session.handle_reply(client.now, &mut client.shared, id, reply, &mut |_, _| {});
    assert_eq!(client.settle(), refused.as_bytes());
}

#[test]
fn more_keys_than_fit_in_flight_are_carried_out_step_by_step() {
    for order in [Order::Asked, Order::Reversed] {
        let mut client = Client::new();
        client.order = order;
        let keys: Vec<_> = (0..1000).map(|number| format!("key{number}")).collect();
        let pairs: Vec<_> = keys.iter().map(|key| format!("{key} v{key}")).collect();
        assert_eq!(client.say(&format!("MSET {}", pairs.join(" "))), "+OK");
        assert_eq!(client.say("DBSIZE"), ":1000");
        let values: Vec<_> = keys.iter().map(|key| format!("${} v{key}", key.len() + 1)).collect();
        assert_eq!(client.say(&format!("MGET {}", keys.join(" "))), format!("*1000 {}", values.join(" ")));
        assert_eq!(client.say(&format!("EXISTS {} none", keys.join(" "))), ":1000");
        assert_eq!(client.say(&format!("DEL {} none", keys.join(" "))), ":1000");
        assert_eq!(client.say("DBSIZE"), ":0");
    }
}

#[test]
fn what_is_stored_of_a_key_is_told() {
    let mut client = Client::new();
    client.script(&[
        ("OBJECT ENCODING a", "$-1"),
        ("SET a 12", "+OK"),
        ("OBJECT ENCODING a", "$3 int"),
        ("SET a 012", "+OK"),
        ("OBJECT ENCODING a", "$6 embstr"),
        ("OBJECT REFCOUNT a", ":1"),
        // ceil((1 + 3 + 16) x 6 / 4) + 24
        ("MEMORY USAGE a", ":54"),
        ("MEMORY USAGE a SAMPLES 0", ":54"),
        ("MEMORY USAGE a SAMPLES -1", "-ERR syntax error"),
        ("MEMORY USAGE none", "$-1"),
    ]);
    client.say(&format!("SET a {}", "x".repeat(45)));
    assert_eq!(client.say("OBJECT ENCODING a"), "$3 raw");
    client.pass_ms(9_000);
    client.script(&[("OBJECT IDLETIME a", ":9"), ("TTL a", ":-1"), ("EXISTS a", ":1"), ("OBJECT IDLETIME a", ":9")]);
    client.script(&[("CLIENT NO-TOUCH on", "+OK"), ("STRLEN a", ":45"), ("OBJECT IDLETIME a", ":9")]);
    client.script(&[("TOUCH a", ":1"), ("OBJECT IDLETIME a", ":0"), ("CLIENT NO-TOUCH off", "+OK")]);
    assert!(client.say("OBJECT FREQ a").starts_with("-ERR An LFU maxmemory policy is not selected"));
}

#[test]
fn scans_meet_every_key() {
    let mut client = Client::new();
    for number in 0..25 {
        client.say(&format!("SET key{number:02} v"));
    }
    client.say("SET other v");
    let mut cursor = "0".to_owned();
    let mut met = Vec::new();
    loop {
        let reply = client.say(&format!("SCAN {cursor} MATCH key* COUNT 10 TYPE string"));
        let words: Vec<_> = reply.split(' ').map(str::to_owned).collect();
        cursor = words[2].clone();
        met.extend(words.into_iter().filter(|word| word.starts_with("key")));
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(met.len(), 25);
    client.script(&[
        ("KEYS key0[1-3]", "*3 $5 key01 $5 key02 $5 key03"),
        ("KEYS none", "*0"),
        ("SCAN 0 TYPE list COUNT 100", "*2 $1 0 *0"),
        ("SCAN x", "-ERR invalid cursor"),
        ("SCAN -", "-ERR invalid cursor"),
        ("SCAN +", "-ERR invalid cursor"),
        ("SCAN -0\0x TYPE list COUNT 100", "*2 $1 0 *0"),
        ("SCAN -9 COUNT x", "-ERR value is not an integer or out of range"),
        ("SCAN 0 COUNT 0", "-ERR syntax error"),
        ("SCAN 0 COUNT x", "-ERR value is not an integer or out of range"),
        ("SCAN 0 MATCH", "-ERR syntax error"),
        ("RANDOMKEY", "$5 key00"),
        ("FLUSHALL now", "-ERR syntax error"),
        ("FLUSHALL ASYNC", "+OK"),
        ("DBSIZE", ":0"),
        ("RANDOMKEY", "$-1"),
        ("FLUSHDB", "+OK"),
    ]);
    let many: Vec<_> = (0..2500).map(|number| format!("k{number}")).collect();
    client.say(&format!("MSET {}", many.iter().map(|key| format!("{key} v")).collect::<Vec<_>>().join(" ")));
    assert!(client.say("KEYS *").starts_with("*2500 "));
}

#[test]
fn values_and_keys_beyond_the_limits_are_refused_and_the_connection_lives_on() {
    let mut client = Client::with(Settings { value_bytes_max: 100_000, key_bytes_max: 10, ..Settings::default() });
    let too_large = "-ERR string exceeds maximum allowed size (proto-max-bulk-len)";
    let (most, more) = ("x".repeat(100_000), "x".repeat(100_001));
    assert_eq!(client.say(&format!("SET a {most}")), "+OK");
    for command in
        [format!("SET a {more}"), format!("MSET a 1 b {more}"), "APPEND a x".into(), format!("SETNX b {more}")]
    {
        assert_eq!(client.say(&command), too_large);
    }
    client.script(&[
        ("EXISTS b", ":0"),
        ("SET 12345678901 v", "-ERR key exceeds maximum allowed size"),
        ("MGET a 12345678901", "-ERR key exceeds maximum allowed size"),
        ("STRLEN a", ":100000"),
    ]);
}

fn connection_of(client: &Client) -> Connection {
    let seat = client.shared.roster.enter(ClientProtocol::Redis, String::new(), String::new(), client.now);
    Connection::new(seat, &client.shared.settings)
}

/// A verb and what it says when the engine cannot.
#[test]
fn what_the_engine_cannot_do_is_told_in_codes_that_clients_know() {
    let client = Client::new();
    let connection = connection_of(&client);
    let verb = Verb::Number(super::super::verbs::NumberVerb::Add(1));
    let command = KeyCommand::new(b"k".to_vec(), verb, &connection);
    for (error, expected) in [
        (StoreError::OutOfMemory, "-OOM command not allowed when used memory > 'maxmemory'.\r\n"),
        (StoreError::TooLarge, "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n"),
        (
            StoreError::TooFewNodes { alive: 2, needed: 3 },
            "-NOREPLICAS Not enough good replicas to write: too few nodes are alive to store safely: 2 of the 3 \
             needed\r\n",
        ),
        (StoreError::Overloaded, "-TRYAGAIN overloaded: too many requests in flight\r\n"),
        (StoreError::OutcomeUnknown, "-ERR outcome unknown: the write was sent but not confirmed\r\n"),
    ] {
        let mut reply = Vec::new();
        command.refuse(error, &mut reply);
        assert_eq!(String::from_utf8_lossy(&reply), expected);
    }
}

#[test]
fn a_store_applied_twice_stores_the_same() {
    let client = Client::new();
    let connection = connection_of(&client);
    let verb = WriteVerb::Set {
        value: b"value".to_vec(),
        expiry: StoreExpiry::Never,
        condition: Condition::Always,
        reply: SetReply::Status,
    };
    let mut command = KeyCommand::new(b"k".to_vec(), verb.into(), &connection);
    let context = ApplyContext { now: client.now, version: Version::from_raw(1) };
    let first = command.apply(None, &context, &mut Vec::new());
    let again = command.apply(None, &context, &mut Vec::new());
    assert!(matches!(&first, Effect::Put(object) if object.value == b"value"));
    assert_eq!(first, again);
}
