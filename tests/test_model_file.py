"""The model's file: where it is looked for, downloaded from a local server, and linked."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from test_embed import another_model

import kbstore
from kbstore import download, embed, model_file, network
from kbstore.commands import model as model_command
from kbstore.errors import ConflictError, InputError, ModelUnavailableError, NotFoundError

MODEL = another_model()
OTHER = MODEL.replace(b"a model of its own!", b"a newer one of own!")
SIZE = len(MODEL)
MB = 1024 * 1024
MODEL_NAME = "nomic-embed-text-v1.5 (local)"


class Mirror(BaseHTTPRequestHandler):
    """Gives one file. The server has ``data``, ``headers``, ``ranges`` (whether it knows them),
    ``statuses`` and ``cuts``, one a request: the bytes after which the connection is cut."""

    def do_GET(self) -> None:
        server = self.server
        wanted = self.headers["Range"], self.headers["If-Range"]
        server.seen.append(wanted)
        if server.on_request:
            server.on_request(len(server.seen))
        status = server.statuses.pop(0) if server.statuses else 200
        data, headers = server.data, dict(server.headers)
        versions = [headers.get("ETag"), headers.get("Last-Modified")]
        if status == 200 and wanted[0] and server.ranges and wanted[1] in versions:
            start = int(wanted[0].removeprefix("bytes=").removesuffix("-"))
            status = 206 if start < len(data) else 416
            last = f"{start}-{len(data) - 1}" if status == 206 else "*"
            headers["Content-Range"] = f"bytes {last}/{len(data)}"
            data = data[start:]
        if status not in (200, 206):
            data = b""
        self.send_response(status)
        if not server.chunked:
            self.send_header("Content-Length", str(len(data) + server.longer))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        with suppress(ConnectionError):  # who has given up does not read on
            self.wfile.write(data[: server.cuts.pop(0) if server.cuts else None])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Mirror)
    server.data, server.headers, server.ranges = MODEL, {"ETag": '"one"'}, True
    server.statuses, server.cuts, server.seen = [], [], []
    server.longer, server.chunked, server.on_request = 0, False, None
    server.url = f"http://127.0.0.1:{server.server_address[1]}/models/{embed.MODEL_FILE}"
    threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
    monkeypatch.setenv("KBSTORE_MODEL_URL", server.url)
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that would have been waited for."""
    waited: list[float] = []
    monkeypatch.setattr(network, "_wait", waited.append)
    return waited


@pytest.fixture
def file() -> Path:
    """The model's file in gpt4all's cache; there is no such folder yet."""
    return Path.home() / ".cache" / "gpt4all" / embed.MODEL_FILE


@pytest.fixture
def model(run: Callable[..., Result]) -> Callable[..., Result]:
    """``model("pull")`` runs `kbstore model pull`."""
    return lambda *arguments: run("model", *arguments)


def put(file: Path, data: bytes) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    return file


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def break_off(mirror: Any, after: int) -> None:
    """A pull that is given up after so many bytes; nothing of it stays with the server."""
    mirror.cuts = [after, *[0] * 6]
    with pytest.raises(ModelUnavailableError, match="was cut"):
        model_file.pull(mirror.url)
    mirror.cuts = []
    mirror.seen.clear()


class TestStatus:
    def test_every_place_is_listed_in_order_with_what_is_there(
        self, model, file, tmp_path, monkeypatch
    ) -> None:
        monkeypatch.setenv("KBSTORE_MODEL_DIR", str(tmp_path))
        put(tmp_path / embed.MODEL_FILE, MODEL)
        put(file, OTHER[:1000])
        result = model("status", "--json")
        found = json.loads(result.stdout)
        assert found["taken"] == MODEL_NAME
        assert found["mode"] == "local"
        assert found["problem"] is None
        chosen, cache, starter = found["places"]
        chosen_model = embed.LocalEmbedder(tmp_path)
        assert chosen == {
            "place": "KBSTORE_MODEL_DIR",
            "file": str(tmp_path / embed.MODEL_FILE),
            "exists": True,
            "size": SIZE,
            "usable": True,
            "name": MODEL_NAME,
            "hash": chosen_model.file_hash,
            "taken": True,
            "problem": None,
        }
        assert chosen_model.file_hash in chosen_model.fingerprint
        assert (cache["place"], cache["file"]) == ("gpt4all's cache", str(file))
        assert (cache["exists"], cache["usable"], cache["taken"]) == (True, False, False)
        assert (cache["name"], cache["hash"], cache["size"]) == (None, None, 1000)
        assert "broken or cut short" in cache["problem"]
        assert (starter["place"], starter["usable"]) == ("starter", True)
        assert starter["taken"] is False

    def test_on_a_terminal_it_says_the_same_in_words(self, model, file) -> None:
        result = model("status")
        assert result.exit_code == 0
        assert f"{file}\n                   no such file" in result.stdout
        assert "6,051,520 bytes, whole, " in result.stdout
        assert "model              starter (6 MB stand-in" in result.stdout
        assert result.stderr == ""
        put(file, b"<html>")
        result = model("status")
        assert "6 bytes, not usable" in result.stdout
        assert f"Note: the model file {file} is broken" in result.stderr
        assert "Note: `kbstore model pull` replaces such a file" in result.stderr
        assert ", taken" in result.stdout.splitlines()[-1]

    def test_a_broken_file_in_the_named_folder_is_an_error_not_another_model(
        self, model, tmp_path, monkeypatch
    ) -> None:
        monkeypatch.setenv("KBSTORE_MODEL_DIR", str(tmp_path))
        put(tmp_path / embed.MODEL_FILE, b"broken")
        found = json.loads(model("status", "--json").stdout)
        assert found["taken"] is None
        assert "broken or cut short" in found["problem"]
        assert [place["taken"] for place in found["places"]] == [False] * 3
        (tmp_path / embed.MODEL_FILE).unlink()
        found = json.loads(model("status", "--json").stdout)
        assert "has no file" in found["problem"]
        assert "`kbstore model pull`" in found["problem"]

    def test_it_works_without_gpt4all(self, model, monkeypatch) -> None:
        monkeypatch.setattr(embed, "find_spec", lambda name: None)
        result = model("status")
        assert "model              none" in result.stdout
        assert "gpt4all is not installed" in result.stderr

    def test_in_remote_mode_the_server_is_taken(self, model, monkeypatch) -> None:
        monkeypatch.setenv("KBSTORE_INFERENCE_MODE", "remote")
        found = json.loads(model("status", "--json").stdout)
        assert (found["mode"], found["taken"]) == ("remote", embed.RemoteEmbedder.name)
        assert not any(place["taken"] for place in found["places"])
        monkeypatch.setenv("KBSTORE_INFERENCE_MODE", "cloud")
        assert model("status").exit_code == 2

    def test_a_link_to_nowhere_is_named(self, model, file, tmp_path) -> None:
        file.parent.mkdir(parents=True)
        file.symlink_to(tmp_path / "gone.gguf")
        result = model("status")
        assert f"is a link to {tmp_path / 'gone.gguf'}, where there is no file" in result.stderr

    def test_a_model_of_another_kind_is_named(self, model, file) -> None:
        put(file, MODEL.replace(b"nomic-bert", b"other-bert"))
        assert "a model of the kind other-bert" in model("status").stderr


class TestPull:
    def test_it_downloads_the_file_whole_and_says_what_to_do_next(
        self, model, mirror, file
    ) -> None:
        result = model("pull")
        assert result.exit_code == 0
        assert result.stdout == f"downloaded {file}: {MODEL_NAME}\n"
        assert f"downloading {mirror.url} to {file}" in result.stderr
        assert "`kbstore embed` lets it serve: run it once for each knowledge base" in result.stderr
        assert file.read_bytes() == MODEL
        assert names(file.parent) == [embed.MODEL_FILE]
        assert embed.candidates()[0].name == MODEL_NAME

    def test_it_goes_to_the_named_folder(self, model, mirror, tmp_path, monkeypatch, file) -> None:
        monkeypatch.setenv("KBSTORE_MODEL_DIR", str(tmp_path / "new" / "folder"))
        monkeypatch.setenv("KBSTORE_MODEL_URL", "http://127.0.0.1:1/")
        assert model("pull", "--url", mirror.url).exit_code == 0
        assert (tmp_path / "new" / "folder" / embed.MODEL_FILE).read_bytes() == MODEL
        assert not file.exists()

    def test_a_whole_file_is_kept_and_nothing_is_downloaded(self, model, mirror, file) -> None:
        put(file, MODEL)
        result = model("pull")
        assert result.exit_code == 0
        assert result.stdout == f"kept {file}: {MODEL_NAME}\n"
        assert "nothing was downloaded" in result.stderr
        assert "kbstore embed" not in result.stderr
        assert mirror.seen == []
        mirror.data = OTHER
        assert model("pull", "--force").exit_code == 0
        assert file.read_bytes() == OTHER

    def test_a_broken_file_is_named_and_replaced(self, model, mirror, file) -> None:
        put(file, MODEL[:-1])
        result = model("pull")
        assert f"{file} is broken or cut short" in result.stderr
        assert "it is being replaced" in result.stderr
        assert file.read_bytes() == MODEL
        file.unlink()
        file.symlink_to(file.parent / "gone")
        assert model("pull").exit_code == 0
        assert (file.read_bytes(), file.is_symlink()) == (MODEL, False)

    def test_a_broken_file_stays_until_its_replacement_is_whole(self, model, mirror, file) -> None:
        put(file, b"broken")
        mirror.statuses = [404]
        result = model("pull")
        assert result.exit_code == 1
        assert file.read_bytes() == b"broken"
        assert names(file.parent) == [embed.MODEL_FILE]

    def test_a_cut_connection_is_gone_on_with(self, mirror, file, waits) -> None:
        mirror.cuts = [2 * MB, 2 * MB]
        model_file.pull(mirror.url)
        assert file.read_bytes() == MODEL
        assert mirror.seen == [
            (None, None),
            (f"bytes={2 * MB}-", '"one"'),
            (f"bytes={4 * MB}-", '"one"'),
        ]
        assert len(waits) == 2

    def test_the_next_pull_goes_on_where_one_was_broken_off(self, model, mirror, file) -> None:
        mirror.cuts = [3 * MB, *[0] * 6]
        result = model("pull")
        assert result.exit_code == 1
        part = download.part_of(file)
        assert f"was cut: try again; {part} keeps {3 * MB:,} bytes to go on from" in result.stderr
        assert result.stderr.count("\n") == 2
        assert not file.exists()
        mirror.cuts = []
        mirror.seen.clear()
        result = model("pull")
        assert f"of which {3 * MB:,} bytes are there" in result.stderr
        assert mirror.seen == [(f"bytes={3 * MB}-", '"one"')]
        assert file.read_bytes() == MODEL
        assert names(file.parent) == [embed.MODEL_FILE]

    def test_without_progress_it_gives_up_after_five_tries(self, mirror, waits) -> None:
        mirror.cuts = [2 * MB, *[100] * 20]  # bytes that are too few to be kept
        with pytest.raises(ModelUnavailableError, match=r"the download failed: .*was cut"):
            model_file.pull(mirror.url)
        assert len(mirror.seen) == 7
        assert len(waits) == 6

    def test_little_by_little_it_goes_on(self, mirror, file) -> None:
        mirror.cuts = [300_000] * 50
        model_file.pull(mirror.url)
        assert file.read_bytes() == MODEL
        assert 20 < len(mirror.seen) < 30

    def test_a_file_that_has_changed_on_the_server_begins_anew(self, mirror, file) -> None:
        break_off(mirror, 2 * MB)
        mirror.data, mirror.headers = OTHER, {"ETag": '"two"'}
        model_file.pull(mirror.url)
        assert file.read_bytes() == OTHER
        assert mirror.seen == [(f"bytes={2 * MB}-", '"one"')]

    def test_so_it_does_where_the_server_ignores_the_condition(self, mirror, file) -> None:
        break_off(mirror, 2 * MB)

        def change(requests: int) -> None:
            mirror.headers = {"ETag": '"one"' if requests == 1 else '"two"'}

        class Careless(Mirror):
            """Takes the range as it is, and names the new version."""

            def end_headers(self) -> None:
                if len(self.server.seen) == 1:
                    self._headers_buffer = [
                        line.replace(b'"one"', b'"two"') for line in self._headers_buffer
                    ]
                super().end_headers()

        mirror.RequestHandlerClass, mirror.data, mirror.on_request = Careless, OTHER, change
        model_file.pull(mirror.url)
        assert [wanted for wanted, _ in mirror.seen] == [f"bytes={2 * MB}-", None]
        assert file.read_bytes() == OTHER

    def test_a_date_serves_where_there_is_no_strong_etag(self, mirror, file) -> None:
        day = "Tue, 01 Dec 2026 00:00:00 GMT"
        mirror.headers = {"ETag": 'W/"weak"', "Last-Modified": day}
        mirror.cuts = [2 * MB]
        model_file.pull(mirror.url)
        assert mirror.seen[1] == (f"bytes={2 * MB}-", day)
        assert file.read_bytes() == MODEL

    def test_without_either_it_begins_anew(self, mirror, file) -> None:
        mirror.headers = {}
        mirror.cuts = [2 * MB]
        model_file.pull(mirror.url)
        assert mirror.seen == [(None, None)] * 2
        assert file.read_bytes() == MODEL

    def test_a_server_without_ranges_begins_anew(self, mirror, file) -> None:
        break_off(mirror, 2 * MB)
        mirror.ranges = False
        model_file.pull(mirror.url)
        assert mirror.seen == [(f"bytes={2 * MB}-", '"one"')]
        assert file.read_bytes() == MODEL

    def test_a_part_that_is_whole_already_is_put_in_place(self, mirror, file) -> None:
        break_off(mirror, 2 * MB)
        put(download.part_of(file), MODEL)
        model_file.pull(mirror.url)
        assert mirror.seen == [(f"bytes={SIZE}-", '"one"')]
        assert file.read_bytes() == MODEL

    def test_a_part_that_is_longer_than_the_file_begins_anew(self, mirror, file) -> None:
        break_off(mirror, 2 * MB)
        put(download.part_of(file), MODEL + b"\0")
        model_file.pull(mirror.url)
        assert mirror.seen == [(f"bytes={SIZE + 1}-", '"one"'), (None, None)]
        assert file.read_bytes() == MODEL

    @pytest.mark.parametrize("side", [None, b"", b"[]", b'{"url": 1}', b'{"url": "http://other/"}'])
    def test_a_part_of_another_s_making_begins_anew(self, mirror, file, side) -> None:
        part = put(download.part_of(file), b"x" * MB)
        if side is not None:
            part.with_name(part.name + ".json").write_bytes(side)
        model_file.pull(mirror.url)
        assert mirror.seen == [(None, None)]
        assert file.read_bytes() == MODEL

    @pytest.mark.parametrize(
        ("data", "words"),
        [
            (b"<html>Please sign in</html>", r"gives no whole GGUF file \(27 bytes\)"),
            (b"", r"gives no whole GGUF file \(0 bytes\)"),
            (MODEL[:-1], "gives no whole GGUF file"),
            (MODEL.replace(b"nomic-bert", b"other-bert"), "gives a model of the kind other-bert"),
        ],
        ids=["a page", "nothing", "cut short", "another kind"],
    )
    def test_a_bad_download_is_removed_and_named(self, mirror, file, data, words) -> None:
        mirror.data = data
        with pytest.raises(ModelUnavailableError, match=words) as caught:
            model_file.pull(mirror.url)
        assert mirror.url in str(caught.value)
        assert names(file.parent) == []

    def test_a_length_that_is_wrong_is_no_whole_file(self, mirror, file) -> None:
        mirror.longer = 100
        with pytest.raises(ModelUnavailableError, match="was cut"):
            model_file.pull(mirror.url)
        assert not file.exists()
        mirror.longer, mirror.chunked = 0, True  # no length at all: until the connection ends
        download.part_of(file).unlink()
        model_file.pull(mirror.url)
        assert file.read_bytes() == MODEL

    @pytest.mark.parametrize("status", [403, 404])
    def test_a_refusal_is_named_at_once(self, model, mirror, file, status) -> None:
        mirror.statuses = [status]
        result = model("pull")
        assert result.exit_code == 1
        assert f"{mirror.url} does not give the file as it is (HTTP {status})" in result.stderr
        assert "--url or KBSTORE_MODEL_URL" in result.stderr
        assert len(mirror.seen) == 1
        assert names(file.parent) == []

    def test_a_server_out_of_order_is_waited_for_as_it_asks(self, mirror, file, waits) -> None:
        mirror.headers |= {"Retry-After": "7"}
        mirror.statuses = [503]
        model_file.pull(mirror.url)
        assert file.read_bytes() == MODEL
        assert waits == [7]
        mirror.statuses = [429] * 2
        with pytest.raises(ModelUnavailableError, match=r"too many requests \(HTTP 429\)"):
            model_file.pull(mirror.url, force=True)

    def test_a_compressed_answer_is_refused(self, mirror) -> None:
        mirror.headers["Content-Encoding"] = "gzip"
        with pytest.raises(ModelUnavailableError, match="does not give the file as it is"):
            model_file.pull(mirror.url)

    def test_without_a_network_it_says_so_soon(self, model, waits) -> None:
        result = model("pull", "--url", "http://127.0.0.1:1/a.gguf")
        assert result.exit_code == 1
        assert "Error: the download failed: 127.0.0.1:1 cannot be reached" in result.stderr
        assert len(waits) == 1

    def test_a_server_that_stops_sending_is_not_waited_for_for_ever(
        self, mirror, monkeypatch
    ) -> None:
        monkeypatch.setattr(network, "PATIENT", network.PATIENT._replace(read=0.05))
        go_on = threading.Event()
        mirror.on_request = lambda requests: go_on.wait(60)
        with pytest.raises(ModelUnavailableError, match="does not answer in time"):
            model_file.pull(mirror.url)
        go_on.set()

    @pytest.mark.parametrize("url", ["models/a.gguf", "ftp://a.example/a.gguf", "http://"])
    def test_an_address_that_is_none_is_refused(self, model, url) -> None:
        result = model("pull", "--url", url)
        assert result.exit_code == 2
        assert "no address" in result.stderr

    def test_a_secret_in_the_address_is_not_shown(self, model, mirror, file) -> None:
        url = mirror.url.replace("http://", "http://me:pass-word@") + "?token=to-ken"
        mirror.cuts = [2 * MB, *[0] * 6]
        result = model("pull", "--url", url)
        side = download.part_of(file).with_name(embed.MODEL_FILE + ".part.json").read_text()
        for text in (result.output, side):
            assert "pass-word" not in text
            assert "to-ken" not in text

    def test_too_little_room_is_named_before_a_byte_is_written(
        self, mirror, file, monkeypatch
    ) -> None:
        usage = shutil.disk_usage("/")
        monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage._replace(free=1000))
        with pytest.raises(ModelUnavailableError) as caught:
            model_file.pull(mirror.url)
        assert f"{file.parent} has 1,000 bytes left" in str(caught.value)
        assert f"the model needs {SIZE:,} more: make room" in str(caught.value)
        assert download.part_of(file).stat().st_size == 0

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has such a device")
    def test_a_disk_that_fills_up_meanwhile_is_named(self, mirror, file) -> None:
        file.parent.mkdir(parents=True)
        download.part_of(file).symlink_to("/dev/full")
        with pytest.raises(ModelUnavailableError, match="the disk is full"):
            model_file.pull(mirror.url)

    def test_two_at_once_do_not_get_in_each_other_s_way(self, model, mirror, file) -> None:
        results: list[Result] = []
        mirror.on_request = lambda requests: results.append(model("pull"))
        model_file.pull(mirror.url)
        (second,) = results
        assert second.exit_code == 1
        assert f"another download of {file} is running: wait for its end" in second.stderr
        assert file.read_bytes() == MODEL

    def test_the_lock_holds_between_processes_and_ends_with_them(
        self, mirror, file, database
    ) -> None:
        """The other process is killed in the middle; its part is gone on with."""
        begun, go_on = threading.Event(), threading.Event()
        mirror.cuts = [2 * MB]

        class Slow(Mirror):
            """Holds the first answer in the middle."""

            def finish(self) -> None:
                if len(self.server.seen) == 1:
                    self.wfile.flush()
                    begun.set()
                    go_on.wait(60)
                super().finish()

        mirror.RequestHandlerClass = Slow
        code = (
            "import os; from kbstore import model_file;"
            "tell = lambda done, of: print(done, flush=True);"
            "model_file.pull(os.environ['KBSTORE_MODEL_URL'], progress=tell)"
        )
        other = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        assert begun.wait(60)
        with pytest.raises(ConflictError, match="another download"):
            model_file.pull(mirror.url)
        assert other.stdout is not None
        assert any(int(line) > MB for line in other.stdout)
        other.send_signal(signal.SIGKILL)
        other.communicate()
        go_on.set()
        kept = download.part_of(file).stat().st_size
        assert kept >= MB
        mirror.seen.clear()
        mirror.RequestHandlerClass = Mirror
        model_file.pull(mirror.url)
        assert mirror.seen == [(f"bytes={kept}-", '"one"')]
        assert file.read_bytes() == MODEL

    def test_a_lock_that_its_holder_has_removed_meanwhile_is_none(self, file, monkeypatch) -> None:
        file.parent.mkdir(parents=True)
        side = file.with_name(file.name + ".part.json")
        real, calls = download._lock, []

        def lock(stream: Any) -> bool:
            calls.append(stream)
            if len(calls) == 1:
                side.unlink()
                side.touch()
            return real(stream)

        monkeypatch.setattr(download, "_lock", lock)
        with download.claim(file):
            assert len(calls) == 2
            with pytest.raises(ConflictError), download.claim(file):
                pass
        assert names(file.parent) == []

    def test_one_that_ends_while_another_begins_is_enough(self, mirror, file, monkeypatch) -> None:
        real = download.claim

        def late(target: Path) -> Any:
            put(file, MODEL)
            return real(target)

        monkeypatch.setattr(download, "claim", late)
        assert model_file.pull(mirror.url).action == "kept"
        assert mirror.seen == []
        assert names(file.parent) == [embed.MODEL_FILE]

    def test_ctrl_c_leaves_what_is_there_and_says_how_to_go_on(
        self, model, mirror, file, monkeypatch
    ) -> None:
        def interrupt(seconds: float) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(network, "_wait", interrupt)
        mirror.cuts = [2 * MB]
        result = model("pull")
        assert result.exit_code == 1
        part = download.part_of(file)
        assert result.stderr.endswith(
            f"Stopped. {part} is kept: `kbstore model pull` goes on from there\n"
        )
        assert part.stat().st_size == 2 * MB

    def test_progress_counts_from_what_was_there(self, mirror) -> None:
        break_off(mirror, 2 * MB)
        told: list[tuple[int, int | None]] = []
        model_file.pull(mirror.url, progress=lambda done, of: told.append((done, of)))
        assert 2 * MB < told[0][0] <= 3 * MB
        assert told[-1] == (SIZE, SIZE)
        assert sorted(told) == told

    def test_a_terminal_shows_the_rate_and_the_time_that_remains(self, monkeypatch, capsys) -> None:
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("COLUMNS", "100")
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        with model_command._download_bar() as progress:
            assert progress is not None
            progress(1 * MB, None)
            progress(2 * MB, 4 * MB)
        shown = capsys.readouterr().err
        assert "2.1/4.2 MB" in shown

    def test_after_the_next_embed_it_serves(self, model, mirror, run) -> None:
        run("add", "a.md", input="shellfish allergy")
        model("pull")
        assert json.loads(run("status", "--json").stdout)["available_model"] == MODEL_NAME
        run("embed")
        assert json.loads(run("status", "--json").stdout)["model"] == MODEL_NAME

    def test_a_store_that_is_open_goes_on_to_the_new_file(self, mirror, file, database) -> None:
        put(file, MODEL)
        with kbstore.Store(database) as store:
            store.put("a.md", "shellfish allergy")
            mirror.data = OTHER
            model_file.pull(mirror.url, force=True)
            assert store.search("food").model is None  # the vectors are another file's
            assert store.embed().documents == 1
            assert store.search("food").model == MODEL_NAME

    def test_with_the_server_s_mode_it_says_that_it_will_not_serve(
        self, model, mirror, monkeypatch
    ) -> None:
        monkeypatch.setenv("KBSTORE_INFERENCE_MODE", "remote")
        assert "KBSTORE_INFERENCE_MODE=remote is set" in model("pull").stderr


class TestUse:
    @pytest.mark.parametrize("name", [embed.MODEL_FILE, "some other name.gguf"])
    def test_a_file_that_is_here_is_linked_into_the_cache(
        self, model, file, tmp_path, name
    ) -> None:
        source = put(tmp_path / "models" / name, MODEL)
        given = source.parent if name == embed.MODEL_FILE else source
        result = model("use", str(given))
        assert result.exit_code == 0
        assert result.stdout == f"linked {file}: {MODEL_NAME}\n"
        assert "`kbstore embed` lets it serve" in result.stderr
        assert file.readlink() == source
        assert names(file.parent) == [embed.MODEL_FILE]
        assert embed.candidates()[0].name == MODEL_NAME
        assert model("use", str(given)).stdout.startswith("kept")

    def test_a_linked_model_embeds(self, tmp_path, database) -> None:
        model_file.use(put(tmp_path / "m.gguf", MODEL))
        with kbstore.Store(database) as store:
            assert not store.put("a.md", "shellfish allergy").pending
            assert store.search("food").model == MODEL_NAME

    def test_where_no_link_can_be_made_it_is_a_hard_link_or_a_copy(
        self, file, tmp_path, monkeypatch
    ) -> None:
        source = put(tmp_path / "m.gguf", MODEL)

        def refuse(*_: object) -> None:
            raise OSError(errno.EPERM, "not permitted")

        monkeypatch.setattr(os, "symlink", refuse)
        assert model_file.use(source).action == "linked"
        assert file.samefile(source)
        assert not file.is_symlink()
        file.unlink()
        monkeypatch.setattr(os, "link", refuse)
        assert model_file.use(source).action == "copied"
        assert not file.samefile(source)
        assert file.read_bytes() == MODEL
        assert model_file.use(source).action == "kept"  # the same bytes
        assert names(file.parent) == [embed.MODEL_FILE]

    def test_another_whole_model_is_not_overwritten(self, model, file, tmp_path) -> None:
        source = put(tmp_path / "m.gguf", MODEL)
        put(file, OTHER)
        result = model("use", str(source))
        assert result.exit_code == 1
        assert f"{file} is another model ({MODEL_NAME})" in result.stderr
        assert "--force" in result.stderr
        assert file.read_bytes() == OTHER
        assert model("use", str(source), "--force").exit_code == 0
        assert file.read_bytes() == MODEL
        assert source.read_bytes() == MODEL

    @pytest.mark.parametrize("data", [b"broken", None])
    def test_a_broken_file_or_a_link_to_nowhere_is_replaced(self, file, tmp_path, data) -> None:
        put(file, data or b"")
        if data is None:
            file.unlink()
            file.symlink_to(tmp_path / "gone")
        model_file.use(put(tmp_path / "m.gguf", MODEL))
        assert file.read_bytes() == MODEL

    def test_a_link_follows_to_the_same_model_elsewhere(self, file, tmp_path) -> None:
        model_file.use(put(tmp_path / "old.gguf", MODEL))
        new = put(tmp_path / "new.gguf", MODEL)
        assert model_file.use(new).action == "linked"
        assert file.readlink() == new

    def test_the_cache_itself_is_kept(self, file) -> None:
        put(file, MODEL)
        assert model_file.use(file.parent).action == "kept"
        assert file.read_bytes() == MODEL
        assert not file.is_symlink()

    @pytest.mark.parametrize(
        ("data", "words"),
        [
            (MODEL[:-1], "no whole GGUF file (6,051,519 bytes)"),
            (b"notes", "no whole GGUF file (5 bytes)"),
            (MODEL.replace(b"nomic-bert", b"other-bert"), "a model of the kind other-bert"),
        ],
        ids=["cut short", "a note", "another kind"],
    )
    def test_what_is_no_such_model_is_refused(self, model, file, tmp_path, data, words) -> None:
        source = put(tmp_path / "m.gguf", data)
        with pytest.raises(InputError) as caught:
            model_file.use(source)
        assert f"{source} is {words}" in str(caught.value)
        assert not file.exists()
        assert model("use", str(source)).exit_code == 2

    def test_a_model_of_another_width_is_refused(self, tmp_path) -> None:
        width = b"nomic-bert.embedding_length" + (4).to_bytes(4, "little")
        narrow = (512).to_bytes(4, "little")
        at = MODEL.index(width) + len(width)
        with pytest.raises(InputError, match=r"bert with 512 dimensions, not .* with 768"):
            model_file.use(put(tmp_path / "m.gguf", MODEL[:at] + narrow + MODEL[at + 4 :]))

    def test_what_is_not_there_is_named_with_what_is(self, model, tmp_path) -> None:
        with pytest.raises(NotFoundError, match=r"there is no file .*nomic-embed-text-v1\.5"):
            model_file.use(tmp_path)
        put(tmp_path / "other.gguf", MODEL)
        with pytest.raises(NotFoundError, match=r"name one of its files, such as .*other\.gguf"):
            model_file.use(tmp_path)
        assert model("use", str(tmp_path / "gone")).exit_code == 3

    def test_a_folder_that_is_named_by_hand_comes_first_and_that_is_said(
        self, model, file, tmp_path, monkeypatch
    ) -> None:
        monkeypatch.setenv("KBSTORE_MODEL_DIR", str(tmp_path / "chosen"))
        result = model("use", str(put(tmp_path / "m.gguf", MODEL)))
        assert file.is_symlink()
        assert "KBSTORE_MODEL_DIR is set and comes first" in result.stderr
        assert str(tmp_path / "chosen" / embed.MODEL_FILE) in result.stderr
