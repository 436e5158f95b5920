# SPDX-License-Identifier: MIT
"""The comment in a pull request: what it says, and that there is one. GitHub and GitLab are a server of this test."""

import json
import threading
from collections.abc import Iterator
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


class Forge(ThreadingHTTPServer):
    """The comments of a pull request, 100 of others before ours: GitHub's and GitLab's API, as far as it is used."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.address = f"http://127.0.0.1:{self.server_address[1]}"
        self.kept = [{"id": n, "url": "", "body": f"a comment {n}"} for n in range(100)]
        self.calls: list[str] = []
        self.may_write = True

    @property
    def ours(self) -> list[str]:
        return [one["body"] for one in self.kept[100:]]

    @property
    def github(self) -> dict[str, str]:
        return {"GITHUB_API_URL": self.address, "GITHUB_REPOSITORY": "a/b", "PULL": "7", "TOKEN": "secret"}

    @property
    def gitlab(self) -> dict[str, str]:
        return {"CI_API_V4_URL": self.address, "CI_PROJECT_ID": "5", "CI_MERGE_REQUEST_IID": "7", "TOKEN": "secret"}


class _Answers(BaseHTTPRequestHandler):
    server: Forge
    LISTS = ("/repos/a/b/issues/7/comments", "/projects/5/merge_requests/7/notes")

    def reply(self, found: object, status: int = 200) -> None:
        self.server.calls.append(self.command)
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(found).encode())

    def allowed(self) -> str | None:
        """What was sent; None, and an answer: this token may only read."""
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["body"]
        named = {self.headers["Authorization"], self.headers["PRIVATE-TOKEN"]}
        if self.server.may_write and named & {"Bearer secret", "secret"}:
            return sent
        self.reply({"message": "Resource not accessible"}, 403)
        return None

    def do_GET(self):  # noqa: N802
        path, _, query = self.path.partition("?")
        assert path in self.LISTS
        page = int(query.rpartition("page=")[2])
        self.reply(self.server.kept[100 * (page - 1) : 100 * page])

    def do_POST(self):  # noqa: N802
        assert self.path in self.LISTS
        if (sent := self.allowed()) is not None:
            number = len(self.server.kept)
            url = f"{self.server.address}/repos/a/b/issues/comments/{number}"
            self.server.kept.append({"id": number, "url": url, "body": sent})
            self.reply(self.server.kept[-1], 201)

    def do_PATCH(self):  # noqa: N802
        assert self.path.startswith(("/repos/a/b/issues/comments/", "/projects/5/merge_requests/7/notes/"))
        if (sent := self.allowed()) is not None:
            self.server.kept[int(self.path.rpartition("/")[2])]["body"] = sent
            self.reply({})

    do_PUT = do_PATCH  # noqa: N815

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture
def forge() -> Iterator[Forge]:
    with Forge() as server:
        threading.Thread(target=server.serve_forever).start()
        yield server
        server.shutdown()


@pytest.mark.parametrize(("kind", "updates"), [("github", "PATCH"), ("gitlab", "PUT")])
def test_one_comment_is_made_where_something_changed_and_updated_in_place(forge, kind, updates, tmp_path):
    environment = getattr(forge, kind)
    for found, ours in ((SAME, []), (WORSE, [WORSE]), (BETTER, [BETTER]), (SAME, [SAME])):
        (tmp_path / "gate.json").write_text(json.dumps(found))
        comment.main(str(tmp_path / "gate.json"), environment)
        assert forge.ours == [comment.body(one) for one in ours]
    assert [call for call in forge.calls if call != "GET"] == ["POST", updates, updates]


@pytest.mark.parametrize("kind", ["github", "gitlab"])
@pytest.mark.parametrize("without", ["a token", "the right to write"])
def test_where_the_job_may_not_comment_it_prints_the_comment_and_succeeds(forge, kind, without, tmp_path, capsys):
    forge.may_write = False
    (tmp_path / "gate.json").write_text(json.dumps(WORSE))
    comment.main(str(tmp_path / "gate.json"), getattr(forge, kind) | ({"TOKEN": ""} if without == "a token" else {}))
    printed = capsys.readouterr().out
    assert "1 of 1 workload fails" in printed
    assert printed.splitlines()[-1].startswith("No comment is written: ")
    assert not forge.ours
