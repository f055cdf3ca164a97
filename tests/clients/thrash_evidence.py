"""What members did meanwhile, from the coordinator's metrics: that near reads, rings, repair and moves were met, and how often.

A counter begins anew with its process or owner: what it grew by is summed up, from one look to the next. So it is a little less
than what there was.

Must not know: what is broken.
"""

import time
import urllib.error
import urllib.request

LOOK_SECONDS = 2
NAMES = {
    "near reads": "shorttail_gateway_near_reads_total",
    "appends put": "shorttail_gateway_appends_put_total",
    "degraded reads": "shorttail_gateway_degraded_reads_total",
    "chunks rebuilt": "shorttail_chunks_rebuilt_total",
    "chunks moved": "shorttail_chunks_moved_total",
    "damaged chunks found": "shorttail_node_corruptions_found_total",
    "repaired in place": "shorttail_node_corruptions_repaired_total",
    "messages damaged": "shorttail_node_messages_damaged_total",
}


class Evidence:
    def __init__(self, members):
        self.members, self.due, self.seen = members, 0.0, {}
        self.sums = dict.fromkeys(NAMES, 0)

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
            what = next((what for what, name in NAMES.items() if series.partition("{")[0] == name), None)
            if what:
                now, before = float(value), self.seen.get(series, 0)
                # Another coordinator sums up what gateways counted that live.
                begun_anew = now if "{" in series else 0
                self.sums[what] += now - before if now >= before else begun_anew
                self.seen[series] = now

    def line(self):
        return ", ".join(f"{round(count)} {what}" for what, count in self.sums.items())
