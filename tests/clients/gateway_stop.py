"""One of three gateways stands still (SIGSTOP) for ten seconds under reads and writes, and wakes: nothing stale, nothing lost.

    gateway_stop.py [--stop 10] [--beside KEYS] [--rounds 3] [--keep FILE]

Clients share their keys and use all three gateways, the one that stands still too: what was sent there is answered when it wakes,
if at all. With --beside other keys lie beside theirs, which whoever takes over has to read. Every operation is written down, those of
unknown outcome as well, and judged by the linearizability checker; then by porcupine, if it is there.
"""

import os
import random
import signal
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import cluster  # noqa: E402  (the path must be set first)
import recorded  # noqa: E402
from gateway_death import load  # noqa: E402

CLIENTS_EACH = 4
KEYS = 240
BEFORE_SECONDS = 3
AFTER_SECONDS = 5


def one_round(arguments, seed):
    servers = cluster.Cluster(["--gateways", "3", *(["--node-memory", "512MiB"] if arguments.beside else [])])
    stopped = None
    try:
        if arguments.beside:
            load(servers.memcached, arguments.beside)
        gateways = servers.status()["gateways"]
        addresses = [gateway["memcached"] for gateway in gateways]
        keys = [b"key:%d" % number for number in range(KEYS)]
        # Each has an address of its own, so that some ask the gateway that stands still.
        clients = [recorded.Client(number, [addresses[number % 3]], keys, seed, 0.004) for number in range(3 * CLIENTS_EACH)]
        for client in clients:
            client.start()
        time.sleep(BEFORE_SECONDS)
        victim = random.Random(seed).choice(gateways)
        stopped = victim["pid"]
        os.kill(stopped, signal.SIGSTOP)
        time.sleep(arguments.stop)
        others = [client for client in clients if client.addresses != [victim["memcached"]]]
        before_wake = sum(len(client.lines) for client in others)
        os.kill(stopped, signal.SIGCONT)
        stopped = None
        time.sleep(AFTER_SECONDS)
        cluster.let_end(clients)
        last, unreadable = recorded.read_back(addresses[0], keys)
    finally:
        if stopped:
            os.kill(stopped, signal.SIGCONT)
        servers.stop()
    path = arguments.keep or os.path.join(tempfile.gettempdir(), f"shorttail-history-{os.getpid()}")
    recorded.write_history(path, clients, last)
    problems, said = recorded.judge(path)
    if not arguments.keep:
        os.remove(path)
    problems += [client.problem for client in clients if client.problem] + [f"{key} cannot be read" for key in unreadable]
    return cluster.tell_round(
        seed,
        problems,
        f"gateway {victim['id']} of three stood still for {arguments.stop:.0f} s, {arguments.beside} keys beside; {recorded.summary(clients)}; the others' "
        f"clients did {before_wake} operations until it woke; {'; '.join(said)}",
    )


def main():
    parser = cluster.rounds_parser(__doc__)
    parser.add_argument("--stop", type=float, default=10)
    parser.add_argument("--beside", type=int, default=0, help="other keys in the store")
    parser.add_argument("--keep", help="file for the history")
    arguments = parser.parse_args()
    for what in recorded.what_lacks():
        cluster.say_not_tested(what)
    return cluster.run_rounds(arguments, one_round, [])


if __name__ == "__main__":
    sys.exit(main())
