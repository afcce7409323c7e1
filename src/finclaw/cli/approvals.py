"""`finclaw approvals`: what waits for a person, and the person's word, from a terminal; and every yes that stands."""

from argparse import Namespace
from collections.abc import Sequence

import msgspec

from finclaw.cli.options import settings_to_look
from finclaw.cli.shelf import Shelf, opened
from finclaw.errors import ConfigError, SessionError
from finclaw.kernel.approval import Approval, Standing
from finclaw.tools.approval.shown import lines, text
from finclaw.tools.guard.told import without_secrets
from finclaw.web.approvals_view import ApprovalsView, GrantsView


def run(args: Namespace) -> int:
    settings = settings_to_look(args)
    lists = args.what in ("list", "grants")
    if (args.id is None) != lists:
        where = "finclaw approvals grants" if args.what == "revoke" else "finclaw approvals"
        raise ConfigError(
            f"finclaw approvals {args.what} {'takes no id' if lists else f'needs an id: `{where}` lists them'}"
        )
    with opened(settings) as shelf:
        return _ACTIONS[args.what](shelf, args)


def _list(shelf: Shelf, args: Namespace) -> int:
    found = shelf.approvals(everything=args.all)
    if args.json:
        print(msgspec.json.encode(ApprovalsView(tuple(found))).decode())
    else:
        print(_table(found) or ("there are no approvals" if args.all else "nothing waits for a decision"))
    return 0


def _table(found: Sequence[Approval]) -> str:
    return "\n".join(
        f"{each.id}  {each.state:<8} {text(each.tool)[1:-1]}  for {text(each.asked_by)[1:-1]}, "
        f"until {each.expires_at:%Y-%m-%d %H:%M:%S} UTC"
        for each in found
    )


def _show(shelf: Shelf, args: Namespace) -> int:
    found = shelf.approval(args.id)
    if found is None:
        raise SessionError(f"there is no approval {args.id!r}; `finclaw approvals list --all` shows every one, whole")
    if not args.json:
        print(found.card + "\n" + _story(found))
        return 0
    return _told(found, args)


def _story(found: Approval) -> str:
    who = "" if found.decided_by is None else f", decided by {text(found.decided_by)[1:-1]}"
    why = f": {text(found.reason)}" if found.reason else ""
    return f"[{found.state}{who}{why}]"


def _approve(shelf: Shelf, args: Namespace) -> int:
    return _told(shelf.decide(args.id, "granted", args.scope, ""), args)


def _deny(shelf: Shelf, args: Namespace) -> int:
    return _told(shelf.decide(args.id, "denied", "once", args.reason), args)


def _told(found: Approval, args: Namespace) -> int:
    if args.json:
        print(msgspec.json.encode(found).decode())
    else:
        print(f"{found.id}: {found.state}")
    return 0


# ── a yes that stands ───────────────────────────────────────────────────────────────────────────────────────


def _grants(shelf: Shelf, args: Namespace) -> int:
    found = shelf.grants()
    if args.json:
        print(msgspec.json.encode(GrantsView(tuple(found))).decode())
    else:
        print("\n".join(map(_standing, found)) or "no yes stands: everything that needs a person is asked for")
    return 0


def _standing(grant: Standing) -> str:
    where = "everywhere" if grant.session is None else f"in {text(grant.session)[1:-1]}"
    arguments = without_secrets("; ".join(lines(grant.args))) or "without arguments"  # a list is no card
    return (
        f"{grant.id}  {text(grant.tool)[1:-1]}  {arguments}\n"
        f"    for {text(grant.requester)[1:-1]}, {where}, until {grant.expires_at:%Y-%m-%d %H:%M} UTC; "
        f"given by {text(grant.granted_by)[1:-1]} on {grant.granted_at:%Y-%m-%d %H:%M} UTC"
    )


def _revoke(shelf: Shelf, args: Namespace) -> int:
    revoked = shelf.revoke(args.id)
    if args.json:
        print(msgspec.json.encode(revoked).decode())
    else:
        print(f"{revoked.id}: revoked; {text(revoked.tool)[1:-1]} is asked for again")
    return 0


_ACTIONS = {
    "list": _list,
    "show": _show,
    "approve": _approve,
    "deny": _deny,
    "grants": _grants,
    "revoke": _revoke,
}
