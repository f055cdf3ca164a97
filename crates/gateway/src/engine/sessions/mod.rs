//! Sessions: nodes as this owner sees them: greeted, late, slow, away.
//!
//! Begin with `nodes`, the phases of a node, and `asking`, which asks them and takes in what they answer.
//!
//! | module | |
//! |---|---|
//! | `absence` | the way of a node that went away, as this owner sees it: a log line for each step |
//! | `asking` | what nodes are asked and answer, what is late, what happens when a session ends |
//! | `domains` | which nodes fail together, and which form a coding set |
//! | `greeting` | hello, fence, scan; then a node is ready |
//! | `late` | who owes an answer for too long, as of one look at all nodes |
//! | `lives` | which life each node is in, and whose memory is gone for good |
//! | `node_session` | one session with a core of a node: what waits to be sent, what is out, what is owed |
//! | `nodes` | the owner's view of the nodes: sessions, what each was asked, who may be used |
//! | `pacing` | clients first: repair gives way, what it says is gathered |
//! | `pause` | a pause of this process makes nobody else late |
//! | `watch` | what the request monitor is told, and what its verdicts cause |

pub(super) mod absence;
pub(super) mod asking;
pub(super) mod domains;
mod greeting;
mod late;
pub(super) mod lives;
pub(super) mod node_session;
pub(super) mod nodes;
pub(super) mod pacing;
mod pause;
pub(super) mod watch;
