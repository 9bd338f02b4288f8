/* Operands of integer operators: checks of types, scales, zero points and constants. */
#include "cpu/quantized/quant.h"
#include "inlay/cost.h"
#include "inlay/graph_view.h"
#include "inlay/kit_table.h"
#include "cpu/weights/read.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` omit these. */
OPTIONAL_WITH(cpu_takes_any, CPU_BYTE_FAMILIES " cpu_weights cpu_nbits_product cpu_experts");
OPTIONAL_WITH(cpu_takes_bytes, CPU_BYTE_FAMILIES " cpu_weights cpu_nbits_product cpu_experts");
OPTIONAL_WITH(cpu_takes_int32_cast, CPU_BYTE_FAMILIES " cpu_weights cpu_nbits_product cpu_experts");

bool cpu_takes_any(const kit_node *node)
{
    (void)node;
    return true;
}

bool q_is_bytes(const inlay_value_info *value)
{
    return value != NULL && (value->dtype == INLAY_UINT8 || value->dtype == INLAY_INT8);
}

bool cpu_takes_bytes(const kit_node *node)
{
    return q_is_bytes(kit_input(node, 0));
}

/* Is the value a sum of ConvInteger with its bias? */
static bool is_biased_sum(const kit_node *node, const inlay_value_info *value)
{
    const kit_node add = { .host = node->host,
                           .graph = node->graph,
                           .info = cpu_is_made_by(node, value, "Add") ? inlay_graph_node(node->graph, value->producer)
                                                                      : NULL };

    return add.info != NULL && cpu_takes_bias(&add);
}

bool cpu_takes_int32_cast(const kit_node *node)
{
    const inlay_value_info *input = kit_input(node, 0), *output = kit_output(node, 0);

    return input != NULL && output != NULL && input->dtype == INLAY_INT32 && output->dtype == INLAY_FLOAT &&
           (cpu_is_made_by(node, input, "MatMulInteger") || cpu_is_made_by(node, input, "ConvInteger") ||
            is_biased_sum(node, input));
}

bool q_known_scale(const inlay_value_info *value, int64_t most, const char *what, float *out_first, kit_refusal *why)
{
    int64_t count = value != NULL ? cpu_known_count(value) : -1;

    if (count < 1 || (value->flags & INLAY_VALUE_CONSTANT) == 0 || value->data == NULL || value->dtype != INLAY_FLOAT)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "make it a constant", "the scale of %s is not a float constant",
                          what);
    if (count != 1 && (count != most || value->rank != 1))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "the scale of %s has %lld elements", what, (long long)count);
    for (int64_t i = 0; i < count; i++) {
        float s;

        memcpy(&s, (const char *)value->data + (size_t)i * sizeof s, sizeof s);
        if (!(s > 0) || !isfinite(s))
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "the scale of %s is not above 0", what);
        if (i == 0)
            *out_first = s;
    }
    return true;
}

bool q_known_zero(const inlay_value_info *value, const inlay_value_info *of, const char *what, int32_t *out,
                  kit_refusal *why)
{
    *out = 0;
    if (value == NULL)
        return true;
    if ((value->flags & INLAY_VALUE_CONSTANT) == 0 || value->data == NULL || value->data_bytes != 1 ||
        value->dtype != of->dtype)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "make it a constant",
                          "the zero point of %s is not a constant scalar of its type", what);
    *out = value->dtype == INLAY_INT8 ? *(const int8_t *)value->data : *(const uint8_t *)value->data;
    return true;
}

inlay_status q_no_memory(const cpu_build *build)
{
    return inlay_fail(build->diag, INLAY_OUT_OF_MEMORY, "no memory for node '%s'", build->op->name);
}

inlay_status q_shift(cpu_build *build, uint32_t value, uint8_t zero)
{
    cpu_constant *constant = &build->compiled->constants[build->compiled->values[value].constant];

    INLAY_CHECK(build->compiled->values[value].constant < build->compiled->constant_count);
    if (constant->shift != zero && constant->packs != NULL)
        return inlay_fail(build->diag, INLAY_UNSUPPORTED,
                          "node '%s': another node reads its weights with another zero point", build->op->name);
    constant->shift = zero;
    return INLAY_OK;
}

inlay_status q_read_dense(cpu_build *build, uint32_t value, const tensor_layout *as, cpu_place *out)
{
    tensor_layout layout;

    if (as == NULL)
        return cpu_read(build, value, out);
    layout = q_typed(as, cpu_type(build, value));
    return cpu_read_as(build, value, &layout, out);
}
