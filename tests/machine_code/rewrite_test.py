"""The main loop recognised, written anew and put into the file; and what is refused."""

import re
import shutil
import struct
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import pytest
from conftest import ROOT, code, fp32_kernels, load
from machine_code.control import Control
from machine_code.cubin import FAT_MAGIC, Cubin, find_cubins
from machine_code.meaning import Stretch, differences
from machine_code.plan import Plan
from machine_code.recognise import Unknown, recognise
from machine_code.rewrite import ARCH, Broken, Refused, check, disassemble, rewrite, rewrite_loop
from tools.machine_code.listing import SassError, parse_instruction


def rewrite_copy(source):
    cubin = Cubin(bytearray(source.cubin.data))
    return rewrite(cubin, source.kernel, source.instructions, Plan()), cubin


# ---- What it recognises ----------------------------------------------------------------------------------


def test_a_loop_without_a_wait(compile_kernel):
    result, _ = rewrite_copy(load(compile_kernel("no_wait.cubin", "-DWAIT=NEVER")))
    assert result.old.wait is None
    assert result.new.looks == []


def test_a_wait_in_some_rounds_only(compile_kernel):
    """The look and all that follows from it are made in these rounds, and in no others."""
    source = load(compile_kernel("at_the_end.cubin", "-DWAIT=AT_THE_END"))
    result, cubin = rewrite_copy(source)
    old, new = result.old, result.new
    assert old.wait.skip
    assert len(old.ways) == 2
    instructions = disassemble(cubin)[source.kernel]
    was = Stretch(old.instructions, old.start, old.start, old.back)

    def wrong(*changes):
        changed = {i.offset: i for i in instructions} | {i.offset: i for i in changes}
        now = Stretch(list(changed.values()), new.prologue, new.body, old.back)
        return [differences(was, now, old.counts, old.known, [], way) for way in old.ways]

    assert wrong() == [[], []]
    look = next(i for i in new.round if i.mnemonic == "SYNCS")
    jump = next(i for i in new.round if i.mnemonic == "BRA" and i.offset < old.back)
    assert look.predicate == jump.predicate == f"@!{look.operands[0]}"
    always = parse_instruction(look.text.removeprefix(f"{look.predicate} "), look.offset)
    assert wrong(always)[0] == []
    assert wrong(always)[1] != []
    assert wrong(parse_instruction("NOP", jump.offset))[0]


@pytest.mark.parametrize(
    "text, reason",
    [
        ("FADD R0, R1, R2\nEXIT", "no loop with FFMAs"),
        ("FFMA R0, R1, R2, R0\nBRA 0x0", "conditional jump back"),
        ("FFMA R0, R1, R2, R0\n@P1 BRA 0x30\nEXIT\n@P0 BRA 0x0\nEXIT", "at 20 lies between"),
        ("FFMA R0, R1, R2, R3\n@P0 BRA 0x0\nEXIT", "0 of the 1 FFMAs"),
        ("FFMA R0, R1, R2, R0\nFFMA R0, R1, R2, R0\n@P0 BRA 0x0\nEXIT", "2 steps of k"),
        (
            "LDG.E R1, desc[UR4][R6.64]\nFFMA R0, R1, R2, R0\n@P0 BRA 0x0\nEXIT",
            "should not be in a main loop",
        ),
        ("\n".join(["FFMA R0, R1, R1, R0"] * 4) + "\n@P0 BRA 0x0\nEXIT", "with itself"),
        ("\n".join(["FFMA R0, R1, R8, R0"] * 4) + "\n@P0 BRA 0x0\nEXIT", "groups of four registers"),
    ],
)
def test_loops_of_another_kind(text, reason):
    listing = code(text)
    with pytest.raises(SassError, match=reason):
        recognise("kernel", listing, [Control().put(0)] * len(listing), ARCH)


# ---- What it writes --------------------------------------------------------------------------------------


def test_the_new_loop(rewritten):
    result, instructions, words = rewritten
    old, new = result.old, result.new
    before, after = result.models
    assert after.ffma == before.ffma == 1024
    assert len(after.instructions) < len(before.instructions)
    assert after.bank_conflicts < before.bank_conflicts
    assert result.registers[1] >= result.registers[0]
    for at, (i, control, why) in new.lines.items():
        assert instructions[at // 16].text == i.text
        assert Control.of(words[at // 16]) == control
        assert why
    # Each sum gets its 8 products, and in each step each element is used as often as it must be.
    ffmas = [i for i, _, _ in new.lines.values() if i.mnemonic == "FFMA"]
    assert set(Counter(i.operands[0] for i in ffmas).values()) == {old.steps}
    for step in range(old.steps):
        part = ffmas[128 * step : 128 * step + 128]
        uses = Counter(o.removesuffix(".reuse") for i in part for o in i.operands[1:3])
        assert sorted(uses.values()) == [8] * 16 + [16] * 8


def test_outside_of_the_loop_nothing_changes(source, rewritten):
    result, instructions, _ = rewritten
    changed = {i.offset for i, j in zip(source.instructions, instructions, strict=True) if i.text != j.text}
    assert changed <= result.new.lines.keys()
    aside = {i.offset for i in result.old.wait.aside}
    assert result.new.lines.keys() == {*range(result.old.start, result.old.end, 16), *aside}


def test_the_notes_stay_true(source, changed, rewritten):
    """Those about mbarriers name all looks that there are, with the register of the address."""
    result, cubin = changed
    entries = [
        struct.unpack_from("<II", note.content, at)
        for note in cubin.notes(source.kernel)
        if note.kind == 0x39
        for at in range(0, len(note.content), 16)
    ]
    _, instructions, _ = rewritten
    for offset, register in entries:
        i = instructions[offset // 16]
        assert i.mnemonic == "SYNCS"
        address = next(o for o in i.operands if o.startswith("["))
        expected = re.match(r"\[R(\d+)", address)
        assert register == (int(expected[1]) if expected else 255)
    assert {look.offset for look in result.new.looks} <= {offset for offset, _ in entries}


def test_registers_are_added_if_there_are_too_few(compile_kernel):
    """The launch then gives them, and cuobjdump says so."""
    source = load(compile_kernel("any_banks.cubin", "-DANY_BANKS"))
    result, cubin = rewrite_copy(source)
    before, after = result.registers
    assert cubin.registers(source.kernel) == after
    used = [int(n) for i in result.new.round for n in re.findall(r"\bR(\d+)", i.text)]
    assert max(used) + 3 <= after <= 255
    if after != before:
        assert max(used) + 3 > before


@pytest.mark.parametrize(
    "settings",
    [
        {"carry": False},
        {"alternate": False},
        {"settle": True},
        {"spacing": 5},
        {"spacing": 14},
        {"first": 60, "spacing": 8, "glue": 2, "glue_spacing": 3, "address": 110},
        {"look": 2},
        {"look": 5},
    ],
)
def test_other_plans_are_right_as_well(source, main_loop, settings):
    """They go through the same checks."""
    result = rewrite_loop(Cubin(bytearray(source.cubin.data)), *main_loop, replace(Plan(), **settings))
    assert result.models[1].ffma == 1024


@pytest.mark.parametrize("settings", [{"spacing": 30}, {"glue": 126, "glue_spacing": 100}, {"address": 127}])
def test_plans_without_room_are_refused(source, main_loop, settings):
    with pytest.raises(Unknown, match=r"room|fit"):
        rewrite_loop(Cubin(bytearray(source.cubin.data)), *main_loop, replace(Plan(), **settings))


def test_steps_whose_loop_is_known():
    """Of the programs that are built: any kernel that the tool takes comes out right."""
    done = 0
    for _, cubin, kernel, instructions in fp32_kernels():
        try:
            rewrite(Cubin(bytearray(cubin.data)), kernel, instructions, Plan())
            done += 1
        except Broken:
            raise
        except SassError:
            continue
    if not done:
        pytest.skip("no step has such a loop")


# ---- What it checks and refuses --------------------------------------------------------------------------


def patched(cubin, was, becomes):
    data = bytes(cubin.data)
    assert data.count(was) >= 1
    assert len(was) == len(becomes)
    return Cubin(bytearray(data.replace(was, becomes)))


@pytest.mark.parametrize(
    "was, becomes, reason",
    [
        (b"release 13.0, V13.0.", b"release 12.9, V12.9.", "release 12.9.*ptxas 13.0 is known here"),
        (b"-arch sm_90a ", b"-arch sm_90  ", "for sm_90; sm_90a is known"),
        (b"\0ptxas\0", b"\0other\0", "compiled by other"),
    ],
)
def test_another_origin(source, was, becomes, reason):
    cubin = patched(source.cubin, was, becomes)
    data = bytes(cubin.data)
    with pytest.raises(Refused, match=reason):
        rewrite(cubin, source.kernel, source.instructions, Plan())
    assert cubin.data == data


def test_its_own_mistakes_are_found(rewritten):
    """A word that is not what was meant, a wait that is missing, a product with a wrong factor."""
    result, instructions, words = rewritten
    old, new = result.old, result.new
    check(old, new, instructions, words)
    at, (i, control, why) = next((at, line) for at, line in new.lines.items() if line[0].mnemonic == "FFMA")
    changed = list(words)
    changed[at // 16] = replace(control, wait=0).put(changed[at // 16])
    with pytest.raises(Broken, match="should be FFMA"):
        check(old, new, instructions, changed)
    lines = new.lines | {at: (i, replace(control, wait=0), why)}
    with pytest.raises(Broken, match=r"hazard.*reads R"):
        check(old, replace(new, lines=lines), instructions, changed)
    other = replace(
        i, text=i.text.replace(i.operands[1], "R250"), operands=(i.operands[0], "R250", *i.operands[2:])
    )
    swapped = [other if j.offset == at else j for j in instructions]
    with pytest.raises(Broken, match="something else"):
        check(old, replace(new, lines=new.lines | {at: (other, control, why)}), swapped, words)
    outside = [replace(j, text="NOP") if j.offset == 0 else j for j in instructions]
    with pytest.raises(Broken, match="outside of the main loop"):
        check(old, new, outside, words)


# ---- The command -----------------------------------------------------------------------------------------


def tool(*arguments, cwd=None):
    command = [sys.executable, ROOT / "experiments" / "machine_code", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, timeout=300)


def refused(*arguments, words=""):
    result = tool(*arguments)
    assert result.returncode == 2, result.stdout + result.stderr
    assert result.stderr.startswith("error: ")
    assert len(result.stderr.splitlines()) == 1
    assert words in result.stderr
    assert result.stdout == ""


@pytest.fixture(scope="module")
def thing(compile_kernel):
    """An object with machine code for two architectures."""
    return compile_kernel("thing.o", "-gencode=arch=compute_80,code=sm_80")


def test_a_copy_of_a_file(thing, tmp_path):
    """In place: of all bytes only those of the main loop change, for one architecture, and the copy may be
    executed if the file may."""
    program, out = tmp_path / "program", tmp_path / "out"
    shutil.copy(thing, program)
    program.chmod(0o755)
    before = program.read_bytes()
    result = tool(program, "-o", out)
    assert result.returncode == 0, result.stderr
    assert "tiles: main loop at" in result.stdout
    assert "all as ptxas did" in result.stdout
    after = out.read_bytes()
    assert program.read_bytes() == before
    assert len(after) == len(before)
    assert out.stat().st_mode & 0o777 == 0o755
    old, new = find_cubins(before), find_cubins(after)
    assert sorted(c.arch for c in old) == sorted(c.arch for c in new) == ["sm_80", ARCH]
    ours = next(cubin for cubin in old if cubin.arch == ARCH)
    changed = [n for n, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
    assert ours.at < changed[0]
    assert changed[-1] < ours.at + len(ours.data)
    assert {path.name for path in tmp_path.iterdir()} == {"program", "out"}


def test_without_out_nothing_is_written(thing, tmp_path):
    result = tool(thing, "--listing", "5", "--plan", "spacing=9", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "write_barrier" in result.stdout
    assert "... " in result.stdout
    assert list(tmp_path.iterdir()) == []


def test_what_the_command_refuses(thing, compile_kernel, tmp_path):
    out = tmp_path / "out"
    refused(thing, "-o", thing, words="names the program itself")
    refused(tmp_path / "nothing", "-o", out, words="cannot be read")
    refused(__file__, "-o", out, words="there is no kernel in it")
    refused(thing, "-o", out, "--kernel", "sgemm", words="no kernel matches 'sgemm'")
    refused(thing, "-o", out, "--kernel", "(", words="no regular expression")
    refused(thing, "-o", out, "--plan", "speed=9", words="NAME=NUMBER")
    refused(thing, "-o", out, "--plan", "spacing=30", words="no main loop that can be written anew")
    refused(compile_kernel("other.cubin", arch="sm_80"), "-o", out, words="is for sm_80; sm_90a is known")
    small = compile_kernel("small.o", "-Xfatbin=-compress-all")
    refused(small, "-o", out, words="compressed; compile it with nvcc --no-compress")
    assert not out.exists()


def test_a_number_by_chance_is_no_fat_binary(thing):
    """The magic number of a fat binary may stand anywhere."""
    data = struct.pack("<I", FAT_MAGIC) + bytes(3) + struct.pack("<I", FAT_MAGIC) + b"\xff" * 40
    assert find_cubins(data) == []
    assert len(find_cubins(data + thing.read_bytes())) == 2
