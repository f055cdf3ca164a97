"""redis-py's RedisCluster, unmodified, against gateways; and the words of a Redis that runs as a cluster of one.

Runs with `--redis-cluster` off and on, with one gateway and several, and finds out by itself which it is. With several it
drains and kills one in the end.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

import redis
from redis.cluster import RedisCluster, key_slot

from expect import address, case, equal, main, raises, true

sys.path.insert(0, __file__.rsplit("/", 2)[0] + "/lib")
from cluster import START_SECONDS_MAX, binary_path, free_ports, kill_noted, let_end, wait_until  # noqa: E402

HOST, PORT = address("SHORTTAIL_REDIS")
SLOT_COUNT = 16384
# Clients ask for so long before and after something happens.
SETTLE_SECONDS = 1


def plain():
    return redis.Redis(HOST, PORT, socket_timeout=60, socket_connect_timeout=30)


def cluster(**options):
    return RedisCluster(host=HOST, port=PORT, socket_timeout=60, **options)


def is_on():
    with plain() as r:
        return r.config_get("cluster-enabled")["cluster-enabled"] == "yes"


ON = is_on()


@case
def a_client_finds_the_gateways():
    """the client learns all slots, and every one has a gateway that answers"""
    for protocol in (2, 3):
        with cluster(protocol=protocol, require_full_coverage=True) as r:
            nodes = r.get_primaries()
            true(nodes and not r.get_replicas(), "gateways are masters, and there is nothing else")
            true(all(r.ping(target_nodes=node) for node in nodes), "each answers")
            names = {r.execute_command("CLUSTER MYID", target_nodes=node) for node in nodes}
            equal(len(names), len(nodes))
            true(all(len(name) == 40 for name in names), "names are as long as Redis'")


@case
def slots_shards_and_nodes_agree():
    """CLUSTER SLOTS, SHARDS, NODES and INFO tell the same"""
    with plain() as r:
        slots = r.execute_command("CLUSTER SLOTS")
        # One version of the client tells a dictionary, another the list as it comes.
        ranges = sorted((int(entry[0]), int(entry[1])) for entry in slots)
        covered = sum(last - first + 1 for first, last in ranges)
        equal(covered, SLOT_COUNT)
        nodes = r.execute_command("CLUSTER NODES")
        me = r.execute_command("CLUSTER MYID")
        me = me.decode() if isinstance(me, bytes) else me
        mine = [node for node in nodes.values() if "myself" in node["flags"]]
        equal([node["node_id"] for node in mine], [me])
        of_nodes = sorted((int(first), int(last or first)) for node in nodes.values() for first, *rest in node["slots"] for last in rest[-1:] or [None])
        equal(of_nodes, ranges)
        # A gateway hears from the coordinator what others serve.
        info = lambda field: r.execute_command("CLUSTER INFO")[field]
        wait_until(lambda: info("cluster_state") == "ok", START_SECONDS_MAX, "all slots are served")
        equal((info("cluster_slots_assigned"), info("cluster_slots_ok")), (str(SLOT_COUNT), str(SLOT_COUNT)))
        equal(r.info("cluster")["cluster_enabled"], int(ON))


@case
def keys_of_all_slots_are_served():
    """strings, counters, pipelines and several keys at once, as a cluster client sends them"""
    with cluster() as r:
        for number in range(300):
            true(r.set(f"cluster:{number}", number), "stored")
        equal([r.get(f"cluster:{number}") for number in range(300)], [b"%d" % number for number in range(300)])
        equal(r.mset_nonatomic({f"many:{number}": number for number in range(50)})[0], True)
        equal(r.mget_nonatomic([f"many:{number}" for number in range(50)]), [b"%d" % number for number in range(50)])
        with r.pipeline() as pipe:
            for number in range(100):
                pipe.incr(f"cluster:{number}")
            equal(pipe.execute(), [number + 1 for number in range(100)])
        equal(r.delete(*[f"many:{number}" for number in range(50)]), 50)
        equal(r.exists("cluster:1", "cluster:2", "none"), 2)


@case
def hash_tags_keep_keys_together():
    """keys with one hash tag share a slot: stored, counted and listed together"""
    with cluster() as r:
        equal(r.mset({"{tag}a": 1, "{tag}b": 2}), True)
        equal(r.mget("{tag}a", "{tag}b"), [b"1", b"2"])
        slot = r.cluster_keyslot("{tag}a")
        equal(slot, key_slot(b"{tag}b"))
        equal(r.cluster_countkeysinslot(slot), 2)
        equal(sorted(r.cluster_get_keys_in_slot(slot, 10)), sorted(["{tag}a", "{tag}b"]) if _text(r, slot) else [b"{tag}a", b"{tag}b"])
        equal(len(r.cluster_get_keys_in_slot(slot, 1)), 1)


def _text(r, slot):
    """Whether this version of the client decodes the list."""
    return isinstance(r.cluster_get_keys_in_slot(slot, 1)[0], str)


@case
def what_masters_tell_adds_up():
    """with the switch on DBSIZE, SCAN, KEYS and INFO of each master are of its own keys, otherwise of all"""
    with cluster() as r:
        for number in range(60):
            r.set(f"sum:{number}", number)
        masters = [r.get_redis_connection(node) for node in r.get_primaries()]
        expected = sorted(b"sum:%d" % number for number in range(60)) * (1 if ON else len(masters))
        for tell in (lambda master: master.scan_iter(match="sum:*", count=7), lambda master: master.keys("sum:*")):
            equal(sorted(key for master in masters for key in tell(master)), sorted(expected))
        for master in masters:
            equal(master.dbsize(), len(master.keys("*")))
            equal(master.info("keyspace").get("db0", {"keys": 0})["keys"], master.dbsize())
        equal(r.delete(*[f"sum:{number}" for number in range(60)]), 60)


@case
def keys_of_several_slots():
    """with the switch on they are refused in Redis' words, otherwise served"""
    with plain() as r:
        keys = ("one slot", "another slot")
        true(key_slot(keys[0].encode()) != key_slot(keys[1].encode()), "they differ")
        if ON:
            for command in (("MGET", *keys), ("DEL", *keys), ("MSET", keys[0], "1", keys[1], "2"), ("EXISTS", *keys)):
                text = raises(redis.exceptions.ClusterCrossSlotError, r.execute_command, *command)
                true("Keys in request don't hash to the same slot" in text, text)
        else:
            equal(r.mset({keys[0]: 1, keys[1]: 2}), True)
            equal(r.mget(*keys), [b"1", b"2"])
            equal(r.delete(*keys), 2)


class Reference:
    """A real Redis as a cluster of one that has all slots."""

    def __init__(self):
        self.directory = tempfile.TemporaryDirectory(prefix="redis-cluster-")
        # The bus has a port of its own.
        port, bus = free_ports(2)
        command = ["redis-server", "--port", str(port), "--cluster-port", str(bus), "--bind", "127.0.0.1", "--cluster-enabled", "yes"]
        command += ["--save", "", "--appendonly", "no", "--dir", self.directory.name]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.address = ("127.0.0.1", port)
        wait_until(self._is_ready, START_SECONDS_MAX, "the reference has all slots")

    def _is_ready(self):
        try:
            with Words(self.address) as words:
                words.say("CLUSTER", "ADDSLOTSRANGE", "0", str(SLOT_COUNT - 1))
                return b"cluster_state:ok" in words.say("CLUSTER", "INFO")
        except ConnectionError:
            return False

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.directory.cleanup()


class Words:
    """One connection on which replies are compared as bytes."""

    def __init__(self, where):
        self.socket = socket.create_connection(where, timeout=60)
        self.stream = self.socket.makefile("rwb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.stream.close()
        self.socket.close()

    def say(self, *words):
        parts = [b"*%d\r\n" % len(words)] + [b"$%d\r\n%s\r\n" % (len(word), word.encode()) for word in words]
        self.stream.write(b"".join(parts))
        self.stream.flush()
        return self._reply()

    def _reply(self):
        line = self.stream.readline()
        if not line:
            raise ConnectionError("the end")
        kind, rest = line[:1], line[1:-2]
        if kind == b"$" and rest != b"-1":
            return line + self.stream.read(int(rest) + 2)
        if kind == b"*" and rest != b"-1":
            return line + b"".join(self._reply() for _ in range(int(rest)))
        return line


COMMANDS = """
FLUSHALL
CLUSTER
CLUSTER NOPE
CLUSTER KEYSLOT
CLUSTER KEYSLOT foo
CLUSTER KEYSLOT {foo}bar
CLUSTER KEYSLOT foo{}{bar}
CLUSTER COUNTKEYSINSLOT
CLUSTER COUNTKEYSINSLOT x
CLUSTER COUNTKEYSINSLOT 16384
CLUSTER COUNTKEYSINSLOT -1
CLUSTER GETKEYSINSLOT 5
CLUSTER GETKEYSINSLOT 5 x
CLUSTER GETKEYSINSLOT x 5
CLUSTER GETKEYSINSLOT 5 -1
CLUSTER GETKEYSINSLOT 99999 1
CLUSTER REPLICAS x
CLUSTER REPLICAS
CLUSTER SLAVES x
CLUSTER SLAVES
CLUSTER LINKS
CLUSTER LINKS x
CLUSTER SLOTS x
CLUSTER SHARDS x
CLUSTER NODES x
CLUSTER INFO x
CLUSTER MYID x
READONLY
READONLY x
READWRITE
READWRITE x
ASKING
ASKING x
SELECT 0
SELECT 1
SET same 1
GET same
MGET same other
MSET same 1 other 2
MSET same 1
DEL same other
UNLINK same other
EXISTS same other
TOUCH same other
MSETNX same 1 other 2
MGET {same}a {same}b
MSET {same}a 1 {same}b 2
MGET {same}a same {same}b
CLUSTER COUNTKEYSINSLOT 13447
DEL same
DEL {same}a {same}b
COMMAND INFO readonly readwrite asking
COMMAND GETKEYS MGET a b
INFO cluster
"""


def words_agree():
    """every reply that does not name an address is that of a real Redis, byte for byte"""
    reference = Reference()
    try:
        with cluster() as r:
            owner = r.get_node_from_key("same")
        with Words(reference.address) as theirs, Words((owner.host, owner.port)) as ours:
            for line in COMMANDS.strip().splitlines():
                wanted, got = theirs.say(*line.split()), ours.say(*line.split())
                if got != wanted:
                    raise AssertionError(f"{line}: wanted {wanted!r}, got {got!r}")
    finally:
        reference.stop()


if ON:
    case(words_agree)


def gateways_told():
    with urllib.request.urlopen("http://%s:%d/status" % address("SHORTTAIL_ADMIN"), timeout=30) as answer:
        return json.load(answer)["gateways"]


def gateways():
    """(process, port for Redis clients, number) of each."""
    serving = [each for each in gateways_told() if each["serving"]]
    return [(each["pid"], int(each["redis"].rsplit(":", 1)[1]), each["id"]) for each in serving]


def owns_something(number):
    return any(each["id"] == number and each["serving"] and each["tenures"] for each in gateways_told())


class Asker(threading.Thread):
    """Reads and writes keys as go-redis does: each where the map says, and after three redirections, without a pause, it gives up."""

    REDIRECTIONS_MAX = 3

    def __init__(self, number, where):
        super().__init__()
        self.keys = [f"drained:{number}:{key}" for key in range(32)]
        self.where, self.connections, self.complaints = dict.fromkeys(self.keys, where), {}, []
        self.is_over = False

    def run(self):
        turn = 0
        try:
            while not self.is_over and not self.complaints:
                turn += 1
                for key in self.keys:
                    self.turn(key, f"{turn} of {key}")
        except OSError as error:
            self.complaints.append(f"turn {turn}: {error!r}")
        for words in self.connections.values():
            words.close()

    def turn(self, key, value):
        stored, found = self.ask(key, "SET", key, value), self.ask(key, "GET", key)
        if (stored, found) != (b"+OK\r\n", b"$%d\r\n%s\r\n" % (len(value), value.encode())):
            self.complaints.append(f"{key}: {stored!r}, {found!r}")

    def ask(self, key, *command):
        for _ in range(1 + self.REDIRECTIONS_MAX):
            where = self.where[key]
            if where not in self.connections:
                self.connections[where] = Words(where)
            reply = self.connections[where].say(*command)
            if not reply.startswith(b"-MOVED "):
                return reply
            host, port = reply.split()[2].decode().rsplit(":", 1)
            self.where[key] = (host, int(port))
        return reply


def case_of_several(function):
    """Registers a case if there are several gateways; else it is left out, and does not count as passed."""
    if len(gateways()) > 1:
        return case(function)
    print(f"left out, with one gateway: {function.__doc__}", flush=True)
    return function


@case_of_several
def a_gateway_is_drained():
    """what a gateway hands over, and gets back, is served all the time, and no client is sent to and fro"""
    others = [name for pid, port, name in gateways() if port != PORT]
    askers = [Asker(number, (HOST, PORT)) for number in range(4)]
    for each in askers:
        each.start()
    try:
        time.sleep(SETTLE_SECONDS)
        drain = [binary_path(), "drain", "gateway", str(others[-1]), "--admin", "%s:%d" % address("SHORTTAIL_ADMIN")]
        subprocess.run(drain, stdout=subprocess.DEVNULL, check=True, timeout=START_SECONDS_MAX)
        true(not owns_something(others[-1]), "it owns nothing")
        time.sleep(SETTLE_SECONDS)
        subprocess.run([*drain, "--cancel"], stdout=subprocess.DEVNULL, check=True, timeout=START_SECONDS_MAX)
        wait_until(lambda: owns_something(others[-1]), START_SECONDS_MAX, "it owns something again")
        time.sleep(SETTLE_SECONDS)
    finally:
        let_end(askers)
    equal([complaint for each in askers for complaint in each.complaints], [])


@case_of_several
def a_gateway_dies():
    """kill -9 of a gateway: the same client finds every key again, and stores; until then it is told errors, and never anything wrong"""
    others = [pid for pid, port, _ in gateways() if port != PORT]
    with cluster() as r:
        for number in range(300):
            r.set(f"lasting:{number}", number)
        kill_noted(os.environ["SHORTTAIL_KILLED"], others[0])

        def is_served(number):
            try:
                found = r.get(f"lasting:{number}")
                stored = r.set(f"lasting:{number}", number)
            except redis.RedisError:
                return False
            equal((found, stored), (b"%d" % number, True))
            return True

        for number in range(300):
            wait_until(lambda: is_served(number), START_SECONDS_MAX, f"key {number} is served again")

main()
