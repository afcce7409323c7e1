"""The composition root: the one place where all parts of a gateway are made and connected."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from finclaw.composition.gateway import build

__all__ = ["build"]


def __getattr__(name: str) -> Any:
    if name == "build":
        from finclaw.composition.gateway import build  # noqa: PLC0415  `cold_cpu`: not for a look at extensions

        return build
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
