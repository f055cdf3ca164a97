"""etcd for tests: members on free ports of the loopback interface, in one temporary directory.

Must not know: who uses it.
"""

import base64
import json
import os
import signal
import subprocess
import tempfile
import urllib.request

from cluster import START_SECONDS_MAX, free_ports, wait_until


class Etcd:
    """A cluster of `count` members; `flags` go to each of them. With a context of TLS, clients need it."""

    def __init__(self, count=3, flags=(), context=None):
        self.context = context
        scheme = "https" if context else "http"
        self.directory = tempfile.TemporaryDirectory(prefix="etcd-test-")
        self.flags = list(flags)
        ports = free_ports(2 * count)
        self.urls = [f"{scheme}://127.0.0.1:{port}" for port in ports[:count]]
        self.peers = [f"http://127.0.0.1:{port}" for port in ports[count:]]
        self.processes = [self._spawn(index) for index in range(count)]
        try:
            wait_until(self.is_healthy, START_SECONDS_MAX, "etcd answers")
        except BaseException:
            self.stop()
            raise

    def _spawn(self, index):
        url, peer = self.urls[index], self.peers[index]
        cluster = ",".join(f"m{number}={address}" for number, address in enumerate(self.peers))
        command = ["etcd", "--name", f"m{index}", "--data-dir", os.path.join(self.directory.name, f"m{index}")]
        command += ["--listen-client-urls", url, "--advertise-client-urls", url]
        command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", cluster]
        # What a test stores need not survive the machine.
        command += ["--unsafe-no-fsync", *self.flags]
        with open(os.path.join(self.directory.name, f"m{index}.log"), "ab") as log:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)

    def ask(self, path, question, timeout=5, token=None):
        headers = {"Content-Type": "application/json", **({"Authorization": token} if token else {})}
        request = urllib.request.Request(self.urls[0] + path, json.dumps(question).encode(), headers)
        with urllib.request.urlopen(request, timeout=timeout, context=self.context) as answer:
            return json.load(answer)

    def is_healthy(self):
        if any(process.poll() is not None for process in self.processes):
            raise RuntimeError("etcd ended:\n" + self.log()[-4000:])
        try:
            for url in self.urls:
                with urllib.request.urlopen(url + "/health", timeout=5, context=self.context) as answer:
                    if json.load(answer)["health"] != "true":
                        return False
            return True
        except OSError:
            return False

    def read(self, key):
        """(value, revision of its last change), or (None, 0)."""
        found = self.ask("/v3/kv/range", {"key": base64.b64encode(key.encode()).decode()}).get("kvs", [])
        return (base64.b64decode(found[0]["value"]), int(found[0]["mod_revision"])) if found else (None, 0)

    def log(self):
        texts = []
        for index in range(len(self.urls)):
            with open(os.path.join(self.directory.name, f"m{index}.log"), encoding="utf-8", errors="replace") as log:
                texts.append(log.read())
        return "\n".join(texts)

    def signal(self, number):
        for process in self.processes:
            process.send_signal(number)

    def pause(self):
        self.signal(signal.SIGSTOP)

    def resume(self):
        self.signal(signal.SIGCONT)

    def kill(self):
        """Ends all members at once; what they stored stays."""
        for process in self.processes:
            process.kill()
            process.wait()

    def kill_one(self, index):
        """What it stored stays."""
        self.processes[index].kill()
        self.processes[index].wait()

    def start_one(self, index):
        self.processes[index] = self._spawn(index)

    def restart(self):
        self.processes = [self._spawn(index) for index in range(len(self.urls))]
        wait_until(self.is_healthy, START_SECONDS_MAX, "etcd answers again")

    def stop(self):
        self.kill()
        self.directory.cleanup()
