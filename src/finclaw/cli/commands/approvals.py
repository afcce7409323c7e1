"""`finclaw approvals`: list, approve and deny pending approvals from a terminal; list and revoke grants."""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from urllib.parse import quote

from finclaw.approvals.display import action_line, action_lines, day_and_time, format_lines, quote_text, short_ids
from finclaw.cli.arguments import add_json_option, add_state_options, parse_text, settings_to_look
from finclaw.cli.attach import StateClient, attach
from finclaw.cli.formatting import clean, print_result
from finclaw.errors import ConfigError, SessionError
from finclaw.kernel.approval import Approval, Standing
from finclaw.redaction.redact import redact_for_display
from finclaw.transcript.approval_ids import short_id
from finclaw.web.approvals import WAIT, ApprovalsView, ApproveBody, DecidedApproval, DenyBody, GrantsView

_MORE = 10.0  # seconds beyond those that the gateway itself waits


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
    about = "how long an approval is valid (default: once)"
    parser.add_argument("--scope", choices=("once", "session", "always"), default="once", help=about)
    about = "why it is denied, for the person who asked"
    parser.add_argument("--reason", type=parse_text, default="", metavar="TEXT", help=about)
    add_json_option(parser)


def run(args: Namespace) -> None:
    settings = settings_to_look(args)
    is_listed = args.what in ("list", "grants")
    if is_listed and args.id is not None:
        raise ConfigError(f"finclaw approvals {args.what} takes no id")
    if not is_listed and args.id is None:
        listing = " grants" if args.what == "revoke" else ""
        raise ConfigError(f"finclaw approvals {args.what} needs an id: `finclaw approvals{listing}` lists them")
    with attach(settings) as client:
        _ACTIONS[args.what](client, args)


def _path(typed: str) -> str:
    return f"/api/v1/approvals/{quote(typed, safe='')}"


def _list(client: StateClient, args: Namespace) -> None:
    state = "all" if args.all else "pending"
    found = client.call("GET", f"/api/v1/approvals?state={state}&limit=500", ApprovalsView)
    lines: list[str] = []
    ids = short_ids(found.items)
    for each in found.items:
        whom = f"for {_bare(each.asked_by)}, until {day_and_time(each.expires_at)}"
        lines.append(f"{ids[each.id]}  {each.state:<8} {action_line(each)}  {whom}")
    nothing = "there are no approvals" if args.all else "no approval is pending"
    print_result(args, found, lines or [nothing])


def _bare(text: str) -> str:
    """Somebody's text made safe for a line of ours, without the quotes around it."""
    return quote_text(text)[1:-1]


def _show(client: StateClient, args: Namespace) -> None:
    found = client.find(_path(args.id), Approval)
    if found is None:
        says = f"there is no approval {args.id!r}, or more than one begins so"
        raise SessionError(f"{says}; see `finclaw approvals list --all`")
    by = "" if found.decided_by is None else f", decided by {_bare(found.decided_by)}"
    reason = f": {quote_text(found.reason)}" if found.reason else ""
    print_result(args, found, [found.card, f"[{found.state}{by}{reason}]"])


def _approve(client: StateClient, args: Namespace) -> None:
    path = f"{_path(args.id)}/approve"
    decided = client.call("POST", path, DecidedApproval, ApproveBody(args.scope), timeout=WAIT + _MORE)
    if not client.is_running:
        result = "No gateway runs here: it is done when one starts, if it is still in time (finclaw serve)."
    elif decided.run is None:
        result = "It has not ended yet; `finclaw approvals show ID` and `finclaw turns` tell how it did."
    else:
        result = clean(f"\n{decided.run.reply or decided.run.outcome}")
    print_result(args, decided, [*_lines(decided), result])


def _deny(client: StateClient, args: Namespace) -> None:
    denied = client.call("POST", f"{_path(args.id)}/deny", Approval, DenyBody(args.reason))
    print_result(args, denied, _lines(denied))


def _lines(approval: Approval) -> Sequence[str]:
    return (f"{short_id(approval.id)}: {approval.state}", *action_lines(approval))


def _grants(client: StateClient, args: Namespace) -> None:
    found = client.call("GET", "/api/v1/grants", GrantsView)
    nothing = "there are no grants: everything that needs an approval is asked for"
    print_result(args, found, [line for grant in found.items for line in _grant_lines(grant)] or [nothing])


def _grant_lines(grant: Standing) -> Sequence[str]:
    where = "everywhere" if grant.session is None else f"in {_bare(grant.session)}"
    arguments = redact_for_display("; ".join(format_lines(grant.args))) or "without arguments"  # a list is no card
    return (
        f"{short_id(grant.id)}  {_bare(grant.tool)}  {arguments}",
        f"    for {_bare(grant.requester)}, {where}, until {day_and_time(grant.expires_at)}; "
        f"given by {_bare(grant.granted_by)} on {day_and_time(grant.granted_at)}",
    )


def _revoke(client: StateClient, args: Namespace) -> None:
    revoked = client.call("POST", f"/api/v1/grants/{quote(args.id, safe='')}/revoke", Standing, b"{}")
    print_result(args, revoked, [f"{short_id(revoked.id)}: revoked; {_bare(revoked.tool)} is asked for again"])


_ACTIONS = {"list": _list, "show": _show, "approve": _approve, "deny": _deny, "grants": _grants, "revoke": _revoke}
