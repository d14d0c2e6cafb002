"""Take tasks from the queue, keep their leases alive, settle them, drain."""
