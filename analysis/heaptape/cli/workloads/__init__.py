# SPDX-License-Identifier: MIT
"""Where traces come from, other than `heaptape record`: recipes, patterns, suites; a part or a profile of a trace."""
