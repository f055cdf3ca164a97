"""What is broken, what was, and which errors that excuses.

A node that dies, stands still or is slow excuses nothing: with at most as many at once as may be lost, nobody is to meet an error.
A gateway does: what it was asked is lost with it, and what it owned waits for another owner, 4 s at most, then it is an error. That
takes until it is mended or its partitions are taken over; taking over waits for a coordinator that leads, which needs etcd.

```
told an error                      excused by any gateway's trouble, as one passes on what another one owns
not reached: broken, refused       by that of the gateway that was asked only
not answered for a minute          likewise; but it is told with the waits, where nothing excuses it (thrash_waits.py)
told that there is no memory       by nothing: there is enough
```

Must not know: how anything is broken.
"""

import collections
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import recorded  # noqa: E402  (the path must be set first)


# When coordinators or etcd are mended it takes so long until one leads again: members of etcd agree, a lease ends.
RECOVERY_SECONDS = 3


class Trouble:
    """Something that is broken: what, until when, and how it is mended. `label` says of which kind it is, for the summary;
    `text` what it is, if more is to be said."""

    def __init__(self, member, kind, label, began, seconds, mend, text=None):
        self.member, self.kind, self.label, self.mend = member, kind, label, mend
        self.text = text or f"{getattr(member, 'name', f'{kind} {member}')} {label}"
        # Where clients ask it.
        self.addresses = {getattr(member, protocol, None) for protocol in ("memcached", "redis")} - {None}
        self.began, self.until, self.ended = began, time.monotonic() + seconds, None
        # When, after that, everything was served again, and by all alike.
        self.settled = None

    def overlaps(self, began, ended):
        return self.began <= ended and (self.ended is None or self.ended >= began)


class Troubles:
    """All of them, and what else happened; who is in trouble now."""

    def __init__(self):
        self.present, self.past, self.log, self.counts = [], [], [], collections.Counter()
        # Whatever is broken in a turn may be so since the turn began.
        self.turn_began = time.monotonic()

    def turn(self):
        self.turn_began = time.monotonic()

    def begin(self, member, kind, label, seconds, mend, text=None):
        trouble = Trouble(member, kind, label, self.turn_began, seconds, mend, text)
        self.present.append(trouble)
        self.count(member, kind, label)
        self.note(f"{trouble.text} for {seconds:.1f} s")
        return trouble

    def count(self, member, kind, label):
        near = "near " if getattr(member, "near", False) else ""
        self.counts[f"{near}{kind} {label}"] += 1

    def note(self, text):
        self.log.append(f"{time.monotonic():.3f} {text}")

    def mend(self, everything=False):
        """Mends what was broken long enough; what cannot be mended now (nobody leads) is tried again. Those that are mended."""
        mended = []
        for trouble in list(self.present):
            if (everything or time.monotonic() > trouble.until) and trouble.mend():
                self.end(trouble)
                mended.append(trouble)
                self.note(f"{trouble.text}: mended")
        return mended

    def end(self, trouble):
        trouble.ended = time.monotonic()
        self.present.remove(trouble)
        self.past.append(trouble)

    def settle(self):
        """Everything is served, and by all gateways alike."""
        for trouble in self.past:
            trouble.settled = trouble.settled or time.monotonic()

    def of(self, members):
        """Which of them are in trouble."""
        return [trouble.member for trouble in self.present if trouble.member in members]

    def well(self, members):
        return [member for member in members if member not in self.of(members)]

    def all(self):
        return self.past + self.present

    def windows(self, seconds, address=None):
        """(began, ended) of the times in which an answer may fail. Of all gateways, or of the one that clients ask there.

        A gateway's trouble and so many seconds more; longer, if coordinators or etcd were in trouble meanwhile: until one leads again
        nobody takes over. And their own trouble, while what the gateway had is given back to it: that ends no connection."""
        leading = sorted((other for other in self.all() if other.kind in ("coordinator", "etcd")), key=lambda other: other.began)
        now, found = time.monotonic(), []
        for trouble in self.all():
            if trouble.kind != "gateway" or (address is not None and address not in trouble.addresses):
                continue
            ended = (trouble.ended or now) + seconds
            for other in leading:
                recovered = (other.ended or now) + RECOVERY_SECONDS
                if trouble.began <= recovered and other.began <= ended:
                    ended = max(ended, recovered + seconds)
                elif ended < other.began <= (trouble.settled or now) and address is None:
                    found.append((other.began, recovered + seconds))
            found.append((trouble.began, ended))
        return found

    def out_of_the_blue(self, errors, seconds):
        """The errors that nothing excuses, in the order of their questions."""
        windows = {None: self.windows(seconds)}

        def is_excused(error):
            where = error.address if error.met in (recorded.BROKEN, recorded.UNANSWERED) else None
            if where not in windows:
                windows[where] = self.windows(seconds, where)
            is_met = any(began <= error.told and error.asked <= ended for began, ended in windows[where])
            return error.met != recorded.NO_MEMORY and is_met

        return sorted((error for error in errors if not is_excused(error)), key=lambda error: (error.asked, error.told))

    def kinds(self):
        """Lines of how often each kind of trouble was had."""
        return [f"{count:5d} {name}" for name, count in sorted(self.counts.items())]

    def times_had(self, kind):
        """`any node` stands for a near one and for one that is not."""
        return sum(self.counts[name] for name in {kind.replace("any node", sort) for sort in ("node", "near node")})

    def never_had(self, wanted):
        return [kind for kind in wanted if not self.times_had(kind)]


def share_covered(windows, began, ended):
    """Which share of a time lies in windows."""
    covered, until = 0.0, began
    for start, end in sorted(windows):
        covered += max(0.0, min(end, ended) - max(start, until))
        until = max(until, min(end, ended))
    return covered / (ended - began)
