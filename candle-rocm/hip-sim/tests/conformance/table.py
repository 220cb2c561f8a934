#!/usr/bin/env python3
"""Writes docs/hip-sim-instructions.md: every instruction that hip-sim's tables name, where its meaning comes from, and the test
that says so. `table.py IMAGES` takes a folder of the shipped kernels' code objects (`*.hsaco`), to say which use it."""

import gzip
import re
import subprocess
import sys
from pathlib import Path

from record import HERE, names_in_interpreter

DOCUMENT = HERE.parents[3] / "docs" / "hip-sim-instructions.md"
HEAD = """# Instructions that hip-sim supports

Made by `candle-rocm/hip-sim/tests/conformance/table.py`. `pseudocode`: its results are compared with vectors that were
computed from AMD's published pseudocode (`tests/sim/conformance.rs`), on the targets that are named. `tests`: it occurs in a
test of `tests/sim`, with IEEE arithmetic or values worked out by hand. `kernels`: it occurs in kernels that are shipped, which
are all executed and compared with f64 (`candle-rocm/tests`). `division`: a step of a division, which kernels of `tests/kernels`
do and whose quotients must be correctly rounded. `no effect`: waits, hints and caches. `fault`: stops the kernel. Names that a table puts together from parts (loads, stores,
comparisons without vectors) are not listed.

| Instruction | Source and test | In shipped kernels |
|---|---|---|
"""


def used_by(images):
    used = set()
    for path in sorted(images.glob("*.hsaco")):
        text = subprocess.run(["llvm-objdump-19", "-d", "--no-show-raw-insn", path], capture_output=True, text=True).stdout
        for line in text.splitlines():
            for part in line.split("//")[0].split("::"):
                found = re.match(r"\s+((?:v|s)_[a-z0-9_]+)", part)
                if found:
                    used.add(re.sub(r"(_e64_dpp|_e32|_e64|_dpp)$", "", found.group(1)).replace("v_dual_", "v_"))
    return used


def main():
    used = used_by(Path(sys.argv[1]))
    recorded = {}
    for line in gzip.open(HERE / "vectors.txt.gz", "rt"):
        fields = line.split("|")
        if fields[0] != "input":
            recorded.setdefault(fields[1], set()).add(fields[0])
    tests = "".join(path.read_text() for path in sorted((HERE.parent / "sim").glob("*.rs")))
    control = (HERE.parent.parent / "src" / "isa" / "control.rs").read_text()
    hints = set(re.findall(r'"([a-z0-9_]+)"', control.split("NO_EFFECT")[1].split("];")[0]))
    names = {name for name in names_in_interpreter() if not name.endswith("_") and name not in ("v_fma_mix",)}
    lines, untested = [], []
    for name in sorted(names | set(recorded)):
        sources = []
        if name in recorded:
            sources.append(f"pseudocode ({', '.join(sorted(recorded[name]))})")
        if re.search(rf"\b{name}(_e32|_e64|_dpp)?\b", tests):
            sources.append("tests")
        if name in used:
            sources.append("kernels")
        if name.startswith("v_div_"):
            sources.append("division")
        if name in hints:
            sources.append("no effect")
        if name in ("s_trap", "s_setreg_b32"):
            sources.append("fault" if name == "s_trap" else "refused")
        if not sources:
            untested.append(name)
        lines.append(f"| `{name}` | {', '.join(sources) or 'none'} | {'yes' if name in used else ''} |")
    DOCUMENT.write_text(HEAD + "\n".join(lines) + "\n")
    print(len(lines), "instructions; without a test:", " ".join(untested))


if __name__ == "__main__":
    main()
