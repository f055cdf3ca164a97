"""Runs the files of memcached's own t/ suite that concern the text and meta protocols.

    memcached_t.py --tree DIR [--server ours|real] [--kill 2] [NAME...]

The suite is no part of this repository: DIR is memcached's source tree, fetched and built by the test script. Its files
start `memcached-debug` from the current directory by themselves, so a directory with that name is prepared: for ours it
leads to the launcher through a link named `memcached`, with the commands of a debug build (SHORTTAIL_DEBUG_COMMANDS), and
--kill becomes SHORTTAIL_KILL_NODES, at which the launcher stops that many of its nodes right after the start.

`memcached-t.list` says which files run and why the others do not. Prints a line a file and `N passed, N failed`.
"""

import argparse
import concurrent.futures
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "lib"))
import cluster  # noqa: E402  (the path must be set first)

FILE_SECONDS_MAX = 180


class Sessions:
    """Of the files that run: each has one of its own, with all that it starts."""

    def __init__(self):
        self.leaders, self.are_ended = set(), False

    def begin(self, leader):
        self.leaders.add(leader)
        if self.are_ended:
            cluster.end_session(leader)

    def end_all(self):
        """Those that begin from now on, too."""
        self.are_ended = True
        for leader in list(self.leaders):
            cluster.end_session(leader)


def read_list():
    """{name: None to leave it out, or the name of the checks that must fail ("" for none)}"""
    wanted = {}
    with open(os.path.join(HERE, "memcached-t.list"), encoding="utf-8") as lines:
        for line in lines:
            words = line.strip().split(maxsplit=2)
            if not words or words[0].startswith("#"):
                continue
            excepted = re.fullmatch(r'except "([^"]+)": .+', words[2]) if len(words) == 3 else None
            if words[1:] == ["run"]:
                wanted[words[0]] = ""
            elif words[1] == "run" and excepted:
                wanted[words[0]] = excepted[1]
            elif len(words) == 3 and words[1] == "leave":
                wanted[words[0]] = None
            else:
                raise ValueError(f"memcached-t.list: {line.strip()!r} is neither `run` nor `leave REASON`")
    return wanted


def compare_with_tree(wanted, tree):
    """Complaints about files that the list does not know, or that the tree does not have."""
    present = {name[:-2] for name in os.listdir(os.path.join(tree, "t")) if name.endswith(".t")}
    complaints = [f"t/{name}.t is not in memcached-t.list" for name in sorted(present - set(wanted))]
    return complaints + [f"t/{name}.t is listed and missing" for name in sorted(set(wanted) - present)]


def prepare(directory, tree, server):
    """A build directory as the suite expects it: t/, timedrun, memcached-debug."""
    for name in ("t", "timedrun", "doc"):
        os.symlink(os.path.join(tree, name), os.path.join(directory, name))
    program = os.path.join(directory, "memcached-debug")
    if server == "real":
        os.symlink(os.path.join(tree, "memcached-debug"), program)
        return
    link = os.path.join(directory, "bin", "memcached")
    os.mkdir(os.path.dirname(link))
    os.symlink(cluster.binary_path(), link)
    with open(program, "w", encoding="ascii") as script:
        script.write(f'#!/bin/sh\nSHORTTAIL_DEBUG_COMMANDS=1 exec "{link}" "$@"\n')
    os.chmod(program, 0o755)


def run_file(name, directory, environment, must_fail, sessions):
    """(name, complaint or None, number of checks, output); checks called `must_fail` are to fail."""
    process = subprocess.Popen(
        ["perl", f"-I{HERE}", "-MPreciseTime", os.path.join("t", f"{name}.t")],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    sessions.begin(process.pid)
    try:
        output = process.communicate(timeout=FILE_SECONDS_MAX)[0]
    except subprocess.TimeoutExpired:
        cluster.end_session(process.pid)
        output = process.communicate()[0]
        return name, f"not finished within {FILE_SECONDS_MAX} s", 0, output.decode(errors="replace")
    finally:
        sessions.leaders.discard(process.pid)
    text = output.decode(errors="replace")
    good, bad = len(re.findall(r"^ok\b", text, re.M)), len(re.findall(r"^not ok\b", text, re.M))
    complaint, foreseen = None, 0
    if must_fail:
        name_of_check = r" \d+ - " + re.escape(must_fail) + "$"
        foreseen = len(re.findall("^not ok" + name_of_check, text, re.M))
        if not foreseen or re.search("^ok" + name_of_check, text, re.M):
            complaint = f"its checks {must_fail!r} no longer fail: change memcached-t.list"
    # Test::More's exit code is the number of checks that failed.
    if bad != foreseen or process.returncode != foreseen:
        complaint = f"{bad} of {good + bad} checks failed, exit code {process.returncode}"
    elif not good:
        complaint = "it skipped itself: " + text.strip()[:200]
    return name, complaint, good, text


def failing_part(text):
    """What a person wants to see of a failed file: the failed checks and what Test::More says of them."""
    lines = [line[:300] for line in text.splitlines() if not re.match(r"ok\b", line)]
    return "\n".join("    " + line for line in lines[:40])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", required=True)
    parser.add_argument("--server", choices=["ours", "real"], default=os.environ.get("SHORTTAIL_SERVER", "ours"))
    parser.add_argument("--kill", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()

    tree = os.path.abspath(arguments.tree)
    wanted = read_list()
    complaints = compare_with_tree(wanted, tree)
    names = arguments.names or [name for name, must_fail in wanted.items() if must_fail is not None]
    is_real = arguments.server == "real"
    environment = dict(os.environ)
    if arguments.kill:
        environment["SHORTTAIL_KILL_NODES"] = str(arguments.kill)
    cluster.end_on_sigterm()
    directory, sessions = tempfile.mkdtemp(prefix="memcached-t-"), Sessions()
    passed, failed = 0, len(complaints)
    for complaint in complaints:
        print(f"not ok {complaint}")
    try:
        prepare(directory, tree, arguments.server)
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool, contextlib.ExitStack() as ends:
            # First of all, if this is ended: the threads wait for them.
            ends.callback(sessions.end_all)

            def run_one(name):
                return run_file(name, directory, environment, "" if is_real else wanted.get(name), sessions)

            for name, complaint, checks, text in pool.map(run_one, names):
                if complaint:
                    failed += 1
                    print(f"not ok t/{name}.t: {complaint}\n{failing_part(text)}", flush=True)
                else:
                    passed += 1
                    print(f"ok t/{name}.t ({checks} checks)", flush=True)
    finally:
        shutil.rmtree(directory)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
