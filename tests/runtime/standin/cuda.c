/* Stands in for libcuda.so.1: the functions that runtime/drivers/cuda.py calls, with the checks of the real ones. */

#include "standin.h"

enum { DEPTH = 32 };

/* A device's primary context is its entry here; another library's own contexts are those of index DEVICES and up. */
static struct { int device, references; } contexts[2 * DEVICES];
static __thread void *stack[DEPTH];
static __thread int depth;

#define ENTER()                    \
    do {                           \
        int asked = enter(__func__); \
        if (asked) return asked;   \
        if (!started) return NOT_INITIALIZED; \
    } while (0)

static int index_of(const void *context) {
    for (int i = 0; i < 2 * DEVICES; i++)
        if (context == &contexts[i]) return i;
    return -1;
}

/* The device of the current context, -1 without one. */
static int current(void) {
    int index = depth ? index_of(stack[depth - 1]) : -1;
    return index < 0 || !contexts[index].references ? -1 : index % DEVICES;
}

/* The module of a handle, where the context that it was loaded in is the current one. */
static int of_current(Module **module, const void *handle) {
    if (current() < 0) return INVALID_CONTEXT;
    *module = live_module(handle);
    if (!*module) return INVALID_HANDLE;
    return stack[depth - 1] == &contexts[(*module)->device] ? 0 : INVALID_CONTEXT;
}

int standin_current(void) { return depth ? index_of(stack[depth - 1]) : -1; }
void standin_set_current(int context) {
    depth = 0;
    if (context < 0) return;
    contexts[context].references += context >= DEVICES;
    stack[depth++] = &contexts[context];
}
int standin_references(int device) { return contexts[device].references; }
int standin_depth(void) { return depth; }
/* Contexts outlive a reset; the test's thread starts without one. */
void standin_forget_contexts(void) {
    memset(contexts, 0, sizeof contexts);
    depth = 0;
}

int cuInit(unsigned flags) {
    int asked = enter(__func__);
    if (asked) return asked;
    return flags ? INVALID_VALUE : start();
}

int cuDriverGetVersion(int *version) {
    int asked = enter(__func__);
    *version = 12040;
    return asked;
}

int cuGetErrorName(int status, const char **name) {
    *name = status_name(status);
    return *name ? 0 : INVALID_VALUE;
}

int cuGetErrorString(int status, const char **text) {
    *text = status_text(status);
    return *text ? 0 : INVALID_VALUE;
}

int cuDeviceGetCount(int *count) {
    ENTER();
    *count = device_count;
    return 0;
}

int cuDeviceGet(int *device, int ordinal) {
    ENTER();
    if (ordinal < 0 || ordinal >= device_count) return INVALID_DEVICE;
    *device = ordinal;
    return 0;
}

int cuDeviceGetName(char *name, int size, int device) {
    ENTER();
    if (device < 0 || device >= device_count) return INVALID_DEVICE;
    snprintf(name, size, "Stand-in %d", device);
    return 0;
}

int cuDeviceGetPCIBusId(char *bus, int size, int device) {
    ENTER();
    if (device < 0 || device >= device_count) return INVALID_DEVICE;
    snprintf(bus, size, "0000:0%d:00.0", device + 3);
    return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    ENTER();
    if (device < 0 || device >= device_count) return INVALID_DEVICE;
    int number = atoi(devices[device].arch + 3);
    switch (attribute) {
        case 16: *value = devices[device].processors; return 0;
        case 75: *value = number / 10; return 0;
        case 76: *value = number % 10; return 0;
        case 97: *value = devices[device].shared_limit; return 0;
        default: return INVALID_VALUE;
    }
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
    ENTER();
    if (device < 0 || device >= device_count) return INVALID_DEVICE;
    __sync_fetch_and_add(&contexts[device].references, 1);
    *context = &contexts[device];
    return 0;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
    ENTER();
    if (device < 0 || device >= device_count || contexts[device].references < 1) return INVALID_CONTEXT;
    __sync_fetch_and_sub(&contexts[device].references, 1);
    return 0;
}

int cuCtxGetCurrent(void **context) {
    ENTER();
    *context = depth ? stack[depth - 1] : NULL;
    return 0;
}

int cuCtxPushCurrent_v2(void *context) {
    ENTER();
    int index = index_of(context);
    if (index < 0 || !contexts[index].references || depth == DEPTH) return INVALID_CONTEXT;
    stack[depth++] = context;
    return 0;
}

int cuCtxPopCurrent_v2(void **context) {
    ENTER();
    if (!depth) return INVALID_CONTEXT;
    *context = stack[--depth];
    return 0;
}

int cuCtxSynchronize(void) {
    ENTER();
    return current() < 0 ? INVALID_CONTEXT : wait();
}

int cuStreamSynchronize(uint64_t stream) {
    ENTER();
    if (current() < 0) return INVALID_CONTEXT;
    return stream_device(stream, current()) < 0 ? INVALID_HANDLE : wait();
}

int cuModuleLoadDataEx(void **module, const void *image, unsigned count, const int *options, void **values) {
    ENTER();
    if (current() < 0) return INVALID_CONTEXT;
    int status = load(module, image, current());
    for (unsigned i = 0; status && i + 1 < count; i++)
        if (options[i] == 5 && options[i + 1] == 6)
            snprintf(values[i], (size_t)values[i + 1], "stand-in: device kernel image is of no use here");
    return status;
}

int cuModuleUnload(void *handle) {
    ENTER();
    Module *module;
    int status = of_current(&module, handle);
    return status ? status : unload(handle);
}

int cuModuleGetFunction(void **function, void *handle, const char *symbol) {
    ENTER();
    Module *module;
    int status = of_current(&module, handle);
    if (status) return status;
    if (strcmp(symbol, module->object->symbol)) return NOT_FOUND;
    *function = module;
    return 0;
}

int cuFuncGetAttribute(int *value, int attribute, void *function) {
    ENTER();
    Module *module;
    int status = of_current(&module, function);
    return status ? status : attribute_of(value, attribute, function);
}

int cuFuncGetParamInfo(void *function, size_t index, size_t *offset, size_t *size) {
    ENTER();
    Module *module;
    int status = of_current(&module, function);
    if (status) return status;
    if (index >= (size_t)module->object->arguments) return INVALID_VALUE;
    *offset = module->object->offsets[index];
    *size = module->object->sizes[index];
    return 0;
}

int cuFuncSetAttribute(void *function, int attribute, int value) {
    ENTER();
    Module *module;
    int status = of_current(&module, function);
    if (status) return status;
    if (attribute != 8 || value < 0) return INVALID_VALUE;
    if (module->object->static_shared + value > devices[module->device].shared_limit) return INVALID_VALUE;
    module->dynamic_allowed = value;
    return 0;
}

int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *groups, void *function, int threads, size_t shared) {
    ENTER();
    Module *module;
    int status = of_current(&module, function);
    if (status) return status;
    if (threads <= 0 || shared > (size_t)devices[module->device].shared_limit) return INVALID_VALUE;
    *groups = 2048 / threads;
    return 0;
}

static int start_kernel(void *function, const uint32_t grid[3], const uint32_t threads[3], unsigned shared,
                        uint64_t stream, void **parameters, void **extra) {
    Module *module;
    int status = of_current(&module, function);
    if (status) return status;
    if (stream_device(stream, module->device) != module->device) return INVALID_HANDLE;
    if (parameters) return INVALID_VALUE;
    /* 48 KiB and more, static and dynamic together, only where the kernel was allowed it. */
    if (module->object->static_shared + shared >= 49152 && (int)shared > module->dynamic_allowed) return INVALID_VALUE;
    return launch(module, grid, threads, shared, stream, extra, 0);
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, uint64_t stream, void **parameters, void **extra) {
    ENTER();
    uint32_t grid[3] = {gx, gy, gz}, threads[3] = {bx, by, bz};
    return start_kernel(function, grid, threads, shared, stream, parameters, extra);
}

typedef struct {
    unsigned id, padding;
    int value;
    char rest[60];
} Attribute;

typedef struct {
    uint32_t grid[3], threads[3], shared;
    uint64_t stream;
    const Attribute *attributes;
    unsigned attribute_count;
} Configuration;

/* One attribute is known, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION: kernels run one after the other here. */
int cuLaunchKernelEx(const Configuration *wanted, void *function, void **parameters, void **extra) {
    ENTER();
    for (unsigned index = 0; index < wanted->attribute_count; index++)
        if (wanted->attributes[index].id != 6 || wanted->attributes[index].value != 1) return INVALID_VALUE;
    return start_kernel(function, wanted->grid, wanted->threads, wanted->shared, wanted->stream, parameters, extra);
}

int cuMemAlloc_v2(void **address, size_t size) {
    ENTER();
    return current() < 0 ? INVALID_CONTEXT : allocate(address, size, current());
}

int cuMemFree_v2(void *address) {
    ENTER();
    return current() < 0 ? INVALID_CONTEXT : release(address);
}

int cuMemsetD32_v2(void *address, unsigned value, size_t count) {
    ENTER();
    return current() < 0 ? INVALID_CONTEXT : fill(address, value, count);
}

int cuMemcpyDtoH_v2(void *to, void *from, size_t size) {
    ENTER();
    return current() < 0 ? INVALID_CONTEXT : copy_to_host(to, from, size);
}

int cuPointerGetAttribute(void *value, int attribute, const void *address) {
    ENTER();
    if (current() < 0) return INVALID_CONTEXT;
    int block = block_of(address);
    if (block < 0) return INVALID_VALUE;
    switch (attribute) {
        case 2: *(unsigned *)value = blocks[block].kind == HOST_MEMORY ? 1 : 2; return 0;
        case 8: *(char *)value = blocks[block].kind == MANAGED_MEMORY; return 0;
        case 9: *(int *)value = blocks[block].device; return 0;
        default: return INVALID_VALUE;
    }
}

static const char *status_name(int status) {
    switch (status) {
        case 0: return "CUDA_SUCCESS";
        case INVALID_VALUE: return "CUDA_ERROR_INVALID_VALUE";
        case OUT_OF_MEMORY: return "CUDA_ERROR_OUT_OF_MEMORY";
        case NOT_INITIALIZED: return "CUDA_ERROR_NOT_INITIALIZED";
        case NO_DEVICE: return "CUDA_ERROR_NO_DEVICE";
        case INVALID_DEVICE: return "CUDA_ERROR_INVALID_DEVICE";
        case INVALID_IMAGE: return "CUDA_ERROR_INVALID_IMAGE";
        case INVALID_CONTEXT: return "CUDA_ERROR_INVALID_CONTEXT";
        case NO_BINARY_FOR_GPU: return "CUDA_ERROR_NO_BINARY_FOR_GPU";
        case INVALID_HANDLE: return "CUDA_ERROR_INVALID_HANDLE";
        case NOT_FOUND: return "CUDA_ERROR_NOT_FOUND";
        case LAUNCH_FAILED: return "CUDA_ERROR_LAUNCH_FAILED";
        default: return NULL;
    }
}

static const char *status_text(int status) {
    if (!status_name(status)) return NULL;
    return status == LAUNCH_FAILED ? "unspecified launch failure" : "refused";
}
