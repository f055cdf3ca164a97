"""Coordinators over three members of etcd that want certificates, a user and a password."""

import base64
import contextlib
import os
import signal
import ssl
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(os.path.dirname(HERE), name) for name in ("lib", "clients")]

from cluster import free_ports, wait_until  # noqa: E402
from etcd import Etcd  # noqa: E402
from expect import case, main, true  # noqa: E402
from processes import Coordinator, Process  # noqa: E402

SECONDS_MAX = 60
# Coordinators look by themselves so seldom that a case that waits for it fails first.
POLL_SECONDS = 3600
ROOT = "of use to this test only"


class Authority:
    """Signs certificates; everything is in one directory."""

    def __init__(self, directory, name):
        self.directory, self.name = directory, name
        self.run("req", "-x509", "-nodes", "-newkey", "rsa:2048", "-subj", f"/CN={name}", "-days", "2", "-keyout", f"{name}.key", "-out", f"{name}.pem")

    def run(self, *arguments):
        command = ["openssl", *arguments]
        subprocess.run(command, cwd=self.directory, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def path(self, name):
        return os.path.join(self.directory, name)

    def sign(self, name, subject):
        """Certificate and key for 127.0.0.1, as server and as client."""
        with open(self.path(f"{name}.ext"), "w", encoding="ascii") as extensions:
            extensions.write("subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n")
        self.run("req", "-nodes", "-newkey", "rsa:2048", "-subj", subject, "-keyout", f"{name}.key", "-out", f"{name}.csr")
        signing = ["-CA", f"{self.name}.pem", "-CAkey", f"{self.name}.key", "-CAcreateserial", "-extfile", f"{name}.ext"]
        self.run("x509", "-req", "-in", f"{name}.csr", "-days", "2", "-out", f"{name}.pem", *signing)
        return self.path(f"{name}.pem"), self.path(f"{name}.key")


class World:
    def __init__(self):
        self.directory = tempfile.TemporaryDirectory(prefix="metadata-tls-")
        authority = Authority(self.directory.name, "ca")
        self.ca = authority.path("ca.pem")
        server, server_key = authority.sign("server", "/CN=server")
        # With users, etcd's JSON gateway turns away certificates that name one themselves.
        self.certificate, self.key = authority.sign("client", "/O=shorttail")
        Authority(self.directory.name, "stranger")
        self.stranger = authority.path("stranger.pem")
        context = ssl.create_default_context(cafile=self.ca)
        context.load_cert_chain(self.certificate, self.key)
        tls = ["--cert-file", server, "--key-file", server_key, "--trusted-ca-file", self.ca, "--client-cert-auth"]
        self.etcd, self.coordinators = Etcd(3, tls, context), []
        try:
            self.allow({"shorttail": "right", "second": "another"})
        except BaseException:
            self.stop()
            raise

    def allow(self, users):
        """Users who may use the keys of the cluster only; from now on etcd asks who it is."""
        code = lambda text: base64.b64encode(text.encode()).decode()  # noqa: E731
        asked = [
            ("user/add", {"name": "root", "password": ROOT}),
            ("role/add", {"name": "root"}),
            ("user/grant", {"user": "root", "role": "root"}),
        ]
        for user, password in users.items():
            keys = {"permType": "READWRITE", "key": code("/test/"), "range_end": code("/test0")}
            asked += [
                ("user/add", {"name": user, "password": password}),
                ("role/add", {"name": user}),
                ("role/grant", {"name": user, "perm": keys}),
                ("user/grant", {"user": user, "role": user}),
            ]
        for path, question in [*asked, ("enable", {})]:
            self.etcd.ask(f"/v3/auth/{path}", question)

    def change(self, path, question):
        """What only root may do."""
        token = self.etcd.ask("/v3/auth/authenticate", {"name": "root", "password": ROOT})["token"]
        self.etcd.ask(f"/v3/auth/{path}", question, token=token)

    def coordinator(self, tls, password, user="shorttail"):
        path = os.path.join(self.directory.name, f"users-{password}")
        with open(path, "w", encoding="ascii") as users:
            users.write(f"{user}:{password}\n")
        flags = ["--metadata", "etcd:" + ",".join(self.etcd.urls), "--metadata-prefix", "/test", "--metadata-tls", tls]
        flags += ["--metadata-auth-file", path, "--metadata-poll", str(POLL_SECONDS)]
        each = Coordinator(self.directory.name, f"c{len(self.coordinators)}", *flags)
        self.coordinators.append(each)
        return each

    def stop(self):
        # One after the other, the last one first, whatever fails.
        with contextlib.ExitStack() as ends:
            ends.callback(self.directory.cleanup)
            ends.callback(self.etcd.stop)
            for each in self.coordinators:
                ends.callback(each.kill)


WORLD = World()
RIGHT = f"{WORLD.ca},{WORLD.certificate},{WORLD.key}"


def refused(tls, password, text):
    coordinator = WORLD.coordinator(tls, password)
    problem = wait_until(coordinator.problem, SECONDS_MAX, "the coordinator says why it cannot lead")
    true(text in problem.lower(), problem)
    true("right" not in problem and "wrong" not in problem, "passwords stay where they are")
    coordinator.kill()


@case
def without_a_certificate():
    """etcd turns away a coordinator that shows no certificate"""
    refused(WORLD.ca, "right", "https://")


@case
def an_unknown_authority():
    """a coordinator does not talk to an etcd whose certificate another authority signed"""
    refused(f"{WORLD.stranger},{WORLD.certificate},{WORLD.key}", "right", "certificate")


@case
def a_wrong_password():
    """a wrong password is told"""
    refused(RIGHT, "wrong", "authentication failed")


@case
def all_is_right():
    """with certificate, user and password it leads, also after etcd restarted and forgot its token, and resigns when it ends"""
    coordinator = WORLD.coordinator(RIGHT, "right")
    wait_until(coordinator.leads, SECONDS_MAX, "it leads")
    cluster = coordinator.status()["cluster_id"]
    WORLD.etcd.kill()
    WORLD.etcd.restart()
    whole = lambda: coordinator.leads() and not coordinator.status()["coordinator"]["metadata_problem"]  # noqa: E731
    wait_until(whole, SECONDS_MAX, "it leads again")
    coordinator.signal(signal.SIGTERM)
    true(coordinator.process.wait(SECONDS_MAX) == 0, "it ends well")
    other = WORLD.coordinator(RIGHT, "right")
    wait_until(other.leads, SECONDS_MAX, "another one leads")
    true(other.status()["cluster_id"] == cluster, "it is the same cluster")
    other.kill()


def leader_and_standby():
    """Two coordinators, one of which leads, and the other one knows it."""
    leader = WORLD.coordinator(RIGHT, "right")
    wait_until(leader.leads, SECONDS_MAX, "it leads")
    standby = WORLD.coordinator(RIGHT, "right")
    wait_until(standby.stands_by, SECONDS_MAX, "the other one stands by")
    return leader, standby


def takes_over(leader, standby, signal_number):
    leader.signal(signal_number)
    leader.process.wait(SECONDS_MAX)
    wait_until(standby.leads, SECONDS_MAX, "the one that stood by heard of it")


@case
def a_standby_hears_of_it():
    """the leader resigns, or dies: the one that stands by hears it from etcd, looking for itself an hour later"""
    for number in (signal.SIGTERM, signal.SIGKILL):
        leader, standby = leader_and_standby()
        takes_over(leader, standby, number)
        standby.kill()


@case
def a_standby_hears_of_it_after_etcd_restarted():
    """kill -9 of all members of etcd: tokens and connections are gone, and the one that stands by hears from them again"""
    leader, standby = leader_and_standby()
    WORLD.etcd.kill()
    WORLD.etcd.restart()
    wait_until(lambda: leader.leads() and not leader.status()["coordinator"]["metadata_problem"], SECONDS_MAX, "it leads again")
    takes_over(leader, standby, signal.SIGTERM)
    standby.kill()


@case
def a_standby_hears_of_it_when_a_member_is_silent():
    """the member of etcd that is asked first stands still, without a word: another one tells"""
    leader, standby = leader_and_standby()
    WORLD.etcd.processes[0].send_signal(signal.SIGSTOP)
    try:
        takes_over(leader, standby, signal.SIGTERM)
    finally:
        WORLD.etcd.processes[0].send_signal(signal.SIGCONT)
    standby.kill()


@case
def a_leader_that_may_not_save_gives_way():
    """the leader's user may do nothing any more, and etcd prolongs its lease all the same: the other one leads"""
    leader = WORLD.coordinator(RIGHT, "right")
    wait_until(leader.leads, SECONDS_MAX, "the first one leads")
    other = WORLD.coordinator(RIGHT, "another", "second")
    wait_until(other.stands_by, SECONDS_MAX, "the second one stands by")
    WORLD.change("user/revoke", {"name": "shorttail", "role": "shorttail"})
    listen = f"127.0.0.1:{free_ports(1)[0]}"
    arguments = ["node", "--listen", listen, "--coordinator", f"{leader.control},{other.control}", "--memory", "32MiB"]
    node = Process(WORLD.directory.name, "node", *arguments)
    try:
        # That it is there has to be saved.
        wait_until(lambda: [each["state"] for each in (other.leads() or {"nodes": []})["nodes"]] == ["normal"], SECONDS_MAX, "it is let in")
        problem = wait_until(leader.problem, SECONDS_MAX, "the first one says why it does not lead")
        true("permission denied" in problem, problem)
        WORLD.change("user/grant", {"user": "shorttail", "role": "shorttail"})
        wait_until(leader.stands_by, SECONDS_MAX, "it stands by")
        true(other.leads(), "and does not come between")
    finally:
        node.kill()
    other.kill()
    leader.kill()


try:
    main()
finally:
    WORLD.stop()
