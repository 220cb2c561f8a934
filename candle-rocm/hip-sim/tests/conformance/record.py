#!/usr/bin/env python3
"""Records vectors.txt.gz: for every instruction that AMD's pseudocode describes and hip-sim supports, what it must leave in
registers. `record.py TINYGRAD` takes the folder of an unpacked `tinygrad` package, whose tables hold that pseudocode; what is
recorded here are numbers that our evaluator computed from it. `--why` lists what has no vectors.

A row is: target, mnemonic, inputs, tolerance in units in the last place, instructions, two rows of 32 words."""

import gzip
import importlib
import re
import struct
import sys
from pathlib import Path

from functions import TABLE
from pseudocode import Value

HERE = Path(__file__).resolve().parent
TARGETS = {"gfx1151": "rdna3", "gfx1201": "rdna4"}
LANES = 32
MASK = 0xFFFF_FFF7  # One lane is off, and keeps what it has.
VCC = 0x5A5A_0FF0
INEXACT = {"exp", "log", "rcp", "rsq", "sqrt", "sin", "cos"}


def random_words(seed):
    """The same in every run."""
    state = seed * 0x9E3779B97F4A7C15 & (1 << 64) - 1 | 1
    while True:
        state ^= state << 13 & (1 << 64) - 1
        state ^= state >> 7
        state ^= state << 17 & (1 << 64) - 1
        yield (state * 0x2545F4914F6CDD1D & (1 << 64) - 1) >> 32


def pick(special, seed, ordinary):
    """Eight rows of inputs: special values against each other in the first half of the lanes, then ordinary ones."""
    words = random_words(seed)
    rows = []
    for row in range(8):
        head = [special[(lane * (row + 1) + row * 3) % len(special)] for lane in range(16)]
        rows.append(head + [ordinary(next(words), lane) for lane in range(16)])
    return rows


def f32(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


def f16(x):
    return struct.unpack("<H", struct.pack("<e", x))[0]


def double_rows():
    special = [0.0, -0.0, 5e-324, 2.5e-308, 1.7e308, float("inf"), float("-inf"), float("nan"), 1.0, -1.5, 0.5, 2.0**31]
    words, rows = random_words(5), [[] for _ in range(8)]
    for pair in range(4):
        for lane in range(LANES):
            x = special[(lane * (pair + 1) + pair * 5) % 12] if lane < 16 else (next(words) / 2**31 - 1) * 1000
            bits = struct.unpack("<Q", struct.pack("<d", x))[0]
            rows[2 * pair].append(bits & 0xFFFF_FFFF)
            rows[2 * pair + 1].append(bits >> 32)
    return rows


HALVES = [0, 0x8000, 1, 0x83FF, 0x7BFF, 0x7C00, 0xFC00, 0x7E00, 0x3C00, 0xBC00, 0x3800, 0x4248, 0x0400, 0x5640]
INPUTS = {
    "f32": pick([0, 1 << 31, 1, 0x807FFFFF, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, f32(1), f32(-0.5), f32(2.5), f32(-1.5),
                 f32(2**31), f32(300)], 1, lambda word, lane: f32((word / 2**31 - 1) * (100 if lane % 2 else 3))),
    # No subnormals, which the units for these functions take as zeros, as the documents say elsewhere.
    "inexact": pick([0, 1 << 31, 0x7F800000, 0xFF800000, 0x7FC00000, f32(1), f32(-0.5), f32(2.5), f32(-1.5), f32(100), f32(0.25)],
                    6, lambda word, lane: f32((word / 2**31 - (0 if lane % 4 else 1)) * (50 if lane % 2 else 3))),
    "f16": pick([low | HALVES[(i * 5 + 3) % len(HALVES)] << 16 for i, low in enumerate(HALVES)], 2,
                lambda word, lane: f16((word % 65536 / 32768 - 1) * 9) | f16((word >> 16) / 32768 - 1) << 16),
    "f64": double_rows(),
    "int": pick([0, 1, 31, 32, 0x7FFFFFFF, 1 << 31, 0xFFFFFFFF, 0xFFFFFF, 0x8000, 0x7FFF, 0x80, 0xFFFF0000, 24, 0x10001, 3, 0x7FFF8000], 3,
                lambda word, lane: word if lane % 2 else word >> word % 29),
}


class Text:
    """An instruction's pseudocode, with what its words say about operands."""

    def __init__(self, mnemonic, code, form):
        self.mnemonic, self.code, self.form = mnemonic, code, form
        # Mixed instructions name their sources by number.
        self.sources = [i for i in range(3) if re.search(rf"\bS{i}\b", code) or "S[i]" in code]
        self.kinds = {i: self.kind_of(f"S{i}") for i in self.sources}
        self.result = ("i", 32) if re.match(r"s_.*_i32_[bu]64$", mnemonic) else self.kind_of("D0")

    def kind_of(self, name):
        found = re.findall(rf"\b{name}(?:\[[^\]]*\])?\.([uifb])(\d+)", self.code)
        widths = [int(width) for _, width in found]
        kinds = [kind for kind, _ in found]
        return ("f" if "f" in kinds else kinds[0] if kinds else "b"), max(widths or [32])

    def inputs(self):
        if {64} & {self.kinds[i][1] for i in self.sources if self.kinds[i][0] == "f"}:
            return "f64"
        if any(part in INEXACT for part in self.mnemonic.split("_")) and "f32" in self.mnemonic:
            return "inexact"
        takes_words = "cvt_pk" in self.mnemonic or re.search(r"_[ui]16$|cvt_f16_[uif]", self.mnemonic)
        if re.search(r"_f16|_pk_|mix", self.mnemonic) and not takes_words:
            return "f16"
        return "f32" if any(self.kinds[i][0] == "f" for i in self.sources) else "int"

    def tolerance(self):
        return int(any(part in INEXACT for part in self.mnemonic.split("_"))) + ("dot2" in self.mnemonic)


def load(package):
    sys.path.insert(0, str(package))
    tables = {}
    for generation in set(TARGETS.values()):
        texts = {}
        for key, code in importlib.import_module(f"tinygrad.runtime.autogen.amd.{generation}.str_pcode").PCODE.items():
            name = re.sub(r"_E(32|64)$", "", key.name).lower()
            form = type(key).__name__
            # The encoding with three operands says the same with more registers.
            if name not in texts or form == "VOP3Op":
                texts[name] = Text(name, code, form)
        tables[generation] = texts
    return tables


def registers(first, width):
    return f"v[{first}:{first + 1}]" if width == 64 else f"v{first}"


def evaluate(text, state):
    from pseudocode import Machine

    machine = Machine(text.code, state, TABLE)
    machine.run()
    return machine.state


def source(rows, lane, first, width, sign=None):
    bits = rows[first - 1][lane]
    if width == 64:
        bits |= rows[first][lane] << 32
    if sign == "abs":
        bits &= (1 << width - 1) - 1
    if sign == "neg":
        bits ^= 1 << width - 1
    return Value("b", max(width, 32), bits)


def keep_sign(text, value, low, high, lane):
    """Rounding keeps the sign of zero, by IEEE 754; the text adds a half first, and loses it."""
    if low[lane] | high[lane] == 0:
        sign = value.bits >> text.kinds[0][1] - 1 & 1
        if text.result[1] == 64:
            high[lane] = sign << 31
        else:
            low[lane] = sign << text.result[1] - 1


def vector_row(text, modifiers="", signs=None, extra=None, dual=False):
    """One vector instruction on all lanes but one; its result in v10 and v11, or its mask in v11."""
    signs = signs or {}
    name = text.inputs()
    rows = INPUTS[name]
    is_comparison = text.mnemonic.startswith("v_cmp")
    reads_constant = "SIMM32" in text.code
    is_exec = text.mnemonic.startswith("v_cmpx")
    places, at = {}, 1
    for i in text.sources:
        places[i] = at
        at += 2 if text.kinds[i][1] == 64 or name == "f64" else 1
    operands = []
    constant = f32(1.75) if "f32" in text.mnemonic else f16(1.75)
    literal = {"SIMM32": Value("b", 32, constant)} if reads_constant else {}
    for i in text.sources:
        operand = registers(places[i], text.kinds[i][1])
        operands.append({"abs": f"|{operand}|", "neg": f"-{operand}", None: operand}[signs.get(i)])
    writes_mask = text.form == "VOP3SDOp" or "_co_" in text.mnemonic
    if is_comparison:
        operands = ([] if is_exec else ["s4"]) + operands
    else:
        operands.insert(0, registers(10, text.result[1]))
        if writes_mask:
            operands.insert(1, "s4" if text.form != "VOP2Op" else "vcc_lo")
        if reads_constant:
            operands.insert(2 if "fmamk" in text.mnemonic else 3, hex(literal["SIMM32"].bits))
        if text.mnemonic in ("v_cndmask_b32", "v_cndmask_b16") or "_co_ci_" in text.mnemonic:
            operands.append("vcc_lo")
    instruction = f"{text.mnemonic} {', '.join(operands)} {modifiers}".strip()
    if dual:
        operands = operands[: len(operands) - ("cndmask" in text.mnemonic)]
        halves = [f"{text.mnemonic.replace('v_', 'v_dual_', 1)} {', '.join(operands)}", "v_dual_mov_b32 v11, v4"]
        # Integers are for the second half only.
        instruction = " :: ".join(reversed(halves) if text.mnemonic[2:] in DUAL_SECOND else halves)
    loads = "".join(f"global_load_b32 v{5 + i}, v0, s[0:1] offset:{512 + 128 * i}; " for i in range(4)) if at > 5 else ""
    body = f"{loads}s_mov_b32 vcc_lo, {VCC:#x}; s_mov_b32 exec_lo, {MASK:#x}; {instruction}"
    if is_exec:
        body += "; s_mov_b32 s4, exec_lo"
    mask_register = "vcc_lo" if writes_mask and text.form == "VOP2Op" else "s4"
    if is_comparison or writes_mask:
        target = "v12" if text.result[1] == 64 and not is_comparison else "v11"
        body += f"; s_mov_b32 exec_lo, -1; v_mov_b32 {target}, {mask_register}"
    low, high, mask = [0] * LANES, [0] * LANES, 0
    for lane in range(LANES):
        if not MASK >> lane & 1:
            continue
        state = {f"S{i}": source(rows, lane, places[i], text.kinds[i][1], signs.get(i)) for i in text.sources}
        state |= {"laneId": lane, "VCC": Value("u", 64, VCC), "EXEC": Value("u", 64, MASK)}
        state |= {"D0": Value("b", 64 if is_comparison else 32, 0)}
        state |= {"WAVE_MODE": Value("u", 32, 0), "OVERFLOW_F32": Value("f", 32, 0x7F800000), "UNDERFLOW_F32": Value("f", 32, 0)}
        state |= {"S": [state.get(f"S{i}", Value("b", 32, 0)) for i in range(3)]}
        state |= literal | (extra or {})
        after = evaluate(text, state)
        if is_comparison:
            out = after["EXEC"] if is_exec and "EXEC" in text.code else after["D0"]
            mask |= (out.bits >> lane & 1) << lane
            continue
        if writes_mask:
            flag = after["D1"] if "D1" in after else after["VCC"]
            mask |= (flag.bits & 1 if "D1" in after else flag.bits >> lane & 1) << lane
        low[lane], high[lane] = after["D0"].bits & 0xFFFF_FFFF, after["D0"].bits >> 32 & 0xFFFF_FFFF
        if text.result[1] == 16 and "D0[" not in text.code:
            low[lane] &= 0xFFFF
        if "rndne" in text.mnemonic:
            keep_sign(text, state["S0"], low, high, lane)
    if dual:
        high = [rows[3][lane] if MASK >> lane & 1 else 0 for lane in range(LANES)]
    if is_comparison or (writes_mask and text.result[1] != 64):
        high = [mask] * LANES
    kind = f"{text.result[0]}{text.result[1]}" if not is_comparison else "b32"
    return [text.mnemonic, name, str(text.tolerance()), kind, body, low, high]


def scalar_row(text):
    """One scalar instruction for each of eight lanes' inputs, with the condition code before it 0 and 1 in turn."""
    name = text.inputs()
    rows = INPUTS[name]
    body, low, high = [], [0] * LANES, [0] * LANES
    for lane in range(0, 16):
        scc = lane & 1
        body.append(f"s_cmp_eq_u32 {scc}, 1")
        state = {"SCC": Value("u", 1, scc), "EXEC": Value("u", 64, 0xFFFF_FFFF), "D0": Value("b", 64, 0), "WAVE_MODE": Value("u", 32, 0)}
        setup, first = [], 20
        operands = []
        for i in text.sources:
            wide = text.kinds[i][1] == 64
            words = [rows[2 * i][lane]] + ([rows[2 * i + 1][lane]] if wide else [])
            for offset, word in enumerate(words):
                setup.append(f"s_mov_b32 s{first + offset}, {word:#x}")
            operands.append(f"s[{first}:{first + 1}]" if wide else f"s{first}")
            state[f"S{i}"] = Value("b", text.kinds[i][1] if wide else 32, words[0] | (words[1] << 32 if wide else 0))
            first += 2
        if text.form == "SOPKOp":
            immediate = rows[1][lane] & 0xFFFF
            is_signed = "cmpk" in text.mnemonic and not text.mnemonic.endswith("u32")
            operands.append(str(immediate - (immediate >> 15 << 16)) if is_signed else hex(immediate))
            state["SIMM16"] = Value("b", 16, immediate)
        body += setup
        is_comparison = "cmp" in text.mnemonic
        if not is_comparison:
            wide = text.result[1] == 64
            old = 0x1234_5678
            body += [f"s_mov_b32 s28, {old:#x}", f"s_mov_b32 s29, {old:#x}"]
            state["D0"] = Value("b", 64 if wide else 32, old << 32 | old if wide else old)
            operands.insert(0, "s[28:29]" if wide else "s28")
            if text.form == "SOPKOp":
                # The immediate is S0 in the texts of gfx12.
                state["S0"] = state["D0"] if "SIMM16" in text.code else state["SIMM16"]
                operands = [operands[0], operands[-1]]
        body.append(f"{text.mnemonic} {', '.join(operands)}")
        if "EXEC" in text.code:
            body += ["s_mov_b32 s29, exec_lo", "s_mov_b32 exec_lo, -1"]
        body.append("s_cselect_b32 s30, 1, 0")
        if not is_comparison:
            body.append(f"v_writelane_b32 v10, s28, {lane}")
        after = evaluate(text, state)
        result = after["D0"].bits & (0xFFFF if text.result == ("f", 16) else -1)
        if "rndne" in text.mnemonic and result == 0:
            result = state["S0"].bits & 1 << 31
        if not is_comparison:
            low[lane] = result & 0xFFFF_FFFF
        wide_value = after["EXEC"].bits if "EXEC" in text.code else result >> 32 if text.result[1] == 64 else None
        if wide_value is not None:
            body.append(f"v_writelane_b32 v11, s29, {16 + lane}")
            high[16 + lane] = wide_value & 0xFFFF_FFFF
        body.append(f"v_writelane_b32 v11, s30, {lane}")
        high[lane] = int(bool(after["SCC"].bits)) if isinstance(after["SCC"], Value) else int(after["SCC"])
    kind = f"{text.result[0]}{text.result[1]}" if not is_comparison else "b32"
    return [text.mnemonic, name, str(text.tolerance()), kind, "; ".join(body), low, high]


VECTOR_FORMS = {"VOP1Op", "VOP2Op", "VOP3Op", "VOP3SDOp", "VOPCOp", "VOP3POp"}
SCALAR_FORMS = {"SOP1Op", "SOP2Op", "SOPCOp", "SOPKOp"}
# Of these, signs of inputs are recorded as well.
SIGNED = ("v_add", "v_fma_", "v_mul_f", "v_max", "v_cmp_", "v_rcp", "v_rndne", "v_med")
DUAL_SECOND = ("add_nc_u32", "and_b32", "lshlrev_b32")
DUAL = (
    "add_f32 sub_f32 subrev_f32 mul_f32 max_f32 min_f32 max_num_f32 min_num_f32 mov_b32 add_nc_u32 and_b32 lshlrev_b32 "
    "cndmask_b32 fmac_f32 mul_dx9_zero_f32"
).split()


# Where the text is known to be wrong (its scale does not undo the other's), or leaves open what a NaN of an earlier step
# becomes: kernels that divide prove these.
DEPARTURES = ("v_div_fmas_f32", "v_div_fmas_f64", "v_div_fixup_f32", "v_div_fixup_f16")


def signs_of(bits):
    return {"NEG": Value("u", 3, bits)}


def rows_of(text):
    if text.form in SCALAR_FORMS or text.mnemonic.startswith("v_s_"):
        yield scalar_row(text)
        return
    if "dot4_i32_iu8" in text.mnemonic or "dot8_i32_iu4" in text.mnemonic:
        for bits, list_ in [(0, ""), (3, "neg_lo:[1,1,0]"), (2, "neg_lo:[0,1,0]"), (1, "neg_lo:[1,0,0]")]:
            yield vector_row(text, list_, extra=signs_of(bits))
        return
    if "fma_mix" in text.mnemonic:
        for halves, which in [(0, 0), (7, 0), (7, 7), (2, 2), (5, 4)]:
            named = (("op_sel", which), ("op_sel_hi", halves))
            lists = [f"{name}:[{bits & 1},{bits >> 1 & 1},{bits >> 2 & 1}]" for name, bits in named]
            yield vector_row(text, " ".join(lists), extra={"OPSEL_HI": Value("u", 3, halves), "OPSEL": Value("u", 3, which)})
        return
    yield vector_row(text)
    floats = [i for i in text.sources if text.kinds[i][0] == "f"]
    is_float = floats == text.sources and text.form != "VOP3POp" and re.search(r"_f(16|32|64)$", text.mnemonic)
    if is_float and text.mnemonic.startswith(SIGNED):
        yield vector_row(text, signs={i: ("neg", "abs", None)[i] for i in floats})
    if text.mnemonic[2:] in DUAL:
        yield vector_row(text, dual=True)


def names_in_interpreter():
    """What hip-sim's tables name, and comparisons, which it puts together."""
    sources = HERE.parent.parent / "src" / "isa"
    names = set()
    for path in sorted(sources.glob("*.rs")):
        names |= set(re.findall(r'"((?:v|s)_[a-z0-9_]+)"', path.read_text()))
    return names


def wanted(mnemonic, names):
    if mnemonic in DEPARTURES:
        return False
    if re.match(r"(v_cmpx?_[ft]_|s_setpc|s_swappc|s_getpc|s_call)", mnemonic):
        return False  # LLVM writes these otherwise, or they jump.
    return mnemonic in names or re.match(r"(v_cmpx?|s_cmpk?)_[a-z]+_[a-z]\d+$|v_pk_", mnemonic) is not None


def main():
    tables, names = load(Path(sys.argv[1])), names_in_interpreter()
    lines, missing = [], {}
    for input_name, rows in INPUTS.items():
        lines.append("input|" + input_name + "|" + "|".join(",".join(f"{word:x}" for word in row) for row in rows))
    for target, generation in TARGETS.items():
        for mnemonic, text in sorted(tables[generation].items()):
            if not wanted(mnemonic, names) or text.form not in VECTOR_FORMS | SCALAR_FORMS:
                continue
            try:
                for *fields, low, high in rows_of(text):
                    packed = [",".join(f"{word:x}" for word in row) for row in (low, high)]
                    lines.append("|".join([target, *fields, *packed]))
            except Exception as error:  # What the evaluator cannot do is listed, not recorded.
                missing[f"{target} {mnemonic}"] = f"{type(error).__name__}: {error}"
    data = ("\n".join(lines) + "\n").encode()
    with open(HERE / "vectors.txt.gz", "wb") as file:
        file.write(gzip.compress(data, 9, mtime=0))
    print(f"{len(lines)} lines, {len(missing)} instructions without")
    if "--why" in sys.argv:
        print("\n".join(f"{name}: {why}" for name, why in sorted(missing.items())))
        for target, generation in TARGETS.items():
            print(target, "no text:", " ".join(sorted(name for name in names if name not in tables[generation])))


if __name__ == "__main__":
    main()
