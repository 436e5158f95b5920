# SPDX-License-Identifier: MIT
"""`heaptape top`: watches a running recording from outside: `recording` reads it, `screen` shows it."""
