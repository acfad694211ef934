"""Split-KV decode attention, stage 1: cases and the float64 reference."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .number_formats import E4M3FN_NAN, NAN_BF16, e4m3fn_values, finite_e4m3fn_codes, from_bf16, to_bf16
from .tensors import LSE_LIMITS, Case, Strided, dense, spaced

_POISON = np.float32(np.nan)
# A split covers a multiple of this many keys of what its query sees.
SPLIT_GRANULE = 32


@dataclass(frozen=True)
class _Shape:
    """What a case varies.  window is used where the problem has one; layout where its alignment class allows it.

    lengths, splits, behind: of each request.  behind: keys after the last query's own; below zero where it stands
    behind the last key, as padding rows of a batch may.  nan: in the first request's last query head, and in a key of
    the second.  apart: keys from one query of a request to the next; where it is more than one, the first stands last.
    """

    name: str
    lengths: tuple[int, ...]
    splits: tuple[int, ...]
    grid_splits: int
    window: int
    kv_heads: int = 1
    layout: str = "dense"
    scales: tuple[float, float] = (1e-4, 5e-3)
    sm_scale: float | None = None
    behind: tuple[int, ...] = ()
    codes: bool = False
    nan: bool = False
    apart: int = 1


# Chosen pairwise from length, splits, window, layout and batch (tests/reference computes what is covered), with tile
# edges, a query before its request's last key, several KV heads and extreme scales among them.
_CHOSEN = (
    _Shape("two thousand keys in sixty-four splits", (2048,), (64,), 64, 257),
    _Shape("most of sixty-four splits are empty", (513,), (64,), 64, 1, layout="padded"),
    _Shape("a window as long as the request", (1, 33, 161), (64, 64, 1), 64, 161, layout="offset"),
    # One split of many tiles, and a single key whose score is far below zero.
    _Shape("large scores", (2048, 513, 17, 1), (8, 1, 8, 1), 8, 2049, layout="offset", sm_scale=64.0),
    _Shape("a window of one key", (2048, 0, 1, 17), (8, 8, 1, 8), 8, 1, layout="padded"),
    _Shape("an odd window that empties the first splits", (513, 17, 32), (8, 8, 8), 8, 13, layout="offset"),
    _Shape("empty and one-key requests", (31, 0, 1, 17, 513), (1, 8, 8, 1, 8), 8, 1, behind=(0, -4, -2, 0, 0)),
    _Shape(
        "scales over ten orders of magnitude, a query before the last key",
        (33, 0, 1, 31, 90),
        (8, 8, 8, 1, 3),
        8,
        19,
        layout="padded",
        scales=(1e-13, 5e-3),
        behind=(0, 0, 0, 0, 21),
    ),
    _Shape("NaN in a query, and in a key", (40, 70, 33), (2, 3, 1), 3, 64, kv_heads=2, layout="padded", nan=True),
    _Shape("tile edges, four KV heads", (33, 32, 127, 65, 0, 1), (2, 1, 1, 2, 1, 1), 2, 1, kv_heads=4, layout="offset"),
)
# (queries of a request, query heads a KV head) of the cases in turn, by the problem's `rows` and `block_m`.  Calls of
# the largest block have more query rows than it holds, too: several programs take them.
_QUERIES = {
    (1, 64): ((1, 64), (1, 72), (1, 40)),
    (8, 16): ((2, 8), (8, 2), (5, 3), (1, 7)),
    (8, 32): ((4, 8), (8, 3), (5, 6), (2, 12)),
    (8, 64): ((8, 8), (8, 9), (3, 24), (7, 5)),
}
# The same for 512 elements, where blocks of 16 take any number.
_QUERIES_OF_512 = {1: ((1, 16), (1, 40), (1, 9)), 8: ((2, 8), (8, 5), (3, 24), (1, 7))}
# What a published proof that a kernel change left other kernels alone ran: 81 calls with the three cache formats.
_ISOLATION_HEADS, _ISOLATION_ROWS, _ISOLATION_KEYS = ((128, 4), (128, 8), (256, 8)), (1, 3, 8), (17, 8192, 32768)
# Every finite code, in both orientations; for problems whose cache holds codes.
_CODES = _Shape("every code", (61,) * 16, (1,) * 16, 1, 61, codes=True)

# Whole tiles that one query of a request has no key in, before its first as well as behind its last; for problems of
# several queries.  Some stand before the first key of the request.
_APART = _Shape("queries more than a tile and a window apart", (600, 45, 333), (1, 2, 3), 3, 19, kv_heads=2, apart=70)

_LENGTHS = (1, 17, 31, 32, 33, 513, 2048, 0)
_SPLITS = (1, 8, 64)
_WINDOWS = (1, 13, 257, 2049)
_LAYOUTS = ("dense", "padded", "offset")


def cases(axes: Mapping[str, Any], every: bool) -> list[Case]:
    """About a dozen calls for a problem; with `every`, each length x splits x window x layout besides."""
    shapes = [*_CHOSEN, *([_CODES] if _quantised(axes) else []), *([_APART] if axes["rows"] > 1 else [])]
    if every:
        shapes += _every_shape(windows=_WINDOWS if axes["window"] else _WINDOWS[-1:])
    return [_make(axes, shape, number) for number, shape in enumerate(shapes)]


def isolation(axes: Mapping[str, Any]) -> list[tuple[str, Callable[[], Case]]]:
    """The calls of the isolation set that a problem's row answers: (name, what makes the case).

    Three cache formats, head_dim 128 with groups of 4 and 8 and 256 with 8, requests of 17, 8,192 and 32,768 keys, 1, 3
    and 8 queries each.  One request and one KV head, cut into splits of 512 keys, so that an emulator takes seconds.
    A name says the same call in every problem, whatever row answers it.
    """
    if axes["window"] or axes["soft_cap"]:
        return []
    found = []
    for (head_dim, gqa), rows, keys in itertools.product(_ISOLATION_HEADS, _ISOLATION_ROWS, _ISOLATION_KEYS):
        fits = axes["block_m"] // 2 < rows * gqa <= axes["block_m"] and (axes["rows"] > 1) == (rows > 1)
        if head_dim == axes["head_dim"] and fits:
            name = f"{axes['kv_format']} D={head_dim} GQA {gqa}, {keys:,} keys, {rows} rows"
            splits = max(1, keys // 512)
            shape = _Shape(name, (keys,), (splits,), splits, 1)
            number = 1000 * keys + 10 * rows
            found.append((name, functools.partial(_make, axes, shape, number, (rows, gqa))))
    return found


def _every_shape(windows: tuple[int, ...]) -> list[_Shape]:
    """The whole cross product, all lengths in one call."""
    shapes = []
    for number, (splits, window, layout) in enumerate(itertools.product(_SPLITS, windows, _LAYOUTS)):
        name = f"every length, {splits} splits, window {window}, {layout}"
        each = (splits,) * len(_LENGTHS)
        shapes.append(_Shape(name, _LENGTHS, each, splits, window, kv_heads=1 + number % 2, layout=layout))
    return shapes


def _quantised(axes: Mapping[str, Any]) -> bool:
    return axes["kv_format"] != "bf16"


@dataclass(frozen=True, eq=False)
class _Contents:
    """q [batch, rows, kv_heads, gqa, head_dim] and cache rows [slots, kv_heads, head_dim] as they are stored; scales.

    Rows and scales by cache, 'k' and 'v'; no scales where rows are BF16.
    """

    q: NDArray[Any]
    rows: dict[str, NDArray[Any]]
    scales: dict[str, NDArray[np.float32]]


def _make(axes: Mapping[str, Any], shape: _Shape, number: int, queries: tuple[int, int] | None = None) -> Case:
    """queries: (rows, gqa); None takes those of the case's number."""
    queries = queries or _queries(axes, shape, number)
    rng = np.random.default_rng([number, axes["head_dim"], *queries])
    keys = sum(shape.lengths)
    slots = keys + 5
    # The first slot and the last are nobody's: what a masked lane reads must not be fine by chance.
    indices = 1 + rng.permutation(slots - 2)[:keys].astype(np.int32)
    fill = _code_contents if shape.codes else _random_contents
    contents = fill(rng, axes, shape, queries, indices, slots)
    if shape.nan:
        _put_nan(contents, shape, indices)
    tensors = {
        "q": _place(contents.q, axes, shape, NAN_BF16, 1),
        **_caches(contents, axes, shape, np.setdiff1d(np.arange(slots), indices)),
        **_requests(shape, queries[0], indices, slots),
        **_outputs(axes, shape, queries),
    }
    scalars: dict[str, int | float] = {"sm_scale": shape.sm_scale or axes["head_dim"] ** -0.5}
    if axes["window"]:
        scalars["window_length"] = shape.window
    if axes["soft_cap"]:
        scalars["logit_cap"] = 2.0**14 if shape.codes else 20.0
    sizes = dict(zip(("rows", "gqa"), queries, strict=True))
    dims = {"batch": len(shape.lengths), "kv_heads": shape.kv_heads, "splits": shape.grid_splits, **sizes}
    # Weights and scales are powers of two there: the values come out as they are, the scores but for their logarithm.
    limits = {"partial_lse": LSE_LIMITS}
    if shape.codes:
        limits = {"partial_out": (0.0, 0.0), "partial_lse": LSE_LIMITS if axes["soft_cap"] else (0.0, 1e-6)}
    facts = {"kv_format": axes["kv_format"]}
    return Case(shape.name, tensors, scalars, dims, ("partial_out", "partial_lse"), facts, limits)


def _queries(axes: Mapping[str, Any], shape: _Shape, number: int) -> tuple[int, int]:
    """(rows, gqa) of a problem's case of that number; as many rows as can be where they stand apart."""
    most = axes["block_m"]
    alone = ((1, most), (1, most - most // 4), (1, most // 2 + 1))
    chosen = _QUERIES.get((axes["rows"], most), alone)
    if axes["head_dim"] == 512:
        chosen = _QUERIES_OF_512[axes["rows"]]
    return max(chosen) if shape.apart > 1 else chosen[number % len(chosen)]


def _random_contents(
    rng: np.random.Generator,
    axes: Mapping[str, Any],
    shape: _Shape,
    queries: tuple[int, int],
    indices: NDArray[np.int32],  # noqa: ARG001 - which key comes where is of no account
    slots: int,
) -> _Contents:
    heads, head_dim = shape.kv_heads, axes["head_dim"]
    q = to_bf16(rng.standard_normal((len(shape.lengths), queries[0], heads, queries[1], head_dim)))
    if not _quantised(axes):
        # As large as values of real caches: with few keys, weights in BF16 cost up to 2**-9 of |v|, of 0.002 allowed.
        return _Contents(q, {name: to_bf16(0.5 * rng.standard_normal((slots, heads, head_dim))) for name in "kv"}, {})
    low, high = (math.log10(limit) for limit in shape.scales)
    rows = {name: rng.choice(_every_code(axes), (slots, heads, head_dim)) for name in "kv"}
    scales = {name: (10.0 ** rng.uniform(low, high, (slots, heads))).astype(np.float32) for name in "kv"}
    return _Contents(q, rows, scales)


def _every_code(axes: Mapping[str, Any]) -> NDArray[Any]:
    """All codes of a row that stand for numbers."""
    return finite_e4m3fn_codes() if axes["kv_format"] == "fp8_per_token_head" else np.arange(-127, 128).astype(np.int8)


def _put_nan(contents: _Contents, shape: _Shape, indices: NDArray[np.int32]) -> None:
    """NaN in one query head, and in the last KV head's row (or the row's scale) of one key that its query sees."""
    contents.q[0, -1, -1, -1, 3] = NAN_BF16
    slot = indices[shape.lengths[0] + shape.lengths[1] - 2]
    if contents.scales:
        contents.scales["k"][slot, -1] = np.nan
    else:
        contents.rows["k"][slot, -1, 5] = NAN_BF16


def _code_contents(
    rng: np.random.Generator,
    axes: Mapping[str, Any],
    shape: _Shape,
    queries: tuple[int, int],
    indices: NDArray[np.int32],
    slots: int,
) -> _Contents:
    """One key of each request takes all of the weight: its values are the output, its score is the log-sum-exp.

    Its K row holds the E4M3FN codes of one exponent, each at every place of a 32-bit word, or integers in turn, and q
    powers of two: the score is an exact multiple of half the distance between two codes, and any code read as another
    one changes it.
    """
    batch, (count, group), head_dim = len(shape.lengths), queries, axes["head_dim"]
    dims, heads = np.arange(head_dim), np.arange(group)
    words = dims // 4 % 16
    # Not the same for the codes of either sign: a sign that is lost must not cancel out.
    q = 2.0 ** ((dims + words + heads[:, None]) % 4 + words // 8)
    q = np.broadcast_to(q, (batch, count, 1, group, head_dim))
    rows = {name: rng.choice(_every_code(axes), (slots, 1, head_dim)) for name in "kv"}
    scales = {name: (2.0 ** rng.integers(-8, 9, (slots, 1))).astype(np.float32) for name in "kv"}
    # The other keys' scores are negative beyond any exponential.
    rows["k"][:], dominant = (
        -127 if rows["k"].dtype == np.int8 else finite_e4m3fn_codes()[-1],
        np.empty(batch, np.int64),
    )
    for request, length in enumerate(shape.lengths):
        # Every query of the request sees it.
        seen = length - count + 1
        dominant[request] = indices[sum(shape.lengths[:request]) + (4 * request + request % 4) % seen]
    scales["k"] = np.float32(2.0**100) * np.ones_like(scales["k"])
    scales["k"][dominant, 0] = 2.0 ** (np.arange(batch) % 9 - 4.0)
    for request, slot in enumerate(dominant):
        for turn, name in enumerate("kv"):
            codes = _integers if rows[name].dtype == np.int8 else _codes_of_exponent
            rows[name][slot, 0] = codes(abs(15 * turn - request % 16), head_dim, turn=turn)
    return _Contents(to_bf16(q), rows, scales)


def _codes_of_exponent(exponent: int, head_dim: int, *, turn: int) -> NDArray[np.uint8]:
    """The 16 codes of an exponent field, both signs, over a row: each at all four places of a 32-bit word."""
    dims = np.arange(head_dim)
    which = (dims // 4 + 4 * (dims % 4) + turn) % 16
    codes = (which >> 3) << 7 | exponent << 3 | which & 7
    return np.where(np.isin(codes, E4M3FN_NAN), codes - 1, codes).astype(np.uint8)


def _integers(sixteenth: int, head_dim: int, *, turn: int) -> NDArray[np.int8]:
    """A sixteenth of the codes -127 to 127 over a row; all sixteen hold each of them."""
    return ((np.arange(head_dim) * 16 + sixteenth + turn) % 255 - 127).astype(np.int8)


def _caches(
    contents: _Contents, axes: Mapping[str, Any], shape: _Shape, unused: NDArray[np.integer]
) -> dict[str, Strided]:
    """Rows and scales of both caches; slots that no request lists, and what lies between the rows, hold NaN."""
    tensors = {}
    for number, name in enumerate("kv"):
        rows = contents.rows[name]
        # Integers have no NaN; their scales have.
        poison, filler = (
            {2: (NAN_BF16, NAN_BF16), 1: E4M3FN_NAN}[rows.itemsize] if rows.dtype != np.int8 else (-128, -128)
        )
        rows[unused] = poison
        tensors[f"{name}_cache"] = _place(rows, axes, shape, filler, 2 + number)
        if contents.scales:
            scale = contents.scales[name]
            scale[unused] = np.nan
            lead, gaps = (0, ()) if shape.layout == "dense" else (1, (1 + number, 2 + number))
            tensors[f"{name}_scale"] = spaced(scale, _POISON, lead=lead, gaps=gaps, tail=64)
    return tensors


def _requests(shape: _Shape, rows: int, indices: NDArray[np.int32], slots: int) -> dict[str, Strided]:
    """CSR offsets, slots, positions and split counts.  Slots around the indices do not exist: using one is a fault."""
    before = 0 if shape.layout == "dense" else 7
    listed = np.concatenate([np.full(before, slots + 1000), indices, np.full(64, slots + 1000)]).astype(np.int32)
    behind = shape.behind or (0,) * len(shape.lengths)
    last = np.array(shape.lengths, np.int64) - 1 - np.array(behind)
    before_last = np.arange(rows - 1, -1, -1) if shape.apart == 1 else shape.apart * np.arange(rows)
    return {
        "indptr": dense(np.cumsum([before, *shape.lengths]).astype(np.int32)),
        "indices": dense(listed),
        "q_positions": dense(last[:, None] - before_last),
        "num_kv_splits": dense(np.array(shape.splits, np.int32)),
    }


def _outputs(axes: Mapping[str, Any], shape: _Shape, queries: tuple[int, int]) -> dict[str, Strided]:
    """Poison everywhere; strides of partial_out are multiples of 16 bytes."""
    rows, gqa = queries
    out_shape = (len(shape.lengths), rows, shape.kv_heads, gqa, shape.grid_splits, axes["head_dim"])
    out_gaps, lse_gaps = ((), ()) if shape.layout == "dense" else ((12, 8, 0, 4, 4), (3, 2, 0, 1, 1))
    return {
        "partial_out": spaced(np.full(out_shape, _POISON), _POISON, gaps=out_gaps, tail=64),
        "partial_lse": spaced(np.full(out_shape[:5], _POISON), _POISON, gaps=lse_gaps, tail=64),
    }


def _place(values: NDArray[Any], axes: Mapping[str, Any], shape: _Shape, filler: int, gap: int) -> Strided:
    """The layout that the case asks for, as far as the problem's alignment class promises less than it needs.

    gap: in steps of the alignment, behind each row; another one a tensor, so that no stride can stand in for another's.
    """
    if shape.layout == "dense":
        return spaced(values, filler, tail=0)
    step = max(1, axes["alignment"] // values.itemsize)
    lead = step if shape.layout == "offset" else 0
    # The heads of q lie one after the other, those of one KV head behind those of the one before.
    inner = (0, gap * step) if values.ndim == 5 else ()
    return spaced(values, filler, lead=lead, gaps=(2 * gap * step, gap * step, *inner), tail=1)


def expected(case: Case) -> dict[str, NDArray[np.float64]]:
    """Partial output [batch, rows, kv_heads, gqa, splits, head_dim] and its LSEs; 0 and -inf without keys."""
    q = from_bf16(case.tensors["q"].view)
    batch, rows, kv_heads, gqa, head_dim = q.shape
    k, v = (_decode(case, cache) for cache in ("k", "v"))
    out = np.zeros((batch, rows, kv_heads, gqa, case.dims["splits"], head_dim))
    lse = np.full(out.shape[:-1], -np.inf)
    for request, row, kv_head in itertools.product(range(batch), range(rows), range(kv_heads)):
        for split, slots in _split_slots(case, request, row):
            scores = float(case.scalars["sm_scale"]) * (q[request, row, kv_head] @ k(slots, kv_head).T)
            if "logit_cap" in case.scalars:
                scores = case.scalars["logit_cap"] * np.tanh(scores / case.scalars["logit_cap"])
            top = scores.max(1, keepdims=True)
            weights = np.exp(scores - top)
            total = weights.sum(1, keepdims=True)
            lse[request, row, kv_head, :, split] = (top + np.log(total))[:, 0]
            out[request, row, kv_head, :, split] = weights @ v(slots, kv_head) / total
    return {"partial_out": out, "partial_lse": lse}


def _split_slots(case: Case, request: int, row: int) -> Iterator[tuple[int, NDArray[np.integer]]]:
    """Of each split in which the query sees keys: its number and the slots of those keys.

    The splits cut what any query of the request sees.
    """
    indptr = case.tensors["indptr"].view
    slots = case.tensors["indices"].view[indptr[request] : indptr[request + 1]]
    positions = [int(position) for position in case.tensors["q_positions"].view[request]]
    length = case.scalars.get("window_length", max(positions) + 1)
    seen = [range(max(0, position - int(length) + 1), min(len(slots), position + 1)) for position in positions]
    first, end = min((keys.start for keys in seen if keys), default=0), max(keys.stop for keys in seen)
    splits = int(case.tensors["num_kv_splits"].view[request])
    size = math.ceil(math.ceil(max(0, end - first) / splits) / SPLIT_GRANULE) * SPLIT_GRANULE
    for split in range(case.dims["splits"]):
        start = max(first + split * size, seen[row].start)
        stop = min(first + (split + 1) * size, seen[row].stop)
        if start < stop:
            yield split, slots[start:stop]


def _decode(case: Case, cache: str) -> Callable[[NDArray[np.integer], int], NDArray[np.float64]]:
    """Rows [keys, head_dim] in float64 of given slots and a KV head."""
    rows = case.tensors[f"{cache}_cache"].view
    if case.facts["kv_format"] == "bf16":
        return lambda slots, head: from_bf16(rows[slots, head])
    scales = case.tensors[f"{cache}_scale"].view
    table = e4m3fn_values() if case.facts["kv_format"] == "fp8_per_token_head" else None

    def decoded(slots: NDArray[np.integer], head: int) -> NDArray[np.float64]:
        codes = rows[slots, head]
        values = codes.astype(np.float64) if table is None else table[codes]
        return values * scales[slots, head, None].astype(np.float64)

    return decoded
