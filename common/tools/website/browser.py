"""A headless Chromium that opens pages of the site, for the tests and for ladder screenshots.

  with Browser() as browser:
      browser.size(390, phone=True)
      browser.open((site / "index.html").as_uri())

Raises NoBrowser, with one line that says what to install, where there is no Chromium, driver or Selenium.
"""

import base64
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from tools.base import UsageError

DESKTOP, PHONE = 1400, 390  # CSS pixels
HEIGHT = {DESKTOP: 900, PHONE: 844}
LOAD_LIMIT_S = 30


class NoBrowser(UsageError):
    """Why there is no browser here, in one line."""


def find_programs() -> tuple[str, str]:
    """The browser and its driver. Raises NoBrowser."""
    names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]
    browser = next((path for name in names if (path := shutil.which(name))), None)
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        missing = "Chromium" if browser is None else "chromedriver"
        raise NoBrowser(
            f"{missing} is not installed: ./setup.sh --browser, or apt-get install chromium chromium-driver"
        )
    return browser, driver


class Browser:
    """One window. Nothing it loads may come from another machine: names do not resolve in it."""

    def __init__(self) -> None:
        program, driver = find_programs()
        try:
            from selenium import webdriver
        except ImportError:
            raise NoBrowser("the Python package selenium is not installed: run ./setup.sh") from None
        self._profile = tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True)
        options = webdriver.ChromeOptions()
        options.binary_location = program
        for argument in (
            "--headless=new",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-extensions",
            "--disable-sync",
            "--hide-scrollbars",
            "--no-first-run",
            "--no-sandbox",  # which root and containers cannot have; the pages are our own
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            f"--user-data-dir={self._profile.name}",
        ):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        service = webdriver.ChromeService(executable_path=driver)
        try:
            self._driver = webdriver.Chrome(options=options, service=service)
        except BaseException:
            self._profile.cleanup()
            raise
        self._driver.set_page_load_timeout(LOAD_LIMIT_S)
        self.width = 0
        self.size(DESKTOP)
        self.open("about:blank")
        self.errors(), self.requests()  # what starting up did

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        self._driver.quit()
        self._profile.cleanup()

    # ---- What the page is shown on ----

    def size(self, width: int, scale: float = 1) -> None:
        """The screen's width in CSS pixels; PHONE is a touch screen. `scale`: its pixels to a CSS pixel."""
        self.width = width
        self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=HEIGHT.get(width, 900),
            deviceScaleFactor=scale,
            mobile=width == PHONE,
        )

    def system_colours(self, scheme: str) -> None:
        """What the system prefers: "light" or "dark"."""
        self.command(
            "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}]
        )

    # ---- Pages ----

    def open(self, url: str) -> None:
        """Opens a page and waits until it is loaded, images included."""
        self._driver.get(url)

    @property
    def url(self) -> str:
        return self._driver.current_url

    def run(self, script: str, *arguments: Any) -> Any:
        """The value that the body of a JavaScript function returns; `arguments` are its arguments."""
        return self._driver.execute_script(script, *arguments)

    def wait(self, script: str, *arguments: Any, what: str, limit_s: float = 10) -> Any:
        """Waits until the script returns something true, and returns that. Raises TimeoutError."""
        from selenium.common.exceptions import TimeoutException
        from selenium.webdriver.support.ui import WebDriverWait

        wait = WebDriverWait(self._driver, limit_s, poll_frequency=0.1)
        try:
            return wait.until(lambda _: self.run(script, *arguments))
        except TimeoutException:
            raise TimeoutError(f"{what}: nothing in {limit_s} s on {self.url}") from None

    def click(self, selector: str) -> None:
        """Clicks the first such element, which must be in sight."""
        self._driver.find_element("css selector", selector).click()

    def type(self, selector: str, text: str) -> None:
        """Clicks an element and types."""
        element = self._driver.find_element("css selector", selector)
        element.click()
        element.send_keys(text)

    def command(self, name: str, **parameters: Any) -> dict[str, Any]:
        """A command of the Chrome DevTools protocol."""
        return self._driver.execute_cdp_cmd(name, parameters)

    def png(self, whole_page: bool = True) -> bytes:
        """A picture of the page, or of what the screen shows of it."""
        shot = self.command(
            "Page.captureScreenshot", captureBeyondViewport=whole_page, **self._clip(whole_page)
        )
        return base64.b64decode(shot["data"])

    def _clip(self, whole_page: bool) -> dict[str, Any]:
        if not whole_page:
            return {}
        height = self.run("return document.documentElement.scrollHeight")
        return {"clip": {"x": 0, "y": 0, "width": self.width, "height": height, "scale": 1}}

    # ---- What happened since the last time it was asked ----

    def errors(self) -> list[str]:
        """The errors in the console."""
        return [entry["message"] for entry in self._driver.get_log("browser") if entry["level"] == "SEVERE"]

    def requests(self) -> list[str]:
        """The addresses of everything that was asked for, loaded or not."""
        events = (json.loads(entry["message"])["message"] for entry in self._driver.get_log("performance"))
        return [
            event["params"]["request"]["url"]
            for event in events
            if event["method"] == "Network.requestWillBeSent"
        ]


def page_paths(site: Path) -> list[Path]:
    """The pages of a built site that people wrote: the start page first, then in order of their names."""
    pages = [path.relative_to(site) for path in site.rglob("*.html")]
    written = [path for path in pages if path.parts[0] != "source" and path.name != "404.html"]
    return sorted(written, key=lambda path: (path != Path("index.html"), path))
