"""What a watched call leaves behind: nothing."""

from __future__ import annotations

import subprocess
import sys

# A profiled function would never begin if the interpreter were left waiting for an error; no signal ends that.
PROFILED_AFTERWARDS = """
import sys
from schedlab.testing.watchdog import NoReturn, watched

def calm():
    pass

def stuck():
    try:
        while True:
            pass
    except NoReturn:
        raise KeyError from None

for call, most_s in ((calm, 60.0), (stuck, 0.2)):
    try:
        with watched(lambda: 0, most_s):
            call()
    except (KeyError, NoReturn) as error:
        print(type(error).__name__)
    sys.setprofile(lambda *_: None)
    calm()
    sys.setprofile(None)
    print("went on")
"""


def test_after_a_watched_call_the_interpreter_waits_for_no_error() -> None:
    done = subprocess.run([sys.executable, "-c", PROFILED_AFTERWARDS], capture_output=True, text=True, timeout=60)
    assert done.stdout.split("\n")[:3] == ["went on", "KeyError", "went on"], done.stderr
