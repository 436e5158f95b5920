"""Making results: which allocators, workloads and runs, and making them."""
