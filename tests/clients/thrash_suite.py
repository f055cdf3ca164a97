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
from thrash_evidence import Evidence
from thrash_troubles import Troubles
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


def judged(seconds, strict=False, had=(), wait_seconds=0.0):
    """Whether a run passes in which nothing else is wrong, and what it says."""
    run = thrash.Run.__new__(thrash.Run)
    run.arguments = argparse.Namespace(seconds=seconds, strict=strict, window=2, keep=None, waits=None)
    run.seed, run.members, run.pulse = 1, SimpleNamespace(network=None), Pulse()
    run.last, run.complaints, run.began, run.keys = [], [], 0.0, SimpleNamespace(all=[])
    run.thrasher, run.evidence = SimpleNamespace(troubles=Troubles()), Evidence(None)
    run.thrasher.troubles.counts.update(had)
    client = thrash.recorded.Client(0, ["nobody:1"], [b"key"], seed=1)
    if wait_seconds:
        client.waits.append(thrash.recorded.Wait(0, round(wait_seconds * 1e9), "nobody:1", "get", b"key", "ok"))
    run.clients = [client]
    said = io.StringIO()
    with mock.patch.object(thrash.recorded, "judge", lambda _: ([], [])), contextlib.redirect_stdout(said):
        return run.judge(), said.getvalue()


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


if __name__ == "__main__":
    main()
