"""The worker seen from outside."""
