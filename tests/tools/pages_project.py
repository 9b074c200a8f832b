"""The small project of the pages' tests: two steps, everything recorded."""

import json
import sys

from tools.base import run_program
from tools.pages import pages

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
        **{"step": step, "m": n, "n": n, "k": n, "batch": 1, "pass": True, "time_us": time_us},
        **{"tflops": 2 * n**3 / time_us / 1e6, "ratio_to_cublas": 0.5},
        **{"device": "Test GPU", "driver": "1.2", "cuda": "13.0", "date": "2026-01-02T03:04:05Z"},
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
