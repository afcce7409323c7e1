"""The last words of a turn: its conversation keeps what the person saw, and no call without a result."""

from datetime import datetime
from itertools import takewhile

from msgspec.structs import replace

from finclaw.agent.tool_results import answer_open_calls
from finclaw.agent.turn_state.turn_log import TurnLog
from finclaw.kernel.envelope import new_id
from finclaw.kernel.message import NOTES, Append, Message, Remove, Replace, Source, Text


def set_final_text(turn: TurnLog, text: str, now: datetime) -> None:
    """Make `text` the turn's last words: what layers or the gate changed is changed in the conversation too."""
    answer = _last_answer(turn)
    if answer is None or answer.tool_calls:
        turn.push(Append(Message(new_id(), "assistant", (Text(text),), Source("system"), now)))
    elif answer.text != text:
        kept = tuple(block for block in answer.blocks if not isinstance(block, Text))
        said, notes = _split_notes(text, answer.text)
        metadata = {**answer.metadata, "model_text": _text_for_replay(answer.text, said)}
        if notes:
            metadata[NOTES] = notes
        turn.push(Replace(answer.id, replace(answer, blocks=(*kept, Text(said)), metadata=metadata)))


def _split_notes(text: str, written: str) -> tuple[str, str]:
    """The answer, and the notes at its end: as many lines in brackets as the model has not written itself.

    A model that reads them in its own messages repeats them.
    """
    said = text.rstrip()
    for _ in range(_count_last_brackets(text) - _count_last_brackets(written)):
        said = said.rpartition("\n")[0].rstrip()
    return (said, text[len(said) :]) if said and said != text.rstrip() else (text, "")


def _count_last_brackets(text: str) -> int:
    lines = reversed([line for line in text.split("\n") if line.strip()])
    return sum(1 for _ in takewhile(lambda line: line.startswith("(") and line.rstrip().endswith(")"), lines))


def _last_answer(turn: TurnLog) -> Message | None:
    """What the model said last, as it stands now: a layer may have replaced it, removed it or said more behind it."""
    if not turn.answers:
        return None
    name = turn.answers[-1].id
    for event in turn.conversation.events:
        if isinstance(event, Replace) and event.target == name:
            name = event.message.id
    return next((each for each in reversed(turn.conversation.next_messages) if each.id == name), None)


def _text_for_replay(written: str, seen: str) -> str | int:
    """What the model itself wrote, for a replay: its text, or its length where the person saw it with more behind."""
    return len(written) if seen.startswith(written) else written


def forget_messages(turn: TurnLog) -> None:
    """Leave nothing of a turn in the conversation: what no model could be asked must not make the next call dearer."""
    for message in tuple(turn.messages):
        turn.push(Remove(message.id))


def close_conversation(turn: TurnLog, text: str, now: datetime) -> None:
    """End a turn that did not get through: every call gets a true result, the person's last sight is the last word."""
    answer_open_calls(turn, now)
    set_final_text(turn, text, now)
