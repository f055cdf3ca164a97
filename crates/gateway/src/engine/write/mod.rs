//! Write: rounds of commands, the log and its open stripes, striped objects, flushes.
//!
//! Begin with `round`: the commands that wait for one key (see `lock`) are applied, and `log` places what they leave
//! behind in an `open_stripe`, the heart of a write. What is too large for that goes to `striped`.
//!
//! | module | |
//! |---|---|
//! | `apart` | groups whose pairs are stored each by itself: an MSET that one operation does not take |
//! | `doubtful` | keys that were written while a record that may be of them could not be read |
//! | `flush` | flush_all: a floor under each partition that it is of |
//! | `flushed` | striped objects that a flush ended: their stripes are freed some objects a turn |
//! | `group` | several keys of one hash slot stored together or not at all |
//! | `in_place` | who holds a value that is overwritten in place |
//! | `layout` | how an object is stored: packed, or by which code and in pieces of which length |
//! | `lock` | one command round at a time changes a key; commands that arrive meanwhile wait |
//! | `log` | the log of a partition: where records are appended; how stripes open, fill, seal and are abandoned |
//! | `manifest` | which stripes hold the value of a striped object |
//! | `object` | objects in the hands of a round, and what has to be known of the records that they replace |
//! | `open_stripe` | a stripe that still takes appends, or waits to be sealed: bytes, operations, who holds what |
//! | `race` | records that are appended more than once, because the first time took long |
//! | `redirect` | who holds the chunks of a new stripe: writes go round slow nodes |
//! | `room` | which stripe of a partition takes an append; when stripes are opened, and sealed for want of room |
//! | `round` | the commands that wait for one key are applied, and what they leave behind is written once |
//! | `seal_sums` | what the chunks of a full stripe must hold: a checksum of each, told with the seal |
//! | `spare` | memory of stripes that are sealed, for the next ones to lie in |
//! | `stalled` | writes that wait for memory or for seals, and when they wait no longer |
//! | `striped` | values with stripes of their own, cut into pieces on `k+m` nodes |
//! | `striped_objects` | which striped objects there are, or are being written, and who holds their stripes |
//! | `striped_race` | striped writes that are late: all pieces again beside the first attempt |
//! | `striped_read` | striped values that are read, or wait until there is room for them |
//! | `unsettled` | keys of which a write failed after it was sent, so that nobody knows what becomes of it |

mod apart;
pub(super) mod doubtful;
pub(super) mod flush;
pub(super) mod flushed;
pub(super) mod group;
mod in_place;
mod layout;
pub(super) mod lock;
pub(super) mod log;
pub(super) mod manifest;
pub(super) mod object;
pub(super) mod open_stripe;
pub(super) mod race;
mod redirect;
mod room;
pub(super) mod round;
mod seal_sums;
pub(super) mod spare;
pub(super) mod stalled;
pub(super) mod striped;
pub(super) mod striped_objects;
mod striped_race;
pub(super) mod striped_read;
pub(super) mod unsettled;
