//! Scripts of what a client sends (`>`) and what the server answers (`<`), `~` lets seconds pass.
//!
//! Each script runs line by line, all at once with answers in several orders, byte by byte, and cut in two at every
//! position: the answers must be the same.

use super::loopback::{AnswerOrder, Loopback};
use crate::session::{Session, Settings};

mod auth;
mod failures;
mod limits;
mod meta;
mod program_order;
mod stats;
mod text;

/// Lines of a script between two pauses: what is sent, and what must come back.
#[derive(Debug, Default)]
struct Exchange {
    pause_s: u64,
    sent: Vec<u8>,
    expected: Vec<u8>,
}

fn exchanges(script: &str) -> Vec<Exchange> {
    let mut exchanges = vec![Exchange::default()];
    for line in script.lines().map(str::trim_start).filter(|line| !line.is_empty()) {
        let (kind, text) = line.split_at(1);
        let text = text.strip_prefix(' ').unwrap_or(text);
        let last = exchanges.last_mut().expect("never empty");
        match kind {
            ">" => last.sent.extend_from_slice(format!("{text}\r\n").as_bytes()),
            "<" => last.expected.extend_from_slice(format!("{text}\r\n").as_bytes()),
            "~" => exchanges.push(Exchange { pause_s: text.parse().expect("seconds"), ..Exchange::default() }),
            _ => panic!("not a line of a script: {line}"),
        }
    }
    exchanges
}

fn show(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string().replace("\\r\\n", "\n")
}

/// Plays the exchanges, each cut into pieces by `cut`, and compares the answers.
fn play(settings: &Settings, exchanges: &[Exchange], order: AnswerOrder, cut: impl Fn(&[u8]) -> Vec<&[u8]>, how: &str) {
    let mut loopback = Loopback::new(settings.clone());
    loopback.order = order;
    for exchange in exchanges {
        loopback.now.unix_ms.0 += exchange.pause_s * 1000;
        loopback.now.mono_us += exchange.pause_s * 1_000_000;
        let mut said = Vec::new();
        cut(&exchange.sent).into_iter().for_each(|piece| said.extend(loopback.send(piece)));
        assert_eq!(show(&said), show(&exchange.expected), "{how}, {order:?}");
    }
}

fn check_with(settings: &Settings, script: &str) {
    let exchanges = exchanges(script);
    let orders = [AnswerOrder::Asked, AnswerOrder::Reversed, AnswerOrder::Shuffled(1), AnswerOrder::Shuffled(2)];
    for order in orders {
        play(settings, &exchanges, order, |sent| vec![sent], "at once");
        play(settings, &exchanges, order, |sent| sent.split_inclusive(|&byte| byte == b'\n').collect(), "by line");
        play(settings, &exchanges, order, |sent| sent.chunks(1).collect(), "by byte");
    }
    let longest = exchanges.iter().map(|exchange| exchange.sent.len()).max().unwrap_or(0);
    for position in 0..longest {
        let cut = |sent: &[u8]| {
            let (front, back) = sent.split_at(position.min(sent.len()));
            [front.to_vec(), back.to_vec()]
        };
        let mut loopback = Loopback::new(settings.clone());
        for exchange in &exchanges {
            loopback.now.unix_ms.0 += exchange.pause_s * 1000;
            loopback.now.mono_us += exchange.pause_s * 1_000_000;
            let said: Vec<u8> = cut(&exchange.sent).iter().flat_map(|piece| loopback.send(piece)).collect();
            assert_eq!(show(&said), show(&exchange.expected), "cut at {position}");
        }
    }
}

fn check(script: &str) {
    check_with(&Settings::default(), script);
}

/// One session that is spoken to by hand.
fn open() -> Loopback {
    Loopback::new(Settings::default())
}

impl Loopback {
    fn says(&mut self, sent: &str, expected: &str) {
        let said = self.send(sent.as_bytes());
        assert_eq!(show(&said), show(expected.as_bytes()), "after {sent:?}");
    }

    fn text(&mut self, sent: &str) -> String {
        String::from_utf8(self.send(sent.as_bytes())).expect("text")
    }

    fn is_closed(&mut self) -> bool {
        self.session.closing() && self.session.output().is_empty()
    }
}
