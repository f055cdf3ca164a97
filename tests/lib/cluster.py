"""Starts a cluster (or the real memcached and Redis), runs one command against it, stops it.

    cluster.py run [--server ours|real] [--kill 2] [--up ARG]... -- COMMAND [ARG...]

The command finds the addresses in SHORTTAIL_MEMCACHED, SHORTTAIL_REDIS and SHORTTAIL_ADMIN (HOST:PORT). With --kill,
data is stored first, that many node processes get SIGKILL, and the data is read back before the command starts. Afterwards
the cluster is told to end. A process that died meanwhile, or that it leaves behind, is a failure; a command that ends one itself
says so (`kill_noted`, with the file in SHORTTAIL_KILLED).

Must not know: which suite runs. As a module it serves the tests that kill nodes in the middle of their work.
"""

import argparse
import contextlib
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
START_SECONDS_MAX = 120
STOP_SECONDS_MAX = 30
# Who is told to end has five seconds for all that it started.
SESSION_SECONDS_MAX = 2
PRELOAD_COUNT = 2000
GATEWAYS_MAX = 8
# As `up` words it; it starts some of them again at once.
DEATH = re.compile(r"^.*\(pid (\d+)\) died: .*$", re.MULTILINE)


def listeners_ports():
    """Ports that the kernel gives to no connection: one of those might be taken before it is listened on."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        first, last = map(int, file.read().split())
    return range(last + 1, 65536) if first < 20000 else range(16384, first)


HANDED_OUT = set()


def free_ports(count):
    """Ports that nobody listens on now, and that were not handed out before."""
    ports, candidates = [], listeners_ports()
    while len(ports) < count:
        port = secrets.choice(candidates)
        with socket.socket() as each:
            try:
                each.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in HANDED_OUT:
            HANDED_OUT.add(port)
            ports.append(port)
    return ports


def free_runs(count, length):
    """The first ports of runs of `length` ports that nobody listens on now."""
    runs = []
    while len(runs) < count:
        first = free_ports(1)[0]
        held = []
        try:
            for port in range(first, first + length):
                held.append(socket.socket())
                held[-1].bind(("127.0.0.1", port))
            if all(abs(first - other) >= length for other in runs):
                runs.append(first)
        except (OSError, OverflowError):
            pass
        finally:
            for each in held:
                each.close()
    return runs


def wait_until(condition, seconds_max, what):
    """Returns the first true value of `condition`; the bound is there to end a hung run, never to measure."""
    deadline = time.monotonic() + seconds_max
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise RuntimeError(f"waited {seconds_max} s in vain: {what}")
        time.sleep(0.02)


def stat_of(pid):
    """What Linux tells of a process, from its state on; nothing once it does not run, also if nobody has reaped it yet."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            words = stat.read().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        # Reaped before the file was opened, or between opening and reading it.
        return None
    return None if words[0] in "ZX" else words


def is_alive(pid):
    return stat_of(pid) is not None


def born_at(pid):
    """When it began; another process that has its number later has another time."""
    words = stat_of(pid)
    return words and words[19]


def processes_of(index, number):
    """Processes that run and that have this number there in what Linux tells."""
    all_ = map(int, filter(str.isdecimal, os.listdir("/proc")))
    return [pid for pid in all_ if (words := stat_of(pid)) and int(words[index]) == number]


def children_of(parent):
    """Processes that it started and that run."""
    return processes_of(1, parent)


def running(births):
    """Which of these processes, each with when it began, run."""
    return [pid for pid, birth in births.items() if birth is not None and born_at(pid) == birth]


def end_session(leader):
    """Ends all processes of a session; those that do not end by SIGTERM are killed."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in processes_of(3, leader):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        with contextlib.suppress(RuntimeError):
            wait_until(lambda: not processes_of(3, leader), SESSION_SECONDS_MAX, "the processes of a session end")


def kill_noted(path, pid, number=signal.SIGKILL):
    """Ends a process of a cluster, which is no complaint when that stops: it looks into this file."""
    with open(path, "a", encoding="ascii") as killed:
        killed.write(f"{pid}\n")
    os.kill(pid, number)


def binary_path():
    """The program as it is released; SHORTTAIL_BINARY names another one."""
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
    return os.environ.get("SHORTTAIL_BINARY", os.path.join(target, "release", "shorttail"))


def memcached_path():
    """The reference memcached: the newest one that was built for the tests, else the system's."""
    built = os.path.join(ROOT, ".cache", "memcached", "tree", "memcached")
    return os.environ.get("REFERENCE_MEMCACHED", built if os.path.exists(built) else "memcached")


class Real:
    """The reference servers under the same interface as a cluster."""

    killed_path = os.devnull

    def __init__(self):
        memcached_port, redis_port = free_ports(2)
        self.memcached, self.redis, self.admin = f"127.0.0.1:{memcached_port}", f"127.0.0.1:{redis_port}", ""
        self.directory = tempfile.TemporaryDirectory(prefix="reference-")
        user = ["-u", "root"] if os.getuid() == 0 else []
        memcached = [memcached_path(), "-l", "127.0.0.1", "-p", str(memcached_port), "-U", "0", "-m", "256", *user]
        redis = ["redis-server", "--bind", "127.0.0.1", "--port", str(redis_port), "--save", "", "--appendonly", "no", "--databases", "1"]
        redis += ["--dir", self.directory.name]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
        self.processes = [subprocess.Popen(memcached, **quiet), subprocess.Popen(redis, **quiet)]
        try:
            for address in (self.memcached, self.redis):
                wait_until(lambda: self._answers(address), START_SECONDS_MAX, f"a reference server on {address}")
        except BaseException:
            self.stop()
            raise

    def _answers(self, address):
        if any(process.poll() is not None for process in self.processes):
            raise RuntimeError("a reference server ended at once")
        try:
            connect(address).close()
            return True
        except ConnectionRefusedError:
            return False

    def kill_nodes(self, count):
        raise RuntimeError(f"the reference servers have no {count} nodes to kill")

    def stop(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait()
        self.directory.cleanup()


class Cluster:
    """One `shorttail up` on free ports of the loopback interface, of this program or of the one that is named."""

    def __init__(self, extra=(), program=None):
        # Further gateways take the next ports.
        ports = free_runs(3, GATEWAYS_MAX)
        self.memcached, self.redis, self.admin = (f"127.0.0.1:{port}" for port in ports)
        self.directory = tempfile.TemporaryDirectory(prefix="shorttail-test-")
        command = [program or binary_path(), "up", "--memcached", self.memcached, "--redis", self.redis, "--admin", self.admin]
        command += ["--dir", os.path.join(self.directory.name, "data"), *extra]
        self.log_path, self.killed_path = (os.path.join(self.directory.name, name) for name in ("up.log", "killed"))
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        # The processes that there were first, and when each began.
        self.pids, self.births = [], {}
        try:
            wait_until(self._is_ready, START_SECONDS_MAX, "a line that begins with `ready`")
            self.pids = [part["pid"] for part in self.status()["nodes"] + self.status()["gateways"]]
            self.births = {pid: born_at(pid) for pid in self.pids}
        except BaseException:
            self._print_log()
            self.stop()
            raise

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            return log.read()

    def _print_log(self):
        sys.stdout.write("--- output of `shorttail up`:\n" + self.log()[-8000:] + "---\n")
        sys.stdout.flush()

    def _is_ready(self):
        if self.process.poll() is not None:
            raise RuntimeError(f"`shorttail up` ended with {self.process.returncode} before it was ready")
        return any(line.startswith("ready") for line in self.log().splitlines())

    def status(self):
        command = [binary_path(), "status", "--admin", self.admin, "--json"]
        return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=60).stdout)

    def chaos(self, fault):
        """`shorttail chaos`: the cluster must have been started with --allow-chaos."""
        command = [binary_path(), "chaos", *fault.split(), "--admin", self.admin]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True, timeout=60)

    def kill(self, pid, number=signal.SIGKILL):
        kill_noted(self.killed_path, pid, number)

    def kill_nodes(self, count):
        """SIGKILL to `count` nodes; returns their ids once the processes are gone."""
        victims = [node for node in self.status()["nodes"] if is_alive(node["pid"])][:count]
        if len(victims) < count:
            raise RuntimeError(f"only {len(victims)} nodes are alive, {count} should be killed")
        for node in victims:
            self.kill(node["pid"])
        for node in victims:
            wait_until(lambda: not is_alive(node["pid"]), STOP_SECONDS_MAX, f"node {node['id']} is gone")
        return [node["id"] for node in victims]

    def deaths(self):
        """Processes that died though nobody killed them, and what is known of it."""
        killed = set()
        if os.path.exists(self.killed_path):
            with open(self.killed_path, encoding="ascii") as lines:
                killed = set(map(int, lines))
        # Last, so that what `up` says of one counts.
        died = {pid: f"process {pid} died" for pid in self.pids if pid not in running(self.births)}
        died |= {int(found[1]): found[0] for found in DEATH.finditer(self.log())}
        return {pid: how for pid, how in died.items() if pid not in killed}

    def _end(self):
        """Ends `up`; what is wrong with how it ended."""
        if self.process.poll() is not None:
            return [f"`shorttail up` had already ended with {self.process.returncode}"]
        complaints = list(self.deaths().values())
        self.process.terminate()
        try:
            if self.process.wait(STOP_SECONDS_MAX):
                complaints.append(f"`shorttail up` ended with {self.process.returncode}")
        except subprocess.TimeoutExpired:
            complaints.append(f"`shorttail up` did not end within {STOP_SECONDS_MAX} s of SIGTERM")
            self.process.kill()
            self.process.wait()
        return complaints

    def stop(self):
        """Ends the cluster; raises if it or one of its processes had ended by itself, ends badly or not at all."""
        # Those that were started since, too.
        children = children_of(self.process.pid) if self.process.poll() is None else []
        births = self.births | {pid: born_at(pid) for pid in children}
        for pid in running(births):
            # One that stands still cannot end.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        complaints = self._end()
        try:
            wait_until(lambda: not running(births), STOP_SECONDS_MAX, "the children of `up` end")
        except RuntimeError:
            left = running(births)
            complaints.append("left behind: " + ", ".join(map(str, left)))
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        if complaints:
            self._print_log()
        self.directory.cleanup()
        if complaints:
            raise RuntimeError("; ".join(complaints))


def connect(address, timeout=60):
    host, port = address.rsplit(":", 1)
    connection = socket.create_connection((host, int(port)), timeout)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def preload_value(number):
    """A value that names its key; one in a hundred is large enough to be striped."""
    unit = f"preload {number} ".encode()
    return unit * (20_000 if number % 100 == 0 else 1 + number % 50)


def preload(address):
    with connect(address) as connection, connection.makefile("rwb") as stream:
        for number in range(PRELOAD_COUNT):
            value = preload_value(number)
            stream.write(b"set preload:%d 7 0 %d\r\n%s\r\n" % (number, len(value), value))
            stream.flush()
            answer = stream.readline()
            if answer != b"STORED\r\n":
                raise RuntimeError(f"preload:{number}: {answer!r}")


def check_preload(address):
    with connect(address) as connection, connection.makefile("rwb") as stream:
        for number in range(PRELOAD_COUNT):
            value = preload_value(number)
            stream.write(b"get preload:%d\r\n" % number)
            stream.flush()
            wanted = b"VALUE preload:%d 7 %d\r\n%s\r\nEND\r\n" % (number, len(value), value)
            header = stream.readline()
            got = header + (stream.read(len(wanted) - len(header)) if header.startswith(b"VALUE") else b"")
            if got != wanted:
                raise RuntimeError(f"preload:{number}: wanted {wanted[:60]!r}, got {got[:60]!r}")


def let_end(clients):
    """Tells threads that it is over, and waits for them."""
    for client in clients:
        client.is_over = True
    for client in clients:
        client.join()


def end_on_sigterm():
    """SIGTERM reaches the `finally` that stops what was started; another one does not interrupt that, nor what it runs."""

    def end(*_):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.exit(143)

    signal.signal(signal.SIGTERM, end)


def rounds_parser(text):
    """What `run_rounds` looks at; a test adds what it wants to know itself."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int)
    return parser


def add_bound(parser, text):
    """`--bound-ms`: for machines that have nothing else to do, as the usual run's do not."""
    parser.add_argument("--bound-ms", type=float, help=f"fail if {text} is longer, in milliseconds [default: it is only printed]")


def over_bound(arguments, seconds):
    """What is to be said of an answer that took so long, if it is over the bound."""
    if arguments.bound_ms is None or seconds * 1000 <= arguments.bound_ms:
        return []
    return [f"an answer took {seconds * 1000:.1f} ms, the bound is {arguments.bound_ms:g} ms"]


def tell_round(seed, complaints, text):
    """Prints what a round was, and the first of what is wrong; whether nothing is."""
    for complaint in complaints[:5]:
        print(f"    {complaint}")
    print(f"{'not ok' if complaints else 'ok'} seed {seed}: {text}, {len(complaints)} complaints", flush=True)
    return not complaints


def run_rounds(arguments, one_round, problems):
    """Runs `one_round(arguments, seed)` as often as `--rounds` says, from `--seed` on or each with a fresh one; the exit code."""
    end_on_sigterm()
    results = []
    for number in range(arguments.rounds):
        seed = secrets.randbelow(1 << 32) if arguments.seed is None else arguments.seed + number
        try:
            results.append(one_round(arguments, seed))
        except (*problems, RuntimeError, OSError, ValueError) as error:
            print(f"not ok seed {seed}: {type(error).__name__}: {error}", flush=True)
            results.append(False)
    print(f"{results.count(True)} passed, {results.count(False)} failed")
    return 0 if all(results) else 1


def say_not_tested(what):
    """What this machine lacks to test; `./test` tells it again at its end."""
    print(f"not tested here: {what}", flush=True)


def start(server, extra=()):
    return Real() if server == "real" else Cluster(extra)


def run(arguments):
    servers = start(arguments.server, arguments.up)
    try:
        if arguments.kill:
            preload(servers.memcached)
            ids = servers.kill_nodes(arguments.kill)
            check_preload(servers.memcached)
            print(f"killed nodes {ids}: {PRELOAD_COUNT} keys read back", flush=True)
        environment = dict(
            os.environ,
            SHORTTAIL_SERVER=arguments.server,
            SHORTTAIL_MEMCACHED=servers.memcached,
            SHORTTAIL_REDIS=servers.redis,
            SHORTTAIL_ADMIN=servers.admin,
            SHORTTAIL_KILLED=servers.killed_path,
        )
        return subprocess.run(arguments.command, env=environment, stdin=subprocess.DEVNULL, check=False).returncode
    finally:
        servers.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["run"])
    parser.add_argument("--server", choices=["ours", "real"], default=os.environ.get("SHORTTAIL_SERVER", "ours"))
    parser.add_argument("--kill", type=int, default=0, help="kill this many nodes before the command starts")
    parser.add_argument("--up", action="append", default=[], help="one more argument for `shorttail up`")
    parser.add_argument("command", nargs="+")
    end_on_sigterm()
    try:
        return run(parser.parse_args())
    except (RuntimeError, subprocess.SubprocessError, OSError, ValueError) as error:
        print(f"not ok cluster: {error}", flush=True)
        return 1


if __name__ == "__main__":
    sys.exit(main())
