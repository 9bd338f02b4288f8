/* Arrays of numpy as inputs, by the buffer protocol, and as results over memory of the runtime. */
#include "native.h"
#include <string.h>

typedef struct memory_object {
    PyObject base;
    shared_memory shared;
} memory_object;

static PyObject *array_type, *dtypes; /* dtypes: a tuple by number of the element type */
static PyTypeObject *memory_type;

int arrays_configure(PyObject *type, PyObject *types)
{
    if (!PyType_Check(type) || !PyTuple_Check(types)) {
        PyErr_SetString(PyExc_TypeError, "expected a type and a tuple");
        return -1;
    }
    Py_INCREF(type);
    Py_INCREF(types);
    array_type = type;
    dtypes = types;
    return 0;
}

/* The element type of a format of the buffer protocol. Formats of types that numpy spells with a byte order other than
 * the native one, or that ONNX does not have, are UNDEFINED. */
static inlay_dtype dtype_of_format(const char *format, Py_ssize_t item_bytes)
{
    static const struct {
        char format[3];
        inlay_dtype dtype;
        uint8_t bytes;
    } known[] = {
        { "f", INLAY_FLOAT, 4 },        { "d", INLAY_DOUBLE, 8 }, { "l", INLAY_INT64, 8 },
        { "q", INLAY_INT64, 8 },        { "i", INLAY_INT32, 4 },  { "B", INLAY_UINT8, 1 },
        { "b", INLAY_INT8, 1 },         { "?", INLAY_BOOL, 1 },   { "e", INLAY_FLOAT16, 2 },
        { "h", INLAY_INT16, 2 },        { "H", INLAY_UINT16, 2 }, { "I", INLAY_UINT32, 4 },
        { "L", INLAY_UINT64, 8 },       { "Q", INLAY_UINT64, 8 }, { "Zf", INLAY_COMPLEX64, 8 },
        { "Zd", INLAY_COMPLEX128, 16 },
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(known[i].format, format) == 0)
            return known[i].bytes == item_bytes ? known[i].dtype : INLAY_UNDEFINED;
    return INLAY_UNDEFINED;
}

bool array_view(PyObject *object, Py_buffer *out_view, inlay_dtype *out_dtype)
{
    Py_ssize_t alignment;

    if (!PyObject_TypeCheck(object, (PyTypeObject *)array_type))
        return false;
    if (PyObject_GetBuffer(object, out_view, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) != 0) {
        PyErr_Clear(); /* the package copies the array, or raises the error that names the input */
        return false;
    }
    *out_dtype = dtype_of_format(out_view->format, out_view->itemsize);
    alignment = out_view->itemsize < 8 ? out_view->itemsize : 8;
    if (*out_dtype == INLAY_UNDEFINED || out_view->ndim > (int)INLAY_MAX_RANK ||
        (uintptr_t)out_view->buf % (uintptr_t)alignment != 0) {
        PyBuffer_Release(out_view);
        return false;
    }
    return true;
}

bool array_has_type(inlay_dtype dtype)
{
    return dtype > 0 && dtype < PyTuple_Size(dtypes) && PyTuple_GetItem(dtypes, dtype) != Py_None;
}

PyObject *array_over(const shared_memory *shared, inlay_dtype dtype, size_t rank, const int64_t *dims)
{
    memory_object *memory = PyObject_New(memory_object, memory_type);
    PyObject *shape = NULL, *array = NULL;

    if (memory == NULL) {
        shared->release(shared->owner);
        return NULL;
    }
    memory->shared = *shared;
    Py_XINCREF(shared->keep);
    shape = PyTuple_New((Py_ssize_t)rank);
    for (size_t i = 0; shape != NULL && i < rank; i++) {
        PyObject *size = PyLong_FromLongLong(dims[i]);

        if (size == NULL || PyTuple_SetItem(shape, (Py_ssize_t)i, size) != 0)
            Py_CLEAR(shape);
    }
    if (shape != NULL)
        array =
            PyObject_CallFunctionObjArgs(array_type, shape, PyTuple_GetItem(dtypes, dtype), (PyObject *)memory, NULL);
    Py_XDECREF(shape);
    Py_DECREF(memory);
    return array;
}

static int memory_get_buffer(PyObject *object, Py_buffer *view, int flags)
{
    memory_object *self = (memory_object *)object;

    return PyBuffer_FillInfo(view, object, self->shared.data, (Py_ssize_t)self->shared.bytes, 0, flags);
}

static void memory_free(PyObject *object)
{
    memory_object *self = (memory_object *)object;
    PyTypeObject *type = Py_TYPE(object);

    self->shared.release(self->shared.owner);
    Py_XDECREF(self->shared.keep);
    PyObject_Free(object);
    Py_DECREF(type);
}

int arrays_add_types(PyObject *module)
{
    static PyType_Slot slots[] = {
        { Py_tp_dealloc, (void *)memory_free },
        { Py_bf_getbuffer, (void *)memory_get_buffer },
        { Py_tp_doc, (void *)"Memory of the runtime, which arrays share." },
        { 0, NULL },
    };
    static PyType_Spec spec = { "inlay._native.Memory", sizeof(memory_object), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots };

    memory_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
    return memory_type == NULL ? -1 : PyModule_AddType(module, memory_type);
}

const fed_input *fed_with(const fed_input *inputs, size_t count, const void *data)
{
    for (size_t i = 0; i < count; i++)
        if (inputs[i].start != NULL && (const char *)data >= inputs[i].start &&
            (const char *)data < inputs[i].start + (inputs[i].bytes > 0 ? inputs[i].bytes : 1))
            return &inputs[i];
    return NULL;
}

PyObject *fed_owners(const fed_input *inputs, size_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);

    for (size_t i = 0; list != NULL && i < count; i++) {
        Py_INCREF(inputs[i].owner);
        PyList_SetItem(list, (Py_ssize_t)i, inputs[i].owner);
    }
    return list;
}

void fed_release(fed_input *inputs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (inputs[i].viewed)
            PyBuffer_Release(&inputs[i].view);
        Py_XDECREF(inputs[i].owner);
    }
}
