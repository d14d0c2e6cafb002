"""Tools from MCP servers: each server behind one guard, its tools in the registry like any other.

The official SDK speaks the protocol; here is what a worker needs around it: a process or a client
that is bounded, a session that comes back, and schemas and results that are not trusted.
"""
