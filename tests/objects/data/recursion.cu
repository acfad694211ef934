// A recursive function has no static stack depth; linked apart, it lives in a section of its own.
__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
extern "C" __global__ void recursive(int *x) { x[0] = fibonacci(x[1]); }
