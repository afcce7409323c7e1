"""Authorization of decisions: who may decide is told by the event that carried the decision, never by its text."""

from finclaw.approvals.people import People, identity_of
from finclaw.approvals.settings import ApprovalSettings
from finclaw.errors import ToolDenied
from finclaw.kernel.approval import Approval, RefusalReason
from finclaw.kernel.envelope import Inbound


def approvers_for(
    inbound: Inbound, people: People, settings: ApprovalSettings, *, authenticated: bool
) -> tuple[str, ...]:
    """Who may decide about what this message led to. Raises ToolDenied when nobody could be asked."""
    if inbound.limits is not None and inbound.limits.pool != "main":
        raise ToolDenied(
            "this needs a person's approval, and nobody reads along here; leave it to the main conversation"
        )
    me = identity_of(inbound)
    own = settings.own == "direct" and inbound.chat_type == "direct" and authenticated
    approvers = (me, *settings.approvers) if own else settings.approvers
    reached = frozenset[str]().union(*map(people.who, approvers))
    if settings.own == "never":
        reached = frozenset(each for each in reached if not people.same_person(me, each))
    if not reached:
        raise ToolDenied("this needs a person's approval, and nobody here may give it; it was not run")
    return approvers


def may_decide(
    approval: Approval, evidence: Inbound, people: People, settings: ApprovalSettings, *, authenticated: bool
) -> RefusalReason | None:
    """None: they may. `evidence` is the message, or what stands for it at another edge, that carried the decision.

    `authenticated`: so is the channel that it came through; elsewhere anybody may claim to be anybody.
    """
    if (why := _nobodys_word(evidence, authenticated=authenticated)) is not None:
        return why
    who = identity_of(evidence)
    if settings.own == "never" and people.same_person(approval.asked_by, who):
        return "own_request"
    still_listed = (each for each in approval.approvers if each in settings.approvers)
    if any(who in people.who(each) for each in still_listed):
        return None
    if who != approval.asked_by or not _is_their_own(approval):
        return "not_an_approver"
    return None if _same_chat(approval, evidence) else "elsewhere"


def may_still_give(approval: Approval, people: People, settings: ApprovalSettings, *, authenticated: bool) -> bool:
    """Whether whoever said yes to it might do so now. `authenticated`: so is the channel that it was asked in."""
    giver, requester = approval.decided_by or "", approval.asked_by
    if settings.own == "never" and people.same_person(requester, giver):
        return False
    if any(giver in people.who(each) for each in settings.approvers):
        return True
    return giver == requester and authenticated and _is_their_own(approval)


def may_revoke(
    approval: Approval, evidence: Inbound, people: People, settings: ApprovalSettings, *, authenticated: bool
) -> RefusalReason | None:
    """None: they may take back the yes that stands. It lets nobody do more, so any chat of theirs will do."""
    if (why := _nobodys_word(evidence, authenticated=authenticated)) is not None:
        return why
    who = identity_of(evidence)
    approvers = (*settings.approvers, *approval.approvers)
    theirs = who in people.known_as(approval.asked_by) or any(who in people.who(each) for each in approvers)
    return None if theirs else "not_an_approver"


def decides_here(approval: Approval, people: People, settings: ApprovalSettings) -> bool:
    """Whoever asked reads the card, and may decide about it."""
    if settings.own == "never":
        return False
    return any(approval.asked_by in people.who(each) for each in approval.approvers)


def _nobodys_word(evidence: Inbound, *, authenticated: bool) -> RefusalReason | None:
    """None: it is a person's own, new message."""
    if not authenticated:
        return "unauthenticated"
    sender = evidence.sender
    if sender.is_self or sender.is_bot or evidence.from_extension is not None or evidence.limits is not None:
        return "our_own_words"
    is_new = evidence.kind in ("message", "action") and not evidence.edited
    if evidence.forwarded or not is_new or evidence.reissue_of is not None:
        return "forwarded"
    return None


def _is_their_own(approval: Approval) -> bool:
    """Whoever asked may decide, because they asked where nobody else does."""
    return approval.chat_type == "direct" and approval.asked_by in approval.approvers


def _same_chat(approval: Approval, evidence: Inbound) -> bool:
    """Where a person decides for themselves, and nobody else reads or writes."""
    return evidence.chat_type == "direct" and evidence.conversation == approval.conversation
