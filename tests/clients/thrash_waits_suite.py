"""Whether it is noticed that answers take too long: of waits and troubles that are made up.

Must not know: how a thrasher breaks anything.
"""

from types import SimpleNamespace

import asker  # noqa: F401  (it finds the modules beside this folder)
from expect import case, equal, main
from recorded import UNANSWERED
from thrash_troubles import Trouble
from thrash_waits import BOUND_SECONDS, Pulse, Waits

BEGAN = 1000.0
LONG, SHORT = BOUND_SECONDS + 0.5, BOUND_SECONDS - 0.5
ASKED = "asked:1"


class Member:
    def __init__(self, name, address):
        self.name, self.memcached = name, address


def trouble(kind, address=None):
    """Of a member of its own, that lasts as long as what is asked, and longer."""
    made = Trouble(Member(kind, address), kind, "broken", BEGAN, 0, None)
    made.ended = BEGAN + 10
    return made


def waits(seconds, *troubles, pauses=(), outcome="ok"):
    """Of one answer that took so long."""
    # As recorded.Wait tells.
    wait = SimpleNamespace(called=BEGAN, returned=BEGAN + seconds, seconds=seconds, address=ASKED, action="get", key="key", outcome=outcome)
    pulse = Pulse()
    pulse.pauses += pauses
    return Waits([SimpleNamespace(waits=[wait])], troubles, pulse)


def complaints(*arguments, **named):
    return [text.split(": ")[1] for text in waits(*arguments, **named).complaints()]


@case
def too_long():
    """while nodes are in trouble, or nothing is, an answer takes no longer than the bound"""
    node, another = trouble("node"), trouble("node")
    for troubles, kind in [([], "nothing"), ([node], "node"), ([node, another], "two nodes")]:
        equal(complaints(LONG, *troubles), [f"{LONG:.2f} s {kind}"])
        equal(complaints(SHORT, *troubles), [])


@case
def excused():
    """while others are in trouble it may, or while the machine does not run us"""
    node = trouble("node")
    for troubles in [[trouble("gateway")], [trouble("coordinator")], [trouble("etcd")], [node, trouble("gateway")]]:
        equal(complaints(LONG, *troubles), [])
    equal(complaints(LONG, node, trouble("gateway", address=ASKED)), [])
    equal(complaints(LONG, pauses=[(BEGAN + 1, BEGAN + 1 + LONG / 2)]), [])
    equal(len(complaints(LONG, pauses=[(BEGAN + 1, BEGAN + 1 + LONG / 4)])), 1)


@case
def never():
    """nothing excuses that an answer does not come, and it is told in any case"""
    node, asked = trouble("node"), trouble("gateway", address=ASKED)
    for troubles, kind in [([], "nothing"), ([node], "node"), ([trouble("etcd")], "etcd"), ([asked], "asked"), ([node, trouble("gateway")], "several")]:
        equal(complaints(60, *troubles, outcome=UNANSWERED), [f"60.00 s {kind}"])
        equal(list(waits(60, *troubles, outcome=UNANSWERED).lines())[-1], "1 requests were not answered at all")
        equal([line for line in waits(60, *troubles).lines() if "at all" in line], [])
    equal(len(complaints(60, pauses=[(BEGAN, BEGAN + 50)], outcome=UNANSWERED)), 1)


@case
def just_after():
    """what was mended just before still counts, and what was so long ago does not"""
    gateway = trouble("gateway")
    gateway.began, gateway.ended = BEGAN - 10, BEGAN - 1
    equal(complaints(LONG, gateway), [])
    gateway.ended = BEGAN - 5
    equal(complaints(LONG, gateway), [f"{LONG:.2f} s nothing"])


if __name__ == "__main__":
    main()
