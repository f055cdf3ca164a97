//! Commands on one key as such: TYPE, OBJECT, MEMORY.

use super::answer_help;
use crate::redis::error::CommandError;
use crate::redis::plan::{Call, Handled};
use crate::redis::verbs::KeyVerb;

pub fn type_of(call: &mut Call<'_>) -> Handled {
    call.on_key(1, KeyVerb::Type)
}

pub fn object_encoding(call: &mut Call<'_>) -> Handled {
    call.on_key(2, KeyVerb::Encoding)
}

pub fn object_freq(call: &mut Call<'_>) -> Handled {
    call.on_key(2, KeyVerb::Frequency)
}

pub fn object_idletime(call: &mut Call<'_>) -> Handled {
    call.on_key(2, KeyVerb::IdleTime)
}

pub fn object_refcount(call: &mut Call<'_>) -> Handled {
    call.on_key(2, KeyVerb::ReferenceCount)
}

pub fn object_help(call: &mut Call<'_>) -> Handled {
    let lines = [
        "ENCODING <key>",
        "    Tell how Redis would represent the value of <key>: int, embstr or raw.",
        "FREQ <key>",
        "    Not tracked; answers as Redis does without an LFU policy.",
        "IDLETIME <key>",
        "    Tell the seconds since <key> was last read or stored, approximately.",
        "REFCOUNT <key>",
        "    Tell the number of references to the value of <key>, always 1.",
    ];
    answer_help(call, "OBJECT", &lines)
}

/// MEMORY USAGE key [SAMPLES count]: strings have nothing to sample.
pub fn memory_usage(call: &mut Call<'_>) -> Handled {
    for index in (3..call.args.len()).step_by(2) {
        if !call.is(index, "SAMPLES") || index + 1 == call.args.len() {
            return Err(CommandError::SYNTAX);
        }
        if call.integer(index + 1)? < 0 {
            return Err(CommandError::SYNTAX);
        }
    }
    let settings = call.settings();
    let verb = KeyVerb::MemoryUsage { key_bytes: call.args[2].len(), code: settings.code };
    call.on_key(2, verb)
}

pub fn memory_help(call: &mut Call<'_>) -> Handled {
    let lines = [
        "USAGE <key> [SAMPLES <count>]",
        "    Tell the bytes of memory that <key> and its value take on all nodes, parity included.",
    ];
    answer_help(call, "MEMORY", &lines)
}
