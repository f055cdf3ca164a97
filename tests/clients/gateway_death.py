"""How long keys are out of reach when the gateway that owns them dies: one of three, holding a third of many keys.

    gateway_death.py [--keys 2000000] [--kill KILL|STOP] [--nodes-down 0] [--rounds 3] [--bound-ms 3000]

A cluster of its own is loaded, and --nodes-down of its nodes are killed. The victim gets SIGKILL (or SIGSTOP for ten seconds)
while readers ask another gateway for keys of all partitions, one after the other. Requests for keys without an owner wait there, so the longest answer says how long
it took. Prints it. A wrong or missing value, an error, and a request that is not answered fail the run, and with --bound-ms an
answer that took longer, or the wait for one that never came.
"""

import os
import random
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import asker  # noqa: E402  (the path must be set first)
import cluster  # noqa: E402  (the path must be set first)

READERS = 32
PROBES = 512
BEFORE_SECONDS = 2
WATCHED_SECONDS = 14
STOPPED_SECONDS = 10


class Problem(Exception):
    """A promise was broken."""


class Reader(asker.Asker):
    """Reads its keys."""

    def turn(self):
        for key in self.keys:
            lines = self.ask(b"get %s\r\n" % key, 3)
            if lines[1:] != [b"value of %s\r\n" % key, b"END\r\n"]:
                raise Problem(f"{key!r}: {lines!r}")


def load(address, count, value_bytes=100):
    command = [cluster.binary_path(), "bench", "load", "--target", address, "--keys", str(count), "--value-size", str(value_bytes)]
    command += ["--preload", "--operations", "1000", "-c", "16", "--pipeline", "16"]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)


def one_round(arguments, seed):
    servers = cluster.Cluster(["--gateways", "3", "--node-memory", "512MiB"])
    try:
        gateways = {gateway["memcached"]: gateway["pid"] for gateway in servers.status()["gateways"]}
        load(servers.memcached, arguments.keys)
        keys = [b"probe:%d" % number for number in range(PROBES)]
        with cluster.connect(servers.memcached).makefile("rwb") as stream:
            for key in keys:
                value = b"value of %s" % key
                stream.write(b"set %s 0 0 %d\r\n%s\r\n" % (key, len(value), value))
                stream.flush()
                if stream.readline() != b"STORED\r\n":
                    raise Problem(f"{key!r} was not stored")
        servers.kill_nodes(arguments.nodes_down)
        victim = random.Random(seed).choice([address for address in gateways if address != servers.memcached])
        shares = [(f"reader {number}", keys[number::READERS]) for number in range(READERS)]
        readers = [Reader(name, servers.memcached, share, arguments.timeout) for name, share in shares]
        for reader in readers:
            reader.start()
        began = time.monotonic()
        time.sleep(BEFORE_SECONDS)
        killed = time.monotonic()
        if arguments.kill == "KILL":
            servers.kill(gateways[victim])
            time.sleep(WATCHED_SECONDS)
        else:
            os.kill(gateways[victim], signal.SIGSTOP)
            time.sleep(STOPPED_SECONDS)
            os.kill(gateways[victim], signal.SIGCONT)
            time.sleep(WATCHED_SECONDS - STOPPED_SECONDS)
        ended = time.monotonic()
        cluster.let_end(readers)
    finally:
        servers.stop()
    longest = asker.longest(readers, killed)
    complaints = cluster.over_bound(arguments, longest) + asker.problems(readers, ended)
    return cluster.tell_round(
        seed,
        complaints,
        f"SIG{arguments.kill} of one of three gateways, {arguments.keys} keys, {arguments.nodes_down} nodes down: longest answer {longest:.3f} s "
        f"(before: {asker.longest(readers, began, killed):.3f} s) of {sum(len(reader.waits) for reader in readers)}",
    )


def main():
    parser = cluster.rounds_parser(__doc__)
    parser.add_argument("--keys", type=int, default=2_000_000)
    parser.add_argument("--kill", choices=["KILL", "STOP"], default="KILL")
    parser.add_argument("--nodes-down", type=int, default=0, help="nodes that are dead before")
    cluster.add_bound(parser, "an answer after the kill")
    asker.add_timeout(parser)
    return cluster.run_rounds(parser.parse_args(), one_round, [Problem, subprocess.CalledProcessError])


if __name__ == "__main__":
    sys.exit(main())
