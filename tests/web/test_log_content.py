"""Security trial L1: no request, however broken, puts the token into the gateway's log."""

import asyncio

import pytest
from tests.web.conftest import TOKEN, Client

BROKEN = [
    f"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer\r\n {TOKEN}\r\n\r\n",
    f"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer\r\n\t{TOKEN}\r\n\r\n",
    f"GET / HTTP/1.1\r\nHost: x\r\nAuthorization Bearer {TOKEN}\r\n\r\n",
    f"GET / HTTP/1.1\r\nHost: x\r\nAuthorization : Bearer {TOKEN}\r\n\r\n",
    f"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\0\r\n\r\n",
    f"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer\n{TOKEN}: x\r\n\r\n",
    f"GET / HTTP/1.1\r\nHost: x\r\nX: {TOKEN * 300}\r\n\r\n",
    f"GET /?token={TOKEN * 300} HTTP/1.1\r\nHost: x\r\n\r\n",
    f"GET /{TOKEN} HTTP/9.9\r\nHost: x\r\n\r\n",
    f"{TOKEN}\r\n\r\n",
    f"G@T /{TOKEN} HTTP/1.1\r\n\r\n",
    f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {TOKEN}\r\n\r\n",
    f"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: {TOKEN}\r\n\r\n",
    f"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{TOKEN}\r\n",
    f"GET / HTTP/1.1\r\nHost: {TOKEN}\r\nHost: x\r\n\r\n",
]


@pytest.mark.parametrize("request_text", BROKEN)
async def test_a_broken_request_leaves_no_token_in_the_log(
    client: Client, request_text: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    port = int(client.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request_text.encode("latin-1"))
    writer.write_eof()
    async with asyncio.timeout(60):
        await reader.read()
    writer.close()
    assert TOKEN not in caplog.text
