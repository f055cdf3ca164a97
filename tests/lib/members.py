"""A cluster of single processes: three etcd, two coordinators, nodes and gateways, each of these in a network namespace of its own.

Every member can be killed, started again under its number, frozen, and cut off from all others by its link, or from some of them,
in one direction or in both. Nodes come and go.
Without the right to make namespaces members share the loopback interface, and cannot be cut off.

A *near* node listens on a Unix socket, so gateways read its memory, and put appends there; it obeys no `shorttail chaos`, and a
cut parts it from the coordinators only. One with a *file* has its memory again when it is started again.

Must not know: what is done to the members, and when.
"""

import collections
import contextlib
import os
import random
import subprocess
import sys
import tempfile

LIB = os.path.dirname(os.path.abspath(__file__))
sys.path += [LIB, os.path.join(os.path.dirname(LIB), "control")]

import cluster  # noqa: E402  (the path must be set first)
from etcd import Etcd  # noqa: E402
from network import ip, lose, make_network, reach  # noqa: E402
from processes import Coordinator, Process  # noqa: E402

START_SECONDS_MAX = 120
CLIENT_PORT = 11211
REDIS_PORT = 6379
NODE_PORT = 7001
# Fast enough that all of a node is looked at in a second or two, and again ten seconds later.
SCRUB_BANDWIDTH = "64MiB"
SHARED_MEMORY = "/dev/shm"
# What the process of a node that was taken out ends with.
REMOVED_EXIT_CODE = 3


class Member(Process):
    """A node or a gateway."""

    def __init__(self, directory, name, namespace, link, *arguments):
        self.namespace, self.link = namespace, link
        # To how many cuts each address is lost.
        self.lost = collections.Counter()
        super().__init__(directory, name, *arguments)

    def start(self):
        if self.namespace and self.command[0] != "ip":
            # It replaces itself with the program: the process is the member's.
            self.command = ["ip", "netns", "exec", self.namespace, *self.command]
        super().start()

    def cut(self):
        ip("link", "set", self.link, "down")

    def mend(self):
        ip("link", "set", self.link, "up")

    def cut_from(self, addresses):
        """What it sends there is lost on the way; what comes from there arrives."""
        for address in addresses:
            self.lost[address] += 1
            if self.lost[address] == 1:
                lose(self.namespace, address)

    def mend_to(self, addresses):
        """Of a cut; another one may go on. A member that is no more has no namespace."""
        for address in addresses:
            self.lost[address] -= 1
            if self.lost[address] == 0 and self.namespace:
                reach(self.namespace, address)


class Node(Member):
    def __init__(self, number, near, memory_file, directory, *others):
        self.number, self.near, self.memory_file = number, near, memory_file
        if memory_file:
            others += ("--memory-file", memory_file)
        if not near:
            others += ("--allow-chaos",)
        super().__init__(directory, f"node-{number}", *others)

    def lose_memory(self):
        """The process is dead: the next one finds no memory."""
        if self.memory_file and os.path.exists(self.memory_file):
            os.remove(self.memory_file)

    def was_removed(self):
        """Whether it ended as a node does that was taken out; none while it runs."""
        code = self.process.poll()
        return None if code is None else code == REMOVED_EXIT_CODE


def shares(count, share, chance):
    """A list of so many, of which that share is true, in any order."""
    wanted = round(count * share)
    made = [True] * wanted + [False] * (count - wanted)
    chance.shuffle(made)
    return made


def what_lacks():
    """Sentences for what this machine lacks to have all kinds of members."""
    return [] if os.access(SHARED_MEMORY, os.W_OK) else [f"{SHARED_MEMORY} cannot be written: no near node has memory that gateways read"]


def host_of(address):
    return address.rpartition(":")[0]


class Members:
    """`near_share`, `file_share`: of the nodes; which ones is drawn from the seed."""

    def __init__(self, node_count, gateway_count, code="rs:4+2", node_memory="128MiB", near_share=0.0, file_share=0.0, seed=0):
        self.directory = tempfile.TemporaryDirectory(prefix="members-test-")
        # Files and sockets of nodes; memory on a disk is not offered to gateways.
        place = None if what_lacks() else SHARED_MEMORY
        self.memory_directory = tempfile.TemporaryDirectory(prefix="members-test-", dir=place)
        self.gateway_count, self.node_memory, self.random = gateway_count, node_memory, random.Random(f"{seed}/members")
        self.near_share, self.file_share, self.next_number = near_share, file_share, 0
        self.network, self.processes, self.etcd = make_network(), [], None
        self.nodes, self.gateways, self.coordinators = [], [], []
        try:
            self.etcd = Etcd(3)
            self._start(code, node_count)
            cluster.wait_until(self.is_whole, START_SECONDS_MAX, "all members are there and everything is served")
        except BaseException:
            self.print_logs()
            self.stop()
            raise

    def _start(self, code, node_count):
        # Clients have the first address, each coordinator one of its own.
        hosts = self.network.hosts[1:] if self.network else ["127.0.0.1"] * 2
        flags = ["--metadata", "etcd:" + ",".join(self.etcd.urls), "--code", code, "--partitions", "16", "--allow-chaos"]
        flags += ["--nodes", str(node_count), "--gateways", str(self.gateway_count), "--retire-after", "4"]
        for name, host in zip("ab", hosts, strict=True):
            self.coordinators.append(self._add(Coordinator(self.directory.name, f"coordinator-{name}", *flags, host=host)))
            self.coordinators[-1].address = host
        self.controls = ["--coordinator", ",".join(coordinator.control for coordinator in self.coordinators)]
        near, files = (shares(node_count, share, self.random) for share in (self.near_share, self.file_share))
        for is_near, has_file in zip(near, files):
            self._add_node(is_near, has_file)
        for number in range(self.gateway_count):
            namespace, link, address = self._place("g", number, CLIENT_PORT)
            redis = f"{host_of(address)}:{REDIS_PORT if self.network else cluster.free_ports(1)[0]}"
            arguments = ["gateway", "--memcached", address, "--redis", redis, "--when-full", "error", *(["--log", os.environ["GATEWAY_LOG"]] if "GATEWAY_LOG" in os.environ else []), *self.controls]
            gateway = self._add(Member(self.directory.name, f"gateway-{number}", namespace, link, *arguments))
            gateway.memcached, gateway.redis, gateway.address = address, redis, host_of(address)
            self.gateways.append(gateway)

    def join(self):
        """A new node, with a number that none had before."""
        return self._add_node(self.random.random() < self.near_share, self.random.random() < self.file_share)

    def _add_node(self, near, has_file):
        number = self.next_number
        self.next_number += 1
        namespace, link, address = self._place("n", number, NODE_PORT)
        path = os.path.join(self.memory_directory.name, f"node-{number}")
        arguments = ["node", "--listen", f"unix:{path}.sock" if near else address, "--id", str(number)]
        arguments += ["--memory", self.node_memory, "--scrub-bandwidth", SCRUB_BANDWIDTH, *self.controls]
        node = Node(number, near, path if has_file else None, self.directory.name, namespace, link, *arguments)
        node.address = host_of(address)
        self.nodes.append(self._add(node))
        return node

    def far_addresses(self):
        """Of the nodes that gateways reach over the network only."""
        return [node.address for node in self.nodes if not node.near]

    def forget(self, node):
        """The process of a node has ended, and it never comes back."""
        node.lose_memory()
        self.processes.remove(node)
        if self.network:
            self.network.forget(node.namespace)
            node.namespace = None

    def _place(self, kind, number, port):
        if not self.network:
            return None, None, f"127.0.0.1:{cluster.free_ports(1)[0]}"
        namespace, link, address = self.network.add(kind, number)
        return namespace, link, f"{address}:{port}"

    def _add(self, process):
        self.processes.append(process)
        return process

    def leader(self):
        """The coordinator that leads, and what it tells; none, if nobody does or it stands still."""
        for each in self.coordinators:
            status = each.status(1) if each.process.poll() is None else None
            if status and status["coordinator"]["leading"]:
                return each, status
        return None, None

    def status(self):
        return self.leader()[1]

    def status_of(self, node, status):
        return next((each for each in status["nodes"] if each["id"] == node.number), None)

    def is_whole(self, status=None):
        """Are all members there, everything served, and nothing lost?"""
        status = status or self.status()
        if not status:
            return False
        gateways = [gateway for gateway in status["gateways"] if gateway["serving"]]
        return len(gateways) >= self.gateway_count and self.is_all_held(status)

    def is_level(self, status):
        """Is everything served, and has no gateway two partitions more than another?"""
        serving = [gateway["tenures"] for gateway in status["gateways"] if gateway["serving"]]
        owned = [sum(len(tenure["partitions"]) for tenure in tenures) for tenures in serving]
        is_served = status["partitions_served"] == status["partitions"]
        return is_served and len(owned) >= self.gateway_count and max(owned) - min(owned) < 2

    def is_all_held(self, status):
        """Are all nodes there, everything served, and nothing lost? What is not served nobody knows of."""
        told = [self.status_of(node, status) for node in self.nodes]
        repair = status["repair"]
        lacks = repair["chunks_missing"] + repair["stripes_stranded"] + repair["lacking_of_stripe_max"]
        is_served = status["partitions_served"] == status["partitions"]
        return all(one and one["state"] == "normal" for one in told) and is_served and lacks == 0

    def what_is_there(self):
        """What `is_whole` looks at, for people."""
        status = self.status() or {}
        names = ("partitions", "partitions_served", "repair", "moves", "problems")
        states = {node["id"]: (node["state"], node["drain"]) for node in status.get("nodes", [])}
        serving = [gateway["serving"] for gateway in status.get("gateways", [])]
        return {**{name: status.get(name) for name in names}, "nodes": states, "gateways_serving": serving}

    def order(self, *words):
        """`shorttail WORDS` to the coordinator that leads; whether it was obeyed."""
        leader, _ = self.leader()
        command = [cluster.binary_path(), *words, "--admin", leader.admin] if leader else ["false"]
        return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, timeout=60).returncode == 0

    def print_logs(self):
        for process in self.processes:
            sys.stdout.write(f"--- {process.name}\n{process.log()[-1500:]}")
        sys.stdout.flush()

    def cuts_left(self):
        """Namespaces from which something is lost on its way."""
        return self.network.lossy() if self.network else []

    def stop(self):
        # One after the other, the last one first, whatever fails.
        with contextlib.ExitStack() as ends:
            ends.callback(self.directory.cleanup)
            ends.callback(self.memory_directory.cleanup)
            if self.network:
                ends.callback(self.network.remove)
            if self.etcd:
                ends.callback(self.etcd.stop)
            for process in self.processes:
                ends.callback(process.kill)
