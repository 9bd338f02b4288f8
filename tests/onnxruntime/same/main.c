/* The main program: counts and prints the calls; helpers of the parts. */
#include "same.h"
#include <stdarg.h>

const OrtApi *api;
OrtEnv *env;
OrtAllocator *allocator;

static const char *names[512];
static size_t name_count;

void note(const char *name)
{
    for (size_t i = 0; i < name_count; i++)
        if (strcmp(names[i], name) == 0)
            return;
    if (name_count < sizeof names / sizeof names[0])
        names[name_count++] = name;
}

bool called(const char *name, OrtStatus *status)
{
    OrtErrorCode code;

    if (status == NULL) {
        printf("%s: ok\n", name);
        return true;
    }
    code = USE(GetErrorCode, status);
    /* Some exceptions at run time of releases before 1.22 are failures in later ones. */
    printf("%s: code %d, with a message: %s\n", name, code == ORT_RUNTIME_EXCEPTION ? ORT_FAIL : code,
           USE(GetErrorMessage, status)[0] != '\0' ? "yes" : "no");
    if (getenv("SAME_VERBOSE") != NULL)
        fprintf(stderr, "%s: %s\n", name, api->GetErrorMessage(status));
    USE(ReleaseStatus, status);
    return false;
}

void print_line(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    printf("    ");
    vprintf(format, args);
    printf("\n");
    va_end(args);
}

OrtMemoryInfo *cpu(void)
{
    static OrtMemoryInfo *info;

    if (info == NULL)
        CALL(CreateCpuMemoryInfo, OrtArenaAllocator, OrtMemTypeDefault, &info);
    return info;
}

OrtValue *over(ONNXTensorElementDataType type, void *data, size_t bytes, size_t rank, const int64_t *dims)
{
    OrtValue *value = NULL;

    CALL(CreateTensorWithDataAsOrtValue, cpu(), data, bytes, dims, rank, type, &value);
    return value;
}

void print_shape(const OrtTensorTypeAndShapeInfo *info)
{
    ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    const char *symbols[8] = { NULL };
    int64_t dims[8] = { 0 };
    size_t rank = 0, count = 0;

    if (!CALL(GetTensorElementType, info, &type) || !CALL(GetDimensionsCount, info, &rank) || rank > 8 ||
        !CALL(GetDimensions, info, dims, rank) || !CALL(GetSymbolicDimensions, info, symbols, rank))
        return;
    print_line("type %d, rank %zu", (int)type, rank);
    for (size_t i = 0; i < rank; i++)
        print_line("dimension %lld '%s'", (long long)dims[i], symbols[i]);
    if (rank == 0 || dims[0] >= 0) {
        if (CALL(GetTensorShapeElementCount, info, &count))
            print_line("%zu elements", count);
    }
}

void print_type(const OrtTypeInfo *type)
{
    const OrtTensorTypeAndShapeInfo *tensor = NULL;
    const OrtSequenceTypeInfo *sequence = NULL;
    const OrtMapTypeInfo *map = NULL;
    const OrtOptionalTypeInfo *optional = NULL;
    enum ONNXType kind = ONNX_TYPE_UNKNOWN;
    OrtTypeInfo *inner = NULL;
    ONNXTensorElementDataType key;
    const char *denotation = NULL;
    size_t bytes = 0;

    if (!CALL(GetOnnxTypeFromTypeInfo, type, &kind))
        return;
    print_line("kind %d", (int)kind);
    if (CALL(GetDenotationFromTypeInfo, type, &denotation, &bytes))
        print_line("denotation of %zu bytes", bytes);
    if (CALL(CastTypeInfoToTensorInfo, type, &tensor) && tensor != NULL)
        print_shape(tensor);
    if (CALL(CastTypeInfoToSequenceTypeInfo, type, &sequence) && sequence != NULL &&
        CALL(GetSequenceElementType, sequence, &inner))
        print_type(inner);
    else if (CALL(CastTypeInfoToMapTypeInfo, type, &map) && map != NULL && CALL(GetMapKeyType, map, &key) &&
             CALL(GetMapValueType, map, &inner)) {
        print_line("keys of type %d", (int)key);
        print_type(inner);
    } else if (CALL(CastTypeInfoToOptionalTypeInfo, type, &optional) && optional != NULL &&
               CALL(GetOptionalContainedTypeInfo, optional, &inner))
        print_type(inner);
    if (inner != NULL)
        USE(ReleaseTypeInfo, inner);
}

void print_floats(OrtValue *value)
{
    OrtTensorTypeAndShapeInfo *info = NULL;
    void *data = NULL;
    size_t count = 0;

    if (value == NULL || !CALL(GetTensorTypeAndShape, value, &info))
        return;
    print_shape(info);
    if (CALL(GetTensorShapeElementCount, info, &count) && CALL(GetTensorMutableData, value, &data))
        for (size_t i = 0; i < count; i++)
            print_line("%g", ((float *)data)[i]);
    USE(ReleaseTensorTypeAndShapeInfo, info);
}

OrtSession *open_bytes(const onnx_bytes *file, const OrtSessionOptions *options)
{
    OrtSession *session = NULL;

    CALL(CreateSessionFromArray, env, file->data, file->count, options, &session);
    return session;
}

int main(void)
{
    static const uint32_t versions[] = { 1, 16, ORT_API_VERSION };
    const OrtApiBase *base = OrtGetApiBase();

    setvbuf(stdout, NULL, _IOLBF, 0); /* keeps the output before a crash */
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++)
        printf("GetApi(%u): %s\n", (unsigned)versions[i], base->GetApi(versions[i]) != NULL ? "there" : "not there");
    printf("GetApi(100000): %s\n", base->GetApi(100000) != NULL ? "there" : "not there");
    printf("GetVersionString: %s\n", base->GetVersionString()[0] == '1' ? "1.x" : "another");
    api = base->GetApi(ORT_API_VERSION);
    if (api == NULL)
        return 1;
    printf("GetBuildInfoString: %s\n", USE(GetBuildInfoString)[0] != '\0' ? "a text" : "nothing");
    environments();
    values();
    types();
    memory();
    sparse();
    sessions();
    runs();
    bindings();
    kernels();
    failures();
    USE(ReleaseMemoryInfo, cpu());
    USE(ReleaseEnv, env);
    printf("%zu functions\n", name_count);
    return 0;
}
