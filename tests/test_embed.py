"""Embedding: the real nomic call on the starter model, the real remote call on a local server."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import requests

import kbstore
from kbstore import atlas as atlas_module
from kbstore import embed, errors, network
from kbstore.embed import LocalEmbedder, RemoteEmbedder

REAL_WAIT = network._wait
STARTER = LocalEmbedder(embed.STARTER.parent)


def another_model() -> bytes:
    """A file that works like the starter but does not call itself a stand-in."""
    data = embed.STARTER.read_bytes()
    assert data.count(b"not the Nomic model") == 1
    return data.replace(b"not the Nomic model", b"a model of its own!")


def cosine(a: bytes, b: bytes) -> float:
    return float(np.frombuffer(a, np.float32) @ np.frombuffer(b, np.float32))


class TestVector:
    def test_it_is_of_unit_length_and_3072_bytes(self) -> None:
        packed = embed.vector([3.0, 4.0] + [0.0] * 766, "a.md")
        assert len(packed) == 3072
        assert np.frombuffer(packed, np.float32)[:3].tolist() == pytest.approx([0.6, 0.8, 0])

    @pytest.mark.parametrize(
        ("raw", "words"),
        [
            ([0.0] * 768, "zeros"),
            ([float("nan")] + [1.0] * 767, "NaN"),
            ([float("inf")] + [1.0] * 767, "NaN or infinity"),
            ([1.0] * 512, "512 numbers, not 768"),
            ([], "0 numbers"),
            ([[1.0] * 768], "1x768 numbers"),
            (["x"] * 768, "no vector"),
            (None, "0 numbers"),
        ],
    )
    def test_what_is_no_vector_is_refused_by_the_document_s_name(
        self, raw: Any, words: str
    ) -> None:
        with pytest.raises(errors.BadVectorError, match=f"a.md.*{words}"):
            embed.vector(raw, "a.md")


class TestLocal:
    def test_a_paraphrase_is_nearer_than_another_subject(self) -> None:
        query = embed.embed_query(STARTER, "what must I not cook for him")
        near, far = STARTER.embed(
            ["He is allergic to shellfish and cannot eat shrimp.", "The server runs on port 8080."],
            "search_document",
        )
        assert cosine(query, embed.vector(near, "")) > cosine(query, embed.vector(far, "")) + 0.1

    def test_two_calls_give_equal_vectors_alone_and_in_a_batch(self) -> None:
        texts = ["one text", "another text", "a third one that is longer"]
        batch = STARTER.embed(texts, "search_document")
        assert [STARTER.embed([text], "search_document")[0] for text in texts] == [
            pytest.approx(vector, abs=1e-6) for vector in batch
        ]

    def test_the_call_is_nomic_s_own(self) -> None:
        """The same vectors as gpt4all gives for the task's prefix."""
        STARTER.embed(["load it"], "search_query")
        import nomic.embed

        ours = STARTER.embed(["retry with backoff"], "search_query")[0]
        theirs = nomic.embed._embed4all.embed(
            ["retry with backoff"], prefix="search_query", dimensionality=768, atlas=True
        )[0]
        assert ours == pytest.approx(theirs, abs=1e-6)

    def test_documents_and_queries_go_out_under_their_own_task(self, monkeypatch) -> None:
        import nomic.embed

        seen: list[dict[str, Any]] = []
        real = nomic.embed.text

        def spy(texts: list[str], **options: Any) -> Any:
            seen.append({"texts": texts, **options})
            return real(texts, **options)

        monkeypatch.setattr(nomic.embed, "text", spy)
        with kbstore.Store(":memory:") as store:
            store.put("a.md", "The body.", title="Title", tags=["x", "y"])
            store.search("a question")
        document, query = seen
        assert document["texts"] == ["Title. Tags: x, y. The body."]
        assert document["task_type"] == "search_document"
        assert query["texts"] == ["a question"]
        assert query["task_type"] == "search_query"
        for call in seen:
            assert call["dimensionality"] == 768
            assert call["inference_mode"] == "local"
            assert call["allow_download"] is False

    def test_a_store_s_end_releases_the_model_and_the_next_one_loads_it(self) -> None:
        import nomic.embed

        for _ in range(2):
            with kbstore.Store(":memory:") as store:
                assert not store.put("a.md", "text").pending
                assert nomic.embed._embed4all is not None
            assert nomic.embed._embed4all is None

    def test_a_broken_file_is_named(self, tmp_path, monkeypatch) -> None:
        broken = tmp_path / embed.MODEL_FILE
        broken.write_bytes(embed.STARTER.read_bytes()[:100_000])
        monkeypatch.setenv("KBSTORE_MODEL_DIR", str(tmp_path))
        with kbstore.Store(":memory:") as store:
            report = store.put("a.md", "the falcon flies")
            assert report.pending
            assert str(broken) in (report.note or "")
            result = store.search("falcon")
        assert [hit.path for hit in result.hits] == ["a.md"]
        assert str(broken) in " ".join(result.degraded)

    OFFLINE = ("unshare", "--net", "--map-root-user")  # a network namespace with nothing in it

    @pytest.mark.parametrize("network", [True, False])
    def test_it_is_quiet_and_needs_no_network(self, tmp_path, network) -> None:
        code = (
            "import kbstore; s = kbstore.Store('kb.sqlite3');"
            "print(s.put('a.md', 'shellfish allergy').pending, s.search('food').model)"
        )
        command = [sys.executable, "-c", code]
        if not network:
            command = [*self.OFFLINE, *command]
            if not shutil.which("unshare") or subprocess.run([*self.OFFLINE, "true"]).returncode:
                pytest.skip("this user may not make a network namespace")
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        assert (done.stdout, done.stderr) == (f"False {STARTER.name}\n", "")


class TestChoice:
    def test_the_starter_serves_where_there_is_nothing_better(self) -> None:
        assert [model.name for model in embed.candidates()] == [STARTER.name]
        assert "stand-in" in STARTER.name
        assert STARTER.weight == 0.35

    def test_a_file_in_the_cache_or_the_chosen_folder_comes_first(
        self, tmp_path, monkeypatch
    ) -> None:
        cache = Path.home() / ".cache" / "gpt4all"
        cache.mkdir(parents=True)
        other = another_model()
        (cache / embed.MODEL_FILE).write_bytes(other)
        first, second = embed.candidates()
        assert (first.name, first.weight) == ("nomic-embed-text-v1.5 (local)", 1.0)
        assert second.name == STARTER.name
        stand_in = tmp_path / "other" / embed.MODEL_FILE
        stand_in.parent.mkdir()
        stand_in.write_bytes(embed.STARTER.read_bytes() + b"\0")
        assert LocalEmbedder(stand_in.parent).name.startswith("stand-in for nomic-embed-text-v1.5")
        assert first.fingerprint != second.fingerprint
        assert hashlib.sha256(other).hexdigest()[:16] in first.fingerprint
        (tmp_path / embed.MODEL_FILE).write_bytes(other + b"\0")
        monkeypatch.setenv("KBSTORE_MODEL_DIR", str(tmp_path))
        assert len({model.fingerprint for model in embed.candidates()}) == 3

    def test_a_chosen_folder_without_the_file_is_named(self, tmp_path, monkeypatch) -> None:
        monkeypatch.setenv("KBSTORE_MODEL_DIR", str(tmp_path))
        with pytest.raises(errors.ModelUnavailableError, match="KBSTORE_MODEL_DIR"):
            embed.candidates()

    def test_without_gpt4all_everything_works_by_words(self, monkeypatch) -> None:
        monkeypatch.setattr(embed, "find_spec", lambda name: None)
        with kbstore.Store(":memory:") as store:
            report = store.put("a.md", "the falcon flies")
            assert report.pending
            assert "gpt4all" in (report.note or "")
            assert [hit.path for hit in store.search("falcon").hits] == ["a.md"]
            status = store.status()
        assert (status.pending, status.model, status.available_model) == (1, None, None)
        assert "gpt4all" in " ".join(status.degraded)

    def test_another_mode_is_refused(self) -> None:
        with pytest.raises(errors.InputError, match="neither 'local' nor 'remote'"):
            embed.candidates("cloud")

    def test_a_better_file_takes_over_at_the_next_embed(
        self, tmp_path, monkeypatch, database
    ) -> None:
        """Until then the old vectors serve, and no search mixes the two."""
        with kbstore.Store(database) as store:
            store.put("a.md", "shellfish allergy")
        (tmp_path / embed.MODEL_FILE).write_bytes(another_model())
        monkeypatch.setenv("KBSTORE_MODEL_DIR", str(tmp_path))
        with kbstore.Store(database) as store:
            assert store.search("food").model == STARTER.name
            status = store.status()
            assert status.model == STARTER.name
            assert status.available_model == "nomic-embed-text-v1.5 (local)"
            assert store.embed().documents == 1
            assert store.search("food").model == "nomic-embed-text-v1.5 (local)"
            assert store.connection.execute(
                "select value from setting where name = 'model_weight'"
            ).get == 1.0  # fmt: skip
            assert store.connection.execute("select count(*) from document_embedding").get == 1

    def test_a_broken_file_in_the_cache_is_passed_over_and_named(self, cache) -> None:
        cache.write_bytes(another_model()[:100_000])
        assert [model.name for model in embed.candidates()] == [STARTER.name]
        (sentence,) = embed.broken_files()
        assert str(cache) in sentence
        assert "100,000 of 6,051,520 bytes" in sentence
        assert "`kbstore model pull` fetches it again; until then it is passed over" in sentence
        with kbstore.Store(":memory:") as store:
            assert not store.put("a.md", "shellfish allergy").pending
            assert store.search("food").model == STARTER.name
        cache.write_bytes(another_model())
        assert embed.candidates()[0].name == "nomic-embed-text-v1.5 (local)"
        assert embed.broken_files() == []

    @pytest.mark.parametrize("data", [b"", b"<html>no such file</html>", b"GGUF"])
    def test_what_is_no_model_at_all_is_passed_over(self, cache, data) -> None:
        cache.write_bytes(data)
        assert [model.name for model in embed.candidates()] == [STARTER.name]
        assert len(embed.broken_files()) == 1

    def test_a_model_of_another_kind_is_passed_over(self, cache) -> None:
        cache.write_bytes(another_model().replace(b"nomic-bert", b"other-bert"))
        assert [model.name for model in embed.candidates()] == [STARTER.name]
        (sentence,) = embed.broken_files()
        assert "the kind other-bert with 768 dimensions, not nomic-bert with 768" in sentence

    def test_a_broken_file_that_would_not_serve_anyway_is_not_named(
        self, cache, tmp_path, monkeypatch
    ) -> None:
        cache.write_bytes(b"broken")
        (tmp_path / embed.MODEL_FILE).write_bytes(another_model())
        monkeypatch.setenv("KBSTORE_MODEL_DIR", str(tmp_path))
        assert embed.broken_files() == []
        (tmp_path / embed.MODEL_FILE).write_bytes(b"broken")  # an error, not passed over
        assert embed.broken_files() == []
        monkeypatch.delenv("KBSTORE_MODEL_DIR")
        assert len(embed.broken_files()) == 1
        assert embed.broken_files("remote") == []

    def test_where_nothing_can_be_used_it_says_why(self, cache, monkeypatch) -> None:
        cache.write_bytes(b"broken")
        monkeypatch.setattr(embed, "STARTER", cache.parent / "gone" / embed.MODEL_FILE)
        with pytest.raises(errors.ModelUnavailableError, match=f"no local model: .*{cache}"):
            embed.candidates()

    def test_a_model_keeps_to_the_file_that_its_fingerprint_is_of(self, cache) -> None:
        """Vectors of a file that has taken its place are never stored under it."""
        import nomic.embed

        cache.write_bytes(another_model())
        before = LocalEmbedder(cache.parent)
        fingerprint = before.fingerprint
        before.embed(["a text"], "search_query")
        loaded = nomic.embed._embed4all
        other = cache.with_name("other")
        other.write_bytes(another_model() + b"\0")
        os.replace(other, cache)
        with pytest.raises(errors.ModelUnavailableError, match="not the one of before"):
            before.embed(["a text"], "search_query")
        assert before.fingerprint == fingerprint
        after = LocalEmbedder(cache.parent)
        assert after.fingerprint != fingerprint
        after.embed(["a text"], "search_query")
        assert nomic.embed._embed4all is not loaded
        embed.release()


class Atlas(BaseHTTPRequestHandler):
    """Speaks Nomic's embedding API. The server has

    ``status``, other than 200 an error, ``statuses``, which come first, one a request, and
    ``status_of``, which chooses it by the texts;
    ``headers`` of every answer; ``body``, which is sent as it is; ``cuts``, one a request: the
    bytes after which the connection is cut; ``hold``, an event that is waited for first.
    """

    def do_POST(self) -> None:
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server.seen.append((self.path, self.headers["Authorization"], body))
        status = server.statuses.pop(0) if server.statuses else server.status
        if server.status_of:
            status = server.status_of(body["texts"])
        if server.hold:
            server.hold.wait()
        vectors = [[float(len(text)), 1.0] + [0.0] * 766 for text in body["texts"]]
        answer = {"embeddings": vectors, "usage": {"total_tokens": 1}, "model": body["model"]}
        data = json.dumps(answer if status == 200 else {"detail": "no"}).encode()
        data = data if server.body is None else server.body
        cut = server.cuts.pop(0) if server.cuts else None
        if cut == 0:
            return
        with suppress(ConnectionError):  # who has given up does not read on
            self.send_response(status)
            for name, value in {"Content-Length": str(len(data)), **server.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data[:cut])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def cache() -> Path:
    """The model's file in gpt4all's cache; there is none yet."""
    folder = Path.home() / ".cache" / "gpt4all"
    folder.mkdir(parents=True)
    return folder / embed.MODEL_FILE


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that would have been waited for."""
    waited: list[float] = []
    monkeypatch.setattr(network, "_wait", waited.append)
    return waited


@pytest.fixture
def atlas(monkeypatch: pytest.MonkeyPatch, waits: list[float]) -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Atlas)
    server.seen, server.status, server.statuses, server.headers = [], 200, [], {}
    server.body, server.cuts, server.hold, server.status_of = None, [], None, None
    monkeypatch.setattr(atlas_module, "_login", None)
    threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
    monkeypatch.setenv("ATLAS_API_PATH", f"http://127.0.0.1:{server.server_address[1]}")
    monkeypatch.setenv("NOMIC_API_KEY", "nk-secret")
    monkeypatch.setenv("KBSTORE_INFERENCE_MODE", "remote")
    yield server
    if server.hold:
        server.hold.set()
    server.shutdown()
    server.server_close()


def failure(texts: list[str], task: embed.Task = "search_document") -> str:
    """What a remote call that fails says: one line, and no cause that a traceback would show."""
    with pytest.raises(errors.ModelUnavailableError) as caught:
        RemoteEmbedder().embed(texts, task)
    error = caught.value
    assert error.__cause__ is None
    assert error.__context__ is None
    message = str(error)
    assert "\n" not in message
    assert message.startswith("the remote embedding failed: ")
    return message


class TestRemote:
    def test_texts_go_to_the_server_under_their_task_with_the_key(self, atlas, database) -> None:
        with kbstore.Store(database) as store:
            assert not store.put("a.md", "The body.", title="T").pending
            result = store.search("question")
        assert result.model == "nomic-embed-text-v1.5 (remote)" == RemoteEmbedder().name
        (path, key, document), (_, _, query) = atlas.seen
        assert (path, key) == ("/v1/embedding/text", "Bearer nk-secret")
        assert (document["texts"], document["task_type"]) == (["T. The body."], "search_document")
        assert (query["texts"], query["task_type"]) == (["question"], "search_query")
        assert query["dimensionality"] == 768
        assert b"nk-secret" not in database.read_bytes()

    def test_a_refusal_leaves_the_note_pending_and_keeps_the_key_out(self, atlas) -> None:
        atlas.status = 401
        with kbstore.Store(":memory:") as store:
            report = store.put("a.md", "the falcon flies")
            assert report.pending
            assert "401" in (report.note or "")
            assert "nk-secret" not in (report.note or "")
            assert [hit.path for hit in store.search("falcon").hits] == ["a.md"]
            atlas.status = 200
            assert store.embed().documents == 1
            assert store.status().pending == 0

    def test_local_and_remote_vectors_are_not_mixed(self, atlas, database, monkeypatch) -> None:
        with kbstore.Store(database) as store:
            store.put("a.md", "the falcon flies")
        monkeypatch.setenv("KBSTORE_INFERENCE_MODE", "local")
        with kbstore.Store(database) as store:
            result = store.search("falcon")
            assert result.model is None
            assert "were made by nomic-embed-text-v1.5 (remote)" in result.degraded[0]
            assert result.hits[0].words
            assert result.hits[0].vectors is None


class TestBadNetwork:
    def test_a_fault_in_passing_is_waited_out_for_a_document(self, atlas, waits) -> None:
        atlas.statuses = [503, 429, 500, 502, 504]
        assert len(RemoteEmbedder().embed(["a"], "search_document")) == 1
        assert len(atlas.seen) == 6
        for retry, seconds in enumerate(waits):
            assert 2**retry / 2 <= seconds <= 2**retry

    def test_a_document_is_given_up_after_five_retries(self, atlas, waits) -> None:
        atlas.status = 503
        message = failure(["a"])
        assert "is out of order (HTTP 503): try again later" in message
        assert (len(atlas.seen), len(waits)) == (6, 5)

    def test_too_many_requests_are_named(self, atlas) -> None:
        atlas.status = 429
        assert "too many requests (HTTP 429): try again later" in failure(["a"])

    @pytest.mark.parametrize(
        ("header", "least", "most"),
        [
            ("7", 7, 7),
            ("0", 0, 0),
            ("3600", 60, 60),
            (format_datetime(datetime.now(UTC) + timedelta(days=1), usegmt=True), 60, 60),
            (format_datetime(datetime.now(UTC) - timedelta(days=1), usegmt=True), 0, 0),
            ("soon", 0.5, 1),
            ("-5", 0.5, 1),
            ("", 0.5, 1),
        ],
    )
    def test_the_server_says_how_long_to_wait(self, atlas, waits, header, least, most) -> None:
        atlas.statuses, atlas.headers = [429], {"Retry-After": header}
        RemoteEmbedder().embed(["a"], "search_document")
        (seconds,) = waits
        assert least <= seconds <= most

    def test_a_date_to_come_back_at_is_counted_from_now(self) -> None:
        def seconds(offset: str) -> float | None:
            moment = datetime.now(UTC) + timedelta(seconds=30)
            response = requests.Response()
            response.headers["Retry-After"] = moment.strftime(f"%a, %d %b %Y %H:%M:%S {offset}")
            return network.retry_after(response)

        for offset in ("GMT", "+0000", "-0000"):
            assert 20 < (seconds(offset) or 0) <= 30

    def test_a_search_is_tried_once_more_and_waits_for_a_second_at_most(self, atlas, waits) -> None:
        atlas.status = 503
        failure(["a"], "search_query")
        assert len(atlas.seen) == 2
        assert len(waits) == 1
        assert waits[0] <= 1
        atlas.headers = {"Retry-After": "5"}
        failure(["a"], "search_query")
        assert len(atlas.seen) == 3

    def test_a_server_that_does_not_answer_does_not_hold_a_search_up(
        self, atlas, monkeypatch
    ) -> None:
        with kbstore.Store(":memory:") as store:
            store.put("a.md", "the falcon flies")
            monkeypatch.setattr(network, "HASTY", network.HASTY._replace(read=0.05))
            atlas.hold = threading.Event()
            result = store.search("falcon")
        assert [hit.path for hit in result.hits] == ["a.md"]
        assert "searched by words only" in result.degraded[0]
        assert "does not answer in time" in result.degraded[0]
        assert len(atlas.seen) == 2  # the document, and the search only once

    def test_a_time_out_is_tried_again_for_a_document(self, atlas, monkeypatch, waits) -> None:
        monkeypatch.setattr(network, "PATIENT", network.PATIENT._replace(read=0.05, retries=2))
        atlas.hold = threading.Event()
        assert "does not answer in time: try again later" in failure(["a"])
        assert (len(atlas.seen), len(waits)) == (3, 2)

    def test_every_request_has_time_outs(self, atlas, monkeypatch) -> None:
        seen = []
        real = requests.request

        def spy(*arguments: Any, **options: Any) -> Any:
            seen.append(options["timeout"])
            return real(*arguments, **options)

        monkeypatch.setattr(requests, "request", spy)
        RemoteEmbedder().embed(["a"], "search_document")
        RemoteEmbedder().embed(["a"], "search_query")
        assert seen == [(10, 60), (5, 10)]

    def test_a_cut_connection_is_tried_again(self, atlas, waits) -> None:
        atlas.cuts = [0, 100]
        assert len(RemoteEmbedder().embed(["a"], "search_document")) == 1
        assert (len(atlas.seen), len(waits)) == (3, 2)
        for after in (0, 100):
            atlas.cuts = [after] * 2
            message = failure(["a"], "search_query")
            assert "the connection to 127.0.0.1:" in message
            assert "was cut: try again" in message

    def test_an_unreachable_server_is_named(self, atlas, monkeypatch, waits) -> None:
        monkeypatch.setenv("ATLAS_API_PATH", "http://127.0.0.1:1")
        assert "127.0.0.1:1 cannot be reached: look at the network" in failure(["a"])
        assert len(waits) == 5
        failure(["a"], "search_query")
        assert len(waits) == 6

    def test_an_address_that_is_none_is_named(self, atlas, monkeypatch) -> None:
        monkeypatch.setenv("ATLAS_API_PATH", "atlas.example/api")
        assert "'atlas.example/api' is no address: give one such as https://" in failure(["a"])
        monkeypatch.setenv("ATLAS_API_PATH", "http://me:nk-secret@127.0.0.1:1")
        assert "nk-secret" not in failure(["a"])

    @pytest.mark.parametrize(
        ("body", "words"),
        [
            (b"<html>Please sign in</html>", "without JSON"),
            (b"", "without JSON"),
            (b"\xff\xfe\xfd", "without JSON"),
            (b"null", "something else than vectors"),
            (b"[]", "something else than vectors"),
            (b'{"detail": "ok"}', "something else than vectors"),
            (b'{"model": "another", "embeddings": [[1]], "usage": {}}', "something else"),
            (
                b'{"model": "nomic-embed-text-v1.5", "embeddings": null, "usage": {}}',
                "something else than vectors",
            ),
            (
                b'{"model": "nomic-embed-text-v1.5", "embeddings": [[1], [2]], "usage": {}}',
                "gives 2 vectors for 1 texts",
            ),
            (
                b'{"model": "nomic-embed-text-v1.5", "embeddings": [], "usage": {}}',
                "gives 0 vectors for 1 texts",
            ),
        ],
    )
    def test_an_answer_that_is_none_is_named(self, atlas, body, words) -> None:
        atlas.body = body
        assert words in failure(["a"])
        with kbstore.Store(":memory:") as store:
            assert store.put("a.md", "the falcon flies").pending
            assert [hit.path for hit in store.search("falcon").hits] == ["a.md"]

    def test_texts_go_out_in_nomic_s_batches_and_come_back_in_order(self, atlas) -> None:
        atlas.statuses = [503]
        texts = ["x" * length for length in range(1, 26)]
        vectors = RemoteEmbedder().embed(texts, "search_document")
        assert [vector[0] for vector in vectors] == list(range(1, 26))
        assert max(len(body["texts"]) for _, _, body in atlas.seen) <= 10
        assert len(atlas.seen) > 3

    def test_a_search_does_not_wait_for_documents_that_wait_for_the_server(
        self, atlas, monkeypatch
    ) -> None:
        waiting, go_on = threading.Event(), threading.Event()

        def wait(seconds: float) -> None:
            waiting.set()
            assert go_on.wait(60)

        monkeypatch.setattr(network, "_wait", wait)
        atlas.statuses = [503]
        made: list[Any] = []
        thread = threading.Thread(
            target=lambda: made.extend(RemoteEmbedder().embed(["abc"], "search_document"))
        )
        thread.start()
        assert waiting.wait(60)
        (query,) = RemoteEmbedder().embed(["ab"], "search_query")
        assert (query[0], made) == (2, [])
        go_on.set()
        thread.join()
        assert [vector[0] for vector in made] == [3]

    @pytest.mark.parametrize("texts", [["bad", "b", "c"], ["a", "b", "bad"]])
    def test_when_one_request_fails_for_good_the_others_wait_no_more(
        self, atlas, monkeypatch, texts
    ) -> None:
        together = threading.Barrier(3)

        def status_of(texts: list[str]) -> int:
            together.wait(60)
            return 400 if texts == ["bad"] else 503

        monkeypatch.setattr(network, "_wait", REAL_WAIT)  # a minute, but for that
        atlas.status_of, atlas.headers = status_of, {"Retry-After": "60"}
        failure(texts)
        assert len(atlas.seen) == 3

    @pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="Windows has no such signals")
    def test_ctrl_c_does_not_wait_for_the_server(self, atlas, monkeypatch) -> None:
        waiting = threading.Barrier(2)
        main = threading.main_thread().ident

        def wait(seconds: float) -> None:
            if waiting.wait(60) == 0:
                signal.pthread_kill(main, signal.SIGINT)
            REAL_WAIT(seconds)

        monkeypatch.setattr(network, "_wait", wait)
        atlas.status, atlas.headers = 503, {"Retry-After": "60"}
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with pytest.raises(KeyboardInterrupt):
                RemoteEmbedder().embed(["a", "b"], "search_document")
        finally:
            signal.signal(signal.SIGINT, before)
        assert len(atlas.seen) == 2

    def test_only_our_own_lines_go_to_standard_error(self, tmp_path) -> None:
        code = (
            "import kbstore; from kbstore import network; network._wait = lambda s: None;"
            "s = kbstore.Store('kb.sqlite3'); print(s.put('a.md', 'falcon').note)"
        )
        home = {"HOME": str(tmp_path), "KBSTORE_INFERENCE_MODE": "remote"}
        for settings, words in (
            ({"NOMIC_API_KEY": "k", "ATLAS_API_PATH": "http://127.0.0.1:1"}, "cannot be reached"),
            ({}, "no usable key"),
        ):
            done = subprocess.run(
                [sys.executable, "-c", code],
                env=os.environ | home | settings, capture_output=True, text=True, cwd=tmp_path,
            )  # fmt: skip
            assert words in done.stdout
            assert done.stderr == ""


class TestKey:
    @pytest.mark.parametrize("status", [401, 403])
    def test_a_refused_key_is_named_with_what_to_do(self, atlas, status) -> None:
        atlas.status = status
        message = failure(["a"])
        assert f"refuses the key (HTTP {status})" in message
        assert "NOMIC_API_KEY" in message
        assert "nomic login" in message
        assert len(atlas.seen) == 1

    @pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 422, 429, 500])
    def test_the_key_is_shown_nowhere_though_the_server_echoes_it(
        self, atlas, monkeypatch, caplog, capfd, database, status
    ) -> None:
        caplog.set_level(logging.DEBUG)
        monkeypatch.setenv("NOMIC_API_KEY", "nk-sec+ret/")
        atlas.status, atlas.body = status, b"x" * 290 + b" nk-sec+ret/ nk-sec%2Bret%2F"
        message = failure(["a"])
        with kbstore.Store(database) as store:
            store.put("a.md", "the falcon flies")
            status_text = str(store.status())
        output = "".join(capfd.readouterr())
        for text in (message, status_text, caplog.text, output, str(database.read_bytes())):
            assert "nk-s" not in text
        if status in (400, 404, 422):
            assert f"refuses the request (HTTP {status}): xxx" in message

    def test_the_key_of_nomic_login_serves_and_is_not_shown(
        self, atlas, login, caplog, monkeypatch
    ) -> None:
        caplog.set_level(logging.DEBUG)
        login({"tenant": "production", "token": "nk-stored", "expires": None})
        RemoteEmbedder().embed(["a"], "search_document")
        assert atlas.seen[0][1] == "Bearer nk-stored"
        atlas.status, atlas.body = 422, b"the key nk-stored is odd"
        assert "the key … is odd" in failure(["a"])
        monkeypatch.setenv("NOMIC_API_KEY", "nk-other")
        atlas.status, atlas.body = 200, None
        RemoteEmbedder().embed(["a"], "search_document")
        assert atlas.seen[-1][1] == "Bearer nk-other"
        assert "nk-stored" not in caplog.text

    def test_an_expired_login_is_renewed_also_once_it_is_refused(
        self, atlas, login, monkeypatch
    ) -> None:
        tokens = iter(["first", "second"])
        answer = SimpleNamespace(status_code=200, json=lambda: {"access_token": next(tokens)})
        monkeypatch.setattr(atlas_module, "get", lambda url: answer)
        login({"tenant": "production", "token": "old", "refresh_token": "r", "expires": 1})
        RemoteEmbedder().embed(["a"], "search_query")
        RemoteEmbedder().embed(["a"], "search_query")
        atlas.statuses = [401]
        failure(["a"])
        RemoteEmbedder().embed(["a"], "search_query")
        keys = [key for _, key, _ in atlas.seen]
        assert keys == ["Bearer first"] * 3 + ["Bearer second"]

    def test_where_an_expired_login_cannot_be_renewed_it_says_why(
        self, atlas, login, caplog
    ) -> None:
        caplog.set_level(logging.DEBUG)
        stored = {"token": "old", "refresh_token": "r-secret", "expires": 1}
        login({**stored, "tenant": "enterprise", "api_domain": "127.0.0.1:1"})
        message = failure(["a"])
        assert "cannot be reached" in message
        assert "r-secret" not in message + caplog.text

    def test_a_server_that_fails_to_renew_a_login_is_no_refusal(self, atlas, caplog) -> None:
        caplog.set_level(logging.DEBUG)

        class Gone(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_error(503)

            log_message = Atlas.log_message

        atlas.RequestHandlerClass = Gone
        with pytest.raises(requests.HTTPError) as caught:
            atlas_module.get(os.environ["ATLAS_API_PATH"] + "/refresh/r-secret")
        assert "r-secret" not in caplog.text
        explained = network.explain(caught.value, "https://a.example")
        assert explained == "a.example is out of order (HTTP 503): try again later"

    @pytest.mark.parametrize(
        "stored", [None, "", "{", "[]", "{}", '{"tenant": "production", "expires": null}']
    )
    def test_a_missing_or_broken_login_says_what_to_do(self, atlas, login, stored, capfd) -> None:
        login(stored)
        message = failure(["a"])
        assert "no usable key: set NOMIC_API_KEY, or run `nomic login`" in message
        with kbstore.Store(":memory:") as store:
            assert "nomic login" in (store.put("a.md", "the falcon flies").note or "")
            result = store.search("falcon")
        assert [hit.path for hit in result.hits] == ["a.md"]
        assert "nomic login" in result.degraded[0]
        assert capfd.readouterr() == ("", "")

    def test_a_line_end_around_the_key_does_no_harm_one_in_it_is_refused(
        self, atlas, monkeypatch
    ) -> None:
        monkeypatch.setenv("NOMIC_API_KEY", " nk-secret\n")
        RemoteEmbedder().embed(["a"], "search_document")
        assert atlas.seen[0][1] == "Bearer nk-secret"
        for key in ("nk-secret\nX-Other: 1", "nk-secret with words", "nk-sécret"):
            monkeypatch.setenv("NOMIC_API_KEY", key)
            message = failure(["a"])
            assert "no usable key" in message
            assert "cret" not in message
        assert len(atlas.seen) == 1

    @pytest.fixture
    def login(self, atlas, monkeypatch, tmp_path) -> Any:
        """Stores what `nomic login` would."""
        RemoteEmbedder().embed(["load nomic"], "search_query")
        atlas.seen.clear()
        import nomic.cli

        monkeypatch.setattr(nomic.cli, "nomic_base_path", tmp_path)
        monkeypatch.delenv("NOMIC_API_KEY")

        def store(stored: dict[str, Any] | str | None) -> None:
            if stored is not None:
                text = stored if isinstance(stored, str) else json.dumps(stored)
                (tmp_path / "credentials").write_text(text)

        return store


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (requests.exceptions.SSLError("k"), "no secure connection to a.example"),
        (requests.exceptions.ProxyError("k"), "through the proxy: look at HTTPS_PROXY"),
        (requests.exceptions.ConnectTimeout("k"), "a.example does not answer in time"),
        (requests.exceptions.ConnectionError("k"), "a.example cannot be reached"),
        (requests.exceptions.TooManyRedirects("k"), "cannot be understood (TooManyRedirects)"),
    ],
)
def test_what_went_wrong_with_a_request_is_said_in_words_of_our_own(error, words) -> None:
    explained = network.explain(error, "https://me:pass@a.example/path?key=k")
    assert words in (explained or "")
    assert "pass" not in (explained or "")
    assert network.explain(ValueError("k"), "https://a.example") is None


def test_the_starter_is_the_file_that_its_notice_names() -> None:
    notice = (embed.STARTER.parent / "NOTICE.md").read_text()
    assert hashlib.sha256(embed.STARTER.read_bytes()).hexdigest() in notice
    assert str(f"{os.path.getsize(embed.STARTER):,}") in notice
