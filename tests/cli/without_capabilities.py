"""Runs a command as an ordinary user's process runs: also as root it has none of the administrator's capabilities."""

import ctypes
import os
import sys

_DROP_FROM_BOUNDING_SET = 24
_CAPABILITIES = 41

if os.getuid() == 0:
    libc = ctypes.CDLL(None, use_errno=True)
    for each in range(_CAPABILITIES):
        libc.prctl(_DROP_FROM_BOUNDING_SET, each, 0, 0, 0)
os.execv(sys.argv[1], sys.argv[1:])
