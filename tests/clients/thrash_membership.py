"""Nodes come and go while everything goes on: new ones join, some are emptied and taken out, some never come back.

```
          join                    drain                      drained: remove
(a new number) ---> member ---------------> draining ---------------------------> leaving ---its process ended---> (gone)
                     |  ^------cancel--------'                                        ^
                     |------remove --lost, while it is well---------------------------'
                     '------killed for good---> dead ---remove --lost, or remove once all is rebuilt---> (gone)
```
For each that is lost another one joins at once; until all is rebuilt it counts as lost.

Must not know: what else is broken, and what a cluster does with chunks.
"""

import time

NODES_MAX = 10
# A drain waits while anything is repaired, which is often here; after so long nothing is broken until it is done.
DRAIN_PATIENCE_SECONDS = 45
# What is drained is known to be removed, and ends.
LEAVE_SECONDS_MAX = 30
JOINED, DRAINED, CANCELLED = "joined", "drained and removed", "drain cancelled"
LOST_ALIVE, LOST_DEAD, RETIRED = "removed with all it held", "that is dead removed as lost", "that is dead removed once rebuilt"
KINDS = [f"any node {label}" for label in (JOINED, DRAINED, CANCELLED, LOST_ALIVE, LOST_DEAD, RETIRED)]


class Membership:
    def __init__(self, members, nodes, troubles, random):
        self.members, self.nodes, self.troubles, self.random = members, nodes, troubles, random
        self.nodes_wanted = len(members.nodes)
        # Since when, and when it is to be undone, if ever; whether as lost, and its trouble; until when.
        self.draining, self.dead, self.leaving = {}, {}, {}

    def is_busy(self):
        return bool(self.draining or self.dead or self.leaving)

    def wants_calm(self):
        """Is something drained for so long that nothing more may be broken?"""
        return any(time.monotonic() > began + DRAIN_PATIENCE_SECONDS for began, _ in self.draining.values())

    def is_calm(self):
        """Is nothing broken but what is not mended?"""
        return all(trouble.member in self.dead for trouble in self.troubles.present)

    def change(self):
        """One more change, if it may be."""
        staying, chance = len(self.members.nodes) - len(self.draining), self.random.random()
        if staying > self.nodes_wanted and chance < 0.6:
            self.drain(self.random.choice([node for node in self.members.nodes if node not in self.draining]))
        elif len(self.members.nodes) < NODES_MAX and chance < 0.5:
            self.join()
        elif self.nodes.may_lose_one() and not self.dead:
            self.lose(self.random.choice([node for node in self.members.nodes if node not in self.nodes.lost() | set(self.draining)]))

    def join(self):
        node = self.members.join()
        self.troubles.count(node, "node", JOINED)
        self.troubles.note(f"{node.name} joins")

    def drain(self, node):
        if self.members.order("drain", "node", str(node.number), "--within", "0"):
            began, is_meant = time.monotonic(), self.random.random() < 0.8
            self.draining[node] = (began, None if is_meant else began + self.random.uniform(0.2, 3))
            self.troubles.note(f"{node.name} is drained")

    def lose(self, node):
        if self.random.random() < 0.3:
            if not self.members.order("remove", "node", str(node.number), "--lost"):
                return
            self.troubles.count(node, "node", LOST_ALIVE)
            self.take_out(node)
        else:
            node.kill()
            self.members.nodes.remove(node)
            is_lost = self.random.random() < 0.5
            # It is not mended, but taken out.
            self.dead[node] = (is_lost, self.troubles.begin(node, "node", "killed for good", 0, lambda: False))
        self.nodes.recovers(node)
        self.join()

    def take_out(self, node):
        """It was removed: its process ends by itself, when it hears of that."""
        self.members.nodes.remove(node)
        self.draining.pop(node, None)
        self.leaving[node] = time.monotonic() + LEAVE_SECONDS_MAX
        self.troubles.note(f"{node.name} is removed")

    def was_taken_out(self, node):
        """Did a process end because its node was removed, though who ordered it never heard?"""
        if node not in self.draining or not node.was_removed():
            return False
        self.drained(node)
        return True

    def drained(self, node):
        self.troubles.count(node, "node", DRAINED)
        self.take_out(node)

    def go_on(self, status):
        """What was begun goes on."""
        for node, (_, until) in list(self.draining.items()):
            self.go_on_draining(node, until, status)
        for node, (is_lost, trouble) in list(self.dead.items()):
            # It is not told of any more if it was removed, and the answer was lost.
            is_gone = status and not self.members.status_of(node, status)
            if is_gone or self.members.order("remove", "node", str(node.number), *(["--lost"] if is_lost else [])):
                del self.dead[node]
                self.troubles.end(trouble)
                self.troubles.count(node, "node", LOST_DEAD if is_lost else RETIRED)
                self.troubles.note(f"{node.name}, which is dead, is removed")
                self.members.forget(node)
        for node, until in list(self.leaving.items()):
            self.go_on_leaving(node, until)

    def go_on_draining(self, node, until, status):
        told = status and self.members.status_of(node, status)
        if status and not told:
            self.drained(node)
        elif told and told["drain"] and told["drain"]["drained"] and node in self.troubles.well([node]):
            if self.members.order("remove", "node", str(node.number)):
                self.drained(node)
        elif until and time.monotonic() > until and self.is_cancelled(node, told):
            del self.draining[node]
            left = told["drain"]["chunks_left"] if told and told["drain"] else "?"
            self.troubles.count(node, "node", CANCELLED)
            self.troubles.note(f"{node.name} is not drained any more, {left} chunks were left")

    def is_cancelled(self, node, told):
        """Is the drain cancelled now? It may have been before, though who ordered it never heard: then there is none any more."""
        is_over = told and not told["drain"]
        return is_over or self.members.order("drain", "node", str(node.number), "--cancel")

    def go_on_leaving(self, node, until):
        was_removed = node.was_removed()
        if was_removed:
            del self.leaving[node]
            self.members.forget(node)
        elif was_removed is False:
            raise RuntimeError(f"{node.name} was removed and ended with {node.process.poll()}")
        elif time.monotonic() > until:
            raise RuntimeError(f"{node.name} was removed and does not end")
