"""`finclaw config check` and what shows only when the things it names are loaded."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.terminal import finclaw


def check(state: Path, text: str) -> tuple[int, str]:
    (state / "finclaw.yaml").write_text(text)
    ended = finclaw("config", "check", "--state", state)
    assert ended.err == ""
    return ended.code, ended.out


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        ("nosuch", "'nosuch'"),
        ("./no.py", "no.py"),
        ("./broken.py", "NameError"),
        ("./raises.py", "no register today"),
        ("timinng", "timing"),
    ],
)
def test_an_extension_that_cannot_be_loaded_is_a_problem(tmp_path: Path, listed: str, said: str) -> None:
    """User trial M4: it said valid, and `serve` refused."""
    (tmp_path / "broken.py").write_text("name = 'broken'\noops\n")
    (tmp_path / "raises.py").write_text(
        "name = 'raises'\n\n\ndef register(api):\n    raise ValueError('no register today')\n"
    )
    code, out = check(tmp_path, f"agent: {{extensions: ['{listed}']}}\n")
    assert code == 1
    assert len(out.splitlines()) == 1
    assert said in out


def test_every_extension_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    code, out = check(tmp_path, "agent: {extensions: [nosuch, timing, ./no.py]}\n")
    assert (code, len(out.splitlines())) == (1, 2)


BOX = "providers: {box: {kind: openai, base_url: 'http://127.0.0.1:9/v1'}}\n"


@pytest.mark.parametrize("command", [("config", "check"), ("doctor",)])
def test_a_window_too_small_for_the_prompt_is_a_problem(tmp_path: Path, command: tuple[str, ...]) -> None:
    """User trial M4: every message failed, with the advice to send a shorter one."""
    (tmp_path / "finclaw.yaml").write_text(BOX + "agent: {model: box/m}\nmodels: {box/m: {window: 1200}}\n")
    ended = finclaw(*command, "--state", tmp_path)
    assert ended.code == 1
    assert "the window of box/m is 1,200 tokens, and the prompt and the tools alone need about " in ended.out


def test_a_fallback_with_too_small_a_window_is_named(tmp_path: Path) -> None:
    settings = "agent: {model: offline/demo, fallbacks: [box/m]}\nmodels: {box/m: {window: 2000}}\n"
    code, out = check(tmp_path, BOX + settings)
    assert (code, out.partition(" is 2,000")[0]) == (1, "the window of box/m")


def test_the_window_that_it_advises_is_enough(tmp_path: Path) -> None:
    settings = BOX + "agent: {model: box/m}\nmodels: {box/m: {window: WINDOW}}\n"
    _, out = check(tmp_path, settings.replace("WINDOW", "1200"))
    advised = out.partition("give it ")[2].split()[0].replace(",", "")
    assert check(tmp_path, settings.replace("WINDOW", advised))[0] == 0
    assert check(tmp_path, settings.replace("WINDOW", str(int(advised) - 1_024)))[0] == 1


# ── a file that is not read ─────────────────────────────────────────────────────────────────────────────────


def test_a_settings_file_here_that_is_not_read_is_named(tmp_path: Path) -> None:
    """User trial M3: the tutorial's file was passed over in silence."""
    here, state = tmp_path / "here", tmp_path / "state"
    here.mkdir()
    (here / "finclaw.yaml").write_text("web: {port: 9999}\n")
    for command in (["extensions"], ["config", "check"], ["tools"], ["models"]):
        told = finclaw(*command, "--state", state, cwd=here)
        assert told.code == 0
        assert f"{here}/finclaw.yaml is not read" in told.line()
        assert told.line().endswith("add: --config finclaw.yaml")
        assert str(state / "finclaw.yaml") in told.line()
        assert finclaw(*command, "--state", state, "--config", "finclaw.yaml", cwd=here).err == ""
        assert finclaw(*command, "--state", here, cwd=here).err == ""


NO_AIOGRAM = "raise ModuleNotFoundError(\"No module named 'aiogram'\", name='aiogram')\n"


@pytest.mark.parametrize(
    ("channel", "said"),
    [
        ("{kind: telegarm}", "channels.bot.kind is 'telegarm', which no extension provides; did you mean telegram?"),
        ("{kind: telegram, secrets: {token: env:T}}", "channels.bot: the kind telegram needs the package aiogram"),
        ("{kind: mailbox}", ""),
    ],
)
def test_a_channel_that_serve_refuses_is_a_problem(tmp_path: Path, channel: str, said: str) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "aiogram.py").write_text(NO_AIOGRAM)
    (tmp_path / "finclaw.yaml").write_text(f"channels: {{bot: {channel}}}\n")
    environ: Any = {"PYTHONPATH": str(tmp_path / "lib"), "T": "123456:" + "a" * 35}
    checked = finclaw("config", "check", "--state", tmp_path, **environ)
    looked = finclaw("doctor", "--state", tmp_path, **environ)
    listed = json.loads(finclaw("channels", "list", "--json", "--state", tmp_path, **environ).out)
    assert (checked.code, "channels" in looked.out) == (1 if said else 0, bool(said))
    assert said in checked.out
    assert said in looked.out
    if said:
        started = finclaw("serve", "--port", "0", "--state", tmp_path, **environ)
        assert checked.out.strip() in started.err, "the same words"
    assert listed["channels"][0]["problem"] == checked.out.strip() if said else not listed["channels"][0]["problem"]


def test_the_list_hears_nobody_on_a_channel_that_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "finclaw.yaml").write_text("channels: {bot: {kind: telegarm}}\n")
    listed = finclaw("channels", "list", "--state", tmp_path).out
    assert "everybody" not in listed
