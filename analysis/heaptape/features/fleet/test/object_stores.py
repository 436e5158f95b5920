# SPDX-License-Identifier: MIT
"""An S3 service (moto) on the loopback interface: it can be slow, refuse and break off like real ones."""

import contextlib
import itertools
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from unittest import mock

import fsspec.config
from moto.server import create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

# Secrets that must not appear anywhere else.
KEY_ID, SECRET, TOKEN = "AKIAKEYIDOFTHETESTS", "secret-of-the-tests/0123456789", "token-of-the-tests-0123456789"
SECRETS = (KEY_ID, SECRET, TOKEN)

OPTIONS = {"config_kwargs": {"read_timeout": 1}}
LATE_S = 1.5

Answer = Callable[..., object]


class Trouble:
    """A web application in front of another: the next requests of a method get a failure. `met`: how many got one."""

    def __init__(self, behind: Callable[[dict, Answer], Iterable[bytes]]) -> None:
        self._behind, self._lock = behind, threading.Lock()
        self._kind, self._method, self._left, self.met = "", "", 0, 0

    def next(self, kind: str, method: str, count: int) -> None:
        """`refused`: status 503; `denied`: 403; `broken off`: an incomplete answer; `late`: an answer after longer than
        a client waits.
        """
        with self._lock:
            self._kind, self._method, self._left, self.met = kind, method, count, 0

    def __call__(self, request: dict, answer: Answer) -> Iterable[bytes]:
        kind = self._taken(request["REQUEST_METHOD"])
        if kind == "late":
            time.sleep(LATE_S)
        elif kind == "broken off":
            answer("200 OK", [("Content-Length", "1000"), ("ETag", '"x"')])
            return [b"only so much"]
        elif kind:
            status = {"refused": "503 Slow Down", "denied": "403 Forbidden"}[kind]
            code = {"refused": "SlowDown", "denied": "AccessDenied"}[kind]
            answer(status, [("Content-Type", "application/xml")])
            return [f"<Error><Code>{code}</Code><Message>of the tests</Message></Error>".encode()]
        return self._behind(request, answer)

    def _taken(self, method: str) -> str:
        with self._lock:
            if self._left == 0 or method != self._method:
                return ""
            self._left -= 1
            self.met += 1
            return self._kind


# All services of a process have the same buckets.
NUMBERS = itertools.count()


class Quiet(WSGIRequestHandler):
    """Writes no line for each request."""

    def log_request(self, *arguments: object) -> None:
        """None."""


class Service:
    """`trouble`: the failures of requests. `bucket()`: the URL of a new bucket."""

    def __init__(self, trouble: Trouble) -> None:
        self.trouble = trouble

    def bucket(self) -> str:
        """s3://NAME, empty."""
        import s3fs

        name = f"bucket-{next(NUMBERS)}"
        s3fs.S3FileSystem().mkdir(name)
        return f"s3://{name}"


@contextlib.contextmanager
def serving() -> Iterator[Service]:
    """The service, and an environment in which clients find it, within the context."""
    import s3fs

    trouble = Trouble(create_backend_app("s3"))
    server = make_server("127.0.0.1", 0, trouble, threaded=True, request_handler=Quiet)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    environment = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
        "AWS_ACCESS_KEY_ID": KEY_ID,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_SESSION_TOKEN": TOKEN,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_MAX_ATTEMPTS": "1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "FSSPEC_S3": json.dumps(OPTIONS),  # of processes that are started; read as fsspec is imported
    }
    try:
        with mock.patch.dict(os.environ, environment), mock.patch.dict(fsspec.config.conf, {"s3": OPTIONS}):
            s3fs.S3FileSystem.clear_instance_cache()
            yield Service(trouble)
    finally:
        s3fs.S3FileSystem.clear_instance_cache()
        server.shutdown()
        thread.join()
        server.server_close()
