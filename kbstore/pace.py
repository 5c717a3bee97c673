"""How fast the threads of a run may ask a provider that limits its rate."""

from __future__ import annotations

import threading
from time import monotonic

from .errors import ModelError

_PATIENCE = 12  # waits for a provider that limits its rate
_LONGEST = 120.0  # seconds that one wait may take


class Pace:
    """How fast the threads of a run may ask: a provider that limits its rate slows all of them
    down, and a row of good answers speeds them up again (additive increase, multiplicative
    decrease).

    ``patient=False``, for a single call at store time, waits for nothing longer than a second.
    """

    def __init__(self, parallel: int = 1, *, patient: bool = True) -> None:
        self._most = parallel
        self._parallel = float(parallel)
        self._patient = patient
        self._running = 0
        self._not_before = 0.0
        self._changed = threading.Condition()
        self._stopped = False

    def turn(self) -> _Turn:
        """A context in which one call may be made. Raises ModelError when the run was stopped."""
        return _Turn(self)

    def went_well(self) -> None:
        with self._changed:
            self._parallel = min(self._most, self._parallel + 1 / max(1.0, self._parallel))
            self._changed.notify_all()

    def limited(self, seconds: float | None, tries: int) -> bool:
        """Slow everybody down; whether there is patience left to try again."""
        if tries >= (_PATIENCE if self._patient else 2):
            return False
        delay = min(60.0, 2.0 ** (tries - 1)) if seconds is None else min(seconds, _LONGEST)
        if not self._patient and delay > 1:
            return False
        with self._changed:
            self._parallel = max(1.0, self._parallel / 2)
            self._not_before = max(self._not_before, monotonic() + delay)
        return True

    def wait(self, seconds: float) -> bool:
        """Wait, or say that there is no patience for it."""
        if not self._patient and seconds > 1:
            return False
        with self._changed:
            self._changed.wait_for(lambda: self._stopped, seconds)
            return not self._stopped

    def stop(self) -> None:
        """Nobody begins another call."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _begin(self) -> None:
        with self._changed:
            while not self._stopped:
                delay = self._not_before - monotonic()
                if delay <= 0 and self._running < int(self._parallel):
                    self._running += 1
                    return
                self._changed.wait(delay if delay > 0 else None)
            raise ModelError("the run was stopped")

    def _end(self) -> None:
        with self._changed:
            self._running -= 1
            self._changed.notify_all()


class _Turn:
    def __init__(self, pace: Pace) -> None:
        self._pace = pace

    def __enter__(self) -> None:
        self._pace._begin()

    def __exit__(self, *_: object) -> None:
        self._pace._end()
