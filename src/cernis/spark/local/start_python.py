"""The script that starts each Python process of a local session: it answers Spark, then imports.

Spark waits ten seconds for a process that declares the state of a streaming query to connect, and
as long for the secret that it has given the process; no setting changes that. Importing PySpark
takes less than a second on an idle machine, and can take longer than Spark waits on a busy one: the
query then ends with *Python worker failed to connect back*. So this script connects and sends the
secret first, with the standard library alone, and gives the connection to PySpark when it asks for
one. Other processes (the daemon, which Spark does not hurry) start as they are.

    start_python.py -m MODULE    as python -m MODULE

Cost: about 20 ms of processor time before the connection.
"""

from __future__ import annotations

import os
import runpy
import socket
import struct
import sys
from importlib import import_module
from typing import Any

_HURRIED = "pyspark.sql.streaming.transform_with_state_driver_worker"


def connect_first(port: int, secret: str) -> None:
    """Connect to Spark, and let PySpark use this connection in place of a new one."""
    address = "::1" if os.environ.get("SPARK_PREFER_IPV6", "").lower() == "true" else "127.0.0.1"
    connection = socket.create_connection((address, port))
    connection.settimeout(int(os.environ.get("SPARK_AUTH_SOCKET_TIMEOUT", "15")))
    file = connection.makefile("rwb", int(os.environ.get("SPARK_BUFFER_SIZE", "65536")))
    written = secret.encode()
    file.write(struct.pack("!i", len(written)) + written)
    file.flush()
    reply = file.read(*struct.unpack("!i", file.read(4)))
    if reply != b"ok":
        sys.exit(f"Spark has refused the connection: {reply!r}")

    util: Any = import_module("pyspark.util")
    connect = util.local_connect_and_auth
    util.local_connect_and_auth = lambda to, secret: (
        (file, connection) if to == port else connect(to, secret)
    )


if __name__ == "__main__":
    _, _, module, *arguments = sys.argv
    sys.path[0] = os.getcwd()  # not the folder of this file
    sys.argv = [module, *arguments]
    port, secret = (os.environ.get(f"PYTHON_WORKER_FACTORY_{name}") for name in ("PORT", "SECRET"))
    if module == _HURRIED and port and secret:  # there is neither with Unix sockets
        connect_first(int(port), secret)
    runpy.run_module(module, run_name="__main__", alter_sys=True)
