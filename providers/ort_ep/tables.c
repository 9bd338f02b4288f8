/* The tables that a library gets: OrtApi (api.def), OrtEpApi (ep.def) and the tables that OrtApi returns. Their order,
 * and so their rows, come from the lists of sdk/bindings/onnxruntime. A function ort_NAME that is linked into the
 * plug-in serves the row NAME; other rows refuse: those that return an OrtStatus with ORT_NOT_IMPLEMENTED and their
 * name, the others with NULL or 0. */
#include "ort_ep/provider.h"
#include <stdio.h>
#include <string.h>

typedef void (*any_fn)(void);

static void *refuse(const char *name)
{
    return ort_fail(ORT_NOT_IMPLEMENTED, "%s is not implemented by inlay's provider ort_ep", name);
}

/* Every function is declared weak: NULL if none is linked. */
#define ENTRY(state, returns, name, params)                                                                            \
    __attribute__((weak, visibility("hidden"))) returns ort_##name params;                                             \
    static void *refuse_##name(void)                                                                                   \
    {                                                                                                                  \
        return _Generic((returns *)NULL, OrtStatus * * : 1, default : 0) != 0 ? refuse(#name) : NULL;                  \
    }
#include "api.def"
#undef ENTRY
#define ENTRY(returns, name, params)                                                                                   \
    __attribute__((weak, visibility("hidden"))) returns ort_##name params;                                             \
    static void *refuse_##name(void)                                                                                   \
    {                                                                                                                  \
        return _Generic((returns *)NULL, OrtStatus * * : 1, default : 0) != 0 ? refuse(#name) : NULL;                  \
    }
#include "editor.def"
#include "compile.def"
#include "ep.def"
#undef ENTRY

#define ENTRY(state, returns, name, params) (any_fn) refuse_##name,
static any_fn api_table[] = {
#include "api.def"
};
#undef ENTRY
#define ENTRY(returns, name, params) (any_fn) refuse_##name,
static any_fn editor_table[] = {
#include "editor.def"
};
static any_fn compile_table[] = {
#include "compile.def"
};
static any_fn ep_table[] = {
#include "ep.def"
};
#undef ENTRY
_Static_assert(sizeof ep_table / sizeof ep_table[0] == 74, "OrtEpApi of version 30 has 74 entries");
_Static_assert(sizeof(OrtEpApi) == sizeof ep_table, "the struct is the table");

static const inlay_host *the_host; /* of ep_tables_open(); a plug-in gets one host */

static void fill(any_fn *row, any_fn function)
{
    if (function != NULL)
        *row = function;
}

static void fill_tables(void)
{
    any_fn *row = api_table;

#define ENTRY(state, returns, name, params) fill(row++, (any_fn)ort_##name);
#include "api.def"
#undef ENTRY
#define ENTRY(returns, name, params) fill(row++, (any_fn)ort_##name);
    row = editor_table;
#include "editor.def"
    row = compile_table;
#include "compile.def"
    row = ep_table;
#include "ep.def"
#undef ENTRY
}

void ep_tables_open(const inlay_host *host)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    the_host = host; /* the same for every caller */
    (void)pthread_once(&once, fill_tables);
}

const OrtApi *ort_table(void)
{
    return (const OrtApi *)(const void *)api_table;
}

const OrtEpApi *ort_GetEpApi(void)
{
    return (const OrtEpApi *)(const void *)ep_table;
}

const OrtModelEditorApi *ort_GetModelEditorApi(void)
{
    return (const OrtModelEditorApi *)(const void *)editor_table;
}

const OrtCompileApi *ort_GetCompileApi(void)
{
    return (const OrtCompileApi *)(const void *)compile_table;
}

const char *ort_GetBuildInfoString(void)
{
    return "ORT Build Info: inlay " INLAY_VERSION ", in place of ONNX Runtime 1.30.0";
}

static _Thread_local uint32_t refused_version;

void ep_describe_version(uint32_t version, char *out, size_t bytes)
{
    (void)snprintf(out, bytes,
                   "the library was built for ONNX Runtime 1.%u, but inlay has the interface of 1.%d; use a release of "
                   "the library for 1.%d or older",
                   (unsigned)version, ORT_VERSION_MINOR, ORT_VERSION_MINOR);
}

uint32_t ep_refused_version(void)
{
    const uint32_t version = refused_version;

    refused_version = 0;
    return version;
}

/* Most libraries crash on NULL, hence the log. */
static const OrtApi *get_api(uint32_t version)
{
    char text[200];

    if (version >= 1 && version <= ORT_VERSION_MINOR)
        return ort_table();
    refused_version = version;
    ep_describe_version(version, text, sizeof text);
    the_host->log(the_host->ctx, INLAY_LOG_ERROR, text);
    return NULL;
}

static const char *get_version(void)
{
    return "1.30.0";
}

static const OrtApiBase base = { get_api, get_version };

const OrtApiBase *ort_base(void)
{
    return &base;
}

/* Functions by name.
 *
 * An application may store the contexts of EPs itself. inlay does not: there are no functions for it. */

struct OrtEpContextConfig {
    char unused;
};
typedef struct OrtEpContextConfig OrtEpContextConfig;

static OrtStatus *get_context_config(const OrtSessionOptions *options, OrtEpContextConfig **out)
{
    static OrtEpContextConfig none;

    ORT_NEED(options);
    ORT_NEED(out);
    *out = &none;
    return NULL;
}

static void release_context_config(OrtEpContextConfig *config)
{
    (void)config;
}

static OrtStatus *get_context_function(const OrtEpContextConfig *config, any_fn *out, void **out_state)
{
    ORT_NEED(config);
    ORT_NEED(out);
    ORT_NEED(out_state);
    *out = NULL;
    *out_state = NULL;
    return NULL;
}

OrtExperimentalFnPtr ort_GetExperimentalFunction(const char *name)
{
    static const struct {
        const char *name;
        any_fn function;
    } rows[] = {
        { "OrtEpApi_SessionOptions_GetEpContextConfig_SinceV28", (any_fn)get_context_config },
        { "OrtEpApi_ReleaseEpContextConfig_SinceV28", (any_fn)release_context_config },
        { "OrtEpApi_EpContextConfig_GetEpContextDataReadFunc_SinceV28", (any_fn)get_context_function },
        { "OrtEpApi_EpContextConfig_GetEpContextDataWriteFunc_SinceV28", (any_fn)get_context_function },
    };

    for (size_t i = 0; name != NULL && i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].name, name) == 0)
            return rows[i].function;
    return NULL;
}
