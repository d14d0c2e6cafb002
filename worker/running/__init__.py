"""Drive runs: perform the effects the loop asks for, journal the outcomes."""
