"""Roles of the program as single processes, and what a coordinator tells of itself."""

import json
import os
import subprocess
import urllib.error
import urllib.request

from cluster import binary_path, free_ports


class Process:
    """One role of the program; its log is shown when a case fails."""

    def __init__(self, directory, name, *arguments):
        self.name, self.path = name, os.path.join(directory, f"{name}.log")
        self.command = [binary_path(), *arguments]
        self.start()

    def start(self):
        environment = {"SHORTTAIL_LOG": "info", **os.environ}
        with open(self.path, "ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=environment)

    def log(self):
        with open(self.path, encoding="utf-8", errors="replace") as log:
            return log.read()

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.wait()


class Coordinator(Process):
    def __init__(self, directory, name, *arguments, host="127.0.0.1"):
        port, admin = free_ports(2)
        self.control, self.admin = f"{host}:{port}", f"127.0.0.1:{admin}"
        super().__init__(directory, name, "coordinator", "--listen", self.control, "--admin", self.admin, *arguments)

    def status(self, seconds_max=5):
        """The status, or none while nobody answers."""
        try:
            with urllib.request.urlopen(f"http://{self.admin}/status", timeout=seconds_max) as answer:
                return json.load(answer)
        except (OSError, urllib.error.URLError):
            return None

    def leads(self):
        status = self.status()
        return status if status and status["coordinator"]["leading"] else None

    def problem(self):
        """Why it cannot use the metadata store, while it does not lead."""
        status = self.status()
        return status and not status["coordinator"]["leading"] and status["coordinator"]["metadata_problem"]

    def stands_by(self):
        """The status, if it knows of another one that leads."""
        status = self.status()
        about = status["coordinator"] if status else {"leading": True}
        return status if not about["leading"] and about["leader"] not in (None, about["name"]) else None
