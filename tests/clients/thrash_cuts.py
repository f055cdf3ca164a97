"""Parts two members from each other while both reach everybody else, in both directions, or so that one does not hear the other.

```
gateway | node     the node is lost to what that gateway owns, so it counts as lost
node    | node     nothing is lost: what is rebuilt or moved goes another way, or waits
gateway | gateway  clients of the one wait for what the other one owns, and may be refused it: a gateway's trouble
gateway | coordinator that leads    what it owns goes to others: its trouble
node    | coordinator that leads    nothing is lost, but it counts as lost: the coordinator takes it to be away
```
Near nodes are asked over sockets that no cut reaches: a gateway is parted from a far node, and of two nodes one is far.

Must not know: what else is broken.
"""

import contextlib
import time

FROM_GATEWAY, FROM_NODE, FROM_COORDINATOR = (f"cut off from a {whom}" for whom in ("gateway", "node", "coordinator"))
ONE_WAY = " one way"
KINDS = [f"{kind}{way}" for kind in (f"node {FROM_GATEWAY}", f"node {FROM_NODE}", f"gateway {FROM_GATEWAY}") for way in ("", ONE_WAY)]
# What coordinators say arrives, and nothing that is said to them: connections are of no use then.
KINDS += [f"any node {FROM_COORDINATOR}", f"gateway {FROM_COORDINATOR}"]
NODE_SECONDS = [0.3, 1, 4, 8]
GATEWAY_SECONDS = [0.5, 2, 4]


class Cut:
    """A way that is cut. It is trouble for as long again after it was mended: TCP waits that long before it sends again."""

    def __init__(self, cut, mend):
        cut()
        self.mend, self.began, self.mended = mend, time.monotonic(), None

    def end(self):
        if not self.mended:
            self.mend()
            self.mended = time.monotonic()
        return time.monotonic() - self.mended > self.mended - self.began


class Between:
    """Two members: `senders` of them send to the other one in vain."""

    def __init__(self, one, other, senders):
        self.name = f"{one.name} and {other.name}"
        self.lost = [(one, other), (other, one)][:senders]
        self.text = f"{one.name} and {other.name} cut off from each other" if senders == 2 else f"{other.name} does not hear {one.name}"

    def cut(self):
        for sender, receiver in self.lost:
            sender.cut_from([receiver.address])

    def mend(self):
        for sender, receiver in self.lost:
            sender.mend_to([receiver.address])


class Cuts:
    def __init__(self, members, nodes, troubles, random):
        self.members, self.nodes, self.troubles, self.random = members, nodes, troubles, random

    def node_from_gateway(self):
        """Such a node is lost: one more must be allowed to be."""
        lost = self.nodes.lost()
        far = [node for node in self.far_nodes() if node not in lost]
        if far:
            node = self.random.choice(far)
            self.part(node, self.random.choice(self.members.gateways), "node", FROM_GATEWAY, NODE_SECONDS, member=node)

    def node_from_node(self):
        """Whatever else is lost: what is rebuilt meanwhile needs most of the nodes that are there."""
        far = self.far_nodes()
        if far:
            node = self.random.choice(far)
            other = self.random.choice([other for other in self.members.nodes if other is not node])
            self.part(node, other, "node", FROM_NODE, NODE_SECONDS)

    def gateway_from_gateway(self):
        if self.members.network:
            self.part(*self.random.sample(self.members.gateways, 2), "gateway", FROM_GATEWAY, GATEWAY_SECONDS)

    def node_from_coordinator(self):
        lost = self.nodes.lost()
        self.from_coordinator([node for node in self.members.nodes if node not in lost], "node", NODE_SECONDS)

    def gateway_from_coordinator(self):
        """Another gateway must be well."""
        well = self.troubles.well(self.members.gateways)
        if len(well) > 1:
            self.from_coordinator(well, "gateway", GATEWAY_SECONDS)

    def from_coordinator(self, candidates, kind, choices):
        leader, _ = self.members.leader()
        if leader and candidates and self.members.network:
            member = self.random.choice(candidates)
            self.begin(Between(member, leader, senders=1), kind, FROM_COORDINATOR, choices, member)

    def far_nodes(self):
        """Those that a cut can part from others."""
        return [node for node in self.members.nodes if not node.near] if self.members.network else []

    def part(self, one, other, kind, label, choices, member=None):
        """`member`: whose trouble it is; else that of both, which are well otherwise."""
        is_one_way = self.random.random() < 0.5
        ends = [one, other]
        self.random.shuffle(ends)
        between = Between(*ends, senders=1 if is_one_way else 2)
        self.begin(between, kind, label + (ONE_WAY if is_one_way else ""), choices, member or between)

    def begin(self, between, kind, label, choices, member):
        cut = Cut(between.cut, between.mend)
        self.troubles.begin(member, kind, label, self.random.choice(choices), cut.end, between.text)

    @contextlib.contextmanager
    def held(self, nodes):
        """One of these nodes does not reach another one, which is far, as long as this lasts."""
        far = [node for node in self.far_nodes() if node not in nodes]
        if not far:
            yield
            return
        between = Between(self.random.choice(nodes), self.random.choice(far), senders=2)
        between.cut()
        self.troubles.note(f"{between.text} until all is whole")
        try:
            yield
        finally:
            between.mend()
