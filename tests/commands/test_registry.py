"""The registry of commands: names, aliases, categories, arguments, and what is near to a name."""

import time
from collections.abc import Sequence
from typing import Literal

import pytest
from tests.machine import is_quick

from finclaw.builtins.basics import BasicCommand
from finclaw.commands.registry import CATEGORIES, CommandRegistry, ParsedCommand, split_arguments
from finclaw.errors import ExtensionError
from finclaw.kernel.envelope import Inbound, Sender
from finclaw.kernel.port import CommandReply, CommandScope

SCOPE = CommandScope(inbound=Inbound(text=""), session="s-1", sender=Sender("ada"))


def make(
    name: str,
    *aliases: str,
    category: Literal["general", "finance", "admin", "debug"] = "general",
    roles: tuple[str, ...] = (),
    words: tuple[str, ...] = (),
) -> BasicCommand:
    async def answer(args: Sequence[str], scope: CommandScope) -> CommandReply:
        return CommandReply(f"{name} {list(args)} {scope.session}")

    return BasicCommand(
        name=name,
        aliases=aliases,
        names={"ko": f"{name}-ko"},
        description="",
        usage="",
        category=category,
        roles=roles,
        words=words,
        answer=answer,
    )


@pytest.mark.spec("C-06")
async def test_a_command_is_registered_found_listed_executed_and_taken_out() -> None:
    registry, price = CommandRegistry([make("help")]), make("price", "quote", words=("how much",))
    registry.register(price)
    assert all(registry.get(name) is price for name in ("price", "QUOTE", "price-ko"))
    assert [each.name for each in registry.list()] == ["help", "price"]
    parsed = registry.parse("/quote AAPL", "/")
    assert parsed is not None
    assert (await registry.execute(parsed, SCOPE)).text == "price ['AAPL'] s-1"
    with pytest.raises(ExtensionError, match="'quote' is taken"):
        registry.register(make("other", "Quote"))
    assert (registry.unregister("quote"), registry.unregister("price")) == (True, False)
    assert registry.get("price-ko") is None
    assert registry.parse("/price AAPL", "/") is None
    assert registry.parse("how much", "/") is None
    registry.register(price)
    assert registry.get("quote") is price


@pytest.mark.spec("C-02", "C-06")
def test_the_four_categories_are_listed_apart() -> None:
    registry = CommandRegistry(
        make(f"{category}-{number}", category=category) for number in (1, 2) for category in CATEGORIES
    )
    assert CATEGORIES == ("general", "finance", "admin", "debug")
    for category in CATEGORIES:
        assert [each.name for each in registry.list_by_category(category)] == [f"{category}-1", f"{category}-2"]
    assert registry.list_by_category("other") == ()


@pytest.mark.spec("C-05")
@pytest.mark.parametrize(
    ("line", "prefix", "name", "args"),
    [
        ("/price", "/", "price", ()),
        ("/Price AAPL TSLA", "/", "Price", ("AAPL", "TSLA")),
        ('/price "Samsung Electronics" KRW', "/", "price", ("Samsung Electronics", "KRW")),
        ("/price “삼성전자 우” 'a b'", "/", "price", ("삼성전자 우", "a b")),
        ("/price don't stop \"here", "/", "price", ("don't", "stop", '"here')),
        ('/price ""', "/", "price", ("",)),
        ("!price AAPL", "!", "price", ("AAPL",)),
        ("how much?", "/", "price", ()),
    ],
)
def test_a_line_becomes_a_name_arguments_and_itself(line: str, prefix: str, name: str, args: tuple[str, ...]) -> None:
    registry = CommandRegistry([make("price", words=("how much",))])
    assert registry.parse(line, prefix) == ParsedCommand(name, args, line)


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("“a “b” c", ("a “b", "c")),
        ("“a “b c", ("“a", "“b", "c")),
        ("“a”b “c d”", ("“a”b", "c d")),
        ('"a b"c "d e"', ('"a', 'b"c', "d e")),
        ("\t'a\nb'\u3000c ", ("a\nb", "c")),
    ],
)
def test_quotation_marks_reach_to_the_next_closing_mark(text: str, arguments: tuple[str, ...]) -> None:
    assert split_arguments(text) == arguments


@pytest.mark.parametrize("unit", [" “", " ‘'", ' "', " '“", " “x”y", "“ ”x "])
def test_splitting_arguments_takes_linear_time(unit: str) -> None:
    """Two megabytes: quadratic time would be minutes."""
    text = unit * (2_000_000 // len(unit))
    began = time.process_time()
    split_arguments(text)
    assert is_quick(time.process_time() - began, 2)


def test_arguments_of_more_than_2000_characters_are_not_read() -> None:
    registry = CommandRegistry([make("price")])
    assert registry.parse(f"/price {'a' * 2_000}", "/") == ParsedCommand(
        "price", ("a" * 2_000,), f"/price {'a' * 2_000}"
    )
    long = registry.parse(f"/price {'a ' * 1_000}b", "/")
    assert long is not None
    assert (long.args, long.is_too_long) == ((), True)


@pytest.mark.parametrize("line", ["how much is it?", "!price AAPL", "/prices", "/", "price"])
def test_other_lines_name_no_command(line: str) -> None:
    assert CommandRegistry([make("price", words=("how much",))]).parse(line, "/") is None


def test_a_misspelled_name_is_near_to_one_that_the_person_may_use() -> None:
    registry = CommandRegistry([make("status"), make("audit", roles=("admin",))])
    assert registry.find_similar("Statsu") == "status"
    assert registry.find_similar("audti") is None
    assert registry.find_similar("audti", roles=("admin",)) == "audit"
    assert registry.find_similar("dividnd", ["dividend"]) == "dividend"
    assert registry.find_similar("weather") is None
