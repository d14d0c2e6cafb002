"""Tools of the worker: add a file with an `@tool` function, and it is offered to the model."""
