# SPDX-License-Identifier: MIT
"""A scratch folder is gone at the end, wherever an interrupt comes."""

import sys
import tempfile
from types import FrameType
from typing import Any

from heaptape.common.process import scratch_folder


def use() -> None:
    with scratch_folder() as folder:
        (folder / "below").mkdir()
        (folder / "below" / "file").touch()


class Interrupt:
    """Raises KeyboardInterrupt once, at the call of Python code, or the call of C or the return from it, with that
    number: at these points Python checks for signals.
    """

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event != "return" and frame.f_code is not test_an_interrupt_at_any_call_leaves_no_folder.__code__:
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt


def test_an_interrupt_at_any_call_leaves_no_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    at, interrupt = 0, Interrupt(0)
    while interrupt.left <= 0:
        at += 1
        interrupt = Interrupt(at)
        sys.setprofile(interrupt)
        try:  # noqa: SIM105 - suppress() makes calls of its own
            use()
        except (KeyboardInterrupt, OSError):  # rmtree closes a directory twice if the interrupt comes while it closes
            pass
        sys.setprofile(None)
        assert list(tmp_path.iterdir()) == [], f"at call {at}"
    assert at > 200
