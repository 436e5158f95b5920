# SPDX-License-Identifier: MIT
"""The comment in a pull request: what it says, and that there is one of it. GitHub is a server of this test."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from heaptape.features.gate import comment


def data(**figures: tuple[float, float, str]) -> dict:
    """A gate on one workload. Figures: old, new, verdict."""
    held = {
        name.replace("_", "-"): {
            "unit": "bytes" if "rss" in name else "count", "old": [old], "new": [new], "verdict": verdict,
            "change_percent": 100 * (new / old - 1), "span_percent": 0, "beyond": "", "tolerated": "2 %",
        }
        for name, (old, new, verdict) in figures.items()
    }  # fmt: skip
    failed = any(one["verdict"] == "worse" for one in held.values())
    workload = {"name": "redis", "source": "redis.tape", "workload": {"ops": 1}, "failed": failed, "errors": [],
                "broken": {"old": "", "new": ""}, "figures": held}  # fmt: skip
    named = {side: {"name": f"lib{side}.so", "version": "", "sha256": ""} for side in ("old", "new")}
    return named | {"passed": not failed, "workloads": [workload], "minimised": [], "not_minimised": []}


SAME = data(instructions=(1000, 1001, "within"), rss_peak=(1 << 20, 1 << 20, "within"))
BETTER = data(instructions=(1_000_000, 520_000, "within"), rss_peak=(10 << 20, 107 << 17, "shown"))
WORSE = data(instructions=(1_000_000, 1_200_000, "worse"), rss_peak=(1 << 20, 1 << 20, "within"))


def test_nothing_changed_is_one_line():
    text = comment.body(SAME).removeprefix(comment.MARK).strip()
    assert text == "**heaptape gate:** no figure of 1 workload changed by 1 % or more."


def test_better_says_by_how_much_and_where():
    text = comment.body(BETTER)
    assert "instructions -48 % on redis; peak memory +34 % on redis." in text
    assert "| redis | malloc and free, instructions | 1,000,000 | 520,000 | -48 % |" in text
    assert "| redis | peak memory | 10.0 MiB | 13.4 MiB | +34 % |" in text


def test_worse_says_which_figure_fails():
    text = comment.body(WORSE)
    assert "libnew.so against libold.so: 1 of 1 workload fails." in text
    assert "| 1,000,000 | 1,200,000 | +20 % worse |" in text


def test_a_failing_recording_is_named():
    failing = data() | {"passed": False}
    failing["workloads"][0] |= {"failed": True, "errors": ["the replay was killed"]}
    assert "- redis: the replay was killed" in comment.body(failing)


@pytest.fixture
def github():
    """Comments of a pull request, 100 of others before ours; answers as GitHub's API does."""
    kept = [{"url": "", "body": f"a comment {n}"} for n in range(100)]

    class Server(BaseHTTPRequestHandler):
        def answer(self, found: object) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(found).encode())

        def sent(self) -> str:
            return json.loads(self.rfile.read(int(self.headers["Content-Length"])))["body"]

        def do_GET(self):  # noqa: N802
            page = int(self.path.rpartition("page=")[2])
            self.answer(kept[100 * (page - 1) : 100 * page])

        def do_POST(self):  # noqa: N802
            kept.append({"url": f"{address}/comments/{len(kept)}", "body": self.sent()})
            self.answer(kept[-1])

        def do_PATCH(self):  # noqa: N802
            kept[int(self.path.rpartition("/")[2])]["body"] = self.sent()
            self.answer({})

        def log_message(self, *words: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        address = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever).start()
        yield f"{address}/issues/1/comments", kept
        server.shutdown()


def test_one_comment_is_made_where_something_changed_and_updated_in_place(github):
    url, kept = github
    comment.post(comment.body(SAME), url, "token")
    assert len(kept) == 100
    for found in (WORSE, BETTER, SAME):
        comment.post(comment.body(found), url, "token")
        assert [one["body"] for one in kept[100:]] == [comment.body(found)]
