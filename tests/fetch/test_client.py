"""Bodies, headers, certificates and time: what a server sends is bounded, whatever it sends."""

import asyncio
import gzip
import shutil
import socket
import ssl
import subprocess
import tracemalloc
import zlib
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.fetch.site import Names, Site, answer, counts_as_public, get, opened_site, text_of

from finclaw.errors import ToolDenied, ToolError, ToolTimeout
from finclaw.fetch.client import HttpFetcher
from finclaw.fetch.gate import AddressGate
from finclaw.kernel.fetch import FetchLimits, FetchRules
from finclaw.testing import FakeClock

SMALL = FetchLimits(body=10_000)
TEXT = "주가 " * 1_000


# ── size ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("DX-52")
async def test_a_long_page_is_cut_where_the_limit_is(site: Site) -> None:
    site.gives("/under", b"x" * 10_000)
    site.gives("/over", b"x" * 10_001)
    fetcher = site.fetcher()
    under, over = [await fetcher.fetch(get(site.url(path), limits=SMALL)) for path in ("/under", "/over")]
    assert (len(under.body), under.truncated) == (10_000, False)
    assert (len(over.body), over.truncated) == (10_000, True)


@pytest.mark.spec("DX-52")
async def test_a_body_without_end_ends_at_the_limit(site: Site) -> None:
    sent = 0

    async def endless(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        while True:
            writer.write(b"x" * 65_536)
            sent += 65_536
            await writer.drain()

    site.pages["/"] = endless
    page = await site.fetcher().fetch(get(site.url(), limits=FetchLimits(body=1_000_000)))
    assert (len(page.body), page.truncated) == (1_000_000, True)
    assert sent < 30_000_000  # what fits into the pipes between us, and no more


def bare_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [("gzip", gzip.compress), ("x-gzip", gzip.compress), ("deflate", zlib.compress), ("Deflate", bare_deflate)],
)
async def test_packed_pages_are_unpacked(site: Site, encoding: str, pack: Callable[[bytes], bytes]) -> None:
    site.gives("/", pack(TEXT.encode()), content_encoding=encoding)
    assert text_of(await site.fetcher().fetch(get(site.url()))) == TEXT


@pytest.mark.spec("DX-52")
async def test_a_bomb_never_unfolds(site: Site) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    block = bytes(1_000_000).replace(b"\0", b"a")
    bomb = b"".join(packer.compress(block) for _ in range(100)) + packer.flush()
    assert len(bomb) < 200_000
    site.gives("/", bomb, content_encoding="gzip")
    tracemalloc.start()
    try:
        page = await site.fetcher().fetch(get(site.url()))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (len(page.body), page.truncated) == (5_000_000, True)
    assert peak < 40_000_000


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("br", b"\x0b\x02\x80hello\x03"),
        ("zstd", b"whatever"),
        ("gzip, gzip", gzip.compress(gzip.compress(b"hello", mtime=0), mtime=0)),
        ("gzip", b"not packed at all"),
        ("gzip", gzip.compress(TEXT.encode(), mtime=0)[:-20]),
        ("deflate", b"\x78\x9c\xff\xff"),
    ],
)
async def test_what_cannot_be_unpacked_is_said(site: Site, encoding: str, body: bytes) -> None:
    site.gives("/", body, content_encoding=encoding)
    with pytest.raises(ToolError, match="look for another source"):
        await site.fetcher().fetch(get(site.url()))


@pytest.mark.spec("DX-52")
@pytest.mark.parametrize(
    "head",
    [
        b"X: " + b"y" * 100_000,
        b"\r\n".join(b"X-%d: y" % number for number in range(10_000)),
        b"Location: " + b"/" * 100_000,
        b"no header at all",
        b"Content-Length: 5\r\nContent-Length: 500",
        b"Content-Length: -1",
        b"Transfer-Encoding: chunked\r\n\r\nzzz",
    ],
)
async def test_heads_that_are_too_big_or_broken_are_errors_and_no_more(site: Site, head: bytes) -> None:
    site.pages["/"] = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n" + head + b"\r\n\r\nhello"
    with pytest.raises(ToolError, match="no answer that can be read"):
        await site.fetcher().fetch(get(site.url()))


@pytest.mark.parametrize("raw", [b"", b"hello", b"\x00" * 100, b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort"])
async def test_what_is_no_answer_is_said(site: Site, raw: bytes) -> None:
    site.pages["/"] = raw
    with pytest.raises(ToolError):
        await site.fetcher().fetch(get(site.url()))


# ── time ────────────────────────────────────────────────────────────────────────────────────────────────────


async def drip(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(1)


async def silence(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(1_000)


@pytest.mark.spec("DX-52")
@pytest.mark.parametrize("slow", [drip, silence])
def test_a_slow_page_costs_twenty_seconds_and_no_more(slow: Callable[[asyncio.StreamWriter], Awaitable[None]]) -> None:
    clock = FakeClock()

    async def main() -> float:
        async with opened_site() as site:
            site.pages["/"] = slow
            began = clock.monotonic()
            with pytest.raises(ToolTimeout, match="took too long"):
                await site.fetcher().fetch(get(site.url()))
            return clock.monotonic() - began

    assert clock.run(main()) == pytest.approx(20, abs=1)


def test_slow_redirects_share_one_patience() -> None:
    clock = FakeClock()

    async def main() -> float:
        async with opened_site() as site:
            for step in range(6):
                to = answer(b"", status="302 Found", location=f"/{step + 1}")

                async def later(writer: asyncio.StreamWriter, to: bytes = to) -> None:
                    await asyncio.sleep(8)
                    writer.write(to)

                site.pages[f"/{step}"] = later
            began = clock.monotonic()
            with pytest.raises(ToolTimeout):
                await site.fetcher().fetch(get(site.url("/0")))
            return clock.monotonic() - began

    assert clock.run(main()) == pytest.approx(20, abs=1)


def test_a_resolver_that_hangs_is_left() -> None:
    clock = FakeClock()

    async def hang(name: str, port: int) -> list[str]:
        await asyncio.sleep(1_000)
        return []

    async def main() -> None:
        with pytest.raises(ToolTimeout):
            await HttpFetcher(AddressGate(resolve=hang)).fetch(get("https://www.example.com/"))

    clock.run(main())
    assert clock.monotonic() == pytest.approx(20, abs=1)


async def test_a_caller_who_leaves_takes_the_connection_along(site: Site) -> None:
    gone = asyncio.Event()

    async def watch(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nhello")
        await writer.drain()
        begun.set()
        try:
            while True:
                writer.write(b"x" * 1_000)
                await writer.drain()
                await asyncio.sleep(0.01)
        except OSError:
            gone.set()

    begun = asyncio.Event()
    site.pages["/"] = watch
    task = asyncio.create_task(site.fetcher().fetch(get(site.url())))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(gone.wait(), 60)


async def test_nobody_there_is_said() -> None:
    with socket.socket() as taken:  # and not listened to: nobody else gets the port meanwhile
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        gate = AddressGate(FetchRules(ports=(port,)), resolve=Names(), public=counts_as_public)
        with pytest.raises(ToolError, match="could not be reached"):
            await HttpFetcher(gate).fetch(get(f"http://www.example.com:{port}/"))


# ── kinds ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("DX-52")
@pytest.mark.parametrize(
    "kind", ["image/png", "application/pdf", "application/octet-stream", "image/svg+xml", "video/mp4"]
)
async def test_a_body_of_another_kind_is_not_read(site: Site, kind: str) -> None:
    site.gives("/", b"x", content_type=kind)
    with pytest.raises(ToolError, match="cannot be read here"):
        await site.fetcher().fetch(get(site.url()))


@pytest.mark.parametrize("kind", ["text/html", "TEXT/Plain; charset=x", "application/rss+xml", "application/json", ""])
async def test_a_body_that_only_says_it_is_text_is_refused(site: Site, kind: str) -> None:
    site.gives("/", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(50), content_type=kind)
    with pytest.raises(ToolError, match="no text"):
        await site.fetcher().fetch(get(site.url()))


async def test_whoever_wants_images_says_so_and_gets_their_bytes(site: Site) -> None:
    site.gives("/", b"\x89PNG\0", content_type="image/png")
    page = await site.fetcher().fetch(get(site.url(), accept=("image/*",)))
    assert (page.media_type, page.body) == ("image/png", b"\x89PNG\0")


@pytest.mark.parametrize(("body", "kind"), [("  <p>x", "text/html"), ("{}", "text/plain")])
async def test_a_page_without_a_kind_is_looked_at(site: Site, body: str, kind: str) -> None:
    site.gives("/", body, content_type="")
    assert (await site.fetcher().fetch(get(site.url()))).media_type == kind


# ── certificates ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl makes this test's certificate, and it is not here")
    place = tmp_path_factory.mktemp("tls")
    key, made = place / "key.pem", place / "certificate.pem"
    words = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    words += ["-subj", "/CN=shop.example.com", "-addext", "subjectAltName=DNS:shop.example.com"]
    subprocess.run([openssl, *words, "-keyout", str(key), "-out", str(made)], check=True, capture_output=True)
    return key, made


async def test_a_certificate_is_for_the_name_and_https_never_becomes_http(certificate: tuple[Path, Path]) -> None:
    key, made = certificate
    asked: list[str | None] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made, key)
    context.sni_callback = lambda _, name, __: asked.append(name)
    async with opened_site(context) as site:
        gate = AddressGate(FetchRules(ports=(80, site.port)), resolve=Names(), public=counts_as_public)
        trusting = HttpFetcher(gate, tls=ssl.create_default_context(cafile=str(made)))
        site.gives("/", "hello")
        site.redirects("/down", "http://shop.example.com/")
        base = f"https://shop.example.com:{site.port}"
        assert text_of(await trusting.fetch(get(f"{base}/"))) == "hello"
        assert asked == ["shop.example.com"]
        with pytest.raises(ToolDenied, match="from https to http"):
            await trusting.fetch(get(f"{base}/down"))
        for fetcher, url in ((HttpFetcher(gate), base), (trusting, f"https://other.example.com:{site.port}")):
            with pytest.raises(ToolError, match="certificate"):
                await fetcher.fetch(get(url))
        assert len(site.requests) == 2
