"""memcached's text and meta protocols for the oracle: a grammar of good and bad commands, and what may differ.

What may differ, and nothing else (`same`):
- CAS tokens: each is replaced by its rank of appearance, so that equal and different tokens stay so;
- times to live and times since the last access (`t` and `l` of meta replies): by two seconds;
- the version string, and the fields of `me` after the key, which describe memcached's own item memory.
"""

import base64
import random
import re

import cluster

SENTINEL = b"md sentinel~ Osentinel7\r\n"
SENTINEL_ANSWER = b"NF Osentinel7\r\n"
KEYS = [b"a", b"b", b"counter", b"key:with/odd~chars", b"k" * 250]
# No value holds the sentinel's answer, or the end of an answer could be seen too early.
VALUES = [b"", b"1", b"7", b"99", b"18446744073709551615", b"hello", b"12 ", b"-5", b"END\r\n", bytes(range(256)), b"x" * 5000]
TIMES = [b"0", b"1005", b"-1", b"100005"]
BAD_NUMBERS = [b"abc", b"-1", b"4294967296", b"18446744073709551616", b"1x", b"", b"99999999999999999999999", b"1.5"]
SECONDS_MAY_DIFFER = 2
# A CAS token that is newer than what any server counts up to meanwhile; those that are not are as old as can be.
NEWER = b"E4503599627370496"


class Command:
    """Bytes to send; `%CAS%` stands for the newest token that this server gave for `key`."""

    def __init__(self, data, key=b""):
        self.data, self.key = data, key

    def show(self):
        return self.data


def render(command, memory):
    # Where the server gave no token, one that is newer than all it will give: only the order of its own tokens is known.
    return command.data.replace(b"%CAS%", memory.get(command.key, b"9223372036854775807"))


def learn(command, answer, memory):
    """Remembers the CAS token of a key from an answer to a command that names it."""
    found = re.search(rb"^VALUE \S+ \d+ \d+ (\d+)\r\n", answer) or re.search(rb"^(?:VA|HD)\b[^\r\n]*? c(\d+)", answer)
    if found:
        memory[command.key] = found[1]


def clean(address):
    with cluster.connect(address) as connection:
        connection.sendall(b"flush_all\r\n")
        if connection.recv(100) != b"OK\r\n":
            raise RuntimeError(f"{address} does not flush")


def _tokens_by_rank(answer, memory):
    def rank(match):
        return match[1] + b"<cas %d>" % memory.setdefault(match[2], len(memory))

    answer = re.sub(rb"(^VALUE \S+ \d+ \d+ )(\d+)(?=\r\n)", rank, answer, flags=re.M)
    return re.sub(rb"(^(?:VA \d+|HD|EN|NF|NS|EX)\b[^\r\n]*? c)(\d+)", rank, answer, flags=re.M)


def _without_padding(match):
    return b"%s%d%s%s\r\n" % (match[1], len(match[4]), match[3], match[4])


def _tolerated(command, answer):
    """What differs on purpose or by chance: a raw key that would break its line is shown in base64; and memcached counts in
    place, leaving the number padded, unless an answer with it waits in the same connection, so not in a pipeline. In a
    pipeline our `mg` of a stale object takes the right to recache (`W`) after the reads behind it, which shows in `h`."""
    answer = answer.replace(b" k\0binary key\r\n", b" kAGJpbmFyeSBrZXkNCg== b")
    if command is None:
        answer = re.sub(rb"(?m)^(VALUE \S+ \d+ )(\d+)((?: \d+)?\r\n)(\d+) *\r\n", _without_padding, answer)
        answer = re.sub(rb"(?m)^(VA )(\d+)([^\r\n]*\r\n)(\d+) *\r\n", _without_padding, answer)
        answer = re.sub(rb"(?m)^((?:VA|HD)\b[^\r\n]* h)[01](?=[^\r\n]* W)", rb"\1", answer)
    return answer


def same(command, left, right, memories):
    left, right = _tolerated(command, left), _tolerated(command, right)
    if left == right and b"VALUE" not in left and b" c" not in left:
        return True
    left, right = (_tokens_by_rank(answer, memory) for answer, memory in zip((left, right), memories))
    left, right = (re.sub(rb"^VERSION [^\r\n]+", b"VERSION", answer, flags=re.M) for answer in (left, right))
    left, right = (re.sub(rb"^(ME \S+) [^\r\n]+", rb"\1", answer, flags=re.M) for answer in (left, right))
    pattern = rb"(?m)(?<=^VA)[^\r\n]*|(?<=^HD)[^\r\n]*"
    times = [[int(n) for part in re.findall(pattern, answer) for n in re.findall(rb" [tl](\d+)", part)] for answer in (left, right)]
    if len(times[0]) != len(times[1]) or any(abs(a - b) > SECONDS_MAY_DIFFER for a, b in zip(*times)):
        return False
    left, right = (re.sub(rb"(?m)^(VA|HD)([^\r\n]*)", _without_times, answer) for answer in (left, right))
    return left == right


def _without_times(match):
    return match[1] + re.sub(rb" ([tl])\d+", rb" \1", match[2])


class Polite(random.Random):
    """Draws that never make a command malformed (`bad`)."""

    def bad(self, chance):
        return False


class Rude(random.Random):
    """Draws that now and then make a command malformed."""

    def bad(self, chance):
        return self.random() < chance


def _number(rng, good):
    return rng.choice(BAD_NUMBERS) if rng.bad(0.06) else rng.choice(good)


def _key(rng):
    return b"k" * 251 if rng.bad(0.02) else rng.choice(KEYS)


def _end(rng):
    return b"\n" if rng.random() < 0.05 else b"\r\n"


def _maybe_noreply(rng):
    return b" noreply" if rng.random() < 0.1 else b""


def _payload(rng, value):
    """(declared length, bytes sent): now and then the data block does not fit its length."""
    if rng.bad(0.02):
        return b"%d" % (len(value) + 1), value + b"y\r\r\n"
    if rng.bad(0.02) and value:
        return b"%d" % (len(value) - 1), value + b"\r\n"
    if rng.bad(0.01):
        return rng.choice([b"-1", b"abc", b"1x"]), b""
    if rng.bad(0.005):
        return b"2000000", b"z" * 2000000 + b"\r\n"
    return b"%d" % len(value), value + b"\r\n"


def _storage(rng, _tokens):
    verb = rng.choice([b"set", b"set", b"set", b"add", b"replace", b"append", b"prepend"])
    length, data = _payload(rng, rng.choice(VALUES))
    key = _key(rng)
    line = b" ".join([verb, key, _number(rng, [b"0", b"5", b"4294967295"]), _number(rng, TIMES), length])
    return Command(line + _maybe_noreply(rng) + _end(rng) + data, key)


def _cas(rng, tokens):
    length, data = _payload(rng, rng.choice(VALUES))
    key = _key(rng)
    token = b"%CAS%" if tokens and rng.random() < 0.8 else _number(rng, [b"12345"])
    return Command(b"cas %s 3 0 %s %s%s\r\n" % (key, length, token, _maybe_noreply(rng)) + data, key)


def _retrieval(rng, tokens):
    verbs = [b"get", b"get", b"gat", *([b"gets", b"gets", b"gats"] if tokens else [])]
    verb = rng.choice(verbs)
    time = [_number(rng, TIMES[:2])] if verb.startswith(b"ga") else []
    keys = [_key(rng) for _ in range(0 if rng.bad(0.08) else rng.choice([1, 1, 1, 1, 2, 3, 12]))]
    return Command(b" ".join([verb, *time, *keys]) + _end(rng), keys[0] if keys else b"")


def _delete(rng, _tokens):
    extra = rng.choice([b" 10", b" 0 0 0"]) if rng.bad(0.2) else rng.choice([b"", b"", b"", b" 0", b" noreply", b" 0 noreply"])
    return Command(b"delete " + _key(rng) + extra + _end(rng))


def _arithmetic(rng, _tokens):
    verb = rng.choice([b"incr", b"decr"])
    key = rng.choice([b"counter", b"counter", _key(rng)])
    delta = _number(rng, [b"1", b"10", b"18446744073709551615"])
    return Command(b"%s %s %s%s%s" % (verb, key, delta, _maybe_noreply(rng), _end(rng)), key)


def _touch(rng, _tokens):
    return Command(b"touch %s %s%s%s" % (_key(rng), _number(rng, TIMES), _maybe_noreply(rng), _end(rng)))


def _control(rng, _tokens):
    good = [b"version", b"verbosity 0", b"flush_all", b"flush_all 0", b"flush_all noreply", b"stats reset", b"mn", b"verbosity 0 noreply"]
    bad = [b"verbosity", b"flush_all abc", b"flush_all -1", b"stats bogus", b"stats detail", b"version extra"]
    return Command(rng.choice(bad if rng.bad(0.4) else good) + _end(rng))


def _garbage(rng, _tokens):
    lines = [b"", b" ", b"bogus", b"GET a", b"get", b"set", b"set a", b"set a 0 0", b"incr", b"incr a", b"delete"]
    lines += [b"touch", b"touch a", b"gat", b"gat 0", b"gets", b"mg", b"ms", b"md", b"ma", b"me", b"ms a", b"ms a abc", b"  get a"]
    lines += [b"get  a", b"get a ", b"\0", b"\xff\xfe", b"quit now", b"mg " + b"k" * 251, b"get " + b"k" * 300]
    lines += [b"mg a v v", b"mg a !", b"ms a S1", b"decr a", b"append a 0 0", b"md a q !", b"g", b"m", b"mx a", b"mg a " + b"O" * 40, b"me a -"]
    # These declare a data block, which is dropped with its line: without one they would eat what comes next.
    if rng.random() < 0.04:
        return Command(rng.choice([b"cas a 0 0 1", b"set a 0 0 1 2 3"]) + b"\r\nx\r\n")
    return Command(rng.choice(lines) + _end(rng))


def _meta_flags(rng, choices, wrong, tokens, most=5):
    choices = choices + wrong if rng.bad(0.3) else choices
    chosen = [flag for flag in rng.sample(choices, rng.randrange(min(most, len(choices)) + 1)) if tokens or flag[:1] not in b"cCtl"]
    return b"".join(b" " + flag for flag in chosen)


def _meta_key(rng):
    key = _key(rng)
    if rng.random() < 0.1:
        coded = base64.b64encode(rng.choice([key[:180], b"a", b"\0binary key\r\n"]))
        return b"!bad!" if rng.bad(0.2) else coded, b" b"
    return key, b""


def _meta_get(rng, tokens):
    key, coded = _meta_key(rng)
    flags = [b"v", b"v", b"s", b"f", b"k", b"c", b"t", b"h", b"l", b"q", b"Oabc", b"T1005", b"N1005", b"R5", b"E2"]
    return Command(b"mg " + key + coded + _meta_flags(rng, flags, [b"Tx", b"v", b"!"], tokens) + _end(rng), key)


def _meta_set(rng, tokens):
    key, coded = _meta_key(rng)
    length, data = _payload(rng, rng.choice(VALUES))
    flags = [b"c", b"k", b"q", b"s", b"Oxyz", b"F9", b"T1005", b"T-1", b"I", b"C%CAS%", b"C5", NEWER, b"MS"]
    flags += [b"ME", b"MA", b"MP", b"MR"]
    modes = [flag for flag in flags if flag[:1] == b"M"]
    flags = [flag for flag in flags if flag not in modes] + [rng.choice(modes)] + ([b"N100"] if rng.random() < 0.3 else [])
    return Command(b"ms " + key + b" " + length + coded + _meta_flags(rng, flags, [b"b", b"Fx", b"MX", b"Ma", b"ME"], tokens) + b"\r\n" + data, key)


def _meta_delete(rng, tokens):
    key, coded = _meta_key(rng)
    flags = [b"q", b"k", b"Oq1", b"I", b"T1005", b"C%CAS%", b"C5", b"x", NEWER]
    return Command(b"md " + key + coded + _meta_flags(rng, flags, [b"Tz", b"!"], tokens, 3) + _end(rng), key)


def _meta_arithmetic(rng, tokens):
    key, coded = (b"counter", b"") if rng.random() < 0.7 else _meta_key(rng)
    flags = [b"v", b"v", b"c", b"k", b"q", b"t", b"Oo", b"N1005", b"J13", b"D10", b"T1005", b"C5", b"E1"]
    flags.append(rng.choice([b"MI", b"MD", b"M+", b"M-", b"Mi"]))
    return Command(b"ma " + key + coded + _meta_flags(rng, flags, [b"Dx", b"MX", b"Tq"], tokens) + _end(rng), key)


def _meta_debug(rng, _tokens):
    key, coded = _meta_key(rng)
    return Command(b"me " + key + coded + _end(rng), key)


FORMS = [
    (_storage, 22),
    (_retrieval, 18),
    (_cas, 5),
    (_delete, 6),
    (_arithmetic, 9),
    (_touch, 4),
    (_control, 3),
    (_garbage, 6),
    (_meta_get, 14),
    (_meta_set, 12),
    (_meta_delete, 6),
    (_meta_arithmetic, 7),
    (_meta_debug, 1),
]


def generate(rng, count, stepwise):
    """`count` commands.

    Only when they are sent one by one may a command be malformed, refer to a token or show one: how much of its input
    memcached drops after an error depends on how much of it has arrived.
    """
    rng = (Rude if stepwise else Polite)(rng.randrange(1 << 64))
    forms, weights = zip(*(pair for pair in FORMS if stepwise or pair[0] is not _garbage))
    return [form(rng, stepwise) for form in rng.choices(forms, weights, k=count)]
