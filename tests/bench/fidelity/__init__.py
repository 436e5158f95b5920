# SPDX-License-Identifier: MIT
"""How accurate replays are: live runs, predictions, the certificate."""
