"""Pictures of the site's pages, for people to look at: ladder screenshots build/site --out DIR [PAGE...]

Writes PAGE-WIDTH-SCHEME.png for every page of a built site (or those named, such as steps/05_2d_tiling.html),
as a desktop and a phone show it, light and dark. Needs Chromium: ./setup.sh --browser.
"""

import sys
from pathlib import Path

from tools.base import Parser
from tools.website.browser import DESKTOP, PHONE, Browser, NoBrowser, page_paths


def main() -> int:
    parser = Parser(__doc__)
    parser.add_argument("site", type=Path, help="a built site, such as build/site")
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="such as index.html (default: all)")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the pictures go")
    parser.add_argument("--screen", action="store_true", help="only what a screen shows, not the whole page")
    arguments = parser.parse_intermixed_args()
    site = arguments.site.resolve()
    pages = [Path(page) for page in arguments.pages] or page_paths(site)
    missing = [str(page) for page in pages if not (site / page).is_file()]
    if missing or not pages:
        what = ", ".join(missing) if missing else "pages; build them: meson compile -C build docs"
        print(f"error: {site} has no {what}", file=sys.stderr)
        return 2
    try:
        with Browser() as browser:
            arguments.out.mkdir(parents=True, exist_ok=True)
            for scheme in ("light", "dark"):
                browser.system_colours(scheme)
                for width in (DESKTOP, PHONE):
                    browser.size(width, scale=2 if width == PHONE else 1)
                    for page in pages:
                        browser.open((site / page).as_uri())
                        name = "_".join(page.with_suffix("").parts)
                        picture = arguments.out / f"{name}-{width}-{scheme}.png"
                        picture.write_bytes(browser.png(whole_page=not arguments.screen))
                        print(picture)
    except NoBrowser as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    return 0
