/* What rounding weights takes from means, and where it is given back. */
#include "cmocka_all.h"
#include "quantize/bias.h"
#include <math.h>

enum { OUTPUTS = 4, INPUTS = 3, KERNEL = 4 };

/* A layer of which no more is known than its weights and its group. */
struct bare {
    struct graph graph;
    graph_node node;
    graph_value value;
    inlay_dim dims[3];
    inlay_attr_info group;
    struct layer layer;
};

static void make_bare(struct bare *bare, const char *op, int64_t a, int64_t c, int64_t k, int64_t groups,
                      uint32_t channel)
{
    const int64_t sizes[] = { a, c, k };

    *bare = (struct bare){ .group = { .name = { "group", 5 }, .kind = INLAY_ATTR_INT, .i = groups } };
    for (int d = 0; d < 3; d++)
        bare->dims[d] = (inlay_dim){ .kind = INLAY_DIM_FIXED, .value = sizes[d] };
    bare->value.info.dims = bare->dims;
    bare->value.info.rank = k > 1 ? 3 : 2;
    bare->graph.values = &bare->value;
    bare->graph.value_count = 1;
    bare->node.info.op_type = (inlay_str){ op, strlen(op) };
    bare->node.info.attrs = &bare->group;
    bare->node.info.attr_stride = sizeof bare->group;
    bare->node.info.attr_count = bare->node.own_attr_count = 1;
    bare->layer = (struct layer){
        .graph = &bare->graph, .node = &bare->node, .weight = 0, .channel = channel, .count = a * c * k
    };
}

/* Every weight is off by 0.25 of its code: the loss is 0.25 times the means that a channel reads. */
static void check(struct bare *bare, int64_t inputs, const double *means, const double *want)
{
    enum { MOST = OUTPUTS * INPUTS * KERNEL };
    float w[MOST], scales[OUTPUTS];
    int8_t codes[MOST];
    const int8_weights bytes = { codes, scales };
    double lost[OUTPUTS];

    for (int i = 0; i < OUTPUTS; i++)
        scales[i] = 0.5F;
    for (int i = 0; i < bare->layer.count; i++) {
        codes[i] = (int8_t)(i % 7 - 3);
        w[i] = (float)codes[i] * 0.5F + 0.25F;
    }
    assert_true(bias_correction(&bare->layer, w, &bytes, means, inputs, lost));
    for (int c = 0; c < OUTPUTS; c++)
        assert_true(fabs(lost[c] - want[c]) < 1e-6);
    assert_false(bias_correction(&bare->layer, w, &bytes, means, inputs + 1, lost));
}

static void convolutions_and_products(void **state)
{
    const double means[] = { 1, -2, 4 }, all = 0.25 * (1 - 2 + 4);
    const double dense[] = { KERNEL * all, KERNEL * all, KERNEL * all, KERNEL * all };
    const double row[] = { all, all, all, all };
    struct bare bare;

    (void)state;
    make_bare(&bare, "Conv", OUTPUTS, INPUTS, KERNEL, 1, 0);
    check(&bare, INPUTS, means, dense);
    make_bare(&bare, "MatMul", INPUTS, OUTPUTS, 1, 1, 1);
    check(&bare, INPUTS, means, row);
    make_bare(&bare, "Gemm", OUTPUTS, INPUTS, 1, 1, 0);
    check(&bare, INPUTS, means, row);
}

static void groups_read_their_own(void **state)
{
    const double means[] = { 1, -2, 4, 8 };
    const double own[] = { 0.25 * KERNEL, -0.5 * KERNEL, KERNEL, 2 * KERNEL };
    struct bare bare;

    (void)state;
    make_bare(&bare, "Conv", OUTPUTS, 1, KERNEL, OUTPUTS, 0);
    check(&bare, OUTPUTS, means, own);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(convolutions_and_products),
                                        cmocka_unit_test(groups_read_their_own) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
