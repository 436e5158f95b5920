# SPDX-License-Identifier: MIT
"""What every sub-package may use: errors, locations of files, output, progress, work in several processes."""
