"""Documents as decode_speed.py writes them, in a few lines."""

LONG, SHORT = "8 x 32768, GQA 8, D 128", "1 x 512, GQA 8, D 128"
BANDWIDTH = 4e12
BYTES = {"bf16": 536_870_912, "fp8": 276_824_064}


def row(shape, name, us, *, drifted=False, **fact):
    """A timed row; kind and format are read off its name unless told."""
    kind = next((k for k in ("sdpa", "jit", "gather", "flashinfer") if k in name), "bundle")
    kv_format = "fp8" if "fp8" in name else "bf16"
    size = {} if kind == "sdpa" else {"cache_bytes": BYTES[kv_format]}
    return {
        "shape": shape, "name": name, "kind": kind, "format": kv_format, **size, **fact,
        "median_us": us, "least_us": us, "drift": 1.5 if drifted else 1.0, "drifted": drifted, "samples_us": [us] * 3,
    }  # fmt: skip


def peers(**installed):
    """What was found of the other kernels."""
    return {"looked_for": ["flashinfer", "vllm"], "installed": installed}


def decode(*rows, **changes):
    """A whole document of these rows."""
    return {
        "schema": "assay.benchmark.decode/2",
        "protocol": {"order": "seeded shuffled rounds", "rounds": 3, "seed": 1, "drift_limit": 1.10},
        "complete": True,
        "device": "a device",
        "torch": "2.11.0",
        "triton": "3.6.0",
        "peers": peers(),
        "read_bandwidth_bytes_per_second": BANDWIDTH,
        "bundles": {"sm90": "5" * 64},
        "rows": list(rows),
        **changes,
    }


def five(shape, *, bf16, fp8, sdpa, drifted=()):
    """SDPA's row and the bundle's four, cold as fast as warm.  drifted: some of 'bf16', 'fp8', 'sdpa'."""
    kernels = [
        row(shape, f"sm90 {name} {way}", us, drifted=name in drifted)
        for name, us in (("bf16", bf16), ("fp8", fp8))
        for way in ("warm", "cold")
    ]
    return [row(shape, "sdpa", sdpa, drifted="sdpa" in drifted), *kernels]
