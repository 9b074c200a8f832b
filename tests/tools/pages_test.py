"""What `ladder pages` generates, what it refuses, which numbers it lets pass."""

import json
import re
import sys

import pytest
from conftest import ROOT
from tools.base import run_program
from tools.pages import arithmetic, pages, stated

OLD_KERNEL = """// Step 01: a header
//
// Change    none of our business

#include "common/step.hpp"

constexpr int BM = 64, BK = 8;

__global__ void sgemm_first(Gemm g) {
  const float a = A[row * g.lda + k];
  C[0] = a;
}
"""
NEW_KERNEL = """// Step 02: another header
// of two lines

#include "common/step.hpp"

constexpr int BM = 128, BK = 8;
constexpr int TM = BM / 16;

__global__ void sgemm_second(Gemm g) {
  __shared__ float As[BK][BM];
  As[k][row] = valid || k == 0 ? A[row * g.lda + k] : 0.0f;
  C[0] = a;
}
"""


def access(operation, array, space, requests, **counts):
    example = {"block": [0, 0, 0], "warp": 0, "execution": 0, "addresses": [4 * i for i in range(32)]}
    example |= {"sectors": [0, 32, 64, 96], "bytes_used": 128}  # of global memory; the parts are of shared
    part = {"lanes": [0, 31], "bytes": [0, 3], "wavefronts": 1, "words_of_banks": [1] * 32}
    return {
        "file": "steps/02_second/kernel.cu",
        "line": 10,
        "source": "As[k][row] = valid || k == 0 ? A[row * g.lda + k] : 0.0f;",
        "space": space,
        "operation": operation,
        "array": array,
        "bytes": 4,
        "requests": requests,
        "lanes": 32 * requests,
        "example": example | {"parts": [part]},
        **counts,
    }


XRAY = {
    "xray": {
        "blocks": 4,
        "observed_blocks": 4,
        "kernels": [
            {
                "kernel": "sgemm_second",
                "threads_per_block": 256,
                "accesses": [
                    access("load", "A", "global", 2000, sectors=8000, bytes_used=256000, wavefronts=3000),
                    access("store", "As", "shared", 100, wavefronts=250, ideal_wavefronts=100, conflicts=150),
                    access("copy", "Bs", "shared", 10, wavefronts=40, ideal_wavefronts=10, conflicts=0),
                ],
            }
        ],
    }
}


def instructions():
    """A loop of 12 instructions behind 2 others, with its offsets and a jump back."""
    texts = ["MOV R1, c[0x0][0x28]", "IADD3 R2, R1, 0x1, RZ", "LDG.E R4, desc[UR4][R2.64]"]
    texts += ["LDS.128 R8, [R3]"] + [f"FFMA R{n}, R8, R9, R{n}" for n in range(20, 28)]
    texts += ["BAR.SYNC.DEFER_BLOCKING 0x0", "@!P0 BRA 0x20", "EXIT"]
    rows = []
    for n, text in enumerate(texts):
        in_loop = 2 <= n <= 13
        row = {"offset": 16 * n, "sass": text, "line": 10 + n, "executed": 64 * (100 if in_loop else 1)}
        row["samples"] = 50 if text.startswith("LDG") else 5 if in_loop else 0
        rows.append(row)
    rows[2] |= {"sectors": 4 * 6400, "ideal_sectors": 4 * 6400}
    rows[3] |= {"wavefronts": 8 * 6400, "ideal_wavefronts": 4 * 6400}
    return rows


def profile(step, duration_us, dram, stalls):
    counters = {
        "duration_us": duration_us,
        "registers_per_thread": 64,
        "static_shared_bytes_per_block": 4096,
        "dynamic_shared_bytes_per_block": 0,
        "threads_per_block": 256,
        "blocks": 8,
        "fma_pipe_percent": 54.25,
        "dram_read_bytes": dram,
        "dram_write_bytes": 0.0,
        "shared_load_wavefronts": 0,
        "l2_percent": None,
    }
    run = {"m": 4096, "n": 4096, "k": 4096, "kernel": f"sgemm_{step[3:]}", "arch": "sm_90a"}
    run |= {"counters": counters, "stalls": stalls, "instructions": instructions()}
    facts = {"device": "Test GPU", "driver": "1.2", "ncu": "3.4", "date": "2026-01-02T03:04:05Z"}
    return {"step": step, "facts": facts, "runs": [run]}


def measurement(step, n, time_us):
    return {
        "step": step,
        "m": n,
        "n": n,
        "k": n,
        "batch": 1,
        "pass": True,
        "time_us": time_us,
        "tflops": 2 * n**3 / time_us / 1e6,
        "ratio_to_cublas": 0.5,
        "device": "Test GPU",
        "driver": "1.2",
        "cuda": "13.0",
        "date": "2026-01-02T03:04:05Z",
    }


DEFINITIONS = """
[[definition]]
pattern = '32 lanes'
reason = "a warp"

[[definition]]
pattern = 'Step \\d\\d'
reason = "a name"
"""


class Project:
    """A project with two steps, everything recorded, and a page under docs/steps."""

    def __init__(self, root):
        self.root = root
        self.page = root / "docs" / "steps" / "02_second.md"
        self.write("steps/01_first/kernel.cu", OLD_KERNEL)
        self.write("steps/02_second/kernel.cu", NEW_KERNEL)
        self.write("docs/definitions.toml", DEFINITIONS)
        figures = {"sms": 10, "fp32_lanes_per_sm": 128, "max_sm_clock_mhz": 1000, "dram_bytes_per_s": 1e12}
        device = {"name": "Test GPU", "figures": {key: {"value": v} for key, v in figures.items()}}
        self.write("evidence/device.json", json.dumps(device))
        stalls = {"long_scoreboard": 0.5, "barrier": 0.25, "wait": 0.002}
        first = profile("01_first", 900_000.0, 2 * 4096**3 / 4, stalls)
        second = profile("02_second", 300_000.0, 2 * 4096**3 / 8, {"wait": 0.75, "barrier": 0.125})
        self.write("evidence/01_first.json", json.dumps(first))
        self.write("evidence/02_second.json", json.dumps(second))
        sizes = (1024, 2048, 4096, 8192, 16384)
        ladder = [measurement("01_first", n, 9.0 * n) for n in sizes]
        ladder += [measurement("02_second", n, 3.0 * n) for n in sizes]
        self.write("evidence/ladder.json", json.dumps(ladder))
        self.set_xray(XRAY)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def set_xray(self, record):
        """A program that only writes an X-ray."""
        data = self.write("xray.json", json.dumps([record]))
        program = self.write(
            "build/steps/02_second/run",
            f"#!{sys.executable}\nimport shutil, sys\n"
            f"shutil.copy({str(data)!r}, sys.argv[sys.argv.index('--json') + 1])\n",
        )
        program.chmod(0o755)

    def run(self, *options, build="build"):
        """ladder pages on the whole project, in this process."""
        places = ["--build", str(self.root / build), "--evidence", f"{self.root}/evidence"]
        return run_program(lambda: pages.main([*options, *places], self.root))

    def make(self, text, expected=0, **options):
        """The page after ladder pages has made it from a text."""
        self.page.parent.mkdir(parents=True, exist_ok=True)
        self.page.write_text(text)
        assert self.run(**options) == expected
        return self.page.read_text()

    def block(self, arguments, **options):
        """What a block holds."""
        text = self.make(f"<!-- generate: {arguments} -->\n<!-- end -->\n", **options)
        return text.partition("-->\n")[2].rpartition("<!-- end")[0].strip("\n")


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


PAGE = """# Step 02

A tile has <!--= const(here, 'BM') -->?<!--/--> rows, a request
takes <!--= xray(here).load('A').sectors_per_request | .1f -->?<!--/--> sectors.

<!-- generate: diff -->
<!-- end -->

<!-- generate: picture load A -->
<!-- end -->
"""


# ---- Writing and checking --------------------------------------------------------------------------------


def test_a_page_is_written_and_then_found_fresh(project):
    text = project.make(PAGE)
    assert "has <!--= const(here, 'BM') -->128<!--/--> rows" in text
    assert "-->4.0<!--/--> sectors" in text
    figure = project.root / "docs" / "figures" / "02_second_load_A.svg"
    assert "../figures/02_second_load_A.svg" in text
    assert figure.read_text().startswith("<svg")
    before = {path: path.stat().st_mtime_ns for path in (project.page, figure)}
    assert project.run("--check") == 0
    assert project.run() == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before


@pytest.mark.parametrize(
    "old, new",
    [
        ("-->128<", "-->127<"),
        ("+constexpr int TM", "+constexpr int  TM"),
        ("128 bytes wanted", "129 bytes wanted"),
    ],
)
def test_check_finds_what_was_edited_and_writes_nothing(project, capsys, old, new):
    project.make(PAGE)
    figure = project.root / "docs" / "figures" / "02_second_load_A.svg"
    edited = figure if "wanted" in old else project.page
    text = edited.read_text()
    assert old in text
    edited.write_text(text.replace(old, new))
    capsys.readouterr()
    assert project.run("--check") == 1
    said = capsys.readouterr()
    assert re.search(rf"^-.*{re.escape(new)}", said.out, re.MULTILINE)
    assert re.search(rf"^\+.*{re.escape(old)}", said.out, re.MULTILINE)
    assert f"stale: {edited.relative_to(project.root)}" in said.err
    assert edited.read_text() == text.replace(old, new)
    assert project.run() == 0
    assert edited.read_text() == text


def test_a_changed_kernel_makes_its_page_stale(project):
    project.make(PAGE)
    kernel = project.root / "steps" / "02_second" / "kernel.cu"
    kernel.write_text(kernel.read_text().replace("BM = 128", "BM = 256"))
    assert project.run("--check") == 1


def test_an_unused_figure_is_reported(project, capsys):
    project.make(PAGE)
    project.write("docs/figures/old.svg", "<svg/>")
    assert project.run("--check") == 1
    assert "unused: docs/figures/old.svg" in capsys.readouterr().err


def test_markers_in_code_are_left_alone(project):
    text = "```\n<!-- generate: nothing -->\n```\n\nWrite `<!--= 1 -->` and `<!--= N -->1<!--/-->`.\n"
    assert project.make(text) == text


def test_files_outside_docs_have_their_figures_beside_them(project):
    page = project.write("elsewhere/02_second.md", PAGE)
    assert project.run(str(page)) == 0
    assert (page.parent / "figures" / "02_second_load_A.svg").exists()
    assert "](figures/02_second_load_A.svg)" in page.read_text()


def test_not_recorded_yet(project, capsys):
    """What can be had is written, the rest stays and is listed."""
    (project.root / "evidence" / "02_second.json").unlink()
    text = project.make(
        "It has <!--= const(here, 'BM') -->?<!--/--> rows and\n"
        "runs <!--= profile(here).blocks -->?<!--/--> blocks.\n\n"
        "<!-- generate: profile -->\nold\n<!-- end -->\n",
        expected=1,
    )
    assert "-->128<!--/-->" in text
    assert "profile(here).blocks -->?<" in text
    assert "\nold\n" in text
    said = capsys.readouterr().err
    assert (
        "missing: docs/steps/02_second.md:2: `profile(here).blocks`: the profile of 02_second is not" in said
    )
    assert "missing: docs/steps/02_second.md:4: block `profile`" in said
    assert project.run("--check") == 1


def test_values_of_a_build_that_is_not_there_are_kept(project, capsys):
    made = project.make(PAGE)
    capsys.readouterr()
    assert project.run("--check", build="no-build") == 0
    said = capsys.readouterr().out
    assert "kept, not checked: docs/steps/02_second.md:4: `xray(here)" in said
    assert "kept, not checked: docs/steps/02_second.md:30: block `picture`" in said
    assert "1 blocks and 1 values made, 2 kept and not checked" in said
    assert project.run(build="no-build") == 0
    assert project.page.read_text() == made
    # One that was never written cannot be kept.
    project.page.write_text(made.replace("-->4.0<", "--><"))
    assert project.run("--check", build="no-build") == 1


# ---- Mistakes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, line, words",
    [
        ("<!-- generate: diff -->\n", 1, "lacks its"),
        ("a\n\n<!-- generate: diff -->\n<!-- generate: xray -->\n<!-- end -->\n", 3, "`diff` lacks its"),
        ("<!-- end -->\n", 1, "without a block"),
        ("<!-- generate:diff -->\n<!-- end -->\n", 1, "begins with"),
        ("  <!-- generate: diff -->\n<!-- end -->\n", 1, "left margin"),
        ("a\n<!--= N -->1<!--/--> b\n", 2, "cannot begin a line"),
        ("- <!--= N -->1<!--/--> b\n", 1, "cannot begin a line"),
        ("a <!--= N -->1\n", 1, "inline value is"),
        ("a <!--= N -->1 <!--= N -->2<!--/-->\n", 1, "inline value is"),
        ("a <!--= M -->1<!--/-->\n", 1, "unknown name 'M'"),
        ("a <!--= N + -->1<!--/-->\n", 1, "not an expression"),
        ("a <!--= N | .2q -->1<!--/-->\n", 1, "format '.2q'"),
        ("a <!--= N == 1 -->1<!--/-->\n", 1, "neither number nor text"),
        ("a <!--= const(here, 'XX') -->1<!--/-->\n", 1, "no constant XX"),
        ("<!-- generate: table -->\n<!-- end -->\n", 1, "no such kind; there are diff, code"),
        ("<!-- generate: diff 01 -->\n<!-- end -->\n", 1, "more than this block takes"),
        ("<!-- generate: diff step=01 -->\n<!-- end -->\n", 1, "no step comes before"),
        ("<!-- generate: xray 07 -->\n<!-- end -->\n", 1, "'07' names no step"),
        ("<!-- generate: code BM -->\n<!-- end -->\n", 1, "FROM .. TO"),
        ("<!-- generate: code BN .. C -->\n<!-- end -->\n", 1, "no line of 02_second/kernel.cu holds 'BN'"),
        ("<!-- generate: code BM .. BN -->\n<!-- end -->\n", 1, "lines 6, 7, 10 of"),
        ("<!-- generate: code int BM .. BN -->\n<!-- end -->\n", 1, "from 6 on holds 'BN'"),
        ("<!-- generate: picture load -->\n<!-- end -->\n", 1, "picture OPERATION ARRAY"),
        ("<!-- generate: picture load Q -->\n<!-- end -->\n", 1, "no access `load Q`; there are"),
        ("<!-- generate: sass loop many -->\n<!-- end -->\n", 1, "N is how many"),
        ("<!-- generate: sass LDS .. STG -->\n<!-- end -->\n", 1, "no instructions from 'LDS' to 'STG'"),
        ("<!-- generate: experiment -->\n<!-- end -->\n", 1, "experiment NAME"),
        ("<!-- generate: experiment nope -->\n<!-- end -->\n", 1, "no experiment 'nope'"),
    ],
)
def test_mistakes_are_told_and_nothing_is_written(project, capsys, text, line, words):
    text += "\nFine: <!--= const(here, 'BM') -->?<!--/-->\n"
    assert project.make(text, expected=2) == text
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert said[0].startswith(f"error: docs/steps/02_second.md:{line}: ")
    assert words in said[0]


def test_pages_without_a_step_have_to_name_one(project, capsys):
    page = project.write("docs/index.md", "<!-- generate: diff -->\n<!-- end -->\n")
    assert project.run() == 2
    assert "belongs to no step" in capsys.readouterr().err
    page.write_text("<!-- generate: diff step=02 -->\n<!-- end -->\n")
    assert project.run() == 0
    assert "+constexpr int TM" in page.read_text()


@pytest.mark.parametrize(
    "text, words",
    [
        ("definition = 1 2", "cannot be read"),
        ("[[definition]]\npattern = 'x 1'", "lacks its pattern or its reason"),
        ("[[definition]]\npattern = '('\nreason = 'r'", "definition 1: '('"),
        (r"[[definition]]" + "\npattern = '\\d+'\nreason = 'r'", "fits any number"),
    ],
)
def test_mistakes_in_the_definitions(project, capsys, text, words):
    project.write("docs/definitions.toml", text)
    project.page.parent.mkdir(parents=True)
    project.page.write_text("text\n")
    assert project.run() == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: {project.root}/docs/definitions.toml: ")
    assert words in said


def test_a_file_that_is_not_there(project, capsys):
    assert project.run("nowhere.md") == 2
    assert capsys.readouterr().err.startswith("error: nowhere.md: cannot be read")


# ---- Values ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expression, shown",
    [
        ("N", "4096"),
        ("N | ,d", "4\u202f096"),
        ("N / 3", "1365"),
        ("1 / 3", "0.3333"),
        ("8 / 2", "4"),
        ("1 / 3 | .1%", "33.3%"),
        ("before", "01_first"),
        ("gpu.peak_tflops | .2f", "2.56"),
        (r"N \| ,d", "4\u202f096"),
    ],
)
def test_formats(project, expression, shown):
    assert f"-->{shown}<!--/-->" in project.make(f"| a | <!--= {expression} --><!--/--> |\n")


# ---- Blocks of the source --------------------------------------------------------------------------------


def apply(diff, old):
    """The new text that a unified diff makes of the old one. Its hunks have to fit."""
    lines, result, at = old.splitlines(), [], 0
    for line in diff:
        if match := re.match(r"@@ -(\d+),\d+ \+(\d+),\d+ @@", line):
            result += lines[at : int(match[1]) - 1]
            at = int(match[1]) - 1
        elif line[:1] == "+":
            result.append(line[1:])
        else:
            assert lines[at] == line[1:]
            at += 1
            result += [line[1:]] if line[:1] != "-" else []
    return result + lines[at:]


def test_diff(project):
    diff = project.block("diff").splitlines()
    assert diff[:3] == ["```diff", "--- steps/01_first/kernel.cu", "+++ steps/02_second/kernel.cu"]
    assert diff[-1] == "```"
    assert not any("header" in line for line in diff)
    # It speaks of the lines as they are in the files.
    assert apply(diff[3:-1], OLD_KERNEL) == OLD_KERNEL.splitlines()[:4] + NEW_KERNEL.splitlines()[3:]
    first = re.match(r"@@ -(\d+),\d+ \+(\d+),", diff[3])
    assert OLD_KERNEL.splitlines()[int(first[1]) - 1] == diff[4][1:]
    assert NEW_KERNEL.splitlines()[int(first[2]) - 1] == diff[4][1:]


def test_a_long_diff_is_folded_but_whole(project):
    long = NEW_KERNEL + "\n".join(f"// line {n}" for n in range(100)) + "\n"
    project.write("steps/02_second/kernel.cu", long)
    diff = project.block("diff")
    assert diff.startswith('<details class="diff" markdown="1">\n<summary>')
    assert diff.endswith("```\n\n</details>")
    assert sum(line.startswith("+// line") for line in diff.splitlines()) == 100


def test_code(project):
    expected = """`steps/02_second/kernel.cu`, lines 10 to 11:

```cuda
__shared__ float As[BK][BM];
As[k][row] = valid || k == 0 ? A[row * g.lda + k] : 0.0f;
```"""
    assert project.block("code __shared__ .. As[k]") == expected
    assert project.block("code '  __shared__' .. \"As[k]\"") == expected
    one = project.block("code C[0] .. = a step=01")
    assert one.startswith("`steps/01_first/kernel.cu`, line 11:")


def test_xray(project):
    text = project.block("xray")
    row = "| 10 | <code>As&#91;k&#93;&#91;row&#93; = valid &#124;&#124; k == 0 ? A"
    assert text.count(row) == 3
    assert "| load `A`, 4 bytes a lane | 2\N{NARROW NO-BREAK SPACE}000 | 4 | 32 | 1.50 |" in text
    assert "| store `As`, 4 bytes a lane | 100 | 2.50 | 1 | 150 |" in text
    assert "| `cp.async` `Bs`, 4 bytes a lane | 10 | 4 | – | 0 |" in text
    assert "A copy takes as many wavefronts as its dearer side" in text
    # As many cells in each row as in the head, the bars of the source not counted.
    for part in text.split("**Shared memory**"):
        rows = [line for line in part.splitlines() if line.startswith("|")]
        assert len({line.count("|") for line in rows}) == 1


def test_picture_says_where_it_is_from(project):
    text = project.block("picture store As banks")
    assert "](../figures/02_second_store_As_banks.svg)" in text
    assert "line 10: <code>As&#91;k&#93;" in text
    assert "(block (0, 0), warp 0, execution 0)" in text


CLAIMS = "\n".join(
    f"[[claim]]\nid = 'c-{n}'\nsays = 'Claim {n}.'\ncheck = \"const(here, 'BM') == 128\"" for n in range(8)
)


def test_claims(project, capsys):
    project.block("claims", expected=1)
    assert "claims.toml is not written yet" in capsys.readouterr().err
    project.write("steps/02_second/claims.toml", CLAIMS)
    assert "\n- Claim 3. <small>(source: `c-3`)</small>\n" in project.block("claims")


# ---- Blocks of the evidence ------------------------------------------------------------------------------


def test_profile(project):
    text = project.block("profile")
    assert "|  | `01_first` | `02_second` |" in text
    assert "| duration | 900.0 ms | 300.0 ms |" in text
    assert "| shared memory a block | 4 KiB | 4 KiB |" in text
    assert "| FMA pipe busy | 54.2 % | 54.2 % |" in text
    assert "| read from DRAM | 34.36 GB | 17.18 GB |" in text
    assert "wavefronts" not in text  # there are none
    assert "L2 busy" not in text  # was not recorded
    assert "Test GPU, driver 1.2, Nsight Compute 3.4, recorded 2026-01-02." in text
    assert "|  | `02_second` |" in project.block("profile 02")


def test_stalls(project):
    rows = [line for line in project.block("stalls").splitlines() if line.startswith("| `")]
    assert [row.split("|")[1].strip() for row in rows] == ["`wait`", "`barrier`", "`long_scoreboard`"]
    assert rows[0].endswith("| 0.2 % | 75.0 % |")
    assert rows[2] == ("| `long_scoreboard` | waits for data from global or local memory | 50.0 % | 0.0 % |")


def test_speed(project):
    text = project.block("speed")
    assert "| 01: time | 01: TFLOP/s | 01: of cuBLAS |" in text
    assert (
        "| 4\N{NARROW NO-BREAK SPACE}096 | 36.86 ms | 3.73 | 50.0 % | 12.29 ms | 11.18 | 50.0 % | 3.00 × |"
        in text
    )


def test_roofline(project):
    text = project.block("roofline")
    assert "![Roofline of Test GPU with the steps up to 02_second](../figures/02_second_roofline.svg)" in text
    # 8 FLOP a byte, 1 TB/s: 8 TFLOP/s would be possible, were the peak not 2.56.
    assert "At M = N = K = 4096 `02_second` does 8 FLOP for each byte" in text
    assert "The roofs meet at 2.6, so the roof over it is the arithmetic: 2.6 TFLOP/s." in text


def test_machine_code_of_the_loop(project):
    text = project.block("sass loop")
    assert "`steps/02_second/kernel.cu`, `sgemm_second`: the main loop, 12 instructions:" in text
    lines = text.split("```")[1].splitlines()[1:]
    assert (
        len({line.index(word) for line, word in zip(lines, ["instr", "LDG", "LDS", "FFMA"], strict=False)})
        == 1
    )
    assert lines[1].split() == [
        "12",
        "100",
        "47.6",
        "%",
        *["LDG.E", "R4,", "desc[UR4][R2.64]", "4", "sectors"],
    ]
    assert lines[2].split()[2:4] == ["4.8", "%"]
    assert lines[2].endswith("  8 wavefronts, needs 4")
    # What a request takes stands in a column, too.
    assert lines[0].index("a request") == lines[1].index("4 sectors") == lines[2].index("8 wavefronts")
    assert [line.split()[-1] for line in lines[3:7]] == ["R20", "R21", "FFMA", "R27"]
    assert "… 5 FFMA" in lines[5]
    assert lines[-1].endswith("@!P0 BRA 0x20")
    assert all(len(line) <= 110 for line in lines)


def test_machine_code_in_part(project):
    only = project.block("sass loop only=LDS,BAR").split("```")[1].splitlines()[1:]
    expected = ["… 1 LDG", "LDS.128", "… 8 FFMA", "BAR", "… 1 BRA"]
    assert len(only) == 1 + len(expected)
    assert all(word in line for word, line in zip(expected, only[1:], strict=True))
    short = project.block("sass loop 2").split("```")[1].splitlines()[1:]
    assert len(short) == 5
    assert "… 8 FFMA, 1 BAR" in short[-2]
    assert "BRA 0x20" in short[-1]
    part = project.block("sass LDG .. FFMA").split("```")[1].splitlines()[2:]
    assert ["LDG" in part[0], "LDS" in part[1], "FFMA" in part[2], len(part)] == [True, True, True, 3]
    assert "MOV" in project.block("sass MOV .. IADD3")


EXPERIMENT = {
    "experiment": "order",
    "step": "02_second",
    "m": 4096,
    "n": 4096,
    "k": 4096,
    "pass": True,
    "time_us": 2000.0,
    "ratio_to_cublas": 0.8,
    "device": "Test GPU",
    "date": "2026-01-02",
}


def test_experiment(project):
    project.write("docs/experiments/order.toml", "question = 'Why?'\n")
    records = [
        EXPERIMENT | {"variant": "as is", "tflops": 40.0, "machine_code": {"registers": 128}},
        EXPERIMENT | {"variant": "turned round", "tflops": 44.0, "machine_code": {"registers": 96}},
    ]
    project.write("evidence/experiments.json", json.dumps(records))
    text = project.block("experiment order")
    assert "| variant | time | TFLOP/s | of cuBLAS | speed against the first | registers a thread |" in text
    assert "| turned round | 2.00 ms | 44.00 | 80.0 % | 1.100 | 96 |" in text


def test_what_is_alike_in_an_experiment_takes_no_column(project):
    project.write("docs/experiments/order.toml", "question = 'Why?'\n")
    code = {"arch": "sm_90a", "local_instructions": 0}
    records = [
        EXPERIMENT | {"variant": "as is", "tflops": 40.0, "machine_code": code | {"registers": 128}},
        EXPERIMENT | {"variant": "turned round", "tflops": 44.0, "machine_code": code | {"registers": 96}},
    ]
    project.write("evidence/experiments.json", json.dumps(records))
    text = project.block("experiment order")
    assert "speed against the first | registers a thread |" in text
    assert "Alike in all: arch sm_90a. `02_second`" in text


# ---- Numbers in prose ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "Words such as seventeen are not looked at.",
        "A warp has 32 lanes, all\n32\nlanes of it.",
        "## 3 wishes",
        "1. An item\n2. Another one",
        "Code: `x = 17`, and\n\n```\n17\n```\n",
        "A [link](page17.md#18) and <span id='19'>text</span> and https://example.org/20 [^3] &#8211;",
        "[label]: https://example.org/17",
        "Made: <!--= N -->17<!--/-->.",
        "<!-- a comment: 17 -->",
        "| a | 2 × 3 = 6 |\n|---|---|",
        "So 2 × 4096³ = 137 438 953 472 FLOP ≈ 137 GFLOP.",
        "Grouped as 2·4096^3 = 137,438,953,472, or 2\N{NO-BREAK SPACE}*\N{NO-BREAK SPACE}3 = 6.",
        "It takes 137.4 GFLOP / 66.9 TFLOP/s ≈ 2.05 ms, at best.",
        "4 KiB = 4 Ki bytes = 4096 bytes = 2^12 B and 64 × 1024 bytes = 64 KiB",
        "half of it: 50 % × 64 warps = 32 warps; (64 − 32) / 64 = 50 %",
        "As 1 / 3 ≈ 0.33, as 2 / 3 = 0.667, as 10⁻³ × 5 s = 5 ms",
        "The tile takes `BM` × `BK` × 4 bytes = 4096 bytes, or BM × 8 = 1024.",
        "With `BK` = 8 and TM = 8, `TM` = 2³.",
        "Twice that, 2 × <!--= const(here, 'BM') -->128<!--/--> = 256 bytes.",
        "It is 66.9 / 26.76 = 2.5× faster.",
        "spread over\ntwo lines: 2 ×\n3 = 6.",
        "A unit binds closer: 8 KiB / (2 × 2) KiB = 2, and (1 + 1)² bytes = 4 bytes.",
    ],
)
def test_numbers_that_pass(project, text):
    project.make(text + "\n")


@pytest.mark.parametrize(
    "text, line, words",
    [
        ("There are 17 of them.", 1, "17 in 'There are 17 of them.'"),
        ("a\n\nb\nc 17.5 %\n", 4, "17.5 in"),
        ("## Wishes: 3", 1, "3 in"),
        ("A warp has 33 lanes and 132 lanes.", 1, "33 in"),
        ("- 64 warps\n", 1, "64 in"),
        ("| 17 | 6 |\n|---|---|", 1, "17 in"),
        ("A [link 17](page.md)", 1, "17 in"),
        ("Thus 2 × 3 = 7.", 1, "'2 × 3 = 7' does not hold: 6 = 7"),
        ("a\n2 × 4096³ = 137 438 953 473 FLOP", 2, "does not hold"),
        ("137.4 GFLOP / 66.9 TFLOP/s ≈ 2.05 s", 1, "does not hold"),
        ("1 / 3 = 0.34 or so", 1, "does not hold"),
        ("100 / 3 = 33", 1, "does not hold"),
        ("100 / 3 ≈ 35", 1, "does not hold"),
        ("64 × 1024 bytes = 64 kB", 1, "does not hold"),
        ("`BM` × 2 = 128", 1, "does not hold: 256 = 128"),
        ("2 × <!--= const(here, 'BM') -->128<!--/--> = 128", 1, "does not hold"),
        ("With `BM` = 64, as before", 1, "'BM = 64' does not hold: 128 = 64"),
        ("The tile is `BX` × 4 = 512 bytes", 1, "4 in"),
        ("It is 17 = 17.", 1, "17 in"),
        ("About ≈ 17 of them", 1, "17 in"),
        ("x = 17", 1, "17 in"),
        ("2·M·N·K = 17", 1, "2 in"),
        ("2MNK = 17", 1, "2 in"),
        ("| 2 × 3 | = 6 |\n|---|---|", 1, "2 in"),
        ("2 × 3 = 6 = 5", 1, "'6 = 5' does not hold"),
        ("17 / 0 = 3", 1, "17 in"),
        ("8 KiB / (2 × 2) KiB = 8", 1, "does not hold: 2 = 8"),
        ("BX + 1 = 17", 1, "17 in"),
        ("() = 17", 1, "17 in"),
    ],
)
def test_numbers_that_do_not_pass(project, capsys, text, line, words):
    project.make(text + "\n", expected=1)
    said = capsys.readouterr().err
    assert f"number: docs/steps/02_second.md:{line}: " in said
    assert words in said
    assert project.run("--check") == 1


def test_an_equation_is_not_read_into_the_text_around_it():
    found = arithmetic.equations("so 64 warps need 16 × 4 = 64 bytes each and 3 more", {})
    assert [(e.left.value, e.right.value, e.holds) for e in found] == [(64, 64, True)]
    chain = arithmetic.equations("2 × 8 = 16, then 3 × 5 = 15 = 30 / 2", {})
    assert [(e.left.value, e.right.value) for e in chain] == [(16, 16), (15, 15), (15, 15)]


def test_the_docs_definitions():
    """They can be read, each has its use in the end, and none is so wide as to fit any number."""
    known = stated.definitions(ROOT)
    assert len(known) > 10
    for text in (
        "It has 54 of them",
        "54 %",
        "takes 1.5 ms",
        "54 TFLOP/s",
        "12 wavefronts",
        "54.2 % of cuBLAS",
    ):
        assert not any(pattern.search(text) for pattern in known), text
