//! CONFIG: the operator's settings under the names that Redis clients ask for.

use shorttail_wire::resp::encode;

use super::answer_help;
use crate::limits::KEEPALIVE_S;
use crate::redis::glob::Case;
use crate::redis::plan::{Call, Handled, Plan};
use crate::session::Settings;

/// Every parameter with its value now.
fn parameters(settings: &Settings) -> [(&'static str, String); 15] {
    let policy = if settings.evict_when_full { "allkeys-lru" } else { "noeviction" };
    [
        ("appendonly", "no".to_owned()),
        ("bind", settings.listen.clone()),
        ("cluster-enabled", if settings.redis_cluster.sends_clients() { "yes" } else { "no" }.to_owned()),
        ("databases", "1".to_owned()),
        ("io-threads", settings.thread_count.to_string()),
        ("lazyfree-lazy-user-del", "yes".to_owned()),
        ("maxclients", settings.connection_count_max.to_string()),
        ("maxmemory", settings.memory_limit_bytes.to_string()),
        ("maxmemory-policy", policy.to_owned()),
        ("port", settings.redis_port.to_string()),
        ("proto-max-bulk-len", settings.value_bytes_max.to_string()),
        ("save", String::new()),
        ("tcp-keepalive", KEEPALIVE_S.to_string()),
        ("timeout", settings.idle_timeout_s.to_string()),
        ("unixsocket", settings.unix_socket.clone().unwrap_or_default()),
    ]
}

pub fn get(call: &mut Call<'_>) -> Handled {
    super::bound_names(call.args.len())?;
    let globs = call.args.skip(2).iter().map(|pattern| super::glob(pattern, Case::Ignored));
    let globs = globs.collect::<Result<Vec<_>, _>>()?;
    let parameters = parameters(call.settings());
    let asked = |name: &str| globs.iter().any(|glob| glob.matches(name.as_bytes()));
    let found: Vec<_> = parameters.iter().filter(|(name, _)| asked(name)).collect();
    encode::map(call.out, call.connection.protocol, found.len());
    for (name, value) in found {
        encode::bulk(call.out, name.as_bytes());
        encode::bulk(call.out, value.as_bytes());
    }
    Ok(Plan::Answered)
}

/// Clears what is counted; what is current stays.
pub fn resetstat(call: &mut Call<'_>) -> Handled {
    call.shared.counters.reset();
    call.shared.elsewhere.reset();
    call.ok()
}

pub fn help(call: &mut Call<'_>) -> Handled {
    let lines = [
        "GET <pattern> [<pattern> ...]",
        "    Tell the parameters whose names match, and their values.",
        "RESETSTAT",
        "    Clear the counters that INFO tells.",
    ];
    answer_help(call, "CONFIG", &lines)
}
