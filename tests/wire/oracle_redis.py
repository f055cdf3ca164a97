"""Redis' protocol for the oracle: the project's commands with good and bad arguments, and what may differ.

What may differ, and nothing else (`same`):
- answers of TTL, PTTL, EXPIRETIME and PEXPIRETIME: by two seconds, and beyond the year 10889, the latest that we store;
- the order of what KEYS and a complete SCAN return; which key RANDOMKEY picks;
- the id and the server's name, version, mode and modules in the answer to HELLO: only its shape is compared.

Commands whose answers describe the server itself (INFO, CLIENT LIST, MEMORY USAGE, TIME, WAIT, ...) appear with wrong
arguments only: the suites of the clients check their good answers.
"""

import re
import time

import cluster

NONCE = b"~~sentinel~~"
SENTINEL = b"*2\r\n$4\r\nPING\r\n$12\r\n" + NONCE + b"\r\n"
SENTINEL_ANSWER = b"$12\r\n" + NONCE + b"\r\n"
KEYS = [b"a", b"b", b"n", b"{t}1", b"{t}2", b"{t}3", b"\0\r\n\xff"]
VALUES = [b"", b"1", b"-7", b"42", b"9223372036854775807", b"-9223372036854775808", b"hello", b"3.5", b" 1", b"01", b"1e3"]
VALUES += [bytes(range(256)), b"x" * 3000, b"\r\n$-1\r\n", b"10.50", b"inf", b"-0"]
LONG_VALUES = [b"x" * 9000, b"y" * 40000, b"z" * 60000]
INTEGERS = [b"0", b"1", b"-1", b"5", b"100", b"9223372036854775807", b"-9223372036854775808"]
BAD_INTEGERS = [b"abc", b"", b"1.5", b"9223372036854775808", b" 1", b"1 ", b"+1", b"01", b"0x1"]
BAD_SECONDS = [b"0", b"-1", b"abc", b"9223372036854775807", b"1.5", b"-9223372036854775808"]
AT_SECONDS = [b"4102444800", b"4102444805"]
FLOATS = [b"0.5", b"1", b"-1.25", b"3.0e2", b"10.1", b"0.1", b"1e-5", b"100000"]
BAD_FLOATS = [b"abc", b"", b"nan", b"inf", b"-inf", b"1 ", b" 1", b"1e400"]
TIME_VERBS = {b"TTL": 2, b"PTTL": 2000, b"EXPIRETIME": 2, b"PEXPIRETIME": 2000}
LATEST_SECONDS = 2**48 // 1000
OWN_ORDER_VERBS = {b"KEYS", b"SCAN"}


class Command:
    """Arguments, or raw bytes for what no client library would send."""

    def __init__(self, arguments, raw=None):
        self.arguments, self.raw = arguments, raw
        self.verb = arguments[0].upper() if arguments else b""

    def show(self):
        return self.raw if self.raw is not None else b" ".join(self.arguments)


def render(command, _memory):
    if command.raw is not None:
        return command.raw
    parts = b"".join(b"$%d\r\n%s\r\n" % (len(argument), argument) for argument in command.arguments)
    return b"*%d\r\n" % len(command.arguments) + parts


def learn(_command, _answer, _memory):
    """No answer of Redis is needed in a later command."""


def clean(address):
    with cluster.connect(address) as connection:
        connection.sendall(b"FLUSHALL\r\n")
        if connection.recv(100) != b"+OK\r\n":
            raise RuntimeError(f"{address} does not flush")


def same(command, left, right, _memories):
    if left == right or command is None:
        return left == right
    if command.verb in TIME_VERBS:
        numbers = [re.fullmatch(rb":(\d+)\r\n", answer) for answer in (left, right)]
        may_differ = TIME_VERBS[command.verb]
        # In seconds, or in milliseconds, as far as the answer may differ by.
        latest = LATEST_SECONDS * may_differ // 2 - (time.time() * may_differ // 2 if b"TTL" in command.verb else 0)
        times = [min(int(number[1]), latest) for number in numbers if number]
        return len(times) == 2 and abs(times[0] - times[1]) <= may_differ
    if command.verb in OWN_ORDER_VERBS:
        return _sorted_keys(left) == _sorted_keys(right)
    if command.verb == b"RANDOMKEY":
        return left[:1] == right[:1] == b"$" and left[:3] != b"$-1" and right[:3] != b"$-1"
    if command.verb == b"HELLO":
        return _shape_of_hello(left) == _shape_of_hello(right)
    return False


def _sorted_keys(answer):
    """The header lines and the keys in order of the bytes; keys hold no `\\r\\n$`."""
    head, *keys = answer.split(b"\r\n$")
    keys = [key.removesuffix(b"\r\n") for key in keys]
    scan = keys[:1] if head.startswith(b"*2\r\n") and head.endswith(b"1") else []
    return head, scan, sorted(keys[len(scan) :])


def _shape_of_hello(answer):
    names = re.findall(rb"\r\n(server|version|proto|id|mode|role|modules)\r\n", answer)
    return answer[:3], names, re.findall(rb"proto\r\n:(\d)", answer)


def _word(rng, text):
    """The word as it is, or in lower or mixed case."""
    return rng.choice([text, text, text.lower(), text.title()])


def _pick(rng, good, bad, chance=0.12):
    return rng.choice(bad) if rng.random() < chance else rng.choice(good)


def _key(rng):
    return rng.choice(KEYS)


def _far(rng, unit):
    """A relative time; hardly ever the same twice, as GT and LT then depend on the millisecond."""
    return [b"%d" % ((1005 + 10 * rng.randrange(1 << 20)) * unit)]


def _integer(rng):
    return _pick(rng, INTEGERS, BAD_INTEGERS)


def _options(rng, choices, most):
    return [part for option in rng.sample(choices, rng.randrange(most + 1)) for part in option]


def _expiry_options(rng):
    return [
        [_word(rng, b"EX"), _pick(rng, _far(rng, 1), BAD_SECONDS)],
        [_word(rng, b"PX"), _pick(rng, _far(rng, 1000), BAD_SECONDS)],
        [b"EXAT", _pick(rng, AT_SECONDS, BAD_SECONDS)],
        [b"PXAT", _pick(rng, [b"4102444800123"], BAD_SECONDS)],
    ]


def _set(rng):
    choices = [*_expiry_options(rng), [_word(rng, b"KEEPTTL")], [b"NX"], [b"XX"], [b"GET"], [b"BOGUS"], [b"EX"]]
    return [b"SET", _key(rng), rng.choice(VALUES), *_options(rng, choices, rng.choice([0, 0, 1, 2, 3]))]


def _getex(rng):
    return [b"GETEX", _key(rng), *_options(rng, [*_expiry_options(rng), [b"PERSIST"], [b"BOGUS"]], rng.choice([0, 1, 1, 2]))]


def _read(rng):
    verb = rng.choice([b"GET", b"GET", b"GETDEL", b"STRLEN", b"TYPE", b"PERSIST", b"TTL", b"PTTL", b"EXPIRETIME", b"PEXPIRETIME"])
    return [verb, _key(rng)]


def _write(rng):
    verb = rng.choice([b"GETSET", b"SETNX", b"APPEND", b"SET"])
    return [verb, _key(rng), rng.choice(VALUES)]


def _timed_write(rng):
    verb, time = rng.choice([(b"SETEX", _far(rng, 1)), (b"PSETEX", _far(rng, 1000))])
    return [verb, _key(rng), _pick(rng, time, BAD_SECONDS), rng.choice(VALUES)]


def _count(rng):
    verb = rng.choice([b"INCR", b"DECR", b"INCRBY", b"DECRBY"])
    return [verb, rng.choice([b"n", _key(rng)]), *([_integer(rng)] if verb.endswith(b"BY") else [])]


def _count_float(rng):
    return [b"INCRBYFLOAT", rng.choice([b"n", _key(rng)]), _pick(rng, FLOATS, BAD_FLOATS)]


def _range(rng):
    if rng.random() < 0.5:
        return [b"GETRANGE", _key(rng), _integer(rng), _integer(rng)]
    offset = _pick(rng, [b"0", b"1", b"7", b"300"], [b"-1", b"536870912", b"9223372036854775807", *BAD_INTEGERS])
    return [b"SETRANGE", _key(rng), offset, rng.choice([b"", b"xyz", b"\0"])]


def _many(rng):
    verb = rng.choice([b"MGET", b"DEL", b"UNLINK", b"EXISTS", b"TOUCH"])
    return [verb, *(_key(rng) for _ in range(rng.randrange(1, 6)))]


def _many_write(rng):
    verb = rng.choice([b"MSET", b"MSET", b"MSETNX"])
    keys = [b"{t}1", b"{t}2", b"{t}3"] if verb == b"MSETNX" else KEYS
    values = VALUES
    if verb == b"MSET" and rng.random() < 0.1:
        # What an owner cannot store at once, though the keys share a slot.
        keys, values = [b"{t}1", b"{t}2", b"{t}3"], LONG_VALUES
    pairs = [part for _ in range(rng.randrange(1, 4)) for part in (rng.choice(keys), rng.choice(values))]
    return [verb, *(pairs[:-1] if rng.random() < 0.1 else pairs)]


def _expire(rng):
    verb, good = rng.choice([
        (b"EXPIRE", _far(rng, 1)), (b"PEXPIRE", _far(rng, 1000)), (b"EXPIREAT", AT_SECONDS), (b"PEXPIREAT", [b"4102444800123"])
    ])
    options = _options(rng, [[_word(rng, b"NX")], [b"XX"], [b"GT"], [b"LT"], [b"BOGUS"]], rng.choice([0, 0, 1, 1, 2]))
    return [verb, _key(rng), _pick(rng, good, BAD_SECONDS), *options]


def _keyspace(rng):
    patterns = [b"*", b"{t}*", b"?", b"[ab]", b"[^a]", b"\\a", b"a", b"*1", b"[a-c]*", b"", b"[", b"{t}[0-9]"]
    return rng.choice([
        [b"KEYS", rng.choice(patterns)],
        [b"SCAN", b"0", b"COUNT", b"1000", b"MATCH", rng.choice(patterns)],
        [b"SCAN", b"0", b"COUNT", b"1000", b"TYPE", rng.choice([b"string", b"hash", b"bogus"])],
        [b"SCAN", rng.choice([b"abc", b""])],
        [b"SCAN", b"0", b"COUNT", rng.choice([b"0", b"-1", b"abc"])],
        [b"SCAN", b"0", rng.choice([b"COUNT", b"MATCH", b"BOGUS"])],
        [b"DBSIZE"],
        [b"RANDOMKEY"],
        [rng.choice([b"FLUSHALL", b"FLUSHDB"]), *rng.choice([[], [b"SYNC"], [b"ASYNC"], [b"BOGUS"], [b"SYNC", b"ASYNC"]])],
    ])


def _session(rng):
    return rng.choice([
        [b"PING"],
        [b"PING", b"a message"],
        [b"ECHO", rng.choice(VALUES)],
        [b"SELECT", rng.choice([b"0", b"0", b"1", b"-1", b"abc", b"99999999999"])],
        [b"AUTH", b"password"],
        [b"AUTH", b"default", b"password"],
        [b"AUTH", b"nobody", b"password"],
        [b"CLIENT", b"SETNAME", rng.choice([b"me", b"", b"a b", b"a\nb"])],
        [_word(rng, b"CLIENT"), _word(rng, b"GETNAME")],
        [b"CLIENT", b"NO-EVICT", rng.choice([b"ON", b"off", b"maybe"])],
        [b"CLIENT", rng.choice([b"BOGUS", b"GETNAME", b"SETNAME"]), b"x", b"y"],
        [b"HELLO", rng.choice([b"2", b"3", b"3", b"4", b"1", b"abc"])],
        [b"HELLO", b"3", b"SETNAME", rng.choice([b"you", b"a b"])],
        [b"HELLO", b"3", rng.choice([b"AUTH", b"BOGUS", b"SETNAME"])],
        [b"HELLO", b"3", b"AUTH", b"nobody", b"nothing"],
        [b"RESET"],
        [rng.choice([b"EXEC", b"DISCARD", b"UNWATCH"]), *rng.choice([[], [], [b"x"]])],
    ])


def _introspection(rng):
    return rng.choice([
        [b"OBJECT", b"ENCODING", b"absent"],
        [b"OBJECT", b"FREQ", b"absent"],
        [b"OBJECT", b"BOGUS", b"a"],
        [b"OBJECT", b"ENCODING"],
        [b"OBJECT"],
        [b"MEMORY", b"USAGE", b"absent"],
        [b"MEMORY", b"USAGE", b"a", b"SAMPLES", b"x"],
        [b"MEMORY", b"USAGE"],
        [b"MEMORY", b"BOGUS"],
        [b"CONFIG", b"GET", b"no-such-setting"],
        [b"CONFIG", b"GET"],
        [b"CONFIG", b"BOGUS", b"a"],
        [b"COMMAND", b"COUNT", b"x"],
        [b"COMMAND", b"BOGUS"],
        [b"COMMAND", b"INFO", b"nosuchcommand"],
        [b"COMMAND", b"DOCS", b"nosuchcommand"],
        [b"COMMAND", rng.choice([b"INFO", b"GETKEYSANDFLAGS"]), *rng.choice([[b"set", b"a", b"1", b"get"], [b"mset", b"a", b"1", b"b", b"2"]])],
        [b"COMMAND", b"LIST", b"FILTERBY", b"PATTERN", b"object|id*"],
        [b"WAIT", b"abc", b"0"],
        [b"WAIT", b"0", b"abc"],
        [b"WAIT", b"0", b"-1"],
        [b"TIME", b"x"],
    ])


ARITIES = b"""PING ECHO AUTH SELECT GET SET GETEX GETDEL GETSET SETNX SETEX PSETEX MGET MSET MSETNX APPEND STRLEN GETRANGE SETRANGE
INCR DECR INCRBY DECRBY INCRBYFLOAT DEL UNLINK EXISTS TOUCH TYPE EXPIRE PEXPIRE EXPIREAT PEXPIREAT EXPIRETIME PEXPIRETIME TTL
PTTL PERSIST RANDOMKEY KEYS SCAN DBSIZE CLIENT CONFIG MEMORY OBJECT TIME WAIT HELLO RESET""".split()


def _wrong_arity(rng):
    """A command with fewer or more arguments than it takes; those that would be right are harmless."""
    verb = rng.choice(ARITIES)
    few = [verb] if verb not in (b"PING", b"HELLO", b"RANDOMKEY", b"DBSIZE", b"TIME", b"RESET") else [verb, b"x", b"y", b"z"]
    many = [verb, b"a", b"1", b"2", b"3", b"4", b"5"]
    takes_many = (b"MGET", b"MSET", b"MSETNX", b"DEL", b"UNLINK", b"EXISTS", b"TOUCH", b"SCAN")
    return few if rng.random() < 0.6 or verb in takes_many else [_word(rng, many[0]), *many[1:]]


def _unknown(rng):
    return rng.choice([[b"BOGUS"], [b"bogus", b"a", b"b" * 200, b"c"], [b"GETT", b"x" * 50] * 3, [b"with\r\nnewline", b"a\r\nb"], [b"x" * 300]])


FORMS = [
    (_set, 14), (_getex, 5), (_read, 18), (_write, 9), (_timed_write, 3), (_count, 9), (_count_float, 3), (_range, 8), (_many, 7),
    (_many_write, 5), (_expire, 9), (_keyspace, 5), (_session, 4), (_introspection, 2), (_wrong_arity, 5), (_unknown, 1),
]
INLINE = [b"PING\r\n", b"GET a\n", b"SET a hello\r\n", b'SET a "two words\\x00\\n"\r\n', b"SET a 'single \\' quote'\r\n", b"\r\n", b"  get   a  \r\n"]
# Each of these is the end of its connection.
FATAL = [b"*1\r\n$-1\r\n", b"*abc\r\n", b"*1\r\nPING\r\n", b"*1\r\n$abc\r\n", b"*1\r\n$536870913\r\n", b'GET "open\r\n']
FATAL += [b"*1\r\n$4\r\nQUIT\r\n"]
CONNECTION_VERBS = {*TIME_VERBS, *OWN_ORDER_VERBS, b"RANDOMKEY", b"HELLO"}


def generate(rng, count, stepwise):
    """`count` commands; when they are sent together, only ones whose answers are the same to the byte."""
    forms, weights = zip(*FORMS)
    commands = []
    if stepwise and rng.random() < 0.4:
        commands.append(Command([b"HELLO", b"3"]))
    while len(commands) < count:
        if rng.random() < 0.02:
            commands.append(Command([], rng.choice(INLINE)))
            continue
        command = Command(rng.choices(forms, weights)[0](rng))
        if stepwise or command.verb not in CONNECTION_VERBS:
            commands.append(command)
    if rng.random() < 0.1 and stepwise:
        commands.append(Command([], rng.choice(FATAL)))
    return commands
