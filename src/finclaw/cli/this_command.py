"""What to type for this very program, wherever it was started from."""

import shutil
import sys
from pathlib import Path


def this_command() -> str:
    """Its name where the shell finds it, else the way to it."""
    here = Path(sys.argv[0])
    if here.name == "__main__.py":
        return f"{Path(sys.executable).name} -m finclaw"
    found = shutil.which(here.name)
    if found is not None and Path(found).resolve() == here.resolve():
        return here.name
    try:
        return str(here.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(here)
