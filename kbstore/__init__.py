"""kbstore: the knowledge base of an AI agent in one SQLite file, searched by one SQL statement."""

from .document import Document, Summary
from .errors import KBError
from .picobot import KnowledgeBase
from .report import EmbedReport, PutReport, Status, SyncReport
from .schema import adopt, connect
from .search import Hit, SearchResult
from .store import Store

__all__ = [
    "Document",
    "EmbedReport",
    "Hit",
    "KBError",
    "KnowledgeBase",
    "PutReport",
    "SearchResult",
    "Status",
    "Store",
    "Summary",
    "SyncReport",
    "adopt",
    "connect",
]
__version__ = "0.1.0"
