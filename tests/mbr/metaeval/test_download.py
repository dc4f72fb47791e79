"""Fetching the official data, from a real server on this machine."""

from __future__ import annotations

import hashlib
import http.server
import io
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from candidates.common.errors import MbrError, UsageError
from mbr.metaeval import download
from mbr.metaeval.download import DownloadError, fetch_test_set
from tests.mbr.metaeval.made import write_set

pytestmark = pytest.mark.one_world


class Server(http.server.ThreadingHTTPServer):
    """Serves one file under /data.tgz; `cut` closes the connection after so many bytes of an answer, once each."""

    content = b""
    etag = '"one"'
    ranges = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.cut: list[int] = []
        self.asked: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/data.tgz"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.asked.append(wanted)
        if self.path != "/data.tgz":
            self.send_error(404)
            return
        content, begin = self.server.content, 0
        same = self.headers.get("If-Range") == self.server.etag
        if wanted and same and self.server.ranges:
            begin = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if begin >= len(content):
                self.send_error(416)
                return
        self.send_response(206 if begin else 200)
        self.send_header("Content-Length", str(len(content) - begin))
        self.send_header("ETag", self.server.etag)
        self.end_headers()
        part = content[begin:]
        if self.server.cut:
            part = part[: self.server.cut.pop(0)]
        self.wfile.write(part)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv(download.URL_VARIABLE, raising=False)
    monkeypatch.delenv(download.CHECKSUM_VARIABLE, raising=False)
    root = write_set(tmp_path / "made", "wmt24")
    write_set(root, "wmt25")
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        archive.add(root, "mt-metrics-eval-v2")
        for name, kind in (
            ("mt-metrics-eval-v2/wmt24/link", tarfile.SYMTYPE),
            ("wmt24/../../outside", tarfile.REGTYPE),
        ):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, "/etc/passwd"
            archive.addfile(entry)
    made = Server()
    made.content = stream.getvalue()
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()


def checksum(server: Server) -> str:
    return hashlib.sha256(server.content).hexdigest()


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_test_set_is_fetched_checked_and_unpacked(tmp_path: Path, server: Server) -> None:
    data = tmp_path / "data"
    folder = fetch_test_set("wmt24", data, url=server.url, checksum=checksum(server))
    assert folder == data / "wmt24"
    assert files(folder) == files(tmp_path / "made" / "wmt24")  # neither the link nor what leads outside
    assert not (tmp_path / "outside").exists()
    assert sorted(path.name for path in data.iterdir()) == ["data.tgz", "wmt24"]
    fetch_test_set("wmt25", data, url=server.url, checksum=checksum(server))
    assert len(server.asked) == 1  # the archive was there
    notes: list[str] = []
    fetch_test_set("wmt24", data, url=server.url, checksum=checksum(server), report=notes.append)
    assert notes == [f"{folder} is there already"]
    with pytest.raises(DownloadError, match="no test set 'wmt77'; found wmt24, wmt25"):
        fetch_test_set("wmt77", data, url=server.url, checksum=checksum(server))


def test_an_interrupted_download_goes_on_where_it_stopped(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "ATTEMPTS", 1)
    server.cut = [300]
    with pytest.raises(DownloadError, match="interrupted after 300 bytes .*; run the same command again"):
        fetch_test_set("wmt24", tmp_path / "data", url=server.url, checksum=checksum(server))
    assert (tmp_path / "data" / "data.tgz.partial").stat().st_size == 300
    notes: list[str] = []
    fetch_test_set("wmt24", tmp_path / "data", url=server.url, checksum=checksum(server), report=notes.append)
    assert server.asked == [None, "bytes=300-"]
    assert notes == ["going on after 300 bytes"]
    assert not list((tmp_path / "data").glob("*.partial*"))


def test_a_connection_that_breaks_is_tried_again_at_once(tmp_path: Path, server: Server) -> None:
    server.cut = [300, 200]
    fetch_test_set("wmt24", tmp_path / "data", url=server.url, checksum=checksum(server))
    assert server.asked == [None, "bytes=300-", "bytes=500-"]


@pytest.mark.parametrize("change", ["etag", "ranges"])
def test_another_file_or_a_server_without_ranges_begins_anew(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    monkeypatch.setattr(download, "ATTEMPTS", 1)
    server.cut = [300]
    with pytest.raises(DownloadError, match="interrupted"):
        fetch_test_set("wmt24", tmp_path / "data", url=server.url, checksum=checksum(server))
    if change == "etag":
        server.etag = '"two"'
    else:
        server.ranges = False
    fetch_test_set("wmt24", tmp_path / "data", url=server.url, checksum=checksum(server))
    assert (tmp_path / "data" / "data.tgz").read_bytes() == server.content


def test_a_part_that_is_longer_than_the_file_is_dropped(tmp_path: Path, server: Server) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "data.tgz.partial").write_bytes(b"x" * (len(server.content) + 1))
    (data / "data.tgz.partial.json").write_text('{"validator": "\\"one\\""}')
    fetch_test_set("wmt24", data, url=server.url, checksum=checksum(server))
    assert (data / "data.tgz").read_bytes() == server.content


def test_a_wrong_checksum_is_refused_and_the_file_not_used(tmp_path: Path, server: Server) -> None:
    with pytest.raises(DownloadError, match=f"the SHA-256 is {checksum(server)}, expected {'0' * 64}; the file is"):
        fetch_test_set("wmt24", tmp_path / "data", url=server.url, checksum="0" * 64)
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["data.tgz.refused"]


def test_what_the_server_or_the_network_refuses(tmp_path: Path, server: Server) -> None:
    with pytest.raises(DownloadError, match=r"answers 404 Not Found; .* name its address with --url"):
        fetch_test_set("wmt24", tmp_path / "a", url=server.url + ".old", checksum="none")
    server.shutdown()
    server.server_close()
    with pytest.raises(DownloadError, match=r"cannot be reached \(.*refused.*\); check the network"):
        fetch_test_set("wmt24", tmp_path / "b", url=server.url, checksum="none")
    with pytest.raises(UsageError, match="expected an address that begins with http"):
        fetch_test_set("wmt24", tmp_path / "c", url="ftp://host/data.tgz", checksum="none")


def test_broken_archives_and_names(tmp_path: Path, server: Server) -> None:
    server.content = b"no archive at all"
    with pytest.raises(DownloadError, match="no readable archive"):
        fetch_test_set("wmt24", tmp_path / "data", url=server.url, checksum="none")
    assert not (tmp_path / "data" / "wmt24").exists()
    for name in ("../wmt24", "", ".."):
        with pytest.raises(UsageError, match="expected the name of a test set"):
            fetch_test_set(name, tmp_path / "data", url=server.url, checksum="none")
    (tmp_path / "data" / "wmt23").mkdir()
    with pytest.raises(MbrError, match="exists and is no test set"):
        fetch_test_set("wmt23", tmp_path / "data", url=server.url, checksum="none")


def test_the_command(
    tmp_path: Path, server: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from mbr.cli.metaeval.command import command

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(download.URL_VARIABLE, server.url)
    assert command(["--download", "wmt24", "--data", "data", "--checksum", "none"]) == 0
    output = capsys.readouterr()
    assert output.out == "data/wmt24\n"
    assert f"has the SHA-256 {checksum(server)}; keep it for --checksum" in output.err
    with pytest.raises(UsageError, match="no checksum of the archive was given"):
        command(["--download", "wmt25", "--data", "data"])
    with pytest.raises(UsageError, match="expected the 64 hexadecimal digits"):
        command(["--download", "wmt25", "--data", "data", "--checksum", "abc"])
    with pytest.raises(UsageError, match="--lp does not go with --download"):
        command(["--download", "wmt25", "--lp", "en-de"])
