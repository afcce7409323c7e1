"""From what was typed to settings. Here, and only here, the process's environment is handed to the configuration."""

import os
from argparse import Namespace
from collections.abc import Mapping

from finclaw.config.load import load_settings
from finclaw.config.schema import Settings


def settings_from(args: Namespace, overrides: Mapping[str, object] | None = None) -> Settings:
    return load_settings(state=args.state, config=args.config, environ=os.environ, overrides=overrides or {})
