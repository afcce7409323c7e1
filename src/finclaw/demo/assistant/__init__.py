"""An assistant for a machine with no key and no network. It knows little, says so, and invents nothing."""

from finclaw.demo.assistant.provider import OfflineProvider

__all__ = ["OfflineProvider"]
