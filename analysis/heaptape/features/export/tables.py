# SPDX-License-Identifier: MIT
"""A trace as tables for other tools: a Parquet dataset (DuckDB, Spark, pandas), and one HDF5 file (needs h5py, an
optional dependency).

Both have the columns of `heaptape.tape.batches.SCHEMA` and `time_ns`, the time of each event's first step since the
recording's start (0 where the clock has no rate). A thread's events are in its order. The tables `samples`, `marks`,
`modules` and `stacks` are added where they are not empty. Memory is bounded by one block.
"""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from heaptape.tape.trace import Trace, first_stamps, times_ns

if TYPE_CHECKING:
    import h5py

PARTS = ("samples", "marks", "modules", "stacks")
FILE_EVENTS = 1 << 22


def timed_batches(trace: Trace, thread: int) -> Iterator[pa.RecordBatch]:
    """The thread's batches with `time_ns` in front and without the thread's number."""
    for batch in trace.events(thread):
        time = pa.array(times_ns(trace, first_stamps(batch)))
        rest = [name for name in batch.schema.names if name != "thread"]
        yield pa.RecordBatch.from_arrays([time, *(batch.column(n) for n in rest)], ["time_ns", *rest])


def write_parquet(trace: Trace, folder: Path) -> None:
    """Writes FOLDER/events/thread=N/part-K.parquet, partitioned by thread as Hive does, and FOLDER/TABLE.parquet.

    The trace's INFO is in each file's metadata, key `heaptape`. Raises OSError, FileExistsError if the folder is not
    empty.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise FileExistsError(17, "Not empty", str(folder))
    metadata = {"heaptape": json.dumps(trace.info)}
    for thread in range(trace.threads):
        writer, rows, part = None, 0, 0
        for batch in timed_batches(trace, thread):
            batch = batch.replace_schema_metadata(metadata)
            if writer is None:
                path = folder / "events" / f"thread={thread}" / f"part-{part}.parquet"
                path.parent.mkdir(parents=True, exist_ok=True)
                writer = pq.ParquetWriter(
                    path, batch.schema, compression="zstd", compression_level=1, use_dictionary=["call"]
                )
            writer.write_batch(batch)
            rows += batch.num_rows
            if rows >= FILE_EVENTS:
                writer.close()
                writer, rows, part = None, 0, part + 1
        if writer is not None:
            writer.close()
    for name in PARTS:
        table = getattr(trace, name)()
        if not table.empty:
            pq.write_table(pa.Table.from_pandas(table).replace_schema_metadata(metadata), folder / f"{name}.parquet")


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
    import h5py

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


def _append_batch(file: "h5py.File", group: "h5py.Group", batch: pa.RecordBatch) -> None:
    if "calls" not in file:
        file["calls"] = np.array(batch.column("call").dictionary.to_pylist(), dtype="S40")
    for name, values in _plain(batch).items():
        _append(group, name, values)


def _append(group: "h5py.Group", name: str, values: np.ndarray) -> None:
    if name not in group:
        group.create_dataset(name, data=values, maxshape=(None,), chunks=(1 << 16,), compression="lzf", shuffle=True)
        return
    dataset = group[name]
    old = dataset.shape[0]
    dataset.resize(old + len(values), axis=0)
    dataset[old:] = values


def _write_frame(file: "h5py.File", name: str, frame: pd.DataFrame) -> None:
    for column in frame.columns if not frame.empty else ():
        values = frame[column]
        texts = values.dtype == object or pd.api.types.is_string_dtype(values)
        data = np.array([str(v).encode() for v in values]) if texts else values.to_numpy()
        file.create_dataset(f"{name}/{column}", data=data)
