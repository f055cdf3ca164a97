"""A network for members of a cluster on this machine: each has a namespace with a link of its own, which can be taken down, and can
lose what it sends to some others.

Must not know: what runs there.
"""

import ipaddress
import os
import random
import subprocess

# Of a kind in one subnet.
ADDRESSES = 250
SUBNETS = [f"10.{number}" for number in range(64, 250)]
# This machine's, beside the first: what is lost on the way to one of them reaches the others.
HOST_ADDRESSES = 3
# A hardware address that no link has.
NOBODY = "02:00:00:00:00:00"
# Else a bridge takes the lowest one of its links, another one with every link that is lower: members send to the one before for
# half a minute, and nobody outside of the namespaces hears them.
BRIDGE = "02:73:74:00:00:01"


def ip(*words):
    return subprocess.run(["ip", *words], check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE).stdout


def lose(name, address):
    """What is sent there from a namespace is lost without a word, of connections that there are, too."""
    ip("-n", name, "neigh", "replace", address, "lladdr", NOBODY, "dev", "eth0", "nud", "permanent")


def reach(name, address):
    ip("-n", name, "neigh", "del", address, "dev", "eth0")


def networks_of(routes):
    """To which networks there are routes, as `ip route` tells; the one to everywhere else is none."""
    for line in routes.splitlines():
        # The kind of a route may come first.
        for word in line.split()[:2]:
            try:
                yield ipaddress.ip_network(word, strict=False)
                break
            except ValueError:
                continue


def free_subnet(routes):
    """The first half of addresses that this machine sends nowhere else yet: another run's are among those."""
    taken = list(networks_of(routes))
    free = [subnet for subnet in SUBNETS if not any(ipaddress.ip_network(f"{subnet}.0.0/16").overlaps(network) for network in taken)]
    if not free:
        raise OSError("every subnet has a route already")
    return random.choice(free)


class Network:
    """A bridge on this machine, and a namespace with one address for each member."""

    def __init__(self):
        self.tag = f"st{os.getpid() % 100_000}"
        self.bridge, self.subnet = f"{self.tag}br", free_subnet(ip("-4", "route", "show", "table", "all").decode())
        self.hosts, self.names = [f"{self.subnet}.0.{number + 1}" for number in range(HOST_ADDRESSES)], set()
        ip("link", "add", self.bridge, "address", BRIDGE, "type", "bridge")
        try:
            for host in self.hosts:
                ip("addr", "add", f"{host}/16", "dev", self.bridge)
            ip("link", "set", self.bridge, "up")
        except BaseException:
            self.remove()
            raise

    def add(self, kind, number):
        """Namespace, link and address of a new member."""
        name, link = f"{self.tag}{kind}{number}", f"{self.tag}{kind}{number}l"
        high, low = divmod(number, ADDRESSES)
        address = f"{self.subnet}.{1 + 2 * high + 'ng'.index(kind)}.{low + 1}"
        ip("netns", "add", name)
        self.names.add(name)
        ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("link", "set", link, "master", self.bridge, "up")
        ip("-n", name, "addr", "add", f"{address}/16", "dev", "eth0")
        ip("-n", name, "link", "set", "eth0", "up")
        ip("-n", name, "link", "set", "lo", "up")
        return name, link, address

    def forget(self, name):
        """A member is no more; its link goes with its namespace, when nobody is in it."""
        self.names.discard(name)
        ip("netns", "del", name)

    def lossy(self):
        """Namespaces from which something is lost."""
        return sorted(name for name in self.names if ip("-n", name, "neigh", "show", "nud", "permanent").strip())

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
        network.add("g", 200)
    except (OSError, subprocess.CalledProcessError):
        network.remove()
        return None
    return network
