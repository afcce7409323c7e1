"""A calculator that is exact, says how it understood what was written, and refuses what could mean two things."""

from finclaw.builtins.calculator.extension import Calculator

__all__ = ["Calculator"]
