"""`finclaw tools list`: every tool, where it comes from, and whether it may run for somebody."""

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from typing import Any

from finclaw.agent.settings import ExtensionRef
from finclaw.cli.arguments import add_caller_options, add_state_options, settings_from
from finclaw.cli.formatting import fit_line, json_line, plural, table, terminal_columns
from finclaw.composition.extensions import load_registrar
from finclaw.config.schema import Settings
from finclaw.extensions.registrar import Registrar
from finclaw.policy.policy import Policy
from finclaw.policy.rule import check_rules
from finclaw.policy.verdict import Judgement, PolicyContext, ToolFacts, facts_of
from finclaw.web.principal import OWNER

ALWAYS = "always"
_HEAD = ("TOOL", "GROUP", "FROM", "MOVES MONEY", "SHOWN", "VERDICT", "DECIDED BY")


def arguments(parser: ArgumentParser) -> None:
    add_state_options(parser)
    parser.add_argument(
        "what", nargs="?", choices=("list",), default="list", metavar="list", help="every tool that is registered"
    )
    add_caller_options(parser)


def run(args: Namespace) -> int:
    settings = settings_from(args)
    policy, tools = load_policy(settings)
    searched = _is_searched(settings)
    rows = [(tool, policy.judge(build_context(args, settings, tool))) for tool in tools.values()]
    if args.json:
        described = [_for_programs(policy, tool, judgement, searched=searched) for tool, judgement in rows]
        print(json_line({"tools": described}))
    else:
        print("\n".join(_lines(policy, rows, searched=searched)))
    return 0


def _is_searched(settings: Settings) -> bool:
    """Whether there is a search for tools; without it the model is shown all of them always."""
    refs = (ExtensionRef(each) if isinstance(each, str) else each for each in settings.agent.extensions)
    return any(each.use in ("tool-search", "finclaw.builtins.tool_search") for each in refs)


def load_policy(settings: Settings) -> tuple[Policy, Mapping[str, ToolFacts]]:
    """The policy as a gateway would have it, and the tools by name. Raises as a gateway would at its start."""
    registrar = load_registrar(settings)
    check_rules(settings.tools.rules, registrar.tools.list())
    return Policy(settings.tools.rules), {tool.name: tool for tool in _tools_of(registrar)}


def _tools_of(registrar: Registrar) -> Sequence[ToolFacts]:
    found = [facts_of(tool, each.name) for each in registrar.loaded for tool in each.tools]
    return sorted(found, key=lambda tool: tool.name)


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


def _for_programs(policy: Policy, tool: ToolFacts, judgement: Judgement, *, searched: bool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "group": tool.group,
        "source": tool.source,
        "is_transactional": tool.transactional,
        "requires_approval": tool.requires_approval,
        "accesses_sensitive_data": tool.sensitive,
        "is_external": tool.external,
        "shown": policy.book.group(tool.group).include_in_prompt_when if searched else ALWAYS,
        "verdict": judgement.verdict,
        "deciding_stage": judgement.deciding_stage,
        "reason": judgement.reason,
        "depends_on_arguments": policy.book.of(tool.name).depend_on_arguments,
    }


def _lines(policy: Policy, rows: Sequence[tuple[ToolFacts, Judgement]], *, searched: bool) -> list[str]:
    lines = table([_HEAD, *(_row(policy, tool, judgement, searched=searched) for tool, judgement in rows)])
    depending = [tool.name for tool, _ in rows if policy.book.of(tool.name).depend_on_arguments]
    if depending:
        lines.append(
            f"* {plural(len(depending), 'verdict')} without arguments; with them: finclaw explain tool NAME --args JSON"
        )
    return [fit_line(line, terminal_columns()) for line in lines]


def _row(policy: Policy, tool: ToolFacts, judgement: Judgement, *, searched: bool) -> tuple[str, ...]:
    star = "*" if policy.book.of(tool.name).depend_on_arguments else ""
    return (
        tool.name,
        tool.group,
        tool.source,
        "yes" if tool.transactional else "no",
        policy.book.group(tool.group).include_in_prompt_when if searched else ALWAYS,
        judgement.verdict + star,
        judgement.deciding_stage,
    )
