# SPDX-License-Identifier: MIT
"""What every sub-package may use: errors, where files lie, output, progress, work in several processes."""
