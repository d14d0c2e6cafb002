"""Type `nats pub …` as the README has it: with the real program, or with what it says to a server."""

from __future__ import annotations

import json
import shlex
import shutil
import socket
import subprocess


def nats_pub(line: str, *, port: int) -> None:
    """Carry out one line. Where the program is missing, the same goes over a socket."""
    name, verb, *words = shlex.split(line)
    assert (name, verb) == ("nats", "pub")
    if shutil.which(name):
        command = [name, "-s", f"nats://127.0.0.1:{port}", verb, *words]
        subprocess.run(command, check=True, capture_output=True, timeout=20)
        return
    at = words.index("-H") if "-H" in words else len(words)
    (subject, body), headers = words[:at], words[at + 1 : at + 2]
    lines = "".join("{}: {}\r\n".format(*each.split(":", 1)) for each in headers)
    head, raw = f"NATS/1.0\r\n{lines}\r\n".encode(), body.encode()
    asked = json.dumps({"verbose": False, "headers": True, "protocol": 1})
    with socket.create_connection(("127.0.0.1", port), timeout=10) as server:
        said = f"CONNECT {asked}\r\nHPUB {subject} {len(head)} {len(head) + len(raw)}\r\n".encode()
        server.sendall(said + head + raw + b"\r\nPING\r\n")
        heard = b""
        while b"PONG" not in heard:
            heard += server.recv(4096)
        assert b"-ERR" not in heard
