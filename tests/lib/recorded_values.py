"""Values that recording clients store: how long they are, which bytes they have, and the names by which a history knows them.

A value that is long enough begins with its name, and the rest follows from that; a shorter one is its own name. Some keys hold text
that grows, or a number, instead: their values are their own names whatever their length, as a judge adds to them itself.

Must not know: protocols.
"""

import hashlib
import zlib

# What a key holds: whatever is stored, text, or a number.
BYTES, TEXT, NUMBER = "bytes", "text", "number"
KINDS = [TEXT, NUMBER, *[BYTES] * 6]
NAMED_BYTES = 24
# Of a record, beside key and value: with a counter, or a whole version.
RECORD_BYTES = (12, 16)
# Up to two blocks of 4 KiB a record is packed, with RS(4,2).
PACKED_BYTES_MAX = 8192
# A piece has a header of 256 bytes and a checksum of 4, and takes a multiple of a KiB, up to the 64 of a chunk; a stripe has 4.
PIECE_BYTES = 260
STRIPE_PIECES = 4
# What memcached's clients store of an object, its key and 59 bytes more counted, is at most so long.
OBJECT_BYTES_MAX = (1 << 20) - 59


def striped_bytes(kibibytes):
    """The longest value of one stripe whose pieces take so many KiB each."""
    return STRIPE_PIECES * (kibibytes * 1024 - PIECE_BYTES)


def around(size):
    return [size - 1, size, size + 1]


# Small ones, a quarter of a chunk of 65 280 B, a chunk, pieces of so many KiB, one whole stripe, a few.
SIZES = [0, 1, 31, 100, 100, 100, 127, 128, 1000, 4000, 16_250, 16_300, 16_320, 16_384, 65_240, 65_279, 65_280, 65_281, 200_000, 300_000]
SIZES += [*around(striped_bytes(4)), *around(striped_bytes(32)), *around(striped_bytes(33)), *around(striped_bytes(64))]
# As many again that are just packed, or just not: a key's length counts.
PACKED_SHARE = 0.35
# Long ones are rare, since they take long: two whole stripes; and the longest that is taken, or refused.
LONG_SIZES = around(2 * striped_bytes(64))
LONG_SHARE = 0.01


def kind_of(key):
    """The same for everybody who uses the key."""
    return KINDS[zlib.crc32(key) % len(KINDS)]


def size_of_next(draw, key, longest):
    """`draw`: draws at random; `longest`: value that is taken."""
    chance = draw.random()
    if chance < LONG_SHARE:
        return draw.choice([*LONG_SIZES, *around(longest)])
    if chance < LONG_SHARE + PACKED_SHARE:
        return PACKED_BYTES_MAX - len(key) - draw.choice(RECORD_BYTES) + draw.choice([-1, 0, 1])
    return draw.choice(SIZES)


def value_of(name, size):
    """The bytes of a value; the shorter ones are not unique."""
    if size < NAMED_BYTES:
        return name.encode()[-size:] if size else b""
    head = name.encode().ljust(NAMED_BYTES, b".")
    return head + (head * (size // NAMED_BYTES))[: size - NAMED_BYTES]


def name_of(value, kind=BYTES):
    if kind != BYTES and value.isalnum():
        return value.decode()
    if len(value) < NAMED_BYTES:
        return "h" + value.hex()
    head = value[:NAMED_BYTES]
    whole = head + (head * (len(value) // NAMED_BYTES))[: len(value) - NAMED_BYTES]
    if value != whole or not head.rstrip(b".").replace(b":", b"").isalnum():
        return "damaged-" + hashlib.sha256(value).hexdigest()
    return f"{head.rstrip(b'.').decode()}/{len(value)}"
