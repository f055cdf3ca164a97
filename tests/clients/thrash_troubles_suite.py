"""Whether the right errors are excused: of troubles that are made up, by a clock of this suite.

Must not know: how a thrasher breaks anything.
"""

from types import SimpleNamespace
from unittest import mock

import thrash_troubles
from expect import case, equal, main
from recorded import BROKEN, NO_MEMORY, TOLD, UNANSWERED, Error
from thrash_troubles import RECOVERY_SECONDS, Trouble, Troubles, share_covered

WINDOW = 2
HERE, ELSEWHERE = "here:1", "elsewhere:1"


class Clock:
    def monotonic(self):
        return 100.0


def troubles_of(*rows):
    """Each a kind, and when its trouble began, ended (none, if it goes on), and was settled, if not then. Clients ask gateways here."""
    troubles = Troubles()
    for kind, began, ended, *settled in rows:
        member = SimpleNamespace(name=kind, redis=HERE) if kind == "gateway" else kind
        trouble = Trouble(member, kind, "broken", began, 0, None)
        trouble.ended, trouble.settled = ended, settled[0] if settled else ended
        (troubles.past if ended else troubles.present).append(trouble)
    return troubles


def windows(*rows):
    with mock.patch.object(thrash_troubles, "time", Clock()):
        return troubles_of(*rows).windows(WINDOW)


def out_of_the_blue(errors, *rows, met=TOLD, address=ELSEWHERE):
    with mock.patch.object(thrash_troubles, "time", Clock()):
        outside = troubles_of(*rows).out_of_the_blue([Error(asked, told, address, met) for asked, told in errors], WINDOW)
        return [(error.asked, error.told) for error in outside]


@case
def gateways_only():
    """a gateway's trouble is a window, and a little after it; nobody else's is"""
    equal(windows(("gateway", 10, 14)), [(10, 16)])
    equal(windows(("node", 10, 14), ("coordinator", 20, 24), ("etcd", 30, 34)), [])
    equal(windows(("gateway", 10, 14), ("gateway", 12, 13)), [(10, 16), (12, 15)])


@case
def that_go_on():
    """what is not mended yet lasts until now"""
    equal(windows(("gateway", 10, None)), [(10, 102)])
    equal(windows(("gateway", 10, 14), ("etcd", 12, None)), [(10, 102 + RECOVERY_SECONDS)])


@case
def kept_from_taking_over():
    """a window lasts as much longer as a coordinator or etcd kept others from taking over, but not a node"""
    late = RECOVERY_SECONDS + WINDOW
    for kind in ("coordinator", "etcd"):
        equal(windows(("gateway", 10, 14), (kind, 5, 10)), [(10, 16)])
        equal(windows(("gateway", 10, 14), (kind, 5, 13)), [(10, 13 + late)])
        equal(windows(("gateway", 10, 14), (kind, 5, 20)), [(10, 20 + late)])
        equal(windows(("gateway", 10, 14), (kind, 15, 20)), [(10, 20 + late)])
        equal(windows(("gateway", 10, 14), (kind, 17, 20)), [(10, 16)])
        # Whoever led a moment before has no follower yet.
        equal(windows(("gateway", 10, 10), (kind, 5, 9.9)), [(10, 9.9 + late)])
        equal(windows(("gateway", 10, 10), (kind, 5, 9.9 - RECOVERY_SECONDS)), [(10, 12)])
    equal(windows(("gateway", 10, 14), ("node", 12, 20)), [(10, 16)])
    equal(windows(("gateway", 10, 14), ("coordinator", 17, 20), ("etcd", 5, 15.5)), [(10, 20 + late)])
    equal(windows(("gateway", 10, 14), ("coordinator", 21, 22), ("etcd", 5, 15.5)), [(10, 15.5 + late)])


@case
def kept_from_giving_back():
    """the same while a gateway that is well again has yet to get its share back"""
    late = RECOVERY_SECONDS + WINDOW
    equal(windows(("gateway", 10, 14, 30), ("coordinator", 29, 40)), [(29, 40 + late), (10, 16)])
    equal(windows(("gateway", 10, 14, 30), ("coordinator", 31, 40)), [(10, 16)])
    equal(windows(("gateway", 10, 14, 30), ("coordinator", 15, 40)), [(10, 40 + late)])
    for error, met in [((20, 21), TOLD), ((30, 31), BROKEN)]:
        equal(out_of_the_blue([error], ("gateway", 10, 14, 30), ("coordinator", 29, 40), met=met, address=HERE), [error])
    equal(out_of_the_blue([(30, 31)], ("gateway", 10, 14, 30), ("coordinator", 29, 40)), [])
    troubles = troubles_of(("gateway", 10, 14, 30), ("gateway", 20, 24, None), ("gateway", 50, None))
    with mock.patch.object(thrash_troubles, "time", Clock()):
        troubles.settle()
    equal([trouble.settled for trouble in troubles.all()], [30, 100, None])


@case
def errors():
    """an error is excused if a window was open at any time between question and answer"""
    gateway = ("gateway", 10, 14)
    for error in [(9, 10), (10, 10), (5, 50), (12, 13), (16, 16), (16, 30)]:
        equal(out_of_the_blue([error], gateway), [])
    for error in [(8, 9.9), (16.1, 17)]:
        equal(out_of_the_blue([error], gateway), [error])
    equal(out_of_the_blue([(30, 31), (1, 2), (11, 12)], gateway), [(1, 2), (30, 31)])
    equal(out_of_the_blue([(11, 12)], ("node", 10, 14)), [(11, 12)])


@case
def not_reached():
    """a connection that breaks, or on which nothing comes, is excused by trouble of the gateway that was asked, but by no other one's"""
    error, late = (11, 12), (18, 19)
    for met in (BROKEN, UNANSWERED):
        equal(out_of_the_blue([error], ("gateway", 10, 14), met=met, address=HERE), [])
        equal(out_of_the_blue([error], ("gateway", 10, 14), met=met), [error])
        equal(out_of_the_blue([late], ("gateway", 10, 14), met=met, address=HERE), [late])
        equal(out_of_the_blue([late], ("gateway", 10, 14), ("etcd", 12, 17), met=met, address=HERE), [])


@case
def never_excused():
    """that there is no memory is excused by nothing"""
    equal(out_of_the_blue([(11, 12)], ("gateway", 10, 14), met=NO_MEMORY, address=HERE), [(11, 12)])


@case
def shares():
    """how much of a time lies in windows, each moment counted once"""
    for windows_, share in [
        ([], 0),
        ([(0, 10)], 1),
        ([(-5, 50)], 1),
        ([(2, 4)], 0.2),
        ([(-5, 1), (9, 12)], 0.2),
        ([(-5, -1), (10, 12)], 0),
        ([(6, 8), (2, 4)], 0.4),
        ([(2, 6), (4, 8)], 0.6),
        ([(2, 8), (3, 4), (5, 9)], 0.7),
        ([(2, 4), (2, 4)], 0.2),
    ]:
        equal(round(share_covered(windows_, 0, 10), 9), share)
    equal(share_covered([(105, 110)], 100, 120), 0.25)


@case
def kinds():
    """a kind that was never had is told, although another one is called alike"""
    troubles = Troubles()
    for kind in ("node late now and then", "gateway frozen", "near node killed", "near node joined", "node joined"):
        troubles.counts[kind] += 2
    had = ["node late now and then", "gateway frozen", "near node killed", "any node killed", "any node joined", "node joined"]
    equal(troubles.never_had(had), [])
    never = ["node late", "node frozen", "node killed", "any node frozen", "etcd frozen"]
    equal(troubles.never_had([*had, *never]), never)
    equal([troubles.times_had(kind) for kind in ("gateway frozen", "any node joined", "near node joined", "etcd frozen")], [2, 4, 2, 0])


if __name__ == "__main__":
    main()
