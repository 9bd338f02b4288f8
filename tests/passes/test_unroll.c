/* Loops with a known number of iterations are unrolled; all others remain. */
#include "rewrite_rows.h"

enum { UNKNOWN = -1 }; /* number of iterations: an input of the model */

typedef struct loop_row {
    const char *name;
    int64_t trips;     /* the executed iterations, and the constant with their number */
    const char *cond;  /* the initial condition: "" or the name of a constant */
    const char *again; /* the body's condition */
    bool stays;
    int64_t opset;
} loop_row;

static mw_body body_begin(struct wire *wire)
{
    mw_body body = mw_body_begin(wire, "body", "body");

    mw_value(wire, MW_INPUT, "i", RIG_INT64, "");
    mw_value(wire, MW_INPUT, "c", RIG_BOOL, "");
    return body;
}

static bool has_op(const struct rig *rig, const char *op)
{
    const struct graph *graph = rig->session->model->main;

    for (uint32_t i = 0; i < graph->node_count; i++)
        if (strcmp(graph->nodes[i]->info.op_type.data, op) == 0)
            return true;
    return false;
}

/* Opens a model with a Loop. It carries a tensor that grows, one that is constant, two that are swapped, and a captured
 * constant. Its scan outputs are a value that changes and the iteration number. */
static struct rig open_loop(const loop_row *row, const char *level)
{
    static const char *const carried[] = { "grown", "through", "first", "second", "same" };
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, row->opset == 0 ? 17 : row->opset), loop;
    char inputs[64];
    mw_body body;

    mw_value(&wire, MW_INPUT, "x", RIG_FLOAT, "2");
    mw_value(&wire, MW_INPUT, "z", RIG_FLOAT, "2");
    mw_value(&wire, MW_INPUT, "m", RIG_INT64, "");
    mw_ints(&wire, "n", 0, 1, &row->trips);
    mw_scalar(&wire, "yes", RIG_BOOL, 1);
    mw_scalar(&wire, "no", RIG_BOOL, 0);
    mw_ones(&wire, "ones", 2);
    (void)snprintf(inputs, sizeof inputs, "%s,%s,x,x,x,z,z", row->trips == UNKNOWN ? "m" : "n", row->cond);
    loop = mw_node_begin(&wire, "Loop", inputs, "grown,through,first,second,same,scan_first,scan_i");
    body = body_begin(&wire);
    mw_value(&wire, MW_INPUT, "g_in", RIG_FLOAT, NULL);
    mw_value(&wire, MW_INPUT, "t_in", RIG_FLOAT, "2");
    mw_value(&wire, MW_INPUT, "f_in", RIG_FLOAT, "2");
    mw_value(&wire, MW_INPUT, "s_in", RIG_FLOAT, "2");
    mw_value(&wire, MW_INPUT, "k_in", RIG_FLOAT, "2");
    mw_node(&wire, "Add", "z,ones", "z1");
    mw_node_int(&wire, "Concat", "g_in,z1", "g_out", "axis", 0);
    mw_node(&wire, "Identity", row->again, "go");
    mw_value(&wire, MW_OUTPUT, "go", RIG_BOOL, "");
    mw_value(&wire, MW_OUTPUT, "g_out", RIG_FLOAT, NULL);
    mw_value(&wire, MW_OUTPUT, "t_in", RIG_FLOAT, "2");
    mw_value(&wire, MW_OUTPUT, "s_in", RIG_FLOAT, "2");
    mw_value(&wire, MW_OUTPUT, "f_in", RIG_FLOAT, "2");
    mw_value(&wire, MW_OUTPUT, "ones", RIG_FLOAT, "2");
    mw_value(&wire, MW_OUTPUT, "s_in", RIG_FLOAT, "2");
    mw_value(&wire, MW_OUTPUT, "i", RIG_INT64, "");
    mw_body_end(&wire, body);
    wire_end(&wire, loop);
    for (size_t i = 0; i < sizeof carried / sizeof carried[0]; i++) {
        char negated[32];

        (void)snprintf(negated, sizeof negated, "%s_neg", carried[i]);
        mw_node(&wire, "Neg", carried[i], negated);
        mw_value(&wire, MW_OUTPUT, i % 2 == 0 ? negated : carried[i], RIG_FLOAT, NULL);
    }
    mw_value(&wire, MW_OUTPUT, "scan_first", RIG_FLOAT, NULL);
    mw_node_int(&wire, "Cast", "scan_i", "scan_f", "to", RIG_FLOAT);
    mw_value(&wire, MW_OUTPUT, "scan_f", RIG_FLOAT, NULL);
    wire_end(&wire, mark);
    return rig_open(&wire, (const char *const[]){ "level", level, NULL });
}

static void feed(struct rig *rig)
{
    const float x[2] = { 1, -2 }, z[2] = { 3, 0.5f };

    rig_floats(rig, 0, "2", x);
    rig_floats(rig, 1, "2", z);
    rig_set(rig, 2, INLAY_INT64, "", &(int64_t){ 3 });
    rig_run(rig);
}

static void carried_values(void **state)
{
    static const loop_row rows[] = {
        { "three times", 3, "", "c", false, 0 },
        { "three times, axes as an attribute", 3, "yes", "yes", false, 12 },
        { "once", 1, "yes", "c", false, 0 },
        { "never again", 9, "yes", "no", false, 0 },
        { "an unknown number of times", UNKNOWN, "", "c", true, 0 },
        { "never, with outputs that stack nothing", 3, "no", "c", true, 0 },
        { "very often", 500, "", "c", true, 0 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct rig plain = open_loop(&rows[i], "0"), best = open_loop(&rows[i], "99");
        const struct row name = { rows[i].name, NULL, NULL, 0 };

        if (has_op(&best, "Loop") != rows[i].stays || !has_op(&plain, "Loop"))
            fail_msg("%s: a Loop %s", rows[i].name, rows[i].stays ? "is gone" : "is left");
        feed(&plain);
        feed(&best);
        for (uint32_t o = 0; o < inlay_session_output_count(plain.session); o++)
            expect_equal(&name, inlay_context_output(best.context, o), inlay_context_output(plain.context, o));
        rig_close(&plain);
        rig_close(&best);
    }
}

/* The export of torch.tensor_split: a loop slices parts and stores them in a sequence. */
static void parts_in_a_sequence(void **state)
{
    const float x[6] = { 1, 2, 3, 4, 5, 6 };
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 15), loop;
    mw_body body;
    char left[128];
    struct rig rig;

    (void)state;
    mw_value(&wire, MW_INPUT, "x", RIG_FLOAT, "6");
    mw_ints(&wire, "n", 0, 1, (int64_t[]){ 2 });
    mw_scalar(&wire, "yes", RIG_BOOL, 1);
    mw_ints(&wire, "bounds", 1, 3, (int64_t[]){ 0, 1, 3 });
    mw_ints(&wire, "axis", 1, 1, (int64_t[]){ 0 });
    mw_ints(&wire, "one", 1, 1, (int64_t[]){ 1 });
    mw_ints(&wire, "last", 0, 1, (int64_t[]){ -1 });
    mw_node(&wire, "SequenceEmpty", "", "empty");
    loop = mw_node_begin(&wire, "Loop", "n,yes,empty", "parts");
    body = body_begin(&wire);
    mw_list_value(&wire, MW_INPUT, "q", 4, RIG_FLOAT);
    mw_node(&wire, "Unsqueeze", "i,axis", "i1");
    mw_node(&wire, "Gather", "bounds,i1", "begin");
    mw_node(&wire, "Add", "i1,one", "next");
    mw_node(&wire, "Gather", "bounds,next", "end");
    mw_node(&wire, "Slice", "x,begin,end,axis", "part");
    mw_node(&wire, "SequenceInsert", "q,part", "longer");
    mw_node(&wire, "Identity", "yes", "go");
    mw_value(&wire, MW_OUTPUT, "go", RIG_BOOL, "");
    mw_list_value(&wire, MW_OUTPUT, "longer", 4, RIG_FLOAT);
    mw_body_end(&wire, body);
    wire_end(&wire, loop);
    mw_node(&wire, "SequenceAt", "parts,last", "b");
    mw_node(&wire, "Neg", "b", "y");
    mw_value(&wire, MW_OUTPUT, "y", RIG_FLOAT, NULL);
    wire_end(&wire, mark);
    rig = rig_open(&wire, (const char *const[]){ "level", "99", NULL });
    list_ops(rig.session->model->main, left, sizeof left);
    assert_string_equal(left, "Slice Neg");
    rig_floats(&rig, 0, "6", x);
    rig_run(&rig);
    rig_expect_floats(&rig, 0, "2", (float[]){ -2, -3 });
    rig_close(&rig);
}

/* Weights in a body are packed once: such a loop is not unrolled, unless it runs once. */
static void loops_with_weights(void **state)
{
    (void)state;
    for (int64_t trips = 1; trips < 3; trips++) {
        struct wire wire = { 0 };
        wire_mark mark = mw_begin(&wire, 8, 17), loop;
        mw_body body;
        struct rig rig;

        mw_value(&wire, MW_INPUT, "x", RIG_FLOAT, "2000");
        mw_ints(&wire, "n", 0, 1, &trips);
        mw_ones(&wire, "weights", 2000);
        loop = mw_node_begin(&wire, "Loop", "n,_,x", "y");
        body = body_begin(&wire);
        mw_value(&wire, MW_INPUT, "a", RIG_FLOAT, "2000");
        mw_node(&wire, "Add", "a,weights", "b");
        mw_value(&wire, MW_OUTPUT, "c", RIG_BOOL, "");
        mw_value(&wire, MW_OUTPUT, "b", RIG_FLOAT, NULL);
        mw_body_end(&wire, body);
        wire_end(&wire, loop);
        mw_value(&wire, MW_OUTPUT, "y", RIG_FLOAT, NULL);
        wire_end(&wire, mark);
        rig = rig_open(&wire, (const char *const[]){ "level", "99", NULL });
        assert_int_equal(has_op(&rig, "Loop"), trips > 1);
        rig_close(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(carried_values), cmocka_unit_test(parts_in_a_sequence),
                                        cmocka_unit_test(loops_with_weights) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
