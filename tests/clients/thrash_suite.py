"""Whether a thrasher fails that tests less than it should, or is answered late: with a machine and clients that are made up.

Must not know: what a cluster does.
"""

import argparse
import contextlib
import io
from types import SimpleNamespace
from unittest import mock

import thrash
from expect import case, equal, main, true
from thrash_evidence import COUNTERS, Evidence
from thrash_nodes import GIVEN_UP, GIVEN_UP_SECONDS, KEPT, TOLD_SECONDS_MAX, Nodes
from thrash_troubles import Trouble, Troubles
from thrash_waits import BOUND_SECONDS, Pulse


def tries(has_network, porcupine, *words, shared_memory="/"):
    """Whether a thrasher on such a machine passes, what it says, and whether it ran."""
    rounds = mock.Mock(return_value=0)
    said = io.StringIO()
    with contextlib.ExitStack() as patches:
        patches.enter_context(mock.patch.object(thrash, "make_network", lambda: mock.Mock() if has_network else None))
        patches.enter_context(mock.patch.object(thrash.recorded, "porcupine_path", lambda: porcupine))
        patches.enter_context(mock.patch.object(thrash.members, "SHARED_MEMORY", shared_memory))
        patches.enter_context(mock.patch.object(thrash.cluster, "run_rounds", rounds))
        patches.enter_context(mock.patch.object(thrash.sys, "argv", ["thrash.py", *words]))
        patches.enter_context(contextlib.redirect_stdout(said))
        code = thrash.main()
    return code == 0, said.getvalue().count("not tested here:"), rounds.called


@case
def what_the_machine_lacks():
    """is told, and with --strict it is a failure before anything runs"""
    equal(tries(True, "judge"), (True, 0, True))
    equal(tries(True, "judge", "--strict"), (True, 0, True))
    for has_network, porcupine, lacking in [(False, "judge", 1), (True, None, 1), (False, None, 2)]:
        equal(tries(has_network, porcupine), (True, lacking, True))
        equal(tries(has_network, porcupine, "--strict"), (False, lacking, False))
    equal(tries(True, "judge", shared_memory="/nowhere"), (True, 1, True))
    equal(tries(True, "judge", "--strict", shared_memory="/nowhere"), (False, 1, False))


def judged(seconds, strict=False, had=(), wait_seconds=0.0, outcome="ok", unmoved=(), raised=None, errors_in=()):
    """Whether a run passes in which nothing else is wrong, and what it says. `errors_in`: seconds from now in which a client is told one."""
    run = thrash.Run.__new__(thrash.Run)
    run.arguments = argparse.Namespace(seconds=seconds, strict=strict, window=2, keep=None, waits=None, logs=None)
    run.seed, run.members, run.pulse = 1, mock.Mock(network=None), Pulse()
    run.last, run.complaints, run.began, run.failed, run.keys = [], [], 0.0, None, SimpleNamespace(all=[])
    run.thrasher, run.evidence = SimpleNamespace(troubles=Troubles()), Evidence(None)
    run.thrasher.troubles.counts.update(had)
    run.evidence.sums.update({what: what not in unmoved for what in COUNTERS})
    client = thrash.recorded.Client(0, ["nobody:1"], [b"key"], seed=1)
    # It never ran.
    client.join = lambda: None
    if wait_seconds:
        client.waits.append(thrash.recorded.Wait(0, round(wait_seconds * 1e9), "nobody:1", "get", b"key", outcome))
    for seconds in errors_in:
        at = thrash.time.monotonic() + seconds
        client.errors.append(thrash.recorded.Error(at, at, "nobody:1", thrash.recorded.TOLD))
    run.clients, run.thrash = [client], mock.Mock(side_effect=raised)
    said = io.StringIO()
    with mock.patch.object(thrash.recorded, "judge", lambda _: ([], ["it is judged"])), contextlib.redirect_stdout(said):
        return run.go(), said.getvalue()


ALL = [kind.replace("any node", "node") for kind in thrash.KINDS]


@case
def kinds():
    """a kind of trouble that was never had in half an hour is a failure, if all are to be had"""
    long = thrash.EVERY_KIND_SECONDS
    equal(judged(long, strict=True, had=ALL)[0], True)
    for missing in ALL:
        is_ok, said = judged(long, strict=True, had=[kind for kind in ALL if kind != missing])
        equal(is_ok, False)
        true("never" in said, said)
    equal(judged(long - 1, strict=True)[0], True)
    equal(judged(long)[0], True)


@case
def late_answers():
    """an answer that came late although nothing was broken is a failure with --strict"""
    equal(judged(60, strict=True, wait_seconds=BOUND_SECONDS - 0.5)[0], True)
    equal(judged(60, strict=True, wait_seconds=BOUND_SECONDS + 0.5)[0], False)
    equal(judged(60, wait_seconds=BOUND_SECONDS + 0.5)[0], True)


@case
def answers_that_never_came():
    """a request that was not answered at all is a failure with --strict, and else it is told"""
    for strict in (True, False):
        is_ok, said = judged(60, strict, wait_seconds=60, outcome=thrash.recorded.UNANSWERED)
        equal(is_ok, not strict)
        true("1 requests were not answered at all" in said, said)


@case
def what_was_not_done():
    """what no member did in half an hour, though something was broken for it, is a failure"""
    long = thrash.EVERY_KIND_SECONDS
    for what in COUNTERS:
        is_ok, said = judged(long, strict=True, had=ALL, unmoved=[what])
        equal(is_ok, False)
        true(f"reason to: {what}" in said, said)
        equal(judged(long - 1, strict=True, had=ALL, unmoved=[what])[0], True)
        equal(judged(long, had=ALL, unmoved=[what])[0], True)
    equal(Evidence(None).never_moved(Troubles()), [])


@case
def broken_off():
    """a run that ends early, whatever its members answered, fails, and what it wrote down is judged"""
    for error in (RuntimeError, OSError, ValueError, thrash.subprocess.TimeoutExpired("status", 60)):
        # Whoever asks when all members end meets that.
        is_ok, said = judged(60, raised=error, errors_in=(1.0,))
        equal(is_ok, False)
        true("it is judged" in said and ": 1 complaints" in said, said)
    is_ok, said = judged(60, raised=RuntimeError, errors_in=(-1.0, 1.0))
    true(": 2 complaints" in said and "complaint: 1 errors out of the blue" in said, said)


@case
def level():
    """a cluster is level when all its gateways serve, everything, and as much as the others but for one partition"""

    def is_level(*shares, served=16, gateway_count=3):
        made = thrash.members.Members.__new__(thrash.members.Members)
        made.gateway_count = gateway_count
        tenures = [[{"partitions": [0] * (share - share // 2)}, {"partitions": [0] * (share // 2)}] for share in shares]
        gateways = [{"serving": share > 0, "tenures": of_one} for share, of_one in zip(shares, tenures)]
        return made.is_level({"gateways": gateways, "partitions": 16, "partitions_served": served})

    equal([is_level(5, 5, 6), is_level(5, 5, 6, 0), is_level(8, 8, gateway_count=2)], [True] * 3)
    equal([is_level(5, 4, 7), is_level(8, 8), is_level(5, 5, 6, served=15), is_level(0, 0, 0)], [False] * 4)


@case
def told_to_end():
    """no gateway is told to end, or drained, that the coordinator has yet to hear of; a drain that does not end is cancelled"""
    orders = []
    members = mock.Mock(gateways=[])
    members.order = lambda *words: orders.append(words)
    gateway = mock.Mock(process=mock.Mock(pid=7))
    others = thrash.thrash_gateways.Others(members, Troubles(), None)
    for status in (None, {"gateways": []}, {"gateways": [{"id": 3, "pid": 6}]}):
        members.status = lambda status=status: status
        others.tell_to_end(gateway)
        others.drain(gateway)
    true(not gateway.signal.called and not gateway.kill.called and not orders, f"{orders}")
    members.status = lambda: {"gateways": [{"id": 3, "pid": 7, "draining": len(orders) < 4}]}
    members.order = lambda *words: orders.append(words)
    others.drain(gateway)
    for _ in range(5):
        others.go_on()
    equal([words[:3] for words in orders], [("drain", "gateway", "3")] * 4)
    equal((["--cancel" in words for words in orders], gateway.kill.called), ([False, True, True, True], False))


def given_up(*troubles):
    """What comes of a node that was given up after these of its troubles, or another one's: a label, how long it lasted, how long
    ago it ended."""
    node, another = (mock.Mock(log=lambda: GIVEN_UP, name=name) for name in ("it", "another"))
    nodes = Nodes(None, Troubles(), None)
    for label, seconds, ago, *whose in troubles:
        trouble = Trouble(another if whose else node, "node", label, thrash.time.monotonic() - ago - seconds, 0, None)
        trouble.ended = trouble.began + seconds
        nodes.troubles.past.append(trouble)
    try:
        return nodes.was_given_up(node) and node.start.called
    except RuntimeError:
        return False


@case
def nodes_given_up():
    """a node that was given up must have been away, for long, a short while ago"""
    long, short = GIVEN_UP_SECONDS + 1, GIVEN_UP_SECONDS - 1
    for label in ("frozen", KEPT, "cut off"):
        equal(given_up((label, long, 1)), True)
        equal(given_up((label, short, 1)), False)
        equal(given_up((label, long, TOLD_SECONDS_MAX + 1)), False)
        equal(given_up((label, long, 1, "another")), False)
        equal(given_up((label, long, 5), ("late", 2, 1)), True)
    equal(given_up(("late", long, 1)), False)
    equal(given_up(), False)


@case
def cancelled_unheard():
    """a drain that was cancelled though nobody heard the answer is over; one that was to be done and is not told of is waited for"""
    node = mock.Mock(number=1)
    members = mock.Mock(nodes=[node])
    members.order = lambda *_: False
    for until, told, is_over in [(1.0, {"drain": None}, True), (1.0, {"drain": {"drained": False}}, False), (None, {"drain": None}, False)]:
        troubles = Troubles()
        membership = thrash.thrash_membership.Membership(members, mock.Mock(), troubles, None)
        membership.draining[node] = (0.0, until)
        members.status_of = lambda *_, told=told: told
        with mock.patch.object(troubles, "count"):
            membership.go_on({"nodes": []})
        equal(node not in membership.draining, is_over)


if __name__ == "__main__":
    main()
