"""The policy, which decides whether a tool may run. Nine stages judge every call."""

from finclaw.policy.verdict import Consent, Verdict, nobody

__all__ = ["Consent", "Verdict", "nobody"]
