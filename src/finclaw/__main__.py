"""`python -m finclaw` is `finclaw`: like the console script, it imports nothing from the working directory."""

import os
import sys

if not sys.flags.safe_path and sys.path and sys.path[0] in ("", os.getcwd()):
    del sys.path[0]  # Python puts it there for -m; a file such as `msgspec.py` in it would run as part of us

from finclaw.cli.main import main

sys.exit(main())
