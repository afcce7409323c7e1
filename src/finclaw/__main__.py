"""`python -m finclaw` is `finclaw`."""

import sys

from finclaw.cli.main import main

sys.exit(main())
