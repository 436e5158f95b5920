# SPDX-License-Identifier: MIT
"""What is kept: cells, workloads, libraries, by hash, as whole files of a folder or a URL."""
