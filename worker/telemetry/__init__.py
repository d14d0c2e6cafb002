"""One vocabulary of signals, four listeners."""
