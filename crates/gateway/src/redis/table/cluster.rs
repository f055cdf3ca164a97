//! The subcommands of CLUSTER, as Redis 7.0.15 describes them, and MYSHARDID as 7.2 does.

use super::CommandSpec;
use crate::redis::handlers::cluster;

const fn told(spec: CommandSpec, since: &'static str, complexity: &'static str, summary: &'static str) -> CommandSpec {
    spec.flags("stale").categories("@slow").about("cluster", since, complexity, summary)
}

const UNSTABLE: &str = "nondeterministic_output";

pub const CLUSTER: &[CommandSpec] = &[
    told(
        CommandSpec::new("cluster|slots", 2, cluster::slots).tips(UNSTABLE),
        "3.0.0",
        "O(N) in the number of ranges",
        "Tells which gateway serves which slots.",
    ),
    told(
        CommandSpec::new("cluster|shards", 2, cluster::shards).tips(UNSTABLE),
        "7.0.0",
        "O(N) in the number of gateways",
        "Tells the gateways and their slots.",
    ),
    told(
        CommandSpec::new("cluster|nodes", 2, cluster::nodes).tips(UNSTABLE),
        "3.0.0",
        "O(N) in the number of gateways",
        "Tells the gateways, a line each.",
    ),
    told(
        CommandSpec::new("cluster|info", 2, cluster::info).tips(UNSTABLE),
        "3.0.0",
        "O(1)",
        "Tells how the cluster is.",
    ),
    told(CommandSpec::new("cluster|myid", 2, cluster::myid), "3.0.0", "O(1)", "Tells the id of this gateway."),
    told(
        CommandSpec::new("cluster|myshardid", 2, cluster::myshardid).tips(UNSTABLE),
        "7.2.0",
        "O(1)",
        "Tells the id of this gateway's shard.",
    ),
    told(
        CommandSpec::new("cluster|links", 2, cluster::links).tips(UNSTABLE),
        "7.0.0",
        "O(1)",
        "Tells that there is no bus between gateways.",
    ),
    told(
        CommandSpec::new("cluster|keyslot", 3, cluster::keyslot),
        "3.0.0",
        "O(N) in the length of the key",
        "Tells the slot of a key.",
    ),
    told(
        CommandSpec::new("cluster|countkeysinslot", 3, cluster::countkeysinslot),
        "3.0.0",
        "O(N) in the number of keys of the slot",
        "Counts the keys of a slot.",
    ),
    told(
        CommandSpec::new("cluster|getkeysinslot", 4, cluster::getkeysinslot).tips(UNSTABLE),
        "3.0.0",
        "O(N) in the number of keys asked for",
        "Lists keys of a slot.",
    ),
    CommandSpec::new("cluster|replicas", 3, cluster::replicas)
        .flags("admin stale")
        .categories("@admin @slow @dangerous")
        .tips(UNSTABLE)
        .about("cluster", "5.0.0", "O(1)", "Tells that a gateway has no replicas."),
    CommandSpec::new("cluster|slaves", 3, cluster::replicas)
        .flags("admin stale")
        .categories("@admin @slow @dangerous")
        .tips(UNSTABLE)
        .about("cluster", "3.0.0", "O(1)", "Another word for CLUSTER REPLICAS."),
    CommandSpec::new("cluster|help", 2, cluster::help).flags("loading stale").categories("@slow").about(
        "cluster",
        "5.0.0",
        "O(1)",
        "Lists the subcommands.",
    ),
];
