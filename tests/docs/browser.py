#!/usr/bin/env python3
"""A browser for tests of the site; and pictures of its pages, for people to look at.

  browser.py build/site --out build/pictures index.html steps/05_2d_tiling.html

Writes PAGE-WIDTH-SCHEME.png for every page of a built site, or for those named, as a desktop and a phone
show it, light and dark. Needs Chromium: ./setup.sh --browser.
"""

import argparse
import base64
import json
import shutil
import sys
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait

DESKTOP, PHONE = 1400, 390  # CSS pixels
LOAD_LIMIT_S, WAIT_LIMIT_S = 30, 10


class NoBrowser(Exception):
    """Why there is no browser here, in one line."""


class Browser(webdriver.Chrome):
    """A headless Chromium: one window, used as `with Browser() as browser`. Raises NoBrowser without one.

    Nothing it loads may come from another machine: names do not resolve in it.
    """

    def __init__(self) -> None:
        names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
        program = next((path for name in names if (path := shutil.which(name))), None)
        driver = shutil.which("chromedriver")
        if program is None or driver is None:
            missing = "Chromium" if program is None else "chromedriver"
            how = "./setup.sh --browser, or apt-get install chromium chromium-driver"
            raise NoBrowser(f"{missing} is not installed: {how}")
        options = webdriver.ChromeOptions()
        options.binary_location = program
        for argument in (
            "--headless=new",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--no-sandbox",  # which root and containers cannot have; the pages are our own
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        ):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        super().__init__(options, webdriver.ChromeService(executable_path=driver))
        self.set_page_load_timeout(LOAD_LIMIT_S)
        self.size(DESKTOP)
        self.get("about:blank")
        self.errors(), self.requests()  # what starting up did

    def size(self, width: int, scale: float = 1) -> None:
        """The screen's width in CSS pixels; PHONE is a touch screen. `scale`: its pixels to a CSS pixel."""
        self.width = width
        screen = {"width": width, "height": 844 if width == PHONE else 900, "deviceScaleFactor": scale}
        self.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {**screen, "mobile": width == PHONE})

    def system_colours(self, scheme: str) -> None:
        """What the system prefers: "light" or "dark"."""
        preferred = {"name": "prefers-color-scheme", "value": scheme}
        self.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [preferred]})

    def run(self, script: str, *arguments: Any) -> Any:
        """The value that the body of a JavaScript function returns; `arguments` are its arguments."""
        return self.execute_script(script, *arguments)

    def wait(self, script: str, what: str) -> Any:
        """Waits until the script returns something true, and returns that. Raises TimeoutException."""
        return WebDriverWait(self, WAIT_LIMIT_S, poll_frequency=0.1).until(lambda _: self.run(script), what)

    def click(self, selector: str) -> None:
        """Clicks the first such element, which must be in sight."""
        self.find_element("css selector", selector).click()

    def type(self, selector: str, text: str) -> None:
        """Clicks an element and types."""
        self.click(selector)
        self.find_element("css selector", selector).send_keys(text)

    def png(self) -> bytes:
        """A picture of the whole page."""
        height = self.run("return document.documentElement.scrollHeight")
        clip = {"x": 0, "y": 0, "width": self.width, "height": height, "scale": 1}
        wanted = {"captureBeyondViewport": True, "clip": clip}
        return base64.b64decode(self.execute_cdp_cmd("Page.captureScreenshot", wanted)["data"])

    def errors(self) -> list[str]:
        """The errors in the console since the last time this was asked."""
        return [entry["message"] for entry in self.get_log("browser") if entry["level"] == "SEVERE"]

    def requests(self) -> list[str]:
        """The addresses of all that was asked for, loaded or not, since the last time this was asked."""
        events = [json.loads(entry["message"])["message"] for entry in self.get_log("performance")]
        sent = [event["params"] for event in events if event["method"] == "Network.requestWillBeSent"]
        return [event["request"]["url"] for event in sent]


def page_paths(site: Path) -> list[Path]:
    """The pages of a built site that people wrote: the start page first, then in order of their names."""
    pages = [path.relative_to(site) for path in site.rglob("*.html")]
    written = [path for path in pages if path.parts[0] != "source" and path.name != "404.html"]
    return sorted(written, key=lambda path: (path != Path("index.html"), path))


def take_pictures() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("site", type=Path, help="a built site, such as build/site")
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="such as index.html (default: all)")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the pictures go")
    arguments = parser.parse_intermixed_args()
    site = arguments.site.resolve()
    pages = [Path(page) for page in arguments.pages] or page_paths(site)
    missing = [str(page) for page in pages if not (site / page).is_file()]
    if missing or not pages:
        what = ", ".join(missing) if missing else "pages; build them: meson compile -C build docs"
        parser.error(f"{site} has no {what}")
    with Browser() as browser:
        arguments.out.mkdir(parents=True, exist_ok=True)
        for scheme in ("light", "dark"):
            browser.system_colours(scheme)
            for width in (DESKTOP, PHONE):
                browser.size(width, scale=2 if width == PHONE else 1)
                for page in pages:
                    browser.get((site / page).as_uri())
                    name = "_".join(page.with_suffix("").parts)
                    picture = arguments.out / f"{name}-{width}-{scheme}.png"
                    picture.write_bytes(browser.png())
                    print(picture)


if __name__ == "__main__":
    try:
        take_pictures()
    except NoBrowser as problem:
        sys.exit(f"error: {problem}")
