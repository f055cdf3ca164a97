"""Whether it is noticed that answers take too long: of waits and troubles that are made up.

Must not know: how a thrasher breaks anything.
"""

from types import SimpleNamespace

from expect import case, equal, main
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


def complaints(seconds, *troubles, pauses=()):
    """Of one answer that took so long."""
    # As recorded.Wait tells.
    wait = SimpleNamespace(called=BEGAN, returned=BEGAN + seconds, seconds=seconds, address=ASKED, action="get", key="key", outcome="ok")
    pulse = Pulse()
    pulse.pauses += pauses
    return [text.split(": ")[1] for text in Waits([SimpleNamespace(waits=[wait])], troubles, pulse).complaints()]


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
def just_after():
    """what was mended just before still counts, and what was so long ago does not"""
    gateway = trouble("gateway")
    gateway.began, gateway.ended = BEGAN - 10, BEGAN - 1
    equal(complaints(LONG, gateway), [])
    gateway.ended = BEGAN - 5
    equal(complaints(LONG, gateway), [f"{LONG:.2f} s nothing"])


if __name__ == "__main__":
    main()
