"""Searches for an allocator's best settings on given workloads, by exact figures of replays."""
