"""Pure: what the agent decides, without doing any of it."""
