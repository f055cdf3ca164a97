"""redis-py, unmodified, over RESP2 and RESP3: strings, counters, expiry, keyspace, pipelines, introspection."""

import time

import redis

from expect import CASES, address, becomes, case, equal, main, raises, true

HOST, PORT = address("SHORTTAIL_REDIS")
EVERY_BYTE = bytes(range(256))
LARGEST = 9_223_372_036_854_775_807


def client(protocol, **options):
    return redis.Redis(HOST, PORT, protocol=protocol, socket_timeout=60, socket_connect_timeout=30, **options)


def both(function):
    """Registers a case once for each protocol version."""
    for protocol in (2, 3):

        def run(protocol=protocol):
            with client(protocol) as r:
                function(r)

        run.__doc__ = f"RESP{protocol}: {function.__doc__}"
        CASES.append(run)
    return function


@both
def connection(r):
    """ping, echo, client names and ids, time"""
    equal(r.ping(), True)
    equal(r.echo(b"\r\nhello\0"), b"\r\nhello\0")
    with r.client() as one:
        equal(one.client_setname("tester"), True)
        true(one.client_getname() in ("tester", b"tester"), "the name comes back")
        true(one.client_id() > 0, "an id")
        equal(one.client_info()["name"], "tester")
        true(any(row["name"] == "tester" for row in one.client_list()), "the list has this connection")
        with client(2, single_connection_client=True) as two:
            two.client_setname("another")
            two.ping()
            seen = [row for row in one.client_list() if row["name"] == "another"]
            equal([(row["cmd"], int(row["id"])) for row in seen], [("ping", two.client_id())])
        becomes(False, lambda: any(row["name"] == "another" for row in one.client_list()))
    true(abs(r.time()[0] - time.time()) < 3600, "the clock is near ours")
    raises(redis.AuthenticationError, r.execute_command, "AUTH", "nobody", "nothing")


@both
def set_get(r):
    """SET with all its options, GET, GETSET, GETDEL, SETNX"""
    r.delete("r:a")
    equal(r.set("r:a", b"1", xx=True), None)
    equal(r.set("r:a", b"1", nx=True), True)
    equal(r.set("r:a", b"2", nx=True), None)
    equal(r.set("r:a", b"3", get=True), b"1")
    equal(r.getset("r:a", b"4"), b"3")
    equal(r.setnx("r:a", b"5"), False)
    equal(r.get("r:a"), b"4")
    equal(r.getdel("r:a"), b"4")
    equal(r.getdel("r:a"), None)
    equal(r.get("r:a"), None)


@both
def multi(r):
    """MGET, MSET, MSETNX, DEL, UNLINK, EXISTS, TOUCH, TYPE"""
    pairs = {f"r:m{i}": b"v%d" % i * (i % 30 + 1) for i in range(300)}
    equal(r.mset(pairs), True)
    equal(r.mget([*pairs, "r:absent"]), [*pairs.values(), None])
    equal(r.msetnx({"{r:t}1": b"a", "{r:t}2": b"b"}), True)
    equal(r.msetnx({"{r:t}2": b"c", "{r:t}3": b"d"}), False)
    equal(r.exists("{r:t}1", "{r:t}1", "{r:t}3"), 2)
    equal(r.touch("{r:t}1", "r:absent"), 1)
    equal(r.type("{r:t}1"), b"string")
    equal(r.type("r:absent"), b"none")
    equal(r.unlink("{r:t}1", "{r:t}2", "{r:t}3"), 2)
    equal(r.delete(*pairs), 300)


@both
def ranges(r):
    """APPEND, STRLEN, GETRANGE, SETRANGE"""
    r.delete("r:r")
    equal(r.append("r:r", b"Hello"), 5)
    equal(r.append("r:r", b" World"), 11)
    equal(r.strlen("r:r"), 11)
    equal(r.getrange("r:r", 0, 4), b"Hello")
    equal(r.getrange("r:r", -5, -1), b"World")
    equal(r.getrange("r:r", 5, 2), b"")
    equal(r.setrange("r:r", 6, b"Redis"), 11)
    equal(r.get("r:r"), b"Hello Redis")
    r.delete("r:r")
    equal(r.setrange("r:r", 3, b"x"), 4)
    equal(r.get("r:r"), b"\0\0\0x")


@both
def counters(r):
    """INCR, DECR, INCRBY, DECRBY, INCRBYFLOAT and their errors"""
    r.delete("r:n")
    equal(r.incr("r:n"), 1)
    equal(r.incrby("r:n", 41), 42)
    equal(r.decr("r:n"), 41)
    equal(r.decrby("r:n", 50), -9)
    equal(r.incrbyfloat("r:n", 0.5), -8.5)
    r.set("r:n", LARGEST)
    true("overflow" in raises(redis.ResponseError, r.incr, "r:n"), "says overflow")
    r.set("r:n", "text")
    true("not an integer" in raises(redis.ResponseError, r.incr, "r:n"), "says that it is no integer")
    true("not a valid float" in raises(redis.ResponseError, r.incrbyfloat, "r:n", 1), "says that it is no float")


@both
def expiry(r):
    """expiry in seconds, milliseconds, absolute times, KEEPTTL, PERSIST, GETEX"""
    r.set("r:soon", b"x", px=50)
    r.psetex("r:soon2", 50, b"x")
    r.set("r:e", b"x", ex=100)
    true(90 < r.ttl("r:e") <= 100, "ttl")
    true(90_000 < r.pttl("r:e") <= 100_000, "pttl")
    r.set("r:e", b"y", keepttl=True)
    true(90 < r.ttl("r:e") <= 100, "KEEPTTL keeps")
    r.set("r:e", b"z")
    equal(r.ttl("r:e"), -1)
    equal(r.ttl("r:absent"), -2)
    equal(r.expire("r:e", 50, xx=True), False)
    equal(r.expire("r:e", 50, nx=True), True)
    equal(r.expire("r:e", 40, gt=True), False)
    equal(r.expire("r:e", 40, lt=True), True)
    equal(r.pexpire("r:e", 30_000), True)
    at = int(time.time()) + 1000
    equal(r.expireat("r:e", at), True)
    equal(r.expiretime("r:e"), at)
    equal(r.pexpireat("r:e", at * 1000 + 5), True)
    equal(r.pexpiretime("r:e"), at * 1000 + 5)
    equal(r.persist("r:e"), True)
    equal(r.persist("r:e"), False)
    equal(r.getex("r:e", ex=77), b"z")
    true(70 < r.ttl("r:e") <= 77, "GETEX EX")
    equal(r.getex("r:e", persist=True), b"z")
    equal(r.expiretime("r:e"), -1)
    equal(r.execute_command("SETEX", "r:e", 60, b"q"), True)
    equal(r.expire("r:e", -1), True)
    equal(r.exists("r:e"), 0)
    becomes((None, None), lambda: (r.get("r:soon"), r.get("r:soon2")))


@both
def binary_safe(r):
    """keys and values of every byte, empty ones, and ones that look like protocol"""
    for value in (EVERY_BYTE, b"", b"\r\n", b"$-1\r\n", b"*1\r\n$4\r\nPING\r\n", b"\0" * 100):
        equal(r.set(EVERY_BYTE[:200], value), True)
        equal(r.get(EVERY_BYTE[:200]), value)
        equal(r.set("r:b", value), True)
        equal(r.get("r:b"), value)


@both
def sizes(r):
    """values from a byte to a million"""
    for size in (1, 100, 4096, 65_536, 300_001, 1_000_000):
        value = (EVERY_BYTE * (size // 256 + 1))[:size]
        equal(r.set("r:size", value), True)
        equal(r.strlen("r:size"), size)
        equal(r.getrange("r:size", size // 2, size // 2 + 9), value[size // 2 : size // 2 + 10])
        equal(r.get("r:size"), value)


@both
def keyspace(r):
    """FLUSHALL, DBSIZE, KEYS, SCAN with MATCH, COUNT and TYPE, RANDOMKEY"""
    equal(r.flushall(), True)
    equal(r.dbsize(), 0)
    equal(r.randomkey(), None)
    wanted = sorted(b"r:k%d" % i for i in range(500))
    r.mset({key: b"x" for key in wanted})
    equal(r.dbsize(), 500)
    equal(sorted(r.keys("r:k*")), wanted)
    equal(r.keys("r:k[1-3]"), r.keys("r:k[^04-9]"))
    equal(sorted(set(r.scan_iter(count=17))), wanted)
    equal(sorted(set(r.scan_iter(match="r:k49?", count=100))), [b"r:k49%d" % i for i in range(10)])
    equal(list(r.scan_iter(_type="hash")), [])
    true(r.randomkey() in wanted, "a random key is one of the keys")
    equal(r.flushdb(), True)
    equal(r.dbsize(), 0)


@both
def pipelines(r):
    """pipelines keep order, and one error disturbs no neighbour"""
    with r.pipeline(transaction=False) as p:
        for number in range(1000):
            p.set(f"r:p{number % 13}", number).get(f"r:p{number % 13}")
        answers = p.execute()
    equal(answers, [answer for number in range(1000) for answer in (True, b"%d" % number)])
    with r.pipeline(transaction=False) as p:
        p.set("r:p", "text").incr("r:p").get("r:p")
        answers = p.execute(raise_on_error=False)
    equal([answers[0], type(answers[1]), answers[2]], [True, redis.ResponseError, b"text"])
    # There are no transactions: nothing of one is done.
    with r.pipeline(transaction=True) as p:
        p.set("r:p", "changed").incr("r:never")
        raises(redis.ResponseError, p.execute)
    equal([r.get("r:p"), r.get("r:never"), r.ping()], [b"text", None, True])


@both
def introspection(r):
    """INFO, COMMAND, CONFIG GET, MEMORY USAGE, OBJECT, WAIT"""
    r.set("r:i", "12345")
    true(isinstance(r.info()["redis_version"], str), "INFO has a version")
    true("connected_clients" in r.info("clients"), "INFO of one section")
    true(r.command_count() >= 50, "COMMAND COUNT")
    true({"get", "set"} <= set(r.command()), "COMMAND lists")
    true("maxmemory" in r.config_get("maxmemory"), "CONFIG GET")
    true(r.memory_usage("r:i") > 5, "MEMORY USAGE")
    equal(r.memory_usage("r:absent"), None)
    equal(r.object("encoding", "r:i"), b"int")
    true(isinstance(r.wait(0, 10), int), "WAIT answers a number")


@both
def errors(r):
    """error texts of wrong arity, wrong arguments and unknown commands"""
    wanted = {
        ("GET",): "wrong number of arguments for 'get' command",
        ("SET", "k", "v", "EX", "0"): "invalid expire time in 'set' command",
        ("SET", "k", "v", "BOGUS"): "syntax error",
        ("SET", "k", "v", "NX", "XX"): "syntax error",
        ("EXPIRE", "k", "soon"): "value is not an integer or out of range",
        ("SELECT", "16"): "DB index is out of range",
        ("BOGUS", "a"): "unknown command 'BOGUS', with args beginning with: 'a' ",
    }
    for command, text in wanted.items():
        equal(raises(redis.ResponseError, r.execute_command, *command), text)


@case
def hello_switches():
    """HELLO answers a map in RESP3 and a list in RESP2, and refuses version 4"""
    with client(3) as r:
        with r.client() as one:
            answer = one.execute_command("HELLO", "3")
            equal(answer[b"proto"], 3)
            true("unsupported protocol version" in raises(redis.ResponseError, one.execute_command, "HELLO", "4"), "NOPROTO")
            true(isinstance(one.execute_command("HELLO", "2"), (list, dict)), "back to RESP2")


main()
