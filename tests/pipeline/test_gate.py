"""Stage 2: is it for us?"""

import pytest

from finclaw.approvals.people import People, PersonSettings
from finclaw.kernel.envelope import ChatType, Inbound, Limits, Sender
from finclaw.pipeline.gate import Gate, normalize
from finclaw.pipeline.stage import Halt

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


def known(inbound: Inbound, *people: PersonSettings) -> tuple[str, ...]:
    return Gate(require_mention=True, people=People(people)).admit(normalize(inbound)).roles


@pytest.mark.spec("DX-22")
def test_roles_are_what_the_settings_say_of_an_authenticated_sender() -> None:
    ada = PersonSettings(name="Ada", known_as=("memory:local:ada",), roles=("approver",))
    claimed = Inbound(text="hi", channel="memory", sender=ADA)
    assert known(claimed) == ()
    assert known(claimed, ada) == ("approver",)
    assert known(Inbound(text="hi", channel="other", sender=ADA), ada) == ()
    assert known(Inbound(text="hi")) == ("owner",), "whoever is at the machine"


def test_a_task_of_our_own_keeps_the_sender_whom_we_admitted() -> None:
    task = Inbound(text="look", channel="delegate", sender=ADA, limits=Limits(pool="subagent"))
    assert known(task) == ("admin",)
    approved = Inbound(text="go", channel="memory", sender=ADA, limits=Limits(approval="ap-x"))
    assert known(approved) == (), "roles may have changed since it was asked for"
