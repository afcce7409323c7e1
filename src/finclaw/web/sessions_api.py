"""The routes for sessions and their conversations, erasure and backups, turns and costs, and persons. A key in a path
is percent-encoded as a whole, its own `%` too."""

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Final, cast, get_args

import msgspec
from msgspec.structs import asdict

from finclaw.errors import ConfigError, SessionError
from finclaw.gateway import StopRequest, StoredGateway
from finclaw.kernel.fact import Fact
from finclaw.kernel.message import Message, as_seen
from finclaw.kernel.record import CostsBy, SenderId
from finclaw.kernel.store_port import DEDUPE_DAYS, Store
from finclaw.transcript.conversation_file import read_conversation, read_earlier_facts, write_conversation
from finclaw.web.errors import ApiError
from finclaw.web.exchange import ApiReply, ApiRequest, HttpRoute, json_reply, read_count, read_json
from finclaw.web.principal import Principal
from finclaw.web.view import (
    BackupView,
    ForgetBody,
    ForkBody,
    Key,
    MessagesView,
    PeopleView,
    PersonBody,
    PruneBody,
    PrunedView,
    QueueView,
    RepairBody,
    RepairView,
    SessionView,
    TurnsView,
    costs_view,
)

MOST_DAYS: Final = 3_660
LARGEST_FILE: Final = 64 * 1_048_576
"""Bytes of one conversation to import."""


class SessionsApi:
    def __init__(self, gateway: StoredGateway) -> None:
        self._gateway = gateway
        self._whole = asyncio.Semaphore(1)
        """Held while a whole conversation is in memory, which may take hundreds of megabytes."""

    async def get_sessions(self, request: ApiRequest, _: Principal) -> ApiReply:
        limit = read_count(request, "limit", 50)
        after = request.query.get("after")
        with _refused_as(400, "bad_request"):
            return json_reply(await self._gateway.store.sessions(limit, after, request.query.get("containing", "")))

    async def get_messages(self, request: ApiRequest, _: Principal) -> ApiReply:
        key = await self._require_session(request)
        limit = read_count(request, "limit", 100)
        after = request.query.get("after")
        async with self._whole:
            messages = await self._gateway.store.messages(key)
            first = 0 if after is None else _place_after(messages, after)
            shown = [as_seen(each) for each in messages[first : first + limit]]
            more = first + limit < len(messages)
            del messages
        return json_reply(MessagesView(key, shown, shown[-1].id if more else None))

    async def get_queue(self, request: ApiRequest, _: Principal) -> ApiReply:
        key = await self._require_session(request)
        return json_reply(QueueView(key, self._gateway.queue(key)))

    async def get_export(self, request: ApiRequest, _: Principal) -> ApiReply:
        key = await self._require_session(request)
        async with self._whole:
            messages = await self._gateway.store.messages(key)
            facts = await self._gateway.store.facts(key)
            content = await asyncio.to_thread(write_conversation, key, messages, facts)
        return ApiReply(body=content, content_type="application/x-ndjson")

    async def post_import(self, request: ApiRequest, _: Principal) -> ApiReply:
        with _refused_as(400, "bad_request"):
            async with self._whole:
                messages = (await asyncio.to_thread(read_conversation, request.body))[1]
                facts = read_earlier_facts(request.body)
        return await self._restore(_new_key(request.path_values["key"]), messages, facts)

    async def post_fork(self, request: ApiRequest, _: Principal) -> ApiReply:
        body = read_json(request, ForkBody)
        key = await self._require_session(request)
        facts = [each.fact for each in reversed(await self._gateway.store.facts(key))]
        return await self._restore(body.into, await self._gateway.store.messages(key), facts)

    async def _restore(self, key: str, messages: Sequence[Message], facts: Sequence[Fact]) -> ApiReply:
        with _refused_as(409, "refused"):
            await self._gateway.store.restore(key, messages, facts)
        return json_reply(SessionView(key, len(messages)), status=201)

    async def post_reset(self, request: ApiRequest, _: Principal) -> ApiReply:
        key = await self._require_session(request)
        reason = "the conversation was reset by whoever runs the gateway"
        await self._gateway.stop_session(StopRequest(session=key, reason=reason, told=False))
        await self._gateway.reset(key)
        return json_reply(SessionView(key, 0))

    async def post_stop(self, request: ApiRequest, _: Principal) -> ApiReply:
        """What runs in the session, and all that waits there. Its people are told, once."""
        key = await self._require_session(request)
        stop = StopRequest(session=key, reason="stopped by whoever runs the gateway", told=False)
        return json_reply(await self._gateway.stop_session(stop))

    async def delete_session(self, request: ApiRequest, _: Principal) -> ApiReply:
        dry_run = {"true": True, "false": False}.get(request.query.get("dry_run", "false"))
        if dry_run is None:
            raise ApiError(400, "bad_request", "dry_run is true or false")
        if dry_run:
            await self._require_session(request)
        with _refused_as(409, "refused"):
            return json_reply(await self._gateway.upkeep.erase_session(request.path_values["key"], dry_run=dry_run))

    async def post_forget(self, request: ApiRequest, _: Principal) -> ApiReply:
        body = read_json(request, ForgetBody)
        try:
            person = SenderId.parse(body.person)
        except ConfigError as error:
            raise ApiError(400, "bad_request", str(error)) from error
        with _refused_as(409, "refused"):
            return json_reply(await self._gateway.upkeep.forget_person(person, dry_run=body.dry_run))

    async def post_backup(self, _: ApiRequest, __: Principal) -> ApiReply:
        """Only copies inside the state directory; the archive is made by whoever may read that."""
        return json_reply(BackupView(await self._gateway.upkeep.prepare_backup()))

    async def post_repair(self, request: ApiRequest, _: Principal) -> ApiReply:
        body = read_json(request, RepairBody)
        key = await self._require_session(request)
        findings = await self._gateway.store.repair(key, dry_run=body.dry_run)
        return json_reply(RepairView(key, findings, body.dry_run))

    async def post_prune(self, request: ApiRequest, _: Principal) -> ApiReply:
        body = read_json(request, PruneBody)
        days = max(body.older_than_days, DEDUPE_DAYS)
        pruned = await self._gateway.upkeep.prune(timedelta(days=days), dry_run=body.dry_run)
        return json_reply(PrunedView(**asdict(pruned), older_than_days=days, dry_run=body.dry_run))

    async def get_turns(self, request: ApiRequest, _: Principal) -> ApiReply:
        return json_reply(TurnsView(await self._gateway.store.turns(read_count(request, "limit", 50))))

    async def get_turn(self, request: ApiRequest, _: Principal) -> ApiReply:
        story = await self._gateway.store.turn(request.path_values["turn_id"])
        if story is None:
            raise ApiError(404, "no_such_turn", "there is no such turn; GET /api/v1/turns lists the latest")
        return json_reply(story)

    async def get_costs(self, request: ApiRequest, _: Principal) -> ApiReply:
        days = read_count(request, "days", 30, MOST_DAYS)
        by = cast(CostsBy, request.query.get("by", "day"))
        if by not in get_args(CostsBy):
            raise ApiError(400, "bad_request", f"by must be one of {', '.join(get_args(CostsBy))}")
        items = await self._gateway.costs(days, by)
        return json_reply(costs_view(days, by, items, await self._gateway.today()))

    async def _require_session(self, request: ApiRequest) -> str:
        key = request.path_values["key"]
        if not await _has_session(self._gateway.store, key):
            raise ApiError(404, "no_such_session", "there is no such session; GET /api/v1/sessions lists them")
        return key

    def routes(self) -> tuple[HttpRoute, ...]:
        session = "/api/v1/sessions/{key}"
        return (
            HttpRoute("GET", "/api/v1/sessions", "sessions", self.get_sessions),
            HttpRoute("GET", f"{session}/messages", "sessions", self.get_messages),
            HttpRoute("GET", f"{session}/queue", "sessions", self.get_queue),
            HttpRoute("GET", f"{session}/export", "sessions", self.get_export),
            HttpRoute("POST", f"{session}/import", "sessions", self.post_import, LARGEST_FILE),
            HttpRoute("POST", f"{session}/fork", "sessions", self.post_fork),
            HttpRoute("POST", f"{session}/reset", "sessions", self.post_reset),
            HttpRoute("POST", f"{session}/stop", "sessions", self.post_stop),
            HttpRoute("POST", f"{session}/repair", "sessions", self.post_repair),
            HttpRoute("DELETE", session, "sessions", self.delete_session),
            HttpRoute("POST", "/api/v1/forget", "sessions", self.post_forget),
            HttpRoute("POST", "/api/v1/backup", "sessions", self.post_backup),
            HttpRoute("POST", "/api/v1/prune", "sessions", self.post_prune),
            HttpRoute("GET", "/api/v1/turns", "status", self.get_turns),
            HttpRoute("GET", "/api/v1/turns/{turn_id}", "status", self.get_turn),
            HttpRoute("GET", "/api/v1/costs", "status", self.get_costs),
        )


async def _has_session(store: Store, key: str) -> bool:
    page = await store.sessions(500, containing=key)
    while page.after is not None and all(session.key != key for session in page.items):
        page = await store.sessions(500, page.after, key)
    return any(session.key == key for session in page.items)


def _place_after(messages: Sequence[Message], after: str) -> int:
    for place, message in enumerate(messages):
        if message.id == after:
            return place + 1
    raise ApiError(400, "bad_request", "after names no message of this session; it may have been reset meanwhile")


def _new_key(text: str) -> str:
    try:
        return msgspec.convert(text, Key)
    except msgspec.ValidationError as error:
        raise ApiError(400, "bad_request", "a session's key is made of 1 to 4000 visible ASCII characters") from error


@contextmanager
def _refused_as(status: int, code: str) -> Generator[None]:
    """Answer a plain SessionError: it is about the request and tells what to do. Its subclasses are about the disk."""
    try:
        yield
    except SessionError as error:
        if type(error) is not SessionError:
            raise
        raise ApiError(status, code, str(error)) from error


class PeopleApi:
    def __init__(self, gateway: StoredGateway) -> None:
        self._gateway = gateway

    async def get_people(self, request: ApiRequest, _: Principal) -> ApiReply:
        who = request.query.get("who")
        if who is None:
            found = await self._gateway.persons.list_people(1_000, request.query.get("after", ""))
            return json_reply(PeopleView(found))
        person = await self._gateway.persons.find(who)
        return json_reply(PeopleView([person] if person else []))

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
