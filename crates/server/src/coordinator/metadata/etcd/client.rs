//! One question to etcd at a time, over its JSON gateway: endpoints in turn, a token when it wants one. Some questions
//! are answered without end.
//!
//! Must not know: what is asked.

#[cfg(test)]
mod tests;

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Value, json};
use ureq::http::Response;
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};
use ureq::typestate::WithBody;
use ureq::unversioned::transport::DefaultConnector;
use ureq::{Body, BodyReader, RequestBuilder};

use super::super::Trouble;
use super::messages::{Authenticated, Complaint};
use super::names::Names;
use crate::config::{EtcdConfig, EtcdTls};

/// Unless something is written, a member that is well answers in milliseconds. When one hangs that was asked to prolong
/// a lease, another one must be asked before nine tenths of it are over: a third, this, the rest after a question in
/// vain (250 ms).
pub const TIMEOUT: Duration = Duration::from_millis(600);
/// Bytes of a state: as much as etcd is to be started with in the largest clusters. By itself it takes 1.5 MiB.
const STATE_BYTES_MAX: u64 = 8 << 20;
/// Bytes of an answer: a state in base64, and its frame.
const ANSWER_BYTES_MAX: u64 = STATE_BYTES_MAX / 3 * 4 + (1 << 20);
/// Bytes of one answer of many: names of a few coordinators, and their frame.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// Characters of an unexpected answer that are told.
const EXCERPT_CHARS_MAX: usize = 200;
/// Bytes of a file in PEM.
const PEM_BYTES_MAX: u64 = 1 << 20;

/// Status codes of gRPC.
const INVALID_ARGUMENT: i64 = 3;
const NOT_FOUND: i64 = 5;
const UNAUTHENTICATED: i64 = 16;
/// What is said of a lease that is not there. A path that is not there has the same code, and nothing follows from
/// that.
const NO_LEASE: &str = "lease not found";
/// What a token is refused with, as an invalid argument, once users or roles were changed, or etcd came to want one.
const TOKEN_TOO_OLD: [&str; 2] = ["revision of auth store is old", "user name is empty"];
/// What every change is refused with once etcd's quota is used up, until somebody does as advised.
const NO_SPACE: &str = "database space exceeded";
const NO_SPACE_ADVICE: &str = "it takes no change until it was compacted and defragmented and its alarm disarmed (etcdctl compact, \
                               etcdctl defrag, etcdctl alarm disarm); start it with --auto-compaction-retention=1h";

pub struct Client {
    agent: ureq::Agent,
    urls: Vec<String>,
    /// The one that answered last.
    current: usize,
    /// User and password.
    credential: Option<(String, String)>,
    token: Option<String>,
}

/// Why one member of etcd gave no answer that can be used.
enum Failure {
    /// Another member may.
    NoAnswer(String),
    TokenInvalid,
    NotFound,
    Refused(String),
}

impl Client {
    /// # Errors
    /// When a certificate cannot be read.
    pub fn new(config: &EtcdConfig) -> anyhow::Result<Self> {
        let agent = ureq::Agent::config_builder();
        let agent = agent.proxy(None).timeout_global(Some(TIMEOUT)).http_status_as_error(false);
        let agent = agent.tls_config(tls(&config.tls)?).build();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).context("etcd's user is no text");
        let credential = config.credential.as_ref().map(|it| anyhow::Ok((text(&it.user)?, text(&it.password)?)));
        Ok(Client {
            agent: ureq::Agent::with_parts(agent, DefaultConnector::default(), Names::default()),
            urls: config.urls.clone(),
            current: 0,
            credential: credential.transpose()?,
            token: None,
        })
    }

    /// # Errors
    /// [`Trouble::Away`] when no member answers or etcd refuses, [`Trouble::Lapsed`] when the lease that was named is
    /// not there.
    pub fn ask<A: DeserializeOwned>(&mut self, path: &str, question: &Value) -> Result<A, Trouble> {
        self.ask_within(path, question, TIMEOUT)
    }

    /// # Errors
    /// The same, after so long.
    pub fn ask_within<A: DeserializeOwned>(
        &mut self,
        path: &str,
        question: &Value,
        within: Duration,
    ) -> Result<A, Trouble> {
        self.try_each(within, |client| client.ask_current(path, question, within))
    }

    /// Asks for answers without end, of which none may be silent for longer than `silence_max`.
    ///
    /// # Errors
    /// As for one answer.
    pub fn listen(&mut self, path: &str, question: &Value, silence_max: Duration) -> Result<Answers, Trouble> {
        self.try_each(TIMEOUT, |client| client.listen_current(path, question, silence_max))
    }

    /// The next question goes to another member.
    pub fn leave_current(&mut self) {
        self.current = (self.current + 1) % self.urls.len();
    }

    /// The next question is asked with a new token.
    pub fn forget_token(&mut self) {
        self.token = None;
    }

    pub fn interrupter(&self) -> Interrupter {
        Interrupter { agent: self.agent.clone() }
    }

    fn try_each<A>(&mut self, within: Duration, ask: impl Fn(&Self) -> Result<A, Failure>) -> Result<A, Trouble> {
        let mut problem = String::new();
        let began = Instant::now();
        for _ in 0..self.urls.len() {
            let mut answer = self.with_token(within, &ask);
            // A token ends when etcd restarts, or after some minutes.
            if matches!(answer, Err(Failure::TokenInvalid)) && self.token.take().is_some() {
                answer = self.with_token(within, &ask);
            }
            problem = match answer {
                Ok(answer) => return Ok(answer),
                Err(Failure::NotFound) => return Err(Trouble::Lapsed),
                Err(Failure::Refused(problem) | Failure::NoAnswer(problem)) => problem,
                Err(Failure::TokenInvalid) => "etcd wants a user and a password".to_owned(),
            };
            self.leave_current();
            // One that hangs takes all the time there is; the next question begins with another one.
            if began.elapsed() >= within {
                break;
            }
        }
        Err(Trouble::Away(problem))
    }

    fn with_token<A>(&mut self, within: Duration, ask: &impl Fn(&Self) -> Result<A, Failure>) -> Result<A, Failure> {
        if let (None, Some((user, password))) = (&self.token, &self.credential) {
            let question = json!({ "name": user, "password": password });
            self.token = Some(self.ask_current::<Authenticated>("/v3/auth/authenticate", &question, within)?.token);
        }
        ask(self)
    }

    fn ask_current<A: DeserializeOwned>(&self, path: &str, question: &Value, within: Duration) -> Result<A, Failure> {
        let request = self.request(path).config().timeout_connect(Some(TIMEOUT)).timeout_global(Some(within)).build();
        let answer = request.send(question.to_string()).map_err(|error| self.no_answer(&error))?;
        self.read(answer)
    }

    /// Of a member that lost its leader no answer is worth anything: it is to refuse.
    fn listen_current(&self, path: &str, question: &Value, silence_max: Duration) -> Result<Answers, Failure> {
        let request = self.request(path).header("grpc-metadata-hasleader", "true").config();
        let request = request.timeout_global(None).timeout_resolve(Some(TIMEOUT)).timeout_connect(Some(TIMEOUT));
        let request = request.timeout_recv_response(Some(TIMEOUT)).timeout_per_read(Some(silence_max)).build();
        let answer = request.send(question.to_string()).map_err(|error| self.no_answer(&error))?;
        if !answer.status().is_success() {
            return Err(self
                .read::<IgnoredAny>(answer)
                .err()
                .unwrap_or_else(|| self.no_answer(&"not as etcd refuses")));
        }
        Ok(Answers { lines: BufReader::new(answer.into_body().into_reader()) })
    }

    fn request(&self, path: &str) -> RequestBuilder<WithBody> {
        let url = format!("{}{path}", self.urls[self.current]);
        let request = self.agent.post(url).header("content-type", "application/json");
        match &self.token {
            Some(token) => request.header("authorization", token),
            None => request,
        }
    }

    fn read<A: DeserializeOwned>(&self, mut answer: Response<Body>) -> Result<A, Failure> {
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
        let body = body.map_err(|error| self.no_answer(&error))?;
        let complaint = match serde_json::from_str::<Complaint>(&body) {
            Ok(complaint) => complaint.parts(),
            Err(_) if answer.status().is_success() => {
                return serde_json::from_str(&body)
                    .map_err(|error| self.no_answer(&format!("not as etcd answers: {error}")));
            }
            Err(_) => (0, format!("{} {}", answer.status(), excerpt(&body))),
        };
        Err(match complaint {
            (NOT_FOUND, said) if said.contains(NO_LEASE) => Failure::NotFound,
            (UNAUTHENTICATED, _) => Failure::TokenInvalid,
            (INVALID_ARGUMENT, said) if TOKEN_TOO_OLD.iter().any(|why| said.contains(why)) => Failure::TokenInvalid,
            (_, said) if said.contains(NO_SPACE) => {
                Failure::Refused(format!("{}: {said}: {NO_SPACE_ADVICE}", self.urls[self.current]))
            }
            (_, said) => Failure::Refused(format!("{}: {said}", self.urls[self.current])),
        })
    }

    fn no_answer(&self, error: &dyn std::fmt::Display) -> Failure {
        Failure::NoAnswer(format!("{}: {error}", self.urls[self.current]))
    }
}

/// Answers that arrive one after the other, each on a line.
pub struct Answers {
    lines: BufReader<BodyReader<'static>>,
}

/// Why there are no more answers.
#[derive(Debug)]
pub enum Ended {
    /// Nothing was said for long, which may be all there was to say.
    Silent,
    Broken(String),
}

impl Answers {
    /// Waits for the next one.
    ///
    /// # Errors
    /// When none will come.
    pub fn next<A: DeserializeOwned>(&mut self) -> Result<A, Ended> {
        let mut line = Vec::new();
        if let Err(error) = self.lines.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<ureq::Error>());
            let is_silent = matches!(cause, Some(ureq::Error::Timeout(_)));
            return Err(if is_silent { Ended::Silent } else { Ended::Broken(error.to_string()) });
        }
        let broken = |error: serde_json::Error| Ended::Broken(format!("not as etcd answers: {error}"));
        match serde_json::from_slice::<Complaint>(&line) {
            Ok(complaint) => Err(Ended::Broken(complaint.parts().1)),
            Err(_) if line.is_empty() => Err(Ended::Broken("no more answers".to_owned())),
            Err(_) => serde_json::from_slice(&line).map_err(broken),
        }
    }
}

/// Ends what a client asks on another thread, now and from now on.
pub struct Interrupter {
    agent: ureq::Agent,
}

impl Interrupter {
    pub fn interrupt(self) {
        self.agent.shutdown();
    }
}

/// The beginning of what was said otherwise than in JSON, for people.
fn excerpt(body: &str) -> String {
    body.trim().chars().take(EXCERPT_CHARS_MAX).collect()
}

/// Bytes as JSON carries them.
pub fn bytes(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

fn tls(config: &EtcdTls) -> anyhow::Result<TlsConfig> {
    let mut tls = TlsConfig::builder();
    if let Some(ca) = &config.ca {
        tls = tls.root_certs(RootCerts::new_with_certs(&certificates(ca)?));
    }
    if let Some((certificate, key)) = &config.client {
        tls = tls.client_cert(Some(ClientCert::new_with_certs(&certificates(certificate)?, private_key(key)?)));
    }
    Ok(tls.build())
}

fn certificates(path: &Path) -> anyhow::Result<Vec<Certificate<'static>>> {
    let items = pem(path)?.into_iter();
    let found: Vec<_> =
        items.filter_map(|item| if let PemItem::Certificate(it) = item { Some(it) } else { None }).collect();
    if found.is_empty() {
        return Err(anyhow!("{} holds no certificate", path.display()));
    }
    Ok(found)
}

fn private_key(path: &Path) -> anyhow::Result<PrivateKey<'static>> {
    let found =
        pem(path)?.into_iter().find_map(|item| if let PemItem::PrivateKey(it) = item { Some(it) } else { None });
    found.with_context(|| format!("{} holds no private key", path.display()))
}

fn pem(path: &Path) -> anyhow::Result<Vec<PemItem<'static>>> {
    let cannot = || format!("cannot read {}", path.display());
    let mut text = Vec::new();
    std::fs::File::open(path).with_context(cannot)?.take(PEM_BYTES_MAX).read_to_end(&mut text).with_context(cannot)?;
    parse_pem(&text).collect::<Result<_, _>>().with_context(cannot)
}
