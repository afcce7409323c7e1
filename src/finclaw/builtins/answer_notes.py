"""Lines behind an answer: notes (another model answered, it was cut off, much is known in summary, a file was not read,
figures have no source), and the disclaimer that it is not investment advice.

One layer of the turn and one of the delivery write all notes: each layer more is held by every turn that waits for its
model (`kb_in_flight`). The disclaimer has a separate layer, further out.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import takewhile
from typing import Any, Final, Literal, NamedTuple

from msgspec.structs import replace

from finclaw.builtins.delegate import CHANNEL as DELEGATED
from finclaw.kernel.envelope import Attachment, AttachmentKind, AttachmentProblem, Inbound, Outbound
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.fact import Fact
from finclaw.kernel.message import SUMMARY, Message, Patch, Replace, as_seen
from finclaw.kernel.scope import ConversationView, DeliveryContext, TurnContext, TurnResult
from finclaw.text import Language, find_language, language_of
from finclaw.tools.control_tokens import with_last_line
from finclaw.tools.unsourced_figures import NO_SOURCE, has_unsourced_figures

FALLBACK: Final = "fallback_note"
COMPACTION: Final = "compaction_note"
"""Keys under which a turn's result carries its lines. A summary carries the second too: whether the person knew of a
compaction before that turn."""
UNSOURCED: Final = "unsourced_figures"
"""Key of a turn's result: its text has figures without a source."""


class AnswerNotes:
    name = "answer_notes"

    def register(self, api: ExtensionApi) -> None:
        api.pipeline.register("turn", self.look)
        api.pipeline.register("delivery", self.say)

    async def look(self, ctx: TurnContext) -> TurnResult:
        result = await ctx.next()
        inbound = ctx.context.inbound
        if inbound.channel == DELEGATED:  # there it is a model that reads
            return result
        lines: dict[str, Any] = {}
        if (fallback := _new_fallback(ctx)) is not None:
            lines[FALLBACK] = fallback.describe(inbound.reply_language)
        if (summary := _new_summary(ctx.conversation)) is not None and _must_tell_of(summary, ctx, result):
            lines[COMPACTION] = _COMPACTED[inbound.reply_language]
        if not _has_facts(result) and has_unsourced_figures(result.text, ctx.conversation.next_messages):
            lines[UNSOURCED] = True
        return replace(result, metadata={**result.metadata, **lines}) if lines else result

    async def say(self, ctx: DeliveryContext) -> Outbound:
        outbound = await ctx.next()
        turn = ctx.turn
        if turn is None or outbound.kind != "reply":
            return outbound
        text = outbound.text
        if ctx.inbound.attachments:
            for line in _describe_files(ctx.inbound, ctx.inbound.reply_language):
                text = with_last_line(text, line)
        if COMPACTION in turn.metadata:
            text = with_last_line(text, turn.metadata[COMPACTION])
        if _is_cut(turn):
            text = with_last_line(text, _CUT[ctx.inbound.reply_language], begun=ctx.is_sent_in_blocks)
        if line := _unsourced_line(outbound, turn, ctx.inbound.reply_language):
            text = with_last_line(text, line, begun=ctx.is_sent_in_blocks)
        if FALLBACK in turn.metadata:
            text = with_last_line(text, turn.metadata[FALLBACK])
        return outbound if text == outbound.text else replace(outbound, text=text)


def _unsourced_line(outbound: Outbound, turn: TurnResult, language: Language) -> str:
    """Return the line that the figures of an answer have no source, or nothing where that is not so or said already."""
    if UNSOURCED not in turn.metadata or _has_facts(turn):
        return ""
    answer = outbound.text
    if answer in turn.text or turn.text.strip() in answer:  # its beginning may be sent already
        answer = turn.text
    line = NO_SOURCE[find_language(answer[:200]) or language]
    if line in answer or not any(map(str.isdigit, answer)):
        return ""
    return line


def _has_facts(turn: TurnResult) -> bool:
    """Return whether a tool of the turn returned a fact; the time of day is none."""
    return any(fact.source != "clock" for fact in turn.facts)


# ── another model answered ──────────────────────────────────────────────────────────────────────────────────
# Nothing is remembered. Each answer says who gave it, and instead of whom; those of the conversation so far tell
# whether it was said before.

_FELL_BACK: Final[dict[Language, str]] = {
    "en": "({chosen} was not available just now; {instead} answered instead.)",
    "ko": "(지금은 {chosen} 모델을 쓸 수 없어 {instead} 모델이 대신 답했습니다.)",
}


class Fallback(NamedTuple):
    """The model that was chosen, and the one that answered in its place."""

    chosen: str
    instead: str

    def describe(self, language: Language) -> str:
        """Without the providers, unless they are all that differs."""
        chosen = self.chosen.partition("/")[2]
        instead = self.instead.partition("/")[2]
        if chosen == instead:
            return _FELL_BACK[language].format(chosen=self.chosen, instead=self.instead)
        return _FELL_BACK[language].format(chosen=chosen, instead=instead)


def _new_fallback(ctx: TurnContext) -> Fallback | None:
    """Who gave this turn's answer in whose place, unless the person knows."""
    backwards = reversed(ctx.conversation.next_messages)
    fallback: Fallback | None = None
    for message in backwards:
        if message.id == ctx.input.id:
            break
        if fallback is None and message.source.kind == "assistant":
            fallback = _fallback_of(message)
            if fallback is None:
                return None  # as of most answers
    if fallback is None or _was_said(fallback, _answers(backwards)):
        return None
    return fallback


def _was_said(fallback: Fallback, before: Iterable[Message]) -> bool:
    """Since it began: an answer by anybody else lies before that. A turn that failed or kept silent said nothing."""
    lines = [fallback.describe(language) for language in _FELL_BACK]
    since = takewhile(lambda answer: _fallback_of(answer) == fallback, before)
    return any(line in as_seen(answer).text for answer in since for line in lines)


def _answers(messages: Iterable[Message]) -> Iterator[Message]:
    return (each for each in messages if each.source.kind == "assistant")


def _fallback_of(answer: Message) -> Fallback | None:
    chosen = answer.metadata.get("instead_of")
    instead = answer.metadata.get("model")
    if not chosen or not instead:
        return None
    return Fallback(str(chosen), str(instead))


# ── it was cut off at its limit ─────────────────────────────────────────────────────────────────────────────
# Half a figure looks like a figure: without the line, `75,3` would be read as one.

_CUT: Final[dict[Language, str]] = {
    "en": "(The answer was cut off here: it had reached its longest. Ask me to go on.)",
    "ko": "(답변이 길이 한도에 도달해 여기서 끊겼습니다. 계속해 달라고 하시면 이어서 답변하겠습니다.)",
}


def _is_cut(turn: TurnResult) -> bool:
    answer = next(_answers(reversed(turn.messages)), None)
    return answer is not None and answer.metadata.get("stop") == "max_tokens" and not answer.tool_calls


# ── the conversation was compacted ──────────────────────────────────────────────────────────────────────────
# Whoever is not told takes what the assistant has forgotten for a mistake of it. They are told once a session. The
# summary itself carries the mark that they know, so mark and conversation are kept and reset together, and a turn that
# is tried again tells it again.

_COMPACTED: Final[dict[Language, str]] = {
    "en": "(This conversation has grown long, so I now know its earlier part only in summary. "
    "If I miss something that matters, please say it again.)",
    "ko": "(대화가 길어져 앞부분은 이제 요약된 내용만 알고 있습니다. 놓친 내용이 있으면 다시 말씀해 주세요.)",
}


def _new_summary(conversation: ConversationView) -> Message | None:
    """The last one that this turn has made. Its events tell; the history is not walked."""
    made = (event.message for event in reversed(conversation.events) if isinstance(event, Replace))
    return next((message for message in made if SUMMARY in message.metadata), None)


def _must_tell_of(summary: Message, ctx: TurnContext, result: TurnResult) -> bool:
    """A turn that fails or keeps silent tells nothing, and leaves it to the next compaction."""
    before = (each for each in ctx.conversation.base_messages if SUMMARY in each.metadata)
    was_told = bool(summary.metadata.get(COMPACTION, any(COMPACTION in each.metadata for each in before)))
    # Cards and silence take no line.
    speaks = result.status in ("completed", "max_steps") and with_last_line(result.text, COMPACTION) != result.text
    if was_told or speaks:
        ctx.emit_message_event(Patch(summary.id, {COMPACTION: was_told}))
    return not was_told


# ── a file that the person sent was not read ────────────────────────────────────────────────────────────────
# A model that is told may pass it over; whoever sent a file waits for what comes of it.

_LONGEST_NAME: Final = 40
_KEPT: Final[dict[Language, str]] = {
    "en": "(I have kept {name}, but I cannot read files of this kind yet.)",
    "ko": "({name} 파일은 보관했지만, 이런 형식의 파일은 아직 읽을 수 없습니다.)",
}
_UNHEARD: Final[dict[Language, str]] = {
    "en": "(I cannot listen to recordings or watch videos yet. Please write to me.)",
    "ko": "(아직 음성이나 동영상은 이해할 수 없습니다. 글로 적어 주세요.)",
}
_NOT_RECEIVED: Final[dict[Language, dict[AttachmentProblem, str]]] = {
    "en": {
        "large": "(I did not take {name}: it is too large. Please send a smaller one.)",
        "broken": "(I could not use {name}: it is empty, damaged or of a kind I do not take. Please send it again.)",
        "refused": "(I did not get {name}: it is too large for this chat, or gone. Please send it again.)",
        "unreachable": "(I could not get {name} just now. Please send it again.)",
        "many": "(I did not take {name}: those were too many files at once. Please send it by itself.)",
    },
    "ko": {
        "large": "({name} 파일은 너무 커서 받지 못했습니다. 더 작은 파일로 보내 주세요.)",
        "broken": "({name} 파일은 비어 있거나 손상되었거나 받을 수 없는 형식입니다. 다시 보내 주세요.)",
        "refused": "({name} 파일을 받지 못했습니다. 너무 크거나 이미 없어진 파일입니다. 다시 보내 주세요.)",
        "unreachable": "(지금은 {name} 파일을 받을 수 없었습니다. 다시 보내 주세요.)",
        "many": "(한 번에 보낸 파일이 너무 많아 {name} 파일은 받지 못했습니다. 따로 보내 주세요.)",
    },
}
_NAMELESS: Final[dict[Language, dict[AttachmentKind, str]]] = {
    "en": {"image": "the picture", "audio": "the recording", "video": "the video", "file": "the file"},
    "ko": {"image": "사진", "audio": "음성", "video": "동영상", "file": "보내신"},
}


def _describe_files(inbound: Inbound, language: Language) -> Iterator[str]:
    """A line for each name and reason, and one for all that cannot be heard or watched."""
    named: dict[str, list[str]] = {}
    for each in inbound.attachments:
        if each.problem is not None:
            named.setdefault(_NOT_RECEIVED[language][each.problem], []).append(_name_file(each, language))
        elif each.kind == "file" and each.blob is not None:
            named.setdefault(_KEPT[language], []).append(_name_file(each, language))
    for line, names in named.items():
        yield line.format(name=", ".join(names))
    if any(each.kind in ("audio", "video") for each in inbound.attachments):
        yield _UNHEARD[language]


def _name_file(attachment: Attachment, language: Language) -> str:
    """As it was sent, without what would be read as markup or as more than a name."""
    name = re.sub(r"[^\w.() -]", "_", re.split(r"[/\\]", attachment.name)[-1])
    if len(name) > _LONGEST_NAME:
        name = f"{name[: _LONGEST_NAME - 10]}…{name[-9:]}"
    if not name.strip("_. "):
        return _NAMELESS[language][attachment.kind]
    return f"`{name}`"


# ── the disclaimer ──────────────────────────────────────────────────────────────────────────────────────────
# Code decides whether there is one and which: by the compliance level of the person, the language of the answer, and
# what it holds (a market figure, an opinion, neither). A model can ask for one, and cannot prevent one.

ContentClass = Literal["figure", "opinion", "neither"]
TOKEN: Final = "ATTACH_DISCLAIMER"

LINES: Final[Mapping[str, Mapping[ContentClass, Mapping[Language, str]]]] = {
    "retail": {
        "figure": {
            "en": "(For information only, not investment advice. The decision is yours.)",
            "ko": "(참고용 정보이며 투자 조언이 아닙니다. 투자 판단은 본인의 몫입니다.)",
        },
        "opinion": {
            "en": "(Not investment advice. The decision is yours, and you can lose what you invest.)",
            "ko": "(투자 조언이 아닙니다. 투자 판단은 본인의 몫이며, 원금을 잃을 수 있습니다.)",
        },
    },
    "professional": {
        "figure": {"en": "(Not investment advice.)", "ko": "(투자 조언이 아닙니다.)"},
        "opinion": {
            "en": "(Not investment advice. Whether it suits you or your client is yours to judge.)",
            "ko": "(투자 조언이 아닙니다. 본인이나 고객에게 적합한지는 직접 판단하시기 바랍니다.)",
        },
    },
    "institutional": {
        "opinion": {
            "en": "(Not investment advice. Your mandate and your limits decide.)",
            "ko": "(투자 조언이 아닙니다. 운용 지침과 한도에 따라 판단하시기 바랍니다.)",
        },
    },
}
"""By compliance level, content and language. Whoever acts for an institution reads prices all day, without a line."""

_ALL_LINES: Final = tuple(line for kinds in LINES.values() for texts in kinds.values() for line in texts.values())


class Disclaimers:
    name = "disclaimers"

    def __init__(self, level_of: Callable[[Inbound], str]) -> None:
        self._level_of = level_of

    def register(self, api: ExtensionApi) -> None:
        # Further out than the label of made-up prices, so that nothing stands behind it and no layer takes it away.
        api.pipeline.register("delivery", self.attach, priority=-110)

    async def attach(self, ctx: DeliveryContext) -> Outbound:
        outbound = await ctx.next()
        if outbound.kind != "reply" or ctx.kind == "block" or ctx.inbound.channel == DELEGATED:
            return outbound  # a block is followed by the rest; of a helper's answer a model is the reader
        content = _classify(ctx, outbound)
        if content == "neither":
            return outbound
        answer = outbound.text
        if ctx.turn:
            answer = f"{answer}\n{ctx.turn.text}"
        texts = LINES[self._level_of(ctx.inbound)].get(content)
        if texts is None or any(line in answer for line in _ALL_LINES):  # a model may repeat what it has read before
            return outbound
        if not any(map(str.isalpha, answer)):  # figures only
            answer = ctx.inbound.text
        text = with_last_line(outbound.text, texts[language_of(answer)], begun=ctx.is_sent_in_blocks)
        return outbound if text == outbound.text else replace(outbound, text=text)


# ── what an answer holds ────────────────────────────────────────────────────────────────────────────────────


def _classify(ctx: DeliveryContext, outbound: Outbound) -> ContentClass:
    """An opinion outweighs a figure. What the model asks a disclaimer for counts as an opinion."""
    turn = ctx.turn
    if states_opinion(outbound.text):
        return "opinion"
    if turn is not None:
        if TOKEN in turn.tokens or (turn.text not in outbound.text and states_opinion(turn.text)):
            return "opinion"
        if _has_market_figure(turn.facts):
            return "figure"
    if _has_market_figure(outbound.facts):
        return "figure"
    return "neither"


_NO_MARKET: Final = frozenset({"calculator", "clock", "user"})


def _has_market_figure(facts: Iterable[Fact]) -> bool:
    """Whether one is a price, a rate or a move of one; opening hours and arithmetic are none."""
    return any(
        (fact.currency is not None or fact.unit in ("points", "%")) and fact.source not in _NO_MARKET for fact in facts
    )


_STEMS: Final = (
    *("buy", "sell", "hold", "invest", "valued", "weight"),
    *("매수", "매도", "보유", "투자", "평가", "세요", "사는", "파는", "사시", "파시"),
)
"""One of these is in every opinion below. Most answers have none, and need no more than a look for them."""
_ACT: Final = r"(?:buy|sell|hold|invest|buying|selling|holding|investing)\b"
_OPINION: Final = re.compile(
    rf"""
      \b(?:should|would|recommend|suggest|advise|consider|better\ to|time\ to|wise\ to|idea\ to|worth|prefer\ to)
        \ (?:[\w'-]{{1,20}}\ ){{0,4}}{_ACT}
    | \bi'd\ (?:[\w'-]{{1,20}}\ ){{0,2}}{_ACT}
    | \b(?:a|an|strong|clear|still)\ (?:buy|sell|hold)\b(?!-)
    | \b(?:buy|sell|hold)\ (?:rating|signal|recommendation|now\b|the\ dip)
    | (?:^|\n|[.!?:]\s)[-*\s]{{0,3}}(?:buy|sell|hold)\ (?!orders?\b|side\b|volume\b)
    | \b(?:over|under)(?:valued|weight)\b
    | (?:매수|매도|보유|투자)(?:를|을|하는|하시는|하기|하기에|하실)?\ ?(?:게|것이|것을|걸|편이)?\ ?
        (?:추천|권해|권합|권장|좋|낫|나은|바람직|고려|적기|시점|타이밍|유리|의견
          |할\ ?만|하세요|하십시오|하시길|해\ ?보세요)
    | (?<![가-힣])(?:사|파|사는|파는|사시는|파시는)
        (?:세요(?!\ ?\?)|십시오|\ (?:게|것이|편이|걸)\ (?:좋|낫|나|유리|추천|권))
    | [저고]평가
    """,
    re.VERBOSE,
)


def states_opinion(text: str) -> bool:
    """Whether a text speaks of buying, selling or holding as something to do, for or against."""
    words = text.lower()
    return any(map(words.__contains__, _STEMS)) and _OPINION.search(words) is not None
