"""Small bundles for tests: a toy family on two targets, and as many rows as a test asks for."""

from __future__ import annotations

import hashlib

from assay.bundle import Condition, Contents, KernelArgument, Manifest, Row, TargetRecord, VariantRecord

TARGETS = (
    TargetRecord("gfx1201", "hip", "gfx1201", 65_536, 32),
    TargetRecord("sm120", "cuda", "sm_120a", 101_376, 32, runs_on=("sm_120",)),
)
ARGUMENTS = (
    KernelArgument("x", 0, 8, "pointer"),
    KernelArgument("y", 8, 8, "pointer"),
    KernelArgument("n", 16, 4, "i32"),
    KernelArgument("", 24, 8, "hidden"),
)


def sha(data: bytes | str) -> str:
    return hashlib.sha256(data if isinstance(data, bytes) else data.encode()).hexdigest()


def code(seed: str, size: int = 300) -> bytes:
    """Bytes that deflate about as well as a small code object."""
    return b"\x7fELF" + b"".join(hashlib.sha256(f"{seed}{i}".encode()).digest() + bytes(32) for i in range(size // 64))


def make_row(id: str, conditions=(), *, family="copy", target="gfx1201", preference=0, object_="", **changes) -> Row:
    row = Row(
        id=id,
        family=family,
        target=target,
        conditions=tuple(Condition(*c) if not isinstance(c, Condition) else c for c in conditions),
        preference=preference,
        symbol=f"{family}_kernel",
        object=object_ or sha(code(id)),
        grid=(("rows", "heads"), ("splits",)),
        num_warps=4,
        wavefront_size=32,
        lds_bytes=1024,
        arguments=ARGUMENTS,
        hidden_arguments=1,
        launch={"BLOCK_N": 32, "num_stages": 2},
        specialisation={"divisible_by_16": ["x", "y"]},
    )
    return row._replace(**changes)


def make_variant(row: Row) -> VariantRecord:
    source = f"# {row.id}\ndef {row.symbol}(x, y, n):\n    ...\n"
    return VariantRecord(
        id=row.id,
        family=row.family,
        problem={"head_dim": 128, "kv_format": "bf16"},
        launch=row.launch,
        target=row.target,
        specialisation=row.specialisation,
        resources={"vgpr_count": 64, "vgpr_spill_count": 0, "lds_static_bytes": None},
        source_sha256=sha(source),
        code_sha256=row.object,
        source=source,
        instructions={"v_wmma_f32_16x16x16_bf16": 8},
    )


def make_contents(rows, objects=None, **changes) -> Contents:
    rows = tuple(rows)
    found = {row.object: code(row.id) for row in rows} if objects is None else objects
    manifest = Manifest(
        bundle_version="1.2.0",
        assay_version="0.1.0",
        toolchain={"triton": "3.8.0", "wheel_sha256": sha("wheel")},
        profile="core",
        targets=TARGETS,
        sources={"families/copy.yaml": sha("spec"), "templates/copy.j2": sha("template")},
        families={family: {"arguments": []} for family in sorted({row.family for row in rows})},
    )
    contents = Contents(manifest, rows, tuple(make_variant(row) for row in rows), found)
    return contents._replace(**changes)


def small_rows() -> list[Row]:
    """Aligned and generic rows of two families, with one family on both targets."""
    aligned = [("head_dim", "eq", 128), ("gqa", "one_of", (4, 8)), ("q_align", "multiple_of", 16)]
    generic = [("head_dim", "eq", 128), ("gqa", "one_of", (4, 8))]
    return [
        make_row("aligned", aligned),
        make_row("generic", generic),
        make_row("wide", [("head_dim", "eq", 256), ("kv_bytes", "at_most", 2**31 - 1)], preference=1),
        make_row("other-chip", generic, target="sm120"),
        make_row("merge", [("splits", "at_least", 1), ("sinks", "eq", False)], family="merge_splits"),
    ]


def many_rows(count: int = 1000, object_size: int = 300) -> tuple[list[Row], dict[str, bytes]]:
    """`count` decode rows with eight conditions each, every row with its own object."""
    rows, objects = [], {}
    for i in range(count):
        raw = code(f"many{i}", object_size)
        conditions = [
            ("head_dim", "eq", (64, 128, 256)[i % 3]),
            ("gqa", "eq", i // 3 % 16),
            ("kv_format", "eq", ("bf16", "fp8_per_token_head")[i // 48 % 2]),
            ("window", "eq", bool(i // 96 % 2)),
            ("q_align", "multiple_of", 16),
            ("kv_align", "multiple_of", 1 + i // 192 % 4),
            ("kv_bytes", "at_most", 2**31 - 1),
            ("batch", "at_least", 1 + i // 768),
        ]
        row = make_row(sha(f"row{i}")[:16], conditions, family="decode_attention", object_=sha(raw))
        rows.append(row._replace(symbol=f"decode_attention_{row.id}", lds_bytes=1024 * (i % 32)))
        objects[sha(raw)] = raw
    return rows, objects
