"""The public API, and nothing else."""
