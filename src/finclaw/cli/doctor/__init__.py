"""The checks of `finclaw doctor`: each looks at one part of an installation and gives findings."""

from typing import Literal

from msgspec import Struct

Level = Literal["ok", "warn", "bad"]


class DoctorFinding(Struct, frozen=True):
    check: str
    level: Level
    says: str
    advice: str = ""

    @property
    def line(self) -> str:
        return f"{self.says}; {self.advice}" if self.advice else self.says


def ok(check: str, says: str) -> DoctorFinding:
    return DoctorFinding(check, "ok", says)


def warn(check: str, says: str, advice: str = "") -> DoctorFinding:
    return DoctorFinding(check, "warn", says, advice)


def bad(check: str, says: str, advice: str = "") -> DoctorFinding:
    return DoctorFinding(check, "bad", says, advice)
