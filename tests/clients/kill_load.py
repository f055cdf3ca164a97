"""Load on a cluster of its own while nodes get SIGKILL: nothing acknowledged may be lost or wrong, and no client sees an error.

    kill_load.py [--operations 60000] [--together] [--rounds 1] [--bound-ms 20]

Several connections, half memcached and half Redis, each with keys of its own and so with exact knowledge of what they hold,
set, overwrite, append, count, delete and read. At a third and at a half of the operations a node is killed (--together: both
at a third). At the end every key is read back over both protocols. The worst operation is printed, and
with --bound-ms it must not take longer.
"""

import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import cluster  # noqa: E402  (the path must be set first)

WORKERS = 6
KEYS_PER_WORKER = 1500
KILLS = 2
VALUE_SIZES = [0, 1, 10, 32, 100, 100, 100, 1000, 1000, 4000]
LARGE_SIZE = 200_000
LARGE_CHANCE = 0.004


class Problem(Exception):
    """A client saw an error or a wrong value."""


class Memcached:
    """The five operations over memcached's text protocol."""

    def __init__(self, address):
        self.stream = cluster.connect(address).makefile("rwb")

    def _ask(self, data, wanted):
        self.stream.write(data)
        self.stream.flush()
        line = self.stream.readline()
        if line not in wanted:
            raise Problem(f"{data[:60]!r}: {line!r}")
        return line

    def set(self, key, value):
        self._ask(b"set %s 0 0 %d\r\n%s\r\n" % (key, len(value), value), [b"STORED\r\n"])

    def append(self, key, value):
        return self._ask(b"append %s 0 0 %d\r\n%s\r\n" % (key, len(value), value), [b"STORED\r\n", b"NOT_STORED\r\n"]) == b"STORED\r\n"

    def delete(self, key):
        return self._ask(b"delete %s\r\n" % key, [b"DELETED\r\n", b"NOT_FOUND\r\n"]) == b"DELETED\r\n"

    def get(self, key):
        self.stream.write(b"get %s\r\n" % key)
        self.stream.flush()
        line = self.stream.readline()
        if line == b"END\r\n":
            return None
        words = line.split()
        if len(words) != 4 or words[:2] != [b"VALUE", key]:
            raise Problem(f"get {key!r}: {line!r}")
        value = self.stream.read(int(words[3]))
        if self.stream.read(7) != b"\r\nEND\r\n":
            raise Problem(f"get {key!r}: no end")
        return value


class Redis:
    """The same operations over RESP2."""

    def __init__(self, address):
        self.stream = cluster.connect(address).makefile("rwb")

    def _ask(self, *parts):
        self.stream.write(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts))
        self.stream.flush()
        line = self.stream.readline()
        if line[:1] == b"$":
            size = int(line[1:])
            return None if size < 0 else self.stream.read(size + 2)[:-2]
        if line[:1] not in (b"+", b":"):
            raise Problem(f"{parts[:2]!r}: {line!r}")
        return line[1:-2]

    def set(self, key, value):
        if self._ask(b"SET", key, value) != b"OK":
            raise Problem(f"SET {key!r}")

    def append(self, key, value):
        # memcached's append wants a value to be there.
        return self._ask(b"EXISTS", key) == b"1" and int(self._ask(b"APPEND", key, value)) >= len(value)

    def delete(self, key):
        return self._ask(b"DEL", key) == b"1"

    def get(self, key):
        return self._ask(b"GET", key)


class Worker(threading.Thread):
    """One connection and the truth about its keys."""

    def __init__(self, number, servers, operations, seed):
        super().__init__()
        self.number, self.operations = number, operations
        self.client = Redis(servers.redis) if number % 2 else Memcached(servers.memcached)
        self.random = random.Random(seed * WORKERS + number)
        self.truth = {}
        self.done, self.worst, self.problem = 0, 0.0, None

    def run(self):
        try:
            while self.done < self.operations:
                start = time.monotonic()
                self._step()
                self.worst = max(self.worst, time.monotonic() - start)
                self.done += 1
        except (Problem, OSError, ValueError) as error:
            self.problem = f"worker {self.number} after {self.done} operations: {type(error).__name__}: {error}"
            self.done = self.operations

    def _value(self):
        size = LARGE_SIZE if self.random.random() < LARGE_CHANCE else self.random.choice(VALUE_SIZES)
        return self.random.randbytes(size)

    def _step(self):
        key = b"load:%d:%d" % (self.number, self.random.randrange(KEYS_PER_WORKER))
        known = self.truth.get(key)
        chance = self.random.random()
        if chance < 0.45:
            self._expect(key, self.client.get(key), known)
        elif chance < 0.80:
            value = self._value()
            self.client.set(key, value)
            self.truth[key] = value
        elif chance < 0.92:
            self._expect(key, self.client.delete(key), known is not None)
            self.truth.pop(key, None)
        elif known is None or len(known) < LARGE_SIZE:
            self._expect(key, self.client.append(key, b"+tail"), known is not None)
            if known is not None:
                self.truth[key] = known + b"+tail"

    @staticmethod
    def _expect(key, got, wanted):
        if got != wanted:
            raise Problem(f"{key!r}: wanted {str(wanted)[:80]}, got {str(got)[:80]}")


def read_back(workers, servers):
    """Complaints about keys that are lost, wrong, or risen from the dead."""
    complaints = []
    one_store = isinstance(servers, cluster.Cluster)
    for client in (Memcached(servers.memcached), Redis(servers.redis)):
        for worker in workers:
            if worker.problem or not (one_store or isinstance(worker.client, type(client))):
                continue
            for index in range(KEYS_PER_WORKER):
                key = b"load:%d:%d" % (worker.number, index)
                wanted, got = worker.truth.get(key), client.get(key)
                if got != wanted:
                    complaints.append(f"{type(client).__name__} {key!r}: wanted {str(wanted)[:60]}, got {str(got)[:60]}")
    return complaints


def one_round(arguments, seed):
    servers = cluster.start(os.environ.get("SHORTTAIL_SERVER", "ours"))
    try:
        workers = [Worker(number, servers, arguments.operations // WORKERS, seed) for number in range(WORKERS)]
        for worker in workers:
            worker.start()
        if isinstance(servers, cluster.Cluster):
            kills = [(3, KILLS)] if arguments.together else [(3, 1), (2, KILLS - 1)]
            for share, count in kills:
                goal = arguments.operations // share
                while sum(worker.done for worker in workers) < goal:
                    time.sleep(0.005)
                print(f"killed nodes {servers.kill_nodes(count)} after {sum(w.done for w in workers)} operations", flush=True)
        for worker in workers:
            worker.join()
        complaints = [worker.problem for worker in workers if worker.problem] + read_back(workers, servers)
    finally:
        servers.stop()
    worst = max(worker.worst for worker in workers)
    complaints = cluster.over_bound(arguments, worst) + complaints
    for complaint in complaints[:20]:
        print(f"    {complaint}")
    held = sum(len(worker.truth) for worker in workers)
    verdict = "not ok" if complaints else "ok"
    print(f"{verdict} seed {seed}: {len(complaints)} complaints, {held} keys read back twice, worst operation {worst * 1000:.1f} ms", flush=True)
    return not complaints


def main():
    parser = cluster.rounds_parser(__doc__)
    parser.add_argument("--operations", type=int, default=60_000)
    parser.add_argument("--together", action="store_true")
    cluster.add_bound(parser, "an operation")
    return cluster.run_rounds(parser.parse_args(), one_round, [Problem])


if __name__ == "__main__":
    sys.exit(main())
