/* What onnxruntime-genai does on a CPU, with its calls in their order: a decoder with past and present keys, run token
 * by token into outputs that it allocates; a model of one operator, built and bound; its options and its clean-up. */
#include "ort_test.h"

struct OrtModelEditorApi {
#define ENTRY(returns, name, params) returns(*name) params;
#include "editor.def"
#undef ENTRY
};

enum { FLOAT = 1, INT64 = 7, FLOAT16 = 10, WORDS = 5, WIDTH = 2, STEPS = 6, OPSET = 17 };
static const float embedding[WORDS][WIDTH] = { { 1, 0 }, { 0, 1 }, { 2, -1 }, { -1, 2 }, { 1, 1 } };

static int begin(void **state)
{
    static const char *const keys[] = { "max_mem", "arena_extend_strategy", "initial_chunk_size_bytes",
                                        "max_dead_bytes_per_chunk" };
    static const size_t values[] = { 0, SIZE_MAX, SIZE_MAX, SIZE_MAX };
    const OrtMemoryInfo *info;
    OrtArenaCfg *arena;
    int failed = ort_test_begin(state);

    if (failed != 0)
        return failed;
    ok(api->CreateArenaCfgV2(keys, values, 4, &arena));
    ok(api->AllocatorGetInfo(allocator, &info));
    ok(api->CreateAndRegisterAllocator(env, info, arena));
    api->ReleaseArenaCfg(arena);
    return 0;
}

static void constant(struct wire *wire, const char *name, int type, uint32_t rank, const int64_t *dims,
                     const void *data, size_t bytes)
{
    wire_mark mark = wire_begin(wire, MW_INITIALIZER);

    mw_tensor_head(wire, name, type, rank, dims);
    wire_bytes(wire, 9, data, bytes);
    wire_end(wire, mark);
}

static void int_attr(struct wire *wire, const char *name, int64_t value)
{
    wire_mark mark = wire_begin(wire, 5);

    wire_text(wire, 1, name);
    wire_int(wire, 3, value);
    wire_int(wire, 20, 2); /* INT */
    wire_end(wire, mark);
}

/* logits = (e + the sum of all keys so far) * embedding^T, where e are the embeddings of the new tokens; the keys of
 * the tokens are their embeddings, and the values those times the smallest of the mask. */
static void write_decoder(struct wire *wire, float turned[WIDTH][WORDS])
{
    static const int64_t table[] = { WORDS, WIDTH }, across[] = { WIDTH, WORDS }, one[] = { 1 };
    static const int64_t axis_1 = 1, axis_2 = 2;
    wire_mark mark = mw_begin(wire, 8, OPSET), node;

    for (size_t i = 0; i < WORDS * WIDTH; i++)
        turned[i % WIDTH][i / WIDTH] = embedding[i / WIDTH][i % WIDTH];
    mw_value(wire, MW_INPUT, "input_ids", INT64, "batch_size,sequence_length");
    mw_value(wire, MW_INPUT, "attention_mask", INT64, "batch_size,total_sequence_length");
    mw_value(wire, MW_INPUT, "past_key_values.0.key", FLOAT, "batch_size,1,past_sequence_length,2");
    mw_value(wire, MW_INPUT, "past_key_values.0.value", FLOAT, "batch_size,1,past_sequence_length,2");
    constant(wire, "embedding", FLOAT, 2, table, embedding, sizeof embedding);
    constant(wire, "turned", FLOAT, 2, across, turned, sizeof embedding);
    constant(wire, "one", INT64, 1, one, &axis_1, sizeof axis_1);
    constant(wire, "two", INT64, 1, one, &axis_2, sizeof axis_2);
    mw_node(wire, "Gather", "embedding,input_ids", "embedded");
    mw_node(wire, "Unsqueeze", "embedded,one", "keys");
    node = mw_node_begin(wire, "Cast", "attention_mask", "mask");
    int_attr(wire, "to", FLOAT);
    wire_end(wire, node);
    node = mw_node_begin(wire, "ReduceMin", "mask", "least");
    int_attr(wire, "keepdims", 0);
    wire_end(wire, node);
    mw_node(wire, "Mul", "keys,least", "values");
    for (int i = 0; i < 2; i++) {
        node = mw_node_begin(wire, "Concat", i == 0 ? "past_key_values.0.key,keys" : "past_key_values.0.value,values",
                             i == 0 ? "present.0.key" : "present.0.value");
        int_attr(wire, "axis", 2);
        wire_end(wire, node);
    }
    mw_node(wire, "ReduceSum", "present.0.key,two", "sum");
    mw_node(wire, "Add", "keys,sum", "context");
    mw_node(wire, "Squeeze", "context,one", "hidden");
    mw_node(wire, "MatMul", "hidden,turned", "logits");
    mw_value(wire, MW_OUTPUT, "logits", FLOAT, "batch_size,sequence_length,5");
    mw_value(wire, MW_OUTPUT, "present.0.key", FLOAT, "batch_size,1,total_sequence_length,2");
    mw_value(wire, MW_OUTPUT, "present.0.value", FLOAT, "batch_size,1,total_sequence_length,2");
    wire_end(wire, mark);
}

/* The next token by the definition of the decoder. */
static int64_t expected_token(const int64_t *tokens, size_t count)
{
    float context[WIDTH], best = 0;
    int64_t chosen = -1;

    for (size_t d = 0; d < WIDTH; d++) {
        context[d] = embedding[tokens[count - 1]][d];
        for (size_t i = 0; i < count; i++)
            context[d] += embedding[tokens[i]][d];
    }
    for (int64_t w = 0; w < WORDS; w++) {
        const float score = context[0] * embedding[w][0] + context[1] * embedding[w][1];

        if (chosen < 0 || score > best) {
            best = score;
            chosen = w;
        }
    }
    return chosen;
}

static OrtSessionOptions *decoder_options(void)
{
    OrtSessionOptions *options, *copy;
    int has;

    ok(api->CreateSessionOptions(&options));
    ok(api->SetIntraOpNumThreads(options, 1));
    ok(api->SetInterOpNumThreads(options, 1));
    ok(api->EnableCpuMemArena(options));
    ok(api->EnableMemPattern(options));
    ok(api->SetSessionLogId(options, "onnxruntime-genai"));
    ok(api->SetSessionLogSeverityLevel(options, ORT_LOGGING_LEVEL_ERROR));
    ok(api->SetSessionLogVerbosityLevel(options, 0));
    ok(api->AddSessionConfigEntry(options, "session.intra_op.allow_spinning", "0"));
    ok(api->SetSessionGraphOptimizationLevel(options, 99));
    ok(api->RegisterCustomOpsLibrary_V2(options, CUSTOM_OPS_LIBRARY));
    ok(api->CloneSessionOptions(options, &copy));
    ok(api->HasSessionConfigEntry(copy, "session.intra_op.allow_spinning", &has));
    assert_int_equal(has, 1);
    ok(api->HasSessionConfigEntry(copy, "session.model_external_initializers_file_folder_path", &has));
    assert_int_equal(has, 0);
    ok(api->AddSessionConfigEntry(copy, "session.model_external_initializers_file_folder_path", "/tmp"));
    api->ReleaseSessionOptions(options);
    return copy;
}

/* The names and types of all inputs, as genai collects them. */
static void read_ports(const OrtSession *session)
{
    static const char *const names[] = { "input_ids", "attention_mask", "past_key_values.0.key",
                                         "past_key_values.0.value" };
    const char *symbols[4];
    int64_t dims[4];
    size_t count;

    ok(api->SessionGetInputCount(session, &count));
    assert_int_equal(count, 4);
    for (size_t i = 0; i < count; i++) {
        const OrtTensorTypeAndShapeInfo *shape;
        OrtTypeInfo *type;
        ONNXTensorElementDataType element;
        size_t rank;
        char *name;

        ok(api->SessionGetInputName(session, i, allocator, &name));
        assert_string_equal(name, names[i]);
        ok(api->AllocatorFree(allocator, name));
        ok(api->SessionGetInputTypeInfo(session, i, &type));
        ok(api->CastTypeInfoToTensorInfo(type, &shape));
        ok(api->GetTensorElementType(shape, &element));
        assert_int_equal(element, i < 2 ? INT64 : FLOAT);
        ok(api->GetDimensionsCount(shape, &rank));
        assert_int_equal(rank, i < 2 ? 2 : 4);
        ok(api->GetDimensions(shape, dims, rank));
        ok(api->GetSymbolicDimensions(shape, symbols, rank));
        assert_int_equal(dims[0], -1);
        assert_string_equal(symbols[0], "batch_size");
        if (i >= 2)
            assert_int_equal(dims[3], WIDTH);
        api->ReleaseTypeInfo(type);
    }
    ok(api->SessionGetOutputCount(session, &count));
    assert_int_equal(count, 3);
}

static OrtValue *allocate(int type, size_t rank, const int64_t *dims)
{
    OrtValue *value;

    ok(api->CreateTensorAsOrtValue(allocator, dims, rank, type, &value));
    return value;
}

static OrtValue *cache(int64_t tokens)
{
    const int64_t dims[] = { 1, 1, tokens, WIDTH };

    return allocate(FLOAT, 4, dims);
}

static void *data_of(OrtValue *value)
{
    void *data;

    ok(api->GetTensorMutableData(value, &data));
    return data;
}

/* Runs the model on `fresh` new tokens of `total`, from past to present. Returns the most likely next token. */
static int64_t step(OrtSession *session, const OrtRunOptions *options, int64_t *tokens, size_t fresh, size_t total,
                    OrtValue *past[2], OrtValue *present[2])
{
    static const char *const in_names[] = { "input_ids", "attention_mask", "past_key_values.0.key",
                                            "past_key_values.0.value" };
    static const char *const out_names[] = { "logits", "present.0.key", "present.0.value" };
    const int64_t ids_dims[] = { 1, (int64_t)fresh }, mask_dims[] = { 1, (int64_t)total };
    const int64_t logits_dims[] = { 1, (int64_t)fresh, WORDS };
    OrtValue *ids = tensor(INT64, ids_dims, 2, tokens + total - fresh, fresh * sizeof *tokens);
    OrtValue *mask = allocate(INT64, 2, mask_dims), *logits = allocate(FLOAT, 3, logits_dims);
    const OrtValue *inputs[] = { ids, mask, past[0], past[1] };
    OrtValue *outputs[] = { logits, present[0], present[1] };
    OrtTensorTypeAndShapeInfo *shape;
    const float *scores;
    size_t count, best = 0;

    for (size_t i = 0; i < total; i++)
        ((int64_t *)data_of(mask))[i] = 1;
    ok(api->Run(session, options, in_names, inputs, 4, out_names, 3, outputs));
    assert_ptr_equal(outputs[0], logits);
    ok(api->GetTensorTypeAndShape(logits, &shape));
    ok(api->GetTensorShapeElementCount(shape, &count));
    assert_int_equal(count, fresh * WORDS);
    api->ReleaseTensorTypeAndShapeInfo(shape);
    scores = (const float *)data_of(logits) + (fresh - 1) * WORDS;
    for (size_t w = 1; w < WORDS; w++)
        if (scores[w] > scores[best])
            best = w;
    api->ReleaseValue(ids);
    api->ReleaseValue(mask);
    api->ReleaseValue(logits);
    return (int64_t)best;
}

static void test_decode(void **state)
{
    float turned[WIDTH][WORDS];
    int64_t tokens[3 + STEPS] = { 2, 0, 3 };
    size_t total = 3, fresh = 3;
    struct wire wire = { 0 };
    OrtSessionOptions *options = decoder_options();
    OrtValue *past[2] = { cache(0), cache(0) };
    OrtRunOptions *run_options;
    OrtSession *session;

    (void)state;
    write_decoder(&wire, turned);
    session = session_of(&wire, options);
    api->ReleaseSessionOptions(options);
    read_ports(session);
    ok(api->CreateRunOptions(&run_options));
    ok(api->AddRunConfigEntry(run_options, "disable_synchronize_execution_providers", "0"));
    for (size_t i = 0; i < STEPS; i++, fresh = 1) {
        OrtValue *present[2] = { cache((int64_t)total), cache((int64_t)total) };

        tokens[total] = step(session, run_options, tokens, fresh, total, past, present);
        assert_int_equal(tokens[total], expected_token(tokens, total));
        assert_memory_equal(data_of(present[0]), data_of(present[1]), total * WIDTH * sizeof(float));
        for (size_t t = 0; t < total; t++)
            assert_memory_equal((float *)data_of(present[0]) + t * WIDTH, embedding[tokens[t]], sizeof embedding[0]);
        total++;
        for (size_t p = 0; p < 2; p++) {
            api->ReleaseValue(past[p]);
            past[p] = present[p];
        }
    }
    for (size_t p = 0; p < 2; p++)
        api->ReleaseValue(past[p]);
    api->ReleaseRunOptions(run_options);
    api->ReleaseSession(session);
    free(wire.bytes);
}

/* Another thread ends a run by its options, which the next run uses again. */
static void test_terminate(void **state)
{
    float turned[WIDTH][WORDS];
    int64_t tokens[] = { 1 };
    const int64_t dims[] = { 1, 1 };
    const char *const in_names[] = { "input_ids", "attention_mask", "past_key_values.0.key",
                                     "past_key_values.0.value" };
    const char *const out_name = "logits";
    struct wire wire = { 0 };
    OrtValue *past[2] = { cache(0), cache(0) }, *present[2] = { cache(1), cache(1) }, *logits = NULL;
    OrtValue *ids = tensor(INT64, dims, 2, tokens, sizeof tokens);
    const OrtValue *inputs[] = { ids, ids, past[0], past[1] };
    OrtRunOptions *options;
    OrtSession *session;

    (void)state;
    write_decoder(&wire, turned);
    session = session_of(&wire, NULL);
    ok(api->CreateRunOptions(&options));
    ok(api->RunOptionsSetTerminate(options));
    fails(api->Run(session, options, in_names, inputs, 4, &out_name, 1, &logits), ORT_FAIL, "terminate");
    assert_null(logits);
    ok(api->RunOptionsUnsetTerminate(options));
    assert_int_equal(step(session, options, tokens, 1, 1, past, present), expected_token(tokens, 1));
    for (size_t p = 0; p < 2; p++) {
        api->ReleaseValue(past[p]);
        api->ReleaseValue(present[p]);
    }
    api->ReleaseValue(ids);
    api->ReleaseRunOptions(options);
    api->ReleaseSession(session);
    free(wire.bytes);
}

static OrtValueInfo *port(const OrtModelEditorApi *editor, const char *name, int type)
{
    const int64_t any = -1;
    OrtTensorTypeAndShapeInfo *shape;
    OrtTypeInfo *info;
    OrtValueInfo *made;

    ok(api->CreateTensorTypeAndShapeInfo(&shape));
    ok(api->SetTensorElementType(shape, type));
    ok(api->SetDimensions(shape, &any, 1));
    ok(editor->CreateTensorTypeInfo(shape, &info));
    ok(editor->CreateValueInfo(name, info, &made));
    api->ReleaseTypeInfo(info);
    api->ReleaseTensorTypeAndShapeInfo(shape);
    return made;
}

static OrtSession *cast_session(int from, int to)
{
    const OrtModelEditorApi *editor = api->GetModelEditorApi();
    const char *const in_name = "input", *const out_name = "output", *const domain = "";
    const int64_t target = to;
    const int version = 21;
    OrtValueInfo *in = port(editor, in_name, from), *out = port(editor, out_name, to);
    OrtSessionOptions *options;
    OrtSession *session;
    OrtModel *model;
    OrtGraph *graph;
    OrtOpAttr *attr;
    OrtNode *node;

    ok(editor->CreateGraph(&graph));
    ok(editor->SetGraphInputs(graph, &in, 1));
    ok(editor->SetGraphOutputs(graph, &out, 1));
    ok(api->CreateOpAttr("to", &target, 1, ORT_OP_ATTR_INT, &attr));
    ok(editor->CreateNode("Cast", "", "Cast_node", &in_name, 1, &out_name, 1, &attr, 1, &node));
    ok(editor->AddNodeToGraph(graph, node));
    ok(editor->CreateModel(&domain, &version, 1, &model));
    ok(editor->AddGraphToModel(model, graph));
    ok(api->CreateSessionOptions(&options));
    ok(api->SetSessionGraphOptimizationLevel(options, 99));
    ok(editor->CreateSessionFromModel(env, model, options, &session));
    api->ReleaseSessionOptions(options);
    api->ReleaseModel(model);
    return session;
}

/* The logits of a model in float16 are converted by a session that is kept, with bound tensors. */
static void test_cast(void **state)
{
    uint16_t halves[] = { 0x3c00, 0xc000, 0x3800, 0x0000 }; /* 1, -2, 0.5, 0 */
    const float expected[] = { 1, -2, 0.5f, 0 };
    OrtSession *session = cast_session(FLOAT16, FLOAT);

    (void)state;
    for (int64_t count = 1; count <= 4; count++) {
        float result[4] = { 9, 9, 9, 9 };
        OrtValue *from = tensor(FLOAT16, &count, 1, halves, (size_t)count * sizeof *halves);
        OrtValue *to = tensor(FLOAT, &count, 1, result, (size_t)count * sizeof *result);
        OrtIoBinding *binding;

        ok(api->CreateIoBinding(session, &binding));
        ok(api->BindInput(binding, "input", from));
        ok(api->BindOutput(binding, "output", to));
        ok(api->RunWithBinding(session, NULL, binding));
        assert_memory_equal(result, expected, (size_t)count * sizeof *result);
        api->ReleaseIoBinding(binding);
        api->ReleaseValue(from);
        api->ReleaseValue(to);
    }
    api->ReleaseSession(session);
}

static void test_devices(void **state)
{
    const OrtEpDevice *const *devices;
    const OrtHardwareDevice *device;
    OrtSessionOptions *options;
    OrtLoraAdapter *adapter;
    size_t count;

    (void)state;
    ok(api->GetEpDevices(env, &devices, &count));
    assert_int_equal(count, 1);
    assert_string_equal(api->EpDevice_EpName(devices[0]), "CPUExecutionProvider");
    device = api->EpDevice_Device(devices[0]);
    assert_int_equal(api->HardwareDevice_Type(device), 0);
    (void)api->HardwareDevice_VendorId(device);
    (void)api->HardwareDevice_DeviceId(device);
    assert_non_null(api->EpDevice_EpMetadata(devices[0]));
    ok(api->CreateSessionOptions(&options));
    fails(api->SessionOptionsAppendExecutionProvider(options, "NoProvider", NULL, NULL, 0), ORT_INVALID_ARGUMENT,
          "Unknown provider name 'NoProvider'");
    api->ReleaseSessionOptions(options);
    fails(api->CreateLoraAdapter("/nonexistent.onnx_adapter", NULL, &adapter), ORT_INVALID_ARGUMENT,
          ours() ? "/nonexistent.onnx_adapter" : "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decode),
        cmocka_unit_test(test_terminate),
        cmocka_unit_test(test_cast),
        cmocka_unit_test(test_devices),
    };

    return cmocka_run_group_tests(tests, begin, ort_test_end);
}
