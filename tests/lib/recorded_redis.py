"""Clients of the Redis protocol that write down what they asked and what they were told, as those of memcached do: SET, SET NX, GET
and DEL are their set, add, get and delete, of the same keys.

Must not know: what is done to the cluster meanwhile.
"""

from recorded import ABSENT, Client, name_of

VALUE_BYTES_MAX = 1 << 20


def command_of(*words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


class RedisClient(Client):
    UNKNOWN = (b"-ERR outcome unknown",)
    # Nothing was done: try again, too few nodes, no memory, not let in yet; or more nodes are missed than may be.
    REFUSED = (b"-TRYAGAIN ", b"-NOREPLICAS ", b"-OOM ", b"-LOADING ", b"-ERR too many nodes failed")
    FULL = b"-OOM "
    NOTHING, VALUE_END = b"$-1\r\n", b"\r\n"
    TOO_LONG = b"-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n"

    def value_bytes_max(self, key):
        return VALUE_BYTES_MAX

    def store(self, key, verb, value):
        condition = [b"NX"] if verb == "add" else []
        answers = {b"+OK\r\n": "stored", **({b"$-1\r\n": "exists"} if condition else {})}
        self.write(key, verb, name_of(value), command_of(b"SET", key, value, *condition), answers, self.is_long(key, value))

    def delete(self, key):
        self.write(key, "delete", ABSENT, command_of(b"DEL", key), {b":1\r\n": "deleted", b":0\r\n": "absent"})

    def reading(self, key):
        return command_of(b"GET", key)

    def size_told(self, line):
        return int(line[1:]) if line.startswith(b"$") else None
