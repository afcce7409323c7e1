"""The running gateway's sessions, over its API."""

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote, urlencode

import msgspec

from finclaw.cli.client import GatewayClient, find_gateway
from finclaw.kernel.approval import Approval, ApprovalScope, ApprovalVerdict, Standing
from finclaw.kernel.erasure import Erased, PersonId
from finclaw.kernel.record import CostsBy, Finding, Pruned, SessionPage, TurnRecord, TurnTrace
from finclaw.web.approvals_view import WAIT, ApprovalsView, ApproveBody, DecidedApproval, DenyBody, GrantsView
from finclaw.web.sessions_view import BackupView, ForgetBody, PruneBody, PrunedView, RepairBody, RepairView, SessionView
from finclaw.web.view import CostsView

_MORE = 30.0
"""Seconds beyond those that the gateway itself waits."""
_LONG = 3_600.0
"""Seconds that a removal of very much may take."""


def find_remote(state: Path) -> "ShelfRemote | None":
    client = find_gateway(state)
    return None if client is None else ShelfRemote(client, state)


class ShelfRemote:
    def __init__(self, client: GatewayClient, state: Path) -> None:
        self._client = client
        self._state = state

    def page(self, limit: int, after: str | None = None, containing: str = "") -> SessionPage:
        query = {"limit": str(limit), "containing": containing} | ({} if after is None else {"after": after})
        return self._client.call("GET", f"/api/v1/sessions?{urlencode(query)}", SessionPage)

    def export(self, key: str) -> bytes:
        return self._client.fetch("GET", f"{_path(key)}/export")

    def restore(self, key: str, content: bytes) -> None:
        self._client.call("POST", f"{_path(key)}/import", SessionView, content, timeout=_LONG)

    def reset(self, key: str) -> None:
        self._client.call("POST", f"{_path(key)}/reset", SessionView)

    def repair(self, key: str, *, dry_run: bool) -> Sequence[Finding]:
        body = msgspec.json.encode(RepairBody(dry_run))
        return self._client.call("POST", f"{_path(key)}/repair", RepairView, body).findings

    def erase(self, key: str, *, dry_run: bool) -> Erased:
        query = "?dry_run=true" if dry_run else ""
        return self._client.call("DELETE", f"{_path(key)}{query}", Erased, timeout=_LONG)

    def forget(self, person: PersonId, *, dry_run: bool) -> Erased:
        body = msgspec.json.encode(ForgetBody(str(person), dry_run))
        return self._client.call("POST", "/api/v1/forget", Erased, body, timeout=_LONG)

    def copy(self) -> Path:
        made = self._client.call("POST", "/api/v1/backup", BackupView, b"{}", timeout=_LONG).directory
        return self._state / made

    def prune(self, days: int, *, dry_run: bool) -> Pruned:
        body = msgspec.json.encode(PruneBody(days, dry_run))
        done = self._client.call("POST", "/api/v1/prune", PrunedView, body, timeout=_LONG)
        return Pruned(messages=done.messages, sessions=done.sessions)

    def turns(self, limit: int) -> Sequence[TurnRecord]:
        return self._client.turns(limit)

    def turn(self, name: str) -> TurnTrace | None:
        return self._client.turn(name)

    def costs(self, days: int, by: CostsBy) -> CostsView:
        return self._client.call("GET", f"/api/v1/costs?days={days}&by={by}", CostsView)

    def approvals(self, *, everything: bool, session: str | None = None) -> Sequence[Approval]:
        query = {"state": "all" if everything else "pending", "limit": "500"}
        query |= {} if session is None else {"session": session}
        return self._client.call("GET", f"/api/v1/approvals?{urlencode(query)}", ApprovalsView).items

    def approval(self, typed: str) -> Approval | None:
        return self._client.find(f"/api/v1/approvals/{quote(typed, safe='')}", Approval)

    def decide(self, typed: str, verdict: ApprovalVerdict, scope: ApprovalScope, reason: str) -> Approval:
        yes = verdict == "granted"
        body = msgspec.json.encode(ApproveBody(scope) if yes else DenyBody(reason))
        path = f"/api/v1/approvals/{quote(typed, safe='')}/{'approve' if yes else 'deny'}"
        return self._client.call("POST", path, DecidedApproval, body, timeout=WAIT + _MORE)

    def grants(self) -> Sequence[Standing]:
        return self._client.call("GET", "/api/v1/grants", GrantsView).items

    def revoke(self, typed: str) -> Standing:
        return self._client.call("POST", f"/api/v1/grants/{quote(typed, safe='')}/revoke", Standing, b"{}")


def _path(key: str) -> str:
    """A key is full of escapes; they are escaped once more, so that the gateway reads back the key itself."""
    return f"/api/v1/sessions/{quote(key, safe='')}"
