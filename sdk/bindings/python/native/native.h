/* The optional extension module _native: what the packages inlay and onnxruntime do for every run, without
 * ctypes. It exports to them:
 *
 *     INTERFACE                                            NATIVE_INTERFACE
 *     configure(numpy.ndarray, dtypes, Value, error_of)    before anything else; see array.c and runner.c
 *     set_main_thread(ident)                               the thread on which Python handles signals
 *     Runner(context, inputs, outputs, interruptible)      runs of an inlay_context; see runner.c
 *     OrtRunner(entries, session, memory, inputs, throw)   runs of an OrtSession; see ort_runner.c
 *
 * Arrays of numbers are handled here. For everything else (text, lists, maps, tensors of other libraries, arrays that
 * are not contiguous) the functions of this module call back into the package, so that it behaves the same without this
 * module. The module uses the stable ABI of Python 3.11: one file serves every later version. */
#ifndef INLAY_PYTHON_NATIVE_H
#define INLAY_PYTHON_NATIVE_H
#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include "inlay/inlay.h"

_Static_assert(sizeof(Py_ssize_t) == sizeof(int64_t), "shapes of buffers are used as dims");

/* The version of the interface to the package, which does not use a module of another version: the two may come from
 * different installations. */
enum { NATIVE_INTERFACE = 1 };

/* array.c: numpy's arrays */

/* Keeps the objects for this module: the type ndarray, and numpy's type for each number of an element type, or None.
 * Returns 0, or -1 with an exception. */
int arrays_configure(PyObject *array_type, PyObject *types);
/* Gets the memory of an array of numbers that a value can share. The caller releases *out_view with PyBuffer_Release().
 * False: object is something else, or its elements are not contiguous, aligned and in native byte order; no exception
 * is set. */
bool array_view(PyObject *object, Py_buffer *out_view, inlay_dtype *out_dtype);
/* Memory that an array shares: release(owner) is called when the last array is freed. */
typedef struct shared_memory {
    void *data;
    uint64_t bytes;
    void *owner;
    void (*release)(void *owner);
    PyObject *keep; /* an object that must live as long, or NULL */
} shared_memory;
/* True if numpy has the element type. */
bool array_has_type(inlay_dtype dtype);
/* Returns an array over the memory, a new reference; NULL with an exception. Takes ownership of shared->owner, also on
 * failure. */
PyObject *array_over(const shared_memory *shared, inlay_dtype dtype, size_t rank, const int64_t *dims);
/* Adds the types of array.c to the module. Returns 0, or -1 with an exception. */
int arrays_add_types(PyObject *module);

/* Inputs of a run: the values, and what keeps their memory. */
typedef struct fed_input {
    void *value; /* an inlay_value or an OrtValue */
    PyObject *owner;
    const char *start; /* the memory of a tensor, and its size; NULL: a list or text */
    uint64_t bytes;
    Py_buffer view;
    bool viewed; /* view is to be released */
    uint32_t index;
} fed_input;
/* Returns the input whose memory contains data, or NULL. */
const fed_input *fed_with(const fed_input *inputs, size_t count, const void *data);
/* Returns a list of the owners, a new reference; NULL with an exception. */
PyObject *fed_owners(const fed_input *inputs, size_t count);
/* Releases the views and owners. It does not release the values; release these first, because they use the views. */
void fed_release(fed_input *inputs, size_t count);

/* runner.c */
int runner_configure(PyObject *type, PyObject *function);
/* Tells on which thread Python handles signals. */
void runner_set_main_thread(unsigned long thread);
int runner_add_type(PyObject *module);

/* ort_runner.c */
int ort_runner_add_type(PyObject *module);
#endif
