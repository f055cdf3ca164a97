"""A thrasher that takes a standstill for progress finds none: here it is told what a coordinator might tell, by a clock of
this suite.

Must not know: how a thrasher breaks anything.
"""

from unittest import mock

import thrash
from expect import case, equal, main, raises, true
from thrash_progress import STANDSTILL_SECONDS, Progress

LOOK_SECONDS = 0.5
LONG_SECONDS = 20 * STANDSTILL_SECONDS
NO_MATTER_WHEN = 1000.0


class Clock:
    def __init__(self):
        self.now = NO_MATTER_WHEN

    def monotonic(self):
        return self.now


class Told:
    """A judge of progress, and what it is told time after time."""

    def __init__(self):
        self.clock, self.progress = Clock(), Progress()

    def look(self, status, is_calm=True):
        self.progress.look(status, is_calm, self.clock.now)
        self.clock.now += LOOK_SECONDS

    def look_for(self, seconds, status_at, is_calm=True):
        """What is told is a function of the seconds since this began."""
        for look in range(round(seconds / LOOK_SECONDS)):
            self.look(status_at(look * LOOK_SECONDS), is_calm)

    def complains(self, status):
        """Of this, if it is told on and on: after not much less than is allowed, and not much more."""
        began = self.clock.now
        text = raises(RuntimeError, self.look_for, LONG_SECONDS, lambda _: status)
        after = self.clock.now - began
        true(STANDSTILL_SECONDS <= after <= STANDSTILL_SECONDS + 2 * LOOK_SECONDS, f"complained after {after} s")
        return text


def status_of(drains=(), missing=0, stranded=0, rebuilt=0, served=16):
    """Of so many chunks that are left of each drain; of one that is done none is."""
    nodes = [{"id": number, "drain": {"chunks_left": left, "drained": left == 0}} for number, left in enumerate(drains)]
    nodes.append({"id": len(nodes), "drain": None})
    repair = {"chunks_missing": missing, "stripes_stranded": stranded, "chunks_rebuilt_total": rebuilt}
    return {"partitions": 16, "partitions_served": served, "nodes": nodes, "repair": repair}


@case
def standstills():
    """a drain or a repair that stands still is noticed, and told"""
    for status, word in [
        (status_of(drains=[7]), '"chunks_left": 7'),
        (status_of(missing=3, rebuilt=40), '"chunks_missing": 3'),
        (status_of(stranded=2), '"stripes_stranded": 2'),
    ]:
        text = Told().complains(status)
        true(word in text, f"{word} is not in {text}")


@case
def after_progress():
    """what got on and stands still then is noticed"""
    told = Told()
    told.look_for(100, lambda seconds: status_of(drains=[500 - int(seconds)], missing=9))
    told.complains(status_of(drains=[400], missing=9))


@case
def one_of_two():
    """a drain that stands still is noticed when another one has ended"""
    told = Told()
    told.look_for(LONG_SECONDS, lambda seconds: status_of(drains=[5, int(LONG_SECONDS - seconds)]))
    told.complains(status_of(drains=[5, 0]))


@case
def slow_progress():
    """one chunk just in time is progress, of a drain as of a repair"""
    every = STANDSTILL_SECONDS - 1
    Told().look_for(LONG_SECONDS, lambda seconds: status_of(drains=[500 - int(seconds / every)]))
    Told().look_for(LONG_SECONDS, lambda seconds: status_of(missing=500 - int(seconds / every)))
    Told().look_for(LONG_SECONDS, lambda seconds: status_of(stranded=500 - int(seconds / every)))
    # As much is found missing as is rebuilt.
    Told().look_for(LONG_SECONDS, lambda seconds: status_of(missing=3, rebuilt=int(seconds / every)))


@case
def nothing_to_do():
    """who has nothing to do does not stand still"""
    told = Told()
    told.look_for(LONG_SECONDS, lambda _: status_of())
    told.look_for(LONG_SECONDS, lambda _: status_of(drains=[0], rebuilt=40))
    told.complains(status_of(drains=[1]))


@case
def in_trouble():
    """while something is broken, or nobody tells, or serves all, nothing is said; then the time begins anew"""
    standing = status_of(drains=[7], missing=3)
    for status, is_calm in [(standing, False), (None, True), (status_of(drains=[7], missing=3, served=15), True)]:
        told = Told()
        told.look_for(STANDSTILL_SECONDS - 1, lambda _: standing)
        told.look_for(LONG_SECONDS, lambda _, status=status: status, is_calm)
        told.complains(standing)


class Members:
    """Of a cluster that tells of a drain that stands still, and that has no processes."""

    def __init__(self):
        self.nodes, self.gateways, self.coordinators, self.processes = [], [], [], []

    def is_level(self, status):
        return False

    def status(self):
        return status_of(drains=[7])


@case
def thrashers():
    """a thrasher complains of what stands still, though not while it has something broken"""
    clock = Clock()
    with mock.patch.object(thrash, "time", clock):
        thrasher = thrash.Thrasher(Members(), seed=1)
        trouble = thrasher.troubles.begin("a node", "node", "frozen", 1, lambda: True)
        for _ in range(2):
            thrasher.go_on()
            clock.now += LONG_SECONDS
        thrasher.troubles.end(trouble)
        thrasher.go_on()
        clock.now += STANDSTILL_SECONDS
        thrasher.go_on()
        clock.now += LOOK_SECONDS
        text = raises(RuntimeError, thrasher.go_on)
    equal(text.partition(":")[0], f"for {STANDSTILL_SECONDS} s nothing was broken, and nothing got on")


if __name__ == "__main__":
    main()
