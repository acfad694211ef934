// Three kernels that differ in what a reader must tell apart: nothing special; static shared memory and a bound
// on the block; a called function with a local array.
extern "C" __global__ void add_one(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += 1.0f;
}

extern "C" __global__ void __launch_bounds__(256) reverse(const float *x, float *y) {
    __shared__ float tile[256];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = tile[255 - threadIdx.x];
}

__device__ __noinline__ float pick(float *p, int k) {
    volatile float local[8];
    for (int i = 0; i < 8; i++) local[i] = p[i];
    return local[k & 7];
}

extern "C" __global__ void calls(float *x, int k) { x[0] = pick(x, k); }
