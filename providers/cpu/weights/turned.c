#include "cpu/weights/turned.h"
#include "inlay/graph_view.h"
#include "cpu/weights/halves.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` omit these. */
OPTIONAL_WITH(turned_bind_products, "cpu_product+cpu_transpose");
OPTIONAL_WITH(turned_is_matrix, "cpu_product+cpu_transpose");

static bool is_floats(const inlay_value_info *info)
{
    return info != NULL && (info->flags & INLAY_VALUE_CONSTANT) != 0 && info->dtype == INLAY_FLOAT;
}

bool turned_is_matrix(const inlay_graph *graph, uint32_t value)
{
    const inlay_value_info *info = inlay_graph_value(graph, value);
    const inlay_node_info *maker =
        info != NULL && info->producer < graph->node_count ? inlay_graph_node(graph, info->producer) : NULL;

    return maker != NULL && strcmp(maker->op_type.data, "Transpose") == 0 && info->rank == 2 &&
           (is_floats(inlay_graph_value(graph, maker->inputs[0])) || halves_is_constant(graph, maker->inputs[0]));
}

/* The op before `reader` that computes the value; NULL: none. */
static cpu_op *maker_of(const inlay_compiled *compiled, uint32_t reader, uint32_t value)
{
    while (reader-- > 0)
        if (compiled->ops[reader].out_count > 0 && compiled->ops[reader].out[0] == value)
            return &compiled->ops[reader];
    return NULL;
}

/* Is the value a constant matrix whose kind can be packed, or read, with either axis first? */
static bool is_turnable(const inlay_compiled *compiled, const cpu_value *value)
{
    const cpu_constant *constant = value->constant == INLAY_NONE ? NULL : &compiled->constants[value->constant];

    return constant != NULL && value->rank == 2 && value->type == ELEMENT_FLOAT &&
           (constant->kind == CONSTANT_HALVES || constant->kind == CONSTANT_PLAIN);
}

void turned_bind_products(inlay_compiled *compiled)
{
    for (uint32_t reader = 0; reader < compiled->op_count; reader++) {
        cpu_op *product = &compiled->ops[reader], *turn = NULL;
        cpu_value *made;

        if (product->row->family->kind == CPU_FAMILY_PRODUCT)
            turn = maker_of(compiled, reader, product->in[1]);
        if (turn == NULL || turn->row->family->kind != CPU_FAMILY_TRANSPOSE || turn->perm[0] != 1 ||
            turn->perm[1] != 0 || !is_turnable(compiled, &compiled->values[turn->in[0]]))
            continue;
        made = &compiled->values[turn->out[0]];
        product->in[1] = turn->in[0];
        product->product.trans_b = !product->product.trans_b;
        compiled->values[turn->in[0]].uses++;
        turn->silent = --made->uses == 0 && made->output == INLAY_NONE; /* no other op reads it */
    }
}
