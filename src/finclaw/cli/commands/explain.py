"""`finclaw explain tool NAME`: what every stage of the policy says of a call, and which one decides."""

import json
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator, Sequence
from typing import cast

import msgspec
from msgspec.structs import replace

from finclaw.cli.arguments import add_caller_options, add_state_options, settings_from
from finclaw.cli.commands.tools import build_context, load_policy
from finclaw.cli.formatting import fit_table, print_result, short
from finclaw.errors import ConfigError
from finclaw.policy.groups import WEB
from finclaw.policy.rule import suggest_names
from finclaw.policy.verdict import Judgement, PolicyContext
from finclaw.taint.named_addresses import FEW

_LONGEST = 1_000


def arguments(parser: ArgumentParser) -> None:
    add_state_options(parser)
    about = "the tool, as `finclaw tools list` has it; `tool NAME` will do, too"
    parser.add_argument("words", nargs="+", metavar="NAME", help=about)
    about = "what it is called with, such as '{\"amount\": 5}'"
    parser.add_argument("--args", type=_parse_object, metavar="JSON", help=about)
    about = "also judge it after untrusted text, such as a web page, was read"
    parser.add_argument("--strangers", action="store_true", help=about)
    add_caller_options(parser)


def _parse_object(text: str) -> dict[str, object]:
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArgumentTypeError("this is no JSON; quote it for your shell, as in '{\"amount\": 5}'") from error
    if not isinstance(found, dict):
        raise ArgumentTypeError("arguments are a JSON object, such as '{\"amount\": 5}'")
    return cast("dict[str, object]", found)


def run(args: Namespace) -> None:
    settings = settings_from(args)
    policy, tools = load_policy(settings)
    name = _name(args.words)
    tool = tools.get(name)
    if tool is None:
        raise ConfigError(f"there is no tool {name!r}{suggest_names(name, tools)}")
    ctx = build_context(args, settings, tool)
    judgement = policy.judge(ctx)
    # Plain names first: this is what programs read, and `tool` may grow.
    view = {"tool": ctx.tool, "user": ctx.user, "roles": ctx.roles, "channel": ctx.channel, "agent": ctx.agent}
    view |= {"args": ctx.args, **msgspec.to_builtins(judgement)}
    lines = [*_describe_call(ctx), *_describe(judgement)]
    if args.strangers:
        after = policy.judge(replace(ctx, untrusted=True))
        view["after_strangers"] = after
        lines += ("after untrusted text was read:", *_describe(after))
        if ctx.tool.group == WEB.id:
            lines.append(f"Whole addresses that the person named are fetched as before; of those in a page, {FEW} are.")
    if args.args is None and policy.book.of(tool.name).depend_on_arguments:
        lines.append(
            "Some of its rules depend on its arguments and were judged without any; give them with --args JSON."
        )
    print_result(args, view, lines)


def _name(words: Sequence[str]) -> str:
    """Of the tool: the one word, or the one behind `tool`."""
    names = words[1:] if words[0] == "tool" else words
    if not names:
        raise ConfigError("which tool? Try: finclaw explain market__quote; `finclaw tools` lists them")
    if len(names) > 1:
        raise ConfigError(f"one tool at a time, and not {' '.join(names)!r}; try: finclaw explain {names[0]}")
    return names[0]


def _describe_call(ctx: PolicyContext) -> Iterator[str]:
    yield short(f"{ctx.tool.name}, group {ctx.tool.group}, from {ctx.tool.source}", _LONGEST)
    roles = f" ({', '.join(ctx.roles)})" if ctx.roles else ""
    yield short(f"for {ctx.user}{roles} on {ctx.channel}, agent {ctx.agent}", _LONGEST)


def _describe(judgement: Judgement) -> Iterator[str]:
    rows: list[tuple[str, ...]] = []
    for stage in judgement.stages:
        lifted = stage.lifted_by and f"lifted by {stage.lifted_by}"
        reason = "; ".join(filter(None, (stage.reason, lifted, stage.warning)))
        mark = ">" if stage.stage == judgement.deciding_stage else " "
        rows.append((mark, stage.stage, stage.verdict, short(reason, _LONGEST)))
    yield from fit_table(rows)
    yield short(f"{judgement.verdict}, by {judgement.deciding_stage}: {judgement.reason}", _LONGEST)
