"""The routes for persons: who they are and how they like to be answered. Roles come from the settings alone."""

from finclaw.errors import ConfigError, SessionError
from finclaw.gateway import StoredGateway
from finclaw.web.errors import ApiError
from finclaw.web.exchange import ApiReply, ApiRequest, HttpRoute, json_reply, read_json
from finclaw.web.principal import Principal
from finclaw.web.sessions_view import PeopleView, PersonBody


class PeopleApi:
    """The handlers for persons."""

    def __init__(self, gateway: StoredGateway) -> None:
        self._gateway = gateway

    async def get_people(self, request: ApiRequest, _: Principal) -> ApiReply:
        who = request.query.get("who")
        if who is None:
            found = await self._gateway.persons.list_people(1_000, request.query.get("after", ""))
            return json_reply(PeopleView(found))
        one = await self._gateway.persons.find(who)
        return json_reply(PeopleView([] if one is None else [one]))

    async def post_people(self, request: ApiRequest, _: Principal) -> ApiReply:
        body = read_json(request, PersonBody)
        try:
            return json_reply(await self._gateway.persons.change(body.who, body.fields))
        except ConfigError as error:
            raise ApiError(400, "bad_request", str(error)) from error
        except SessionError as error:
            raise ApiError(404, "no_such_person", str(error)) from error

    def routes(self) -> tuple[HttpRoute, ...]:
        return (
            HttpRoute("GET", "/api/v1/people", "sessions", self.get_people),
            HttpRoute("POST", "/api/v1/people", "sessions", self.post_people),
        )
