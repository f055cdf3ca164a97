"""Whether clients that write down what they are told leave nothing out: with a server that refuses, resets, or is long in coming.

Must not know: what histories are judged by.
"""

from unittest import mock

import asker  # noqa: F401  (it finds the modules beside this folder)
import recorded
import recorded_values
from expect import case, equal, main, raises
from fake import RESETTING, SILENT, RedisServer, Server
from recorded_redis import RedisClient

KEY = b"name"
PROTOCOLS = [(recorded.Client, Server), (RedisClient, RedisServer)]
CONNECTING_SECONDS = 3
SHORT_SECONDS = 0.2


class Clock:
    """Which goes on only when it is told to."""

    def __init__(self):
        self.now = 1000.0

    def monotonic_ns(self):
        return round(self.now * 1e9)

    def sleep(self, seconds):
        self.now += seconds


def client_of(server, sort=recorded.Client):
    return sort(0, [server.address], [KEY], seed=1)


def store(client):
    client.store(KEY, "set", b"1")


def errors_of(client):
    return [(error.asked, error.told, error.address, error.met) for error in client.errors]


def met(client):
    """What each operation that failed met."""
    return [error.met for error in client.errors]


def written(client):
    """What was asked, of which value; what came of it, and the answer."""
    return [tuple(line.split("\t")[index] for index in (2, 3, 6, 7)) for line in client.lines]


@case
def refused_connections():
    """an operation for which nobody can be asked is refused, and an error of its time"""
    with mock.patch.object(recorded, "time", Clock()) as clock:
        with Server() as server:
            client = client_of(server)
        began = clock.now
        client.get(KEY)
        between = clock.now
        store(client)
    equal(errors_of(client), [(began, began, server.address, recorded.BROKEN), (between, between, server.address, recorded.BROKEN)])
    equal(client.count, {"ok": 0, "unknown": 0, "refused": 2})
    equal([line.split("\t")[6] for line in client.lines], ["refused", "refused"])
    equal(client.problem, None)


@case
def long_connecting():
    """what connecting takes is part of the operation that needs it"""
    connect = recorded.cluster.connect
    with Server() as server, mock.patch.object(recorded, "time", Clock()) as clock:

        def connect_slowly(address):
            clock.sleep(CONNECTING_SECONDS)
            return connect(address)

        client = client_of(server)
        with mock.patch.object(recorded.cluster, "connect", connect_slowly):
            store(client)
            client.get(KEY)
    equal(client.longest, CONNECTING_SECONDS)
    equal([(wait.action, wait.seconds, wait.address) for wait in client.waits], [("set", CONNECTING_SECONDS, server.address)])
    equal(client.count["ok"], 2)


@case
def broken_connections():
    """an operation whose connection breaks is of unknown outcome, and an error"""
    for sort, server_sort in PROTOCOLS:
        with server_sort() as server:
            client = client_of(server, sort)
            server.mood = RESETTING
            store(client)
            client.get(KEY)
        equal(client.count, {"ok": 0, "unknown": 2, "refused": 0})
        equal(met(client), [recorded.BROKEN] * 2)


@case
def no_answer():
    """an operation that is not answered as long as a client waits is of unknown outcome, and told apart from a connection that breaks"""
    connect = recorded.cluster.connect
    for sort, server_sort in PROTOCOLS:
        with server_sort() as server, mock.patch.object(recorded.cluster, "connect", lambda address: connect(address, SHORT_SECONDS)):
            client = client_of(server, sort)
            server.mood = SILENT
            with mock.patch.object(recorded, "LONG_SECONDS", 0):
                store(client)
                client.get(KEY)
        equal(client.count, {"ok": 0, "unknown": 2, "refused": 0})
        equal(met(client), [recorded.UNANSWERED] * 2)
        equal([wait.outcome for wait in client.waits], [recorded.UNANSWERED] * 2)


@case
def nobody_lets_in():
    """so is one that waits in vain for a connection"""

    def connect(_):
        raise TimeoutError("timed out")

    with mock.patch.object(recorded.cluster, "connect", connect):
        client = recorded.Client(0, ["nobody:1"], [KEY], seed=1)
        client.get(KEY)
    equal((client.count["refused"], met(client)), (1, [recorded.UNANSWERED]))


@case
def answers():
    """every protocol's answers are written down alike"""
    value = recorded_values.value_of("0:1", 1000)
    for sort, server_sort in PROTOCOLS:
        with server_sort() as server:
            client = client_of(server, sort)
            client.get(KEY)
            client.store(KEY, "add", value)
            client.store(KEY, "add", b"2")
            client.get(KEY)
            store(client)
            client.get(KEY)
            client.delete(KEY)
            client.delete(KEY)
        added = [("get", "-", "-"), ("add", "0:1/1000", "stored"), ("add", "h32", "exists"), ("get", "-", "0:1/1000")]
        changed = [("set", "h31", "stored"), ("get", "-", "h31")]
        deleted = [("delete", "-", "deleted"), ("delete", "-", "absent")]
        equal(written(client), [(action, value, "ok", answer) for action, value, answer in added + changed + deleted])


def key_of(kind):
    return next(key for key in (b"key:%d" % number for number in range(1000)) if recorded_values.kind_of(key) == kind)


@case
def changes():
    """what changes a value is written down as the judge knows it: from nothing, or only of something"""
    text, number = key_of(recorded_values.TEXT), key_of(recorded_values.NUMBER)
    wanted = {
        recorded.Client: [
            ("replace", "h31", "absent"), ("append", "ab", "absent"), ("set", "ab", "stored"), ("append", "cd", "stored"), ("get", "-", "abcd"),
            ("incr", "5", "absent"), ("set", "7", "stored"), ("incr", "5", "12"), ("get", "-", "12"),
        ],
        RedisClient: [
            ("replace", "h31", "absent"), ("extend", "ab", "2"), ("set", "ab", "stored"), ("extend", "cd", "4"), ("get", "-", "abcd"),
            ("count", "5", "5"), ("set", "7", "stored"), ("count", "5", "12"), ("get", "-", "12"),
        ],
    }  # fmt: skip
    for sort, server_sort in PROTOCOLS:
        with server_sort() as server:
            client = client_of(server, sort)
            client.store(KEY, "replace", b"1")
            for key, value, change in [(text, b"ab", lambda: client.append(text, b"cd")), (number, b"7", lambda: client.count_up(number, 5))]:
                client.append(text, b"ab") if key == text else change()
                client.store(key, "set", value)
                change()
                client.get(key)
        equal([(action, value, answer) for action, value, outcome, answer in written(client)], wanted[sort])


@case
def comparing():
    """a value is stored only in the place of the one that was read, and one that may have been stored twice is not compared"""
    with Server() as server:
        client = recorded.Client(0, [server.address], [KEY], seed=1, sizes=[100])
        client.compare_and_set(KEY)
        client.store(KEY, "set", b"1")
        client.compare_and_set(KEY)
        client.touch(KEY)
        client.store(KEY, "set", recorded_values.value_of("0:4", 100))
        client.compare_and_set(KEY)
        with mock.patch.object(client, "next_value", lambda key: server.store.clear() or b"2"):
            client.compare_and_set(KEY)
        client.touch(KEY)
    asked = [(action, value, answer) for action, value, _, answer in written(client)]
    equal(asked[:5], [("get", "-", "-"), ("set", "h31", "stored"), ("get", "-", "h31"), ("touch", "-", "touched"), ("set", "0:4/100", "stored")])
    swapped = [("get", "-", "0:4/100"), ("cas", "0:4/100>0:6/100", "stored"), ("get", "-", "0:6/100"), ("cas", "0:6/100>h32", "absent")]
    equal(asked[5:], [*swapped, ("touch", "-", "absent")])


@case
def overtaken():
    """who compares with what was replaced meanwhile is told so"""
    with Server() as server:
        client, other = [recorded.Client(number, [server.address], [KEY], seed=1, sizes=[100]) for number in range(2)]
        client.store(KEY, "set", recorded_values.value_of("0:0", 100))
        with mock.patch.object(client, "next_value", lambda key: other.store(key, "set", b"1") or b"2"):
            client.compare_and_set(KEY)
    equal(written(client)[-1], ("cas", "0:0/100>h32", "ok", "differs"))


@case
def every_step():
    """whatever a client does with keys of any kind is understood, and has a name of the judge's"""
    keys = [b"key:%d" % number for number in range(30)]
    for sort, server_sort in PROTOCOLS:
        with server_sort() as server:
            client = sort(0, [server.address], keys, seed=1, sizes=[1, 100])
            for _ in range(2000):
                client.step()
        equal(client.count, {"ok": len(client.lines), "unknown": 0, "refused": 0})
        named = {"extend": "append", "incr": "count"}
        steps = {step for steps in sort.STEPS.values() for step in steps}
        equal({named.get(action, action) for action, *_ in written(client)}, steps)


ERRORS = {
    recorded.Client: (
        [b"out of memory storing object", b"overloaded: too many requests in flight"],
        b"SERVER_ERROR %s\r\n",
        b"SERVER_ERROR outcome unknown: the write was sent but not confirmed\r\n",
    ),
    RedisClient: (
        [b"OOM no", b"TRYAGAIN overloaded", b"NOREPLICAS few", b"LOADING not let in", b"ERR too many nodes failed: the object"],
        b"-%s\r\n",
        b"-ERR outcome unknown: the write was sent but not confirmed\r\n",
    ),
}


@case
def errors():
    """what was not done is refused; what may have been is of unknown outcome, and the connection is good"""
    for sort, server_sort in PROTOCOLS:
        texts, form, unknown = ERRORS[sort]
        with server_sort() as server:
            client = client_of(server, sort)
            for text in texts:
                server.error = form % text
                store(client)
                client.get(KEY)
            equal({outcome for _, _, outcome, _ in written(client)}, {"refused"})
            server.error = unknown
            store(client)
            server.error = None
            client.get(KEY)
        equal(client.count, {"ok": 1, "unknown": 1, "refused": 2 * len(texts)})
        # The first text of each says that there is no memory.
        equal(met(client), [recorded.NO_MEMORY] * 2 + [recorded.TOLD] * (2 * len(texts) - 1))


@case
def what_nobody_may_say():
    """an answer that fits no question is a failure, and no outcome"""
    words = {recorded.Client: [b"ERROR\r\n", b"OK\r\n"], RedisClient: [b"-ERR unknown command\r\n", b"-WRONGTYPE\r\n", b":1\r\n"]}
    for sort, server_sort in PROTOCOLS:
        for word in [*words[sort], sort.TOO_LONG]:
            with server_sort() as server:
                client = client_of(server, sort)
                server.error = word
                for verb in ("set", "add"):
                    raises(ValueError, client.store, KEY, verb, b"1")
                if word != sort.TOO_LONG:
                    raises(ValueError, client.get, KEY)
            equal(client.lines, [])
    with Server() as server:
        client = client_of(server)
        server.error = b"VALUE name 7 1\r\n1\r\nEND\r\n"
        raises(ValueError, client.get, KEY)


@case
def too_long():
    """only what is too long may be refused so; it leaves no operation"""
    for sort, server_sort in PROTOCOLS:
        with server_sort() as server:
            client = client_of(server, sort)
            server.error = sort.TOO_LONG
            longest = client.value_bytes_max(KEY)
            client.store(KEY, "add", bytes(longest + 1))
            raises(ValueError, client.store, KEY, "add", bytes(longest))
        equal((client.too_long_count, client.lines), (1, []))
    # memcached counts the key, and what it keeps of an object itself.
    equal([sort(0, [], [KEY], seed=1).value_bytes_max(KEY) for sort, _ in PROTOCOLS], [(1 << 20) - 59 - len(KEY), 1 << 20])


@case
def read_back():
    """a key whose last read makes no sense cannot be read, and all others are read nevertheless"""
    for sort, server_sort in PROTOCOLS:
        with server_sort() as server:
            server.store[b"three"] = b"3"
            get = sort.get

            def get_or_not(client, key):
                server.error = b"NONSENSE\r\n" if key == b"two" else None
                return get(client, key)

            with mock.patch.object(sort, "get", get_or_not):
                lines, unreadable = recorded.read_back(server.address, [b"one", b"two", b"three"], sort)
        equal([(line.split("\t")[0], line.split("\t")[7]) for line in lines], [("one", "-"), ("three", "h33")])
        equal(unreadable, ["two (get b'two': b'NONSENSE\\r\\n')"])


@case
def later():
    """who was refused is served by whom it can reach"""
    with Server() as server:
        with Server() as gone:
            client = client_of(gone)
        client.get(KEY)
        client.addresses = [server.address]
        client.get(KEY)
    equal(client.count, {"ok": 1, "unknown": 0, "refused": 1})


if __name__ == "__main__":
    main()
