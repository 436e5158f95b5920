# SPDX-License-Identifier: MIT
"""`pytest --heaptape`: what each test acquires, from a recording of the run, and limits for it (docs/use/PYTEST.md)."""
