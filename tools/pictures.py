#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""docs/report.png and docs/report-phone.png: the first screens of the report of the demo's redis; prints how long
it took to open. Usage, after `make demo`: tools/pictures.py OUT/demo/redis.json
"""

import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "analysis"), str(ROOT / "analysis" / "test")]

from browser import browser  # noqa: E402
from heaptape.results.comparing.compare import choose_baseline  # noqa: E402
from heaptape.results.schema import results  # noqa: E402
from heaptape.show.pages import page  # noqa: E402

DRAWN_S = 1.0  # charts are made after layout
PICTURES = {"report.png": (1400, 900, "light"), "report-phone.png": (400, 900, "dark")}
OPENED_MS = "return performance.getEntriesByType('navigation')[0].loadEventEnd"


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__.partition("Usage")[2].strip(), file=sys.stderr)
        return 2
    source = Path(sys.argv[1]).resolve()
    report = source.with_suffix(".html")
    files = [results(source)]
    report.write_text(page.make(files, choose_baseline(files, None)))
    print(f"{report}: {report.stat().st_size:,} bytes")
    with browser() as chromium:
        for name, (width, height, scheme) in PICTURES.items():
            chromium.open(report, width, height, scheme)
            time.sleep(DRAWN_S)
            chromium.driver.save_screenshot(str(ROOT / "docs" / name))
            tall, opened_ms = chromium.ask("return document.documentElement.scrollHeight"), chromium.ask(OPENED_MS)
            print(f"docs/{name}: {width} wide: {tall:,} pixels tall, opened in {opened_ms:,.0f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
