"""Skills from a directory: folders with a `SKILL.md`, given when they are asked for, and short texts beside them."""

from finclaw.builtins.own_settings import read_settings
from finclaw.builtins.skills.extension import Skills, SkillSettings
from finclaw.kernel.extension import ExtensionApi

name = Skills.name


def register(api: ExtensionApi) -> None:
    Skills(read_settings(api, SkillSettings)).register(api)
