"""One of three gateways stands still (SIGSTOP) for ten seconds under reads and writes, and wakes: nothing stale, nothing lost.

    gateway_stop.py [--stop 10] [--beside KEYS] [--rounds 3] [--keep FILE]

Clients share their keys and use all three gateways, the one that stands still too: what was sent there is answered when it wakes,
if at all. Before that the others must have taken over: of the keys that it owned some are asked for and answered. With --beside
other keys lie beside theirs, which whoever takes over has to read. Every operation is written down, those of unknown outcome as
well, and judged by the linearizability checker; then by porcupine, if it is there. An error is a failure before anything stands
still, and, to clients of the other gateways, a little after it woke; and so is a request that is not answered at all, whenever.
"""

import binascii
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
# Then whoever has anything to hand over to the one that woke does so without an error.
SETTLED_SECONDS = 3
# Until every thread of a process stands still.
STILL_SECONDS = 0.2
SLOTS = 16384


def owned(keys, gateway, partitions):
    """Those whose partition the gateway owns: a partition is a run of slots."""
    numbers = {number for tenure in gateway["tenures"] for number in tenure["partitions"]}
    return {key for key in keys if binascii.crc_hqx(key, 0) % SLOTS * partitions // SLOTS in numbers}


def answered(clients, first, last):
    """The key of each operation that was asked and answered between these times, in nanoseconds."""
    found = []
    for client in clients:
        for line in client.lines:
            key, _, _, _, called, told, outcome, _ = line.split("\t")
            if outcome == "ok" and first <= int(called) and int(told) <= last:
                found.append(key.encode())
    return found


def not_taken_over(keys_owned, keys_answered):
    """What is to be said if nobody was served with what the gateway owned that stood still."""
    if any(key in keys_owned for key in keys_answered):
        return []
    return [f"none of {len(keys_answered)} answers while it stood still was of one of the {len(keys_owned)} keys that it owned"]


def unexcused(clients, others, stops, wakes):
    """What is to be said of errors that no gateway's standing still explains; `others`: those of the clients that never ask it; when
    it is stopped and woken, in seconds."""
    early = [error for client in clients for error in client.errors if error.told < stops]
    late = [error for client in others for error in client.errors if error.asked > wakes + SETTLED_SECONDS]
    never = [error for client in clients for error in client.errors if error.met == recorded.UNANSWERED]
    whens = {"before anything stood still": early, "of another gateway, long after it woke": late, "that were not answered at all": never}
    return [f"{len(errors)} errors {when}, at {', '.join(map(str, errors[:5]))}" for when, errors in whens.items() if errors]


def one_round(arguments, seed):
    servers = cluster.Cluster(["--gateways", "3", *(["--node-memory", "512MiB"] if arguments.beside else [])])
    try:
        if arguments.beside:
            load(servers.memcached, arguments.beside)
        status = servers.status()
        gateways = status["gateways"]
        addresses = [gateway["memcached"] for gateway in gateways]
        keys = [b"key:%d" % number for number in range(KEYS)]
        # Each has an address of its own, so that some ask the gateway that stands still.
        clients = [recorded.Client(number, [addresses[number % 3]], keys, seed, 0.004) for number in range(3 * CLIENTS_EACH)]
        for client in clients:
            client.start()
        time.sleep(BEFORE_SECONDS)
        victim = random.Random(seed).choice(gateways)
        others = [client for client in clients if client.addresses != [victim["memcached"]]]
        stops = time.monotonic()
        os.kill(victim["pid"], signal.SIGSTOP)
        time.sleep(STILL_SECONDS)
        still = time.monotonic_ns()
        time.sleep(arguments.stop - STILL_SECONDS)
        wakes = time.monotonic_ns()
        os.kill(victim["pid"], signal.SIGCONT)
        time.sleep(AFTER_SECONDS)
        cluster.let_end(clients)
        last, unreadable = recorded.read_back(addresses[0], keys)
    finally:
        servers.stop()
    keys_owned, meanwhile = owned(keys, victim, status["partitions"]), answered(others, still, wakes)
    path = arguments.keep or os.path.join(tempfile.gettempdir(), f"shorttail-history-{os.getpid()}")
    recorded.write_history(path, clients, last)
    problems, said = recorded.judge(path)
    if not arguments.keep:
        os.remove(path)
    problems += [client.problem for client in clients if client.problem] + [f"{key} cannot be read" for key in unreadable]
    problems += not_taken_over(keys_owned, meanwhile) + unexcused(clients, others, stops, wakes / 1e9)
    return cluster.tell_round(
        seed,
        problems,
        f"gateway {victim['id']} of three stood still for {arguments.stop:.0f} s, {arguments.beside} keys beside; {recorded.summary(clients)}; the others' "
        f"clients were answered {len(meanwhile)} times meanwhile, {sum(key in keys_owned for key in meanwhile)} times of keys that it had owned; "
        f"{'; '.join(said)}",
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
