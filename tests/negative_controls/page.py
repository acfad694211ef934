"""docs/negative-controls.md: the table of negative controls, from verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from .classes import CLASSES
from .judging import Verdict
from .mutations import KINDS
from .subject import Subject

_HEAD = """\
# Negative controls of the emulated gate

A gate that never fails shows nothing. Here two shipped gfx1201 kernels are made wrong, one instruction at a time, and
the gate of `--evidence emulated` is asked about every result. This page is written by

    make controls

`make test` judges a sample of these mutants, and templates that are wrong on purpose; `make test-slow` more of both.

Every instruction is changed in place, so that no address moves:

- **deleted**: `s_nop` instead of it.
- **operation**: another operation on the same operands (`add` and `sub`, `max` and `min`, `>` and `>=`, …); a branch
  on the inverted condition.
- **operand**: the next register instead of a source, a source negated or exchanged with the other, a memory access one
  element further, a wait for one operation fewer; of a barrier, its signal and its wait both deleted.

A mutant **changes an output** if, with every check off, any byte of an output of any case, or around it, differs from
what the kernel itself leaves there, or the run does not come to its end. It is **noticed** if the gate, as
`assay qualify` runs it, finds a fault in any case: a number out of tolerance, or a strictness check. Waits and barriers
change little without checks, since the emulator completes every access at once: there it is the checks that notice.

"""

_NOT_MODELLED = """\
The emulator gives `s_delay_alu`, `s_clause`, `s_nop`, `s_sendmsg` (release of VGPRs) and `s_wait_alu` no meaning, so
that leaving one out is not noticed and cannot be; nothing was run for them. The first four change nothing but time on
hardware either. `s_wait_alu` does: it keeps an instruction from reading a register before an earlier one has written
it. That these waits are right is taken from the compiler; no evidence level below `device` says anything of it.

"""


def page(judged: Sequence[tuple[Subject, Sequence[Verdict]]], every: int) -> str:
    """The whole document.  every: that one mutant in so many was judged."""
    parts = [_HEAD]
    if every > 1:
        parts.append(f"**One mutant in {every} was judged for this page.**\n\n")
    parts += [_section(subject, verdicts) for subject, verdicts in judged]
    return "".join([*parts, "## Not modelled\n\n", _NOT_MODELLED]).rstrip() + "\n"


def share_noticed(verdicts: Sequence[Verdict]) -> float:
    """Of the mutants that change an output, how many the gate notices; 0 where none changes one."""
    changed = [verdict for verdict in verdicts if verdict.changed]
    return sum(bool(verdict.noticed) for verdict in changed) / max(1, len(changed))


def summary(verdicts: Sequence[Verdict]) -> str:
    """One line: how many mutants change an output, and how many of those are noticed."""
    changed = [verdict for verdict in verdicts if verdict.changed]
    noticed = sum(bool(verdict.noticed) for verdict in changed)
    share = f"{100 * share_noticed(verdicts):.1f} %"
    return f"{len(verdicts)} mutants; {len(changed)} change an output, {noticed} of them noticed ({share})"


def _section(subject: Subject, verdicts: Sequence[Verdict]) -> str:
    unexecuted = [item for item in subject.program.instructions if item.address not in subject.executed]
    lines = [
        f"## {subject.request.family}",
        "",
        f"`{subject.name}`, variant `{subject.variant.id}`: {len(subject.program.instructions)} instructions, "
        f"{len(subject.trials)} cases. {summary(verdicts)}.",
        "",
        *_table("class", CLASSES, verdicts, lambda verdict: verdict.mutant.class_name),
        "",
        *_table("kind", KINDS, verdicts, lambda verdict: verdict.mutant.kind),
        "",
    ]
    if unexecuted:
        listed = "; ".join(f"{item.address:#06x} `{item.text}`" for item in unexecuted)
        lines += [f"Executed by no case: {listed}.", ""]
    lines += _unnoticed(verdicts) + _waits(verdicts)
    return "\n".join(lines) + "\n"


def _table(title: str, names: Iterable[str], verdicts: Sequence[Verdict], name_of: Callable) -> list[str]:
    rows = [
        f"| {title} | mutants | change an output | of those noticed | change none | of those noticed |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for name in names:
        own = [verdict for verdict in verdicts if name_of(verdict) == name]
        if own:
            rows.append(f"| {name} | {_figures(own)} |")
    return [*rows, f"| **all** | {_figures(verdicts)} |"]


def _figures(verdicts: Sequence[Verdict]) -> str:
    changed = [bool(verdict.noticed) for verdict in verdicts if verdict.changed]
    same = [bool(verdict.noticed) for verdict in verdicts if not verdict.changed]
    return " | ".join(str(figure) for figure in (len(verdicts), len(changed), sum(changed), len(same), sum(same)))


def _unnoticed(verdicts: Sequence[Verdict]) -> list[str]:
    missed = [verdict for verdict in verdicts if verdict.changed and not verdict.noticed]
    if not missed:
        return []
    rows = [f"| {verdict.mutant.name} | {_percent(verdict.share)} | {_reason(verdict)} |" for verdict in missed]
    return [
        "Not noticed although an output changes; with the largest change of any output element in any case, as a share "
        "of the tolerance:",
        "",
        "| mutant | largest change | reason |",
        "|---|--:|---|",
        *rows,
        "",
    ]


def _percent(share: float | None) -> str:
    share = share or 0.0
    return "< 0.01 %" if 0 < share < 1e-4 else f"{100 * share:.2g} %"


# (part of the opcode, largest share of the tolerance, which property of the computation takes the change up)
_REASONS = (
    (
        ("max_num", "max3_num"),
        1.0,
        "another reference value for the softmax, which is the same for any: rounding differs",
    ),
    (("add3_u32", "bfe_u32"), 1.0, "rounding of FP32 to BF16: the last bit of a weight or an output"),
    (("div_scale", "div_fmas", "div_fixup"), 0.01, "a step of the division that matters for extreme quotients alone"),
    (("fma_f32", "fmac_f32", "fmamk_f32"), 0.01, "a refinement step of a division, exponential or logarithm"),
)


def _reason(verdict: Verdict) -> str:
    share = verdict.share or 0.0
    for parts, largest, reason in _REASONS:
        if share <= largest and any(part in verdict.mutant.before for part in parts):
            return reason
    return "below the tolerance in every case"


def _waits(verdicts: Sequence[Verdict]) -> list[str]:
    """Waits and barriers that can be left out or weakened unnoticed."""
    kinds = ("waits for memory", "barriers")
    missed = [v for v in verdicts if v.mutant.class_name in kinds and not v.changed and not v.noticed]
    if not missed:
        return []
    rows = [f"- {verdict.mutant.name}" for verdict in missed]
    return [
        "Waits and barriers that can be deleted or weakened unnoticed. In no case does anything read or overwrite what "
        "is on its way there before a later wait for it, nor do two waves touch one place: they are redundant. (Of two "
        "LDS loads into the halves of one register the first returns first: the emulator asks for no wait between.)",
        "",
        *rows,
        "",
    ]
