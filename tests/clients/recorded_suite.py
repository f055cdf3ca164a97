"""Whether clients that write down what they are told leave nothing out: with a server that refuses, resets, or is long in coming.

Must not know: what histories are judged by.
"""

from unittest import mock

import asker  # noqa: F401  (it finds the modules beside this folder)
import recorded
from expect import case, equal, main
from fake import RESETTING, Server

KEY = b"key"
CONNECTING_SECONDS = 3


class Clock:
    """Which goes on only when it is told to."""

    def __init__(self):
        self.now = 1000.0

    def monotonic_ns(self):
        return round(self.now * 1e9)

    def sleep(self, seconds):
        self.now += seconds


def client_of(server):
    return recorded.Client(0, [server.address], [KEY], seed=1)


def store(client):
    client.write(KEY, "set", "h31", b"set key 0 0 1\r\n1\r\n", {b"STORED\r\n": "stored"})


@case
def refused_connections():
    """an operation for which nobody can be asked is refused, and an error of its time"""
    with mock.patch.object(recorded, "time", Clock()) as clock:
        with Server() as server:
            client = client_of(server)
        began = clock.now
        client.get(KEY)
        between = clock.now
        store(client)
    equal(client.errors, [(began, began), (between, between)])
    equal(client.count, {"ok": 0, "unknown": 0, "refused": 2})
    equal([line.split("\t")[6] for line in client.lines], ["refused", "refused"])
    equal(client.problem, None)


@case
def long_connecting():
    """what connecting takes is part of the operation that needs it"""
    connect = recorded.cluster.connect
    with Server() as server, mock.patch.object(recorded, "time", Clock()) as clock:

        def connect_slowly(address):
            clock.sleep(CONNECTING_SECONDS)
            return connect(address)

        client = client_of(server)
        with mock.patch.object(recorded.cluster, "connect", connect_slowly):
            store(client)
            client.get(KEY)
    equal(client.longest, CONNECTING_SECONDS)
    equal([(wait.action, wait.seconds, wait.address) for wait in client.waits], [("set", CONNECTING_SECONDS, server.address)])
    equal(client.count["ok"], 2)


@case
def broken_connections():
    """an operation whose connection breaks is of unknown outcome, and an error"""
    with Server() as server:
        client = client_of(server)
        server.mood = RESETTING
        store(client)
        client.get(KEY)
    equal(client.count, {"ok": 0, "unknown": 2, "refused": 0})
    equal(len(client.errors), 2)


@case
def later():
    """who was refused is served by whom it can reach"""
    with Server() as server:
        with Server() as gone:
            client = client_of(gone)
        client.get(KEY)
        client.addresses = [server.address]
        client.get(KEY)
    equal(client.count, {"ok": 1, "unknown": 0, "refused": 1})


if __name__ == "__main__":
    main()
