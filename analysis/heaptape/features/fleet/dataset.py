# SPDX-License-Identifier: MIT
"""The dataset of a store: what its traces ask of an allocator, as Parquet files below dataset/ (docs/use/FLEET.md).

A trace is one row, with its histogram and its sites as lists in it, so it is never there in part. A file is named by
the traces that it contains. Partitions are folders KEY=VALUE, as DuckDB, Arrow, pandas and Dask read them.

A query in SQL (DuckDB) sees the tables `traces`, `histogram`, `sites` and `cells`; it reads only these, neither files
nor the network, and changes nothing.
"""

import hashlib
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple
from urllib.parse import quote

import duckdb
import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq

from heaptape.common.errors import HeaptapeError
from heaptape.features.fleet.store import READERS, Store
from heaptape.profile.data import (
    LIFETIMES,
    SITES,
    Profile,
    counted,
    large_share,
    remote_share,
    sizes_for_share,
    swing,
    young_share,
)

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
# Keys of a profile's JSON; other keys are not even decoded.
NEEDED = (
    *("program", "ops", "threads", "allocated_bytes", "duration_ns", "witness", "sizes", "thread_pairs"),
    *("pairs_left_out", "reallocs", "sites"),
)
LONG = ("windows", "lifetimes_bytes", "lifetimes_ns")  # rows of whole numbers, most of the text


class Feature(NamedTuple):
    """`kind`: "count" (whole number), "share" (0 to 1, or a mean). `compared`: "log", "plain", or "" where `choose`
    does not use it.
    """

    kind: str
    compared: str
    meaning: str


FEATURES = {
    "ops": Feature("count", "log", "calls that a replay makes"),
    "threads": Feature("count", "log", "threads"),
    "duration_ns": Feature("count", "", "from the first event to the last; 0 where the trace has no times"),
    "allocated_bytes": Feature("count", "log", "sum of all requests"),
    "peak_live_bytes": Feature("count", "log", "largest sum of requests that lived at a moment"),
    "peak_live_objects": Feature("count", "log", "most objects that lived at a moment"),
    "acquired": Feature("count", "", "objects acquired"),
    "released": Feature("count", "", "objects released"),
    "dropped": Feature("count", "", "events that the recorder counted as lost"),
    "size_variety": Feature("count", "log", "size buckets (a quarter of a power of two) that hold 90 % of requests"),
    **{f"size_{name}_bytes": Feature("count", "log", f"request size, {name} of requests") for name in QUANTILES},
    **{f"age_{name}_bytes": Feature("count", "log", f"bytes allocated in a life, {name} of releases") for name in
    QUANTILES}, "unreleased_share": Feature("share", "plain", "objects never released, of those acquired"),
    "young_share": Feature("share", "plain", "objects released before 64 KiB more were allocated, of those acquired"),
    "remote_share": Feature("share", "plain", "releases by another thread than the acquirer, of all"),
    "large_share": Feature("share", "plain", "bytes in requests of 128 KiB or more, of all bytes requested"),
    "fall_share": Feature("share", "plain", "deepest fall of live bytes after a peak, of that peak"),
    "realloc_share": Feature("share", "plain", "reallocs of live objects, of all ops"),
    "copied_bytes_per_op": Feature("share", "log", "bytes that reallocs which moved have copied"),
}  # fmt: skip


def decoded(text: bytes) -> Profile:
    """The output of `heaptape-convert profile`, as far as it is needed here."""
    raw = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    long = {key: np.fromstring(bytes(raw[key]).translate(None, b"[]"), np.int64, sep=",") for key in LONG if key in raw}
    return Profile({key: msgspec.json.decode(raw[key]) for key in NEEDED if key in raw} | long)


def of_profile(found: Profile) -> dict[str, float]:
    data = found.data
    witness: Mapping = data.get("witness", {})
    reallocs: Mapping = data.get("reallocs", {})
    ops, acquired, released = data.get("ops", 0), found.acquired, found.released
    _, age, objects, _ = found.array("lifetimes_bytes", len(LIFETIMES)).T
    size, calls, _ = found.requests.T
    return {
        "ops": ops,
        "threads": data.get("threads", 0),
        "duration_ns": int(data.get("duration_ns") or 0),
        "allocated_bytes": data.get("allocated_bytes", 0),
        "peak_live_bytes": witness.get("peak_live_bytes", 0),
        "peak_live_objects": witness.get("peak_live_objects", 0),
        "acquired": acquired,
        "released": released,
        "dropped": witness.get("dropped", 0),
        "size_variety": sizes_for_share(found, 0.9),
        **_quantiles("size", size, calls),
        **_quantiles("age", age, objects),
        "unreleased_share": (acquired - released) / max(acquired, 1),
        "young_share": young_share(found),
        "remote_share": remote_share(found),
        "large_share": large_share(found),
        "fall_share": swing(found)[0],
        "realloc_share": reallocs.get("calls", 0) / max(ops, 1),
        "copied_bytes_per_op": reallocs.get("copied_bytes", 0) / max(ops, 1),
    }


def _quantiles(of: str, values: np.ndarray, counts: np.ndarray) -> dict[str, int]:
    """Lower bounds of the buckets that contain the QUANTILES; 0 where nothing was counted."""
    names = [f"{of}_{name}_bytes" for name in QUANTILES]
    if not counts.any():
        return dict.fromkeys(names, 0)
    found, summed = counted(values, counts)
    places = np.searchsorted(summed.cumsum(), np.ceil(np.array(list(QUANTILES.values())) * counts.sum()))
    return dict(zip(names, found[places].tolist()))


FOLDER = "dataset"
PARTITIONS = ("program", "build_id", "host_class", "day")
UNKNOWN = "unknown"
LONGEST_VALUE = 160  # of a folder's name; file systems allow 255 bytes
HISTOGRAM = ("size_bytes", "age", "objects", "bytes")
SITE_FIGURES = SITES[1:]  # all but the node, which means nothing outside its trace

_histogram = pa.struct([("unit", pa.string()), *((name, pa.int64()) for name in HISTOGRAM)])
_site = pa.struct([("stack", pa.string()), *((name, pa.int64()) for name in SITE_FIGURES)])
IDENTITY = ("trace", "name", "source", "file_bytes", "allocator", "arch", "truncated", "part")
SCHEMA = pa.schema([
    *((name, pa.string()) for name in ("trace", "name", "source")),
    ("file_bytes", pa.int64()),
    *((name, pa.string()) for name in ("allocator", "arch")),
    ("truncated", pa.bool_()),
    ("part", pa.string()),
    *((name, pa.int64() if feature.kind == "count" else pa.float64()) for name, feature in FEATURES.items()),
    ("histogram", pa.list_(_histogram)),
    ("sites", pa.list_(_site)),
])  # fmt: skip
PARTITION_SCHEMA = pa.schema([(name, pa.string()) for name in PARTITIONS])


@dataclass(frozen=True)
class Row:
    """One trace. `partition`: its values of PARTITIONS. `values`: IDENTITY except `part`, and FEATURES. `histogram`:
    unit ("bytes" or "ns") -> rows of HISTOGRAM. `sites`: the stack in words, and the SITE_FIGURES.
    """

    partition: tuple[str, ...]
    values: Mapping[str, object]
    histogram: Mapping[str, np.ndarray]
    sites: Sequence[tuple[str, Sequence[int]]]


def put(store: Store, rows: Iterable[Row]) -> int:
    """Writes rows, one file for each of their partitions. Returns the number of files. Raises StoreError."""
    partitions: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        partitions.setdefault(row.partition, []).append(row)
    for partition, within in partitions.items():
        ordered = sorted(within, key=lambda row: str(row.values["trace"]))
        folders = "/".join(f"{key}={_folder(value)}" for key, value in zip(PARTITIONS, partition))
        _write(store, f"{FOLDER}/{folders}", _table(ordered))
    return len(partitions)


def traces_in(store: Store) -> set[str]:
    """The sha256 of every trace in the dataset. A file that can't be read is set aside, and its traces don't count."""

    def traces(name: str) -> list[str]:
        found = _read(store, name, ["trace"])
        return found[1]["trace"].to_pylist() if found else []

    with ThreadPoolExecutor(READERS) as pool:
        return {trace for found in pool.map(traces, _files(store)) for trace in found}


def copy_missing(source: Store, into: Store) -> tuple[int, list[str]]:
    """Copies the traces that `into` lacks, each once even if the source has it twice. Returns the number of files, and
    the source's damaged files, which are set aside. Raises StoreError.
    """
    names, there = _files(source), traces_in(into)
    taken, damaged = 0, []
    for name in names:
        found = _read(source, name)
        if found is None:
            damaged.append(name)
            continue
        data, table = found
        new = [trace not in there for trace in table["trace"].to_pylist()]
        if all(new):
            into.files.write(name, data)
        elif any(new):
            _write(into, name.rpartition("/")[0], table.filter(pa.array(new)).drop_columns("part"))
        taken += any(new)
        there.update(table["trace"].to_pylist())
    return taken, damaged


def opened(store: Store) -> pyarrow.dataset.Dataset:
    """All files as one dataset, of SCHEMA and PARTITION_SCHEMA. Raises HeaptapeError where there is none."""
    names = _files(store)
    if not names:
        raise HeaptapeError(f"{store.url}: no trace was ingested: heaptape fleet ingest TAPES --store {store.url}")
    options = pyarrow.dataset.ParquetFragmentScanOptions(page_checksum_verification=True)
    return pyarrow.dataset.dataset(
        [store.files.path(name) for name in names],
        schema=pa.unify_schemas([SCHEMA, PARTITION_SCHEMA]),
        format=pyarrow.dataset.ParquetFileFormat(default_fragment_scan_options=options),
        filesystem=store.files.system,
        partitioning=pyarrow.dataset.partitioning(PARTITION_SCHEMA, flavor="hive"),
        partition_base_dir=store.files.path(FOLDER),
    )


def traces(store: Store) -> pd.DataFrame:
    """One row per trace, in the order of their hashes: PARTITIONS, IDENTITY except `part`, FEATURES. Raises
    HeaptapeError.
    """
    columns = [*IDENTITY, *PARTITIONS, *FEATURES]
    try:
        frame = opened(store).to_table(columns=columns).to_pandas()
    except (pa.ArrowException, OSError) as error:
        raise unreadable(store, error) from None
    return frame.sort_values(["trace", "part"]).drop_duplicates("trace").drop(columns="part").reset_index(drop=True)


def unreadable(store: Store, error: Exception) -> HeaptapeError:
    """The error for a damaged file of the dataset: one line, with the remedy."""
    return HeaptapeError(
        f"{store.url}: {_in_one_line(error)}: ingest its traces again, which sets the damaged file aside"
    )


def _seal(data: bytes) -> str:
    """A hash of a file's bytes, for its name."""
    return hashlib.sha256(data).hexdigest()[:16]


def _files(store: Store) -> list[str]:
    return [name for name in store.files.names(FOLDER) if name.endswith(".parquet")]


def _read(store: Store, name: str, columns: list[str] | None = None) -> tuple[bytes, pa.Table] | None:
    """A file, and its columns `columns`; None where it has gone, or is set aside as damaged."""
    data = store.files.read(name)
    if data is None:
        return None
    try:
        if name.endswith(f"-{_seal(data)}.parquet"):
            return data, pq.read_table(io.BytesIO(data), columns=columns)
        why = "half written or changed since"
    except (pa.ArrowException, OSError) as error:
        why = _in_one_line(error)
    store.set_aside(name, why)
    return None


def _write(store: Store, folder: str, table: pa.Table) -> None:
    """Writes a file of these rows, which lack `part`."""
    # The same traces from the same places by the same writer give the same bytes: written twice, they are one file.
    holds = list(zip(table["trace"].to_pylist(), table["source"].to_pylist()))
    part = hashlib.sha256(repr((holds, folder, pa.__version__)).encode()).hexdigest()[:32]
    table = table.add_column(SCHEMA.get_field_index("part"), "part", pa.array([part] * len(table)))
    out = io.BytesIO()
    pq.write_table(table, out, compression="zstd", write_page_checksum=True)
    store.files.write(f"{folder}/{part}-{_seal(out.getvalue())}.parquet", out.getvalue())


def _table(rows: Sequence[Row]) -> pa.Table:
    flat = [field for field in SCHEMA if field.name not in ("part", "histogram", "sites")]
    columns = {field.name: pa.array([row.values[field.name] for row in rows], field.type) for field in flat}
    columns["histogram"] = _histograms([row.histogram for row in rows])
    columns["sites"] = _sites([row.sites for row in rows])
    return pa.table(columns, schema=pa.schema([field for field in SCHEMA if field.name != "part"]))


def _histograms(of_rows: Sequence[Mapping[str, np.ndarray]]) -> pa.Array:
    parts = [(unit, rows) for histogram in of_rows for unit, rows in histogram.items()]
    units = list(dict.fromkeys(unit for unit, _ in parts))
    codes = np.repeat([units.index(unit) for unit, _ in parts], [len(rows) for _, rows in parts]).astype(np.int8)
    named = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(units, pa.string())).dictionary_decode()
    numbers = _columns(np.concatenate([rows for _, rows in parts]))
    return _lists([sum(map(len, histogram.values())) for histogram in of_rows], _histogram, [named, *numbers])


def _sites(of_rows: Sequence[Sequence[tuple[str, Sequence[int]]]]) -> pa.Array:
    stacks = pa.array([stack for sites in of_rows for stack, _ in sites], pa.string())
    figures = np.array([figures for sites in of_rows for _, figures in sites], np.int64)
    numbers = _columns(figures.reshape(-1, len(SITE_FIGURES)))
    return _lists([len(sites) for sites in of_rows], _site, [stacks, *numbers])


def _columns(rows: np.ndarray) -> list[pa.Array]:
    return [pa.array(column) for column in rows.T]


def _lists(lengths: Sequence[int], kind: pa.StructType, columns: list[pa.Array]) -> pa.Array:
    offsets = pa.array(np.append(0, np.cumsum(lengths)).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(columns, fields=list(kind)))


def _folder(value: str) -> str:
    """A value as a folder's name; values are not trusted. One that is too long ends in its hash."""
    coded = re.sub("~", "%7E", quote(value or UNKNOWN, safe=""))
    if len(coded) <= LONGEST_VALUE:
        return coded
    whole = re.sub(r"%[0-9A-F]?\Z", "", coded[:LONGEST_VALUE])
    return f"{whole}-{hashlib.sha256(value.encode()).hexdigest()[:8]}"


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split())


# A trace that two runs ingested at the same time is in two files: the first by name counts.
KEPT = "files SEMI JOIN (SELECT trace, min(part) AS part FROM files GROUP BY trace) USING (trace, part)"
VIEWS = f"""
CREATE VIEW traces AS SELECT {", ".join([*PARTITIONS, *IDENTITY[:-1], *FEATURES])} FROM {KEPT};
CREATE VIEW histogram AS SELECT trace, program, unnest(histogram, recursive := true) FROM {KEPT};
CREATE VIEW sites AS SELECT trace, program, unnest(sites, recursive := true) FROM {KEPT};
"""


def query(store: Store, sql: str) -> pd.DataFrame:
    """The result of a query. Raises HeaptapeError where it is not exactly one query, or would do more than read."""
    connection = duckdb.connect(":memory:")
    try:
        statements = connection.extract_statements(sql)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise HeaptapeError("a query is one SELECT (or FROM, WITH, DESCRIBE, SUMMARIZE, SHOW): nothing is changed")
        _tables(connection, store, sql)
        return _in_64_bits(connection.sql(sql)).df()
    except duckdb.Error as error:
        if "'files' failed" in str(error):  # Arrow's error, which DuckDB passes on as its own
            raise unreadable(store, error) from None
        raise HeaptapeError(f"query: {_first_line(error)}") from None
    finally:
        connection.close()


def _tables(connection: duckdb.DuckDBPyConnection, store: Store, sql: str) -> None:
    connection.execute("SET python_enable_replacements = false")
    if re.search(r"\bcells\b", sql, re.IGNORECASE):  # reading every cell takes a while
        connection.register("cells", store.results())
    if re.search(r"\b(traces|histogram|sites|tables)\b", sql, re.IGNORECASE):
        connection.register("files", opened(store))
        connection.execute(VIEWS)
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _in_64_bits(found: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """Casts sums of whole numbers, which have 128 bits and would be floating point in a DataFrame."""
    wide = [kind == "HUGEINT" for kind in map(str, found.types)]
    if not any(wide):
        return found
    quoted = ['"' + name.replace('"', '""') + '"' for name in found.columns]
    return found.project(
        ", ".join(f"{name}::BIGINT AS {name}" if is_wide else name for name, is_wide in zip(quoted, wide))
    )


def _first_line(error: duckdb.Error) -> str:
    """The error's first line: the other lines repeat the query."""
    return str(error).strip().partition("\n")[0]


@dataclass(frozen=True)
class Frames:
    """The tables of a store, each read on first use."""

    store: Store

    @cached_property
    def traces(self) -> pd.DataFrame:
        """One row per trace: its identity and its features."""
        return traces(self.store)

    @cached_property
    def histogram(self) -> pd.DataFrame:
        """Released objects by size and age: trace, program, unit ("bytes", "ns"), size_bytes, age, objects, bytes."""
        return query(self.store, "FROM histogram")

    @cached_property
    def sites(self) -> pd.DataFrame:
        """Objects by the stack that acquired them, of traces with stacks."""
        return query(self.store, "FROM sites")

    @cached_property
    def cells(self) -> pd.DataFrame:
        """Every figure of every cell: store.COLUMNS."""
        return self.store.results()

    def query(self, sql: str) -> pd.DataFrame:
        return query(self.store, sql)
