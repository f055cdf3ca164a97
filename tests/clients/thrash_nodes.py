"""Breaks nodes, never more at once than may be lost, and knows when what they held is whole again.

```
well --broken--> in trouble --mended--> recovering --the status said for 3 s that nothing is missing--> well
                           '--slow, or away for less than 2 s: well at once
```
A node is lost to the promise from when it is broken until it is well. Bits that turned over in its memory are missing, though
nobody knows of them, until its scrubber went over all of it twice.

Must not know: members other than nodes; which nodes come and go.
"""

import os
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import memory_file  # noqa: E402  (the path must be set first)
import thrash_cuts  # noqa: E402

LOSSES_MAX = 2
# A node that was away for so long may be given up: its process ends by itself then, and what it held is rebuilt. What one gateway
# stored meanwhile it lacks, too.
GIVEN_UP_SECONDS = 2
AWAY = ("frozen", "cut off", *(thrash_cuts.FROM_GATEWAY + way for way in ("", thrash_cuts.ONE_WAY)), thrash_cuts.FROM_COORDINATOR)
GIVEN_UP = "was given up for good"
# Long enough that it is.
FROZEN_SECONDS_MAX = 7
# After it is back it hears of that, when a coordinator leads.
TOLD_SECONDS_MAX = 30
# What is lost is told twice a second; a node counts as well when nothing was for so long.
WHOLE_SECONDS = 3
# When something recovers for so long, nodes are left alone until all is whole: else it never would be seen to be.
CALM_AFTER_SECONDS = 8
BITS = 200
SCRUB_SLACK_BYTES = 1 << 20
FAULTS = {
    "late": "slow {} --delay 20ms",
    "late now and then": "slow {} --tail 5%:100ms",
    "behind a thin link": "slow {} --bandwidth 1MiB",
    "stalling": "stall {} --duty 50ms/2ms",
    "corrupting what it sends": "corrupt {} --share 20%",
    "losing answers": "drop {} --share 2%",
    "breaking connections": "drop {} --share 5% --reset",
}
# What happens to each sort of node.
GONE, KEPT = "killed, memory gone", "killed, memory kept"
ROTTEN = "bits flipped in memory"
LABELS = [GONE, KEPT, "frozen", "cut off", "starved", ROTTEN]
KINDS = [f"{sort} {label}" for sort in ("node", "near node") for label in LABELS] + [f"node {fault}" for fault in FAULTS]
KINDS += ["any node given up"]


class Starvation(threading.Thread):
    """A process that is stopped most of the time, as on a processor that it does not get."""

    STOPPED_SECONDS, RUNNING_SECONDS = 0.05, 0.01

    def __init__(self, member):
        super().__init__(daemon=True)
        self.member, self.is_over = member, False
        self.start()

    def run(self):
        while not self.is_over:
            self.member.signal(signal.SIGSTOP)
            time.sleep(self.STOPPED_SECONDS)
            self.member.signal(signal.SIGCONT)
            time.sleep(self.RUNNING_SECONDS)

    def end(self):
        self.is_over = True
        self.join()
        return True


def lasted_long(trouble):
    return trouble.ended > trouble.began + GIVEN_UP_SECONDS


def is_kill(trouble):
    return "killed" in trouble.label


class Nodes:
    def __init__(self, members, troubles, random):
        self.members, self.troubles, self.random = members, troubles, random
        # Nodes that may lack something, since when there are any, and since when nothing is said to be lost.
        self.recovering, self.recovering_since, self.whole_since = set(), 0.0, None
        # Nodes with flipped bits: how far their scrubbers were.
        self.rotten = {}

    def lost(self):
        return set(self.troubles.of(self.members.nodes)) | self.recovering

    def may_lose_one(self):
        is_calm = self.recovering and time.monotonic() > self.recovering_since + CALM_AFTER_SECONDS
        return len(self.lost()) < LOSSES_MAX and not is_calm

    def recovers(self, node):
        """What the node held is lost, or may be."""
        if not self.recovering:
            self.recovering_since = time.monotonic()
        self.recovering.add(node)
        self.whole_since = None

    def watch(self):
        """Sees whether all is whole again."""
        if not self.recovering:
            return
        now, status = time.monotonic(), self.members.status()
        self.watch_rotten(status)
        if self.rotten or self.troubles.of(self.members.nodes):
            self.whole_since = None
        elif not status:
            # Nobody tells; nothing was broken that is not known here.
            return
        elif not self.members.is_all_held(status):
            self.whole_since = None
        elif self.whole_since is None:
            self.whole_since = now
        elif now > self.whole_since + WHOLE_SECONDS:
            self.recovering.clear()
            self.troubles.note("everything is whole")

    def watch_rotten(self, status):
        for node, (seen, wanted) in list(self.rotten.items()):
            if node not in self.members.nodes:
                # What it held is elsewhere, or is rebuilt.
                del self.rotten[node]
                continue
            told = status and self.members.status_of(node, status)
            if not told:
                continue
            total = told["scrubbed_bytes_total"]
            # A process that was started anew counts from 0.
            wanted -= total - seen if total >= seen else total
            self.rotten[node] = (total, wanted)
            if wanted < 0 and told["chunks_damaged"] == 0:
                del self.rotten[node]

    def mended(self, trouble):
        """A node's trouble is over."""
        if trouble.label in AWAY and lasted_long(trouble) or is_kill(trouble):
            self.recovers(trouble.member)

    def was_away(self, node):
        """For so long that it may be given up, and not long ago?"""
        since = time.monotonic() - TOLD_SECONDS_MAX
        own = [trouble for trouble in self.troubles.past if trouble.member is node and trouble.ended > since]
        return any(lasted_long(trouble) and (trouble.label in AWAY or is_kill(trouble)) for trouble in own)

    def was_given_up(self, node):
        """Its process ended; if because it was given up while it was away, it is started anew."""
        if GIVEN_UP not in node.log()[-500:]:
            return False
        if not self.was_away(node):
            raise RuntimeError(f"{node.name} was given up although it was not away")
        node.start()
        self.recovers(node)
        self.troubles.count(node, "node", "given up")
        self.troubles.note(f"{node.name} was given up, and is started anew")
        return True

    def hurt_one(self):
        lost = self.lost()
        self.hurt(self.random.choice([node for node in self.members.nodes if node not in lost]))

    def hurt(self, node):
        chance = self.random.random()
        if chance < 0.2:
            self.kill(node)
        elif chance < 0.4:
            self.freeze(node)
        elif chance < 0.5 and self.members.network:
            self.cut(node)
        elif chance < 0.57 or node.near and node.memory_file and not self.troubles.times_had(f"near node {ROTTEN}"):
            self.rot(node)
        elif chance < 0.65 or node.near:
            starvation = Starvation(node)
            self.troubles.begin(node, "node", "starved", self.random.uniform(0.5, 4), starvation.end)
        else:
            self.order(node, self.rarest(FAULTS))

    def rarest(self, labels):
        """One of those that were had least often, so that each is."""
        counts = {label: self.troubles.times_had(f"node {label}") for label in labels}
        return self.random.choice([label for label in labels if counts[label] == min(counts.values())])

    def kill(self, node):
        node.kill()
        was_had = self.troubles.times_had(f"{'near ' if node.near else ''}node {KEPT}")
        is_kept = node.memory_file and (not was_had or self.random.random() < 0.7)
        if is_kept:
            memory_file.flip_what_is_there_twice(node.memory_file, BITS, self.random)
        else:
            node.lose_memory()
        # With its memory, it mostly comes back before that is given up.
        seconds = self.random.choice([0.1, 0.5, 1, 2, 6]) if is_kept else self.random.uniform(0.1, 6)
        self.troubles.begin(node, "node", KEPT if is_kept else GONE, seconds, lambda: node.start() or True)

    def freeze(self, node):
        node.signal(signal.SIGSTOP)
        choices = [0.05, 0.3, 1, 4, FROZEN_SECONDS_MAX] if self.troubles.times_had("any node given up") else [FROZEN_SECONDS_MAX]
        seconds = self.random.choice(choices)
        self.troubles.begin(node, "node", "frozen", seconds, lambda: node.signal(signal.SIGCONT) or True)

    def cut(self, node):
        cut = thrash_cuts.Cut(node.cut, node.mend)
        self.troubles.begin(node, "node", "cut off", self.random.choice([0.3, 1, 4]), cut.end)

    def order(self, node, label):
        number = str(node.number)
        if self.members.order("chaos", *FAULTS[label].format(number).split()):
            seconds = self.random.uniform(0.2, 4)
            self.troubles.begin(node, "node", label, seconds, lambda: self.members.order("chaos", "clear", number))

    def rot(self, node):
        """Bits of its memory turn over: on order, or in its file."""
        status = self.members.status()
        told = status and self.members.status_of(node, status)
        if not told or told["state"] != "normal" or node.near and not node.memory_file:
            return
        # It is lost from before it is told to: whether it obeyed may not be known.
        self.recovers(node)
        self.rotten[node] = (told["scrubbed_bytes_total"], 2 * told["memory_used_bytes"] + SCRUB_SLACK_BYTES)
        if node.near:
            done = memory_file.flip_bits(node.memory_file, BITS, self.random) > 0
        else:
            done = self.members.order("chaos", "corrupt", str(node.number), "--bits", str(BITS))
        if done:
            self.troubles.count(node, "node", ROTTEN)
            self.troubles.note(f"{node.name}: bits of its memory turned over")
