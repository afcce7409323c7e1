"""`finclaw approvals`, with a gateway and without one: the same words, the same effects."""

import asyncio
import json
import shutil
from collections.abc import Callable, Generator
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path

import pytest
from tests.cli.gateway_process import serving
from tests.cli.in_process import typed
from tests.cli.terminal import Ended, finclaw
from tests.ports.approval_nouns import wish

from finclaw.clock import SystemClock
from finclaw.diagnostics.event_stream import EventStream
from finclaw.kernel.approval import Approval
from finclaw.storage.kinds import open_kind
from finclaw.transcript.approval_ids import short_id

pytestmark = pytest.mark.spec("DX-22")

Run = Callable[..., Ended]


async def keep(state: Path) -> list[Approval]:
    """Two that wait for the owner, one for somebody else, one that has expired."""
    clock = SystemClock()
    store = open_kind("sqlite", state, clock, EventStream().emit)
    owner = ("role:owner",)
    day = 86_400.0  # they have to wait for as long as this whole file takes
    wishes = [
        wish(clock.now(), call="1", approvers=owner, seconds=day),
        wish(clock.now(), call="2", approvers=owner, seconds=day, scopes=("once", "always")),
        wish(clock.now(), call="3", approvers=("memory:local:mina",), seconds=day),
        wish(clock.now() - timedelta(hours=1), call="4", approvers=owner),
    ]
    kept = [await store.ask(each) for each in wishes]
    await store.close()
    return kept


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Approval]]:
    state = tmp_path_factory.mktemp("made")
    assert finclaw("ask", "hello", "--state", state).code == 0
    return state, asyncio.run(keep(state))


@pytest.fixture
def kept(made: tuple[Path, list[Approval]]) -> list[Approval]:
    return made[1]


@pytest.fixture(params=["here", "gateway"])
def run(request: pytest.FixtureRequest, made: tuple[Path, list[Approval]], tmp_path: Path) -> Generator[Run]:
    state = tmp_path / "state"
    shutil.copytree(made[0], state)
    with serving(state) if request.param == "gateway" else nullcontext():
        yield lambda *args: typed("approvals", *args, "--state", state)


def test_lists(run: Run, kept: list[Approval]) -> None:
    listed = run()
    assert listed.code == 0
    assert [short_id(each.id) in listed.out for each in kept] == [True, True, True, False]
    assert [short_id(each.id) in run("list", "--all").out for each in kept] == [True] * 4
    assert 'broker__order: quantity = 10; symbol = "AAPL"  for memory:local:ada' in listed.out
    assert [each["id"] for each in json.loads(run("list", "--json").out)["items"]] == [
        each.id for each in reversed(kept[:3])
    ]


def test_show(run: Run, kept: list[Approval]) -> None:
    assert run("show", kept[0].id.upper()).out == "the card\n[pending]\n"
    assert json.loads(run("show", kept[3].id, "--json").out)["state"] == "expired"
    missing = run("show", kept[0].id[:8])
    assert (missing.code, missing.out) == (1, "")
    assert "there is no approval" in missing.err


def test_decide(run: Run, kept: list[Approval]) -> None:
    no, wide, others, late = kept
    assert run("deny", no.id, "--reason", "too much").out == (
        f'{short_id(no.id)}: denied\nbroker__order\n• quantity = 10\n• symbol = "AAPL"\n'
    )
    shown = run("show", no.id).out
    assert shown.endswith('[denied, decided by web:owner:owner: "too much"]\n')
    for id, scope, words in (
        (no.id, "once", "denied already"),
        (others.id, "once", "no approver"),
        (late.id, "once", "expired"),
        ("ap-x", "once", "no such approval"),
        ("ap-7k2", "once", "at least 6 characters"),
        (wide.id, "session", "counts once only"),
    ):
        refused = run("approve", id, "--scope", scope)
        assert (refused.code, refused.out) == (1, "")
        assert words in refused.err
    assert json.loads(run("approve", wide.id, "--scope", "always", "--json").out)["scope"] == "always"


def test_a_yes_that_stands_is_listed_and_taken_back(run: Run, kept: list[Approval]) -> None:
    wide = kept[1]
    assert run("grants").out == "there are no grants: everything that needs an approval is asked for\n"
    assert run("approve", wide.id, "--scope", "always").code == 0
    first, second = run("grants").out.splitlines()
    assert first == f'{short_id(wide.id)}  broker__order  quantity = 10; symbol = "AAPL"'
    assert second.startswith("    for memory:local:ada, everywhere, until ")
    assert "given by web:owner:owner on " in second
    (shown,) = json.loads(run("grants", "--json").out)["items"]
    assert (shown["id"], shown["args"]) == (wide.id, {"symbol": "AAPL", "quantity": 10})
    assert json.loads(run("revoke", wide.id.upper(), "--json").out) == shown
    assert json.loads(run("grants", "--json").out) == {"items": []}
    for id in (wide.id, kept[0].id, "ap-x"):
        refused = run("revoke", id)
        assert (refused.code, refused.out) == (1, "")
        assert "no grant of this id" in refused.err


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("approve",), "needs an id"),
        (("list", "ap-x"), "takes no id"),
        (("grants", "ap-x"), "takes no id"),
        (("revoke",), "`finclaw approvals grants` lists them"),
    ],
)
def test_what_is_wrongly_typed_is_one_line(tmp_path: Path, args: tuple[str, ...], words: str) -> None:
    ended = typed("approvals", *args, "--state", tmp_path)
    assert (ended.code, ended.out) == (2, "")
    assert words in ended.err


def test_where_nothing_was_ever_stored_nothing_waits(tmp_path: Path) -> None:
    assert typed("approvals", "--state", tmp_path / "none").out == "no approval is pending\n"
    assert typed("approvals", "approve", "ap-x", "--state", tmp_path / "none").code == 1
    assert typed("approvals", "show", "ap-x", "--state", tmp_path / "none").code == 1
    assert typed("approvals", "grants", "--state", tmp_path / "none").out.startswith("there are no grants")
    assert typed("approvals", "revoke", "ap-x", "--state", tmp_path / "none").code == 1
    assert not (tmp_path / "none").exists()
