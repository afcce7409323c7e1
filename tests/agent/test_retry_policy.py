"""Which failures are worth another try, and where. Decided by class: words of an error change nothing."""

import pytest

from finclaw import errors
from finclaw.agent.model.failover import RETRY_POLICIES, Cooldowns, RetryPolicy, Route, policy_for
from finclaw.errors import (
    AuthFailed,
    BadRequest,
    ContextTooLong,
    NoStream,
    NotFound,
    Overloaded,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    StreamCut,
)
from finclaw.testing import FakeClock

HERE = Route("anthropic", "first", "big")
OTHER_MODEL = Route("anthropic", "first", "small")
OTHER_KEY = Route("anthropic", "second", "big")


def kinds() -> list[type[ProviderError]]:
    found = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, ProviderError)]
    return sorted(found, key=lambda each: each.__name__)


@pytest.mark.parametrize("kind", kinds())
def test_every_kind_of_failure_has_a_remedy_of_its_own(kind: type[ProviderError]) -> None:
    assert kind in RETRY_POLICIES
    assert policy_for(kind("rate limit exceeded, please retry: 429 overloaded")) == RETRY_POLICIES[kind]


@pytest.mark.spec("RT-02", "RT-03")
def test_what_is_tried_again_and_what_is_not() -> None:
    again = {kind.__name__ for kind in kinds() if RETRY_POLICIES[kind].again}
    assert again == {"RateLimited", "Overloaded", "ServerFailed", "Unreachable", "ProviderTimeout", "StreamCut"}
    assert policy_for(BadRequest("no")) == RetryPolicy(without_thinking=True)
    assert policy_for(NoStream("a page")).elsewhere
    assert policy_for(NotFound("retired")) == RetryPolicy(elsewhere=True, cools=(30.0, 60.0, 300.0))
    assert policy_for(ContextTooLong("too long")).shorter


def cool(clock: FakeClock, cooldowns: Cooldowns, error: ProviderError, route: Route = HERE) -> float:
    cooldowns.note(route, error, policy_for(error).cools)
    return cooldowns.remaining(route)


def test_each_failure_in_a_row_cools_longer_and_an_answer_forgives() -> None:
    clock = FakeClock()
    cooldowns = Cooldowns(clock)
    assert [cool(clock, cooldowns, Overloaded("x")) for _ in range(5)] == [30, 60, 300, 300, 300]
    cooldowns.note_answer(HERE)
    assert cooldowns.remaining(HERE) == 0
    assert cool(clock, cooldowns, Overloaded("x")) == 30


def test_a_400_cools_nothing() -> None:
    clock = FakeClock()
    cooldowns = Cooldowns(clock)
    assert cool(clock, cooldowns, BadRequest("x")) == 0
    assert cool(clock, cooldowns, ContextTooLong("x")) == 0


def test_a_busy_model_says_nothing_about_another_and_a_bad_key_says_it_about_all() -> None:
    clock = FakeClock()
    cooldowns = Cooldowns(clock)
    cool(clock, cooldowns, RateLimited("x"))
    assert cooldowns.remaining(OTHER_MODEL) == cooldowns.remaining(OTHER_KEY) == 0
    cool(clock, cooldowns, QuotaExceeded("x"))
    assert cooldowns.remaining(OTHER_MODEL) == 600
    assert cooldowns.remaining(OTHER_KEY) == 0
    cool(clock, cooldowns, AuthFailed("x"), OTHER_KEY)
    assert cooldowns.remaining(OTHER_KEY) == 30


def test_a_server_that_breaks_off_does_so_by_any_key_but_not_with_every_model() -> None:
    clock = FakeClock()
    cooldowns = Cooldowns(clock)
    assert [cool(clock, cooldowns, StreamCut("x")) for _ in range(3)] == [30, 60, 300]
    assert (cooldowns.remaining(OTHER_KEY), cooldowns.remaining(OTHER_MODEL)) == (300, 0)


def test_it_ends_by_itself_and_never_before_the_provider_asked() -> None:
    clock = FakeClock()
    cooldowns = Cooldowns(clock)

    async def main() -> None:
        cooldowns.note(HERE, RateLimited("x"), (30.0,), at_least=45.0)
        assert cooldowns.remaining(HERE) == 45
        await clock.sleep(46)
        assert cooldowns.remaining(HERE) == 0

    clock.run(main())
