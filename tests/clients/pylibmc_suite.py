"""pylibmc, unmodified: libmemcached's text protocol, its behaviours and its serialised values."""

import pylibmc

from expect import address, becomes, case, equal, main, raises, true

HOST, PORT = address("SHORTTAIL_MEMCACHED")
EVERY_BYTE = bytes(range(256))


def client(**behaviors):
    c = pylibmc.Client([f"{HOST}:{PORT}"], binary=False)
    c.behaviors = {"tcp_nodelay": True, "cas": True, **behaviors}
    return c


@case
def set_get_delete():
    """set, get, delete, contains"""
    c = client()
    equal(c.set("lib:a", b"one"), True)
    equal(c.get("lib:a"), b"one")
    true("lib:a" in c, "the key is there")
    equal(c.get("lib:none", 5), 5)
    equal(c.delete("lib:a"), True)
    equal(c.delete("lib:a"), False)
    equal(c.get("lib:a"), None)


@case
def types():
    """values of Python types travel in the flags"""
    c = client()
    for value in (1, -7, 2**70, True, 1.5, "text ключ", b"bytes", None, [1, {"a": (2, 3)}], EVERY_BYTE):
        equal(c.set("lib:t", value), True)
        equal(c.get("lib:t"), value)


@case
def add_replace_append_prepend():
    """add, replace, append, prepend"""
    c = client()
    c.delete("lib:x")
    equal(c.replace("lib:x", b"0"), False)
    equal(c.add("lib:x", b"1"), True)
    equal(c.add("lib:x", b"2"), False)
    equal(c.replace("lib:x", b"mid"), True)
    equal(c.append("lib:x", b">"), True)
    equal(c.prepend("lib:x", b"<"), True)
    equal(c.get("lib:x"), b"<mid>")
    c.delete("lib:x")
    equal(c.append("lib:x", b">"), False)


@case
def counters():
    """incr, decr, incr of what is absent"""
    c = client()
    c.set("lib:n", 10)
    equal(c.incr("lib:n"), 11)
    equal(c.incr("lib:n", 9), 20)
    equal(c.decr("lib:n", 5), 15)
    equal(c.decr("lib:n", 50), 0)
    c.delete("lib:n")
    raises(pylibmc.NotFound, c.incr, "lib:n")
    raises(pylibmc.NotFound, c.decr, "lib:n")


@case
def compare_and_swap():
    """gets and cas"""
    c = client()
    c.set("lib:cas", "old")
    value, token = c.gets("lib:cas")
    equal(value, "old")
    equal(c.cas("lib:cas", "new", token), True)
    equal(c.cas("lib:cas", "late", token), False)
    equal(c.get("lib:cas"), "new")
    c.delete("lib:cas")
    raises(pylibmc.NotFound, c.cas, "lib:cas", "x", token)


@case
def multi():
    """set_multi, get_multi, add_multi, delete_multi with a prefix"""
    c = client()
    pairs = {f"m{i}": f"value {i}" * (i % 40 + 1) for i in range(300)}
    equal(c.set_multi(pairs, key_prefix="lib:"), [])
    equal(c.get_multi([*pairs, "absent"], key_prefix="lib:"), pairs)
    equal(sorted(c.add_multi({"m0": "no"}, key_prefix="lib:")), ["m0"] if c.get("lib:m0") else [])
    equal(c.delete_multi(list(pairs), key_prefix="lib:"), True)
    equal(c.get_multi(list(pairs), key_prefix="lib:"), {})


@case
def expiry():
    """expiry, touch"""
    c = client()
    c.set("lib:soon", b"x", time=1)
    c.set("lib:kept", b"y", time=1)
    equal(c.touch("lib:kept", 1000), True)
    equal(c.touch("lib:missing", 10), False)
    becomes(None, lambda: c.get("lib:soon"))
    equal(c.get("lib:kept"), b"y")


@case
def sizes():
    """values up to the limit, compressed ones, and one that is too large"""
    c = client()
    for size in (0, 1, 100, 4096, 65_536, 1_000_000):
        value = (EVERY_BYTE * (size // 256 + 1))[:size]
        equal(c.set("lib:size", value), True)
        equal(c.get("lib:size"), value)
    equal(c.set("lib:packed", b"a" * 3_000_000, min_compress_len=1000), True)
    equal(c.get("lib:packed"), b"a" * 3_000_000)
    # pylibmc compares with its own copy of the limit first; a value below that one and above the server's must fail too.
    raises(pylibmc.Error, c.set, "lib:big", EVERY_BYTE * 4096)


@case
def no_block():
    """sockets that do not block, and the ketama distribution"""
    c = client(no_block=True, ketama=True)
    for number in range(200):
        c.set(f"lib:p{number % 7}", number)
    equal([c.get(f"lib:p{rest}") for rest in range(7)], [196, 197, 198, 199, 193, 194, 195])


@case
def statistics_and_flush():
    """stats, flush_all, clone, thread mapping"""
    c = client()
    c.set("lib:f", b"x")
    ((_, stats),) = c.get_stats()
    true(int(stats["curr_items"] if "curr_items" in stats else stats[b"curr_items"]) >= 1, "curr_items counts")
    equal(c.clone().get("lib:f"), b"x")
    equal(c.flush_all(), True)
    equal(c.get("lib:f"), None)


main()
