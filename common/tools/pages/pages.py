"""Writes the generated parts of the docs, or checks that they are as they would be written.

  ladder pages docs/steps/06_vectorization.md

FILES are Markdown files; by default all under docs/. A page docs/steps/NN_name.md belongs to that step:
`here` and `before` in its expressions are this step and the one before. Generated parts are blocks

  <!-- generate: KIND ARGUMENTS -->
  <!-- end -->

  diff                       kernel.cu against the previous step's, without the comment at its top
  code FROM .. TO            kernel.cu from the line that holds FROM to the next that holds TO
  xray [STEP ...]            the memory accesses
  picture OP ARRAY [line=TEXT] [banks|sectors]    one warp's access, e.g. `picture load As`
  sass loop [N] [only=LDS,LDG]    the main loop's machine code, at most N lines of it
  sass FROM .. TO            the machine code from an instruction that holds FROM to one that holds TO
  profile [STEP ...]         counters, by default those of the previous step and this
  stalls [STEP ...]          the reasons why warps wait
  speed [STEP ...]           time, TFLOP/s and fraction of cuBLAS at several sizes
  roofline                   the steps so far, this one marked
  experiment NAME            the variants of an experiment
  claims                     what the step's claims.toml says
                             (diff, code, picture, sass, roofline and claims take step=NN)

and inline values, in one line and not at its beginning, with a format as Python's format() takes it:

  It takes <!--= xray(here).load('B').sectors_per_request | .0f -->4<!--/--> sectors.

values.py says what an expression may hold. Every other number in prose has to be a definition
(docs/definitions.toml) or a part of an equation that holds; see stated.py.

Exit status: 0 all is as it should be; 1 --check found a difference, a number has no derivation, or something
is not recorded yet; 2 a page is malformed. Standard library only.
"""

import argparse
import difflib
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.base import EVIDENCE, ROOT, Parser, UsageError, read_text, write_whole
from tools.claims import values
from tools.claims.values import Context, ExpressionError, NotAvailable
from tools.pages import blocks, evidence, figures, stated
from tools.pages.blocks import BlockError, Request
from tools.pages.page import Block, Page, PageError, Value, parse, regenerate
from tools.pages.stated import Definition

MAKERS: dict[str, Callable[[Request], str]] = {
    "diff": blocks.make_diff,
    "code": blocks.make_code,
    "xray": blocks.make_xray,
    "picture": figures.make_picture,
    "sass": evidence.make_sass,
    "profile": evidence.make_profile,
    "stalls": evidence.make_stalls,
    "speed": evidence.make_speed,
    "roofline": evidence.make_roofline,
    "experiment": blocks.make_experiment,
    "claims": blocks.make_claims,
    "calibration": evidence.make_calibration,
}
NEED_THE_BUILD = {"xray", "picture", "calibration"}  # kinds of blocks; and of values:
VALUES_OF_THE_BUILD = {"xray", "sass"}


@dataclass
class Findings:
    """What was found, one line each."""

    errors: list[str] = field(default_factory=list)  # malformed pages
    missing: list[str] = field(default_factory=list)  # not recorded or built, so not written
    kept: list[str] = field(default_factory=list)  # of a build that is not there: left as it is
    numbers: list[str] = field(default_factory=list)  # without a derivation
    stale: list[str] = field(default_factory=list)  # names of files that differ from what is generated
    blocks: int = 0  # made
    values: int = 0


@dataclass
class Made:
    """One page as it ought to be."""

    path: Path
    page: Page
    step: str  # "" if it belongs to none
    text: str
    new_text: str
    figures: dict[Path, str]


def show(value: Any, form: str) -> str:
    """A value as the page shows it. ExpressionError if the format does not fit."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ExpressionError(f"the value {value!r} is neither number nor text")
    try:
        if "%" in form and form.startswith("%"):
            return form % value
        if not form and isinstance(value, float):
            return f"{value:.0f}" if value == int(value) and abs(value) < 1e15 else f"{value:.4g}"
        return format(value, form).replace(",", "\N{NARROW NO-BREAK SPACE}")  # as in the tables
    except (ValueError, TypeError) as error:
        raise ExpressionError(f"the format '{form}' does not fit {value!r}: {error}") from None


def figures_folder(path: Path) -> Path:
    """docs/figures for a page in docs/, else figures/ beside the page."""
    docs = ROOT / "docs"
    return docs / "figures" if path.resolve().is_relative_to(docs) else path.parent / "figures"


def make(path: Path, context: Context, findings: Findings) -> Made | None:
    """A page with its generated parts made anew. None if it is malformed; what is wrong is in findings."""
    shown_path = display(path)
    try:
        text = read_text(path)
        page = parse(shown_path, text)
    except (PageError, UsageError) as error:
        findings.errors.append(str(error))
        return None
    step = path.stem if path.stem in values.all_steps() else ""
    here = context.at(step)
    figures: dict[Path, str] = {}
    errors = len(findings.errors)

    def make_value(value: Value) -> str | None:
        where = f"{shown_path}:{value.line + 1}"
        try:
            shown = show(values.evaluate(value.expression, here), value.format)
        except ExpressionError as error:
            findings.errors.append(f"{where}: `{value.expression}`: {error}")
        except NotAvailable as reason:
            of_build = VALUES_OF_THE_BUILD & set(values.sources(value.expression))
            keep(f"{where}: `{value.expression}`", reason, bool(of_build and value.shown.strip()))
        else:
            findings.values += 1
            return shown
        return None

    def make_block(block: Block) -> str | None:
        where = f"{shown_path}:{block.first + 1}"
        folder = figures_folder(path)
        request = Request(here, block.arguments, path.resolve(), folder.resolve())
        try:
            if block.kind not in MAKERS:
                raise BlockError(f"there is no such kind; there are {', '.join(MAKERS)}")
            content = MAKERS[block.kind](request)
        except (BlockError, ExpressionError) as error:
            findings.errors.append(f"{where}: block `{block.kind}`: {error}")
        except NotAvailable as reason:
            filled = any(line.strip() for line in page.lines[block.first + 1 : block.last])
            keep(f"{where}: block `{block.kind}`", reason, block.kind in NEED_THE_BUILD and filled)
        else:
            findings.blocks += 1
            figures.update({folder / name: svg for name, svg in request.figures.items()})
            return content
        return None

    def keep(what: str, reason: NotAvailable, may_be_kept: bool) -> None:
        (findings.kept if may_be_kept else findings.missing).append(f"{what}: {reason}")

    new_text = regenerate(page, make_block, make_value)
    for messages in (findings.errors, findings.missing, findings.kept):
        messages.sort(key=by_place)
    return Made(path, page, step, text, new_text, figures) if len(findings.errors) == errors else None


def by_place(message: str) -> tuple[str, int]:
    """Sorts messages by file and line."""
    match = re.match(r"(.*?):(\d+): ", message)
    return (match[1], int(match[2])) if match else (message, 0)


def display(path: Path) -> Path:
    """The path as messages name it: from the project's root, or as it was given."""
    absolute = path.resolve()
    return absolute.relative_to(ROOT) if absolute.is_relative_to(ROOT) else path


def compare(path: Path, old: str, new: str, findings: Findings) -> None:
    """Prints what generating anew would change."""
    if old == new:
        return
    findings.stale.append(str(display(path)))
    lines = difflib.unified_diff(
        old.splitlines(), new.splitlines(), f"{display(path)}", f"{display(path)} (generated)", lineterm=""
    )
    print("\n".join(lines))


def number_findings(made: Made, definitions: list[Definition]) -> list[str]:
    """The numbers of a page that have no derivation, one line each."""
    kernel = ROOT / "steps" / made.step / "kernel.cu"
    names = values.constants(read_text(kernel)) if made.step else {}
    return stated.check(parse(made.page.path, made.new_text), definitions, names)


def unused_figures(all_made: list[Made]) -> list[str]:
    """The pictures in docs/figures that no page shows."""
    text = "\n".join(made.new_text for made in all_made)
    folder = ROOT / "docs" / "figures"
    return [str(display(path)) for path in sorted(folder.glob("*.svg")) if f"figures/{path.name}" not in text]


def run(args: argparse.Namespace) -> int:
    whole = not args.files
    files = [Path(name) for name in args.files] or sorted((ROOT / "docs").rglob("*.md"))
    build = Path(args.build) if args.build else values.BUILD
    context = Context(build if build.is_dir() else None, "", evidence=Path(args.evidence))
    findings = Findings()
    definitions = stated.definitions()  # a mistake there stops everything
    all_made = [made for path in files if (made := make(path, context, findings))]
    for made in all_made:
        wanted = {made.path: (made.text, made.new_text)}
        for figure, svg in made.figures.items():
            wanted[figure] = (read_text(figure) if figure.exists() else "", svg)
        for place, (old, new) in wanted.items():
            if args.check:
                compare(place, old, new, findings)
            elif old != new:
                place.parent.mkdir(parents=True, exist_ok=True)
                write_whole(place, new)
                print(f"wrote {display(place)}")
        findings.numbers += number_findings(made, definitions)
    unused = unused_figures(all_made) if whole and not findings.errors else []
    return report(args.check, len(files), findings, unused)


def report(check: bool, pages: int, findings: Findings, unused: list[str]) -> int:
    """Says what was found and returns the exit status."""
    for message in findings.errors:
        print(f"error: {message}", file=sys.stderr)
    for message in findings.missing:
        print(f"missing: {message}", file=sys.stderr)
    for message in findings.numbers:
        print(f"number: {message}", file=sys.stderr)
    for name in unused:
        print(f"unused: {name}: no page shows it; delete it", file=sys.stderr)
    if check and findings.stale:
        command = "ladder pages"
        print(f"stale: {', '.join(findings.stale)}: generate anew with {command}", file=sys.stderr)
    for message in findings.kept:
        print(f"kept, not checked: {message}")
    kept = f", {len(findings.kept)} kept and not checked" if findings.kept else ""
    print(f"{pages} pages: {findings.blocks} blocks and {findings.values} values made{kept}")
    if findings.errors:
        return 2
    return 1 if findings.missing or findings.numbers or unused or findings.stale else 0


def main(arguments: list[str] | None = None) -> int:
    parser = Parser(__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 on any difference")
    parser.add_argument("--build", default=os.environ.get("BUILD"), help="the build directory [build]")
    parser.add_argument("--evidence", default=EVIDENCE, help="what was recorded [docs/evidence/h200]")
    parser.add_argument("files", nargs="*", metavar="FILES", help="Markdown files [all under docs/]")
    args = parser.parse_args(arguments)
    return run(args)
