"""pymemcache, unmodified: text and meta protocol through the client most Python services use."""

import contextlib
import socket

from pymemcache.client.base import Client, PooledClient
from pymemcache.client.hash import HashClient
from pymemcache.exceptions import MemcacheClientError, MemcacheIllegalInputError, MemcacheServerError

from expect import address, becomes, case, equal, main, raises, true

SERVER = address("SHORTTAIL_MEMCACHED")
EVERY_BYTE = bytes(range(256))
KILLER_VALUE = b"END\r\nVALUE x 0 1\r\nSTORED\r\n"


def client(**options):
    return contextlib.closing(Client(SERVER, connect_timeout=30, timeout=60, default_noreply=False, **options))


@case
def set_get_delete():
    """set, get, delete"""
    with client() as c:
        equal(c.set("py:a", b"one"), True)
        equal(c.get("py:a"), b"one")
        equal(c.get("py:none"), None)
        equal(c.get("py:none", default=7), 7)
        equal(c.delete("py:a"), True)
        equal(c.delete("py:a"), False)
        equal(c.get("py:a"), None)


@case
def add_replace():
    """add only what is absent, replace only what is there"""
    with client() as c:
        c.delete("py:ar")
        equal(c.replace("py:ar", b"0"), False)
        equal(c.add("py:ar", b"1"), True)
        equal(c.add("py:ar", b"2"), False)
        equal(c.replace("py:ar", b"3"), True)
        equal(c.get("py:ar"), b"3")


@case
def append_prepend():
    """append and prepend keep flags and need a value"""
    with client() as c:
        c.delete("py:ap")
        equal(c.append("py:ap", b"x"), False)
        equal(c.prepend("py:ap", b"x"), False)
        c.set("py:ap", b"mid", flags=77)
        equal(c.append("py:ap", b">"), True)
        equal(c.prepend("py:ap", b"<"), True)
        equal(c.raw_command(b"get py:ap", b"END\r\n"), b"VALUE py:ap 77 5\r\n<mid>\r\n")


@case
def multi():
    """set_many, get_many, delete_many"""
    with client() as c:
        pairs = {f"py:m{i}": b"v%d" % i * (i + 1) for i in range(300)}
        equal(c.set_many(pairs), [])
        equal(c.get_many([*pairs, "py:absent"]), pairs)
        equal({key: got[0] for key, got in c.gets_many(list(pairs)[:9]).items()}, dict(list(pairs.items())[:9]))
        equal(c.delete_many(list(pairs)), True)
        equal(c.get_many(list(pairs)), {})


@case
def compare_and_swap():
    """gets and cas: only the token of the current value wins"""
    with client() as c:
        c.delete("py:cas")
        equal(c.cas("py:cas", b"x", b"1"), None)
        c.set("py:cas", b"old")
        value, token = c.gets("py:cas")
        equal(value, b"old")
        equal(c.cas("py:cas", b"new", token), True)
        equal(c.cas("py:cas", b"late", token), False)
        equal(c.gets("py:cas")[0], b"new")
        true(c.gets("py:cas")[1] != token, "the token changes with the value")


@case
def counters():
    """incr, decr: 64 bits, wrap up, stop at zero, refuse what is no number"""
    with client() as c:
        c.set("py:n", b"10")
        equal(c.incr("py:n", 5), 15)
        equal(c.decr("py:n", 3), 12)
        equal(c.decr("py:n", 100), 0)
        c.set("py:n", b"18446744073709551615")
        equal(c.incr("py:n", 1), 0)
        equal(c.incr("py:missing", 1), None)
        equal(c.decr("py:missing", 1), None)
        c.set("py:n", b"text")
        true("non-numeric" in raises(MemcacheClientError, c.incr, "py:n", 1), "says that the value is no number")


@case
def expiry():
    """expiry times, touch; gat and gats sent raw"""
    with client() as c:
        c.set("py:gone", b"x", expire=-1)
        equal(c.get("py:gone"), None)
        c.set("py:soon", b"x", expire=1)
        c.set("py:touched", b"y", expire=1)
        c.set("py:got", b"z", expire=1)
        equal(c.touch("py:touched", 1000), True)
        equal(c.touch("py:missing", 10), False)
        equal(c.raw_command(b"gat 1000 py:got", b"END\r\n"), b"VALUE py:got 0 1\r\nz\r\n")
        equal(c.raw_command(b"gats 1000 py:got", b"END\r\n").split()[:4], [b"VALUE", b"py:got", b"0", b"1"])
        equal(c.raw_command(b"gat 1000 py:missing", b"END\r\n"), b"")
        becomes(None, lambda: c.get("py:soon"))
        equal(c.get("py:touched"), b"y")
        equal(c.get("py:got"), b"z")
        equal(c.touch("py:touched", -1), True)
        equal(c.get("py:touched"), None)


@case
def binary_safe():
    """values of every byte, and values that look like protocol"""
    with client() as c:
        for value in (EVERY_BYTE, EVERY_BYTE * 40, KILLER_VALUE, b"", b"\r\n", b"\0", b"\xff" * 1000):
            equal(c.set("py:b", value), True)
            equal(c.get("py:b"), value)


@case
def sizes():
    """values from one byte to the limit, and one byte too many"""
    with client() as c:
        for size in (1, 31, 100, 511, 4096, 4097, 65_536, 300_001, 1_000_000):
            value = (EVERY_BYTE * (size // 256 + 1))[:size]
            equal(c.set(f"py:size{size}", value), True)
            equal(c.get(f"py:size{size}"), value)
        c.set("py:big", b"small")
        text = raises(MemcacheServerError, c.set, "py:big", b"x" * (1 << 20))
        true("too large" in text, "says that the object is too large")
    with client() as c:
        equal(c.get("py:big"), None)


@case
def keys():
    """keys of 250 bytes, one byte more, and odd characters"""
    with client(allow_unicode_keys=True) as c:
        for key in ("k" * 250, "py:ключ", "py:!\"#$%&'()*+,-./:;<=>?@[]^_`{|}~"):
            equal(c.set(key, key.encode()), True)
            equal(c.get(key), key.encode())
        raises(MemcacheIllegalInputError, c.set, "k" * 251, b"x")
    with socket.create_connection(SERVER, timeout=60) as raw:
        raw.sendall(b"get " + b"k" * 251 + b"\r\n")
        true(raw.recv(100).startswith(b"CLIENT_ERROR bad command line format\r\n"), "a key too long is refused")


@case
def flags():
    """flags of 32 bits come back through a serializer"""
    with client() as c:
        for number in (0, 1, 65_535, 65_536, 4_294_967_295):
            equal(c.set("py:f", b"v", flags=number), True)
            equal(c.raw_command(b"get py:f", b"END\r\n"), b"VALUE py:f %d 1\r\nv\r\n" % number)


@case
def no_reply():
    """noreply commands, in order with answered ones on one connection"""
    with client() as c:
        for number in range(200):
            c.set("py:nr", b"%d" % number, noreply=True)
        equal(c.get("py:nr"), b"199")
        c.incr("py:nr", 1, noreply=True)
        c.append("py:nr", b"!", noreply=True)
        equal(c.get("py:nr"), b"200!")
        c.delete("py:nr", noreply=True)
        equal(c.get("py:nr"), None)


@case
def meta_commands():
    """meta commands sent raw: get, set with flags, arithmetic, delete, no-op"""
    with client() as c:
        equal(c.raw_command(b"ms py:meta 5 T100 F9\r\nhello"), b"HD")
        equal(c.raw_command(b"mg py:meta f s k q"), b"HD f9 s5 kpy:meta")
    with client() as c:
        equal(c.raw_command(b"mg py:absent v"), b"EN")
        equal(c.raw_command(b"ms py:meta 2 MS\r\n10"), b"HD")
        equal(c.raw_command(b"ma py:meta D5"), b"HD")
        equal(c.raw_command(b"mg py:meta s"), b"HD s2")
        equal(c.raw_command(b"md py:meta Oab"), b"HD Oab")
        equal(c.raw_command(b"md py:meta"), b"NF")
        equal(c.raw_command(b"mn"), b"MN")


@case
def statistics():
    """stats, settings, version"""
    with client() as c:
        c.set("py:stat", b"x")
        before = c.stats()
        for name in (b"pid", b"uptime", b"curr_items", b"total_items", b"cmd_get", b"cmd_set", b"get_hits", b"limit_maxbytes"):
            true(name in before, f"stats has {name}")
        c.get("py:stat")
        c.get("py:absent")
        after = c.stats()
        equal(int(after[b"get_hits"]) - int(before[b"get_hits"]), 1)
        equal(int(after[b"get_misses"]) - int(before[b"get_misses"]), 1)
        true(b"item_size_max" in c.stats("settings"), "stats settings names the largest item")
        with client() as other:
            other.version()
            connections = c.stats("conns")
            states = [value for name, value in connections.items() if name.endswith(b":state")]
            true(states.count(b"conn_listening") == 1, "stats conns names where the gateway listens")
            true(b"conn_parse_cmd" in states and b"conn_read" in states, "stats conns names all connections")
        true(len(c.version()) >= 5, "a version")


@case
def pool():
    """pooled and hashing clients"""
    pooled = PooledClient(SERVER, max_pool_size=8, timeout=60, default_noreply=False)
    hashing = HashClient([SERVER], timeout=60, use_pooling=True, default_noreply=False)
    for c in (pooled, hashing):
        equal(c.set("py:pool", b"1"), True)
        equal(c.get_many(["py:pool", "py:absent"]), {"py:pool": b"1"})
        equal(c.delete("py:pool"), True)
        c.close()


@case
def flush_all():
    """flush_all empties the store and a later set is seen"""
    with client() as c:
        c.set("py:fl", b"1")
        equal(c.flush_all(), True)
        equal(c.get("py:fl"), None)
        equal(c.set("py:fl", b"2"), True)
        equal(c.get("py:fl"), b"2")


main()
