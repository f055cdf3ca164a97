"""What was going on while clients waited long: which answers took longest, and what was broken meanwhile.

```
asked       the gateway that the client was connected to was itself frozen, cut off, killed or begun anew meanwhile: the answer
            cannot come before that is over, and after a cut not before TCP sends again, as long after it as the cut took
machine     this program itself was not run for a good part of it: the machine was busy
gateway, coordinator, etcd, node, two nodes
            nothing else was broken in between, or a little before
several     of these
nothing     nothing was
```
While nothing is broken, or nodes only, an answer may not take longer than `BOUND_SECONDS`, if times are judged. One that a client waited
for in vain, as long as it waits at all, is excused by nothing: nothing is broken for so long.

Must not know: how members are broken and mended, what clients ask.
"""

import json
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import recorded  # noqa: E402  (the path must be set first)

# A trouble counts for what begins so soon after it was mended: members come back, owners change.
AFTER_SECONDS = 3
SHOWN = 10
# What an answer may take while one member is in trouble: the rest of a promise, and a take-over; and whose trouble excuses no more.
BOUND_SECONDS = 4
BOUNDED_KINDS = ("node", "two nodes", "nothing")
PULSE_SECONDS = 0.05
PAUSE_SECONDS = 0.2


class Pulse(threading.Thread):
    """Notices when this program is not run for a while."""

    def __init__(self):
        super().__init__(daemon=True)
        self.is_over, self.pauses = False, []

    def run(self):
        last = time.monotonic()
        while not self.is_over:
            time.sleep(PULSE_SECONDS)
            now = time.monotonic()
            if now - last > PAUSE_SECONDS:
                self.pauses.append((last, now))
            last = now

    def within(self, began, ended):
        """Seconds of a time in which nothing was run."""
        return sum(max(0, min(ended, until) - max(began, since)) for since, until in self.pauses)


def overlaps(trouble, wait, after):
    return trouble.began <= wait.returned and (trouble.ended is None or trouble.ended + after >= wait.called)


def line_of(row):
    where = f"{row['action']} {row['key']} asked of {row['asked']} at {row['at']:.3f}"
    paused = f", paused {row['paused']:.2f}" if row["paused"] else ""
    return f"{row['seconds']:6.2f} s {row['kind']}: {where}, {row['outcome']}{paused}; {'; '.join(row['troubles'])}"


class Waits:
    """The waits of all clients, each with what was broken meanwhile."""

    def __init__(self, clients, troubles, pulse):
        self.rows = []
        for wait in sorted((wait for client in clients for wait in client.waits), key=lambda wait: -wait.seconds):
            self.rows.append(self.row(wait, troubles, pulse))

    def row(self, wait, troubles, pulse):
        during = [trouble for trouble in troubles if overlaps(trouble, wait, AFTER_SECONDS)]
        asked = [trouble for trouble in during if wait.address in trouble.addresses and overlaps(trouble, wait, 0)]
        paused = pulse.within(wait.called, wait.returned)
        if asked:
            kind = "asked"
        elif paused > wait.seconds / 3:
            kind = "machine"
        else:
            kinds = {trouble.kind for trouble in during}
            nodes = len({trouble.member for trouble in during if trouble.kind == "node"})
            kind = "nothing" if not kinds else "several" if len(kinds) > 1 else "two nodes" if nodes > 1 else kinds.pop()
        return {
            "seconds": round(wait.seconds, 3),
            "at": round(wait.called, 3),
            "kind": kind,
            "action": wait.action,
            "key": wait.key,
            "outcome": wait.outcome,
            "asked": wait.address,
            "paused": round(paused, 3),
            "troubles": [self.told(trouble, wait) for trouble in asked + [other for other in during if other not in asked]],
        }

    def told(self, trouble, wait):
        """A trouble as seen from the beginning of a wait."""
        ended = f"{trouble.ended - wait.called:+.2f}" if trouble.ended else ""
        return f"{trouble.text} {trouble.began - wait.called:+.2f}..{ended}"

    def kinds(self):
        """For each kind: how many there are, how many are longer than the bound, the longest."""
        found = {}
        for row in self.rows:
            found.setdefault(row["kind"], []).append(row["seconds"])
        return {kind: (len(all_), sum(seconds > BOUND_SECONDS for seconds in all_), max(all_)) for kind, all_ in sorted(found.items())}

    def lines(self):
        """The longest ones, but few of those that nobody could have answered; then how many there are of each kind."""
        asked = [row for row in self.rows if row["kind"] == "asked"][:SHOWN]
        others = [row for row in self.rows if row["kind"] != "asked"][:SHOWN]
        for row in asked + others:
            yield line_of(row)
        for kind, (count, late, longest) in self.kinds().items():
            yield f"{kind}: {count} waits longer than half a second, {late} longer than {BOUND_SECONDS} s, the longest {longest:.2f} s"
        if self.unanswered():
            yield f"{len(self.unanswered())} requests were not answered at all"

    def unanswered(self):
        return [row for row in self.rows if row["outcome"] == recorded.UNANSWERED]

    def complaints(self):
        """Those that never came, or took longer than anything excuses that was broken."""
        never = self.unanswered()
        late = [row for row in self.rows if row not in never and row["kind"] in BOUNDED_KINDS and row["seconds"] > BOUND_SECONDS]
        told = [f"an answer did not come: {line_of(row).strip()}" for row in never]
        return told + [f"an answer took longer than {BOUND_SECONDS} s: {line_of(row).strip()}" for row in late]

    def store(self, path, run):
        """Beside what there is to say of the run."""
        with open(path, "w", encoding="utf-8") as out:
            json.dump({"run": run, "kinds": self.kinds(), "waits": self.rows}, out, indent=1)
