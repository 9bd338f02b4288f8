/* ort_test.h - loads the library by path and calls it through its table, as programs do.
 *
 * ORT_LIBRARY=/path/libonnxruntime.so.1 runs the same program with another library. The assertions also hold for ONNX
 * Runtime's own library, except where ours() is checked. */
#ifndef ORT_TEST_H
#define ORT_TEST_H
#include "api.h"
#include "cmocka_all.h"
#include "model_writer.h"
#include <dlfcn.h>
#include <stdlib.h>

static void *library;
static const OrtApi *api;
static const OrtApiBase *base;
static OrtEnv *env;
static OrtAllocator *allocator;

static inline bool ours(void)
{
    return strstr(api->GetBuildInfoString(), "inlay") != NULL;
}

static inline void ok_at(OrtStatus *status, const char *file, int line)
{
    char text[600];

    if (status == NULL)
        return;
    (void)snprintf(text, sizeof text, "%s", api->GetErrorMessage(status));
    api->ReleaseStatus(status);
    fail_msg("%s:%d: %s", file, line, text);
}

/* Expects a failure with that code and a message that contains words. */
static inline void fails_at(OrtStatus *status, OrtErrorCode code, const char *words, const char *file, int line)
{
    if (status == NULL)
        fail_msg("%s:%d: succeeded", file, line);
    if (strstr(api->GetErrorMessage(status), words) == NULL || api->GetErrorCode(status) != code)
        fail_msg("%s:%d: %d %s", file, line, api->GetErrorCode(status), api->GetErrorMessage(status));
    api->ReleaseStatus(status);
}
#define ok(call) ok_at(call, __FILE__, __LINE__)
#define fails(call, code, words) fails_at(call, code, words, __FILE__, __LINE__)

static inline int ort_test_begin(void **state)
{
    const char *path = getenv("ORT_LIBRARY");
    const OrtApiBase *(*get_base)(void);
    void *symbol;

    (void)state;
    library = dlopen(path != NULL ? path : ORT_LIBRARY_PATH, RTLD_NOW);
    if (library == NULL) {
        (void)fprintf(stderr, "%s\n", dlerror());
        return -1;
    }
    symbol = dlsym(library, "OrtGetApiBase");
    memcpy(&get_base, &symbol, sizeof symbol);
    base = get_base();
    api = base->GetApi(ORT_VERSION_MINOR);
    ok(api->CreateEnv(ORT_LOGGING_LEVEL_FATAL, "test", &env));
    ok(api->GetAllocatorWithDefaultOptions(&allocator));
    return 0;
}

static inline int ort_test_end(void **state)
{
    (void)state;
    api->ReleaseEnv(env);
    return 0;
}

static inline OrtMemoryInfo *cpu(void)
{
    static OrtMemoryInfo *info;

    if (info == NULL)
        ok(api->CreateCpuMemoryInfo(ORT_ARENA_ALLOCATOR, ORT_MEM_DEFAULT, &info));
    return info;
}

static inline OrtValue *tensor(int type, const int64_t *dims, size_t rank, void *data, size_t bytes)
{
    OrtValue *value = NULL;

    ok(api->CreateTensorWithDataAsOrtValue(cpu(), data, bytes, dims, rank, type, &value));
    return value;
}

static inline OrtSession *session_of(const struct wire *wire, const OrtSessionOptions *options)
{
    OrtSession *session = NULL;

    ok(api->CreateSessionFromArray(env, wire->bytes, wire->count, options, &session));
    return session;
}

static inline OrtValue *run1(OrtSession *session, const char *input, const OrtValue *value, const char *output)
{
    OrtValue *result = NULL;

    ok(api->Run(session, NULL, &input, &value, 1, &output, 1, &result));
    return result;
}
#endif
