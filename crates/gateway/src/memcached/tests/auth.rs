//! Authentication by file: who may speak, and what the connection says before.

use super::*;
use crate::session::Credential;

fn settings() -> Settings {
    let credential = |user: &str, password: &str| Credential { user: user.into(), password: password.into() };
    Settings { credentials: vec![credential("foo", "bar"), credential("baaaz", "quux")], ..Settings::default() }
}

#[test]
fn only_a_set_with_user_and_password_opens_the_connection() {
    check_with(
        &settings(),
        "> get foo
         < CLIENT_ERROR unauthenticated
         > set foo 0 0 7
         > foo bab
         < CLIENT_ERROR authentication failure
         > set foo 0 0 2147483646
         < CLIENT_ERROR auth token too long
         > set foo 0 0 3
         > foo
         < CLIENT_ERROR bad authentication token format
         > set foo 0 0 10
         > baaaz quux
         < STORED
         > set toast 0 0 2
         > hi
         < STORED
         > get toast foo
         < VALUE toast 0 2
         < hi
         < END",
    );
}

#[test]
fn lines_that_cannot_be_authentication_close_the_connection() {
    let mut client = Loopback::new(settings());
    client.says("get\r\n", "");
    assert!(client.is_closed());
    let mut client = Loopback::new(settings());
    client.says(&"x".repeat(2049), "");
    assert!(client.is_closed());
    let mut client = Loopback::new(settings());
    client.says("set foo 0 0 7\r\nfoo barxx", "CLIENT_ERROR bad command line termination\r\n");
    assert!(!client.is_closed());
}

#[test]
fn attempts_are_counted() {
    let mut client = Loopback::new(settings());
    client
        .says("set a 0 0 3\r\nx y\r\nset a 0 0 7\r\nfoo bar\r\n", "CLIENT_ERROR authentication failure\r\nSTORED\r\n");
    assert_eq!((client.shared.counters.auth_commands, client.shared.counters.auth_errors), (2, 1));
}
