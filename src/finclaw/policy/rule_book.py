"""An index of all rules: by tool, which is looked up once, and then by whom they are for."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from finclaw.policy.groups import CUSTOM, GROUPS, ToolGroup
from finclaw.policy.rule import PreparedRule, Rule, Scope

Whom = tuple[Scope, str]
"""A scope and an id in it; the id is empty where the rule is for everybody."""

_MOST_TOOLS: Final = 4_096
"""Tools come and go with connections; what is remembered of those that went is thrown away some time."""


class _Rules(NamedTuple):
    """For one tool and one `Whom`, the first to be asked first. A deny is not a matter of priority."""

    denies: tuple[PreparedRule, ...]
    others: tuple[PreparedRule, ...]


class ToolRules:
    """The rules about one tool."""

    def __init__(self, rules: Iterable[PreparedRule]) -> None:
        found: defaultdict[Whom, list[PreparedRule]] = defaultdict(list)
        for rule in sorted(rules, key=lambda each: each.order):
            for whom in _whom(rule.rule):
                found[whom].append(rule)
        self._rules = {whom: _split_rules(each) for whom, each in found.items()}

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
        """The allow or approval that counts."""
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


def _split_rules(rules: Sequence[PreparedRule]) -> _Rules:
    return _Rules(
        tuple(rule for rule in rules if rule.verdict == "deny"), tuple(rule for rule in rules if rule.verdict != "deny")
    )


def _first(lists: Sequence[Sequence[PreparedRule]], args: Mapping[str, Any]) -> PreparedRule | None:
    """Of each list the first that applies, and of these the one that comes first in the order."""
    if not lists:
        return None
    applying = [rule for rules in lists if (rule := next((each for each in rules if each.applies(args)), None))]
    return min(applying, key=lambda rule: rule.order, default=None)
