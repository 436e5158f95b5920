# SPDX-License-Identifier: MIT
"""`heaptape top`: a recording that runs, watched from outside.

`recording` finds it and reads its counts; `sample` makes rates and estimates of two readings; `names` calls sites by
their functions; `lines` draws a sample for a terminal, `screen` shows one after the other there.
"""
