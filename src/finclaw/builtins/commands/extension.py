"""The extension with these commands."""

from finclaw.builtins.commands.operator import operator_commands
from finclaw.builtins.commands.options import option_commands
from finclaw.builtins.commands.person import person_commands
from finclaw.builtins.commands.reports import report_commands
from finclaw.builtins.commands.sources import CommandSources
from finclaw.kernel.extension import ExtensionApi


class ConversationCommands:
    name = "conversation"

    def __init__(self, sources: CommandSources) -> None:
        self._sources = sources

    def register(self, api: ExtensionApi) -> None:
        for make in (person_commands, report_commands, option_commands, operator_commands):
            for command in make(self._sources):
                api.commands.register(command)
