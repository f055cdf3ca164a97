"""A cluster of single processes: three etcd, two coordinators, nodes and gateways, each of these in a network namespace of its own.

Every member can be killed, started again under its number, frozen, and cut off from all others by its link. Without the right to
make namespaces members share the loopback interface, and cannot be cut off.

Must not know: what is done to the members, and when.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile

LIB = os.path.dirname(os.path.abspath(__file__))
sys.path += [LIB, os.path.join(os.path.dirname(LIB), "control")]

import cluster  # noqa: E402  (the path must be set first)
from etcd import Etcd  # noqa: E402
from processes import Coordinator, Process  # noqa: E402

START_SECONDS_MAX = 120
CLIENT_PORT = 11211
NODE_PORT = 7001


def ip(*words):
    subprocess.run(["ip", *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


class Network:
    """A bridge on this machine, and a namespace with one address for each member."""

    def __init__(self):
        self.tag = f"st{os.getpid() % 100_000}"
        self.bridge, self.subnet = f"{self.tag}br", f"10.{random.randrange(64, 250)}"
        self.host, self.names = f"{self.subnet}.0.1", []
        ip("link", "add", self.bridge, "type", "bridge")
        try:
            ip("addr", "add", f"{self.host}/16", "dev", self.bridge)
            ip("link", "set", self.bridge, "up")
        except BaseException:
            self.remove()
            raise

    def add(self, kind, number):
        """Namespace, link and address of a new member."""
        name, link = f"{self.tag}{kind}{number}", f"{self.tag}{kind}{number}l"
        address = f"{self.subnet}.{1 + 'ng'.index(kind)}.{number + 1}"
        ip("netns", "add", name)
        self.names.append(name)
        ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("link", "set", link, "master", self.bridge, "up")
        ip("-n", name, "addr", "add", f"{address}/16", "dev", "eth0")
        ip("-n", name, "link", "set", "eth0", "up")
        ip("-n", name, "link", "set", "lo", "up")
        return name, link, address

    def remove(self):
        for words in [("netns", "del", name) for name in self.names] + [("link", "del", self.bridge)]:
            subprocess.run(["ip", *words], check=False, stderr=subprocess.DEVNULL)


def make_network():
    """None, if namespaces cannot be made here."""
    try:
        network = Network()
    except (OSError, subprocess.CalledProcessError):
        return None
    try:
        network.add("n", 250)
    except (OSError, subprocess.CalledProcessError):
        network.remove()
        return None
    return network


class Member(Process):
    """A node or a gateway."""

    def __init__(self, directory, name, namespace, link, *arguments):
        self.namespace, self.link = namespace, link
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


class Members:
    def __init__(self, node_count, gateway_count, code="rs:4+2", node_memory="128MiB"):
        self.directory = tempfile.TemporaryDirectory(prefix="members-test-")
        self.node_count, self.gateway_count = node_count, gateway_count
        self.network, self.processes, self.etcd = make_network(), [], None
        try:
            self.etcd = Etcd(3)
            self._start(code, node_memory)
            cluster.wait_until(self.is_whole, START_SECONDS_MAX, "all members are there and everything is served")
        except BaseException:
            self.print_logs()
            self.stop()
            raise

    def _start(self, code, node_memory):
        host = self.network.host if self.network else "127.0.0.1"
        flags = ["--metadata", "etcd:" + ",".join(self.etcd.urls), "--code", code, "--partitions", "16", "--allow-chaos"]
        flags += ["--nodes", str(self.node_count), "--gateways", str(self.gateway_count), "--retire-after", "4"]
        self.coordinators = [self._add(Coordinator(self.directory.name, f"coordinator-{name}", *flags, host=host)) for name in "ab"]
        coordinators = ["--coordinator", ",".join(coordinator.control for coordinator in self.coordinators)]
        self.nodes, self.gateways = [], []
        for number in range(self.node_count):
            namespace, link, address = self._place("n", number, NODE_PORT)
            arguments = ["node", "--listen", address, "--id", str(number), "--memory", node_memory, "--allow-chaos", *coordinators]
            self.nodes.append(self._add(Member(self.directory.name, f"node-{number}", namespace, link, *arguments)))
        for number in range(self.gateway_count):
            namespace, link, address = self._place("g", number, CLIENT_PORT)
            arguments = ["gateway", "--memcached", address, "--redis", "off", "--when-full", "error", *coordinators]
            gateway = self._add(Member(self.directory.name, f"gateway-{number}", namespace, link, *arguments))
            gateway.memcached = address
            self.gateways.append(gateway)

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

    def is_whole(self):
        """Are all members there, everything served, and nothing lost?"""
        status = self.status()
        if not status:
            return False
        nodes = [node for node in status["nodes"] if node["state"] == "normal"]
        gateways = [gateway for gateway in status["gateways"] if gateway["serving"]]
        repair = status["repair"]
        lacks = repair["chunks_missing"] + repair["chunks_stranded"]
        is_served = status["partitions_served"] == status["partitions"]
        return len(nodes) == self.node_count and len(gateways) >= self.gateway_count and is_served and lacks == 0

    def what_is_there(self):
        """What `is_whole` looks at, for people."""
        status = self.status() or {}
        names = ("partitions", "partitions_served", "repair")
        states = [node["state"] for node in status.get("nodes", [])]
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

    def stop(self):
        for process in self.processes:
            if process.process.poll() is None:
                process.signal(signal.SIGCONT)
            process.kill()
        if self.etcd:
            self.etcd.resume()
            self.etcd.stop()
        if self.network:
            self.network.remove()
        self.directory.cleanup()
