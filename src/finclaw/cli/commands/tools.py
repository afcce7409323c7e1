"""`finclaw tools list`: every tool, where it comes from, and whether it may run for somebody."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from finclaw.agent.settings import as_ref
from finclaw.cli.arguments import add_caller_options, add_state_options, settings_from
from finclaw.cli.formatting import fit_line, fit_table, plural, print_result, terminal_columns, yes_or_no
from finclaw.composition.extensions import load_registrar
from finclaw.config.schema import Settings
from finclaw.policy.policy import Policy
from finclaw.policy.rule import check_rules
from finclaw.policy.verdict import Judgement, PolicyContext, ToolFacts, facts_of
from finclaw.web.principal import OWNER

ALWAYS = "always"
_HEAD: tuple[str, ...] = ("TOOL", "GROUP", "FROM", "MOVES MONEY", "SHOWN", "VERDICT", "DECIDED BY")


def arguments(parser: ArgumentParser) -> None:
    add_state_options(parser)
    about = "every tool that is registered"
    parser.add_argument("what", nargs="?", choices=("list",), default="list", metavar="list", help=about)
    add_caller_options(parser)


def run(args: Namespace) -> None:
    settings = settings_from(args)
    policy, tools = load_policy(settings)
    # Without a search for tools the model is shown all of them always.
    used = {ref.use for ref in map(as_ref, settings.agent.extensions)}
    is_searched = not used.isdisjoint(("tool-search", "finclaw.builtins.tool_search"))
    rows = [_view(policy, tool, policy.judge(build_context(args, settings, tool))) for tool in tools.values()]
    if not is_searched:
        rows = [row | {"shown": ALWAYS} for row in rows]
    print_result(args, {"tools": rows}, _lines(rows))


def load_policy(settings: Settings) -> tuple[Policy, Mapping[str, ToolFacts]]:
    """The policy as a gateway would have it, and the tools by name. Raises as a gateway would at its start."""
    registrar = load_registrar(settings)
    check_rules(settings.tools.rules, registrar.tools.list())
    tools = [facts_of(tool, each.name) for each in registrar.loaded for tool in each.tools]
    return Policy(settings.tools.rules), {tool.name: tool for tool in sorted(tools, key=lambda tool: tool.name)}


def build_context(args: Namespace, settings: Settings, tool: ToolFacts) -> PolicyContext:
    """The call that was typed: without a user it is the owner's own."""
    user = args.user or OWNER.name
    roles = args.role or (OWNER.roles if args.user is None else ())
    return PolicyContext(
        tool=tool,
        user=user if ":" in user else f"{args.channel}:{user}",
        roles=tuple(roles),
        channel=args.channel,
        agent=settings.agent.name,
        args=getattr(args, "args", None) or {},
    )


def _view(policy: Policy, tool: ToolFacts, judgement: Judgement) -> dict[str, Any]:
    return {
        "name": tool.name,
        "group": tool.group,
        "source": tool.source,
        "is_transactional": tool.transactional,
        "requires_approval": tool.requires_approval,
        "accesses_sensitive_data": tool.sensitive,
        "is_external": tool.external,
        "shown": policy.book.group(tool.group).include_in_prompt_when,
        "verdict": judgement.verdict,
        "deciding_stage": judgement.deciding_stage,
        "reason": judgement.reason,
        "depends_on_arguments": policy.book.of(tool.name).depend_on_arguments,
    }


def _lines(views: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    rows = [_HEAD]
    for view in views:
        mark = "*" if view["depends_on_arguments"] else ""
        judged = (yes_or_no(view["is_transactional"]), view["shown"], f"{view['verdict']}{mark}")
        rows.append((view["name"], view["group"], view["source"], *judged, view["deciding_stage"]))
    yield from fit_table(rows)
    if depending := sum(view["depends_on_arguments"] for view in views):
        hint = f"* {plural(depending, 'verdict')} without arguments; with them: finclaw explain tool NAME --args JSON"
        yield fit_line(hint, terminal_columns())
