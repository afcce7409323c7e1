"""Ids: unique in the world, also where a program that embeds us forks."""

import subprocess
import sys

FORKS = """
import os, sys
from finclaw.kernel.envelope import new_id
new_id()
child = os.fork()
sys.stdout.write(new_id() + "\\n")
sys.stdout.flush()
if child:
    os.waitpid(child, 0)
"""


def test_a_forked_process_does_not_draw_its_parents_ids() -> None:
    """A message with an id that was seen before is taken for a repetition, and not answered."""
    drawn = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=60, check=True)
    assert len(set(drawn.stdout.split())) == 2, drawn.stdout
