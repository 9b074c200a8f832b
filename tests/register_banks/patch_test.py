"""What the tool writes: only FFMAs change, nvdisasm reads what was meant, the sums are those that the program
expects; and what is wrong is noticed."""

import json
import os
import re
import shutil
import subprocess
from collections import defaultdict

import numpy
import pytest
from conftest import BUILD, cubin_of, run_tool
from machine_code.bits import WORD
from machine_code.control import Control
from machine_code.cubin import Cubin
from machine_code.encoding import encode
from machine_code.rewrite import Broken, Refused, disassemble
from register_banks.model import predict
from register_banks.patch import BEGINS, STORE, check, find_probes, put
from register_banks.patterns import LARGE_PATTERNS, PATTERNS, in_notation
from tools.machine_code.listing import parse_instruction

PASSES = 3


def test_the_program_is_as_the_tool_wants_it(probes):
    for (size, _), probe in probes.items():
        assert len(probe.registers) == {"small": 116, "large": 216}[size]
        assert probe.loop.ffma == {"small": 1024, "large": 2048}[size]
        assert probe.others <= 4
    used = len(PATTERNS) + 3, len(LARGE_PATTERNS) + 3
    assert [sum(s == size for s, _ in probes) for size in ("small", "large")] >= [*used]


def test_what_is_written(written, program, probes):
    """In place: nothing changes but FFMAs of the loops. Each is read again as patterns.txt has it."""
    before, after = program.read_bytes(), written.program.read_bytes()
    assert len(before) == len(after)
    assert os.access(written.program, os.X_OK)
    cubin = cubin_of(written.program)
    assert before[: cubin.at] == after[: cubin.at]
    end = cubin.at + len(cubin.data)
    assert before[end:] == after[end:]
    read = disassemble(cubin)
    for pattern in written.patterns.values():
        probe = probes[pattern.size, pattern.kernel]
        now = {i.offset: i.text for i in read[probe.symbol]}
        assert [now[at] for at in probe.places] == [i.text for i in pattern.code], pattern.name
        assert all(now[i.offset] == i.text for i in probe.instructions if i.offset not in probe.places)


def test_every_pattern_is_encoded_as_it_is_read(written, rewritten):
    """With the control words of FFMAs that follow one another as fast as can be."""
    for pattern in written.patterns.values():
        probe = rewritten[pattern.size, pattern.kernel]
        for at, meant in zip(probe.places, pattern.code, strict=True):
            word = probe.words[at // WORD]
            control = Control.of(word)
            assert word == encode(meant, control)
            assert control == Control(reuse=control.reuse)
            assert control.reuse == sum((".reuse" in o) << n for n, o in enumerate(meant.operands[1:]))


def sums_by_machine_code(code, places):
    """What a thread that begins with 0 stores after the passes: the kernel's FADDs, FFMAs and stores, as
    nvdisasm reads them. All numbers are integers below 2^53, so one rounding from double is an FFMA's."""
    f32 = numpy.float32
    value = defaultdict(lambda: f32(-1))  # what a register holds that the kernel does not set
    value |= {int(m[1]): f32(int(m[2])) for i in code if (m := BEGINS.fullmatch(i.text))}
    by_offset = {i.offset: i for i in code}
    ffmas = [[int(n) for n in re.findall(r"R(\d+)", by_offset[at].text)] for at in places]
    minus = [-1 if " -R" in by_offset[at].text else 1 for at in places]  # of a
    for _ in range(PASSES):
        for (d, a, b, c), sign in zip(ffmas, minus, strict=True):
            value[d] = f32(sign * float(value[a]) * float(value[b]) + float(value[c]))
    stores = [m for i in code if i.predicate is None and (m := STORE.fullmatch(i.text))]
    return [value[register] for _, register in sorted((int(m[1] or "0", 16), int(m[2])) for m in stores)]


def expected_by_program(path):
    result = subprocess.run([path, "--expect", str(PASSES)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    rows = [line.split() for line in result.stdout.splitlines()]
    return {name: [numpy.float32(value) for value in values] for name, *values in rows}


def test_the_sums_that_the_program_expects(written, rewritten):
    expected = expected_by_program(written.program)
    assert expected.keys() == written.patterns.keys()
    for pattern in written.patterns.values():
        probe = rewritten[pattern.size, pattern.kernel]
        assert sums_by_machine_code(probe.instructions, probe.places) == expected[pattern.name], pattern.name
        assert len({*expected[pattern.name]}) > 40  # and not all the same


# ---- What is noticed -------------------------------------------------------------------------------------


OPERANDS, TIMING = {"d": 16, "a": 24, "b": 32, "c": 64, "minus": 72}, {"stall": 106, "yield": 109}
BITS = OPERANDS | TIMING | {"mark a": 122, "mark b": 123}


def pattern_of(probe):
    return in_notation(PATTERNS["reuse_2"], probe.registers, probe.loop.ffma)


@pytest.fixture(scope="module")
def damaged(program, probes):
    """The same pattern in many kernels, each changed in another way: by that the kernel, what was meant, what
    nvdisasm reads and the words."""
    cubin = cubin_of(program)

    def change(probe, at, bit):
        cubin.put_words(probe.symbol, {at: cubin.words(probe.symbol)[at // WORD] ^ 1 << bit})

    kernels = {name: probes["small", n] for n, name in enumerate(["nothing", "other", "hazard", *BITS])}
    meant = {name: pattern_of(probe) for name, probe in kernels.items()}
    hasty = meant["hazard"]
    hasty[10] = parse_instruction(re.sub(r"R\d+$", hasty[9].operands[0], hasty[10].text))
    for name, probe in kernels.items():
        put(cubin, probe, meant[name])
        if name in BITS:
            change(probe, probe.places[500], BITS[name])
    other = kernels["other"]
    change(other, next(i.offset for i in other.instructions if i.mnemonic == "CS2R"), 106)
    read = disassemble(cubin)
    return {
        name: (probe, meant[name], read[probe.symbol], cubin.words(probe.symbol))
        for name, probe in kernels.items()
    }


def test_what_is_as_it_was_meant_passes(damaged):
    check(*damaged["nothing"])


@pytest.mark.parametrize("what", BITS)
def test_a_changed_bit_is_noticed(damaged, what):
    with pytest.raises(Broken, match="nvdisasm reads"):
        check(*damaged[what])


def test_a_change_elsewhere_is_noticed(damaged):
    with pytest.raises(Broken, match="has changed"):
        check(*damaged["other"])


def test_a_hazard_is_noticed(damaged):
    with pytest.raises(Broken, match="a hazard"):
        check(*damaged["hazard"])


def test_patterns_of_another_program(written, tmp_path):
    shutil.copy(written.program, tmp_path)
    text = (written.folder / "patterns.txt").read_text(encoding="utf-8")
    for wrong, words in (
        (None, "cannot be read"),
        (text.replace("registers ", "registers 250 ", 1), "was not written for this program"),
        (re.sub(r"FFMA R\d+,", "FFMA R254,", text, count=1), "uses R254"),
    ):
        if wrong is not None:
            (tmp_path / "patterns.txt").write_text(wrong, encoding="utf-8")
        result = subprocess.run(
            [tmp_path / "register_banks", "--expect", "1"], capture_output=True, text=True, check=False
        )
        assert result.returncode == 2
        assert words in result.stderr


def test_what_is_refused(program, probes, tmp_path):
    def refused(path, words, *more):
        result = run_tool(path, "-o", tmp_path / "out", *more)
        assert result.returncode == 2, result.stdout
        assert words in result.stderr
        assert not (tmp_path / "out").exists()

    refused(tmp_path / "nothing", "cannot be read")
    refused(program, "there is no step 09", "--steps", tmp_path)
    refused(next(BUILD.glob("steps/05_*/run")), "in one", "--steps", BUILD / "steps")
    other = tmp_path / "other"
    other.write_bytes(program.read_bytes().replace(b"release 13.0,", b"release 99.0,"))
    refused(other, "release 99.0", "--steps", BUILD / "steps")
    two = Cubin(bytearray(cubin_of(program).data))
    probe = probes["small", 0]
    store = next(i for i in probe.instructions if STORE.fullmatch(i.text))
    two.put_words(probe.symbol, {store.offset: two.words(probe.symbol)[store.offset // WORD] + (1 << 32)})
    with pytest.raises(Refused, match="which registers its array is in"):
        find_probes(two)


# ---- Comparing -------------------------------------------------------------------------------------------


def test_compare(written, tmp_path):
    """Figures made of one model's predictions: that model is the nearest, and off by nothing."""
    device = {
        "device": "a GPU",
        "driver": "1.2",
        "cuda": "13.0",
        "date": "2026-01-01",
        "warps_per_scheduler": 2,
    }
    results = [
        {"pattern": p.name, "cycles_per_ffma": predict(p.code, p.others)["bank 3"], "pass": True, **device}
        for p in written.patterns.values()
    ]
    file = tmp_path / "measured.json"
    file.write_text(json.dumps(results), encoding="utf-8")
    said = run_tool("compare", file, "--patterns", written.folder / "patterns.txt")
    assert said.returncode == 0, said.stderr
    assert "nearest: bank 3" in said.stdout
    assert "2 warps per scheduler" in said.stdout
    assert "4 warps" not in said.stdout
    assert re.search(r"^clash +2\.003 +2\.003", said.stdout, re.MULTILINE)
    results[0]["pass"] = False
    file.write_text(json.dumps(results), encoding="utf-8")
    said = run_tool("compare", file, "--patterns", written.folder / "patterns.txt")
    assert said.returncode == 2
    assert "wrong sums, or patterns of another run: ideal" in said.stderr


def test_what_it_says(written):
    assert re.search(r"^clash_turns_1 +2\.003 +1\.003", written.output, re.MULTILINE)
    assert re.search(r"^11_operand_banks +\d\d\.\d", written.output, re.MULTILINE)
