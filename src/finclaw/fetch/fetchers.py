"""Fetchers by their rules, for one process: whatever they are asked for, a host is spared by all of them together."""

from collections.abc import Callable

from finclaw.fetch.gate import AddressGate
from finclaw.fetch.revalidation import HostSlots, ReplyCache
from finclaw.kernel.fetch import Fetcher, FetchReply, FetchRequest, FetchRules


def open_fetchers() -> Callable[[FetchRules], Fetcher]:
    slots = HostSlots()
    kept = ReplyCache()
    return lambda rules: _LazyFetcher(AddressGate(rules), slots, kept)


class _LazyFetcher:
    def __init__(self, gate: AddressGate, slots: HostSlots, kept: ReplyCache) -> None:
        self._gate = gate
        self._slots = slots
        self._kept = kept
        self._fetcher: Fetcher | None = None

    async def fetch(self, request: FetchRequest) -> FetchReply:
        if self._fetcher is None:
            from finclaw.fetch.client import HttpFetcher  # noqa: PLC0415  `cold_cpu`: aiohttp

            self._fetcher = HttpFetcher(self._gate, slots=self._slots, kept=self._kept)
        return await self._fetcher.fetch(request)
