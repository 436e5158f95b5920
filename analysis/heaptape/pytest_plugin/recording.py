# SPDX-License-Identifier: MIT
"""This process's own recording: marks in it, and reading what is recorded so far."""

import ctypes
import os
from pathlib import Path

from heaptape.common.errors import HeaptapeError
from heaptape.pytest_plugin.spans import Span, read
from heaptape.run import ctl


class Recording:
    """The recording of the process that makes this object; a recorder must have it paused, else HeaptapeError. Not for
    children by fork."""

    def __init__(self) -> None:
        # PyDLL keeps the interpreter's lock: a mark takes less time than another thread would need to take over.
        library = ctypes.PyDLL(None)
        if not hasattr(library, "heaptape_lib_mark"):
            raise HeaptapeError("this process is not recorded, as libheaptape.so was not loaded into it")
        self.mark = library.heaptape_lib_mark
        self.mark.argtypes = [ctypes.c_char_p]
        self.mark.restype = None
        self._process = os.getpid()
        self._recorder = ""
        self._written = self._dropped = 0

    def start(self) -> None:
        """Makes the recorder start recording this process, unless it has."""
        if not self._recorder:
            self._recorder = self._started()
            self._written = self._flush()[1]

    def stop(self) -> None:
        """Stops recording this process. No error where the recorder has ended."""
        if self._recorder:
            ctl.ask(self._recorder, "stop", self._process)

    def _started(self) -> str:
        for name in ctl.recorder_sockets():
            reply = ctl.ask(name, "start", self._process)
            if reply and reply.get("ok"):
                return name
        raise HeaptapeError("the recorder of this process does not answer")

    def _flush(self) -> tuple[Path, int]:
        """The trace, and how many bytes of it are written: everything that happened before is in them."""
        reply = ctl.ask(self._recorder, "flush", self._process)
        if not reply or not reply.get("ok") or not reply["processes"]:
            raise HeaptapeError(f"the recorder does not answer: {(reply or {}).get('error', 'it has ended')}")
        process = reply["processes"][0]
        if process["state"] != "recording":
            raise HeaptapeError(f"recording is {process['state']}")
        return Path(process["trace"]), process["file_bytes"]

    def spans(self, sites: int = 0) -> list[Span]:
        """The spans marked since the last call. HeaptapeError also if an event since then is missing."""
        start, missing = self._written, self._dropped
        tape, self._written = self._flush()
        found, self._dropped = read(tape, start, sites)
        if self._dropped > missing:
            raise HeaptapeError(f"{self._dropped - missing:,} calls are missing from the recording")
        return found
