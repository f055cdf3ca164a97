"""A client of one gateway that asks for its keys in turn, and whose every request counts: one that broke, or that was never
answered, with the time that it waited.

Must not know: what is done to the gateways meanwhile.
"""

import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import cluster  # noqa: E402  (the path must be set first)


class Asker(threading.Thread):
    """`turn` asks for all keys once. When it is told to end, it asks for all of them once more."""

    def __init__(self, name, address, keys, timeout):
        super().__init__(name=name, daemon=True)
        self.stream, self.keys = cluster.connect(address, timeout).makefile("rwb"), keys
        self.is_over, self.problem = False, None
        # When each request was sent, and when its answer was there, or known never to come.
        self.waits = []
        # When the last turn began of which every answer was right.
        self.last_turn = None

    def ask(self, command, lines):
        """So many lines of an answer, or fewer: after a line that is an error nothing follows."""
        asked = time.monotonic()
        try:
            self.stream.write(command)
            self.stream.flush()
            answer = [self.stream.readline()]
            while len(answer) < lines and answer[-1].startswith((b"VALUE", b"value")):
                answer.append(self.stream.readline())
            return answer
        finally:
            self.waits.append((asked, time.monotonic()))

    def run(self):
        try:
            while not self.is_over:
                self.whole_turn()
            self.whole_turn()
        except Exception as error:  # whatever it is, a request has failed
            self.problem = f"{self.name}: {type(error).__name__}: {error}"

    def whole_turn(self):
        began = time.monotonic()
        self.turn()
        self.last_turn = began


def add_timeout(parser):
    parser.add_argument("--timeout", type=float, default=60, help="seconds after which a request counts as never answered")


def longest(askers, first, last=float("inf")):
    """Seconds that the longest wait took of those that were over in this time."""
    waits = (wait for asker in askers for wait in asker.waits)
    return max((told - asked for asked, told in waits if first <= told < last), default=0.0)


def problems(askers, since):
    """What failed; and who was not answered for each of its keys since then, which is when all should be well."""
    failed = [asker for asker in askers if asker.problem or asker.last_turn is None or asker.last_turn < since]
    return [asker.problem or f"{asker.name} was not answered at the end" for asker in failed]
