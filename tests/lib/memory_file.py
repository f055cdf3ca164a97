"""The file that a node keeps its memory in, hurt on purpose: bits of its sealed chunks turn over. Layout: docs/formats/memory-file.md.

Must not know: whose file it is, who finds the damage.
"""

import mmap
import struct

KIB = 1024
BLOCK_BYTES = 64 * KIB
IDENTITY_BYTES = 4096
NOTES_BYTES = 2 * 32 * KIB
PAGE_BYTES = 4096
HEADER_BYTES = 256
MAGIC = b"STM3"
CHUNK_MAGIC = b"STC1"
SEALED = 1


def thirty_second(memory_bytes, least):
    return max(least, min(memory_bytes // 32, 4 * KIB * KIB))


def pages(count):
    return -(-count // PAGE_BYTES) * PAGE_BYTES


def cores(view):
    """Where the table and the arena of each core are, and how many KiB the arena has."""
    (memory_bytes,), (core_count,) = struct.unpack_from("<Q", view, 24), struct.unpack_from("<H", view, 34)
    arena_bytes = (memory_bytes - thirty_second(memory_bytes, 0)) // BLOCK_BYTES * BLOCK_BYTES
    log_bytes = PAGE_BYTES + pages(thirty_second(memory_bytes, 128 * KIB))
    at = IDENTITY_BYTES
    for _ in range(core_count):
        table = at + NOTES_BYTES + log_bytes
        arena = table + pages(arena_bytes // KIB)
        yield table, arena, arena_bytes // KIB
        at = arena + arena_bytes


def sealed_chunks(view):
    """(place, bytes in use with the header) of each."""
    for table, arena, count in cores(view):
        for unit in range(count):
            if not view[table + unit]:
                continue
            place = arena + unit * KIB
            state, length = view[place + 8], struct.unpack_from("<I", view, place + 12)[0]
            if view[place : place + 4] == CHUNK_MAGIC and state & SEALED and length <= BLOCK_BYTES - HEADER_BYTES:
                yield place, HEADER_BYTES + length


def flip_bits(path, count, random):
    """Turns over so many bits of sealed chunks; how many were."""
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as view:
        if view[:4] != MAGIC:
            raise ValueError(f"{path}: the layout is {view[:4]!r}, and this knows only {MAGIC!r}")
        chunks = list(sealed_chunks(view))
        for _ in range(count if chunks else 0):
            place, used = random.choice(chunks)
            view[place + random.randrange(used)] ^= 1 << random.randrange(8)
    return count if chunks else 0
