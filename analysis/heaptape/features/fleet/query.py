# SPDX-License-Identifier: MIT
"""The tables of a store: its cells, its workloads, and what follows from them; as DataFrames, Parquet, and in SQL."""

from collections.abc import Mapping
from pathlib import Path

import duckdb
import pandas as pd

from heaptape.common.errors import HeaptapeError
from heaptape.common.output import write_bytes
from heaptape.features.fleet import conclusions
from heaptape.features.fleet.features import FEATURES
from heaptape.features.fleet.store import Store


def workloads(store: Store) -> pd.DataFrame:
    """One row per workload: what it is, and FEATURES of its recording (missing where it was a workload already)."""
    columns = ("sha256", "name", "program", "weight", "source", "file_bytes")
    rows = [{name: getattr(one, name) for name in columns} | one.profile for one in store.workloads().values()]
    return pd.DataFrame(rows, columns=[*columns, *FEATURES])


def tables(store: Store, baseline: str, worst_percent: float) -> dict[str, pd.DataFrame]:
    """All tables: cells, workloads, and the conclusions; those are left out where nothing was compared yet."""
    found = {"cells": store.results(), "workloads": workloads(store)}
    try:
        return found | conclusions.conclusions(found["cells"], baseline, worst_percent).tables()
    except conclusions.NothingComparedError:
        return found


def write_parquet(found: Mapping[str, pd.DataFrame], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in found.items():
        write_bytes(str(folder / f"{name}.parquet"), table.to_parquet(index=False))


def query(found: Mapping[str, pd.DataFrame], sql: str) -> pd.DataFrame:
    """The result of one query, which sees the tables, and neither files nor the network. Raises HeaptapeError."""
    connection = duckdb.connect(":memory:", config={"python_enable_replacements": False})
    try:
        for name, table in found.items():
            connection.register(name, table)
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        statements = connection.extract_statements(sql)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise HeaptapeError("a query is one SELECT (or FROM, WITH, DESCRIBE, SUMMARIZE, SHOW): nothing is changed")
        relation = connection.sql(sql)
        # Sums of whole numbers have 128 bits, and would be floating point in a DataFrame.
        wide = {name for name, kind in zip(relation.columns, map(str, relation.types)) if kind == "HUGEINT"}
        quoted = {name: '"' + name.replace('"', '""') + '"' for name in relation.columns}
        words = [f"{text}::BIGINT AS {text}" if name in wide else text for name, text in quoted.items()]
        return relation.project(", ".join(words)).df() if wide else relation.df()
    except duckdb.Error as error:
        raise HeaptapeError(f"query: {str(error).strip().partition(chr(10))[0]}") from None  # then it repeats the query
    finally:
        connection.close()
