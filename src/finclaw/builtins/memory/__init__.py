"""Memory: notes that a person asked for, kept for them alone, and told to the model when a message calls for it."""

from finclaw.builtins.memory.extension import Memory, MemorySettings
from finclaw.builtins.own_settings import read_settings
from finclaw.kernel.extension import ExtensionApi

name = Memory.name


def register(api: ExtensionApi) -> None:
    Memory(read_settings(api, MemorySettings)).register(api)
