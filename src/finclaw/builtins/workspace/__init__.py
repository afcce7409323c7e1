"""Files of one directory that the operator has named, for reading: nothing outside of it, and nothing hidden."""

from finclaw.builtins.own_settings import read_settings
from finclaw.builtins.workspace.extension import Workspace, WorkspaceSettings
from finclaw.kernel.extension import ExtensionApi

name = Workspace.name


def register(api: ExtensionApi) -> None:
    Workspace(read_settings(api, WorkspaceSettings)).register(api)
