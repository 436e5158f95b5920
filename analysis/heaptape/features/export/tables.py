# SPDX-License-Identifier: MIT
"""A trace as tables for other tools: a Parquet dataset (DuckDB, Spark, pandas).

It has the columns of `heaptape.tape.batches.SCHEMA` and `time_ns`, the time of each event's first step since the
recording's start (0 where the clock has no rate). A thread's events are in its order. The tables `samples`, `marks`,
`modules` and `stacks` are added where they are not empty. Memory is bounded by one block.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from heaptape.tape.trace import Trace, first_stamps, times_ns

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
