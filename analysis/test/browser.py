# SPDX-License-Identifier: MIT
"""A real browser for the tests of the report: headless Chromium, driven by Selenium, with an empty profile and without
network access of its own.
"""

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
MISSING = "" if CHROMIUM and DRIVER else "chromium or chromedriver is not installed (tools/setup installs both)"
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
)  # fmt: skip


class Browser:
    """`open` a page at a size and in a colour scheme; then query it. `downloads`: the folder where files are saved."""

    def __init__(self, driver: webdriver.Chrome, downloads: Path) -> None:
        self.driver, self.downloads = driver, downloads

    def open(self, path: Path, width: int = 1280, height: int = 900, scheme: str = "light") -> None:
        """Loads a file; discards earlier pages' log."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        for kind in ("browser", "performance"):
            self.driver.get_log(kind)
        self.driver.get(path.as_uri())

    def ask(self, script: str, *arguments: object) -> object:
        """The result of the JavaScript, after its promises."""
        return self.driver.execute_script(script, *arguments)

    def said(self) -> list[dict]:
        """The console's warnings and errors."""
        return self.driver.get_log("browser")

    def requests(self) -> list[str]:
        """Addresses of all requests since the page was opened."""
        events = (json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance"))
        return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]


@contextmanager
def browser() -> Iterator[Browser]:
    """A separate browser; it is ended and its profile removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="heaptape-browser-", ignore_cleanup_errors=True) as folder:
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for flag in (*FLAGS, f"--user-data-dir={folder}/profile"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        driver = webdriver.Chrome(options=options, service=Service(DRIVER))
        try:
            downloads = Path(folder) / "downloads"
            downloads.mkdir()
            behaviour = {"behavior": "allow", "downloadPath": str(downloads)}
            driver.execute_cdp_cmd("Browser.setDownloadBehavior", behaviour)
            yield Browser(driver, downloads)
        finally:
            driver.quit()
