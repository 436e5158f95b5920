# SPDX-License-Identifier: MIT
"""A recording made ready to be sent to others: anonymised, as small as it gets, checked."""
