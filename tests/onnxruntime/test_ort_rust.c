/* What the package `ort` for Rust does on a CPU, with its calls in their order: environments with a logger and thread
 * pools, options, sessions from bytes and files, all kinds of values, bindings, asynchronous runs, operators written by
 * the program, models that it builds and compiles. */
#include "ort_test.h"
#include "custom_op.h"
#include <pthread.h>

struct OrtModelEditorApi {
#define ENTRY(returns, name, params) returns(*name) params;
#include "editor.def"
};
struct OrtCompileApi {
#include "compile.def"
#undef ENTRY
};

enum { FLOAT = 1, INT64 = 7, STRING = 8, OPSET = 17 };

static int logged;

static void count_line(void *user, OrtLoggingLevel level, const char *category, const char *id, const char *location,
                       const char *message)
{
    (void)level, (void)category, (void)id, (void)location, (void)message;
    logged += user == &logged;
}

static int begin(void **state)
{
    OrtThreadingOptions *threads;
    OrtEnv *pooled;
    int failed = ort_test_begin(state);

    if (failed != 0)
        return failed;
    assert_non_null(api->GetBuildInfoString());
    ok(api->CreateThreadingOptions(&threads));
    ok(api->SetGlobalIntraOpNumThreads(threads, 1));
    ok(api->SetGlobalInterOpNumThreads(threads, 1));
    ok(api->SetGlobalSpinControl(threads, 0));
    ok(api->SetGlobalDenormalAsZero(threads));
    ok(api->CreateEnvWithCustomLoggerAndGlobalThreadPools(count_line, &logged, ORT_LOGGING_LEVEL_VERBOSE, "ort",
                                                          threads, &pooled));
    api->ReleaseThreadingOptions(threads);
    ok(api->DisableTelemetryEvents(pooled));
    ok(api->UpdateEnvWithCustomLogLevel(pooled, ORT_LOGGING_LEVEL_FATAL));
    assert_ptr_equal(pooled, env); /* a process has one environment */
    api->ReleaseEnv(pooled);
    return 0;
}

/* y = x + w, w [2] of ones may be replaced; with metadata. */
static void write_add(struct wire *wire)
{
    wire_mark mark;

    wire_text(wire, 2, "a maker");
    wire_text(wire, 4, "com.example");
    wire_int(wire, 5, 42);
    wire_text(wire, 6, "adds");
    mw_entry(wire, 14, "author", "an author");
    mark = mw_begin(wire, 8, OPSET);
    mw_value(wire, MW_INPUT, "x", FLOAT, "N,2");
    mw_value(wire, MW_INPUT, "w", FLOAT, "2");
    mw_ones(wire, "w", 2);
    mw_node(wire, "Add", "x,w", "y");
    mw_value(wire, MW_OUTPUT, "y", FLOAT, "N,2");
    wire_end(wire, mark);
}

static OrtSessionOptions *options_of_builder(void)
{
    OrtSessionOptions *options, *clone;

    ok(api->CreateSessionOptions(&options));
    ok(api->SetIntraOpNumThreads(options, 2));
    ok(api->SetInterOpNumThreads(options, 1));
    ok(api->SetSessionExecutionMode(options, 0));
    ok(api->SetSessionGraphOptimizationLevel(options, 99));
    ok(api->EnableMemPattern(options));
    ok(api->DisableMemPattern(options));
    ok(api->EnableCpuMemArena(options));
    ok(api->SetDeterministicCompute(options, true));
    ok(api->SetSessionLogId(options, "session"));
    ok(api->SetUserLoggingFunction(options, count_line, &logged));
    ok(api->SetSessionLogSeverityLevel(options, ORT_LOGGING_LEVEL_FATAL));
    ok(api->SetSessionLogVerbosityLevel(options, 0));
    ok(api->AddSessionConfigEntry(options, "session.set_denormal_as_zero", "1"));
    ok(api->AddFreeDimensionOverride(options, "DATA_BATCH", 1));
    ok(api->SessionOptionsSetLoadCancellationFlag(options, false));
    ok(api->CloneSessionOptions(options, &clone));
    api->ReleaseSessionOptions(options);
    return clone;
}

static void check_text(char *text, const char *expected)
{
    assert_string_equal(text, expected);
    ok(api->AllocatorFree(allocator, text));
}

static void read_metadata(const OrtSession *session)
{
    OrtModelMetadata *metadata;
    int64_t version, count;
    char *text = NULL, **keys;

    ok(api->SessionGetModelMetadata(session, &metadata));
    ok(api->ModelMetadataGetProducerName(metadata, allocator, &text));
    check_text(text, "a maker");
    ok(api->ModelMetadataGetGraphName(metadata, allocator, &text));
    check_text(text, "g");
    ok(api->ModelMetadataGetDomain(metadata, allocator, &text));
    check_text(text, "com.example");
    ok(api->ModelMetadataGetDescription(metadata, allocator, &text));
    check_text(text, "adds");
    ok(api->ModelMetadataGetVersion(metadata, &version));
    assert_int_equal(version, 42);
    ok(api->ModelMetadataGetCustomMetadataMapKeys(metadata, allocator, &keys, &count));
    assert_int_equal(count, 1);
    ok(api->ModelMetadataLookupCustomMetadataMap(metadata, allocator, keys[0], &text));
    check_text(text, "an author");
    ok(api->AllocatorFree(allocator, keys[0]));
    ok(api->AllocatorFree(allocator, keys));
    ok(api->ModelMetadataLookupCustomMetadataMap(metadata, allocator, "reader", &text));
    assert_null(text);
    api->ReleaseModelMetadata(metadata);
}

static void gives(OrtSession *session, const OrtRunOptions *options, float first, float second)
{
    const char *const in = "x", *const out = "y";
    const int64_t dims[] = { 1, 2 };
    float data[] = { 1, 2 };
    OrtValue *x = tensor(FLOAT, dims, 2, data, sizeof data), *y = NULL;
    const OrtValue *inputs[] = { x };
    void *got;

    ok(api->Run(session, options, &in, inputs, 1, &out, 1, &y));
    ok(api->GetTensorMutableData(y, &got));
    assert_float_equal(((float *)got)[0], first, 0);
    assert_float_equal(((float *)got)[1], second, 0);
    api->ReleaseValue(x);
    api->ReleaseValue(y);
}

static void test_session(void **state)
{
    const int64_t two = 2;
    float tens[] = { 10, 20 };
    struct wire wire = { 0 };
    OrtSessionOptions *options = options_of_builder();
    OrtPrepackedWeightsContainer *container;
    OrtValue *w = tensor(FLOAT, &two, 1, tens, sizeof tens);
    OrtMemoryInfo *info;
    OrtAllocator *of_session;
    OrtSession *session;
    size_t count;
    uint64_t start;
    char *name;

    (void)state;
    write_add(&wire);
    ok(api->CreatePrepackedWeightsContainer(&container));
    ok(api->CreateSessionFromArrayWithPrepackedWeightsContainer(env, wire.bytes, wire.count, options, container,
                                                                &session));
    ok(api->CreateMemoryInfo("Cpu", ORT_DEVICE_ALLOCATOR, 0, ORT_MEM_CPU_OUTPUT, &info));
    ok(api->CreateAllocator(session, info, &of_session));
    ok(api->SessionGetOverridableInitializerCount(session, &count));
    assert_int_equal(count, 1);
    ok(api->SessionGetOverridableInitializerName(session, 0, of_session, &name));
    assert_string_equal(name, "w");
    ok(api->AllocatorFree(of_session, name));
    api->ReleaseMemoryInfo(info);
    read_metadata(session);
    ok(api->SessionGetProfilingStartTimeNs(session, &start));
    assert_int_equal(start, 0);
    gives(session, NULL, 2, 3);
    api->ReleaseAllocator(of_session);
    api->ReleaseSession(session);
    api->ReleasePrepackedWeightsContainer(container);
    ok(api->AddInitializer(options, "w", w));
    session = session_of(&wire, options);
    gives(session, NULL, 11, 22);
    api->ReleaseSession(session);
    api->ReleaseValue(w);
    api->ReleaseSessionOptions(options);
    free(wire.bytes);
}

static void test_run_options(void **state)
{
    struct wire wire = { 0 };
    OrtRunOptions *options;
    OrtSession *session;
    const char *text;
    int level;

    (void)state;
    write_add(&wire);
    session = session_of(&wire, NULL);
    ok(api->CreateRunOptions(&options));
    ok(api->RunOptionsSetRunTag(options, "tag"));
    ok(api->RunOptionsGetRunTag(options, &text));
    assert_string_equal(text, "tag");
    ok(api->RunOptionsSetRunLogSeverityLevel(options, ORT_LOGGING_LEVEL_FATAL));
    ok(api->RunOptionsGetRunLogSeverityLevel(options, &level));
    assert_int_equal(level, ORT_LOGGING_LEVEL_FATAL);
    ok(api->RunOptionsSetRunLogVerbosityLevel(options, 1));
    ok(api->RunOptionsGetRunLogVerbosityLevel(options, &level));
    assert_int_equal(level, 1);
    ok(api->AddRunConfigEntry(options, "key", "value"));
    assert_string_equal(api->GetRunConfigEntry(options, "key"), "value");
    assert_null(api->GetRunConfigEntry(options, "other"));
    ok(api->RunOptionsSetTerminate(options));
    ok(api->RunOptionsUnsetTerminate(options));
    gives(session, options, 2, 3);
    api->ReleaseRunOptions(options);
    api->ReleaseSession(session);
    free(wire.bytes);
}

static void test_values(void **state)
{
    const int64_t dims[] = { 2, 2 }, two = 2, at[] = { 1, 0 };
    const char *const texts[] = { "one", "second" };
    int64_t numbers[] = { 7, 8 };
    float data[] = { 1, 2, 3, 4 };
    OrtValue *keys = tensor(INT64, &two, 1, numbers, sizeof numbers), *part = tensor(FLOAT, &two, 1, data, 8);
    OrtValue *value = tensor(FLOAT, dims, 2, data, sizeof data), *strings, *map, *list, *item;
    const OrtValue *pair[] = { keys, part }, *parts[] = { part, part };
    const OrtMapTypeInfo *map_type;
    OrtTypeInfo *type;
    ONNXTensorElementDataType key_type;
    size_t count, offsets[2];
    char content[9];
    void *element;
    int is_tensor;

    (void)state;
    ok(api->IsTensor(value, &is_tensor));
    assert_int_equal(is_tensor, 1);
    ok(api->GetTensorSizeInBytes(value, &count));
    assert_int_equal(count, sizeof data);
    ok(api->TensorAt(value, at, 2, &element));
    assert_float_equal(*(float *)element, 3, 0);
    ok(api->CreateTensorAsOrtValue(allocator, &two, 1, STRING, &strings));
    ok(api->FillStringTensor(strings, texts, 2));
    ok(api->GetStringTensorDataLength(strings, &count));
    assert_int_equal(count, sizeof content);
    ok(api->GetStringTensorContent(strings, content, sizeof content, offsets, 2));
    assert_memory_equal(content, "onesecond", sizeof content);
    assert_int_equal(offsets[1], 3);
    ok(api->CreateValue(pair, 2, ONNX_TYPE_MAP, &map));
    ok(api->GetTypeInfo(map, &type));
    ok(api->CastTypeInfoToMapTypeInfo(type, &map_type));
    ok(api->GetMapKeyType(map_type, &key_type));
    assert_int_equal(key_type, INT64);
    api->ReleaseTypeInfo(type);
    ok(api->GetValue(map, 0, allocator, &item));
    ok(api->GetTensorMutableData(item, &element));
    assert_int_equal(((int64_t *)element)[1], 8);
    api->ReleaseValue(item);
    ok(api->CreateValue(parts, 2, ONNX_TYPE_SEQUENCE, &list));
    ok(api->GetValueCount(list, &count));
    assert_int_equal(count, 2);
    ok(api->GetValue(list, 1, allocator, &item));
    api->ReleaseValue(item);
    api->ReleaseValue(list);
    api->ReleaseValue(map);
    api->ReleaseValue(strings);
    api->ReleaseValue(value);
    api->ReleaseValue(part);
    api->ReleaseValue(keys);
}

static void test_binding(void **state)
{
    const int64_t dims[] = { 1, 2 };
    float data[] = { 1, 2 };
    struct wire wire = { 0 };
    OrtValue *x = tensor(FLOAT, dims, 2, data, sizeof data), **values;
    OrtIoBinding *binding;
    OrtSession *session;
    size_t count;
    void *got;

    (void)state;
    write_add(&wire);
    session = session_of(&wire, NULL);
    ok(api->CreateIoBinding(session, &binding));
    ok(api->BindInput(binding, "x", x));
    ok(api->BindOutputToDevice(binding, "y", cpu()));
    for (float first = 1; first < 4; first++) {
        data[0] = first;
        ok(api->SynchronizeBoundInputs(binding));
        ok(api->RunWithBinding(session, NULL, binding));
        ok(api->SynchronizeBoundOutputs(binding));
        ok(api->GetBoundOutputValues(binding, allocator, &values, &count));
        assert_int_equal(count, 1);
        ok(api->GetTensorMutableData(values[0], &got));
        assert_float_equal(((float *)got)[0], first + 1, 0);
        api->ReleaseValue(values[0]);
        ok(api->AllocatorFree(allocator, values));
    }
    api->ClearBoundInputs(binding);
    api->ClearBoundOutputs(binding);
    api->ReleaseIoBinding(binding);
    api->ReleaseValue(x);
    api->ReleaseSession(session);
    free(wire.bytes);
}

struct waiting {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
    OrtStatus *status;
};

static void wake(void *user, OrtValue **outputs, size_t count, OrtStatus *status)
{
    struct waiting *waiting = user;

    (void)outputs, (void)count;
    (void)pthread_mutex_lock(&waiting->lock);
    waiting->done = true;
    waiting->status = status;
    (void)pthread_cond_signal(&waiting->changed);
    (void)pthread_mutex_unlock(&waiting->lock);
}

static void test_async(void **state)
{
    struct waiting waiting = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
    const char *const in = "x", *const out = "y";
    const int64_t dims[] = { 1, 2 };
    float data[] = { 1, 2 };
    struct wire wire = { 0 };
    OrtSessionOptions *session_options = options_of_builder();
    OrtValue *x = tensor(FLOAT, dims, 2, data, sizeof data), *y = NULL;
    const OrtValue *inputs[] = { x };
    OrtRunOptions *options;
    OrtSession *session;
    void *got;

    (void)state;
    write_add(&wire);
    session = session_of(&wire, session_options);
    ok(api->CreateRunOptions(&options));
    ok(api->RunAsync(session, options, &in, inputs, 1, &out, 1, &y, wake, &waiting));
    (void)pthread_mutex_lock(&waiting.lock);
    while (!waiting.done)
        (void)pthread_cond_wait(&waiting.changed, &waiting.lock);
    (void)pthread_mutex_unlock(&waiting.lock);
    ok(waiting.status);
    ok(api->GetTensorMutableData(y, &got));
    assert_float_equal(((float *)got)[1], 3, 0);
    api->ReleaseValue(y);
    api->ReleaseValue(x);
    api->ReleaseRunOptions(options);
    api->ReleaseSessionOptions(session_options);
    api->ReleaseSession(session);
    free(wire.bytes);
}

static OrtTypeInfo *tensor_type(const OrtModelEditorApi *editor)
{
    const char *symbols[] = { "N", "" };
    const int64_t dims[] = { -1, 2 };
    OrtTensorTypeAndShapeInfo *shape;
    OrtTypeInfo *type;

    ok(api->CreateTensorTypeAndShapeInfo(&shape));
    ok(api->SetTensorElementType(shape, FLOAT));
    ok(api->SetDimensions(shape, dims, 2));
    ok(api->SetSymbolicDimensions(shape, symbols, 2));
    ok(editor->CreateTensorTypeInfo(shape, &type));
    api->ReleaseTensorTypeAndShapeInfo(shape);
    return type;
}

static OrtValueInfo *port(const OrtModelEditorApi *editor, const char *name)
{
    OrtTypeInfo *type = tensor_type(editor);
    OrtValueInfo *info;

    ok(editor->CreateValueInfo(name, type, &info));
    api->ReleaseTypeInfo(type);
    return info;
}

/* The types that values of models can have. */
static void test_types(void **state)
{
    const OrtModelEditorApi *editor = api->GetModelEditorApi();
    OrtTypeInfo *inner = tensor_type(editor), *sequence, *optional, *map, *contained;
    const OrtOptionalTypeInfo *optional_type;
    ONNXType kind;

    (void)state;
    ok(editor->CreateSequenceTypeInfo(inner, &sequence));
    ok(editor->CreateOptionalTypeInfo(inner, &optional));
    ok(editor->CreateMapTypeInfo(INT64, inner, &map));
    ok(api->GetOnnxTypeFromTypeInfo(sequence, &kind));
    assert_int_equal(kind, ONNX_TYPE_SEQUENCE);
    ok(api->GetOnnxTypeFromTypeInfo(map, &kind));
    assert_int_equal(kind, ONNX_TYPE_MAP);
    ok(api->CastTypeInfoToOptionalTypeInfo(optional, &optional_type));
    ok(api->GetOptionalContainedTypeInfo(optional_type, &contained));
    ok(api->GetOnnxTypeFromTypeInfo(contained, &kind));
    assert_int_equal(kind, ONNX_TYPE_TENSOR);
    api->ReleaseTypeInfo(contained);
    api->ReleaseTypeInfo(map);
    api->ReleaseTypeInfo(optional);
    api->ReleaseTypeInfo(sequence);
    api->ReleaseTypeInfo(inner);
}

/* y = x + 1, built, run and compiled. */
static OrtModel *build(const OrtModelEditorApi *editor)
{
    const char *const inputs[] = { "x", "one" }, *const output = "y", *const domain = "";
    const int version = OPSET;
    const int64_t one = 1;
    OrtValueInfo *in = port(editor, "x"), *out = port(editor, "y");
    OrtValue *weight;
    OrtGraph *graph;
    OrtModel *model;
    OrtNode *node;
    void *data;

    ok(editor->CreateGraph(&graph));
    ok(editor->SetGraphInputs(graph, &in, 1));
    ok(editor->SetGraphOutputs(graph, &out, 1));
    ok(api->CreateTensorAsOrtValue(allocator, &one, 1, FLOAT, &weight));
    ok(api->GetTensorMutableData(weight, &data));
    *(float *)data = 1;
    ok(editor->AddInitializerToGraph(graph, "one", weight, false));
    ok(editor->CreateNode("Add", "", "add", inputs, 2, &output, 1, NULL, 0, &node));
    ok(editor->AddNodeToGraph(graph, node));
    ok(editor->CreateModel(&domain, &version, 1, &model));
    ok(editor->AddGraphToModel(model, graph));
    return model;
}

static void test_editor(void **state)
{
    const OrtModelEditorApi *editor = api->GetModelEditorApi();
    OrtModel *model = build(editor);
    OrtSessionOptions *options = options_of_builder();
    OrtSession *session;
    int opset;

    (void)state;
    ok(editor->CreateSessionFromModel(env, model, options, &session));
    ok(editor->SessionGetOpsetForDomain(session, "", &opset));
    assert_int_equal(opset, OPSET);
    gives(session, NULL, 2, 3);
    api->ReleaseSession(session);
    api->ReleaseSessionOptions(options);
    api->ReleaseModel(model);
}

static void test_compile(void **state)
{
    const OrtCompileApi *compiler = api->GetCompileApi();
    struct wire wire = { 0 };
    OrtSessionOptions *options;
    OrtModelCompilationOptions *compilation;
    OrtSession *session;
    size_t bytes = 0;
    void *buffer = NULL;

    (void)state;
    write_add(&wire);
    ok(api->CreateSessionOptions(&options));
    ok(compiler->CreateModelCompilationOptionsFromSessionOptions(env, options, &compilation));
    ok(compiler->ModelCompilationOptions_SetInputModelFromBuffer(compilation, wire.bytes, wire.count));
    ok(compiler->ModelCompilationOptions_SetEpContextEmbedMode(compilation, true));
    ok(compiler->ModelCompilationOptions_SetOutputModelBuffer(compilation, allocator, &buffer, &bytes));
    ok(compiler->CompileModel(env, compilation));
    compiler->ReleaseModelCompilationOptions(compilation);
    ok(api->CreateSessionFromArray(env, buffer, bytes, options, &session));
    gives(session, NULL, 2, 3);
    api->ReleaseSession(session);
    ok(api->AllocatorFree(allocator, buffer));
    api->ReleaseSessionOptions(options);
    free(wire.bytes);
}

/* y = x * factor; `ort` fills the functions that it has, and leaves others NULL. */
static OrtStatus *create_kernel(const OrtCustomOp *op, const OrtApi *table, const OrtKernelInfo *info, void **out)
{
    char name[8], text[16];
    size_t bytes = 0, count = 0;
    float *factor = malloc(sizeof *factor);
    const OrtValue *constant = NULL;
    const OrtLogger *logger;
    OrtTypeInfo *type;
    OrtLoggingLevel level;
    OrtKernelInfo *copy;
    int is_constant = 1;

    (void)op, (void)table;
    *out = factor;
    ok(api->KernelInfo_GetInputCount(info, &count));
    assert_int_equal(count, 1);
    ok(api->KernelInfo_GetInputName(info, 0, NULL, &bytes));
    assert_int_equal(bytes, 2);
    ok(api->KernelInfo_GetInputName(info, 0, name, &bytes));
    assert_string_equal(name, "x");
    ok(api->KernelInfo_GetInputTypeInfo(info, 0, &type));
    api->ReleaseTypeInfo(type);
    ok(api->KernelInfo_GetOutputCount(info, &count));
    ok(api->KernelInfo_GetOutputTypeInfo(info, 0, &type));
    api->ReleaseTypeInfo(type);
    ok(api->KernelInfoGetConstantInput_tensor(info, 0, &is_constant, &constant));
    assert_int_equal(is_constant, 0);
    assert_null(constant);
    bytes = 0;
    ok(api->KernelInfo_GetNodeName(info, NULL, &bytes));
    assert_true(bytes <= sizeof text);
    ok(api->KernelInfo_GetNodeName(info, text, &bytes));
    ok(api->KernelInfo_GetLogger(info, &logger));
    ok(api->Logger_GetLoggingSeverityLevel(logger, &level));
    ok(api->Logger_LogMessage(logger, ORT_LOGGING_LEVEL_VERBOSE, "made", "here", 1, "create"));
    ok(api->CopyKernelInfo(info, &copy));
    api->ReleaseKernelInfo(copy);
    return api->KernelInfoGetAttribute_float(info, "factor", factor);
}

static OrtStatus *compute(void *kernel, OrtKernelContext *context)
{
    const OrtValue *x;
    OrtValue *y;
    OrtTensorTypeAndShapeInfo *shape;
    int64_t dims[2];
    size_t count, rank;
    void *from, *to;

    ok(api->KernelContext_GetInputCount(context, &count));
    ok(api->KernelContext_GetOutputCount(context, &count));
    ok(api->KernelContext_GetInput(context, 0, &x));
    ok(api->GetTensorTypeAndShape(x, &shape));
    ok(api->GetDimensionsCount(shape, &rank));
    ok(api->GetDimensions(shape, dims, rank));
    ok(api->GetTensorShapeElementCount(shape, &count));
    api->ReleaseTensorTypeAndShapeInfo(shape);
    ok(api->KernelContext_GetOutput(context, 0, dims, rank, &y));
    ok(api->GetTensorMutableData((OrtValue *)(uintptr_t)x, &from));
    ok(api->GetTensorMutableData(y, &to));
    for (size_t i = 0; i < count; i++)
        ((float *)to)[i] = ((float *)from)[i] * *(float *)kernel;
    return NULL;
}

static OrtStatus *infer(const OrtCustomOp *op, OrtShapeInferContext *context)
{
    OrtTensorTypeAndShapeInfo *shape;
    const OrtOpAttr *attr;
    size_t count, bytes = 0;
    float factor = 0;

    (void)op;
    ok(api->ShapeInferContext_GetInputCount(context, &count));
    assert_int_equal(count, 1);
    ok(api->ShapeInferContext_GetInputTypeShape(context, 0, &shape));
    ok(api->ShapeInferContext_GetAttribute(context, "factor", &attr));
    ok(api->ReadOpAttr(attr, ORT_OP_ATTR_FLOAT, &factor, sizeof factor, &bytes));
    assert_float_equal(factor, 3, 0);
    return api->ShapeInferContext_SetOutputTypeShape(context, 0, shape);
}

static const char *op_name(const OrtCustomOp *op)
{
    (void)op;
    return "Times";
}

static void test_operator(void **state)
{
    static const OrtCustomOp times = {
        .version = 17,
        .GetName = op_name,
        CUSTOM_OP_COMMON,
        CUSTOM_OP_FLOATS,
        .KernelDestroy = free,
        .CreateKernelV2 = create_kernel,
        .KernelComputeV2 = compute,
        .InferOutputShapeFn = infer,
    };
    struct wire wire = { 0 };
    OrtSessionOptions *options;
    OrtCustomOpDomain *domain;
    OrtSession *session;
    wire_mark mark, node, attr;

    (void)state;
    mw_opset(&wire, 8, "of.rust", 1);
    mark = mw_begin(&wire, 8, OPSET);
    mw_value(&wire, MW_INPUT, "x", FLOAT, "N,2");
    node = mw_node_begin(&wire, "Times", "x", "y");
    wire_text(&wire, 7, "of.rust");
    attr = wire_begin(&wire, 5);
    wire_text(&wire, 1, "factor");
    wire_float(&wire, 2, 3);
    wire_int(&wire, 20, 1); /* FLOAT */
    wire_end(&wire, attr);
    wire_end(&wire, node);
    mw_value(&wire, MW_OUTPUT, "y", FLOAT, "N,2");
    wire_end(&wire, mark);
    ok(api->CreateCustomOpDomain("of.rust", &domain));
    ok(api->CustomOpDomain_Add(domain, &times));
    ok(api->CreateSessionOptions(&options));
    ok(api->AddCustomOpDomain(options, domain));
    session = session_of(&wire, options);
    gives(session, NULL, 3, 6);
    api->ReleaseSession(session);
    api->ReleaseSessionOptions(options);
    api->ReleaseCustomOpDomain(domain);
    free(wire.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_session), cmocka_unit_test(test_run_options), cmocka_unit_test(test_values),
        cmocka_unit_test(test_binding), cmocka_unit_test(test_async),       cmocka_unit_test(test_types),
        cmocka_unit_test(test_editor),  cmocka_unit_test(test_compile),     cmocka_unit_test(test_operator),
    };

    return cmocka_run_group_tests(tests, begin, ort_test_end);
}
