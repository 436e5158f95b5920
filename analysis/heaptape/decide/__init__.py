# SPDX-License-Identifier: MIT
"""Which allocator to use: figures -> costs (cpu.py) -> verdict (verdict.py) -> sentences (answer.py)."""
