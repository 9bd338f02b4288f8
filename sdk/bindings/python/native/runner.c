/* Runs of an inlay_context.
 *
 *     runner = Runner(context, inputs, outputs, interruptible)
 *         context   address of the inlay_context, which must outlive the runner
 *         inputs    dict: name of an input -> its index and, from bit 32 on, its element type, of those that take
 *                   arrays of numbers
 *         outputs   tuple of names
 *         interruptible   True: signals are handled during runs on the main thread
 *     runner.run(owner, feeds, options, wanted, arrays)
 *         owner     the package's Context. owner._fed(feeds) returns a list of pairs of a name and data, for feeds that
 *                   are not dict; owner._value(name, data) returns a pair of the index of an input and a Value; and
 *                   owner._result(index, owners) returns the Value of an output that is not a tensor of numbers;
 *                   owner._run_interruptibly(options) runs with the bound inputs, and returns whether the run was slow
 *         options   address of an inlay_run_options, or None
 *         wanted    tuple of indices of outputs, or None: all
 *         arrays    True: the outputs are arrays (lists, dicts), False: Values
 *     runner.run_bound(owner, options)
 *         runs with the inputs and outputs that are bound in the context */
#include "native.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FEW_INPUTS = 8 };
#define SLOW_NS INT64_C(50000000)    /* runs of 50 ms are slow */
#define LIMIT_NS UINT64_C(100000000) /* of runs that are expected to be fast */

typedef struct runner_object {
    PyObject base;
    inlay_context *context;
    PyObject *inputs, *outputs;
    bool interruptible; /* signals may end a run on the main thread */
    bool is_slow;       /* the last run was, or there was none */
} runner_object;

static PyObject *value_type, *error_of; /* error_of(status, address of a diag) returns an exception */
static unsigned long main_thread;       /* the thread on which Python handles signals */

int runner_configure(PyObject *type, PyObject *function)
{
    if (!PyType_Check(type) || !PyCallable_Check(function)) {
        PyErr_SetString(PyExc_TypeError, "expected a type and a function");
        return -1;
    }
    Py_INCREF(type);
    Py_INCREF(function);
    value_type = type;
    error_of = function;
    return 0;
}

void runner_set_main_thread(unsigned long thread)
{
    main_thread = thread;
}

/* Sets the exception of a failed call. */
static void set_error(inlay_status status, inlay_diag *diag)
{
    PyObject *error = PyObject_CallFunction(error_of, "iN", (int)status, PyLong_FromVoidPtr(diag));

    if (error != NULL)
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(error);
}

/* Fills *input from a Value of the package. Returns 0, or -1 with an exception. */
static int feed_value(fed_input *input, PyObject *object)
{
    PyObject *handle = PyObject_GetAttrString(object, "_handle");
    inlay_value *value = handle == NULL ? NULL : PyLong_AsVoidPtr(handle);

    Py_XDECREF(handle);
    if (value == NULL) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "expected an inlay.Value");
        return -1;
    }
    input->value = inlay_value_ref(value);
    input->start = inlay_value_data(value);
    input->bytes = inlay_value_bytes(value);
    Py_INCREF(object);
    input->owner = object;
    return 0;
}

/* Fills *input by the package. */
static int feed_by_package(fed_input *input, PyObject *owner, PyObject *name, PyObject *data)
{
    PyObject *pair = PyObject_CallMethod(owner, "_value", "OO", name, data);
    PyObject *value;
    unsigned int index;
    int result = -1;

    if (pair != NULL && PyArg_ParseTuple(pair, "IO", &index, &value)) {
        input->index = index;
        result = feed_value(input, value);
    }
    Py_XDECREF(pair);
    return result;
}

/* Fills *input from data. Returns 0, or -1 with an exception; then *input holds nothing. */
static int feed(runner_object *self, fed_input *input, PyObject *owner, PyObject *name, PyObject *data)
{
    PyObject *index = PyDict_GetItemWithError(self->inputs, name);
    inlay_diag diag = INLAY_DIAG_INIT;
    const uint64_t place = index != NULL ? PyLong_AsUnsignedLongLong(index) : 0;
    inlay_dtype dtype;
    inlay_value *value;
    inlay_status status;

    if (PyErr_Occurred())
        return -1;
    if (index != NULL && PyObject_TypeCheck(data, (PyTypeObject *)value_type)) {
        input->index = (uint32_t)place;
        return feed_value(input, data);
    }
    if (index == NULL || !array_view(data, &input->view, &dtype))
        return feed_by_package(input, owner, name, data);
    if (dtype != (inlay_dtype)(place >> 32)) { /* the package converts it */
        PyBuffer_Release(&input->view);
        return feed_by_package(input, owner, name, data);
    }
    status = inlay_value_borrow(dtype, (uint32_t)input->view.ndim, (const int64_t *)input->view.shape, input->view.buf,
                                (uint64_t)input->view.len, &value, &diag);
    if (status != INLAY_OK) {
        PyBuffer_Release(&input->view);
        set_error(status, &diag);
        return -1;
    }
    input->value = value;
    input->index = (uint32_t)place;
    input->viewed = true;
    input->start = input->view.buf;
    input->bytes = (uint64_t)input->view.len;
    Py_INCREF(data);
    input->owner = data;
    return 0;
}

/* Fills inputs from a dict; *fed_count is the number of those that are to be released. */
static int feed_dict(runner_object *self, PyObject *owner, PyObject *feeds, fed_input *inputs, size_t count,
                     size_t *fed_count)
{
    PyObject *name, *data;
    Py_ssize_t place = 0;
    int result = 0;

    while (result == 0 && *fed_count < count && PyDict_Next(feeds, &place, &name, &data)) {
        Py_INCREF(name); /* the package's code may change the dict */
        Py_INCREF(data);
        result = feed(self, &inputs[*fed_count], owner, name, data);
        Py_DECREF(name);
        Py_DECREF(data);
        *fed_count += result == 0;
    }
    return result;
}

/* The same from a list of pairs. */
static int feed_pairs(runner_object *self, PyObject *owner, PyObject *pairs, fed_input *inputs, size_t count,
                      size_t *fed_count)
{
    int result = 0;

    while (result == 0 && *fed_count < count) {
        PyObject *pair = PyList_GetItem(pairs, (Py_ssize_t)*fed_count);
        PyObject *name, *data;

        if (pair == NULL || !PyArg_ParseTuple(pair, "OO", &name, &data))
            return -1;
        result = feed(self, &inputs[*fed_count], owner, name, data);
        *fed_count += result == 0;
    }
    return result;
}

static void unref_value(void *value)
{
    inlay_value_unref(value);
}

/* Returns output `index` of the last run by the package, converted if `arrays`. */
static PyObject *output_by_package(PyObject *owner, uint32_t index, bool arrays, const fed_input *inputs, size_t count)
{
    PyObject *owners = fed_owners(inputs, count);
    PyObject *value = owners == NULL ? NULL : PyObject_CallMethod(owner, "_result", "IO", (unsigned int)index, owners);
    PyObject *result = value;

    if (value != NULL && arrays) {
        result = PyObject_CallMethod(value, "to_python", NULL);
        Py_DECREF(value);
    }
    Py_XDECREF(owners);
    return result;
}

/* Returns output `index` of the last run, a new reference; NULL with an exception. An output may be an input: then it
 * keeps that input's owner. */
static PyObject *output(runner_object *self, PyObject *owner, uint32_t index, bool arrays, const fed_input *inputs,
                        size_t count)
{
    inlay_value *value = inlay_context_output(self->context, index);
    void *data = value == NULL ? NULL : inlay_value_data(value);
    const fed_input *same;
    shared_memory memory;

    if (data == NULL || inlay_value_count(value) == 0 || !array_has_type(inlay_value_dtype(value)))
        return output_by_package(owner, index, arrays, inputs, count);
    same = fed_with(inputs, count, data);
    if (!arrays)
        return PyObject_CallFunction(value_type, "NO", PyLong_FromVoidPtr(inlay_value_ref(value)),
                                     same == NULL ? Py_None : same->owner);
    memory = (shared_memory){ data, inlay_value_bytes(value), inlay_value_ref(value), unref_value,
                              same == NULL ? NULL : same->owner };
    return array_over(&memory, inlay_value_dtype(value), inlay_value_rank(value), inlay_value_dims(value));
}

/* Returns a dict of the outputs, or NULL with an exception. */
static PyObject *outputs(runner_object *self, PyObject *owner, PyObject *wanted, bool arrays, const fed_input *inputs,
                         size_t count)
{
    Py_ssize_t wanted_count = PyTuple_Size(wanted == Py_None ? self->outputs : wanted);
    PyObject *results = PyDict_New();

    for (Py_ssize_t i = 0; results != NULL && i < wanted_count; i++) {
        Py_ssize_t index = wanted == Py_None ? i : PyLong_AsSsize_t(PyTuple_GetItem(wanted, i));
        PyObject *name = index < 0 ? NULL : PyTuple_GetItem(self->outputs, index);
        PyObject *value = name == NULL ? NULL : output(self, owner, (uint32_t)index, arrays, inputs, count);

        if (value == NULL || PyDict_SetItem(results, name, value) != 0)
            Py_CLEAR(results);
        Py_XDECREF(value);
    }
    return results;
}

static inlay_status run_once(runner_object *self, const inlay_run_options *how, inlay_diag *diag)
{
    PyThreadState *released = PyEval_SaveThread();
    inlay_status status;
    struct timespec start, end;

    clock_gettime(CLOCK_MONOTONIC, &start);
    status = inlay_context_run(self->context, how, diag);
    clock_gettime(CLOCK_MONOTONIC, &end);
    self->is_slow = (end.tv_sec - start.tv_sec) * INT64_C(1000000000) + end.tv_nsec - start.tv_nsec >= SLOW_NS;
    PyEval_RestoreThread(released);
    return status;
}

/* Runs by the package, on another thread, while this one handles signals. */
static int run_interruptibly(runner_object *self, PyObject *owner, const inlay_run_options *how)
{
    PyObject *slow = PyObject_CallMethod(owner, "_run_interruptibly", "N", PyLong_FromVoidPtr((void *)how));

    if (slow != NULL)
        self->is_slow = PyObject_IsTrue(slow) == 1;
    Py_XDECREF(slow);
    return slow == NULL ? -1 : 0;
}

/* Runs. Python handles signals only on the main thread, between its own instructions. On that thread, a first run and a
 * run after a slow one are interruptible. Its other runs have a time limit, after which they start again,
 * interruptible. */
static int run_context(runner_object *self, PyObject *owner, PyObject *options)
{
    const inlay_run_options *given = options == Py_None ? NULL : PyLong_AsVoidPtr(options);
    inlay_run_options how = INLAY_RUN_OPTIONS_INIT;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status;
    bool on_main_thread = self->interruptible && PyThread_get_thread_ident() == main_thread;
    bool limited;

    if (given == NULL && PyErr_Occurred())
        return -1;
    if (given != NULL)
        how = *given;
    if (on_main_thread && self->is_slow)
        return run_interruptibly(self, owner, &how);
    limited = on_main_thread && (how.timeout_ns == 0 || how.timeout_ns > LIMIT_NS);
    if (limited)
        how.timeout_ns = LIMIT_NS;
    status = run_once(self, &how, &diag);
    if (status == INLAY_DEADLINE_EXCEEDED && limited) {
        how.timeout_ns = given == NULL || given->timeout_ns == 0 ? 0 : given->timeout_ns - LIMIT_NS;
        return run_interruptibly(self, owner, &how);
    }
    if (status != INLAY_OK)
        set_error(status, &diag);
    return status == INLAY_OK ? 0 : -1;
}

/* Binds the inputs, runs, takes the outputs, and unbinds the inputs, whose memory is Python's. */
static PyObject *run_with(runner_object *self, PyObject *const *args, const fed_input *inputs, size_t count)
{
    PyObject *results = NULL;
    inlay_status status = INLAY_OK;
    inlay_diag diag = INLAY_DIAG_INIT;
    size_t bound = 0;

    for (; status == INLAY_OK && bound < count; bound++)
        status = inlay_context_set_input(self->context, inputs[bound].index, inputs[bound].value, &diag);
    if (status != INLAY_OK)
        set_error(status, &diag);
    else if (run_context(self, args[0], args[2]) == 0)
        results = outputs(self, args[0], args[3], args[4] == Py_True, inputs, count);
    for (size_t i = 0; i < bound; i++)
        (void)inlay_context_set_input(self->context, inputs[i].index, NULL, NULL);
    return results;
}

static PyObject *runner_run(PyObject *object, PyObject *const *args, Py_ssize_t arg_count)
{
    runner_object *self = (runner_object *)object;
    fed_input few[FEW_INPUTS], *inputs = few;
    PyObject *pairs = NULL, *results = NULL;
    size_t count, fed_count = 0;
    bool is_dict;

    if (arg_count != 5 || (args[3] != Py_None && !PyTuple_Check(args[3]))) {
        PyErr_SetString(PyExc_TypeError, "run(owner, feeds, options, wanted, arrays)");
        return NULL;
    }
    is_dict = PyDict_CheckExact(args[1]);
    if (!is_dict) {
        pairs = PyObject_CallMethod(args[0], "_fed", "(O)", args[1]);
        if (pairs == NULL)
            return NULL;
    }
    count = (size_t)(is_dict ? PyDict_Size(args[1]) : PyList_Size(pairs));
    if (count > FEW_INPUTS)
        inputs = calloc(count, sizeof(*inputs));
    if (inputs == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    memset(inputs, 0, count * sizeof(*inputs));
    if ((is_dict ? feed_dict(self, args[0], args[1], inputs, count, &fed_count)
                 : feed_pairs(self, args[0], pairs, inputs, count, &fed_count)) == 0)
        results = run_with(self, args, inputs, fed_count);
    for (size_t i = 0; i < fed_count; i++)
        inlay_value_unref(inputs[i].value);
    fed_release(inputs, fed_count);
done:
    if (inputs != few)
        free(inputs);
    Py_XDECREF(pairs);
    return results;
}

static PyObject *runner_run_bound(PyObject *object, PyObject *const *args, Py_ssize_t arg_count)
{
    if (arg_count != 2) {
        PyErr_SetString(PyExc_TypeError, "run_bound(owner, options)");
        return NULL;
    }
    if (run_context((runner_object *)object, args[0], args[1]) != 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *runner_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    PyObject *handle, *inputs, *names;
    inlay_context *context;
    runner_object *self;
    int interruptible;

    (void)keywords;
    if (!PyArg_ParseTuple(args, "OO!O!p", &handle, &PyDict_Type, &inputs, &PyTuple_Type, &names, &interruptible))
        return NULL;
    context = PyLong_AsVoidPtr(handle);
    if (context == NULL) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "there is no context");
        return NULL;
    }
    self = PyObject_New(runner_object, type);
    if (self == NULL)
        return NULL;
    Py_INCREF(inputs);
    Py_INCREF(names);
    self->context = context;
    self->inputs = inputs;
    self->outputs = names;
    self->interruptible = interruptible != 0;
    self->is_slow = true;
    return (PyObject *)self;
}

static void runner_free(PyObject *object)
{
    runner_object *self = (runner_object *)object;
    PyTypeObject *type = Py_TYPE(object);

    Py_DECREF(self->inputs);
    Py_DECREF(self->outputs);
    PyObject_Free(object);
    Py_DECREF(type);
}

int runner_add_type(PyObject *module)
{
    static PyMethodDef methods[] = {
        { "run", (PyCFunction)(void (*)(void))runner_run, METH_FASTCALL, "Runs with feeds; returns the outputs." },
        { "run_bound", (PyCFunction)(void (*)(void))runner_run_bound, METH_FASTCALL,
          "Runs with the inputs and outputs that are bound." },
        { NULL, NULL, 0, NULL },
    };
    static PyType_Slot slots[] = {
        { Py_tp_new, (void *)runner_new },
        { Py_tp_dealloc, (void *)runner_free },
        { Py_tp_methods, methods },
        { Py_tp_doc, (void *)"Runs of a context." },
        { 0, NULL },
    };
    static PyType_Spec spec = { "inlay._native.Runner", sizeof(runner_object), 0, Py_TPFLAGS_DEFAULT, slots };
    PyObject *type = PyType_FromModuleAndSpec(module, &spec, NULL);
    int result = type == NULL ? -1 : PyModule_AddType(module, (PyTypeObject *)type);

    Py_XDECREF(type);
    return result;
}
