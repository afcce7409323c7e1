"""Several keys for one model: the next is taken at once where a key is the matter, and never where it is not."""

from typing import Any

import pytest
from tests.agent.bench import Bench

from finclaw.agent.model.failover import RETRY_POLICIES, Cooldowns, ModelRoute, Route, policy_for
from finclaw.errors import (
    AuthFailed,
    BadRequest,
    ContextTooLong,
    Overloaded,
    ProviderError,
    ProviderTimeout,
    QuotaExceeded,
    RateLimited,
    ServerFailed,
    StreamCut,
    Unreachable,
)
from finclaw.kernel.chunk import Model
from finclaw.kernel.event import ModelFellBack, ModelRetried
from finclaw.kernel.scope import StepContext, StepResult
from finclaw.testing import FakeClock, ScriptedProvider, call, fails, reply, say
from finclaw.testing.provider import Line, Script

OF_THE_KEY = [AuthFailed, QuotaExceeded, RateLimited]
OF_THE_SERVER = [Overloaded, ServerFailed, Unreachable, ProviderTimeout, StreamCut]


class Keys:
    """A bench whose model has the keys `default` and `spare`, and a fallback behind them."""

    def __init__(self, spare: tuple[Line | Script, ...], other: tuple[Line | Script, ...] = ("from two",)) -> None:
        self.bench = Bench()
        self.spare = ScriptedProvider(*spare, clock=self.bench.clock)
        self.other = ScriptedProvider(*other, clock=self.bench.clock)
        self.bench.fallbacks = [
            ModelRoute(self.spare, self.bench.model, "spare"),
            ModelRoute(self.other, Model("scripted", "two")),
        ]

    def run(self, *script: Line | Script) -> str:
        return self.bench.run(*script).text

    @property
    def retried(self) -> list[tuple[str, float, str]]:
        told = (event for event in self.bench.events if isinstance(event, ModelRetried))
        return [(event.model, event.wait_s, event.credential) for event in told]

    @property
    def fell_back(self) -> list[str]:
        return [event.instead for event in self.bench.events if isinstance(event, ModelFellBack)]


@pytest.mark.spec("RT-06")
@pytest.mark.parametrize("kind", OF_THE_KEY)
def test_the_next_key_is_taken_at_once_and_it_is_no_fallback(kind: type[ProviderError]) -> None:
    keys = Keys(("with the spare key",))
    assert keys.run(fails(kind("x"))) == "with the spare key"
    assert keys.retried == [("scripted/one", 0.0, "spare")]
    assert keys.fell_back == []
    assert keys.bench.clock.monotonic() == FakeClock().monotonic(), "nobody waited"
    assert keys.other.requests == []


@pytest.mark.spec("RT-06")
def test_the_log_names_the_key_that_was_refused_and_the_one_that_is_used_now(
    caplog: pytest.LogCaptureFixture,
) -> None:
    keys = Keys((fails(QuotaExceeded("empty")),))
    keys.run(fails(AuthFailed("revoked")))
    assert "now the key spare is: AuthFailed: revoked (scripted/one; give a key" in caplog.text
    assert "so now scripted/two is asked: QuotaExceeded: empty (scripted/one, key spare; nothing is left" in caplog.text


@pytest.mark.parametrize("kind", OF_THE_SERVER)
def test_no_key_wakes_a_server_that_is_down(kind: type[ProviderError]) -> None:
    keys = Keys(("never asked",))
    assert keys.run(*[fails(kind("x"))] * 3) == "from two"
    assert keys.spare.requests == []
    assert keys.fell_back == ["scripted/two"]


def test_when_every_key_is_refused_the_fallback_answers_and_is_told_once() -> None:
    keys = Keys((fails(QuotaExceeded("x")),))
    assert keys.run(fails(AuthFailed("x"))) == "from two"
    assert keys.retried == [("scripted/one", 0.0, "spare")]
    assert keys.fell_back == ["scripted/two"]


def test_the_last_key_is_waited_for() -> None:
    keys = Keys((fails(RateLimited("x", retry_after=5.0)), "with the spare key"))
    assert keys.run(fails(RateLimited("x", retry_after=50.0))) == "with the spare key"
    assert keys.retried == [("scripted/one", 0.0, "spare"), ("scripted/one", 5.0, "")]


def test_a_key_that_was_refused_a_moment_ago_is_not_tried_again() -> None:
    keys = Keys((reply(call("nowhere")), "done"))
    assert keys.run(fails(AuthFailed("x")), "never asked") == "done"
    assert len(keys.retried) == 1


def test_another_key_goes_on_with_what_was_said() -> None:
    keys = Keys((" three",))
    assert keys.run(reply(say("one two"), fault=RateLimited("x"))) == "one two three"


def test_a_layer_that_chooses_another_model_has_it_asked_with_every_key() -> None:
    keys = Keys(("with the spare key",))
    chosen = Model("scripted", "three")

    async def choose(ctx: StepContext) -> StepResult:
        ctx.turn.model = chosen
        return await ctx.next()

    keys.bench.step.append(choose)
    assert keys.run(fails(AuthFailed("x"))) == "with the spare key"
    assert keys.spare.requests[0].model == chosen
    assert keys.fell_back == []


@pytest.mark.spec("RT-02")
@pytest.mark.parametrize("kind", [BadRequest, ContextTooLong])
def test_a_400_tries_no_other_key_and_cools_none(kind: type[ProviderError]) -> None:
    keys = Keys(("never asked",))
    with pytest.raises(kind):
        keys.run(fails(kind("x")))
    assert keys.spare.requests == keys.other.requests == []
    assert keys.retried == []


# ── cooldowns ───────────────────────────────────────────────────────────────────────────────────────────────

WAYS = [Route("a", credential, model) for credential in ("work", "spare") for model in ("big", "small")]


def cooled(*errors: ProviderError) -> list[Any]:
    cooldowns = Cooldowns(FakeClock())
    for error in errors:
        cooldowns.note(WAYS[0], error, policy_for(error).cools)
    return [(way.credential, way.model) for way in (*WAYS, Route("b", "work", "big")) if cooldowns.remaining(way)]


@pytest.mark.parametrize("kind", [kind for kind in RETRY_POLICIES if issubclass(kind, BadRequest)])
def test_a_400_says_nothing_about_any_way(kind: type[ProviderError]) -> None:
    assert cooled(*[kind("x")] * 5) == []


@pytest.mark.parametrize(
    ("kind", "ways"),
    [
        (AuthFailed, [("work", "big"), ("work", "small")]),
        (QuotaExceeded, [("work", "big"), ("work", "small")]),
        (RateLimited, [("work", "big")]),
        (Overloaded, [("work", "big"), ("spare", "big")]),
        (ServerFailed, [("work", "big"), ("spare", "big")]),
        (Unreachable, [("work", "big"), ("spare", "big")]),
        (ProviderTimeout, [("work", "big"), ("spare", "big")]),
    ],
)
def test_what_a_failure_says_about_other_ways(kind: type[ProviderError], ways: list[tuple[str, str]]) -> None:
    assert cooled(kind("x")) == ways


def test_an_answer_by_one_key_forgives_the_server_and_not_another_key() -> None:
    cooldowns = Cooldowns(FakeClock())
    work, spare = WAYS[0], WAYS[2]
    for error in (Overloaded("x"), AuthFailed("x")):
        cooldowns.note(work, error, policy_for(error).cools)
    cooldowns.note_answer(spare)
    assert cooldowns.remaining(spare) == 0
    assert cooldowns.remaining(work) == 30
