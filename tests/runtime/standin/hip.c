/* Stands in for libamdhip64.so: the functions that runtime/drivers/hip.py calls, with the checks of the real ones. */

#include "standin.h"

static __thread int current_device;
static __thread int last_error;

static int returned(int status) {
    if (status) last_error = status;
    return status;
}

/* Log the call and return where a failure was asked for. */
#define ENTER()                                    \
    do {                                           \
        int asked = enter(__func__);               \
        if (asked) return returned(asked);         \
    } while (0)

int standin_current(void) { return current_device; }
void standin_set_current(int device) { current_device = device; }
int standin_last_error(void) { return last_error; }

int hipInit(unsigned flags) {
    ENTER();
    return returned(flags ? INVALID_VALUE : start());
}

int hipGetDeviceCount(int *count) {
    ENTER();
    *count = device_count;
    return returned(device_count ? 0 : NO_DEVICE);
}

int hipDriverGetVersion(int *version) {
    ENTER();
    *version = 60443483;
    return 0;
}

const char *hipGetErrorName(int status) { return status_name(status); }
const char *hipGetErrorString(int status) { return status_text(status); }

int hipGetLastError(void) {
    int status = last_error;
    last_error = 0;
    return status;
}

int hipGetDevice(int *device) {
    ENTER();
    *device = current_device;
    return 0;
}

int hipSetDevice(int device) {
    ENTER();
    if (device < 0 || device >= device_count) return returned(INVALID_DEVICE);
    current_device = device;
    return 0;
}

int hipDeviceGetName(char *name, int size, int device) {
    ENTER();
    if (device < 0 || device >= device_count) return returned(INVALID_DEVICE);
    snprintf(name, size, "Stand-in %d", device);
    return 0;
}

int hipDeviceGetPCIBusId(char *bus, int size, int device) {
    ENTER();
    if (device < 0 || device >= device_count) return returned(INVALID_DEVICE);
    snprintf(bus, size, "0000:0%d:00.0", device + 3);
    return 0;
}

int hipDeviceGetAttribute(int *value, int attribute, int device) {
    ENTER();
    if (device < 0 || device >= device_count) return returned(INVALID_DEVICE);
    if (attribute == 63) *value = devices[device].processors;
    else if (attribute == 74) *value = devices[device].shared_limit;
    else return returned(INVALID_VALUE);
    return 0;
}

int hipGetDevicePropertiesR0600(void *properties, int device) {
    ENTER();
    if (device < 0 || device >= device_count) return returned(INVALID_DEVICE);
    memset(properties, 0, 1472);
    snprintf((char *)properties + 1160, 256, "%s", devices[device].arch);
    return 0;
}

int hipDeviceSynchronize(void) {
    ENTER();
    return wait();
}

int hipStreamSynchronize(uint64_t stream) {
    ENTER();
    return returned(stream_device(stream, current_device) < 0 ? INVALID_VALUE : wait());
}

int hipModuleLoadData(void **module, const void *image) {
    ENTER();
    return returned(load(module, image, current_device));
}

int hipModuleUnload(void *module) {
    ENTER();
    return returned(unload(module));
}

int hipModuleGetFunction(void **function, void *handle, const char *symbol) {
    ENTER();
    Module *module = live_module(handle);
    if (!module) return returned(INVALID_HANDLE);
    if (strcmp(symbol, module->object->symbol)) return returned(NOT_FOUND);
    *function = module;
    return 0;
}

int hipFuncGetAttribute(int *value, int attribute, void *function) {
    ENTER();
    return returned(attribute_of(value, attribute, function));
}

int hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *groups, void *function, int threads, size_t shared) {
    ENTER();
    Module *module = live_module(function);
    if (!module || threads <= 0) return returned(INVALID_HANDLE);
    *groups = 1024 / threads;
    return shared > 65536 ? returned(INVALID_VALUE) : 0;
}

int hipModuleLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, uint64_t stream, void **parameters, void **extra) {
    ENTER();
    Module *module = live_module(function);
    if (!module) return returned(INVALID_HANDLE);
    int device = stream_device(stream, current_device);
    if (device < 0) return returned(INVALID_VALUE);
    if (device != module->device) return returned(INVALID_DEVICE);
    if (parameters) return returned(INVALID_VALUE);
    if ((uint64_t)gx * bx > UINT32_MAX) return returned(9);
    if (module->object->static_shared + shared > 65536) return returned(INVALID_VALUE);
    /* The real one goes on reading the image that it was given. */
    if (memcmp(module->image, module->object->bytes, module->object->size)) return returned(INVALID_IMAGE);
    uint32_t grid[3] = {gx, gy, gz}, threads[3] = {bx, by, bz};
    return returned(launch(module, grid, threads, shared, stream, extra, 3));
}

int hipMalloc(void **address, size_t size) {
    ENTER();
    return returned(allocate(address, size, current_device));
}

int hipFree(void *address) {
    ENTER();
    return returned(release(address));
}

int hipMemsetD32(void *address, int value, size_t count) {
    ENTER();
    return returned(fill(address, (uint32_t)value, count));
}

int hipMemcpyDtoH(void *to, void *from, size_t size) {
    ENTER();
    return returned(copy_to_host(to, from, size));
}

int hipPointerGetAttributes(void *attributes, const void *address) {
    ENTER();
    int block = block_of(address);
    if (block < 0) return returned(INVALID_VALUE);
    int kind = blocks[block].kind;
    struct { int type, device; const void *on_device, *on_host; int managed; unsigned flags; } told = {
        kind, blocks[block].device, address, kind == DEVICE_MEMORY ? NULL : address, kind == MANAGED_MEMORY, 0};
    memcpy(attributes, &told, sizeof told);
    return 0;
}

static const char *status_name(int status) {
    switch (status) {
        case 0: return "hipSuccess";
        case INVALID_VALUE: return "hipErrorInvalidValue";
        case OUT_OF_MEMORY: return "hipErrorOutOfMemory";
        case NOT_INITIALIZED: return "hipErrorNotInitialized";
        case 9: return "hipErrorInvalidConfiguration";
        case NO_DEVICE: return "hipErrorNoDevice";
        case INVALID_DEVICE: return "hipErrorInvalidDevice";
        case INVALID_IMAGE: return "hipErrorInvalidImage";
        case INVALID_CONTEXT: return "hipErrorInvalidContext";
        case NO_BINARY_FOR_GPU: return "hipErrorNoBinaryForGpu";
        case INVALID_HANDLE: return "hipErrorInvalidHandle";
        case NOT_FOUND: return "hipErrorNotFound";
        case LAUNCH_FAILED: return "hipErrorLaunchFailure";
        default: return "hipErrorUnknown";
    }
}

static const char *status_text(int status) { return status == LAUNCH_FAILED ? "unspecified launch failure" : "refused"; }
