"""An extension with a tool that moves money and one that does not, for whoever asks what may run."""

BROKER = """
from msgspec import Struct
from finclaw.kernel.port import ToolOutput
from finclaw.tools.define import tool

name = "broker"

def register(api):
    @tool("order__place", "Buys.", group="finance", transactional=True)
    async def place(args: Struct, scope) -> ToolOutput:
        return ToolOutput("bought")

    @tool("garden__water", "Waters.")
    async def water(args: Struct, scope) -> ToolOutput:
        return ToolOutput("wet")

    api.tools.register(place)
    api.tools.register(water)
"""
