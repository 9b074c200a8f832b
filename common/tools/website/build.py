"""Builds the site from docs/ and mkdocs.yml.

  ladder docs --out build/site

Exit status 0, or 1 with the reasons: any broken link, image or anchor is one. A site that was there before is
replaced only by one that is complete. Needs no network.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import material  # noqa: F401  (MkDocs would say in several lines that its theme is missing)

from tools.base import ROOT, Parser, UsageError


def main() -> int:
    parser = Parser(__doc__)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="the site; DIR is replaced")
    parser.add_argument(
        "--docs", type=Path, metavar="DIR", default=ROOT / "docs", help="the Markdown [docs/]"
    )
    arguments = parser.parse_args()
    out = arguments.out.resolve()
    if out.exists() and not (out / "search").is_dir():
        raise UsageError(f"{out} is there and is not a site; choose another --out")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=out.name + "-") as directory:
        site = Path(directory) / "site"
        # The first silences the theme's advertisement of its successor.
        environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "LADDER_DOCS": str(arguments.docs.resolve())}
        command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
        command += ["--config-file", str(ROOT / "mkdocs.yml"), "--site-dir", str(site)]
        result = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, check=False)
        if result.returncode:
            said = [line for line in result.stderr.splitlines() if not line.startswith("INFO")]
            print(*said, sep="\n", file=sys.stderr)
            return 1
        shutil.rmtree(out, ignore_errors=True)
        site.rename(out)
    print(f"open {out / 'index.html'}")
    return 0
