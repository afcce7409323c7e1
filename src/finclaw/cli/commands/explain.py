"""`finclaw explain tool NAME`: what every stage of the policy says of a call, and which one decides.

With `--strangers` also what they say once strangers' words were read, which may ask for things.
"""

import json
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator, Sequence
from typing import cast

import msgspec
from msgspec.structs import replace

from finclaw.cli.arguments import add_caller_options, add_state_options, settings_from
from finclaw.cli.commands.tools import build_context, load_policy
from finclaw.cli.formatting import fit_line, json_line, short, table, terminal_columns
from finclaw.errors import ConfigError
from finclaw.policy.groups import WEB
from finclaw.policy.rule import suggest_names
from finclaw.policy.verdict import Judgement, PolicyContext, StageVerdict
from finclaw.taint.named_addresses import FEW

_LONGEST = 1_000


def arguments(parser: ArgumentParser) -> None:
    add_state_options(parser)
    parser.add_argument(
        "words", nargs="+", metavar="NAME", help="the tool, as `finclaw tools list` has it; `tool NAME` will do, too"
    )
    parser.add_argument(
        "--args", type=_parse_object, metavar="JSON", help="what it is called with, such as '{\"amount\": 5}'"
    )
    parser.add_argument(
        "--strangers", action="store_true", help="also judge it after untrusted text, such as a web page, was read"
    )
    add_caller_options(parser)


def _parse_object(text: str) -> dict[str, object]:
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArgumentTypeError("this is no JSON; quote it for your shell, as in '{\"amount\": 5}'") from error
    if not isinstance(found, dict):
        raise ArgumentTypeError("arguments are a JSON object, such as '{\"amount\": 5}'")
    return cast("dict[str, object]", found)


def run(args: Namespace) -> int:
    settings = settings_from(args)
    policy, tools = load_policy(settings)
    name = _name(args.words)
    tool = tools.get(name)
    if tool is None:
        raise ConfigError(f"there is no tool {name!r}{suggest_names(name, tools)}")
    ctx = build_context(args, settings, tool)
    judgement = policy.judge(ctx)
    after = policy.judge(replace(ctx, untrusted=True)) if args.strangers else None
    guessed = args.args is None and policy.book.of(tool.name).depend_on_arguments
    print(_as_json(ctx, judgement, after) if args.json else "\n".join(_lines(ctx, judgement, after, guessed=guessed)))
    return 0


def _name(words: Sequence[str]) -> str:
    """Of the tool: the one word, or the one behind `tool`."""
    names = words[1:] if len(words) > 1 and words[0] == "tool" else words
    if names == ["tool"]:
        raise ConfigError("which tool? Try: finclaw explain market__quote; `finclaw tools` lists them")
    if len(names) > 1:
        raise ConfigError(f"one tool at a time, and not {' '.join(names)!r}; try: finclaw explain {names[0]}")
    return names[0]


def _as_json(ctx: PolicyContext, judgement: Judgement, after: Judgement | None) -> str:
    # Plain names first: this is what programs read, and `tool` may grow.
    call = {"tool": ctx.tool, "user": ctx.user, "roles": ctx.roles, "channel": ctx.channel, "agent": ctx.agent}
    later = {} if after is None else {"after_strangers": after}
    return json_line({**call, "args": ctx.args, **msgspec.to_builtins(judgement), **later})


def _lines(ctx: PolicyContext, judgement: Judgement, after: Judgement | None, *, guessed: bool) -> Iterator[str]:
    roles = f" ({', '.join(ctx.roles)})" if ctx.roles else ""
    yield short(f"{ctx.tool.name}, group {ctx.tool.group}, from {ctx.tool.source}", _LONGEST)
    yield short(f"for {ctx.user}{roles} on {ctx.channel}, agent {ctx.agent}", _LONGEST)
    yield from _stages(judgement)
    yield _decision(judgement)
    if after is not None:
        yield "after untrusted text was read:"
        yield from _stages(after)
        yield _decision(after)
        if ctx.tool.group == WEB.id:
            yield f"Whole addresses that the person named are fetched as before; of those in a page, {FEW} are."
    if guessed:
        yield "Some of its rules depend on its arguments and were judged without any; give them with --args JSON."


def _stages(judgement: Judgement) -> Iterator[str]:
    rows = [(_mark(word, judgement), word.stage, word.verdict, _reason(word)) for word in judgement.stages]
    for line in table(rows):
        yield fit_line(line, terminal_columns())


def _decision(judgement: Judgement) -> str:
    return short(f"{judgement.verdict}, by {judgement.deciding_stage}: {judgement.reason}", _LONGEST)


def _mark(word: StageVerdict, judgement: Judgement) -> str:
    return ">" if word.stage == judgement.deciding_stage else " "


def _reason(word: StageVerdict) -> str:
    lifted = f"; lifted by {word.lifted_by}" if word.lifted_by else ""
    warning = f"; {word.warning}" if word.warning else ""
    return short(word.reason + lifted + warning, _LONGEST)
