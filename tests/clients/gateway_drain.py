"""How long keys are out of reach when the gateway that owns them hands them over: one of three, holding a third of many keys.

    gateway_drain.py [--keys 2000000] [--pause 0.002] [--rounds 3] [--bound-ms 100]

A cluster of its own is loaded; one gateway is drained while clients read and write keys of all partitions through all three
gateways, one after the other. Prints the longest answer before, while the successors prepared, and from the first second in which
partitions moved. A wrong value, an error, or a request that is not answered fails the run; with --bound-ms also an answer that took
longer while the gateway was drained.
"""

import json
import os
import random
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import cluster  # noqa: E402  (the path must be set first)
from gateway_death import Problem, load  # noqa: E402

CLIENTS_EACH = 8
KEYS_EACH = 64
BEFORE_SECONDS = 3
AFTER_SECONDS = 3
DRAIN_SECONDS_MAX = 120


class Client(threading.Thread):
    """Writes and reads its keys in turn through one gateway until it is told to end."""

    def __init__(self, number, address, pause):
        super().__init__(daemon=True)
        self.stream = cluster.connect(address).makefile("rwb")
        self.keys = [b"moved:%d:%d" % (number, key) for key in range(KEYS_EACH)]
        self.pause, self.is_over, self.problem = pause, False, None
        # When each answer was there, and how long it took.
        self.answers = []

    def ask(self, command, lines):
        began = time.monotonic()
        self.stream.write(command)
        self.stream.flush()
        answer = [self.stream.readline()]
        while len(answer) < lines and answer[-1].startswith((b"VALUE", b"value")):
            answer.append(self.stream.readline())
        ended = time.monotonic()
        self.answers.append((ended, ended - began))
        return answer

    def run(self):
        turn = 0
        while not self.is_over and not self.problem:
            turn += 1
            for key in self.keys:
                value = b"value %d of %s" % (turn, key)
                stored = self.ask(b"set %s 0 0 %d\r\n%s\r\n" % (key, len(value), value), 1)
                found = self.ask(b"get %s\r\n" % key, 3)
                if stored != [b"STORED\r\n"] or found[1:] != [value + b"\r\n", b"END\r\n"]:
                    self.problem = f"{key!r}: {stored!r}, {found!r}"
                    return
                time.sleep(self.pause)


def one_round(arguments, seed):
    servers = cluster.Cluster(["--gateways", "3", "--node-memory", "512MiB"])
    try:
        gateways = servers.status()["gateways"]
        load(servers.memcached, arguments.keys)
        victim = random.Random(seed).choice(gateways)["id"]
        clients = [Client(number, gateways[number % 3]["memcached"], arguments.pause) for number in range(3 * CLIENTS_EACH)]
        for client in clients:
            client.start()
        time.sleep(BEFORE_SECONDS)
        began = time.monotonic()
        # Ends when the gateway owns nothing.
        drain = [cluster.binary_path(), "drain", "gateway", str(victim), "--admin", servers.admin]
        subprocess.run(drain, stdout=subprocess.DEVNULL, check=True, timeout=DRAIN_SECONDS_MAX)
        ended = time.monotonic()
        time.sleep(AFTER_SECONDS)
        cluster.let_end(clients)
    finally:
        servers.stop()
    answers = [answer for client in clients for answer in client.answers]
    longest = lambda first, last: max((took for at, took in answers if first <= at < last), default=0.0)  # noqa: E731
    stall = longest(began, ended + 1)
    complaints = cluster.over_bound(arguments, stall) + [client.problem for client in clients if client.problem]
    for complaint in complaints[:5]:
        print(f"    {complaint}")
    verdict = "not ok" if complaints else "ok"
    print(
        f"{verdict} seed {seed}: gateway {victim} of three drained in {ended - began:.2f} s, {arguments.keys} keys: longest answer "
        f"{stall * 1000:.0f} ms (before: {longest(began - BEFORE_SECONDS + 1, began) * 1000:.0f} ms; after: "
        f"{longest(ended + 1, ended + AFTER_SECONDS) * 1000:.0f} ms) of {len(answers)}, {len(complaints)} complaints",
        flush=True,
    )
    if arguments.timeline:
        with open(arguments.timeline, "w", encoding="utf-8") as out:
            json.dump({"drain": [began, ended], "answers": sorted(answers)}, out)
    return not complaints


def main():
    parser = cluster.rounds_parser(__doc__)
    parser.add_argument("--keys", type=int, default=2_000_000)
    parser.add_argument("--pause", type=float, default=0.002, help="seconds between two keys of a client")
    cluster.add_bound(parser, "an answer during the drain")
    parser.add_argument("--timeline", help="file for the time of every answer")
    return cluster.run_rounds(parser.parse_args(), one_round, [Problem, subprocess.SubprocessError])


if __name__ == "__main__":
    sys.exit(main())
