/* Control flow nodes that a provider runs including their bodies (INLAY_EXT_BODIES): the results must equal those of
 * the host, no matter which nodes the provider takes, declines or does not support. Also placement rules, saved plans,
 * and rewrites of passes in bodies. */
#include "graph_script.h"
#include "random.h"
#include <stdlib.h>
#include <unistd.h>

enum { GRAPHS = 300, NAMES = 64, DEEPEST = 3 };

static uint64_t dice;
static uint32_t made; /* number of generated names */

/* Values that a node may read, including those of outer graphs: [N,3] floats, conditions, stacks [T,N,3]. */
struct scope {
    char floats[NAMES][12], bools[NAMES][12], stacks[NAMES][12];
    uint32_t float_count, bool_count, stack_count;
};

static void add_name(char (*list)[12], uint32_t *count, const char *name)
{
    (void)snprintf(list[*count % NAMES], 12, "%s", name);
    *count += *count < NAMES - 1;
}

static const char *some(char (*list)[12], uint32_t count)
{
    return random_below(&dice, 2) == 0 ? list[count - 1] : list[random_below(&dice, count)];
}

static void write_nodes(struct wire *wire, struct scope *scope, uint32_t count, uint32_t depth);

/* Writes a body that computes one or two floats from values of the outer graphs. */
static void write_branch(struct wire *wire, const struct scope *around, const char *attr, uint32_t outputs,
                         uint32_t depth)
{
    mw_body body = mw_body_begin(wire, attr, attr);
    struct scope *scope = malloc(sizeof *scope);
    char name[12];

    assert_non_null(scope);
    *scope = *around;
    write_nodes(wire, scope, 1 + random_below(&dice, 3), depth + 1);
    for (uint32_t o = 0; o < outputs; o++) {
        (void)snprintf(name, sizeof name, "v%u", made++);
        mw_node(wire, o == 0 ? "Neg" : "Abs", some(scope->floats, scope->float_count), name);
        mw_value(wire, MW_OUTPUT, name, RIG_FLOAT, NULL);
    }
    free(scope);
    mw_body_end(wire, body);
}

/* Writes the body of a Loop (with iteration number and condition) or Scan: carried floats, a slice, stacked outputs. */
static void write_body(struct wire *wire, const struct scope *around, bool scan, uint32_t carried, uint32_t stacked,
                       uint32_t depth)
{
    mw_body body = mw_body_begin(wire, "body", "body");
    struct scope *scope = malloc(sizeof *scope);
    char name[12], odd[12], go[12];

    assert_non_null(scope);
    *scope = *around;
    (void)snprintf(go, sizeof go, "c%u", made++);
    (void)snprintf(name, sizeof name, "i%u", made++);
    if (!scan) {
        mw_value(wire, MW_INPUT, name, RIG_INT64, "");
        mw_value(wire, MW_INPUT, go, RIG_BOOL, "");
        (void)snprintf(odd, sizeof odd, "b%u", made++);
        char both[32];
        (void)snprintf(both, sizeof both, "%s,one", name);
        mw_node(wire, "Less", both, odd);
        add_name(scope->bools, &scope->bool_count, odd);
    }
    for (uint32_t i = 0; i < carried + scan; i++) {
        (void)snprintf(name, sizeof name, "v%u", made++);
        mw_value(wire, MW_INPUT, name, RIG_FLOAT, NULL);
        add_name(scope->floats, &scope->float_count, name);
    }
    write_nodes(wire, scope, 1 + random_below(&dice, 3), depth + 1);
    if (!scan) {
        (void)snprintf(name, sizeof name, "g%u", made++);
        mw_node(wire, "Identity", go, name);
        mw_value(wire, MW_OUTPUT, name, RIG_BOOL, "");
    }
    for (uint32_t o = 0; o < carried + stacked; o++) {
        (void)snprintf(name, sizeof name, "v%u", made++);
        mw_node(wire, o % 2 == 0 ? "Neg" : "Relu", some(scope->floats, scope->float_count), name);
        mw_value(wire, MW_OUTPUT, name, RIG_FLOAT, NULL);
    }
    free(scope);
    mw_body_end(wire, body);
}

static void write_control(struct wire *wire, struct scope *scope, uint32_t depth)
{
    static const char *const trips[] = { "n", "two", "three" };
    uint32_t kind = random_below(&dice, 3), outputs = 1 + random_below(&dice, 2),
             stacked = kind == 0 ? 0 : random_below(&dice, 2);
    char in[96] = "", out[48] = "", name[12];
    wire_mark mark;

    if (kind == 2)
        outputs = 1;
    if (kind == 0)
        (void)snprintf(in, sizeof in, "%s", scope->bools[random_below(&dice, scope->bool_count)]);
    else if (kind == 1)
        (void)snprintf(in, sizeof in, "%s,_", trips[random_below(&dice, 3)]);
    for (uint32_t o = 0; kind != 0 && o < outputs; o++)
        (void)snprintf(in + strlen(in), sizeof in - strlen(in), "%s%s", in[0] != '\0' ? "," : "",
                       some(scope->floats, scope->float_count));
    if (kind == 2)
        (void)snprintf(in + strlen(in), sizeof in - strlen(in), ",%s",
                       scope->stacks[random_below(&dice, scope->stack_count)]);
    for (uint32_t o = 0; o < outputs + stacked; o++)
        (void)snprintf(out + strlen(out), sizeof out - strlen(out), "%sv%u", o > 0 ? "," : "", made++);
    mark = mw_node_begin(wire, kind == 0 ? "If" : kind == 1 ? "Loop" : "Scan", in, out);
    if (kind == 2)
        mw_attr_int(wire, "num_scan_inputs", 1);
    if (kind == 0) {
        write_branch(wire, scope, "then_branch", outputs, depth);
        write_branch(wire, scope, "else_branch", outputs, depth);
    } else {
        write_body(wire, scope, kind == 2, outputs, stacked, depth);
    }
    wire_end(wire, mark);
    for (uint32_t o = 0; o < outputs + stacked; o++) {
        const char *at = out;

        for (uint32_t k = 0; k < o; k++)
            at = strchr(at, ',') + 1;
        (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ","), at);
        if (o < outputs)
            add_name(scope->floats, &scope->float_count, name);
        else
            add_name(scope->stacks, &scope->stack_count, name);
    }
}

static void write_nodes(struct wire *wire, struct scope *scope, uint32_t count, uint32_t depth)
{
    static const char *const ops[] = { "Add", "Sub", "Mul", "Neg", "Abs", "Relu" };

    for (uint32_t i = 0; i < count; i++) {
        const char *op = ops[random_below(&dice, 6)];
        char in[32], name[12];

        if (random_below(&dice, depth == 0 ? 2 : 4) == 0 && depth < DEEPEST) {
            write_control(wire, scope, depth);
            continue;
        }
        (void)snprintf(name, sizeof name, "v%u", made++);
        if (strcmp(op, "Mul") == 0)
            (void)snprintf(in, sizeof in, "%s,half", some(scope->floats, scope->float_count));
        else if (op[0] == 'A' && op[1] == 'd')
            (void)snprintf(in, sizeof in, "%s,%s", some(scope->floats, scope->float_count),
                           some(scope->floats, scope->float_count));
        else if (op[0] == 'S')
            (void)snprintf(in, sizeof in, "%s,%s", some(scope->floats, scope->float_count), scope->floats[0]);
        else
            (void)snprintf(in, sizeof in, "%s", some(scope->floats, scope->float_count));
        mw_node(wire, op, in, name);
        add_name(scope->floats, &scope->float_count, name);
    }
}

static void write_graph(struct wire *wire, uint64_t seed)
{
    wire_mark mark = mw_begin(wire, 8, 17);
    struct scope *scope = calloc(1, sizeof *scope);

    assert_non_null(scope);
    dice = seed;
    made = 0;
    script_add(wire, "x : N,3\n"
                     "flag : bool -\n"
                     "n : int64 -\n"
                     "s : T,N,3\n"
                     "half = [] 0.5\n"
                     "one = i[] 1\n"
                     "two = i[] 2\n"
                     "three = i[] 3");
    add_name(scope->floats, &scope->float_count, "x");
    add_name(scope->bools, &scope->bool_count, "flag");
    add_name(scope->stacks, &scope->stack_count, "s");
    write_nodes(wire, scope, 3 + random_below(&dice, 4), 0);
    write_control(wire, scope, 0);
    for (uint32_t k = scope->float_count - 1; k >= 1 && k + 3 > scope->float_count; k--)
        mw_value(wire, MW_OUTPUT, scope->floats[k], RIG_FLOAT, NULL);
    for (uint32_t k = 1; k < scope->stack_count; k++)
        mw_value(wire, MW_OUTPUT, scope->stacks[k], RIG_FLOAT, NULL);
    free(scope);
    wire_end(wire, mark);
}

static struct rig open_with(struct wire *wire, const char *what, const char *providers, const char *name,
                            const char *value)
{
    const char *options[] = { "providers", providers, "plugin_dirs", FAULTY_DIR, "probe", "never",
                              "cache_dir", "",        name,          value,      NULL };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig rig;

    if (rig_try_open(wire, options, &rig, &diag) != INLAY_OK)
        fail_msg("%s on %s: %s", what, providers, diag.text);
    return rig;
}

struct text {
    char *bytes;
    size_t count;
};

static void append(void *user, const char *piece, size_t bytes)
{
    struct text *text = user;
    char *more = realloc(text->bytes, text->count + bytes + 1);

    assert_non_null(more);
    memcpy(more + text->count, piece, bytes);
    text->bytes = more;
    text->count += bytes;
    text->bytes[text->count] = '\0';
}

/* Returns the number of offers of provider `whole` in the session's plan. */
static uint32_t count_offers(const struct rig *rig)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    uint32_t count = 0;
    struct text text = { 0 };

    assert_int_equal(inlay_session_plan_save(rig->session, append, &text, &diag), INLAY_OK);
    for (const char *at = strstr(text.bytes, "\"offers\""); at != NULL && (at = strstr(at, "\"whole\"")) != NULL; at++)
        count++;
    free(text.bytes);
    return count;
}

static void set_inputs(struct rig *rig, int64_t rows, int64_t steps, int64_t n, uint8_t flag)
{
    float x[64];
    const char *shapes[] = { "1,3", "2,3", "3,3", "4,3" };
    char stack[16];

    for (int i = 0; i < 64; i++)
        x[i] = (float)(i * 7 % 13 - 6) / 4;
    (void)snprintf(stack, sizeof stack, "%d,%d,3", (int)steps, (int)rows);
    rig_floats(rig, 0, shapes[rows - 1], x);
    rig_set(rig, 1, INLAY_BOOL, "", &flag);
    rig_set(rig, 2, INLAY_INT64, "", &n);
    rig_floats(rig, 3, stack, x);
}

static void compare(const struct rig *a, const struct rig *b, const char *what)
{
    for (uint32_t k = 0; k < inlay_session_output_count(b->session); k++) {
        const inlay_value *value = inlay_context_output(a->context, k), *other = inlay_context_output(b->context, k);

        assert_non_null(value);
        assert_non_null(other);
        if (inlay_value_rank(value) != inlay_value_rank(other) || inlay_value_bytes(value) != inlay_value_bytes(other))
            fail_msg("%s: output %u has another shape", what, k);
        for (uint64_t i = 0; i < inlay_value_bytes(value) / 4; i++) /* 0 equals -0 */
            if (((const float *)inlay_value_data(value))[i] != ((const float *)inlay_value_data(other))[i])
                fail_msg("%s: output %u, element %llu: %g instead of %g", what, k, (unsigned long long)i,
                         (double)((const float *)inlay_value_data(value))[i],
                         (double)((const float *)inlay_value_data(other))[i]);
    }
}

static void random_graphs(void **state)
{
    static const char *const modes[] = { "if loop scan",     "if",
                                         "loop merge",       "scan loop if compile",
                                         "if loop scan odd", "if loop scan merge odd compile" };
    uint32_t most = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        const char *mode = modes[seed % 6];
        char what[96];
        struct wire wire = { 0 }, second_wire = { 0 };
        struct rig tested, expected;

        (void)snprintf(what, sizeof what, "graph %llu, '%s'", (unsigned long long)seed, mode);
        assert_int_equal(setenv("WHOLE", mode, 1), 0);
        write_graph(&wire, seed);
        write_graph(&second_wire, seed);
        tested = open_with(&wire, what, "whole,reference", "level", seed % 4 == 0 ? "0" : "2");
        expected = open_with(&second_wire, what, "reference", "level", "0");
        most += count_offers(&tested) > 0;
        for (int64_t run = 0; run < 6; run++) {
            int64_t rows = 1 + (run + (int64_t)seed) % 4, steps = 1 + run % 2;

            set_inputs(&tested, rows, steps, 1 + run % 3, run % 2 != 0);
            set_inputs(&expected, rows, steps, 1 + run % 3, run % 2 != 0);
            rig_run(&tested);
            rig_run(&expected);
            compare(&tested, &expected, what);
        }
        rig_close(&tested);
        rig_close(&expected);
    }
    assert_in_range(most, GRAPHS / 2, GRAPHS);
}

/* y = flag ? x * sigmoid(x) : x + x, where the bodies read x from the outer graph. */
static void write_swish(struct wire *wire)
{
    script_model(wire, 17,
                 "flag : bool -\n"
                 "x : N,3\n"
                 "y = If(flag) then_branch {\n"
                 "    gate = Sigmoid(x)\n"
                 "    swish = Mul(x,gate)\n"
                 "    -> swish\n"
                 "} else_branch {\n"
                 "    double = Add(x,x)\n"
                 "    -> double\n"
                 "}\n"
                 "-> y");
}

static void run_swish(struct rig *rig)
{
    const float x[3] = { 1, -2, 3 }, twice[3] = { 2, -4, 6 };
    const uint8_t no = 0, yes = 1;
    const float *output;

    rig_set(rig, 0, INLAY_BOOL, "", &no);
    rig_floats(rig, 1, "1,3", x);
    rig_run(rig);
    rig_expect_floats(rig, 0, "1,3", twice);
    rig_set(rig, 0, INLAY_BOOL, "", &yes);
    rig_run(rig);
    output = inlay_value_data(inlay_context_output(rig->context, 0));
    assert_float_equal(output[0], 0.7310586f, 1e-6);
    assert_float_equal(output[1], -0.2384058f, 1e-6);
}

/* A session with provider `whole` only: the nodes in the bodies need no other provider. */
static void alone(void **state)
{
    const char *options[] = {
        "providers", "whole", "plugin_dirs", FAULTY_DIR, "probe", "never", "cache_dir", "", NULL
    };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct wire wire = { 0 };
    struct rig rig;

    (void)state;
    assert_int_equal(setenv("WHOLE", "if", 1), 0);
    write_swish(&wire);
    rig = open_with(&wire, "swish", "whole", NULL, NULL);
    assert_int_equal(count_offers(&rig), 1);
    run_swish(&rig);
    rig_close(&rig);
    assert_int_equal(setenv("WHOLE", "loop", 1), 0);
    write_swish(&wire);
    assert_int_equal(rig_try_open(&wire, options, &rig, &diag), INLAY_UNSUPPORTED);
    assert_non_null(strstr(diag.text, "only nodes with bodies run here"));
    rig_close(&rig);
    /* The provider declines, and no other provider is available. */
    assert_int_equal(setenv("WHOLE", "if compile", 1), 0);
    for (int round = 0; round < 2; round++) {
        inlay_status status;

        write_swish(&wire);
        status = rig_try_open(&wire, options, &rig, &diag);
        if (status != INLAY_OK)
            assert_int_equal(status, INLAY_UNSUPPORTED);
        rig_close(&rig);
    }
}

/* The rewrite of a pass in a body is undone if the provider does not support its result. */
static void rewritten_bodies(void **state)
{
    struct wire wire = { 0 };
    struct rig rig;

    (void)state;
    for (int strict = 0; strict < 2; strict++) {
        assert_int_equal(setenv("WHOLE", strict ? "if strict" : "if", 1), 0);
        write_swish(&wire);
        rig = open_with(&wire, "swish", "whole,reference", "level", "99");
        assert_int_equal(count_offers(&rig), 1);
        run_swish(&rig);
        rig_close(&rig);
    }
}

static void rules(void **state)
{
    static const struct {
        const char *whole, *name, *value;
        uint32_t count_offers;
    } rows[] = {
        { "if", "pin", "op:If=whole", 1 },     { "if", "pin", "*=reference", 0 },
        { "if", "pin", "op:If=reference", 0 }, { "if", "forbid", "op:If=whole", 0 },
        { "if", "require", "whole", 1 },       { "scan", "forbid", "op:Add=whole", 0 },
    };
    const char *options[] = { "providers", "whole,reference", "plugin_dirs", FAULTY_DIR,
                              "probe",     "never",           "cache_dir",   "",
                              "pin",       "op:If=whole",     NULL };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct wire wire = { 0 };
    struct rig rig;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(setenv("WHOLE", rows[i].whole, 1), 0);
        write_swish(&wire);
        rig = open_with(&wire, rows[i].value, "whole,reference", rows[i].name, rows[i].value);
        if (count_offers(&rig) != rows[i].count_offers)
            fail_msg("%s %s: %u nodes taken", rows[i].name, rows[i].value, count_offers(&rig));
        run_swish(&rig);
        rig_close(&rig);
    }
    assert_int_equal(setenv("WHOLE", "loop", 1), 0);
    write_swish(&wire);
    assert_int_equal(rig_try_open(&wire, options, &rig, &diag), INLAY_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.text, "name nodes of their bodies"));
    rig_close(&rig);
}

static void saved_plans(void **state)
{
    char path[] = "/tmp/inlay-bodies-XXXXXX";
    inlay_diag diag = INLAY_DIAG_INIT;
    struct wire wire = { 0 };
    struct text text = { 0 };
    int fd = mkstemp(path);
    struct rig rig;

    (void)state;
    assert_true(fd >= 0);
    for (int whole = 0; whole < 2; whole++) {
        FILE *file;

        assert_int_equal(setenv("WHOLE", "if", 1), 0);
        write_swish(&wire);
        rig = open_with(&wire, "swish", "whole,reference", "forbid", whole ? "op:If=reference" : "op:If=whole");
        text.count = 0;
        assert_int_equal(inlay_session_plan_save(rig.session, append, &text, &diag), INLAY_OK);
        rig_close(&rig);
        file = fopen(path, "w");
        assert_non_null(file);
        assert_int_equal(fwrite(text.bytes, 1, text.count, file), text.count);
        assert_int_equal(fclose(file), 0);
        write_swish(&wire);
        rig = open_with(&wire, "swish", "whole,reference", "plan", path);
        assert_int_equal(count_offers(&rig), (uint32_t)whole);
        run_swish(&rig);
        rig_close(&rig);
    }
    free(text.bytes);
    (void)close(fd);
    (void)unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone),       cmocka_unit_test(rewritten_bodies), cmocka_unit_test(rules),
        cmocka_unit_test(saved_plans), cmocka_unit_test(random_graphs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
