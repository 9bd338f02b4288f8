/* supports.c - decides which nodes are computed as matrix multiplications. */
#include "openblas/blas.h"
#include "inlay/cost.h"
#include "inlay/graph_view.h"
#include "operators/einsum.h"
#include "operators/products.h"

/* A convolution with one input channel per group has no sum over channels: each output is a dot product over a small
 * kernel, for which other loops are faster than a matrix multiplication with one row. */
static bool is_depthwise(const kit_node *node)
{
    const inlay_value_info *weights = kit_input(node, 1);
    int64_t group = kit_attr_int(node->info, "group", 1);

    return group > 1 && weights != NULL && weights->rank != INLAY_RANK_UNKNOWN && weights->rank >= 2 &&
           weights->dims[0].kind == INLAY_DIM_FIXED && weights->dims[1].kind == INLAY_DIM_FIXED &&
           weights->dims[1].value == 1 && weights->dims[0].value / group <= 2;
}

static bool einsum_supports(const kit_node *node, kit_refusal *why)
{
    einsum_state state = { 0 };

    if (einsum_read(node, &state, NULL) != INLAY_OK)
        return true; /* compile() reports the error */
    if (einsum_has_product(&state))
        return true;
    return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL,
                      "the equation is not a matrix multiplication: no label of both terms is summed");
}

bool blas_supports(const kit_node *node, kit_refusal *why)
{
    const char *op = kit_op_type(node);

    if (strcmp(op, "Conv") == 0 && is_depthwise(node))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "use fewer groups",
                          "a convolution with one input channel per group is not a matrix multiplication");
    if (strcmp(op, "Conv") == 0 || strcmp(op, "ConvTranspose") == 0)
        return conv_supports(node, why);
    return strcmp(op, "Einsum") != 0 || einsum_supports(node, why);
}
