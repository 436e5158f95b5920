# SPDX-License-Identifier: MIT
"""A store's tables in SQL (DuckDB) and as DataFrames: `traces`, `histogram`, `sites`, `cells` (docs/use/FLEET.md).

A query reads only these tables, neither files nor the network, and changes nothing.
"""

import re
from dataclasses import dataclass
from functools import cached_property

import duckdb
import pandas as pd

from heaptape.common.errors import HeaptapeError
from heaptape.fleet import dataset
from heaptape.fleet.dataset import FEATURES
from heaptape.fleet.store import Store

# A trace that two runs ingested at the same time is in two files: the first by name counts.
KEPT = "files SEMI JOIN (SELECT trace, min(part) AS part FROM files GROUP BY trace) USING (trace, part)"
VIEWS = f"""
CREATE VIEW traces AS SELECT {", ".join([*dataset.PARTITIONS, *dataset.IDENTITY[:-1], *FEATURES])} FROM {KEPT};
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
            raise dataset.unreadable(store, error) from None
        raise HeaptapeError(f"query: {_first_line(error)}") from None
    finally:
        connection.close()


def _tables(connection: duckdb.DuckDBPyConnection, store: Store, sql: str) -> None:
    connection.execute("SET python_enable_replacements = false")
    if re.search(r"\bcells\b", sql, re.IGNORECASE):  # reading every cell takes a while
        connection.register("cells", store.results())
    if re.search(r"\b(traces|histogram|sites|tables)\b", sql, re.IGNORECASE):
        connection.register("files", dataset.opened(store))
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
        return dataset.traces(self.store)

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
