"""Makes one read of a history stale: a judge that does not find it finds nothing.

    stale.py HISTORY > STALE

The read was told what is stored there since before it was asked, and had been since after another value was; it is told the other
one instead. Values that are stored only once cannot have come back meanwhile.
"""

import sys
from collections import Counter

KEY, ACTION, VALUE, CALLED, RETURNED, OUTCOME, ANSWER = 0, 2, 3, 4, 5, 6, 7
STORES = ("set", "add", "replace", "cas")


def make_stale(lines):
    """The place of a read in the list, and the answer that would be stale; none, if there is no such read."""
    stored = Counter((line[KEY], line[VALUE].split(">")[-1]) for line in lines if line[ACTION] in STORES)
    sets = [line for line in lines if line[ACTION] == "set" and line[OUTCOME] == "ok" and stored[line[KEY], line[VALUE]] == 1]
    for place, read in enumerate(lines):
        if read[ACTION] != "get" or read[OUTCOME] != "ok":
            continue
        for new in sets:
            if new[KEY] != read[KEY] or new[VALUE] != read[ANSWER] or int(new[RETURNED]) >= int(read[CALLED]):
                continue
            for old in sets:
                if old[KEY] == new[KEY] and int(old[RETURNED]) < int(new[CALLED]):
                    return place, old[VALUE]
    return None


def main():
    with open(sys.argv[1], encoding="ascii") as history:
        lines = [line.rstrip("\n").split("\t") for line in history if not line.startswith("#")]
    found = make_stale(lines)
    if not found:
        sys.exit(f"{sys.argv[1]}: no read can be made stale")
    place, value = found
    lines[place][ANSWER] = value
    sys.stdout.writelines("\t".join(line) + "\n" for line in lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
