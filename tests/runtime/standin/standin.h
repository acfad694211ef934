/* What the stand-ins of both vendors' drivers share: devices, code objects that a test has registered, modules,
   streams, memory, a log of calls, and failures on request.

   A stand-in checks what a real driver checks, so that a driver which passes wrong handles, wrong sizes or a wrong
   current device is told so. Device memory is host memory. The test's side of it is the functions named standin_*. */

#ifndef STANDIN_H
#define STANDIN_H

#define _GNU_SOURCE
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { DEVICES = 8, OBJECTS = 64, MODULES = 8192, STREAMS = 64, BLOCKS = 4096, LAUNCHES = 8192, CALLS = 1 << 18 };
enum { FAILURES = 16, ARGUMENTS = 64, BLOCK_BYTES = 1024 };

/* Status numbers that CUresult and hipError_t have in common. */
enum {
    INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101,
    INVALID_IMAGE = 200, INVALID_CONTEXT = 201, NO_BINARY_FOR_GPU = 209, INVALID_HANDLE = 400, NOT_FOUND = 500,
    LAUNCH_FAILED = 719
};

/* What a block of memory is, as both vendors number it; managed as HIP does. */
enum { HOST_MEMORY = 1, DEVICE_MEMORY = 2, MANAGED_MEMORY = 3 };

typedef struct {
    char arch[64];
    int shared_limit, processors;
} Device;

/* A code object that a test has announced: what is in it cannot be read from the made-up bytes. */
typedef struct {
    unsigned char *bytes;
    size_t size;
    char arch[64], symbol[128];
    int threads, static_shared, arguments;
    size_t offsets[ARGUMENTS], sizes[ARGUMENTS];
} Object;

typedef struct {
    const Object *object;
    const void *image;
    int device, live, dynamic_allowed;
} Module;

typedef struct {
    uint32_t grid[3], threads[3], shared, size;
    uint64_t stream;
    int32_t device;
    char symbol[128];
    unsigned char block[BLOCK_BYTES];
} LaunchRecord;

typedef int (*LaunchCallback)(int object, const LaunchRecord *launch);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Device devices[DEVICES];
static int device_count, started;
static pid_t owner;
static Object objects[OBJECTS];
static int object_count;
static Module modules[MODULES];
static int module_count;
static struct { uint64_t handle; int device; } streams[STREAMS];
static int stream_count;
static struct { unsigned char *start; size_t size; int device, live, kind; } blocks[BLOCKS];
static int block_count;
static struct { char name[64]; int countdown, status; } failures[FAILURES];
static int failure_count;
static const char *calls[CALLS];
static int call_count;
static LaunchRecord launches[LAUNCHES];
static int launch_count, pending_fills, early_readers, forked_calls;
static LaunchCallback on_launch;

/* ---- the test's side ---- */

void standin_reset(void) {
    pthread_mutex_lock(&lock);
    for (int i = 0; i < object_count; i++) free(objects[i].bytes);
    for (int i = 0; i < block_count; i++)
        if (blocks[i].live) free(blocks[i].start);
    memset(modules, 0, sizeof modules);
    memset(objects, 0, sizeof objects);
    device_count = started = object_count = module_count = stream_count = block_count = 0;
    failure_count = call_count = launch_count = pending_fills = early_readers = 0;
    on_launch = NULL;
    owner = 0;
    pthread_mutex_unlock(&lock);
}

void standin_device(const char *arch, int shared_limit, int processors) {
    Device *device = &devices[device_count++];
    snprintf(device->arch, sizeof device->arch, "%s", arch);
    device->shared_limit = shared_limit;
    device->processors = processors;
}

int standin_object(const void *bytes, size_t size, const char *arch, const char *symbol, int threads, int static_shared,
                   int count, const size_t *offsets, const size_t *sizes) {
    Object *object = &objects[object_count];
    object->bytes = memcpy(malloc(size), bytes, size);
    object->size = size;
    snprintf(object->arch, sizeof object->arch, "%s", arch);
    snprintf(object->symbol, sizeof object->symbol, "%s", symbol);
    object->threads = threads;
    object->static_shared = static_shared;
    object->arguments = count;
    memcpy(object->offsets, offsets, count * sizeof *offsets);
    memcpy(object->sizes, sizes, count * sizeof *sizes);
    return object_count++;
}

uint64_t standin_stream(int device) {
    streams[stream_count].handle = (uint64_t)(uintptr_t)&streams[stream_count];
    streams[stream_count].device = device;
    return streams[stream_count++].handle;
}

/* The nth call of that function from now on fails with the status and does nothing; a negative nth: every call. */
void standin_fail(const char *function, int nth, int status) {
    snprintf(failures[failure_count].name, sizeof failures[0].name, "%s", function);
    failures[failure_count].countdown = nth;
    failures[failure_count++].status = status;
}

void standin_on_launch(LaunchCallback callback) { on_launch = callback; }
int standin_calls(void) { return call_count; }
const char *standin_call(int index) { return calls[index]; }
int standin_launches(void) { return launch_count; }
const LaunchRecord *standin_launch(int index) { return &launches[index % LAUNCHES]; }
int standin_early_readers(void) { return early_readers; }
int standin_forked_calls(void) { return forked_calls; }
int standin_live_modules(void) {
    int live = 0;
    for (int i = 0; i < module_count; i++) live += modules[i].live;
    return live;
}
int standin_live_blocks(void) {
    int live = 0;
    for (int i = 0; i < block_count; i++) live += blocks[i].live;
    return live;
}
void standin_set_kind(const void *address, int kind) {
    for (int i = 0; i < block_count; i++)
        if (blocks[i].start == address) blocks[i].kind = kind;
}
int standin_block(int index, uint64_t *start, size_t *size) {
    *start = (uint64_t)(uintptr_t)blocks[index].start;
    *size = blocks[index].size;
    return index < block_count && blocks[index].live;
}

/* ---- the vendors' side ---- */

/* Log the call; the status that it fails with before it does anything. */
static int enter(const char *function) {
    if (owner && owner != getpid()) {
        forked_calls++;
        return NOT_INITIALIZED;
    }
    pthread_mutex_lock(&lock);
    if (call_count < CALLS) calls[call_count++] = function;
    int status = 0;
    for (int i = 0; i < failure_count; i++) {
        if (strcmp(failures[i].name, function) || failures[i].countdown == 0) continue;
        if (failures[i].countdown < 0 || --failures[i].countdown == 0) status = failures[i].status;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

static int start(void) {
    if (device_count == 0) return NO_DEVICE;
    owner = getpid();
    started = 1;
    return 0;
}

/* Bytes of an ELF file: its section headers stand at its end. */
static size_t image_size(const unsigned char *image) {
    uint64_t offset;
    uint16_t entry, entries;
    if (memcmp(image, "\177ELF", 4)) return 0;
    memcpy(&offset, image + 40, 8);
    memcpy(&entry, image + 58, 2);
    memcpy(&entries, image + 60, 2);
    return offset + (size_t)entry * entries;
}

static int load(void **module, const void *image, int device) {
    size_t size = image_size(image);
    for (int i = 0; i < object_count; i++) {
        if (objects[i].size != size || memcmp(objects[i].bytes, image, size)) continue;
        if (strncmp(objects[i].arch, devices[device].arch, strlen(objects[i].arch))) return NO_BINARY_FOR_GPU;
        pthread_mutex_lock(&lock);
        Module *made = &modules[module_count++];
        *made = (Module){&objects[i], image, device, 1, 0};
        pthread_mutex_unlock(&lock);
        *module = made;
        return 0;
    }
    return INVALID_IMAGE;
}

/* A handle of a module, or of its one function: NULL where it is none or was unloaded. */
static Module *live_module(const void *handle) {
    const Module *module = handle;
    ptrdiff_t index = module - modules;
    if (module < modules || index >= module_count || &modules[index] != module || !module->live) return NULL;
    return &modules[index];
}

static int attribute_of(int *value, int attribute, const void *function) {
    Module *module = live_module(function);
    if (!module) return INVALID_HANDLE;
    if (attribute == 0) *value = module->object->threads;
    else if (attribute == 1) *value = module->object->static_shared;
    else return INVALID_VALUE;
    return 0;
}

/* The device of a stream: that of the three default streams is the current one; -1 where there is no such stream. */
static int stream_device(uint64_t stream, int current) {
    if (stream <= 2) return current;
    for (int i = 0; i < stream_count; i++)
        if (streams[i].handle == stream) return streams[i].device;
    return -1;
}

/* A launch whose handles and memory have been checked: the argument block, then the record, then the test's hook. */
static int launch(Module *module, const uint32_t *grid, const uint32_t *threads, uint32_t shared, uint64_t stream,
                  void **extra, uintptr_t end) {
    const Object *object = module->object;
    for (int axis = 0; axis < 3; axis++)
        if (!grid[axis] || !threads[axis] || (axis && grid[axis] > 65535)) return INVALID_VALUE;
    if (grid[0] > INT32_MAX) return INVALID_VALUE;
    if (threads[0] * threads[1] * threads[2] > (uint32_t)object->threads) return INVALID_VALUE;
    if (!extra || (uintptr_t)extra[0] != 1 || (uintptr_t)extra[2] != 2 || (uintptr_t)extra[4] != end)
        return INVALID_VALUE;
    size_t size = *(size_t *)extra[3], wanted = 0;
    if (object->arguments) wanted = object->offsets[object->arguments - 1] + object->sizes[object->arguments - 1];
    if (size != wanted || size > BLOCK_BYTES) return INVALID_VALUE;
    pthread_mutex_lock(&lock);
    /* The first ones are forgotten when there are too many. */
    LaunchRecord *record = &launches[launch_count++ % LAUNCHES];
    memset(record, 0, sizeof *record);
    memcpy(record->grid, grid, sizeof record->grid);
    memcpy(record->threads, threads, sizeof record->threads);
    record->shared = shared;
    record->size = (uint32_t)size;
    record->stream = stream;
    record->device = module->device;
    memcpy(record->symbol, object->symbol, sizeof record->symbol);
    memcpy(record->block, extra[1], size);
    if (pending_fills && stream > 1) early_readers++;
    LaunchRecord copy = *record;
    pthread_mutex_unlock(&lock);
    return on_launch ? on_launch((int)(object - objects), &copy) : 0;
}

static int unload(const void *handle) {
    Module *module = live_module(handle);
    if (!module) return INVALID_HANDLE;
    module->live = 0;
    return 0;
}

static int allocate(void **address, size_t size, int device) {
    if (size == 0) return INVALID_VALUE;
    pthread_mutex_lock(&lock);
    blocks[block_count].start = malloc(size);
    /* What was in device memory before is anything but zero. */
    memset(blocks[block_count].start, 0xA5, size);
    blocks[block_count].size = size;
    blocks[block_count].device = device;
    blocks[block_count].live = 1;
    blocks[block_count].kind = DEVICE_MEMORY;
    *address = blocks[block_count++].start;
    pthread_mutex_unlock(&lock);
    return 0;
}

static int holds(const void *address, size_t size) {
    const unsigned char *from = address;
    for (int i = 0; i < block_count; i++)
        if (blocks[i].live && from >= blocks[i].start && from + size <= blocks[i].start + blocks[i].size) return 1;
    return 0;
}

/* The block that holds an address, -1 for memory that the driver does not know. */
static int block_of(const void *address) {
    const unsigned char *at = address;
    for (int i = 0; i < block_count; i++)
        if (blocks[i].live && at >= blocks[i].start && at < blocks[i].start + blocks[i].size) return i;
    return -1;
}

static int release(void *address) {
    for (int i = 0; i < block_count; i++) {
        if (!blocks[i].live || blocks[i].start != address) continue;
        blocks[i].live = 0;
        free(address);
        return 0;
    }
    return INVALID_VALUE;
}

/* Queued on the default stream: nobody else may rely on it before that has been waited for. */
static int fill(void *address, uint32_t value, size_t count) {
    if (!holds(address, 4 * count)) return INVALID_VALUE;
    for (size_t i = 0; i < count; i++) memcpy((char *)address + 4 * i, &value, 4);
    pending_fills = 1;
    return 0;
}

static int wait(void) {
    pending_fills = 0;
    return 0;
}

static int copy_to_host(void *to, const void *from, size_t size) {
    if (!holds(from, size)) return INVALID_VALUE;
    memcpy(to, from, size);
    return 0;
}

static const char *status_name(int status);
static const char *status_text(int status);

#endif
