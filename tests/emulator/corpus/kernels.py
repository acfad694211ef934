"""Triton kernels that exercise what Triton's gfx12 backend emits: elementwise, reductions, scans, matrix products."""

import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.load(x + i, mask=mask) + tl.load(y + i, mask=mask), mask=mask)


@triton.jit
def affine(x, out, n, a, b, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, (tl.load(x + i, mask=mask) * a + b).to(out.dtype.element_ty), mask=mask)


@triton.jit
def float_functions(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=1.0)
    w = tl.exp(v) + tl.log(tl.abs(v) + 1.0) + tl.sin(v) * tl.cos(v) + tl.sqrt(tl.abs(v)) + tl.rsqrt(tl.abs(v) + 0.5)
    w += tl.floor(v) + tl.ceil(v * 3.0) + tl.erf(v) + tl.exp2(v) + tl.log2(tl.abs(v) + 2.0)
    tl.store(out + i, w, mask=i < n)


@triton.jit
def divisions(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i, mask=i < n, other=1.0)
    b = tl.load(y + i, mask=i < n, other=1.0)
    tl.store(out + i, a / b + tl.div_rn(b, a) + tl.sqrt_rn(tl.abs(a)), mask=i < n)


@triton.jit
def integer_functions(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i, mask=i < n, other=1)
    b = tl.load(y + i, mask=i < n, other=1)
    r = (a // b) + (a % b) * 3 + (a ^ b) - (a & b) + (a | b) + (a << (b & 7)) + (a >> (b & 3)) + tl.minimum(a, b)
    tl.store(out + i, r + tl.maximum(a, b) * tl.abs(a) + tl.where(a > b, a, -b) + (~a), mask=i < n)


@triton.jit
def unsigned_functions(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i, mask=i < n, other=1)
    b = tl.load(y + i, mask=i < n, other=1)
    r = (a // b) + (a % b) + (a * b) + (a >> (b & 3).to(a.dtype)) + tl.where(a > b, a, b)
    tl.store(out + i, r, mask=i < n)


@triton.jit
def multiply_high(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i, mask=i < n, other=1)
    tl.store(out + i, tl.umulhi(a, tl.load(y + i, mask=i < n, other=1)), mask=i < n)


@triton.jit
def scalar_division(out, a, b, BLOCK: tl.constexpr):
    p = tl.program_id(0)
    q = (a + p) // b
    r = (a + p) % b
    i = tl.arange(0, BLOCK)
    tl.store(out + p * BLOCK + i, q * 1000 + r + i)


@triton.jit
def convert(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n, other=0).to(out.dtype.element_ty), mask=i < n)


@triton.jit
def convert_fp8(x, out, n, BLOCK: tl.constexpr, FORM: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    codes = tl.load(x + i, mask=i < n, other=0)
    form: tl.constexpr = tl.float8e4nv if FORM == "e4nv" else tl.float8e5
    tl.store(out + i, codes.to(form, bitcast=True).to(out.dtype.element_ty), mask=i < n)


@triton.jit
def narrow_fp8(x, out, n, BLOCK: tl.constexpr, FORM: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    form: tl.constexpr = tl.float8e4nv if FORM == "e4nv" else tl.float8e5
    v = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(out + i, v.to(form).to(tl.uint8, bitcast=True), mask=i < n)


@triton.jit
def half_math(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i, mask=i < n, other=1.0)
    b = tl.load(y + i, mask=i < n, other=1.0)
    tl.store(out + i, (a * b + a - b) * tl.maximum(a, b) + tl.minimum(a, b), mask=i < n)


@triton.jit
def softmax(x, out, stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * stride + i, mask=i < cols, other=float("-inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + row * stride + i, (e / tl.sum(e, 0)).to(out.dtype.element_ty), mask=i < cols)


@triton.jit
def layer_norm(x, weight, bias, out, stride, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    mask = i < cols
    v = tl.load(x + row * stride + i, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(v, 0) / cols
    centred = tl.where(mask, v - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, 0) / cols + eps)
    w = tl.load(weight + i, mask=mask)
    tl.store(out + row * stride + i, centred * scale * w + tl.load(bias + i, mask=mask), mask=mask)


@triton.jit
def rms_norm_loop(x, weight, out, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, cols, BLOCK):
        i = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * cols + i, mask=i < cols, other=0.0).to(tl.float32)
        total += v * v
    scale = 1 / tl.sqrt(tl.sum(total, 0) / cols + eps)
    for start in range(0, cols, BLOCK):
        i = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * cols + i, mask=i < cols, other=0.0).to(tl.float32)
        w = tl.load(weight + i, mask=i < cols, other=0.0)
        tl.store(out + row * cols + i, v * scale * w, mask=i < cols)


@triton.jit
def reduce_rows(x, sums, tops, places, ROWS: tl.constexpr, COLS: tl.constexpr):
    r = tl.arange(0, ROWS)[:, None]
    c = tl.arange(0, COLS)[None, :]
    v = tl.load(x + r * COLS + c)
    rows = tl.arange(0, ROWS)
    tl.store(sums + rows, tl.sum(v, 1))
    tl.store(tops + rows, tl.max(v, 1))
    tl.store(places + rows, tl.argmax(v, 1))


@triton.jit
def reduce_columns(x, sums, lows, ROWS: tl.constexpr, COLS: tl.constexpr):
    r = tl.arange(0, ROWS)[:, None]
    c = tl.arange(0, COLS)[None, :]
    v = tl.load(x + r * COLS + c)
    cols = tl.arange(0, COLS)
    tl.store(sums + cols, tl.sum(v, 0))
    tl.store(lows + cols, tl.min(v, 0))


@triton.jit
def xor_reduce(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out, tl.xor_sum(tl.load(x + i), 0))


@triton.jit
def cumulative_sum(x, out, ROWS: tl.constexpr, COLS: tl.constexpr):
    r = tl.arange(0, ROWS)[:, None]
    c = tl.arange(0, COLS)[None, :]
    tl.store(out + r * COLS + c, tl.cumsum(tl.load(x + r * COLS + c), 1))


@triton.jit
def cumulative_product(x, out, COLS: tl.constexpr):
    c = tl.arange(0, COLS)
    tl.store(out + c, tl.cumprod(tl.load(x + c), 0, reverse=True))


@triton.jit
def sort_rows(x, out, ROWS: tl.constexpr, COLS: tl.constexpr):
    r = tl.arange(0, ROWS)[:, None]
    c = tl.arange(0, COLS)[None, :]
    tl.store(out + r * COLS + c, tl.sort(tl.load(x + r * COLS + c), 1))


@triton.jit
def flip_rows(x, out, ROWS: tl.constexpr, COLS: tl.constexpr):
    r = tl.arange(0, ROWS)[:, None]
    c = tl.arange(0, COLS)[None, :]
    tl.store(out + r * COLS + c, tl.flip(tl.load(x + r * COLS + c), 1))


@triton.jit
def transpose(x, out, ROWS: tl.constexpr, COLS: tl.constexpr):
    r = tl.arange(0, ROWS)
    c = tl.arange(0, COLS)
    v = tl.load(x + r[:, None] * COLS + c[None, :])
    tl.store(out + c[:, None] * ROWS + r[None, :], tl.trans(v))


@triton.jit
def gather_rows(x, indices, out, cols, BLOCK: tl.constexpr):
    p = tl.program_id(0)
    row = tl.load(indices + p)
    i = tl.arange(0, BLOCK)
    tl.store(out + p * cols + i, tl.load(x + row * cols + i, mask=i < cols, other=0.0), mask=i < cols)


@triton.jit
def scatter_elements(x, indices, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    place = tl.load(indices + i, mask=i < n, other=0)
    tl.store(out + place, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def gather_lanes(x, indices, out, ROWS: tl.constexpr, COLS: tl.constexpr):
    r = tl.arange(0, ROWS)[:, None]
    c = tl.arange(0, COLS)[None, :]
    v = tl.load(x + r * COLS + c)
    tl.store(out + r * COLS + c, tl.gather(v, tl.load(indices + r * COLS + c), 1))


@triton.jit
def histogram(x, out, BLOCK: tl.constexpr, BINS: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + tl.arange(0, BINS), tl.histogram(tl.load(x + i), BINS))


@triton.jit
def atomic_count(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    bins = tl.load(x + i, mask=i < n, other=0)
    tl.atomic_add(out + bins, 1, mask=i < n)


@triton.jit
def atomic_mixture(x, sums, tops, lows, bits, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0)
    place = i % 8
    tl.atomic_add(sums + place, v.to(tl.float32), mask=i < n)
    tl.atomic_max(tops + place, v, mask=i < n)
    tl.atomic_min(lows + place, v, mask=i < n)
    tl.atomic_or(bits + place, v, mask=i < n)


@triton.jit
def atomic_ticket(counter, out):
    ticket = tl.atomic_add(counter, 1)
    tl.store(out + ticket, tl.program_id(0))


@triton.jit
def atomic_half(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + i % 64, tl.load(x + i, mask=i < n, other=0.0), mask=i < n)


@triton.jit
def compare_and_swap(lock, out, BLOCK: tl.constexpr):
    p = tl.program_id(0)
    before = tl.atomic_cas(lock, p, p + 1)
    tl.store(out + p, before)
    old = tl.atomic_xchg(lock + 1, p)
    tl.store(out + BLOCK + p, old)


@triton.jit
def dropout(x, out, n, p, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0)
    keep = tl.rand(seed, i) > p
    tl.store(out + i, tl.where(keep, v / (1 - p), 0.0), mask=i < n)


@triton.jit
def random_integers(out, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.randint(seed, i))


@triton.jit
def matmul(a, b, c, m, n, k, lda, ldb, ldc, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, ACC: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros([BM, BN], ACC)
    for start in range(0, k, BK):
        at = start + inner
        x = tl.load(a + rows[:, None] * lda + at[None, :], mask=(rows[:, None] < m) & (at[None, :] < k), other=0)
        y = tl.load(b + at[:, None] * ldb + cols[None, :], mask=(at[:, None] < k) & (cols[None, :] < n), other=0)
        total = tl.dot(x, y, total, out_dtype=ACC)
    where = c + rows[:, None] * ldc + cols[None, :]
    tl.store(where, total.to(c.dtype.element_ty), mask=(rows[:, None] < m) & (cols[None, :] < n))


@triton.jit
def matmul_fp8(a, b, c, K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, FORM: tl.constexpr):
    form: tl.constexpr = tl.float8e4nv if FORM == "e4nv" else tl.float8e5
    rows = tl.arange(0, BM)
    cols = tl.arange(0, BN)
    inner = tl.arange(0, K)
    x = tl.load(a + rows[:, None] * K + inner[None, :]).to(form, bitcast=True)
    y = tl.load(b + inner[:, None] * BN + cols[None, :]).to(form, bitcast=True)
    tl.store(c + rows[:, None] * BN + cols[None, :], tl.dot(x, y))


@triton.jit
def attention(q, k, v, out, n, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    dims = tl.arange(0, D)
    query = tl.load(q + rows[:, None] * D + dims[None, :], mask=rows[:, None] < n, other=0.0)
    top = tl.full([BM], float("-inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for start in range(0, n, BN):
        cols = start + tl.arange(0, BN)
        keys = tl.load(k + cols[None, :] * D + dims[:, None], mask=cols[None, :] < n, other=0.0)
        s = tl.dot(query, keys) * scale
        s = tl.where((cols[None, :] <= rows[:, None]) & (cols[None, :] < n), s, float("-inf"))
        new_top = tl.maximum(top, tl.max(s, 1))
        p = tl.exp(s - new_top[:, None])
        shrink = tl.exp(top - new_top)
        total = total * shrink + tl.sum(p, 1)
        values = tl.load(v + cols[:, None] * D + dims[None, :], mask=cols[:, None] < n, other=0.0)
        acc = acc * shrink[:, None] + tl.dot(p.to(values.dtype), values)
        top = new_top
    tl.store(out + rows[:, None] * D + dims[None, :], acc / total[:, None], mask=rows[:, None] < n)


@triton.jit
def convolution(x, w, out, height, width, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row, col = i // width, i % width
    total = tl.zeros([BLOCK], tl.float32)
    for dy in tl.static_range(3):
        for dx in tl.static_range(3):
            r, c = row + dy - 1, col + dx - 1
            inside = (r >= 0) & (r < height) & (c >= 0) & (c < width)
            total += tl.load(x + r * width + c, mask=inside, other=0.0) * tl.load(w + dy * 3 + dx)
    tl.store(out + i, total, mask=i < height * width)


@triton.jit
def embedding_bag(table, indices, offsets, out, DIM: tl.constexpr):
    p = tl.program_id(0)
    d = tl.arange(0, DIM)
    total = tl.zeros([DIM], tl.float32)
    for j in range(tl.load(offsets + p), tl.load(offsets + p + 1)):
        total += tl.load(table + tl.load(indices + j) * DIM + d)
    tl.store(out + p * DIM + d, total)


@triton.jit
def collatz(x, out, n, BLOCK: tl.constexpr):  # noqa: ARG001 - every kernel of the corpus takes these
    p = tl.program_id(0)
    v = tl.load(x + p)
    steps = 0
    while v != 1:
        v = tl.where(v % 2 == 0, v // 2, 3 * v + 1)
        steps += 1
    tl.store(out + p, steps)


@triton.jit
def swiglu(x, out, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    gate = tl.load(x + row * 2 * cols + i, mask=i < cols).to(tl.float32)
    up = tl.load(x + row * 2 * cols + cols + i, mask=i < cols).to(tl.float32)
    tl.store(out + row * cols + i, (gate * tl.sigmoid(gate) * up).to(out.dtype.element_ty), mask=i < cols)


@triton.jit
def quantise_rows(x, codes, scales, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * cols + i, mask=i < cols, other=0.0)
    scale = tl.maximum(tl.max(tl.abs(v), 0), 1e-12) / 127.0
    r = v / scale
    tl.store(codes + row * cols + i, (r + tl.where(r >= 0, 0.5, -0.5)).to(tl.int8), mask=i < cols)
    tl.store(scales + row, scale)


@triton.jit
def double_math(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i, mask=i < n, other=1.0)
    b = tl.load(y + i, mask=i < n, other=1.0)
    r = a / b + tl.sqrt(tl.abs(a)) + tl.maximum(a, b) * tl.minimum(a, b) - tl.floor(a) + tl.fma(a, b, a)
    tl.store(out + i, r + b.to(tl.float32).to(tl.float64) + a.to(tl.int32).to(tl.float64), mask=i < n)


@triton.jit
def double_sum(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out, tl.sum(tl.load(x + i), 0))


@triton.jit
def pack_bits(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    bits = (tl.load(x + i) > 0).to(tl.int32).reshape(BLOCK // 32, 32)
    tl.store(out + tl.arange(0, BLOCK // 32), tl.sum(bits << tl.arange(0, 32)[None, :], 1))


@triton.jit
def interleave(x, y, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + tl.arange(0, 2 * BLOCK), tl.interleave(tl.load(x + i), tl.load(y + i)))


@triton.jit
def split_complex(x, real, imaginary, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    pairs = tl.load(x + tl.arange(0, 2 * BLOCK)).reshape(BLOCK, 2)
    a, b = tl.split(pairs)
    tl.store(real + i, a)
    tl.store(imaginary + i, b)


@triton.jit
def reversed_bits_count(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0)
    count = tl.zeros([BLOCK], tl.int32)
    for bit in tl.static_range(8):
        count += ((v >> (bit * 4)) & 15).to(tl.int32)
    tl.store(out + i, count, mask=i < n)


@triton.jit
def divide_exactly(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i, mask=i < n, other=1.0)
    b = tl.load(y + i, mask=i < n, other=1.0)
    tl.store(out + i, tl.div_rn(a, b), mask=i < n)


@triton.jit
def divide_doubles(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i, mask=i < n, other=1.0)
    tl.store(out + i, a / tl.load(y + i, mask=i < n, other=1.0), mask=i < n)
