//! A member against coordinators that do only what a test says.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use shorttail_units::{ClusterId, Incarnation, NodeId};
use shorttail_wire::control::{
    CONTROL_PROTOCOL_VERSION, ChaosStatus, FromCoordinator, NodeRegistration, NodeSession, NodeWelcome, ToCoordinator,
    next_message, put_message,
};

use super::*;
use crate::config::{Addresses, with_resolver};

/// One end of a control connection, without any manners.
pub struct Peer {
    stream: UnixStream,
    received: Vec<u8>,
}

impl Peer {
    pub fn connect(path: &Path) -> Self {
        Peer::new(UnixStream::connect(path).expect("somebody listens"))
    }

    fn new(stream: UnixStream) -> Self {
        Peer { stream, received: Vec::new() }
    }

    pub fn say<M: Serialize>(&mut self, message: &M) {
        self.say_often(message, 1);
    }

    /// The same many times, at once.
    pub fn say_often<M: Serialize>(&mut self, message: &M, count: usize) {
        let mut bytes = Vec::new();
        (0..count).for_each(|_| put_message(&mut bytes, message).expect("it is short"));
        self.stream.write_all(&bytes).expect("the other end is there");
    }

    /// Is there nothing more to hear, ever?
    pub fn is_over(&mut self) -> bool {
        self.received.is_empty() && self.stream.read_to_end(&mut Vec::new()).is_ok_and(|count| count == 0)
    }

    /// Takes what there is to hear; is that the end?
    fn has_ended(&mut self) -> bool {
        matches!(self.stream.read(&mut [0; 4096]), Ok(0) | Err(_))
    }

    /// Ends the connection, and waits until the other end has noticed. How many bytes there were still to hear?
    pub fn leave(&mut self) -> usize {
        self.stream.shutdown(std::net::Shutdown::Write).expect("the connection stands");
        self.stream.read_to_end(&mut self.received).expect("the other end leaves");
        self.received.len()
    }

    /// The next message, for which it waits.
    pub fn hear<M: DeserializeOwned>(&mut self) -> M {
        loop {
            if let Some((message, taken)) = next_message(&self.received).expect("a message") {
                self.received.drain(..taken);
                return message;
            }
            let mut bytes = [0; 4096];
            let count = self.stream.read(&mut bytes).expect("the connection stands");
            assert_ne!(count, 0, "the other end is gone");
            self.received.extend_from_slice(&bytes[..count]);
        }
    }
}

/// Node `id`, for the first time.
pub fn registration(id: u16) -> NodeRegistration {
    NodeRegistration {
        protocol_version: CONTROL_PROTOCOL_VERSION,
        address: format!("127.0.0.1:{}", 7000 + id),
        incarnation: Incarnation(1),
        pid: 1,
        memory_limit_bytes: 1 << 20,
        core_count: 1,
        wanted_id: Some(id),
        domain: String::new(),
        allows_chaos: false,
        session: None,
    }
}

/// Listens where a coordinator would.
struct Fake(UnixListener);

impl Fake {
    fn listen(path: &Path) -> Self {
        Fake(UnixListener::bind(path).expect("a free path"))
    }

    /// A member that connects and registers.
    fn asked(&self) -> Peer {
        asked_on(self.0.accept().expect("a member").0)
    }

    fn let_in(&self) -> Peer {
        let mut peer = self.asked();
        peer.say(&welcome());
        peer
    }

    fn was_not_asked(&self) -> bool {
        self.0.set_nonblocking(true).expect("a socket");
        self.0.accept().is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }
}

fn asked_on(stream: UnixStream) -> Peer {
    let mut peer = Peer::new(stream);
    assert!(matches!(peer.hear(), ToCoordinator::RegisterNode(_)));
    peer
}

/// A socket is read and written like any other.
fn of_tcp(stream: TcpStream) -> UnixStream {
    UnixStream::from(OwnedFd::from(stream))
}

fn welcome() -> FromCoordinator {
    let session = NodeSession { cluster_id: ClusterId(7), node_id: NodeId(3) };
    FromCoordinator::NodeRegistered(NodeWelcome { session })
}

/// A member, and the two coordinators of its list.
fn member() -> (NodeControl, [Fake; 2], tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let paths = ["a.sock", "b.sock"].map(|name| dir.path().join(name));
    let fakes = [Fake::listen(&paths[0]), Fake::listen(&paths[1])];
    (start(Addresses(paths.map(|path| Address::Unix(path).into()).to_vec())), fakes, dir)
}

fn start(addresses: Addresses) -> NodeControl {
    let obey = |order| Obeyed { outcome: Ok(format!("{order:?}")), chaos: ChaosStatus::default() };
    ControlClient::start(addresses, registration(3), Box::new(|| {}), Box::new(obey))
}

/// A member that knows coordinators by one name, and those at the two addresses of it.
fn member_with_name() -> (NodeControl, [TcpListener; 2]) {
    let (first, second) = loop {
        let second = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = second.local_addr().expect("it listens").port();
        if let Ok(first) = TcpListener::bind(("127.0.0.2", port)) {
            break (first, second);
        }
    };
    let answers = |name: &str| {
        let port = name.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).expect("a port");
        Ok(vec![([127, 0, 0, 2], port).into(), ([127, 0, 0, 1], port).into()])
    };
    let name = format!("coordinator:{}", second.local_addr().expect("it listens").port());
    let client = with_resolver(answers, || start(name.parse().expect("it is known")));
    (client, [first, second])
}

fn is_status(message: &ToCoordinator) -> bool {
    matches!(message, ToCoordinator::NodeStatus(_))
}

#[test]
fn a_member_that_everybody_hangs_up_on_ends_and_says_why() {
    let (client, fakes, _dir) = member();
    let error = std::thread::scope(|scope| {
        let ended = scope.spawn(|| client.registered().expect_err("nobody answers"));
        fakes.iter().for_each(|fake| fake.0.set_nonblocking(true).expect("a socket"));
        while !ended.is_finished() {
            fakes.iter().for_each(|fake| drop(fake.0.accept()));
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        ended.join().expect("no panic")
    });
    assert_eq!(error, ControlError::HungUp);
    let text = error.to_string();
    assert!(text.contains(&format!("version {CONTROL_PROTOCOL_VERSION}")), "{text}");
}

#[test]
fn a_member_of_another_version_ends_and_names_both() {
    let (client, [first, _], _dir) = member();
    first.asked().say(&FromCoordinator::Refused(Refusal::ProtocolVersion(CONTROL_PROTOCOL_VERSION + 1)));
    let text = client.registered().expect_err("refused").to_string();
    for version in [CONTROL_PROTOCOL_VERSION, CONTROL_PROTOCOL_VERSION + 1] {
        assert!(text.contains(&format!("version {version}")), "{text}");
    }
}

/// The one at the first address stands by, and stays there.
#[test]
fn a_member_asks_at_all_addresses_of_a_name_who_leads() {
    let (client, [first, second]) = member_with_name();
    [&first, &second].into_iter().for_each(|listener| listener.set_nonblocking(true).expect("a socket"));
    let mut in_vain = 0;
    while second.accept().map(|(stream, _)| asked_on(of_tcp(stream)).say(&welcome())).is_err() {
        if let Ok((stream, _)) = first.accept() {
            asked_on(of_tcp(stream)).say(&FromCoordinator::Refused(Refusal::NotLeading("another one".into())));
            in_vain += 1;
        }
        assert!(in_vain < 5, "it is asked again and again");
    }
    client.registered().expect("let in");
}

/// The one at hand stands still, and the system takes what it is sent.
#[test]
fn while_beats_are_late_the_other_addresses_of_the_name_are_asked() {
    let (_client, [first, second]) = member_with_name();
    let mut at_hand = asked_on(of_tcp(first.accept().expect("a member").0));
    at_hand.say(&welcome());
    let mut other = asked_on(of_tcp(second.accept().expect("a member").0));
    other.say(&welcome());
    assert!(is_status(&other.hear()));
    while !at_hand.has_ended() {}
    // Where it was let in last it is asked first.
    drop(other);
    asked_on(of_tcp(second.accept().expect("a member").0));
}

#[test]
fn who_led_a_moment_ago_is_asked_first() {
    let (_client, [first, second], _dir) = member();
    drop(first.let_in());
    // The second one stands still: it would answer nothing.
    let mut again = first.let_in();
    assert!(is_status(&again.hear()) && second.was_not_asked());
}

#[test]
fn while_another_coordinator_is_asked_the_one_at_hand_still_hears_of_the_member() {
    let (_client, [first, second], _dir) = member();
    // It leads and says nothing.
    let mut at_hand = first.let_in();
    let (mut other, heard) = std::thread::scope(|scope| {
        let asked = scope.spawn(|| second.asked());
        let mut heard = 0;
        while !asked.is_finished() {
            heard += usize::from(is_status(&at_hand.hear()));
        }
        (asked.join().expect("no panic"), heard)
    });
    assert!(heard > 0);
    // It has not answered.
    assert!(is_status(&at_hand.hear()) && is_status(&at_hand.hear()));
    other.say(&welcome());
    assert!(is_status(&other.hear()), "the one that answers is the one that leads");
}

#[test]
fn one_that_lets_the_member_in_is_not_left_because_the_one_at_hand_is_lost() {
    let (_client, [first, second], _dir) = member();
    let mut at_hand = first.let_in();
    let mut other = second.asked();
    at_hand.leave();
    other.say(&welcome());
    assert!(is_status(&other.hear()));
    assert!(first.was_not_asked());
}

/// Nothing goes through the connection with it any more, and neither end is told.
#[test]
fn a_member_that_hears_nothing_for_long_asks_the_one_at_hand_again() {
    let (_client, [first, second], _dir) = member();
    drop(second);
    let mut at_hand = first.let_in();
    let mut again = first.let_in();
    assert!(is_status(&again.hear()));
    while !at_hand.has_ended() {}
}

/// It would not let the member in, which goes on to listen to it.
#[test]
fn a_member_stays_with_a_coordinator_that_does_not_surely_lead() {
    let (client, [first, second], _dir) = member();
    drop(second);
    let mut at_hand = first.let_in();
    for _ in 0..2 {
        first.asked().say(&FromCoordinator::Refused(Refusal::NotLeading("nobody".into())));
    }
    at_hand.say(&FromCoordinator::Served(Vec::new()));
    loop {
        match client.poll_event() {
            Some(ControlEvent::Served(_)) => break,
            Some(event) => assert_eq!(event, ControlEvent::Connected),
            None => assert!(is_status(&at_hand.hear())),
        }
    }
}

/// The one at hand stands still, or is lost meanwhile.
#[test]
fn a_member_of_a_coordinator_that_hangs_hears_of_the_next_one_that_it_is_over() {
    for is_lost in [false, true] {
        let (client, [first, second], _dir) = member();
        let mut at_hand = first.let_in();
        let mut other = second.asked();
        other.say(&FromCoordinator::Refused(Refusal::NotLeading("not yet".into())));
        let mut other = second.asked();
        if is_lost {
            at_hand.leave();
        }
        other.say(&FromCoordinator::Refused(Refusal::Removed(3)));
        let told = loop {
            match client.poll_event() {
                Some(ControlEvent::Connected) => {}
                Some(event) => break event,
                None => assert!(second.was_not_asked(), "it goes on, and asks again"),
            }
        };
        assert_eq!(told, ControlEvent::Refused(Refusal::Removed(3)), "{is_lost}");
        assert!(first.was_not_asked());
    }
}

/// A coordinator that begins or ceases to lead hangs up on whoever asks just then.
#[test]
fn who_asks_for_the_status_asks_again_when_the_coordinator_hangs_up() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("a.sock");
    let fake = Fake::listen(&path);
    let accepted = || Peer::new(fake.0.accept().expect("somebody asks").0);
    let ask = || read_status(&Address::Unix(path.clone())).expect_err("never a status").to_string();
    std::thread::scope(|scope| {
        let told = scope.spawn(ask);
        drop(accepted());
        let mut peer = accepted();
        assert!(matches!(peer.hear(), ToCoordinator::ReadStatus));
        peer.say(&welcome());
        assert_eq!(told.join().expect("no panic"), "the coordinator answered something else");

        let told = scope.spawn(ask);
        (0..STATUS_TRIES).for_each(|_| drop(accepted()));
        told.join().expect("it does not ask for ever");
    });
    assert!(fake.was_not_asked());
}
