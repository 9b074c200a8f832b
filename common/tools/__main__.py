"""The tools of gemm-ladder, one verb each. In a build: <build>/ladder.

  ladder sass build/steps/05_2d_tiling/run --excerpt

Every verb has its own --help with an example. Exit status: 0 well, 1 something was found wrong, 2 bad usage
or something is missing here; what else a verb has, its --help says.
"""

import difflib
import importlib
import os
import sys

from tools.base import ROOT, UsageError, run_program

# verb: module, function, what it does
GROUPS: dict[str, dict[str, tuple[str, str, str]]] = {
    "measuring": {
        "measure": ("measuring.ladder", "measure", "every step on the device at hand: table, JSON, plot"),
        "plot": ("measuring.ladder", "draw_plots", "a recorded ladder as plots, beside the record"),
        "profile": ("measuring.counters", "main", "Nsight Compute's counters of every step"),
        "experiment": ("measuring.experiment", "main", "small changes to steps that the pages quote"),
        "sweep": ("measuring.sweep", "main", "other values for a step's constants, measured"),
        "variant": ("measuring.variant", "main", "a step's program with other constants, to look inside"),
        "timeline": ("measuring.timeline", "main", "when producer and consumers do what, as recorded"),
        "calibrate": ("measuring.calibrate", "main", "the X-ray against counters recorded on a GPU"),
    },
    "looking inside a kernel": {
        "sass": ("machine_code.sass", "main", "a program's machine code: registers, main loop, conflicts"),
        "architectures": ("machine_code.architectures", "main", "the steps' machine code for other GPUs"),
        "same-code": ("machine_code.identity", "main", "whether two builds have the same machine code"),
        "picture": ("drawing.picture", "main", "one warp's access as a picture, from an X-ray"),
    },
    "pages": {
        "claims": ("claims.claims", "main", "what a step's page claims, checked"),
        "pages": ("pages.pages", "main", "the generated parts of the docs, written or checked"),
        "docs": ("website.build", "main", "the site"),
        "slides": ("pages.slides", "main", "a deck of slides for each lecture"),
    },
    "exercises": {
        "exercises": ("grading.program", "main", "the exercises, also as <build>/exercises"),
    },
}


def overview() -> str:
    lines = [(__doc__ or "").strip(), ""]
    for group, verbs in GROUPS.items():
        lines += [f"{group}:", *(f"  {verb:<15} {what}" for verb, (_, _, what) in verbs.items()), ""]
    return "\n".join(lines).rstrip()


def main() -> int:
    verbs = {verb: entry for group in GROUPS.values() for verb, entry in group.items()}
    program = os.environ.get("LADDER_PROGRAM", "ladder")
    verb = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if verb in ("-h", "--help", "help"):
        print(overview())
        return 0
    if verb not in verbs:
        near = difflib.get_close_matches(verb, verbs)
        hint = f"did you mean {' or '.join(near)}?" if near else f"`{program} --help` shows what there is"
        raise UsageError(f"there is no verb '{verb}'; {hint}")
    module, function, _ = verbs[verb]
    sys.argv = [f"{program} {verb}", *sys.argv[2:]]  # what argparse calls the program
    try:
        return getattr(importlib.import_module(f"tools.{module}"), function)()
    except ModuleNotFoundError as missing:
        if (missing.name or "tools").startswith("tools"):
            raise
        how = f"run ./setup.sh, or {sys.executable} -m pip install -r {ROOT / 'requirements.txt'}"
        raise UsageError(f"the Python package {missing.name} is not installed: {how}") from None


sys.exit(run_program(main))
