"""How long keys are out of reach when the gateway that owns them hands them over: one of three, holding a third of many keys.

    gateway_drain.py [--keys 2000000] [--value-bytes 100] [--node-memory 512MiB] [--pause 0.002] [--rounds 3] [--bound-ms 100]

A cluster of its own is loaded; one gateway is drained while clients read and write keys of all partitions through all three
gateways, one after the other. Prints the longest answer before, since the drain began, and once it was over for a second. A wrong value,
an error, or a request that is not answered fails the run; with --bound-ms also an answer that took longer since the drain began.
"""

import json
import os
import random
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import asker  # noqa: E402  (the path must be set first)
import cluster  # noqa: E402  (the path must be set first)
from gateway_death import Problem, load  # noqa: E402

CLIENTS_EACH = 8
KEYS_EACH = 64
BEFORE_SECONDS = 3
AFTER_SECONDS = 3
DRAIN_SECONDS_MAX = 120


class Client(asker.Asker):
    """Writes and reads its keys."""

    def __init__(self, number, address, arguments):
        keys = [b"moved:%d:%d" % (number, key) for key in range(KEYS_EACH)]
        super().__init__(f"client {number}", address, keys, arguments.timeout)
        self.pause, self.turns = arguments.pause, 0

    def turn(self):
        self.turns += 1
        for key in self.keys:
            value = b"value %d of %s" % (self.turns, key)
            stored = self.ask(b"set %s 0 0 %d\r\n%s\r\n" % (key, len(value), value), 1)
            found = self.ask(b"get %s\r\n" % key, 3)
            if stored != [b"STORED\r\n"] or found[1:] != [value + b"\r\n", b"END\r\n"]:
                raise Problem(f"{key!r}: {stored!r}, {found!r}")
            time.sleep(self.pause)


def one_round(arguments, seed):
    servers = cluster.Cluster(["--gateways", "3", "--node-memory", arguments.node_memory])
    try:
        gateways = servers.status()["gateways"]
        load(servers.memcached, arguments.keys, arguments.value_bytes)
        victim = random.Random(seed).choice(gateways)["id"]
        clients = [Client(number, gateways[number % 3]["memcached"], arguments) for number in range(3 * CLIENTS_EACH)]
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
    stall = asker.longest(clients, began)
    complaints = cluster.over_bound(arguments, stall) + asker.problems(clients, ended)
    before, after = asker.longest(clients, began - BEFORE_SECONDS + 1, began), asker.longest(clients, ended + 1)
    answers = [wait for client in clients for wait in client.waits]
    if arguments.timeline:
        with open(arguments.timeline, "w", encoding="utf-8") as out:
            json.dump({"drain": [began, ended], "answers": sorted((told, told - asked) for asked, told in answers)}, out)
    return cluster.tell_round(
        seed,
        complaints,
        f"gateway {victim} of three drained in {ended - began:.2f} s, {arguments.keys} keys of {arguments.value_bytes} B: longest answer "
        f"{stall * 1000:.0f} ms (before: {before * 1000:.0f} ms; after: {after * 1000:.0f} ms) of {len(answers)}",
    )


def main():
    parser = cluster.rounds_parser(__doc__)
    parser.add_argument("--keys", type=int, default=2_000_000)
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument("--node-memory", default="512MiB")
    parser.add_argument("--pause", type=float, default=0.002, help="seconds between two keys of a client")
    cluster.add_bound(parser, "an answer since the drain began")
    asker.add_timeout(parser)
    parser.add_argument("--timeline", help="file for the time of every answer")
    return cluster.run_rounds(parser.parse_args(), one_round, [Problem, subprocess.SubprocessError])


if __name__ == "__main__":
    sys.exit(main())
