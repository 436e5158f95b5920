# SPDX-License-Identifier: MIT
"""What the traces of a fleet ask of an allocator: profiled into Parquet files, queried in SQL and Python."""
