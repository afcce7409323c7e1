"""Extensions at the terminal: commands of their own, a list of them, and what the doctor says about them."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.terminal import finclaw

from finclaw.agent.settings import AgentSettings
from finclaw.cli.doctor.extensions import checks
from finclaw.cli.parser import build_parser
from finclaw.config.schema import Settings
from finclaw.extensions.api import OWN_COMMANDS

Listed = Callable[[str], Path]

FULL = """
from finclaw.kernel.extension import Finding, RouteReply
from finclaw.tools.define import tool
from finclaw.kernel.port import ToolOutput
from msgspec import Struct

name = "garden"

def register(api):
    async def nothing(*_): return None

    @tool("garden__water", "Waters.")
    async def water(args: Struct, scope) -> ToolOutput:
        return ToolOutput("wet")

    def plant(args):
        print(f"planted {args.count} {args.what}")
        return 3 if args.what == "weeds" else 0

    def arguments(parser):
        parser.add_argument("what", metavar="WHAT", help="what to plant")
        parser.add_argument("--count", type=int, default=1)

    api.tools.register(water)
    api.pipeline.register("turn", nothing, priority=4)
    api.context.provide("soil", nothing)
    api.visible.check(lambda draft: [])
    api.tasks.every(90, nothing)
    api.routes.add("POST", "beds/new", nothing)
    api.prompt.section("Garden", "You garden.")
    api.database(["CREATE TABLE bed (name TEXT)"])
    api.cli.command("plant", "puts something into the ground", plant, arguments)
    api.doctor.check("soil", lambda: Finding("ok", "moist"))
    api.doctor.check("sun", lambda: Finding("warning", "it is dark", "wait for the morning"))
"""


@pytest.fixture
def listed(tmp_path: Path) -> Listed:
    """A state directory whose settings list one extension with this text."""

    def listed(text: str) -> Path:
        (tmp_path / "mine.py").write_text(text)
        (tmp_path / "mine.py").chmod(0o600)
        (tmp_path / "finclaw.yaml").write_text("agent:\n  extensions: [./mine.py]\n")
        tmp_path.chmod(0o700)
        return tmp_path

    return listed


@pytest.mark.spec("EX-01", "EX-10")
def test_an_edited_file_counts_at_the_next_start(listed: Listed) -> None:
    for sign in ("Aye", "Bye"):
        state = listed(
            "from msgspec.structs import replace\n"
            "def register(api):\n"
            "    async def sign(ctx):\n"
            "        outbound = await ctx.next()\n"
            f"        return replace(outbound, text=outbound.text + ' {sign}')\n"
            "    api.pipeline.register('delivery', sign, priority=-1000)\n"
        )
        assert finclaw("ask", "/whoami", "--state", state).out.endswith(f" {sign}\n")


# ── commands ────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_extension_adds_a_command(listed: Listed) -> None:
    state = listed(FULL)
    ended = finclaw("plant", "roses", "--state", state, "--count", "3")
    assert (ended.code, ended.out, ended.err) == (0, "planted 3 roses\n", "")
    assert finclaw("plant", "weeds", "--state", state).code == 3
    helped = finclaw("plant", "--help", "--state", state)
    assert helped.code == 0
    assert "usage: finclaw plant" in helped.out
    assert "what to plant" in helped.out
    assert not (state / "extensions").exists()  # nobody has used the database
    assert not (state / "finclaw.db").exists()


def test_what_is_wrongly_typed_is_one_line(listed: Listed) -> None:
    state = listed(FULL)
    for argv, said in (
        (["plant"], "the following arguments are required: WHAT; see: finclaw plant --help"),
        (["plant", "x", "--count", "many"], "--count: invalid int value: 'many'; see: finclaw plant --help"),
        (["plant", "x", "--cuont", "2"], "unknown argument --cuont; did you mean --count?"),
        (["plnt", "x"], "'plnt' is no command; did you mean plant?"),
        (["servee"], "'servee' is no command; did you mean serve?"),
        (["zzz"], "'zzz' is no command; there are serve,"),
    ):
        ended = finclaw(*argv, "--state", state)
        assert ended.code == 2
        assert said in ended.line()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("1 / 0", "extension 'mine' ({file}, line 3): ZeroDivisionError: division by zero"),
        ("raise OSError(28, 'No space left on device')", "No space left on device; free some space and try again"),
    ],
)
def test_a_command_that_fails_is_one_line(listed: Listed, body: str, said: str) -> None:
    state = listed(
        f"def register(api):\n    def run(args):\n        {body}\n    api.cli.command('go', '', run, lambda _: None)\n"
    )
    ended = finclaw("go", "--state", state)
    assert ended.code == 1
    assert ended.line() == "finclaw: " + said.format(file=state / "mine.py")


def test_a_command_must_not_be_async(listed: Listed) -> None:
    state = listed(
        "def register(api):\n    async def run(args): pass\n    api.cli.command('go', '', run, lambda _: None)\n"
    )
    assert "must not be async; use asyncio.run" in finclaw("go", "--state", state).line()


def test_an_unknown_command_tells_what_keeps_the_extensions_from_loading(listed: Listed) -> None:
    state = listed("boom\n")
    ended = finclaw("water", "--state", state)
    assert ended.code == 1
    assert (
        ended.line()
        == f"finclaw: extension 'mine' ({state / 'mine.py'}, line 1): NameError: name 'boom' is not defined"
    )
    assert "did you mean serve?" in finclaw("servee", "--state", state).line()


def test_a_command_may_use_its_database(listed: Listed) -> None:
    state = listed(
        "import asyncio\n"
        "def register(api):\n"
        "    db = api.database(['CREATE TABLE note (text TEXT)'])\n"
        "    def run(args):\n"
        "        asyncio.run(db.execute('INSERT INTO note VALUES (?)', 'x'))\n"
        "        print(asyncio.run(db.execute('SELECT count(*) FROM note')))\n"
        "    api.cli.command('note', 'notes', run, lambda _: None)\n"
    )
    assert finclaw("note", "--state", state).out == "[(1,)]\n"
    assert finclaw("note", "--state", state).out == "[(2,)]\n"


def test_our_own_commands_load_no_extension(listed: Listed) -> None:
    state = listed("raise SystemExit('loaded')\n")
    assert finclaw("status", "--state", state).code == 0
    assert finclaw("config", "show", "--state", state).code == 0
    assert finclaw("--version").code == 0


def test_no_extension_may_take_a_word_of_ours() -> None:
    assert set(build_parser().commands) <= OWN_COMMANDS


# ── the list ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("", ["memory", "web"]),
        ("agent: {default_extensions: []}\n", []),
        ("agent: {default_extensions: [web]}\n", ["web"]),
        ("agent: {extensions: [timing, {use: memory, settings: {recall: 1}}]}\n", ["web", "timing", "memory"]),
        ("agent: {extensions: [finclaw.builtins.web.extension]}\n", ["memory", "web"]),
    ],
)
def test_memory_and_web_are_on_unless_turned_off(tmp_path: Path, settings: str, expected: list[str]) -> None:
    """One that is listed too is loaded once, where it is listed and with the settings it has there."""
    (tmp_path / "finclaw.yaml").write_text(settings)
    found = json.loads(finclaw("extensions", "--json", "--state", tmp_path).out)["extensions"]
    assert [each["name"] for each in found if not each["why"]] == expected


@pytest.mark.spec("EX-08", "MW-08")
def test_the_list_shows_who_adds_what_in_order(listed: Listed) -> None:
    state = listed(FULL)
    found = json.loads(finclaw("extensions", "--json", "--state", state).out)["extensions"]
    assert [each["name"] for each in found][:5] == ["basics", "undo", "approvals", "conversation", "finance"]
    assert [each["name"] for each in found][-3:] == ["memory", "web", "garden"], "default ones, then those listed"
    assert all(each["built_in"] and each["why"] for each in found[:-3])
    assert found[-1] == {
        "name": "garden",
        "origin": str(state / "mine.py"),
        "built_in": False,
        "why": "",
        "layers": [{"ring": "turn", "name": "garden.nothing", "priority": 4}],
        "tools": ["garden__water"],
        "commands": [],
        "sections": ["Garden"],
        "context": ["soil"],
        "checks": 1,
        "tasks": ["every 90 s"],
        "cli": ["plant"],
        "routes": ["POST beds/new"],
        "doctor": ["soil", "sun"],
        "database": True,
    }
    shown = finclaw("extensions", "--state", state).out
    assert f"garden  ({state / 'mine.py'})" in shown
    assert "  layers    turn garden.nothing (priority 4)" in shown
    assert "  checks    1 of what may be seen" in shown


def test_a_list_that_cannot_be_loaded_says_why(listed: Listed) -> None:
    state = listed("def register(api):\n    api.cli.command('doctor', '', print, print)\n")
    ended = finclaw("extensions", "--state", state)
    assert ended.code == 1
    assert "line 2): `finclaw doctor` belongs to FinClaw itself; choose another name" in ended.line()
    (state / "finclaw.yaml").write_text("agent:\n  extensions: [./mien.py]\n")
    ended = finclaw("extensions", "--state", state)
    assert ended.code == 2
    assert "did you mean mine.py?" in ended.line()


# ── the doctor ──────────────────────────────────────────────────────────────────────────────────────────────


def findings(state: Path) -> tuple[int, list[tuple[str, str, str]]]:
    ended = finclaw("doctor", "--json", "--state", state)
    told = [(each["check"], each["level"], each["says"]) for each in json.loads(ended.out)["findings"]]
    return ended.code, [each for each in told if each[0] in ("extensions", "garden", "mine")]


def test_the_doctor_asks_extensions_too(listed: Listed) -> None:
    code, told = findings(listed(FULL))
    assert code == 0
    assert told[0][:2] == ("extensions", "ok")
    assert told[0][2].startswith("garden; ")
    assert told[1:] == [("garden", "ok", "soil: moist"), ("garden", "warn", "sun: it is dark")]


def test_the_doctor_survives_whatever_an_extension_does(listed: Listed) -> None:
    state = listed(
        "def register(api):\n"
        "    def broken(): raise RuntimeError('no pulse')\n"
        "    api.doctor.check('heart', broken)\n"
        "    api.doctor.check('head', lambda: 'fine')\n"
    )
    code, told = findings(state)
    assert code == 1
    assert told[1:] == [
        ("mine", "bad", "heart: the check itself failed (RuntimeError: no pulse)"),
        ("mine", "bad", "head: the check gave str, not a Finding"),
    ]
    for text in ("boom\n", "import sys\nsys.exit()\n", "def register(api):\n    api.x\n"):
        code, told = findings(listed(text))
        assert code == 1
        assert [each[:2] for each in told] == [("extensions", "bad")]
        assert told[0][2].startswith(f"extension 'mine' ({state / 'mine.py'}, line ")


def test_the_doctor_warns_of_a_file_that_is_somebody_elses(listed: Listed, monkeypatch: pytest.MonkeyPatch) -> None:
    file = listed(FULL) / "mine.py"
    if os.geteuid() == 0:
        os.chown(file, 4_711, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 4_711)
    settings = Settings(state=file.parent, agent=AgentSettings(extensions=(str(file),)))
    assert next(checks(settings)).says == f"{file} belongs to another user"


def test_the_doctor_warns_of_files_that_others_can_change(listed: Listed) -> None:
    state = listed(FULL)
    (state / "mine.py").chmod(0o666)
    _, told = findings(state)
    assert told[0] == ("extensions", "warn", f"other users can change {state / 'mine.py'}")
    assert told[1][:2] == ("extensions", "ok")
