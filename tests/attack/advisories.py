"""What went wrong at our peers and in the designs we began with, row by row, and where it is proved not to happen here.

The rows are those of the research on reliability and security, §7. A proof is a test, by its node id, where `here`
and `doors` stand for the two files beside this one. What `later` names is a surface that is not there yet, and what
brings it.
"""

from typing import Final, NamedTuple

FILES: Final = {"here": "tests/attack/test_advisories.py", "doors": "tests/attack/test_advisories_doors.py"}

_CHANNELS: Final = "roadmap 9, channels"
_MESSAGES: Final = "roadmap 6, the message side"
_DOORS: Final = "roadmap 8, the page and the doors"

_SPOOF: Final = "tests/walks/test_approval_spoofs.py::test_a_spoof_decides_nothing"


class Row(NamedTuple):
    lesson: str
    proofs: tuple[str, ...] = ()
    later: str = ""


def node_id(proof: str) -> str:
    file, _, test = proof.partition("::")
    return f"{FILES.get(file, file)}::{test}"


ADVISORIES: Final[dict[str, Row]] = {
    "CVE-2026-25253": Row(
        "No address that comes in with a request is ever given the token, and no foreign page opens a socket.",
        (
            "doors::test_no_address_in_a_request_gets_the_token",
            "doors::test_no_foreign_page_opens_a_socket",
            "tests/cli/test_client.py::test_a_stranger_on_the_old_port_never_sees_the_token",
            "tests/cli/test_chat_gateway.py::test_a_stranger_on_the_old_port_never_sees_the_token",
        ),
    ),
    "CVE-2026-25593 / GHSA-g55j-c2v4-pjcg": Row(
        "Whoever is on the same machine is still a stranger, and no door takes settings.",
        (
            "doors::test_a_neighbour_without_the_token_changes_nothing",
            "tests/web/test_auth.py::test_every_route_wants_the_token",
        ),
    ),
    "CVE-2026-28472": Row(
        "A token is compared, whole, at every door; that there is one says nothing.",
        (
            "doors::test_a_token_is_no_token_because_it_is_there",
            "tests/web/test_auth.py::test_every_route_wants_the_token",
        ),
    ),
    "GHSA-rqpp-rjj8-7wv8": Row(
        "What a client says about its own rights is refused or not read.",
        (
            "doors::test_nobody_declares_their_own_rights",
            "tests/web/test_api.py::test_identity_is_the_tokens",
            "tests/web/test_approvals_api.py::test_nothing_in_a_request_says_who_decides",
        ),
    ),
    "GHSA-4jpw-hj22-2xmc": Row(
        "Nothing makes tokens for others; the proof that we know ours is none.",
        ("doors::test_nothing_mints_a_token", "tests/web/test_auth.py::test_the_routes_above_are_all_there_are"),
        later=f"{_DOORS}: several tokens, each with no more than its maker has",
    ),
    "OC PR#57647": Row(
        "Nothing in a request switches the limiter off.",
        ("doors::test_no_field_and_no_header_switches_the_limiter_off",),
    ),
    "GHSA-5m9r-p9g7-679c (Zalo)": Row(
        "A guess costs before it is looked at.",
        (
            "doors::test_no_field_and_no_header_switches_the_limiter_off",
            "tests/web/test_auth.py::test_wrong_tokens_are_limited_and_do_not_lock_out_the_right_one",
        ),
        later=f"{_CHANNELS}: webhooks",
    ),
    "CVE-2026-32980 (Telegram)": Row(
        "Whoever shows no token is sent away before a byte of their body is read.",
        ("doors::test_no_body_is_read_before_the_token_was_seen",),
        later=f"{_CHANNELS}: Telegram's secret header",
    ),
    "Telnyx replay": Row(
        "One thing in two spellings is one thing: what counts once is counted by its meaning.",
        (
            "here::test_one_yes_in_two_spellings_is_one_yes",
            "tests/kernel/test_approval.py::test_the_hash_outlives_a_round_trip_and_another_order",
        ),
        later=f"{_CHANNELS}: signatures of webhooks",
    ),
    "CVE-2026-45005, GHSA-m8wm-r5vq-qjpg": Row(
        "A token that was replaced is worth nothing from the next request on.",
        ("doors::test_a_token_that_was_replaced_is_worth_nothing_at_once",),
        later=f"{_DOORS}: the same for what clients keep open",
    ),
    "CVE-2026-28480": Row(
        "People are who the channel says they are, by an id that stays; never by what they call themselves.",
        (
            f"{_SPOOF}[a name like the approver's]",
            "tests/sessions/test_session_key.py::test_text_time_name_and_roles_have_no_part_in_it",
        ),
        later=f"{_MESSAGES}: who may write at all (gate and pairing)",
    ),
    "CVE-2026-28482, -28459 / GHSA-5xfq-5mr7-426q": Row(
        "The name of a conversation is nobody's path.",
        (
            "here::test_no_name_of_a_conversation_is_a_path",
            "tests/storage/test_write_lock.py::test_k_a_session_key_is_no_path",
        ),
    ),
    "NB PR#4070": Row(
        "Two names are two conversations however alike they look, and a host is looked up once, not twice.",
        (
            "here::test_two_names_are_two_conversations",
            "tests/storage/test_jsonl.py::test_any_key_has_a_directory_of_its_own",
            "tests/fetch/test_forbidden.py::test_a_name_is_looked_up_once_and_what_was_judged_is_what_is_asked",
            "tests/fetch/test_forbidden.py::test_a_name_that_turns_private_between_two_redirects_is_not_asked_again",
            "tests/web/test_auth.py::test_a_rebound_name_is_refused",
        ),
        later=f"{_MESSAGES}: media, fetched for those only who may write",
    ),
    "CVE-2026-26324, GHSA-w45g-5746-x9fp, CVE-2026-28467, CVE-2026-26322": Row(
        "One place fetches, reads an address in one way, and connects to what it has judged.",
        (
            "here::test_no_spelling_of_this_machine_is_fetched_through_a_gateway",
            "here::test_no_tool_takes_the_address_of_a_gateway",
            "tests/fetch/test_address.py::test_no_spelling_of_a_private_address_passes",
            "tests/fetch/test_forbidden.py::test_nothing_is_looked_up_and_nobody_is_connected_to",
        ),
        later=f"{_CHANNELS}: webhooks; {_MESSAGES}: media",
    ),
    "CVE-2026-28473 / GHSA-mqpw-46fh-299h": Row(
        "A command has the rights of whoever typed it.",
        (
            f"{_SPOOF}[another member]",
            f"{_SPOOF}[an extension's words]",
            "tests/walks/test_commands.py::test_row_04_a_command_for_others_is_refused_aloud",
        ),
    ),
    "CVE-2026-29607": Row(
        "A standing yes is for one action with these arguments, not for the tool around it.",
        (
            "here::test_always_is_for_the_very_same_action",
            "tests/walks/test_consent.py::test_a_yes_for_the_session_stands_for_exactly_the_same_call",
        ),
    ),
    "CVE-2026-32898": Row(
        "What a tool says of its own harmlessness counts for nothing.",
        (
            "here::test_a_server_that_calls_its_tool_harmless_is_asked_about",
            "tests/builtins/mcp/test_client.py::test_policy_takes_it_for_a_strangers_tool",
            "tests/policy/test_stages.py::test_a_label_of_ones_own_is_no_way_out",
        ),
    ),
    "GHSA-xww8-gqvh-92x9": Row(
        "What cannot be shown in full is not asked for.",
        (
            "here::test_what_a_chat_would_cut_is_not_asked_for",
            "tests/approvals/test_card.py::test_every_argument_can_be_read_back_exactly",
        ),
    ),
    "CVE-2026-28463, GHSA-796m-2973-wc5q": Row(
        "What was decided about is what runs, and nothing expands it on the way.",
        (
            "here::test_nothing_expands_what_was_decided_about",
            "tests/attack/test_late.py::test_arguments_that_change_while_it_runs_change_nothing",
            "tests/walks/test_consent.py::test_what_a_layer_changes_behind_the_yes_is_asked_anew",
        ),
    ),
    "OC#85049": Row(
        "A call that was denied is told of without what it held.",
        (
            "tests/attack/test_canaries_calls.py::test_a_call_that_came_to_nothing_is_told_without_its_arguments",
            "tests/attack/test_canaries_calls.py::test_an_action_that_a_person_denied",
        ),
    ),
    "ClawHavoc": Row(
        "Skills come from this machine, are hashed, and bring code only where the operator has said so.",
        (
            "here::test_no_skill_comes_from_elsewhere",
            "tests/builtins/test_skills_folders.py::test_code_runs_only_where_it_is_wanted_and_as_it_was_added",
            "tests/builtins/test_skills_files.py::test_two_folders_have_one_hash_only_if_they_are_the_same",
            "tests/builtins/mcp/test_pins.py::test_one_byte_under_a_running_gateway_is_enough",
        ),
    ),
    "Exposure": Row(
        "It listens on this machine only, and says so instead of starting otherwise.",
        ("doors::test_it_listens_to_this_machine_only",),
    ),
    "nanobot: a bridge for everybody": Row(
        "Every door wants the token, and none is open to the network.",
        (
            "doors::test_it_listens_to_this_machine_only",
            "tests/web/test_auth.py::test_the_routes_above_are_all_there_are",
        ),
    ),
    "nanobot: NB PR#77": Row(
        "There is no shell to get around, and no path leads out of the workspace.",
        (
            "here::test_there_is_no_shell",
            "tests/builtins/test_workspace.py::test_nothing_but_plain_files_inside_is_read",
            "tests/builtins/test_workspace.py::test_no_path_made_of_such_parts_reaches_the_secret",
        ),
    ),
    "nanobot: NB#4815": Row(
        "No command reaches into another's conversation, nobody writes as the gateway, and no child inherits a key.",
        (
            "here::test_a_stranger_s_commands_reach_nobody_else",
            "doors::test_nobody_declares_their_own_rights",
            "tests/builtins/mcp/test_client.py::test_a_program_gets_nothing_of_our_environment_but_three_names",
            "tests/tools/test_worker.py::test_it_inherits_no_secret_and_no_open_file",
        ),
    ),
    "nanobot: NB PR#3492": Row(
        "What any page may make a browser send is refused.",
        (
            "doors::test_what_a_browser_sends_without_asking_is_refused",
            "tests/web/test_auth.py::test_a_foreign_page_is_refused",
        ),
    ),
    "nanobot: NB#4826": Row(
        "Being on this machine makes no token.",
        ("doors::test_nothing_mints_a_token",),
    ),
    "nanobot: empty allow-list": Row(
        "Nobody named means nobody.",
        ("here::test_nobody_named_is_nobody", "tests/approvals/test_consent.py::test_no_approver_means_no"),
        later=f"{_MESSAGES}: who may write at all (gate and pairing)",
    ),
    "nanobot: list of private addresses": Row(
        "Every form in which an address hides another is judged by the one inside; made-up ranges need a word.",
        (
            "tests/fetch/test_address.py::test_an_ipv4_address_in_another_is_never_more_public_than_bare",
            "tests/fetch/test_address.py::test_we_and_the_interpreter_agree_on_ipv6",
            "tests/fetch/test_forbidden.py::test_made_up_addresses_need_a_word_of_the_operator_and_a_name",
        ),
    ),
    "seed: require-approval falls through": Row(
        "Without somebody to ask, a question is a no.",
        (
            "here::test_nobody_named_is_nobody",
            "tests/walks/test_approvals.py::test_what_nobody_can_decide_is_refused_at_once",
        ),
    ),
    "seed: lock by process id and age": Row(
        "A lock is the system's, a note beside it proves nothing, and only its holder releases it.",
        (
            "tests/storage/test_write_lock.py::test_c_d_the_process_in_the_note_proves_nothing",
            "tests/storage/test_write_lock.py::test_a_note_of_yesterday_does_not_rob_a_live_holder",
            "tests/storage/test_write_lock.py::test_releasing_twice_does_not_free_the_next_one",
        ),
    ),
    "seed: session id as a file name": Row(
        "The name of a conversation is nobody's path.",
        ("here::test_no_name_of_a_conversation_is_a_path",),
    ),
    "seed: control tokens anywhere": Row(
        "A token is one only where the model puts it on a line of its own; anybody else's is text.",
        (
            "here::test_nobody_but_the_model_silences_an_answer",
            "tests/delivery/test_control.py::test_elsewhere_or_otherwise_written_it_is_just_text",
        ),
        later="roadmap 7, finance: the disclaimer is the gateway's own, whatever the model writes",
    ),
    "seed: direct chats without a peer, open bind": Row(
        "Two people are two conversations, also where the channel gives both the same name.",
        ("here::test_two_people_are_two_conversations", "doors::test_it_listens_to_this_machine_only"),
    ),
    "seed: five seconds of memory for repeats": Row(
        "A message that comes again is the same message, an hour and a restart later too.",
        ("here::test_a_message_is_known_again_after_an_hour_and_a_restart",),
    ),
}
"""Every row of §7; the one about nanobot, which is many, and the list of flaws in the seeds are taken apart."""
