"""Thrashes a cluster of single processes under load: RS(4,2) on eight nodes, three gateways, two coordinators, three etcd.

    thrash.py [--seconds 60] [--strict] [--seed N] [--near SHARE] [--files SHARE] [--keep FILE] [--waits FILE] [--logs DIRECTORY]

Members die and are started again, with their memory or without, freeze, are cut off from the network (each has a namespace of
its own), or from one other member alone (thrash_cuts.py); nodes answer late or damaged or not at all, bits of their memory turn
over (and of what tells of it, in the file of one that died), gateways are drained, nodes join, are emptied and removed, or never
come back; never more nodes at once than may be lost until what they held is rebuilt, and one gateway and one coordinator are
always well, but for others that they do not reach, and two etcd but for seconds. When nothing is broken, drains and repairs have to get on. Half of the nodes keep their
memory in files; half are near: gateways read and write their memory themselves, and faults that need a node's own help
(`shorttail chaos`) are not theirs. Then everything is mended, and every key is read; three times two nodes die, others each time,
every key is read again, and what they held is rebuilt, although one of them and another node do not reach each other.

Clients share their keys, and write down all that they ask and are told; two thirds are memcached's, the others are those of Redis.
Sizes lie about the borders of chunks, stripes and objects. Nothing acknowledged may be lost, stale or wrong: the history is judged
by the linearizability checker, and by porcupine, if it is there. Errors must lie within --window seconds of a gateway's trouble
(thrash_troubles.py), and with --strict no answer may take long while nothing but nodes is broken, nor be missing (thrash_waits.py).
Which answers took longest, and what was broken meanwhile, is printed, and stored with --waits, and how often each kind of trouble was
had. Keys change once a minute, and older ones are still used, so that histories can be judged.

Without the right to make namespaces, or shared memory, or without porcupine, less is tested, which is said. With --strict it is a
failure; and so are in half an hour or more a kind of trouble that was never had, and what no member did though it should
(thrash_evidence.py). GATEWAY_LOG=debug in the environment makes gateways tell more.
"""

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import cluster  # noqa: E402  (the path must be set first)
import members  # noqa: E402
import recorded  # noqa: E402
import thrash_cuts  # noqa: E402
import thrash_gateways  # noqa: E402
import thrash_membership  # noqa: E402
import thrash_nodes  # noqa: E402
import thrash_progress  # noqa: E402
from network import make_network  # noqa: E402
from recorded_redis import RedisClient  # noqa: E402
from thrash_evidence import Evidence  # noqa: E402
from thrash_troubles import Troubles, share_covered  # noqa: E402
from thrash_waits import Pulse, Waits  # noqa: E402

NODES = 8
GATEWAYS = 3
CLIENTS = 6
# One of so many clients speaks the Redis protocol.
REDIS_EVERY = 3
KEYS = 120
OLD_KEYS = 60
KEYS_SECONDS = 60
PAUSE_SECONDS = 0.01
HEAL_SECONDS_MAX = 180
# For so many seconds of so many everything may be broken, then nodes only, which nobody is to notice.
ALL_SECONDS = 30
ROUND_SECONDS = 50
NODES_KILLED_LAST = 2
LAST_ROUNDS = 3
# In so long every kind of trouble is had several times.
EVERY_KIND_SECONDS = 1800
KINDS = thrash_nodes.KINDS + thrash_membership.KINDS + thrash_gateways.KINDS + thrash_cuts.KINDS


class Thrasher:
    """Breaks one thing after another, and mends all of them."""

    def __init__(self, members, seed):
        self.members, self.random, self.troubles = members, random.Random(seed), Troubles()
        self.nodes = thrash_nodes.Nodes(members, self.troubles, self.random)
        self.membership = thrash_membership.Membership(members, self.nodes, self.troubles, self.random)
        self.cuts = thrash_cuts.Cuts(members, self.nodes, self.troubles, self.random)
        self.others = thrash_gateways.Others(members, self.troubles, self.random)
        self.progress = thrash_progress.Progress()

    def run(self, deadline, on_turn):
        while time.monotonic() < deadline:
            self.mend()
            self.go_on()
            self.break_something()
            on_turn()
            time.sleep(self.random.uniform(0.1, 1.2))

    def go_on(self):
        self.watch_processes()
        self.nodes.watch()
        status = self.members.status()
        if status and self.members.is_level(status):
            self.troubles.settle()
        self.others.go_on()
        self.membership.go_on(status)
        self.progress.look(status, self.membership.is_calm(), time.monotonic())

    def watch_processes(self):
        """No process may have ended by itself, but those of nodes that were given up while they were away, or removed."""
        for member in self.troubles.well(self.members.processes):
            if member.process.poll() is None or member in self.membership.leaving:
                continue
            if self.membership.was_taken_out(member):
                continue
            if member not in self.members.nodes or not self.nodes.was_given_up(member):
                raise RuntimeError(f"{member.name} ended by itself, with {member.process.poll()}")

    def break_something(self):
        self.troubles.turn()
        if self.membership.wants_calm():
            return
        chance = self.random.random()
        if time.monotonic() % ROUND_SECONDS < ALL_SECONDS and chance < 0.4:
            self.hurt_other()
        elif chance < 0.46:
            self.membership.change()
        elif chance < 0.5:
            self.cuts.node_from_node()
        elif self.nodes.may_lose_one():
            self.hurt_node()

    def hurt_other(self):
        chance = self.random.random()
        if chance < 0.1:
            self.cuts.gateway_from_gateway()
        elif chance < 0.15:
            self.cuts.gateway_from_coordinator()
        else:
            self.others.hurt_one()

    def hurt_node(self):
        chance = self.random.random()
        if chance < 0.12:
            self.cuts.node_from_gateway()
        elif chance < 0.17:
            self.cuts.node_from_coordinator()
        else:
            self.nodes.hurt_one()

    def mend(self, everything=False):
        for trouble in self.troubles.mend(everything):
            if trouble.kind == "node":
                self.nodes.mended(trouble)

    def heal(self):
        """Until everything is mended, those that leave have left, and everything is whole and was looked at for decay."""

        def is_healed():
            self.mend(everything=True)
            self.go_on()
            is_over = not self.troubles.present and not self.membership.is_busy() and not self.nodes.recovering
            return is_over and self.members.is_whole()

        try:
            cluster.wait_until(is_healed, HEAL_SECONDS_MAX, "everything is whole again")
        except RuntimeError as error:
            draining = [node.name for node in self.membership.draining]
            raise RuntimeError(f"{error}: {self.members.what_is_there()}, draining {draining}") from error

    def check_mended(self):
        """Nothing that was broken may stay so."""
        if self.members.cuts_left():
            raise RuntimeError(f"cut off although all is mended: {self.members.cuts_left()}")

    def kill_last(self):
        """As many nodes as may be lost, others each time, when all is whole: whoever holds what was written, moved and rebuilt,
        it must be enough. Tells who is dead, until what they held is rebuilt, although one of them and another node do not reach each
        other."""
        chosen = self.random.sample(self.members.nodes, NODES_KILLED_LAST * LAST_ROUNDS)
        for killed in zip(*[iter(chosen)] * NODES_KILLED_LAST, strict=True):
            for node in killed:
                node.kill()
            names = " and ".join(node.name for node in killed)
            self.troubles.note(f"{names} killed at last")
            yield names
            for node in killed:
                node.lose_memory()
                node.start()
                self.nodes.recovers(node)
            with self.cuts.held(killed):
                self.heal()


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


class Run:
    """One cluster, thrashed, healed and read back."""

    def __init__(self, arguments, seed):
        self.arguments, self.seed = arguments, seed
        self.members = members.Members(NODES, GATEWAYS, near_share=arguments.near, file_share=arguments.files, seed=seed)
        self.thrasher, self.keys, self.evidence = Thrasher(self.members, seed), Keys(seed), Evidence(self.members)
        self.keys.rotate()
        gateways = self.members.gateways
        # Where each sort of client asks.
        self.addresses = {recorded.Client: [each.memcached for each in gateways], RedisClient: [each.redis for each in gateways]}
        self.clients = [self.client(number) for number in range(CLIENTS)]
        self.last, self.pulse, self.complaints, self.began = [], Pulse(), [], time.monotonic()
        # When the run failed: what clients met afterwards is of its end.
        self.failed = None

    def client(self, number):
        sort = RedisClient if number % REDIS_EVERY == REDIS_EVERY - 1 else recorded.Client
        return sort(number, self.addresses[sort], self.keys.current, self.seed, PAUSE_SECONDS)

    def go(self):
        try:
            self.thrash()
        except (RuntimeError, OSError, ValueError, subprocess.SubprocessError) as error:
            self.failed = time.monotonic()
            self.complaints.append(f"{type(error).__name__}: {error}")
            self.members.print_logs()
        finally:
            for client in self.clients:
                client.is_over = True
            try:
                if self.arguments.logs:
                    self.store_logs()
            finally:
                # Frozen ones too.
                self.members.stop()
        for client in self.clients:
            client.join()
        self.pulse.is_over = True
        return self.judge()

    def thrash(self):
        self.pulse.start()
        for client in self.clients:
            client.start()
        self.thrasher.run(time.monotonic() + self.arguments.seconds, self.on_turn)
        self.thrasher.heal()
        self.thrasher.check_mended()
        cluster.let_end(self.clients)
        self.evidence.look()
        self.read_back("although all is mended")
        for names in self.thrasher.kill_last():
            self.read_back(f"after {names} died")

    def on_turn(self):
        self.evidence.look()
        self.keys.rotate()
        for client in self.clients:
            client.keys = self.keys.current

    def read_back(self, when):
        sort, addresses = self.thrasher.random.choice(list(self.addresses.items()))
        lines, unreadable = recorded.read_back(self.thrasher.random.choice(addresses), self.keys.all, sort)
        self.last += lines
        self.complaints += [f"{key} cannot be read {when}" for key in unreadable]

    def store_logs(self):
        shutil.copytree(self.members.directory.name, self.arguments.logs, dirs_exist_ok=True)
        with open(os.path.join(self.arguments.logs, "troubles.log"), "w", encoding="utf-8") as out:
            out.writelines(line + "\n" for line in self.thrasher.troubles.log)

    def judge(self):
        """Prints what there was, and what is wrong; whether nothing is."""
        path = self.arguments.keep or os.path.join(tempfile.gettempdir(), f"shorttail-history-{os.getpid()}")
        recorded.write_history(path, self.clients, self.last)
        problems, said = recorded.judge(path)
        if not self.arguments.keep:
            os.remove(path)
        self.complaints += problems + [client.problem for client in self.clients if client.problem]
        troubles, window = self.thrasher.troubles, self.arguments.window
        errors = [error for client in self.clients for error in client.errors if not self.failed or error.told < self.failed]
        outside = troubles.out_of_the_blue(errors, window)
        if outside:
            self.complaints.append(f"{len(outside)} errors out of the blue, at {', '.join(map(str, outside[:10]))}")
        never, unmoved = troubles.never_had(KINDS), self.evidence.never_moved(troubles)
        is_long = self.arguments.strict and self.arguments.seconds >= EVERY_KIND_SECONDS
        if never and is_long:
            self.complaints.append(f"kinds of trouble that were never had: {', '.join(never)}")
        if unmoved and is_long:
            self.complaints.append(f"members did none of these, though there was reason to: {', '.join(unmoved)}")
        ended = max([self.began + 1, *(trouble.ended or 0 for trouble in troubles.past)])
        covered = share_covered(troubles.windows(window), self.began, ended)
        waits = Waits(self.clients, troubles.all(), self.pulse)
        # On a machine that is slow and busy an answer is late for no other reason.
        self.complaints += waits.complaints() if self.arguments.strict else []
        if self.arguments.waits:
            run = {"seed": self.seed, "seconds": self.arguments.seconds, "troubles": sum(troubles.counts.values()), "windows_share": covered}
            waits.store(self.arguments.waits, {**run, "errors": len(errors), "errors_outside": len(outside)})
        lines = list(troubles.log) if self.complaints else []
        lines += [*waits.lines(), *troubles.kinds(), *([f"never: {', '.join(never)}"] if never else []), self.evidence.line()]
        # Last, where the end of a log shows them.
        lines += [f"complaint: {complaint}" for complaint in self.complaints[:20]]
        for line in lines:
            print(f"    {line}")
        verdict = "not ok" if self.complaints else "ok"
        where = "in namespaces" if self.members.network else "without namespaces"
        print(
            f"{verdict} seed {self.seed}: {len(self.complaints)} complaints, {sum(troubles.counts.values())} troubles {where}, "
            f"{recorded.summary(self.clients)}, {asked_by(self.clients, RedisClient)} of all asked by clients of Redis; "
            f"{len(outside)} errors outside windows, which are {covered:.0%} of the time; {len(self.last)} reads of {len(self.keys.all)} keys at the end; {'; '.join(said)}",
            flush=True,
        )
        return not self.complaints


def asked_by(clients, sort):
    return sum(sum(client.count.values()) for client in clients if isinstance(client, sort))


def run(arguments, seed):
    return Run(arguments, seed).go()


def what_lacks():
    """Sentences for what this machine lacks to test all that a run is to."""
    network, lacks = make_network(), [*members.what_lacks(), *recorded.what_lacks()]
    if network:
        network.remove()
        return lacks
    return ["network namespaces cannot be made: no member is cut off from others", *lacks]


def main():
    parser = cluster.rounds_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--strict", action="store_true", help="fail if less is tested than could be")
    parser.add_argument("--window", type=float, default=2, help="seconds after a gateway's trouble in which an answer may fail")
    parser.add_argument("--near", type=float, default=0.5, help="share of nodes whose memory gateways read and write themselves")
    parser.add_argument("--files", type=float, default=0.5, help="share of nodes that keep their memory in a file")
    parser.add_argument("--keep", help="file for the history")
    parser.add_argument("--waits", help="file for the answers that took long, and what was broken meanwhile")
    parser.add_argument("--logs", help="directory for the members' logs")
    # What was frozen or cut off must not outlive a run that is ended.
    cluster.end_on_sigterm()
    arguments, lacks = parser.parse_args(), what_lacks()
    for what in lacks:
        cluster.say_not_tested(what)
    if lacks and arguments.strict:
        print("not ok: --strict\n0 passed, 1 failed")
        return 1
    return cluster.run_rounds(arguments, run, [])


if __name__ == "__main__":
    sys.exit(main())
