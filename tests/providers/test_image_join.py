"""Images that are joined when a request is written, and are kept in nothing that outlives it."""

import json
from base64 import b64encode
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web
from tests.ports.pictures import png
from tests.providers.anthropic_streams import HELLO
from tests.providers.model_server import serving

from finclaw.errors import StoreFailed
from finclaw.kernel.chunk import Features, Model, ModelRequest
from finclaw.kernel.message import Block, Image, Message, Source, Text
from finclaw.providers.anthropic.message import render_image as render_anthropic
from finclaw.providers.anthropic.provider import AnthropicProvider
from finclaw.providers.anthropic.request import AnthropicRequestWriter
from finclaw.providers.http import image_join
from finclaw.providers.http.image_join import Render, join_images
from finclaw.providers.openai.provider import OpenAIProvider
from finclaw.providers.openai.request import OpenAIRequestWriter
from finclaw.providers.openai.request import render_image as render_openai
from finclaw.redaction import Secret

CONTENT = png(salt="the content")
NAME, OTHER = "a" * 64, "b" * 64
AT = datetime(2026, 1, 1, tzinfo=UTC)
LARGE = 10_000_000

Writer = AnthropicRequestWriter | OpenAIRequestWriter
WRITERS: dict[str, Callable[[], tuple[Writer, Render]]] = {
    "anthropic": lambda: (AnthropicRequestWriter(1_000_000), render_anthropic),
    "openai": lambda: (OpenAIRequestWriter(1_000_000, "max_tokens"), render_openai),
}


def shows(name: str = NAME, *words: str, id: str = "1", media_type: str = "image/png") -> Message:
    blocks: tuple[Block, ...] = (*map(Text, words), Image(media_type, blob=name))
    return Message(id, "user", blocks, Source("user"), AT)


def asks(*messages: Message, sees: bool = True) -> ModelRequest:
    return ModelRequest(
        model=Model("x", "y", features=Features(images=sees)), system="Be brief.", messages=tuple(messages)
    )


def read(name: str) -> bytes | None:
    return CONTENT if name in (NAME, OTHER) else None


def content(body: bytes) -> Sequence[dict[str, Any]]:
    """The blocks of the last message."""
    return json.loads(body)["messages"][-1]["content"]


def image_in(block: dict[str, Any]) -> str:
    """Its content in base64, as either API has it."""
    if block["type"] == "image":
        assert block["source"]["media_type"] == "image/png"
        return block["source"]["data"]
    head, _, data = block["image_url"]["url"].partition(",")
    assert head == "data:image/png;base64"
    return data


@pytest.mark.parametrize("kind", WRITERS)
def test_the_content_is_in_the_request_and_in_no_cache(kind: str) -> None:
    writer, render = WRITERS[kind]()
    for _ in range(3):  # the second is made of what was kept of the first
        parts = writer.parts(asks(shows(NAME, "look")))
        encoded = b64encode(CONTENT)
        assert encoded not in b"".join(parts)
        words, picture = content(b"".join(join_images(parts, read, render, LARGE)))
        assert words["text"] == "look"
        assert image_in(picture) == encoded.decode()


@pytest.mark.parametrize("kind", WRITERS)
def test_a_request_without_images_is_the_very_same_parts(kind: str) -> None:
    writer, render = WRITERS[kind]()
    parts = writer.parts(asks(Message("1", "user", (Text("NUL: \0, and a brace: }"),), Source("user"), AT)))
    assert join_images(parts, read, render, LARGE) is parts


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("reader", [None, read], ids=["no state", "no file"])
@pytest.mark.parametrize("name", ["c" * 64, "../token", "\0", 'a "b" c'])
def test_a_picture_that_is_gone_is_told_in_words(kind: str, reader: Any, name: str) -> None:
    writer, render = WRITERS[kind]()
    (told,) = content(b"".join(join_images(writer.parts(asks(shows(name))), reader, render, LARGE)))
    assert (told["type"], told["text"]) == ("text", image_join.MISSING.decode())


@pytest.mark.parametrize("kind", WRITERS)
def test_a_disk_that_fails_costs_the_picture_and_not_the_answer(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    def fails(_: str) -> bytes | None:
        raise StoreFailed("the disk under it refused")

    writer, render = WRITERS[kind]()
    (told,) = content(b"".join(join_images(writer.parts(asks(shows())), fails, render, LARGE)))
    assert told["type"] == "text"
    assert "the disk under it refused" in caplog.text


@pytest.mark.parametrize("kind", WRITERS)
def test_a_picture_larger_than_the_api_takes_is_left_out(kind: str) -> None:
    writer, render = WRITERS[kind]()
    (told,) = content(b"".join(join_images(writer.parts(asks(shows())), read, render, 50)))
    assert told["text"] == image_join.TOO_LARGE.decode()


@pytest.mark.parametrize("kind", WRITERS)
def test_the_last_pictures_of_too_many_are_sent(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_join, "MOST_JOINED", len(b64encode(CONTENT)))
    writer, render = WRITERS[kind]()
    talk = [shows(NAME, id="1"), Message("2", "assistant", (Text("nice"),), Source("assistant"), AT), shows(id="3")]
    body = b"".join(join_images(writer.parts(asks(*talk)), read, render, LARGE))
    first, _, last = (each["content"] for each in json.loads(body)["messages"][-3:])
    assert first[0]["text"] == image_join.EARLIER.decode()
    assert image_in(last[0])


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("media_type", ["image/tiff", 'image/"png', "x\0y"])
def test_a_type_that_no_model_sees_is_told_in_words(kind: str, media_type: str) -> None:
    writer, render = WRITERS[kind]()
    body = b"".join(join_images(writer.parts(asks(shows(media_type=media_type))), read, render, LARGE))
    assert "cannot be shown" in str(json.loads(body)["messages"][-1]["content"])


@pytest.mark.parametrize("kind", WRITERS)
def test_a_model_that_sees_nothing_gets_no_picture(kind: str) -> None:
    writer, render = WRITERS[kind]()
    parts = writer.parts(asks(shows(), sees=False))
    assert join_images(parts, read, render, LARGE) is parts
    assert "cannot see images" in b"".join(parts).decode()


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
async def test_a_server_gets_the_picture(kind: str) -> None:
    bodies: list[bytes] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        bodies.append(await request.read())
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        ends = [b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n', b"data: [DONE]\n\n"]
        for piece in HELLO if kind == "anthropic" else ends:
            await response.write(piece)
        return response

    make = AnthropicProvider if kind == "anthropic" else OpenAIProvider
    async with serving(answer) as url:
        provider = make(url, Secret("key"), read_blob=read)
        try:
            async for _ in provider.stream(asks(shows(NAME, "look"))):
                pass
        finally:
            await provider.close()
    assert image_in(content(bodies[0])[1]) == b64encode(CONTENT).decode()
