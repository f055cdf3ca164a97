//! Take over: who may answer, what a new owner learns before it serves, how an old one ends.
//!
//! Begin with `ownership`, the life of a tenure, and `recovery`, the way from the nodes' reports to serving: `census`,
//! `loading`, `picture`, `adopt`, in this order. `preparing` goes the same way before the tenure begins.
//!
//! | module | |
//! |---|---|
//! | `adopt` | the picture of its partitions becomes the new owner's own |
//! | `census` | what nodes told a new owner, and what became of each member of a stripe |
//! | `doubts` | what an owner that took over has read, and cannot vouch for |
//! | `giving_up` | the last words of an owner that is over: everything that it was asked gets an answer |
//! | `lease` | is this owner's word good? What nodes promised it, and for how long (rule R2) |
//! | `loading` | the stripes of earlier owners are read, one by one |
//! | `loss` | what more failures than the code tolerates took away, and what may still be said of the rest |
//! | `newest` | the newest record of each key, while a picture is made |
//! | `outlived` | records that are lost for good, and beside which a key was written that may be theirs |
//! | `ownership` | the life of an ownership: fenced, proven again and again, handed over or lost |
//! | `picture` | what a new owner makes of what it reads: index, stripe table, what became of each key |
//! | `preparing` | the next owner learns what it will inherit while the present one serves |
//! | `reconstruct` | the content of a stripe that was never sealed, from what its living members hold |
//! | `recovery` | a new owner learns from the nodes what the store holds, before it serves |
//! | `synchronise` | a stripe that was never sealed is read: what each member holds, then one content, then its end |
//! | `witness` | memories that are younger than the store and yet lack nothing: they are told so |

mod adopt;
pub(super) mod census;
mod doubts;
mod giving_up;
pub(super) mod lease;
mod loading;
pub(super) mod loss;
pub(super) mod newest;
pub(super) mod outlived;
pub(super) mod ownership;
pub(super) mod picture;
pub(super) mod preparing;
pub(super) mod reconstruct;
pub(super) mod recovery;
mod synchronise;
pub(super) mod witness;
