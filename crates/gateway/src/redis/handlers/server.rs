//! Commands about the server: TIME and WAIT.

use shorttail_wire::resp::{encode, parse_i64};

use crate::redis::error::CommandError;
use crate::redis::plan::{Call, Handled, Plan};

/// The clock has milliseconds; the microseconds told are whole ones.
pub fn time(call: &mut Call<'_>) -> Handled {
    let unix_ms = call.now.unix_ms;
    encode::array(call.out, 2);
    encode::bulk(call.out, itoa::Buffer::new().format(unix_ms.seconds()).as_bytes());
    encode::bulk(call.out, itoa::Buffer::new().format(unix_ms.0 % 1000 * 1000).as_bytes());
    Ok(Plan::Answered)
}

/// WAIT count timeout: a write is answered only when as many nodes hold it besides the first as may be lost, and this
/// reply leaves after those of all writes before it. So that many holders are the truth, and waiting longer adds none.
pub fn wait(call: &mut Call<'_>) -> Handled {
    let timeout = parse_i64(&call.args[2]);
    call.integer(1)?;
    match timeout {
        None => return Err(CommandError::fixed("ERR timeout is not an integer or out of range")),
        Some(timeout) if timeout < 0 => return Err(CommandError::fixed("ERR timeout is negative")),
        Some(_) => {}
    }
    let holders = call.settings().code.tolerance() as u64;
    encode::count(call.out, holders);
    Ok(Plan::Answered)
}
