"""Tools of the worker: add a file with an `@tool` function, and it is offered to the model.

    from worker import tool

    @tool(timeout_seconds=5, stub="天气暂不可用")
    async def weather(city: str) -> str:
        \"""Current weather in a city, in one line.

        Args:
            city: Name of the city, in English.
        \"""

The first paragraph of the docstring tells the model what the tool does, the annotations what it
takes, the Args section what goes in. `loopworker tools` lists what was found and what to improve.
Files whose names begin with `_` are for your own use.
"""
