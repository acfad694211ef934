"""The main job: expand, compile, judge, compare with the lock, write the bundle.  Nothing here prints."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay.bundle import BudgetError, BundleError, Contents, Fault, check_budgets
from assay.bundle.atomic import replace_file
from assay.bundle.validate import contents_faults
from assay.codegen.builder import Builder
from assay.codegen.cache import CompileCache
from assay.codegen.environment import ignored_overrides
from assay.codegen.expand import Selection, expand
from assay.codegen.spec_models import TargetFile
from assay.codegen.specs import SpecError, SpecSet
from assay.codegen.store import Store
from assay.codegen.toolchain import Toolchain, find_toolchain
from assay.codegen.workers import Workers

from . import lock as locks
from .bundle_contents import bundle_contents
from .emulating import EMULATED, require_emulation
from .executing import Executions
from .interpreting import INTERPRETED, require_interpretation
from .placing import folder_fault, place_bundle
from .reports.formats import DEFAULT, FORMATS
from .reports.json_report import report
from .reports.record import RunRecord
from .selection import PART_SUFFIX, ProblemResult, Selector, problems_only
from .waiving import WaiverBook, today_utc
from .workaround_verdicts import UNDECIDED, WatchedWorkaround
from .workarounds import Progress as WatchProgress
from .workarounds import WorkaroundWatch

QUALIFIED, GATE_FAILED, TOOLCHAIN_DIFFERS, NOT_EXECUTED = 0, 1, 3, 4
# Damaged cache entries that a warning names.
_NAMED_ENTRIES = 3


@dataclass(frozen=True)
class RunOptions:
    """What `assay qualify` was asked for.  only: a part of the problems; then no bundle takes the full one's name.

    reports: names of `reports.formats.FORMATS`, to be written whatever the verdict is.  evidence: the levels to
    produce; `static` always is.  workarounds: compare each with its plain form.
    """

    target: str
    profile: str
    out: Path
    lock: Path | None
    cache: Path
    jobs: int
    time_limit: float
    only: dict[str, tuple[str, ...]]
    update_lock: bool
    check: bool
    reports: tuple[str, ...] = DEFAULT
    evidence: tuple[str, ...] = ("static",)
    workarounds: bool = False

    @property
    def folder(self) -> Path:
        return self.out / self.target

    @property
    def lock_path(self) -> Path:
        return self.lock or self.folder / f"qualified.{self.profile}.lock"

    @property
    def _infix(self) -> str:
        """What keeps the artefacts of another profile, or of a part, apart from those of the whole core profile."""
        return ("" if self.profile == "core" else f".{self.profile}") + (".only" if self.only else "")

    @property
    def contents_profile(self) -> str:
        """The profile that the bundle says it is of; a part of one is another."""
        return f"{self.profile}{PART_SUFFIX}" if self.only else self.profile

    def report_path(self, name: str) -> Path:
        """Where a report goes."""
        stem, dot, suffix = name.partition(".")
        return self.folder / f"{stem}{self._infix}{dot}{suffix}"

    @property
    def bundle_path(self) -> Path:
        return self.folder / f"{self.target}{self._infix}.assay"

    def place_faults(self) -> list[Fault]:
        """Why what the run is to write cannot be written."""
        if self.check:
            return []
        paths = [self.bundle_path, *(self.report_path(FORMATS[name].file) for name in self.reports)]
        files = [("--out", path) for path in paths]
        files += [("--lock" if self.lock else "--out", self.lock_path)] if self.update_lock else []
        folders = dict.fromkeys((option, path.parent) for option, path in files)
        faults = [fault for option, folder in folders if (fault := folder_fault(option, folder))]
        faults += [
            Fault(f"--lock: {self.lock_path}", f"the name of what --out gets: {path.name}", "a file of its own")
            for path in paths
            if self.update_lock and os.path.abspath(path) == os.path.abspath(self.lock_path)
        ]
        named = [
            Fault(f"{option}: {path}", "a folder", "the name of a file")
            for option, path in files
            if os.path.isdir(path)
        ]
        return faults + named


@dataclass
class RunResult:
    """What came of it.  status: the exit status; messages: why, for a person; complaints: about waivers and
    the size of the bundle.

    written: files, in order.  document: the JSON report.  watched: workarounds, None where none was asked for.
    """

    results: list[ProblemResult]
    changes: list[locks.LockChange]
    status: int
    identity: str = ""
    messages: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    lock_state: locks.LockState = "not_compared"
    lock_messages: list[str] = field(default_factory=list)
    """Those of `messages` that are about the lock as a whole."""
    lock_said: str = ""
    """That the lock was compared and matches; empty where it was not, or does not."""
    written: list[Path] = field(default_factory=list)
    document: dict[str, Any] = field(default_factory=dict)
    watched: tuple[WatchedWorkaround, ...] | None = None

    @property
    def verdict(self) -> str:
        """The outcome in words."""
        if self.complaints or any(not result.qualified for result in self.results):
            return "NOT QUALIFIED"
        said = {
            QUALIFIED: "QUALIFIED",
            TOOLCHAIN_DIFFERS: "OTHER COMPILER BUILD",
            NOT_EXECUTED: "WORKAROUNDS NOT COMPARED",
        }
        return said.get(self.status, "LOCK DIFFERS")


Progress = Callable[[ProblemResult], None]


def qualify(
    specs: SpecSet,
    options: RunOptions,
    problems_found: Callable[[int], Progress],
    workarounds_found: WatchProgress = lambda _count: lambda _line: None,
) -> RunResult:
    """One run.  `problems_found` hears how many problems there are and returns the callback for each finished one;
    `workarounds_found` the same of comparisons of workarounds.

    Raises FaultsError for everything that stops it before a verdict: SpecError and TemplateError (bad input),
    ToolchainError and CacheError (environment), BundleError (the bundle or a report cannot be written).
    """
    toolchain = find_toolchain()
    target = specs.target(options.target)
    problems = problems_only(expand(specs, options.target, Selection(options.profile, options.only)))
    if not problems:
        asked = " ".join(f"{name}={','.join(values)}" for name, values in options.only.items())
        where = f"profile {options.profile} on {options.target}" + (f" with --only {asked}" if asked else "")
        raise SpecError(
            Fault(where, "no problem at all", "at least one", "`assay plan` shows what is excluded and why")
        )
    cache = CompileCache(options.cache)
    waivers = WaiverBook.of(specs.waivers, options.target, options.profile, today_utc())
    _require_evidence(options, target, sorted({problem.family for problem in problems}))
    with (
        Builder(cache, toolchain, jobs=options.jobs, time_limit=options.time_limit) as builder,
        # A process that imported Triton to compile cannot interpret: what interprets has processes of its own.
        Workers(options.jobs) as interpreters,
    ):
        verdicts = Store(options.cache, "verdict")
        pools = ((INTERPRETED, interpreters), (EMULATED, builder.workers))
        levels = [Executions(level, verdicts, pool) for level, pool in pools if level.name in options.evidence]
        selector = Selector(specs, target, builder, waivers, levels)
        results = selector.run(problems, problems_found(len(problems)))
        watched = None
        if options.workarounds:
            watched = WorkaroundWatch(specs, target, builder, levels).run(results, workarounds_found)
    specs.check_unchanged()
    now = locks.lock_of(options.target, options.profile, toolchain, results)
    run = RunResult(results, [], QUALIFIED, watched=watched)
    run.warnings = [
        *_override_warnings(),
        *_damage_warning(cache.damaged, "compiled"),
        *_damage_warning(verdicts.damaged, "judged"),
        *(locks.lost_level_warnings(options.lock_path, now) if options.update_lock and not options.check else ()),
    ]
    failed = [result for result in results if not result.qualified]
    if uncompiled := sum(item.did_not_compile for result in results for item in result.rejected):
        run.status = GATE_FAILED
        run.complaints.append(f"{uncompiled} candidates did not compile, which is a failure and never a skip")
        run.messages += run.complaints
    if failed:
        run.status = GATE_FAILED
        run.messages.append(f"{len(failed)} of {len(results)} problems have no qualified candidate")
    if complaints := waivers.complaints(whole_profile=not options.only):
        run.status = GATE_FAILED
        run.complaints += complaints
        run.messages += complaints
    contents = None
    if run.status == QUALIFIED:
        contents = bundle_contents(specs, target, options.contents_profile, toolchain, results)
        _judge_contents(run, contents, target)
    about_gates = len(run.messages)
    _compare_lock(run, options, now)
    run.lock_messages = run.messages[about_gates:]
    _judge_workarounds(run)

    def write_reports() -> None:
        record = _record(run, specs, options, toolchain)
        for name in options.reports:
            _write(run, options.report_path(FORMATS[name].file), FORMATS[name].encoded(record))

    if not options.check and run.status == QUALIFIED and contents is not None:
        _write_qualified(run, options, now, contents, write_reports)
    elif not options.check:
        write_reports()
    run.document = report(_record(run, specs, options, toolchain))
    return run


def _record(run: RunResult, specs: SpecSet, options: RunOptions, toolchain: Toolchain) -> RunRecord:
    """The run as reports tell it, as it stands."""
    return RunRecord(
        specs=specs,
        target=specs.target(options.target),
        profile=options.profile,
        toolchain=toolchain,
        status=run.status,
        said=run.verdict,
        results=tuple(run.results),
        changes=tuple(run.changes),
        messages=tuple(run.messages),
        complaints=tuple(run.complaints),
        lock_messages=tuple(run.lock_messages),
        warnings=tuple(run.warnings),
        watched=run.watched,
        lock_path=options.lock_path,
        lock_state=run.lock_state,
        only=options.only,
        evidence=options.evidence,
        bundle_path=options.bundle_path,
        identity=run.identity,
    )


def _require_evidence(options: RunOptions, target: TargetFile, families: list[str]) -> None:
    """Raises EvidenceError when a level that is asked for cannot be produced here."""
    if INTERPRETED.name in options.evidence:
        require_interpretation(families)
    if EMULATED.name in options.evidence:
        require_emulation(target, families)


def _judge_workarounds(run: RunResult) -> None:
    """A workaround that is needed is no failure; a comparison that nothing here can decide is evidence that is not."""
    undecided = _undecided(run)
    for item in undecided:
        run.messages.append(
            f"workaround {item.workaround.name} of {item.family}: its plain form passes what was judged and was not "
            "executed; ask for --evidence emulated where there is an emulator"
        )
    if undecided and run.status == QUALIFIED:
        run.status = NOT_EXECUTED


def _undecided(run: RunResult) -> list[WatchedWorkaround]:
    return [item for item in run.watched or () if item.verdict == UNDECIDED]


def _override_warnings() -> list[str]:
    return [
        f"{name} is set and was ignored: builds do not depend on the shell" for name in ignored_overrides(os.environ)
    ]


def _damage_warning(names: list[str], done: str) -> list[str]:
    """One line for all damaged entries of one kind.  done: what was done anew."""
    if not names:
        return []
    first, more = ", ".join(names[:_NAMED_ENTRIES]), len(names) - _NAMED_ENTRIES
    counted = "1 damaged cache entry was" if len(names) == 1 else f"{len(names)} damaged cache entries were"
    return [f"{counted} {done} anew: {first}" + (f" and {more} more" if more > 0 else "")]


def _compare_lock(run: RunResult, options: RunOptions, now: locks.Lock) -> None:
    if options.update_lock and not options.check:
        return
    try:
        before = locks.read_lock(options.lock_path)
    except locks.LockError as error:
        run.lock_state = "unreadable"
        run.status = GATE_FAILED
        run.messages += [str(fault) for fault in error.faults]
        return
    selected = {locks.key_of(result) for result in run.results}
    old_rows = [row for row in before.rows if not options.only or row.key in selected] if before else []
    # What failed its gates is reported as such; it is not 'gone' from the lock.
    failed = {locks.key_of(result) for result in run.results if not result.qualified}
    run.changes = [change for change in locks.compare(old_rows, now.rows) if change.key not in failed]
    run.lock_state = locks.state_of(before, now, run.changes)
    if failed and not now.rows and run.lock_state == "matches":
        # Nothing is left that could match.
        run.lock_state = "not_compared"
    accept = _how_to_accept(run, options, before, now)
    if before is None:
        run.messages.append(f"no lock at {options.lock_path}: everything is new{accept}")
    elif (before.target, before.profile) != (now.target, now.profile):
        given = f"is for {before.target} {before.profile}"
        run.messages.append(f"{options.lock_path} {given}, this run is {now.target} {now.profile}")
        run.status = GATE_FAILED
    elif run.changes:
        differences = "1 difference" if len(run.changes) == 1 else f"{len(run.changes)} differences"
        run.messages.append(f"{differences} to {options.lock_path}{accept}")
    if before is not None and before.toolchain != now.toolchain:
        run.messages.append(
            f"{options.lock_path} was made by another compiler build: triton {before.toolchain.triton_version} "
            f"({before.toolchain.wheel_sha256[:12]}), here {now.toolchain.triton_version} "
            f"({now.toolchain.wheel_sha256[:12]})"
        )
        run.status = max(run.status, TOOLCHAIN_DIFFERS) if run.status == QUALIFIED else run.status
    elif run.changes:
        run.status = GATE_FAILED
    if before is not None and run.lock_state == "matches":
        part = f" of its {len(before.rows)}" if len(old_rows) < len(before.rows) else ""
        rows = "row" if len(now.rows) == 1 else "rows"
        run.lock_said = f"lock: compared with {options.lock_path}: {len(now.rows)}{part} {rows}, no difference"


def _how_to_accept(run: RunResult, options: RunOptions, before: locks.Lock | None, now: locks.Lock) -> str:
    """The command that accepts the differences; empty where more than the lock stands in the way."""
    if run.status != QUALIFIED or _undecided(run):
        return ""
    of_two_builds = bool(options.only) and before is not None and before.toolchain != now.toolchain
    left_out = [name for name, given in (("--check", options.check), ("--only", of_two_builds)) if given]
    without = f" without {' and '.join(left_out)} and" if left_out else ""
    return f"; run the same command{without} with --update-lock to accept"


def _judge_contents(run: RunResult, contents: Contents, target: TargetFile) -> None:
    """What would keep the contents from becoming a bundle.  Raises SpecError: rows that no call could tell apart."""
    if faults := contents_faults(contents):
        raise SpecError(faults)
    if target.limits.bundle_bytes is None:
        return
    try:
        check_budgets(contents, target_budgets={target.target: target.limits.bundle_bytes})
    except BudgetError as error:
        run.status = GATE_FAILED
        run.complaints += [str(fault) for fault in error.faults]
        run.messages += [str(fault) for fault in error.faults]


def _write_qualified(
    run: RunResult, options: RunOptions, now: locks.Lock, contents: Contents, write_reports: Callable[[], None]
) -> None:
    """Lock, reports and bundle.  The bundle comes last: what cannot be written leaves nothing new under its name."""
    new_lock = str(_merged(options, now)).encode() if options.update_lock else None
    _make_folder(options.folder)

    def before_commit(identity: str) -> None:
        run.identity = identity
        if new_lock is not None:
            _write(run, options.lock_path, new_lock)
            run.lock_state = "updated"
        write_reports()

    place_bundle(options.bundle_path, contents, before_commit=before_commit)
    run.written.insert(0, options.bundle_path)


def _merged(options: RunOptions, now: locks.Lock) -> locks.Lock:
    """With `--only`, the rows that were not built stay as they are in the lock.  Raises LockError."""
    if not options.only or (before := locks.read_lock(options.lock_path)) is None:
        return now
    if (before.target, before.profile, before.toolchain) != (now.target, now.profile, now.toolchain):
        hint = "update the whole lock: leave --only out"
        given = "made for another target or profile, or by another compiler build"
        raise locks.LockError(Fault(str(options.lock_path), given, "rows of one compiler build", hint))
    fresh = {row.key: row for row in now.rows}
    kept = [fresh.pop(row.key, row) for row in before.rows]
    return locks.Lock(now.target, now.profile, now.toolchain, (*kept, *fresh.values()))


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BundleError(Fault(str(path), f"cannot be made: {error.strerror}", "a folder to write to")) from None


def _write(run: RunResult, path: Path, data: bytes) -> None:
    _make_folder(path.parent)
    replace_file(path, [data])
    run.written.append(path)
