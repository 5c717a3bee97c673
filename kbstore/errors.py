"""Every error that kbstore raises on purpose.

    KBError                       exit code 1
    ├── InputError                exit code 2   something given is not usable: a path, a date
    │   └── EmptyContentError                   empty text would replace a note that has some
    ├── NotFoundError             exit code 3   no such document, folder or file
    ├── ConflictError                           the path is taken
    │   └── EditConflictError                   the document is not the version that was expected
    ├── DatabaseError                           SQLite could not do it; the cause is kept
    │   ├── NotADatabaseError                   the file is empty, or no SQLite database
    │   ├── ForeignDatabaseError                another application's database
    │   ├── NewerSchemaError                    made by a newer kbstore
    │   ├── OlderSchemaError                    made by an older one, and it may not be written
    │   ├── BusyError                           another process held the write lock for too long
    │   ├── ForkError                           the store was opened by a parent process
    │   └── ReadOnlyError                       the file or its folder cannot be written
    ├── ModelError                              the embedding model or the LLM failed
    │   ├── ModelUnavailableError               it cannot be loaded or reached at all
    │   ├── RateLimitedError                    the provider asks to come back later
    │   └── BadVectorError                      it gave something that is no usable vector
    ├── MassDeletionError                       more than half of the mirrored files are gone
    └── GitError                                the folder is not one that git can sync

A message says what happened, to which document or file, and what to do next, in one line.
"""

from __future__ import annotations


class KBError(Exception):
    """The root. ``exit_code`` is what the command line ends with."""

    exit_code = 1


class InputError(KBError):
    """Something given is not usable; nothing was changed."""

    exit_code = 2


class EmptyContentError(InputError):
    """Empty text would replace a note that has some."""


class NotFoundError(KBError):
    """There is no such document, folder or file."""

    exit_code = 3


class ConflictError(KBError):
    """A document with this path exists already."""


class EditConflictError(ConflictError):
    """The document is not the version that was expected. ``expected`` and ``current`` are content
    hashes; "" stands for no document."""

    def __init__(self, message: str, expected: str, current: str) -> None:
        super().__init__(message)
        self.expected, self.current = expected, current


class DatabaseError(KBError):
    """SQLite could not do it. The driver's error is the ``__cause__``."""


class NotADatabaseError(DatabaseError):
    """The file is empty, or not an SQLite database."""


class ForeignDatabaseError(DatabaseError):
    """The file is the database of another application."""


class NewerSchemaError(DatabaseError):
    """The file was made by a newer kbstore."""


class OlderSchemaError(DatabaseError):
    """The file was made by an older kbstore, and may not be written to bring it up to date."""


class BusyError(DatabaseError):
    """Another process held the write lock for longer than we wait."""


class ForkError(DatabaseError):
    """The store was opened by the process that this one was forked from."""


class ReadOnlyError(DatabaseError):
    """The file or its folder cannot be written."""


class ModelError(KBError):
    """The embedding model or the LLM failed."""


class ModelUnavailableError(ModelError):
    """The model cannot be loaded or reached at all."""


class RateLimitedError(ModelError):
    """The provider asks to come back later, for longer than we wait."""


class BadVectorError(ModelError):
    """The embedding model gave something that is no usable vector."""


class MassDeletionError(KBError):
    """More than half of the mirrored files are gone: that is rarely meant."""


class GitError(KBError):
    """The folder is not one that git can sync; nothing was changed."""
