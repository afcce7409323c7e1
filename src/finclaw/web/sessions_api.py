"""The routes for sessions and their conversations. A key in a path is percent-encoded as a whole, its own `%` too."""

import asyncio
import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Final, TypeVar

import msgspec
from aiohttp import web

from finclaw.errors import ConfigError, SessionError
from finclaw.gateway import Gateway, StopRequest
from finclaw.kernel.erasure import SenderId
from finclaw.kernel.fact import Fact
from finclaw.kernel.message import Message, as_seen
from finclaw.kernel.store_port import DEDUPE_DAYS
from finclaw.transcript.conversation_file import read_conversation, read_earlier_facts, write_conversation
from finclaw.web.admission import check_again
from finclaw.web.api import HttpRoute
from finclaw.web.errors import ApiError, too_large
from finclaw.web.principal import Principal
from finclaw.web.respond import json_response
from finclaw.web.sessions_view import (
    BackupView,
    ForgetBody,
    ForkBody,
    Key,
    MessagesView,
    PruneBody,
    PrunedView,
    QueueView,
    RepairBody,
    RepairView,
    SessionView,
)

LARGEST_FILE: Final = 64 * 1_048_576
"""Bytes of one conversation to import."""

T = TypeVar("T")


class SessionsApi:
    """The handlers for sessions, erasure and backups."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._whole = asyncio.Semaphore(1)
        """Held while a whole conversation is in memory, which may take hundreds of megabytes."""

    async def get_sessions(self, request: web.Request, _: Principal) -> web.Response:
        limit, after = _limit(request, 50), request.query.get("after")
        try:
            page = await self._gateway.sessions(limit, after, request.query.get("containing", ""))
        except SessionError as error:
            raise _as_api_error(error, 400) from error
        return json_response(page)

    async def get_messages(self, request: web.Request, _: Principal) -> web.Response:
        key, limit, after = await self._require_session(request), _limit(request, 100), request.query.get("after")
        async with self._whole:
            messages = await self._gateway.messages(key)
            first = 0 if after is None else _place_after(messages, after)
            shown = [as_seen(each) for each in messages[first : first + limit]]
            more = first + limit < len(messages)
            del messages
        return json_response(MessagesView(key, shown, shown[-1].id if more else None))

    async def get_queue(self, request: web.Request, _: Principal) -> web.Response:
        key = await self._require_session(request)
        return json_response(QueueView(key, self._gateway.queue(key)))

    async def get_export(self, request: web.Request, _: Principal) -> web.Response:
        key = await self._require_session(request)
        async with self._whole:
            messages, facts = await self._gateway.messages(key), await self._gateway.facts(key)
            content = await asyncio.to_thread(write_conversation, key, messages, facts)
        return web.Response(body=content, content_type="application/x-ndjson")

    async def post_import(self, request: web.Request, _: Principal) -> web.Response:
        content = await _file(request)
        check_again(request)
        try:
            async with self._whole:
                messages = (await asyncio.to_thread(read_conversation, content))[1]
                facts = read_earlier_facts(content)
        except SessionError as error:
            raise _as_api_error(error, 400) from error
        return await self._restore(_new_key(request.match_info["key"]), messages, facts)

    async def post_fork(self, request: web.Request, _: Principal) -> web.Response:
        body = await _body(request, ForkBody)
        key = await self._require_session(request)
        facts = [each.fact for each in reversed(await self._gateway.facts(key))]
        return await self._restore(body.into, await self._gateway.messages(key), facts)

    async def _restore(self, key: str, messages: Sequence[Message], facts: Sequence[Fact]) -> web.Response:
        try:
            await self._gateway.restore(key, messages, facts)
        except SessionError as error:
            raise _as_api_error(error, 409) from error
        return json_response(SessionView(key, len(messages)), status=201)

    async def post_reset(self, request: web.Request, _: Principal) -> web.Response:
        key = await self._require_session(request)
        await self._gateway.stop_session(
            StopRequest(session=key, reason="the conversation was reset by whoever runs the gateway", told=False)
        )
        await self._gateway.reset(key)
        return json_response(SessionView(key, 0))

    async def post_stop(self, request: web.Request, _: Principal) -> web.Response:
        """What runs in the session, and all that waits there. Its people are told, once."""
        key = await self._require_session(request)
        stop = StopRequest(session=key, reason="stopped by whoever runs the gateway", told=False)
        return json_response(await self._gateway.stop_session(stop))

    async def delete_session(self, request: web.Request, _: Principal) -> web.Response:
        dry_run = request.query.get("dry_run", "false")
        if dry_run not in ("true", "false"):
            raise ApiError(400, "bad_request", "dry_run is true or false")
        key = request.match_info["key"]
        if dry_run == "true":
            await self._require_session(request)
        try:
            return json_response(await self._gateway.erase_session(key, dry_run=dry_run == "true"))
        except SessionError as error:
            raise _as_api_error(error, 409) from error

    async def post_forget(self, request: web.Request, _: Principal) -> web.Response:
        body = await _body(request, ForgetBody)
        try:
            person = SenderId.parse(body.person)
        except ConfigError as error:
            raise ApiError(400, "bad_request", str(error)) from error
        try:
            return json_response(await self._gateway.forget_person(person, dry_run=body.dry_run))
        except SessionError as error:
            raise _as_api_error(error, 409) from error

    async def post_backup(self, _: web.Request, __: Principal) -> web.Response:
        """Only copies inside the state directory; the archive is made by whoever may read that."""
        return json_response(BackupView(await self._gateway.prepare_backup()))

    async def post_repair(self, request: web.Request, _: Principal) -> web.Response:
        body, key = await _body(request, RepairBody), await self._require_session(request)
        findings = await self._gateway.repair(key, dry_run=body.dry_run)
        return json_response(RepairView(key, findings, body.dry_run))

    async def post_prune(self, request: web.Request, _: Principal) -> web.Response:
        body = await _body(request, PruneBody)
        days = max(body.older_than_days, DEDUPE_DAYS)
        pruned = await self._gateway.prune(timedelta(days=days), dry_run=body.dry_run)
        return json_response(
            PrunedView(messages=pruned.messages, sessions=pruned.sessions, older_than_days=days, dry_run=body.dry_run)
        )

    async def _require_session(self, request: web.Request) -> str:
        key = request.match_info["key"]
        if not await self._gateway.has_session(key):
            raise ApiError(404, "no_such_session", "there is no such session; GET /api/v1/sessions lists them")
        return key

    def routes(self) -> tuple[HttpRoute, ...]:
        session = "/api/v1/sessions/{key}"
        return (
            HttpRoute("GET", "/api/v1/sessions", "sessions", self.get_sessions),
            HttpRoute("GET", f"{session}/messages", "sessions", self.get_messages),
            HttpRoute("GET", f"{session}/queue", "sessions", self.get_queue),
            HttpRoute("GET", f"{session}/export", "sessions", self.get_export),
            HttpRoute("POST", f"{session}/import", "sessions", self.post_import, "upload"),
            HttpRoute("POST", f"{session}/fork", "sessions", self.post_fork),
            HttpRoute("POST", f"{session}/reset", "sessions", self.post_reset),
            HttpRoute("POST", f"{session}/stop", "sessions", self.post_stop),
            HttpRoute("POST", f"{session}/repair", "sessions", self.post_repair),
            HttpRoute("DELETE", session, "sessions", self.delete_session),
            HttpRoute("POST", "/api/v1/forget", "sessions", self.post_forget),
            HttpRoute("POST", "/api/v1/backup", "sessions", self.post_backup),
            HttpRoute("POST", "/api/v1/prune", "sessions", self.post_prune),
        )


def _limit(request: web.Request, default: int) -> int:
    text = request.query.get("limit", str(default))
    if not re.fullmatch("[1-9][0-9]{0,2}", text) or int(text) > 500:
        raise ApiError(400, "bad_request", "limit must be a whole number from 1 to 500")
    return int(text)


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


async def _file(request: web.Request) -> bytes:
    """Longer than other requests may be, since it is a whole conversation."""
    content = bytearray()
    async for chunk in request.content.iter_any():
        content += chunk
        if len(content) > LARGEST_FILE:
            raise too_large(LARGEST_FILE)
    return bytes(content)


async def _body(request: web.Request, kind: type[T]) -> T:
    if request.content_type != "application/json":
        raise ApiError(415, "not_json", "send JSON, with the header `Content-Type: application/json`")
    try:
        return msgspec.json.decode(await request.read(), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:  # its message names the field
        raise ApiError(400, "bad_request", f"the body does not fit: {error}") from error


def _as_api_error(error: SessionError, status: int) -> Exception:
    """A plain SessionError is about what was asked for and tells what to do; the others are about the disk."""
    if type(error) is not SessionError:
        return error
    return ApiError(status, "refused" if status == 409 else "bad_request", str(error))
