"""What members did meanwhile, from the coordinator's metrics: that near reads, rings, repair and moves were met, and how often.

A counter begins anew with its process or owner: what it grew by is summed up, from one look to the next. So it is a little less
than what there was. One that never moved, though something was done that moves it, shows that it is not tested what is meant to be.

Must not know: how anything is broken.
"""

import time
import urllib.error
import urllib.request

from thrash_membership import DRAINED, LOST_ALIVE, LOST_DEAD, RETIRED
from thrash_nodes import GONE, LABELS, ROTTEN

LOOK_SECONDS = 2
# There are near nodes.
NEAR = [f"near node {label}" for label in LABELS]
LOST = [f"any node {label}" for label in (GONE, LOST_ALIVE, LOST_DEAD, RETIRED)]
ROT = [f"any node {ROTTEN}"]
# For each the metric, and the kinds of trouble one of which moves it.
COUNTERS = {
    "near reads": ("shorttail_gateway_near_reads_total", NEAR),
    "appends put": ("shorttail_gateway_appends_put_total", NEAR),
    "degraded reads": ("shorttail_gateway_degraded_reads_total", LOST),
    "chunks rebuilt": ("shorttail_chunks_rebuilt_total", LOST),
    "chunks moved": ("shorttail_chunks_moved_total", [f"any node {DRAINED}"]),
    "damaged chunks found": ("shorttail_node_corruptions_found_total", ROT),
    "repaired in place": ("shorttail_node_corruptions_repaired_total", ROT),
}


class Evidence:
    def __init__(self, members):
        self.members, self.due, self.seen = members, 0.0, {}
        self.sums = dict.fromkeys(COUNTERS, 0)

    def look(self):
        if time.monotonic() < self.due:
            return
        self.due = time.monotonic() + LOOK_SECONDS
        leader, _ = self.members.leader()
        if not leader:
            return
        try:
            with urllib.request.urlopen(f"http://{leader.admin}/metrics", timeout=1) as answer:
                lines = answer.read().decode().splitlines()
        except (OSError, urllib.error.URLError):
            return
        for line in lines:
            series, _, value = line.rpartition(" ")
            what = next((what for what, (name, _) in COUNTERS.items() if series.partition("{")[0] == name), None)
            if what:
                now, before = float(value), self.seen.get(series, 0)
                # Another coordinator sums up what gateways counted that live.
                begun_anew = now if "{" in series else 0
                self.sums[what] += now - before if now >= before else begun_anew
                self.seen[series] = now

    def never_moved(self, troubles):
        """What was not done once, though one of these troubles is a reason for it."""
        return [what for what, (_, kinds) in COUNTERS.items() if not self.sums[what] and any(map(troubles.times_had, kinds))]

    def line(self):
        return ", ".join(f"{round(count)} {what}" for what, count in self.sums.items())
