//! Reclaim: what is emptied, evicted and freed, and what must outlive it.
//!
//! Begin with `cleaner`, which empties the stripe that `choosing` names, and `freeing`, which ends it. What is kept
//! back for whom when memory is short is in `reserve`.
//!
//! | module | |
//! |---|---|
//! | `choosing` | which stripe is emptied next, and whether any is worth it |
//! | `cleaner` | jobs empty a stripe: what is alive moves to the end of the log, or is evicted |
//! | `doomed` | packed objects that are evicted: served until the stripe that holds them is void |
//! | `emptiest` | which sealed stripe cleaning would gain most from, without a look at each of them every time |
//! | `evict` | striped objects that are evicted, or are over: a hand goes over them in the order of their age |
//! | `expired` | how much of what packed stripes hold is over |
//! | `freeing` | stripes are freed so that nothing in them comes back |
//! | `headroom` | how many more stripes fit, and what a stripe that is freed adds to that, where nodes differ in room |
//! | `kept` | what a stripe holds that is neither alive nor free to go: tombstones, floors, other control records |
//! | `recent` | when keys were last used, for as many of the latest as a fixed table holds |
//! | `rescind` | a stripe that was never sealed ends without any memory: closed at operation 0 on every member |
//! | `reserve` | how much of the last memory is left to whom |
//! | `unreadable` | stripes that cannot be read: nothing is begun on them, and jobs leave them |

mod choosing;
pub(super) mod cleaner;
pub(super) mod doomed;
pub(super) mod emptiest;
pub(super) mod evict;
pub(super) mod expired;
pub(super) mod freeing;
mod headroom;
pub(super) mod kept;
pub(super) mod recent;
mod rescind;
pub(super) mod reserve;
pub(super) mod unreadable;
