"""Our table of addresses against the interpreter's flags, and every spelling of a private one against the door."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from finclaw.errors import ToolDenied
from finclaw.fetch.address import Address, is_intranet, is_public
from finclaw.fetch.gate import AddressGate
from finclaw.fetch.location import read_location

STRICTER: list[IPv4Network | IPv6Network] = [
    *(IPv4Network(each) for each in ("168.63.129.16/32", "192.0.0.0/24", "192.88.99.0/24")),
    *(IPv6Network(each) for each in ("2001::/23", "2002::/16", "3fff::/20", "64:ff9b:1::/48")),
]
"""Where we refuse what a version of the interpreter may call global."""

SPECIAL = [
    *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24"),
    *("192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
    *("224.0.0.0/4", "240.0.0.0/4"),
]
special_v4 = st.sampled_from([IPv4Network(each) for each in SPECIAL]).flatmap(
    lambda network: st.integers(int(network[0]), int(network[-1])).map(IPv4Address)
)
any_v4 = st.one_of(st.ip_addresses(v=4), special_v4)
embedding = st.sampled_from(["::ffff:0:0", "::", "64:ff9b::", "64:ff9b:1::", "2001:db8::", "::ffff:0:0:0"])
embedded = st.tuples(embedding, any_v4).map(lambda both: IPv6Address(int(IPv6Address(both[0])) | int(both[1])))
six_to_four = any_v4.map(lambda inner: IPv6Address(0x2002 << 112 | int(inner) << 80))
any_v6 = st.one_of(st.ip_addresses(v=6), embedded, six_to_four)


def flags_say_public(address: Address) -> bool:
    """The independent judge: the standard library's own flags, and where we mean to be stricter."""
    if any(address in network for network in STRICTER):
        return False
    if isinstance(address, IPv6Address):
        if address in IPv6Network("64:ff9b::/96"):
            return flags_say_public(IPv4Address(int(address) & 0xFFFF_FFFF))
        if address.ipv4_mapped is not None or address.is_site_local or (int(address) >> 32) & 0xFDFF_FFFF == 0x5EFE:
            return False
    closed = address.is_multicast or address.is_reserved or address.is_unspecified or address.is_loopback
    return address.is_global and not (closed or address.is_link_local or address.is_private)


@given(any_v4)
@example(IPv4Address("168.63.129.16"))
@example(IPv4Address("8.8.8.8"))
def test_we_and_the_interpreter_agree_on_ipv4(address: IPv4Address) -> None:
    assert is_public(address) == flags_say_public(address)


@given(any_v6)
@example(IPv6Address("2606:4700:4700::1111"))
@example(IPv6Address("64:ff9b::808:808"))
def test_we_and_the_interpreter_agree_on_ipv6(address: IPv6Address) -> None:
    assert is_public(address) == flags_say_public(address)


@given(any_v4)
def test_an_ipv4_address_in_another_is_never_more_public_than_bare(inner: IPv4Address) -> None:
    value = int(inner)
    forms = [value, 0xFFFF << 32 | value, 0x64_FF9B << 96 | value, 0x2002 << 112 | value << 80]
    forms += [0x2606_4700 << 96 | 0x5EFE << 32 | value, 0x2001 << 112 | (value ^ 0xFFFF_FFFF)]
    assert is_public(inner) or not any(is_public(IPv6Address(form)) for form in forms)


@pytest.mark.parametrize("text", ["1.1.1.1", "8.8.8.8", "93.184.215.14", "2606:4700::1111", "2a00:1450:4001::200e"])
def test_the_internet_is_public(text: str) -> None:
    assert is_public(ip_address(text))
    assert not is_intranet(ip_address(text))


# ── spellings ───────────────────────────────────────────────────────────────────────────────────────────────

WIDE = str.maketrans("0123456789.", "０１２３４５６７８９．")
IDEOGRAPHIC = str.maketrans("0123456789.", "𝟎𝟏𝟐𝟑𝟒𝟓𝟔𝟕𝟖𝟗。")


def number(draw: st.DrawFn, value: int) -> str:
    digits = "0" * draw(st.integers(0, 3))
    return draw(st.sampled_from([str(value), f"0{digits}{value:o}", f"0x{digits}{value:x}", f"0X{value:X}"]))


@st.composite
def spellings(draw: st.DrawFn) -> str:
    """A private IPv4 address in one of the ways in which somebody's resolver reads it."""
    address = draw(special_v4)
    first, second, third, fourth = address.packed
    value = int(address)
    parts = draw(
        st.sampled_from(
            [
                [value],
                [first, value & 0xFF_FFFF],
                [first, second, value & 0xFFFF],
                [first, second, third, fourth],
            ]
        )
    )
    text = ".".join(number(draw, part) for part in parts) + draw(st.sampled_from(["", "."]))
    form = draw(st.sampled_from(["plain", "wide", "ideographic", "percent"]))
    if form == "percent":
        return "".join(f"%{ord(sign):02x}" for sign in text)
    return {"plain": text, "wide": text.translate(WIDE), "ideographic": text.translate(IDEOGRAPHIC)}[form]


@pytest.mark.spec("DX-52")
@given(spellings(), st.sampled_from(["http", "https"]))
async def test_no_spelling_of_a_private_address_passes(host: str, scheme: str) -> None:
    async def never(name: str, port: int) -> list[str]:
        raise AssertionError(f"{name} was looked up")

    with pytest.raises(ToolDenied):
        await AddressGate(resolve=never).addresses(read_location(f"{scheme}://{host}/"))


@given(st.ip_addresses(v=4).filter(is_public) | st.ip_addresses(v=6).filter(is_public))
async def test_a_public_address_passes_as_itself(address: Address) -> None:
    host = f"[{address}]" if address.version == 6 else str(address)
    assert await AddressGate().addresses(read_location(f"http://{host}/")) == (address,)
