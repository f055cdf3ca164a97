//! What a core is told by others of its process: other cores, the control thread, the main thread.
//!
//! Must not know: what a core does with it.

use std::collections::BTreeSet;
use std::sync::Arc;

use shorttail_gateway::engine::{Token, WhenFull};
use shorttail_gateway::roster::ClientProtocol;
use shorttail_wire::control::{Terms, View};

use crate::config::SidestepConfig;
use crate::gateway::exchange::{Answer, Passed};
use crate::gateway::policies::NewPolicies;
use crate::net::Stream;

/// A message to a core.
#[derive(Debug)]
pub enum ToCore {
    Client {
        stream: Stream,
        protocol: ClientProtocol,
    },
    /// Another gateway connected.
    Guest {
        stream: Stream,
    },
    Ask(Passed),
    Answer {
        token: Token,
        answer: Answer,
        /// Of the request.
        partition: u16,
    },
    View(Arc<View>),
    /// All tenures of this gateway.
    Terms(Arc<[Terms]>),
    /// The gateway lets go of what it owns, and ends.
    Leave,
    /// Epochs of all tenures of the cluster that are served.
    Served(Arc<BTreeSet<u32>>),
    Change(Live),
    Policies(NewPolicies),
}

/// What may change while a gateway runs.
#[derive(Clone, Debug)]
pub struct Live {
    pub connection_count_max: usize,
    pub idle_timeout_s: u64,
    pub when_full: WhenFull,
    /// None: as it is.
    pub sidestep: Option<SidestepConfig>,
}
