"""Requests over a network that may fail: time-outs, bounded retries, one line on what was wrong.

``import`` is cheap: requests (0.1 s) is imported when the first request is made.
"""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from requests import Response

_thread = threading.local()  # in a thread of a Pool, its ``stop``


class Pool(ThreadPoolExecutor):
    """A pool of threads that make requests: once one of them has failed for good, or whoever waits
    for them is interrupted, the others wait no more, and those that have not begun do not."""

    def __init__(self, max_workers: int | None = None) -> None:
        self._stop = threading.Event()
        super().__init__(max_workers, initializer=setattr, initargs=(_thread, "stop", self._stop))

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind:
            self._stop.set()
            self.shutdown(cancel_futures=True)
        super().__exit__(kind, error, trace)


class Patience(NamedTuple):
    """How long a request may take. ``hurry``: somebody waits for it, so it is not made again after
    a time-out, nor where the server asks for a longer wait than ``longest``."""

    connect: float  # seconds
    read: float  # seconds between two pieces of an answer
    retries: int
    longest: float  # seconds that one wait may take
    hurry: bool


PATIENT = Patience(connect=10, read=60, retries=5, longest=60, hurry=False)
HASTY = Patience(connect=5, read=10, retries=1, longest=1, hurry=True)


def request(method: str, url: str, patience: Patience, **options: Any) -> Response:
    """The answer to the last of at most ``1 + patience.retries`` requests, whatever its status.

    Raises requests.RequestException where it had none.
    """
    import requests
    from requests import exceptions

    retry = 0
    while True:
        delay = backoff(retry)
        try:
            response = requests.request(
                method, url, timeout=(patience.connect, patience.read), **options
            )
        except (
            exceptions.ConnectionError,
            exceptions.Timeout,
            exceptions.ChunkedEncodingError,
        ) as e:
            untrusted = isinstance(e, exceptions.SSLError)  # and will be next time
            hopeless = untrusted or (patience.hurry and _timed_out(e))
            if hopeless or retry == patience.retries or not wait(min(delay, patience.longest)):
                _stop().set()
                raise
        else:
            if response.ok:
                return response
            asked = retry_after(response)
            delay = delay if asked is None else asked
            hopeless = not passing(response.status_code)
            hopeless = hopeless or (patience.hurry and delay > patience.longest)
            if hopeless or retry == patience.retries or not wait(min(delay, patience.longest)):
                _stop().set()
                return response
        retry += 1


def passing(status: int) -> bool:
    """Whether an HTTP status may be another one in a while."""
    return status == 429 or status >= 500


def backoff(retry: int) -> float:
    """Seconds before the next try: they double, and no two clients come back together."""
    return 2.0 ** min(retry, 10) * random.uniform(0.5, 1.0)


def wait(seconds: float) -> bool:
    """Whether to go on after so many seconds."""
    _wait(seconds)
    return not _stop().is_set()


def _wait(seconds: float) -> None:
    _stop().wait(seconds)


def _stop() -> threading.Event:
    """That of this thread's pool, or of nobody."""
    return getattr(_thread, "stop", None) or threading.Event()


def retry_after(response: Response) -> float | None:
    """The seconds that the server asks to wait, given as a number or as a date; 0 is at once."""
    value = response.headers.get("Retry-After", "").strip()
    if value.isdecimal():
        return float(value)
    try:
        moment = parsedate_to_datetime(value)
        moment = moment.replace(tzinfo=moment.tzinfo or UTC)
        return max(0.0, (moment - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError, OverflowError):
        return None


def shown(url: str) -> str:
    """The address without what may be secret in it: the user, the password, the query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "the address"
    address = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="")
    return address.geturl()


def explain(error: Exception, url: str) -> str | None:
    """What went wrong and what to do next, in one line; None: it was not the request.

    Never the error's own text: an address or a header with a key may stand in it.
    """
    import requests
    from requests import exceptions
    from urllib3.exceptions import ProtocolError

    server = urlsplit(shown(url)).netloc or shown(url)
    cause = error.args[0] if error.args else None
    match error:
        case exceptions.HTTPError(response=requests.Response(status_code=status)):
            return trouble(server, status)
        case exceptions.SSLError():
            return f"no secure connection to {server}: look at the clock and at the proxy"
        case exceptions.ProxyError():
            return f"{server} cannot be reached through the proxy: look at HTTPS_PROXY"
        case exceptions.JSONDecodeError():
            return f"{server} answers without JSON: look whether a proxy or sign-in page answers"
        case _ if _timed_out(error):
            return f"{server} does not answer in time: try again later"
        case exceptions.ChunkedEncodingError():
            return f"the connection to {server} was cut: try again"
        case exceptions.ConnectionError() if isinstance(cause, ProtocolError):
            return f"the connection to {server} was cut: try again"
        case exceptions.ConnectionError():
            return f"{server} cannot be reached: look at the network"
        case exceptions.InvalidURL() | exceptions.MissingSchema() | exceptions.InvalidSchema():
            return f"{shown(url)!r} is no address: give one such as https://…"
        case exceptions.RequestException():
            return f"{server} cannot be understood ({type(error).__name__}): look at its address"
    return None


def trouble(server: str, status: int) -> str:
    """The same of an HTTP status that may be another one in a while."""
    what = "has had too many requests" if status == 429 else "is out of order"
    return f"{server} {what} (HTTP {status}): try again later"


def _timed_out(error: Exception) -> bool:
    from requests import Timeout
    from urllib3.exceptions import ReadTimeoutError

    # One in the middle of an answer comes as a lost connection.
    return isinstance(error, Timeout) or isinstance(next(iter(error.args), 0), ReadTimeoutError)
