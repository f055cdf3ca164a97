"""Breaks gateways, coordinators and members of etcd: one gateway and one coordinator are always well, and two of etcd but for seconds.

Must not know: nodes.
"""

import signal
import subprocess
import time

from thrash_troubles import Trouble

DRAIN_SECONDS_MAX = 20
# One that is told to end gives up after 21 s, and ends.
END_SECONDS_MAX = 60
LOOK_SECONDS = 0.02
KINDS = ["gateway killed", "gateway frozen", "gateway cut off", "gateway cut off from nodes", "gateway drained", "gateway told to end"]
KINDS += ["coordinator killed", "coordinator frozen", "etcd frozen", "etcd killed", "etcd without a majority"]


class Others:
    def __init__(self, members, troubles, random):
        self.members, self.troubles, self.random = members, troubles, random
        # Processes whose drain did not end in time: it is cancelled, as soon as somebody leads.
        self.cancelled = []

    def go_on(self):
        for gateway, process in list(self.cancelled):
            known = self.known_as(gateway)
            if process is not gateway.process or (known and not known["draining"]):
                self.cancelled.remove((gateway, process))
            elif known:
                self.members.order("drain", "gateway", str(known["id"]), "--cancel")

    def hurt_one(self):
        chance, well = self.random.random(), self.troubles.well
        gateways, coordinators = well(self.members.gateways), well(self.members.coordinators)
        if chance < 0.65:
            if len(gateways) > 1:
                self.hurt_gateway(self.random.choice(gateways))
        elif chance < 0.85:
            if len(coordinators) > 1:
                self.hurt_coordinator(self.random.choice(coordinators))
        elif not self.troubles.of(range(len(self.members.etcd.processes))):
            self.hurt_etcd()

    def hurt_gateway(self, gateway):
        chance = self.random.random()
        if chance < 0.3:
            self.kill(gateway, "gateway", self.random.uniform(0.2, 4))
        elif chance < 0.6:
            self.freeze(gateway, "gateway", [0.3, 1, 3, 10])
        elif chance < 0.7 and self.members.network:
            gateway.cut()
            seconds = self.random.choice([0.5, 2, 6])
            self.troubles.begin(gateway, "gateway", "cut off", seconds, lambda: gateway.mend() or True)
        elif chance < 0.8 and self.members.network:
            self.cut_from_nodes(gateway)
        elif chance < 0.9 and self.is_led():
            self.tell_to_end(gateway)
        else:
            self.drain(gateway)

    def is_led(self):
        """Are all coordinators and all of etcd well? Else nobody may follow a gateway that ends."""
        coordinators = self.troubles.well(self.members.coordinators)
        return len(coordinators) == len(self.members.coordinators) and not self.troubles.of(range(len(self.members.etcd.processes)))

    def cut_from_nodes(self, gateway):
        """Coordinators and clients still hear of it. What it owns goes to others, unless it reaches enough near nodes."""
        nodes = self.members.far_addresses()
        gateway.cut_from(nodes)
        seconds = self.random.choice([1, 4, 8])
        self.troubles.begin(gateway, "gateway", "cut off from nodes", seconds, lambda: gateway.mend_to(nodes) or True)

    def drain(self, gateway):
        """It hands over what it owns, which nobody is to notice; then it is started again, and owns something again."""
        known = self.known_as(gateway)
        if not known:
            return
        if self.members.order("drain", "gateway", str(known["id"]), "--within", str(DRAIN_SECONDS_MAX)):
            self.troubles.count(gateway, "gateway", "drained")
            self.troubles.note(f"{gateway.name} is drained, and started again")
            before = time.monotonic()
            gateway.kill()
            self.start_again(gateway, before)
        else:
            self.cancelled.append((gateway, gateway.process))

    def known_as(self, gateway):
        """What the coordinator tells of it; none, if it has yet to hear of this process."""
        status = self.members.status() or {"gateways": []}
        return next((known for known in status["gateways"] if known["pid"] == gateway.process.pid), None)

    def tell_to_end(self, gateway):
        """The same by itself: it hands over what it owns before it ends. One that has just been started ends at once."""
        if not self.known_as(gateway):
            return
        self.troubles.count(gateway, "gateway", "told to end")
        self.troubles.note(f"{gateway.name} is told to end, and started again")
        gateway.signal(signal.SIGTERM)
        deadline, code = time.monotonic() + END_SECONDS_MAX, None
        while code is None:
            before = time.monotonic()
            if before > deadline:
                raise RuntimeError(f"{gateway.name} was told to end, and has not for {END_SECONDS_MAX} s")
            try:
                code = gateway.process.wait(LOOK_SECONDS)
            except subprocess.TimeoutExpired:
                pass
        if code != 0:
            raise RuntimeError(f"{gateway.name} was told to end, and ended with {code}")
        self.start_again(gateway, before)

    def start_again(self, gateway, before):
        """Its clients' connections end: that is the trouble."""
        again = Trouble(gateway, "gateway", "started again", before, 0, None)
        gateway.start()
        again.ended = time.monotonic()
        self.troubles.past.append(again)

    def hurt_coordinator(self, coordinator):
        seconds = [1, 3, 8]
        if self.random.random() < 0.5:
            self.kill(coordinator, "coordinator", self.random.choice(seconds))
        else:
            self.freeze(coordinator, "coordinator", seconds)

    def hurt_etcd(self):
        etcd, chance = self.members.etcd, self.random.random()
        number, other = self.random.sample(range(len(etcd.processes)), 2)
        if chance < 0.3:
            etcd.kill_one(number)
            self.troubles.begin(number, "etcd", "killed", self.random.choice([1, 4, 10]), lambda: etcd.start_one(number) or True)
        elif chance < 0.6:
            # Nothing can be stored, so nobody leads.
            self.freeze_etcd([number, other], "without a majority", [1, 3, 6])
        else:
            self.freeze_etcd([number], "frozen", [1, 4, 10])

    def freeze_etcd(self, numbers, label, choices):
        processes = [self.members.etcd.processes[number] for number in numbers]

        def signal_all(which):
            for process in processes:
                process.send_signal(which)
            return True

        signal_all(signal.SIGSTOP)
        self.troubles.begin(numbers[0], "etcd", label, self.random.choice(choices), lambda: signal_all(signal.SIGCONT))

    def kill(self, member, kind, seconds):
        member.kill()
        self.troubles.begin(member, kind, "killed", seconds, lambda: member.start() or True)

    def freeze(self, member, kind, choices):
        member.signal(signal.SIGSTOP)
        seconds = self.random.choice(choices)
        self.troubles.begin(member, kind, "frozen", seconds, lambda: member.signal(signal.SIGCONT) or True)
