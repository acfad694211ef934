"""How well building works, in one run: ratios that hold on a busy machine too, and every sample they come from.

    .venv/bin/python benchmarks/build.py [--target gfx1201] [--only head_dim=128,block_m=4 | --whole] [--json]

- overhead: wall of the whole cold command / (compile seconds inside the workers / jobs); 1 would be perfect, aim 1.10
- fresh process: wall of one new Python process a kernel, the same kernels and as many at a time / wall of the cold
  command
- warm: wall of the whole command when everything is in the cache
- peak memory: the most that a worker had resident, polled from /proc
- bytes a row: size of the bundle file / rows

Each ratio is between measurements of this run alone.  Seconds inside the workers contain one import of Triton a worker.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay import kernel_specs
from assay.bundle import Bundle
from assay.codegen.builder import default_jobs
from assay.codegen.cache import CompileCache, cache_key
from assay.codegen.expand import Selection, candidates, expand
from assay.codegen.records import CompileRequest, Outcome, Problem
from assay.codegen.render import Renderer
from assay.codegen.specs import SpecSet, load_specs
from assay.codegen.toolchain import find_toolchain
from assay.codegen.variants import make_variant
from assay.qualify.commands.options import Only

SCHEMA = "assay.benchmark.build/1"
RESULTS = Path(__file__).with_name("results")
# Some problems of every kind: each format, reader, alignment and offset width, and both families, at one head size.
SAMPLE = "head_dim=128,block_m=4"
WARM_RUNS = 5
POLL_SECONDS = 0.05
ASSAY = [sys.executable, "-c", "from assay.qualify.entry import main; main()"]
FRESH = """
import json, sys, tempfile
from assay.codegen.worker import compile_in_worker
outcome = compile_in_worker(json.load(open(sys.argv[1])), tempfile.mkdtemp() + "/scratch")
code = outcome.pop("code", b"")
import hashlib
print(json.dumps([outcome["status"], outcome["seconds"], hashlib.sha256(code).hexdigest()]))
"""


@dataclass(frozen=True)
class Kernel:
    """One compilation of the cold build."""

    variant: str
    request: CompileRequest
    outcome: Outcome


@dataclass
class Watch:
    """The most memory that each process below another had resident.  KiB by process id, for workers and the rest."""

    workers: dict[int, int] = field(default_factory=dict)
    others: dict[int, int] = field(default_factory=dict)


def main() -> int:
    """Measure, write benchmarks/results/build-*.json, print."""
    options = _options()
    only = {} if options.whole else Only().convert(options.only, None, None)
    specs = load_specs(Path(kernel_specs.DIRECTORY))
    with tempfile.TemporaryDirectory(prefix="assay-bench-") as folder:
        document = _measure(Path(folder), specs, options, only)
    RESULTS.mkdir(exist_ok=True)
    part = "whole" if options.whole else "sample"
    path = RESULTS / f"build-{options.target}-{options.profile}-{part}.json"
    path.write_text(json.dumps(document, indent=1) + "\n")
    print(json.dumps(document) if options.json else _table(document))
    print(f"wrote {path}", file=sys.stderr)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="gfx1201")
    parser.add_argument("--profile", default="core")
    parser.add_argument("--only", default=SAMPLE, help="the part that is built")
    parser.add_argument("--whole", action="store_true", help="build the whole profile")
    parser.add_argument("--jobs", type=int, default=default_jobs())
    parser.add_argument("--skip-fresh", action="store_true", help="leave out one fresh process for each kernel")
    parser.add_argument("--json", action="store_true", help="the document on standard output instead of the table")
    return parser.parse_args()


def _measure(
    folder: Path, specs: SpecSet, options: argparse.Namespace, only: dict[str, tuple[str, ...]]
) -> dict[str, Any]:
    load_before = os.getloadavg()
    command = [*ASSAY, "qualify", "--target", options.target, "--profile", options.profile]
    command += ["--jobs", str(options.jobs), "--out", str(folder / "out"), "--update-lock"]
    command += [] if options.whole else ["--only", options.only]
    environment = {**os.environ, "ASSAY_CACHE_DIR": str(folder / "cache")}
    _say(f"cold build with {options.jobs} workers ...")
    watch, cold = _watched(command, environment)
    warm = []
    for number in range(WARM_RUNS):
        _say(f"warm run {number + 1} of {WARM_RUNS} ...")
        warm.append(_watched(command, environment)[1])
    kernels = _compiled(specs, options, only, folder / "cache")
    fresh = [] if options.skip_fresh else _fresh(kernels, options.jobs, folder)
    rows, size = _bundle(folder / "out" / options.target)
    return {
        "schema": SCHEMA,
        "machine": _machine(load_before),
        "toolchain": find_toolchain().to_dict(),
        "target": options.target,
        "profile": options.profile,
        "only": {name: list(values) for name, values in only.items()},
        "jobs": options.jobs,
        "samples": {
            "cold_seconds": cold,
            "warm_seconds": warm,
            "kernels": [
                {"variant": item.variant, "status": item.outcome.status, "seconds": item.outcome.seconds}
                for item in kernels
            ],
            "fresh": fresh,
            "worker_peak_kib": list(watch.workers.values()),
            "other_peak_kib": list(watch.others.values()),
        },
        "figures": _figures(options.jobs, cold, warm, kernels, fresh, watch, rows, size),
    }


def _figures(
    jobs: int,
    cold: float,
    warm: list[float],
    kernels: list[Kernel],
    fresh: list[dict[str, Any]],
    watch: Watch,
    rows: int,
    size: int,
) -> dict[str, Any]:
    inside = sum(kernel.outcome.seconds for kernel in kernels)
    fresh_wall = max((item["end"] for item in fresh), default=0.0)
    return {
        "kernels_compiled": len(kernels),
        "cold_seconds": cold,
        "compile_seconds_in_workers": inside,
        "overhead": cold / (inside / jobs),
        "fresh_process_seconds": fresh_wall or None,
        "fresh_process_to_cold": fresh_wall / cold if fresh else None,
        "warm_seconds_median": statistics.median(warm),
        "warm_seconds_best": min(warm),
        "cold_to_warm": cold / statistics.median(warm),
        "worker_peak_mib_max": max(watch.workers.values(), default=0) / 1024,
        "rows": rows,
        "bundle_bytes": size,
        "bundle_bytes_per_row": size / rows,
    }


def _watched(command: list[str], environment: dict[str, str]) -> tuple[Watch, float]:
    """Run a command; its wall seconds, and the memory of the processes below it."""
    started = time.perf_counter()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, env=environment, stdout=said, stderr=subprocess.STDOUT)
        with _watching(process.pid) as watch:
            status = process.wait()
        seconds = time.perf_counter() - started
        if status != 0:
            said.seek(0)
            raise SystemExit(
                f"{' '.join(command)} ended with {status}:\n{said.read().decode(errors='replace')[-4000:]}"
            )
    return watch, seconds


@contextmanager
def _watching(root: int) -> Iterator[Watch]:
    watch, done = Watch(), threading.Event()

    def poll() -> None:
        while not done.wait(POLL_SECONDS):
            for process in _below(root):
                _note(watch, process)

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        done.set()
        thread.join()


def _below(root: int) -> list[int]:
    """Every process that descends from `root`, without it."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (parent := _parent(int(name))) is not None:
            children.setdefault(parent, []).append(int(name))
    found, waiting = [], [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _parent(process: int) -> int | None:
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:  # it ended meanwhile
        return None
    return int(text.rpartition(")")[2].split()[1])


def _note(watch: Watch, process: int) -> None:
    try:
        command = Path(f"/proc/{process}/cmdline").read_bytes()
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return
    peak = next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")), None)
    if peak is not None:
        # A process is counted once, as what it became: just after its start it still looks like its parent.
        kind, other = (watch.workers, watch.others) if b"spawn_main" in command else (watch.others, watch.workers)
        other.pop(process, None)
        kind[process] = peak


def _compiled(
    specs: SpecSet, options: argparse.Namespace, only: dict[str, tuple[str, ...]], cache: Path
) -> list[Kernel]:
    """What the cold build compiled: every candidate whose outcome is in its cache."""
    kept, toolchain, renderer = CompileCache(cache), find_toolchain(), Renderer(specs.templates)
    target = specs.target(options.target)
    found: dict[str, Kernel] = {}
    for problem in expand(specs, options.target, Selection(options.profile, only)):
        if not isinstance(problem, Problem):
            continue
        family = specs.families[problem.family].model
        for candidate in candidates(family, target, problem):
            variant = make_variant(family, target, candidate, renderer)
            key = cache_key(variant.request, toolchain)
            outcome = kept.get(key)
            if outcome is not None:
                found.setdefault(key, Kernel(variant.id, variant.request, outcome))
    return list(found.values())


def _fresh(kernels: list[Kernel], jobs: int, folder: Path) -> list[dict[str, Any]]:
    """One new Python process for each kernel, `jobs` at a time, the longest first as in the build."""
    started = time.perf_counter()
    in_order = sorted(kernels, key=lambda kernel: -kernel.outcome.seconds)

    def compile_one(number: int) -> dict[str, Any]:
        kernel = in_order[number]
        path = folder / f"request-{number}.json"
        path.write_text(json.dumps(kernel.request.to_dict()))
        began = time.perf_counter() - started
        done = subprocess.run([sys.executable, "-c", FRESH, str(path)], capture_output=True, check=True)
        status, seconds, code = json.loads(done.stdout)
        same = code == hashlib.sha256(kernel.outcome.code).hexdigest()
        end = time.perf_counter() - started
        return {
            "variant": kernel.variant,
            "status": status,
            "start": began,
            "end": end,
            "inside": seconds,
            "same": same,
        }

    _say(f"{len(kernels)} kernels in a fresh process each, {jobs} at a time ...")
    with ThreadPoolExecutor(jobs) as pool:
        samples = list(pool.map(compile_one, range(len(in_order))))
    if not all(sample["same"] for sample in samples):
        raise SystemExit("a fresh process gave another code object than the build: the builds cannot be compared")
    return samples


def _bundle(folder: Path) -> tuple[int, int]:
    (path,) = folder.glob("*.assay")
    with Bundle.open(path) as bundle:
        return bundle.manifest.counts["rows"], path.stat().st_size


def _machine(load_before: tuple[float, float, float]) -> dict[str, Any]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
    return {
        "processor": model,
        "processors": default_jobs(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "load_before": list(load_before),
        "load_after": list(os.getloadavg()),
    }


def _table(document: dict[str, Any]) -> str:
    figures, machine = document["figures"], document["machine"]
    formats: dict[str, Callable[[Any], str]] = {
        "kernels_compiled": str,
        "cold_seconds": "{:.1f} s".format,
        "compile_seconds_in_workers": "{:.1f} s".format,
        "overhead": "{:.2f}  (aim 1.10)".format,
        "fresh_process_seconds": "{:.1f} s".format,
        "fresh_process_to_cold": "{:.2f}".format,
        "warm_seconds_median": "{:.2f} s".format,
        "warm_seconds_best": "{:.2f} s".format,
        "cold_to_warm": "{:.0f}".format,
        "worker_peak_mib_max": "{:.0f} MiB".format,
        "rows": str,
        "bundle_bytes": "{:,}".format,
        "bundle_bytes_per_row": "{:,.0f}".format,
    }
    what = "the whole profile" if not document["only"] else json.dumps(document["only"])
    lines = [
        f"{document['target']} {document['profile']}, {what}, {document['jobs']} workers on {machine['processors']} "
        f"processors ({machine['processor']}); load {machine['load_before'][0]:.1f} before, "
        f"{machine['load_after'][0]:.1f} after"
    ]
    shown = [(name, spelled) for name, spelled in formats.items() if figures[name] is not None]
    return "\n".join([*lines, *(f"  {name:<28} {spelled(figures[name])}" for name, spelled in shown)])


def _say(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
