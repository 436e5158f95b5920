"""heaptape: traces, workloads and results of memory allocators, as tables."""

__version__ = "0.1.0"
