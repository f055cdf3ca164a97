//! Asking coordinators on their admin ports: of several, the one that leads.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Args;
use serde::Serialize;
use shorttail_server::admin::{OrderOutcome, status};
use shorttail_server::config::{AddressError, check_tcp_address, resolve};
use shorttail_wire::control::ClusterStatus;

use crate::exit::Failure;
use crate::output::print;
use crate::status::coordinator_line;

/// A coordinator that is there answers in a millisecond, an order to be faulty within three seconds.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of an answer: some 1000 for each of 4096 nodes, and some for each gateway.
const ANSWER_BYTES_MAX: u64 = 256 << 20;

/// Whom to ask.
#[derive(Args, Clone, Debug)]
pub struct AdminPort {
    /// The coordinator's admin port. Of several, with commas between or under one name, the one that leads is asked
    #[arg(
        id = "admin",
        long = "admin",
        global = true,
        env = "SHORTTAIL_ADMIN",
        value_name = "ADDR,...",
        value_delimiter = ',',
        default_value = "127.0.0.1:8080",
        value_parser = parse_admin,
    )]
    places: Vec<String>,
}

/// `host:port`, or what a browser takes, as `up` prints it. A host is looked up when it is asked: it may be gone, and
/// others not.
fn parse_admin(text: &str) -> Result<String, AddressError> {
    let place = text.strip_prefix("http://").map_or(text, |place| place.trim_end_matches('/'));
    check_tcp_address(place).map(|()| place.to_owned())
}

/// The coordinators of a cluster. Where they are is looked up each time that they are asked: who waits for one that is
/// to come may know its name before anybody else does.
pub struct Admin {
    places: Vec<String>,
    timeout: Duration,
    agent: ureq::Agent,
}

/// The admin port of one of them.
struct Port {
    address: SocketAddr,
    timeout: Duration,
    agent: ureq::Agent,
}

impl Admin {
    pub fn new(port: &AdminPort) -> Self {
        Self::within(port, TIMEOUT)
    }

    fn within(port: &AdminPort, timeout: Duration) -> Self {
        let config = ureq::Agent::config_builder();
        let config = config.proxy(None).timeout_global(Some(timeout)).http_status_as_error(false).build();
        Admin { places: port.places.clone(), timeout, agent: ureq::Agent::new_with_config(config) }
    }

    /// Of some it is not known where they are, and why.
    fn ports(&self) -> Vec<Result<Port, String>> {
        let port_at = |address| Ok(Port { address, timeout: self.timeout, agent: self.agent.clone() });
        let ports_of = |place: &String| match resolve(place) {
            // Of one machine with two kinds of addresses one is asked.
            Ok(all) => all.iter().filter(|one| one.is_ipv4() == all[0].is_ipv4()).copied().map(port_at).collect(),
            Err(error) => vec![Err(error.to_string())],
        };
        self.places.iter().flat_map(ports_of).collect()
    }

    /// What each coordinator says, as they were named; who does not answer is waited for.
    pub fn statuses(&self) -> Vec<anyhow::Result<ClusterStatus>> {
        let ask = |port: Result<Port, String>| match port {
            Ok(port) => port.status(),
            Err(reason) => Err(anyhow!("{reason}")),
        };
        std::thread::scope(|scope| {
            let asked: Vec<_> = self.ports().into_iter().map(|port| scope.spawn(move || ask(port))).collect();
            asked.into_iter().map(|asked| asked.join().expect("asking does not panic")).collect()
        })
    }

    /// The status of the cluster.
    ///
    /// # Errors
    /// Why nobody tells it.
    pub fn cluster(&self) -> anyhow::Result<ClusterStatus> {
        self.leader().map(|(_, status)| status)
    }

    /// The coordinator that leads, as soon as it answers. If none does: one that led, and still knows the cluster.
    fn leader(&self) -> anyhow::Result<(Port, ClusterStatus)> {
        let (said, hear) = mpsc::channel();
        let ports = self.ports();
        let mut reasons = vec![String::new(); ports.len()];
        for (place, port) in ports.into_iter().enumerate() {
            match port {
                Ok(port) => {
                    let said = said.clone();
                    // Nobody may hear it any more.
                    std::thread::spawn(move || drop(said.send((place, port.cluster().map(|status| (port, status))))));
                }
                Err(reason) => reasons[place] = reason,
            }
        }
        drop(said);
        let mut led = None;
        for (place, told) in hear {
            match told {
                Ok((port, status)) if status.coordinator.leading => return Ok((port, status)),
                Ok((port, status)) => led = Some((port, status)),
                Err(error) => reasons[place] = format!("{error:#}"),
            }
        }
        led.ok_or_else(|| no_leader(&reasons))
    }

    /// Orders members to do something; what each of them says.
    ///
    /// # Errors
    /// When nobody answers, or with an error.
    pub fn order(&self, path: &str, request: &impl Serialize) -> anyhow::Result<Vec<OrderOutcome>> {
        match self.ports().as_slice() {
            [Ok(port)] => port.order(path, request),
            _ => self.leader()?.0.order(path, request),
        }
    }

    /// Orders one member to do something, and says what it did.
    ///
    /// # Errors
    /// When nobody answers, or why it was not done.
    pub fn order_one(&self, path: &str, request: &impl Serialize) -> Result<(), Failure> {
        let outcomes = self.order(path, request)?;
        let outcome = outcomes.first().ok_or_else(|| anyhow!("the coordinator answered for no member"))?;
        if !outcome.is_done {
            return Err(Failure::Failed(anyhow!("{}", outcome.text)));
        }
        print(&format!("{}\n", outcome.text))
    }
}

impl Port {
    fn status(&self) -> anyhow::Result<ClusterStatus> {
        let body = self.read(self.agent.get(self.url("/status")).call())?;
        status::from_json(&body).with_context(|| self.is_other())
    }

    fn cluster(&self) -> anyhow::Result<ClusterStatus> {
        let status = self.status()?;
        match status.is_standby() {
            true => Err(anyhow!("{}: ask the one that leads (--admin)", coordinator_line(&status.coordinator))),
            false => Ok(status),
        }
    }

    fn order(&self, path: &str, request: &impl Serialize) -> anyhow::Result<Vec<OrderOutcome>> {
        let json = serde_json::to_string(request).context("an order is JSON")?;
        let answer = self.agent.post(self.url(path)).header("content-type", "application/json").send(json);
        if let Err(ureq::Error::Timeout(_)) = answer {
            return Err(anyhow!("{}; it may obey yet", self.is_still()));
        }
        let answer = self.read(answer)?;
        serde_json::from_str(&answer).with_context(|| self.is_other())
    }

    fn is_other(&self) -> String {
        format!(
            "at {} no coordinator answers, but a gateway or something else (--admin names the coordinator's admin port)",
            self.address
        )
    }

    fn is_still(&self) -> String {
        format!(
            "no answer from {} within {} s (--admin says whom to ask): its process or machine stands still, or nothing is \
             there",
            self.address,
            self.timeout.as_secs()
        )
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn read(&self, answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> anyhow::Result<String> {
        let address = self.address;
        if let Err(ureq::Error::Timeout(_)) = answer {
            return Err(anyhow!("{}", self.is_still()));
        }
        let mut answer = answer.with_context(|| format!("no answer from {address} (--admin says whom to ask)"))?;
        let status = answer.status();
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
        let body = body.with_context(|| format!("the answer of {address} breaks off"))?;
        match status.is_success() {
            true => Ok(body),
            // Gateways take no orders.
            false if status == ureq::http::StatusCode::NOT_FOUND => Err(anyhow!("{}", self.is_other())),
            false => Err(anyhow!("{address} answers {status}: {}", body.trim_end())),
        }
    }
}

/// What keeps each coordinator from telling of the cluster.
pub fn no_leader(reasons: &[String]) -> anyhow::Error {
    match reasons {
        [reason] => anyhow!("{reason}"),
        reasons => anyhow!("no coordinator tells of the cluster: {}", reasons.join("; ")),
    }
}

/// Says what every member did that was ordered; fails if one did not.
///
/// # Errors
/// What was not done, and why.
pub fn report(who: &str, outcomes: &[OrderOutcome]) -> Result<(), Failure> {
    let lines = |is_done: bool| {
        let some = outcomes.iter().filter(|outcome| outcome.is_done == is_done);
        some.map(|outcome| format!("{who} {}: {}", outcome.member, outcome.text)).collect::<Vec<_>>().join("\n")
    };
    let (done, refused) = (lines(true), lines(false));
    if !done.is_empty() {
        print(&(done + "\n"))?;
    }
    match (refused.is_empty(), outcomes.is_empty()) {
        (true, false) => Ok(()),
        (true, true) => Err(Failure::Failed(anyhow!("no {who} is alive"))),
        (false, _) => Err(Failure::Failed(anyhow!("{refused}"))),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::atomic::AtomicU16;
    use std::sync::atomic::Ordering::Relaxed;

    use shorttail_server::admin::AcknowledgeRequest;
    use shorttail_server::config::{Resolver, with_resolver};
    use shorttail_wire::control::CoordinatorStatus;

    use super::*;

    #[test]
    fn an_address_may_be_one_of_a_browser() {
        for text in ["127.0.0.1:8090", "http://127.0.0.1:8090", "http://127.0.0.1:8090/"] {
            assert_eq!(parse_admin(text).ok().as_deref(), Some("127.0.0.1:8090"), "{text}");
        }
        assert!(parse_admin("coordinator-7:8080").is_ok(), "it is looked up later");
        for text in ["https://127.0.0.1:8090", "http://", "http://127.0.0.1:8090/status"] {
            assert!(parse_admin(text).is_err(), "{text}");
        }
    }

    fn admin(listeners: &[&TcpListener], timeout: Duration) -> Admin {
        let places = listeners.iter().map(|listener| listener.local_addr().expect("bound").to_string()).collect();
        Admin::within(&AdminPort { places }, timeout)
    }

    fn port() -> TcpListener {
        TcpListener::bind("127.0.0.1:0").expect("a port")
    }

    /// Answers one request with this status and text.
    fn answer(listener: &TcpListener, status: &str, text: &str) {
        let (mut stream, _) = listener.accept().expect("it asks");
        let (mut request, mut buffer) = (Vec::new(), [0; 1024]);
        while !request.ends_with(b"\r\n\r\n") && !request.ends_with(b"\"losses\"") {
            let count = stream.read(&mut buffer).expect("a request");
            request.extend_from_slice(&buffer[..count]);
        }
        let length = text.len();
        write!(stream, "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{text}")
            .expect("taken");
    }

    /// What is said when somebody answers a request with this status and text.
    fn asked<T>(status: &'static str, text: &'static str, ask: impl FnOnce(&Admin) -> anyhow::Result<T>) -> String {
        let listener = port();
        let admin = admin(&[&listener], TIMEOUT);
        let answers = std::thread::spawn(move || answer(&listener, status, text));
        let error = ask(&admin).err().expect("no coordinator");
        answers.join().expect("it answered");
        format!("{error:#}")
    }

    /// A coordinator that leads, led before, or stands by, as JSON.
    fn coordinator(name: &str, leading: bool, cluster_id: &str) -> String {
        let coordinator = CoordinatorStatus { name: name.into(), leading, ..CoordinatorStatus::default() };
        let status = ClusterStatus { cluster_id: cluster_id.into(), coordinator, ..ClusterStatus::default() };
        status::to_json(&status).expect("plain data").to_string()
    }

    /// One of three stands still, as far as anybody can tell: nobody waits for it.
    #[test]
    fn of_several_the_one_that_leads_is_asked() {
        let (silent, led, leads) = (port(), port(), port());
        let admin = admin(&[&silent, &led, &leads], Duration::from_secs(240));
        let answers = std::thread::spawn(move || {
            answer(&led, "200 OK", &coordinator("led", false, "77"));
            answer(&leads, "200 OK", &coordinator("leads", true, "77"));
            answer(&leads, "200 OK", &coordinator("leads", true, "77"));
            answer(&leads, "200 OK", "[]");
            led
        });
        assert_eq!(admin.cluster().expect("one leads").coordinator.name, "leads");
        let orders = std::thread::spawn(move || admin.order("/acknowledge", &AcknowledgeRequest::Losses));
        let led = answers.join().expect("they answered");
        assert!(orders.join().expect("no panic").expect("it obeys").is_empty());
        drop((silent, led));
    }

    #[test]
    fn a_name_that_nobody_knows_keeps_no_other_from_being_asked() {
        let leads = port();
        let mut admin = admin(&[&leads], TIMEOUT);
        admin.places.insert(0, "gone:8080".to_owned());
        let answers = std::thread::spawn(move || {
            (0..2).for_each(|_| answer(&leads, "200 OK", &coordinator("leads", true, "77")));
        });
        let ask = || (admin.cluster().expect("one leads").coordinator.name, admin.statuses());
        let unknown: Resolver = |_| Err(std::io::Error::other("nobody knows it"));
        let (name, statuses) = with_resolver(unknown, ask);
        assert_eq!(name, "leads");
        assert!(
            statuses[0].as_ref().is_err_and(|error| error.to_string().contains("gone:8080")) && statuses[1].is_ok()
        );
        answers.join().expect("it answered");
    }

    /// Who waits for it asks again and again.
    #[test]
    fn a_name_that_nobody_knows_yet_is_looked_up_anew() {
        static PORT: AtomicU16 = AtomicU16::new(0);
        let leads = port();
        let admin = Admin::within(&AdminPort { places: vec!["to-come:8080".to_owned()] }, TIMEOUT);
        let resolver: Resolver = |_| match PORT.load(Relaxed) {
            0 => Err(std::io::Error::other("nobody knows it")),
            port => Ok(vec![([127, 0, 0, 1], port).into()]),
        };
        with_resolver(resolver, || {
            assert!(admin.cluster().is_err_and(|error| error.to_string().contains("nobody knows it")));
            PORT.store(leads.local_addr().expect("bound").port(), Relaxed);
            let answers = std::thread::spawn(move || answer(&leads, "200 OK", &coordinator("leads", true, "77")));
            assert_eq!(admin.cluster().expect("it is there").coordinator.name, "leads");
            answers.join().expect("it answered");
        });
    }

    #[test]
    fn if_none_leads_the_one_that_knows_the_cluster_is_asked() {
        let (stands_by, led) = (port(), port());
        let admin = admin(&[&stands_by, &led], TIMEOUT);
        let answers = std::thread::spawn(move || {
            for (knows, cluster_id) in [(true, "77"), (false, "")] {
                answer(&stands_by, "200 OK", &coordinator("stands by", false, ""));
                answer(&led, "200 OK", &coordinator(if knows { "led" } else { "too" }, false, cluster_id));
            }
        });
        assert_eq!(admin.cluster().expect("one knows it").coordinator.name, "led");
        let error = admin.cluster().expect_err("none knows it").to_string();
        answers.join().expect("they answered");
        assert!(error.starts_with("no coordinator tells of the cluster: coordinator stands by: "), "{error}");
        assert!(error.contains("; coordinator too: "), "{error}");
    }

    #[test]
    fn who_asks_a_gateway_is_told_so() {
        let status = asked("200 OK", "{\"gateway\":0}", Admin::cluster);
        let order = asked("404 Not Found", "", |admin| admin.order("/acknowledge", &AcknowledgeRequest::Losses));
        for said in [status, order] {
            assert!(said.contains("no coordinator answers, but a gateway"), "{said}");
        }
    }

    /// As a process does that was stopped: the system still takes its connections.
    #[test]
    fn who_stands_still_is_said_to() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let error = admin(&[&listener], Duration::from_millis(50)).cluster().expect_err("nobody answers");
        assert!(error.to_string().contains("stands still"), "{error:#}");
    }

    #[test]
    fn one_member_that_refuses_fails_the_command() {
        let outcome = |member, is_done| OrderOutcome { member, is_done, text: "slow 50ms".into() };
        assert!(report("node", &[outcome(1, true), outcome(2, true)]).is_ok());
        let Err(Failure::Failed(error)) = report("node", &[outcome(1, true), outcome(2, false)]) else {
            panic!("it fails")
        };
        assert_eq!(error.to_string(), "node 2: slow 50ms");
        assert!(report("node", &[]).is_err());
    }
}
