/* libinlay_ep.so in ONNX Runtime's own library: models run with it and without it, with equal results. ORT_LIBRARY is
 * the path of that library. */
#include "stock.h"
#include "random.h"
#include <dirent.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_VALUES = 4 };

/* A model, run on random inputs of two sizes N. */
struct model {
    const char *name;
    void (*write)(struct wire *wire);
    size_t groups; /* of nodes that inlay runs; the rest are the runtime's */
    struct {
        const char *name;
        int type;
        const char *dims; /* as in mw_value(), with N alone as a symbol */
    } inputs[MAX_VALUES];
    const char *outputs[MAX_VALUES];
};

static OrtValue *random_input(int type, const char *dims, int64_t symbol, uint64_t *seed)
{
    int64_t sizes[8];
    size_t rank = 0, count = 1;
    OrtValue *value = NULL;
    void *data;

    for (const char *at = dims; *at != '\0'; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ',')) {
        sizes[rank] = *at == 'N' ? symbol : strtoll(at, NULL, 10);
        count *= (size_t)sizes[rank++];
    }
    ok(api->CreateTensorAsOrtValue(allocator, sizes, rank, type, &value));
    if (type == STRING) {
        for (size_t i = 0; i < count; i++)
            ok(api->FillStringTensorElement(value, i % 2 == 0 ? "even" : "odd", i));
        return value;
    }
    ok(api->GetTensorMutableData(value, &data));
    for (size_t i = 0; i < count; i++) {
        if (type == FLOAT)
            ((float *)data)[i] = random_signed(seed);
        else if (type == INT64)
            ((int64_t *)data)[i] = random_between(seed, 0, 3);
        else
            ((unsigned char *)data)[i] = (unsigned char)random_below(seed, 2);
    }
    return value;
}

/* Runs both sessions on the same inputs. */
static void run_both(const struct model *of, OrtSession *stock, OrtSession *ours_, int64_t symbol, uint64_t *seed)
{
    OrtValue *inputs[MAX_VALUES] = { NULL }, *expected[MAX_VALUES] = { NULL }, *actual[MAX_VALUES] = { NULL };
    const char *names[MAX_VALUES];
    size_t input_count = 0, output_count = 0;

    for (; input_count < MAX_VALUES && of->inputs[input_count].name != NULL; input_count++) {
        names[input_count] = of->inputs[input_count].name;
        inputs[input_count] = random_input(of->inputs[input_count].type, of->inputs[input_count].dims, symbol, seed);
    }
    while (output_count < MAX_VALUES && of->outputs[output_count] != NULL)
        output_count++;
    ok(api->Run(stock, NULL, names, (const OrtValue *const *)inputs, input_count, of->outputs, output_count, expected));
    ok(api->Run(ours_, NULL, names, (const OrtValue *const *)inputs, input_count, of->outputs, output_count, actual));
    for (size_t i = 0; i < output_count; i++) {
        same_values(of->name, expected[i], actual[i]);
        api->ReleaseValue(expected[i]);
        api->ReleaseValue(actual[i]);
    }
    for (size_t i = 0; i < input_count; i++)
        api->ReleaseValue(inputs[i]);
}

/* A float initializer of random numbers. */
static void weights(struct wire *wire, const char *name, uint32_t rank, const int64_t *dims)
{
    wire_mark mark = wire_begin(wire, MW_INITIALIZER);
    uint64_t seed = 7;
    int64_t count = 1;

    mw_tensor_head(wire, name, FLOAT, rank, dims);
    for (uint32_t d = 0; d < rank; d++)
        count *= dims[d];
    for (int64_t i = 0; i < count; i++)
        wire_float(wire, 4, random_signed(&seed) / 4);
    wire_end(wire, mark);
}

static void integers(struct wire *wire, const char *name, const int64_t *values, int64_t count)
{
    wire_mark mark = wire_begin(wire, MW_INITIALIZER);

    mw_tensor_head(wire, name, INT64, 1, &count);
    wire_ints(wire, 7, values, (size_t)count);
    wire_end(wire, mark);
}

static void attribute(struct wire *wire, const char *name, const int64_t *values, size_t count, bool is_list)
{
    wire_mark mark = wire_begin(wire, 5);

    wire_text(wire, 1, name);
    wire_int(wire, 20, is_list ? 7 : 2);
    for (size_t i = 0; i < count; i++)
        wire_int(wire, is_list ? 8 : 3, values[i]);
    wire_end(wire, mark);
}

/* Two layers; the first one's weights are too large to be copied into the graph's text. */
static void write_layers(struct wire *wire)
{
    wire_mark graph = mw_begin(wire, 8, 17);

    mw_value(wire, MW_INPUT, "x", FLOAT, "N,32");
    weights(wire, "w", 2, (const int64_t[]){ 32, 64 });
    weights(wire, "b", 1, (const int64_t[]){ 64 });
    weights(wire, "v", 2, (const int64_t[]){ 64, 8 });
    mw_node(wire, "MatMul", "x,w", "xw");
    mw_node(wire, "Add", "xw,b", "h");
    mw_node(wire, "Relu", "h", "r");
    mw_node(wire, "MatMul", "r,v", "y");
    mw_value(wire, MW_OUTPUT, "y", FLOAT, "N,8");
    wire_end(wire, graph);
}

static void write_convolution(struct wire *wire)
{
    const int64_t pads[] = { 1, 1, 1, 1 }, kernel[] = { 2, 2 };
    wire_mark graph = mw_begin(wire, 8, 17), node;

    mw_value(wire, MW_INPUT, "x", FLOAT, "N,3,12,12");
    weights(wire, "w", 4, (const int64_t[]){ 8, 3, 3, 3 });
    node = mw_node_begin(wire, "Conv", "x,w", "c");
    attribute(wire, "pads", pads, 4, true);
    wire_end(wire, node);
    mw_node(wire, "Relu", "c", "r");
    node = mw_node_begin(wire, "MaxPool", "r", "y");
    attribute(wire, "kernel_shape", kernel, 2, true);
    attribute(wire, "strides", kernel, 2, true);
    wire_end(wire, node);
    mw_value(wire, MW_OUTPUT, "y", FLOAT, "N,8,6,6");
    wire_end(wire, graph);
}

/* The same shapes at every run: the first one writes into the runtime's memory, too. */
static void write_fixed(struct wire *wire)
{
    const int64_t axis = 1;
    wire_mark graph = mw_begin(wire, 8, 17), node;

    mw_value(wire, MW_INPUT, "x", FLOAT, "4,9");
    node = mw_node_begin(wire, "Softmax", "x", "y");
    attribute(wire, "axis", &axis, 1, false);
    wire_end(wire, node);
    mw_value(wire, MW_OUTPUT, "y", FLOAT, "4,9");
    wire_end(wire, graph);
}

/* Both branches read w of the outer graph. */
static void write_if(struct wire *wire)
{
    wire_mark graph = mw_begin(wire, 8, 17), node;
    mw_body body;

    mw_value(wire, MW_INPUT, "x", FLOAT, "N,5");
    mw_value(wire, MW_INPUT, "flag", BOOL, "1");
    weights(wire, "w", 1, (const int64_t[]){ 5 });
    mw_node(wire, "Mul", "x,w", "m");
    node = mw_node_begin(wire, "If", "flag", "i");
    body = mw_body_begin(wire, "then_branch", "then");
    mw_node(wire, "Add", "m,w", "a");
    mw_value(wire, MW_OUTPUT, "a", FLOAT, "N,5");
    mw_body_end(wire, body);
    body = mw_body_begin(wire, "else_branch", "else");
    mw_node(wire, "Sub", "m,w", "s");
    mw_value(wire, MW_OUTPUT, "s", FLOAT, "N,5");
    mw_body_end(wire, body);
    wire_end(wire, node);
    mw_node(wire, "Neg", "i", "y");
    mw_value(wire, MW_OUTPUT, "y", FLOAT, "N,5");
    wire_end(wire, graph);
}

/* The shape of the output depends on the elements. */
static void write_nonzero(struct wire *wire)
{
    wire_mark graph = mw_begin(wire, 8, 17);

    mw_value(wire, MW_INPUT, "x", INT64, "N,6");
    mw_node(wire, "NonZero", "x", "y");
    mw_value(wire, MW_OUTPUT, "y", INT64, "2,?");
    wire_end(wire, graph);
}

/* Two parts that share nothing, one of them on strings, which stay with the runtime. */
static void write_strings(struct wire *wire)
{
    wire_mark graph = mw_begin(wire, 8, 17);

    mw_value(wire, MW_INPUT, "x", FLOAT, "N,3");
    mw_value(wire, MW_INPUT, "s", STRING, "N");
    mw_node(wire, "Exp", "x", "e");
    mw_node(wire, "Neg", "e", "y");
    mw_node(wire, "Unique", "s", "t");
    mw_value(wire, MW_OUTPUT, "y", FLOAT, "N,3");
    mw_value(wire, MW_OUTPUT, "t", STRING, "?");
    wire_end(wire, graph);
}

static void cast(struct wire *wire, const char *input, const char *output, int64_t type)
{
    wire_mark node = mw_node_begin(wire, "Cast", input, output);

    attribute(wire, "to", &type, 1, false);
    wire_end(wire, node);
}

/* The runtime runs nodes on strings between two groups of inlay. */
static void write_between(struct wire *wire)
{
    wire_mark graph = mw_begin(wire, 8, 17);

    mw_value(wire, MW_INPUT, "x", FLOAT, "N,3");
    mw_node(wire, "Abs", "x", "a");
    cast(wire, "a", "s", STRING);
    cast(wire, "s", "f", FLOAT);
    mw_node(wire, "Sqrt", "f", "y");
    mw_value(wire, MW_OUTPUT, "y", FLOAT, "N,3");
    mw_value(wire, MW_OUTPUT, "s", STRING, "N,3");
    wire_end(wire, graph);
}

/* Arithmetic on sizes between nodes of the runtime stays with the runtime. */
static void write_indices(struct wire *wire)
{
    wire_mark graph = mw_begin(wire, 8, 17);

    mw_value(wire, MW_INPUT, "x", FLOAT, "N,3");
    mw_node(wire, "Exp", "x", "y");
    mw_node(wire, "Shape", "y", "shape");
    cast(wire, "shape", "s", STRING);
    cast(wire, "s", "i", INT64);
    mw_node(wire, "Add", "i,i", "z");
    mw_value(wire, MW_OUTPUT, "y", FLOAT, "N,3");
    mw_value(wire, MW_OUTPUT, "z", INT64, "2");
    wire_end(wire, graph);
}

static void write_shapes(struct wire *wire)
{
    const int64_t axis = 0;
    wire_mark graph = mw_begin(wire, 8, 17), node;

    mw_value(wire, MW_INPUT, "x", FLOAT, "N,2,6");
    integers(wire, "zero", (const int64_t[]){ 0 }, 1);
    integers(wire, "rest", (const int64_t[]){ -1 }, 1);
    mw_node(wire, "Shape", "x", "shape");
    mw_node(wire, "Gather", "shape,zero", "n");
    node = mw_node_begin(wire, "Concat", "n,rest", "to");
    attribute(wire, "axis", &axis, 1, false);
    wire_end(wire, node);
    mw_node(wire, "Reshape", "x,to", "y");
    mw_value(wire, MW_OUTPUT, "y", FLOAT, "N,12");
    wire_end(wire, graph);
}

/* b is an input with a default, so no constant; y is an output that is used. */
static void write_default(struct wire *wire)
{
    wire_mark graph = mw_begin(wire, 8, 17);

    mw_value(wire, MW_INPUT, "x", FLOAT, "N,4");
    mw_value(wire, MW_INPUT, "b", FLOAT, "4");
    mw_ones(wire, "b", 4);
    mw_node(wire, "Add", "x,b", "y");
    mw_node(wire, "Tanh", "y", "z");
    mw_value(wire, MW_OUTPUT, "y", FLOAT, "N,4");
    mw_value(wire, MW_OUTPUT, "z", FLOAT, "N,4");
    wire_end(wire, graph);
}

/* A sequence inside the graph. */
static void write_sequence(struct wire *wire)
{
    const int64_t axis = 0;
    wire_mark graph = mw_begin(wire, 8, 17), node;

    mw_value(wire, MW_INPUT, "x", FLOAT, "N,3");
    mw_node(wire, "Relu", "x", "r");
    mw_node(wire, "SequenceConstruct", "x,r", "q");
    node = mw_node_begin(wire, "ConcatFromSequence", "q", "y");
    attribute(wire, "axis", &axis, 1, false);
    wire_end(wire, node);
    mw_value(wire, MW_OUTPUT, "y", FLOAT, "?,3");
    wire_end(wire, graph);
}

static const struct model models[] = {
    { "layers", write_layers, 1, { { "x", FLOAT, "N,32" } }, { "y" } },
    { "convolution", write_convolution, 1, { { "x", FLOAT, "N,3,12,12" } }, { "y" } },
    { "fixed", write_fixed, 1, { { "x", FLOAT, "4,9" } }, { "y" } },
    { "if", write_if, 1, { { "x", FLOAT, "N,5" }, { "flag", BOOL, "1" } }, { "y" } },
    { "nonzero", write_nonzero, 1, { { "x", INT64, "N,6" } }, { "y" } },
    { "strings", write_strings, 1, { { "x", FLOAT, "N,3" }, { "s", STRING, "N" } }, { "y", "t" } },
    { "between", write_between, 2, { { "x", FLOAT, "N,3" } }, { "y", "s" } },
    { "indices", write_indices, 1, { { "x", FLOAT, "N,3" } }, { "y", "z" } },
    { "shapes", write_shapes, 1, { { "x", FLOAT, "N,2,6" } }, { "y" } },
    { "default", write_default, 1, { { "x", FLOAT, "N,4" } }, { "y", "z" } },
    { "sequence", write_sequence, 1, { { "x", FLOAT, "N,3" } }, { "y" } },
};

static void test_models(void **state)
{
    OrtSessionOptions *stock_options, *options = options_with("intra_threads", "1");
    uint64_t seed = 42;

    (void)state;
    ok(api->CreateSessionOptions(&stock_options));
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        struct wire wire = { 0 };
        OrtSession *stock, *with;
        size_t groups, nodes;

        models[i].write(&wire);
        stock = session_of(&wire, stock_options);
        with = session_of(&wire, options);
        wire_deinit(&wire);
        nodes = nodes_of_inlay(with, &groups);
        if (groups != models[i].groups || nodes == 0)
            fail_msg("%s: inlay runs %zu nodes in %zu groups", models[i].name, nodes, groups);
        for (int round = 0; round < 3; round++) {
            run_both(&models[i], stock, with, 2, &seed);
            run_both(&models[i], stock, with, 5, &seed);
            run_both(&models[i], stock, with, 5, &seed);
        }
        api->ReleaseSession(stock);
        api->ReleaseSession(with);
    }
    api->ReleaseSessionOptions(stock_options);
    api->ReleaseSessionOptions(options);
}

struct caller {
    OrtSession *stock, *with;
    uint64_t seed;
};

static void *call(void *user)
{
    struct caller *own = user;

    for (int i = 0; i < 20; i++)
        run_both(&models[0], own->stock, own->with, 1 + i % 3, &own->seed);
    return NULL;
}

static void test_threads(void **state)
{
    OrtSessionOptions *stock_options, *options = options_with(NULL, NULL);
    struct wire wire = { 0 };
    struct caller callers[4];
    pthread_t threads[4];

    (void)state;
    ok(api->CreateSessionOptions(&stock_options));
    models[0].write(&wire);
    callers[0] = (struct caller){ session_of(&wire, stock_options), session_of(&wire, options), 0 };
    wire_deinit(&wire);
    for (size_t i = 0; i < 4; i++) {
        callers[i] = callers[0];
        callers[i].seed = i;
        assert_int_equal(pthread_create(&threads[i], NULL, call, &callers[i]), 0);
    }
    for (size_t i = 0; i < 4; i++)
        (void)pthread_join(threads[i], NULL);
    api->ReleaseSession(callers[0].stock);
    api->ReleaseSession(callers[0].with);
    api->ReleaseSessionOptions(stock_options);
    api->ReleaseSessionOptions(options);
}

/* OrtCompileApi. */
struct compile_api {
#define ENTRY(returns, name, params) returns(*name) params;
#include "compile.def"
#undef ENTRY
};

/* Compiles the model file to *out. */
static void compile_file(const OrtSessionOptions *options, const char *in, const char *out, bool embedded)
{
    const struct compile_api *compiling = (const struct compile_api *)(const void *)api->GetCompileApi();
    OrtModelCompilationOptions *compilation = NULL;

    ok(compiling->CreateModelCompilationOptionsFromSessionOptions(env, options, &compilation));
    ok(compiling->ModelCompilationOptions_SetInputModelPath(compilation, in));
    ok(compiling->ModelCompilationOptions_SetOutputModelPath(compilation, out));
    ok(compiling->ModelCompilationOptions_SetEpContextEmbedMode(compilation, embedded));
    ok(compiling->CompileModel(env, compilation));
    compiling->ReleaseModelCompilationOptions(compilation);
}

static size_t count_files(const char *folder, const char *suffix)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    size_t count = 0;

    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        const size_t bytes = strlen(entry->d_name), end = strlen(suffix);

        count += bytes > end && strcmp(entry->d_name + bytes - end, suffix) == 0;
    }
    (void)closedir(dir);
    return count;
}

static void remove_folder(const char *folder)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    char path[600];

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        (void)unlink(path);
    }
    if (dir != NULL)
        (void)closedir(dir);
    (void)rmdir(folder);
}

/* Each model is compiled, into EPContext nodes and into separate files; sessions of the result run only these nodes,
 * with equal results. */
static void test_compiled_models(void **state)
{
    OrtSessionOptions *stock_options, *options = options_with("intra_threads", "1");
    char folder[] = "/tmp/inlay_ep_XXXXXX", in[64], out[64];
    uint64_t seed = 42;

    (void)state;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(in, sizeof in, "%s/model.onnx", folder);
    (void)snprintf(out, sizeof out, "%s/compiled.onnx", folder);
    ok(api->CreateSessionOptions(&stock_options));
    for (size_t i = 0; i < 2 * sizeof models / sizeof models[0]; i++) {
        const struct model *of = &models[i / 2];
        const bool embedded = i % 2 == 0;
        struct wire wire = { 0 };
        OrtSession *stock, *with;
        size_t groups;

        of->write(&wire);
        mw_save(&wire, in);
        stock = session_of(&wire, stock_options);
        wire_deinit(&wire);
        compile_file(options, in, out, embedded);
        assert_int_equal(count_files(folder, ".inlay.onnx"), embedded ? 0 : of->groups);
        ok(api->CreateSession(env, out, options, &with));
        assert_int_equal(nodes_of_inlay(with, &groups), of->groups); /* each group is one node */
        for (int round = 0; round < 2; round++)
            run_both(of, stock, with, 2 + round, &seed);
        api->ReleaseSession(stock);
        api->ReleaseSession(with);
        remove_folder(folder);
        assert_int_equal(mkdir(folder, 0700), 0);
    }
    remove_folder(folder);
    api->ReleaseSessionOptions(stock_options);
    api->ReleaseSessionOptions(options);
}

static void test_compatibility(void **state)
{
    static const struct {
        const char *info;
        OrtCompiledModelCompatibility expected;
    } rows[] = { { "inlay " INLAY_VERSION, ORT_COMPATIBILITY_OPTIMAL },
                 { "inlay 0.0.1", ORT_COMPATIBILITY_PREFER_RECOMPILATION },
                 { "another provider", ORT_COMPATIBILITY_NOT_APPLICABLE } };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        OrtCompiledModelCompatibility got = -1;

        ok(api->GetModelCompatibilityForEpDevices(&device, 1, rows[i].info, &got));
        assert_int_equal(got, rows[i].expected);
    }
}

static OrtStatus *choose_inlay(const OrtEpDevice **devices, size_t count, const OrtKeyValuePairs *of_model,
                               const OrtKeyValuePairs *of_runtime, const OrtEpDevice **selected, size_t max_selected,
                               size_t *num_selected, void *state)
{
    (void)of_model, (void)of_runtime, (void)state;
    *num_selected = 0;
    for (size_t i = 0; i < count && *num_selected < max_selected; i++)
        if (devices[i] == device)
            selected[(*num_selected)++] = devices[i];
    return NULL;
}

/* The runtime selects providers from the devices that they list. */
static void test_selection(void **state)
{
    OrtSessionOptions *options;
    struct wire wire = { 0 };
    OrtSession *session;
    size_t groups;

    (void)state;
    ok(api->CreateSessionOptions(&options));
    ok(api->AddSessionConfigEntry(options, "session.record_ep_graph_assignment_info", "1"));
    ok(api->SessionOptionsSetEpSelectionPolicyDelegate(options, choose_inlay, NULL));
    models[0].write(&wire);
    session = session_of(&wire, options);
    wire_deinit(&wire);
    assert_true(nodes_of_inlay(session, &groups) > 0);
    api->ReleaseSession(session);
    api->ReleaseSessionOptions(options);
}

/* The runtime's profile of a session contains the steps of inlay, within the events of their fused nodes. */
static void test_profile(void **state)
{
    OrtSessionOptions *options = options_with("intra_threads", "1");
    char prefix[] = "/tmp/inlay_ep_profile_XXXXXX", *path = NULL, *text;
    struct wire wire = { 0 };
    OrtSession *session, *stock;
    OrtSessionOptions *stock_options;
    uint64_t seed = 42;
    size_t found = 0;
    FILE *file;

    (void)state;
    assert_non_null(mkdtemp(prefix));
    ok(api->CreateSessionOptions(&stock_options));
    models[0].write(&wire);
    stock = session_of(&wire, stock_options);
    ok(api->EnableProfiling(options, prefix));
    session = session_of(&wire, options);
    wire_deinit(&wire);
    for (int i = 0; i < 2; i++)
        run_both(&models[0], stock, session, 2, &seed);
    ok(api->SessionEndProfiling(session, allocator, &path));
    file = fopen(path, "re");
    assert_non_null(file);
    text = calloc(1, 1 << 20);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
    (void)fclose(file);
    for (const char *at = text; (at = strstr(at, "\"parent_name\"")) != NULL; at++)
        found++;
    if (found == 0 || found % 2 != 0 || strstr(text, "InlayExecutionProvider") == NULL ||
        strstr(text, "\"op_name\" : \"MatMul") == NULL)
        fail_msg("%zu steps of inlay in %s", found, text);
    free(text);
    assert_int_equal(unlink(path), 0);
    allocator->Free(allocator, path);
    api->ReleaseSession(session);
    api->ReleaseSession(stock);
    api->ReleaseSessionOptions(options);
    api->ReleaseSessionOptions(stock_options);
    remove_folder(prefix);
}

static void test_unknown_option(void **state)
{
    OrtSessionOptions *options = options_with("no_such_option", "1");
    struct wire wire = { 0 };
    OrtSession *session = NULL;

    (void)state;
    models[0].write(&wire);
    fails(api->CreateSessionFromArray(env, wire.bytes, wire.count, options, &session), ORT_FAIL,
          "unknown option 'no_such_option'");
    wire_deinit(&wire);
    api->ReleaseSessionOptions(options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_models),        cmocka_unit_test(test_threads),   cmocka_unit_test(test_compiled_models),
        cmocka_unit_test(test_compatibility), cmocka_unit_test(test_selection), cmocka_unit_test(test_unknown_option),
        cmocka_unit_test(test_profile),
    };

    return cmocka_run_group_tests_name("inlay_ep_stock", tests, begin, end);
}
