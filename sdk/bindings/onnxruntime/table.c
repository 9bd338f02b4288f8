/* The table, and the functions used for entries that are not implemented. */
#include "ort.h"
#include "inlay/check.h"
#include <stdio.h>
#include <string.h>

typedef void (*any_fn)(void);

/* What ONNX Runtime's build for CPUs refuses. Its own message follows the name of the entry. */
static OrtStatus *refuse(const char *name)
{
    static const struct {
        const char *begins; /* the names of the entries */
        OrtErrorCode code;
        const char *text;
    } rows[] = {
        /* graphs, nodes and values of OrtModelEditorApi, the only ones that a program has */
        { "Graph_GetGraphView", ORT_INVALID_ARGUMENT, "src_graph is a ModelEditorGraph" },
        { "Node_GetAttributeByName", ORT_INVALID_ARGUMENT, "node is a ModelEditorNode" },
        { "Node_GetEpName", ORT_INVALID_ARGUMENT, "node is a ModelEditorNode" },
        { "Graph_", ORT_NOT_IMPLEMENTED, "OrtModelEditorApi does not support it" },
        { "Node_", ORT_NOT_IMPLEMENTED, "OrtModelEditorApi does not support it" },
        { "ValueInfo_", ORT_NOT_IMPLEMENTED, "OrtModelEditorApi does not support it" },
        /* opaque types: none is registered */
        { "CreateOpaqueValue", ORT_FAIL, "domain and type do not refer to a registered opaque type" },
        { "GetOpaqueValue", ORT_FAIL, "domain and type do not refer to a registered opaque type" },
        /* other devices, and libraries of execution providers */
        { "GetExecutionProviderApi", ORT_INVALID_ARGUMENT, "Specified provider is not supported." },
        { "KernelContext_GetResource", ORT_INVALID_ARGUMENT,
          "Failed to fetch a stream hosting the requested resource" },
        { "CreateSyncStreamForEpDevice", ORT_INVALID_ARGUMENT,
          "ep_device does not use DEFAULT memory of a non-CPU device." },
        { "SetPerSessionThreadPoolCallbacks", ORT_NOT_IMPLEMENTED,
          "requires ORT built with --enable_session_threadpool_callbacks" },
    };
    size_t i = 0;

    while (strncmp(rows[i].begins, name, strlen(rows[i].begins)) != 0) {
        i++;
        INLAY_CHECK(i < sizeof rows / sizeof rows[0]);
    }
    return ort_fail(rows[i].code, "%s: %s", name, rows[i].text);
}

/* The functions below have no parameters, but callers pass arguments. Every calling convention for C that inlay
 * supports allows this. */
#define ENTRY_WORKS(name)
#define ENTRY_KEPT(name)
#define ENTRY_ACCEPTED(name)                                                                                           \
    static OrtStatus *accepted_##name(void)                                                                            \
    {                                                                                                                  \
        ort_log_accepted(#name);                                                                                       \
        return NULL;                                                                                                   \
    }
#define ENTRY_NOTHING(name)                                                                                            \
    static void *nothing_##name(void)                                                                                  \
    {                                                                                                                  \
        return NULL;                                                                                                   \
    }
#define ENTRY_NOT_BUILT(name)                                                                                          \
    static OrtStatus *absent_##name(void)                                                                              \
    {                                                                                                                  \
        return ort_fail(ORT_FAIL, "%s: the execution provider is not enabled in this build", #name);                   \
    }
#define ENTRY_REFUSED(name)                                                                                            \
    static OrtStatus *refused_##name(void)                                                                             \
    {                                                                                                                  \
        return refuse(#name);                                                                                          \
    }
#define ENTRY(state, returns, name, params) ENTRY_##state(name)
#include "api.def"
#undef ENTRY
#undef ENTRY_WORKS
#undef ENTRY_KEPT
#undef ENTRY_ACCEPTED
#undef ENTRY_NOTHING
#undef ENTRY_NOT_BUILT
#undef ENTRY_REFUSED

static const any_fn table[] = {
#define ENTRY_WORKS(name) (any_fn) ort_##name,
#define ENTRY_KEPT(name) (any_fn) ort_##name,
#define ENTRY_ACCEPTED(name) (any_fn) accepted_##name,
#define ENTRY_NOTHING(name) (any_fn) nothing_##name,
#define ENTRY_NOT_BUILT(name) (any_fn) absent_##name,
#define ENTRY_REFUSED(name) (any_fn) refused_##name,
#define ENTRY(state, returns, name, params) ENTRY_##state(name)
#include "api.def"
#undef ENTRY
};
_Static_assert(sizeof table / sizeof table[0] == 426, "the table of version 30 has 426 entries");

#define ENTRY(returns, name, params) (any_fn) ort_##name,
static const any_fn editor_table[] = {
#include "editor.def"
};
static const any_fn compile_table[] = {
#include "compile.def"
};
#undef ENTRY
_Static_assert(sizeof editor_table / sizeof editor_table[0] == 20, "OrtModelEditorApi of version 30 has 20 entries");
_Static_assert(sizeof compile_table / sizeof compile_table[0] == 16, "OrtCompileApi of version 30 has 16 entries");

const OrtModelEditorApi *ort_GetModelEditorApi(void)
{
    return (const OrtModelEditorApi *)(const void *)editor_table;
}

const OrtCompileApi *ort_GetCompileApi(void)
{
    return (const OrtCompileApi *)(const void *)compile_table;
}

/* These serve execution providers for ONNX Runtime, and devices. */
static OrtStatus *absent_in_table(void)
{
    return ort_fail(ORT_NOT_IMPLEMENTED, "OrtInteropApi and OrtEpApi are not implemented in inlay");
}

#define A4 absent_in_table, absent_in_table, absent_in_table, absent_in_table
#define A32 A4, A4, A4, A4, A4, A4, A4, A4
static OrtStatus *(*const absent_table[])(void) = { A32, A32, A32, A32, A32, A32, A32, A32 };

const OrtInteropApi *ort_GetInteropApi(void)
{
    return (const OrtInteropApi *)(const void *)absent_table;
}

const OrtEpApi *ort_GetEpApi(void)
{
    return (const OrtEpApi *)(const void *)absent_table;
}

const OrtApi *ort_table(void)
{
    return (const OrtApi *)(const void *)table;
}

static const OrtApi *get_api(uint32_t version)
{
    if (version >= 1 && version <= ORT_VERSION_MINOR)
        return ort_table();
    (void)fprintf(stderr,
                  "The requested API version [%u] is not available, only API versions [1, %u] are supported in "
                  "this build. Current ORT Version is: %s\n",
                  version, (unsigned)ORT_VERSION_MINOR, ORT_VERSION);
    return NULL;
}

static const char *get_version(void)
{
    return ORT_VERSION;
}

static const OrtApiBase base = { get_api, get_version };

const OrtApiBase *ort_base(void)
{
    return &base;
}

const char *ort_GetBuildInfoString(void)
{
    return "ORT Build Info: inlay " INLAY_VERSION ", in place of ONNX Runtime " ORT_VERSION;
}
