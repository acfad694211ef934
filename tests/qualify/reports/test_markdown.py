"""report.md, read by a CommonMark parser with GitHub's tables."""

import re

from markdown_it import MarkdownIt

from assay.qualify.lock import LockChange
from assay.qualify.reports import markdown_report

from .conftest import FEWER_SPILLS, HOSTILE, SPILLS

# Emphasis harms nothing; links, images, code and HTML must not come of text.
KEPT = {"text", "text_special", "strong_open", "strong_close", "em_open", "em_close"}
ID = "0123456789abcdef"


def parse(text):
    return MarkdownIt("commonmark", {"html": True}).enable("table").parse(text)


def tables(text):
    """Every table as rows of cells, as shown: entities and all markup resolved by the parser."""
    found, cell = [], None
    for token in parse(text):
        if token.type == "table_open":
            found.append([])
        elif token.type == "tr_open":
            found[-1].append([])
        elif token.type in ("th_open", "td_open"):
            cell = True
        elif token.type == "inline" and cell:
            assert {child.type for child in token.children} <= KEPT, token.content
            found[-1][-1].append("".join(child.content or child.markup for child in token.children))
            cell = None
    return found


def test_it_says_verdict_counts_failures_changes_and_near_limits(make):
    changes = (
        LockChange("better", "scale width=64", (("vgpr_count", "12", "10"),)),
        LockChange("worse", "scale width=96", (("vgpr_count", "10", "12"), ("code_bytes", "400", "480"))),
    )
    run = make.run(
        make.passed(vgpr_count=254),
        make.failed(SPILLS, nearest=(FEWER_SPILLS,)),
        changes=changes,
        status=1,
        said="NOT QUALIFIED",
        messages=("1 of 2 problems have no qualified candidate",),
    )
    text = markdown_report.render(run)
    assert text.startswith("## assay gfx1201 core: NOT QUALIFIED\n")
    assert "1 of 2 problems have a qualified variant; 2 changes to the lock; 1 within 5 % of a limit." in text
    failed, changed, near = tables(text)
    assert failed[1:] == [
        [
            "scale x_dtype=f32 width=64 alignment=16",
            "unroll=2 num_stages=1 num_warps=4",
            "vgpr_spill_count 8 > 0 (8 over)",
            ID,
        ]
    ]
    assert changed[1:] == [
        ["worse", "scale width=96", "vgpr_count 10 → 12, code_bytes 400 → 480"],
        ["better", "scale width=64", "vgpr_count 12 → 10"],
    ]
    assert "vgpr_spill_count 8 > 0 (8 over)" in text, "what breaks nothing is not escaped"
    assert near[1:] == [["scale x_dtype=f32 width=64 alignment=16", "vgpr_count 254 of 256 (0.8 % left)", ID]]


def test_a_good_run_is_two_lines(make):
    text = markdown_report.render(make.run(make.passed()))
    assert text == "## assay gfx1201 core: QUALIFIED\n\n1 of 1 problems have a qualified variant.\n"


def test_it_stays_small_for_1500_changes_and_folds_all_but_the_first(make):
    changes = tuple(LockChange("new", f"scale width={number} " + "axis=value " * 12) for number in range(1500))
    run = make.run(*(make.passed(make.problem(width=n), vgpr_count=256) for n in range(250)), changes=changes, status=1)
    text = markdown_report.render(run)
    assert len(text) < 64 * 1024
    open_part = re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)
    assert open_part.count("| new |") == 10
    assert "… and 1400 more in report.json." in text
    assert text.count("<details>") == text.count("</details>") == 2


def test_names_and_messages_stay_text(hostile_run):
    text = markdown_report.render(hostile_run)
    shown = " ".join(HOSTILE.split()).replace("\x00", "\ufffd")
    cells = [cell for table in tables(text) for row in table for cell in row]
    assert f"scale x_dtype={shown} width=64 alignment=16" in [cell.replace("\x00", "\ufffd") for cell in cells]
    raw = [token.content.strip() for token in parse(text) if token.type == "html_block"]
    assert all(re.fullmatch(r"</?details>(<summary>[\w ]+</summary>)?", block) for block in raw)
    inline = [child for token in parse(text) if token.type == "inline" for child in token.children]
    assert not {child.type for child in inline} & {"html_inline", "link_open", "image", "code_inline"}
