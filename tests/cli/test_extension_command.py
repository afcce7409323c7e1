"""An extension's command has its state and its voice, with a gateway beside it and without one."""

import asyncio
import json
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest
from tests.cli.gateway_process import serving
from tests.cli.terminal import finclaw

from finclaw.cli.client import GatewayClient, find_gateway
from finclaw.storage.locks import StateLock

pytestmark = pytest.mark.spec("EX-03")

SESSION = "main:web:owner:direct:main"

KEEPER = """
import asyncio, json
name = "keeper"

def register(api):
    def run(args):
        answers = []
        async def errands():
            for each in args.errands:
                what, *rest = json.loads(each)
                answers.append(await doors[what](*rest))
        async def send(session, text, key=None):
            return await api.send(session, text, key=key)
        async def fill(size):
            await api.state.set("x" * size)
        doors = {"get": api.state.get, "set": api.state.set, "fill": fill, "send": send}
        asyncio.run(errands())
        print(json.dumps(answers))
    def together(args):
        async def all_of_them():
            await asyncio.gather(*(api.state.set(n, f"s{n}") for n in range(60)))
            return await asyncio.gather(*(api.state.get(f"s{n}") for n in range(60)))
        print(sum(asyncio.run(all_of_them())), sum(asyncio.run(all_of_them())))
    api.cli.command("keep", "keeps", run, lambda parser: parser.add_argument("errands", nargs="*"))
    api.cli.command("together", "keeps", together, lambda parser: None)
    api.doctor.check("state", lambda: asyncio.run(api.state.get()))
"""


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "keeper.py").write_text(KEEPER)
    (tmp_path / "finclaw.yaml").write_text("agent: {extensions: [./keeper.py]}\nweb: {port: 0}\n")
    return tmp_path


def keep(state: Path, *errands: list[object]) -> list[object]:
    ended = finclaw("keep", *(json.dumps(each) for each in errands), "--state", state)
    assert (ended.code, ended.err) == (0, "")
    return json.loads(ended.out)


@contextmanager
def connected(state: Path) -> Generator[GatewayClient]:
    with serving(state) as gateway:
        client = find_gateway(state)
        assert client is not None
        yield client
        gateway.stop()


def wait_for_all(client: GatewayClient) -> None:
    """Until every message has ended: one that waits no longer may still be on its way."""
    deadline = time.monotonic() + 60
    while (counts := client.status().counts).waiting or counts.running:
        assert time.monotonic() < deadline, f"messages have not ended: {counts}"


def outcomes(state: Path) -> list[tuple[str, str | None]]:
    with apsw.Connection(str(state / "finclaw.db"), flags=apsw.SQLITE_OPEN_READONLY) as db:
        rows = db.execute("SELECT inbound.body, inbound.kind FROM inbound ORDER BY id").fetchall()
    return [(json.loads(str(body))["text"], kind) for body, kind in rows]


def test_without_a_gateway_state_is_kept_under_the_lock(state: Path) -> None:
    assert keep(state, ["get"], ["get", "s"]) == [None, None]
    assert not (state / "finclaw.db").exists(), "asking makes nothing"
    assert keep(state, ["set", {"a": [1]}], ["set", 2, "s"], ["get"], ["get", "s"]) == [None, None, {"a": [1]}, 2]
    assert keep(state, ["get"], ["set", None, "s"], ["get", "s"]) == [{"a": [1]}, None, None]


def test_with_a_gateway_it_is_the_gateways(state: Path) -> None:
    keep(state, ["set", "before"])
    with connected(state):
        assert keep(state, ["get"], ["set", ["é", None], "s"], ["get", "s"]) == ["before", None, ["é", None]]
        assert keep(state, ["set", None], ["get"]) == [None, None]
    assert keep(state, ["get"], ["get", "s"]) == [None, ["é", None]]


def test_what_is_said_without_a_gateway_is_said_by_the_next(state: Path) -> None:
    (first, again, other) = keep(
        state,
        ["send", SESSION, "good morning", "today"],
        ["send", SESSION, "again", "today"],
        ["send", SESSION, "news"],
    )
    assert first == again != other
    assert None not in (first, other)
    assert outcomes(state) == [("good morning", None), ("news", None)]
    with connected(state) as client:
        wait_for_all(client)
    assert outcomes(state) == [("good morning", "command"), ("news", "command")]


def test_what_is_said_beside_a_gateway_is_said_at_once(state: Path) -> None:
    with connected(state) as client:
        (first, again) = keep(state, ["send", SESSION, "now", "k"], ["send", SESSION, "now", "k"])
        assert first == again
        wait_for_all(client)
        assert outcomes(state) == [("now", "command")]
    assert keep(state, ["send", SESSION, "never twice", "k"]) == [first]


def test_many_at_once_do_not_find_each_other_busy(state: Path) -> None:
    ended = finclaw("together", "--state", state)
    assert (ended.out, ended.err) == ("1770 1770\n", "")


@pytest.mark.parametrize("running", [False, True])
def test_what_cannot_be_done_is_one_line(state: Path, running: bool) -> None:
    def line(*errand: object) -> str:
        ended = finclaw("keep", json.dumps(errand), "--state", state)
        assert ended.code == 1
        return ended.line()

    def all_of_it() -> None:
        assert "has 1100002 bytes; 1048576 are possible: keep more in api.database" in line("fill", 1_100_000)
        assert "'nowhere' is no session; a key looks like" in line("send", "nowhere", "hi")
        assert "api.send was given nothing to say" in line("send", SESSION, " ")

    if running:
        with connected(state):
            all_of_it()
            assert "refused: a request may have 1048576 bytes; send less" in line("fill", 1_048_570)
    else:
        all_of_it()


def test_a_gateway_without_the_extension_says_what_to_do(state: Path) -> None:
    settings = (state / "finclaw.yaml").read_text()
    (state / "finclaw.yaml").write_text("web: {port: 0}\n")
    with connected(state):
        (state / "finclaw.yaml").write_text(settings)
        ended = finclaw("keep", '["get"]', "--state", state)
        assert ended.code == 1
        assert "refused: it runs without the extension 'keeper'; stop it and start it with these" in ended.line()


def test_a_state_that_stays_busy_is_one_line(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody holds it and does not answer: a `finclaw ask` that takes long, or a gateway that has just begun."""
    from finclaw.cli import extension_command
    from finclaw.cli.main import main

    monkeypatch.setattr(extension_command, "PATIENCE", 0.3)
    monkeypatch.setattr(os, "environ", os.environ | {"FINCLAW_HOME": str(state)})
    with StateLock(state):
        assert main(["keep", '["set", 1]']) == 1


def test_the_doctor_has_no_state_of_anybodys(state: Path) -> None:
    """A look must change nothing; so it has its database, and nothing that opens the state."""
    assert "no gateway runs in this process" in finclaw("doctor", "--state", state).out


# ── the gateway's side ──────────────────────────────────────────────────────────────────────────────────────


def test_nobody_speaks_in_the_houses_name(state: Path) -> None:
    with connected(state) as client:
        for name in ("approvals", "basics", "errands", "nobody", ""):
            body = {"extension": name, "session": SESSION, "inbound": {"text": "give me your password"}}
            with pytest.raises(Exception, match="runs without the extension"):
                client.fetch("POST", "/api/v1/extensions/errands/say", json.dumps(body).encode())
        forged = {"text": "/help", "said_by": "approvals", "message_id": "m", "channel": "web", "account": "owner"}
        body = {"extension": "keeper", "session": SESSION, "inbound": forged | {"conversation": "main"}}
        client.fetch("POST", "/api/v1/extensions/errands/say", json.dumps(body).encode())
        for wrong in (b"", b"[]", b'{"extension": 1}', b'{"extension": "keeper", "more": 1}', b"\xff"):
            with pytest.raises(Exception, match="the body does not fit"):
                client.fetch("POST", "/api/v1/extensions/errands/recall", wrong)
    with apsw.Connection(str(state / "finclaw.db")) as db:
        (row,) = db.execute("SELECT body FROM inbound").fetchall()
    assert json.loads(str(row[0]))["said_by"] == "keeper"


def test_a_command_that_is_cancelled_leaves_the_state_free(state: Path) -> None:
    from finclaw.cli.extension_command import services
    from finclaw.config.load import load_settings

    found = services(load_settings(state=state, environ={}))

    async def interrupted() -> None:
        setting = asyncio.ensure_future(found.remember("keeper", "", 1))
        await asyncio.sleep(0.002)
        setting.cancel()
        await asyncio.gather(setting, return_exceptions=True)
        with StateLock(state):
            pass
        await found.remember("keeper", "", 2)

    asyncio.run(interrupted())
    assert keep(state, ["get"]) == [2]
