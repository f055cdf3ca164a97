"""Two nodes join eight that are filled, while clients write and read: memory is level afterwards, and only what had to move was moved.

    nodes_added.py [--keys 1000000] [--value-bytes 1000] [--node-memory 256MiB] [--pause 0.01] [--rounds 3] [--bound]

Prints how far from the mean the memory of a node is at most, what was moved, and what the new nodes hold, which is what had to move as
far as it was not written there. A wrong value, an error, and a request that is not answered fail the run; with --bound also
more moved than 1.1 times what the new ones hold. It ends when each node is within 10 % of the mean, and fails if that does not come.
"""

import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import asker  # noqa: E402  (the path must be set first)
import cluster  # noqa: E402
from gateway_death import Problem, load  # noqa: E402
from gateway_drain import CLIENTS_EACH, Client  # noqa: E402

JOINED = 2
AWAY_MAX = 0.10
MOVED_MAX = 1.1
LEVEL_SECONDS_MAX = 300
# It stays so if nothing moves for so many looks.
CALM_LOOKS = 20


class Joined:
    """Nodes as somebody would start them in another terminal."""

    def __init__(self, servers, memory):
        coordinator = servers.status()["coordinator"]["name"].split(" on ")[0]
        command = [cluster.binary_path(), "node", "--coordinator", coordinator, "--memory", memory, "--listen"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
        places = [f"unix:{os.path.join(servers.directory.name, f'joined-{number}')}" for number in range(JOINED)]
        self.processes = [subprocess.Popen([*command, place], **quiet) for place in places]

    def stop(self):
        """Ends all; raises if one had ended by itself, or will not end."""
        ended = [process.returncode for process in self.processes if process.poll() is not None]
        for process in self.processes:
            process.terminate()
        try:
            for process in self.processes:
                process.wait(cluster.STOP_SECONDS_MAX)
        finally:
            for process in self.processes:
                process.kill()
                process.wait()
        if ended:
            raise Problem(f"nodes that joined ended by themselves, with {ended}")


def used(status):
    return {node["id"]: node["memory_used_bytes"] for node in status["nodes"]}


def away_from_mean(status):
    """By how much of the mean the memory of a node differs from it at most."""
    mean = sum(used(status).values()) / len(status["nodes"])
    return max(abs(bytes_used - mean) for bytes_used in used(status).values()) / max(mean, 1)


def await_level(servers, count):
    """The status once all nodes are there, their memory is level, and nothing moves any more."""
    calm = 0

    def is_level():
        nonlocal calm
        status = servers.status()
        is_calm = status["moves"]["bytes_moved_total"] > 0 and status["moves"]["bytes_per_s"] == 0
        is_over = is_calm and len(status["nodes"]) == count and away_from_mean(status) <= AWAY_MAX
        calm = calm + 1 if is_over else 0
        return status if calm > CALM_LOOKS else None

    return cluster.wait_until(is_level, LEVEL_SECONDS_MAX, f"{count} nodes within {AWAY_MAX:.0%} of the mean")


def one_round(arguments, seed):
    servers, joined = cluster.Cluster(["--gateways", "3", "--node-memory", arguments.node_memory]), None
    try:
        load(servers.memcached, arguments.keys, arguments.value_bytes)
        before = {node["id"] for node in servers.status()["nodes"]}
        gateways = [gateway["memcached"] for gateway in servers.status()["gateways"]]
        clients = [Client(number, gateways[number % 3], arguments) for number in range(3 * CLIENTS_EACH)]
        for client in clients:
            client.start()
        joined = Joined(servers, arguments.node_memory)
        status = await_level(servers, len(before) + JOINED)
        ended = time.monotonic()
        cluster.let_end(clients)
    finally:
        try:
            if joined:
                joined.stop()
        finally:
            servers.stop()
    total, away = sum(used(status).values()), away_from_mean(status)
    moved, held = status["moves"]["bytes_moved_total"], sum(held for node, held in used(status).items() if node not in before)
    complaints = asker.problems(clients, ended)
    if arguments.bound and moved > MOVED_MAX * held:
        complaints.append(f"{moved} bytes were moved, and the new nodes hold {held}")
    return cluster.tell_round(
        seed,
        complaints,
        f"{JOINED} nodes joined {len(before)} that held {total / len(before) / 2**20:.0f} MiB each: all within "
        f"{away:.1%} of the mean; moved {moved / 2**20:.0f} MiB, {moved / held:.2f} of the {held / 2**20:.0f} MiB that the new ones hold; "
        f"{sum(len(client.waits) for client in clients)} operations meanwhile, the longest {asker.longest(clients, 0):.3f} s",
    )


def main():
    parser = cluster.rounds_parser(__doc__)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--value-bytes", type=int, default=1000)
    parser.add_argument("--node-memory", default="256MiB")
    parser.add_argument("--pause", type=float, default=0.01, help="seconds between the operations of a client")
    parser.add_argument("--bound", action="store_true", help="fail if more was moved than had to be")
    asker.add_timeout(parser)
    return cluster.run_rounds(parser.parse_args(), one_round, [Problem, subprocess.SubprocessError])


if __name__ == "__main__":
    sys.exit(main())
