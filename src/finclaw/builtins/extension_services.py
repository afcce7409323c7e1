"""Services of the running gateway for the terminal commands of extensions, over HTTP.

Whoever holds the state directory is the only one to write there. So a command of another process asks it.
"""

from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from finclaw.approvals.people import TOKEN_HOLDER
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.port import RouteReply, RouteRequest
from finclaw.kernel.record import Accepted

NAME: Final = "errands"  # the path under which clients of earlier releases ask, too


class ServiceRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request of an extension's command: whose it is, and about which session."""

    extension: str
    session: str = ""


class RememberRequest(ServiceRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    value: Any = None


class SayRequest(ServiceRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    inbound: Inbound


E = TypeVar("E", bound=ServiceRequest)


class ExtensionServices:
    name = NAME

    def __init__(
        self,
        recall: Callable[[str, str], Awaitable[Any]],
        remember: Callable[[str, str, Any], Awaitable[None]],
        accept: Callable[[Inbound, str], Awaitable[Accepted]],
        listed: Callable[[], Collection[str]],
    ) -> None:
        """`listed` names the extensions that are not our own: nobody may speak in the gateway's name."""
        self._recall = recall
        self._remember = remember
        self._accept = accept
        self._listed = listed

    def register(self, api: ExtensionApi) -> None:
        recall = self._route(ServiceRequest, lambda it: self._recall(it.extension, it.session))
        remember = self._route(RememberRequest, lambda it: self._remember(it.extension, it.session, it.value))
        api.routes.add("POST", "recall", recall)
        api.routes.add("POST", "remember", remember)
        api.routes.add("POST", "say", self._route(SayRequest, self._say))

    def _route(
        self, kind: type[E], run: Callable[[E], Awaitable[object]]
    ) -> Callable[[RouteRequest], Awaitable[RouteReply]]:
        async def answer(request: RouteRequest) -> RouteReply:
            if f"web:{request.principal}:{request.principal}" != TOKEN_HOLDER:
                return _refusal(403, "errands are run for whoever holds this machine's token, and for nobody else")
            try:
                errand = msgspec.json.decode(request.body, type=kind)
            except msgspec.DecodeError as error:
                return _refusal(400, f"the body does not fit: {error}")
            if errand.extension not in self._listed():
                says = f"it runs without the extension {errand.extension!r}; stop it and start it with these settings"
                return _refusal(422, says)
            return RouteReply(body=msgspec.json.encode(await run(errand)))

        return answer

    async def _say(self, errand: SayRequest) -> Accepted:
        # Whatever it claims to be: an extension's own words are all that can be said here.
        return await self._accept(replace(errand.inbound, from_extension=errand.extension), errand.session)


def _refusal(status: int, why: str) -> RouteReply:
    return RouteReply(body=msgspec.json.encode({"error": {"code": "refused", "message": why}}), status=status)
