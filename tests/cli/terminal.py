"""Runs a program on a terminal of its own and plays its user: terminal.py DIALOGUE PROGRAM ARGUMENT...

DIALOGUE is JSON: a list of [text to wait for, text to type then]; the program must end by itself after the last one.
What it wrote goes to standard output, and its exit code is passed on (128 + signal for a signal).
"""

import json
import os
import pty
import select
import sys

SECONDS_OF_SILENCE = 60


def main():
    dialogue, program = json.loads(sys.argv[1]), sys.argv[2:]
    child, terminal = pty.fork()
    if child == 0:
        os.environ["TERM"] = "xterm"
        os.execv(program[0], program)
    seen = ""
    for awaited, typed in dialogue:
        while awaited not in seen:
            seen += read(terminal)
        seen = seen.split(awaited, 1)[1]
        os.write(terminal, typed.encode())
    while read(terminal, last=True):
        pass
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    sys.exit(code if code >= 0 else 128 - code)


def read(terminal, last=False):
    if not select.select([terminal], [], [], SECONDS_OF_SILENCE)[0]:
        sys.exit("the program is silent")
    try:
        text = os.read(terminal, 4096)
    except OSError:  # the other side is closed
        text = b""
    if not text and not last:
        sys.exit("the program has ended")
    sys.stdout.buffer.write(text)
    sys.stdout.flush()
    return text.decode(errors="replace")


main()
