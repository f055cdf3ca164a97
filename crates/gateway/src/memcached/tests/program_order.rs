//! One connection's commands look as if they ran one after the other, whatever order they complete in.

use super::*;

/// Gives the session input, and the answers one round later, so that pipelined commands are in flight together.
#[test]
fn a_read_waits_for_the_connections_own_write() {
    let mut client = open();
    client.input = b"set a 0 0 1 noreply\r\n1\r\nget b\r\nget a\r\n".to_vec();
    client.read();
    assert_eq!(client.input, b"get a\r\n", "the read of another key goes on, the read of this key waits");
    client.answer();
    client.read();
    client.answer();
    assert_eq!(show(client.session.output()), show(b"END\r\nVALUE a 0 1\r\n1\r\nEND\r\n"));
}

#[test]
fn a_write_waits_for_the_connections_own_read() {
    let mut client = open();
    client.says("set a 0 0 1\r\n1\r\n", "STORED\r\n");
    client.input = b"get a\r\nset a 0 0 1\r\n2\r\n".to_vec();
    client.read();
    assert_eq!(client.input, b"2\r\n", "the value of the write waits");
    client.answer();
    client.says("", "VALUE a 0 1\r\n1\r\nEND\r\nSTORED\r\n");
}

#[test]
fn statistics_and_flushes_wait_for_what_came_before() {
    let mut client = open();
    client.input = b"set a 0 0 1\r\n1\r\nflush_all\r\nget a\r\n".to_vec();
    client.read();
    assert_eq!(client.input, b"flush_all\r\nget a\r\n");
    client.answer();
    client.read();
    assert_eq!(client.input, b"get a\r\n", "nothing is read before the flush is done");
    client.answer();
    client.says("", "STORED\r\nOK\r\nEND\r\n");
    let text = client.text("get a\r\nget a\r\nstats\r\n");
    assert!(text.contains("STAT cmd_get 3\r\n"), "{text}");
}

#[test]
fn many_pipelined_commands_are_answered_in_order() {
    for order in [AnswerOrder::Asked, AnswerOrder::Reversed, AnswerOrder::Shuffled(3)] {
        let mut client = open();
        client.order = order;
        let (mut sent, mut expected) = (String::new(), String::new());
        for number in 0..1000 {
            let key = number % 7;
            sent += &format!("set k{key} 0 0 4\r\n{number:04}\r\nget k{key} none k{key}\r\nmg k{key} v q\r\n");
            let value = format!("VALUE k{key} 0 4\r\n{number:04}\r\n");
            expected += &format!("STORED\r\n{value}{value}END\r\nVA 4\r\n{number:04}\r\n");
        }
        client.says(&sent, &expected);
    }
}
