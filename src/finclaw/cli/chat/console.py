"""The chat at a terminal: read a line, show its answer as it is made, and again."""

from finclaw.cli.chat.answers import Answers
from finclaw.cli.chat.commands import MOST_BACK, answers_wanted, is_leaving
from finclaw.cli.chat.editor import Editor, interrupts_to
from finclaw.cli.chat.questions import QuestionEnd
from finclaw.cli.chat.screen import Screen, sources


class Console:
    """A conversation at a terminal: reads lines and has them answered."""

    def __init__(self, answers: Answers, screen: Screen) -> None:
        self._answers = answers
        self._screen = screen

    def run(self, editor: Editor) -> None:
        answers = self._answers
        answers.remember = editor.remember
        with interrupts_to(answers.events):
            while (text := self._read(editor)) is not None:
                if text.strip():
                    editor.remember(text)
                    self._obey(text)
            answers.wait_until_taken()

    def _read(self, editor: Editor) -> str | None:
        """An entry, perhaps an empty one; None when it is time to leave."""
        answers = self._answers
        answers.show_news()
        if answers.is_leaving:
            return None
        if answers.was_interrupted():
            return self._handle_interrupt("")
        try:
            text = answers.take_typed() or editor.read()
        except EOFError:
            return None
        except UnicodeDecodeError:
            self._screen.line(answers.texts.not_text)
            return ""
        except KeyboardInterrupt:
            return self._handle_interrupt(editor.left)
        answers.is_about_to_leave = False
        return None if is_leaving(text) else text

    def _handle_interrupt(self, left: str) -> str | None:
        """Ctrl-C takes back what stands on the line; on an empty line it leaves, the second time.

        The first time may have been the one that stopped the answer, if that was just now.
        """
        if left.strip():
            return ""
        if self._answers.is_about_to_leave or self._answers.has_just_stopped():
            return None
        self._answers.is_about_to_leave = True
        self._screen.line(self._answers.texts.once_more)
        return ""

    def _obey(self, text: str) -> None:
        answers = self._answers
        answers.choose_language(text)
        if (count := answers_wanted(text)) is not None:
            self._show_last_answers(count)
        else:
            answers.show_news()  # what came while the line was being sent is older than its answer
            answers.send(text)
            answers.await_all()

    def _show_last_answers(self, count: int) -> None:
        """Show the last answer again, or several, the oldest first."""
        answers = self._answers
        if count == 0:
            self._screen.line(answers.texts.which_last.format(most=MOST_BACK))
        elif count == 1:
            self._show_last_one()
        else:
            answers.show_news()
            views = [answers.look(None, back) for back in reversed(range(count))]
            for view in (each for each in views if each is not None and each.outcome is not None):
                answers.show_ending(QuestionEnd(str(view.outcome), view.reason, view.reply, view.is_markdown))
                answers.end_with(sources(view, answers.texts))
            if not any(views):
                self._screen.line(answers.texts.no_last)

    def _show_last_one(self) -> None:
        answers = self._answers
        latest = answers.latest
        was_open = latest is not None and latest.ending is None
        answers.show_news()
        view = answers.look(latest.inbound_id or None if latest else None)
        if was_open and latest is not None and latest.ending is not None:
            return  # it came just now, and was shown as it came
        if view is None or (latest is not None and not latest.inbound_id):
            self._screen.line(answers.texts.no_last)
        elif view.outcome is None:
            self._screen.line(answers.texts.still_open)
        else:
            answers.show_ending(QuestionEnd(view.outcome, view.reason, view.reply, view.is_markdown))
            answers.end_with(sources(view, answers.texts))
