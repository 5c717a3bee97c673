"""Embedding: the real nomic call on the starter model, the real remote call on a local server."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kbstore
from kbstore import embed, errors
from kbstore.embed import LocalEmbedder, RemoteEmbedder

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


class Atlas(BaseHTTPRequestHandler):
    """Speaks Nomic's embedding API; ``server.status`` other than 200 is an error."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append((self.path, self.headers["Authorization"], body))
        status = self.server.status
        vectors = [[float(len(text)), 1.0] + [0.0] * 766 for text in body["texts"]]
        answer = {"embeddings": vectors, "usage": {"total_tokens": 1}, "model": body["model"]}
        data = json.dumps(answer if status == 200 else {"detail": "no"}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def atlas(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Atlas)
    server.seen, server.status = [], 200
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("ATLAS_API_PATH", f"http://127.0.0.1:{server.server_address[1]}")
    monkeypatch.setenv("NOMIC_API_KEY", "nk-secret")
    monkeypatch.setenv("KBSTORE_INFERENCE_MODE", "remote")
    yield server
    server.shutdown()
    server.server_close()


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


def test_the_starter_is_the_file_that_its_notice_names() -> None:
    notice = (embed.STARTER.parent / "NOTICE.md").read_text()
    assert hashlib.sha256(embed.STARTER.read_bytes()).hexdigest() in notice
    assert str(f"{os.path.getsize(embed.STARTER):,}") in notice
