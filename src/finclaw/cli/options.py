"""Settings from the options of a command. Only here is the process's environment handed to the configuration."""

import os
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path

from finclaw.config.load import FILE_NAME, load_settings, state_directory
from finclaw.config.schema import Settings


def settings_from(args: Namespace, overrides: Mapping[str, object] | None = None) -> Settings:
    return load_settings(state=args.state, config=args.config, environ=os.environ, overrides=overrides or {})


def settings_to_look(args: Namespace, overrides: Mapping[str, object] | None = None) -> Settings:
    """The same without any secret: a shell that has no keys can still look, and ask a gateway that has them."""
    return load_settings(
        state=args.state, config=args.config, environ=os.environ, overrides=overrides or {}, only_looking=True
    )


def unread_file_hint(args: Namespace) -> str:
    """A line about a settings file in the working directory that somebody may think is read; empty if there is none."""
    here = Path(FILE_NAME).absolute()
    if args.config is not None or not here.is_file():
        return ""
    read = state_directory(args.state, os.environ) / FILE_NAME
    if read.exists() and read.samefile(here):
        return ""
    there = "is read" if read.exists() else "would be read, and is not there"
    return f"{here} is not read; {read} {there}. To use the one here, add: --config {FILE_NAME}"
