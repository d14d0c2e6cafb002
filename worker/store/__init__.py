"""What must survive a crash, apart from the queue."""
