# SPDX-License-Identifier: MIT
"""A second reader of traces, short and slow, written from core/trace/FORMAT.md alone and not from the C reader: two
readers that agree prove that the document is complete.
"""
