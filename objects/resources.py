"""What a kernel needs from the machine, as far as its code object tells."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from assay.objects.errors import ObjectError

_AMD = ("vgpr_count", "sgpr_count", "vgpr_spill_count", "sgpr_spill_count", "scratch_bytes", "dynamic_stack")
_NVIDIA = (
    "register_count",
    "stack_bytes",
    "spill_load_bytes",
    "spill_store_bytes",
    "local_load_count",
    "local_store_count",
)
# By backend, the resources of which the other vendor's kernels alone have a figure.
FOREIGN = {"hip": frozenset(_NVIDIA), "cuda": frozenset(_AMD)}


@dataclass(frozen=True, slots=True)
class Resources:
    """Resource figures of one kernel. `None` means that the file does not tell: never read it as zero.

    Counts are registers, instructions or threads; `*_bytes` are bytes (scratch and stack: per work-item;
    LDS, which NVIDIA calls shared memory: per workgroup). The four AMD facts spills, scratch and dynamic
    stack are independent of each other: SGPRs spill into VGPR lanes with no scratch at all, and a kernel
    with a dynamic stack may state a fixed size of 0.
    """

    vgpr_count: int | None = None
    sgpr_count: int | None = None
    vgpr_spill_count: int | None = None
    sgpr_spill_count: int | None = None
    scratch_bytes: int | None = None
    dynamic_stack: bool | None = None
    lds_static_bytes: int | None = None
    lds_dynamic_bytes: int | None = None
    lds_total_bytes: int | None = None
    max_threads: int | None = None
    wavefront_size: int | None = None
    kernarg_bytes: int | None = None
    code_bytes: int | None = None
    register_count: int | None = None
    stack_bytes: int | None = None
    local_load_count: int | None = None
    local_store_count: int | None = None
    spill_load_bytes: int | None = None
    spill_store_bytes: int | None = None

    def with_launch(self, lds_dynamic_bytes: int) -> Resources:
        """Adds the shared memory asked for at launch, in bytes a workgroup.

        A bare file never holds this number: Triton's AMD kernels state 0 bytes of static LDS whatever they
        use, so the launch-time size is the only figure. The total stays `None` if the static part is.
        Raises ObjectError for a size that is not a non-negative integer.
        """
        size = _count("launch", "lds_dynamic_bytes", lds_dynamic_bytes)
        total = None if self.lds_static_bytes is None else self.lds_static_bytes + size
        return replace(self, lds_dynamic_bytes=size, lds_total_bytes=total)

    def with_assembler_report(self, spill_load_bytes: int, spill_store_bytes: int) -> Resources:
        """Adds the spill traffic that `ptxas -v` reported, in bytes; no CUBIN records it.

        Raises ObjectError for a size that is not a non-negative integer.
        """
        return replace(
            self,
            spill_load_bytes=_count("assembler report", "spill_load_bytes", spill_load_bytes),
            spill_store_bytes=_count("assembler report", "spill_store_bytes", spill_store_bytes),
        )

    def to_dict(self) -> dict[str, int | bool | None]:
        """All names in the order above, unknown ones as `None`."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Resources:
        """The inverse of `to_dict`.

        Raises ObjectError for an unknown or missing name and for a value of another type: a name that a
        writer forgot must not come back as 'unknown'.
        """
        names = [field.name for field in fields(cls)]
        if not isinstance(values, dict) or set(values) != set(names):
            given = ", ".join(map(repr, values)) if isinstance(values, dict) else type(values).__name__
            raise ObjectError("resources", f"names {given or '(none)'}", f"exactly {', '.join(names)}")
        for name, value in values.items():
            if name == "dynamic_stack":
                if not isinstance(value, bool | None):
                    raise ObjectError("resources", f"{name} = {value!r}", "true, false or null")
            elif value is not None:
                _count("resources", name, value)
        return cls(**values)


def _count(where: str, name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ObjectError(where, f"{name} = {value!r}", "an integer from 0")
    return value
