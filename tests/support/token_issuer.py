"""An OAuth2 server for tests that knows one client and one grant, and what its tokens open."""

from __future__ import annotations

import base64
import json
import time
from itertools import count
from urllib.parse import parse_qs

CLIENT, SECRET = "shop-job", "cl1ent/s3cret+16180339"


class TokenIssuer:
    """Gives a token to the client, which is accepted for a short while. It knows ``client_credentials`` only."""

    def __init__(self, told: int, life: float) -> None:
        """``told``, ``life``: the seconds after which a token ends, as clients are told and in truth. Java asks for
        another just before it ends, and may come late on a busy machine; PyIceberg asks when one is refused."""
        self._told, self._life = told, life
        self._numbers = count(1)
        self._ends: dict[str, float] = {}
        self.asked: list[tuple[str, int]] = []
        """The grant of each request, and the status of its answer."""

    def issue(self, sent: bytes, authorization: str) -> tuple[int, bytes]:
        """Answer a request for a token."""
        form = {name: values[0] for name, values in parse_qs(sent.decode()).items()}
        grant = form.get("grant_type", "")
        status: int = 200
        answer: dict[str, str | int]
        if grant != "client_credentials":
            status, answer = 400, {"error": "unsupported_grant_type"}
        elif not (_basic(authorization) or (form.get("client_id"), form.get("client_secret")) == (CLIENT, SECRET)):
            status, answer = 401, {"error": "invalid_client", "error_description": "no such client, or a wrong secret"}
        else:
            token = f"token-{next(self._numbers)}"
            self._ends[token] = time.monotonic() + self._life
            answer = {"access_token": token, "token_type": "bearer", "expires_in": self._told}
        self.asked.append((grant, status))
        return status, json.dumps(answer).encode()

    def accepts(self, authorization: str) -> bool:
        """Whether a request has a token that is still valid."""
        return self._ends.get(authorization.removeprefix("Bearer "), 0) > time.monotonic()

    @property
    def given(self) -> int:
        """How many tokens were given."""
        return len(self._ends)


def _basic(authorization: str) -> bool:
    return authorization == "Basic " + base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
