# SPDX-License-Identifier: MIT
"""A trace as one HDF5 file, with the tables of tables.py. Needs h5py (optional dependency)."""

import io
import json
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa

from heaptape.export.tables import PARTS, timed_batches
from heaptape.tape.trace import Trace


def _plain(batch: pa.RecordBatch) -> dict[str, np.ndarray]:
    """Columns as numpy arrays: calls as indices into `calls`, nulls as 0."""
    out = {}
    for name, column in zip(batch.schema.names, batch.columns):
        values = column.indices if pa.types.is_dictionary(column.type) else column
        nothing = False if pa.types.is_boolean(values.type) else 0
        out[name] = values.fill_null(nothing).to_numpy(zero_copy_only=False)
    return out


class _Sink(io.FileIO):
    """A file whose first failed write is kept for `check`: HDF5 2.0 (h5py 3.16) crashes the process if it can't write
    to a full disk as it closes a file.
    """

    failed: OSError | None = None

    def write(self, data: bytes | memoryview) -> int:  # type: ignore[override]
        left = memoryview(data).cast("B")
        size = len(left)
        try:
            while left and not self.failed:  # a disk that becomes full takes a part at first
                left = left[super().write(left) :]
        except OSError as error:
            self.failed = error
        return size

    def check(self) -> None:
        """Raises OSError if a write failed."""
        if self.failed:
            raise self.failed


def write_hdf5(trace: Trace, path: Path) -> None:
    """Writes one HDF5 file: group `events/N` for each thread with a dataset per column (nulls are 0, `call` an index
    into the dataset `calls`), group `TABLE` with a dataset per column, and INFO as attribute `info`. Raises OSError.
    """
    with _Sink(path, "w+") as sink:
        with h5py.File(sink, "w") as file:
            file.attrs["info"] = json.dumps(trace.info)
            for thread in range(trace.threads):
                group = file.create_group(f"events/{thread}")
                for batch in timed_batches(trace, thread):
                    _append_batch(file, group, batch)
                    sink.check()
            for name in PARTS:
                _write_frame(file, name, getattr(trace, name)())
        sink.check()


def _append_batch(file: h5py.File, group: h5py.Group, batch: pa.RecordBatch) -> None:
    if "calls" not in file:
        file["calls"] = np.array(batch.column("call").dictionary.to_pylist(), dtype="S40")
    for name, values in _plain(batch).items():
        _append(group, name, values)


def _append(group: h5py.Group, name: str, values: np.ndarray) -> None:
    if name not in group:
        group.create_dataset(name, data=values, maxshape=(None,), chunks=(1 << 16,), compression="lzf", shuffle=True)
        return
    dataset = group[name]
    old = dataset.shape[0]
    dataset.resize(old + len(values), axis=0)
    dataset[old:] = values


def _write_frame(file: h5py.File, name: str, frame: pd.DataFrame) -> None:
    for column in frame.columns if not frame.empty else ():
        values = frame[column]
        texts = values.dtype == object or pd.api.types.is_string_dtype(values)
        data = np.array([str(v).encode() for v in values]) if texts else values.to_numpy()
        file.create_dataset(f"{name}/{column}", data=data)
