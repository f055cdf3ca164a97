"""Whether a rolling restart fails in which chunks are rebuilt, or connections break, though it should not: of made-up ones.

Must not know: how real clusters behave.
"""

import argparse
import contextlib
import io
from types import SimpleNamespace

import rolling_restart
from expect import case, equal, main, raises
from rolling_restart import Problem, Roll


class Cluster:
    """That tells how many chunks were rebuilt."""

    def __init__(self):
        self.chunks_rebuilt = 0

    def status(self):
        return {"repair": {"chunks_rebuilt_total": self.chunks_rebuilt}}


class Made(Roll):
    """`node_does`: what happens at a restart of a node, `gateway_does`: at one of a gateway."""

    def __init__(self, node_does, gateway_does):
        self.client = SimpleNamespace(broken=0, hits=0, sets=0, longest=0.0)
        super().__init__(Cluster(), [self.client], argparse.Namespace(settle=0.0, signal="KILL"))
        self.node, self.gateway = (lambda _: node_does(self)), (lambda _: gateway_does(self))

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


@case
def as_it_should_be():
    """nothing may happen, and much while gateways are restarted"""
    for gateway_does in (nothing, break_connection, rebuild, begin_anew):
        Made(nothing, gateway_does).roll()


@case
def rebuilt():
    """a chunk that is rebuilt while nodes are restarted is a failure"""
    nodes = rolling_restart.NODES
    text = raises(Problem, Made(rebuild, nothing).roll)
    equal(text, f"{nodes} nodes: {nodes} chunks were rebuilt and 0 connections broke, though no memory was lost")


@case
def broken():
    """a connection that breaks while nodes are restarted is a failure"""
    nodes = rolling_restart.NODES
    text = raises(Problem, Made(break_connection, nothing).roll)
    equal(text, f"{nodes} nodes: 0 chunks were rebuilt and {nodes} connections broke, though no memory was lost")


if __name__ == "__main__":
    main()
