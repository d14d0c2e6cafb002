"""What queue and store share of PostgreSQL: its address, connections, tables' versions, bells."""
