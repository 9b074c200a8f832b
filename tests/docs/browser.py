"""A browser for tests of the site. Needs Chromium: ./setup.sh --browser."""

import base64
import json
import shutil
from typing import Any

from conftest import DESKTOP, PHONE
from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait

LOAD_LIMIT_S, WAIT_LIMIT_S = 30, 10


class NoBrowser(Exception):
    """Why there is no browser here, in one line."""


class Browser(webdriver.Chrome):
    """A headless Chromium: one window, used as `with Browser() as browser`. Raises NoBrowser without one.

    Nothing it loads may come from another machine: names do not resolve in it.
    """

    def __init__(self, *more: str) -> None:
        """more: arguments of Chromium's."""
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
            *more,
        ):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        super().__init__(options, webdriver.ChromeService(executable_path=driver))
        self.set_page_load_timeout(LOAD_LIMIT_S)
        self.size(DESKTOP)
        self.get("about:blank")
        self.errors(), self.requests()  # what starting up did

    def size(self, width: int) -> None:
        """The screen's width in CSS pixels; PHONE is a touch screen."""
        self.width = width
        screen = {"width": width, "height": 844 if width == PHONE else 900, "deviceScaleFactor": 1}
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
