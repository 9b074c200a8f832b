"""The blocks that `ladder pages` makes: of the source, and of the evidence."""

import json
import re

import pytest
from pages_project import NEW_KERNEL, OLD_KERNEL, measurement
from tools.pages import pages


@pytest.mark.parametrize("kind", sorted(pages.MAKERS))
def test_help_lists_every_kind(kind):
    assert re.search(rf"^  {kind}( |$)", pages.__doc__, re.MULTILINE)


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
    # Against a step that is not the one before: here itself.
    assert project.block("diff before=02").splitlines()[1:] == [
        "--- steps/02_second/kernel.cu",
        "+++ steps/02_second/kernel.cu",
        "```",
    ]


def test_a_long_diff_is_folded_but_whole(project):
    project.write("steps/02_second/kernel.cu", NEW_KERNEL + "// more\n" * 100)
    diff = project.block("diff")
    assert diff.startswith('<details class="diff" markdown="1">\n<summary>')
    assert diff.endswith("```\n\n</details>")
    assert diff.count("\n+// more") == 100


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
    assert rows[1] == "| `barrier` | waits for the block's other warps at a barrier | 25.0 % | 12.5 % |"
    assert rows[2] == ("| `long_scoreboard` | waits for data from global or local memory | 50.0 % | 0.0 % |")


def test_stalls_with_wgmma(project):
    """A warp that waits for its wgmma counts as one at a barrier; the row says so."""
    record = json.loads((project.root / "evidence" / "02_second.json").read_text())
    waiting = {"sass": "WARPGROUP.DEPBAR.LE gsb0, 0x1", "stalls": {"barrier": 3}}
    record["runs"][0]["instructions"].append({"offset": 240, "line": 9, "executed": 64, **waiting})
    project.write("evidence/02_second.json", json.dumps(record))
    assert "at a barrier, or for its own `wgmma` | 25.0 % | 12.5 % |" in project.block("stalls")


def test_speed(project):
    text = project.block("speed")
    assert "| 01: time | 01: TFLOP/s | 01: of cuBLAS |" in text
    assert (
        "| 4\N{NARROW NO-BREAK SPACE}096 | 36.86 ms | 3.73 | 50.0 % | 12.29 ms | 11.18 | 50.0 % | 3.00 × |"
        in text
    )


def test_ladder(project):
    """A table for each precision; rested runs have two columns more."""
    gpu = {"device_kind": "gpu", "device": "Test GPU", "date": "2026-01-02", "pass": True}
    rested = gpu | {"precision": "TF32", "ratio_sustained": 0.61, "relative_error": 2.34e-5}
    records = [
        measurement("20_third", 4096, 36_860.0) | rested,
        measurement("02_second", 4096, 12_290.0) | gpu,
    ]
    project.write("evidence/ladder.json", json.dumps(records))
    text = project.block("ladder")
    assert text.index("In FP32:") < text.index("| `02_second` | 11.18 | 50.0 % |\n") < text.index("In TF32:")
    assert "| `20_third` | 3.73 | 50.0 % | 61.0 % | 2.3e-05 |\n" in text


def test_shapes(project, capsys):
    """Every shape that cuBLAS was measured at, too, and the mean of the ratios as ratios have it."""

    def record(m, n, k, batch, time_us, cublas_time_us):
        times = {"cublas_time_us": cublas_time_us, "ratio_to_cublas": (cublas_time_us or 0) / time_us or None}
        return measurement("02_second", n, time_us) | {"m": m, "n": n, "k": k, "batch": batch} | times

    records = [
        record(4096, 16, 4096, 1, 20.0, 40.0)
        | {"cublas_algorithm": "cublasLt heuristic 3 of 8, tiles of 64 x 32, 2 parts"},
        record(256, 256, 256, 100, 8.0, 8.0) | {"cublas_algorithm": "cublasSgemm"},
        record(16, 4096, 4096, 1, 30.0, 15.0) | {"cublas_algorithm": "cublasLt heuristic 1 of 8"},
        record(1, 1, 1, 1, 3.0, None),
        measurement("01_first", 16, 1.0),
    ]
    project.write("evidence/ladder.json", json.dumps(records))
    text = project.block("shapes")
    thousand = "4\N{NARROW NO-BREAK SPACE}096"
    assert [line for line in text.splitlines() if line.startswith("|")] == [
        "| M | N | K | batch | time | cuBLAS | which takes | of cuBLAS |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|",
        f"| 16 | {thousand} | {thousand} | 1 | 30.00 µs | 15.00 µs | – | 50.0 % |",
        f"| {thousand} | 16 | {thousand} | 1 | 20.00 µs | 40.00 µs | tiles of 64 x 32, 2 parts | 200.0 % |",
        "| 256 | 256 | 256 | 100 | 8.00 µs | 8.00 µs | – | 100.0 % |",
    ]
    assert (
        "`02_second`, measured in turn with cuBLAS, whose fastest algorithm says what it takes; medians."
        in text
    )
    assert "Geometric mean of the last: 100.0 %." in text
    assert "Test GPU, driver 1.2, CUDA 13.0, recorded 2026-01-02." in text
    project.write("evidence/ladder.json", json.dumps(records[-1:]))
    project.block("shapes", expected=1)
    assert "the ladder holds no measurement of 02_second" in capsys.readouterr().err


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
    assert lines[1].split() == ["12", "100", "47.6", "%", "LDG.E", "R4,", "desc[UR4][R2.64]", "4", "sectors"]
    assert lines[2].split()[2:4] == ["4.8", "%"]
    assert lines[2].endswith("  8 wavefronts, needs 4")
    # What a request takes stands in a column, too.
    assert lines[0].index("a request") == lines[1].index("4 sectors") == lines[2].index("8 wavefronts")
    assert [line.split()[-1] for line in lines[3:7]] == ["R20", "R21", "FFMA", "R27"]
    assert "… 5 FFMA" in lines[5]
    assert lines[-1].endswith("@!P0 BRA 0x20")
    assert all(len(line) <= 110 for line in lines)


def test_machine_code_in_part(project):
    def shown(arguments):
        return project.block(f"sass {arguments}").split("```")[1].splitlines()[2:]

    def holds(lines, *words):
        return len(lines) == len(words) and all(word in line for word, line in zip(words, lines, strict=True))

    assert holds(shown("loop only=LDS,BAR"), "… 1 LDG", "LDS.128", "… 8 FFMA", "BAR", "… 1 BRA")
    assert holds(shown("loop 2"), "LDG", "LDS", "… 8 FFMA, 1 BAR", "BRA 0x20")
    assert holds(shown("LDG .. FFMA"), "LDG", "LDS", "FFMA")
    assert holds(shown("MOV .. IADD3"), "MOV", "IADD3")


EXPERIMENT = measurement("02_second", 4096, 2000.0) | {"experiment": "order", "ratio_to_cublas": 0.8}


def test_experiment(project):
    """What is alike in all variants takes no column."""
    project.write("docs/experiments/order.toml", "question = 'Why?'\n")
    code = {"arch": "sm_90a", "local_instructions": 0}
    records = [
        EXPERIMENT | {"variant": "as is", "tflops": 40.0, "machine_code": code | {"registers": 128}},
        EXPERIMENT | {"variant": "turned round", "tflops": 44.0, "machine_code": code | {"registers": 96}},
    ]
    project.write("evidence/experiments.json", json.dumps(records))
    text = project.block("experiment order")
    assert "| variant | time | TFLOP/s | of cuBLAS | speed against the first | registers a thread |" in text
    assert "| turned round | 2.00 ms | 44.00 | 80.0 % | 1.100 | 96 |" in text
    assert "Alike in all: arch sm_90a. `02_second`" in text


def test_attribution(project, capsys):
    """Parts added to the step before and left out of this one, each against its own end."""
    variants = [
        "{ name = 'this' }",
        "{ name = 'before', kernel = '01_first' }",
        "{ name = 'wide', lacks = 'order', adds = 'width', replace = [] }",
        "{ name = 'turned', lacks = 'width', constants = { BK = 8 } }",
        "{ name = 'aside', constants = { BK = 9 } }",
    ]

    def write(chosen):
        text = f"step = '02_second'\nquestion = '?'\nvariant = [{', '.join(chosen)}]\n"
        project.write("docs/experiments/order.toml", text)

    speeds = {"this": 40.0, "before": 20.0, "wide": 30.0, "turned": 39.0, "aside": 1.0}
    records = [
        EXPERIMENT
        | {"variant": name, "tflops": speed, "ratio_to_cublas": speed / 50}
        | {"machine_code": {"sass_sha256": "a" if name in ("this", "turned") else name}}
        for name, speed in speeds.items()
    ]
    project.write("evidence/experiments.json", json.dumps(records))
    write(variants)
    text = project.block("attribution order")
    assert "| part of the change | step 01 with it alone | step 02 without it |" in text
    assert "| none | 40.0 % of cuBLAS | 80.0 % of cuBLAS |" in text
    assert "| width | 1.500 | 0.975, the same machine code |" in text
    assert "| order | – | 0.750 |" in text
    assert "aside" not in text
    write([variants[0], *variants[2:]])
    project.block("attribution order", expected=2)
    assert "'wide' adds to 01_first, which is no variant" in capsys.readouterr().err
    for chosen in variants[1:], [variants[0], variants[4]]:
        write(chosen)
        project.block("attribution order", expected=2)
        assert "no variant has `adds` or `lacks`, or none is the step" in capsys.readouterr().err
