# SPDX-License-Identifier: MIT
"""A trace's events as Arrow record batches. Apart from trace.py, as they need pyarrow."""

import numpy as np
import pandas as pd
import pyarrow as pa

from heaptape.tape import calls
from heaptape.tape.library import Block

SCHEMA = pa.schema(
    [
        ("thread", pa.uint32()),
        ("event", pa.uint64()),  # number of the event in its thread, from 0
        ("call", pa.dictionary(pa.int8(), pa.string())),
        ("failed", pa.bool_()),  # handed out nothing though it could have
        ("null", pa.bool_()),  # was given NULL where it takes an object
        ("request_bytes", pa.uint64()),  # null: the call has no size
        ("size", pa.uint64()),
        ("param", pa.uint64()),  # element count or alignment in bytes
        ("released_address", pa.uint64()),  # address passed in
        ("acquired_address", pa.uint64()),
        ("release_stamp", pa.uint64()),
        ("acquire_stamp", pa.uint64()),
        ("releases", pa.bool_()),  # the object passed in was released
        ("touched_os_pages", pa.uint32()),
        ("latency", pa.uint64()),  # of the real call, in units of the trace's clock
        ("usable_bytes", pa.uint64()),  # of the object handed out
        ("stack", pa.uint32()),  # node of Trace.stacks(); these last four are null where not known
    ]
)

# The library's columns: values, and the bits of their validity.
VALUES = {
    "request_bytes": ("request_bytes", "has_size"), "size": ("size", "has_size"), "param": ("param", "has_param"),
    "released_address": ("released", "takes"), "acquired_address": ("acquired", "acquires"),
    "release_stamp": ("release_stamp", "takes"), "acquire_stamp": ("acquire_stamp", "acquire_stamped"),
    "touched_os_pages": ("touched_os_pages", "has_touched"), "latency": ("latency", "has_latency"),
    "usable_bytes": ("usable_bytes", "has_usable"), "stack": ("stack", "has_stack"),
}  # fmt: skip
# Index of a call byte's name in calls.NAMES.
PLACES = calls.PLACE[np.arange(256) & calls.ID_MASK]


def batch_of(block: Block, columns: dict[str, np.ndarray]) -> pa.RecordBatch:
    """The events of a block. Of the columns only `call` is copied: to the places of names."""
    rows = block.rows

    def column(field: pa.Field) -> pa.Array:
        if field.name == "thread":
            return pa.array(np.full(rows, block.thread, np.uint32))
        if field.name == "event":
            return pa.array(np.arange(block.first_event, block.first_event + rows, dtype=np.uint64))
        if field.name == "call":
            places = pa.py_buffer(PLACES[columns["call"]])
            return pa.DictionaryArray.from_buffers(field.type, rows, [None, places], pa.array(calls.NAMES))
        if field.name not in VALUES:
            return pa.Array.from_buffers(field.type, rows, [None, pa.py_buffer(columns[field.name])])
        values, valid = VALUES[field.name]
        if values not in columns:
            return pa.nulls(rows, field.type)
        return pa.Array.from_buffers(field.type, rows, [pa.py_buffer(columns[valid]), pa.py_buffer(columns[values])])

    return pa.RecordBatch.from_arrays([column(field) for field in SCHEMA], schema=SCHEMA)


def frame_of(batch: pa.RecordBatch) -> pd.DataFrame:
    """The batch with pandas' nullable types: 64-bit addresses don't survive being floats."""
    nullable = {pa.uint64(): pd.UInt64Dtype(), pa.uint32(): pd.UInt32Dtype()}
    return batch.to_pandas(types_mapper=nullable.get)
