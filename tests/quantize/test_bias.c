/* The change of means by rounding weights, and its compensation in biases. */
#include "cmocka_all.h"
#include "quantize/bias.h"
#include <math.h>

enum { OUTPUTS = 4, INPUTS = 3, KERNEL = 4 };

/* A layer that has only weights and the attribute group. */
struct bare_layer {
    struct graph graph;
    graph_node node;
    graph_value value;
    inlay_dim dims[3];
    inlay_attr_info group;
    struct layer layer;
};

static void make_bare(struct bare_layer *bare_layer, const char *op, int64_t a, int64_t c, int64_t k, int64_t groups,
                      uint32_t channel)
{
    const int64_t sizes[] = { a, c, k };

    *bare_layer = (struct bare_layer){ .group = { .name = { "group", 5 }, .kind = INLAY_ATTR_INT, .i = groups } };
    for (int d = 0; d < 3; d++)
        bare_layer->dims[d] = (inlay_dim){ .kind = INLAY_DIM_FIXED, .value = sizes[d] };
    bare_layer->value.info.dims = bare_layer->dims;
    bare_layer->value.info.rank = k > 1 ? 3 : 2;
    bare_layer->graph.values = &bare_layer->value;
    bare_layer->graph.value_count = 1;
    bare_layer->node.info.op_type = (inlay_str){ op, strlen(op) };
    bare_layer->node.info.attrs = &bare_layer->group;
    bare_layer->node.info.attr_stride = sizeof bare_layer->group;
    bare_layer->node.info.attr_count = bare_layer->node.own_attr_count = 1;
    bare_layer->layer = (struct layer){
        .graph = &bare_layer->graph, .node = &bare_layer->node, .weight = 0, .channel = channel, .count = a * c * k
    };
}

/* Every weight is off by 0.25 of a step, so the mean of each output changes by 0.25 times the means of its inputs. */
static void check(struct bare_layer *bare_layer, int64_t inputs, const double *means, const double *want)
{
    enum { MOST = OUTPUTS * INPUTS * KERNEL };
    float w[MOST], scales[OUTPUTS];
    int8_t codes[MOST];
    const int8_weights bytes = { codes, scales };
    double lost[OUTPUTS];

    for (int i = 0; i < OUTPUTS; i++)
        scales[i] = 0.5F;
    for (int i = 0; i < bare_layer->layer.count; i++) {
        codes[i] = (int8_t)(i % 7 - 3);
        w[i] = (float)codes[i] * 0.5F + 0.25F;
    }
    assert_true(bias_correction(&bare_layer->layer, w, &bytes, means, inputs, lost));
    for (int c = 0; c < OUTPUTS; c++)
        assert_true(fabs(lost[c] - want[c]) < 1e-6);
    assert_false(bias_correction(&bare_layer->layer, w, &bytes, means, inputs + 1, lost));
}

static void convolutions_and_products(void **state)
{
    const double means[] = { 1, -2, 4 }, all = 0.25 * (1 - 2 + 4);
    const double dense[] = { KERNEL * all, KERNEL * all, KERNEL * all, KERNEL * all };
    const double row[] = { all, all, all, all };
    struct bare_layer bare_layer;

    (void)state;
    make_bare(&bare_layer, "Conv", OUTPUTS, INPUTS, KERNEL, 1, 0);
    check(&bare_layer, INPUTS, means, dense);
    make_bare(&bare_layer, "MatMul", INPUTS, OUTPUTS, 1, 1, 1);
    check(&bare_layer, INPUTS, means, row);
    make_bare(&bare_layer, "Gemm", OUTPUTS, INPUTS, 1, 1, 0);
    check(&bare_layer, INPUTS, means, row);
}

static void groups_read_their_inputs(void **state)
{
    const double means[] = { 1, -2, 4, 8 };
    const double own[] = { 0.25 * KERNEL, -0.5 * KERNEL, KERNEL, 2 * KERNEL };
    struct bare_layer bare_layer;

    (void)state;
    make_bare(&bare_layer, "Conv", OUTPUTS, 1, KERNEL, OUTPUTS, 0);
    check(&bare_layer, OUTPUTS, means, own);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(convolutions_and_products),
                                        cmocka_unit_test(groups_read_their_inputs) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
