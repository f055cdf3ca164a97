//! The entries of the command table.
//!
//! Names, arities, flags, categories, tips and key positions are those that Redis 7.0.15 tells (7.2 for CLIENT SETINFO
//! and NO-TOUCH).

use super::CommandSpec;
use super::cluster::CLUSTER;
use crate::redis::error::CommandError;
use crate::redis::handlers::{
    client, cluster, command, config, connection, expiry, keys, keyspace, many, server, strings,
};
use crate::redis::plan::{Call, Handled};

/// A container without a subcommand: the arity check refuses it before.
fn container(call: &mut Call<'_>) -> Handled {
    Err(CommandError::arity(call.spec.name))
}

pub const COMMANDS: &[CommandSpec] = &[
    CommandSpec::new("ping", -1, connection::ping)
        .flags("fast")
        .categories("@fast @connection")
        .tips("request_policy:all_shards response_policy:all_succeeded")
        .about("connection", "1.0.0", "O(1)", "Answers PONG, or the message given."),
    CommandSpec::new("echo", 2, connection::echo).flags("loading stale fast").categories("@fast @connection").about(
        "connection",
        "1.0.0",
        "O(1)",
        "Answers the message.",
    ),
    CommandSpec::new("auth", -2, connection::auth)
        .flags("noscript loading stale fast no_auth allow_busy")
        .categories("@fast @connection")
        .about("connection", "1.0.0", "O(N) in the number of users", "Authenticates the connection."),
    CommandSpec::new("cluster", -2, container).categories("@slow").subcommands(CLUSTER).about(
        "cluster",
        "3.0.0",
        "Depends on the subcommand",
        "Tells who serves which slots.",
    ),
    CommandSpec::new("readonly", 1, cluster::accept).flags("loading stale fast").categories("@fast @connection").about(
        "cluster",
        "3.0.0",
        "O(1)",
        "Does nothing: there are no replicas to read from.",
    ),
    CommandSpec::new("readwrite", 1, cluster::accept)
        .flags("loading stale fast")
        .categories("@fast @connection")
        .about("cluster", "3.0.0", "O(1)", "Does nothing: there are no replicas to read from."),
    CommandSpec::new("asking", 1, cluster::accept).flags("fast").categories("@fast @connection").about(
        "cluster",
        "3.0.0",
        "O(1)",
        "Does nothing: slots are never half moved.",
    ),
    CommandSpec::new("select", 2, connection::select)
        .flags("loading stale fast")
        .categories("@fast @connection")
        .about("connection", "1.0.0", "O(1)", "Chooses the database; there is only 0."),
    CommandSpec::new("quit", -1, connection::quit)
        .flags("noscript loading stale fast no_auth allow_busy")
        .categories("@fast @connection")
        .about("connection", "1.0.0", "O(1)", "Ends the connection."),
    CommandSpec::new("reset", 1, connection::reset)
        .flags("noscript loading stale fast no_auth allow_busy")
        .categories("@fast @connection")
        .about("connection", "6.2.0", "O(1)", "Puts the connection into its first state."),
    CommandSpec::new("hello", -1, connection::hello)
        .flags("noscript loading stale fast no_auth allow_busy")
        .categories("@fast @connection")
        .about("connection", "6.0.0", "O(1)", "Chooses the protocol version; authenticates and names the connection."),
    CommandSpec::new("get", 2, strings::get)
        .flags("readonly fast")
        .categories("@read @string @fast")
        .keys(1, 1, 1, "RO access")
        .about("string", "1.0.0", "O(1)", "Reads the value of a key."),
    CommandSpec::new("set", -3, strings::set)
        .flags("write denyoom")
        .categories("@write @string @slow")
        .keys(1, 1, 1, "RW access update variable_flags")
        .key_notes("RW and ACCESS due to the optional `GET` argument")
        .about("string", "1.0.0", "O(1)", "Stores a value, with conditions and expiry."),
    CommandSpec::new("getex", -2, strings::getex)
        .flags("write fast")
        .categories("@write @string @fast")
        .keys(1, 1, 1, "RW access update")
        .key_notes("RW and UPDATE because it changes the TTL")
        .about("string", "6.2.0", "O(1)", "Reads a value and changes its expiry."),
    CommandSpec::new("getdel", 2, strings::getdel)
        .flags("write fast")
        .categories("@write @string @fast")
        .keys(1, 1, 1, "RW access delete")
        .about("string", "6.2.0", "O(1)", "Reads a value and deletes its key."),
    CommandSpec::new("getset", 3, strings::getset)
        .flags("write denyoom fast")
        .categories("@write @string @fast")
        .keys(1, 1, 1, "RW access update")
        .about("string", "1.0.0", "O(1)", "Stores a value and answers the one before."),
    CommandSpec::new("setnx", 3, strings::setnx)
        .flags("write denyoom fast")
        .categories("@write @string @fast")
        .keys(1, 1, 1, "OW insert")
        .about("string", "1.0.0", "O(1)", "Stores a value if the key does not exist."),
    CommandSpec::new("setex", 4, strings::setex)
        .flags("write denyoom")
        .categories("@write @string @slow")
        .keys(1, 1, 1, "OW update")
        .about("string", "2.0.0", "O(1)", "Stores a value that expires after seconds."),
    CommandSpec::new("psetex", 4, strings::psetex)
        .flags("write denyoom")
        .categories("@write @string @slow")
        .keys(1, 1, 1, "OW update")
        .about("string", "2.6.0", "O(1)", "Stores a value that expires after milliseconds."),
    CommandSpec::new("mget", -2, many::mget)
        .flags("readonly fast")
        .categories("@read @string @fast")
        .tips("request_policy:multi_shard")
        .keys(1, -1, 1, "RO access")
        .about("string", "1.0.0", "O(N) in the number of keys", "Reads the values of several keys."),
    CommandSpec::new("mset", -3, many::mset)
        .flags("write denyoom")
        .categories("@write @string @slow")
        .tips("request_policy:multi_shard response_policy:all_succeeded")
        .keys(1, -1, 2, "OW update")
        .about(
            "string",
            "1.0.1",
            "O(N) in the number of keys",
            "Stores several values; at once if the keys share a hash slot.",
        ),
    CommandSpec::new("msetnx", -3, many::msetnx)
        .flags("write denyoom")
        .categories("@write @string @slow")
        .tips("request_policy:multi_shard response_policy:agg_min")
        .keys(1, -1, 2, "OW insert")
        .about(
            "string",
            "1.0.1",
            "O(N) in the number of keys",
            "Stores several values of one hash slot if none of the keys exists.",
        ),
    CommandSpec::new("append", 3, strings::append)
        .flags("write denyoom fast")
        .categories("@write @string @fast")
        .keys(1, 1, 1, "RW insert")
        .about("string", "2.0.0", "O(N) in the length of the value", "Adds to the end of a value."),
    CommandSpec::new("strlen", 2, strings::strlen)
        .flags("readonly fast")
        .categories("@read @string @fast")
        .keys(1, 1, 1, "RO")
        .about("string", "2.2.0", "O(1)", "Tells the length of a value."),
    CommandSpec::new("getrange", 4, strings::getrange)
        .flags("readonly")
        .categories("@read @string @slow")
        .keys(1, 1, 1, "RO access")
        .about("string", "2.4.0", "O(N) in the length of the range", "Reads part of a value."),
    CommandSpec::new("substr", 4, strings::getrange)
        .flags("readonly")
        .categories("@read @string @slow")
        .keys(1, 1, 1, "RO access")
        .about("string", "1.0.0", "O(N) in the length of the range", "Reads part of a value; old name of GETRANGE."),
    CommandSpec::new("setrange", 4, strings::setrange)
        .flags("write denyoom")
        .categories("@write @string @slow")
        .keys(1, 1, 1, "RW update")
        .about("string", "2.2.0", "O(N) in the length of the value", "Overwrites part of a value."),
    CommandSpec::new("incr", 2, strings::incr)
        .flags("write denyoom fast")
        .categories("@write @string @fast")
        .keys(1, 1, 1, "RW access update")
        .about("string", "1.0.0", "O(1)", "Adds one to an integer."),
    CommandSpec::new("decr", 2, strings::decr)
        .flags("write denyoom fast")
        .categories("@write @string @fast")
        .keys(1, 1, 1, "RW access update")
        .about("string", "1.0.0", "O(1)", "Takes one from an integer."),
    CommandSpec::new("incrby", 3, strings::incrby)
        .flags("write denyoom fast")
        .categories("@write @string @fast")
        .keys(1, 1, 1, "RW access update")
        .about("string", "1.0.0", "O(1)", "Adds to an integer."),
    CommandSpec::new("decrby", 3, strings::decrby)
        .flags("write denyoom fast")
        .categories("@write @string @fast")
        .keys(1, 1, 1, "RW access update")
        .about("string", "1.0.0", "O(1)", "Takes from an integer."),
    CommandSpec::new("incrbyfloat", 3, strings::incrbyfloat)
        .flags("write denyoom fast")
        .categories("@write @string @fast")
        .keys(1, 1, 1, "RW access update")
        .about("string", "2.6.0", "O(1)", "Adds to a number with a fraction."),
    CommandSpec::new("del", -2, many::del)
        .flags("write")
        .categories("@keyspace @write @slow")
        .tips("request_policy:multi_shard response_policy:agg_sum")
        .keys(1, -1, 1, "RM delete")
        .about("generic", "1.0.0", "O(N) in the number of keys", "Deletes keys."),
    CommandSpec::new("unlink", -2, many::del)
        .flags("write fast")
        .categories("@keyspace @write @fast")
        .tips("request_policy:multi_shard response_policy:agg_sum")
        .keys(1, -1, 1, "RM delete")
        .about("generic", "4.0.0", "O(N) in the number of keys", "Deletes keys."),
    CommandSpec::new("exists", -2, many::exists)
        .flags("readonly fast")
        .categories("@keyspace @read @fast")
        .tips("request_policy:multi_shard response_policy:agg_sum")
        .keys(1, -1, 1, "RO")
        .about("generic", "1.0.0", "O(N) in the number of keys", "Counts the keys that exist."),
    CommandSpec::new("touch", -2, many::touch)
        .flags("readonly fast")
        .categories("@keyspace @read @fast")
        .tips("request_policy:multi_shard response_policy:agg_sum")
        .keys(1, -1, 1, "RO")
        .about("generic", "3.2.1", "O(N) in the number of keys", "Counts the keys that exist, as an access to them."),
    CommandSpec::new("type", 2, keys::type_of)
        .flags("readonly fast")
        .categories("@keyspace @read @fast")
        .keys(1, 1, 1, "RO")
        .about("generic", "1.0.0", "O(1)", "Tells the type of a key."),
    CommandSpec::new("expire", -3, expiry::expire)
        .flags("write fast")
        .categories("@keyspace @write @fast")
        .keys(1, 1, 1, "RW update")
        .about("generic", "1.0.0", "O(1)", "Lets a key expire after seconds."),
    CommandSpec::new("pexpire", -3, expiry::pexpire)
        .flags("write fast")
        .categories("@keyspace @write @fast")
        .keys(1, 1, 1, "RW update")
        .about("generic", "2.6.0", "O(1)", "Lets a key expire after milliseconds."),
    CommandSpec::new("expireat", -3, expiry::expireat)
        .flags("write fast")
        .categories("@keyspace @write @fast")
        .keys(1, 1, 1, "RW update")
        .about("generic", "1.2.0", "O(1)", "Lets a key expire at a Unix time in seconds."),
    CommandSpec::new("pexpireat", -3, expiry::pexpireat)
        .flags("write fast")
        .categories("@keyspace @write @fast")
        .keys(1, 1, 1, "RW update")
        .about("generic", "2.6.0", "O(1)", "Lets a key expire at a Unix time in milliseconds."),
    CommandSpec::new("expiretime", 2, expiry::expiretime)
        .flags("readonly fast")
        .categories("@keyspace @read @fast")
        .keys(1, 1, 1, "RO access")
        .about("generic", "7.0.0", "O(1)", "Tells the Unix time in seconds at which a key expires."),
    CommandSpec::new("pexpiretime", 2, expiry::pexpiretime)
        .flags("readonly fast")
        .categories("@keyspace @read @fast")
        .keys(1, 1, 1, "RO access")
        .about("generic", "7.0.0", "O(1)", "Tells the Unix time in milliseconds at which a key expires."),
    CommandSpec::new("ttl", 2, expiry::ttl)
        .flags("readonly fast")
        .categories("@keyspace @read @fast")
        .tips("nondeterministic_output")
        .keys(1, 1, 1, "RO access")
        .about("generic", "1.0.0", "O(1)", "Tells the seconds until a key expires."),
    CommandSpec::new("pttl", 2, expiry::pttl)
        .flags("readonly fast")
        .categories("@keyspace @read @fast")
        .tips("nondeterministic_output")
        .keys(1, 1, 1, "RO access")
        .about("generic", "2.6.0", "O(1)", "Tells the milliseconds until a key expires."),
    CommandSpec::new("persist", 2, expiry::persist)
        .flags("write fast")
        .categories("@keyspace @write @fast")
        .keys(1, 1, 1, "RW update")
        .about("generic", "2.2.0", "O(1)", "Lets a key expire never."),
    CommandSpec::new("randomkey", 1, keyspace::randomkey)
        .flags("readonly")
        .categories("@keyspace @read @slow")
        .tips("request_policy:all_shards nondeterministic_output")
        .about("generic", "1.0.0", "O(1)", "Answers any key."),
    CommandSpec::new("keys", 2, keyspace::keys)
        .flags("readonly")
        .categories("@keyspace @read @slow @dangerous")
        .tips("request_policy:all_shards nondeterministic_output_order")
        .about("generic", "1.0.0", "O(N) in the number of all keys", "Answers all keys that match a pattern."),
    CommandSpec::new("scan", -2, keyspace::scan)
        .flags("readonly")
        .categories("@keyspace @read @slow")
        .tips("nondeterministic_output request_policy:special")
        .about(
            "generic",
            "2.8.0",
            "O(1) a call, O(N) in the number of all keys for a whole scan",
            "Walks over the keys step by step.",
        ),
    CommandSpec::new("dbsize", 1, keyspace::dbsize)
        .flags("readonly fast")
        .categories("@keyspace @read @fast")
        .tips("request_policy:all_shards response_policy:agg_sum")
        .about("server", "1.0.0", "O(1)", "Counts all keys."),
    CommandSpec::new("flushdb", -1, keyspace::flush)
        .flags("write")
        .categories("@keyspace @write @slow @dangerous")
        .tips("request_policy:all_shards response_policy:all_succeeded")
        .about("server", "1.0.0", "O(1)", "Deletes all keys."),
    CommandSpec::new("flushall", -1, keyspace::flush)
        .flags("write")
        .categories("@keyspace @write @slow @dangerous")
        .tips("request_policy:all_shards response_policy:all_succeeded")
        .about("server", "1.0.0", "O(1)", "Deletes all keys."),
    CommandSpec::new("info", -1, keyspace::info)
        .flags("loading stale")
        .categories("@slow @dangerous")
        .tips("nondeterministic_output request_policy:all_shards response_policy:special")
        .about("server", "1.0.0", "O(1)", "Tells numbers about the server."),
    CommandSpec::new("command", -1, command::all)
        .flags("loading stale")
        .categories("@slow @connection")
        .tips("nondeterministic_output_order")
        .about("server", "2.8.13", "O(N) in the number of commands", "Describes the commands.")
        .subcommands(COMMAND),
    CommandSpec::new("client", -2, container)
        .categories("@slow")
        .about("connection", "2.4.0", "Depends on the subcommand", "Commands about connections.")
        .subcommands(CLIENT),
    CommandSpec::new("config", -2, container)
        .categories("@slow")
        .about("server", "2.0.0", "Depends on the subcommand", "Commands about the configuration.")
        .subcommands(CONFIG),
    CommandSpec::new("memory", -2, container)
        .categories("@slow")
        .about("server", "4.0.0", "Depends on the subcommand", "Commands about memory.")
        .subcommands(MEMORY),
    CommandSpec::new("object", -2, container)
        .categories("@slow")
        .about("generic", "2.2.3", "Depends on the subcommand", "Commands about the inside of values.")
        .subcommands(OBJECT),
    CommandSpec::new("time", 1, server::time)
        .flags("loading stale fast")
        .categories("@fast")
        .tips("nondeterministic_output")
        .about("server", "2.6.0", "O(1)", "Tells the time of the server."),
    CommandSpec::new("wait", 3, server::wait)
        .flags("noscript")
        .categories("@slow @connection")
        .tips("request_policy:all_shards response_policy:agg_min")
        .about("generic", "3.0.0", "O(1)", "Tells how many more nodes hold every write of this connection."),
];

const COMMAND: &[CommandSpec] =
    &[
        CommandSpec::new("command|docs", -2, command::docs)
            .flags("loading stale")
            .categories("@slow @connection")
            .tips("nondeterministic_output_order")
            .about("server", "7.0.0", "O(N) in the number of commands", "Tells what commands are for."),
        CommandSpec::new("command|count", 2, command::count)
            .flags("loading stale")
            .categories("@slow @connection")
            .about("server", "2.8.13", "O(1)", "Counts the commands."),
        CommandSpec::new("command|help", 2, command::help)
            .flags("loading stale")
            .categories("@slow @connection")
            .about("server", "5.0.0", "O(1)", "Lists the subcommands."),
        CommandSpec::new("command|list", -2, command::list)
            .flags("loading stale")
            .categories("@slow @connection")
            .tips("nondeterministic_output_order")
            .about("server", "7.0.0", "O(N) in the number of commands", "Names the commands."),
        CommandSpec::new("command|info", -2, command::info)
            .flags("loading stale")
            .categories("@slow @connection")
            .tips("nondeterministic_output_order")
            .about("server", "2.8.13", "O(N) in the number of commands", "Describes commands by name."),
        CommandSpec::new("command|getkeys", -4, command::getkeys)
            .flags("loading stale")
            .categories("@slow @connection")
            .about("server", "2.8.13", "O(N) in the number of arguments", "Picks the keys out of a whole command."),
        CommandSpec::new("command|getkeysandflags", -4, command::getkeysandflags)
            .flags("loading stale")
            .categories("@slow @connection")
            .about(
                "server",
                "7.0.0",
                "O(N) in the number of arguments",
                "Picks the keys out of a whole command and tells what happens to them.",
            ),
    ];

const CLIENT: &[CommandSpec] =
    &[
        CommandSpec::new("client|info", 2, client::info)
            .flags("noscript loading stale")
            .categories("@slow @connection")
            .tips("nondeterministic_output")
            .about("connection", "6.2.0", "O(1)", "Describes this connection."),
        CommandSpec::new("client|getname", 2, client::getname)
            .flags("noscript loading stale")
            .categories("@slow @connection")
            .about("connection", "2.6.9", "O(1)", "Tells the name of this connection."),
        CommandSpec::new("client|help", 2, client::help).flags("loading stale").categories("@slow @connection").about(
            "connection",
            "5.0.0",
            "O(1)",
            "Lists the subcommands.",
        ),
        CommandSpec::new("client|no-evict", 3, client::no_evict)
            .flags("admin noscript loading stale")
            .categories("@admin @slow @dangerous @connection")
            .about("connection", "7.0.0", "O(1)", "Notes that this connection asks not to be dropped."),
        CommandSpec::new("client|reply", 3, client::reply)
            .flags("noscript loading stale")
            .categories("@slow @connection")
            .about("connection", "3.2.0", "O(1)", "Chooses which replies this connection gets."),
        CommandSpec::new("client|setname", 3, client::setname)
            .flags("noscript loading stale")
            .categories("@slow @connection")
            .about("connection", "2.6.9", "O(1)", "Names this connection."),
        CommandSpec::new("client|list", -2, client::list)
            .flags("admin noscript loading stale")
            .categories("@admin @slow @dangerous @connection")
            .tips("nondeterministic_output")
            .about("connection", "2.4.0", "O(1)", "Describes the Redis connections of this gateway."),
        CommandSpec::new("client|id", 2, client::id)
            .flags("noscript loading stale")
            .categories("@slow @connection")
            .about("connection", "5.0.0", "O(1)", "Tells the id of this connection."),
        CommandSpec::new("client|setinfo", 4, client::setinfo)
            .flags("noscript loading stale")
            .categories("@slow @connection")
            .about("connection", "7.2.0", "O(1)", "Notes the client library of this connection."),
        CommandSpec::new("client|no-touch", 3, client::no_touch)
            .flags("noscript loading stale")
            .categories("@slow @connection")
            .about("connection", "7.2.0", "O(1)", "Keeps reads of this connection from counting as accesses."),
    ];

const CONFIG: &[CommandSpec] = &[
    CommandSpec::new("config|help", 2, config::help).flags("loading stale").categories("@slow").about(
        "server",
        "5.0.0",
        "O(1)",
        "Lists the subcommands.",
    ),
    CommandSpec::new("config|resetstat", 2, config::resetstat)
        .flags("admin noscript loading stale")
        .categories("@admin @slow @dangerous")
        .about("server", "2.0.0", "O(1)", "Clears the counters."),
    CommandSpec::new("config|get", -3, config::get)
        .flags("admin noscript loading stale")
        .categories("@admin @slow @dangerous")
        .about("server", "2.0.0", "O(N) in the number of parameters", "Tells parameters of the configuration."),
];

const MEMORY: &[CommandSpec] = &[
    CommandSpec::new("memory|help", 2, keys::memory_help).flags("loading stale").categories("@slow").about(
        "server",
        "4.0.0",
        "O(1)",
        "Lists the subcommands.",
    ),
    CommandSpec::new("memory|usage", -3, keys::memory_usage)
        .flags("readonly")
        .categories("@read @slow")
        .keys(2, 2, 1, "RO")
        .about("server", "4.0.0", "O(1)", "Tells the memory that a key takes on all nodes."),
];

const OBJECT: &[CommandSpec] =
    &[
        CommandSpec::new("object|help", 2, keys::object_help)
            .flags("loading stale")
            .categories("@keyspace @slow")
            .about("generic", "6.2.0", "O(1)", "Lists the subcommands."),
        CommandSpec::new("object|idletime", 3, keys::object_idletime)
            .flags("readonly")
            .categories("@keyspace @read @slow")
            .tips("nondeterministic_output")
            .keys(2, 2, 1, "RO")
            .about("generic", "2.2.3", "O(1)", "Tells the seconds since the last access."),
        CommandSpec::new("object|freq", 3, keys::object_freq)
            .flags("readonly")
            .categories("@keyspace @read @slow")
            .tips("nondeterministic_output")
            .keys(2, 2, 1, "RO")
            .about("generic", "4.0.0", "O(1)", "Tells that access frequency is not tracked."),
        CommandSpec::new("object|refcount", 3, keys::object_refcount)
            .flags("readonly")
            .categories("@keyspace @read @slow")
            .tips("nondeterministic_output")
            .keys(2, 2, 1, "RO")
            .about("generic", "2.2.3", "O(1)", "Tells the number of references, always 1."),
        CommandSpec::new("object|encoding", 3, keys::object_encoding)
            .flags("readonly")
            .categories("@keyspace @read @slow")
            .tips("nondeterministic_output")
            .keys(2, 2, 1, "RO")
            .about("generic", "2.2.3", "O(1)", "Tells how Redis would represent the value."),
    ];
