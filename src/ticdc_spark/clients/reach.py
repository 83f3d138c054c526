"""Which part of a database's URI is wrong, when a connection fails."""

import socket

TIMEOUT = 3.0
"""Seconds for a server to accept a connection."""


def unreachable(host: str, port: int, timeout: float = TIMEOUT) -> str:
    """One clause about the host or the port; ``""``: something accepts connections there.

    An error of a driver mixes these, and its text depends on the driver and on the language of the machine.
    """
    try:
        socket.create_connection((host, port), timeout).close()
    except socket.gaierror:
        return f"the host {host} is not known here"
    except ConnectionRefusedError:
        return f"nothing listens at the port {port} of the host {host}, or the server is down"
    except OSError:
        return f"the host {host} does not answer at the port {port}"
    return ""
