# SPDX-License-Identifier: MIT
"""Tasks run by the processes of many machines: Dask's scheduler and workers, which accept nothing but tasks."""
