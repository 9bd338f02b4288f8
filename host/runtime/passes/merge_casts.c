/* Merges Cast(Cast(x)) into one Cast if the type in between represents every value of x exactly. Casts to strings
 * are kept: the text depends on the source type (a double has more digits than a float). */
#include "passes/rewrite.h"

/* Describes the type: bits and sign of an integer, or significant bits of a float; 0 bits = neither. */
static void precision(inlay_dtype dtype, uint32_t *out_bits, bool *out_signed, bool *out_float)
{
    static const struct {
        uint32_t dtype;
        uint8_t bits;
        bool is_signed, is_float;
    } rows[] = {
        { INLAY_BOOL, 1, false, false },    { INLAY_UINT8, 8, false, false },   { INLAY_INT8, 7, true, false },
        { INLAY_UINT16, 16, false, false }, { INLAY_INT16, 15, true, false },   { INLAY_UINT32, 32, false, false },
        { INLAY_INT32, 31, true, false },   { INLAY_UINT64, 64, false, false }, { INLAY_INT64, 63, true, false },
        { INLAY_FLOAT16, 11, true, true },  { INLAY_BFLOAT16, 8, true, true },  { INLAY_FLOAT, 24, true, true },
        { INLAY_DOUBLE, 53, true, true },
    };

    *out_bits = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].dtype != (uint32_t)dtype)
            continue;
        *out_bits = rows[i].bits;
        *out_signed = rows[i].is_signed;
        *out_float = rows[i].is_float;
    }
}

/* Returns true if type b represents every value of type a. float16 and bfloat16 do not represent each other. */
static bool represents_all(inlay_dtype a, inlay_dtype b)
{
    uint32_t a_bits = 0, b_bits = 0;
    bool a_signed = false, b_signed = false, a_float = false, b_float = false;

    precision(a, &a_bits, &a_signed, &a_float);
    precision(b, &b_bits, &b_signed, &b_float);
    if (a_bits == 0 || b_bits == 0 || b == INLAY_BOOL)
        return a == b && a_bits != 0;
    if (a_float)
        return b_float && b_bits >= a_bits && (b == INLAY_FLOAT || b == INLAY_DOUBLE || a == b);
    return a_bits <= b_bits && (b_signed || !a_signed) && !(b == INLAY_FLOAT16 && a_bits > 11);
}

inlay_status match_merge_casts(struct rewrite *rewrite, graph_node *node)
{
    graph_node *new_node, *inner = pass_is_op(node, "Cast")
                                       ? rewrite_producer_op(rewrite, rewrite_input(rewrite, node, 0), "Cast")
                                       : NULL;

    if (inner == NULL || rewrite_value_info(rewrite, node->info.outputs[0])->dtype == INLAY_STRING ||
        !represents_all(rewrite_value_info(rewrite, rewrite_input(rewrite, inner, 0))->dtype,
                        rewrite_value_info(rewrite, inner->info.outputs[0])->dtype))
        return INLAY_OK;
    new_node = rewrite_copy_node(rewrite, node);
    if (new_node == NULL)
        return rewrite_no_memory(rewrite);
    rewrite_set_input(rewrite, new_node, 0, rewrite_input(rewrite, inner, 0));
    return rewrite_replace_node(rewrite, node, new_node);
}
