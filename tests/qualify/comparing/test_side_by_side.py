"""What a reader sees of two kernels: differences marked, equal stretches folded, nothing cut off."""

from __future__ import annotations

import io
import re

from rich.console import Console

from assay.qualify.comparing.listing import Line
from assay.qualify.comparing.side_by_side import Shown, print_side_by_side


def side(*texts: str, title: str = "side", **more) -> Shown:
    return Shown(title, tuple(Line(4 * at, text) for at, text in enumerate(texts)), **more)


def printed(left: Shown, right: Shown, *, width: int = 100, colours: bool = False, **options) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=colours, color_system="standard" if colours else None)
    print_side_by_side(console, left, right, **options)
    return out.getvalue()


SAME = [f"v_add_f32_e32 v{n}, v{n + 1}, v0" for n in range(1, 40)]


def test_a_changed_line_is_marked_and_what_is_far_from_it_folded():
    text = printed(side(*SAME, "s_nop 0", *SAME), side(*SAME, "s_sleep 1", *SAME))
    marked = [line for line in text.splitlines() if " | " in line]
    assert len(marked) == 1
    assert re.search(r"s_nop 0 +\| +9c  s_sleep 1", marked[0])
    assert text.count("… 36 equal instructions …") == 4  # before and behind, in both columns
    assert "78 equal, 0 on other registers" in text


def test_all_folds_nothing():
    text = printed(side(*SAME, "s_nop 0"), side(*SAME, "s_sleep 1"), all_lines=True)
    assert "…" not in text
    assert text.count("v_add_f32_e32") == 2 * len(SAME)


def test_an_instruction_more_is_shown_on_its_side_alone_and_shifts_nothing():
    text = printed(side(*SAME), side(*SAME[:20], "v_mov_b32_e32 v200, 0", *SAME[20:]))
    assert len([line for line in text.splitlines() if re.search(r" > +50  v_mov", line)]) == 1
    assert "39 equal, 0 on other registers or to another place (~), 0 changed (|), 0 left alone (<), 1 right" in text


def test_a_renamed_register_is_no_difference_but_a_swap_is():
    other = [text.replace("v5,", "v205,") for text in SAME]
    assert "39 equal" in printed(side(*SAME), side(*other))
    swapped = [*SAME, "v_sub_f32_e32 v60, v2, v3"], [*SAME, "v_sub_f32_e32 v60, v3, v2"]
    assert "39 equal, 1 on other registers" in printed(side(*swapped[0]), side(*swapped[1]))


def test_a_branch_to_another_place_is_a_difference():
    def loop(target: str) -> Shown:
        places = (Line(0, "s_nop 0", (".L0",)), Line(4, "s_sleep 1", (".L1",)))
        return Shown("side", (*places, Line(8, f"s_branch {target}")))

    assert "3 equal, 0 on" in printed(loop(".L0"), loop(".L0"))
    assert "2 equal, 1 on" in printed(loop(".L0"), loop(".L1"))


def test_long_lines_fold_in_their_column():
    long = "v_" + "x" * 90
    text = printed(side(long), side("s_nop 0"), width=61)
    assert max(map(len, text.splitlines()[:-1])) <= 61
    left = "".join(line[:29] for line in text.splitlines()[1:-1])
    assert "x" * 90 in left.replace(" ", "")


def test_a_log_is_plain_and_a_terminal_coloured():
    one, other = side("s_nop 0"), side("s_sleep 1")
    assert "\x1b" not in printed(one, other)
    assert "\x1b[" in printed(one, other, colours=True)


def test_source_lines_stand_before_their_instructions():
    def marked(number: int) -> Shown:
        mark = (f"<rendered 00ab>:{number}:3",)
        return Shown("side", (Line(0, "s_nop 0", (), mark), Line(4, "s_nop 1", (), mark)), "a = 1\nb = 2\n")

    text = printed(marked(1), marked(2), all_lines=True)
    assert re.search(r"1: a = 1 +2: b = 2", text)
    assert text.count("a = 1") == 1


def test_why_there_are_no_source_lines_is_said_once():
    text = printed(side("s_nop 0", note="the specs moved on"), side("s_nop 0", note="the specs moved on"))
    assert text.count("no source lines: the specs moved on") == 1


def test_markup_in_a_line_is_text():
    assert "[bold]" in printed(side("s_nop [bold]"), side("s_nop [bold]"), all_lines=True)
