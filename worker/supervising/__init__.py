"""Several workers on one machine: start them, watch them, restart what ends, end them together."""
