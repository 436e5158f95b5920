# SPDX-License-Identifier: MIT
"""`heaptape top`: watches a running recording from outside.

`recording` finds it and reads its counts; `sample` computes rates and estimates from two readings; `names` names sites
by their functions; `lines` formats a sample for a terminal, `screen` shows successive samples there.
"""
