/* The module _native. */
#include "native.h"

static PyObject *configure(PyObject *module, PyObject *args)
{
    PyObject *array, *types, *value, *error;

    (void)module;
    if (!PyArg_ParseTuple(args, "OOOO", &array, &types, &value, &error) || arrays_configure(array, types) != 0 ||
        runner_configure(value, error) != 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *set_main_thread(PyObject *module, PyObject *ident)
{
    unsigned long thread = PyLong_AsUnsignedLong(ident);

    (void)module;
    if (PyErr_Occurred())
        return NULL;
    runner_set_main_thread(thread);
    Py_RETURN_NONE;
}

PyMODINIT_FUNC PyInit__native(void)
{
    static PyMethodDef methods[] = {
        { "configure", configure, METH_VARARGS, "Keeps objects of the package; called once." },
        { "set_main_thread", set_main_thread, METH_O, "Tells on which thread signals are handled." },
        { NULL, NULL, 0, NULL },
    };
    static PyModuleDef definition = {
        .m_base = PyModuleDef_HEAD_INIT,
        .m_name = "inlay._native",
        .m_doc = "Runs without ctypes.",
        .m_size = -1,
        .m_methods = methods,
    };
    PyObject *module = PyModule_Create(&definition);

    if (module != NULL &&
        (PyModule_AddIntConstant(module, "INTERFACE", NATIVE_INTERFACE) != 0 || arrays_add_types(module) != 0 ||
         runner_add_type(module) != 0 || ort_runner_add_type(module) != 0))
        Py_CLEAR(module);
    return module;
}
