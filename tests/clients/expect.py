"""The few words in which the Python suites speak: cases, equality, errors, and waiting for the server's clock.

Prints one `ok` or `not ok` line a case and a last line `N passed, N failed`.
"""

import os
import sys
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cluster import end_on_sigterm  # noqa: E402  (the path must be set first)

CASES = []
EXPIRY_SECONDS_MAX = 20


def case(function):
    """Registers a case; its docstring or name is its title."""
    CASES.append(function)
    return function


def equal(got, wanted):
    if got != wanted:
        raise AssertionError(f"wanted {short(wanted)}, got {short(got)}")


def short(value):
    text = repr(value)
    return text if len(text) < 300 else f"{text[:140]} ... {text[-140:]} ({len(text)} characters)"


def true(condition, what):
    if not condition:
        raise AssertionError(what)


def raises(kind, call, *arguments, **named):
    """Calls and returns the text of the error that must come."""
    try:
        got = call(*arguments, **named)
    except kind as error:
        return str(error)
    raise AssertionError(f"wanted {kind}, got {short(got)}")


def becomes(wanted, read):
    """Waits for the server's own clock: the bound only ends a run in which the expected never happens."""
    deadline = time.monotonic() + EXPIRY_SECONDS_MAX
    got = read()
    while got != wanted and time.monotonic() < deadline:
        time.sleep(0.02)
        got = read()
    equal(got, wanted)


def address(name):
    """(host, port) of a server as `tests/lib/cluster.py` announces it."""
    host, port = os.environ[name].rsplit(":", 1)
    return host, int(port)


def main():
    # What a case started is stopped by it.
    end_on_sigterm()
    failed = 0
    for function in CASES:
        title = (function.__doc__ or function.__name__).strip()
        try:
            function()
            print(f"ok {title}", flush=True)
        except Exception as error:  # whatever the client raises is this case's failure, and the next case still runs
            failed += 1
            print(f"not ok {title}: {type(error).__name__}: {error}", flush=True)
            traceback.print_exc(file=sys.stdout)
    print(f"{len(CASES) - failed} passed, {failed} failed", flush=True)
    sys.exit(1 if failed or not CASES else 0)
