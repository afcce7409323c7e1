"""`finclaw approvals`: what waits for a person, and the person's word, from a terminal."""

from argparse import Namespace
from collections.abc import Sequence

import msgspec

from finclaw.cli.options import settings_from
from finclaw.cli.shelf import Shelf, opened
from finclaw.errors import ConfigError, SessionError
from finclaw.kernel.approval import Approval
from finclaw.tools.approval.shown import text
from finclaw.web.approvals_view import ApprovalsView


def run(args: Namespace) -> int:
    settings = settings_from(args)
    if (args.id is None) != (args.what == "list"):
        what = "takes no id" if args.what == "list" else "needs an id: `finclaw approvals` lists them"
        raise ConfigError(f"finclaw approvals {args.what} {what}")
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


_ACTIONS = {"list": _list, "show": _show, "approve": _approve, "deny": _deny}
