"""A whole worker at work: real queue, real HTTP, a tool that breaks and recovers."""
