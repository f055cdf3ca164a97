"""Clients of the Redis protocol that write down what they asked and what they were told, as those of memcached do, of the same keys.

SET, SET NX, SET XX, GET and DEL are their set, add, replace, get and delete. APPEND and INCRBY begin with nothing where nothing is:
a history has other names for that.

Must not know: what is done to the cluster meanwhile.
"""

from recorded import ABSENT, Client, number_in
from recorded_values import BYTES, kind_of, name_of

VALUE_BYTES_MAX = 1 << 20


def command_of(*words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def integer_in(line):
    return number_in(line[1:]) if line.startswith(b":") else None


class RedisClient(Client):
    UNKNOWN = (b"-ERR outcome unknown",)
    # Nothing was done: try again, too few nodes, no memory, not let in yet; or more nodes are missed than may be.
    REFUSED = (b"-TRYAGAIN ", b"-NOREPLICAS ", b"-OOM ", b"-LOADING ", b"-ERR too many nodes failed")
    FULL = b"-OOM "
    NOTHING, VALUE_END = b"$-1\r\n", b"\r\n"
    TOO_LONG = b"-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n"

    def value_bytes_max(self, key):
        return VALUE_BYTES_MAX

    # There is no comparison, and touching is reading.
    STEPS = {**Client.STEPS, BYTES: {"get": 49, "set": 26, "add": 8, "replace": 8, "delete": 9}}

    def store(self, key, verb, value):
        condition, refusal = {"add": ([b"NX"], "exists"), "replace": ([b"XX"], "absent")}.get(verb, ([], None))
        answers = {b"+OK\r\n": "stored", b"$-1\r\n": refusal}
        command = command_of(b"SET", key, value, *condition)
        self.write(key, verb, name_of(value, kind_of(key)), command, answers.get, self.is_long(key, value))

    def append(self, key, tail):
        self.write(key, "extend", name_of(tail, kind_of(key)), command_of(b"APPEND", key, tail), integer_in)

    def count_up(self, key, more):
        self.write(key, "count", f"{more}", command_of(b"INCRBY", key, b"%d" % more), integer_in)

    def delete(self, key):
        self.write(key, "delete", ABSENT, command_of(b"DEL", key), {b":1\r\n": "deleted", b":0\r\n": "absent"}.get)

    def reading(self, key):
        return command_of(b"GET", key)

    def size_told(self, line):
        return int(line[1:]) if line.startswith(b"$") else None
