"""From what was typed to settings. Here, and only here, the process's environment is handed to the configuration."""

import os
from argparse import Namespace
from collections.abc import Mapping

from finclaw.config.load import load_settings
from finclaw.config.schema import Settings


def settings_from(args: Namespace, overrides: Mapping[str, object] | None = None) -> Settings:
    return load_settings(state=args.state, config=args.config, environ=os.environ, overrides=overrides or {})


def settings_to_look(args: Namespace, overrides: Mapping[str, object] | None = None) -> Settings:
    """The same without any secret: a shell that has no keys can still look, and ask a gateway that has them."""
    return load_settings(
        state=args.state, config=args.config, environ=os.environ, overrides=overrides or {}, only_looking=True
    )
