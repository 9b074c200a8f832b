"""The rested protocol on the GPU: protocol_test.py FP32_PROGRAM TF32_PROGRAM.

Exit status: 0 as it should be, 1 not, 77 ("skipped" to Meson) where there is no GPU that runs both programs.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

SKIP = 77
NO_DEVICE = 3  # the programs' own exit status
SUSTAINED = (
    "ratio_sustained",
    "sustained_time_us",
    "sustained_tflops",
    "sustained_cublas_time_us",
    "sustained_seconds",
    "sustained_sm_clock_mhz",
    "sustained_power_watts",
    "sustained_cublas_sm_clock_mhz",
    "sustained_cublas_power_watts",
)


def measure(program: str, *options: str) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        command = [program, "--device", "gpu", "--size", "2048", "--repeat", "5", *options]
        command += ["--json", str(out)]
        print("$", " ".join(command), flush=True)
        done = subprocess.run(command, check=False)
        if done.returncode == NO_DEVICE:
            sys.exit(SKIP)
        assert done.returncode == 0, f"{program} ended with status {done.returncode}"
        [record] = json.loads(out.read_text())
    return record


def check_rested(record: dict) -> None:
    assert record["protocol"] == "rested"
    assert record["samples"] == 5
    assert record["idle_ms"] >= 20
    assert record["ratio_to_cublas"] > 0
    assert record["cublas_sm_clock_mhz"] > 0
    missing = [key for key in SUSTAINED if not (record[key] or 0) > 0]
    assert not missing, f"not recorded: {missing}"
    assert record["sustained_seconds"] >= 0.5
    # The same kernels, at another clock: it does not change by more than a GPU's clock can.
    for rested, lasting in (("time_us", "sustained_time_us"), ("cublas_time_us", "sustained_cublas_time_us")):
        assert 0.8 < record[lasting] / record[rested] < 3, (rested, record[rested], record[lasting])


def main() -> int:
    fp32, tf32 = sys.argv[1:]
    usual = measure(fp32)
    assert usual["protocol"] == "in turn"
    assert "ratio_sustained" not in usual
    assert (usual["precision"], usual["baseline"]) == ("FP32", "cuBLAS FP32")
    assert usual["relative_error"] < 1e-6

    asked = measure(fp32, "--protocol", "rested")
    check_rested(asked)

    record = measure(tf32)  # needs no option
    check_rested(record)
    assert (record["input"], record["precision"]) == ("FP32", "TF32")
    assert (record["baseline"], record["peak"]) == ("cuBLAS TF32", "TF32 tensor peak")
    assert abs(record["bias"]) <= record["bias_limit"]
    # cuBLAS did compute in TF32: with FP32's error it would not have, and it is faster than FP32 can be.
    assert 1e-5 < record["cublas_relative_error"] < 1e-3, record["cublas_relative_error"]
    assert record["cublas_time_us"] < 0.6 * usual["cublas_time_us"]
    print(f"cuBLAS in TF32: error {record['cublas_relative_error']:.2e}, bias {record['cublas_bias']:.2e}")

    assert measure(tf32, "--protocol", "in-turn")["protocol"] == "in turn"
    return 0


if __name__ == "__main__":
    sys.exit(main())
