"""Stage 2: is it for us?"""

import pytest

from finclaw.kernel.envelope import ChatType, Inbound, Sender
from finclaw.pipeline.gate import Gate
from finclaw.pipeline.journal import Halt
from finclaw.pipeline.normalize import normalize

ADA = Sender("ada", "Ada", ("admin",))


def admit(chat_type: ChatType, *, mentioned: bool, required: bool = True) -> Sender:
    message = normalize(Inbound(text="hi", sender=ADA, chat_type=chat_type, mentions_us=mentioned))
    return Gate(require_mention=required).admit(message)


@pytest.mark.spec("P-24", "M-06")
@pytest.mark.parametrize("mentioned", [True, False])
def test_row_03_a_direct_message_is_always_for_us(mentioned: bool) -> None:
    assert admit("direct", mentioned=mentioned) == ADA


@pytest.mark.spec("P-24", "P-25")
@pytest.mark.parametrize("chat_type", ["group", "channel"])
def test_row_03_elsewhere_we_must_be_mentioned(chat_type: ChatType) -> None:
    assert admit(chat_type, mentioned=True) == ADA
    with pytest.raises(Halt, match="not mentioned") as halt:
        admit(chat_type, mentioned=False)
    assert (halt.value.kind, halt.value.outcome) == ("skip", "skipped")


@pytest.mark.spec("P-24")
@pytest.mark.parametrize("chat_type", ["group", "channel"])
def test_row_03_unless_no_mention_is_required(chat_type: ChatType) -> None:
    assert admit(chat_type, mentioned=False, required=False) == ADA
