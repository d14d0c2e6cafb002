"""Call something that may be slow, broken or full, and always come back with an outcome."""
