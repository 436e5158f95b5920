# SPDX-License-Identifier: MIT
"""How true replays are: live runs, predictions, the certificate."""
