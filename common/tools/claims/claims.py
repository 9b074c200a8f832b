"""Checks what the steps' pages claim: against the built programs and against what was recorded on the GPU.

  ladder claims check STEP_DIR... [--build DIR] [--fresh-profile DIR]
      check every claim of steps/NN_name/claims.toml and print a line for each

For example `ladder claims check steps/06_vectorization`.

A claim is a sentence and a condition in the terms of values.py:

  [[claim]]
  id = "four-sectors"
  says = "A warp's load of B takes 4 sectors of 32 bytes."
  check = "xray(here).load('B').sectors_per_request == 4"

Its kinds are the functions it uses. A claim about machine code (sass) is checked for every architecture that
was built, or for those of `arch = ["sm_90a"]` only. With --fresh-profile, profile() reads <DIR>/NN_name.json,
as recorded by ladder profile, instead of docs/evidence.

Exit status: 0 all claims hold; 1 one does not; 2 a file is malformed, or bad usage; 77 nothing could be
checked.
"""

import ast
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tools.base import BUILD, EVIDENCE, Parser, UsageError, read_fields, read_toml
from tools.claims.context import Context
from tools.claims.objects import ExpressionError, NotAvailable
from tools.claims.values import Comparison, explain, is_condition, sources

FEWEST = 8  # claims of a step
LONGEST = 80  # characters of a value, where a claim fails


@dataclass
class Claim:
    """One claim as its file states it. arch: whose machine code it is about, empty for all that was built."""

    id: str
    says: str
    check: str
    arch: list = field(default_factory=list)

    def __post_init__(self) -> None:
        self.says, self.check = " ".join(self.says.split()), " ".join(self.check.split())
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", self.id):
            raise ValueError("the id is to be like 'four-sectors'")
        if not is_condition(self.check):
            raise ValueError("the check is no condition; compare something")
        if not self.kinds:
            raise ValueError("the check uses nothing that was built or recorded, so it cannot fail")
        if not all(re.fullmatch(r"sm_\d+a?", str(arch)) for arch in self.arch):
            raise ValueError('arch is to be like ["sm_80", "sm_90a"]')
        if self.arch and "sass" not in self.kinds:
            raise ValueError("arch is for claims about machine code, which use sass()")

    @property
    def kinds(self) -> list[str]:
        """The functions of values.py that it uses, e.g. ['xray']."""
        return sources(self.check)


@dataclass
class ClaimsFile:
    """gpu: the directory in docs/evidence of the GPU that the claims are of; see context.evidence_of."""

    claims: list[Claim]
    gpu: str = EVIDENCE.name

    def __post_init__(self) -> None:
        ids = Counter(claim.id for claim in self.claims)
        if twice := [id for id, count in ids.items() if count > 1]:
            raise ValueError(f"claim {twice[0]}: there is another claim with this id")
        if len(self.claims) < FEWEST:
            raise ValueError(f"has {len(self.claims)} claims; a step makes at least {FEWEST}")


@dataclass(frozen=True)
class Result:
    """status: 'ok', 'FAILED' or 'skipped'; detail: what failed, or why it was skipped, in one line."""

    status: str
    detail: str = ""


def load(path: Path) -> list[Claim]:
    """The claims of a file. Raises UsageError, which names the file and the claim."""
    return read_fields(ClaimsFile, read_toml(path), path).claims


# ---- Checking --------------------------------------------------------------------------------------------


def check(claim: Claim, context: Context) -> Result:
    """Whether a claim holds. One about machine code has to hold for each architecture."""
    if "sass" not in claim.kinds:
        return _check_once(claim, context)
    try:
        built = context.architectures(context.step)
    except NotAvailable:
        built = []
    # Without machine code: what else the claim says is checked, up to the first sass().
    archs = [a for a in built if not claim.arch or a in claim.arch] or [*claim.arch, None][:1]
    results = [_check_once(claim, context.at(context.step, context.step_dir, arch)) for arch in archs]
    return min(results, key=lambda result: ("FAILED", "ok", "skipped").index(result.status))


def _check_once(claim: Claim, context: Context) -> Result:
    on = f"on {context.arch}: " if context.arch else ""
    try:
        evaluation = explain(claim.check, context)
    except NotAvailable as reason:
        return Result("skipped", str(reason))
    except ExpressionError as error:
        return Result("FAILED", f"{on}{error}")
    if evaluation.value is True:
        return Result("ok")
    wrong = [c for c in evaluation.comparisons if not c.holds] or evaluation.comparisons
    return Result("FAILED", on + ("; ".join(map(_sides, wrong)) or f"{claim.check} is not true"))


def _sides(c: Comparison) -> str:
    """Both sides of a comparison, with their values where these are not written there."""

    def side(text: str, value: object) -> str:
        shown = f"{value:.6g}" if isinstance(value, float) else repr(value)
        if len(shown) > LONGEST:
            shown = f"{shown[: LONGEST - 3]}..."
        try:
            return text if ast.literal_eval(text) == value else f"{text} [= {shown}]"
        except ValueError:
            return f"{text} [= {shown}]"

    return f"{side(c.left, c.left_value)} {c.sign} {side(c.right, c.right_value)}"


# ---- Commands --------------------------------------------------------------------------------------------


def main() -> int:
    parser = Parser(__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    check_parser = commands.add_parser("check", help="check the claims of steps")
    check_parser.add_argument("steps", nargs="+", type=Path, metavar="STEP_DIR")
    check_parser.add_argument("--build", type=Path, default=BUILD)
    check_parser.add_argument("--fresh-profile", type=Path, metavar="DIR")
    args = parser.parse_args()
    # Every file is read before anything is checked: a malformed one is no half result.
    steps = {folder.resolve(): load(folder / "claims.toml") for folder in args.steps}
    for path in filter(None, (args.build, args.fresh_profile)):
        if not path.is_dir():
            raise UsageError(f"{path}: is no directory")
    context = Context(args.build, "", profiles=args.fresh_profile)
    found = Counter({"ok": 0, "FAILED": 0, "skipped": 0})
    for folder, claims in steps.items():
        here = context.at(folder.name, folder)
        for claim in claims:
            result = check(claim, here)
            found[result.status] += 1
            line = f"{result.status:<8} {here.step}/{claim.id} ({', '.join(claim.kinds)})"
            says = f" -- {claim.says}" if result.status == "FAILED" else ""
            print(f"{line}: {result.detail}{says}" if result.detail else line, flush=True)
    print(f"{found['ok']} claims hold, {found['FAILED']} failed, {found['skipped']} skipped")
    return 1 if found["FAILED"] else 0 if found["ok"] else 77
