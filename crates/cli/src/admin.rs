//! Asking the coordinator's admin port.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, anyhow};
use shorttail_server::admin::OrderOutcome;
use shorttail_wire::control::ClusterStatus;

use crate::exit::Failure;
use crate::output::print;

/// A coordinator that is there answers in a millisecond, an order to be faulty within three seconds.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of an answer: some 1000 for each of 4096 nodes, and some for each gateway.
const ANSWER_BYTES_MAX: u64 = 256 << 20;

pub struct Admin {
    address: SocketAddr,
    agent: ureq::Agent,
}

impl Admin {
    pub fn new(address: SocketAddr) -> Self {
        let config = ureq::Agent::config_builder();
        let config = config.proxy(None).timeout_global(Some(TIMEOUT)).http_status_as_error(false).build();
        Admin { address, agent: ureq::Agent::new_with_config(config) }
    }

    /// # Errors
    /// When nobody answers, or someone else than a coordinator.
    pub fn status(&self) -> anyhow::Result<ClusterStatus> {
        let body = self.read(self.agent.get(self.url("/status")).call())?;
        serde_json::from_str(&body).with_context(|| format!("{} answers, but not as a coordinator does", self.address))
    }

    /// Sends JSON; the answer's body.
    ///
    /// # Errors
    /// When nobody answers, or with an error.
    pub fn post(&self, path: &str, json: &str) -> anyhow::Result<String> {
        self.read(self.agent.post(self.url(path)).header("content-type", "application/json").send(json))
    }

    /// Orders one member to do something, and says what it did.
    ///
    /// # Errors
    /// When nobody answers, or why it was not done.
    pub fn order_one(&self, path: &str, request: &serde_json::Value) -> Result<(), Failure> {
        let answer = self.post(path, &request.to_string())?;
        let outcomes: Vec<OrderOutcome> =
            serde_json::from_str(&answer).with_context(|| format!("{} answers something else", self.address))?;
        let outcome = outcomes.first().ok_or_else(|| anyhow!("the coordinator does not answer"))?;
        if !outcome.is_done {
            return Err(Failure::Failed(anyhow!("{}", outcome.text)));
        }
        print(&format!("{}\n", outcome.text))
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn read(&self, answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> anyhow::Result<String> {
        let address = self.address;
        let mut answer = answer.with_context(|| format!("no answer from {address} (--admin says whom to ask)"))?;
        let status = answer.status();
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
        let body = body.with_context(|| format!("the answer of {address} breaks off"))?;
        match status.is_success() {
            true => Ok(body),
            false => Err(anyhow!("{address} answers {status}: {}", body.trim_end())),
        }
    }
}
