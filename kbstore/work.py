"""A document as the embedding model reads it: its hash, its passages, their texts."""

from __future__ import annotations

import json
from unicodedata import normalize

from . import passage
from .document import content_hash, heading


class EmbedWork:
    """A document whose vectors are to be made: its text, its hash and its passages."""

    def __init__(
        self, id: int, path: str, title: str, tags: str, description: str, body: str
    ) -> None:
        labels = json.loads(tags)
        self.id, self.path = id, path
        self.hash = content_hash(path, title, labels, description, body)
        self.passages = passage.split(body)
        head = heading(title, labels, description)[: passage.MAX_HEADING]
        # Composed: to a model, an accent on its own is another character.
        self.texts = [normalize("NFC", head + part.text) for part in self.passages]
