"""What stands behind the operands: offsets, cache policy, lane permutations, output scaling, halves."""

from __future__ import annotations

from collections.abc import Mapping

_SCOPES = ("SCOPE_CU", "SCOPE_SE", "SCOPE_DEV", "SCOPE_SYS")
_LOADS = ("", "NT", "HT", "LU", "NT_RT", "RT_NT", "NT_HT", "")
_STORES = ("", "NT", "HT", "WB", "NT_RT", "RT_NT", "NT_HT", "NT_WB")
_ATOMICS = ("", "RETURN", "NT", "NT_RETURN", "CASCADE_RT", "", "CASCADE_NT", "")
_BYPASS, _SYSTEM, _DEVICE = 3, 3, 2
_OMODS = ("", "mul:2", "mul:4", "div:2")


def signed(value: int, bits: int) -> int:
    """A two's complement field of `bits` bits as a number."""
    return value - (1 << bits) if value >> (bits - 1) else value


def cache_policy(kind: str, hint: int, scope: int) -> list[str]:
    """`th:` and `scope:`; kind: load, store or atomic."""
    shown = []
    if hint:
        shown.append(f"th:{_hint_name(kind, hint, scope)}")
    if scope:
        shown.append(f"scope:{_SCOPES[scope]}")
    return shown


def has_policy(kind: str, hint: int, scope: int) -> bool:
    """Whether the assembler has a name for this temporal hint at this scope."""
    if not hint:
        return True
    if kind == "atomic":
        return bool(_ATOMICS[hint]) and (hint < 4 or scope >= _DEVICE) and not (hint == _BYPASS and scope == _SYSTEM)
    return bool((_STORES if kind == "store" else _LOADS)[hint])


def _hint_name(kind: str, hint: int, scope: int) -> str:
    if kind == "atomic":
        return f"TH_ATOMIC_{_ATOMICS[hint]}" if has_policy(kind, hint, scope) else f"{hint:#x}"
    names = _STORES if kind == "store" else _LOADS
    if hint == _BYPASS and scope == _SYSTEM:
        return f"TH_{kind.upper()}_BYPASS"
    return f"TH_{kind.upper()}_{names[hint]}" if names[hint] else f"{hint:#x}"


def lane_control(dpp: int) -> str:
    """The permutation of a DPP16 instruction; empty for a number that gfx12 does not have."""
    if dpp < 0x100:
        return f"quad_perm:[{','.join(str(dpp >> shift & 3) for shift in (0, 2, 4, 6))}]"
    name = {0x10: "row_shl", 0x11: "row_shr", 0x12: "row_ror", 0x15: "row_share", 0x16: "row_xmask"}.get(dpp >> 4, "")
    if name and (dpp & 15 or dpp >> 4 in (0x15, 0x16)):
        return f"{name}:{dpp & 15}"
    return {0x140: "row_mirror", 0x141: "row_half_mirror"}.get(dpp, "")


def dpp16_text(fields: Mapping[str, int]) -> list[str]:
    shown = [lane_control(fields["dpp"]), f"row_mask:{fields['row_mask']:#x}", f"bank_mask:{fields['bank_mask']:#x}"]
    shown += ["bound_ctrl:1"] if fields["bc"] else []
    return shown + (["fi:1"] if fields["fi"] else [])


def dpp8_text(fields: Mapping[str, int], *, fetch_invalid: bool) -> list[str]:
    lanes = ",".join(str(fields[f"lane_sel_{lane}"]) for lane in range(8))
    return [f"dpp8:[{lanes}]", *(["fi:1"] if fetch_invalid else [])]


def output_text(clamp: int, omod: int) -> list[str]:
    return [*(["clamp"] if clamp else []), *([_OMODS[omod]] if omod else [])]


def bit_list(name: str, value: int, count: int) -> str:
    """`op_sel:[0,1,0]`: bit 0 first."""
    return f"{name}:[{','.join(str(value >> position & 1) for position in range(count))}]"
