"""Secrets of a day at work, and every command that tells of that day afterwards; and whatever a process writes beside.

The person typed a key, the model put it into a call, a tool gave one back and another failed with it, and an action
waits with one on its card. What is printed for people shows none of them. `--json` and `sessions export` give what is
kept: the person's own words and the model's arguments, and nothing that anybody else said. A card shows its action to
the letter: whoever is asked must see what they agree to.
"""

import io
import json
import logging
import textwrap
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
from tests.attack.canary import ALL, CANARIES, SECRETS, hits
from tests.attack.canary_calls import GIVEN, acting
from tests.attack.leaking_tools import leaking
from tests.attack.web_client import door
from tests.cli.gateway_process import serving
from tests.cli.in_process import typed
from tests.cli.terminal import finclaw
from tests.walks.house import House
from tests.web.conftest import TOKEN

from finclaw.approvals.settings import ApprovalSettings
from finclaw.diagnostics.log import JsonLines, PlainLines
from finclaw.errors import ExtensionError, StoreFailed
from finclaw.redaction.redact import redact_for_display
from finclaw.testing import FakeClock, call, reply

pytestmark = pytest.mark.spec("DX-32")

PERSON: Final = "person"
OTHERS: Final = "others"


async def _work(house: House, whose: str) -> None:
    asks = f"use {ALL}" if whose == PERSON else "go"
    script = (
        reply(
            f"Shall do, with {ALL}." if whose == PERSON else "Shall do.",
            call("leak__all"),
            call("act__now", GIVEN if whose == PERSON else {}),
        ),
        "Done.",
    )
    tools = [leaking("result"), acting()()]
    async with house.open(*script, tools=tools) as gateway:
        await gateway.ask(asks)
    asking = [leaking("error"), acting(approval=True)()]
    async with house.open(*script, "Done.", tools=asking, consent=None, rules=()) as gateway:
        await gateway.ask(asks, conversation="three")
        (asked,) = await gateway.app.approvals()
        await gateway.ask(f"/approve {asked.id} always", conversation="three")
    failing = [leaking("exception"), acting(transactional=True)()]
    patient = ApprovalSettings(order_expire_s=86_400)  # it has to wait for as long as this whole file takes
    async with house.open(*script, tools=failing, consent=None, approvals=patient) as gateway:
        await gateway.ask(asks, conversation="two")


@pytest.fixture(scope="module", params=[PERSON, OTHERS])
def day(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    # Today: what waits and what stands would have expired before the commands look for it.
    house = House(tmp_path_factory.mktemp("day"), FakeClock(datetime.now(UTC)))
    house.clock.run(_work(house, request.param))
    return house.state, request.param


PRINTED: Final = (
    ("turns",),
    ("trace", "last"),
    ("replay", "last"),
    ("status",),
    ("status", "--json"),
    ("doctor",),
    ("doctor", "--json"),
    ("approvals", "list", "--all"),
    ("approvals", "grants"),
    ("sessions", "list"),
    ("sessions", "list", "--json"),
    ("sessions", "show", "two"),
    ("sessions", "show", "direct:main"),
    ("sessions", "repair", "--dry-run"),
    ("costs",),
    ("costs", "--json"),
)
"""For people, and what holds no words of anybody."""
GIVEN_TO_PROGRAMS: Final = (
    ("turns", "--json"),
    ("trace", "last", "--json"),
    ("replay", "last", "--json"),
    ("sessions", "show", "two", "--json"),
    ("sessions", "export", "two"),
)


@pytest.mark.parametrize("words", PRINTED)
def test_nothing_that_is_printed_shows_one(day: tuple[Path, str], words: tuple[str, ...]) -> None:
    ended = typed(*words, "--state", day[0])
    assert ended.out, ended.err
    assert words != ("approvals", "grants") or "act__now" in ended.out, "a yes stands, and is not listed"
    assert hits(ended.out + ended.err) == [], ended.out


@pytest.mark.parametrize("words", GIVEN_TO_PROGRAMS)
def test_programs_are_given_what_is_kept_and_no_word_of_others(day: tuple[Path, str], words: tuple[str, ...]) -> None:
    state, whose = day
    ended = typed(*words, "--state", state)
    assert ended.out, ended.err
    assert bool(hits(ended.out)) is (whose == PERSON), ended.out


def test_a_card_is_shown_to_the_letter(day: tuple[Path, str]) -> None:
    state, whose = day
    (asked,) = json.loads(typed("approvals", "list", "--json", "--state", state).out)["items"]
    shown = typed("approvals", "show", asked["id"], "--state", state).out
    assert shown.startswith(asked["card"])
    assert bool(hits(shown)) is (whose == PERSON)


@pytest.mark.parametrize("error", [RuntimeError(ALL), StoreFailed(ALL), ExtensionError(ALL)])
async def test_no_answer_over_http_and_no_line_about_it_shows_one(lines: io.StringIO, error: Exception) -> None:
    """Nor the token that came with the request. Only what a client itself has named, a session's key, is told back."""
    paths = ("status", "turns/x", "messages/x", "approvals", "approvals/x", "sessions", "costs")
    async with door() as client:
        client.gateway.fails = error
        answers = [await client.call("GET", f"/api/v1/{path}") for path in paths]
        answers.append(await client.post(message_id="1", text="hello"))
        answers.append(await client.post(message_id="1", text="hello", nonsense=ALL))
    assert {status for status, _ in answers} <= {400, 500, 503}
    assert hits(repr(answers)) == []
    assert hits(lines.getvalue()) == []
    assert TOKEN not in lines.getvalue()


# ── what a process writes beside ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("form", [JsonLines, PlainLines])
@pytest.mark.parametrize(
    "extra",
    [
        {"note": ALL},
        {"api_key": CANARIES["bearer"].removeprefix("Bearer ")},
        {"password": "cAnArY-horse-9"},
        {"given": {"password": "cAnArY-horse-9", "deep": [{"secret": SECRETS[4]}]}},
        {"given": {ALL: 1}},
        {"given": {"card": 4539148803436467}},
        {"given": (ALL, {ALL})},
        {"error": ValueError(ALL)},
    ],
)
def test_a_field_of_a_log_line_is_known_by_its_name_too(form: type[logging.Formatter], extra: dict[str, Any]) -> None:
    line = form(redact_for_display)  # pyright: ignore[reportArgumentType]  both take it
    record = logging.LogRecord("finclaw", logging.INFO, __file__, 1, "words", (), None)
    vars(record).update(extra)
    assert hits(line.format(record)) == []
    assert "words" in line.format(record)


CARELESS: Final = textwrap.dedent(
    f"""
    import asyncio, logging, sys, threading, warnings

    name = "careless"
    SECRET = {ALL!r}
    kept = set()

    def fail():
        raise RuntimeError(SECRET)

    async def lost():
        fail()

    class Dying:
        def __del__(self):
            fail()

    async def layer(ctx):
        kept.add(asyncio.get_running_loop().create_task(lost()))
        kept.clear()
        asyncio.get_running_loop().call_soon(fail)
        thread = threading.Thread(target=fail)
        thread.start()
        thread.join()
        Dying()
        logging.getLogger("elsewhere").error("it says %s", SECRET)
        logging.getLogger("aiohttp.server").error("it says", exc_info=RuntimeError(SECRET))
        warnings.warn(SECRET, stacklevel=1)
        return await ctx.next()

    def register(api):
        api.pipeline.register("turn", layer)
    """
)


def test_nothing_comes_out_beside_the_log(tmp_path: Path) -> None:
    """Libraries, threads, tasks that nobody waits for: all of it ends at standard error, and is read by machines."""
    (tmp_path / "careless.py").write_text(CARELESS)
    (tmp_path / "finclaw.yaml").write_text("agent: {extensions: [./careless.py]}\n")
    with serving(tmp_path) as gateway:
        assert finclaw("ask", "hello", "--state", tmp_path).code == 0
        _, out = gateway.stop()
    assert out.count("RuntimeError") >= 4, out
    assert hits(out) == [], out


@pytest.mark.parametrize("more", [(), ("--verbose",)])
def test_nothing_comes_out_beside_an_answer(tmp_path: Path, more: tuple[str, ...]) -> None:
    (tmp_path / "careless.py").write_text(CARELESS)
    (tmp_path / "finclaw.yaml").write_text("agent: {extensions: [./careless.py]}\n")
    ended = finclaw("ask", "hello", "--state", tmp_path, *more)
    assert ended.code == 0
    assert hits(ended.out + ended.err) == [], ended.err
