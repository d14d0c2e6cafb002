"""The errors that users subclass."""

from __future__ import annotations

from worker.core.errors import LeaseLost, ToolError


def test_a_subclass_without_a_docstring_tells_its_name():
    """A user's own ToolError needs no docstring to be raised."""

    class Out(ToolError):
        pass

    Out.__doc__ = None

    assert str(Out()) == "Out"
    assert str(LeaseLost()).startswith("Somebody else owns this run")
