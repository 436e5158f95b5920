# SPDX-License-Identifier: MIT
"""The `heaptape` command: one module for each subcommand. Nothing else imports this sub-package."""
