"""For users' tests and for ours."""
