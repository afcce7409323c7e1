"""Limits of how many approvals may wait at once, so that none buries the one that matters.

They hold for a session, for a person who asks, and for a person who decides.
"""

from collections.abc import Collection, Sequence

from finclaw.approvals.consent import decides_here
from finclaw.approvals.people import People
from finclaw.approvals.settings import ApprovalSettings
from finclaw.errors import ToolDenied
from finclaw.kernel.approval import Approval

KnownAs = tuple[str, ...]
"""A person, by all their identities."""


class Crowded(ToolDenied):
    """Too many approvals wait already: nobody was asked."""


class ApprovalLimits:
    """A check of the limits, made before somebody is asked."""

    def __init__(self, people: People, settings: ApprovalSettings) -> None:
        self._people = people
        self._settings = settings

    def deciders_of(self, asked: Approval) -> Sequence[KnownAs]:
        """The persons who are to decide: whoever asks, where they may, for it is no business of others then."""
        if decides_here(asked, self._people, self._settings):
            return [self._people.known_as(asked.asked_by)]
        return [each for each in self._people.behind(asked.approvers) if not self._is_requester(asked, each)]

    def _is_requester(self, asked: Approval, person: KnownAs) -> bool:
        if self._settings.own == "never":
            return any(self._people.same_person(asked.asked_by, each) for each in person)
        return asked.asked_by in person

    def deciders_with_room(self, asked: Approval, waiting: Collection[Approval]) -> Sequence[KnownAs]:
        """Those of the deciders who have room for it. Raises Crowded when nobody has, or whoever asks has too many."""
        self._check_requester(asked, waiting)
        before = [each for one in waiting for each in self.deciders_of(one)]
        most = self._settings.most_per_approver
        roomy = [each for each in self.deciders_of(asked) if before.count(each) < most]
        if not roomy:
            raise Crowded(
                f"{asked.tool} needs a person's approval and was not run: everybody who may decide has {most} "
                "questions before them already. Wait until some are decided"
            )
        return roomy

    def _check_requester(self, asked: Approval, waiting: Collection[Approval]) -> None:
        most = self._settings.most_waiting
        if sum(each.session == asked.session for each in waiting) >= most:
            raise Crowded(f"{most} actions wait for a person here already; wait until some are decided")
        person = self._people.known_as(asked.asked_by)
        if sum(each.asked_by in person for each in waiting) >= most:
            raise Crowded(f"{most} actions of theirs wait for a person already; wait until some are decided")
