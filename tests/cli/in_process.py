"""A command of the command line run in this process, which saves the start of another."""

import io
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from tests.cli.terminal import Ended

from finclaw.cli.main import main


def typed(*args: str | Path, stdin: bytes = b"") -> Ended:
    """The command in this process, which saves the start of another."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        try:
            code = main([str(arg) for arg in args])
        except SystemExit as exit:
            code = int(str(exit.code))
    return Ended(code, *(str(each.buffer.getvalue(), "utf-8") for each in (out, err)))  # pyright: ignore
