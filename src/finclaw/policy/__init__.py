"""The policy, which decides whether a tool may run. Nine stages judge every call.

`policy.py` asks them, and `stages.py` says what each of them does.
"""

from finclaw.policy.verdict import Consent, Verdict, nobody

__all__ = ["Consent", "Verdict", "nobody"]
