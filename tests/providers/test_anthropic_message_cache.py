"""Written messages that are kept for models of two kinds take no more memory than for one."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machine import examples

from finclaw.kernel.message import Message, Source, Text
from finclaw.providers.anthropic.message_cache import AnthropicMessageCache, paired_caches
from finclaw.providers.http.prefix_cache import RequestPrefix

AT = datetime(2026, 11, 1, tzinfo=UTC)
LIMIT = 100_000
LARGEST = 10_000


def message(name: str, size: int) -> Message:
    return Message(name, "user", (Text("x" * size),), Source("user"), AT)


def fill(kept: AnthropicMessageCache, names: range, size: int = 1_000) -> list[Message]:
    messages = [message(f"m{number}", size) for number in names]
    kept.set_reader("anthropic")
    kept.encode_all(messages, seeing=True)
    return messages


def test_two_small_ones_leave_each_other_alone() -> None:
    kept = paired_caches(LIMIT)
    first, second = fill(kept[False], range(10)), fill(kept[True], range(10))
    kept[False].set_reader("anthropic")
    assert list(kept[False].young) == [each.id for each in first]
    assert list(kept[True].young) == [each.id for each in second]


def test_one_alone_has_all_of_it() -> None:
    alone, kept = AnthropicMessageCache(LIMIT), paired_caches(LIMIT)[False]
    fill(alone, range(95))
    fill(kept, range(95))
    assert kept.size == alone.size > LIMIT * 0.9


@pytest.mark.parametrize("bound", [False, True])
def test_the_one_that_is_not_used_gives_way(bound: bool) -> None:
    kept = paired_caches(LIMIT)
    fill(kept[not bound], range(95))
    used = fill(kept[bound], range(95))
    kept[bound].set_reader("anthropic")
    assert kept[bound].size + kept[not bound].size <= 1.5 * LIMIT
    assert kept[bound].size > LIMIT * 0.9
    assert kept[bound].young[used[-1].id][0] is used[-1].blocks


USES = st.lists(
    st.tuples(st.booleans(), st.sampled_from(["keep", "prefix", "reader"]), st.integers(1, LARGEST)), max_size=80
)


@given(USES)
@settings(max_examples=examples(100), deadline=None)
def test_never_more_than_one_alone_could_take(uses: list[tuple[bool, str, int]]) -> None:
    kept = paired_caches(LIMIT)
    for number, (bound, what, size) in enumerate(uses):
        kept[bound].set_reader(f"anthropic-{number}" if what == "reader" else "anthropic")
        assert kept[False].size + kept[True].size <= 1.5 * LIMIT
        if what == "keep":
            kept[bound].encode_all([message(f"m{number}", size)], seeing=True)
        elif what == "prefix":
            prefix = RequestPrefix((message(f"t{number}", 1),), b"x" * size)
            kept[bound].prefixes[number % 2 == 0].store(prefix)
        assert kept[False].size + kept[True].size <= 1.5 * LIMIT + LARGEST + 100
        assert min(each.size for each in kept.values()) >= 0
