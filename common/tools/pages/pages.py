"""Writes the generated parts of the docs, or checks that they are as they would be written.

  ladder pages docs/steps/06_vectorization.md

FILES are Markdown files, by default README.md and all under docs/; e.g. `ladder pages docs/map.md`. A page
docs/steps/NN_name.md belongs to that step: `here` and `before` in its expressions are this step and the one
before. Generated parts are blocks

  <!-- generate: KIND ARGUMENTS -->
  <!-- end -->

  diff [before=NN]           kernel.cu against the previous step's, or NN's, without the comment at its top
  code FROM .. TO            kernel.cu from the line that holds FROM to the next that holds TO
  xray [STEP ...]            the memory accesses
  picture OP ARRAY [line=TEXT] [banks|sectors]    one warp's access, e.g. `picture load As`
  compare OP ARRAY [STEP ...]    the banks of one access to shared memory in several steps, by default in the
                             one before and this
  fragments NAME             which lane holds which element, as mma_tf32
  ldmatrix ARRAY             the rows that an ldmatrix reads, their banks, and who gets them
  descriptor [play] [k=N]    where a wgmma finds its operands; the site plays with it if it says `play`
  swizzle ARRAY OP           where the groups of 16 bytes lie, and which an access touches
  tiling                     who computes what of a block's tile of C, and what of A and B that takes; on the
                             site with what the recording says of every lane, figures/play/NN_name.js
  stream_k                   which block works when on which k-tiles (of step 14); on the site with other
                             numbers of tiles and multiprocessors, figures/play/NN_name_schedule.js
  shape_tiles N ROWS COLS    N x N of C in the tiles of the step before and in smaller ones: how many SMs work
  launches NAME N            products of N in a row, as an experiment's launches overlap, and as they do not
  split_bits NUMBER [unscaled [raised]]    a float split into two FP16 numbers, bit by bit, e.g.
                             `split_bits 1/3`; raised: with the low part times 2^11, too
  guard_parts                which parts of a C step 46 refuses, and why
  cluster_split K            how the blocks of a cluster split lines of K terms, by split.hpp
  error_over_k [STEP ...]    the largest error over K, at M = N = 512, as recorded in the ladder
  warpgroups [STEP ...]      a block's tile, what is copied for it, each warpgroup's part, by constants
  timeline                   when each tile is copied into which stage, waited for and computed from
  ring                       the stages between a producer and its consumers, by the kernel's constants
  order N                    which tiles of C are computed at the same time, by the kernel's find_tile()
  schedule DEVICE K_TILES    what `ladder timeline` recorded, gpu or cpu, around the end of a tile of C
  sass loop [N] [only=LDS,LDG]    the main loop's machine code, at most N lines of it
  sass FROM .. TO            the machine code from an instruction that holds FROM to one that holds TO
  profile [STEP ...]         counters, by default those of the previous step and this
  stalls [STEP ...]          the reasons why warps wait
  speed [STEP ...]           time, TFLOP/s and fraction of cuBLAS at several sizes
  ladder                     every step: TFLOP/s and fraction of cuBLAS at a few sizes
  shapes                     time and fraction of cuBLAS at every shape that was measured
  roofline                   the steps so far, this one marked
  experiment NAME            the variants of an experiment
  attribution NAME           what each part of the step's change is worth, by an experiment
  claims                     what the step's claims.toml says
  architectures STEP         the main loop as compiled for each GPU
  architectures same         which GPUs get the same code
  architectures where        which steps compile for which GPU
  calibration                how far the X-ray agrees with the GPU's counters
                             (diff, code, picture, ldmatrix, descriptor, swizzle, tiling, timeline, ring,
                             order, schedule, sass, shapes, roofline and claims take step=NN)

and inline values, in one line and not at its beginning, with a format as Python's format() takes it:

  It takes <!--= xray(here).load('B').sectors_per_request | .0f -->4<!--/--> sectors.

Where NAME.ipynb lies beside NAME.md, it is made of that page: see notebook.py.

values.py says what an expression may hold. Every other number in prose has to be a definition
(docs/definitions.toml) or a part of an equation that holds; see stated.py.

With --words it generates nothing. It counts, by default for each step's page, the words that a reader meets
without unfolding anything, and those before the first picture; tables, code, generated blocks and the checked
claims do not count. It says which step's page is too long, or shows its picture too late.

Exit status: 0 all is as it should be; 1 --check found a difference, a number has no derivation, something is
not recorded yet, or --words found a fault; 2 a page is malformed. Standard library only.
"""

import difflib
import re
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.base import BUILD, ROOT, Parser, UsageError, read_text, write_whole
from tools.claims import values
from tools.claims.constants import constants
from tools.claims.context import Context
from tools.claims.objects import ExpressionError, NotAvailable
from tools.pages import architectures, evidence, experiments, layouts, stated, words  # noqa: F401  (four register kinds)
from tools.pages.blocks import MAKERS, OF_BUILD, Request
from tools.pages.notebook import notebook_beside, to_notebook
from tools.pages.page import regenerate


def show(value: Any, form: str) -> str:
    """A value as the page shows it. ExpressionError if the format does not fit."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ExpressionError(f"the value {value!r} is neither number nor text")
    try:
        if not form and isinstance(value, float):
            return f"{value:.0f}" if value == int(value) and abs(value) < 1e15 else f"{value:.4g}"
        shown = format(value, form)
        return (
            shown if isinstance(value, str) else shown.replace(",", "\N{NARROW NO-BREAK SPACE}")
        )  # as in tables
    except (ValueError, TypeError) as error:
        raise ExpressionError(f"the format '{form}' does not fit {value!r}: {error}") from None


@dataclass
class Run:
    """Makes pages anew and keeps what there is to say. said: by what is wrong: "error", a malformed page;
    "missing", not recorded or built, so not written; "number", without a derivation; "unused", a figure;
    "stale"; and "kept", of a build that is not there, which is not wrong."""

    context: Context
    check: bool
    definitions: list[Any]
    said: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    made: Counter[str] = field(default_factory=Counter)

    def display(self, path: Path) -> Path:
        """The path as messages name it: from the project's root, or as it was given."""
        absolute, root = path.resolve(), self.context.root.resolve()
        return absolute.relative_to(root) if absolute.is_relative_to(root) else path

    def page(self, path: Path) -> str:
        """Writes or compares a page and its figures; returns its new text, "" if it is malformed."""
        shown_path, docs = self.display(path), self.context.root / "docs"
        errors = len(self.said["error"])
        step = path.stem if path.stem in self.context.steps() else ""
        here = self.context.at(step)
        # docs/figures for a page in docs/, else figures/ beside the page.
        inside = path.resolve().is_relative_to(docs.resolve())
        request = Request(here, path.resolve(), ((docs if inside else path.parent) / "figures").resolve())
        try:
            text = read_text(path)
            new_text = regenerate(shown_path, text, lambda where, part: self.part(where, part, request))
        except UsageError as error:
            self.said["error"].append(str(error))
        if len(self.said["error"]) > errors:
            return ""
        self.put(path, text, new_text)
        if notebook := notebook_beside(path):
            self.put(notebook, read_text(notebook), to_notebook(new_text))
        for name, svg in request.figures.items():
            figure = request.figures_folder / name
            self.put(figure, read_text(figure) if figure.exists() else "", svg)
        names = constants(read_text(here.kernel(step))) if step else {}
        self.said["number"] += stated.check(shown_path, new_text, self.definitions, names)
        return new_text

    def part(self, where: str, part: re.Match[str], request: Request) -> str | None:
        """What a generated part ought to be; None if that cannot be had."""
        kind, name = part["kind"], f"block `{part['kind']}`"
        try:
            if kind in MAKERS:
                of_build = kind in OF_BUILD
                text = MAKERS[kind](request, (part["arguments"] or "").strip())
            elif kind:
                raise UsageError(f"there is no such kind; there are {', '.join(MAKERS)}")
            else:
                # Within a table the bar has to be escaped.
                expression, _, form = part["expression"].replace("\\|", "|").partition("|")
                name = f"`{expression.strip()}`"
                of_build = bool({"xray", "sass"} & set(values.sources(expression)))
                text = show(values.evaluate(expression, request.context), form.strip())
        except UsageError as error:
            self.said["error"].append(f"{where}: {name}: {error}")
        except NotAvailable as reason:
            kept = of_build and (part["content"] or part["shown"] or "").strip()
            self.said["kept" if kept else "missing"].append(f"{where}: {name}: {reason}")
        else:
            self.made["block" if kind else "value"] += 1
            return text
        return None

    def put(self, path: Path, old: str, new: str) -> None:
        """Writes a file, or prints what generating it anew would change."""
        if old == new:
            return
        if not self.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, new)
            print(f"wrote {self.display(path)}")
            return
        name = str(self.display(path))
        self.said["stale"].append(name)
        versions = old.splitlines(), new.splitlines(), name, f"{name} (generated)"
        print("\n".join(difflib.unified_diff(*versions, lineterm="")))

    def report(self, pages: int) -> int:
        """Says what was found and returns the exit status."""
        for kind in ("error", "missing", "number", "unused"):
            for message in self.said[kind]:
                print(f"{kind}: {message}", file=sys.stderr)
        if self.said["stale"]:
            print(f"stale: {', '.join(self.said['stale'])}: generate anew with ladder pages", file=sys.stderr)
        for message in self.said["kept"]:
            print(f"kept, not checked: {message}")
        kept = f", {len(self.said['kept'])} kept and not checked" if self.said["kept"] else ""
        print(f"{pages} pages: {self.made['block']} blocks and {self.made['value']} values made{kept}")
        if self.said["error"]:
            return 2
        return 1 if any(messages for kind, messages in self.said.items() if kind != "kept") else 0


def report_words(files: list[Path], root: Path) -> int:
    """Prints how long the pages are, and what is wrong with those of steps; returns the exit status."""
    steps = (root / "docs" / "steps").resolve()
    found = 0
    print("words  before the picture")
    for path in files:
        text = read_text(path)
        picture = words.first_picture(text)
        before = "-" if picture is None else words.count(text[:picture])
        faults = words.faults(text) if path.resolve().parent == steps else []
        found += len(faults)
        print(": ".join([f"{words.count(text):5}  {before:>6}  {path.stem}", *faults]))
    return 1 if found else 0


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    parser = Parser(__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 on any difference")
    parser.add_argument("--words", action="store_true", help="count the words that a page shows unfolded")
    parser.add_argument("--build", type=Path, default=BUILD, help="the build directory [build]")
    parser.add_argument("--evidence", type=Path, help="the directory of all records [docs/evidence/<gpu>]")
    parser.add_argument("files", nargs="*", type=Path, help="Markdown files [README.md, docs/]")
    args = parser.parse_args(arguments)
    if args.words:
        return report_words(args.files or sorted((root / "docs" / "steps").glob("*.md")), root)
    context = Context(args.build if args.build.is_dir() else None, "", root=root, evidence=args.evidence)
    run = Run(context, args.check, stated.definitions(root))  # a mistake there stops everything
    files = args.files or [*root.glob("README.md"), *sorted((root / "docs").rglob("*.md"))]
    text = "\n".join([run.page(path) for path in files])
    if not args.files and not run.said["error"]:
        figures = root / "docs" / "figures"
        links = {path: f"figures/{path.name}" for path in sorted(figures.glob("*.svg"))}
        for path in sorted((figures / "play").glob("*.js")):
            links[path] = f"figures/{path.stem}" + "_tiling_" * (path.stem in context.steps())
        for path in (path for path, link in links.items() if link not in text):
            what = "it" if path.suffix == ".svg" else "its picture"
            run.said["unused"].append(f"{run.display(path)}: no page shows {what}; delete it")
    return run.report(len(files))
