//! What is counted, and how it is reported.

use std::sync::Arc;

use super::*;
use crate::roster::ClientProtocol;

fn stat(text: &str, name: &str) -> String {
    let prefix = format!("STAT {name} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&prefix));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).to_owned()
}

#[test]
fn general_statistics_have_memcacheds_names() {
    let mut client = open();
    let text = client.text("stats\r\n");
    assert!(text.ends_with("END\r\n"));
    let names: std::collections::BTreeSet<_> = text.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    assert_eq!(names.len(), 84, "memcached's own count");
    assert_eq!(stat(&text, "version"), "1.6.45");
    assert_eq!(stat(&text, "pointer_size"), "64");
    assert_eq!(stat(&text, "limit_maxbytes"), "67108864");
    client
        .text("set foo 0 0 6\r\nfooval\r\nget foo\r\nget bar\r\nincr foo 1\r\ndelete foo\r\ntouch foo 1\r\nme foo\r\n");
    client.text("cas foo 0 0 1 5\r\n1\r\nincr n 1\r\nma n N0\r\nma n\r\ndecr n 1\r\nflush_all\r\n");
    let text = client.text("stats\r\n");
    let expected = [
        ("cmd_get", 2),
        ("get_hits", 1),
        ("get_misses", 1),
        ("cmd_set", 2),
        ("delete_hits", 1),
        ("cmd_touch", 1),
        ("touch_misses", 1),
        ("cmd_meta", 1),
        ("cas_misses", 1),
        ("incr_misses", 1),
        ("incr_hits", 1),
        ("decr_hits", 1),
        ("cmd_flush", 1),
    ];
    for (name, value) in expected {
        assert_eq!(stat(&text, name), value.to_string(), "{name}");
    }
    client.text("set foo 0 0 1\r\nxyz\r\n");
    assert_eq!(stat(&client.text("stats\r\n"), "cmd_set"), "3", "a bad data chunk counts");
    client.says("set old 0 1 1\r\n1\r\n", "STORED\r\n");
    client.now.unix_ms.0 += 1000;
    client.says("get old\r\n", "END\r\n");
    let text = client.text("stats\r\n");
    assert_eq!((stat(&text, "get_expired"), stat(&text, "total_items")), ("1".into(), "5".into()));
    client.says("stats reset\r\n", "RESET\r\n");
    assert_eq!(stat(&client.text("stats\r\n"), "cmd_get"), "0");
}

#[test]
fn a_meta_get_that_touches_is_counted_as_memcached_does() {
    let mut client = open();
    let mut counted = |command: &str| {
        client.says("stats reset\r\n", "RESET\r\n");
        client.text(command);
        let text = client.text("stats\r\n");
        let names = ["cmd_get", "get_hits", "get_misses", "cmd_touch", "touch_hits", "touch_misses"];
        names.map(|name| stat(&text, name)).join(" ")
    };
    assert_eq!(counted("mg a T30\r\n"), "1 0 1 0 0 0", "a miss is one of get");
    assert_eq!(counted("mg a N30\r\n"), "1 1 0 0 0 0", "what is made is a hit");
    assert_eq!(counted("mg b N30 T60\r\n"), "0 0 0 1 1 0");
    assert_eq!(counted("mg a T30 v\r\n"), "0 0 0 1 1 0");
    assert_eq!(counted("gat 30 c\r\n"), "0 0 0 1 0 1");
}

#[test]
fn detail_counts_prefixes_while_it_is_on() {
    check(
        "> stats detail dump
         < END
         > set foo:1 0 0 1
         > 1
         < STORED
         > stats detail on
         < OK
         > set foo:1 0 0 1
         > 1
         < STORED
         > get foo:1 foo:2 plain
         < VALUE foo:1 0 1
         < 1
         < END
         > delete foo:2
         < NOT_FOUND
         > stats detail dump
         < PREFIX foo get 2 hit 1 set 1 del 1
         < END
         > stats detail off
         < OK
         > get foo:1
         < VALUE foo:1 0 1
         < 1
         < END
         > stats detail dump
         < PREFIX foo get 2 hit 1 set 1 del 1
         < END
         > stats detail
         < CLIENT_ERROR usage: stats detail on|off|dump
         > stats detail x
         < CLIENT_ERROR usage: stats detail on|off|dump",
    );
}

#[test]
fn a_delimiter_from_the_command_line_counts_prefixes_from_the_start() {
    let settings = Settings { prefix_delimiter: b'/', counts_prefixes: true, ..Settings::default() };
    let mut client = Loopback::new(settings);
    client.says("set a/b:c 0 0 1\r\nx\r\n", "STORED\r\n");
    client.says("stats detail dump\r\n", "PREFIX a get 0 hit 0 set 1 del 0\r\nEND\r\n");
}

#[test]
fn other_statistics_answer() {
    let mut client = open();
    client.says("stats items\r\n", "END\r\n");
    client.says("stats slabs\r\n", "STAT active_slabs 0\r\nSTAT total_malloced 0\r\nEND\r\n");
    client.says("set foo 0 0 6\r\nfooval\r\n", "STORED\r\n");
    assert!(client.text("stats items\r\n").contains("STAT items:1:number 1\r\n"));
    assert!(client.text("stats slabs\r\n").contains("STAT 1:used_chunks 1\r\n"));
    client.says("stats sizes\r\n", "STAT sizes_status disabled\r\nEND\r\n");
    client.says("stats cachedump 1 100\r\n", "ITEM foo [6 b; 0 s]\r\nEND\r\n");
    // A key that is a line of its own is not shown.
    client.says("ms Zm9vDQpFTkQ= 1 b\r\nx\r\n", "HD\r\n");
    client.says("stats cachedump 1 100\r\n", "ITEM foo [6 b; 0 s]\r\nEND\r\n");
    client.says("stats cachedump 2 100\r\n", "END\r\n");
    client.says("stats cachedump 64 1\r\n", "CLIENT_ERROR Illegal slab id\r\n");
    client.says("stats cachedump 1\r\n", "CLIENT_ERROR bad command line\r\n");
    client.says("stats nonsense\r\n", "ERROR\r\n");
    let settings = client.text("stats settings\r\n");
    assert_eq!(stat(&settings, "maxconns"), "1024");
    assert_eq!(stat(&settings, "evictions"), "on");
    assert_eq!(stat(&settings, "item_size_max"), "1048576");
    assert_eq!(stat(&settings, "client_flags_size"), "4");
    client.shared.settings.reported = vec![("maxconns", "7".to_owned()), ("hot_max_factor", "0.20".to_owned())];
    let settings = client.text("stats settings\r\n");
    assert_eq!(stat(&settings, "maxconns"), "7");
    assert_eq!(stat(&settings, "hot_max_factor"), "0.20");
    assert_eq!(settings.matches("STAT maxconns ").count(), 1);
}

#[test]
fn all_connections_are_told_of() {
    let mut client = open();
    assert!(client.text("stats conns\r\n").contains("STAT 0:state conn_listening\r\n"));
    let roster = Arc::clone(&client.shared.roster);
    let now = client.now;
    let enter = |kind, peer: &str| roster.enter(kind, peer.into(), "tcp:127.0.0.1:11211".into(), now);
    let (first, redis) =
        (enter(ClientProtocol::Memcached, "tcp:127.0.0.1:4711"), enter(ClientProtocol::Redis, "127.0.0.1:4712"));
    let told = client.text("stats conns\r\n");
    assert_eq!(stat(&told, "1:addr"), "tcp:127.0.0.1:4711");
    assert_eq!(stat(&told, "1:listen_addr"), "tcp:127.0.0.1:11211");
    assert_eq!([stat(&told, "1:state"), stat(&told, "1:secs_since_last_cmd")], ["conn_read", "0"]);
    assert!(!told.contains("STAT 2:"), "{told}");
    drop((first, redis));
    assert!(!client.text("stats conns\r\n").contains("STAT 1:"));
}
