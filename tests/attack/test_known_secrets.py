"""Security trial H13: a secret of no known shape, given in the settings, comes out nowhere, whoever repeats it."""

import base64
import io
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec
import pytest
from tests.attack.canary import kept, told
from tests.attack.desk import Nothing
from tests.builtins.mcp.bench import Bench, rogue
from tests.cli.in_process import typed
from tests.walks.house import Gateway, House, in_virtual_time

from finclaw.builtins.mcp.settings import ServerSettings, environment
from finclaw.config.load import SecretKeeper, load_settings
from finclaw.errors import AuthFailed, BadRequest, ProviderError, RateLimited, ToolError
from finclaw.kernel.event import PreviewUpdated
from finclaw.kernel.message import ToolResult
from finclaw.kernel.scope import DeliveryContext, StepContext, StepResult, ToolCallContext, TurnContext, TurnResult
from finclaw.providers.http.failure import status_error
from finclaw.redaction import Secret
from finclaw.testing import call, fails, reply, say
from finclaw.tools.define import tool
from finclaw.web.respond import json_response
from finclaw.web.token import TokenOnDisk, obtain_token

SECRET: Final = "plumtree zanzibar/9"
FORMS: Final = {
    "plain": SECRET,
    "in an address": f"https://host/?k={quote(SECRET, safe='')}",
    "in a header": f"Basic {base64.b64encode(f'user:{SECRET}'.encode()).decode()}",
    "in JSON": json.dumps({"k": SECRET}),
    "in hexadecimal": SECRET.encode().hex(),
    "with hidden characters": "\u200b".join(SECRET),
    "at the end of a long text": "x" * 9_990 + SECRET,
}
ALL: Final = " | ".join(FORMS.values())


def hits(text: str) -> list[str]:
    """Halves too: what is cut is cut behind the hiding."""
    searched = text.replace("\u200b", "")
    parts = (SECRET, SECRET[:10], "zanzibar", quote(SECRET, safe=""), SECRET.encode().hex(), "emFuemliYX", "FuemliYXI")
    return [each for each in parts if each in searched]


@pytest.fixture(autouse=True)
def given() -> None:
    SecretKeeper({"KEY": SECRET}, Path()).fetch("providers.x.key", "env:KEY")


async def must_be_clean(gateway: Gateway, lines: io.StringIO) -> None:
    assert gateway.said, "nobody was told anything"
    for place, text in (*await told(gateway, lines), *await kept(gateway, arguments=True)):
        if place != "an event":  # among them is the model's raw stream, which is shown to nobody
            assert hits(text) == [], f"{hits(text)} in {place}"
    shown = [event for event in gateway.events if event.name != "stream:text_delta"]
    assert hits("\n".join(map(repr, shown))) == []


def repeats(request: Any) -> Any:
    results = [result for message in request.messages for result in message.tool_results]
    return f"It says. {results[-1].content} That is all.\nReally." if results else reply(call("leak__all"))


def _fails(text: str) -> str:
    raise ToolError(f"not with {text}", suggestion=text)


def _breaks(text: str) -> str:
    raise RuntimeError(text)


HOW: Final[dict[str, Callable[[str], str]]] = {"gives": str, "fails": _fails, "breaks": _breaks}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("form", FORMS)
@in_virtual_time
async def test_what_a_tool_gives_or_fails_with(house: House, lines: io.StringIO, how: str, form: str) -> None:
    @tool("leak__all", "Leaks.", group="web")
    async def leak(args: Nothing) -> str:
        return HOW[how](FORMS[form])

    async with house.open(repeats, tools=[leak]) as gateway:
        await gateway.ask("go")
        await must_be_clean(gateway, lines)


async def tool_layer(ctx: ToolCallContext) -> ToolResult:
    raise RuntimeError(ALL)


async def step_layer(ctx: StepContext) -> StepResult:
    raise RuntimeError(ALL)


async def turn_layer(ctx: TurnContext) -> TurnResult:
    logging.getLogger("finclaw.extension.test").warning("with %s", ALL, extra={"where": ALL, "deep": {"a": [ALL]}})
    raise RuntimeError(ALL)


async def delivery_layer(ctx: DeliveryContext) -> Any:
    ctx.outbound = msgspec.structs.replace(ctx.outbound, text=ALL)
    return await ctx.next()


LAYERS: Final[dict[str, Any]] = {
    "tool_call": tool_layer,
    "step": step_layer,
    "turn": turn_layer,
    "delivery": delivery_layer,
}


@pytest.mark.parametrize("where", LAYERS)
@in_virtual_time
async def test_what_a_layer_fails_with_or_says(house: House, lines: io.StringIO, where: Any) -> None:
    async with house.open("Hello.", layers=[(where, LAYERS[where])]) as gateway:
        await gateway.ask("go")
        await must_be_clean(gateway, lines)


@pytest.mark.parametrize("kind", [BadRequest, AuthFailed, RateLimited, ProviderError])
@in_virtual_time
async def test_what_a_provider_complains_about(house: House, lines: io.StringIO, kind: type[ProviderError]) -> None:
    async with house.open(*[fails(kind(f"incorrect key provided: {ALL}"))] * 30) as gateway:
        await gateway.ask("go")
        await must_be_clean(gateway, lines)


@pytest.mark.parametrize("status", [400, 401, 403, 429, 500])
@pytest.mark.parametrize("before", [0, 80, 90, 490, 495])
@pytest.mark.parametrize(
    "body", ['{{"error": {{"message": "{0}", "type": "x"}}}}', "{0}", "<title>{0}</title>", '{{"detail": "{0}"}}']
)
def test_a_complaint_that_is_cut_inside_the_key_shows_no_half_of_it(status: int, before: int, body: str) -> None:
    error = status_error("x", status, None, body.format("w" * before + SECRET).encode(), {})
    assert hits(str(error)) == []


@in_virtual_time
async def test_a_model_that_says_it_in_pieces(house: House, lines: io.StringIO) -> None:
    """Also in what is shown while the answer is being written."""
    text = f"Your key. It is {SECRET}. Keep it.\nOr {FORMS['in a header']} instead.\nBye."
    async with house.open(reply(say(text, chunks=len(text)))) as gateway:
        await gateway.ask("go")
        previews = [event.text for event in gateway.events if isinstance(event, PreviewUpdated)]
        assert hits("".join(previews)) == []
        await must_be_clean(gateway, lines)


@pytest.mark.parametrize(
    "value", ["correct horse. battery staple", "first line of it\nsecond line of it", "whatever? nonetheless! so"]
)
@in_virtual_time
async def test_a_secret_of_several_sentences_is_not_shown_sentence_by_sentence(house: House, value: str) -> None:
    Secret(value)
    text = f"The key is:\n{value}\nKeep it."
    async with house.open(reply(say(text, chunks=len(text)))) as gateway:
        await gateway.ask("go")
        previews = "".join(event.text for event in gateway.events if isinstance(event, PreviewUpdated))
        assert not any(part in previews for part in ("horse", "staple", "first", "second", "whatever", "nonetheless"))
        assert value not in "\n".join(gateway.said)


async def test_what_is_given_to_an_mcp_program_is_a_secret(bench: Bench, lines: io.StringIO) -> None:
    server = ServerSettings(command=("x",), env={"A": "env:MINE", "NOTES_TOKEN": "literal-token", "TZ": "Asia/Seoul"})
    environment(server, {"MINE": "some-value-of-mine"})
    logging.getLogger("finclaw.test").warning("some-value-of-mine and literal-token in Asia/Seoul")
    assert "some-value" not in lines.getvalue()
    assert "literal-token" not in lines.getvalue()
    assert "Asia/Seoul" in lines.getvalue()
    async with bench.open(servers={"desk": rogue("environment", env={"API_KEY": "plum-tree-literal"})}):
        await bench.has("desk__act")
        assert "plum-tree-literal" in await bench.run("desk__act"), "the guard behind it hides it"


def test_the_gateways_token_is_hidden_and_so_is_the_one_that_replaces_it(tmp_path: Path) -> None:
    first, _ = obtain_token(tmp_path)
    current = TokenOnDisk(tmp_path)
    assert current.reveal() == first.reveal()
    (tmp_path / "token").unlink()
    second, _ = obtain_token(tmp_path)
    body = json_response({"a": f"{first.reveal()} {second.reveal()}"}).body
    assert isinstance(body, bytes)
    assert json.loads(body) == {"a": "[secret] [secret]"}


def test_an_export_and_a_trace_of_what_was_kept_before_hide_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The arguments that a model made are kept to the letter; where the settings name the secret, they are hidden."""

    async def work() -> None:
        async with house.open(reply(call("act__now", {"text": SECRET})), "Done.", tools=[act]) as gateway:
            await gateway.ask(f"use {SECRET}")

    @tool("act__now", "Acts.", group="web")
    async def act(text: str) -> str:
        return "done"

    house = House(tmp_path)
    house.clock.run(work())
    settings = "providers:\n  mine:\n    kind: openai\n    base_url: http://127.0.0.1:9/v1\n    key: env:MY_OWN_KEY\n"
    (house.state / "finclaw.yaml").write_text(settings)
    monkeypatch.setenv("MY_OWN_KEY", SECRET)
    for words in (
        ("sessions", "export", "direct:main"),
        ("sessions", "show", "direct:main", "--json"),
        ("trace", "last", "--json"),
        ("trace", "last"),
    ):
        shown = typed(*words, "--state", house.state)
        assert shown.code == 0, shown.err
        assert "[secret]" in shown.out
        assert hits(shown.out) == []


def test_a_key_in_the_address_of_a_provider_is_a_secret(tmp_path: Path) -> None:
    address = "https://me:plum-in-password@models.example/v1?api-version=2026-01-01&key=plum-in-the-query"
    (tmp_path / "finclaw.yaml").write_text(f"providers: {{mine: {{kind: openai, base_url: '{address}'}}}}\n")
    load_settings(state=tmp_path, environ={})
    said = str(status_error("mine", 401, None, f"no access with {address}".encode(), {}))
    assert "plum" not in said
    assert "2026-01-01" in said
