/* The copies and the memory that the partition predicts compared with those of the schedule, in a session on a
 * device: each value, place and size. */
#include "graph_script.h"
#include "plan/plan.h"
#include "session/session.h"
#include "random.h"
#include <stdlib.h>

enum { NODES = 9 };

static uint64_t seed = 3;
/* y<n> is computed from two earlier values by Add or Mul, or from one by Relu; all are [4, 16]. */
static void write_model(struct wire *wire)
{
    wire_mark mark = mw_begin(wire, 8, 17);
    char inputs[64], output[16];

    mw_value(wire, MW_INPUT, "y0", RIG_FLOAT, "4,16");
    for (uint32_t n = 1; n <= NODES; n++) {
        uint32_t op = random_below(&seed, 3), a = n - 1 - random_below(&seed, n < 4 ? n : 4),
                 b = random_below(&seed, n);

        (void)snprintf(output, sizeof output, "y%u", n);
        if (op == 0)
            (void)snprintf(inputs, sizeof inputs, "y%u", a);
        else
            (void)snprintf(inputs, sizeof inputs, "y%u,y%u", a, b);
        mw_node(wire, op == 0 ? "Relu" : op == 1 ? "Add" : "Mul", inputs, output);
        if (n > NODES - 2)
            mw_value(wire, MW_OUTPUT, output, RIG_FLOAT, "4,16");
    }
    wire_end(wire, mark);
}

static uint32_t count_moves(const struct plan *plan, uint32_t from, uint32_t to, uint64_t *bytes)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < plan->step_count; i++) {
        const plan_step *step = &plan->steps[i];
        if (step->kind != PLAN_COPY || plan->places[step->in[0]].domain != from ||
            plan->places[step->out[0]].domain != to)
            continue;
        count++;
        *bytes += step->copy_bytes;
    }
    return count;
}

static void copies_and_memory(void **state)
{
    static const int64_t dims[] = { 4, 16 };
    uint32_t moved = 0;

    (void)state;
    for (uint32_t round = 0; round < 60; round++) {
        const char *options[2 * NODES + 12] = { "plugin_dirs", FAKE_DIR, "providers", "reference,fake", "level", "0" };
        uint64_t model_seed = ++seed;
        char pins[NODES][80];
        plan_input input = { .dtype = INLAY_FLOAT, .rank = 2, .dims = dims };
        uint64_t planned[2] = { 0 }, predicted[2] = { 0 };
        inlay_diag diag = INLAY_DIAG_INIT;
        uint32_t at = 6, count[2] = { 0 }, fake;
        const struct partition *parts;
        struct plan *plan = NULL;
        struct wire wire = { 0 };
        struct rig rig;

        write_model(&wire);
        rig = rig_open(&wire, options);
        for (uint32_t node = 0; node < rig.session->model->main->node_count; node++) {
            (void)snprintf(pins[node], sizeof pins[node], "%s=%s",
                           rig.session->model->main->nodes[node]->info.name.data,
                           random_below(&seed, 2) != 0 ? "fake" : "reference");
            options[at++] = "pin";
            options[at++] = pins[node];
        }
        rig_close(&rig);
        seed = model_seed;
        write_model(&wire);
        rig = rig_open(&wire, options);
        parts = &rig.session->main->parts;
        assert_int_equal(plan_get(rig.session->main, &input, 1, NULL, &plan, &diag), INLAY_OK);
        fake = parts->region_count > 0 && strcmp(rig.session->providers[1].name, "fake") == 0 ? 1 : 0;
        for (uint32_t i = 0; i < parts->copy_count; i++) {
            uint32_t down = parts->copies[i].from_domain == INLAY_DOMAIN_HOST;
            count[down]++;
            predicted[down] += parts->copies[i].bytes;
            assert_true(parts->copies[i].ns > 0);
        }
        moved += parts->copy_count;
        assert_int_equal(fake, 1);
        for (uint32_t down = 0; down < 2; down++) {
            uint32_t device = rig.session->providers[1].first_domain;
            uint32_t moves =
                count_moves(plan, down ? INLAY_DOMAIN_HOST : device, down ? device : INLAY_DOMAIN_HOST, &planned[down]);
            assert_int_equal(moves, count[down]);
            assert_int_equal(planned[down], predicted[down]);
        }
        /* Rows of 256 bytes: the slab has no gaps except for alignment. Results may reuse the memory of operands,
         * which the estimate ignores: two instead of three values for an addition. */
        assert_true(plan->slab_bytes[rig.session->providers[1].first_domain] * 3 / 2 >= parts->memory[1].peak_bytes);
        assert_true(plan->slab_bytes[rig.session->providers[1].first_domain] <= parts->memory[1].peak_bytes * 4 + 4096);
        plan_unref(plan);
        rig_close(&rig);
    }
    assert_true(moved > 100);
}

/* The region that computes the value. */
static uint32_t region_of(const struct rig *rig, const char *value)
{
    const struct partition *parts = &rig->session->main->parts;
    const struct graph *graph = rig->session->model->main;

    for (uint32_t region = 0; region < parts->region_count; region++)
        for (uint32_t k = 0; k < parts->regions[region].node_count; k++) {
            const inlay_node_info *node = &graph->nodes[parts->regions[region].nodes[k]]->info;

            if (strcmp(graph->values[node->outputs[0]].info.name.data, value) == 0)
                return region;
        }
    fail_msg("no region computes %s", value);
    return 0;
}

/* 8-bit weights, dequantized and then transposed twice, are in the region that reads them, although they are first in
 * the file and another region comes between. */
static void weights_with_their_readers(void **state)
{
    static const char script[] = "x : 4,256\nk = int8[256,256]\ns = []\nw = DequantizeLinear(k, s)\nt = Transpose(w)\n"
                                 "u = Transpose(t)\na = Relu(x)\nb = Abs(a)\nc = MatMul(b, u)\n-> c";
    struct wire wire = { 0 };
    struct rig rig;

    (void)state;
    script_model(&wire, 17, script);
    rig = rig_open(&wire, (const char *const[]){ "providers", "cpu,reference", "level", "0", "policy", "priority",
                                                 "pin", "op:Abs=reference", NULL });
    assert_int_not_equal(region_of(&rig, "a"), region_of(&rig, "c"));
    for (const char *value = "wtu"; *value != '\0'; value++)
        assert_int_equal(region_of(&rig, (const char[]){ *value, '\0' }), region_of(&rig, "c"));
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(copies_and_memory),
                                        cmocka_unit_test(weights_with_their_readers) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
