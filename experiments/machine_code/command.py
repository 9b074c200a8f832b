"""Writes the main loop of a step's kernel anew, in a copy of the program.

  python3 experiments/machine_code build/steps/14_stream_k/run -o /tmp/run

The copy has the same options as the program and computes the same, bit for bit. For code that ptxas 13.0 made
for sm_90a; whatever is not known here is refused. Nothing is written unless every check has passed: README.md
says which. Works on objects, libraries and cubins, too. Without -o it only says what it would do.

Exit status: 0 done; 1 the tool found a mistake in its own work; 2 refused, or bad usage.
"""

import os
import re
import stat
from dataclasses import fields, replace
from pathlib import Path

from tools.base import Parser, UsageError
from tools.machine_code.binary import demangle
from tools.machine_code.listing import SassError

from machine_code import control
from machine_code.cubin import Cubin, find_cubins
from machine_code.plan import Plan
from machine_code.rewrite import ARCH, Broken, Refused, Rewritten, check_origin, disassemble, rewrite

HARNESS = "_ZN7harness"  # how the symbols of the harness's kernels begin


def main() -> int:
    parser = Parser(__doc__)
    parser.add_argument("program", type=Path, help="a step's program; or an object, a library, a cubin")
    parser.add_argument("-o", "--out", type=Path, metavar="FILE", help="where to write the changed copy")
    parser.add_argument("--kernel", default="", metavar="REGEX", help="only kernels whose names match")
    parser.add_argument(
        "--listing",
        type=int,
        nargs="?",
        const=10**6,
        metavar="N",
        help="show the new loop's first N instructions",
    )
    plan = ", ".join(f"{f.name}={f.default}" for f in fields(Plan))
    parser.add_argument(
        "--plan",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help=f"for experiments, see plan.py: {plan}",
    )
    args = parser.parse_args()
    if args.out and args.out.exists() and args.program.exists() and args.out.samefile(args.program):
        raise UsageError("-o names the program itself; it stays as it is")
    try:
        data = bytearray(args.program.read_bytes())
    except OSError as error:
        raise UsageError(f"{args.program}: cannot be read: {error.strerror}") from None
    try:
        done, left = change(data, args.kernel, read_plan(args.plan))
    except Broken as error:
        raise UsageError(f"{args.program}: a mistake in this tool, nothing is written: {error}", 1) from None
    except SassError as error:
        raise UsageError(f"{args.program}: {error}") from None
    for result in done:
        print(report(result))
        if args.listing is not None:
            print(listing(result, args.listing))
    for reason in left:
        print(f"left as it is: {reason}")
    if args.out:
        write(args.out, bytes(data), args.program)
        print(f"{args.out}: written")
    return 0


def read_plan(settings: list[str]) -> Plan:
    plan = Plan()
    kinds = {f.name: type(f.default) for f in fields(Plan)}
    for setting in settings:
        name, _, value = setting.partition("=")
        if name not in kinds or not re.fullmatch(r"\d{1,4}", value):
            raise UsageError(
                f"--plan {setting}: should be NAME=NUMBER, with a name out of {', '.join(kinds)}"
            )
        plan = replace(plan, **{name: kinds[name](int(value))})
    return plan


def change(data: bytearray, pattern: str, plan: Plan) -> tuple[list[Rewritten], list[str]]:
    """Changes all kernels of a program that match and whose main loop is of the kind that is known; says why
    others are left as they are. Raises SassError if there is none, or a compiler is not known."""
    cubins = [cubin for cubin in find_cubins(bytes(data)) if own_kernels(cubin, pattern)]
    if not cubins:
        raise Refused(f"no kernel matches '{pattern}'" if pattern else "there is no kernel in it")
    here = [cubin for cubin in cubins if cubin.arch == ARCH]
    for cubin in here or cubins:
        check_origin(cubin)
    done, reasons = [], []
    for cubin in here:
        instructions = disassemble(cubin)
        for kernel in own_kernels(cubin, pattern):
            try:
                done.append(rewrite(cubin, kernel, instructions[kernel], plan))
            except Broken:
                raise
            except SassError as reason:
                reasons.append(f"{demangle(kernel)}: {reason}")
        data[cubin.at : cubin.at + len(cubin.data)] = cubin.data
    if not done:
        raise Refused("no main loop that can be written anew. " + "; ".join(reasons))
    return done, reasons


def own_kernels(cubin: Cubin, pattern: str) -> list[str]:
    names = [name for name in cubin.kernels if not name.startswith(HARNESS)]
    try:
        return [name for name in names if re.search(pattern, demangle(name))]
    except re.error as error:
        raise UsageError(f"--kernel {pattern!r} is no regular expression: {error}") from None


def write(path: Path, data: bytes, program: Path) -> None:
    """Writes a file that appears only when it is complete, and may be executed if `program` may."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(data)
        temporary.chmod(stat.S_IMODE(program.stat().st_mode))
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from None


# ---- What it says ----------------------------------------------------------------------------------------


def report(result: Rewritten) -> str:
    before, after = result.models
    total = len(result.old.instructions)
    lines = [f"{result.name}: main loop at {result.old.start:x}, {result.old.steps} steps of k in a round"]
    for name, loop, registers in zip(("before", "after"), (before, after), result.registers, strict=True):
        lines.append(
            f"  {name:8} {len(loop.instructions)} instructions, {loop.ffma} of them FFMA;"
            f" {loop.bank_conflicts} bank conflicts; {registers} registers;"
            f" {100 * loop.predicted_tflops_fraction:.1f} % of the peak by the model"
        )
    lines.append(f"  encoding {result.expressible} of {total} instructions encoded here, all as ptxas did")
    lines.append(
        "  checked  what nvdisasm reads, hazards in the whole kernel, the same results, addresses and waits"
    )
    if after.bank_conflicts > before.bank_conflicts:
        lines.append("  note     the sums lie in registers that do not suit this order of FFMAs")
    return "\n".join(lines)


def listing(result: Rewritten, most: int) -> str:
    """The new loop: offset, control word, instruction, what it is there for."""
    lines = [explanation()]
    shown = list(result.new.lines.items())[:most]
    width = max((len(i.text) for _, (i, _, _) in shown), default=0)
    lines += [f"{at:6x}  {word}  {i.text:<{width}}  {why}" for at, (i, word, why) in shown]
    if len(shown) < len(result.new.lines):
        lines.append(f"        ... {len(result.new.lines) - len(shown)} more")
    return "\n".join(lines)


def explanation() -> str:
    """What the columns of the control word mean, as control.py says it."""
    text = (control.__doc__ or "").strip()
    return "\n".join(f"  {line}".rstrip() for line in text.splitlines())
