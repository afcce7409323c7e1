"""`finclaw trace` tells what became of an approval, in the turn that asked for it and in the one that ran it."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from tests.walks.deciding import MINA, wrote
from tests.walks.house import House
from tests.walks.tools import Desk

from finclaw.approvals.people import PersonSettings
from finclaw.cli.main import main
from finclaw.kernel.approval import Approval
from finclaw.testing import call, reply

pytestmark = pytest.mark.spec("DX-22")

JUN = PersonSettings(name="Jun", known_as=("memory:local:jun",), roles=("approver",))


async def walk(house: House) -> tuple[str, str, str, Approval, Approval]:
    """Bob asks for two orders in a group; Mina, who reads elsewhere, approves one, and the other expires."""
    tools = [Desk().tool("order", transactional=True)]
    ask = reply(call("order", {"text": "10 AAPL"}))
    async with house.open(ask, "Bought.", ask, tools=tools, consent=None, people=[MINA]) as gateway:
        await gateway.outcome(await gateway.channel.deliver(wrote("/whoami", "mina", conversation="mina")))
        asking = await gateway.outcome(await gateway.channel.deliver(wrote("buy 10 AAPL", "bob")))
        (approved,) = await gateway.app.approvals()
        await house.clock.sleep(200)
        line = wrote(f"/approve {approved.id}", "mina", conversation="mina")
        await gateway.outcome(await gateway.channel.deliver(line))
        await gateway.app.idle()
        (running,) = await gateway.app.turns(1)
        late = await gateway.outcome(await gateway.channel.deliver(wrote("again", "bob")))
        (expired,) = await gateway.app.approvals()
        await house.clock.sleep(301)
        await gateway.app.idle()
        assert asking.turn_id is not None
        assert late.turn_id is not None
        return asking.turn_id, running.turn_id, late.turn_id, approved, expired


def test_every_change_in_its_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    house = House(tmp_path)
    asking, running, late, approved, expired = house.clock.run(walk(house))
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()

    def traced(turn: str) -> list[str]:
        assert main(["trace", turn, "--state", str(tmp_path)]) == 0
        return capsys.readouterr().out.splitlines()

    story = [
        f"approval {approved.id}  order",
        "   asked     2025-01-06 09:00:00  memory:local:bob",
        "   notified  Mina",
        "   reminded  2025-01-06 09:02:30",
        "   approved  2025-01-06 09:03:20  memory:local:mina",
        f"   run       {running}",
    ]
    assert [line.strip(" │└├─") for line in traced(asking)][-6:] == [line.strip() for line in story]
    told = traced(running)
    start = next(place for place, line in enumerate(told) if "approval ap-" in line)
    assert told[start] == f"   ├─ {story[0]}"
    assert told[start + 1 : start + 6] == [f"   │  {line}" for line in story[1:]]
    assert told[start + 6].startswith("   └─ step 1"), "it ran before the model was asked"
    assert [line.split()[0] for line in traced(late)[-4:]] == ["asked", "notified", "reminded", "expired"]
    assert main(["trace", running, "--json", "--state", str(tmp_path)]) == 0
    (shown,) = json.loads(capsys.readouterr().out)["turn"]["approvals"]
    assert shown["approval_id"] == approved.id
    assert [change["change"] for change in shown["changes"]] == ["asked", "notified", "reminded", "approved", "run"]
    assert expired.id in "\n".join(traced(late))
    assert approved.id not in "\n".join(traced(late))


async def lapse(house: House) -> str:
    """Mina's yes stands for Bob's note until she has lost her role; the turn that needs it then asks again."""
    parts: dict[str, Any] = {"tools": [Desk().tool("note", group="custom")], "consent": None, "rules": ()}
    ask = reply(call("note", {"text": "a"}))
    async with house.open(ask, "Noted.", people=[MINA, JUN], **parts) as gateway:
        await gateway.outcome(await gateway.channel.deliver(wrote("note a", "bob")))
        (waiting,) = await gateway.app.approvals()
        await gateway.outcome(await gateway.channel.deliver(wrote(f"/approve {waiting.id} always")))
        await gateway.app.idle()
    async with house.open(ask, people=[JUN], **parts) as gateway:
        outcome = await gateway.outcome(await gateway.channel.deliver(wrote("again", "bob")))
        assert outcome.turn_id is not None
        return outcome.turn_id


def test_why_it_is_asked_for_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    house = House(tmp_path)
    turn = house.clock.run(lapse(house))
    assert main(["trace", turn, "--state", str(tmp_path)]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["lapsed", "memory:local:mina"] in lines
    assert lines[lines.index(["lapsed", "memory:local:mina"]) + 1][0] == "asked"
