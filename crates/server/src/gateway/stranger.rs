//! Before the coordinator lets the gateway in: its port is taken and it serves nobody.
//!
//! ```text
//! begins --- clients wait ---> turns clients away: told why, and let go ---> let in: the cores take the listeners
//!                4 s
//! ```
//!
//! Clients wait as long as for an owner: usually the coordinator answers at once, and they need not know.
//!
//! Must not know: what a gateway does once it is let in.

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use shorttail_gateway::roster::ClientProtocol;
use shorttail_wire::control::GatewayWelcome;

use super::client::let_go;
use super::limits::ACCEPTED_PER_TURN;
use super::waiting::WAIT_US_MAX;
use super::{GatewayReader, Listeners};
use crate::control::{ControlError, GatewayControl};
use crate::locks::lock;
use crate::net::OtherEnd;

/// Clients wait for so long.
const PATIENCE: Duration = Duration::from_micros(if cfg!(test) { 0 } else { WAIT_US_MAX });
/// Between two looks at who wants to be served.
const LOOK_EVERY: Duration = Duration::from_millis(25);
/// Read of a client before it is let go, so that it sees what it is told and no reset.
const READ_BYTES: usize = 16 << 10;

const NOT_LET_IN: &str = "the coordinator has not let this gateway in yet";

/// What the admin port tells of: the gateway once it is let in, before that why it is not.
#[derive(Clone, Debug, Default)]
pub struct Window {
    reader: Arc<OnceLock<GatewayReader>>,
    trouble: Arc<Mutex<Option<String>>>,
}

impl Window {
    /// The gateway is let in.
    pub fn open(&self, reader: GatewayReader) {
        // A process is let in as a gateway once.
        let _ = self.reader.set(reader);
    }

    /// # Errors
    /// Why there is nothing to be seen yet, for people.
    pub fn look(&self) -> Result<&GatewayReader, String> {
        self.reader.get().ok_or_else(|| {
            let trouble = lock(&self.trouble);
            trouble.as_ref().map_or_else(|| NOT_LET_IN.to_owned(), |trouble| format!("{NOT_LET_IN}: {trouble}"))
        })
    }

    fn tell(&self, trouble: Option<String>) {
        *lock(&self.trouble) = trouble;
    }
}

/// Waits until the gateway is let in; `None`: it is to leave before.
///
/// # Errors
/// When it is refused for good.
pub fn await_welcome(
    control: &GatewayControl,
    listeners: &Listeners,
    window: &Window,
    leaves: &AtomicBool,
) -> Result<Option<GatewayWelcome>, ControlError> {
    let began = Instant::now();
    loop {
        if let Some(answer) = control.answer() {
            return answer.map(Some);
        }
        if leaves.load(Ordering::Relaxed) {
            return Ok(None);
        }
        window.tell(control.trouble());
        if began.elapsed() >= PATIENCE {
            turn_away(listeners);
        }
        // The answer ends it sooner.
        std::thread::park_timeout(LOOK_EVERY);
    }
}

/// Of those who wait to be accepted, so many of each socket: clients that come again at once would keep it from the
/// coordinator's answer.
fn turn_away(listeners: &Listeners) {
    for (listener, protocol) in &listeners.sockets {
        for _ in 0..ACCEPTED_PER_TURN {
            match listener.accept(OtherEnd::Client) {
                Ok(mut stream) => {
                    // What it wants does not matter.
                    let _ = stream.read(&mut [0; READ_BYTES]);
                    let error = match protocol {
                        ClientProtocol::Memcached => "SERVER_ERROR",
                        ClientProtocol::Redis => "-LOADING",
                    };
                    let_go(stream, &format!("{error} {NOT_LET_IN}"));
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                // Nobody is left, or the system has no more sockets: the next look will tell.
                Err(_) => break,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::{SocketAddr, TcpStream};
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::config::Address;
    use crate::coordinator::tests::gateway;
    use crate::net::Listener;

    fn hear(address: SocketAddr, say: &str) -> String {
        let mut stream = TcpStream::connect(address).expect("it listens");
        // It may be let go before it speaks.
        let _ = stream.write_all(say.as_bytes());
        let mut heard = String::new();
        BufReader::new(stream).read_line(&mut heard).expect("text");
        heard
    }

    #[test]
    fn clients_of_a_gateway_that_is_not_let_in_are_told_so() {
        let dir = tempfile::tempdir().expect("a directory");
        let nowhere = Address::Unix(dir.path().join("control.sock"));
        let (control, _events) = gateway(&nowhere);
        let any = Address::Tcp(([127, 0, 0, 1], 0).into());
        let mut listeners = Listeners::default();
        let addresses = [ClientProtocol::Redis, ClientProtocol::Memcached].map(|protocol| {
            let listener = Listener::bind(&any).expect("a free port");
            let address = listener.socket_address().expect("TCP");
            listeners.sockets.push((listener, protocol));
            address
        });
        let window = Window::default();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| await_welcome(&control, &listeners, &window, &AtomicBool::new(false)));
            assert_eq!(hear(addresses[0], "PING\r\n"), format!("-LOADING {NOT_LET_IN}\r\n"));
            assert_eq!(hear(addresses[1], "version\r\n"), format!("SERVER_ERROR {NOT_LET_IN}\r\n"));
            while !window.look().expect_err("not let in").contains("control.sock: ") {
                std::thread::yield_now();
            }
            control.stop();
            assert_eq!(waits.join().expect("no panic"), Err(ControlError::Stopped));
        });
    }

    /// They come again as soon as they are turned away, and the coordinator's answer is to be heard.
    #[test]
    fn many_clients_are_turned_away_some_at_a_time() {
        const COME: usize = 2 * ACCEPTED_PER_TURN + 1;
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("here");
        let listener = Listener::bind(&Address::Unix(path.clone())).expect("a socket");
        let listeners = Listeners { sockets: vec![(listener, ClientProtocol::Redis)], forward: None };
        let come: Vec<_> = (0..COME).map(|_| UnixStream::connect(&path).expect("it listens")).collect();
        come.iter().for_each(|client| client.set_nonblocking(true).expect("a socket"));
        let turned_away = [(); 4].map(|()| {
            turn_away(&listeners);
            let is_told = |mut client: &UnixStream| client.read(&mut [0; 100]).is_ok_and(|count| count > 0);
            come.iter().filter(|client| is_told(client)).count()
        });
        assert_eq!(turned_away, [ACCEPTED_PER_TURN, ACCEPTED_PER_TURN, 1, 0]);
    }
}
