"""Checks of what is said about a person: language tag, time zone, currency, home market, colours, compliance."""

import re
import zoneinfo
from collections.abc import Callable, Mapping
from typing import Final, get_args

from finclaw.agent.prompt.profile import ComplianceLevel
from finclaw.errors import ConfigError
from finclaw.kernel.person import ChartColors

_LANGUAGE: Final = re.compile(r"[a-z]{2,3}(-[A-Z][a-z]{3})?(-([A-Z]{2}|\d{3}))?", re.ASCII)
_MARKET: Final = re.compile(r"[A-Z][A-Z0-9]{1,11}", re.ASCII)
_LONGEST_NAME: Final = 100
CURRENCIES: Final = frozenset(
    re.findall(
        "[A-Z]{3}",
        """
    AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF
    CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG
    HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA
    MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD
    RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX
    USD UYU UZS VED VES VND VUV WST XAF XCD XOF XPF YER ZAR ZMW ZWG
    """,
    )
)
"""ISO 4217, those in use."""


def check_fields(given: Mapping[str, str]) -> dict[str, str]:
    """The values as they are kept; an empty one is taken back. Raises ConfigError for the first that is none."""
    unknown = next((name for name in given if name not in _CHECKS), None)
    if unknown is not None:
        raise ConfigError(f"a person has no {unknown!r}; there are {', '.join(_CHECKS)}")
    return {name: _CHECKS[name](text.strip()) if text.strip() else "" for name, text in given.items()}


def _check_name(text: str) -> str:
    if len(text) > _LONGEST_NAME or not text.isprintable():
        raise ConfigError(f"a name has at most {_LONGEST_NAME} printable characters; give a shorter one")
    return text


def _check_language(text: str) -> str:
    if not _LANGUAGE.fullmatch(text):
        raise ConfigError(f"{text!r} is no language tag; write one such as ko, en or en-GB")
    return text


def _check_timezone(text: str) -> str:
    if text not in zoneinfo.available_timezones():
        wanted = text.casefold().replace(" ", "_")
        near = sorted(each for each in zoneinfo.available_timezones() if wanted in each.casefold())[:3]
        hint = f"; did you mean {' or '.join(near)}?" if near else "; write one such as Asia/Seoul"
        raise ConfigError(f"{text!r} is no time zone of the IANA database{hint}")
    return text


def _check_currency(text: str) -> str:
    if text.upper() not in CURRENCIES:
        raise ConfigError(f"{text!r} is no currency of ISO 4217; write its three letters, such as KRW or USD")
    return text.upper()


def _check_market(text: str) -> str:
    if not _MARKET.fullmatch(text.upper()):
        raise ConfigError(f"{text!r} is no code of a market; write one such as KRX, NYSE or NASDAQ")
    return text.upper()


def _one_of(*words: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        if text not in words:
            raise ConfigError(f"{text!r} is none of {', '.join(words)}; write one of these")
        return text

    return check


COLORS: Final[tuple[str, ...]] = get_args(ChartColors)[1:]
COMPLIANCE: Final[tuple[str, ...]] = get_args(ComplianceLevel)
_CHECKS: Final[dict[str, Callable[[str], str]]] = {
    "name": _check_name,
    "language": _check_language,
    "timezone": _check_timezone,
    "currency": _check_currency,
    "market": _check_market,
    "colors": _one_of(*COLORS),
    "compliance": _one_of(*COMPLIANCE),
}
