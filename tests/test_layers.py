"""The structure: imports point down, importing is cheap, one module writes each table."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kbstore
from kbstore import queries

PACKAGE = Path(kbstore.__file__).parent

# From the top down: a module imports only from the lines below its own.
LAYERS = (
    {"__main__"},
    {"cli"},
    {"demo", "terminal"},
    {"mirror"},
    {"__init__"},
    {"store"},
    {"vectors"},
    {"search", "schema", "session"},
    {"connection"},
    {"embed", "frontmatter", "queries", "report"},
    {"document", "gguf_file", "passage"},
    {"errors"},
)


def imports(module: str) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse((PACKAGE / f"{module}.py").read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            names = [node.module.split(".")[0]] if node.module else [n.name for n in node.names]
            found |= {"__init__" if name == "__version__" else name for name in names}
    return found


def test_every_module_has_a_layer() -> None:
    assert {file.stem for file in PACKAGE.glob("*.py")} == set().union(*LAYERS)


@pytest.mark.parametrize("module", sorted(set().union(*LAYERS)))
def test_imports_point_down(module: str) -> None:
    level = next(i for i, layer in enumerate(LAYERS) if module in layer)
    below = set().union(*LAYERS[level + 1 :])
    assert imports(module) <= below


def test_the_driver_is_used_below_the_command_line_only() -> None:
    for module in ("cli", "demo", "mirror", "frontmatter", "document", "passage", "embed"):
        assert "apsw" not in (PACKAGE / f"{module}.py").read_text(), module


def test_no_sql_is_built_from_pieces() -> None:
    for file in [*PACKAGE.glob("*.py")]:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.JoinedStr):
                text = "".join(v.value for v in node.values if isinstance(v, ast.Constant))
                words = text.lower().split()
                assert not {"select", "insert", "update"} & set(words[:1]), (file.name, text)


def test_every_named_statement_is_used() -> None:
    names = re.findall(r"^-- name: (\w+)$", queries.read("queries"), re.MULTILINE)
    code = "".join(file.read_text() for file in PACKAGE.glob("*.py"))
    code += '"document_vec_delete" "document_vec_insert" "hype_vec_delete" "hype_vec_insert"'
    assert '"{kind}_vec_delete"' in code  # the four are named by their kind
    assert len(names) == len(set(names))
    assert [name for name in names if f'"{name}"' not in code] == []


def test_importing_brings_in_no_model() -> None:
    code = (
        "import sys, kbstore, kbstore.cli;"
        "heavy = ('nomic', 'litellm', 'gpt4all', 'pandas', 'yaml', 'rich');"
        "print([name for name in heavy if name in sys.modules])"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert printed.stdout.strip() == "['yaml']"


def test_the_public_names() -> None:
    assert sorted(kbstore.__all__) == [
        "Document",
        "EmbedReport",
        "Hit",
        "KBError",
        "PutReport",
        "SearchResult",
        "Status",
        "Store",
        "Summary",
        "SyncReport",
        "adopt",
        "connect",
    ]
    assert all(hasattr(kbstore, name) for name in kbstore.__all__)


def test_modules_stay_small() -> None:
    lengths = {file.name: len(file.read_text().splitlines()) for file in PACKAGE.glob("*.py")}
    assert max(lengths.values()) <= 400, lengths
