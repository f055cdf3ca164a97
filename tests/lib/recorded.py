"""Clients that write down what they asked and what they were told, so that a checker can judge whether every key was linearizable.

A line an operation, as crates/sim/src/lines.rs tells; times of one clock, in nanoseconds.

Must not know: what is done to the cluster meanwhile.
"""

import os
import random
import socket
import subprocess
import threading
import time

import cluster
from recorded_values import BYTES, NAMED_BYTES, NUMBER, OBJECT_BYTES_MAX, TEXT, kind_of, name_of, size_of_next, value_of

ABSENT = "-"
# Of a client's steps, how many begin with another connection.
WANDERING = 0.01
# Nobody who is refused fills a history with attempts.
RECONNECT_PAUSE_SECONDS = 0.02
# After a cut TCP tries again within a second, where Linux knows the option (6.15), and not as long after it as it took.
TCP_RTO_MAX_MS = 44
# Answers that took longer are remembered one by one.
LONG_SECONDS = 0.5
# What an operation that failed met: an error that it was told, or that there is no memory; a connection that broke, or was refused;
# or nothing for as long as a client waits.
TOLD, NO_MEMORY, BROKEN, UNANSWERED = "told an error", "told that there is no memory", "not reached", "not answered"


class Error:
    """One operation that failed: when it was asked and that was known, where, and what it met. Attempts to connect are among these."""

    def __init__(self, asked, told, address, met):
        self.asked, self.told, self.address, self.met = asked, told, address, met

    def __str__(self):
        return f"{self.told:.3f} ({self.met} by {self.address} after {self.told - self.asked:.3f} s)"


class Wait:
    """One operation that took long: when it began and was over, as a client saw it, and whom it had asked."""

    def __init__(self, called, returned, address, action, key, outcome):
        self.called, self.returned, self.seconds = called / 1e9, returned / 1e9, (returned - called) / 1e9
        self.address, self.action, self.key, self.outcome = address, action, key.decode(), outcome


def met_with(error):
    """What an operation met whose connection failed so."""
    return UNANSWERED if isinstance(error, TimeoutError) else BROKEN


def number_in(line):
    """As it stands in a whole line that has nothing else."""
    return line.strip().decode() if line.strip().isdigit() and line.endswith(b"\r\n") else None


def resend_steadily(connection):
    try:
        connection.setsockopt(socket.IPPROTO_TCP, TCP_RTO_MAX_MS, 1000)
    except OSError:
        pass  # an older system


class Client(threading.Thread):
    """Reads and changes keys that all clients share, through one address after the other, until it is told to end.

    It speaks memcached's text protocol; another protocol has other commands, answers, and errors."""

    # What is done to keys of each kind, and how often.
    STEPS = {
        BYTES: {"get": 48, "set": 26, "add": 7, "replace": 3, "cas": 5, "touch": 2, "delete": 9},
        TEXT: {"get": 40, "append": 36, "set": 8, "add": 4, "replace": 3, "delete": 9},
        NUMBER: {"get": 40, "count": 42, "set": 5, "add": 4, "delete": 9},
    }

    # How errors begin: of something that may have happened, or did not, also for want of memory; and the one for what is too long.
    UNKNOWN, REFUSED, FULL = (b"SERVER_ERROR outcome unknown",), (b"SERVER_ERROR ",), b"SERVER_ERROR out of memory"
    # What is read where nothing is, and after a value.
    NOTHING, VALUE_END = b"END\r\n", b"\r\nEND\r\n"
    TOO_LONG = b"SERVER_ERROR object too large for cache\r\n"

    def __init__(self, number, addresses, keys, seed, pause=0.0, sizes=None):
        super().__init__(daemon=True)
        self.number, self.addresses, self.keys, self.pause = number, addresses, keys, pause
        self.random, self.sizes = random.Random(f"{seed}/{number}"), sizes
        self.is_over, self.problem, self.stream, self.address = False, None, None, None
        self.lines, self.count = [], {"ok": 0, "unknown": 0, "refused": 0}
        # Seconds that the longest answer took, and all operations that took long, whatever came of them.
        self.longest, self.waits = 0.0, []
        # How often a value was refused that is too long.
        self.too_long_count = 0
        # What failed, and what the last operation met whose connection failed.
        self.errors, self.met = [], None
        # Of what was read last, if it was asked for: by which it is compared.
        self.token = None

    def run(self):
        try:
            while not self.is_over:
                self.step()
                if self.pause:
                    time.sleep(self.random.uniform(0, 2 * self.pause))
        except Exception as error:  # whatever it is, the run has failed
            self.problem = f"client {self.number} after {len(self.lines)} operations: {type(error).__name__}: {error}"

    def step(self):
        if self.random.random() < WANDERING:
            self.stream = None
        key = self.random.choice(self.keys)
        steps = self.STEPS[kind_of(key)]
        self.do(self.random.choices(list(steps), steps.values())[0], key)

    def do(self, action, key):
        match action:
            case "get":
                self.get(key)
            case "cas":
                self.compare_and_set(key)
            case "touch":
                self.touch(key)
            case "append":
                self.append(key, self.next_value(key))
            case "count":
                self.count_up(key, self.random.randrange(1, 10))
            case "delete":
                self.delete(key)
            case _:
                value = self.next_value(key)
                # What is too long to be stored ends what was there, unless it is an addition.
                self.store(key, "add" if self.is_long(key, value) else action, value)

    def next_value(self, key):
        kind, number = kind_of(key), len(self.lines)
        if kind == NUMBER:
            return b"%d" % number
        # All letters differ from one another's: whose they are is seen in what they are added to.
        return b"c%dn%dx" % (self.number, number) if kind == TEXT else value_of(f"{self.number}:{number}", self.size(key))

    def value_bytes_max(self, key):
        return OBJECT_BYTES_MAX - len(key)

    def is_long(self, key, value):
        """Is it too long to be stored?"""
        return len(value) > self.value_bytes_max(key)

    def store(self, key, verb, value):
        answers = {b"STORED\r\n": "stored", b"NOT_STORED\r\n": "exists" if verb == "add" else "absent"}
        named = name_of(value, kind_of(key))
        self.write(key, verb, named, self.storing(verb, key, value), answers.get, self.is_long(key, value))

    def storing(self, verb, key, value, more=b""):
        return b"%s %s 0 0 %d%s\r\n%s\r\n" % (verb.encode(), key, len(value), more, value)

    def append(self, key, tail):
        self.store(key, "append", tail)

    def count_up(self, key, more):
        def told(line):
            return "absent" if line == b"NOT_FOUND\r\n" else number_in(line)

        self.write(key, "incr", f"{more}", b"incr %s %d\r\n" % (key, more), told)

    def compare_and_set(self, key):
        """Whoever stores something else meanwhile is not overwritten."""
        found = self.get(key, b"gets %s\r\n" % key)
        value = self.next_value(key)
        # A judge compares values, and the store tokens: with values that are stored twice this is not the same.
        if found is None or len(found) < NAMED_BYTES or self.is_long(key, value):
            return
        answers = {b"STORED\r\n": "stored", b"EXISTS\r\n": "differs", b"NOT_FOUND\r\n": "absent"}
        command = self.storing("cas", key, value, b" " + self.token)
        self.write(key, "cas", f"{name_of(found)}>{name_of(value)}", command, answers.get)

    def touch(self, key):
        self.write(key, "touch", ABSENT, b"touch %s 0\r\n" % key, {b"TOUCHED\r\n": "touched", b"NOT_FOUND\r\n": "absent"}.get)

    def delete(self, key):
        self.write(key, "delete", ABSENT, b"delete %s\r\n" % key, {b"DELETED\r\n": "deleted", b"NOT_FOUND\r\n": "absent"}.get)

    def size(self, key):
        """Of the next value."""
        return self.random.choice(self.sizes) if self.sizes else size_of_next(self.random, key, self.value_bytes_max(key))

    def is_connected(self):
        """With one attempt to connect, if it is not: who is refused then tries elsewhere with the next operation."""
        if self.stream is None:
            self.address = self.random.choice(self.addresses)
            try:
                connection = cluster.connect(self.address)
            except OSError as error:
                self.met = met_with(error)
                return False
            resend_steadily(connection)
            self.stream = connection.makefile("rwb")
        return True

    def never_sent(self, key, action, value, called):
        """Nobody could be asked: it has not happened, and the client was not served."""
        self.note(key, action, value, called, "refused", met=self.met)
        time.sleep(RECONNECT_PAUSE_SECONDS)

    def note(self, key, action, value, called, outcome, answer=ABSENT, met=None):
        """`met`: by what failed."""
        returned = time.monotonic_ns()
        self.count[outcome] += 1
        if outcome == "ok":
            self.longest = max(self.longest, (returned - called) / 1e9)
        else:
            self.errors.append(Error(called / 1e9, returned / 1e9, self.address, met))
        if returned - called > LONG_SECONDS * 1e9:
            self.waits.append(Wait(called, returned, self.address, action, key, met if met == UNANSWERED else outcome))
        told = returned if outcome == "ok" else ABSENT
        self.lines.append(f"{key.decode()}\t{self.number}\t{action}\t{value}\t{called}\t{told}\t{outcome}\t{answer}")

    def ask(self, command):
        """The first line of the answer; none, if the connection broke."""
        try:
            self.stream.write(command)
            self.stream.flush()
            line = self.stream.readline()
        except OSError as error:
            self.met = met_with(error)
            return b""
        self.met = BROKEN
        return line

    def met_in(self, line):
        """By what failed, with such an answer."""
        if not line.endswith(b"\n"):
            return self.met
        return NO_MEMORY if line.startswith(self.FULL) else TOLD

    def write(self, key, action, value, command, answer_of, may_be_long=False):
        """`answer_of`: what a line of an answer means, if it is one; `may_be_long`: may be refused as too long."""
        called = time.monotonic_ns()
        if not self.is_connected():
            return self.never_sent(key, action, value, called)
        line = self.ask(command)
        answer = answer_of(line)
        if answer is not None:
            self.note(key, action, value, called, "ok", answer)
        elif not line.endswith(b"\n") or line.startswith(self.UNKNOWN):
            self.note(key, action, value, called, "unknown", met=self.met_in(line))
            self.stream = self.stream if line.endswith(b"\n") else None
        elif line == self.TOO_LONG and may_be_long:
            self.too_long_count += 1
        elif line == self.TOO_LONG:
            raise ValueError(f"{action} {key!r} of {len(command)} bytes with all: {line!r}")
        elif line.startswith(self.REFUSED):
            self.note(key, action, value, called, "refused", met=self.met_in(line))
        else:
            raise ValueError(f"{action} {key!r}: {line!r}")

    def get(self, key, command=None):
        """The value, if one is found. `command`: that reads it otherwise than usual."""
        called = time.monotonic_ns()
        if not self.is_connected():
            return self.never_sent(key, "get", ABSENT, called)
        outcome, value, met = self.find(key, command or self.reading(key))
        if outcome == "unknown":
            self.stream = None
        self.note(key, "get", ABSENT, called, outcome, ABSENT if value is None else name_of(value, kind_of(key)), met)
        return value

    def find(self, key, command):
        """What came of a read, the value, if there is one, and what it met, if it failed."""
        line = self.ask(command)
        if line == self.NOTHING:
            return "ok", None, None
        if not line.endswith(b"\n"):
            return "unknown", None, self.met
        if line.startswith(self.REFUSED):
            return "refused", None, self.met_in(line)
        size = self.size_told(line)
        if size is None:
            raise ValueError(f"get {key!r}: {line!r}")
        return self.take(size, self.VALUE_END)

    def reading(self, key):
        return b"get %s\r\n" % key

    def size_told(self, line):
        """Of the value that follows this line, if one does. Clients store flags of 0 only, and those of Redis none."""
        words = line.split()
        if len(words) not in (4, 5) or words[2] != b"0":
            return None
        self.token = words[4] if len(words) == 5 else None
        return int(words[3])

    def take(self, size, end):
        """The rest of an answer that has a value."""
        try:
            value = self.stream.read(size + len(end))
        except OSError as error:
            return "unknown", None, met_with(error)
        if len(value) < size + len(end):
            return "unknown", None, BROKEN
        if not value.endswith(end):
            raise ValueError(f"a value of {size} bytes ends with {value[size:]!r}")
        return "ok", value[:size], None


def read_back(address, keys, sort=Client):
    """Lines of one last read of every key, by a client of such a sort, and the keys that cannot be read, with what is wrong if an
    answer makes no sense."""
    last, senseless = sort(9999, [address], keys, 0), []
    for key in keys:
        try:
            last.get(key)
        except ValueError as error:
            senseless.append(f"{key.decode()} ({error})")
            # What follows of that answer is none.
            last.stream = None
    refused = [line.split("\t")[0] for line in last.lines if "\tok\t" not in line]
    return last.lines, refused + senseless


def write_history(path, clients, extra=()):
    with open(path, "w", encoding="utf-8") as out:
        for lines in [*(client.lines for client in clients), extra]:
            out.writelines(line + "\n" for line in lines)


def porcupine_path():
    """The second judge; none, if it was not built. One that is named must be there."""
    named = os.environ.get("PORCUPINE")
    path = named or os.path.join(cluster.ROOT, ".cache", "porcupine", "judge")
    if os.path.exists(path):
        return path
    if named:
        raise RuntimeError(f"PORCUPINE names {named}, which is not there")
    return None


def what_lacks():
    """Sentences for what this machine lacks to judge histories as it should."""
    return [] if porcupine_path() else ["porcupine is not built: no second judge looks at histories"]


def judge(path):
    """What is wrong with a history, by the project's own checker and by porcupine, if that was built; and what they say."""
    commands = [[cluster.binary_path(), "sim", "judge", path]]
    porcupine = porcupine_path()
    if porcupine:
        commands.append([porcupine, path])
    problems, said = [], []
    for command in commands:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        said.append(done.stdout.strip().splitlines()[-1] if done.stdout.strip() else "nothing")
        if done.returncode != 0:
            problems.append(done.stdout.strip()[-4000:])
    return problems, said


def summary(clients):
    total = {name: sum(client.count[name] for client in clients) for name in ("ok", "unknown", "refused")}
    longest = max(client.longest for client in clients)
    return f"{total['ok']} answered, {total['unknown']} of unknown outcome, {total['refused']} refused, longest answer {longest:.2f} s"
