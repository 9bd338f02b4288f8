/* Runs of an OrtSession, for the package onnxruntime.
 *
 *     runner = OrtRunner(entries, session, memory, inputs, throw)
 *         entries   dict: name of an entry of the table OrtApi -> address
 *         session   address of the OrtSession, which must outlive the runner
 *         memory    address of the OrtMemoryInfo of host memory
 *         inputs    dict: name of an input that takes arrays of numbers -> anything
 *         throw     function that raises the error of an OrtStatus, given its address
 *     runner.run(owner, output_names, feed, options)
 *         owner     the package's session. owner._take(name, data) returns an OrtValue, or None for an input that is
 *                   left out; owner._give(handle, owners) returns the object for an output that is not a tensor of
 *                   numbers
 *         feed      dict, which only this function has
 *         options   address of OrtRunOptions, or 0
 *     runner.run_binding(binding, options)
 *         binding   address of an OrtIoBinding
 *
 * The element types of OrtApi have ONNX's numbers, as those of inlay do. */
#include "native.h"
#include <stdlib.h>
#include <string.h>

typedef void *ort_status; /* NULL: success */

typedef struct ort_runner_object {
    PyObject base;
    void *session, *cpu_memory;
    PyObject *inputs, *throw;
    ort_status (*create_tensor)(const void *memory, void *data, size_t bytes, const int64_t *dims, size_t rank,
                                int dtype, void **out_value);
    ort_status (*run)(void *session, const void *options, const char *const *names, const void *const *values,
                      size_t count, const char *const *output_names, size_t output_count, void **outputs);
    ort_status (*run_binding)(void *session, const void *options, const void *binding);
    ort_status (*value_type)(const void *value, int *out_type);
    ort_status (*describe)(const void *value, int *out_dtype, const int64_t **out_dims, size_t *out_rank);
    ort_status (*value_bytes)(const void *value, size_t *out_bytes);
    ort_status (*value_data)(void *value, void **out_data);
    void (*release_value)(void *value);
} ort_runner_object;

/* Raises the error of a status. Returns 0 if there is none, otherwise -1. */
static int check_status(ort_runner_object *self, ort_status status)
{
    PyObject *result;

    if (status == NULL)
        return 0;
    result = PyObject_CallFunction(self->throw, "N", PyLong_FromVoidPtr(status));
    if (result != NULL)
        PyErr_SetString(PyExc_SystemError, "the error of a status was not raised");
    Py_XDECREF(result);
    return -1;
}

/* The OrtValue of an object of the package; NULL with an exception. */
static void *handle_of(PyObject *object)
{
    PyObject *handle = PyObject_GetAttrString(object, "handle");
    void *value = handle == NULL ? NULL : PyLong_AsVoidPtr(handle);

    Py_XDECREF(handle);
    if (value == NULL && !PyErr_Occurred())
        PyErr_SetString(PyExc_TypeError, "expected an OrtValue");
    return value;
}

/* Fills *input from an OrtValue of the package, and finds its memory, which an output may be, too. Returns 0, or -1
 * with an exception. */
static int feed_value(ort_runner_object *self, fed_input *input, PyObject *object)
{
    enum { TENSOR = 1 };
    void *value = handle_of(object), *data = NULL;
    const int64_t *dims;
    size_t rank, bytes = 0;
    int kind = 0, dtype = 0;

    if (value == NULL || check_status(self, self->value_type(value, &kind)) != 0 ||
        (kind == TENSOR && check_status(self, self->describe(value, &dtype, &dims, &rank)) != 0))
        return -1;
    if (kind == TENSOR && array_has_type(dtype) &&
        (check_status(self, self->value_bytes(value, &bytes)) != 0 ||
         check_status(self, self->value_data(value, &data)) != 0))
        return -1;
    input->value = value;
    input->start = data;
    input->bytes = bytes;
    Py_INCREF(object);
    input->owner = object;
    return 0;
}

/* Fills *input from data. Returns 1; 0 if the input is left out; -1 with an exception. */
static int feed(ort_runner_object *self, fed_input *input, PyObject *owner, PyObject *name, PyObject *data)
{
    PyObject *plain = PyDict_GetItemWithError(self->inputs, name), *value;
    inlay_dtype dtype;
    int result;

    if (plain == NULL && PyErr_Occurred())
        return -1;
    if (plain == NULL || !array_view(data, &input->view, &dtype)) {
        value = PyObject_CallMethod(owner, "_take", "OO", name, data);
        result = value == NULL ? -1 : value == Py_None ? 0 : feed_value(self, input, value) == 0 ? 1 : -1;
        Py_XDECREF(value);
        return result;
    }
    if (check_status(self, self->create_tensor(self->cpu_memory, input->view.buf, (size_t)input->view.len,
                                               (const int64_t *)input->view.shape, (size_t)input->view.ndim, dtype,
                                               &input->value)) != 0) {
        PyBuffer_Release(&input->view);
        return -1;
    }
    input->viewed = true;
    input->start = input->view.buf;
    input->bytes = (uint64_t)input->view.len;
    Py_INCREF(data);
    input->owner = data;
    return 1;
}

/* Fills inputs and their names from a dict; *fed_count is the number of those that are to be released. */
static int feed_all(ort_runner_object *self, PyObject *owner, PyObject *feeds, fed_input *inputs, const char **names,
                    size_t count, size_t *fed_count)
{
    PyObject *name, *data;
    Py_ssize_t place = 0;
    int result = 0;

    for (size_t i = 0; result >= 0 && i < count && PyDict_Next(feeds, &place, &name, &data); i++) {
        names[*fed_count] = PyUnicode_AsUTF8AndSize(name, NULL); /* belongs to the name, which the dict keeps */
        result = names[*fed_count] == NULL ? -1 : feed(self, &inputs[*fed_count], owner, name, data);
        *fed_count += result > 0;
    }
    return result < 0 ? -1 : 0;
}

static void release_inputs(ort_runner_object *self, fed_input *inputs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (inputs[i].viewed) /* the others belong to an object of the package */
            self->release_value(inputs[i].value);
    fed_release(inputs, count);
}

/* Returns the object for an output, which is released or taken; NULL with an exception. An output that is an input is
 * copied, because the caller may change the input. */
static PyObject *output(ort_runner_object *self, PyObject *owner, void *value, const fed_input *inputs, size_t count)
{
    enum { TENSOR = 1 };
    int kind = 0, dtype = 0;
    const int64_t *dims = NULL;
    size_t rank = 0, bytes = 0;
    void *data = NULL;
    PyObject *owners, *array, *result;

    if (value == NULL)
        Py_RETURN_NONE;
    if (check_status(self, self->value_type(value, &kind)) != 0 ||
        (kind == TENSOR && check_status(self, self->describe(value, &dtype, &dims, &rank)) != 0) ||
        (kind == TENSOR && array_has_type(dtype) &&
         (check_status(self, self->value_bytes(value, &bytes)) != 0 ||
          check_status(self, self->value_data(value, &data)) != 0))) {
        self->release_value(value);
        return NULL;
    }
    if (data == NULL || bytes == 0) {
        owners = fed_owners(inputs, count);
        result = owners == NULL ? NULL : PyObject_CallMethod(owner, "_give", "NN", PyLong_FromVoidPtr(value), owners);
        return result;
    }
    array = array_over(&(shared_memory){ data, bytes, value, self->release_value, NULL }, dtype, rank, dims);
    if (array == NULL || fed_with(inputs, count, data) == NULL)
        return array;
    result = PyObject_CallMethod(array, "copy", NULL);
    Py_DECREF(array);
    return result;
}

/* Returns a list of the objects for all outputs, which are released or taken; NULL with an exception. */
static PyObject *output_list(ort_runner_object *self, PyObject *owner, void **outputs, size_t output_count,
                             const fed_input *inputs, size_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)output_count);

    for (size_t i = 0; i < output_count; i++) {
        PyObject *object = list == NULL ? NULL : output(self, owner, outputs[i], inputs, count);

        if (list == NULL && outputs[i] != NULL)
            self->release_value(outputs[i]);
        else if (list != NULL && (object == NULL || PyList_SetItem(list, (Py_ssize_t)i, object) != 0))
            Py_CLEAR(list);
    }
    return list;
}

/* Runs and returns the list of results; NULL with an exception. */
static PyObject *run_with(ort_runner_object *self, PyObject *owner, const void *options, const char **names,
                          const fed_input *inputs, size_t count, const char **output_names, size_t output_count)
{
    const void **values = calloc(count + 1, sizeof(*values));
    void **outputs = calloc(output_count + 1, sizeof(*outputs));
    PyObject *results = NULL;
    PyThreadState *released;
    ort_status status;

    if (values == NULL || outputs == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    for (size_t i = 0; i < count; i++)
        values[i] = inputs[i].value;
    released = PyEval_SaveThread();
    status = self->run(self->session, options, names, values, count, output_names, output_count, outputs);
    PyEval_RestoreThread(released);
    if (check_status(self, status) == 0)
        results = output_list(self, owner, outputs, output_count, inputs, count);
done:
    free(values);
    free(outputs);
    return results;
}

/* Converts the names of a sequence; returns 0, or -1 with an exception. The texts belong to the sequence's items. */
static int texts_of(PyObject *names, const char **texts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        PyObject *name = PyList_GetItem(names, (Py_ssize_t)i);

        texts[i] = name == NULL ? NULL : PyUnicode_AsUTF8AndSize(name, NULL);
        if (texts[i] == NULL)
            return -1;
    }
    return 0;
}

static PyObject *ort_runner_run(PyObject *object, PyObject *const *args, Py_ssize_t arg_count)
{
    ort_runner_object *self = (ort_runner_object *)object;
    PyObject *wanted, *results = NULL;
    fed_input *inputs;
    const char **names;
    const void *options;
    size_t count, output_count, fed_count = 0;

    if (arg_count != 4 || !PyDict_CheckExact(args[2])) {
        PyErr_SetString(PyExc_TypeError, "run(owner, output_names, feed, options)");
        return NULL;
    }
    options = PyLong_AsVoidPtr(args[3]);
    if (options == NULL && PyErr_Occurred())
        return NULL;
    wanted = PySequence_List(args[1]);
    if (wanted == NULL)
        return NULL;
    count = (size_t)PyDict_Size(args[2]);
    output_count = (size_t)PyList_Size(wanted);
    inputs = calloc(count + 1, sizeof(*inputs));
    names = calloc(count + output_count + 1, sizeof(*names)); /* of the inputs, then of the outputs */
    if (inputs == NULL || names == NULL)
        PyErr_NoMemory();
    else if (texts_of(wanted, names + count, output_count) == 0 &&
             feed_all(self, args[0], args[2], inputs, names, count, &fed_count) == 0)
        results = run_with(self, args[0], options, names, inputs, fed_count, names + count, output_count);
    if (inputs != NULL)
        release_inputs(self, inputs, fed_count);
    free(inputs);
    free(names);
    Py_DECREF(wanted);
    return results;
}

static PyObject *ort_runner_run_binding(PyObject *object, PyObject *const *args, Py_ssize_t arg_count)
{
    ort_runner_object *self = (ort_runner_object *)object;
    const void *binding, *options;
    PyThreadState *released;
    ort_status status;

    if (arg_count != 2) {
        PyErr_SetString(PyExc_TypeError, "run_binding(binding, options)");
        return NULL;
    }
    binding = PyLong_AsVoidPtr(args[0]);
    options = PyLong_AsVoidPtr(args[1]);
    if (PyErr_Occurred())
        return NULL;
    released = PyEval_SaveThread();
    status = self->run_binding(self->session, options, binding);
    PyEval_RestoreThread(released);
    if (check_status(self, status) != 0)
        return NULL;
    Py_RETURN_NONE;
}

/* Stores the address that a dict has for the name in *out_function, a pointer to a function. Returns 0, or -1 with an
 * exception. */
static int find_entry(PyObject *entries, const char *name, void *out_function)
{
    PyObject *address = PyDict_GetItemString(entries, name);
    void *function = address == NULL ? NULL : PyLong_AsVoidPtr(address);

    if (function == NULL) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_KeyError, "there is no entry %s", name);
        return -1;
    }
    memcpy(out_function, &function, sizeof(function));
    return 0;
}

static PyObject *ort_runner_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    PyObject *entries, *session, *memory, *inputs, *throw;
    ort_runner_object *self;

    (void)keywords;
    if (!PyArg_ParseTuple(args, "O!OOO!O", &PyDict_Type, &entries, &session, &memory, &PyDict_Type, &inputs, &throw))
        return NULL;
    self = PyObject_New(ort_runner_object, type);
    if (self == NULL)
        return NULL;
    Py_INCREF(inputs);
    Py_INCREF(throw);
    self->inputs = inputs;
    self->throw = throw;
    self->session = PyLong_AsVoidPtr(session);
    self->cpu_memory = PyLong_AsVoidPtr(memory);
    if (PyErr_Occurred() || find_entry(entries, "CreateTensorWithDataAsOrtValue", &self->create_tensor) != 0 ||
        find_entry(entries, "Run", &self->run) != 0 || find_entry(entries, "RunWithBinding", &self->run_binding) != 0 ||
        find_entry(entries, "GetValueType", &self->value_type) != 0 ||
        find_entry(entries, "GetTensorElementTypeAndShapeDataReference", &self->describe) != 0 ||
        find_entry(entries, "GetTensorSizeInBytes", &self->value_bytes) != 0 ||
        find_entry(entries, "GetTensorMutableData", &self->value_data) != 0 ||
        find_entry(entries, "ReleaseValue", &self->release_value) != 0) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static void ort_runner_free(PyObject *object)
{
    ort_runner_object *self = (ort_runner_object *)object;
    PyTypeObject *type = Py_TYPE(object);

    Py_DECREF(self->inputs);
    Py_DECREF(self->throw);
    PyObject_Free(object);
    Py_DECREF(type);
}

int ort_runner_add_type(PyObject *module)
{
    static PyMethodDef methods[] = {
        { "run", (PyCFunction)(void (*)(void))ort_runner_run, METH_FASTCALL, "Runs; returns a list of the outputs." },
        { "run_binding", (PyCFunction)(void (*)(void))ort_runner_run_binding, METH_FASTCALL, "Runs a binding." },
        { NULL, NULL, 0, NULL },
    };
    static PyType_Slot slots[] = {
        { Py_tp_new, (void *)ort_runner_new },
        { Py_tp_dealloc, (void *)ort_runner_free },
        { Py_tp_methods, methods },
        { Py_tp_doc, (void *)"Runs of a session of ONNX Runtime's interface." },
        { 0, NULL },
    };
    static PyType_Spec spec = { "inlay._native.OrtRunner", sizeof(ort_runner_object), 0, Py_TPFLAGS_DEFAULT, slots };
    PyObject *type = PyType_FromModuleAndSpec(module, &spec, NULL);
    int result = type == NULL ? -1 : PyModule_AddType(module, (PyTypeObject *)type);

    Py_XDECREF(type);
    return result;
}
