//! The text protocol: each verb with its answers, and how sessions treat their input.

use super::*;

#[test]
fn values_are_stored_and_read() {
    check(
        "> set a 5 0 3
         > one
         < STORED
         > get a
         < VALUE a 5 3
         < one
         < END
         > get b
         < END
         > gets a
         < VALUE a 5 3 1
         < one
         < END
         > set e 0 0 0
         > 
         < STORED
         > get e a nothing e
         < VALUE e 0 0
         < 
         < VALUE a 5 3
         < one
         < VALUE e 0 0
         < 
         < END
         > get nothing none
         < END",
    );
}

#[test]
fn storage_modes_look_at_what_is_there() {
    check(
        "> add a 0 0 1
         > 1
         < STORED
         > add a 0 0 1
         > 2
         < NOT_STORED
         > replace b 0 0 1
         > 3
         < NOT_STORED
         > replace a 7 0 1
         > 4
         < STORED
         > append a 9 0 1
         > 5
         < STORED
         > prepend a 9 0 1
         > 3
         < STORED
         > get a
         < VALUE a 7 3
         < 345
         < END
         > append none 0 0 1
         > x
         < NOT_STORED
         > prepend none 0 0 1
         > x
         < NOT_STORED",
    );
}

#[test]
fn cas_stores_only_over_the_token() {
    check(
        "> cas a 0 0 1 7
         > x
         < NOT_FOUND
         > ms a 1 E100
         > 1
         < HD
         > cas a 0 0 1 99
         > x
         < EXISTS
         > cas a 0 0 1 0
         > x
         < EXISTS
         > cas a 0 0 1 100
         > 2
         < STORED
         > cas a 0 0 1 100
         > 3
         < EXISTS
         > get a
         < VALUE a 0 1
         < 2
         < END
         > cas a 0 0 1
         > x
         < CLIENT_ERROR bad command line format",
    );
}

#[test]
fn delete_touch_and_get_and_touch() {
    check(
        "> delete a
         < NOT_FOUND
         > set a 0 0 1
         > 1
         < STORED
         > touch a 10
         < TOUCHED
         > touch b 10
         < NOT_FOUND
         ~ 9
         > gat 100 a b
         < VALUE a 0 1
         < 1
         < END
         ~ 99
         > gats 0 a
         < VALUE a 0 1 2
         < 1
         < END
         ~ 1000
         > get a
         < VALUE a 0 1
         < 1
         < END
         > touch a -1
         < TOUCHED
         > get a
         < END
         > set a 0 0 1
         > 1
         < STORED
         > delete a b
         < CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]
         > delete a b c d e
         < CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]
         > delete a b noreply
         > delete a 10 0 x
         < DELETED
         > delete a 10
         < NOT_FOUND
         > set a 0 0 1
         > 1
         < STORED
         > delete a 0
         < DELETED
         > delete a 0 noreply
         > delete a
         < NOT_FOUND
         > touch a x
         < CLIENT_ERROR invalid exptime argument
         > gat x a
         < CLIENT_ERROR invalid exptime argument",
    );
}

#[test]
fn objects_expire() {
    check(
        "> set a 0 1 1
         > 1
         < STORED
         > set b 0 -1 1
         > 1
         < STORED
         > set c 0 2592001 1
         > 1
         < STORED
         > set d 0 2592000 1
         > 1
         < STORED
         > set e 0 1800000100 1
         > 1
         < STORED
         > get b c
         < END
         > get a d e
         < VALUE a 0 1
         < 1
         < VALUE d 0 1
         < 1
         < VALUE e 0 1
         < 1
         < END
         ~ 1
         > get a d
         < VALUE d 0 1
         < 1
         < END
         ~ 99
         > get e
         < END
         ~ 2592000
         > get d
         < END",
    );
}

#[test]
fn counters_wrap_stop_at_zero_and_keep_their_length() {
    check(
        "> incr n 1
         < NOT_FOUND
         > set n 3 0 2
         > 99
         < STORED
         > incr n 1
         < 100
         > decr n 1
         < 99
         > get n
         < VALUE n 3 3
         < 99 
         < END
         > decr n 100
         < 0
         > set n 0 0 20
         > 18446744073709551615
         < STORED
         > incr n 2
         < 1
         > get n
         < VALUE n 0 20
         < 1                   
         < END
         > set n 0 0 1
         > x
         < STORED
         > incr n 1
         < CLIENT_ERROR cannot increment or decrement non-numeric value
         > incr n x
         < CLIENT_ERROR invalid numeric delta argument
         > incr n -1
         < CLIENT_ERROR invalid numeric delta argument
         > incr n 18446744073709551616
         < CLIENT_ERROR invalid numeric delta argument
         > set n 0 0 20
         > 18446744073709551616
         < STORED
         > incr n 1
         < CLIENT_ERROR cannot increment or decrement non-numeric value",
    );
}

#[test]
fn noreply_silences_everything() {
    check(
        "> set a 0 0 1 noreply
         > 1
         > add a 0 0 1 noreply
         > 2
         > append a 0 0 1 noreply
         > 3
         > incr a 1 noreply
         > touch b 1 noreply
         > touch b x noreply
         > incr a x noreply
         > get a
         < VALUE a 0 2
         < 14
         < END
         > verbosity 1 noreply
         > flush_all 0 noreply
         > nonsense noreply
         > get a
         < END
         > set a 0 0 1 noreply
         > 1
         > flush_all noreply
         > set b 0 0 1 noreply
         > 1
         > delete b noreply
         > get a b
         < END
         > set a x 0 1 noreply
         > 1
         > set a 0 0 1 noreply
         > 22
         < CLIENT_ERROR bad command line format
         > version
         < VERSION 1.6.45",
    );
}

#[test]
fn lines_that_are_wrong_have_memcacheds_answers() {
    check(
        "> nonsense
         < ERROR
         > GET a
         < ERROR
         > get
         < CLIENT_ERROR bad command line format
         > delete
         < CLIENT_ERROR bad command line format
         > 
         < CLIENT_ERROR bad command line format
         > set a 0 0
         < CLIENT_ERROR bad command line format
         > set a 0 0 -1
         < CLIENT_ERROR bad command line format
         > set a 0 0 3
         > four
         < CLIENT_ERROR bad data chunk
         < CLIENT_ERROR bad command line format
         > set a x 0 3
         > abc
         < CLIENT_ERROR bad command line format
         > set a 0 x 3
         > abc
         < CLIENT_ERROR bad command line format
         > verbosity
         < CLIENT_ERROR bad command line format
         > verbosity 2
         < OK
         > shutdown
         < SERVER_ERROR: shutdown not enabled
         > watch
         < CLIENT_ERROR watch commands not allowed
         > slabs automove invalid
         < CLIENT_ERROR bad command line format
         > slabs reassign 1 2
         < CLIENT_ERROR slab reassignment disabled
         > flush_all x
         < CLIENT_ERROR invalid exptime argument
         > cache_memlimit 1
         < MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m",
    );
}

#[test]
fn flush_all_hides_what_was_stored_before() {
    check(
        "> set a 0 0 1
         > 1
         < STORED
         > flush_all
         < OK
         > get a
         < END
         > set a 0 0 1
         > 1
         < STORED
         > flush_all 10
         < OK
         > get a
         < VALUE a 0 1
         < 1
         < END
         ~ 10
         > get a
         < END",
    );
    let refusing = Settings { flush_disabled: true, ..Settings::default() };
    check_with(&refusing, "> flush_all\n< CLIENT_ERROR flush_all not allowed");
}

#[test]
fn quit_ends_the_connection_after_the_answers() {
    let mut client = open();
    client.order = AnswerOrder::Reversed;
    client.says("set a 0 0 1\r\n1\r\nget a\r\nquit\r\nget a\r\n", "STORED\r\nVALUE a 0 1\r\n1\r\nEND\r\n");
    assert!(client.is_closed());
}

#[test]
fn browsers_and_binary_clients_are_turned_away() {
    let mut browser = open();
    browser.says("GET / HTTP/1.0\r\n", "");
    assert!(browser.is_closed());
    let mut binary = open();
    let mut header = [0; 24];
    (header[0], header[1], header[15]) = (0x80, 0x0b, 77);
    let said = [binary.send(&header[..5]), binary.send(&header[5..])].concat();
    assert_eq!((said[0], said[1], said[7], said[15]), (0x81, 0x0b, 0x83, 77));
    assert!(said.ends_with(b"use the text or meta protocol"));
    assert!(binary.is_closed());
}

#[test]
fn an_allowed_shutdown_is_passed_on() {
    let mut client = Loopback::new(Settings { shutdown_enabled: true, ..Settings::default() });
    client.says("shutdown now\r\n", "CLIENT_ERROR invalid shutdown mode\r\n");
    assert!(!client.shared.counters.shutdown_asked);
    client.says("shutdown graceful\r\n", "");
    assert!(client.shared.counters.shutdown_asked && client.is_closed());
}

#[test]
fn the_clock_moves_only_in_a_debug_setting() {
    let mut client = open();
    client.says("debugtime 5\r\n", "ERROR\r\n");
    client.shared.settings.debug_commands = true;
    client.says("debugtime 5\r\ndebugtime p\r\ndebugtime x\r\ndebugtime\r\n", "OK\r\nOK\r\nERROR\r\nERROR\r\n");
    assert_eq!(client.shared.counters.debug_time_s, 5);
}

#[test]
fn a_short_pipeline_yields() {
    let mut client = Loopback::new(Settings { pipeline_count_max: 1, ..Settings::default() });
    client.says(&"set a 0 0 1\r\n1\r\n".repeat(6), &"STORED\r\n".repeat(6));
    assert_eq!(client.shared.counters.connection_yields, 5);
}

#[test]
fn without_cas_tokens_are_zero_and_match_nothing() {
    let settings = Settings { cas_disabled: true, ..Settings::default() };
    check_with(
        &settings,
        "> set a 0 0 1
         > 1
         < STORED
         > gets a
         < VALUE a 0 1 0
         < 1
         < END
         > cas a 0 0 1 0
         > 2
         < EXISTS
         > cas a 0 0 1 2
         > 2
         < EXISTS
         > ms a 1 c
         > 3
         < HD c0
         > ma a c N0
         < HD c0
         > mg a c v R30
         < VA 1 c0
         < 4
         > md a C9
         < EX
         > md a C0
         < HD",
    );
}
