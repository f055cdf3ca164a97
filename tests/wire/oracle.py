"""The reference servers as oracles: one random command script to theirs and to ours, and the answers must be the same bytes.

    oracle.py memcached|redis [--commands 4000] [--seed N ...] [--fresh 1] [--left ours|real] [--kill 2]

Each seed yields scripts of a few dozen commands. A script starts on an empty store and a new connection; it is sent one
command at a time, in one write, or in pieces cut anywhere. Where the answers differ the script is shrunk by leaving out
commands as long as they still differ, and printed with its seed and both answers.

What may differ is written in one place for each protocol: `same` of oracle_memcached.py and oracle_redis.py. The
references are not quite deterministic (memcached's incr pads a value or not depending on what its background threads hold
at that moment: about one script in a thousand), so a script that differs is put to the reference again, and one answer of
REFERENCE_RUNS must be ours. A script that was sent in one go is at last put to it command by command: what an answer that
is not sent yet does to the commands behind it (memcached pads no number then) is the reference's own affair.
Must not know: any protocol's grammar.
"""

import argparse
import contextlib
import os
import random
import secrets
import socket
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "lib"))
import cluster  # noqa: E402  (the path must be set first)
import oracle_memcached  # noqa: E402
import oracle_redis  # noqa: E402

DIALECTS = {"memcached": oracle_memcached, "redis": oracle_redis}
FIXED_SEEDS = (1, 2, 3)
SCRIPT_COMMANDS = (5, 45)
ANSWER_SECONDS_MAX = 20
DIFFERENCES_MAX = 15
REFERENCE_RUNS = 4
NO_ANSWER = b"<no answer>"
CLOSED = b"<closed>"


class Conversation:
    """One connection on which each request is followed by the dialect's sentinel, so that its answer's end is known."""

    def __init__(self, dialect, address):
        self.dialect = dialect
        self.connection = cluster.connect(address)
        self.connection.settimeout(ANSWER_SECONDS_MAX)
        self.memory = {}
        self.ended = False

    def close(self):
        self.connection.close()

    def ask(self, pieces):
        """The bytes that answer `pieces`, which are sent in writes of their own."""
        if self.ended:
            return CLOSED
        try:
            for piece in pieces:
                self.connection.sendall(piece)
            self.connection.sendall(self.dialect.SENTINEL)
        except (BrokenPipeError, ConnectionResetError):
            pass  # what the server said before it closed is still to be read
        answer = bytearray()
        while not answer.endswith(self.dialect.SENTINEL_ANSWER):
            try:
                part = self.connection.recv(1 << 20)
            except socket.timeout:
                self.ended = True
                return bytes(answer) + NO_ANSWER
            except ConnectionResetError:
                part = b""
            if not part:
                self.ended = True
                return bytes(answer) + CLOSED
            answer += part
        return bytes(answer[: -len(self.dialect.SENTINEL_ANSWER)])


def cut(data, rng):
    """`data` in a few pieces, cut anywhere."""
    places = sorted(rng.randrange(len(data) + 1) for _ in range(rng.randrange(1, 6)))
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)]) if a < b]


class Script:
    """Commands and the manner in which they are sent."""

    def __init__(self, commands, manner, seed):
        self.commands, self.manner, self.seed = commands, manner, seed

    def without(self, start, count):
        return Script(self.commands[:start] + self.commands[start + count :], self.manner, self.seed)

    def run(self, dialect, address, one_by_one=False):
        """A list of answers: one a command, or one for all when they are sent together, or are to be looked at so."""
        dialect.clean(address)
        conversation = Conversation(dialect, address)
        try:
            if self.manner == "stepwise":
                answers = []
                for command in self.commands:
                    answer = conversation.ask([dialect.render(command, conversation.memory)])
                    dialect.learn(command, answer, conversation.memory)
                    answers.append(answer)
                return answers
            if one_by_one:
                return [b"".join(conversation.ask([dialect.render(command, {})]) for command in self.commands)]
            data = b"".join(dialect.render(command, {}) for command in self.commands)
            return [conversation.ask([data] if self.manner == "together" else cut(data, random.Random(self.seed)))]
        finally:
            conversation.close()

    def difference(self, dialect, pair):
        """None, or (command, left answer, right answer) of the first difference."""
        ours = self.run(dialect, pair.left)
        found = None
        for _ in range(REFERENCE_RUNS):
            found = self._first_difference(dialect, ours, self.run(dialect, pair.right))
            if not found:
                return None
            if pair.left_is_reference:
                ours = self.run(dialect, pair.left)
        if self.manner != "stepwise":
            found = self._first_difference(dialect, ours, self.run(dialect, pair.right, one_by_one=True))
        return found

    def _first_difference(self, dialect, ours, theirs):
        memories = ({}, {})
        commands = self.commands if self.manner == "stepwise" else [None]
        for command, left, right in zip(commands, ours, theirs):
            # A server that closes with input unread may take its last words with it.
            if right.endswith(CLOSED) and left.endswith(CLOSED) and left.startswith(right[: -len(CLOSED)]):
                continue
            if not dialect.same(command, left, right, memories):
                return command, left, right
        return None


class Pair:
    """The addresses of the server to judge and of the reference."""

    def __init__(self, left, right, protocol):
        self.left, self.right = getattr(left, protocol), getattr(right, protocol)
        self.left_is_reference = isinstance(left, cluster.Real)


def generate(dialect, rng):
    manner = rng.choice(["stepwise", "stepwise", "stepwise", "together", "pieces"])
    count = rng.randrange(*SCRIPT_COMMANDS)
    return Script(dialect.generate(rng, count, manner == "stepwise"), manner, rng.randrange(1 << 32))


def shrink(script, dialect, pair):
    """The same difference with as few commands as leaving out runs of them can reach."""
    size = max(1, len(script.commands) // 2)
    while True:
        start = 0
        while start < len(script.commands):
            smaller = script.without(start, size)
            if smaller.commands and smaller.difference(dialect, pair):
                script = smaller
            else:
                start += size
        if size == 1:
            return script
        size = max(1, size // 2)


def short(data):
    text = repr(data)
    return text if len(text) < 400 else f"{text[:200]} ... {text[-160:]} ({len(data)} bytes)"


def report(script, seed, dialect, pair):
    script = shrink(script, dialect, pair)
    found = script.difference(dialect, pair)
    print(f"not ok seed {seed}: {len(script.commands)} commands, sent {script.manner}")
    for command in script.commands:
        print(f"    {short(command.show())}")
    if found:
        print(f"    got    {short(found[1])}\n    wanted {short(found[2])}")
    else:
        print("    the difference does not show again once shrunk")
    sys.stdout.flush()


def run_seed(seed, count, dialect, pair):
    """(number of commands, number of differing scripts)"""
    rng = random.Random(seed)
    done, scripts, differing = 0, 0, 0
    while done < count and differing < DIFFERENCES_MAX:
        script = generate(dialect, rng)
        done += len(script.commands)
        scripts += 1
        if script.difference(dialect, pair):
            differing += 1
            report(script, seed, dialect, pair)
    verdict = "ok" if not differing else "not ok"
    print(f"{verdict} seed {seed}: {scripts} scripts, {done} commands, {differing} scripts differ", flush=True)
    return scripts - differing, differing


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("protocol", choices=sorted(DIALECTS))
    parser.add_argument("--commands", type=int, default=3000, help="commands for each seed")
    parser.add_argument("--seed", type=int, action="append", help="instead of the fixed and fresh ones")
    parser.add_argument("--fresh", type=int, default=1, help="how many fresh seeds to add to the fixed ones")
    parser.add_argument("--left", choices=["ours", "real"], default="ours", help="`real` tests this program itself")
    parser.add_argument("--kill", type=int, default=0, help="kill this many of our nodes before the scripts")
    arguments = parser.parse_args()
    cluster.end_on_sigterm()
    dialect = DIALECTS[arguments.protocol]
    seeds = arguments.seed or [*FIXED_SEEDS, *(secrets.randbelow(1 << 32) for _ in range(arguments.fresh))]
    passed = failed = 0
    try:
        # The reference is stopped whatever becomes of ours.
        with contextlib.ExitStack() as ends:
            right = cluster.Real()
            ends.callback(right.stop)
            left = cluster.start(arguments.left)
            ends.callback(left.stop)
            if arguments.kill:
                left.kill_nodes(arguments.kill)
            for seed in seeds:
                good, bad = run_seed(seed, arguments.commands, dialect, Pair(left, right, arguments.protocol))
                passed, failed = passed + good, failed + bad
    except (RuntimeError, OSError) as error:
        print(f"not ok {type(error).__name__}: {error}")
        failed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
