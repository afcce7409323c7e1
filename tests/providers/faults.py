"""All that a model's server and the line to it can do wrong."""

from collections.abc import Sequence

from tests.providers.answer_faults import calls, contents, forms
from tests.providers.fault import Fault
from tests.providers.line_faults import broken_lines, errors, refusals, silences

FAULTS: Sequence[Fault] = (
    *refusals(),
    *errors(),
    *broken_lines(),
    *silences(),
    *forms(),
    *contents(),
    *calls(),
)
