//! Commands of cluster-aware clients, with and without `--redis-cluster on`.

use std::sync::Arc;

use shorttail_units::{ClusterId, Slot};

use super::*;
use crate::command::{Command, StoreError};
use crate::engine::cursor_of;
use crate::redis::RedisCluster;
use crate::request::{KeyspaceReply, KeyspaceRequest, Reply};
use crate::topology::{ClientAddress, GatewayPlace, Holding, Topology};

const ME: &str = "00000000000000ab000000000000000000000001";
const OTHER: &str = "00000000000000ab000000000000000000000002";
const DEAD: &str = "00000000000000ab000000000000000000000003";

fn gateway(id: u16, host: &str, is_alive: bool) -> GatewayPlace {
    let redis = Some(ClientAddress { host: host.into(), port: 7000 + id });
    GatewayPlace { id, epoch: u32::from(id) * 10, redis, is_alive }
}

/// Eight partitions: two are mine, two another's, three a dead one's, and nobody has the last.
fn client(sends_clients: bool) -> Client {
    let redis_cluster = if sends_clients { RedisCluster::On } else { RedisCluster::Off };
    let mut client = Client::with(Settings { redis_cluster, ..Settings::default() });
    let gateways = vec![gateway(1, "", true), gateway(2, "10.0.0.9", true), gateway(3, "10.0.0.8", false)];
    client.shared.topology = topology(gateways, |_| true);
    client
}

fn topology(gateways: Vec<GatewayPlace>, is_served: impl Fn(usize) -> bool) -> Arc<Topology> {
    let owners = [Some(1), Some(2), Some(2), Some(1), Some(3), Some(3), Some(3), None].into_iter().enumerate();
    let holding = |(partition, owner): (usize, Option<u16>)| {
        owner.map(|gateway| Holding { gateway, is_served: is_served(partition) })
    };
    Arc::new(Topology::new(ClusterId(0xab), 1, gateways, &owners.map(holding).collect::<Vec<_>>()))
}

/// A key whose slot is in this partition of eight.
fn key_in(partition: u16) -> String {
    let found = (0..).map(|number| format!("key{number}"));
    let mut found = found.filter(|key| Slot::of_key(key.as_bytes()).number() / 2048 == partition);
    found.next().expect("keys are everywhere")
}

fn slot_of(key: &str) -> u16 {
    Slot::of_key(key.as_bytes()).number()
}

/// StackExchange.Redis, rueidis and others take whoever answers CLUSTER for a part of one, and refuse keys of several
/// slots.
#[test]
fn who_is_to_tell_nothing_refuses_what_a_redis_without_cluster_does() {
    let mut client = client(false);
    let settings = Settings { redis_cluster: RedisCluster::None, ..Settings::default() };
    client.shared.settings = settings;
    let refused = "-ERR This instance has cluster support disabled";
    for command in
        ["CLUSTER SLOTS", "cluster nodes", "CLUSTER HELP", "CLUSTER KEYSLOT a", "READONLY", "READWRITE", "ASKING"]
    {
        assert_eq!(client.say(command), refused, "{command}");
    }
    client.script(&[("CLUSTER", "-ERR wrong number of arguments for 'cluster' command"), ("MSET a 1 b 2", "+OK")]);
    client.script(&[("MGET a b", "*2 $1 1 $1 2"), ("CONFIG GET cluster-enabled", "*2 $15 cluster-enabled $2 no")]);
}

#[test]
fn slots_have_gateways() {
    let mut client = client(false);
    let entry = |first: u16, last: u16, host: &str, port: u16, name: &str| {
        format!("*3 :{first} :{last} *4 ${} {host} :{port} $40 {name} *0", host.len())
    };
    let slots = [
        entry(0, 2047, "10.0.0.2", 7001, ME),
        entry(2048, 6143, "10.0.0.9", 7002, OTHER),
        entry(6144, 8191, "10.0.0.2", 7001, ME),
        // What a dead gateway owned is asked of this one, which lets it wait for a new owner.
        entry(8192, 14335, "10.0.0.2", 7001, ME),
    ];
    let nodes = format!(
        "{ME} 10.0.0.2:7001@0 myself,master - 0 0 10 connected 0-2047 6144-8191 8192-14335\n\
         {OTHER} 10.0.0.9:7002@0 master - 0 0 20 connected 2048-6143\n\
         {DEAD} 10.0.0.8:7003@0 master,fail - 0 0 30 disconnected\n"
    );
    client.script(&[
        ("CLUSTER SLOTS", &format!("*4 {}", slots.join(" "))),
        ("CLUSTER NODES", &format!("${} {nodes}", nodes.len())),
        ("CLUSTER MYID", &format!("$40 {ME}")),
        ("CLUSTER KEYSLOT foo", ":12182"),
        ("CLUSTER KEYSLOT a{foo}b", ":12182"),
        (&format!("CLUSTER REPLICAS {OTHER}"), "*0"),
        ("CLUSTER REPLICAS x", "-ERR Unknown node x"),
        (&format!("CLUSTER SLAVES {OTHER}"), "*0"),
        ("CLUSTER SLAVES x", "-ERR Unknown node x"),
        ("CLUSTER LINKS", "*0"),
        ("CLUSTER MYSHARDID", "$40 00000000000000ab000000000000000000010001"),
    ]);
    let shards = client.say("CLUSTER SHARDS");
    let mine =
        format!("*3 *4 $5 slots *6 :0 :2047 :6144 :8191 :8192 :14335 $5 nodes *1 *14 $2 id $40 {ME} $4 port :7001");
    assert!(shards.starts_with(&mine), "{shards}");
    assert!(shards.contains("$2 ip $8 10.0.0.9 $8 endpoint $8 10.0.0.9 $4 role $6 master"), "{shards}");
    assert!(shards.ends_with("$6 health $4 fail"), "{shards}");
    let info = client.say("CLUSTER INFO");
    for field in ["state:fail", "slots_assigned:14336", "slots_ok:8192", "slots_fail:6144", "known_nodes:3", "size:3"] {
        assert!(info.contains(&format!("cluster_{field} ")), "{field} in {info}");
    }
    assert!(info.contains("cluster_current_epoch:30 cluster_my_epoch:10 "), "{info}");
}

#[test]
fn gateways_of_this_machine_are_under_the_host_by_which_the_client_came() {
    let mut client = client(true);
    client.shared.topology =
        topology(vec![gateway(1, "", true), gateway(2, "", true), gateway(3, "", false)], |_| true);
    let other = key_in(1);
    client.script(&[(&format!("GET {other}"), &format!("-MOVED {} 10.0.0.2:7002", slot_of(&other)))]);
    assert!(client.say("CLUSTER SLOTS").contains(&format!(":2048 :6143 *4 $8 10.0.0.2 :7002 $40 {OTHER} ")));
    assert!(client.say("CLUSTER NODES").contains(&format!("{OTHER} 10.0.0.2:7002@0 master - ")));
    assert!(client.say("CLUSTER SHARDS").contains("$4 port :7002 $2 ip $8 10.0.0.2 $8 endpoint $8 10.0.0.2 "));
}

#[test]
fn what_clients_cannot_reach_is_asked_of_one_gateway() {
    let mut client = client(true);
    let nowhere = || GatewayPlace { redis: None, ..gateway(2, "", true) };
    client.shared.topology = topology(vec![gateway(1, "", true), nowhere()], |_| true);
    let (key, slot) = (key_in(1), slot_of(&key_in(1)));
    let listed = format!("*1 ${} {key}", key.len());
    let in_slot = [
        (format!("CLUSTER COUNTKEYSINSLOT {slot}"), ":1", ":0"),
        (format!("CLUSTER GETKEYSINSLOT {slot} 9"), listed.as_str(), "*0"),
    ];
    client.script(&[
        (&format!("SET {key} 1"), "+OK"),
        ("KEYS *", &listed),
        ("SCAN 0", &format!("*2 $1 0 {listed}")),
        ("DBSIZE", ":1"),
    ]);
    in_slot.iter().for_each(|(command, count, _)| client.script(&[(command, count)]));
    let slots = client.say("CLUSTER SLOTS");
    assert!(slots.contains(&format!(":2048 :6143 *4 $8 10.0.0.2 :7001 $40 {ME} ")), "{slots}");
    let nodes = client.say("CLUSTER NODES");
    assert!(nodes.contains(&format!("{OTHER} :0@0 master,noaddr - 0 0 20 connected\n")), "{nodes}");

    // Another one comes first: all tell that that one has it, and each of the others passes on what it is asked.
    client.shared.topology = topology(vec![gateway(0, "10.0.0.7", true), gateway(1, "", true), nowhere()], |_| true);
    let slots = client.say("CLUSTER SLOTS");
    assert!(slots.contains(":2048 :6143 *4 $8 10.0.0.7 :7000 $40 "), "{slots}");
    client.script(&[(&format!("GET {key}"), "$1 1"), ("KEYS *", "*0"), ("SCAN 0", "*2 $1 0 *0")]);
    in_slot.iter().for_each(|(command, _, none)| client.script(&[(command, none)]));
}

#[test]
fn slots_that_are_not_served_have_failed() {
    let mut client = client(false);
    let gateways = || vec![gateway(1, "", true), gateway(2, "10.0.0.9", true), gateway(3, "10.0.0.8", false)];
    // Another one takes over one of the two that it has.
    client.shared.topology = topology(gateways(), |partition| partition != 2);
    let info = client.say("CLUSTER INFO");
    assert!(info.contains("cluster_slots_ok:6144 cluster_slots_pfail:0 cluster_slots_fail:8192 "), "{info}");
    let health = |client: &mut Client| {
        let shards = client.say("CLUSTER SHARDS");
        let told = shards.match_indices("health ").map(|(at, _)| shards[at..].split(' ').nth(2).expect("a word"));
        told.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(health(&mut client), ["online", "loading", "fail"]);
    client.shared.topology = topology(gateways(), |_| false);
    assert!(client.say("CLUSTER INFO").contains("cluster_state:fail cluster_slots_assigned:14336 cluster_slots_ok:0 "));
    assert_eq!(health(&mut client), ["loading", "loading", "fail"]);
    let whole = |is_served| Topology::new(ClusterId(1), 1, gateways(), &[Some(Holding { gateway: 1, is_served })]);
    for (is_served, state) in [(true, "ok"), (false, "fail")] {
        client.shared.topology = Arc::new(whole(is_served));
        let info = client.say("CLUSTER INFO");
        assert!(info.contains(&format!("cluster_state:{state} cluster_slots_assigned:16384 ")), "{info}");
    }
}

#[test]
fn a_master_tells_of_its_own_keys_only() {
    let mut client = client(false);
    let (mine, other) = (key_in(0), key_in(1));
    client.script(&[(&format!("MSET {mine} 1 {other} 2"), "+OK")]);
    assert!(client.say("KEYS *").starts_with("*2 "));
    client.shared.settings.redis_cluster = RedisCluster::On;
    let listed = format!("*1 ${} {mine}", mine.len());
    client.script(&[
        ("KEYS *", &listed),
        ("SCAN 0", &format!("*2 $1 0 {listed}")),
        (&format!("CLUSTER COUNTKEYSINSLOT {}", slot_of(&mine)), ":1"),
        (&format!("CLUSTER COUNTKEYSINSLOT {}", slot_of(&other)), ":0"),
        (&format!("CLUSTER GETKEYSINSLOT {} 9", slot_of(&mine)), &listed),
        (&format!("CLUSTER GETKEYSINSLOT {} 9", slot_of(&other)), "*0"),
    ]);
}

#[test]
fn a_scan_asks_for_no_slots_of_others() {
    let begin = |partition: u16| cursor_of(Slot::new(partition * 2048).expect("a slot"));
    // What each step asks for, of an engine whose step ends where the next partition begins; and the reply.
    let steps = |command: &str| {
        let (mut client, mut cursors) = (client(true), Vec::new());
        client.send(&stream(&[command]));
        while let Some((id, request)) = client.asked.pop() {
            let Request::Keyspace(KeyspaceRequest::Scan { cursor, .. }) = request else { panic!("{request:?}") };
            cursors.push(cursor);
            let next = (0..8).map(begin).find(|next| *next > cursor).unwrap_or(0);
            let reply = Reply::Keyspace(Ok(KeyspaceReply::Scanned { next, keys: Vec::new() }));
            let asked = &mut client.asked;
            client.session.handle_reply(client.now, &mut client.shared, id, reply, &mut |id, request| {
                asked.push((id, request));
            });
        }
        (cursors, String::from_utf8(client.settle()).expect("text"))
    };
    let scanned = |next: u64| format!("*2\r\n${}\r\n{next}\r\n*0\r\n", next.to_string().len());
    let all = [0, 3, 4, 5, 6].map(begin).to_vec();
    assert_eq!(steps("KEYS *"), (all, "*0\r\n".to_owned()), "its own, and those of a dead one");
    assert_eq!(steps("SCAN 0"), (vec![begin(0)], scanned(begin(3))));
    assert_eq!(steps(&format!("SCAN {}", begin(1) + 7)), (vec![begin(3)], scanned(begin(4))), "no longer its own");
    assert_eq!(steps(&format!("SCAN {}", begin(3) + 7)), (vec![begin(3) + 7], scanned(begin(4))));
    assert_eq!(steps(&format!("SCAN {}", begin(6))), (vec![begin(6)], scanned(0)));
    assert_eq!(steps(&format!("SCAN {}", begin(7))), (vec![], scanned(0)));
    assert_eq!(steps("SCAN 99999999999999999"), (vec![], scanned(0)));
}

#[test]
fn wrong_requests_get_the_words_of_redis_cluster() {
    client(true).script(&[
        ("CLUSTER", "-ERR wrong number of arguments for 'cluster' command"),
        ("CLUSTER KEYSLOT", "-ERR wrong number of arguments for 'cluster|keyslot' command"),
        ("CLUSTER NOPE", "-ERR unknown subcommand 'NOPE'. Try CLUSTER HELP."),
        ("CLUSTER LINKS x", "-ERR wrong number of arguments for 'cluster|links' command"),
        ("CLUSTER SLAVES", "-ERR wrong number of arguments for 'cluster|slaves' command"),
        ("CLUSTER MYSHARDID x", "-ERR wrong number of arguments for 'cluster|myshardid' command"),
        ("CLUSTER ADDSLOTS 1", "-ERR unknown subcommand 'ADDSLOTS'. Try CLUSTER HELP."),
        ("CLUSTER COUNTKEYSINSLOT x", "-ERR value is not an integer or out of range"),
        ("CLUSTER COUNTKEYSINSLOT 16384", "-ERR Invalid slot"),
        ("CLUSTER COUNTKEYSINSLOT -1", "-ERR Invalid slot"),
        ("CLUSTER GETKEYSINSLOT 5 x", "-ERR value is not an integer or out of range"),
        ("CLUSTER GETKEYSINSLOT 5 -1", "-ERR Invalid slot or number of keys"),
        ("CLUSTER GETKEYSINSLOT 99999 1", "-ERR Invalid slot or number of keys"),
        ("READONLY 1", "-ERR wrong number of arguments for 'readonly' command"),
        ("SELECT 0", "+OK"),
        ("SELECT 1", "-ERR SELECT is not allowed in cluster mode"),
    ]);
}

#[test]
fn without_the_switch_any_key_is_served() {
    let mut client = client(false);
    let (mine, other) = (key_in(0), key_in(1));
    client.script(&[
        (&format!("SET {other} 1"), "+OK"),
        (&format!("MSET {mine} 1 {other} 2"), "+OK"),
        (&format!("MGET {mine} {other}"), "*2 $1 1 $1 2"),
        (&format!("GET {}", key_in(7)), "$-1"),
        ("READONLY", "+OK"),
        ("READWRITE", "+OK"),
        ("ASKING", "+OK"),
        ("CONFIG GET cluster-enabled", "*2 $15 cluster-enabled $2 no"),
        ("INFO cluster", "$30 # Cluster cluster_enabled:0 "),
    ]);
    assert!(client.say("HELLO").contains("$4 mode $10 standalone"));
}

#[test]
fn with_the_switch_keys_are_where_they_belong() {
    let mut client = client(true);
    let (mine, also_mine, other, dead, nobodys) = (key_in(0), key_in(3), key_in(1), key_in(4), key_in(7));
    let cross = "-CROSSSLOT Keys in request don't hash to the same slot";
    let moved = format!("-MOVED {} 10.0.0.9:7002", slot_of(&other));
    client.script(&[
        (&format!("SET {mine} 1"), "+OK"),
        (&format!("GET {mine}"), "$1 1"),
        (&format!("GET {other}"), &moved),
        (&format!("SET {other} 1"), &moved),
        ("READONLY", "+OK"),
        (&format!("GET {other}"), &moved),
        ("ASKING", "+OK"),
        (&format!("GET {other}"), &moved),
        (&format!("OBJECT ENCODING {other}"), &moved),
        (&format!("GET {nobodys}"), "-CLUSTERDOWN Hash slot not served"),
        // Its new owner is not known yet: it is passed on and waits.
        (&format!("SET {dead} 1"), "+OK"),
        (&format!("MGET {mine} {also_mine}"), cross),
        (&format!("MSET {mine} 1 {other} 2"), cross),
        (&format!("DEL {other} {mine}"), cross),
        (&format!("MSETNX {mine} 1 {also_mine} 2"), cross),
        (&format!("MGET {other} {{{other}}}x"), &moved),
        (&format!("MGET {mine} {{{mine}}}x"), "*2 $1 1 $-1"),
        (&format!("GET {other} x"), "-ERR wrong number of arguments for 'get' command"),
        ("PING", "+PONG"),
        ("DBSIZE", ":2"),
        ("CONFIG GET cluster-enabled", "*2 $15 cluster-enabled $3 yes"),
        ("INFO cluster", "$30 # Cluster cluster_enabled:1 "),
    ]);
    assert!(client.say("HELLO").contains("$4 mode $7 cluster"));
}

#[test]
fn who_is_not_the_owner_has_clients_read_the_map_anew() {
    let replies_to = |command: &str, error: StoreError| {
        [false, true].map(|sends_clients| {
            let mut client = client(sends_clients);
            client.send(&stream(&[command]));
            for (id, request) in std::mem::take(&mut client.asked) {
                let reply = match request {
                    Request::Key(command) => {
                        let mut refusal = Vec::new();
                        command.refuse(error, &mut refusal);
                        Reply::Bytes(refusal)
                    }
                    Request::Group(_) => Reply::Group(Err(error)),
                    Request::Keyspace(_) => Reply::Keyspace(Err(error)),
                };
                client.session.handle_reply(client.now, &mut client.shared, id, reply, &mut |_, _| {});
            }
            String::from_utf8(client.settle()).expect("text")
        })
    };
    let mine = key_in(0);
    let pairs = format!("MSETNX {mine} 1 {{{mine}}}x 2");
    for command in [&format!("GET {mine}"), &format!("DEL {mine} {{{mine}}}x"), &pairs, "DBSIZE"] {
        let told = |code: &str, error: StoreError| format!("-{code} {error}\r\n");
        let (moved, busy) = (StoreError::NotOwner, StoreError::Overloaded);
        assert_eq!(replies_to(command, moved), [told("TRYAGAIN", moved), told("CLUSTERDOWN", moved)], "{command}");
        assert_eq!(replies_to(command, busy), [told("TRYAGAIN", busy), told("TRYAGAIN", busy)], "{command}");
    }
}

#[test]
fn clients_are_sent_to_an_owner_that_serves() {
    let mut client = client(true);
    let gateways = || vec![gateway(1, "", true), gateway(2, "10.0.0.9", true), gateway(3, "10.0.0.8", false)];
    // One of the two that another one has comes from this one, and that one may not know yet.
    client.shared.topology = topology(gateways(), |partition| partition != 2);
    let (served, to_come) = (key_in(1), key_in(2));
    client.script(&[
        (&format!("GET {served}"), &format!("-MOVED {} 10.0.0.9:7002", slot_of(&served))),
        (&format!("SET {to_come} 1"), "+OK"),
        (&format!("GET {to_come}"), "$1 1"),
    ]);
    assert!(client.say("CLUSTER SLOTS").contains(":2048 :6143 *4 $8 10.0.0.9 :7002 "), "as the map says");
    client.shared.topology = topology(gateways(), |_| true);
    client.script(&[(&format!("GET {to_come}"), &format!("-MOVED {} 10.0.0.9:7002", slot_of(&to_come)))]);
}

#[test]
fn keys_of_a_slot_are_counted_and_listed() {
    let mut client = client(false);
    let slot = slot_of("foo");
    client.script(&[
        ("MSET {foo}1 a {foo}2 b bar c", "+OK"),
        (&format!("CLUSTER COUNTKEYSINSLOT {slot}"), ":2"),
        (&format!("CLUSTER COUNTKEYSINSLOT {}", slot + 1), ":0"),
        (&format!("CLUSTER GETKEYSINSLOT {slot} 1"), "*1 $6 {foo}1"),
        (&format!("CLUSTER GETKEYSINSLOT {slot} 10"), "*2 $6 {foo}1 $6 {foo}2"),
        (&format!("CLUSTER GETKEYSINSLOT {slot} 0"), "*0"),
    ]);
    // More than the engine lists at once, and others beside.
    for number in 0..5_000 {
        client.say(&format!("SET {{foo}}{number} v"));
        client.say(&format!("SET {number} v"));
    }
    let all: usize = client.say(&format!("CLUSTER COUNTKEYSINSLOT {slot}"))[1..].parse().expect("a number");
    assert!(all >= 5_000, "{all}");
    for wanted in [2_500, all, 9_000] {
        let keys = client.say(&format!("CLUSTER GETKEYSINSLOT {slot} {wanted}"));
        let words: Vec<&str> = keys.split(' ').collect();
        assert_eq!((words[0], words.len()), (&*format!("*{}", wanted.min(all)), 1 + 2 * wanted.min(all)));
        let named: std::collections::BTreeSet<_> =
            words[1..].chunks(2).map(|length_and_key| length_and_key[1]).collect();
        assert_eq!(named.len(), wanted.min(all), "each once");
        assert!(named.iter().all(|key| slot_of(key) == slot));
    }
}

#[test]
fn resp3_has_maps_and_text() {
    let mut client = client(false);
    assert!(client.say("HELLO 3").starts_with('%'));
    assert!(client.say("CLUSTER INFO").starts_with('='));
    assert!(client.say("CLUSTER SLOTS").starts_with("*4 *3 :0 :2047 *4 $8 10.0.0.2 :7001 $40 "));
    assert!(client.say("CLUSTER SHARDS").starts_with("*3 %2 $5 slots *6 "));
}
