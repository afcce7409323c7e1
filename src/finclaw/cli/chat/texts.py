"""The texts of the chat, in English and in Korean. It uses the language of the person's last line."""

import re
from collections.abc import Mapping
from typing import Final


class Texts:
    """The texts in English."""

    waiting = "…"
    looking_up = "… looking up {tool}"
    away = "the gateway does not answer, trying again; `finclaw serve` starts it"
    not_taken_yet = "the gateway could not take the message ({reason}); trying again"
    back_anew = "(the gateway started anew; the answer is being made again)"
    answer_to = "Answer to “{question}”:"
    stopping = "… stopping; Ctrl-C leaves the chat"
    too_late = "(it was too late to stop this)"
    not_stopped = "The gateway could not stop it: {reason}. The answer is shown here when it comes. Ctrl-C leaves."
    goes_on = "(the answer goes on:)"
    let_go = (
        "The gateway was told to stop, and has not come to an end yet; that is shown here when it comes. Ctrl-C leaves."
    )
    let_go_unheard = (
        "The gateway does not answer. As long as this chat is open, it is told to stop as soon as it does. "
        "Ctrl-C leaves."
    )
    once_more = "Ctrl-C again, Ctrl-D or /quit leaves."
    no_last = "There is no answer in this conversation yet."
    still_open = "That message is still being answered; type /last again in a moment."
    ended_as = "(the message ended as {outcome}{reason})"
    stopped = "(stopped)"
    refused = "Not sent: {reason}"
    source = "source: {source}, as of {as_of}"
    too_long = "Not sent: a message may have {limit} bytes."
    not_text = "Not sent: that was not UTF-8 text; check your terminal's character encoding."
    never_taken = "Never taken by the gateway, so nobody will answer it: “{question}”"
    finishing = "(an answer is still being made: giving it a moment; Ctrl-C leaves now, and the next start takes it up)"
    rewritten = "(written anew:)"
    unfinished = "(the answer broke off here; it is not complete)"
    unknown_command = (
        "There is no command {command}.{hint} Nothing was sent. /help lists them; begin with a space to "
        "send it as words."
    )
    did_you_mean = " Did you mean {command}?"
    own_commands = (
        "Type on while an answer is made: Enter sends at once (needs prompt_toolkit)\n"
        "Esc or Ctrl-C – stops an answer that is being made (Esc needs prompt_toolkit)\n"
        "/last [N] – shows the last answers again\n/quit – leaves (so do exit and Ctrl-D)"
    )
    which_last = "/last shows the last answer, /last 3 the last three, up to {most}."
    draft_waits = " (waits for the end of the answer)"
    joined_above = "(one answer to “{question}” and “{other}”)"
    joined_elsewhere = "(“{question}” was answered together with another message)"
    not_recorded = (
        "The gateway cannot record the answer: {why}. A message that it took is not lost; its answer is "
        "shown when it is recorded."
    )
    unwritable: Mapping[str, str] = {
        "full": "its disk is full, free some space",
        "read_only": "its disk or directory is read-only",
        "failed": "its disk refuses to write, `finclaw doctor` says more",
    }

    def say_not_recorded(self, why: str) -> str:
        return self.not_recorded.format(why=self.unwritable.get(why, self.unwritable["failed"]))


class KoreanTexts(Texts):
    """The texts in Korean."""

    waiting = "…"
    looking_up = "… {tool} 조회 중"
    away = "게이트웨이가 응답하지 않아 다시 연결하는 중 (`finclaw serve`로 시작)"
    not_taken_yet = "게이트웨이가 메시지를 받지 못했습니다({reason}). 다시 보내는 중"
    back_anew = "(게이트웨이가 다시 시작되어 답변을 새로 만들고 있습니다)"
    answer_to = "“{question}”에 대한 답변:"
    stopping = "… 중단하는 중 (Ctrl-C를 누르면 대화를 끝냅니다)"
    too_late = "(이미 끝나서 중단하지 못했습니다)"
    not_stopped = (
        "게이트웨이가 중단하지 못했습니다: {reason}. 답변이 오면 여기에 표시합니다. Ctrl-C를 누르면 대화를 끝냅니다."
    )
    goes_on = "(답변 계속:)"
    let_go = (
        "게이트웨이에 중단을 요청했지만 아직 끝나지 않았습니다. 끝나면 여기에 표시합니다. "
        "Ctrl-C를 누르면 대화를 끝냅니다."
    )
    let_go_unheard = (
        "게이트웨이가 응답하지 않습니다. 대화창이 열려 있으면 응답하는 대로 중단을 요청합니다. "
        "Ctrl-C를 누르면 대화를 끝냅니다."
    )
    once_more = "끝내려면 Ctrl-C를 한 번 더 누르거나 Ctrl-D 또는 /quit을 입력하세요."
    no_last = "이 대화에는 아직 답변이 없습니다."
    still_open = "아직 답변을 작성하고 있습니다. 잠시 후 /last를 다시 입력해 주세요."
    ended_as = "(메시지 처리 결과: {outcome}{reason})"
    stopped = "(중단됨)"
    refused = "보내지 못했습니다: {reason}"
    source = "출처: {source}, {as_of} 기준"
    too_long = "보내지 못했습니다: 메시지는 {limit}바이트까지 보낼 수 있습니다."
    not_text = "보내지 못했습니다: UTF-8 텍스트가 아닙니다. 터미널의 문자 인코딩을 확인해 주세요."
    never_taken = "게이트웨이가 받지 못해 답변되지 않을 메시지: “{question}”"
    finishing = "(답변을 작성하고 있어 잠시 기다립니다. Ctrl-C를 누르면 바로 끝내고 다음 시작 때 이어집니다)"
    rewritten = "(다시 작성됨:)"
    unfinished = "(답변이 여기서 끊겨 완성되지 않았습니다)"
    unknown_command = (
        "{command} 명령은 없습니다.{hint} 보내지 않았습니다. 명령 목록은 /help이고, 문장으로 보내려면 앞에 "
        "빈칸을 하나 넣으세요."
    )
    did_you_mean = " {command} 명령을 찾으셨나요?"
    own_commands = (
        "답변 작성 중에도 입력하고 Enter로 바로 보냅니다 (prompt_toolkit이 있을 때)\n"
        "Esc 또는 Ctrl-C – 작성 중인 답변을 중단합니다 (Esc는 prompt_toolkit이 있을 때)\n"
        "/last [N] – 지난 답변을 다시 봅니다\n/quit – 끝냅니다 (종료, Ctrl-D도 같습니다)"
    )
    which_last = "/last는 지난 답변 하나, /last 3은 셋을 보여 줍니다. {most}개까지 됩니다."
    draft_waits = " (답변이 끝난 뒤에)"
    joined_above = "(“{question}”, “{other}”에 함께 답변했습니다)"
    joined_elsewhere = "(“{question}”에는 다른 메시지와 함께 답변했습니다)"
    not_recorded = (
        "게이트웨이가 답변을 기록하지 못하고 있습니다: {why}. 이미 접수한 메시지는 사라지지 않으며, 기록되는 "
        "대로 답변을 표시합니다."
    )
    unwritable: Mapping[str, str] = {
        "full": "디스크가 가득 찼습니다(공간을 확보해 주세요)",
        "read_only": "디스크나 디렉터리가 읽기 전용입니다",
        "failed": "디스크에 쓸 수 없습니다(`finclaw doctor`로 확인해 주세요)",
    }


ENGLISH: Final = Texts()
KOREAN: Final = KoreanTexts()
_HANGUL: Final = re.compile("[\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3]")


def has_hangul(text: str) -> bool:
    return _HANGUL.search(text) is not None


def texts_for(text: str) -> Texts:
    return KOREAN if has_hangul(text) else ENGLISH


def texts_at_start(language: str) -> Texts:
    """By the environment's language, before anything was typed."""
    return KOREAN if language.startswith("ko") else ENGLISH


def greeting(market: str, url: str | None, sources: str = "") -> tuple[str, ...]:
    """Four lines, none wider than 80 columns but for the names of live sources."""
    live = f"LIVE market / 실제 시세: {sources}" if sources else f"Market / 시장: {market}"
    where = f"through the gateway at {url}" if url else "on its own: no `finclaw serve` is running"
    return (
        f"FinClaw chat, {where}",
        "DEMO market: every price is made up. / 데모 시장: 모든 시세는 가상입니다." if market == "demo" else live,
        "Try / 예:  What is AAPL trading at?  ·  삼성전자 현재 주가 알려줘",
        "/help commands/명령 · /last last answer/지난 답변 · /quit or Ctrl-D leave/끝",
    )
