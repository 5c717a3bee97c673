"""Nomic's server: the account, the requests that nomic makes of it, and what its refusals mean.

The key stands in no error: not in the text, and not in a cause that a traceback would show.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from . import network
from .errors import ModelUnavailableError

_SERVER = "https://api-atlas.nomic.ai"
_login: tuple[str, str] | None = None  # what `nomic login` has stored: the server's address, a key


@dataclass(frozen=True)
class Account:
    """What nomic's call reads of its own AtlasClass, which asks the server twice to make one."""

    atlas_api_path: str
    key: str = field(repr=False)

    @property
    def header(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}


def account() -> Account:
    """The one of ``NOMIC_API_KEY``, else of `nomic login`; ``ATLAS_API_PATH`` is another server.

    Raises ModelUnavailableError.
    """
    global _login
    server, key = _SERVER, os.environ.get("NOMIC_API_KEY", "").strip()
    problem = "there is no usable key: set NOMIC_API_KEY, or run `nomic login`"
    if not key:
        try:
            _login = _login or _stored_login()
            server, key = _login
        except Exception as error:  # nomic raises whatever the file and the server bring about
            problem = network.explain(error, server) or problem
    # Another character comes back in the error of the header that it stands in.
    if key and key.isascii() and key.isprintable() and " " not in key:
        return Account(os.environ.get("ATLAS_API_PATH", "").strip().rstrip("/") or server, key)
    raise ModelUnavailableError(f"the remote embedding failed: {problem}")


def post(url: str, **options: Any) -> Any:
    """requests.post for nomic.embed."""
    query = (options.get("json") or {}).get("task_type") == "search_query"
    return network.request("post", url, network.HASTY if query else network.PATIENT, **options)


def get(url: str, **options: Any) -> Any:
    """requests.get for nomic.cli, which asks for a new key in place of one that has expired."""
    logger = logging.getLogger("urllib3.connectionpool")  # logs the address: this one is a secret
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        answer = network.request("get", url, network.HASTY, **options)
    finally:
        logger.setLevel(level)
    if network.passing(answer.status_code):
        answer.raise_for_status()  # else nomic takes it for a refusal
    return answer


def explain(error: Exception, account: Account) -> str:
    """What went wrong with nomic's call and what to do next, in one line."""
    global _login
    server = network.shown(account.atlas_api_path)
    match error.args:  # nomic raises Exception((status, text))
        case ((401 | 403 as status, _),):
            _login = None  # it may have expired: the next call looks for a new one
            return (
                f"{server} refuses the key (HTTP {status}):"
                " set NOMIC_API_KEY to a valid one, or run `nomic login`"
            )
        case ((int(status), str(text)),):
            if network.passing(status):
                return network.trouble(server, status)
            for secret in (account.key, quote(account.key, safe="")):
                text = text.replace(secret, "…")
            return f"{server} refuses the request (HTTP {status}): {' '.join(text.split())[:300]}"
    problem = network.explain(error, account.atlas_api_path)
    return (
        problem
        or f"{server} gives something else than vectors: try again, or look at ATLAS_API_PATH"
    )


def _stored_login() -> tuple[str, str]:
    """The address and the key of `nomic login`, renewed where it has expired. Raises anything."""
    import nomic.cli

    cli: Any = nomic.cli
    stored = cli.refresh_bearer_token()
    server = cli.tenants.get(stored["tenant"], stored)["api_domain"]
    return f"https://{server}", str(stored["token"])
