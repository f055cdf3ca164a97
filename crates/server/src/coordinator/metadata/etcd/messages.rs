//! Answers of etcd's JSON gateway: 64-bit numbers are texts, bytes are base64, and what is zero or empty is left out.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, de};

/// The answer to a transaction.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Transacted {
    responses: Vec<Response>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Response {
    response_range: Option<Range>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Range {
    kvs: Vec<KeyValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct KeyValue {
    /// As it is on the wire.
    key: String,
    #[serde(deserialize_with = "base64")]
    pub value: Vec<u8>,
    #[serde(deserialize_with = "number")]
    pub create_revision: i64,
    #[serde(deserialize_with = "number")]
    pub mod_revision: i64,
    #[serde(deserialize_with = "number")]
    pub lease: i64,
}

impl Transacted {
    /// The key as one of the transaction's gets found it.
    pub fn get(&self, key: &str) -> Option<&KeyValue> {
        let found = self.responses.iter().filter_map(|response| response.response_range.as_ref());
        found.flat_map(|range| &range.kvs).find(|kv| kv.key == key)
    }
}

#[derive(Debug, Deserialize)]
pub struct Granted {
    #[serde(rename = "ID", deserialize_with = "number")]
    pub id: i64,
    #[serde(rename = "TTL", deserialize_with = "number")]
    pub ttl_s: i64,
}

/// A lease after it was kept alive; without a time it has ended.
#[derive(Debug, Deserialize)]
pub struct Kept {
    pub result: KeptResult,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct KeptResult {
    #[serde(rename = "TTL", deserialize_with = "number")]
    pub ttl_s: i64,
}

/// One of the answers to a watch.
#[derive(Debug, Deserialize)]
pub struct Watched {
    pub result: WatchedResult,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct WatchedResult {
    pub header: Header,
    /// The watch begins; told with the revision that it was asked in.
    pub created: bool,
    /// There will be no other answer.
    pub canceled: bool,
    pub cancel_reason: String,
    /// What happened up to here is forgotten, so that it cannot be told; 0: that is not why.
    #[serde(deserialize_with = "number")]
    pub compact_revision: i64,
    events: Vec<Event>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Header {
    #[serde(deserialize_with = "number")]
    pub revision: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Event {
    kv: KeyValue,
}

impl WatchedResult {
    /// Of the last change that is told; `None`: none is.
    pub fn changed_at(&self) -> Option<i64> {
        self.events.iter().map(|event| event.kv.mod_revision).max()
    }
}

#[derive(Debug, Deserialize)]
pub struct Authenticated {
    pub token: String,
}

/// What is said instead of an answer; streams, as that of a lease, wrap it once more. Since 3.6 etcd names things
/// otherwise.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Complaint {
    Stream {
        error: StreamError,
    },
    Plain {
        error: String,
        #[serde(default)]
        code: i64,
    },
    /// Since 3.6.
    Newer {
        code: i64,
        message: String,
    },
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct StreamError {
    message: String,
    #[serde(alias = "code")]
    grpc_code: i64,
}

impl Complaint {
    /// A status code of gRPC, and the text for people.
    pub fn parts(self) -> (i64, String) {
        match self {
            Complaint::Stream { error } => (error.grpc_code, error.message),
            Complaint::Plain { error, code } => (code, error),
            Complaint::Newer { code, message } => (code, message),
        }
    }
}

fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
}

fn base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    STANDARD.decode(String::deserialize(deserializer)?).map_err(de::Error::custom)
}
