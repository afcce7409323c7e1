"""The routes for persons: who they are and how they like to be answered. Roles come from the settings alone."""

import msgspec
from aiohttp import web

from finclaw.errors import ConfigError, SessionError
from finclaw.gateway import Gateway
from finclaw.web.api import HttpRoute
from finclaw.web.errors import ApiError
from finclaw.web.principal import Principal
from finclaw.web.respond import json_response
from finclaw.web.sessions_view import PeopleView, PersonBody


class PeopleApi:
    """The handlers for persons."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def get_people(self, request: web.Request, _: Principal) -> web.Response:
        who = request.query.get("who")
        if who is None:
            found = await self._gateway.persons.list_people(1_000, request.query.get("after", ""))
            return json_response(PeopleView(found))
        one = await self._gateway.persons.find(who)
        return json_response(PeopleView([] if one is None else [one]))

    async def post_people(self, request: web.Request, _: Principal) -> web.Response:
        if request.content_type != "application/json":
            raise ApiError(415, "not_json", "send JSON, with the header `Content-Type: application/json`")
        try:
            body = msgspec.json.decode(await request.read(), type=PersonBody)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:  # its message names the field
            raise ApiError(400, "bad_request", f"the body does not fit: {error}") from error
        try:
            return json_response(await self._gateway.persons.change(body.who, body.fields))
        except ConfigError as error:
            raise ApiError(400, "bad_request", str(error)) from error
        except SessionError as error:
            raise ApiError(404, "no_such_person", str(error)) from error

    def routes(self) -> tuple[HttpRoute, ...]:
        return (
            HttpRoute("GET", "/api/v1/people", "sessions", self.get_people),
            HttpRoute("POST", "/api/v1/people", "sessions", self.post_people),
        )
