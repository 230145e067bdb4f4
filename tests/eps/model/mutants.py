#!/usr/bin/env python3
"""Seeded bugs in the hand-over: each is one textual change of eps/hand_over.cpp that the exploration must catch.

  mutants.py --list                 names, one per line
  mutants.py hand_over.cpp OUTPUT   writes the source with all of them, of which seeded_bug() chooses one at run time

All mutants in one program, each behind a condition: "mutant schemata" (Untch, Offutt, Harrold 1993). A function with
mutants holds its body once for each of them. Fails unless the text to change stands in the source exactly once.

To add one: a row below. Meson compiles it and expects tests/eps/model to find a schedule that breaks a law.
"""
import pathlib
import re
import sys

# name: (text, what takes its place)
MUTANTS = {
    # leases
    "leases_count_once": ("++group_at(part.group).leases;", "group_at(part.group).leases = 1;"),
    "update_under_lease": ('return group.leases == 0 || fault_point("eps.update_under_lease");', "return true;"),
    "lease_of_a_leaving_version": (" || (group.version == version && leaving)", ""),
    "lease_of_an_approved_group": (">= GroupState::approved;", ">= GroupState::updating;"),
    "lease_asks_the_last_part_alone": ("later = later || group.version < version;", "later = group.version < version;"),
    # contributions
    "tied_group_complete_after_one_use": ("group.missing = group.contributions / ",
                                          "group.missing = (group.contributions + 1) / 2 / "),
    "uses_summed_upwards": ("for (std::size_t layer = layers_.size(); layer-- > 0;)",
                            "for (std::size_t layer = 0; layer < layers_.size(); ++layer)"),
    "devices_summed_downwards": ("devices_before + static_cast<std::size_t>(device);",
                                 "devices_before + devices_ - 1 - static_cast<std::size_t>(device);"),
    "devices_share_a_place": ("devices_before + static_cast<std::size_t>(device);", "devices_before;"),
    "contributions_kept_for_the_next_step": ("group.received.assign(group.contributions, 0);",
                                             "group.received.resize(group.contributions);"),
    "missing_not_counted_anew": ("group.missing = group.contributions / static_cast<std::size_t>(rank_.count);", ""),
    "gradients_of_a_step_taken_twice": (" || group.version != step_) return false;", ") return false;"),
    # checks and verdicts
    "held_update_before_the_verdict": ("  if (!held_ && finite) group_at", "  if (finite) group_at"),
    "not_finite_is_updated": ("  if (!held_ && finite) group_at", "  if (!held_) group_at"),
    "rejected_step_is_updated": ("if (held_ && approved) {", "if (held_) {"),
    "approved_step_is_not_updated": ("if (held_ && approved) {", "if (false) {"),
    "verdict_before_the_last_check": ("unchecked_ = used_;", "unchecked_ = used_ - 1;"),
    "step_stays_open": ("  open_ = false;\n  ++step_;\n  for (Group& group : groups_) {\n    if (group.contributions == 0) p",
                        "  ++step_;\n  for (Group& group : groups_) {\n    if (group.contributions == 0) p"),
    "step_is_not_counted": (
        "  open_ = false;\n  ++step_;\n  for (Group& group : groups_) {\n    if (group.contributions == 0) p",
        "  open_ = false;\n  for (Group& group : groups_) {\n    if (group.contributions == 0) p"),
    "skipped_step_is_not_counted": (
        "  open_ = false;\n  ++step_;\n  for (Group& group : groups_) {\n    if (group.contributions == 0) {",
        "  open_ = false;\n  for (Group& group : groups_) {\n    if (group.contributions == 0) {"),
    "skipped_step_keeps_its_version": ("    ++group.version;\n    rest(group);", "    rest(group);"),
    "skipped_step_does_not_rest": ("    ++group.version;\n    rest(group);", "    ++group.version;"),
    # updates
    "version_skipped": ("group_at(group).version += 1 + ", "group_at(group).version += 2 + "),
    "version_not_published": ("group_at(group).version += 1 + ", "group_at(group).version += "),
    "updates_before_checks": ("return a.kind == JobKind::update;", "return a.kind == JobKind::check;"),
    "updates_out_of_order": ("return first_use(a) > first_use(b);", "return first_use(a) < first_use(b);"),
    "checks_out_of_order": ("  return first_use(a) < first_use(b);", "  return first_use(a) > first_use(b);"),
    "no_updater_wakes_for_a_check": (" || group.state == GroupState::complete || may_update(group);", " || may_update(group);"),
    "no_updater_wakes_for_a_sum": ("return group.state == GroupState::pushed || ", "return "),
    "no_updater_wakes_for_an_update": ("GroupState::complete || may_update(group);", "GroupState::complete;"),
    "group_at_work_counts_as_resting": ("    --resting_;\n", ""),
    "group_never_rests_again": ("  ++resting_;\n", ""),
    # ranks
    "gradients_of_this_rank_are_all": (
        "rank_.count == 1 ? GroupState::complete : sums_ ? GroupState::pushed : GroupState::local",
        "GroupState::complete"),
    "devices_are_not_summed": ("sums_ ? GroupState::pushed : GroupState::local", "GroupState::local"),
    "devices_summed_twice": ("    group_at(*sum).state = GroupState::summing;\n", ""),
    "sum_without_room": ("sum && room && group_at(*sum).lane", "sum && group_at(*sum).lane"),
    "sum_on_any_lane": (" && group_at(*sum).lane == lane)", ")"),
    "devices_are_summed_without_room_alone": ("sum && room && group_at", "sum && !room && group_at"),
    "sum_is_all_ranks": ("  expect(group, GroupState::summing);\n  group_at(group).state = GroupState::local;",
                         "  expect(group, GroupState::summing);\n  group_at(group).state = GroupState::complete;"),
    "sums_await_room_again": ("!(room || sums_)", "!room"),
    "gradients_of_all_ranks_are_awaited_here": (
        "group.missing = group.contributions / static_cast<std::size_t>(rank_.count);",
        "group.missing = group.contributions;"),
    "ranks_share_a_place": ("= static_cast<std::size_t>(rank) * devices_;", "= static_cast<std::size_t>(rank) * 0;"),
    "ranks_summed_downwards": ("= static_cast<std::size_t>(rank) * devices_;",
                               "= static_cast<std::size_t>(rank_.count - 1 - rank) * devices_;"),
    "verdict_on_this_rank_alone": ("  if (rank_.count > 1) {\n    group_at(group).state = GroupState::measured;",
                                   "  if (false) {\n    group_at(group).state = GroupState::measured;"),
    "published_before_the_shards_of_others": (
        "  if (rank_.count > 1 && !published) {", "  if (false) {"),
    "shards_of_the_wire_are_published": ("  if (rank_.count > 1 && !published) {", "  if (rank_.count > 1) {"),
    "lease_of_a_group_being_published": (">= GroupState::approved;",
                                         ">= GroupState::approved && group.state != GroupState::publishing;"),
    "lease_of_what_is_updated_on_this_rank": (">= GroupState::approved;",
                                              ">= GroupState::approved && group.state != GroupState::updated;"),
    "gradients_gathered_twice": ("  group_at(*gradients).state = GroupState::gathering;\n", ""),
    "squares_compared_twice": ("      groups_[i].state = GroupState::comparing;\n", ""),
    "wire_published_twice": ("      groups_[i].state = GroupState::publishing;\n", ""),
    "gradients_leave_in_another_order": ("checks_later(*next, group)", "checks_later(group, *next)"),
    "gradients_never_leave": ("!(room || sums_)", "(room || sums_)"),
    "squares_stop_nothing": ("return conclude_check(exchange.group, finite);",
                             "return conclude_check(exchange.group, true);"),
    "gathered_gradients_are_not_checked": ("group_at(exchange.group).state = GroupState::complete;",
                                           "conclude_check(exchange.group, finite);"),
    # lanes
    "lane_takes_jobs_of_another": ("if (groups_[i].lane != lane || ", "if ("),
    # saves
    "update_overtakes_the_save": (
        "if (group.save != SaveState::unmarked && group.version >= save_version_) return false;", ""),
    "update_while_the_save_reads": ("if (group.save != SaveState::unmarked && group.version >= save_version_)",
                                    "if (group.save == SaveState::wanted && group.version >= save_version_)"),
    "save_holds_pending_updates": ("if (group.save != SaveState::unmarked && group.version >= save_version_)",
                                   "if (group.save != SaveState::unmarked)"),
    "save_of_any_version": (" && (!group.trained || group.version >= save_version_)", ""),
    "skip_frees_what_is_saved": ("group.version >= save_version_) return false;",
                                 "group.version == save_version_) return false;"),
    "skip_hides_what_is_wanted": ("(!group.trained || group.version >= save_version_)",
                                  "(!group.trained || group.version == save_version_)"),
    "save_misses_a_group": ("unsaved_ = groups_.size();", "unsaved_ = groups_.size() - 1;"),
    "saved_group_is_wanted_again": ("group.save = SaveState::unmarked;\n  --unsaved_;",
                                    "group.save = SaveState::wanted;\n  --unsaved_;"),
    "save_given_up_keeps_its_marks": ("for (Group& group : groups_) group.save = SaveState::unmarked;", ""),
    "least_urgent_group_is_saved_first": ("saves_later(*first, group)", "saves_later(group, *first)"),
    # layers that are exchanged
    "unused_group_is_waited_for": ("unchecked_ = used_;", "unchecked_ = groups_.size();"),
    "unused_group_counts_as_used": ("used_ += group.contributions > 0 ? 1 : 0;", "used_ += 1;"),
    "used_groups_not_counted_anew": ("  used_ = 0;\n", ""),
    "unused_group_keeps_its_version": ("    if (group.contributions == 0) pass(group);\n", ""),
    "unused_group_keeps_its_version_when_skipped": ("      pass(group);\n      continue;\n", "      continue;\n"),
    "unused_group_has_the_version_before_its_update": (
        "++(group.state == GroupState::resting ? group.version : group.passed);", "++group.version;"),
    "unused_group_is_said_to_be_updated": ("++(group.state == GroupState::resting ? group.version : group.passed);",
                                           "++group.passed;"),
    "unused_group_loses_its_update": ("if (group.contributions == 0) pass(group);",
                                      "if (group.contributions == 0 && group.state == GroupState::approved) rest(group);"),
    "skipped_step_drops_a_pending_update": ("      pass(group);\n      continue;\n",
                                            "      ++group.version;\n      rest(group);\n      continue;\n"),
    "passed_steps_forgotten": ("1 + std::exchange(group_at(group).passed, 0)", "1"),
    "passed_steps_counted_again": ("std::exchange(group_at(group).passed, 0)", "group_at(group).passed"),
    "passed_steps_counted_once": ("++(group.state == GroupState::resting ? group.version : group.passed);",
                                  "group.state == GroupState::resting ? ++group.version : group.passed = 1;"),
    "passed_steps_counted_twice": ("++(group.state == GroupState::resting ? group.version : group.passed);",
                                   "(group.state == GroupState::resting ? group.version : group.passed) += 2;"),
    "exchange_keeps_old_contributions": ("    group.contributions = 0;\n", ""),
    "exchange_keeps_old_first_uses": ("    group.first_use = kNoUse;\n", ""),
    "exchange_keeps_old_last_uses": ("    group.last_use = -1;\n", ""),
    "exchange_keeps_old_parts": ("layers_.assign(layers.size(), {});", "layers_.resize(layers.size());"),
    "exchange_expects_what_was_expected_before": (
        "if (group.state == GroupState::resting) expect_contributions(group);",
        "if (group.state == GroupState::resting && group.received.empty()) expect_contributions(group);"),
    "uses_share_a_place": ("push_back({index, group.contributions});", "push_back({index, 0});"),
    "one_use_is_expected": ("if (group.trained) group.contributions += ", "if (group.trained) group.contributions = "),
    # resuming
    "restored_groups_keep_their_version": ("for (Group& group : groups_) group.version = step;", ""),
}


# A function of the formatted source: its head, its body, the closing brace at the start of a line.
FUNCTION = re.compile(r"^(?!namespace)(\S[^\n]*(?:\n {4}[^\n]*)*\{\n)(.*?)^\}\n", re.MULTILINE | re.DOTALL)


def changed(source, name):
    text, replacement = MUTANTS[name]
    found = source.count(text)
    if found != 1:
        sys.exit(f"mutants.py: {name}: its text stands {found} times in the source, not once; adapt the table:\n{text}")
    return source.replace(text, replacement)


def with_mutants(source):
    """The source; each function that a mutant changes runs the body of the seeded bug, or else its own."""
    functions = list(FUNCTION.finditer(source))
    bodies = {match.start(): [] for match in functions}
    for name in MUTANTS:
        mutant = changed(source, name)
        for match in functions:
            before, after = source[:match.start(2)], source[match.end(2):]
            if mutant.startswith(before) and mutant.endswith(after) and len(mutant) >= len(before) + len(after):
                body = mutant[len(before):len(mutant) - len(after)]
                bodies[match.start()].append(f'  if (seeded_bug() == "{name}") {{\n{body}  }} else')
                break
        else:
            sys.exit(f"mutants.py: {name}: changes more than the body of one function")
    parts, end = [], 0
    for match in functions:
        parts += [source[end:match.start(2)], *bodies[match.start()], " {\n", match[2], "  }\n"]
        end = match.end(2)
    return '#include "tests/eps/model/seeded_bug.h"\n' + "".join(parts) + source[end:]


def main(arguments):
    if arguments == ["--list"]:
        print("\n".join(MUTANTS))
    else:
        source, output = map(pathlib.Path, arguments)
        output.write_text(with_mutants(source.read_text()))


if __name__ == "__main__":
    main(sys.argv[1:])
