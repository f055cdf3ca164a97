"""Whether members are parted as the thrasher says, and joined again: of members that are made up, without a network.

Must not know: what a cluster does.
"""

import collections
import random
from types import SimpleNamespace
from unittest import mock

import asker  # noqa: F401  (it finds the modules beside this folder)
import members
import network
import thrash_cuts
from expect import case, equal, main, raises, true
from thrash_cuts import Cut, Cuts
from thrash_troubles import Troubles

SEEDS = 60


class Member:
    """Which knows to whom it sends in vain."""

    def __init__(self, name, near=False):
        self.name, self.address, self.near, self.lost = name, f"address of {name}", near, collections.Counter()

    def cut_from(self, addresses):
        self.lost.update(addresses)

    def mend_to(self, addresses):
        self.lost.subtract(addresses)


class Scene:
    """Nodes, far and near ones, and gateways; `lost` ones may not be lost once more."""

    def __init__(self, seed, far=3, near=2, network=True, lost=()):
        nodes = [Member(f"far-{number}") for number in range(far)] + [Member(f"near-{number}", near=True) for number in range(near)]
        gateways = [Member(f"gateway-{number}") for number in range(3)]
        coordinator = Member("coordinator-a")
        self.members = SimpleNamespace(nodes=nodes, gateways=gateways, network=network, leader=lambda: (coordinator, None))
        self.troubles = Troubles()
        taken = {node for node in nodes if node.name in lost}
        self.cuts = Cuts(self.members, SimpleNamespace(lost=lambda: taken), self.troubles, random.Random(seed))

    def parted(self):
        """(who sends, to whom) in vain."""
        everybody = self.members.nodes + self.members.gateways + [self.members.leader()[0]]
        return {(one.name, other.name) for one in everybody for other in everybody if one.lost[other.address]}

    def only_trouble(self):
        (trouble,) = self.troubles.present
        return trouble


def sorts(names):
    return sorted(name.split("-")[0] for name in names)


@case
def directions():
    """both directions are cut, or one, as the kind of the trouble says; the ends are of the right sorts"""
    had = collections.Counter()
    for seed in range(SEEDS):
        for cut, sorts_allowed in [
            ("node_from_gateway", [["far", "gateway"]]),
            ("node_from_node", [["far", "far"], ["far", "near"]]),
            ("gateway_from_gateway", [["gateway", "gateway"]]),
            ("node_from_coordinator", [["coordinator", "far"], ["coordinator", "near"]]),
            ("gateway_from_coordinator", [["coordinator", "gateway"]]),
        ]:
            scene = Scene(seed)
            getattr(scene.cuts, cut)()
            trouble, parted = scene.only_trouble(), scene.parted()
            is_one_way = trouble.label.endswith(thrash_cuts.ONE_WAY) or "coordinator" in cut
            equal(len(parted), 1 if is_one_way else 2)
            ends = {name for pair in parted for name in pair}
            equal(len(ends), 2)
            true(sorts(ends) in sorts_allowed, ends)
            true(all(name in trouble.text for name in ends), trouble.text)
            had[f"{trouble.kind} {trouble.label}"] += 1
            had.update([(cut, sorts([sender])[0]) for sender, _ in parted if is_one_way])
    equal([kind for kind in thrash_cuts.KINDS if not had[kind.removeprefix("any ")]], [])
    # In either direction.
    true(all(had["node_from_gateway", sort] for sort in ("far", "gateway")), had)


@case
def who_is_lost():
    """a node that a gateway does not reach is lost; who does not reach another node, or gateways that do not reach each other, are not"""
    scene = Scene(1, lost=["far-0", "far-2"])
    scene.cuts.node_from_gateway()
    equal([node.name for node in scene.troubles.of(scene.members.nodes)], ["far-1"])
    for cut in ("node_from_node", "gateway_from_gateway"):
        scene = Scene(1)
        getattr(scene.cuts, cut)()
        equal(scene.troubles.of(scene.members.nodes + scene.members.gateways), [])


@case
def whom_the_coordinator_does_not_hear():
    """a node is lost then; a gateway is in trouble, and one of them is well"""
    scene = Scene(1, lost=["far-0", "far-2", "near-0", "near-1"])
    scene.cuts.node_from_coordinator()
    equal([node.name for node in scene.troubles.of(scene.members.nodes)], ["far-1"])
    for _ in range(5):
        scene.cuts.gateway_from_coordinator()
    equal(len(scene.troubles.well(scene.members.gateways)), 1)
    scene = Scene(1)
    scene.members.leader = lambda: (None, None)
    scene.cuts.node_from_coordinator()
    scene.cuts.gateway_from_coordinator()
    equal(scene.troubles.present, [])


@case
def nobody_to_part():
    """without a network nobody is parted, nor nodes without one that is far, nor a node that may not be lost"""
    for scene in [Scene(1, network=None), Scene(1, far=0)]:
        scene.cuts.node_from_gateway()
        scene.cuts.node_from_node()
        equal(scene.troubles.present, [])
        with scene.cuts.held(scene.members.nodes[:1]):
            equal(scene.parted(), set())
    scene = Scene(1, network=None)
    for cut in (scene.cuts.gateway_from_gateway, scene.cuts.gateway_from_coordinator, scene.cuts.node_from_coordinator):
        cut()
    equal(scene.troubles.present, [])
    scene = Scene(1, far=1, lost=["far-0"])
    scene.cuts.node_from_gateway()
    equal(scene.troubles.present, [])


class Clock:
    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now


@case
def as_long_again():
    """what was cut is trouble for as long again, and mended once"""
    with mock.patch.object(thrash_cuts, "time", Clock()) as clock:
        done = []
        cut = Cut(lambda: done.append("cut"), lambda: done.append("mended"))
        clock.now += 4
        equal(cut.end(), False)
        clock.now += 3
        equal(cut.end(), False)
        clock.now += 2
        equal(cut.end(), True)
        equal(done, ["cut", "mended"])


@case
def several_cuts():
    """what two cuts have in common is mended with the later one; of a member that is no more nothing is"""
    said = []
    member = members.Member.__new__(members.Member)
    member.namespace, member.lost = "g0", collections.Counter()
    with mock.patch.object(members, "lose", lambda *words: said.append(("lose", *words))):
        with mock.patch.object(members, "reach", lambda *words: said.append(("reach", *words))):
            member.cut_from(["a", "b"])
            member.cut_from(["b"])
            equal(said, [("lose", "g0", "a"), ("lose", "g0", "b")])
            member.mend_to(["a", "b"])
            equal(said[2:], [("reach", "g0", "a")])
            member.mend_to(["b"])
            equal(said[3:], [("reach", "g0", "b")])
            member.cut_from(["b"])
            member.namespace = None
            member.mend_to(["b"])
            equal(len(said), 5)


@case
def held():
    """a cut that is held parts one of these from a far one of the others, until it ends, however it does"""
    for seed in range(SEEDS):
        scene = Scene(seed)
        chosen = scene.members.nodes[2:4]
        try:
            with scene.cuts.held(chosen):
                (one, other), _ = sorted(scene.parted(), key=lambda pair: pair[0] not in ("far-2", "near-0"))
                true(one in ("far-2", "near-0") and other in ("far-0", "far-1"), (one, other))
                raise RuntimeError
        except RuntimeError:
            equal((scene.parted(), scene.troubles.present), (set(), []))


ROUTES = """default via 192.0.2.1 dev eth0
192.0.2.0/24 dev eth0 proto kernel scope link src 192.0.2.2
10.64.0.0/10 via 192.0.2.9 dev tun0
10.128.0.0/16 dev st17br proto kernel scope link src 10.128.0.1 linkdown
unreachable 10.129.4.0/24 metric 1024
local 10.130.0.1 dev st18br table local proto kernel scope host src 10.130.0.1
broadcast 10.131.255.255 dev st19br table local proto kernel scope link src 10.131.0.1
"""


@case
def subnets():
    """a network has addresses to which there is no route yet"""
    wanted = [f"10.{number}" for number in range(132, 250)]
    with mock.patch.object(network.random, "choice", lambda free: free):
        equal(network.free_subnet(ROUTES), wanted)
        equal(network.free_subnet("default via 192.0.2.1 dev eth0\n"), network.SUBNETS)
        raises(OSError, network.free_subnet, "10.0.0.0/8 dev tun0\n")


if __name__ == "__main__":
    main()
