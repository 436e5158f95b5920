# SPDX-License-Identifier: MIT
"""libheaptape-reader.so by ctypes: `core/reader/reader_library.h` has its contract. Used through heaptape.tape.trace.

A column is an array of this process, which the library fills; Arrow and numpy use it without a copy.
"""

import ctypes
import functools
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np

from heaptape.common.errors import FormatError, HeaptapeError
from heaptape.common.home import default_home

ABI = 2

Row = TypeVar("Row")
_ADDRESS, _U64, _U32 = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32


class Error(ctypes.Structure):
    """struct error. `place`: 1 + the offset, 0: none; `message`: where it begins in `text`, after path and offset."""

    _fields_ = (("text", ctypes.c_char * 512), ("place", _U64), ("message", _U64))


class Summary(ctypes.Structure):
    """struct heaptape_summary."""

    _fields_ = (
        ("info_json", ctypes.c_char_p), ("footer_json", ctypes.c_char_p), ("events", _U64), ("dropped", _U64),
        ("event_blocks", _U64), ("samples", _U64), ("access_rows", _U64), ("switches", _U64), ("first_stamp", _U64),
        ("last_stamp", _U64), ("threads", _U32), ("stack_nodes", _U32), ("in_bursts", _U32),
    )  # fmt: skip


_ERROR = ctypes.POINTER(Error)


class Block(ctypes.Structure):
    """struct heaptape_block."""

    _fields_ = (("first_event", _U64), ("thread", _U32), ("rows", _U32), ("columns", _U32))


# The columns of struct heaptape_events, in its order. None: bits.
EVENT_COLUMNS: dict[str, type[np.generic] | None] = {
    "call": np.uint8,
    **dict.fromkeys(
        ("request_bytes", "size", "param", "released", "acquired", "release_stamp", "acquire_stamp"), np.uint64
    ),
    **dict.fromkeys(
        ("failed", "null", "releases", "has_size", "has_param", "takes", "acquires", "acquire_stamped"),
    ),
}  # fmt: skip
# The rest: column, its validity, and the columns of FORMAT.md of which a block has at least one if it has this.
OPTIONAL_COLUMNS: dict[str, tuple[str, type[np.generic], int]] = {
    "touched_os_pages": ("has_touched", np.uint32, 1 << 11),
    "latency": ("has_latency", np.uint64, 1 << 12),
    "usable_bytes": ("has_usable", np.uint64, 1 << 13),
    "stack": ("has_stack", np.uint32, 1 << 14 | 1 << 15),
}
# Those of struct heaptape_access_columns.
ACCESS_COLUMNS: dict[str, type[np.generic]] = {
    "kind": np.uint8, "acquires": np.uint8, "thread": np.uint32, "stack_pointer": np.uint64, "object": np.uint64,
    "granule": np.int64,
}  # fmt: skip

_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "heaptape_reader_abi": (_U32, ()),
    "heaptape_trace_open": (_ADDRESS, (ctypes.c_char_p, _ERROR)),
    "heaptape_trace_close": (None, (_ADDRESS,)),
    "heaptape_trace_summary": (None, (_ADDRESS, ctypes.POINTER(Summary))),
    "heaptape_trace_block": (None, (_ADDRESS, _U64, ctypes.POINTER(Block))),
    "heaptape_trace_events": (ctypes.c_int, (_ADDRESS, _U64, _ADDRESS, _ERROR)),
    "heaptape_sample_names": (ctypes.c_char_p, ()),
    "heaptape_trace_samples": (ctypes.c_int, (_ADDRESS, _ADDRESS, _ERROR)),
    "heaptape_trace_stacks": (ctypes.c_int, (_ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS, _ERROR)),
    "heaptape_trace_rows": (_ADDRESS, (_ADDRESS, ctypes.c_int, _ERROR)),
    "heaptape_text_free": (None, (_ADDRESS,)),
    "heaptape_trace_switches": (ctypes.c_int, (_ADDRESS, _ADDRESS, _ERROR)),
    "heaptape_accesses_open": (_ADDRESS, (_ADDRESS, _ERROR)),
    "heaptape_accesses_close": (None, (_ADDRESS,)),
    "heaptape_accesses_read": (ctypes.c_int64, (_ADDRESS, _ADDRESS, _U64, _ERROR)),
}


@functools.cache
def _library() -> ctypes.CDLL:
    home = default_home()
    path = home.library("libheaptape-reader.so")
    if path is None:
        folder = home.library_directories()[0]
        raise HeaptapeError(f"its library libheaptape-reader.so is missing from {folder}: run 'make'")
    library = ctypes.CDLL(str(path))
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name, None)
        if function is None:
            raise HeaptapeError(f"{path} is of another version of heaptape: run 'make'")
        function.restype, function.argtypes = result, arguments
    if library.heaptape_reader_abi() != ABI:
        raise HeaptapeError(f"{path} is of another version of heaptape: run 'make'")
    return library


def _array(columns: Sequence[np.ndarray | None]) -> ctypes.Array:
    """The columns' addresses, as C's array or struct of pointers."""
    addresses = (None if column is None else column.ctypes.data for column in columns)
    return (ctypes.c_void_p * len(columns))(*addresses)


class OpenTrace:
    """A trace that the library has open. Raises FormatError where a file is malformed."""

    def __init__(self, path: str) -> None:
        self._handle: int | None = None  # first, as `close` is called also where opening failed
        self.path, self._library = path, _library()
        error = Error()
        self._handle = self._library.heaptape_trace_open(path.encode(errors="surrogateescape"), error)
        if not self._handle:
            raise self._raised(error)
        self.summary = Summary()
        self._library.heaptape_trace_summary(self._handle, ctypes.byref(self.summary))

    def close(self) -> None:
        """Frees what the library holds; nothing can be read any more."""
        if self._handle:
            self._library.heaptape_trace_close(self._handle)
        self._handle = None

    def __del__(self) -> None:
        self.close()

    def _raised(self, error: Error) -> FormatError:
        message = error.text[error.message :].decode(errors="replace")
        return FormatError(self.path, error.place - 1 if error.place else None, message)

    def _call(self, name: str, *arguments: Any) -> Any:  # noqa: ANN401
        """Calls a function whose last argument takes an error; it fails with -1 or a null address."""
        self._check_is_open()
        error = Error()
        result = getattr(self._library, name)(*arguments, error)
        if result is None or result == -1:
            raise self._raised(error)
        return result

    def _check_is_open(self) -> None:
        if not self._handle:
            raise ValueError(f"{self.path} is closed")

    def block(self, number: int) -> Block:
        """Thread, rows and first event of an EVENTS block; blocks are numbered in file order."""
        self._check_is_open()
        block = Block()
        self._library.heaptape_trace_block(self._handle, number, ctypes.byref(block))
        return block

    def events(self, number: int, block: Block) -> dict[str, np.ndarray]:
        """The columns of EVENT_COLUMNS of a block, and those of OPTIONAL_COLUMNS that it has; bits as uint8."""
        rows, octets = block.rows, (block.rows + 7) // 8
        columns: dict[str, np.ndarray | None] = {
            name: np.empty(octets, np.uint8) if kind is None else np.empty(rows, kind)
            for name, kind in EVENT_COLUMNS.items()
        }
        for name, (valid, kind, stored) in OPTIONAL_COLUMNS.items():
            has = block.columns & stored
            columns[name] = np.empty(rows, kind) if has else None
            columns[valid] = np.empty(octets, np.uint8) if has else None
        self._call("heaptape_trace_events", self._handle, number, _array(list(columns.values())))
        return {name: column for name, column in columns.items() if column is not None}

    def samples(self) -> dict[str, np.ndarray]:
        """The columns of FORMAT.md section 6, uint64; the largest number: not recorded."""
        names = self._library.heaptape_sample_names().decode().split(",")[:-1]
        columns = {name: np.empty(self.summary.samples, np.uint64) for name in names}
        self._call("heaptape_trace_samples", self._handle, _array(list(columns.values())))
        return columns

    def stacks(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Parent, instruction and modules before it, of nodes 1, 2, ..."""
        nodes = self.summary.stack_nodes
        parent, modules = np.empty(nodes, np.uint32), np.empty(nodes, np.uint32)
        instruction = np.empty(nodes, np.uint64)
        addresses = (column.ctypes.data for column in (parent, instruction, modules))
        self._call("heaptape_trace_stacks", self._handle, *addresses)
        return parent, instruction, modules

    def rows(self, block_type: int, kind: type[Row]) -> list[Row]:
        """The rows of blocks that are JSON arrays."""
        text = self._call("heaptape_trace_rows", self._handle, block_type)
        try:
            return msgspec.json.decode(ctypes.string_at(text), type=list[kind])  # type: ignore[valid-type]
        finally:
            self._library.heaptape_text_free(text)

    def switches(self) -> np.ndarray:
        """Rows of accesses before each beginning and end of a burst, uint64."""
        rows = np.empty(self.summary.switches, np.uint64)
        self._call("heaptape_trace_switches", self._handle, rows.ctypes.data)
        return rows

    def accesses(self, most_rows: int) -> Iterator[dict[str, np.ndarray]]:
        """The columns of ACCESS_COLUMNS, up to `most_rows` rows at a time."""
        cursor = self._call("heaptape_accesses_open", self._handle)
        try:
            while True:
                columns = {name: np.empty(most_rows, kind) for name, kind in ACCESS_COLUMNS.items()}
                count = self._call("heaptape_accesses_read", cursor, _array(list(columns.values())), most_rows)
                if count == 0:
                    return
                yield {name: column[:count] for name, column in columns.items()}
        finally:
            self._library.heaptape_accesses_close(cursor)
