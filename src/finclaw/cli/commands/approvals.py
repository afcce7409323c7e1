"""`finclaw approvals`: list, approve and deny pending approvals from a terminal; list and revoke grants."""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from urllib.parse import quote

from finclaw.approvals.display import action_line, action_lines, day_and_time, format_lines, quote_text, short_ids
from finclaw.cli.arguments import add_json_option, add_state_options, parse_text, settings_to_look
from finclaw.cli.attach import StateClient, attach
from finclaw.cli.formatting import clean, json_line
from finclaw.errors import ConfigError, SessionError
from finclaw.kernel.approval import Approval, Standing
from finclaw.redaction.redact import redact_for_display
from finclaw.transcript.approval_id import short_id
from finclaw.web.approvals_view import WAIT, ApprovalsView, ApproveBody, DecidedApproval, DenyBody, GrantsView

_MORE = 10.0
"""Seconds beyond those that the gateway itself waits."""


def arguments(parser: ArgumentParser) -> None:
    add_state_options(parser)
    parser.add_argument(
        "what",
        nargs="?",
        choices=("list", "show", "approve", "deny", "grants", "revoke"),
        default="list",
        help="what to do (default: list); `grants` lists the grants, `revoke` takes one back",
    )
    parser.add_argument("id", type=parse_text, nargs="?", metavar="ID", help="the approval's or grant's id, whole")
    parser.add_argument("--all", action="store_true", help="list those that were decided or have expired, too")
    parser.add_argument(
        "--scope",
        choices=("once", "session", "always"),
        default="once",
        help="how long an approval is valid (default: once)",
    )
    parser.add_argument(
        "--reason", type=parse_text, default="", metavar="TEXT", help="why it is denied, for the person who asked"
    )
    add_json_option(parser)


def run(args: Namespace) -> int:
    settings = settings_to_look(args)
    lists = args.what in ("list", "grants")
    if (args.id is None) != lists:
        where = "finclaw approvals grants" if args.what == "revoke" else "finclaw approvals"
        raise ConfigError(
            f"finclaw approvals {args.what} {'takes no id' if lists else f'needs an id: `{where}` lists them'}"
        )
    with attach(settings) as client:
        return _ACTIONS[args.what](client, args)


def _path(typed: str) -> str:
    return f"/api/v1/approvals/{quote(typed, safe='')}"


def _list(client: StateClient, args: Namespace) -> int:
    state = "all" if args.all else "pending"
    found = client.call("GET", f"/api/v1/approvals?state={state}&limit=500", ApprovalsView)
    if args.json:
        print(json_line(found))
    elif found.items:
        print(_table(found.items))
    else:
        print("there are no approvals" if args.all else "no approval is pending")
    return 0


def _table(found: Sequence[Approval]) -> str:
    ids = short_ids(found)
    return "\n".join(
        f"{ids[each.id]}  {each.state:<8} {action_line(each)}  for {quote_text(each.asked_by)[1:-1]}, "
        f"until {day_and_time(each.expires_at)}"
        for each in found
    )


def _show(client: StateClient, args: Namespace) -> int:
    found = client.find(_path(args.id), Approval)
    if found is None:
        raise SessionError(
            f"there is no approval {args.id!r}, or more than one begins so; see `finclaw approvals list --all`"
        )
    if not args.json:
        print(found.card + "\n" + _describe_decision(found))
        return 0
    return _print_approval(found, args)


def _describe_decision(found: Approval) -> str:
    who = "" if found.decided_by is None else f", decided by {quote_text(found.decided_by)[1:-1]}"
    why = f": {quote_text(found.reason)}" if found.reason else ""
    return f"[{found.state}{who}{why}]"


def _approve(client: StateClient, args: Namespace) -> int:
    path = f"{_path(args.id)}/approve"
    decided = client.call("POST", path, DecidedApproval, ApproveBody(args.scope), timeout=WAIT + _MORE)
    code = _print_approval(decided, args)
    if not args.json:
        print(_describe_result(decided, is_running=client.is_running))
    return code


def _describe_result(decided: DecidedApproval, *, is_running: bool) -> str:
    if not is_running:
        return "No gateway runs here: it is done when one starts, if it is still in time (finclaw serve)."
    if decided.run is None:
        return "It has not ended yet; `finclaw approvals show ID` and `finclaw turns` tell how it did."
    return clean(f"\n{decided.run.reply or decided.run.outcome}")


def _deny(client: StateClient, args: Namespace) -> int:
    path = f"{_path(args.id)}/deny"
    return _print_approval(client.call("POST", path, Approval, DenyBody(args.reason)), args)


def _print_approval(found: Approval, args: Namespace) -> int:
    if args.json:
        print(json_line(found))
    else:
        print(f"{short_id(found.id)}: {found.state}\n" + "\n".join(action_lines(found)))
    return 0


# ── grants ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _grants(client: StateClient, args: Namespace) -> int:
    found = client.call("GET", "/api/v1/grants", GrantsView)
    if args.json:
        print(json_line(found))
    elif found.items:
        print("\n".join(map(_describe_grant, found.items)))
    else:
        print("there are no grants: everything that needs an approval is asked for")
    return 0


def _describe_grant(grant: Standing) -> str:
    where = "everywhere" if grant.session is None else f"in {quote_text(grant.session)[1:-1]}"
    arguments = redact_for_display("; ".join(format_lines(grant.args))) or "without arguments"  # a list is no card
    return (
        f"{short_id(grant.id)}  {quote_text(grant.tool)[1:-1]}  {arguments}\n"
        f"    for {quote_text(grant.requester)[1:-1]}, {where}, until {day_and_time(grant.expires_at)}; "
        f"given by {quote_text(grant.granted_by)[1:-1]} on {day_and_time(grant.granted_at)}"
    )


def _revoke(client: StateClient, args: Namespace) -> int:
    revoked = client.call("POST", f"/api/v1/grants/{quote(args.id, safe='')}/revoke", Standing, b"{}")
    if args.json:
        print(json_line(revoked))
    else:
        print(f"{short_id(revoked.id)}: revoked; {quote_text(revoked.tool)[1:-1]} is asked for again")
    return 0


_ACTIONS = {
    "list": _list,
    "show": _show,
    "approve": _approve,
    "deny": _deny,
    "grants": _grants,
    "revoke": _revoke,
}
