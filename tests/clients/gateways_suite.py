"""Whether the tests in which a gateway dies, is drained or stands still fail when requests do: with servers that reset, or never answer.

Must not know: how real gateways behave.
"""

import argparse
import contextlib
import io
from unittest import mock

import gateway_death
import gateway_drain
import gateway_stop
from expect import case, equal, main, true
from fake import RESETTING, SILENT, WELL, Server

# Long enough for an answer of a server of this process on a busy machine, but for one that never comes.
TIMEOUT_SECONDS = 5


class Servers:
    """A cluster as a round sees it: three gateways that are one server."""

    def __init__(self, server, addresses):
        self.memcached, self.admin = server.address, ""
        self.gateways = [{"id": number, "memcached": address, "pid": 0} for number, address in enumerate(addresses)]

    def status(self):
        return {"gateways": self.gateways}

    def kill(self, _pid):
        """What it comes to is the test's affair."""

    def kill_nodes(self, count):
        assert count == 0, "there are none"

    def stop(self):
        pass


def one_is_asked(server):
    return Servers(server, [server.address, "another", "a third"])


def all_are_asked(server):
    return Servers(server, [server.address] * 3)


def passes(script, servers_of, mood, bound_ms=None):
    """Whether a round does in whose middle the server's mood changes; and what it says."""
    arguments = argparse.Namespace(
        keys=0, value_bytes=100, node_memory="512MiB", kill="KILL", nodes_down=0, pause=0.001, bound_ms=bound_ms,
        timeout=TIMEOUT_SECONDS, timeline=None,
    )
    said, short = io.StringIO(), dict.fromkeys(["BEFORE_SECONDS", "WATCHED_SECONDS", "AFTER_SECONDS"], 0.1)
    with Server() as server, contextlib.ExitStack() as patches:

        def turn(*_, **__):
            server.mood = mood

        for name, value in short.items():
            if hasattr(script, name):
                patches.enter_context(mock.patch.object(script, name, value))
        patches.enter_context(mock.patch.object(script, "load", lambda *_: None))
        patches.enter_context(mock.patch.object(script.cluster, "Cluster", lambda *_: servers_of(server)))
        # What is done to a gateway: it is killed, or a drain is ordered.
        patches.enter_context(mock.patch.object(Servers, "kill", turn))
        patches.enter_context(mock.patch.object(script, "subprocess", mock.Mock(run=turn)))
        patches.enter_context(contextlib.redirect_stdout(said))
        is_ok = script.one_round(arguments, seed=1)
    return is_ok, said.getvalue()


ROUNDS = [(gateway_death, one_is_asked), (gateway_drain, all_are_asked)]


@case
def all_is_well():
    """a round in which all are answered passes"""
    for script, servers_of in ROUNDS:
        is_ok, said = passes(script, servers_of, WELL)
        true(is_ok, said)


@case
def resets():
    """a round in which connections are reset fails"""
    for script, servers_of in ROUNDS:
        is_ok, said = passes(script, servers_of, RESETTING)
        equal(is_ok, False)
        true("ConnectionResetError" in said, said)


@case
def silence():
    """a round in which nobody is answered any more fails, and the wait counts"""
    for script, servers_of in ROUNDS:
        is_ok, said = passes(script, servers_of, SILENT, bound_ms=TIMEOUT_SECONDS * 1000 - 1)
        equal(is_ok, False)
        true("TimeoutError" in said, said)
        true("the bound is" in said, said)


@case
def one_that_ended():
    """a client that was not answered at the end is told of, whatever ended it"""
    with Server() as server:
        reader = gateway_death.Reader("reader 0", server.address, [b"no such key"], TIMEOUT_SECONDS)
        equal(gateway_death.asker.problems([reader], 0.0), ["reader 0 was not answered at the end"])


@case
def one_that_failed_late():
    """a client that failed after a turn in which all was well is told of"""
    with Server() as server:
        server.store[b"key"] = b"value of key"
        reader = gateway_death.Reader("reader 0", server.address, [b"key"], TIMEOUT_SECONDS)
        reader.whole_turn()
        equal(gateway_death.asker.problems([reader], 0.0), [])
        server.error = b"SERVER_ERROR\r\n"
        reader.run()
        (told,) = gateway_death.asker.problems([reader], 0.0)
        true("SERVER_ERROR" in told, told)


@case
def nothing_was_taken_over():
    """that no key of a gateway that stands still is answered until it wakes is told of, whatever else is answered"""
    keys = [b"key:%d" % number for number in range(240)]
    shares = [gateway_stop.owned(keys, {"tenures": [{"partitions": [number, number + 3]}]}, 6) for number in range(3)]
    equal((set().union(*shares), sum(map(len, shares))), (set(keys), len(keys)))
    mine, other = sorted(shares[0])[0], sorted(shares[1])[0]
    client = gateway_stop.recorded.Client(0, ["nobody:1"], keys, seed=1)

    def complaints(*lines):
        client.lines = [f"{key.decode()}\t0\tget\t-\t{called}\t{told}\t{outcome}\t-" for key, called, told, outcome in lines]
        return len(gateway_stop.not_taken_over(shares[0], gateway_stop.answered([client], 100, 200)))

    equal(complaints((mine, 100, 200, "ok")), 0)
    equal(complaints(), 1)
    # Of another one; refused; asked before; answered after; never answered.
    late = [(other, 120, 130, "ok"), (mine, 120, 130, "refused"), (mine, 99, 120, "ok"), (mine, 120, 201, "ok"), (mine, 120, "-", "unknown")]
    equal(complaints(*late), 1)


@case
def errors_that_nothing_explains():
    """an error before a gateway stands still is told of, and one of a client of others long after it woke; and whatever is not answered"""
    clients = [gateway_stop.recorded.Client(number, ["nobody:1"], [b"key"], seed=1) for number in range(2)]
    stops, wakes, settled = 100, 110, 110 + gateway_stop.SETTLED_SECONDS

    def complaints(number, asked, told, met=gateway_stop.recorded.TOLD):
        """Of an error of the client of the gateway that stands still, or of the other one."""
        for client in clients:
            client.errors = []
        clients[number].errors = [gateway_stop.recorded.Error(asked, told, "nobody:1", met)]
        return len(gateway_stop.unexcused(clients, clients[1:], stops, wakes))

    for number in range(2):
        equal(complaints(number, 98, 99), 1)
        equal(complaints(number, 99, 101), 0)
        equal(complaints(number, 101, 105), 0)
        equal(complaints(number, settled - 1, settled + 1), 0)
        equal(complaints(number, 101, 161, gateway_stop.recorded.UNANSWERED), 1)
        equal(complaints(number, settled + 1, settled + 2), number)


if __name__ == "__main__":
    main()
