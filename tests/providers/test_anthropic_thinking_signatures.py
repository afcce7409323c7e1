"""Models whose thoughts are tied to what stood before them: none is refused, and within a turn they do come back."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.machine import examples
from tests.providers.model_server import serving
from tests.providers.signature_api import BoundApi

from finclaw.agent.model.answer import collect
from finclaw.errors import ProviderError
from finclaw.ids import new_id
from finclaw.kernel.chunk import Model, ModelRequest, ToolSpec
from finclaw.kernel.message import Block, Message, Role, Source, Text, Thinking, ToolCall, ToolResult
from finclaw.providers.anthropic.message import ThinkingSignatures
from finclaw.providers.anthropic.provider import AnthropicProvider
from finclaw.providers.anthropic.request import MARK, AnthropicRequestWriter
from finclaw.providers.catalog import Catalog, load_listed
from finclaw.providers.http.prefix_cache import SHORT
from finclaw.redaction import Secret

AT = datetime(2026, 11, 1, tzinfo=UTC)
QUOTE = ToolSpec("market__quote", "A price.", {"type": "object"})
NEWS = ToolSpec("market__news", "What is told.", {"type": "object"})
FABLE, SONNET, OLDER = (Catalog().find(f"anthropic/claude-{name}") for name in ("fable-5-1", "sonnet-5-5", "opus-5"))


def message(role: Role, *blocks: Block, passing: str = "", model: str = "") -> Message:
    metadata = {"model": model} if model else {}
    return Message(new_id(), role, blocks, Source("user"), AT, metadata, passing)


@dataclass
class Talk:
    """A conversation as the agent keeps it: notes are gone with their turn."""

    url: str
    api: BoundApi
    model: Model = FABLE
    tools: tuple[ToolSpec, ...] = (QUOTE,)
    system: str = "Be brief."
    messages: list[Message] = field(default_factory=list[Message])
    providers: list[AnthropicProvider] = field(default_factory=list[AnthropicProvider])

    @property
    def provider(self) -> AnthropicProvider:
        if not self.providers:
            self.restart()
        return self.providers[-1]

    def restart(self) -> None:
        """Another process, or another key: nothing is known of what was sent before."""
        self.providers.append(AnthropicProvider(self.url, Secret("key-1")))

    async def turn(
        self, text: str, *, steps: int = 3, note: str = "", between: Callable[[int], None] = lambda step: None
    ) -> list[list[str]]:
        """What came back in each of its requests."""
        self.messages = [each for each in self.messages if not each.passing]
        self.messages.append(message("user", Text(text)))
        if note:
            self.messages.append(message("system", Text(note), passing="moment"))
        before = len(self.api.replayed)
        for step in range(steps + 1):
            between(step)
            answer = await self.ask()
            if not answer.tool_calls:
                break
            told = "last" if step == steps - 1 else "190"
            self.messages.append(message("tool", *(ToolResult(call.id, call.name, told) for call in answer.tool_calls)))
        return self.api.replayed[before:]

    async def ask(self) -> Message:
        asked = ModelRequest(
            model=self.model,
            system=self.system,
            messages=tuple(self.messages),
            tools=self.tools,
            thinking="medium",
        )
        answer = await collect(self.provider.stream(asked), lambda text: None)
        self.messages.append(message("assistant", *answer.blocks, model=f"anthropic/{self.model.name}"))
        return self.messages[-1]

    def happen(self, what: str) -> None:
        notes = [place for place, each in enumerate(self.messages) if each.passing]
        match what:
            case "note" if notes:
                self.messages[notes[0]] = message("system", Text(new_id()), passing="moment")
            case "no note" if notes:
                del self.messages[notes[0]]
            case "condense":
                begins = max(place for place, each in enumerate(self.messages) if each.role == "user")
                self.messages[:begins] = [message("user", Text("[summary]"))]
            case "tools":
                self.tools = (QUOTE, NEWS) if self.tools == (QUOTE,) else (QUOTE,)
            case "system":
                self.system = "Be long." if self.system == "Be brief." else "Be brief."
            case "restart":
                self.restart()
            case "speak":
                self.messages.append(message("user", Text("and be quick")))
            case "model":
                self.model = {FABLE.name: SONNET, SONNET.name: OLDER, OLDER.name: FABLE}[self.model.name]
            case _:
                pass


@asynccontextmanager
async def talking(api: BoundApi | None = None, **parts: Any) -> AsyncGenerator[Talk]:
    api = api or BoundApi()
    async with serving(api.answer) as url:
        talk = Talk(url, api, **parts)
        try:
            yield talk
        finally:
            for provider in talk.providers:
                await provider.close()
    assert (api.refused, api.strange) == ([], [])


def grows(replayed: list[list[str]]) -> bool:
    """Each request has the thoughts of the one before it and one more, and the first has none."""
    return [len(each) for each in replayed] == list(range(len(replayed)))


@pytest.mark.spec("N-02")
def test_the_catalog_knows_which_bind_them_and_all_of_those_find_out_themselves_how_much_to_think() -> None:
    """In the other way of thinking a call without its thought would be refused."""
    bound = {line.name: line.features for line in load_listed() if "bound_thinking" in line.features}
    assert set(bound) == {"claude-haiku-5-5", "claude-sonnet-5-5", "claude-opus-5-5", "claude-fable-5-1"}
    assert all("adaptive_thinking" in features for features in bound.values())


@pytest.mark.spec("M-42", "DX-16b")
@pytest.mark.parametrize("name", [line.name for line in load_listed() if "bound_thinking" in line.features])
@pytest.mark.parametrize("redacted", [False, True])
@pytest.mark.parametrize("note", ["", "it is noon, turn {}"])
async def test_within_a_turn_its_thoughts_go_back_and_into_the_next_they_do_not(
    name: str, redacted: bool, note: str
) -> None:
    async with talking(BoundApi(redacted=redacted), model=Catalog().find(f"anthropic/{name}")) as talk:
        for number in range(3):
            assert grows(await talk.turn(f"question {number}", note=note.format(number)))


async def test_what_was_thought_behind_a_note_that_changes_stays_out() -> None:
    async with talking() as talk:

        def between(step: int) -> None:
            if step == 2:
                talk.messages[1] = message("system", Text("it is one"), passing="moment")

        replayed = await talk.turn("first", note="it is noon", between=between)
        assert [len(each) for each in replayed] == [0, 1, 0, 1]
        assert grows(await talk.turn("second", note="it is two"))


@pytest.mark.parametrize("step", [0, 1, 2, 3])
async def test_a_conversation_that_is_condensed_in_the_middle(step: int) -> None:
    async with talking() as talk:
        await talk.turn("first", note="noon")

        def between(now: int) -> None:
            if now == step:
                begins = max(place for place, each in enumerate(talk.messages) if each.role == "user")
                talk.messages[:begins] = [message("user", Text("[summary]"))]

        replayed = await talk.turn("second", note="one", between=between)
        assert [len(each) for each in replayed] == [each if each < step else each - step for each in range(4)]
        assert grows(await talk.turn("third", note="two"))


@pytest.mark.parametrize("change", ["tools", "system"])
async def test_other_tools_or_another_prompt_in_the_middle(change: str) -> None:
    async with talking() as talk:

        def between(step: int) -> None:
            if step == 2:
                setattr(talk, change, (QUOTE, NEWS) if change == "tools" else "Be long.")

        assert [len(each) for each in await talk.turn("first", between=between)] == [0, 1, 0, 1]
        assert grows(await talk.turn("second"))


async def test_what_is_no_part_of_it_changes_nothing() -> None:
    async with talking() as talk:

        def between(step: int) -> None:
            talk.model = replace(talk.model, max_output=1_000 + step)

        assert grows(await talk.turn("first", between=between))


@pytest.mark.spec("M-42")
@pytest.mark.parametrize("other", [SONNET, OLDER], ids=lambda model: model.name)
@pytest.mark.parametrize("step", [0, 1, 2])
async def test_a_fallback_in_the_middle(other: Model, step: int) -> None:
    """The first model is asked, does not answer, and answers again in the next step."""
    async with talking() as talk:
        await talk.turn("first", note="noon")
        replayed: list[list[str]] = []
        models: list[str] = []
        ask = talk.ask

        async def with_fallback() -> Message:
            talk.api.down = lambda said: said["model"] == FABLE.name and len(models) == step
            try:
                answer = await ask()
            except ProviderError:
                talk.model = other
                answer = await ask()
                talk.model = FABLE
            models.append(str(answer.metadata["model"]))
            return answer

        talk.ask = with_fallback  # type: ignore[method-assign]
        replayed = await talk.turn("second", note="one")
        assert models.count(f"anthropic/{other.name}") == 1
        assert replayed[-1], "what the first model thought since goes back to it"
        assert grows(await talk.turn("third", note="two", steps=step))


async def test_a_key_that_fails_after_it_was_asked_with_what_another_never_saw() -> None:
    """The request that failed had the thought, and the one that was answered by the other key had not."""
    async with talking() as talk:
        first = talk.provider
        talk.restart()
        second = talk.providers.pop()

        def between(step: int) -> None:
            if step == 1:
                asked = ModelRequest(
                    model=FABLE, system=talk.system, messages=tuple(talk.messages), tools=talk.tools, thinking="medium"
                )
                first._writer.write(asked)  # pyright: ignore[reportPrivateUsage]  it went out and was not answered
            talk.providers[:] = [second] if step == 1 else [first]

        replayed = await talk.turn("first", between=between)
        assert [len(each) for each in replayed] == [0, 0, 1, 2]
        talk.providers[:] = [first, second]


async def test_a_turn_that_another_process_goes_on_with() -> None:
    async with talking() as talk:
        await talk.turn("first", note="noon")
        replayed = await talk.turn("second", note="one", between=lambda step: talk.restart() if step == 2 else None)
        assert [len(each) for each in replayed] == [0, 1, 0, 1]
        assert grows(await talk.turn("third", note="two"))


async def test_a_long_conversation_and_a_turn_of_many_steps() -> None:
    """Longer than what is joined anew each time, on both sides of the question."""
    async with talking() as talk:
        for place in range(SHORT):
            talk.messages += [message("user", Text(f"{place}?")), message("assistant", Text(f"{place}."))]
        for number in range(3):
            assert grows(await talk.turn(f"question {number}", note="noon", steps=SHORT if number == 1 else 3))


async def test_models_that_bind_nothing_get_all_of_it_back() -> None:
    async with talking(model=replace(OLDER, features=replace(OLDER.features, bound_thinking=False))) as talk:
        await talk.turn("first")
        assert [len(each) for each in await talk.turn("second")] == [4, 5, 6, 7]


# ── what is sent ────────────────────────────────────────────────────────────────────────────────────────────────

CHANGES = ("note", "no note", "condense", "tools", "system", "restart", "speak", "model")


@given(turns=st.lists(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(CHANGES)), max_size=3), max_size=5))
@settings(max_examples=examples(60), deadline=None)
async def test_whatever_happens_when_nothing_is_refused(turns: list[list[tuple[int, str]]]) -> None:
    async with talking() as talk:
        for steps in turns:
            happens = dict(steps)
            await talk.turn("go", note="noon", between=lambda step, told=happens: talk.happen(told.get(step, "")))


def turn(number: int, *, note: bool) -> list[Message]:
    call = ToolCall(f"c{number}", QUOTE.name)
    return [
        message("user", Text(f"question {number}")),
        *([message("system", Text("noon"), passing="moment")] if note else []),
        message("assistant", Thinking("", f"s{number}"), call),
        message("tool", ToolResult(call.id, call.name, "190")),
    ]


@pytest.mark.spec("PC-01", "PC-02")
@pytest.mark.parametrize("note", [False, True])
def test_former_turns_are_the_same_bytes_from_then_on(note: bool) -> None:
    """Up to its question every request begins as the next one does, and at most four places are marked."""
    writer, lasting, former = AnthropicRequestWriter(1_000_000), list[Message](), b""
    for number in range(60):
        question, results = turn(number, note=note)[: 1 + note], turn(number, note=note)[1 + note :]
        first = writer.write(asking(*lasting, *question))
        writer.signatures.remember(f"s{number}", writer.sent)
        second = writer.write(asking(*lasting, *question, *results))
        assert (signatures(first), signatures(second)) == ([], [f"s{number}"])
        assert max(first.count(MARK), second.count(MARK)) <= 4
        plain, later = first.replace(MARK, b""), second.replace(MARK, b"")
        assert plain.startswith(former)
        assert later.startswith(plain.removesuffix(b"]}]}"))
        lasting += [question[0], *results, message("assistant", Text("190."))]
        former = plain[: plain.index(b"question %d" % number)]


def asking(*messages: Message) -> ModelRequest:
    return ModelRequest(model=FABLE, system="s", messages=messages, tools=(QUOTE,))


def test_the_question_is_marked_because_what_follows_it_will_be_another() -> None:
    said = msgspec.json.decode(AnthropicRequestWriter(10_000).write(asking(*turn(0, note=False))))
    marked = [part for each in said["messages"] for part in each["content"] if "cache_control" in part]
    assert [each["type"] for each in marked] == ["text", "tool_result"]


def test_a_trunk_that_was_kept_and_none_come_to_the_same() -> None:
    lasting = [each for number in range(SHORT) for each in turn(number, note=False)]
    asked = asking(*lasting, message("user", Text("now?")))
    writer, fresh = AnthropicRequestWriter(1_000_000), AnthropicRequestWriter(1_000_000)
    for _ in range(3):
        assert (writer.write(asked), writer.sent) == (fresh.write(asked), fresh.sent)
        fresh = AnthropicRequestWriter(1_000_000)


def test_signatures_are_forgotten_the_oldest_first() -> None:
    known = ThinkingSignatures(2)
    for number in range(3):
        known.remember(f"s{number}", number)
    held = [known.matches(message("assistant", Thinking("", f"s{number}")), number) for number in range(3)]
    assert held == [False, True, True]
    assert not known.matches(message("assistant", Thinking("unsigned")), 0)


def signatures(written: bytes) -> list[str]:
    parts = [part for each in msgspec.json.decode(written)["messages"] for part in each["content"]]
    return [part["signature"] for part in parts if part["type"] == "thinking"]
