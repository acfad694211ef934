"""The bits of two runs of one case, held against each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.reference import Case
from assay.reference.number_formats import from_bf16


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """The first element, in order of index, whose bits differ; `differing` of `elements` of that tensor do.

    left, right: the values as text, with their bits.
    """

    case: str
    tensor: str
    index: tuple[int, ...]
    left: str
    right: str
    differing: int
    elements: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"index": list(self.index)}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> FirstDifference:
        return cls(**{**given, "index": tuple(given["index"])})

    @property
    def place(self) -> str:
        return f"{self.tensor}[{', '.join(map(str, self.index))}]"

    def __str__(self) -> str:
        counts = f"{self.differing:,} of {self.elements:,} elements differ"
        return f"{self.case}: {self.place} is {self.left} and {self.right}; {counts}"


def first_difference(left: Case, right: Case, dtypes: Mapping[str, str]) -> FirstDifference | None:
    """None where every output has the same bits, NaN's included. dtypes: of outputs, as the contract names them."""
    for name in left.outputs:
        one, other = _bits(left, name), _bits(right, name)
        wrong = one != other
        if wrong.any():
            index = tuple(int(at) for at in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
            texts = [_spelled(bits[index], dtypes.get(name, "")) for bits in (one, other)]
            return FirstDifference(left.name, name, index, *texts, int(wrong.sum()), wrong.size)
    return None


def outcome(
    cases: int, *, fault: str = "", one_sided: bool = False, difference: FirstDifference | None = None
) -> dict[str, Any]:
    """What running a pair gave, as plain data: cases that ran on both sides, and why it ended before the last."""
    found = difference.to_dict() if difference else None
    return {"cases": cases, "fault": fault, "one_sided": one_sided, "difference": found}


def told(case: str, left: str, right: str) -> str:
    """Which side's fault it was."""
    if left == right:
        return f"{case}: both sides: {left}"
    return f"{case}: " + "; ".join(f"{side}: {said}" for side, said in (("left", left), ("right", right)) if said)


def _bits(case: Case, name: str) -> NDArray[np.unsignedinteger]:
    values = np.ascontiguousarray(case.tensors[name].view)
    return values.view(f"u{values.itemsize}")


def _spelled(bits: np.unsignedinteger, dtype: str) -> str:
    width = bits.dtype.itemsize
    text = f"{int(bits):#0{2 + 2 * width}x}"
    if dtype == "bf16":
        return f"{float(from_bf16(np.array([bits]))[0]):.9g} ({text})"
    floats = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
    if dtype in floats and np.dtype(floats[dtype]).itemsize == width:
        return f"{float(np.array([bits]).view(floats[dtype])[0]):.9g} ({text})"
    return text
