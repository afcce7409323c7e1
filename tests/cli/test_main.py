"""What is typed, and the one line that ends every failure."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.terminal import clean_environment, finclaw

from finclaw.cli.main import main
from finclaw.cli.parser import build_parser


def test_what_can_be_typed() -> None:
    parse = build_parser().parse_args
    serve = parse(["serve", "--demo", "--port", "0", "--state", "s", "--config", "c"])
    assert (serve.market, serve.port, serve.state, serve.config) == ("demo", 0, Path("s"), Path("c"))
    assert parse(["serve", "--live"]).market == "live"
    ask = parse(["ask", "What", "is", "AAPL?", "--json", "--session", "desk", "--demo"])
    assert (ask.text, ask.json, ask.session, ask.market) == (["What", "is", "AAPL?"], True, "desk", "demo")
    assert parse(["ask", "-"]).text == ["-"]
    assert parse(["ask", "--", "--odd"]).text == ["--odd"]
    assert parse(["status", "--json"]).json


@pytest.mark.parametrize("command", build_parser().commands)
def test_a_command_alone_is_told_as_among_the_others(command: str) -> None:
    alone, among = build_parser(only=command).commands, build_parser().commands
    assert list(alone) == [command]
    assert alone[command].format_help() == among[command].format_help()
    for action, parser in among[command].commands.items():
        assert alone[command].commands[action].format_help() == parser.format_help()


@pytest.mark.parametrize(
    "argv",
    [
        ["serve", "--demo", "--live"],
        ["serve", "--port", "x"],
        ["serve", "--port", "65536"],
        ["serve", "--port", "-1"],
        ["serve", "--state", ""],
        ["serve", "--por", "1"],
        ["nonsense"],
        ["ask", "--nonsense", "hi"],
    ],
)
def test_what_cannot_be_typed(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(argv)
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("finclaw: ")


def test_no_command_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "serve" in capsys.readouterr().err


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("finclaw ")


def test_a_bad_key_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "finclaw.yaml").write_text("web:\n  prot: 1\n")
    for command in (["serve"], ["ask", "hi"], ["status"]):
        ended = finclaw(*command, "--state", tmp_path)
        assert ended.code == 2
        assert ended.line().endswith("finclaw.yaml line 2: unknown key web.prot; did you mean web.port?")
        assert not ended.out


def test_a_state_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ended = finclaw("ask", "hi", FINCLAW_HOME=str(tmp_path / "file"))
    assert ended.code == 2
    assert "is a file, not a directory" in ended.line()


@pytest.mark.parametrize("stdin", ["", " \n"])
def test_no_question(tmp_path: Path, stdin: str) -> None:
    for text in ([], ["-"], [""]):
        ended = finclaw("ask", *text, "--state", tmp_path, stdin=stdin)
        assert ended.code == 2
        assert "there is no question" in ended.line()


def test_a_question_that_is_no_text(tmp_path: Path) -> None:
    assert "not UTF-8" in finclaw("ask", "--state", tmp_path, stdin=b"\xff\xfe").line()
    assert "not UTF-8" in finclaw("ask", "--state", tmp_path, os.fsdecode(b"\xff")).line()
    assert "--session" in finclaw("ask", "hi", "--session", "", "--state", tmp_path).line()


def test_an_interrupt_is_quiet(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("finclaw.cli.main._run", interrupt)
    assert main([]) == 130
    assert capsys.readouterr().err == ""


def test_a_reader_who_leaves_is_no_news(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "finclaw", "status", "--state", str(tmp_path)],
        stdout=writer,
        stderr=subprocess.PIPE,
        env=clean_environment(),
        timeout=60,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


def test_an_answer_in_any_encoding(tmp_path: Path) -> None:
    ended = finclaw("status", "--state", tmp_path / "상태", PYTHONIOENCODING="ascii")
    assert (ended.code, ended.err) == (0, "")


def test_asking_loads_no_web_server() -> None:
    code = "import sys, finclaw.cli.commands.ask, finclaw.cli.client; print({'aiohttp', 'yaml'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "set()"


def test_the_interpreter_does_not_look_for_garbage_at_its_end() -> None:
    # What was registered before main is asked after all that main has registered.
    program = """if True:
        import atexit, gc, sys
        atexit.register(lambda: print(len(gc.get_objects()), gc.get_freeze_count() > 10_000))
        from finclaw.cli.main import main
        sys.argv[1:] = ["--version"]
        main()
    """
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=clean_environment()
    )
    left, is_frozen = ended.stdout.splitlines()[-1].split()
    assert int(left) < 1_000
    assert is_frozen == "True"


def test_names_keep_their_capitals_in_the_help() -> None:
    """User trial C: "until ctrl-c", "tools of mcp servers"."""
    described = {name: command.description or "" for name, command in build_parser().commands.items()}
    assert described["serve"] == "Run the gateway until Ctrl-C."
    assert "MCP" in described["mcp"]
