"""Checks what the steps' pages claim: against the built programs and against what was recorded on the GPU.

  ladder claims check STEP_DIR... --build DIR [--fresh-profile --profile-json DIR]
      check every claim of steps/NN_name/claims.toml and print a line for each
  ladder claims list [STEP_DIR...]
      print the claims and of what kind they are; without directories, those of all steps

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
Standard library only.
"""

import argparse
import ast
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from tools.base import BUILD, ROOT, Parser, UsageError
from tools.claims.values import (
    Comparison,
    Context,
    ExpressionError,
    NotAvailable,
    all_steps,
    explain,
    is_condition,
    parse,
    sources,
)

FEWEST = 8  # claims of a step
KEYS = {"id", "says", "check", "arch"}
LONGEST = 80  # characters of a value, where a claim fails


class Malformed(UsageError):
    """What is wrong with a claims.toml, or with the command line, in one line."""


@dataclass(frozen=True)
class Claim:
    """One claim as its file states it. kinds: the functions of values.py that it uses, e.g. ['xray']; arch:
    the architectures whose machine code it is about, empty for all."""

    id: str
    says: str
    check: str
    kinds: list[str]
    arch: list[str]


@dataclass(frozen=True)
class Result:
    """status: 'ok', 'FAILED' or 'skipped'; detail: what failed, or why it was skipped, in one line."""

    status: str
    detail: str = ""


# ---- Reading ---------------------------------------------------------------------------------------------


def load(path: Path) -> list[Claim]:
    """The claims of a file. Raises Malformed, which names the file and the claim."""
    try:
        content = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise Malformed(f"{path}: does not exist; every step has a claims.toml") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise Malformed(f"{path}: cannot be read: {error}") from None
    if unknown := content.keys() - {"claim"}:
        raise Malformed(f"{path}: unknown key '{min(unknown)}'; a file holds [[claim]] tables only")
    tables = content.get("claim", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise Malformed(f"{path}: 'claim' is no list of tables; write [[claim]]")
    claims: list[Claim] = []
    for number, table in enumerate(tables, 1):
        name = table.get("id")
        where = f"{path}: claim " + (f"'{name}'" if isinstance(name, str) and name else f"number {number}")
        claim = _claim(table, where)
        if any(claim.id == other.id for other in claims):
            raise Malformed(f"{where}: there is another claim with this id")
        claims.append(claim)
    if len(claims) < FEWEST:
        raise Malformed(f"{path}: has {len(claims)} claims; a step makes at least {FEWEST}")
    return claims


def _claim(table: dict[str, object], where: str) -> Claim:
    if unknown := table.keys() - KEYS:
        raise Malformed(f"{where}: unknown key '{min(unknown)}'; known are {', '.join(sorted(KEYS))}")
    texts = []
    for key in ("id", "says", "check"):
        text = table.get(key)
        if not isinstance(text, str) or not text.strip():
            raise Malformed(f"{where}: has no {key}")
        texts.append(" ".join(text.split()))
    name, says, check = texts
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        raise Malformed(f"{where}: the id is to be like 'four-sectors'")
    try:
        kinds = sources(check)
        condition = is_condition(check)
    except ExpressionError as error:
        raise Malformed(f"{where}: {error}") from None
    if not condition:
        raise Malformed(f"{where}: the check is no condition; compare something")
    if not kinds:
        raise Malformed(f"{where}: the check uses nothing that was built or recorded, so it cannot fail")
    arch = table.get("arch", [])
    if not isinstance(arch, list) or not all(
        isinstance(a, str) and re.fullmatch(r"sm_\d+a?", a) for a in arch
    ):
        raise Malformed(f'{where}: arch is to be like ["sm_80", "sm_90a"]')
    if "arch" in table and "sass" not in kinds:
        raise Malformed(f"{where}: arch is for claims about machine code, which use sass()")
    return Claim(name, says, check, kinds, arch)


# ---- Checking --------------------------------------------------------------------------------------------


def check(claim: Claim, context: Context) -> Result:
    """Whether a claim holds. One about machine code has to hold for each architecture."""
    if not _reads_default_sass(claim.check):
        return _check_once(claim, context, None)
    try:
        built = context.architectures(context.step)
    except NotAvailable:
        built = []
    # Without machine code: what else the claim says is checked, up to the first sass().
    archs = [a for a in built if not claim.arch or a in claim.arch] or [claim.arch[0] if claim.arch else None]
    results = [_check_once(claim, context.at(context.step, context.step_dir, arch), arch) for arch in archs]
    for status in ("FAILED", "ok"):
        for result in results:
            if result.status == status:
                return result
    return results[0]


def _reads_default_sass(expression: str) -> bool:
    """Whether sass() is called without saying for which architecture."""
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "sass"
        and len(node.args) < 2
        and all(keyword.arg != "arch" for keyword in node.keywords)
        for node in ast.walk(parse(expression))
    )


def _check_once(claim: Claim, context: Context, arch: str | None) -> Result:
    on = f"on {arch}: " if arch else ""
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


def _sides(comparison: Comparison) -> str:
    """Both sides of a comparison, with their values where these are not written there."""

    def side(text: str, value: object) -> str:
        shown = f"{value:.6g}" if isinstance(value, float) else repr(value)
        if len(shown) > LONGEST:
            shown = f"{shown[: LONGEST - 3]}..."
        try:
            return text if ast.literal_eval(text) == value else f"{text} [= {shown}]"
        except ValueError:
            return f"{text} [= {shown}]"

    c = comparison
    return f"{side(c.left, c.left_value)} {c.sign} {side(c.right, c.right_value)}"


# ---- Commands --------------------------------------------------------------------------------------------


def step_directories(names: list[str]) -> list[Path]:
    """The directories named, or all steps."""
    folders = [Path(name) for name in names] or [ROOT / "steps" / step for step in all_steps()]
    for folder in folders:
        if not folder.is_dir():
            raise Malformed(f"{folder}: is no directory; give a step's, e.g. steps/05_2d_tiling")
    return folders


def run_check(args: argparse.Namespace) -> int:
    build = Path(args.build)
    if not build.is_dir():
        raise Malformed(f"{build}: is no build directory; run `meson setup {build}` first")
    if args.fresh_profile != (args.profile_json is not None):
        raise Malformed(
            "--fresh-profile needs --profile-json DIR, what ladder profile has recorded, and the reverse"
        )
    profiles = Path(args.profile_json) if args.profile_json is not None else None
    if profiles is not None and not profiles.is_dir():
        raise Malformed(f"{profiles}: is no directory with profiles")
    # Every file is read before anything is checked: a malformed one is no half result.
    steps = [(folder, load(folder / "claims.toml")) for folder in step_directories(args.steps)]
    context = Context(build, "", profiles=profiles)
    found = {"ok": 0, "FAILED": 0, "skipped": 0}
    for folder, claims in steps:
        here = context.at(folder.resolve().name, folder.resolve())
        for claim in claims:
            result = check(claim, here)
            found[result.status] += 1
            line = f"{result.status:<8} {here.step}/{claim.id} ({', '.join(claim.kinds)})"
            if result.status == "FAILED":
                line += f": {result.detail} -- {claim.says}"
            elif result.detail:
                line += f": {result.detail}"
            print(line, flush=True)
    print(f"{found['ok']} claims hold, {found['FAILED']} failed, {found['skipped']} skipped")
    if found["FAILED"]:
        return 1
    return 0 if found["ok"] else 77


def run_list(args: argparse.Namespace) -> int:
    steps = [(folder, load(folder / "claims.toml")) for folder in step_directories(args.steps)]
    for folder, claims in steps:
        for claim in claims:
            print(f"{folder.resolve().name}/{claim.id} ({', '.join(claim.kinds)}): {claim.says}")
    return 0


def main() -> int:
    parser = Parser(__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    check_parser = commands.add_parser("check", help="check the claims of steps")
    check_parser.add_argument("steps", nargs="+", metavar="STEP_DIR")
    check_parser.add_argument("--build", default=BUILD)
    check_parser.add_argument("--fresh-profile", action="store_true")
    check_parser.add_argument("--profile-json", metavar="DIR")
    list_parser = commands.add_parser("list", help="print the claims")
    list_parser.add_argument("steps", nargs="*", metavar="STEP_DIR")
    args = parser.parse_args()
    return run_check(args) if args.command == "check" else run_list(args)
