"""A check that rules name tools and groups that exist. A misspelled deny protects nothing, so it stops the start."""

from collections.abc import Collection, Iterable, Iterator
from difflib import get_close_matches

from finclaw.errors import ConfigError
from finclaw.kernel.port import Tool
from finclaw.policy.groups import GROUPS
from finclaw.policy.pattern import compile_pattern
from finclaw.policy.rule import Rule


def check_rules(rules: Iterable[Rule], tools: Iterable[Tool]) -> tuple[str, ...]:
    """Raises ConfigError for every name that nobody has. Gives what is only worth a warning: patterns that fit nothing,
    which a connection may bring something for later.
    """
    there = tuple(tools)
    names = [tool.spec.name for tool in there]
    groups = {*(group.id for group in GROUPS), *(tool.group for tool in there)}
    numbered = [(f"tools.rules[{place}]", rule) for place, rule in enumerate(rules, start=1)]
    problems = [problem for where, rule in numbered for problem in _problems(where, rule, names, groups)]
    if problems:
        raise ConfigError("; ".join(problems))
    return tuple(
        f"{where}: no tool fits {rule.pattern!r} yet"
        for where, rule in numbered
        if not any(map(compile_pattern(rule.pattern).matches, names))
    )


def _problems(where: str, rule: Rule, names: Collection[str], groups: Collection[str]) -> Iterator[str]:
    if compile_pattern(rule.pattern).wild is None and rule.pattern not in names:
        yield f"{where} ({rule}): there is no tool {rule.pattern!r}{suggest_names(rule.pattern, names)}"
    if rule.scope == "group":
        for each in rule.who:
            if each not in groups:
                yield f"{where} ({rule}): there is no group {each!r}{suggest_names(each, groups)}"


def suggest_names(name: str, known: Iterable[str]) -> str:
    """What to append to a complaint: the names that were perhaps meant, or all of them where they are few."""
    names = sorted(known)
    alike = get_close_matches(name, names, n=3, cutoff=0.6) or _with_that_word(name, names)
    if alike:
        return f"; did you mean {' or '.join(alike)}?"
    return f"; there are {', '.join(names)}" if 0 < len(names) <= 20 else "; `finclaw tools list` shows them all"


def _with_that_word(name: str, names: Iterable[str]) -> list[str]:
    """Somebody writes `quote`, and it is `market__quote`."""
    wanted = name.casefold()
    return [each for each in names if wanted in each.casefold()][:3] if len(wanted) > 2 else []
