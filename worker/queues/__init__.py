"""Where tasks wait."""
