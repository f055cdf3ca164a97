"""Thrashes a cluster of single processes under load: RS(4,2) on eight nodes, three gateways, two coordinators, three etcd.

    thrash.py [--seconds 60] [--seed N] [--keep FILE] [--waits FILE] [--logs DIRECTORY]

Members die and are started again, freeze, are cut off from the network (each has a namespace of its own), nodes answer late or
damaged or not at all, gateways are drained; never more nodes at once than may be lost until what they held is rebuilt, and
one gateway, one coordinator and two etcd are always well. Then everything is mended, and every key is read.

Clients share their keys and write down all that they ask and are told. Nothing acknowledged may be lost, stale or wrong: the
history is judged by the linearizability checker, and by porcupine, if it is there. Errors must lie within --window seconds
of something that was broken. Which answers took longest, and what was broken meanwhile, is printed, and stored with --waits. Keys
change once a minute, and older ones are still used, so that histories can be judged.
"""

import collections
import os
import random
import shutil
import signal
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import cluster  # noqa: E402  (the path must be set first)
import recorded  # noqa: E402
from members import Members  # noqa: E402
from thrash_waits import Pulse, Waits  # noqa: E402

NODES = 8
GATEWAYS = 3
LOSSES_MAX = 2
CLIENTS = 6
KEYS = 120
OLD_KEYS = 30
KEYS_SECONDS = 60
PAUSE_SECONDS = 0.01
HEAL_SECONDS_MAX = 180
# A node that was away for so long may be given up: its process ends by itself then, and what it held is rebuilt.
GIVEN_UP_SECONDS = 2
GIVEN_UP = "was given up for good"
# What is lost is told twice a second; a node counts as well when nothing was for so long.
WHOLE_SECONDS = 3
FAULTS = [
    "slow {} --delay 20ms",
    "slow {} --tail 5%:100ms",
    "slow {} --bandwidth 1MiB",
    "stall {} --duty 50ms/2ms",
    "corrupt {} --share 20%",
    "drop {} --share 2%",
    "drop {} --share 5% --reset",
]


class Trouble:
    """Something that is broken: what, until when, and how it is mended."""

    def __init__(self, member, kind, text, began, seconds, mend):
        self.member, self.kind, self.text, self.mend = member, kind, text, mend
        self.address = getattr(member, "memcached", None)
        self.began, self.until, self.ended = began, time.monotonic() + seconds, None


class Thrasher:
    """Breaks one thing after another, and mends all of them."""

    def __init__(self, members, seed):
        self.members, self.random = members, random.Random(seed)
        self.troubles, self.past, self.log, self.turn_began = [], [], [], 0.0
        # Nodes that came back empty, and since when nothing is said to be lost.
        self.recovering, self.whole_since = set(), None

    def run(self, deadline, on_turn):
        while time.monotonic() < deadline:
            self.mend()
            self.watch_processes()
            self.watch_recovery()
            self.break_something()
            on_turn()
            time.sleep(self.random.uniform(0.1, 1.2))

    def watch_recovery(self):
        if not self.recovering:
            return
        now = time.monotonic()
        lost = self.troubled(self.members.nodes)
        if lost or not self.members.is_whole():
            self.whole_since = None
        elif self.whole_since is None:
            self.whole_since = now
        elif now > self.whole_since + WHOLE_SECONDS:
            self.recovering.clear()
            self.note("everything is whole")

    def watch_processes(self):
        """Starts nodes anew that were given up while they were away. No other process may have ended by itself."""
        for member in self.well(self.members.processes):
            if member.process.poll() is None:
                continue
            if member not in self.members.nodes or GIVEN_UP not in member.log()[-500:]:
                raise RuntimeError(f"{member.name} ended by itself")
            member.start()
            self.recovers(member)
            self.note(f"{member.name} was given up, and is started anew")

    def recovers(self, node):
        """What the node held is lost, or may be."""
        self.recovering.add(node)
        self.whole_since = None

    def troubled(self, members):
        return [trouble.member for trouble in self.troubles if trouble.member in members]

    def well(self, members):
        return [member for member in members if member not in self.troubled(members)]

    def break_something(self):
        chance, members, self.turn_began = self.random.random(), self.members, time.monotonic()
        lost = set(self.troubled(members.nodes)) | self.recovering
        if chance < 0.6 and len(lost) < LOSSES_MAX:
            self.hurt_node(self.random.choice([node for node in members.nodes if node not in lost]))
        elif 0.6 <= chance < 0.85 and len(self.well(members.gateways)) > 1:
            self.hurt_gateway(self.random.choice(self.well(members.gateways)))
        elif 0.85 <= chance < 0.93 and len(self.well(members.coordinators)) > 1:
            self.kill_or_freeze(self.random.choice(members.coordinators), [1, 3, 8])
        elif 0.93 <= chance and not self.troubled(range(3)):
            self.hurt_etcd(self.random.randrange(3))

    def hurt_node(self, node):
        chance = self.random.random()
        number = self.members.nodes.index(node)
        if chance < 0.15:
            self.kill(node, self.random.uniform(0.5, 6))
            self.recovers(node)
        elif chance < 0.35:
            self.freeze(node, [0.05, 0.3, 1, 4])
        elif chance < 0.5 and self.members.network:
            self.cut(node, [0.3, 1, 4])
        else:
            fault = self.random.choice(FAULTS).format(number)
            if self.members.order("chaos", *fault.split()):
                self.trouble(node, fault, self.random.uniform(0.2, 4), lambda: self.members.order("chaos", "clear", str(number)))

    def hurt_gateway(self, gateway):
        chance = self.random.random()
        if chance < 0.3:
            self.kill(gateway, self.random.uniform(0.2, 4))
        elif chance < 0.6:
            self.freeze(gateway, [0.3, 1, 3, 10])
        elif chance < 0.8 and self.members.network:
            self.cut(gateway, [0.5, 2, 6])
        else:
            pid = gateway.process.pid
            known = [known for known in (self.members.status() or {"gateways": []})["gateways"] if known["pid"] == pid]
            if known and self.members.order("drain", "gateway", str(known[0]["id"]), "--within", "20"):
                # It owns something again when its process was started again.
                self.trouble(gateway, f"{gateway.name} drained", self.random.uniform(0, 1), lambda: self.again(gateway))

    def again(self, member):
        member.kill()
        member.start()
        return True

    def hurt_etcd(self, number):
        process = self.members.etcd.processes[number]
        process.send_signal(signal.SIGSTOP)

        def mend():
            process.send_signal(signal.SIGCONT)
            return True

        self.trouble(number, f"etcd {number} frozen", self.random.choice([1, 4, 10]), mend)

    def kill_or_freeze(self, member, seconds):
        if self.random.random() < 0.5:
            self.kill(member, self.random.choice(seconds))
        else:
            self.freeze(member, seconds)

    def kill(self, member, seconds):
        member.kill()
        self.trouble(member, f"{member.name} killed", seconds, lambda: member.start() or True)

    def freeze(self, member, choices):
        member.signal(signal.SIGSTOP)
        self.trouble(member, f"{member.name} frozen", self.random.choice(choices), lambda: member.signal(signal.SIGCONT) or True)

    def cut(self, member, choices):
        member.cut()
        self.trouble(member, f"{member.name} cut off", self.random.choice(choices), lambda: member.mend() or True)

    def trouble(self, member, text, seconds, mend):
        kinds = {"node": self.members.nodes, "gateway": self.members.gateways, "coordinator": self.members.coordinators, "etcd": range(3)}
        kind = next(kind for kind, all_ in kinds.items() if member in all_)
        self.troubles.append(Trouble(member, kind, text, self.turn_began, seconds, mend))
        self.note(f"{text} for {seconds:.1f} s")

    def mend(self, everything=False):
        for trouble in list(self.troubles):
            # What cannot be mended now (nobody leads) is tried again.
            if (everything or time.monotonic() > trouble.until) and trouble.mend():
                trouble.ended = time.monotonic()
                self.troubles.remove(trouble)
                self.past.append(trouble)
                if trouble.kind == "node" and trouble.ended > trouble.began + GIVEN_UP_SECONDS:
                    self.recovers(trouble.member)
                self.note(f"{trouble.text}: mended")

    def heal(self):
        cluster.wait_until(lambda: self.mend(everything=True) or not self.troubles, HEAL_SECONDS_MAX, "everything is mended")
        try:
            cluster.wait_until(lambda: self.watch_processes() or self.members.is_whole(), HEAL_SECONDS_MAX, "everything is whole again")
        except RuntimeError as error:
            raise RuntimeError(f"{error}: {self.members.what_is_there()}") from error

    def outside(self, errors, window):
        """Errors with no trouble within so many seconds before."""
        return [at for at in errors if not any(trouble.began <= at <= trouble.ended + window for trouble in self.past)]

    def counts(self):
        """How many troubles each kind of member had, and how many nodes were given up."""
        kinds = collections.Counter(trouble.kind for trouble in self.past)
        given_up = sum("given up" in line for line in self.log)
        return ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items())) + f"; {given_up} nodes given up"

    def note(self, text):
        self.log.append(f"{time.monotonic():.3f} {text}")


class Keys:
    """Which keys are used: new ones once a minute, and some of the older."""

    def __init__(self, seed):
        self.random, self.all, self.current, self.due = random.Random(seed), [], [], 0.0

    def rotate(self):
        if time.monotonic() < self.due:
            return
        self.due = time.monotonic() + KEYS_SECONDS
        older = self.random.sample(self.all, min(OLD_KEYS, len(self.all)))
        first = len(self.all)
        fresh = [b"thrash:%d" % number for number in range(first, first + KEYS)]
        self.all, self.current = self.all + fresh, fresh + older


def run(arguments, seed):
    members = Members(NODES, GATEWAYS)
    thrasher, keys, clients, complaints = Thrasher(members, seed), Keys(seed), [], []
    keys.rotate()
    addresses = [gateway.memcached for gateway in members.gateways]
    clients = [recorded.Client(number, addresses, keys.current, seed, PAUSE_SECONDS) for number in range(CLIENTS)]
    last, pulse = [], Pulse()

    def on_turn():
        keys.rotate()
        for client in clients:
            client.keys = keys.current

    try:
        pulse.start()
        for client in clients:
            client.start()
        thrasher.run(time.monotonic() + arguments.seconds, on_turn)
        thrasher.heal()
        cluster.let_end(clients)
        last, unreadable = recorded.read_back(addresses[0], keys.all)
        complaints += [f"{key} cannot be read although all is mended" for key in unreadable]
    except (RuntimeError, OSError) as error:
        complaints.append(f"{type(error).__name__}: {error}")
        members.print_logs()
    finally:
        for client in clients:
            client.is_over = True
        if arguments.logs:
            shutil.copytree(members.directory.name, arguments.logs, dirs_exist_ok=True)
        # Frozen ones too.
        members.stop()
    for client in clients:
        client.join()
    pulse.is_over = True
    path = arguments.keep or os.path.join(tempfile.gettempdir(), f"shorttail-history-{os.getpid()}")
    recorded.write_history(path, clients, last)
    problems, said = recorded.judge(path)
    if not arguments.keep:
        os.remove(path)
    complaints += problems + [client.problem for client in clients if client.problem]
    outside = thrasher.outside([at for client in clients for at in client.errors], arguments.window)
    if outside:
        complaints.append(f"{len(outside)} errors out of the blue, the first at {outside[0]:.3f}")
    waits = Waits(clients, thrasher.past + thrasher.troubles, pulse)
    if arguments.waits:
        waits.store(arguments.waits)
    for line in [*(thrasher.log + complaints[:20] if complaints else []), *waits.lines()]:
        print(f"    {line}")
    verdict = "not ok" if complaints else "ok"
    where = "in namespaces" if members.network else "without namespaces"
    print(
        f"{verdict} seed {seed}: {len(complaints)} complaints, {len(thrasher.past)} troubles ({thrasher.counts()}) {where}, {recorded.summary(clients)}; "
        f"{len(keys.all)} keys read back; {'; '.join(said)}",
        flush=True,
    )
    return not complaints


def main():
    parser = cluster.rounds_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--window", type=float, default=12, help="seconds after a trouble in which there may be errors")
    parser.add_argument("--keep", help="file for the history")
    parser.add_argument("--waits", help="file for the answers that took long, and what was broken meanwhile")
    parser.add_argument("--logs", help="directory for the members' logs")
    # What was frozen or cut off must not outlive a run that is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    return cluster.run_rounds(parser.parse_args(), run, [])


if __name__ == "__main__":
    sys.exit(main())
