/* The partitioner's cost model counts exactly the copies that a run makes, as often as the run makes them, for nested
 * branches, loops and scans on either provider. A copy before a loop counts once for each time that the loop is
 * entered. */
#include "fake_models.h"
#include "plan/program.h"

enum { TRIPS = 7, INNER = 3 };

struct copy_counts {
    uint32_t in, out;
};

/* Counts the copies of a program that is entered `entries` times and runs `runs` times. then: every If takes its then
 * branch. */
static void count_copies(const struct program *program, uint32_t runs, uint32_t entries, bool then,
                         struct copy_counts *copy_counts)
{
    for (uint32_t i = 0; i < program->parts.copy_count; i++) {
        const partition_copy *copy = &program->parts.copies[i];
        const uint32_t times = copy->once ? entries : runs;

        if (copy->ns <= 0) /* unified memory */
            continue;
        assert_true((copy->from_domain == INLAY_DOMAIN_HOST) != (copy->to_domain == INLAY_DOMAIN_HOST));
        copy_counts->in += copy->from_domain == INLAY_DOMAIN_HOST ? times : 0;
        copy_counts->out += copy->to_domain == INLAY_DOMAIN_HOST ? times : 0;
    }
    for (uint32_t i = 0; i < program->step_count; i++) {
        const program_step *step = &program->steps[i];
        const bool is_if = strcmp(step->node->info.op_type.data, "If") == 0;

        for (uint32_t k = 0; step->bodies != NULL && k < step->node->body_count; k++) {
            const uint32_t trips = strncmp(step->node->bodies[k].graph->name, "inner", 5) == 0 ? INNER : TRIPS;

            if (!is_if)
                count_copies(step->bodies[k], runs * trips, runs, then, copy_counts);
            else if (then == (strcmp(step->node->bodies[k].attr, "then_branch") == 0))
                count_copies(step->bodies[k], runs, runs, then, copy_counts);
        }
    }
}

/* Runs the model with both values of its last input, "which", and compares the copies with the prediction. */
static void expect_as_priced(struct rig *rig, uint32_t which, uint8_t *choice, const char *what)
{
    set_one(rig, which, INLAY_BOOL, choice, 1);
    for (uint32_t round = 0; round < 4; round++) {
        const uint32_t in = counted(&rig->counters->copied_in), out = counted(&rig->counters->copied_out);
        struct copy_counts copy_counts = { 0 };

        *choice = round % 2;
        run(rig);
        count_copies(rig->session->main, 1, 1, *choice, &copy_counts);
        if (counted(&rig->counters->copied_in) - in != copy_counts.in ||
            counted(&rig->counters->copied_out) - out != copy_counts.out)
            fail_msg("%s, which=%u: %u copies in and %u out are predicted, but %u and %u were made", what, *choice,
                     copy_counts.in, copy_counts.out, counted(&rig->counters->copied_in) - in,
                     counted(&rig->counters->copied_out) - out);
    }
}

static const char *const sources[] = { "a", "d",
                                       "h" }; /* a graph input; computed on the device; computed on the host */

/* Inputs a, b: [8, 8], so that slices are aligned; n: iterations; m: iterations of inner loops; which: the branch. */
static const int64_t square[] = { 8, 8 }, stacked[] = { -1, 8, 8 };

static void begin_body(onnx_bytes *body)
{
    onnx_input(body, "i", INLAY_INT64, 0, &scalar);
    onnx_input(body, "go", INLAY_BOOL, 0, &scalar);
    onnx_input(body, "x", INLAY_FLOAT, 2, square);
}

static void add_node(onnx_bytes *bytes, const char *op, const char *in, const char *out, const char *name,
                     const onnx_bytes *body)
{
    onnx_bytes node = { .count = 0 };

    onnx_names(&node, 1, in);
    onnx_names(&node, 2, out);
    onnx_text(&node, 4, op);
    onnx_body(&node, name, body);
    if (strcmp(op, "Scan") == 0) {
        onnx_bytes attr = { .count = 0 };

        onnx_text(&attr, 1, "num_scan_inputs");
        onnx_number(&attr, 3, 1);
        onnx_number(&attr, 20, 2); /* INT */
        onnx_message(&node, 5, &attr);
    }
    onnx_message(bytes, 1, &node);
}

/* Adds a loop x = op(x, from), which stacks stack_op(x). */
static void add_loop(onnx_bytes *bytes, const char *in, const char *out, const char *op, const char *from,
                     const char *stack_op)
{
    onnx_bytes body = { .count = 0 };
    char both[32];

    (void)snprintf(both, sizeof both, "x%s%s", from[0] != '\0' ? "," : "", from);
    begin_body(&body);
    onnx_node(&body, op, "", both, "more");
    onnx_node(&body, "Identity", "", "go", "on");
    onnx_output(&body, "on", INLAY_BOOL, 0, &scalar);
    onnx_output(&body, "more", INLAY_FLOAT, 2, square);
    if (stack_op != NULL) {
        onnx_node(&body, stack_op, "", "more", "less");
        onnx_output(&body, "less", INLAY_FLOAT, 2, square);
    }
    onnx_text(&body, 2, "body");
    add_node(bytes, "Loop", in, out, "body", &body);
}

static struct rig begin(onnx_bytes *bytes, float *input, float *output, int64_t *trips, int64_t *inner,
                        const char *const *settings)
{
    struct rig rig = open_rig(bytes, settings);

    set_floats(rig.context, 0, 2, square, input);
    set_floats(rig.context, 1, 2, square, output);
    set_one(&rig, 2, INLAY_INT64, trips, sizeof *trips);
    set_one(&rig, 3, INLAY_INT64, inner, sizeof *inner);
    return rig;
}

static void add_inputs(onnx_bytes *bytes)
{
    onnx_input(bytes, "a", INLAY_FLOAT, 2, square);
    onnx_input(bytes, "b", INLAY_FLOAT, 2, square);
    onnx_input(bytes, "n", INLAY_INT64, 0, &scalar);
    onnx_input(bytes, "m", INLAY_INT64, 0, &scalar);
    onnx_input(bytes, "which", INLAY_BOOL, 0, &scalar);
}

static const char *const unified[] = { "unified", "true", "imports", "true", NULL };

/* Stores the results of a device with separate memory (first), or compares them with those of a device with unified
 * memory. */
static void compare_results(struct rig *rig, float *kept, bool first)
{
    for (uint32_t k = 0; k < inlay_session_output_count(rig->session); k++) {
        const inlay_value *value = inlay_context_output(rig->context, k);
        const size_t bytes = (size_t)inlay_value_bytes(value);

        assert_in_range(bytes, 0, TRIPS * 256);
        if (first)
            memcpy(kept + (size_t)k * TRIPS * 64, inlay_value_data(value), bytes);
        else
            assert_memory_equal(kept + (size_t)k * TRIPS * 64, inlay_value_data(value), bytes);
    }
}

static void try_model(onnx_bytes *bytes, const char *what)
{
    static _Alignas(64) float x[64], y[64];
    static float kept[2][4 * TRIPS * 64];

    for (int i = 0; i < 64; i++) {
        x[i] = (float)(i % 7) - 3;
        y[i] = (float)(i % 5) - 2;
    }
    for (int is_unified = 0; is_unified < 2; is_unified++) {
        int64_t trips = TRIPS, inner = INNER;
        uint8_t choice = 0;
        struct rig rig = begin(bytes, x, y, &trips, &inner, is_unified ? unified : NULL);

        expect_as_priced(&rig, 4, &choice, what);
        for (int round = 0; round < 4; round++) {
            choice = round % 2;
            run(&rig);
            compare_results(&rig, kept[choice], !is_unified);
        }
        if (is_unified && counted(&rig.counters->copied_in) + counted(&rig.counters->copied_out) > 0)
            fail_msg("%s: %u copies in and %u out with unified memory", what, counted(&rig.counters->copied_in),
                     counted(&rig.counters->copied_out));
        close_rig(&rig);
    }
}

/* Branches on the device or on the host. Their input is computed on the device, on the host, or is a graph input; their
 * result is read on the device, on the host, or is a graph output. */
static void branches(void **state)
{
    static const char *const ops[] = { "Neg", "Ceil" };

    (void)state;
    for (int kind = 0; kind < 2 * 2 * 3 * 7; kind++) {
        const char *then = ops[kind % 2], *other = ops[kind / 2 % 2], *from = sources[kind / 4 % 3];
        const int readers = 1 + kind / 12; /* bits: device, host, caller */
        onnx_bytes bytes = { .count = 0 }, yes = { .count = 0 }, no = { .count = 0 }, node = { .count = 0 };
        char what[64];

        onnx_node(&yes, then, "", from, "p");
        onnx_output(&yes, "p", INLAY_FLOAT, 2, square);
        onnx_text(&yes, 2, "yes");
        onnx_node(&no, other, "", from, "q");
        onnx_output(&no, "q", INLAY_FLOAT, 2, square);
        onnx_text(&no, 2, "no");
        add_inputs(&bytes);
        onnx_node(&bytes, "Relu", "", "a", "d");
        onnx_node(&bytes, "Floor", "", "a", "h");
        onnx_names(&node, 1, "which");
        onnx_names(&node, 2, "z");
        onnx_text(&node, 4, "If");
        onnx_body(&node, "then_branch", &yes);
        onnx_body(&node, "else_branch", &no);
        onnx_message(&bytes, 1, &node);
        if (readers & 1) {
            onnx_node(&bytes, "Mul", "", "z,z", "y");
            onnx_output(&bytes, "y", INLAY_FLOAT, 2, square);
        }
        if (readers & 2) {
            onnx_node(&bytes, "Floor", "", "z", "w");
            onnx_output(&bytes, "w", INLAY_FLOAT, 2, square);
        }
        if (readers & 4)
            onnx_output(&bytes, "z", INLAY_FLOAT, 2, square);
        (void)snprintf(what, sizeof what, "If: %s or %s of %s, readers %d", then, other, from, readers);
        try_model(&bytes, what);
    }
}

/* Loops on the device or on the host, with all combinations of providers of carried, stacked, captured and initial
 * values, and of the consumer. */
static void loops(void **state)
{
    static const char *const ops[] = { "Add", "Max" }, *const stack_ops[] = { NULL, "Neg", "Ceil" };

    (void)state;
    for (int kind = 0; kind < 2 * 3 * 3 * 3 * 3; kind++) {
        const char *op = ops[kind % 2], *stack_op = stack_ops[kind / 2 % 3], *captured = sources[kind / 6 % 3];
        const char *first = sources[kind / 18 % 3];
        const int reader = kind / 54 % 3;
        onnx_bytes bytes = { .count = 0 };
        char in[16], what[96];

        add_inputs(&bytes);
        onnx_node(&bytes, "Relu", "", "b", "d");
        onnx_node(&bytes, "Floor", "", "b", "h");
        (void)snprintf(in, sizeof in, "n,,%s", first);
        add_loop(&bytes, in, stack_op != NULL ? "z,s" : "z", op, captured, stack_op);
        if (reader < 2) {
            onnx_node(&bytes, reader == 0 ? "Relu" : "Ceil", "", "z", "y");
            onnx_output(&bytes, "y", INLAY_FLOAT, 2, square);
        } else {
            onnx_output(&bytes, "z", INLAY_FLOAT, 2, square);
        }
        if (stack_op != NULL) {
            onnx_node(&bytes, reader == 0 ? "Relu" : "Ceil", "", "s", "t");
            onnx_output(&bytes, "t", INLAY_FLOAT, 3, stacked);
        }
        (void)snprintf(what, sizeof what, "Loop: %s of %s from %s, stacks %s, reader %d", op, captured, first,
                       stack_op != NULL ? stack_op : "nothing", reader);
        try_model(&bytes, what);
    }
}

/* A Scan with a state, a slice and a captured value. */
static void scans(void **state)
{
    static const int64_t whole[] = { TRIPS, 8, 8 };

    (void)state;
    for (int kind = 0; kind < 8; kind++) {
        onnx_bytes bytes = { .count = 0 }, body = { .count = 0 };
        float *slices = calloc((size_t)TRIPS * 64, sizeof *slices), x[64] = { 0 };
        uint8_t choice = 0;
        char what[64];
        struct rig rig;

        onnx_input(&body, "x", INLAY_FLOAT, 2, square);
        onnx_input(&body, "slice", INLAY_FLOAT, 2, square);
        onnx_node(&body, kind & 1 ? "Max" : "Add", "", "x,slice", "t");
        onnx_node(&body, "Add", "", "t,c", "more");
        onnx_node(&body, kind & 2 ? "Ceil" : "Neg", "", "t", "less");
        onnx_output(&body, "more", INLAY_FLOAT, 2, square);
        onnx_output(&body, "less", INLAY_FLOAT, 2, square);
        onnx_text(&body, 2, "body");
        onnx_input(&bytes, "s", INLAY_FLOAT, 3, whole);
        onnx_input(&bytes, "a", INLAY_FLOAT, 2, square);
        onnx_input(&bytes, "which", INLAY_BOOL, 0, &scalar);
        onnx_node(&bytes, kind & 4 ? "Neg" : "Floor", "", "a", "c");
        add_node(&bytes, "Scan", "a,s", "z,l", "body", &body);
        onnx_node(&bytes, "Relu", "", "l", "k");
        onnx_output(&bytes, "z", INLAY_FLOAT, 2, square);
        onnx_output(&bytes, "k", INLAY_FLOAT, 3, whole);
        onnx_output(&bytes, "which", INLAY_BOOL, 0, &scalar);
        rig = open_rig(&bytes, NULL);
        set_floats(rig.context, 0, 3, whole, slices);
        set_floats(rig.context, 1, 2, square, x);
        (void)snprintf(what, sizeof what, "Scan %d", kind);
        expect_as_priced(&rig, 2, &choice, what);
        close_rig(&rig);
        free(slices);
    }
}

/* A loop within a loop, a branch within a loop, a loop within a branch. */
static void nested(void **state)
{
    (void)state;
    for (int kind = 0; kind < 12; kind++) {
        const bool with_if = kind % 3 == 1, host = kind / 3 % 2 != 0, begins = kind / 6 != 0;
        const char *op = host ? "Max" : "Add", *from = begins ? "d" : "b";
        onnx_bytes bytes = { .count = 0 }, body = { .count = 0 }, deep = { .count = 0 };
        char what[64], both[16];

        (void)snprintf(both, sizeof both, "u,%s", from);
        add_inputs(&bytes);
        onnx_node(&bytes, "Relu", "", "b", "d");
        if (kind % 3 < 2) {
            begin_body(&body);
            if (with_if) {
                onnx_bytes yes = { .count = 0 }, no = { .count = 0 }, node = { .count = 0 };

                onnx_node(&yes, op, "", begins ? "x,d" : "x,b", "p");
                onnx_output(&yes, "p", INLAY_FLOAT, 2, square);
                onnx_text(&yes, 2, "yes");
                onnx_node(&no, "Neg", "", "x", "q");
                onnx_output(&no, "q", INLAY_FLOAT, 2, square);
                onnx_text(&no, 2, "no");
                onnx_names(&node, 1, "which");
                onnx_names(&node, 2, "v");
                onnx_text(&node, 4, "If");
                onnx_body(&node, "then_branch", &yes);
                onnx_body(&node, "else_branch", &no);
                onnx_message(&body, 1, &node);
            } else {
                onnx_input(&deep, "j", INLAY_INT64, 0, &scalar);
                onnx_input(&deep, "go2", INLAY_BOOL, 0, &scalar);
                onnx_input(&deep, "u", INLAY_FLOAT, 2, square);
                onnx_node(&deep, op, "", both, "u2");
                onnx_node(&deep, "Identity", "", "go2", "on2");
                onnx_output(&deep, "on2", INLAY_BOOL, 0, &scalar);
                onnx_output(&deep, "u2", INLAY_FLOAT, 2, square);
                onnx_text(&deep, 2, "inner");
                add_node(&body, "Loop", "m,,x", "v", "body", &deep);
            }
            onnx_node(&body, "Relu", "", "v", "more");
            onnx_node(&body, "Identity", "", "go", "on");
            onnx_output(&body, "on", INLAY_BOOL, 0, &scalar);
            onnx_output(&body, "more", INLAY_FLOAT, 2, square);
            onnx_text(&body, 2, "body");
            add_node(&bytes, "Loop", begins ? "n,,d" : "n,,a", "z", "body", &body);
        } else {
            onnx_bytes yes = { .count = 0 }, no = { .count = 0 }, node = { .count = 0 };

            add_loop(&yes, begins ? "n,,d" : "n,,a", "p", op, from, NULL);
            onnx_output(&yes, "p", INLAY_FLOAT, 2, square);
            onnx_text(&yes, 2, "yes");
            onnx_node(&no, "Neg", "", "d", "q");
            onnx_output(&no, "q", INLAY_FLOAT, 2, square);
            onnx_text(&no, 2, "no");
            onnx_names(&node, 1, "which");
            onnx_names(&node, 2, "z");
            onnx_text(&node, 4, "If");
            onnx_body(&node, "then_branch", &yes);
            onnx_body(&node, "else_branch", &no);
            onnx_message(&bytes, 1, &node);
        }
        onnx_node(&bytes, "Neg", "", "z", "y");
        onnx_output(&bytes, "y", INLAY_FLOAT, 2, square);
        if (!with_if && kind % 3 == 0)
            onnx_output(&bytes, "which", INLAY_BOOL, 0, &scalar);
        (void)snprintf(what, sizeof what, "nested %d", kind);
        try_model(&bytes, what);
    }
}

static inlay_value *lend(void *data, uint32_t rank, const int64_t *shape, uint64_t bytes)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *value;

    assert_int_equal(inlay_value_borrow(INLAY_FLOAT, rank, shape, data, bytes, &value, &diag), INLAY_OK);
    return value;
}

/* Inputs and results that host and device read, also with data-dependent sizes, and results in the caller's memory.
 * Memory of the caller that cannot be imported, or is not aligned, is copied once. */
static void unified_memory(void **state)
{
    static const char *const alone[] = { "unified", "true", NULL };
    static const int64_t length[] = { 24 };
    static _Alignas(64) float x[24], result[2][32];
    static uint8_t take[24];

    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        const bool imports = kind % 2 != 0, is_odd = kind / 2 != 0;
        inlay_diag diag = INLAY_DIAG_INIT;
        inlay_value *value, *own[2];
        struct rig rig;

        rig = open_script(imports ? unified : alone,
                          "a : 24\n"
                          "take : bool 24\n"
                          "n = Neg(a)\n"
                          "h = Abs(a)\n"   /* on the host */
                          "m = Ceil(n)\n"  /* on the host */
                          "s = Add(m,h)\n" /* reads results of the host, one of which is also an output */
                          "c = Compress(s,take)\n"
                          "d = Neg(c)\n"
                          "f = Floor(d)\n"
                          "k = Add(d,f)\n"
                          "-> n, m : 24\n"
                          "-> k, c, d : n");
        set_floats(rig.context, 0, 1, length, x);
        assert_int_equal(inlay_value_borrow(INLAY_BOOL, 1, length, take, sizeof take, &value, &diag), INLAY_OK);
        assert_int_equal(inlay_context_set_input(rig.context, 1, value, &diag), INLAY_OK);
        inlay_value_unref(value);
        for (uint32_t k = 0; k < 2; k++) {
            own[k] = lend(result[k] + (is_odd ? 1 : 0), 1, length, 24 * sizeof(float));
            assert_int_equal(inlay_context_set_output(rig.context, k, own[k], &diag), INLAY_OK);
        }
        for (uint32_t round = 1; round <= 3; round++) {
            const inlay_value *compressed, *negated, *k;
            int64_t at = 0;

            for (uint32_t i = 0; i < 24; i++) {
                x[i] = (float)(i % 5) - 2 + (float)round;
                take[i] = i % round == 0;
            }
            run(&rig);
            assert_ptr_equal(inlay_context_output(rig.context, 0), own[0]);
            assert_ptr_equal(inlay_context_output(rig.context, 1), own[1]);
            compressed = inlay_context_output(rig.context, 3);
            negated = inlay_context_output(rig.context, 4);
            k = inlay_context_output(rig.context, 2);
            for (int i = 0; i < 24; i++) {
                const float sum = -x[i] + (x[i] < 0 ? -x[i] : x[i]);

                assert_true(result[0][i + is_odd] == -x[i]);
                assert_true(result[1][i + is_odd] == -x[i]);
                if (!take[i])
                    continue;
                assert_true(((const float *)inlay_value_data(compressed))[at] == sum);
                assert_true(((const float *)inlay_value_data(negated))[at] == -sum);
                assert_true(((const float *)inlay_value_data(k))[at++] == -2 * sum);
            }
            assert_int_equal(inlay_value_count(k), at);
            /* a; m and n, which are in memory that the device cannot import */
            assert_int_equal(counted(&rig.counters->copied_in),
                             (imports ? 0 : round) + (imports && !is_odd ? 0 : round));
            assert_int_equal(counted(&rig.counters->copied_out), imports && !is_odd ? 0 : round);
        }
        inlay_value_unref(own[0]);
        inlay_value_unref(own[1]);
        assert_int_equal(rig.session->main->parts.copy_count, imports ? 0 : 1);
        close_rig(&rig);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(branches), cmocka_unit_test(loops),          cmocka_unit_test(scans),
        cmocka_unit_test(nested),   cmocka_unit_test(unified_memory),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
