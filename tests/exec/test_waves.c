/* Concurrent branches of one run (option inter_threads): which steps form a group, that branches share no memory,
 * results bitwise equal to sequential execution, which failure is reported, and steps that stay sequential. */
#include "cmocka_all.h"
#include "exec/loop/runner.h"
#include "plan/plan.h"
#include "session/session.h"
#include "same_bits.h"

static struct rig open_script(const char *script, const char *inter, const char *more, const char *value)
{
    const char *const options[] = {
        "providers", "cpu,openblas?,reference", "intra_threads", "4", "inter_threads", inter, more, value, NULL
    };
    struct wire wire = { 0 };
    struct rig rig;

    script_model(&wire, 17, script);
    rig = rig_open(&wire, options);
    return rig;
}

static uint32_t branches_of(const struct rig *rig)
{
    const struct plan *plan = rig->session->main->kept.plans;
    uint32_t most = 0;

    for (uint32_t k = 0; k < plan->branch_group_count; k++)
        most = plan->branch_groups[k].branch_count > most ? plan->branch_groups[k].branch_count : most;
    return most;
}

/* Does the step write the place, or read it if `writing` is false? */
static bool uses(const plan_step *step, uint32_t place, bool writing)
{
    const uint32_t count = writing ? step->step->region->output_count : step->step->region->input_count;

    for (uint32_t i = 0; i < count; i++)
        if ((writing ? step->out : step->in)[i] == place)
            return true;
    return writing && step->workspace == place;
}

static bool overlap(const plan_place *place, const plan_place *second)
{
    return place->source == PLACE_SLAB && second->source == PLACE_SLAB &&
           place->memory_domain == second->memory_domain && place->offset < second->offset + second->bytes &&
           second->offset < place->offset + place->bytes;
}

/* No other branch accesses the bytes that a branch writes. */
static void expect_apart(const struct plan *plan, const branch_group *group)
{
    for (uint32_t a = 0; a < group->branch_count; a++)
        for (uint32_t b = 0; b < group->branch_count; b++)
            for (uint32_t i = group->begins[a]; a != b && i < group->begins[a + 1]; i++)
                for (uint32_t j = group->begins[b]; j < group->begins[b + 1]; j++)
                    for (uint32_t x = 0; x < plan->place_count; x++)
                        for (uint32_t y = 0; uses(&plan->steps[group->steps[i]], x, true) && y < plan->place_count; y++)
                            if ((uses(&plan->steps[group->steps[j]], y, true) ||
                                 uses(&plan->steps[group->steps[j]], y, false)) &&
                                (x == y || overlap(&plan->places[x], &plan->places[y])))
                                fail_msg("steps %u and %u run concurrently on the same bytes", group->steps[i],
                                         group->steps[j]);
}

/* Each step of a group is in one branch, in order. */
static void expect_whole(const branch_group *group)
{
    uint32_t seen = 0;

    assert_int_equal(group->begins[0], 0);
    assert_int_equal(group->begins[group->branch_count], group->end - group->first);
    for (uint32_t k = 0; k < group->branch_count; k++)
        for (uint32_t i = group->begins[k]; i < group->begins[k + 1]; i++, seen++) {
            assert_in_range(group->steps[i], group->first, group->end - 1);
            assert_true(i == group->begins[k] || group->steps[i] > group->steps[i - 1]);
        }
    assert_int_equal(seen, group->end - group->first);
}

#define CHAIN(n, op)                                                                                                   \
    "a" #n " = CumSum(x, k) reverse=" #op "\nb" #n " = Softmax(a" #n ")\nc" #n " = ReduceMax(b" #n ") axes=1,\n"

static const struct {
    const char *script;
    uint32_t branches; /* minimum, with four threads on the reference; 0: none */
} models[] = {
    { "x : 24,40\nk = i[] 1\na = CumSum(x, k)\nb = CumSum(x, k) reverse=1\nc = CumSum(x, k) exclusive=1\n"
      "d = CumSum(x, k) exclusive=1 reverse=1\ny = Concat(a, b, c, d) axis=1\n-> y",
      4 },
    { "x : 24,40\nk = i[] 1\n" CHAIN(0, 0) CHAIN(1, 1) "y = Sub(c0, c1)\n-> y", 2 },
    /* One branch reads the result of another and may overwrite it after the last consumer. */
    { "x : 24,40\nk = i[] 1\na = CumSum(x, k)\nb = Softmax(a)\nc = CumSum(a, k) reverse=1\nd = CumSum(b, k)\n"
      "e = CumSum(c, k)\ny = Sub(d, e)\nz = CumSum(a, k)\n-> y, z",
      2 },
    /* A diamond within a diamond, and a tail. */
    { "x : 16,33\nk = i[] 0\na = CumSum(x, k)\nb = CumSum(a, k)\nc = CumSum(a, k) reverse=1\nd = CumSum(b, k)\n"
      "e = CumSum(b, k) reverse=1\nf = Mul(d, e)\ng = Add(f, c)\nh = CumSum(g, k)\n-> h, c",
      2 },
    /* Matrix multiplications, which need workspaces. */
    { "x : 64,96\nu = [96,80]\nv = [96,70]\nw = [96,60]\nk = i[] 1\na = MatMul(x, u)\nb = MatMul(x, v)\nc = MatMul(x, "
      "w)\n"
      "d = CumSum(a, k)\ne = CumSum(b, k)\nf = CumSum(c, k)\n-> d, e, f",
      2 },
    { "x : 24,40\nk = i[] 1\na = CumSum(x, k)\nb = CumSum(a, k)\nc = CumSum(b, k)\n-> c", 0 },
};

static void expect_same(const struct rig *a, const struct rig *b, const char *script)
{
    for (uint32_t o = 0; o < inlay_session_output_count(a->session); o++) {
        const inlay_value *value = inlay_context_output(a->context, o), *y = inlay_context_output(b->context, o);

        assert_int_equal(inlay_value_bytes(value), inlay_value_bytes(y));
        if (memcmp(inlay_value_data(value), inlay_value_data(y), (size_t)inlay_value_bytes(value)) != 0)
            fail_msg("output %u differs in\n%s", o, script);
    }
}

static void same_bits(void **state)
{
    static const char *const inter[] = { "2", "3", "4", "0" };
    static const char *const policies[][2] = { { "policy", "cost" },
                                               { "policy", "priority" },
                                               { "providers", "reference" } };

    (void)state;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        for (size_t v = 0; v < 3; v++) {
            struct rig one = open_script(models[m].script, "1", policies[v][0], policies[v][1]);

            script_feed(&one, 3);
            rig_run(&one);
            assert_int_equal(branches_of(&one), 0);
            for (size_t t = 0; t < 4; t++) {
                struct rig many = open_script(models[m].script, inter[t], policies[v][0], policies[v][1]);
                const struct plan *plan;

                script_feed(&many, 3);
                for (int run = 0; run < 20; run++) { /* runs measure concurrent and sequential execution */
                    rig_run(&many);
                    expect_same(&one, &many, models[m].script);
                }
                plan = many.session->main->kept.plans;
                for (uint32_t k = 0; k < plan->branch_group_count; k++) {
                    expect_whole(&plan->branch_groups[k]);
                    expect_apart(plan, &plan->branch_groups[k]);
                }
                assert_true(branches_of(&many) <= (t < 3 ? t + 2 : SAME_BITS_THREADS));
                if (v == 2 && t == 2)
                    assert_in_range(branches_of(&many), models[m].branches,
                                    models[m].branches == 0 ? 0 : SAME_BITS_THREADS);
                rig_close(&many);
            }
            rig_close(&one);
        }
}

/* Sizes that change: each plan has its own branches. */
static void new_sizes(void **state)
{
    static const char script[] = "x : N,40\nk = i[] 1\n" CHAIN(0, 0) CHAIN(1, 1) "y = Sub(c0, c1)\n-> y";
    struct rig one = open_script(script, "1", "providers", "reference"),
               many = open_script(script, "2", "providers", "reference");

    (void)state;
    for (int64_t n = 1; n < 40; n += 3) {
        script_feed_sized(&one, n, 5, 0);
        script_feed_sized(&many, n, 5, 0);
        rig_run(&one);
        rig_run(&many);
        assert_int_equal(branches_of(&many), 2);
        expect_same(&one, &many, script);
    }
    rig_close(&one);
    rig_close(&many);
}

/* Branches that take less time than waking the threads stay sequential. */
static void small_branches(void **state)
{
    struct rig rig = open_script("x : 4,4\nk = i[] 1\na = CumSum(x, k)\nb = CumSum(x, k) reverse=1\n-> a, b", "0",
                                 "providers", "reference");

    (void)state;
    script_feed(&rig, 1);
    rig_run(&rig);
    assert_int_equal(branches_of(&rig), 0);
    rig_close(&rig);
}

/* Large branches of kernels without measurements: the plan has concurrent branches, and runs measure them. */
static void large_branches(void **state)
{
    struct rig rig = open_script("x : 512,512\nk = i[] 0\na = CumSum(x, k)\nb = CumSum(x, k) reverse=1\n-> a, b", "0",
                                 "providers", "reference");

    (void)state;
    script_feed(&rig, 1);
    rig_run(&rig);
    assert_int_equal(branches_of(&rig), 2);
    rig_close(&rig);
}

static void svm_floats(struct wire *wire, const char *name, const float *values, uint32_t count)
{
    const wire_mark mark = mw_attr_begin(wire, name, 6);

    wire_floats(wire, 7, values, count);
    wire_end(wire, mark);
}

/* Support vector machines with one input row: each needs memory for one row only, so that they run concurrently. */
static void support_vector_machines(void **state)
{
    enum { SUPPORTS = 3000, MACHINES = 4 };
    static float numbers[SUPPORTS];
    const char *const options[] = { "providers", "reference", "intra_threads", "4", "inter_threads", "0", NULL };
    char output[2] = "a";
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);
    struct rig rig;

    (void)state;
    for (int i = 0; i < SUPPORTS; i++)
        numbers[i] = (float)(i % 37) / 37;
    mw_value(&wire, MW_INPUT, "x", RIG_FLOAT, "1,1");
    for (int m = 0; m < MACHINES; m++, output[0]++) {
        const wire_mark n = mw_node_begin(&wire, "SVMRegressor", "x", output);

        wire_text(&wire, 7, "ai.onnx.ml");
        svm_floats(&wire, "support_vectors", numbers, SUPPORTS);
        svm_floats(&wire, "coefficients", numbers, SUPPORTS);
        svm_floats(&wire, "kernel_params", (const float[]){ 0.02f * (float)(m + 1), 0, 3 }, 3);
        svm_floats(&wire, "rho", (const float[]){ 0 }, 1);
        mw_attr_int(&wire, "n_supports", SUPPORTS);
        script_attr(&wire, (char[]){ "kernel_type=RBF" });
        wire_end(&wire, n);
        mw_value(&wire, MW_OUTPUT, output, RIG_FLOAT, NULL);
    }
    wire_end(&wire, mark);
    mw_opset(&wire, 8, "ai.onnx.ml", 3);
    rig = rig_open(&wire, options);
    script_feed(&rig, 1);
    rig_run(&rig);
    assert_int_equal(branches_of(&rig), MACHINES);
    rig_close(&rig);
}

/* Two branches fail: the error of the first branch in the order of the model is reported, and the next run works. */
static void failures(void **state)
{
    static const char script[] = "x : 40\ni : 3\nj : 3\np = Cast(i) to=7\nq = Cast(j) to=7\ns = Sin(x)\nt = Cos(x)\n"
                                 "first = Gather(s, p)\nsecond = Gather(t, q)\n-> first, second";
    struct rig rig = open_script(script, "2", "providers", "reference");
    const float x[40] = { 0 };

    (void)state;
    rig_floats(&rig, 0, "40", x);
    for (int k = 0; k < 20; k++) {
        const float bad = k % 4 == 3 ? 0 : 99, other = k % 4 < 2 || k % 4 == 3 ? (k % 4 == 3 ? 0 : 77) : 0;
        inlay_diag diag = INLAY_DIAG_INIT;
        inlay_status status;

        rig_floats(&rig, 1, "3", (const float[]){ 0, k % 4 == 1 ? 0 : bad, 1 });
        rig_floats(&rig, 2, "3", (const float[]){ 0, other, 1 });
        status = inlay_context_run(rig.context, NULL, &diag);
        if (k % 4 == 3) {
            assert_int_equal(status, INLAY_OK);
            continue;
        }
        assert_int_equal(status, INLAY_INVALID_ARGUMENT);
        if (strstr(diag.text, k % 4 == 1 ? "77" : "99") == NULL)
            fail_msg("'%s' is not the error of the first failing branch", diag.text);
    }
    assert_int_equal(branches_of(&rig), 2);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(same_bits),
                                        cmocka_unit_test(new_sizes),
                                        cmocka_unit_test(small_branches),
                                        cmocka_unit_test(large_branches),
                                        cmocka_unit_test(support_vector_machines),
                                        cmocka_unit_test(failures) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
