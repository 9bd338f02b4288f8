/* What a program reads of graphs that it has built, of a session's nodes, and where a compiled model has its
 * initializers. */
#include "ort_test.h"
#include <unistd.h>

struct OrtModelEditorApi {
#define ENTRY(returns, name, params) returns(*name) params;
#include "editor.def"
};
struct OrtCompileApi {
#include "compile.def"
#undef ENTRY
};

enum { FLOAT = 1, OPSET = 18, COUNT = 64 };

static float weights[COUNT]; /* 0, 1, 2, ... */

static int begin(void **state)
{
    for (int i = 0; i < COUNT; i++)
        weights[i] = (float)i;
    return ort_test_begin(state);
}

/* y = Relu(x + w); both nodes have names. */
static void write_model(struct wire *wire)
{
    const int64_t dims[] = { COUNT };
    wire_mark mark = mw_begin(wire, 8, OPSET), part;

    mw_value(wire, MW_INPUT, "x", FLOAT, "64");
    part = wire_begin(wire, MW_INITIALIZER);
    mw_tensor_head(wire, "w", FLOAT, 1, dims);
    wire_bytes(wire, 9, weights, sizeof weights);
    wire_end(wire, part);
    part = mw_node_begin(wire, "Add", "x,w", "sum");
    wire_text(wire, 3, "first");
    wire_end(wire, part);
    part = mw_node_begin(wire, "Relu", "sum", "y");
    wire_text(wire, 3, "second");
    wire_end(wire, part);
    mw_value(wire, MW_OUTPUT, "y", FLOAT, "64");
    wire_end(wire, mark);
}

static void gives_weights(OrtSession *session)
{
    const int64_t dims[] = { COUNT };
    float zeros[COUNT] = { 0 };
    OrtValue *x = tensor(FLOAT, dims, 1, zeros, sizeof zeros), *y = run1(session, "x", x, "y");
    void *data;

    ok(api->GetTensorMutableData(y, &data));
    assert_memory_equal(data, weights, sizeof weights);
    api->ReleaseValue(x);
    api->ReleaseValue(y);
}

static void test_built_graph(void **state)
{
    const OrtModelEditorApi *editor = api->GetModelEditorApi();
    const char *inputs[] = { "x", "w" }, *output = "y", *text;
    OrtModelMetadata *metadata;
    OrtGraph *graph;
    OrtNode *first, *second;
    const OrtValueInfo *values[1];
    size_t count = 9;
    int64_t version;
    char *producer;

    (void)state;
    ok(editor->CreateGraph(&graph));
    ok(editor->CreateNode("Add", "some.domain", "a node", inputs, 2, &output, 1, NULL, 0, &first));
    ok(editor->CreateNode("Relu", "", "another", inputs, 1, &output, 1, NULL, 0, &second));
    ok(editor->AddNodeToGraph(graph, first));
    ok(editor->AddNodeToGraph(graph, second));
    ok(api->Graph_GetName(graph, &text));
    assert_string_equal(text, "ModelEditorGraph");
    ok(api->Graph_GetModelPath(graph, &text));
    assert_string_equal(text, "");
    ok(api->Graph_GetOnnxIRVersion(graph, &version));
    assert_true(version >= 10);
    ok(api->Graph_GetNumNodes(graph, &count));
    assert_int_equal(count, 2);
    ok(api->Graph_GetNumInputs(graph, &count));
    assert_int_equal(count, 0);
    ok(api->Graph_GetNumOutputs(graph, &count));
    assert_int_equal(count, 0);
    ok(api->Graph_GetNumInitializers(graph, &count));
    assert_int_equal(count, 0);
    ok(api->Node_GetId(second, &count));
    assert_int_equal(count, 1);
    ok(api->Node_GetName(first, &text));
    assert_string_equal(text, "a node");
    ok(api->Node_GetOperatorType(first, &text));
    assert_string_equal(text, "Add");
    ok(api->Node_GetDomain(first, &text));
    assert_string_equal(text, "some.domain");
    ok(api->Node_GetNumInputs(first, &count));
    assert_int_equal(count, 2);
    ok(api->Node_GetNumOutputs(first, &count));
    assert_int_equal(count, 1);
    ok(api->Node_GetNumAttributes(first, &count));
    assert_int_equal(count, 0);
    ok(api->Graph_GetModelMetadata(graph, &metadata));
    ok(api->ModelMetadataGetProducerName(metadata, allocator, &producer));
    assert_string_equal(producer, "");
    ok(api->AllocatorFree(allocator, producer));
    api->ReleaseModelMetadata(metadata);
    fails(api->Graph_GetInputs(graph, values, 1), ORT_NOT_IMPLEMENTED, "OrtModelEditorApi does not support");
    fails(api->Node_GetEpName(first, &text), ORT_INVALID_ARGUMENT, "ModelEditorNode");
    if (ours())
        fails(api->Graph_GetName(graph, NULL), ORT_INVALID_ARGUMENT, "NULL");
    api->ReleaseGraph(graph);
}

static void test_assignment(void **state)
{
    static const char *const names[] = { "first", "second" }, *const ops[] = { "Add", "Relu" };
    const OrtEpAssignedSubgraph *const *parts;
    const OrtEpAssignedNode *const *nodes;
    OrtSessionOptions *options;
    struct wire wire = { 0 };
    OrtSession *session;
    size_t part_count, node_count;
    const char *text;

    (void)state;
    write_model(&wire);
    session = session_of(&wire, NULL);
    fails(api->Session_GetEpGraphAssignmentInfo(session, &parts, &part_count), ORT_FAIL,
          "'session.record_ep_graph_assignment_info' must be set");
    api->ReleaseSession(session);
    ok(api->CreateSessionOptions(&options));
    ok(api->AddSessionConfigEntry(options, "session.record_ep_graph_assignment_info", "1"));
    session = session_of(&wire, options);
    for (int again = 0; again < 2; again++) {
        ok(api->Session_GetEpGraphAssignmentInfo(session, &parts, &part_count));
        assert_int_equal(part_count, 2);
        for (size_t i = 0; i < part_count; i++) {
            ok(api->EpAssignedSubgraph_GetEpName(parts[i], &text));
            assert_string_equal(text, "CPUExecutionProvider");
            ok(api->EpAssignedSubgraph_GetNodes(parts[i], &nodes, &node_count));
            assert_int_equal(node_count, 1);
            ok(api->EpAssignedNode_GetName(nodes[0], &text));
            assert_string_equal(text, names[i]);
            ok(api->EpAssignedNode_GetOperatorType(nodes[0], &text));
            assert_string_equal(text, ops[i]);
            ok(api->EpAssignedNode_GetDomain(nodes[0], &text));
            assert_string_equal(text, "");
        }
    }
    api->ReleaseSession(session);
    api->ReleaseSessionOptions(options);
    free(wire.bytes);
}

static void test_external_info(void **state)
{
    OrtExternalInitializerInfo *info;

    (void)state;
    ok(api->CreateExternalInitializerInfo("a/file", 4096, 12, &info));
    assert_string_equal(api->ExternalInitializerInfo_GetFilePath(info), "a/file");
    assert_int_equal(api->ExternalInitializerInfo_GetFileOffset(info), 4096);
    assert_int_equal(api->ExternalInitializerInfo_GetByteSize(info), 12);
    api->ReleaseExternalInitializerInfo(info);
}

struct places {
    const char *path; /* of the file for initializers; NULL: they stay in the model */
    int calls;
};

/* Writes the weights, after some other bytes, to the file. */
static OrtStatus *locate(void *state, const char *name, const OrtValue *value, const OrtExternalInitializerInfo *before,
                         OrtExternalInitializerInfo **after)
{
    struct places *places = state;
    FILE *file;
    void *data;

    assert_null(before);
    ok(api->GetTensorMutableData((OrtValue *)(uintptr_t)value, &data));
    places->calls++;
    assert_string_equal(name, "w");
    assert_memory_equal(data, weights, sizeof weights);
    if (places->path == NULL)
        return NULL;
    file = fopen(places->path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite("16 other bytes..", 1, 16, file), 16);
    assert_int_equal(fwrite(data, 1, sizeof weights, file), sizeof weights);
    assert_int_equal(fclose(file), 0);
    return api->CreateExternalInitializerInfo("weights.bin", 16, sizeof weights, after);
}

static OrtStatus *refuse(void *state, const char *name, const OrtValue *value, const OrtExternalInitializerInfo *before,
                         OrtExternalInitializerInfo **after)
{
    (void)state, (void)name, (void)value, (void)before, (void)after;
    return api->CreateStatus(ORT_FAIL, "the disk is full");
}

static void test_locations(void **state)
{
    const OrtCompileApi *compiler = api->GetCompileApi();
    char folder[] = "/tmp/ort_read.XXXXXX", path[64], data_path[64];
    struct places places = { .path = NULL };
    OrtModelCompilationOptions *compile;
    OrtSessionOptions *options;
    struct wire wire = { 0 };
    OrtSession *session;
    long sizes[2];

    (void)state;
    write_model(&wire);
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/m.onnx", folder);
    (void)snprintf(data_path, sizeof data_path, "%s/weights.bin", folder);
    ok(api->CreateSessionOptions(&options));
    ok(compiler->CreateModelCompilationOptionsFromSessionOptions(env, options, &compile));
    ok(compiler->ModelCompilationOptions_SetInputModelFromBuffer(compile, wire.bytes, wire.count));
    ok(compiler->ModelCompilationOptions_SetOutputModelPath(compile, path));
    for (int external = 0; external < 2; external++) {
        FILE *file;

        places = (struct places){ .path = external != 0 ? data_path : NULL };
        ok(compiler->ModelCompilationOptions_SetOutputModelGetInitializerLocationFunc(compile, locate, &places));
        ok(compiler->CompileModel(env, compile));
        assert_int_equal(places.calls, 1);
        file = fopen(path, "rb");
        assert_non_null(file);
        assert_int_equal(fseek(file, 0, SEEK_END), 0);
        sizes[external] = ftell(file);
        (void)fclose(file);
        ok(api->CreateSession(env, path, options, &session));
        gives_weights(session);
        api->ReleaseSession(session);
    }
    assert_true(sizes[1] < sizes[0]);
    ok(compiler->ModelCompilationOptions_SetOutputModelGetInitializerLocationFunc(compile, refuse, NULL));
    fails(compiler->CompileModel(env, compile), ORT_FAIL, "the disk is full");
    compiler->ReleaseModelCompilationOptions(compile);
    api->ReleaseSessionOptions(options);
    (void)unlink(path);
    (void)unlink(data_path);
    (void)rmdir(folder);
    free(wire.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_built_graph),
        cmocka_unit_test(test_assignment),
        cmocka_unit_test(test_external_info),
        cmocka_unit_test(test_locations),
    };

    return cmocka_run_group_tests(tests, begin, ort_test_end);
}
