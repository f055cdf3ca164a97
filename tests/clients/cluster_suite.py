"""Whether a cluster's end is a failure if a process of it died that nobody killed, and whether a test that is ended leaves nothing
behind: with a program that is made up.

Must not know: what processes of a cluster do.
"""

import contextlib
import io
import os
import signal
import subprocess
import sys
import tempfile
from unittest import mock

from expect import case, equal, main, raises, true

sys.path.insert(0, __file__.rsplit("/", 2)[0] + "/lib")
import cluster  # noqa: E402

# `up` starts two nodes, says who died, starts the first one again, and ends as CODE says; `status` tells of those that were first.
PROGRAM = '''#!/usr/bin/env python3
import json, os, signal, subprocess, sys
place = os.path.join(os.path.dirname(sys.argv[0]), "nodes")
if sys.argv[1] == "status":
    print(json.dumps({"nodes": [{"id": number, "pid": pid} for number, pid in enumerate(json.load(open(place)))], "gateways": []}))
    sys.exit()
def start():
    return subprocess.Popen(["sleep", "300"], start_new_session=True)
nodes = [start(), start()]
def end(*_):
    for node in [] if os.environ.get("LEAVES") else nodes:
        node.kill()
    sys.exit(int(os.environ.get("CODE", "0")))
signal.signal(signal.SIGTERM, end)
with open(place, "w") as out:
    json.dump([node.pid for node in nodes], out)
print("ready", flush=True)
told = set()
while True:
    for number, node in enumerate(nodes):
        if node.poll() is not None and node.pid not in told:
            told.add(node.pid)
            if number == 0:
                nodes[number] = start()
            print(f"node {number} (pid {node.pid}) died: killed by somebody", flush=True)
    signal.sigtimedwait([signal.SIGCHLD], 0.01)
'''


@contextlib.contextmanager
def made_up(**environment):
    """A cluster of that program."""
    with tempfile.TemporaryDirectory(prefix="cluster-suite-") as directory:
        path = os.path.join(directory, "program")
        with open(path, "w", encoding="ascii") as out:
            out.write(PROGRAM)
        os.chmod(path, 0o755)
        with mock.patch.dict(os.environ, SHORTTAIL_BINARY=path, **environment), contextlib.redirect_stdout(io.StringIO()):
            yield cluster.Cluster()


def await_told(servers, pid):
    cluster.wait_until(lambda: f"(pid {pid}) died" in servers.log(), cluster.START_SECONDS_MAX, "`up` tells of it")


@case
def all_is_well():
    """a cluster of which nobody died ends without complaint, also if one of its processes stands still"""
    with made_up() as servers:
        os.kill(servers.pids[0], signal.SIGSTOP)
        servers.stop()


@case
def killed():
    """what the test killed, itself or by a command of it, is no complaint"""
    with made_up() as servers:
        servers.kill_nodes(1)
        cluster.kill_noted(servers.killed_path, servers.pids[1])
        await_told(servers, servers.pids[1])
        servers.stop()


@case
def died():
    """a process that died by itself is a complaint, beside one that was killed, and also if `up` has not told of it yet"""
    with made_up() as servers:
        servers.kill(servers.pids[1])
        os.kill(servers.pids[0], signal.SIGABRT)
        await_told(servers, servers.pids[0])
        equal(raises(RuntimeError, servers.stop), f"node 0 (pid {servers.pids[0]}) died: killed by somebody")
    with made_up() as servers:
        servers.process.send_signal(signal.SIGSTOP)
        os.kill(servers.pids[0], signal.SIGABRT)
        cluster.wait_until(lambda: not cluster.is_alive(servers.pids[0]), cluster.START_SECONDS_MAX, "it is dead")
        equal(list(servers.deaths().values()), [f"process {servers.pids[0]} died"])
        servers.process.send_signal(signal.SIGCONT)
        raises(RuntimeError, servers.stop)


@case
def died_later():
    """one that was started again, which the test has never heard of, is a complaint if it dies"""
    with made_up() as servers:
        servers.kill(servers.pids[0])
        (again,) = cluster.wait_until(lambda: set(cluster.children_of(servers.process.pid)) - set(servers.pids), 60, "it is there again")
        os.kill(again, signal.SIGABRT)
        await_told(servers, again)
        true(f"(pid {again}) died" in raises(RuntimeError, servers.stop), "it is named")


@case
def ended_badly():
    """`up` must end well, must not have ended before, and leaves nobody behind"""
    with made_up(CODE="3") as servers:
        equal(raises(RuntimeError, servers.stop), "`shorttail up` ended with 3")
    with made_up() as servers:
        servers.process.terminate()
        servers.process.wait()
        equal(raises(RuntimeError, servers.stop), "`shorttail up` had already ended with 0")
    with made_up(LEAVES="1") as servers, mock.patch.object(cluster, "STOP_SECONDS_MAX", 2):
        pids = servers.pids
        true("left behind" in raises(RuntimeError, servers.stop), "they are told of")
        cluster.wait_until(lambda: not any(map(cluster.is_alive, pids)), 60, "they are killed")


@case
def numbers_that_come_again():
    """another process that has the number of one that died is left alone, and does not hide the death"""
    stranger = subprocess.Popen(["sleep", "300"])
    try:
        for is_told in (True, False):
            with made_up() as servers, mock.patch.object(cluster, "STOP_SECONDS_MAX", 2):
                dead = servers.pids[1]
                born = cluster.born_at(dead)
                servers.kill(dead)
                await_told(servers, dead)
                servers.pids[1], servers.births = stranger.pid, {servers.pids[0]: servers.births[servers.pids[0]], stranger.pid: born}
                if is_told:
                    with open(servers.killed_path, "a", encoding="ascii") as killed:
                        killed.write(f"{stranger.pid}\n")
                    servers.stop()
                else:
                    equal(raises(RuntimeError, servers.stop), f"process {stranger.pid} died")
            equal(stranger.poll(), None)
    finally:
        stranger.kill()
        stranger.wait()


@case
def sessions():
    """a session ends with all its processes, also those that have left its first group or take no notice of SIGTERM"""
    script = "sleep 300 & set -m; sleep 301 & trap '' TERM; exec sleep 302"
    process = subprocess.Popen(["bash", "-c", script], start_new_session=True)
    pids = cluster.wait_until(lambda: len(found := cluster.processes_of(3, process.pid)) == 3 and found, 60, "they run")
    with mock.patch.object(cluster, "SESSION_SECONDS_MAX", 0.2):
        cluster.end_session(process.pid)
    left = [pid for pid in pids if cluster.is_alive(pid)]
    process.kill()
    process.wait()
    equal(left, [])


BUSY = '''
import argparse, os, sys, time
sys.path += [{clients!r}, {lib!r}]
import cluster
from expect import case, main
def work(*_):
    try:
        print("begun", flush=True)
        time.sleep(300)
    finally:
        print("stopped", flush=True)
'''
ROUNDS = BUSY + "cluster.run_rounds(argparse.Namespace(rounds=1, seed=1), work, [])"
CASES = BUSY + "case(work)\nmain()"


@case
def ended():
    """rounds and cases that are ended stop first what they started"""
    clients = os.path.dirname(os.path.abspath(__file__))
    for program in (ROUNDS, CASES):
        program = program.format(clients=clients, lib=os.path.dirname(cluster.__file__))
        process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        equal(process.stdout.readline(), "begun\n")
        process.terminate()
        equal((process.communicate()[0], process.returncode), ("stopped\n", 143))


if __name__ == "__main__":
    main()
