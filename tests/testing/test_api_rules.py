"""The judge, judged: conversations whose fate at either API is known."""

from dataclasses import dataclass

import pytest
from tests.ports.nouns import AT
from tests.support.api_rules import Rules, violations

from finclaw.kernel.message import Block, Message, Role, Source, Text, Thinking, ToolCall, ToolResult

TAKEN, REFUSED = True, False


def entry(role: Role, *blocks: Block | str) -> Message:
    made = tuple(Text(each) if isinstance(each, str) else each for each in blocks)
    return Message(role, role, made, Source(role), AT)


def user(*blocks: Block | str) -> Message:
    return entry("user", *blocks)


def assistant(*blocks: Block | str) -> Message:
    return entry("assistant", *blocks)


def tool(*blocks: Block | str) -> Message:
    return entry("tool", *blocks)


def system(*blocks: Block | str) -> Message:
    return entry("system", *blocks)


def call(id: str = "a", name: str = "quote") -> ToolCall:
    return ToolCall(id, name, {})


def result(id: str = "a", content: str = "190.50") -> ToolResult:
    return ToolResult(id, "quote", content)


@dataclass(frozen=True)
class Case:
    what: str
    anthropic: bool
    openai: bool
    messages: tuple[Message, ...]


def case(what: str, anthropic: bool, openai: bool, *messages: Message) -> Case:
    return Case(what, anthropic, openai, messages)


HI = user("hi")
ASK, ASK_BOTH = assistant(call()), assistant(call(), call("b"))
TOLD, TOLD_BOTH = tool(result()), tool(result(), result("b"))

CASES = [
    case("nothing at all", REFUSED, REFUSED),
    case("one question", TAKEN, TAKEN, HI),
    case("question, answer, question", TAKEN, TAKEN, HI, assistant("hello"), user("and?")),
    case("two questions in a row", TAKEN, TAKEN, user("yes"), user("yes")),
    case("two answers in a row", TAKEN, TAKEN, HI, assistant("hello"), assistant("again"), user("ok")),
    case("the assistant begins", REFUSED, TAKEN, assistant("hello"), HI),
    case("a note begins", TAKEN, TAKEN, system("it is Monday"), HI),
    case("a call and its result", TAKEN, TAKEN, HI, ASK, TOLD),
    case("words, a call and its result", TAKEN, TAKEN, HI, assistant("I look", call()), TOLD),
    case("two calls, one message of results", TAKEN, TAKEN, HI, ASK_BOTH, TOLD_BOTH),
    case("two calls, a message each", TAKEN, TAKEN, HI, ASK_BOTH, tool(result("b")), TOLD),
    case("an empty result", TAKEN, TAKEN, HI, ASK, tool(result(content=""))),
    case("a call without a result at the end", REFUSED, REFUSED, HI, ASK),
    case("a call without a result", REFUSED, REFUSED, HI, ASK, user("well?")),
    case("one of two results", REFUSED, REFUSED, HI, ASK_BOTH, TOLD),
    case("a result without a call", REFUSED, REFUSED, HI, TOLD, user("well?")),
    case("a result at the very start", REFUSED, REFUSED, TOLD, HI),
    case("a result of another call", REFUSED, REFUSED, HI, ASK, tool(result("b"))),
    case("a result twice", REFUSED, REFUSED, HI, ASK, TOLD, TOLD),
    case("a result too late", REFUSED, REFUSED, HI, ASK, user("x"), assistant("well"), TOLD),
    case("a question before the result", REFUSED, REFUSED, HI, ASK, user("x"), TOLD),
    case("a note before the result", REFUSED, REFUSED, HI, ASK, system("x"), TOLD),
    case("a note behind the result", TAKEN, TAKEN, HI, ASK, TOLD, system("x"), user("y")),
    case("two callers, then both results", TAKEN, REFUSED, HI, ASK, assistant(call("b")), TOLD_BOTH),
    case("a result in the user's message", TAKEN, REFUSED, HI, ASK, user(result(), "go on")),
    case("a result behind the user's words", REFUSED, REFUSED, HI, ASK, user("go on", result())),
    case("a result of the assistant's", REFUSED, REFUSED, HI, assistant(call(), result()), user("x")),
    case("a call of the user's", REFUSED, REFUSED, user("hi", call()), TOLD),
    case("words in a tool message", TAKEN, REFUSED, HI, ASK, tool(result(), "by the way")),
    case("an id used again later", REFUSED, TAKEN, HI, ASK, TOLD, ASK, TOLD),
    case("one id for two calls", REFUSED, REFUSED, HI, assistant(call(), call()), tool(result(), result())),
    case("an id with a dot", REFUSED, TAKEN, HI, assistant(call("a.b")), tool(result("a.b"))),
    case("an id of 41 characters", TAKEN, REFUSED, HI, assistant(call("i" * 41)), tool(result("i" * 41))),
    case("an id of none", REFUSED, REFUSED, HI, assistant(call("")), tool(result(""))),
    case("a name with brackets", REFUSED, REFUSED, HI, assistant(call(name="[unknown-tool]")), TOLD),
    case("a name with a line break at its end", REFUSED, REFUSED, HI, assistant(call(name="quote\n")), TOLD),
    case("a name of 64 characters", TAKEN, TAKEN, HI, assistant(call(name="n" * 64)), TOLD),
    case("a name of 65 characters", REFUSED, REFUSED, HI, assistant(call(name="n" * 65)), TOLD),
    case("an empty text", REFUSED, TAKEN, user(""), assistant("hello"), user("x")),
    case("a text of spaces", REFUSED, TAKEN, HI, assistant(" \n"), user("x")),
    case("a message of nothing", REFUSED, REFUSED, HI, assistant(), user("x")),
    case("a tool message of nothing", REFUSED, REFUSED, HI, ASK, tool(), TOLD),
    case("a last answer that ends in a space", REFUSED, TAKEN, HI, assistant("hello ")),
    case("an earlier answer that ends in a space", TAKEN, TAKEN, HI, assistant("hello "), user("x")),
    case("signed thinking before an answer", TAKEN, TAKEN, HI, assistant(Thinking("hm", "s"), "hello"), user("x")),
    case("unsigned thinking", REFUSED, TAKEN, HI, assistant(Thinking("hm"), "hello"), user("x")),
    case("nothing but thinking", REFUSED, REFUSED, HI, assistant(Thinking("hm", "s")), user("x")),
    case("thinking at the end", REFUSED, TAKEN, HI, assistant("hello", Thinking("hm", "s")), user("x")),
    case("thinking of the user's", REFUSED, TAKEN, user(Thinking("hm", "s"), "hi"), assistant("hello")),
]


@pytest.mark.spec("TR-08", "DX-77")
@pytest.mark.parametrize("rules", ["anthropic", "openai"])
@pytest.mark.parametrize("given", CASES, ids=lambda case: case.what)
def test_the_judge_says_what_the_api_says(given: Case, rules: Rules) -> None:
    taken = given.anthropic if rules == "anthropic" else given.openai
    assert (not violations(given.messages, rules)) == taken


def test_a_violation_names_the_message_and_the_call() -> None:
    (violation,) = violations((user("hi"), assistant(call("c-7")), user("well?")), "openai")
    assert violation.message_id == "user"
    assert "c-7" in violation.text
