"""The file that a node keeps its memory in, hurt on purpose: bits turn over, of its sealed chunks or of what tells of all else.
Layout: docs/formats/memory-file.md.

Must not know: whose file it is, who finds the damage.
"""

import mmap
import struct

KIB = 1024
BLOCK_BYTES = 64 * KIB
IDENTITY_BYTES = 4096
IDENTITY_USED_BYTES = 56
NOTES_BYTES = 2 * 32 * KIB
NOTES_HEAD_BYTES = 16
PLACES_AT, PLACES_BYTES = 64, 20
ENTRY_BYTES = 2
PAGE_BYTES = 4096
HEADER_BYTES = 256
MAGIC = b"STM4"
CHUNK_MAGIC = b"STC1"
SEALED = 1


def thirty_second(memory_bytes, least):
    return max(least, min(memory_bytes // 32, 4 * KIB * KIB))


def pages(count):
    return -(-count // PAGE_BYTES) * PAGE_BYTES


def memory_bytes_of(view):
    return struct.unpack_from("<Q", view, 24)[0]


def log_bytes(memory_bytes):
    return PAGE_BYTES + pages(thirty_second(memory_bytes, 128 * KIB))


def cores(view):
    """Where the table and the arena of each core are, and how many KiB the arena has."""
    memory_bytes, (core_count,) = memory_bytes_of(view), struct.unpack_from("<H", view, 34)
    arena_bytes = (memory_bytes - thirty_second(memory_bytes, 0)) // BLOCK_BYTES * BLOCK_BYTES
    at = IDENTITY_BYTES
    for _ in range(core_count):
        table = at + NOTES_BYTES + log_bytes(memory_bytes)
        arena = table + pages(ENTRY_BYTES * arena_bytes // KIB)
        yield table, arena, arena_bytes // KIB
        at = arena + arena_bytes


def entry(view, table, unit):
    start = table + ENTRY_BYTES * unit
    return view[start : start + ENTRY_BYTES]


def sealed_chunks(view):
    """(place, bytes in use with the header) of each."""
    for table, arena, count in cores(view):
        for unit in range(count):
            if not all(entry(view, table, unit)):
                continue
            place = arena + unit * KIB
            state, length = view[place + 8], struct.unpack_from("<I", view, place + 12)[0]
            if view[place : place + 4] == CHUNK_MAGIC and state & SEALED and length <= BLOCK_BYTES - HEADER_BYTES:
                yield place, HEADER_BYTES + length


def check_layout(path, view):
    if view[:4] != MAGIC:
        raise ValueError(f"{path}: the layout is {view[:4]!r}, and this knows only {MAGIC!r}")


def flip(view, start, length, random):
    view[start + random.randrange(length)] ^= 1 << random.randrange(8)


def flip_bits(path, count, random):
    """Turns over so many bits of sealed chunks; how many were."""
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as view:
        check_layout(path, view)
        chunks = list(sealed_chunks(view))
        for _ in range(count if chunks else 0):
            flip(view, *random.choice(chunks), random)
    return count if chunks else 0


def flip_what_is_there_twice(path, count, random):
    """Turns over a bit in each of so many entries of each core's table, and in one copy of all else that is there twice: the next
    process mends that, and nothing is lost. The process that used it is dead. How many bits were."""
    flipped = 0
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as view:
        if not any(view[:IDENTITY_USED_BYTES]):
            return 0
        check_layout(path, view)
        for table, _, units in list(cores(view)):
            told = [unit for unit in range(units) if any(entry(view, table, unit))]
            chosen = random.sample(range(units), min(count, units)) + random.sample(told, min(count, len(told)))
            entries = [(table + ENTRY_BYTES * unit, ENTRY_BYTES) for unit in sorted(set(chosen))]
            log = table - log_bytes(memory_bytes_of(view))
            places, notes = log + random.choice([0, PLACES_AT]), log - random.choice([1, 2]) * NOTES_BYTES // 2
            for start, length in [*entries, (places, PLACES_BYTES), (notes, NOTES_HEAD_BYTES)]:
                flip(view, start, length, random)
                flipped += 1
        flip(view, random.choice([0, IDENTITY_BYTES // 2]), IDENTITY_USED_BYTES, random)
    return flipped + 1
