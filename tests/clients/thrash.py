"""Thrashes a cluster of its own under load: nodes die, freeze, answer late, corrupt and drop what they answer, never more at once
than may be lost; gateways die and freeze, all but one. Nothing acknowledged may be lost, stale or wrong, whoever is asked.

    thrash.py [--seconds 60] [--gateways 3] [--seed N]

Every worker has keys of its own and asks one gateway after the other. A write whose outcome is unknown (its connection broke,
or the server said so) leaves more than one value that the key may have, in the order in which they were written; a read that
shows one of them rules out the older ones. It may also be under way still, and take effect once later. Errors are counted,
not judged: while a gateway is away there must be some.
"""

import argparse
import os
import random
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import cluster  # noqa: E402  (the path must be set first)

WORKERS = 6
KEYS_PER_WORKER = 400
NODES = 9
LOSSES_MAX = 2
GATEWAY_DEATHS_MAX = 3
# Of a worker's steps, how many begin with another gateway.
WANDERING = 0.01
# Around what is packed, what is striped, and what fills chunks.
VALUE_SIZES = [0, 1, 31, 100, 100, 100, 1000, 4000, 8191, 8192, 8193, 16_300, 65_280, 200_000]
ABSENT = None
FAULTS = [
    "slow {node} --delay 20ms",
    "slow {node} --tail 5%:100ms",
    "slow {node} --bandwidth 1MiB",
    "stall {node} --duty 50ms/2ms",
    "corrupt {node} --share 20%",
    "drop {node} --share 2%",
    "drop {node} --share 5% --reset",
]


class Wrong(Exception):
    """A key that does not have a value it may have."""


class Worker(threading.Thread):
    """One connection, its keys, and the values that each may have, oldest first."""

    def __init__(self, number, servers, seed, deadline):
        super().__init__()
        self.number, self.servers, self.deadline = number, servers, deadline
        self.random = random.Random(seed * WORKERS + number)
        self.possible = {}
        # What may still be under way to the key's owner.
        self.late = {}
        self.done, self.unknown, self.refused, self.problem = 0, 0, 0, None
        self.stream = None

    def run(self):
        try:
            while time.monotonic() < self.deadline:
                self.step()
        except Exception as error:  # whatever it is, the run has failed
            self.problem = f"worker {self.number} after {self.done} operations: {type(error).__name__}: {error}"

    def step(self):
        key = b"thrash:%d:%d" % (self.number, self.random.randrange(KEYS_PER_WORKER))
        if self.random.random() < WANDERING:
            self.stream = None
        chance = self.random.random()
        if chance < 0.5:
            self.read(key)
        elif chance < 0.9:
            value = self.random.randbytes(self.random.choice(VALUE_SIZES))
            self.write(key, b"set %s 0 0 %d\r\n%s\r\n" % (key, len(value), value), value, [b"STORED\r\n"])
        else:
            self.write(key, b"delete %s\r\n" % key, ABSENT, [b"DELETED\r\n", b"NOT_FOUND\r\n"])
        self.done += 1

    def connection(self):
        give_up = time.monotonic() + 60
        while self.stream is None:
            try:
                self.stream = cluster.connect(self.random.choice(self.servers.gateways)).makefile("rwb")
            except OSError:
                if time.monotonic() > give_up:
                    raise
                time.sleep(0.02)
        return self.stream

    def write(self, key, command, value, answers):
        before = self.possible.get(key, [ABSENT])
        late = self.late.setdefault(key, [])
        try:
            stream = self.connection()
            stream.write(command)
            stream.flush()
            line = stream.readline()
        except OSError:
            line = b""
        if line in answers:
            if line == b"NOT_FOUND\r\n" and ABSENT not in before + late or line == b"DELETED\r\n" and before == [ABSENT] and not late:
                raise Wrong(f"{key!r}: {line!r} although it was {describe(before)}")
            self.possible[key] = [value]
        elif not line or b"unknown" in line:
            self.unknown += 1
            self.possible[key] = before + [value]
            late.append(value)
            if not line:
                self.stream = None
        elif line.startswith(b"SERVER_ERROR"):
            self.refused += 1
        else:
            raise Wrong(f"{key!r}: {line!r}")

    def read(self, key):
        try:
            value = self.fetch(key)
        except OSError:
            self.stream, self.unknown = None, self.unknown + 1
            return
        if isinstance(value, str):
            self.refused += 1
            return
        before, late = self.possible.get(key, [ABSENT]), self.late.get(key, [])
        if value not in before + late:
            raise Wrong(f"{key!r}: wanted {describe(before + late)}, got {describe([value])}")
        self.possible[key] = before[before.index(value):] if value in before else [value]
        if value in late:
            late.remove(value)

    def fetch(self, key):
        """The value, ABSENT, or a string: what the server says instead."""
        stream = self.connection()
        stream.write(b"get %s\r\n" % key)
        stream.flush()
        line = stream.readline()
        if line == b"END\r\n":
            return ABSENT
        if line.startswith(b"SERVER_ERROR"):
            return line.decode()
        words = line.split()
        if len(words) != 4:
            raise OSError("the connection broke") if not line else Wrong(f"get {key!r}: {line!r}")
        size = int(words[3])
        value = stream.read(size + 7)
        if len(value) < size + 7:
            raise OSError("the connection broke")
        return value[:size]


def describe(values):
    return " or ".join("nothing" if value is ABSENT else f"{len(value)} B {value[:8].hex()}" for value in values)


class Thrasher:
    """Breaks one thing after another, and mends most of them."""

    def __init__(self, servers, seed):
        self.servers, self.random = servers, random.Random(seed)
        self.dead, self.hurt = set(), {}
        self.gateway_deaths = 0
        # Frozen gateways by their pid, with the time of their thaw.
        self.frozen = {}
        self.log = []

    def run(self, deadline):
        while time.monotonic() < deadline:
            self.mend()
            self.break_something()
            time.sleep(self.random.uniform(0.1, 1.5))
        self.mend(everything=True)

    def break_something(self):
        chance = self.random.random()
        if chance < 0.1:
            self.hurt_gateway()
        elif len(self.dead) + len(self.hurt) < LOSSES_MAX:
            nodes = [node for node in self.servers.status()["nodes"] if node["id"] not in self.dead | self.hurt.keys()]
            node = self.random.choice([node for node in nodes if cluster.is_alive(node["pid"])])
            if chance < 0.15:
                os.kill(node["pid"], signal.SIGKILL)
                self.dead.add(node["id"])
                self.note(f"node {node['id']} killed")
            elif chance < 0.4:
                os.kill(node["pid"], signal.SIGSTOP)
                self.hurt[node["id"]] = (time.monotonic() + self.random.choice([0.05, 0.3, 1, 4]), node["pid"])
                self.note(f"node {node['id']} frozen")
            else:
                fault = self.random.choice(FAULTS).format(node=node["id"])
                self.servers.chaos(fault)
                self.hurt[node["id"]] = (time.monotonic() + self.random.uniform(0.2, 4), None)
                self.note(fault)

    def mend(self, everything=False):
        for node, (until, frozen_pid) in list(self.hurt.items()):
            if everything or time.monotonic() > until:
                if frozen_pid is None:
                    self.servers.chaos(f"clear {node}")
                else:
                    os.kill(frozen_pid, signal.SIGCONT)
                del self.hurt[node]
                self.note(f"node {node} mended")
        for pid, until in list(self.frozen.items()):
            if everything or time.monotonic() > until:
                os.kill(pid, signal.SIGCONT)
                del self.frozen[pid]
                self.note(f"gateway of pid {pid} goes on")

    def hurt_gateway(self):
        gateways = [gateway for gateway in self.servers.status()["gateways"] if gateway["serving"] and cluster.is_alive(gateway["pid"])]
        awake = [gateway["pid"] for gateway in gateways if gateway["pid"] not in self.frozen]
        if not awake:
            return
        pid = self.random.choice(awake)
        if len(awake) > 1 and self.random.random() < 0.5:
            os.kill(pid, signal.SIGSTOP)
            self.frozen[pid] = time.monotonic() + self.random.choice([0.3, 1, 3, 8])
            self.note(f"gateway of pid {pid} frozen")
        elif self.gateway_deaths < GATEWAY_DEATHS_MAX:
            os.kill(pid, signal.SIGKILL)
            self.gateway_deaths += 1
            self.note(f"gateway of pid {pid} killed")

    def note(self, text):
        self.log.append(f"{time.monotonic():.3f} {text}")


def run(arguments, seed):
    flags = ["--nodes", str(NODES), "--node-memory", "128MiB", "--allow-chaos", "--gateways", str(arguments.gateways)]
    servers = cluster.Cluster(flags)
    servers.gateways = [gateway["memcached"] for gateway in servers.status()["gateways"]]
    # What was frozen must not outlive a run that fails.
    thrasher = Thrasher(servers, seed)
    try:
        deadline = time.monotonic() + arguments.seconds
        workers = [Worker(number, servers, seed, deadline) for number in range(WORKERS)]
        for worker in workers:
            worker.start()
        thrasher.run(deadline)
        for worker in workers:
            worker.join()
        complaints = [worker.problem for worker in workers if worker.problem]
        for worker in workers:
            for key in [key for key in worker.possible if not worker.problem]:
                refused = worker.refused
                try:
                    worker.read(key)
                except Wrong as error:
                    complaints.append(str(error))
                if worker.refused > refused:
                    complaints.append(f"{key!r}: cannot be read although all is mended")
    finally:
        thrasher.mend(everything=True)
        servers.pids = [pid for pid in servers.pids if cluster.is_alive(pid)]
        servers.stop()
    for line in thrasher.log + complaints[:20] if complaints else []:
        print(f"    {line}")
    total = {name: sum(getattr(worker, name) for worker in workers) for name in ("done", "unknown", "refused")}
    verdict = "not ok" if complaints else "ok"
    print(
        f"{verdict} seed {seed}: {len(complaints)} complaints, {total['done']} operations, {total['unknown']} of unknown outcome, "
        f"{total['refused']} refused, {len(thrasher.log)} events, {len(thrasher.dead)} nodes and {thrasher.gateway_deaths} gateways killed",
        flush=True,
    )
    return not complaints


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--gateways", type=int, default=3)
    parser.add_argument("--seed", type=int)
    return cluster.run_rounds(parser.parse_args(), run, [Wrong])


if __name__ == "__main__":
    sys.exit(main())
