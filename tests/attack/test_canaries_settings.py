"""Secrets in the settings, where they should never stand: no complaint, list or look of the doctor repeats one.

A setting that takes a secret takes a reference to it, and no message about it repeats what it holds. Anywhere else a
person sees what they wrote, so that they find it; but not if it looks like a key. What has no form of its own, such
as a password in the place of a port, nobody can tell from a mistake.
"""

from pathlib import Path
from typing import Final

import pytest
from tests.attack.canary import KEY
from tests.attack.canary_settings import COMMANDS
from tests.cli.in_process import typed
from tests.cli.terminal import Ended

pytestmark = pytest.mark.spec("DX-32")

LONG: Final = "y" * 45 + f" {KEY}"
"""Such that whoever cuts first and looks for secrets then finds half of one."""

FILES: Final[dict[str, str]] = {
    "a value of another type": f"web: {{port: {KEY}}}",
    "a value that is cut": f"web: {{port: '{LONG}'}}",
    "a value that must be one of some": f"market: {KEY}",
    "a list of them": f"agent: {{fallbacks: {KEY}}}",
    "a section": f"web: {KEY}",
    "a host": f"web: {{host: '{KEY}'}}",
    "a key": f"{KEY}: true",
    "a key of a section": f"web: {{{KEY}: true}}",
    "a key that is cut": f"'{LONG}': true",
    "a key twice": f"{KEY}: 1\n{KEY}: 2",
    "a tag": f"market: !{KEY} demo",
    "an anchor": f"market: *{KEY}",
    "no YAML": f"market: [{KEY}",
    "no YAML at all": f"market: demo: '{KEY}'",
    "only a text": KEY,
    "a secret in its own place": f"providers: {{openai: {{key: {KEY}}}}}",
    "secrets in their own place": f"providers: {{openai: {{keys: {{work: {KEY}}}}}}}",
    "the name of a secret": f"providers: {{openai: {{keys: {{{KEY}: env:NOT_SET}}}}}}",
    "a reference that is one": f"providers: {{openai: {{key: 'env:{KEY}'}}}}",
    "a file that is one": f"providers: {{openai: {{key: 'file:/no/{KEY}'}}}}",
    "a model": f"agent: {{model: {KEY}}}",
    "a model of a provider": f"agent: {{model: openai/{KEY}}}",
    "an address": f"providers: {{box: {{protocol: openai, url: 'ftp://me:{KEY}@host/'}}}}",
    "an address that may be": f"providers: {{box: {{protocol: openai, url: 'http://me:{KEY}@127.0.0.1:9/'}}}}",
    "a rule": f"tools: {{rules: [{{tools: {KEY}, verdict: allow}}]}}",
    "a verdict": f"tools: {{rules: [{{tools: '*', verdict: {KEY}}}]}}",
    "a reason": f"tools: {{rules: [{{tools: '*', verdict: deny, reason: {KEY}, nonsense: 1}}]}}",
    "a person": f"people: [{{id: {KEY}}}]",
    "an approver": f"approvals: {{approvers: [{KEY}]}}",
    "an extension": f"agent: {{extensions: [./{KEY}.py]}}",
    "an extension's setting": f"agent: {{extensions: [{{use: finclaw.builtins.workspace, settings: {{{KEY}: 1}}}}]}}",
    "a root": f"agent: {{extensions: [{{use: finclaw.builtins.workspace, settings: {{root: /no/{KEY}}}}}]}}",
    "a server's header": (
        "agent: {extensions: [{use: finclaw.builtins.mcp.extension, settings: "
        f"{{servers: {{desk: {{url: 'https://desk.example/', headers: {{Authorization: {KEY}}}}}}}}}}}]}}"
    ),
    "a server's environment": (
        "agent: {extensions: [{use: finclaw.builtins.mcp.extension, settings: "
        f"{{servers: {{desk: {{command: [/bin/false], env: {{KEY: {KEY}}}}}}}}}}}]}}"
    ),
}
FURTHER: Final = (("doctor",),)
"""The same findings as with `--json`, in other words."""


def said(ended: Ended) -> str:
    assert ended.out + ended.err, "nothing was said at all"
    return ended.out + ended.err


@pytest.mark.parametrize("commands", [COMMANDS, pytest.param(FURTHER, marks=pytest.mark.soak)])
@pytest.mark.parametrize("where", FILES)
def test_no_command_repeats_it(tmp_path: Path, where: str, commands: tuple[tuple[str, ...], ...]) -> None:
    (tmp_path / "finclaw.yaml").write_text(FILES[where])
    for command in commands:
        text = said(typed(*command, "--state", tmp_path))
        assert KEY[:11] not in text, f"{' '.join(command)} says: {text}"


@pytest.mark.parametrize("name", ["FINCLAW_WEB__PORT", "FINCLAW_MARKET", "FINCLAW_AGENT__MODEL", f"FINCLAW_{KEY}"])
def test_no_variable_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, KEY)
    for command in COMMANDS:
        text = said(typed(*command, "--state", tmp_path))
        assert KEY[:11] not in text, f"{' '.join(command)} says: {text}"


@pytest.mark.parametrize(
    "words",
    [
        (KEY,),
        ("trace", KEY),
        ("replay", KEY),
        ("sessions", "show", KEY),
        ("sessions", "export", KEY),
        ("approvals", "show", KEY),
        ("approvals", "approve", KEY),
        ("serve", "--port", KEY),
        ("ask", "hello", "--session", KEY * 9),
        ("config", "check", "--config", f"/no/{KEY}"),
        ("config", KEY),
        ("status", KEY),
        ("status", f"--{KEY}"),
        ("status", f"--state=/dev/null/{KEY}"),
    ],
)
def test_a_line_about_what_was_typed_does_not_repeat_it(tmp_path: Path, words: tuple[str, ...]) -> None:
    where = () if any(word.startswith("--state") for word in words) else ("--state", str(tmp_path))
    ended = typed(*words, *where)
    assert ended.code != 0
    assert KEY[:11] not in said(ended), said(ended)
