"""Decode calls on the CPU, small enough to be read twice."""

from typing import Any

from assay.bundle.records import VariantRecord


def small_inputs(*, fp8: bool, batch: int = 2, keys: int = 64, copies: int = 2) -> Any:
    """Two KV heads of four queries each, head_dim 64."""
    import gpu

    return gpu.make_inputs(gpu.Shape(batch, keys, 8, 2, 64), fp8=fp8, copies=copies)


def variant(family: str, source: str, problem: dict[str, Any], launch: dict[str, Any]) -> VariantRecord:
    """A bundle's record of a kernel, as far as the JIT needs it."""
    return VariantRecord(family, family, problem, launch, "sm90", {}, {}, "", "", source)


class Stage:
    """One kernel of a plan: its row and its grid."""

    def __init__(self, row: Any, grid: tuple[int, int, int]):
        self.row = row
        self.grid = grid


class Recorder:
    """Stands for a kernel: takes launches down."""

    def __init__(self) -> None:
        self.launches: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []

    def __getitem__(self, grid: Any) -> Any:
        return lambda *given, **named: self.launches.append((grid, given, named))
