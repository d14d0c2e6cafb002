"""Links to PostgreSQL over a bad network: replies that get lost, statements that come twice."""

from __future__ import annotations

from typing import Any

import psycopg

from worker.postgres.link import PostgresLink, Statements


class DeafLink(PostgresLink):
    """Connections that end between a commit and its reply, while `is_deaf`.

    With `repeats` each statement reaches the server twice, as if the network had kept it, but for
    those that contain this text. Of a transaction the network can repeat nothing: each statement
    waits for the answer to the one before it.
    """

    is_deaf = False
    repeats: str | None = None

    def _on(self, connection: Any) -> Statements:
        return _Deaf(connection, self)

    async def _kept(self, work: Any, full: Any, in_turn: Any) -> Any:
        async def work_unheard(connection: Any) -> Any:
            outcome = await work(connection)
            await self.lose(connection)
            return outcome

        return await super()._kept(work_unheard, full, in_turn)

    async def lose(self, connection: Any) -> None:
        """End the connection, if it is time for that."""
        if self.is_deaf:
            await connection.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")


class _Deaf(Statements):
    def __init__(self, connection: Any, link: DeafLink) -> None:
        super().__init__(connection, link.settings)
        self._link = link

    async def _execute(self, statement: str, values: Any) -> Any:
        cursor = await super()._execute(statement, values)
        if self._link.repeats is not None and self._link.repeats not in statement:
            await super()._execute(statement, values)
        await self._link.lose(self._connection)
        return cursor
