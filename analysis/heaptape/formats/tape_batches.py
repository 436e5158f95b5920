"""A trace's events as Arrow record batches. Apart from the reader, so that only who asks for events needs pyarrow."""

import numpy as np
import pandas as pd
import pyarrow as pa

from heaptape.formats import calls
from heaptape.formats.tape_blocks import Block
from heaptape.formats.tape_columns import Events

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


def batch_of(block: Block, begin: int, events: Events) -> pa.RecordBatch:
    """The events of a block, whose first is number `begin` of its thread."""
    number = events.call & calls.ID_MASK
    has_size, has_param = calls.HAS_SIZE[number], calls.PARAM_KIND[number] != calls.NO_PARAM
    names = pa.DictionaryArray.from_arrays(pa.array(calls.PLACE[number]), pa.array(calls.NAMES))
    single = events.takes & ~(events.releases & events.acquires)
    arrays = [
        pa.array(np.full(block.rows, block.thread, np.uint32)),
        pa.array(np.arange(begin, begin + block.rows, dtype=np.uint64)),
        names,
        pa.array((events.call & calls.NULL_OUT) != 0),
        pa.array((events.call & calls.NULL_IN) != 0),
        pa.array(events.request_bytes, mask=~has_size),
        pa.array(events.size, mask=~has_size),
        pa.array(events.param, mask=~has_param),
        pa.array(events.released, mask=~events.takes),
        pa.array(events.acquired, mask=~events.acquires),
        pa.array(events.release_stamp, mask=~events.takes),
        pa.array(events.acquire_stamp, mask=single),
        pa.array(events.releases),
        pa.array(events.touched, mask=~events.touched_known),
        pa.array(events.latency - np.uint64(1), mask=events.latency == 0),
        pa.array(events.request_bytes + events.slack - np.uint64(1), mask=events.slack == 0),
        pa.array(events.stack, mask=events.stack == 0),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def frame_of(batch: pa.RecordBatch) -> pd.DataFrame:
    """The batch with pandas' nullable types: 64-bit addresses don't survive being floats."""
    nullable = {pa.uint64(): pd.UInt64Dtype(), pa.uint32(): pd.UInt32Dtype()}
    return batch.to_pandas(types_mapper=nullable.get)
