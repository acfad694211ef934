/* The launch path in C: reading tensors through DLPack's exchange table, packing an argument block, calling the driver.

   Everything here has a twin in Python (frameworks.py, prepared.py) that does the same without a compiler; the
   tests run both.  Only the limited API of CPython 3.11 is used.  Nothing here knows a kernel, a family or a device.

   Sources: dlpack.h 1.1 (DLTensor, DLPackExchangeAPI); CUDA driver API (cuLaunchKernel, cuLaunchKernelEx, cuCtxGetCurrent); HIP
   (hipModuleLaunchKernel, hipGetDevice). */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    void *data;
    int32_t device_type, device_id, ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} Tensor;

typedef struct Header {
    uint32_t major, minor;
    struct Header *previous;
} Header;

typedef struct {
    Header header;
    void *allocate, *from_object, *to_object;
    int (*describe)(void *object, Tensor *out);
    int (*current_stream)(int32_t device_type, int32_t device_id, void **out);
} ExchangeTable;

enum { DLPACK_MAJOR = 1, DLPACK_FLOAT = 2, MOST_DIMENSIONS = 8, MOST_TENSORS = 32, MOST_BLOCK_BYTES = 4096, MOST_SLOTS = 256 };
/* As contract.py has it. */
enum { LARGEST_ALIGNMENT = 16 };
enum { NOT_CURRENT = -1, BAD_NUMBER = -2 };

/* The exchange table of the type seen last: a call's tensors are nearly always of one type. */
static PyTypeObject *known_type;
static ExchangeTable *known_table;

/* The table of an object's type, or NULL without an error set where it has none that is understood. */
static ExchangeTable *table_of(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    if (type == known_type)
        return known_table;
    PyObject *capsule = PyObject_GetAttrString((PyObject *)type, "__dlpack_c_exchange_api__");
    if (!capsule) {
        PyErr_Clear();
        return NULL;
    }
    ExchangeTable *table = PyCapsule_IsValid(capsule, "dlpack_exchange_api")
                               ? PyCapsule_GetPointer(capsule, "dlpack_exchange_api")
                               : NULL;
    Py_DECREF(capsule);
    while (table && table->header.major != DLPACK_MAJOR)
        table = (ExchangeTable *)table->header.previous;
    if (!table || !table->describe || !table->current_stream)
        return NULL;
    Py_INCREF((PyObject *)type);
    Py_XDECREF((PyObject *)known_type);
    known_type = type;
    known_table = table;
    return table;
}

static int64_t bit_length(int64_t value)
{
    int64_t length = 0;
    for (; value > 0; value >>= 1)
        length++;
    return length;
}

/* Appends what decides a call's preparation: type, device, shape, strides, address modulo 16, and whether there is one. */
static int64_t *describe(int64_t *at, const Tensor *tensor, int loose)
{
    uint64_t address = (uint64_t)(uintptr_t)tensor->data + tensor->byte_offset;
    *at++ = (int64_t)tensor->code | (int64_t)tensor->bits << 8 | (int64_t)tensor->lanes << 16 |
            (int64_t)tensor->ndim << 32;
    *at++ = (int64_t)tensor->device_type << 32 | (uint32_t)tensor->device_id;
    for (int axis = 0; axis < tensor->ndim; axis++) {
        int64_t size = tensor->shape[axis];
        /* One element or none has no stride that matters, so those lengths count always. */
        *at++ = loose == 0 || size <= 1 ? size : loose == 1 ? 2 : bit_length(size);
        *at++ = tensor->strides ? tensor->strides[axis] : INT64_MIN;
    }
    *at++ = address ? (int64_t)(address & (LARGEST_ALIGNMENT - 1)) : -1;
    return at;
}

/* Bytes from the lowest element to behind the highest; 0 where there is no element.  Strides of what is launched are not
   negative, so the first element is the lowest. */
static uint64_t extent_of(const Tensor *tensor)
{
    uint64_t steps = 0, dense = 1, item = ((uint64_t)tensor->bits * tensor->lanes + 7) / 8;
    for (int axis = tensor->ndim - 1; axis >= 0; axis--) {
        int64_t size = tensor->shape[axis];
        if (size <= 0)
            return 0;
        steps += (uint64_t)(size - 1) * (tensor->strides ? (uint64_t)tensor->strides[axis] : dense);
        dense *= (uint64_t)size;
    }
    return (steps + 1) * item;
}

/* Whether memory that is written (bits of `written`) may be another tensor's too; as overlaps.py has it. */
static int may_overlap(const uint64_t *addresses, const uint64_t *extents, Py_ssize_t count, unsigned written)
{
    for (Py_ssize_t one = 0; one < count; one++) {
        if (!(written >> one & 1) || !extents[one])
            continue;
        uint64_t start = addresses[one], end = start + extents[one];
        for (Py_ssize_t other = 0; other < count; other++)
            if (other != one && extents[other] && addresses[other] < end && start < addresses[other] + extents[other])
                return 1;
    }
    return 0;
}

/* Whether memory holds the negative of what the tensor says: a view of a conjugate's imaginary part.  DLPack does not
   tell, and no other element type can be one. */
static int is_negated(PyObject *object, const Tensor *tensor)
{
    if (tensor->code != DLPACK_FLOAT)
        return 0;
    PyObject *answer = PyObject_CallMethod(object, "is_neg", NULL);
    if (!answer) {
        PyErr_Clear();
        return 0;
    }
    int negated = PyObject_IsTrue(answer);
    Py_DECREF(answer);
    return negated;
}

/* read(tensors, loose_index, loose, written) -> (key, addresses) | None
   key: bytes that are equal for calls that are prepared alike.  addresses: 8 bytes a tensor, 0 for None.
   The lengths of tensor `loose_index` count as they are (0), as none, one or more (1), or by their number of bits (2).
   written: a bit for each tensor that the kernels write, the lowest for the first.
   None: some tensor cannot be read this way, or one that is written may overlap another. */
static PyObject *fast_read(PyObject *module, PyObject *arguments)
{
    PyObject *tensors;
    int loose_index, loose;
    unsigned written;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "O!iiI", &PyTuple_Type, &tensors, &loose_index, &loose, &written))
        return NULL;
    Py_ssize_t count = PyTuple_Size(tensors);
    if (count > MOST_TENSORS)
        Py_RETURN_NONE;
    int64_t key[MOST_TENSORS * (3 + 2 * MOST_DIMENSIONS)], *at = key;
    uint64_t addresses[MOST_TENSORS], extents[MOST_TENSORS];
    for (Py_ssize_t index = 0; index < count; index++) {
        PyObject *object = PyTuple_GetItem(tensors, index);
        if (object == Py_None) {
            *at++ = -1;
            addresses[index] = extents[index] = 0;
            continue;
        }
        ExchangeTable *table = table_of(object);
        if (!table)
            Py_RETURN_NONE;
        Tensor tensor;
        if (table->describe(object, &tensor)) {
            PyErr_Clear();
            Py_RETURN_NONE;
        }
        if (tensor.ndim > MOST_DIMENSIONS || is_negated(object, &tensor))
            Py_RETURN_NONE;
        at = describe(at, &tensor, index == loose_index ? loose : 0);
        addresses[index] = (uint64_t)(uintptr_t)tensor.data + tensor.byte_offset;
        extents[index] = extent_of(&tensor);
    }
    if (may_overlap(addresses, extents, count, written))
        Py_RETURN_NONE;
    return Py_BuildValue("(y#y#)", (char *)key, (Py_ssize_t)((char *)at - (char *)key), (char *)addresses,
                         (Py_ssize_t)(count * sizeof *addresses));
}

/* current_stream(tensor) -> handle | None: the stream that the tensor's framework works on now. */
static PyObject *fast_current_stream(PyObject *module, PyObject *object)
{
    (void)module;
    ExchangeTable *table = table_of(object);
    Tensor tensor;
    void *stream = NULL;
    if (!table)
        Py_RETURN_NONE;
    if (table->describe(object, &tensor) || table->current_stream(tensor.device_type, tensor.device_id, &stream)) {
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    return PyLong_FromUnsignedLongLong((uint64_t)(uintptr_t)stream);
}

/* What `launch` needs, as recipes.py packs it; then (block offset, address index or -1, addend) a pointer,
   (block offset, kind) a number, and the block's template. */
typedef struct {
    int64_t kind, launch, get_current, current, function, grid_x, grid_y, grid_z, threads, lds_bytes, block_bytes,
        pointers, scalars;
} Recipe;

enum { CUDA = 1, HIP = 2, CUDA_DEPENDENT = 3 };
enum { F32 = 0, I32 = 1, I64 = 2 };

typedef int (*Launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                      void **);

/* CUlaunchAttribute and CUlaunchConfig of cuda.h; the attribute is CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION. */
enum { STREAM_SERIALIZATION = 6 };
typedef struct {
    uint32_t id, padding;
    int32_t value;
    char rest[60];
} Attribute;
typedef struct {
    unsigned grid[3], threads[3], shared_bytes;
    void *stream;
    Attribute *attributes;
    unsigned attribute_count;
} Configuration;
typedef int (*LaunchConfigured)(const Configuration *, void *, void **, void **);

static int start(const Recipe *recipe, void *stream, void **extra)
{
    void *function = (void *)(uintptr_t)recipe->function;
    unsigned x = (unsigned)recipe->grid_x, y = (unsigned)recipe->grid_y, z = (unsigned)recipe->grid_z;
    unsigned threads = (unsigned)recipe->threads, shared = (unsigned)recipe->lds_bytes;
    if (recipe->kind != CUDA_DEPENDENT)
        return ((Launch)(uintptr_t)recipe->launch)(function, x, y, z, threads, 1, 1, shared, stream, NULL, extra);
    Attribute attribute = {STREAM_SERIALIZATION, 0, 1, {0}};
    Configuration configuration = {{x, y, z}, {threads, 1, 1}, shared, stream, &attribute, 1};
    return ((LaunchConfigured)(uintptr_t)recipe->launch)(&configuration, function, NULL, extra);
}

static int is_current(const Recipe *recipe)
{
    if (recipe->kind != HIP) {
        void *context = NULL;
        return ((int (*)(void **))(uintptr_t)recipe->get_current)(&context) == 0 &&
               (int64_t)(uintptr_t)context == recipe->current;
    }
    int device = -1;
    return ((int (*)(int *))(uintptr_t)recipe->get_current)(&device) == 0 && device == recipe->current;
}

/* One number into the block; 0 if it cannot be held. */
static int put_number(char *at, int64_t kind, PyObject *number)
{
    if (PyBool_Check(number) || !(PyLong_Check(number) || (kind == F32 && PyFloat_Check(number))))
        return 0;
    if (kind == F32) {
        double value = PyFloat_AsDouble(number);
        float narrow = (float)value;
        if (PyErr_Occurred() || !isfinite(value) || !isfinite(narrow))
            return 0;
        memcpy(at, &narrow, sizeof narrow);
        return 1;
    }
    long long value = PyLong_AsLongLong(number);
    if (PyErr_Occurred())
        return 0;
    if (kind == I64) {
        int64_t wide = value;
        memcpy(at, &wide, sizeof wide);
        return 1;
    }
    int32_t narrow = (int32_t)value;
    if (narrow != value)
        return 0;
    memcpy(at, &narrow, sizeof narrow);
    return 1;
}

/* launch(recipe, addresses, scalars, stream) -> status
   The driver's own status; NOT_CURRENT where another context or device is current, BAD_NUMBER for a number that does
   not fit: nothing was launched then. */
static PyObject *fast_launch(PyObject *module, PyObject *arguments)
{
    const char *recipe_bytes, *address_bytes;
    Py_ssize_t recipe_size, address_size;
    PyObject *scalars;
    unsigned long long stream;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "y#y#O!K", &recipe_bytes, &recipe_size, &address_bytes, &address_size,
                          &PyTuple_Type, &scalars, &stream))
        return NULL;
    Recipe recipe;
    if (recipe_size < (Py_ssize_t)sizeof recipe) {
        PyErr_SetString(PyExc_ValueError, "a recipe that is too short");
        return NULL;
    }
    memcpy(&recipe, recipe_bytes, sizeof recipe);
    const char *at = recipe_bytes + sizeof recipe;
    if (recipe.pointers < 0 || recipe.pointers > MOST_SLOTS || recipe.scalars < 0 || recipe.scalars > MOST_SLOTS ||
        recipe.block_bytes < 0 || recipe.block_bytes > MOST_BLOCK_BYTES) {
        PyErr_SetString(PyExc_ValueError, "a recipe with impossible sizes");
        return NULL;
    }
    int64_t wanted = (int64_t)sizeof recipe + 24 * recipe.pointers + 16 * recipe.scalars + recipe.block_bytes;
    if (wanted != recipe_size || PyTuple_Size(scalars) != recipe.scalars) {
        PyErr_SetString(PyExc_ValueError, "a recipe that contradicts itself, or another number of scalars");
        return NULL;
    }
    char block[MOST_BLOCK_BYTES];
    memcpy(block, at + 24 * recipe.pointers + 16 * recipe.scalars, recipe.block_bytes);
    for (int64_t index = 0; index < recipe.pointers; index++, at += 24) {
        int64_t slot[3];
        uint64_t address = 0;
        memcpy(slot, at, sizeof slot);
        if (slot[0] < 0 || slot[0] > recipe.block_bytes - 8 || slot[1] >= address_size / 8) {
            PyErr_SetString(PyExc_ValueError, "a pointer outside the block or the addresses");
            return NULL;
        }
        if (slot[1] >= 0)
            memcpy(&address, address_bytes + 8 * slot[1], 8);
        address += (uint64_t)slot[2];
        memcpy(block + slot[0], &address, 8);
    }
    for (int64_t index = 0; index < recipe.scalars; index++, at += 16) {
        int64_t slot[2];
        memcpy(slot, at, sizeof slot);
        if (slot[0] < 0 || slot[0] > recipe.block_bytes - (slot[1] == I64 ? 8 : 4)) {
            PyErr_SetString(PyExc_ValueError, "a number outside the block");
            return NULL;
        }
        if (!put_number(block + slot[0], slot[1], PyTuple_GetItem(scalars, index))) {
            PyErr_Clear();
            return PyLong_FromLong(BAD_NUMBER);
        }
    }
    if (!is_current(&recipe))
        return PyLong_FromLong(NOT_CURRENT);
    size_t size = (size_t)recipe.block_bytes;
    /* The markers of the two drivers differ in the last one alone. */
    void *extra[] = {(void *)1, block, (void *)2, &size, (void *)(uintptr_t)(recipe.kind == HIP ? 3 : 0)};
    int status;
    Py_BEGIN_ALLOW_THREADS
    status = start(&recipe, (void *)(uintptr_t)stream, extra);
    Py_END_ALLOW_THREADS
    return PyLong_FromLong(status);
}

static PyMethodDef methods[] = {
    {"read", fast_read, METH_VARARGS, "read(tensors, loose_index, loose, written) -> (key, addresses) or None"},
    {"current_stream", fast_current_stream, METH_O, "current_stream(tensor) -> handle or None"},
    {"launch", fast_launch, METH_VARARGS, "launch(recipe, addresses, scalars, stream) -> status"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_fast", "The launch path in C; see _fast.c.", -1, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__fast(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (module) {
        PyModule_AddIntConstant(module, "NOT_CURRENT", NOT_CURRENT);
        PyModule_AddIntConstant(module, "BAD_NUMBER", BAD_NUMBER);
    }
    return module;
}
