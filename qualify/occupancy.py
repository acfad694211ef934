"""How many waves of a kernel are resident at once, and what limits them: from its registers, LDS and threads alone.

    workgroups = the least of what registers, LDS, wave slots and workgroup slots of one unit (WGP, CU, SM) hold
      registers   waves a SIMD = registers // round_up(the kernel's, register_granule); all SIMDs // waves a workgroup
      LDS         lds_bytes // round_up(the workgroup's + lds_reserved_bytes, lds_granule_bytes)
      SGPRs       the same of sgprs and sgpr_granule, where the waves of a SIMD share them
      waves       wave slots of all SIMDs // waves a workgroup
      workgroups  slots of the unit, where it has fewer than the wave slots need

The same steps serve both vendors: LLVM's AMDGPUBaseInfo.cpp (getNumWavesPerEUWithNumVGPRs, getMaxWorkGroupsPerCU) and
NVIDIA's cuda_occupancy.h (cudaOccMaxActiveBlocksPerMultiprocessor).  SGPRs never limit gfx10 and later: every wave has
all of them, and the target file says nothing of them.  The figures are the target file's `occupancy`.
"""

from __future__ import annotations

from dataclasses import dataclass

from assay import objects
from assay.codegen.spec_models import OccupancyFacts

# COMPUTE_PGM_RSRC1, bit 29: WGP_MODE on gfx10 and later, reserved as 0 before (LLVM AMDGPUUsage, 'compute_pgm_rsrc1').
_WGP_MODE = 1 << 29


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Resident workgroups and waves of one unit.

    unit: `wgp`, `cu` or `sm`.  max_waves: the unit's wave slots.  limits: workgroups that each resource alone would
    hold, in a stable order.  per: what the vendor's tools count in, `simd` or `sm`.
    """

    unit: str
    per: str
    simds: int
    workgroups: int
    waves: int
    max_waves: int
    limits: tuple[tuple[str, int], ...]

    @property
    def limited_by(self) -> tuple[str, ...]:
        """The resources that hold no more workgroups than are resident."""
        return tuple(name for name, workgroups in self.limits if workgroups == self.workgroups)

    def __str__(self) -> str:
        """`5/16 registers` waves a SIMD, or `12/48 lds` warps an SM."""
        parts = self.simds if self.per == "simd" else 1
        return f"{self.waves / parts:g}/{self.max_waves // parts} {'+'.join(self.limited_by)}"

    def to_dict(self) -> dict[str, object]:
        """For report.json: counts of one unit; waves a SIMD are `waves / simds`."""
        return {
            "unit": self.unit,
            "simds": self.simds,
            "workgroups": self.workgroups,
            "waves": self.waves,
            "max_waves": self.max_waves,
            "limited_by": list(self.limited_by),
            "workgroups_by": dict(self.limits),
        }


def unit_of(kernel: objects.Kernel) -> str:
    """Which unit a workgroup's waves share: `sm` for NVIDIA, else what the kernel descriptor says, `wgp` or `cu`."""
    if kernel.descriptor is None:
        return "sm"
    return "wgp" if kernel.descriptor.rsrc1 & _WGP_MODE else "cu"


def occupancy(
    facts: OccupancyFacts,
    unit: str,
    *,
    wavefront_size: int,
    registers: int,
    lds_bytes: int,
    threads: int,
    sgprs: int = 0,
) -> Occupancy:
    """Occupancy of a kernel with `registers` a lane, and of workgroups of `threads` that use `lds_bytes`.

    sgprs: of one wave; they count only where the waves of a SIMD share a file of them.

    0 workgroups means that not even one fits.  Raises KeyError for a unit that the target does not have.
    """
    has = facts.units[unit]
    waves_a_workgroup = _divide_up(threads, wavefront_size)
    lds = _divide_up(lds_bytes + facts.lds_reserved_bytes, facts.lds_granule_bytes) * facts.lds_granule_bytes
    limits = {
        "registers": _held(facts.registers, registers, facts.register_granule) * has.simds // waves_a_workgroup,
        "waves": facts.waves * has.simds // waves_a_workgroup,
    }
    if facts.sgprs is not None:
        limits["sgprs"] = _held(facts.sgprs, sgprs, facts.sgpr_granule) * has.simds // waves_a_workgroup
    if lds:
        limits["lds"] = has.lds_bytes // lds
    if has.workgroups is not None:
        limits["workgroups"] = has.workgroups
    workgroups = min(limits.values())
    return Occupancy(
        unit=unit,
        per=facts.per,
        simds=has.simds,
        workgroups=workgroups,
        waves=workgroups * waves_a_workgroup,
        max_waves=facts.waves * has.simds,
        limits=tuple(sorted(limits.items())),
    )


def occupancy_of(
    facts: OccupancyFacts, kernel: objects.Kernel | None, resources: objects.Resources | None
) -> Occupancy | None:
    """Occupancy by what a binary says; None where it does not tell, or runs in a mode that the target does not have.

    resources: the kernel's with the launch-time LDS, without which no AMD binary of Triton tells its LDS.
    """
    if kernel is None or resources is None:
        return None
    unit = unit_of(kernel)
    registers = resources.register_count if unit == "sm" else resources.vgpr_count
    known = (resources.wavefront_size, registers, resources.lds_total_bytes, resources.max_threads)
    if unit not in facts.units or None in known or not resources.max_threads:
        return None
    wavefront_size, registers, lds_bytes, threads = known
    return occupancy(
        facts,
        unit,
        wavefront_size=wavefront_size,
        registers=registers,
        lds_bytes=lds_bytes,
        threads=threads,
        sgprs=resources.sgpr_count or 0,
    )


def _held(file: int, wanted: int, granule: int) -> int:
    """How many waves a register file holds that want `wanted` each."""
    return file // (max(_divide_up(wanted, granule), 1) * granule)


def _divide_up(value: int, divisor: int) -> int:
    return -(-value // divisor)
