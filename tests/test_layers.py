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
    {
        "commands.files", "commands.folders", "commands.model", "commands.notes",
        "commands.questions", "commands.ranking", "commands.safety", "commands.vectors",
    },
    {"commands.base"},
    {"demo", "terminal"},
    {"__init__"},
    {"picobot"},
    {"backup", "check", "evaluation", "git", "history", "mirror"},
    {"conflict", "export", "repair"},
    {"commit", "merge"},
    {"repository"},
    {"store"},
    {"state"},
    {"questions"},
    {"hype_run"},
    {"vectors"},
    {"sources"},
    {"search", "schema", "session"},
    {"migration"},
    {"connection"},
    {"model_file"},
    {"embed", "frontmatter", "hype", "queries"},
    {"atlas", "download", "pace", "work"},
    {"folder", "network", "slug"},
    {"config", "document", "gguf_file", "passage", "report"},
    {"errors"},
)  # fmt: skip


FILES = {
    file.relative_to(PACKAGE).with_suffix("").as_posix().replace("/", "."): file
    for file in [*PACKAGE.glob("*.py"), *PACKAGE.glob("commands/[!_]*.py")]
}


def imports(module: str) -> set[str]:
    """The modules of this package that it imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(FILES[module].read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            package = module.split(".")[: -node.level]
            names = [node.module] if node.module else [name.name for name in node.names]
            for name in names:
                full = ".".join([*package, name])
                if full == "commands":
                    found |= {f"commands.{name.name}" for name in node.names}
                else:
                    found.add("__init__" if name == "__version__" else full)
    return found


def test_every_module_has_a_layer() -> None:
    assert set(FILES) == set().union(*LAYERS)


@pytest.mark.parametrize("module", sorted(set().union(*LAYERS)))
def test_imports_point_down(module: str) -> None:
    level = next(i for i, layer in enumerate(LAYERS) if module in layer)
    below = set().union(*LAYERS[level + 1 :])
    assert imports(module) <= below


def test_the_driver_is_used_below_the_command_line_only() -> None:
    for module in ("cli", "demo", "mirror", "frontmatter", "document", "passage", "embed"):
        assert "apsw" not in (PACKAGE / f"{module}.py").read_text(), module


def test_no_sql_is_built_from_pieces() -> None:
    for file in FILES.values():
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.JoinedStr):
                text = "".join(v.value for v in node.values if isinstance(v, ast.Constant))
                words = text.lower().split()
                assert not {"select", "insert", "update"} & set(words[:1]), (file.name, text)


def test_every_named_statement_is_used() -> None:
    names = re.findall(r"^-- name: (\w+)$", queries.read("queries"), re.MULTILINE)
    code = "".join(file.read_text() for file in FILES.values())
    # some are named by their kind
    for end in (
        "{kind}_vec_delete",
        "{kind}_vec_insert",
        "check_{kind}_vec",
        "check_{kind}_vec_parts",
    ):
        assert f'"{end}"' in code
        code += "".join(f'"{end.format(kind=kind)}"' for kind in ("document", "hype"))
    for end in ("check_{kind}_embedding", "{found[1]}_embedding_lost"):
        assert f'"{end}"' in code
        for kind in ("document", "question"):
            code += '"' + re.sub(r"{.*}", kind, end) + '"'
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
    assert all(hasattr(kbstore, name) for name in kbstore.__all__)


def test_modules_stay_small() -> None:
    lengths = {name: len(file.read_text().splitlines()) for name, file in FILES.items()}
    assert max(lengths.values()) <= 400, lengths
