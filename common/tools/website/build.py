"""Builds the site from docs/ and mkdocs.yml: ladder docs --out build/site

Exit status 0, or 1 with the reasons: any broken link, image or anchor is one. A site that was there before is
replaced only by one that is complete. Needs no network.
"""

import logging
import os
import shutil
import sys
import tempfile
from pathlib import Path

from tools.base import ROOT, Parser

os.environ["NO_MKDOCS_2_WARNING"] = "1"  # the theme's advertisement of its successor


class Lines(logging.Formatter):
    """One line a message, as our other tools write them."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{record.levelname.lower()}: {' '.join(record.getMessage().split())}"


def build(docs: Path, out: Path) -> int:
    """Builds the site of the Markdown in `docs` as the directory `out`. Returns the exit status."""
    try:
        import material  # noqa: F401
        from mkdocs.commands.build import build as build_site
        from mkdocs.config import load_config
        from mkdocs.exceptions import ConfigurationError
    except ImportError as missing:
        print(
            f"error: the site needs MkDocs Material ({missing}): run ./setup.sh, or with this Python: "
            f"{sys.executable} -m pip install -r {ROOT / 'requirements.txt'}",
            file=sys.stderr,
        )
        return 1

    handler = logging.StreamHandler()
    handler.setFormatter(Lines())
    logger = logging.getLogger("mkdocs")
    logger.setLevel(logging.WARNING)
    logger.addHandler(handler)
    logger.propagate = False

    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=out.name + "-") as directory:
        site = Path(directory) / "site"
        try:
            config = load_config(
                config_file=str(ROOT / "mkdocs.yml"), docs_dir=str(docs), site_dir=str(site), strict=True
            )
            config.plugins.on_startup(command="build", dirty=False)
            build_site(config)
            config.plugins.on_shutdown()
        except ConfigurationError as error:
            print(f"error: mkdocs.yml: {error}", file=sys.stderr)
            return 1
        except SystemExit as stop:  # strict mode: the warnings above count as errors
            print(f"error: no site was built: {stop}", file=sys.stderr)
            return 1
        if out.exists():
            shutil.rmtree(out)
        site.rename(out)
    return 0


def main() -> int:
    parser = Parser(__doc__)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="the site; DIR is replaced")
    parser.add_argument(
        "--docs", type=Path, default=ROOT / "docs", metavar="DIR", help="the Markdown (default: docs/)"
    )
    arguments = parser.parse_args()
    out = arguments.out.resolve()
    if out.exists() and not (out / "search").is_dir():
        print(f"error: {out} is there and is not a site; choose another --out", file=sys.stderr)
        return 1
    status = build(arguments.docs.resolve(), out)
    if status == 0:
        print(f"open {out / 'index.html'}")
    return status
