//! One question to etcd at a time, over its JSON gateway: endpoints in turn, a token when it wants one.
//!
//! Must not know: what is asked.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};

use super::super::Trouble;
use super::messages::{Authenticated, Complaint};
use crate::config::{EtcdConfig, EtcdTls};

/// A member that is well answers in milliseconds; several questions must fit into what is left of a lease.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Bytes of an answer: the largest state that etcd takes in a transaction (1.5 MiB) in base64, and its frame.
const ANSWER_BYTES_MAX: u64 = 4 << 20;
/// Characters of an unexpected answer that are told.
const EXCERPT_CHARS_MAX: usize = 200;
/// Bytes of a file in PEM.
const PEM_BYTES_MAX: u64 = 1 << 20;

/// Status codes of gRPC.
const NOT_FOUND: i64 = 5;
const UNAUTHENTICATED: i64 = 16;

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
            agent: ureq::Agent::new_with_config(agent),
            urls: config.urls.clone(),
            current: 0,
            credential: credential.transpose()?,
            token: None,
        })
    }

    /// # Errors
    /// [`Trouble::Away`] when no member answers or etcd refuses, [`Trouble::Lapsed`] when what was named is not there.
    pub fn ask<A: DeserializeOwned>(&mut self, path: &str, question: &Value) -> Result<A, Trouble> {
        let mut problem = String::new();
        let began = Instant::now();
        for _ in 0..self.urls.len() {
            let mut answer = self.ask_with_token(path, question);
            // A token ends when etcd restarts, or after some minutes.
            if matches!(answer, Err(Failure::TokenInvalid)) && self.token.take().is_some() {
                answer = self.ask_with_token(path, question);
            }
            problem = match answer {
                Ok(answer) => return Ok(answer),
                Err(Failure::NotFound) => return Err(Trouble::Lapsed),
                Err(Failure::Refused(problem) | Failure::NoAnswer(problem)) => problem,
                Err(Failure::TokenInvalid) => "etcd wants a user and a password".to_owned(),
            };
            self.current = (self.current + 1) % self.urls.len();
            // One that hangs takes all the time there is; the next question begins with another one.
            if began.elapsed() >= TIMEOUT {
                break;
            }
        }
        Err(Trouble::Away(problem))
    }

    fn ask_with_token<A: DeserializeOwned>(&mut self, path: &str, question: &Value) -> Result<A, Failure> {
        if let (None, Some((user, password))) = (&self.token, &self.credential) {
            let question = json!({ "name": user, "password": password });
            self.token = Some(self.ask_current::<Authenticated>("/v3/auth/authenticate", &question)?.token);
        }
        self.ask_current(path, question)
    }

    fn ask_current<A: DeserializeOwned>(&self, path: &str, question: &Value) -> Result<A, Failure> {
        let url = &self.urls[self.current];
        let no_answer = |error: &dyn std::fmt::Display| Failure::NoAnswer(format!("{url}: {error}"));
        let mut request = self.agent.post(format!("{url}{path}")).header("content-type", "application/json");
        if let Some(token) = &self.token {
            request = request.header("authorization", token);
        }
        let mut answer = request.send(question.to_string()).map_err(|error| no_answer(&error))?;
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
        let body = body.map_err(|error| no_answer(&error))?;
        let complaint = match serde_json::from_str::<Complaint>(&body) {
            Ok(complaint) => complaint.parts(),
            Err(_) if answer.status().is_success() => {
                return serde_json::from_str(&body)
                    .map_err(|error| no_answer(&format!("not as etcd answers: {error}")));
            }
            Err(_) => (0, format!("{} {}", answer.status(), excerpt(&body))),
        };
        Err(match complaint {
            (NOT_FOUND, _) => Failure::NotFound,
            (UNAUTHENTICATED, _) => Failure::TokenInvalid,
            (_, said) => Failure::Refused(format!("{url}: {said}")),
        })
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
    use std::io::Read;
    let cannot = || format!("cannot read {}", path.display());
    let mut text = Vec::new();
    std::fs::File::open(path).with_context(cannot)?.take(PEM_BYTES_MAX).read_to_end(&mut text).with_context(cannot)?;
    parse_pem(&text).collect::<Result<_, _>>().with_context(cannot)
}
