/* inlay_extract: the stages together compute the results of the whole model; parts by names and patterns contain only
 * what they need; errors name the wrong argument. The model has a branch with captures, a function and a constant. */
#include "rig.h"
#include <stdio.h>
#include <unistd.h>

static char whole_path[64], part_path[64];

static void named_node(struct wire *wire, const char *op, const char *domain, const char *inputs, const char *outputs,
                       const char *name)
{
    wire_mark mark = mw_node_begin(wire, op, inputs, outputs);

    wire_text(wire, 3, name);
    if (domain != NULL)
        wire_text(wire, 7, domain);
    wire_end(wire, mark);
}

/* y = twice(relu(up ? s + s : -s) * three), s = x + three; r is the output of Relu. Inner values have no declared
 * types. */
static void write_model(void)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17), branch;
    mw_body arm;

    mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, "N,2");
    mw_value(&wire, MW_INPUT, "up", INLAY_BOOL, "");
    mw_scalar(&wire, "three", INLAY_FLOAT, 3);
    named_node(&wire, "Add", NULL, "x,three", "s", "add");
    branch = mw_node_begin(&wire, "If", "up", "b");
    wire_text(&wire, 3, "branch");
    arm = mw_body_begin(&wire, "then_branch", "t");
    named_node(&wire, "Add", NULL, "s,s", "bt", "double");
    mw_value(&wire, MW_OUTPUT, "bt", 0, NULL);
    mw_body_end(&wire, arm);
    arm = mw_body_begin(&wire, "else_branch", "e");
    named_node(&wire, "Neg", NULL, "s", "be", "negate");
    mw_value(&wire, MW_OUTPUT, "be", 0, NULL);
    mw_body_end(&wire, arm);
    wire_end(&wire, branch);
    named_node(&wire, "Relu", NULL, "b", "r", "relu");
    named_node(&wire, "Mul", NULL, "r,three", "d", "mul");
    named_node(&wire, "twice", "my", "d", "y", "call");
    named_node(&wire, "Not", NULL, "up", "idle", "idle"); /* in no stage */
    mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, "N,2");
    mw_value(&wire, MW_OUTPUT, "r", INLAY_FLOAT, "N,2");
    wire_end(&wire, mark);
    mw_opset(&wire, 8, "my", 1);
    mark = mw_function_begin(&wire, "twice", "p", "q", "");
    mw_function_node(&wire, "", "Add", "p,p", "q");
    wire_end(&wire, mark);
    mw_save(&wire, whole_path);
    wire_deinit(&wire);
}

/* The outputs of earlier stages by name. */
struct store {
    char names[16][16];
    inlay_value *values[16];
    uint32_t count;
};

static void put(struct store *store, const char *name, inlay_value *value)
{
    (void)snprintf(store->names[store->count], sizeof store->names[0], "%s", name);
    store->values[store->count++] = value;
}

static inlay_value *get(const struct store *store, const char *name)
{
    for (uint32_t i = 0; i < store->count; i++)
        if (strcmp(store->names[i], name) == 0)
            return store->values[i];
    fail_msg("no stage computed '%s'", name);
    return NULL;
}

static void run_file(const char *path, struct store *store)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *session;
    inlay_context *context;
    inlay_io_info info = { .struct_size = sizeof info };

    if (inlay_session_create(path, NULL, &session, &diag) != INLAY_OK)
        fail_msg("%s: %s", path, diag.text);
    assert_int_equal(inlay_context_create(session, &context, &diag), INLAY_OK);
    for (uint32_t i = 0; i < inlay_session_input_count(session); i++) {
        assert_int_equal(inlay_session_input(session, i, &info), INLAY_OK);
        if (inlay_context_set_input(context, i, get(store, info.name), &diag) != INLAY_OK)
            fail_msg("%s: %s", path, diag.text);
    }
    if (inlay_context_run(context, NULL, &diag) != INLAY_OK)
        fail_msg("%s: %s", path, diag.text);
    for (uint32_t i = 0; i < inlay_session_output_count(session); i++) {
        inlay_value *value = inlay_context_output(context, i);

        assert_int_equal(inlay_session_output(session, i, &info), INLAY_OK);
        put(store, info.name, inlay_value_ref(value));
    }
    inlay_context_destroy(context);
    inlay_session_destroy(session);
}

static struct store start(bool up)
{
    static const float x[] = { 1, -5, 2, -3.5f };
    static const int64_t dims[] = { 2, 2 };
    struct store store = { .count = 0 };
    inlay_value *value;

    assert_int_equal(inlay_value_create(INLAY_FLOAT, 2, dims, &value, NULL), INLAY_OK);
    memcpy(inlay_value_data(value), x, sizeof x);
    put(&store, "x", value);
    assert_int_equal(inlay_value_create(INLAY_BOOL, 0, NULL, &value, NULL), INLAY_OK);
    *(uint8_t *)inlay_value_data(value) = up;
    put(&store, "up", value);
    return store;
}

static void finish(struct store *store)
{
    for (uint32_t i = 0; i < store->count; i++)
        inlay_value_unref(store->values[i]);
}

static void expect(const struct store *store, const char *name, float a, float b, float c, float d)
{
    const float want[] = { a, b, c, d };

    assert_memory_equal(inlay_value_data(get(store, name)), want, sizeof want);
}

static inlay_extract_args args_for(uint32_t parts, uint32_t k)
{
    inlay_extract_args args = INLAY_EXTRACT_ARGS_INIT;

    args.out_path = part_path;
    args.part_count = parts;
    args.part = k;
    return args;
}

static void extract(inlay_extract_args *args)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    if (inlay_extract(whole_path, NULL, args, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
}

static void test_stages(void **state)
{
    (void)state;
    for (int up = 0; up < 2; up++)
        for (uint32_t parts = 1; parts <= 5; parts++) {
            struct store store = start(up != 0);
            uint32_t kept = 0;

            for (uint32_t k = 0; k < parts; k++) {
                inlay_extract_args args = args_for(parts, k);

                extract(&args);
                kept += args.nodes_kept;
                assert_int_equal(args.nodes_all, 6);
                run_file(part_path, &store);
            }
            assert_int_equal(kept, 5);
            if (up != 0)
                expect(&store, "y", 48, 0, 60, 0); /* s is 4, -2, 5, -0.5 */
            else
                expect(&store, "y", 0, 12, 0, 3);
            finish(&store);
        }
}

static void test_names(void **state)
{
    const char *const from[] = { "b" }, *const to[] = { "d" };
    inlay_extract_args args = INLAY_EXTRACT_ARGS_INIT;
    struct store store = { .count = 0 }, full = start(true);
    inlay_session *session;
    inlay_io_info info = { .struct_size = sizeof info };

    (void)state;
    args.out_path = part_path;
    args.inputs = from;
    args.outputs = to;
    args.input_count = args.output_count = 1;
    extract(&args);
    assert_int_equal(args.nodes_kept, 2); /* Relu, Mul */
    assert_int_equal(inlay_session_create(part_path, NULL, &session, NULL), INLAY_OK);
    assert_int_equal(inlay_session_input_count(session), 1);
    assert_int_equal(inlay_session_input(session, 0, &info), INLAY_OK);
    assert_string_equal(info.name, "b");
    assert_int_equal(info.dtype, INLAY_FLOAT); /* the file does not declare it */
    inlay_session_destroy(session);
    put(&store, "b", inlay_value_ref(get(&full, "x"))); /* arbitrary values */
    run_file(part_path, &store);
    expect(&store, "d", 3, 0, 6, 0);
    finish(&store);
    finish(&full);
}

/* The part contains only what the outputs need, not the function. */
static void test_outputs(void **state)
{
    const char *const to[] = { "s" };
    inlay_extract_args args = INLAY_EXTRACT_ARGS_INIT;
    inlay_session *session;
    struct store store = start(true);

    (void)state;
    args.out_path = part_path;
    args.outputs = to;
    args.output_count = 1;
    extract(&args);
    assert_int_equal(args.nodes_kept, 1);
    assert_int_equal(inlay_session_create(part_path, NULL, &session, NULL), INLAY_OK);
    assert_int_equal(inlay_session_input_count(session), 1); /* not `up` */
    inlay_session_destroy(session);
    run_file(part_path, &store);
    expect(&store, "s", 4, -2, 5, -0.5f);
    finish(&store);
}

static void test_patterns(void **state)
{
    static const struct {
        const char *pattern;
        uint32_t depth, kept, inputs, outputs;
    } cases[] = { { "relu", 0, 1, 1, 1 },
                  { "op:Relu", 1, 3, 2, 2 },
                  { "op:*", 0, 6, 2, 2 },
                  { "branch", 0, 1, 2, 1 }, /* `up` and the values that its bodies capture */
                  { "mul", 9, 6, 2, 2 } };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        inlay_extract_args args = INLAY_EXTRACT_ARGS_INIT;
        inlay_session *session;

        args.out_path = part_path;
        args.nodes = &cases[i].pattern;
        args.node_count = 1;
        args.depth = cases[i].depth;
        extract(&args);
        assert_int_equal(args.nodes_kept, cases[i].kept);
        assert_int_equal(inlay_session_create(part_path, NULL, &session, NULL), INLAY_OK);
        assert_int_equal(inlay_session_input_count(session), cases[i].inputs);
        assert_int_equal(inlay_session_output_count(session), cases[i].outputs);
        inlay_session_destroy(session);
    }
}

static void refuse(inlay_extract_args args, const char *text)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    args.out_path = part_path;
    assert_int_equal(inlay_extract(whole_path, NULL, &args, &diag), INLAY_INVALID_ARGUMENT);
    if (strstr(diag.text, text) == NULL)
        fail_msg("'%s' instead of '%s'", diag.text, text);
}

static void test_wrong_arguments(void **state)
{
    const char *const from[] = { "r", "relu_", "three" }, *const to[] = { "b", "y" }, *const nodes[] = { "op:Conv" };
    inlay_extract_args args = INLAY_EXTRACT_ARGS_INIT;

    (void)state;
    refuse(args, "name inputs and outputs, or nodes, or a part");
    args.inputs = &from[0];
    args.input_count = 1;
    args.outputs = &to[0];
    args.output_count = 1;
    refuse(args, "input 'r': the outputs do not depend on it");
    args.inputs = &from[1];
    refuse(args, "inputs: the main graph has no value 'relu_'");
    args.inputs = &from[2];
    args.outputs = &to[1];
    refuse(args, "the outputs also depend on input 'x' of the model");
    args = (inlay_extract_args)INLAY_EXTRACT_ARGS_INIT;
    args.nodes = nodes;
    args.node_count = 1;
    refuse(args, "no node of the main graph matches 'op:Conv'");
    refuse(args_for(6, 0), "part 0 of 6: the outputs of the main graph depend on 5 nodes, the most parts");
    refuse(args_for(2, 2), "part 2 of 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stages),   cmocka_unit_test(test_names),           cmocka_unit_test(test_outputs),
        cmocka_unit_test(test_patterns), cmocka_unit_test(test_wrong_arguments),
    };
    int failed;

    (void)snprintf(whole_path, sizeof whole_path, "/tmp/inlay-extract-%ld.onnx", (long)getpid());
    (void)snprintf(part_path, sizeof part_path, "/tmp/inlay-extract-%ld.part.onnx", (long)getpid());
    write_model();
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)remove(whole_path);
    (void)remove(part_path);
    return failed;
}
