"""Several coordinators over a real etcd of three members, with real nodes, a gateway and clients that never stop.

Who leads dies, is stopped for longer than its lease, or loses etcd: another one leads, epochs go on growing, a coordinator
that was away changes nothing any more, and no client notices any of it.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(os.path.dirname(HERE), name) for name in ("lib", "clients")]

from cluster import binary_path, connect, free_ports, wait_until  # noqa: E402
from etcd import Etcd  # noqa: E402
from expect import case, equal, main, true  # noqa: E402
from processes import Coordinator, Process  # noqa: E402

SECONDS_MAX = 90
NODE_COUNT = 4
STATE = "/test/state"


class Load(threading.Thread):
    """Stores and reads keys until it is stopped; everything that is not as it must be is an error."""

    def __init__(self, address):
        super().__init__()
        self.address, self.errors, self.count, self.stopping = address, [], 0, False

    def run(self):
        try:
            with connect(self.address) as connection, connection.makefile("rwb") as stream:
                while not self.stopping:
                    self.one(stream, self.count % 500, self.count)
                    self.count += 1
                    time.sleep(0.002)
        except OSError as error:
            self.errors.append(repr(error))

    def one(self, stream, key, value):
        text = b"value %d" % value
        stream.write(b"set key:%d 0 0 %d\r\n%s\r\nget key:%d\r\n" % (key, len(text), text, key))
        stream.flush()
        answers = [stream.readline() for _ in range(1)]
        if answers[0] == b"STORED\r\n":
            answers += [stream.readline() for _ in range(3)]
        wanted = [b"STORED\r\n", b"VALUE key:%d 0 %d\r\n" % (key, len(text)), text + b"\r\n", b"END\r\n"]
        if answers != wanted:
            self.errors.append(repr(answers))

    def check(self):
        """No error so far, and it goes on."""
        count = self.count
        wait_until(lambda: self.errors or self.count > count + 100, SECONDS_MAX, "clients are served")
        equal(self.errors[:3], [])


class World:
    def __init__(self):
        self.directory = tempfile.TemporaryDirectory(prefix="metadata-test-")
        self.etcd, self.processes, self.load = Etcd(3), [], None
        try:
            self.begin()
        except BaseException:
            for process in self.processes:
                print(f"---- {process.name}, {process.process.poll()}\n{process.log()[-4000:]}")
            self.stop()
            raise

    def begin(self):
        flags = ["--metadata", "etcd:" + ",".join(self.etcd.urls), "--metadata-prefix", "/test"]
        flags += ["--code", "rs:2+1", "--nodes", str(NODE_COUNT), "--retire-after", "600"]
        self.coordinators = [self.add(Coordinator(self.directory.name, f"coordinator-{name}", *flags)) for name in "ab"]
        self.list = ",".join(coordinator.control for coordinator in self.coordinators)
        for number in range(NODE_COUNT):
            self.node(number, self.list)
        self.memcached = f"127.0.0.1:{free_ports(1)[0]}"
        self.gateway = self.role("gateway", "gateway", "--memcached", self.memcached, "--redis", "off", "--coordinator", self.list)
        self.whole()
        self.load = Load(self.memcached)
        self.load.start()

    def add(self, process):
        self.processes.append(process)
        return process

    def role(self, name, *arguments):
        return self.add(Process(self.directory.name, name, *arguments))

    def node(self, number, coordinators):
        port = free_ports(1)[0]
        listen = ["--listen", f"127.0.0.1:{port}", "--coordinator", coordinators, "--id", str(number), "--memory", "32MiB"]
        return self.role(f"node-{number}", "node", *listen)

    def leader(self):
        """The one that leads, if exactly one does."""
        leading = [coordinator for coordinator in self.coordinators if coordinator.leads()]
        return leading[0] if len(leading) == 1 else None

    def is_whole(self):
        """The leader, once all members are with it and the other one stands by."""
        leader = self.leader()
        status = leader and leader.leads()
        if not status or not all(each is leader or each.process.poll() is not None or each.stands_by() for each in self.coordinators):
            return None
        nodes = [node["id"] for node in status["nodes"] if node["state"] == "normal"]
        gateways = [gateway for gateway in status["gateways"] if gateway["serving"]]
        return leader if nodes[:NODE_COUNT] == list(range(NODE_COUNT)) and gateways else None

    def other(self, leader):
        return next(each for each in self.coordinators if each is not leader)

    def saved(self):
        value, revision = self.etcd.read(STATE)
        return json.loads(value), revision

    def whole(self):
        return wait_until(self.is_whole, SECONDS_MAX, "one coordinator leads, and all members are with it")

    def stop(self):
        # One after the other, the last one first, whatever fails.
        with contextlib.ExitStack() as ends:
            ends.callback(self.directory.cleanup)
            ends.callback(self.etcd.stop)
            for process in self.processes:
                ends.callback(process.kill)
            if self.load:
                self.load.stopping = True
                ends.callback(self.load.join)


WORLD = World()


@case
def one_leads_and_says_so():
    """of two coordinators one leads, the other names it, and refuses orders"""
    leader = WORLD.whole()
    other = WORLD.other(leader)
    about = other.status()["coordinator"]
    equal(about["leader"], leader.status()["coordinator"]["name"])
    true(leader.control in about["leader"], "the leader's name tells where it is")
    true(about["metadata"].startswith("etcd:http://"), "where the metadata is kept")
    command = [binary_path(), "status", "--admin", other.admin]
    table = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=60).stdout.decode()
    true("stands by" in table and leader.control in table, table)
    true("stands by" in other.log(), "the log tells it too")
    # Who names both need not know which one leads.
    both = ["--admin", f"{other.admin},{leader.admin}"]
    table = subprocess.run([binary_path(), "status", *both], stdout=subprocess.PIPE, check=True, timeout=60).stdout.decode()
    true(table.startswith("cluster ") and "stands by" in table, table)
    ordered = subprocess.run([binary_path(), "policy", "set", "--policy", "adaptive", *both], timeout=60, stdout=subprocess.PIPE)
    equal(ordered.returncode, 0)
    WORLD.load.check()


@case
def another_one_leads_when_the_leader_dies():
    """kill -9 of the leader: the other one leads, knows every member, and epochs do not fall behind"""
    leader = WORLD.whole()
    before = leader.status()
    leader.kill()
    after = WORLD.whole()
    true(after is WORLD.other(leader), "the other one leads")
    equal(after.status()["cluster_id"], before["cluster_id"])
    true(after.status()["epoch"] >= before["epoch"], "epochs never fall")
    leader.start()
    wait_until(leader.stands_by, SECONDS_MAX, "the old leader is back and stands by")
    WORLD.load.check()


@case
def nobody_notices_that_etcd_is_stopped():
    """etcd stopped for longer than the lease: nobody leads, members stay, status tells why, then all is as before"""
    leader = WORLD.whole()
    WORLD.etcd.pause()
    wait_until(leader.problem, SECONDS_MAX, "the leader gives up when its lease may have ended, and tells why")
    status = leader.status()
    equal([node["state"] for node in status["nodes"][:NODE_COUNT]], ["normal"] * NODE_COUNT)
    # New members are told to come again, and do.
    late = WORLD.node(NODE_COUNT, WORLD.list)
    WORLD.load.check()
    equal(WORLD.leader(), None)
    true(late.process.poll() is None, "a node that comes meanwhile keeps trying")
    WORLD.etcd.resume()
    WORLD.whole()
    known = lambda: any(node["id"] == NODE_COUNT and node["state"] == "normal" for node in (WORLD.whole().status() or {})["nodes"])  # noqa: E731
    wait_until(known, SECONDS_MAX, "the late node is let in")
    WORLD.load.check()


@case
def etcd_may_restart():
    """kill -9 of every member of etcd, and their restart"""
    before = WORLD.whole().status()
    WORLD.etcd.kill()
    WORLD.load.check()
    WORLD.etcd.restart()
    after = WORLD.whole().status()
    equal(after["cluster_id"], before["cluster_id"])
    WORLD.load.check()


@case
def a_coordinator_that_was_stopped_changes_nothing():
    """SIGSTOP of the leader: members find the other one; after SIGCONT the old one saves nothing and stands by"""
    old = WORLD.whole()
    new = WORLD.other(old)
    old.signal(signal.SIGSTOP)
    # This node knows only the coordinator that is stopped: its registration waits there, and would have to be saved.
    WORLD.node(NODE_COUNT + 1, old.control)

    def has_taken_over():
        status = new.leads()
        return status and [node["state"] for node in status["nodes"][: NODE_COUNT + 1]] == ["normal"] * (NODE_COUNT + 1)

    wait_until(has_taken_over, SECONDS_MAX, "the other one leads and members found it")
    WORLD.node(NODE_COUNT + 2, new.control)
    wait_until(lambda: str(NODE_COUNT + 2) in WORLD.saved()[0]["nodes"], SECONDS_MAX, "the new leader saves")
    old.signal(signal.SIGCONT)
    wait_until(old.stands_by, SECONDS_MAX, "the old leader finds out")
    # The old one knows of the first and not of the second: its state would be seen.
    nodes = WORLD.saved()[0]["nodes"]
    equal([str(NODE_COUNT + number) in nodes for number in (1, 2)], [False, True])
    true(WORLD.whole() is new, "the new one still leads")
    WORLD.load.check()


@case
def epochs_go_on_growing():
    """a gateway that starts now gets a higher epoch than any before"""
    WORLD.load.check()
    WORLD.load.stopping = True
    WORLD.load.join()
    before = WORLD.whole().status()["epoch"]
    WORLD.gateway.kill()
    WORLD.gateway.start()
    wait_until(lambda: WORLD.is_whole() and WORLD.whole().status()["epoch"] > before, SECONDS_MAX, "a higher epoch, and it serves")
    true(WORLD.saved()[0]["epoch"] > before, "and it is saved")


try:
    main()
finally:
    WORLD.stop()
