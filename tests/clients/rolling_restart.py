"""All nodes and all gateways of a cluster are restarted under load, one after the other: nothing is missed, nobody sees an error.

    rolling_restart.py [--keys 4000] [--clients 6] [--signal TERM|KILL] [--settle 1] [--from PROGRAM] [--rounds 1]
                       [--raw FILE]

Nodes keep their memory in files. Clients, each with keys of its own, read and overwrite through all gateways; what breaks is a
connection to a gateway that is being restarted, and is asked again elsewhere. A node is restarted when the one before is back
and no chunk is missing; a gateway hands over what it owns before it ends. Every answer must be the value that was stored last.
While nodes are restarted no chunk may be rebuilt, since each has its memory again, and no connection may break. With SIGKILL nothing
is handed over, and a write that another gateway had passed on to the dead one may hear that its outcome is unknown, but while
gateways are restarted only: it is asked again, and counted. Reported:
hits, misses, errors, connections that broke and were made anew, chunks that were rebuilt, and the longest operation of each phase:
of all, in which the time to connect to another gateway and to ask it is contained, and of those whose connection stood.

With --from members begin as another build of ShortTail, and are restarted as this one: an upgrade. With --raw each round that passes
adds a line of JSON to the file: what was asked for, and what is reported, phase by phase.
"""

import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import cluster  # noqa: E402  (the path must be set first)

NODES, GATEWAYS = 8, 3
BACK_SECONDS_MAX = 60
RETRY_SECONDS_MAX = 20
SIZES = [10, 32, 100, 100, 300, 1000, 3000]
LARGE_SIZE, LARGE_CHANCE = 60_000, 0.01
READ_SHARE = 0.7


class Problem(Exception):
    """A promise was broken."""


class Client(threading.Thread):
    """One connection at a time, to any gateway, and the truth about its keys."""

    def __init__(self, number, addresses, keys, seed, may_be_unknown):
        super().__init__(daemon=True)
        self.random = random.Random(seed * 100 + number)
        self.addresses, self.at = addresses, number % len(addresses)
        self.keys = [b"client%d:%d" % (number, key) for key in range(keys)]
        self.truth, self.round, self.stream = {}, 0, None
        self.hits = self.sets = self.broken = self.unknown = 0
        self.may_be_unknown = may_be_unknown
        self.is_over, self.problem = False, None
        self.forget_longest()

    def forget_longest(self):
        """From now on the longest operations are looked for anew: of all, and of those whose connection stood."""
        self.longest = self.longest_unbroken = 0.0

    def load(self):
        for key in self.keys:
            self._set(key)

    def run(self):
        try:
            while not self.is_over:
                self.operate()
        except (Problem, OSError, ValueError) as error:
            self.problem = f"{type(error).__name__}: {error}"

    def operate(self):
        began, broken = time.monotonic(), self.broken
        key = self.random.choice(self.keys)
        if self.random.random() < READ_SHARE:
            self._get(key)
        else:
            self._set(key)
        took = time.monotonic() - began
        self.longest = max(self.longest, took)
        if self.broken == broken:
            self.longest_unbroken = max(self.longest_unbroken, took)

    def check_all(self):
        for key in self.keys:
            self._get(key)

    def _set(self, key):
        self.round += 1
        size = LARGE_SIZE if self.random.random() < LARGE_CHANCE else self.random.choice(SIZES)
        unit = b"%s is %d; " % (key, self.round)
        value = unit + (unit * (size // len(unit) + 1))[:size]
        began = time.monotonic()
        while True:
            answer = self._ask(b"set %s 0 0 %d\r\n%s\r\n" % (key, len(value), value), self._line)
            if not self.may_be_unknown or not answer.startswith(b"SERVER_ERROR outcome unknown"):
                break
            self.unknown += 1
            if time.monotonic() - began > RETRY_SECONDS_MAX:
                break
        if answer != b"STORED\r\n":
            raise Problem(f"set {key!r}: {answer!r}")
        self.truth[key] = value
        self.sets += 1

    def _get(self, key):
        found = self._ask(b"get %s\r\n" % key, self._value)
        if found != self.truth[key]:
            raise Problem(f"get {key!r}: {found[:60]!r}, not {self.truth[key][:60]!r}")
        self.hits += 1

    def _ask(self, request, read):
        """The answer; a connection that breaks is counted, and replaced by one to the next gateway."""
        began = time.monotonic()
        while True:
            try:
                if self.stream is None:
                    self.stream = cluster.connect(self.addresses[self.at]).makefile("rwb")
                self.stream.write(request)
                self.stream.flush()
                return read()
            except (ConnectionError, EOFError) as error:
                self.broken += self.stream is not None
                self.stream, self.at = None, (self.at + 1) % len(self.addresses)
                if time.monotonic() - began > RETRY_SECONDS_MAX:
                    raise Problem(f"no gateway answers: {error}") from error

    def _line(self):
        line = self.stream.readline()
        if not line.endswith(b"\n"):
            raise EOFError("the connection ended")
        return line

    def _value(self):
        line = self._line()
        words = line.split()
        if len(words) != 4 or words[0] != b"VALUE":
            raise Problem(f"no value: {line!r}")
        body = self.stream.read(int(words[3]) + 7)
        if len(body) < int(words[3]) + 7:
            raise EOFError("the connection ended")
        return body[:-7]


class Roll:
    """Restarts members, and watches what clients and repair make of it."""

    def __init__(self, servers, clients, arguments):
        self.servers, self.clients, self.arguments = servers, clients, arguments
        self.signal = getattr(signal, "SIG" + arguments.signal)
        self.phases = []

    def all(self):
        before = self.servers.status()
        nodes, gateways = before["nodes"], before["gateways"]
        self.quiet_phase("undisturbed", lambda: time.sleep(3 * self.arguments.settle))
        self.quiet_phase(f"{NODES} nodes", lambda: [self.node(node) for node in nodes])
        self.phase(f"{GATEWAYS} gateways", lambda: [self.gateway(gateway) for gateway in gateways])
        now = self.servers.status()
        stayed = {one["pid"] for one in nodes + gateways} & {one["pid"] for one in now["nodes"] + now["gateways"]}
        if stayed:
            raise Problem(f"processes {sorted(stayed)} were not restarted")

    def quiet_phase(self, name, act):
        """One in which no memory is lost, and no gateway dies: there is nothing to rebuild, no connection to break, and no outcome to
        be unknown."""
        rebuilt, broken, unknown = self.rebuilt(), self.broken(), self.unknown()
        self.phase(name, act)
        rebuilt, broken, unknown = self.rebuilt() - rebuilt, self.broken() - broken, self.unknown() - unknown
        if rebuilt or broken or unknown:
            what = f"{rebuilt} chunks were rebuilt, {broken} connections broke and {unknown} outcomes were unknown"
            raise Problem(f"{name}: {what}, though no memory was lost, and no gateway died")

    def phase(self, name, act):
        for client in self.clients:
            client.forget_longest()
        before, began, rebuilt, broken = self.operations(), time.monotonic(), self.rebuilt(), self.broken()
        act()
        took, count = time.monotonic() - began, self.operations() - before
        # What dead gateways told is not in the sum any more.
        rebuilt, broken = max(self.rebuilt() - rebuilt, 0), self.broken() - broken
        longest, unbroken = (max(getattr(client, which) for client in self.clients) for which in ("longest", "longest_unbroken"))
        self.phases.append(
            {
                "name": name,
                "seconds": round(took, 3),
                "operations": count,
                "longest_ms": round(longest * 1000, 1),
                "longest_unbroken_ms": round(unbroken * 1000, 1),
                "chunks_rebuilt": rebuilt,
                "connections_broken": broken,
            }
        )
        print(
            f"    {name}: {took:.1f} s, {count} operations, longest {longest * 1000:.0f} ms, of those whose connection stood "
            f"{unbroken * 1000:.0f} ms, {rebuilt} chunks rebuilt, {told_broken(broken)}",
            flush=True,
        )

    def node(self, node):
        self.servers.kill(node["pid"], self.signal)
        self.await_whole(f"node {node['id']} is back", lambda now: self.is_new(now["nodes"], node))

    def gateway(self, gateway):
        self.servers.kill(gateway["pid"], self.signal)
        self.await_whole(
            f"there is a gateway for {gateway['id']}",
            lambda now: len(now["gateways"]) == GATEWAYS and all(one["pid"] != gateway["pid"] for one in now["gateways"]),
        )

    @staticmethod
    def is_new(nodes, before):
        return any(node["id"] == before["id"] and node["pid"] != before["pid"] for node in nodes)

    def await_whole(self, what, is_there):
        """Until the member is there and all is as before: everything is reached and served, no chunk is missing."""

        def is_whole():
            self.check()
            now = self.servers.status()
            nodes = all(node["state"] == "normal" for node in now["nodes"]) and len(now["nodes"]) == NODES
            serving = all(one["serving"] and one["tenures"] and not one["nodes_unreached"] for one in now["gateways"])
            is_repaired = now["repair"]["chunks_missing"] == 0 and now["partitions_served"] == now["partitions"]
            return is_there(now) and nodes and serving and is_repaired

        cluster.wait_until(is_whole, BACK_SECONDS_MAX, what)
        time.sleep(self.arguments.settle)
        self.check()

    def check(self):
        for client in self.clients:
            if client.problem:
                raise Problem(client.problem)

    def operations(self):
        return sum(client.hits + client.sets for client in self.clients)

    def rebuilt(self):
        return self.servers.status()["repair"]["chunks_rebuilt_total"]

    def broken(self):
        return sum(client.broken for client in self.clients)

    def unknown(self):
        return sum(client.unknown for client in self.clients)


def told_broken(count):
    return f"{count} connection{'s' * (count != 1)} broke and {'were' if count != 1 else 'was'} made anew"


def add_raw(arguments, seed, phases, totals):
    """Adds what a round was to the file of --raw, a line each."""
    if arguments.raw is None:
        return
    asked = {name: getattr(arguments, name) for name in ("keys", "clients", "signal", "settle")}
    asked["is_upgrade"] = arguments.previous is not None
    round_ = {"seed": seed, "nodes": NODES, "gateways": GATEWAYS, **asked, **totals, "phases": phases}
    with open(arguments.raw, "a", encoding="utf-8") as out:
        out.write(json.dumps(round_) + "\n")


def one_round(arguments, seed):
    options = ["--nodes", str(NODES), "--gateways", str(GATEWAYS), "--code", "rs:4+2", "--node-memory", "64MiB", "--memory-file"]
    options += ["--node-threads", "2", "--gateway-threads", "2"]
    with tempfile.TemporaryDirectory(prefix="rolling-restart-") as directory:
        # Members are restarted as what lies there then.
        program = install(arguments.previous or cluster.binary_path(), directory)
        roll(cluster.Cluster(options, program), arguments, seed, directory)
    return True


def install(program, directory):
    """Puts it into the place of what lies there, which may be running."""
    place = os.path.join(directory, "shorttail")
    shutil.copy(program, place + ".new")
    os.rename(place + ".new", place)
    return place


def roll(servers, arguments, seed, directory):
    clients = []
    try:
        addresses = [gateway["memcached"] for gateway in servers.status()["gateways"]]
        keys = arguments.keys // arguments.clients
        clients = [Client(number, addresses, keys, seed, arguments.signal == "KILL") for number in range(arguments.clients)]
        for client in clients:
            client.load()
        for client in clients:
            client.start()
        install(cluster.binary_path(), directory)
        rolled = Roll(servers, clients, arguments)
        rolled.all()
        cluster.let_end(clients)
        rolled.check()
        for client in clients:
            client.check_all()
    finally:
        for client in clients:
            client.is_over = True
        servers.stop()
    counts = ("hits", "sets", "broken", "unknown")
    hits, sets, broken, unknown = (sum(getattr(client, name) for client in clients) for name in counts)
    add_raw(
        arguments,
        seed,
        rolled.phases,
        {"hits": hits, "misses": 0, "sets": sets, "errors": 0, "connections_broken": broken, "outcomes_unknown": unknown},
    )
    print(
        f"ok seed {seed}: SIG{arguments.signal} of {NODES} nodes and {GATEWAYS} gateways, {hits} hits, 0 misses, {sets} sets, 0 errors, "
        f"{told_broken(broken)}, {unknown} writes heard that their outcome is unknown",
        flush=True,
    )


def main():
    parser = cluster.rounds_parser(__doc__)
    parser.add_argument("--keys", type=int, default=4000)
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--signal", choices=["TERM", "KILL"], default="TERM")
    parser.add_argument("--settle", type=float, default=1.0)
    parser.add_argument("--from", dest="previous", help="the program that members begin as")
    parser.add_argument("--raw", help="file to which each round that passes adds what was seen, a line of JSON")
    return cluster.run_rounds(parser.parse_args(), one_round, [Problem])


if __name__ == "__main__":
    sys.exit(main())
