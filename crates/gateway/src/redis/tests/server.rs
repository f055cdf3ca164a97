//! Commands about connection and server, and errors of the request itself.

use super::*;
use crate::command::StoreError;
use crate::redis::limits;
use crate::request::Reply;
use crate::roster::ClientProtocol;
use crate::session::Credential;

#[test]
fn wrong_requests_get_redis_words() {
    let mut client = Client::new();
    client.script(&[
        ("GET", "-ERR wrong number of arguments for 'get' command"),
        ("get a b", "-ERR wrong number of arguments for 'get' command"),
        ("PING a b", "-ERR wrong number of arguments for 'ping' command"),
        ("LPUSH a b", "-ERR unknown command 'LPUSH', with args beginning with: 'a' 'b' "),
        ("nope", "-ERR unknown command 'nope', with args beginning with: "),
        ("CLIENT", "-ERR wrong number of arguments for 'client' command"),
        ("CLIENT Foo", "-ERR unknown subcommand 'Foo'. Try CLIENT HELP."),
        ("CLIENT SETNAME", "-ERR wrong number of arguments for 'client|setname' command"),
        ("CONFIG SET a b", "-ERR unknown subcommand 'SET'. Try CONFIG HELP."),
        ("SELECT 0", "+OK"),
        ("SELECT 1", "-ERR DB index is out of range"),
        ("SELECT x", "-ERR value is not an integer or out of range"),
        ("SELECT 9999999999", "-ERR value is out of range, value must between -2147483648 and 2147483647"),
    ]);
    assert_eq!(
        client.say_words(&[b"a\r\nb", &[b'x'; 200], b"never shown"]),
        format!("-ERR unknown command 'a  b', with args beginning with: '{}' ", "x".repeat(128))
    );
    assert_eq!(client.say_words(&[b"\0x"]), "-ERR unknown command '', with args beginning with: ");
}

#[test]
fn connections_talk_about_themselves() {
    let mut client = Client::new();
    client.script(&[
        ("PING", "+PONG"),
        ("PING hi", "$2 hi"),
        ("ECHO hi", "$2 hi"),
        ("CLIENT ID", ":1"),
        ("CLIENT GETNAME", "$-1"),
        ("CLIENT SETNAME me", "+OK"),
        ("CLIENT GETNAME", "$2 me"),
        ("CLIENT SETNAME a\nb", "-ERR Client names cannot contain spaces, newlines or special characters."),
        ("CLIENT SETINFO LIB-NAME redis-py", "+OK"),
        ("CLIENT SETINFO lib-ver 5.0", "+OK"),
        ("CLIENT SETINFO foo 5.0", "-ERR Unrecognized option 'foo'"),
        ("CLIENT NO-EVICT on", "+OK"),
        ("CLIENT NO-EVICT maybe", "-ERR syntax error"),
        ("CLIENT LIST ID 8", "$0 "),
        ("CLIENT LIST ID x", "-ERR Invalid client ID"),
        ("CLIENT LIST TYPE x", "-ERR Unknown client type 'x'"),
        ("TIME", "*2 $10 1700000000 $1 0"),
        ("WAIT 1 0", ":2"),
        ("WAIT x 0", "-ERR value is not an integer or out of range"),
        ("WAIT 1 x", "-ERR timeout is not an integer or out of range"),
        ("WAIT 1 -1", "-ERR timeout is negative"),
    ]);
    let line = client.say("CLIENT INFO");
    for field in ["id=1 ", "addr=10.0.0.1:5000 ", "name=me ", "cmd=client|info ", "lib-name=redis-py lib-ver=5.0"] {
        assert!(line.contains(field), "{field} in {line}");
    }
    client.script(&[("RESET", "+RESET"), ("CLIENT GETNAME", "$-1")]);
}

#[test]
fn hello_switches_the_protocol() {
    let mut client = Client::new();
    client.script(&[
        ("HELLO 4", "-NOPROTO unsupported protocol version"),
        ("HELLO x", "-ERR Protocol version is not an integer or out of range"),
        ("HELLO 3 FOO", "-ERR Syntax error in HELLO option 'FOO'"),
        ("HELLO 3 SETNAME", "-ERR Syntax error in HELLO option 'SETNAME'"),
        (
            "HELLO 3 SETNAME me",
            "%7 $6 server $5 redis $7 version $6 7.0.15 $5 proto :3 $2 id :1 $4 mode $10 standalone $4 role $6 master \
             $7 modules *0",
        ),
        ("CLIENT GETNAME", "$2 me"),
        ("GET none", "_"),
        ("SET a 1 XX", "_"),
        ("MGET none", "*1 _"),
        ("CONFIG GET save", "%1 $4 save $0 "),
    ]);
    assert!(client.say("INFO server").starts_with('='));
    assert!(client.say("HELLO 2").starts_with("*14 "));
    assert_eq!(client.say("GET none"), "$-1");
}

#[test]
fn strangers_must_authenticate_first() {
    let credential = Credential { user: b"default".to_vec(), password: b"secret".to_vec() };
    let mut client = Client::with(Settings { credentials: vec![credential], ..Settings::default() });
    let no_auth = "-NOAUTH Authentication required.";
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.";
    client.script(&[
        ("GET a", no_auth),
        ("PING", no_auth),
        ("NOPE", "-ERR unknown command 'NOPE', with args beginning with: "),
        ("AUTH bad", wrong),
        ("AUTH secret2", wrong),
        ("AUTH other secret", wrong),
        ("HELLO 3 AUTH default bad", wrong),
        ("AUTH a b c", "-ERR syntax error"),
    ]);
    assert!(client.say("HELLO 3").starts_with(
        "-NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option"
    ));
    client.script(&[("AUTH secret", "+OK"), ("GET a", "$-1"), ("RESET", "+RESET"), ("GET a", no_auth)]);
    assert!(client.say("HELLO 3 AUTH default secret").starts_with("%7"));
    assert_eq!(client.say("GET a"), "_");
    assert_eq!(client.shared.counters.auth_errors, 4);

    let mut open = Client::new();
    assert!(open.say("AUTH x").starts_with("-ERR AUTH <password> called without any password configured"));
    open.script(&[("AUTH default x", "+OK"), ("AUTH other x", wrong)]);
}

#[test]
fn info_and_config_tell_settings_and_counters() {
    let mut client = Client::new();
    client.script(&[("SET a v", "+OK"), ("GET a", "$1 v"), ("GET b", "$-1"), ("MGET a b", "*2 $1 v $-1")]);
    let info = client.say("INFO");
    for field in ["redis_version:7.0.15", "keyspace_hits:2", "keyspace_misses:2", "db0:keys=1,", "erasure_code:rs:4+2"]
    {
        assert!(info.contains(field), "{field} in {info}");
    }
    assert!(client.say("INFO keyspace memory").contains("# Memory"));
    assert!(!client.say("INFO keyspace").contains("# Memory"));
    client.script(&[
        ("INFO nothing", "$0 "),
        ("CONFIG GET databases MAXMEMORY-p*", "*4 $9 databases $1 1 $16 maxmemory-policy $11 allkeys-lru"),
        ("CONFIG GET nothing", "*0"),
        ("CONFIG RESETSTAT", "+OK"),
    ]);
    assert!(client.say("INFO stats").contains("keyspace_hits:0"));
}

#[test]
fn hits_and_misses_are_those_that_redis_counts() {
    let mut client = Client::new();
    client.say_words(&[b"MSET", b"a", b"hello", b"0", b"0", b"empty", b""]);
    let mut counted = |command: &str| {
        let before = client.shared.counters.clone();
        client.say(command);
        let now = &client.shared.counters;
        assert_eq!(now.get_commands, now.get_hits + now.get_misses, "{command}");
        (now.get_hits - before.get_hits, now.get_misses - before.get_misses)
    };
    for (command, hits, misses) in [
        ("GET empty", 1, 0),
        ("GETEX none", 0, 1),
        ("MGET a none none 0", 2, 2),
        ("STRLEN a", 1, 0),
        ("STRLEN none", 0, 1),
        ("GETRANGE a 0 1", 1, 0),
        ("SUBSTR none 0 1", 0, 1),
        ("EXISTS a a none", 2, 1),
        ("TOUCH a none", 1, 1),
        ("TYPE a", 1, 0),
        ("TYPE none", 0, 1),
        ("TTL a", 1, 0),
        ("PEXPIRETIME none", 0, 1),
        ("OBJECT IDLETIME a", 1, 0),
        ("OBJECT ENCODING none", 0, 1),
        ("SET a hello GET", 1, 0),
        ("GETSET new x", 0, 1),
        ("GETDEL new", 1, 0),
        // Neither are writes, nor what Redis does not look up as a read.
        ("SET a hello", 0, 0),
        ("INCR 0", 0, 0),
        ("EXPIRE none 5", 0, 0),
        ("DEL none", 0, 0),
        ("MEMORY USAGE a", 0, 0),
    ] {
        assert_eq!(counted(command), (hits, misses), "{command}");
    }
    let before = client.shared.counters.clone();
    client.send(&stream(&["GET a", "EXISTS a"]));
    for (id, _) in std::mem::take(&mut client.asked) {
        let mut error = Vec::new();
        crate::redis::error::store_error(StoreError::Unreadable).encode(&mut error);
        let mut sink = |_, _| panic!("nothing more is asked");
        client.session.handle_reply(client.now, &mut client.shared, id, Reply::Bytes(error), &mut sink);
    }
    let now = &client.shared.counters;
    assert_eq!((now.get_hits, now.get_misses), (before.get_hits, before.get_misses), "an error is neither");
}

/// ioredis takes an error for a server that is not ready, and connects anew for ever.
#[test]
fn info_tells_what_it_knows_when_the_store_does_not_answer() {
    let mut client = Client::new();
    client.send(b"INFO server clients\r\nINFO persistence\r\n");
    assert!(client.asked.is_empty(), "these need nothing of it");
    assert!(String::from_utf8_lossy(&client.settle()).contains("redis_version:7.0.15"));

    let mut told_without_store = |command: &[u8]| {
        client.send(command);
        let (id, _) = client.asked.pop().expect("this does");
        let reply = Reply::Keyspace(Err(StoreError::NotOwner));
        let mut sink = |_, _| panic!("nothing more is asked");
        client.session.handle_reply(client.now, &mut client.shared, id, reply, &mut sink);
        String::from_utf8_lossy(&client.settle()).into_owned()
    };
    // An empty section would say that there are no keys.
    assert!(told_without_store(b"INFO keyspace\r\n").starts_with("-TRYAGAIN"));
    let told = told_without_store(b"INFO\r\n");
    for field in ["redis_version:", "loading:0", "role:master", "keyspace_hits:"] {
        assert!(told.contains(field), "{field} in {told}");
    }
    for unknown in ["# Memory", "evicted_keys", "nodes_alive", "# Keyspace"] {
        assert!(!told.contains(unknown), "{unknown} in {told}");
    }
}

#[test]
fn commands_are_described() {
    let mut client = Client::new();
    let get = "*10 $3 get :2 *2 +readonly +fast :1 :1 :1 *3 +@read +@string +@fast *0 *1 *6 $5 flags *2 +RO +access \
               $12 begin_search *4 $4 type $5 index $4 spec *2 $5 index :1 $9 find_keys *4 $4 type $5 range $4 spec \
               *6 $7 lastkey :0 $7 keystep :1 $5 limit :0 *0";
    let count = super::super::table::COMMANDS.len();
    client.script(&[
        ("COMMAND INFO get none", &format!("*2 {get} $-1")),
        ("COMMAND COUNT", &format!(":{count}")),
        ("COMMAND GETKEYS MSET a 1 b 2", "*2 $1 a $1 b"),
        ("COMMAND GETKEYS OBJECT FREQ key", "*1 $3 key"),
        ("COMMAND GETKEYS PING x", "-ERR The command has no key arguments"),
        ("COMMAND GETKEYS NOPE x", "-ERR Invalid command specified"),
        ("COMMAND GETKEYS SET x", "-ERR Invalid number of arguments specified for command"),
        ("COMMAND LIST FILTERBY PATTERN get*", "*5 $3 get $5 getex $6 getdel $6 getset $8 getrange"),
        (
            "COMMAND LIST FILTERBY ACLCAT dangerous",
            "*10 $16 cluster|replicas $14 cluster|slaves $4 keys $7 flushdb $8 flushall $4 info $15 client|no-evict \
             $11 client|list $16 config|resetstat $10 config|get",
        ),
        ("COMMAND LIST FILTERBY PATTERN *|idle*", "*1 $15 object|idletime"),
        ("COMMAND GETKEYSANDFLAGS MSET a 1 b 2", "*2 *2 $1 a *2 +OW +update *2 $1 b *2 +OW +update"),
        ("COMMAND GETKEYSANDFLAGS SET a 1 EX 5", "*1 *2 $1 a *2 +OW +update"),
        ("COMMAND GETKEYSANDFLAGS SET a get get", "*1 *2 $1 a *3 +RW +access +update"),
        ("COMMAND GETKEYSANDFLAGS PING x", "-ERR The command has no key arguments"),
        ("COMMAND LIST FILTERBY FOO x", "-ERR syntax error"),
    ]);
    assert!(client.say("COMMAND").starts_with(&format!("*{count} *10 $4 ping")));
    let notes = " *1 *8 $5 notes $40 RW and UPDATE because it changes the TTL $5 flags *3 +RW +access +update ";
    assert!(client.say("COMMAND INFO getex").contains(notes));
    assert!(client.say("COMMAND DOCS get none").starts_with("*2 $3 get *8 $7 summary"));
    for container in ["CLUSTER", "COMMAND", "CLIENT", "CONFIG", "MEMORY", "OBJECT"] {
        let help = client.say(&format!("{container} HELP"));
        assert!(help.contains(&format!("+{container} <subcommand>")), "{help}");
    }
}

/// A word of few bytes is answered with a thousand, and a pattern is compared with every key.
#[test]
fn what_takes_much_is_asked_for_a_little_at_a_time() {
    let mut client = Client::new();
    let mut many = |words: &[&str], word: &str| {
        let all = words.iter().copied().chain(std::iter::repeat_n(word, 1_001)).map(str::as_bytes);
        client.say_words(&all.collect::<Vec<_>>())
    };
    for (words, word) in [
        (&["COMMAND", "INFO"][..], "cluster"),
        (&["COMMAND", "DOCS"], "cluster"),
        (&["CLIENT", "LIST", "ID"], "1"),
        (&["CONFIG", "GET"], "max*"),
    ] {
        assert_eq!(many(words, word), "-ERR too many names in one request");
    }
    let pattern = "a".repeat(1_025);
    for command in ["KEYS ", "SCAN 0 MATCH ", "CONFIG GET ", "COMMAND LIST FILTERBY PATTERN "] {
        assert_eq!(client.say(&format!("{command}{pattern}")), "-ERR pattern is too long");
    }
}

#[test]
fn connections_see_each_other() {
    let mut client = Client::new();
    let mut other = Client::new();
    other.shared = client.shared.clone();
    other.session = RedisSession::new("10.0.0.9:1".into(), "10.0.0.2:6379".into(), other.now, &other.shared);
    let memcached = client.shared.roster.enter(ClientProtocol::Memcached, String::new(), String::new(), client.now);
    other.script(&[
        ("CLIENT SETNAME other", "+OK"),
        ("HELLO 4", "-NOPROTO unsupported protocol version"),
        ("SET key value", "+OK"),
    ]);
    client.pass_ms(3_500);
    let listed = client.say("CLIENT LIST");
    assert!(listed.contains("id=1 addr=10.0.0.1:5000 laddr=10.0.0.2:6379 fd=-1 name= age=3 idle=0 "), "{listed}");
    assert!(listed.contains(" cmd=client|list user=default redir=-1 resp=2 "), "{listed}");
    assert!(listed.contains("id=2 addr=10.0.0.9:1 laddr=10.0.0.2:6379 fd=-1 name=other age=3 idle=3 "), "{listed}");
    assert!(listed.contains(" cmd=set user=default "), "{listed}");
    assert!(!listed.contains("id=3 "), "{listed}");
    assert_eq!(client.say("CLIENT LIST ID 2 9 3").matches("id=").count(), 1);
    assert_eq!(client.say("CLIENT LIST TYPE normal").matches("id=").count(), 2);
    assert_eq!(client.say("CLIENT LIST TYPE pubsub").matches("id=").count(), 0);
    drop((other, memcached));
    assert_eq!(client.say("CLIENT LIST").matches("id=").count(), 1);
}

/// A list of keys that is longer than what may wait for the client leaves as the client takes it, and what follows
/// behind it.
#[test]
fn a_long_list_of_keys_leaves_as_the_client_takes_it() {
    const KEYS: usize = 8_000;
    const KEY_BYTES: usize = 1_000;
    let mut client = Client::new();
    for number in 0..KEYS {
        client.send(&request(&[b"SET", format!("{number:0width$}", width = KEY_BYTES).as_bytes(), b""]));
        client.settle();
    }
    client.send(&stream(&["KEYS *", "PING"]));
    let (mut got, mut turns) = (Vec::new(), 0);
    loop {
        while client.complete() > 0 {}
        let output = std::mem::take(client.session.output());
        assert!(output.len() < limits::OUTPUT_BYTES_MAX + limits::KEYS_STEP_COUNT * (KEY_BYTES + 20));
        got.extend_from_slice(&output);
        turns += 1;
        if !client.session.has_more() {
            break;
        }
        assert!(client.session.resume(&mut |_, _| panic!("all is there")));
    }
    assert!(turns > 3);
    got.append(&mut client.settle());
    assert!(got.starts_with(b"*8000\r\n$1000\r\n") && got.ends_with(b"\r\n+PONG\r\n"));
    let told: Vec<&[u8]> = got.split(|&byte| byte == b'\n').filter(|line| line.len() == KEY_BYTES + 1).collect();
    assert!(told.len() == KEYS && told.is_sorted());

    // Who wants no replies gets nothing of it.
    client.send(&stream(&["CLIENT REPLY SKIP", "KEYS *", "PING"]));
    assert_eq!(client.settle(), b"+PONG\r\n");
}

/// One does not take the keys that it asked for: they leave room for another list, but not for one that is as long.
#[test]
fn clients_that_list_many_keys_at_once_are_referred_to_scan() {
    const KEYS: usize = 7_000;
    let mut client = Client::new();
    for number in 0..KEYS {
        client.send(&request(&[b"SET", format!("{number:01000}").as_bytes(), b""]));
        client.settle();
    }
    let mut other = Client::new();
    other.shared = client.shared.clone();
    std::mem::swap(&mut client.store, &mut other.store);
    other.send(&stream(&["KEYS *"]));
    while other.complete() > 0 {}
    std::mem::swap(&mut client.store, &mut other.store);
    client.script(&[("KEYS *", "-ERR other clients list too many keys at present, use SCAN"), ("PING", "+PONG")]);
    assert!(client.say("KEYS *001").starts_with("*7 "));
    drop(other);
    assert!(client.say("KEYS *").starts_with("*7000 "));

    client.send(&stream(&["FLUSHALL"]));
    client.settle();
    for number in 0..2 * KEYS {
        client.send(&request(&[b"SET", format!("{number:01000}").as_bytes(), b""]));
        client.settle();
    }
    assert_eq!(client.say("KEYS *"), "-ERR too many keys match for one reply, use SCAN");
}

#[test]
fn keys_that_were_found_before_an_error_are_not_told() {
    let mut client = Client::new();
    let many: Vec<_> = (0..limits::KEYS_STEP_COUNT * 2).map(|number| format!("k{number} v")).collect();
    client.say(&format!("MSET {}", many.join(" ")));
    client.send(&stream(&["KEYS *"]));
    client.complete();
    let (id, _) = client.asked.pop().expect("the next step");
    let reply = Reply::Keyspace(Err(StoreError::Unreadable));
    client.session.handle_reply(client.now, &mut client.shared, id, reply, &mut |_, _| {});
    client.send(&stream(&["PING"]));
    let got = client.settle();
    assert!(got.starts_with(b"-") && got.ends_with(b"\r\n+PONG\r\n"));
    assert_eq!(got.iter().filter(|&&byte| byte == b'\n').count(), 2, "nothing between them");
}
