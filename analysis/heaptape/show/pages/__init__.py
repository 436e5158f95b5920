# SPDX-License-Identifier: MIT
"""The HTML pages and the notebook."""
