"""Rules of the policy: how one is written and prepared, the book that finds those for a call, and a check of names."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import translate
from typing import Annotated, Any, Final, Literal, NamedTuple, get_args

from msgspec import Meta, Struct

from finclaw.errors import ConfigError
from finclaw.kernel.port import Tool
from finclaw.policy.condition import Condition, Question, every, question
from finclaw.policy.groups import CUSTOM, GROUPS, ToolGroup
from finclaw.policy.verdict import Verdict

_WILD: Final = re.compile(r"[*?\[]")
_ALLOWED: Final = re.compile(r"[A-Za-z0-9_*?\[\]!-]{1,128}")


class Pattern(Struct, frozen=True):
    text: str
    prefix: str
    """What every name that fits begins with; looking at this first spares most of the matching."""
    wild: re.Pattern[str] | None
    """None: it is a plain name."""

    def matches(self, name: str) -> bool:
        if self.wild is None:
            return name == self.text
        return name.startswith(self.prefix) and self.wild.match(name) is not None


def compile_pattern(text: str) -> Pattern:
    """Raises ConfigError for what no tool's name could ever fit."""
    if not _ALLOWED.fullmatch(text):
        hint = f"; write {text.replace(':', '__')}" if ":" in text else ""
        raise ConfigError(
            f"pattern {text[:64]!r} fits no tool: names are letters, digits, '_' and '-', as in market__*{hint}"
        )
    found = _WILD.search(text)
    if found is None:
        return Pattern(text, text, None)
    # Python's translation never tries a star twice, so that no pattern takes long, whatever it is held against.
    return Pattern(text, text[: found.start()], re.compile(translate(text)))


Scope = Literal["global", "user", "role", "channel", "agent", "group", "tool"]
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
_FOR_EVERYBODY: Final = ("global", "tool")
_STRICTNESS: Final[Mapping[Verdict, int]] = {"deny": 0, "require-approval": 1, "allow": 2}


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of the policy."""

    pattern: str
    """The tools it is about, such as `market__quote` or `order__*`."""
    verdict: Verdict
    """`deny` is final; `require-approval` asks a person; `allow` lifts what is only a default."""
    scope: Scope = "global"
    """Whom it is for: everybody (`global`, and `tool`, which is asked later), or those whom `who` names."""
    who: tuple[str, ...] = ()
    """The users (`web:owner`), roles, channels, agents or groups it is for. A deny or an approval for a user is also
    for the labels they speak under (`web:owner/label`); an allow is not."""
    when: tuple[Condition, ...] = ()
    """What must hold of the arguments, such as `{path: amount, op: gt, value: 1000}`; all of it."""
    priority: Annotated[int, Meta(ge=-1_000_000, le=1_000_000)] = 0
    """Between an allow and an approval of the same stage the higher one counts. A deny always does."""
    reason: str = ""
    """Why, for whoever is refused."""

    def __post_init__(self) -> None:
        compile_pattern(self.pattern)
        if self.scope in _FOR_EVERYBODY and self.who:
            raise ConfigError(f"who is for rules about somebody; scope {self.scope} is for everybody: leave it out")
        if self.scope not in _FOR_EVERYBODY and not (self.who and all(self.who)):
            raise ConfigError(f"scope {self.scope} needs `who`: name the {self.scope}s that this rule is for")
        if self.scope == "user" and self.verdict == "allow":
            self._must_be_told_apart()

    def _must_be_told_apart(self) -> None:
        """Two platforms may have the same id for different people. A deny may hit both; an allow must not."""
        for each in self.who:
            if ":" not in each:
                raise ConfigError(f"who names {each!r}; to allow something, say on which channel: web:{each}")
            if each.endswith("/"):
                raise ConfigError(f"who names {each!r}, which is nobody; write the whole id, with its label")

    def __str__(self) -> str:
        text = f"{self.verdict} {self.pattern}"
        if self.who:
            text += f" for {self.scope} {', '.join(self.who)}"
        if self.when:
            text += f" when {' and '.join(map(str, self.when))}"
        return text


class PreparedRule:
    __slots__ = ("_ask", "order", "pattern", "reason", "rule", "verdict")

    def __init__(self, rule: Rule, place: int) -> None:
        self.rule = rule
        self.verdict: Verdict = rule.verdict
        self.pattern: Pattern = compile_pattern(rule.pattern)
        self.order = (-rule.priority, _STRICTNESS[rule.verdict], place)
        """Smallest first: the higher priority, then the stricter, then as they are written."""
        self.reason = rule.reason or f"rule: {rule}"
        self._ask: Question | None = every(tuple(map(question, rule.when))) if rule.when else None

    def applies(self, args: Mapping[str, Any]) -> bool:
        """Where nobody can tell, a deny and an approval apply, and an allow does not."""
        if self._ask is None:
            return True
        answer = self._ask(args)
        if answer is None:
            return self.verdict != "allow"
        return answer


Whom = tuple[Scope, str]
"""A scope and an id in it; the id is empty where the rule is for everybody."""

_MOST_TOOLS: Final = 4_096
"""Tools come and go with connections; what is remembered of those that went is thrown away some time."""


class _Rules(NamedTuple):
    """For one tool and one `Whom`, the first to be asked first. A deny is not a matter of priority."""

    denies: tuple[PreparedRule, ...]
    others: tuple[PreparedRule, ...]


class ToolRules:
    def __init__(self, rules: Iterable[PreparedRule]) -> None:
        found: defaultdict[Whom, list[PreparedRule]] = defaultdict(list)
        for rule in sorted(rules, key=lambda each: each.order):
            for whom in _whom(rule.rule):
                found[whom].append(rule)
        self._rules = {
            whom: _Rules(
                tuple(rule for rule in each if rule.verdict == "deny"),
                tuple(rule for rule in each if rule.verdict != "deny"),
            )
            for whom, each in found.items()
        }

    @property
    def depend_on_arguments(self) -> bool:
        return any(rule.rule.when for each in self._rules.values() for rule in (*each.denies, *each.others))

    def denies_always(self, whoms: Iterable[Whom]) -> bool:
        """Whether one of them is denied the tool whatever the arguments."""
        return any(not rule.rule.when for whom in whoms if (each := self._rules.get(whom)) for rule in each.denies)

    def has_any(self, whoms: Iterable[Whom]) -> bool:
        return any(whom in self._rules for whom in whoms)

    def deny(self, whoms: Iterable[Whom], args: Mapping[str, Any]) -> PreparedRule | None:
        return _first([rules.denies for whom in whoms if (rules := self._rules.get(whom))], args)

    def other(self, whoms: Iterable[Whom], args: Mapping[str, Any]) -> PreparedRule | None:
        return _first([rules.others for whom in whoms if (rules := self._rules.get(whom))], args)

    def any(self, whoms: Sequence[Whom], args: Mapping[str, Any]) -> PreparedRule | None:
        return self.deny(whoms, args) or self.other(whoms, args)


class RuleBook:
    """What was laid down: rules, and what groups say where no rule does."""

    def __init__(self, rules: Iterable[Rule], groups: Iterable[ToolGroup] = GROUPS) -> None:
        prepared = [PreparedRule(rule, place) for place, rule in enumerate(rules)]
        self._named: defaultdict[str, list[PreparedRule]] = defaultdict(list)
        for rule in prepared:
            if rule.pattern.wild is None:
                self._named[rule.pattern.text].append(rule)
        self._wild = [rule for rule in prepared if rule.pattern.wild is not None]
        self._groups = {group.id: group for group in groups}
        self.may_deny_always = any(rule.verdict == "deny" and not rule.rule.when for rule in prepared) or any(
            group.default_policy == "deny" for group in self._groups.values()
        )
        """Without such a rule or group nobody need ask for each tool."""
        self._tools: dict[str, ToolRules] = {}

    def of(self, tool: str) -> ToolRules:
        """Patterns are held against a name once; from then on its rules are known."""
        known = self._tools.get(tool)
        if known is None:
            wild = (rule for rule in self._wild if rule.pattern.matches(tool))
            known = ToolRules((*self._named.get(tool, ()), *wild))
            if len(self._tools) >= _MOST_TOOLS:
                self._tools.clear()
            self._tools[tool] = known
        return known

    def group(self, name: str) -> ToolGroup:
        """A group that nobody has described is as little trusted as the custom one."""
        return self._groups.get(name) or self._groups.get(CUSTOM.id, CUSTOM)


def _whom(rule: Rule) -> Iterable[Whom]:
    ids = list(dict.fromkeys(rule.who))
    if rule.scope == "user" and rule.verdict != "allow":
        # Whoever holds a token may speak under labels of their own, `owner/label`; that must be no way out.
        ids += [f"{each}/" for each in ids]
    return [(rule.scope, each) for each in ids] or [(rule.scope, "")]


def _first(lists: Sequence[Sequence[PreparedRule]], args: Mapping[str, Any]) -> PreparedRule | None:
    """Of each list the first that applies, and of these the one that comes first in the order."""
    applying = [rule for rules in lists if (rule := next((each for each in rules if each.applies(args)), None))]
    return min(applying, key=lambda rule: rule.order, default=None)


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
    alike = get_close_matches(name, names, n=3, cutoff=0.6)
    if not alike and len(name) > 2:  # somebody writes `quote`, and it is `market__quote`
        alike = [each for each in names if name.casefold() in each.casefold()][:3]
    if alike:
        return f"; did you mean {' or '.join(alike)}?"
    if 0 < len(names) <= 20:
        return f"; there are {', '.join(names)}"
    return "; `finclaw tools list` shows them all"
