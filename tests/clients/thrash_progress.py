"""Whether drains and repairs get on: a cluster in which nothing is broken, and that stands still, is wrong.

Must not know: what was broken before, and why a cluster does not get on.
"""

import json

# Far beyond all waits before something is tried again, and what a busy machine takes for a chunk.
STANDSTILL_SECONDS = 30


class Progress:
    def __init__(self):
        # What was left when it changed last, and when that was.
        self.left, self.since = None, 0.0

    def look(self, status, is_calm, now):
        """What the coordinator tells; whether nothing is broken; seconds of any clock.

        Complains of a standstill."""
        left = is_calm and status and status["partitions_served"] == status["partitions"] and what_is_left(status)
        if not left or left != self.left:
            self.left, self.since = left, now
        elif now > self.since + STANDSTILL_SECONDS:
            raise RuntimeError(f"for {STANDSTILL_SECONDS} s nothing was broken, and nothing got on: {json.dumps(status)}")


def what_is_left(status):
    """Of drains and of repair, and how much was done; nothing, if nothing is."""
    drains = {node["id"]: node["drain"]["chunks_left"] for node in status["nodes"] if node["drain"] and not node["drain"]["drained"]}
    repair = status["repair"]
    if not drains and repair["chunks_missing"] + repair["stripes_stranded"] == 0:
        return None
    return drains, repair["chunks_missing"], repair["stripes_stranded"], repair["chunks_rebuilt_total"]
