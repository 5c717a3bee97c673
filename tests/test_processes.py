"""Many processes, kills, foreign files, hand edits in the sqlite3 shell, threads, host connections
and changes of the model: whatever happens, documents, words and vectors agree."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import pytest
from conftest import FakeEmbedder

import kbstore
from kbstore import backup, mirror, schema, session, vectors
from kbstore import connection as connection_module
from kbstore import embed as embed_module
from kbstore.errors import (
    BusyError,
    DatabaseError,
    ForeignDatabaseError,
    ForkError,
    InputError,
    KBError,
    ModelUnavailableError,
    NewerSchemaError,
    NotADatabaseError,
    NotFoundError,
    ReadOnlyError,
)
from kbstore.sources import Source

SERVING = "(select value from setting where name = 'model')"


def faults(connection: apsw.Connection) -> list[str]:
    """Everything in which documents, words and vectors disagree."""
    found = []
    if connection.execute("pragma integrity_check").fetchall() != [("ok",)]:
        found.append("integrity_check")
    try:
        connection.execute(
            "insert into document_fts (document_fts, rank) values ('integrity-check', 1)"
        )
    except apsw.Error as error:
        found.append(f"full-text index: {error}")
    found += [f"foreign key {row}" for row in connection.execute("pragma foreign_key_check")]
    orphans = f"""
        select path from document d
        where id not in (select document_id from v_pending where what = 'document')
          and not exists (
            select 1 from document_embedding e
            where e.document_id = d.id and e.content_hash = d.content_hash
              and e.model = {SERVING})"""
    found += [f"{path}: neither vector nor pending" for (path,) in connection.execute(orphans)]
    if connection.execute("select count(*) from vector_queue").get == 0:
        for name, serving in {
            "document_vec": f"select id, embedding from document_embedding where model = {SERVING}",
            "hype_vec": f"""select question_id as id, embedding from question_embedding
                            where model = {SERVING}""",
        }.items():
            bits = f"select id, hex(vec_quantize_binary(embedding)) from ({serving}) order by id"
            copy = f"select id, hex(embedding) from {name} order by id"
            if list(connection.execute(bits)) != list(connection.execute(copy)):
                found.append(f"{name} does not hold the vectors that serve")
    return found


def faults_of(database: Path) -> list[str]:
    connection = kbstore.connect(database)
    try:
        return faults(connection)
    finally:
        connection.close()


def paths(result: kbstore.SearchResult) -> list[str]:
    return [hit.path for hit in result.hits]


class HookedEmbedder(FakeEmbedder):
    """Calls ``hook`` once, in the middle of its next embedding."""

    hook: Callable[[], object] | None = None

    def embed(self, texts: Sequence[str], task: str) -> list[Sequence[float]]:
        hook, self.hook = self.hook, None
        if hook:
            hook()
        return super().embed(texts, task)


# Many processes ---------------------------------------------------------------------------------
# One child imports everything once and forks: each job is a process of its own, which has opened
# nothing before.


def serve_jobs() -> None:
    """In the child: a line of JSON holds jobs, [function, argument …], that are all to begin at
    once; the answer is the list of their exit codes."""
    for line in sys.stdin:
        wait, go = os.pipe()
        children = []
        for name, *arguments in json.loads(line):
            pid = os.fork()
            if not pid:
                os.close(go)
                os.read(wait, 1)  # until the parent closes its end
                try:
                    globals()[name](*arguments)
                except BaseException:
                    traceback.print_exc()
                    os._exit(1)
                os._exit(0)
            children.append(pid)
        os.close(go)
        codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
        os.close(wait)
        print(json.dumps(codes), flush=True)


Jobs = Callable[..., list[int]]


@pytest.fixture(scope="module")
def processes() -> Iterator[Jobs]:
    """``processes([function, argument, …], …)`` runs each in a process; returns the exit codes."""
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})"
    code += f"; import {Path(__file__).stem} as tests; tests.serve_jobs()"
    server = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert server.stdin
    assert server.stdout

    def run(*jobs: list[Any]) -> list[int]:
        named = [[job[0].__name__, *map(str, job[1:])] for job in jobs]
        server.stdin.write(json.dumps(named) + "\n")
        server.stdin.flush()
        return json.loads(server.stdout.readline())

    yield run
    server.stdin.close()
    server.wait()
    server.stdout.close()


def connect_and_write(file: str, name: str) -> None:
    connection = kbstore.connect(file)
    assert connection.pragma("journal_mode") == "wal"
    assert connection.execute("select count(*) > 0 from kb_help").get
    connection.execute("insert into document (path, title) values (?, 'T')", (name,))
    connection.close()


@pytest.mark.parametrize("repetition", range(4))
def test_eight_processes_may_make_the_file_at_once(
    repetition: int, tmp_path: Path, processes: Jobs
) -> None:
    file = tmp_path / "new folder" / "kb.sqlite3"
    assert processes(*([connect_and_write, file, f"{n}.md"] for n in range(8))) == [0] * 8
    assert os.listdir(file.parent) == ["kb.sqlite3"]
    assert file.stat().st_mode & 0o777 == 0o600
    with kbstore.Store(file, embedder=None) as kb:
        assert [summary.path for summary in kb.list()] == [f"{n}.md" for n in range(8)]
    assert faults_of(file) == []


@pytest.mark.parametrize("repetition", range(5))
def test_eight_threads_may_make_the_file_at_once(database: Path, repetition: int) -> None:
    barrier, failures = threading.Barrier(8), []

    def open_it() -> None:
        barrier.wait()
        try:
            kbstore.connect(database).close()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert os.listdir(database.parent) == [database.name]


@pytest.fixture
def writing(database: Path, kb: kbstore.Store) -> Iterator[apsw.Connection]:
    """Somebody else who is in the middle of a transaction; the store has ``a.md``."""
    kb.put("a.md", "retries with backoff")
    connection = apsw.Connection(str(database))
    connection.execute("begin immediate")
    yield connection
    connection.close()


def test_reading_goes_on_while_another_process_writes(
    kb: kbstore.Store, writing: apsw.Connection, database: Path
) -> None:
    assert paths(kb.search("backoff")) == ["a.md"]
    assert kb.get("a.md").body == "retries with backoff"
    assert [summary.path for summary in kb.list()] == ["a.md"]
    assert kb.status().documents == 1
    with kbstore.Store(database, embedder=None) as second:  # opening takes no lock either
        assert paths(second.search("backoff")) == ["a.md"]


WRITES: dict[str, Callable[[kbstore.Store], object]] = {
    "put": lambda kb: kb.put("b.md", "other"),
    "delete": lambda kb: kb.delete("a.md"),
    "move": lambda kb: kb.move("a.md", "b.md"),
    "optimize": lambda kb: kb.optimize(),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_writer_that_waits_too_long_says_so_and_changes_nothing(
    write: Callable[[kbstore.Store], object],
    database: Path,
    writing: apsw.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection_module, "BUSY_TIMEOUT_MS", 50)
    with kbstore.Store(database, embedder=FakeEmbedder()) as kb:
        with pytest.raises(BusyError, match=r"kb\.sqlite3 is busy.*0\.05 seconds") as caught:
            write(kb)
        assert "\n" not in str(caught.value)
        assert [summary.path for summary in kb.list()] == ["a.md"]
        writing.execute("rollback")
        write(kb)
    assert faults_of(database) == []


def test_a_writer_waits_for_the_one_before_it(kb: kbstore.Store, writing: apsw.Connection) -> None:
    timer = threading.Timer(0.1, lambda: writing.execute("commit"))
    timer.start()
    assert kb.put("b.md", "other").action == "created"
    timer.join()


def test_a_put_whose_text_is_stored_returns_though_its_vectors_cannot_be_written(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error would say that nothing was changed, and the caller would store it again."""
    monkeypatch.setattr(connection_module, "BUSY_TIMEOUT_MS", 50)
    model = HookedEmbedder()
    with kbstore.Store(database, embedder=model) as kb:
        other = apsw.Connection(str(database))
        model.hook = lambda: other.execute("begin immediate")
        report = kb.put("a.md", "retries with backoff")
        other.execute("rollback")
        other.close()
        assert (report.action, report.pending) == ("created", True)
        assert "busy" in (report.note or "")
        assert kb.embed().documents == 1


def test_a_put_returns_though_another_process_deletes_the_document_meanwhile(
    database: Path,
) -> None:
    model = HookedEmbedder()
    with (
        kbstore.Store(database, embedder=model) as kb,
        kbstore.Store(database, embedder=None) as other,
    ):
        model.hook = lambda: other.delete("a.md")
        assert kb.put("a.md", "retries with backoff").action == "created"
        assert kb.list() == []
    assert faults_of(database) == []


def test_two_that_make_the_same_vectors_do_not_get_in_each_other_s_way(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the text is that of a third document too, from which the slower one would copy."""
    monkeypatch.setattr(vectors, "_BATCH", 1)
    model = HookedEmbedder()
    with (
        kbstore.Store(database, embedder=model) as kb,
        kbstore.Store(database, embedder=FakeEmbedder()) as other,
    ):
        kb.put("a.md", "retries with backoff", title="Retries", updated="2026-01-01")
        kb.put("b.md", "retries with backoff", title="Retries", updated="2026-01-01", defer=True)
        kb.put("c.md", "another text", updated="2026-02-01", defer=True)  # comes first
        model.hook = other.embed
        kb.embed()
        assert kb.status().pending == 0
        rows = kb.connection.execute(
            "select path, count(*) from document_embedding e, document d on d.id = document_id"
            " group by 1"
        )
        assert rows.fetchall() == [("a.md", 1), ("b.md", 1), ("c.md", 1)]
    assert faults_of(database) == []


def test_others_find_by_meaning_at_every_moment_of_a_compaction(
    database: Path, kb: kbstore.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        kb.put(f"{number}.md", f"note {number} about backoff")
    execute, seen = connection_module.execute, set()
    with kbstore.Store(database, embedder=FakeEmbedder()) as other:

        def watched(*arguments: Any) -> apsw.Cursor:
            try:
                return execute(*arguments)
            finally:
                if arguments[0] is kb.connection:
                    seen.add(tuple(paths(other.search("note 3", retrievers=["vectors"]))))

        for module in (connection_module, schema, backup, session):
            monkeypatch.setattr(module, "execute", watched)
        backup.compact(kb)
    assert len(seen) == 1
    assert len(seen.pop()) == 5


def test_a_reader_waits_for_the_one_that_recovers_the_file(
    database: Path, kb: kbstore.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    kb.put("a.md", "retries with backoff")
    kb.close()
    monkeypatch.setattr(connection_module, "BUSY_TIMEOUT_MS", 50)
    other = apsw.Connection(str(database))
    other.pragma("locking_mode", "exclusive")
    other.execute("begin exclusive; update document set title = 'x'; commit")
    begin = time.monotonic()
    with pytest.raises(BusyError, match=r"0\.05 seconds"):
        kbstore.Store(database, embedder=None, read_only=True)
    assert time.monotonic() - begin >= 0.05
    other.close()
    with kbstore.Store(database, embedder=None, read_only=True) as reader:
        assert reader.get("a.md").title == "x"


def _delete(folder: Path) -> None:
    (folder / "0.md").unlink()


def _rename(folder: Path) -> None:
    (folder / "0.md").rename(folder / "moved.md")


def _change(folder: Path) -> None:
    (folder / "0.md").write_text("another text")


def _add(folder: Path) -> None:
    (folder / "new.md").write_text("a new file")


@pytest.mark.parametrize("change", [_delete, _rename, _change, _add])
def test_two_syncs_of_a_folder_at_once_both_finish(
    change: Callable[[Path], None],
    tmp_path: Path,
    database: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second one does the whole of its work after the first has looked at what is stored."""
    folder = tmp_path / "notes"
    folder.mkdir()
    for number in range(6):
        (folder / f"{number}.md").write_text(f"note number {number}")
    first, second = (kbstore.Store(database, embedder=FakeEmbedder()) for _ in range(2))
    with first, second:
        mirror.sync(first, folder)
        change(folder)
        look = first.sources.files

        def look_then_wait(root: str) -> dict[str, Source]:
            seen = look(root)
            mirror.sync(second, folder)
            return seen

        monkeypatch.setattr(first.sources, "files", look_then_wait)
        assert mirror.sync(first, folder).problems == ()
        assert [s.path for s in first.list()] == sorted(file.name for file in folder.iterdir())
        assert first.status().pending == 0
    assert faults_of(database) == []


@pytest.mark.parametrize("by", ["delete", "sync"])
def test_a_deletion_takes_its_vectors_along(by: str, tmp_path: Path, kb: kbstore.Store) -> None:
    """Left in the index they would crowd out those of other documents; nothing is left to do."""
    for number in range(4):
        (tmp_path / f"{number}.md").write_text(f"retries number {number}")
    mirror.sync(kb, tmp_path)
    (tmp_path / "0.md").unlink()
    if by == "delete":
        kb.delete("0.md")
    else:
        mirror.sync(kb, tmp_path)
    assert kb.connection.execute("select count(*) from document_vec").get == 3
    assert kb.search("retries").degraded == ()
    assert kb.status().degraded == ()


# Kills ------------------------------------------------------------------------------------------


def work(kind: str, database: str, folder: str, killed_at: str = "0") -> int:
    """Do it; the process ends before statement ``killed_at`` (0: never). The number of them."""
    statements = 0

    def count(*_: object) -> bool:
        nonlocal statements
        statements += 1
        if statements == int(killed_at):
            os.kill(os.getpid(), signal.SIGKILL)
        return True

    model = FakeEmbedder("B" if kind == "switch" else "A")
    with kbstore.Store(database, embedder=model) as kb:
        kb.connection.exec_trace = count
        if kind == "sync":
            mirror.sync(kb, folder)
        elif kind == "put":
            for number in range(30):
                kb.put(f"put/{number % 20}.md", f"text {number} 部署方案", title=f"T{number}")
        else:
            kb.embed()
        kb.connection.exec_trace = None
    return statements


def _prepare(kind: str, database: Path, folder: Path) -> None:
    folder.mkdir()
    for number in range(40):
        (folder / f"{number}.md").write_text(f"# Note {number}\n" + f"word{number} retries\n" * 90)
    with kbstore.Store(database, embedder=FakeEmbedder("A")) as store:
        if kind == "put":
            return
        mirror.sync(store, folder, embed=kind != "embed")
        store.connection.execute(
            "insert into question (document_id, text) select id, 'Why ' || id || '?' from document"
        )
        if kind == "switch":
            store.embed()
    if kind == "sync":
        for number in range(10):
            (folder / f"{number}.md").write_text(f"new text {number}")
        for number in range(10, 20):
            (folder / f"{number}.md").unlink()
        (folder / "20.md").rename(folder / "moved.md")


@pytest.mark.parametrize("kind", ["sync", "put", "embed", "switch"])
def test_killed_work_leaves_everything_in_agreement_and_goes_on_where_it_was(
    kind: str, tmp_path: Path, processes: Jobs
) -> None:
    """Killed (-9) before a random statement, again and again; the last run is not killed."""
    database, folder = tmp_path / "kb.sqlite3", tmp_path / "notes"
    _prepare(kind, database, folder)
    whole = tmp_path / "whole.sqlite3"
    shutil.copy(database, whole)
    statements = work(kind, str(whole), str(folder))
    killed = 0
    for killed_at in sorted(random.Random(kind).sample(range(1, statements + 1), 6)):
        # A run that goes on where another one was has less to do: it may come to its end.
        (code,) = processes([work, kind, database, folder, killed_at])
        assert code in (-signal.SIGKILL, 0)
        killed += code != 0
        assert faults_of(database) == []
    assert killed >= 1
    assert processes([work, kind, database, folder]) == [0]
    assert faults_of(database) == []

    def content(file: Path) -> list[tuple[Any, ...]]:
        connection = kbstore.connect(file)
        try:
            assert connection.execute("select count(*) from v_pending").get == 0
            assert connection.execute("select count(*) from vector_queue").get == 0
            return connection.execute(
                f"""select d.path, d.title, d.tags, d.body, e.seq, e.embedding, e.model,
                      (select count(*) from question_embedding q join question on id = question_id
                       where document_id = d.id and q.model = {SERVING})
                    from document d join document_embedding e on e.document_id = d.id
                    order by d.path, e.seq, e.model"""
            ).fetchall()
        finally:
            connection.close()

    assert content(database) == content(whole)


# Files that are refused, and odd ones that are not ----------------------------------------------


def _good(file: Path) -> bytes:
    with kbstore.Store(file, embedder=None) as store:
        for number in range(20):
            store.put(f"{number}.md", "retries with backoff " * 50)
    return file.read_bytes()


def _make_newer(file: Path) -> None:
    _good(file)
    connection = apsw.Connection(str(file))
    connection.pragma("user_version", 99)
    connection.close()


def _make_foreign(file: Path, journal_mode: str = "delete") -> None:
    connection = apsw.Connection(str(file))
    connection.pragma("journal_mode", journal_mode)
    connection.execute("create table t (x); insert into t values (1)").fetchall()
    connection.close()


def _make_truncated(file: Path) -> None:
    file.write_bytes(_good(file)[:-20_000])


def _make_damaged(file: Path) -> None:
    content = _good(file)
    file.write_bytes(content[:100] + b"\xa5" * 4000 + content[4100:])


REFUSED: dict[str, tuple[Callable[[Path], object], type[KBError], str]] = {
    "newer schema": (_make_newer, NewerSchemaError, "schema version 99.*upgrade kbstore"),
    "another application": (_make_foreign, ForeignDatabaseError, "another application"),
    "another one in WAL mode": (
        lambda file: _make_foreign(file, "wal"),
        ForeignDatabaseError,
        "another application",
    ),
    "empty": (lambda file: file.touch(), NotADatabaseError, "empty file"),
    "text": (lambda file: file.write_text("# A note\n" * 50), NotADatabaseError, "not an SQLite"),
    "short text": (lambda file: file.write_text("hi"), NotADatabaseError, "not an SQLite"),
    "first 50 bytes": (
        lambda file: file.write_bytes(_good(file)[:50]),
        NotADatabaseError,
        "not an SQLite",
    ),
    "first 100 bytes": (
        lambda file: file.write_bytes(_good(file)[:100]),
        DatabaseError,
        "malformed",
    ),
    "truncated": (_make_truncated, DatabaseError, "malformed"),
    "damaged": (_make_damaged, DatabaseError, "malformed"),
    "folder": (lambda file: file.mkdir(), NotADatabaseError, "is a folder"),
    "link to nowhere": (
        lambda file: file.symlink_to(file.with_name("nowhere")),
        DatabaseError,
        "cannot be opened",
    ),
}


def _fingerprint(file: Path) -> object:
    if file.is_symlink() or file.is_dir():
        return sorted(os.listdir(file.parent))
    return hashlib.sha256(file.read_bytes()).hexdigest(), file.stat().st_mtime_ns


@pytest.mark.parametrize(("make", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_a_file_that_is_no_knowledge_base_is_refused_and_left_as_it_is(
    make: Callable[[Path], object],
    error: type[KBError],
    message: str,
    database: Path,
    run: Callable[..., Any],
) -> None:
    make(database)
    before = _fingerprint(database)
    with pytest.raises(error, match=message) as caught:
        kbstore.connect(database)
    assert str(database) in str(caught.value)
    assert "\n" not in str(caught.value)
    for arguments in (["init"], ["add", "a.md"]):
        result = run(*arguments, input="text")
        assert result.exit_code == 1
        assert result.stderr == f"Error: {caught.value}\n"
        assert result.stdout == ""
    assert run("ls").exit_code in (1, NotFoundError.exit_code)
    assert _fingerprint(database) == before


PLACES: dict[str, Callable[[Path], str]] = {
    "a name longer than a file system takes": lambda folder: str(folder / ("x" * 300)),
    "below a file": lambda folder: str(folder / "file" / "kb.sqlite3"),
    "the home of an unknown user": lambda folder: "~no-such-user/kb.sqlite3",
    "not Unicode": lambda folder: str(folder / "kb\udcff.sqlite3"),
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize(
    "command", [["init"], ["ls"], ["embed"], ["rm", "a.md"]], ids=lambda c: c[0]
)
def test_a_place_where_no_file_can_be_is_refused_in_one_line(
    place: Callable[[Path], str], command: list[str], tmp_path: Path, run: Callable[..., Any]
) -> None:
    (tmp_path / "file").touch()
    name = place(tmp_path)
    with pytest.raises(KBError):
        kbstore.connect(name)
    result = run(*command, "--db", name)
    assert result.exit_code in (1, 2, NotFoundError.exit_code)
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1


NAMES = [
    "with space", "quo'te", 'dou"ble', "100%25", "what?mode=ro", "a#b", "ünï 部署", "file:x",
    ":memory:x", "-dash", "back\\slash", "semi;colon",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_any_file_name_works(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    with kbstore.Store(file, embedder=None) as store:
        store.put("a.md", "retries with backoff")
    assert os.listdir(tmp_path) == [name]
    with kbstore.Store(file, embedder=None, read_only=True) as store:
        assert paths(store.search("backoff")) == ["a.md"]


@contextmanager
def _unprivileged() -> Iterator[None]:
    """The superuser may write anywhere: be somebody else."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("read_only", ["file", "folder", "file and folder"])
def test_a_file_that_cannot_be_written_is_read_and_says_so_to_writers(read_only: str) -> None:
    folder = Path(tempfile.mkdtemp(prefix="kbstore-test-"))
    file = folder / "kb.sqlite3"
    try:
        content = _good(file)
        file.chmod(0o444 if "file" in read_only else 0o666)
        folder.chmod(0o555 if "folder" in read_only else 0o777)
        with _unprivileged():
            with kbstore.Store(file, embedder=None, read_only=True) as store:
                assert len(store.search("backoff").hits) == 10
            with (
                pytest.raises(ReadOnlyError, match="read-only") as caught,
                kbstore.Store(file, embedder=None) as store,
            ):
                store.put("0.md", "other text")
            assert str(file) in str(caught.value)
        assert file.read_bytes() == content
    finally:
        folder.chmod(0o700)
        shutil.rmtree(folder)


# Hand edits in the sqlite3 shell ----------------------------------------------------------------


def shell(database: Path, sql: str) -> str:
    """Run SQL in the sqlite3 shell; returns what it says on standard error."""
    program = shutil.which("sqlite3")
    if program is None:
        pytest.fail("the sqlite3 command-line shell is needed (Debian: apt install sqlite3)")
    done = subprocess.run(
        [program, "-batch", "-init", os.devnull, str(database)],
        input=sql + ";\n",
        capture_output=True,
        text=True,
        timeout=30,
    )
    return done.stderr.strip()


@pytest.fixture(scope="module")
def edited_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four notes, one in Chinese, and two questions on ``b/two.md``; all have their vectors."""
    file = tmp_path_factory.mktemp("edited") / "kb.sqlite3"
    with kbstore.Store(file, embedder=FakeEmbedder()) as kb:
        kb.put("a/one.md", "alpha gamma", title="One", tags=["x", "y"], updated="2026-11-01")
        kb.put("b/two.md", "delta epsilon lambda", title="Two", updated="2026-11-02")
        kb.put("c/cjk.md", "部署方案", title="漢字", updated="2026-11-03")
        kb.put("journal/2026-11-04.md", "day log", title="Day")
        kb.connection.execute(
            """insert into question (document_id, text)
               select d.id, value
               from document d, json_each('["How much delta?", "Why epsilon?"]')
               where d.path = 'b/two.md'"""
        )
        kb.embed()
    return file


class Edit(NamedTuple):
    """``error``: what the shell says (empty: nothing). ``pending``: what then has no vector yet.
    ``found`` and ``lost``: word -> the documents that it finds, or found before."""

    sql: str
    error: str = ""
    pending: Sequence[str] = ()
    found: dict[str, Sequence[str]] = {}  # noqa: RUF012
    lost: Sequence[str] = ()


TWO = "where path = 'b/two.md'"
EVERY = ("a/one.md", "b/two.md", "c/cjk.md", "journal/2026-11-04.md")
EDITS = {
    # Accepted
    "title": Edit(
        f"update document set title = 'Zebra' {TWO}", "", ["b/two.md"], {"zebra": ["b/two.md"]}
    ),
    "body": Edit(
        f"update document set body = 'quokka' {TWO}",
        "", ["b/two.md"], {"quokka": ["b/two.md"]}, ["lambda"],
    ),
    "tags": Edit(
        f"""update document set tags = '["quokka"]' {TWO}""",
        "", ["b/two.md"], {"quokka": ["b/two.md"]},
    ),
    "body of all": Edit(
        "update document set body = 'quokka ' || id",
        "", EVERY, {"quokka": EVERY}, ["alpha", "部署"],
    ),
    "body, or replace": Edit(
        f"update or replace document set body = 'quokka' {TWO}",
        "", ["b/two.md"], {"quokka": ["b/two.md"]}, ["lambda"],
    ),
    "body, from a join": Edit(
        "update document set body = n.body from (select 'quokka' as body) n where id = 2",
        "", ["b/two.md"], {"quokka": ["b/two.md"]}, ["lambda"],
    ),
    "to Chinese": Edit(
        f"update document set body = '今日は成語しりとり' {TWO}",
        "", ["b/two.md"], {"しりとり": ["b/two.md"], "delta": ["b/two.md"]}, ["lambda"],
    ),
    "from Chinese": Edit(
        "update document set title = 'Q', body = 'quokka' where path = 'c/cjk.md'",
        "", ["c/cjk.md"], {"quokka": ["c/cjk.md"]}, ["部署", "漢字"],
    ),
    "new": Edit(
        "insert into document (path, title, body) values ('n/new.md', 'New', 'quokka')",
        "", ["n/new.md"], {"quokka": ["n/new.md"]},
    ),
    "new, or replace": Edit(
        "insert or replace into document (path, title, body) values ('n/new.md', 'New', 'quokka')",
        "", ["n/new.md"], {"quokka": ["n/new.md"]},
    ),
    "copies of all": Edit(
        "insert into document (path, title, body)"
        " select 'copy/' || path, title, 'quokka' from document",
        "", [f"copy/{path}" for path in EVERY], {"quokka": [f"copy/{path}" for path in EVERY]},
    ),
    "delete": Edit(f"delete from document {TWO}", lost=["delta"]),
    "delete all": Edit("delete from document", lost=["delta", "alpha", "部署", "log"]),
    "delete and make again": Edit(
        f"delete from document {TWO};"
        " insert into document (path, title, body) values ('b/two.md', 'N', 'quokka')",
        "", ["b/two.md"], {"quokka": ["b/two.md"]}, ["delta", "epsilon"],
    ),
    "become a journal": Edit(
        f"update document set path = 'journal/2026-01-01.md' {TWO}",
        "", [], {"delta": ["journal/2026-01-01.md"]},
    ),
    "no date": Edit("update document set updated = null", found={"delta": ["b/two.md"]}),
    "rolled back": Edit(
        "begin; update document set body = 'quokka'; delete from document where id = 1; rollback",
        found={"alpha": ["a/one.md"]}, lost=["quokka"],
    ),
    "hash forgotten": Edit(
        "update document set content_hash = null", "", EVERY, {"delta": ["b/two.md"]}
    ),
    "vectors deleted": Edit("delete from document_embedding", "", EVERY, {"delta": ["b/two.md"]}),
    "question": Edit(
        f"insert into question (document_id, text) select id, 'Any quokkas?' from document {TWO}",
        "", ["b/two.md: Any quokkas?"], {"quokkas": ["b/two.md"]},
    ),
    "question edited": Edit(
        "update question set text = 'Any quokkas?' where id = 1",
        "", ["b/two.md: Any quokkas?"], {"quokkas": ["b/two.md"]}, ["much"],
    ),
    "questions vetoed": Edit("update question set vetoed = 1", lost=["much"]),
    "questions deleted": Edit("delete from question", lost=["much"]),
    # Refused, whole; the words stay
    "replace": Edit(
        "replace into document (path, title) values ('b/two.md', 'Quokka')",
        "a document with this path or id exists", found={"delta": ["b/two.md"]}, lost=["quokka"],
    ),
    "insert or replace": Edit(
        "insert or replace into document (id, path, title) values (2, 'n/new.md', 'Quokka')",
        "a document with this path or id exists", found={"delta": ["b/two.md"]}, lost=["quokka"],
    ),
    "path taken, or replace": Edit(
        f"update or replace document set path = 'a/one.md' {TWO}",
        "another document has this path", found={"delta": ["b/two.md"], "alpha": ["a/one.md"]},
    ),
    "another id": Edit(
        "update document set id = 9 where id = 1", "the id of a document never changes"
    ),
    "no JSON": Edit(f"update document set tags = 'x, y' {TWO}", "json_valid"),
    "numbers as tags": Edit(f"update document set tags = '[1]' {TWO}", "must be a JSON array"),
    "blank tag": Edit(f"""update document set tags = '[" "]' {TWO}""", "must be a JSON array"),
    "blank title": Edit(f"update document set title = ' ' {TWO}", "CHECK constraint failed"),
    "no such day": Edit(f"update document set updated = '2026-02-30' {TWO}", "updated_is_a_date"),
    "not ISO": Edit(f"update document set updated = '03/02/2026' {TWO}", "updated_is_a_date"),
    "empty date": Edit(f"update document set created = '' {TWO}", "created_is_a_date"),
    "path outside": Edit(f"update document set path = '../x.md' {TWO}", "path_is_relative"),
    "question of nothing": Edit(
        "insert into question (document_id, text) values (99, 'Why?')", "no document has this id"
    ),
    # An error under OR IGNORE and OR FAIL does not undo what triggers did before it
    "blank title, or ignore": Edit(
        f"update or ignore document set title = '', body = 'quokka' {TWO}",
        found={"delta": ["b/two.md"], "two": ["b/two.md"]}, lost=["quokka"],
    ),
    "bad date, or ignore": Edit(
        "update or ignore document set body = 'quokka', updated = 'never'",
        found={"delta": ["b/two.md"], "alpha": ["a/one.md"]}, lost=["quokka"],
    ),
    "blank title, or fail": Edit(
        f"update or fail document set title = '' {TWO}",
        "CHECK constraint failed", found={"delta": ["b/two.md"]},
    ),
    "bad new, or ignore": Edit(
        "insert or ignore into document (path, title, body) values ('n/new.md', '', 'quokka')",
        lost=["quokka"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_after_a_hand_edit_words_are_right_at_once_and_embedding_heals_the_rest(
    edit: Edit, edited_base: Path, database: Path
) -> None:
    shutil.copy(edited_base, database)
    said = shell(database, edit.sql)
    assert edit.error in said
    assert bool(said) == bool(edit.error)
    with kbstore.Store(database, embedder=FakeEmbedder()) as kb:
        assert faults(kb.connection) == []

        def words_are_right() -> None:
            for word, expected in edit.found.items():
                assert sorted(paths(kb.search(word, retrievers=["words"]))) == sorted(expected)
            for word in edit.lost:
                assert paths(kb.search(word, retrievers=["words"])) == []

        words_are_right()
        pending = kb.connection.execute(
            "select path || coalesce(': ' || question, '') from v_pending order by 1"
        ).fetchall()
        assert [path for (path,) in pending] == sorted(edit.pending)
        # What has changed is not found by its old vector, only by a person's question.
        for text in ("One. Tags: x, y. alpha gamma", "Two. delta epsilon lambda", "漢字. 部署方案"):
            for hit in kb.search(text, retrievers=["vectors"]).hits:
                assert hit.matched_question or hit.path not in edit.pending
        documents = {path for path in edit.pending if ": " not in path}
        report = kb.embed()
        assert report.documents + report.reused == len(documents)
        assert (report.failed, report.pending) == (0, 0)
        assert faults(kb.connection) == []
        assert kb.connection.execute("select count(*) from vector_queue").get == 0
        assert list(kb.connection.execute("select * from v_stale")) == []
        words_are_right()
        hits = kb.search("delta epsilon", retrievers=["vectors"]).hits
        assert {hit.path for hit in hits} == {summary.path for summary in kb.list()}
        questions = {
            text for (text,) in kb.connection.execute("select text from question where not vetoed")
        }
        for hit in hits:
            assert hit.matched_question is None or hit.matched_question in questions


def test_a_hand_edit_that_fails_leaves_no_version_behind(edited_base: Path, database: Path) -> None:
    shutil.copy(edited_base, database)
    shell(database, f"update or ignore document set title = '' {TWO}")
    with kbstore.Store(database, embedder=None) as kb:
        assert kb.status().versions == 0


def test_a_question_whose_veto_is_lifted_is_found_again(edited_base: Path, database: Path) -> None:
    """Also when the vec0 tables were rebuilt in between."""
    shutil.copy(edited_base, database)
    with kbstore.Store(database, embedder=FakeEmbedder()) as kb:
        shell(database, "update question set vetoed = 1")
        kb.connection.execute("drop table document_vec")
        kb.connection.execute("drop table hype_vec")
    with kbstore.Store(database, embedder=FakeEmbedder()) as kb:
        kb.embed()
        assert {hit.matched_question for hit in kb.search("how much delta").hits} == {None}
        shell(database, "update question set vetoed = 0")
        kb.embed()
        assert "How much delta?" in {h.matched_question for h in kb.search("how much delta").hits}


@pytest.mark.parametrize(
    "sql",
    [
        "insert or replace into question (document_id, text)"
        " select document_id, text from question where id = 1",
        "update or replace question set text = 'Why epsilon?' where id = 1",
        "update question set id = 77 where id = 1",
        "update question set document_id = 99 where id = 1",
    ],
)
def test_no_vector_of_a_question_outlives_it(sql: str, edited_base: Path, database: Path) -> None:
    """A bare shell checks no foreign key: it refuses, or the next embedding clears up."""
    shutil.copy(edited_base, database)
    shell(database, sql)
    with kbstore.Store(database, embedder=FakeEmbedder()) as kb:
        kb.embed()
        assert faults(kb.connection) == []


def test_text_that_is_not_utf8_ends_in_an_error_of_ours(edited_base: Path, database: Path) -> None:
    """As a terminal or an import in Latin-1 would write it."""
    shutil.copy(edited_base, database)
    shell(database, f"update document set body = cast(x'63616666e9' as text) {TWO}")
    with kbstore.Store(database, embedder=FakeEmbedder()) as kb:
        assert paths(kb.search("alpha", retrievers=["words"])) == ["a/one.md"]
        for call in (kb.embed, lambda: kb.get("b/two.md"), lambda: kb.search("caff*")):
            with suppress(KBError):
                call()


# Threads ----------------------------------------------------------------------------------------


def _in_threads(*works: Callable[[], object]) -> list[BaseException]:
    """Run all at once; what they raised."""
    barrier, failures = threading.Barrier(len(works)), []

    def go(work: Callable[[], object]) -> None:
        barrier.wait()
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=go, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures


def test_one_store_serves_eight_threads(kb: kbstore.Store) -> None:
    def work(name: str) -> None:
        for number in range(12):
            kb.put(f"{name}/{number}.md", f"common marker{name}x{number}")
            assert paths(kb.search(f"marker{name}x{number}", retrievers=["words"])) == [
                f"{name}/{number}.md"
            ]

    assert _in_threads(*(lambda name=name: work(name) for name in "abcdefgh")) == []
    assert len(kb.list()) == 96
    assert kb.status().pending == 0
    assert faults(kb.connection) == []


def test_every_method_takes_its_turn(kb: kbstore.Store) -> None:
    """None of them touches the connection while another thread uses it."""
    for number in range(30):
        kb.put(f"{number}.md", f"text number {number}")

    def repeat(call: Callable[[int], object]) -> Callable[[], None]:
        return lambda: [call(number) for number in range(60)] and None

    failures = _in_threads(
        repeat(lambda number: kb.status()),
        repeat(lambda number: kb.status()),
        repeat(lambda number: kb.search("text")),
        repeat(lambda number: kb.put("new.md", f"text {number}")),
        repeat(lambda number: kb.list()),
        repeat(lambda number: kb.get(f"{number % 30}.md")),
        repeat(lambda number: kb.embed(limit=1)),
        repeat(lambda number: kb.optimize()),
    )
    assert failures == []


def test_status_uses_the_connection_only_in_its_turn(kb: kbstore.Store) -> None:
    """While another thread has its turn, status waits for the whole of what it reads."""
    kb.put("a.md", "text")
    session = kb.session
    outside: list[str] = []

    def trace(cursor: apsw.Cursor, statement: str, bindings: object) -> bool:
        if not session._lock._is_owned():
            outside.append(statement)
        return True

    kb.connection.exec_trace = trace
    kb.status()
    kb.search("text")
    kb.put("b.md", "text")
    kb.list()
    kb.embed()
    assert outside == []


# A host's connection ----------------------------------------------------------------------------


def test_a_hosts_connection_in_memory_works_and_stays_open() -> None:
    host = apsw.Connection(":memory:")
    with kbstore.Store(host, embedder=FakeEmbedder()) as kb:
        assert kb.connection is host
        assert kb.put("a.md", "retries with backoff").pending is False
        assert kb.search("backoff").hits[0].vectors is not None
    assert host.execute("select path from document").get == "a.md"
    assert kbstore.adopt(host) is host  # once more changes nothing
    assert faults(host) == []
    host.close()


def test_the_hosts_own_tables_stay() -> None:
    host = kbstore.adopt(apsw.Connection(":memory:"))
    host.execute("create table mine (x); insert into mine values (7)").fetchall()
    kbstore.adopt(host)
    assert host.execute("select x from mine").get == 7
    host.close()


def test_a_hosts_database_with_other_tables_is_refused_and_left_as_it_is(database: Path) -> None:
    _make_foreign(database)
    before = _fingerprint(database)
    host = apsw.Connection(str(database))
    with pytest.raises(ForeignDatabaseError, match="another application"):
        kbstore.adopt(host)
    assert host.pragma("journal_mode") == "delete"
    assert host.execute("select x from t").get == 1
    host.close()
    assert _fingerprint(database) == before


@pytest.mark.parametrize(("end", "kept"), [("rollback", []), ("commit", ["a.md"])])
def test_in_a_hosts_transaction_the_host_decides(end: str, kept: list[str]) -> None:
    host = apsw.Connection(":memory:")
    kb = kbstore.Store(host, embedder=FakeEmbedder())
    host.execute("begin")
    kb.put("a.md", "retries with backoff")
    with pytest.raises(InputError):
        kb.put("../b.md", "text")
    with pytest.raises(NotFoundError):
        kb.move("c.md", "d.md")
    assert host.in_transaction
    host.execute(end)
    assert [summary.path for summary in kb.list()] == kept
    assert paths(kb.search("backoff")) == kept
    assert faults(host) == []
    host.close()


@pytest.mark.parametrize("existing", [False, True])
def test_a_connection_in_a_transaction_is_refused_and_its_transaction_goes_on(
    existing: bool, database: Path
) -> None:
    if existing:
        kbstore.connect(database).close()
    host = apsw.Connection(str(database))
    host.execute("begin")
    with pytest.raises(DatabaseError, match="transaction"):
        kbstore.adopt(host)
    assert host.in_transaction
    host.execute("commit")
    kbstore.adopt(host)
    assert host.execute("select count(*) from document").get == 0
    host.close()


CALLS: dict[str, Callable[[kbstore.Store], object]] = {
    "put": lambda kb: kb.put("b.md", "text"),
    "get": lambda kb: kb.get("a.md"),
    "delete": lambda kb: kb.delete("a.md"),
    "move": lambda kb: kb.move("a.md", "b.md"),
    "list": lambda kb: kb.list(),
    "search": lambda kb: kb.search("text"),
    "embed": lambda kb: kb.embed(),
    "status": lambda kb: kb.status(),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_connection_that_the_host_has_closed_is_an_error_of_ours(
    call: Callable[[kbstore.Store], object],
) -> None:
    host = apsw.Connection(":memory:")
    kb = kbstore.Store(host, embedder=FakeEmbedder())
    kb.put("a.md", "text")
    host.close()
    with pytest.raises(DatabaseError, match="closed"):
        call(kb)
    kb.close()


def test_a_file_that_a_host_has_just_made_is_open_to_others(database: Path) -> None:
    """All of it may still stand in the -wal file."""
    host = apsw.Connection(str(database))
    with kbstore.Store(host, embedder=None) as kb:
        kb.put("a.md", "retries with backoff")
        with kbstore.Store(database, embedder=None) as other:
            assert paths(other.search("backoff")) == ["a.md"]
    host.close()


# Another model ----------------------------------------------------------------------------------


@pytest.fixture
def made_by_a(database: Path) -> Path:
    """Forty notes and a question, all with vectors by model A."""
    with kbstore.Store(database, embedder=FakeEmbedder("A")) as kb:
        with kb.batch():
            for number in range(40):
                kb.put(f"{number}.md", f"common number{number}", defer=True)
        kb.connection.execute("insert into question (document_id, text) values (1, 'Any quokkas?')")
        kb.embed()
    return database


def test_with_another_model_the_search_is_by_words_and_says_so(made_by_a: Path) -> None:
    with kbstore.Store(made_by_a, embedder=FakeEmbedder("B")) as kb:
        result = kb.search("number7")
        assert paths(result)[0] == "7.md"
        assert {hit.vectors for hit in result.hits} == {None}
        assert result.model is None
        assert len(result.degraded) == 1
        assert "made by A" in result.degraded[0]
        assert "`kbstore embed`" in result.degraded[0]
        report = kb.put("new.md", "a new note")
        assert report.pending
        assert "made by A" in (report.note or "")
        assert kb.search("new", retrievers=["words"]).hits[0].path == "new.md"
    assert faults_of(made_by_a) == []


def test_embedding_with_another_model_switches_to_it(made_by_a: Path) -> None:
    with kbstore.Store(made_by_a, embedder=FakeEmbedder("B")) as kb:
        report = kb.embed()
        assert (report.documents, report.questions, report.pending) == (40, 1, 0)
        result = kb.search("any quokkas")
        assert (result.model, result.degraded) == ("B", ())
        assert result.hits[0].matched_question == "Any quokkas?"
        made_by = kb.connection.execute(
            "select model from document_embedding union select model from question_embedding"
        )
        assert made_by.fetchall() == [("fingerprint of B",)]
        assert faults(kb.connection) == []


def test_a_switch_that_was_cut_short_goes_on_while_the_old_vectors_serve(
    made_by_a: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = FakeEmbedder("A"), HookedEmbedder("B")
    monkeypatch.setattr(embed_module, "candidates", lambda mode=None: [b, a])

    def progress(done: int, of: int) -> None:
        if done >= 16:
            raise KeyboardInterrupt

    with kbstore.Store(made_by_a) as kb:
        with pytest.raises(KeyboardInterrupt):
            kb.embed(progress=progress)
        done = len(b.calls)
        assert 0 < done < 40
    with kbstore.Store(made_by_a) as kb:
        result = kb.search("number7")
        assert (result.model, result.degraded) == ("A", ())
        assert all(hit.vectors for hit in result.hits)
        assert kb.put("new.md", "common new").pending is False  # by A, so that it is found at once
        assert len(b.calls) == done
        assert faults(kb.connection) == []
        assert kb.embed().documents == 41 - done
        assert [task for task, _ in b.calls].count("search_document") == 41
        assert kb.search("number7").model == "B"
        assert faults(kb.connection) == []


def test_a_kill_right_after_the_switch_hides_no_vector_in_silence(made_by_a: Path) -> None:
    with kbstore.Store(made_by_a, embedder=FakeEmbedder("B")) as kb:
        other = kbstore.connect(made_by_a)

        def stop_once_b_serves(*_: object) -> bool:
            if other.execute(f"select {SERVING}").get == "fingerprint of B":
                raise KeyboardInterrupt
            return True

        kb.connection.exec_trace = stop_once_b_serves
        with pytest.raises(KeyboardInterrupt):
            kb.embed()
        kb.connection.exec_trace = None
        other.close()
    with kbstore.Store(made_by_a, embedder=FakeEmbedder("B"), read_only=True) as kb:
        result = kb.search("common")
        assert result.degraded or all(hit.vectors for hit in result.hits)


def test_vectors_of_two_models_are_not_compared_though_the_switch_comes_in_between(
    made_by_a: Path,
) -> None:
    """The query's vector is by A; when it is there, the documents' are by B."""
    a = HookedEmbedder("A")
    with (
        kbstore.Store(made_by_a, embedder=a) as kb,
        kbstore.Store(made_by_a, embedder=FakeEmbedder("B")) as other,
    ):
        a.hook = other.embed
        result = kb.search("number7")
        assert paths(result)[0] == "7.md"
        assert {hit.vectors for hit in result.hits} == {None}
        assert result.model is None
        assert result.degraded


def test_a_model_that_has_never_made_a_vector_does_not_stand_in_the_way_of_another(
    database: Path,
) -> None:
    broken = FakeEmbedder("A")
    broken.fail = ModelUnavailableError("the file is cut short")
    with kbstore.Store(database, embedder=broken) as kb:
        assert kb.put("a.md", "alpha").note == "the file is cut short"
    with kbstore.Store(database, embedder=FakeEmbedder("B")) as kb:
        assert kb.put("b.md", "beta").pending is False
        assert kb.search("beta").model == "B"


def test_a_limited_run_of_another_model_says_how_much_is_still_to_be_made(made_by_a: Path) -> None:
    with kbstore.Store(made_by_a, embedder=FakeEmbedder("B")) as kb:
        report = kb.embed(limit=16)
        assert (report.documents, report.pending) == (16, 24)


# Forks -------------------------------------------------------------------------------------------

OVER_A_FORK: dict[str, Callable[[kbstore.Store], object]] = {
    "put": lambda kb: kb.put("b.md", "harbour"),
    "get": lambda kb: kb.get("a.md"),
    "search": lambda kb: kb.search("harbour"),
    "status": lambda kb: kb.status(),
    "embed": lambda kb: kb.embed(),
    "hype": lambda kb: kb.hype(),
    "delete": lambda kb: kb.delete("a.md"),
    "batch": lambda kb: kb.batch().__enter__(),
}


def use_over_a_fork(file: str, by: str) -> None:
    """With one thread that holds the store at the moment of the fork, and will never let it go in
    the child."""
    kb = kbstore.Store(file, embedder=FakeEmbedder(), hype=None)
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with kb.session.reading():
            held.set()
            done.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    child = os.fork()
    if not child:
        code = 1
        try:
            with pytest.raises(ForkError, match="open it again here"):
                OVER_A_FORK[by](kb)
            kb.close()  # takes nothing away from the parent
            with kbstore.Store(file, embedder=FakeEmbedder(), hype=None) as own:
                own.put("child.md", "harbour of the child")
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    done.set()
    holder.join()
    assert os.waitstatus_to_exitcode(status) == 0
    kb.put("parent.md", "harbour of the parent")
    assert paths(kb.search("harbour", retrievers=["words"])) == ["a.md", "child.md", "parent.md"]
    kb.close()


@pytest.mark.parametrize("by", OVER_A_FORK)
def test_a_store_that_was_carried_over_a_fork_refuses_and_can_be_opened_again(
    by: str, database: Path, processes: Jobs
) -> None:
    with kbstore.Store(database, embedder=FakeEmbedder()) as kb:
        kb.put("a.md", "harbour")
    assert processes([use_over_a_fork, database, by]) == [0]
    assert faults_of(database) == []
