# SPDX-License-Identifier: MIT
"""A trace's events as Arrow record batches. Not in the reader, as they need pyarrow and Numba."""

import numpy as np
import pandas as pd
import pyarrow as pa

from heaptape.tape import calls
from heaptape.tape.tape_blocks import Block
from heaptape.tape.tape_columns import Events, decode_events

__all__ = ["SCHEMA", "batch_of", "decode_events", "frame_of"]

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

# Index of a call byte's name in calls.NAMES.
PLACES = calls.PLACE[np.arange(256) & calls.ID_MASK].tobytes()


def batch_of(block: Block, begin: int, events: Events) -> pa.RecordBatch:
    """The events of a block. `begin`: number of the first in its thread."""
    places = events.call.tobytes().translate(PLACES)
    names = pa.DictionaryArray.from_buffers(
        SCHEMA.field("call").type, block.rows, [None, pa.py_buffer(places)], pa.array(calls.NAMES)
    )
    usable = None if events.slack is None else events.request_bytes + events.slack
    arrays = [
        pa.array(np.full(block.rows, block.thread, np.uint32)),
        pa.array(np.arange(begin, begin + block.rows, dtype=np.uint64)),
        names,
        _bools((events.call & calls.NULL_OUT) != 0),
        _bools((events.call & calls.NULL_IN) != 0),
        _valid_where(events.request_bytes, events.has_size),
        _valid_where(events.size, events.has_size),
        _valid_where(events.param, events.has_param),
        _valid_where(events.released, events.takes),
        _valid_where(events.acquired, events.acquires),
        _valid_where(events.release_stamp, events.takes),
        _valid_where(events.acquire_stamp, ~events.takes | (events.releases & events.acquires)),
        _bools(events.releases),
        _known(events.touched, events.touched, pa.uint32(), block.rows),
        _known(events.latency, events.latency, pa.uint64(), block.rows),
        _known(usable, events.slack, pa.uint64(), block.rows),
        pa.nulls(block.rows, pa.uint32()) if events.stack is None else _valid_where(events.stack, events.stack != 0),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def frame_of(batch: pa.RecordBatch) -> pd.DataFrame:
    """The batch with pandas' nullable types: 64-bit addresses don't survive being floats."""
    nullable = {pa.uint64(): pd.UInt64Dtype(), pa.uint32(): pd.UInt32Dtype()}
    return batch.to_pandas(types_mapper=nullable.get)


def _bits(mask: np.ndarray) -> pa.Buffer:
    """The mask as Arrow stores it. `pa.array(values, mask=mask)` takes ten times as long."""
    return pa.py_buffer(np.packbits(mask, bitorder="little"))


def _bools(mask: np.ndarray) -> pa.Array:
    return pa.Array.from_buffers(pa.bool_(), len(mask), [None, _bits(mask)])


def _valid_where(values: np.ndarray, valid: np.ndarray) -> pa.Array:
    """The values, null elsewhere."""
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [_bits(valid), pa.py_buffer(values)])


def _known(plus_one: np.ndarray | None, entries: np.ndarray | None, kind: pa.DataType, rows: int) -> pa.Array:
    """`plus_one` less 1; null where `entries` is 0, and everywhere if the block has no such column."""
    if plus_one is None or entries is None:
        return pa.nulls(rows, kind)
    return _valid_where((plus_one - np.uint64(1)).astype(kind.to_pandas_dtype()), entries != 0)
