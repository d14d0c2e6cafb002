"""A TCP proxy before a server: it goes silent, loses answers, cuts connections or refuses new ones."""

from __future__ import annotations

import collections
import selectors
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_CHUNK = 65_536


class Proxy:
    """Passes bytes between a port of its own and a server's, in a thread of its own.

    `is_silent`: bytes stop in both directions while connections stay open, as when a cable is cut.
    `delay_seconds`: how long each piece is on its way.
    """

    def __init__(self, server_port: int) -> None:
        self.server_port = server_port
        self.is_silent = False
        self._refuses = False
        self._loses_answers = False
        self._inner: set[socket.socket] = set()
        self._told: set[socket.socket] = set()  # by their server side
        self._peers: dict[socket.socket, socket.socket] = {}
        self._lock = threading.Lock()
        self._forgotten: list[socket.socket] = []
        self.delay_seconds = 0.0
        self._late: collections.deque[tuple[float, socket.socket, bytes]] = collections.deque()
        self._ends = threading.Event()
        self._selector = selectors.DefaultSelector()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._thread.start()

    def refuse(self) -> None:
        """Cut every connection, and close each new one at once."""
        with self._lock:
            self._refuses = True
            for one in list(self._peers):
                self._drop(one)

    def silence(self) -> None:
        """Let no byte through any more."""
        self.is_silent = True

    def forget(self) -> None:
        """Let what is open now stay open and never say anything again; new connections are fine."""
        with self._lock:
            for one in list(self._peers):
                self._selector.unregister(one)
            self._forgotten += self._peers
            self._peers.clear()
            self._inner.clear()

    @contextmanager
    def losing_answers(self) -> Iterator[None]:
        """Pass on what the server is told, and cut each connection on which it answers.

        What a server says unasked, as to see whether somebody is there, is no answer.
        """
        self._told.clear()
        self._loses_answers = True
        try:
            yield
        finally:
            self._loses_answers = False

    def pass_on(self) -> None:
        """Be a proxy again; what was held back while it was silent is lost with its connections."""
        if self.is_silent:
            self.refuse()
        self.is_silent = self._refuses = False

    def close(self) -> None:
        """End it."""
        self._ends.set()
        self._thread.join()
        self.refuse()
        for one in self._forgotten:
            one.close()
        self._listener.close()
        self._selector.close()

    def _run(self) -> None:
        while not self._ends.is_set():
            wait = 0.005 if self._late else 0.05
            for each, _ in self._selector.select(timeout=wait):
                with self._lock:
                    if each.fileobj is self._listener:
                        self._accept()
                    elif self.is_silent:
                        self._ends.wait(0.01)
                    else:
                        self._copy(each.fileobj)
            with self._lock:
                self._deliver()

    def _deliver(self) -> None:
        """Pass on what has been on its way for long enough."""
        while self._late and self._late[0][0] <= time.monotonic():
            _, source, chunk = self._late.popleft()
            if source in self._peers:
                self._pass(source, chunk)

    def _pass(self, source: socket.socket, chunk: bytes) -> None:
        try:
            self._peers[source].sendall(chunk)
        except OSError:
            self._drop(source)

    def _accept(self) -> None:
        inner, _ = self._listener.accept()
        if self._refuses:
            inner.close()
            return
        try:
            outer = socket.create_connection(("127.0.0.1", self.server_port), timeout=5)
        except OSError:
            inner.close()
            return
        for one, other in ((inner, outer), (outer, inner)):
            one.settimeout(5)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # small answers do not wait
            self._peers[one] = other
            self._selector.register(one, selectors.EVENT_READ)
        self._inner.add(inner)

    def _copy(self, source: object) -> None:
        if not isinstance(source, socket.socket) or source not in self._peers:
            return  # dropped a moment ago
        try:
            chunk = source.recv(_CHUNK)
            if source in self._inner:
                self._told.add(self._peers[source])
            is_lost = self._loses_answers and source in self._told
            if chunk and not is_lost:
                if self.delay_seconds or self._late:
                    due = time.monotonic() + self.delay_seconds
                    self._late.append((due, source, chunk))
                else:
                    self._pass(source, chunk)
                return
        except OSError:
            pass
        self._drop(source)

    def _drop(self, one: socket.socket) -> None:
        other = self._peers.pop(one, None)
        for each in (one, other):
            if each is not None:
                self._peers.pop(each, None)
                self._inner.discard(each)
                self._told.discard(each)
                try:
                    self._selector.unregister(each)
                except (KeyError, ValueError):
                    pass
                each.close()
