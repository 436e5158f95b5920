# SPDX-License-Identifier: MIT
"""Plans: the cells that follow from them, the files that these need in the store, and how many cells are left."""
