/* Models that a program builds, extends and compiles, and initializers that it replaces, through the table. */
#include "ort_test.h"
#include <fcntl.h>
#include <unistd.h>

/* The tables with their types. */
struct OrtModelEditorApi {
#define ENTRY(returns, name, params) returns(*name) params;
#include "editor.def"
};
struct OrtCompileApi {
#include "compile.def"
#undef ENTRY
};

enum { FLOAT = 1, INT64 = 7, ROWS = 3, COLUMNS = 16, OPSET = 18 };

static const OrtModelEditorApi *editor;
static const OrtCompileApi *compiler;

static int begin(void **state)
{
    int failed = ort_test_begin(state);

    if (failed == 0) {
        editor = api->GetModelEditorApi();
        compiler = api->GetCompileApi();
    }
    return failed;
}

static OrtValueInfo *port(const char *name, const int64_t *dims, size_t rank)
{
    OrtTensorTypeAndShapeInfo *shape;
    OrtValueInfo *info;
    OrtTypeInfo *type;

    ok(api->CreateTensorTypeAndShapeInfo(&shape));
    ok(api->SetTensorElementType(shape, FLOAT));
    ok(api->SetDimensions(shape, dims, rank));
    ok(editor->CreateTensorTypeInfo(shape, &type));
    api->ReleaseTensorTypeAndShapeInfo(shape);
    ok(editor->CreateValueInfo(name, type, &info));
    api->ReleaseTypeInfo(type);
    return info;
}

static OrtNode *node(const char *op, const char *first, const char *second, const char *output, OrtOpAttr *attr)
{
    const char *inputs[] = { first, second };
    OrtNode *made;

    ok(editor->CreateNode(op, "", output, inputs, second != NULL ? 2 : 1, &output, 1, &attr, attr != NULL ? 1 : 0,
                          &made));
    return made;
}

static OrtModel *model_of(OrtGraph *graph)
{
    const char *domain = "";
    const int version = OPSET;
    OrtModel *model;

    ok(editor->CreateModel(&domain, &version, 1, &model));
    ok(editor->AddGraphToModel(model, graph));
    return model;
}

static OrtValue *small_tensor(float value)
{
    const int64_t one = 1;
    OrtValue *made;
    void *data;

    ok(api->CreateTensorAsOrtValue(allocator, &one, 1, FLOAT, &made));
    ok(api->GetTensorMutableData(made, &data));
    memcpy(data, &value, sizeof value);
    return made;
}

/* Weights that sum each row, times factor. */
static float weights[COLUMNS * 4];
static OrtValue *big_tensor(float factor)
{
    const int64_t dims[] = { COLUMNS, 4 };

    for (size_t i = 0; i < COLUMNS * 4; i++)
        weights[i] = factor;
    return tensor(FLOAT, dims, 2, weights, sizeof weights);
}

static void set_port(OrtStatus *(*set)(OrtGraph *, OrtValueInfo **, size_t), OrtGraph *graph, OrtValueInfo *value)
{
    ok(set(graph, &value, 1));
    assert_null(value);
}

/* y = LeakyRelu(x * w + b), alpha 0.5 */
static OrtModel *build(float factor)
{
    const int64_t in[] = { -1, COLUMNS }, out[] = { -1, 4 };
    const float alpha = 0.5f;
    OrtOpAttr *attr;
    OrtGraph *graph;

    ok(editor->CreateGraph(&graph));
    set_port(editor->SetGraphInputs, graph, port("x", in, 2));
    set_port(editor->SetGraphOutputs, graph, port("y", out, 2));
    ok(editor->AddInitializerToGraph(graph, "w", big_tensor(factor), true));
    ok(editor->AddInitializerToGraph(graph, "b", small_tensor(-20), false));
    ok(editor->AddNodeToGraph(graph, node("MatMul", "x", "w", "product", NULL)));
    ok(editor->AddNodeToGraph(graph, node("Add", "product", "b", "sum", NULL)));
    ok(api->CreateOpAttr("alpha", &alpha, 1, ORT_OP_ATTR_FLOAT, &attr));
    ok(editor->AddNodeToGraph(graph, node("LeakyRelu", "sum", NULL, "y", attr)));
    return model_of(graph);
}

/* All elements of output, for inputs of 1, are equal to expected. */
static void gives(OrtSession *session, const char *output, float expected)
{
    const int64_t dims[] = { ROWS, COLUMNS };
    float ones[ROWS * COLUMNS];
    OrtValue *x, *y;
    void *data;

    for (size_t i = 0; i < ROWS * COLUMNS; i++)
        ones[i] = 1;
    x = tensor(FLOAT, dims, 2, ones, sizeof ones);
    y = run1(session, "x", x, output);
    ok(api->GetTensorMutableData(y, &data));
    for (size_t i = 0; i < ROWS * 4; i++)
        assert_float_equal(((float *)data)[i], expected, 1e-6);
    api->ReleaseValue(x);
    api->ReleaseValue(y);
}

static OrtSession *session_of_model(OrtModel *model)
{
    OrtSessionOptions *options;
    OrtSession *session;

    ok(api->CreateSessionOptions(&options));
    ok(editor->CreateSessionFromModel(env, model, options, &session));
    api->ReleaseSessionOptions(options);
    api->ReleaseModel(model);
    return session;
}

static void test_build(void **state)
{
    OrtSession *up = session_of_model(build(2)), *down = session_of_model(build(1));
    size_t count;

    (void)state;
    ok(api->SessionGetInputCount(up, &count));
    assert_int_equal(count, 1);
    gives(up, "y", 12); /* 16 * 2 - 20 */
    api->ReleaseSession(down);
    down = session_of_model(build(1));
    gives(down, "y", -2); /* (16 - 20) / 2 */
    api->ReleaseSession(up);
    api->ReleaseSession(down);
}

static void test_info(void **state)
{
    const int64_t dims[] = { -1, 4 };
    OrtValueInfo *info = port("v", dims, 2);
    const OrtTensorTypeAndShapeInfo *shape;
    const OrtTypeInfo *type;
    const char *name;
    int64_t got[2];

    (void)state;
    ok(api->GetValueInfoName(info, &name));
    assert_string_equal(name, "v");
    ok(api->GetValueInfoTypeInfo(info, &type));
    ok(api->CastTypeInfoToTensorInfo(type, &shape));
    ok(api->GetDimensions(shape, got, 2));
    assert_int_equal(got[0], -1);
    assert_int_equal(got[1], 4);
    api->ReleaseValueInfo(info);
}

/* After a refusal, the caller still owns the object. */
static void test_build_refusals(void **state)
{
    const int64_t dims[] = { 1 };
    OrtValue *value = small_tensor(1);
    const char *names[] = { "x" };
    OrtValueInfo *ports[2] = { port("x", dims, 1), NULL };
    OrtNode *added = node("Relu", "x", NULL, "y", NULL), *bad;
    OrtSession *session;
    OrtModel *model;
    OrtGraph *graph, *other;
    OrtValueInfo *info;
    OrtSessionOptions *options;

    (void)state;
    ok(editor->CreateGraph(&graph));
    fails(editor->SetGraphInputs(graph, ports, 2), ORT_INVALID_ARGUMENT, "null");
    assert_non_null(ports[0]);
    fails(editor->AddInitializerToGraph(graph, "i", value, true), ORT_INVALID_ARGUMENT,
          "data_is_external=true requires");
    ok(editor->AddInitializerToGraph(graph, "i", value, false));
    fails(editor->AddInitializerToGraph(graph, "k", value, false), ORT_INVALID_ARGUMENT, "");
    ok(editor->AddNodeToGraph(graph, added));
    fails(editor->AddNodeToGraph(graph, added), ORT_INVALID_ARGUMENT, "");
    fails(editor->CreateValueInfo("", NULL, &info), ORT_INVALID_ARGUMENT, "name cannot be null or empty string");
    if (ours())
        fails(editor->CreateNode("", "", "", names, 1, names, 1, NULL, 0, &bad), ORT_INVALID_ARGUMENT,
              "operator_name cannot be null or empty string");
    model = model_of(graph);
    ok(editor->CreateGraph(&other));
    fails(editor->AddGraphToModel(model, other), ORT_INVALID_ARGUMENT, "");
    api->ReleaseGraph(other);
    api->ReleaseValueInfo(ports[0]);
    ok(api->CreateSessionOptions(&options));
    session = NULL;
    if (ours()) /* ONNX Runtime creates a session without outputs */
        fails(editor->CreateSessionFromModel(env, model, options, &session), ORT_INVALID_ARGUMENT, "SetGraphOutputs");
    assert_null(session);
    api->ReleaseSessionOptions(options);
    api->ReleaseModel(model);
}

/* sum = x * w + b; w [16, 4], b [1] */
static void write_linear(struct wire *wire)
{
    const int64_t dims[] = { COLUMNS, 4 };
    wire_mark mark = mw_begin(wire, 8, OPSET), w;

    mw_value(wire, MW_INPUT, "x", FLOAT, "N,16");
    w = wire_begin(wire, 5);
    mw_tensor_head(wire, "w", FLOAT, 2, dims);
    for (size_t i = 0; i < COLUMNS * 4; i++)
        weights[i] = 1;
    wire_bytes(wire, 9, weights, sizeof weights);
    wire_end(wire, w);
    mw_ones(wire, "b", 1);
    mw_node(wire, "MatMul", "x,w", "product");
    mw_node(wire, "Add", "product,b", "sum");
    mw_value(wire, MW_OUTPUT, "sum", FLOAT, "N,4");
    wire_end(wire, mark);
}

/* A node after those of the model: y = sum * c. */
static OrtModel *after(void)
{
    const int64_t dims[] = { -1, 4 };
    OrtGraph *graph;

    ok(editor->CreateGraph(&graph));
    ok(editor->AddInitializerToGraph(graph, "c", small_tensor(-3), false));
    ok(editor->AddNodeToGraph(graph, node("Mul", "sum", "c", "y", NULL)));
    set_port(editor->SetGraphOutputs, graph, port("y", dims, 2));
    return model_of(graph);
}

static void test_extend(void **state)
{
    struct wire wire = { 0 };
    OrtSessionOptions *options;
    OrtSession *session;
    OrtModel *model = after();
    int version = 0;

    (void)state;
    write_linear(&wire);
    ok(api->CreateSessionOptions(&options));
    ok(editor->CreateModelEditorSessionFromArray(env, wire.bytes, wire.count, options, &session));
    ok(editor->SessionGetOpsetForDomain(session, "", &version));
    assert_int_equal(version, OPSET);
    fails(editor->SessionGetOpsetForDomain(session, "com.example", &version), ORT_FAIL, "Domain not used by model.");
    ok(editor->ApplyModelToModelEditorSession(session, model));
    api->ReleaseModel(model);
    ok(editor->FinalizeModelEditorSession(session, options, NULL));
    gives(session, "y", -51); /* (16 + 1) * -3 */
    api->ReleaseSession(session);
    api->ReleaseSessionOptions(options);
    free(wire.bytes);
}

/* A session that is not finalized cannot run; one that is cannot be edited. */
static void test_extend_states(void **state)
{
    struct wire wire = { 0 };
    OrtModelMetadata *metadata;
    OrtSessionOptions *options;
    OrtModel *model = after();
    OrtSession *session, *plain;
    const char *name = "x";
    OrtValue *value = small_tensor(1), *out = NULL;

    (void)state;
    write_linear(&wire);
    ok(api->CreateSessionOptions(&options));
    plain = session_of(&wire, options);
    fails(editor->ApplyModelToModelEditorSession(plain, model), ORT_MODEL_LOADED, "already");
    api->ReleaseSession(plain);
    if (ours()) { /* ONNX Runtime 1.30 checks only some of these */
        ok(editor->CreateModelEditorSessionFromArray(env, wire.bytes, wire.count, options, &session));
        fails(api->Run(session, NULL, &name, (const OrtValue *const *)&value, 1, &name, 1, &out), ORT_FAIL,
              "FinalizeModelEditorSession");
        fails(api->SessionGetModelMetadata(session, &metadata), ORT_FAIL, "FinalizeModelEditorSession");
        api->ReleaseSession(session);
        /* a second attempt after options that are refused */
        ok(editor->CreateModelEditorSessionFromArray(env, wire.bytes, wire.count, options, &session));
        ok(api->AddSessionConfigEntry(options, "inlay.level", "no number"));
        fails(editor->FinalizeModelEditorSession(session, options, NULL), ORT_INVALID_ARGUMENT, "level");
        ok(api->AddSessionConfigEntry(options, "inlay.level", "0"));
        ok(editor->FinalizeModelEditorSession(session, options, NULL));
        gives(session, "sum", 17);
        api->ReleaseSession(session);
    }
    api->ReleaseModel(model);
    api->ReleaseValue(value);
    api->ReleaseSessionOptions(options);
    free(wire.bytes);
}

static void test_initializer(void **state)
{
    struct wire wire = { 0 };
    OrtSessionOptions *options;
    OrtSession *session;
    OrtValue *value;
    const int64_t one = 1;
    float two = 2;
    OrtValue *b = tensor(FLOAT, &one, 1, &two, sizeof two);

    (void)state;
    write_linear(&wire);
    value = big_tensor(5);
    ok(api->CreateSessionOptions(&options));
    ok(api->AddInitializer(options, "w", value));
    ok(api->AddInitializer(options, "b", b));
    ok(api->AddInitializer(options, "not in the model", b));
    fails(api->AddInitializer(options, "b", b), ORT_INVALID_ARGUMENT, "already");
    session = session_of(&wire, options);
    gives(session, "sum", 82); /* 16 * 5 + 2 */
    api->ReleaseSession(session);
    api->ReleaseSessionOptions(options);
    api->ReleaseValue(value);
    api->ReleaseValue(b);
    free(wire.bytes);
}

static void test_initializer_refusals(void **state)
{
    struct wire wire = { 0 };
    OrtSessionOptions *options;
    OrtValue *value = big_tensor(5), *copy = small_tensor(1);
    const char *name = "w", *absent = "absent";
    OrtSession *session = NULL;

    (void)state;
    if (!ours()) { /* other codes and texts there */
        api->ReleaseValue(value);
        api->ReleaseValue(copy);
        return;
    }
    write_linear(&wire);
    ok(api->CreateSessionOptions(&options));
    ok(api->AddExternalInitializers(options, &name, (const OrtValue *const *)&value, 1));
    fails(api->CreateSessionFromArray(env, wire.bytes, wire.count, options, &session), ORT_INVALID_ARGUMENT,
          "w has no external data");
    api->ReleaseSessionOptions(options);
    ok(api->CreateSessionOptions(&options));
    ok(api->AddExternalInitializers(options, &absent, (const OrtValue *const *)&value, 1));
    fails(api->CreateSessionFromArray(env, wire.bytes, wire.count, options, &session), ORT_INVALID_ARGUMENT,
          "Failed to find an initializer with the name absent");
    api->ReleaseSessionOptions(options);
    ok(api->CreateSessionOptions(&options));
    ok(api->AddInitializer(options, "w", copy));
    fails(api->CreateSessionFromArray(env, wire.bytes, wire.count, options, &session), ORT_INVALID_ARGUMENT,
          "another shape");
    for (size_t cut = 1; cut < wire.count; cut += 7) { /* files that end early */
        OrtStatus *status = api->CreateSessionFromArray(env, wire.bytes, cut, options, &session);

        assert_non_null(status);
        api->ReleaseStatus(status);
    }
    api->ReleaseSessionOptions(options);
    api->ReleaseValue(value);
    api->ReleaseValue(copy);
    free(wire.bytes);
}

/* The model's weights are in a file; the program has them in memory, by file or by name. */
static void write_external(struct wire *wire)
{
    const int64_t dims[] = { COLUMNS, 4 };
    wire_mark mark = mw_begin(wire, 8, OPSET), w;

    mw_value(wire, MW_INPUT, "x", FLOAT, "N,16");
    w = wire_begin(wire, 5);
    mw_tensor_head(wire, "w", FLOAT, 2, dims);
    mw_entry(wire, 13, "location", "weights.bin");
    mw_entry(wire, 13, "offset", "64");
    mw_entry(wire, 13, "length", "256");
    wire_int(wire, 14, 1);
    wire_end(wire, w);
    mw_node(wire, "MatMul", "x,w", "sum");
    mw_value(wire, MW_OUTPUT, "sum", FLOAT, "N,4");
    wire_end(wire, mark);
}

static void test_external(void **state)
{
    static float file[16 + COLUMNS * 4];
    const char *name = "w", *file_name = "weights.bin";
    const size_t bytes = sizeof file, too_few = 100;
    char *buffer = (char *)file;
    struct wire wire = { 0 };
    OrtSessionOptions *options;
    OrtSession *session;
    OrtValue *value = big_tensor(5);

    (void)state;
    write_external(&wire);
    ok(api->CreateSessionOptions(&options));
    ok(api->AddExternalInitializers(options, &name, (const OrtValue *const *)&value, 1));
    session = session_of(&wire, options);
    gives(session, "sum", 80);
    api->ReleaseSession(session);
    api->ReleaseSessionOptions(options);

    for (size_t i = 16; i < sizeof file / sizeof file[0]; i++)
        file[i] = 2;
    ok(api->CreateSessionOptions(&options));
    ok(api->AddExternalInitializersFromFilesInMemory(options, &file_name, &buffer, &bytes, 1));
    session = session_of(&wire, options);
    gives(session, "sum", 32);
    api->ReleaseSession(session);
    api->ReleaseSessionOptions(options);

    ok(api->CreateSessionOptions(&options));
    ok(api->AddExternalInitializersFromFilesInMemory(options, &file_name, &buffer, &too_few, 1));
    if (ours())
        fails(api->CreateSessionFromArray(env, wire.bytes, wire.count, options, &session), ORT_INVALID_GRAPH,
              "'weights.bin', which has only 100");
    api->ReleaseSessionOptions(options);
    api->ReleaseValue(value);
    free(wire.bytes);
}

/* A FlatBuffer, written from the end of a buffer to its beginning, as the format requires references to point forward;
 * positions count from the end. */
struct flat {
    unsigned char bytes[2048];
    uint32_t used;
};

static uint32_t flat_put(struct flat *flat, const void *data, uint32_t bytes)
{
    assert_true(flat->used + bytes <= sizeof flat->bytes);
    flat->used += bytes;
    memcpy(flat->bytes + sizeof flat->bytes - flat->used, data, bytes);
    return flat->used;
}

static uint32_t flat_u32(struct flat *flat, uint32_t value)
{
    return flat_put(flat, &value, sizeof value);
}

static uint32_t flat_reference(struct flat *flat, uint32_t position)
{
    return flat_u32(flat, flat->used + 4 - position);
}

/* Pads so that what follows, `bytes` long, ends at a multiple of 8. */
static void flat_align(struct flat *flat, uint32_t bytes)
{
    while ((flat->used + bytes) % 8 != 0)
        (void)flat_put(flat, "", 1);
}

static uint32_t flat_vector(struct flat *flat, const void *data, uint32_t bytes, uint32_t count)
{
    flat_align(flat, bytes);
    (void)flat_put(flat, data, bytes);
    return flat_u32(flat, count);
}

/* A table of four fields of 4 bytes, with its vtable. Fields that refer are given by position. */
static uint32_t flat_table(struct flat *flat, const uint32_t fields[4], const bool refers[4])
{
    const uint16_t vtable[] = { 12, 20, 4, 8, 12, 16 };
    uint32_t table;

    flat_align(flat, 20);
    for (int i = 3; i >= 0; i--)
        table = refers[i] ? flat_reference(flat, fields[i]) : flat_u32(flat, fields[i]);
    table = flat_u32(flat, 12); /* the vtable is 12 bytes before the table */
    (void)flat_put(flat, vtable, sizeof vtable);
    return table;
}

/* An adapter with one parameter, dims [16, 4], all elements equal. */
static void write_adapter(struct flat *flat, const char *name, float value)
{
    static const bool parameter_refers[] = { true, true, false, true }, refers[] = { false, false, false, true };
    const int64_t dims[] = { COLUMNS, 4 };
    float elements[COLUMNS * 4];
    uint32_t fields[4], table, list;

    *flat = (struct flat){ .used = 0 };
    for (size_t i = 0; i < COLUMNS * 4; i++)
        elements[i] = value;
    fields[3] = flat_vector(flat, elements, sizeof elements, sizeof elements);
    fields[1] = flat_vector(flat, dims, sizeof dims, 2);
    (void)flat_put(flat, "", 1); /* the end of the name */
    fields[0] = flat_vector(flat, name, (uint32_t)strlen(name), (uint32_t)strlen(name));
    fields[2] = FLOAT;
    table = flat_table(flat, fields, parameter_refers);
    flat_align(flat, 4);
    list = flat_reference(flat, table);
    list = flat_u32(flat, 1);
    table = flat_table(flat, (const uint32_t[]){ 1, 1, 1, list }, refers);
    flat_align(flat, 8);
    (void)flat_put(flat, "TORT", 4);
    (void)flat_reference(flat, table);
}

/* sum = x * w, where w is an input with a default of 1 */
static void write_adaptable(struct wire *wire)
{
    const int64_t dims[] = { COLUMNS, 4 };
    wire_mark mark = mw_begin(wire, 8, OPSET), w;

    mw_value(wire, MW_INPUT, "x", FLOAT, "N,16");
    mw_value(wire, MW_INPUT, "w", FLOAT, "16,4");
    for (size_t i = 0; i < COLUMNS * 4; i++)
        weights[i] = 1;
    w = wire_begin(wire, 5);
    mw_tensor_head(wire, "w", FLOAT, 2, dims);
    wire_bytes(wire, 9, weights, sizeof weights);
    wire_end(wire, w);
    mw_node(wire, "MatMul", "x,w", "sum");
    mw_value(wire, MW_OUTPUT, "sum", FLOAT, "N,4");
    wire_end(wire, mark);
}

static float run_adapted(OrtSession *session, const OrtLoraAdapter *adapter)
{
    const int64_t dims[] = { ROWS, COLUMNS };
    const char *in = "x", *out = "sum";
    float ones[ROWS * COLUMNS], result;
    OrtRunOptions *options;
    OrtValue *x, *y = NULL;
    void *data;

    for (size_t i = 0; i < ROWS * COLUMNS; i++)
        ones[i] = 1;
    x = tensor(FLOAT, dims, 2, ones, sizeof ones);
    ok(api->CreateRunOptions(&options));
    if (adapter != NULL)
        ok(api->RunOptionsAddActiveLoraAdapter(options, adapter));
    ok(api->Run(session, options, &in, (const OrtValue *const *)&x, 1, &out, 1, &y));
    ok(api->GetTensorMutableData(y, &data));
    memcpy(&result, data, sizeof result);
    api->ReleaseValue(x);
    api->ReleaseValue(y);
    api->ReleaseRunOptions(options);
    return result;
}

static void test_adapters(void **state)
{
    struct wire wire = { 0 };
    OrtLoraAdapter *three, *four;
    OrtSession *session;
    struct flat flat;

    (void)state;
    write_adaptable(&wire);
    session = session_of(&wire, NULL);
    write_adapter(&flat, "w", 3);
    ok(api->CreateLoraAdapterFromArray(flat.bytes + sizeof flat.bytes - flat.used, flat.used, NULL, &three));
    write_adapter(&flat, "w", 4);
    ok(api->CreateLoraAdapterFromArray(flat.bytes + sizeof flat.bytes - flat.used, flat.used, NULL, &four));
    assert_float_equal(run_adapted(session, NULL), 16, 0);
    assert_float_equal(run_adapted(session, three), 48, 0);
    assert_float_equal(run_adapted(session, four), 64, 0);
    assert_float_equal(run_adapted(session, NULL), 16, 0);
    api->ReleaseLoraAdapter(three);
    api->ReleaseLoraAdapter(four);
    api->ReleaseSession(session);
    free(wire.bytes);
}

/* Every damaged byte and every length: read or refused, never followed out of the file. */
static void test_damaged_adapters(void **state)
{
    struct flat flat;
    OrtLoraAdapter *adapter;
    size_t refused = 0;

    (void)state;
    write_adapter(&flat, "w", 3);
    for (uint32_t i = 0; i < 2 * flat.used && ours(); i++) {
        const uint32_t bytes = i < flat.used ? i : flat.used, at = i % flat.used;
        unsigned char *copy = malloc(bytes + 1);
        OrtStatus *status;

        assert_non_null(copy);
        memcpy(copy, flat.bytes + sizeof flat.bytes - flat.used, bytes);
        if (i >= flat.used)
            copy[at] ^= 0x81;
        status = api->CreateLoraAdapterFromArray(copy, bytes, NULL, &adapter);
        refused += status != NULL;
        api->ReleaseLoraAdapter(adapter);
        api->ReleaseStatus(status);
        free(copy);
    }
    assert_true(!ours() || refused > flat.used);
}

static OrtStatus *collect(void *state, const void *buffer, size_t bytes)
{
    struct wire *to = state;

    wire_raw(to, buffer, bytes);
    return NULL;
}

static void check_compiled(const void *data, size_t bytes)
{
    struct wire wire = { .bytes = (void *)(uintptr_t)data, .count = bytes };
    OrtSession *session = session_of(&wire, NULL);

    gives(session, "sum", 17);
    api->ReleaseSession(session);
}

static void test_compile(void **state)
{
    OrtModelCompilationOptions *compile;
    OrtSessionOptions *options;
    struct wire wire = { 0 }, written = { 0 };
    void *data = NULL;
    size_t bytes = 0;
    OrtModel *model;

    (void)state;
    write_linear(&wire);
    ok(api->CreateSessionOptions(&options));
    ok(compiler->CreateModelCompilationOptionsFromSessionOptions(env, options, &compile));
    api->ReleaseSessionOptions(options);
    ok(compiler->ModelCompilationOptions_SetInputModelFromBuffer(compile, wire.bytes, wire.count));
    ok(compiler->ModelCompilationOptions_SetOutputModelBuffer(compile, allocator, &data, &bytes));
    ok(compiler->CompileModel(env, compile));
    check_compiled(data, bytes);
    ok(api->AllocatorFree(allocator, data));
    ok(compiler->ModelCompilationOptions_SetOutputModelWriteFunc(compile, collect, &written));
    ok(compiler->ModelCompilationOptions_SetGraphOptimizationLevel(compile, 1));
    ok(compiler->CompileModel(env, compile));
    check_compiled(written.bytes, written.count);
    ok(compiler->ModelCompilationOptions_SetFlags(compile, 1));
    fails(compiler->CompileModel(env, compile), ORT_FAIL, "compile any nodes");
    if (ours())
        fails(compiler->ModelCompilationOptions_SetFlags(compile, 1u << 30), ORT_INVALID_ARGUMENT, "flags");
    ok(compiler->ModelCompilationOptions_SetFlags(compile, 0));
    if (ours()) {
        model = build(2);
        ok(compiler->ModelCompilationOptions_SetInputModel(compile, model));
        ok(compiler->ModelCompilationOptions_SetOutputModelBuffer(compile, allocator, &data, &bytes));
        ok(compiler->CompileModel(env, compile));
        assert_true(bytes > sizeof weights);
        ok(api->AllocatorFree(allocator, data));
        api->ReleaseModel(model);
    }
    compiler->ReleaseModelCompilationOptions(compile);
    free(written.bytes);
    free(wire.bytes);
}

/* TMPDIR is the folder for temporary files. */
static void test_compile_in_tmpdir(void **state)
{
    OrtModelCompilationOptions *compile;
    OrtSessionOptions *options;
    struct wire wire = { 0 };
    void *data = NULL;
    size_t bytes = 0;

    (void)state;
    if (!ours()) /* needs no files */
        skip();
    write_linear(&wire);
    ok(api->CreateSessionOptions(&options));
    ok(compiler->CreateModelCompilationOptionsFromSessionOptions(env, options, &compile));
    api->ReleaseSessionOptions(options);
    ok(compiler->ModelCompilationOptions_SetInputModelFromBuffer(compile, wire.bytes, wire.count));
    ok(compiler->ModelCompilationOptions_SetOutputModelBuffer(compile, allocator, &data, &bytes));
    assert_int_equal(setenv("TMPDIR", "/nonexistent/folder", 1), 0);
    fails(compiler->CompileModel(env, compile), ORT_FAIL, "no folder can be made in /nonexistent/folder");
    assert_int_equal(unsetenv("TMPDIR"), 0);
    ok(compiler->CompileModel(env, compile));
    check_compiled(data, bytes);
    ok(api->AllocatorFree(allocator, data));
    compiler->ReleaseModelCompilationOptions(compile);
    free(wire.bytes);
}

/* Models that a provider has compiled state in their metadata for what they were compiled. */
static void test_compatibility_info(void **state)
{
    struct wire wire = { 0 };
    char *text;

    (void)state;
    write_linear(&wire);
    mw_entry(&wire, 14, "ep_compatibility_info.SomeProvider", "version=3");
    ok(api->GetCompatibilityInfoFromModelBytes(wire.bytes, wire.count, "SomeProvider", allocator, &text));
    assert_string_equal(text, "version=3");
    ok(api->AllocatorFree(allocator, text));
    ok(api->GetCompatibilityInfoFromModelBytes(wire.bytes, wire.count, "Other", allocator, &text));
    assert_null(text);
    fails(api->GetCompatibilityInfoFromModelBytes(wire.bytes, wire.count, "", allocator, &text), ORT_INVALID_ARGUMENT,
          "");
    fails(api->GetCompatibilityInfoFromModelBytes("\xff", 1, "Other", allocator, &text), ORT_INVALID_GRAPH,
          "Protobuf parsing failed.");
    fails(api->GetCompatibilityInfoFromModel("/nonexistent/model", "Other", allocator, &text), ORT_NO_SUCHFILE, "");
    free(wire.bytes);
}

/* Without a name, the result is next to the model. */
static void test_compile_files(void **state)
{
    char folder[] = "/tmp/ort_build.XXXXXX", path[64], result[64];
    OrtModelCompilationOptions *compile;
    OrtSessionOptions *options;
    struct wire wire = { 0 };
    OrtSession *session;
    int file;

    (void)state;
    write_linear(&wire);
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/a.onnx", folder);
    (void)snprintf(result, sizeof result, "%s/a_ctx.onnx", folder);
    file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(wire_write(&wire, file));
    (void)close(file);
    ok(api->CreateSessionOptions(&options));
    ok(compiler->CreateModelCompilationOptionsFromSessionOptions(env, options, &compile));
    fails(compiler->CompileModel(env, compile), ORT_INVALID_ARGUMENT, "nput model");
    ok(compiler->ModelCompilationOptions_SetInputModelPath(compile, path));
    ok(compiler->CompileModel(env, compile));
    ok(api->CreateSession(env, result, options, &session));
    gives(session, "sum", 17);
    api->ReleaseSession(session);
    ok(compiler->ModelCompilationOptions_SetFlags(compile, 2));
    fails(compiler->CompileModel(env, compile), ORT_FAIL, "exists");
    compiler->ReleaseModelCompilationOptions(compile);
    api->ReleaseSessionOptions(options);
    (void)unlink(path);
    (void)unlink(result);
    (void)rmdir(folder);
    free(wire.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_build),
        cmocka_unit_test(test_info),
        cmocka_unit_test(test_build_refusals),
        cmocka_unit_test(test_extend),
        cmocka_unit_test(test_extend_states),
        cmocka_unit_test(test_initializer),
        cmocka_unit_test(test_external),
        cmocka_unit_test(test_initializer_refusals),
        cmocka_unit_test(test_compile),
        cmocka_unit_test(test_compile_files),
        cmocka_unit_test(test_compile_in_tmpdir),
        cmocka_unit_test(test_compatibility_info),
        cmocka_unit_test(test_adapters),
        cmocka_unit_test(test_damaged_adapters),
    };

    return cmocka_run_group_tests(tests, begin, ort_test_end);
}
