"""Whether a rolling restart fails in which chunks are rebuilt, connections break, or outcomes are unknown, though it should not, or a
member is left out; and what it tells of the longest operations: of made-up ones.

Must not know: how real clusters behave.
"""

import argparse
import contextlib
import io
import json
import os
import tempfile
from types import SimpleNamespace
from unittest import mock

import rolling_restart  # before the others: it finds the modules beside this folder
from expect import case, equal, main, raises, true
from fake import RESETTING, Server
from rolling_restart import Client, Problem, Roll

UNKNOWN = b"SERVER_ERROR outcome unknown: the write was sent but not confirmed\r\n"


class Cluster:
    """That tells how many chunks were rebuilt, and who is there."""

    def __init__(self):
        self.chunks_rebuilt = 0
        self.nodes = [{"id": number, "pid": 100 + number} for number in range(rolling_restart.NODES)]
        self.gateways = [{"id": number, "pid": 200 + number} for number in range(rolling_restart.GATEWAYS)]
        self.next_pid = 300

    def status(self):
        return {
            "repair": {"chunks_rebuilt_total": self.chunks_rebuilt},
            "nodes": list(self.nodes),
            "gateways": list(self.gateways),
        }

    def replace(self, members, before, number):
        """It comes last, as one with a higher number does."""
        members.remove(before)
        members.append({"id": number, "pid": self.next_pid})
        self.next_pid += 1


class Made(Roll):
    """`node_does`: what happens at a restart of a node, `gateway_does`: at one of a gateway."""

    def __init__(self, node_does, gateway_does):
        self.client = SimpleNamespace(broken=0, unknown=0, hits=0, sets=0, longest=0.0, longest_unbroken=0.0)
        self.client.forget_longest = self.forget_longest
        super().__init__(Cluster(), [self.client], argparse.Namespace(settle=0.0, signal="KILL"))
        self.node_does, self.gateway_does = node_does, gateway_does

    def forget_longest(self):
        self.client.longest = self.client.longest_unbroken = 0.0

    def node(self, node):
        self.servers.replace(self.servers.nodes, node, node["id"])
        self.node_does(self)

    def gateway(self, gateway):
        self.servers.replace(self.servers.gateways, gateway, self.servers.next_pid)
        self.gateway_does(self)

    def roll(self):
        with contextlib.redirect_stdout(io.StringIO()):
            self.all()


def nothing(_):
    pass


def rebuild(roll):
    roll.servers.chunks_rebuilt += 1


def begin_anew(roll):
    roll.servers.chunks_rebuilt = 0


def break_connection(roll):
    roll.client.broken += 1


def leave_unknown(roll):
    roll.client.unknown += 1


def wait_long(roll):
    break_connection(roll)
    roll.client.longest, roll.client.longest_unbroken = 0.104, 0.0312


def told(rebuilt, broken, unknown):
    what = f"{rebuilt} chunks were rebuilt, {broken} connections broke and {unknown} outcomes were unknown"
    return f"{rolling_restart.NODES} nodes: {what}, though no memory was lost, and no gateway died"


@case
def as_it_should_be():
    """nothing may happen, and much while gateways are restarted"""
    for gateway_does in (nothing, break_connection, leave_unknown, rebuild, begin_anew):
        Made(nothing, gateway_does).roll()


@case
def rebuilt():
    """a chunk that is rebuilt while nodes are restarted is a failure"""
    nodes = rolling_restart.NODES
    text = raises(Problem, Made(rebuild, nothing).roll)
    equal(text, told(nodes, 0, 0))


@case
def broken():
    """a connection that breaks while nodes are restarted is a failure"""
    nodes = rolling_restart.NODES
    text = raises(Problem, Made(break_connection, nothing).roll)
    equal(text, told(0, nodes, 0))


@case
def unknown():
    """an outcome that is unknown while nodes are restarted is a failure"""
    text = raises(Problem, Made(leave_unknown, nothing).roll)
    equal(text, told(0, 0, rolling_restart.NODES))


@case
def asked_again():
    """where an outcome may be unknown a write is asked again, not for ever, and counted; elsewhere it is a failure at once"""
    with Server() as server:
        patient, impatient = (Client(0, [server.address], 1, 1, may_be_unknown) for may_be_unknown in (True, False))
        patient.load()
        equal(patient.unknown, 0)
        server.error = UNKNOWN
        true("outcome unknown" in raises(Problem, impatient.load), "it is told")
        equal(impatient.unknown, 0)
        with mock.patch.object(rolling_restart, "RETRY_SECONDS_MAX", 0.1):
            true("outcome unknown" in raises(Problem, patient.load), "it is told")
        true(patient.unknown > 1, "it is counted")
        server.error = b"SERVER_ERROR out of memory storing object\r\n"
        true("out of memory" in raises(Problem, patient.load), "it is told")


@case
def told_by_phase():
    """each phase tells of its own longest operations and broken connections"""
    roll = Made(nothing, wait_long)
    roll.roll()
    equal([phase["name"] for phase in roll.phases], ["undisturbed", "8 nodes", "3 gateways"])
    equal([phase["longest_ms"] for phase in roll.phases], [0.0, 0.0, 104.0])
    equal([phase["longest_unbroken_ms"] for phase in roll.phases], [0.0, 0.0, 31.2])
    equal([phase["connections_broken"] for phase in roll.phases], [0, 0, rolling_restart.GATEWAYS])


@case
def made_anew():
    """a connection that breaks is made anew and counted, and its operation is not among those whose connection stood"""
    with Server() as one, Server() as other:
        other.store = one.store
        client = Client(0, [one.address, other.address], 1, 1, False)
        client.load()
        client.operate()
        equal(client.broken, 0)
        true(client.longest == client.longest_unbroken > 0, "it stood")
        client.forget_longest()
        one.mood = RESETTING
        client.operate()
        equal(client.broken, 1)
        equal(client.longest_unbroken, 0.0)
        true(client.longest > 0, "it is among all")
    equal(rolling_restart.told_broken(1), "1 connection broke and was made anew")
    equal(rolling_restart.told_broken(24), "24 connections broke and were made anew")


@case
def raw():
    """each round adds a line to the file, if one is given"""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "raw")
        asked = argparse.Namespace(keys=10, clients=2, signal="TERM", settle=0.2, previous=None, raw=path)
        for seed in (7, 8):
            rolling_restart.add_raw(asked, seed, [{"name": "undisturbed"}], {"hits": 3})
        with open(path, encoding="utf-8") as lines:
            rounds = [json.loads(line) for line in lines]
        equal([(one["seed"], one["hits"], one["phases"]) for one in rounds], [(seed, 3, [{"name": "undisturbed"}]) for seed in (7, 8)])
        rolling_restart.add_raw(argparse.Namespace(raw=None), 9, [], {})


class LeavesOneOut(Made):
    """That takes gateways by their place in the list, which changes."""

    def gateway(self, gateway):
        place = gateway["id"]
        super().gateway(self.servers.gateways[place])


@case
def left_out():
    """each member is another process afterwards"""
    equal(raises(Problem, LeavesOneOut(nothing, nothing).roll), "processes [201] were not restarted")


if __name__ == "__main__":
    main()
