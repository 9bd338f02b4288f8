/* Operators of com.microsoft, those of ai.onnx that only ONNX Runtime has, and SwiGLU, as what they mean in ONNX:
 *
 *     BiasGelu(a, b)  ->  Gelu(Add(a, b))
 *
 * Level 0: no provider runs them. A node that ONNX's operators cannot say is left as it is, with the reason
 * (spell_refuse), which the error names when no provider runs it. The definitions are in "ContribOperators.md" of that
 * project. */
#include "passes/contributed.h"
#include <string.h>

static const struct {
    const char *name;
    void (*spell)(struct spell *b);
} table[] = {
#define CONTRIBUTED(name, function) { #name, function },
#include "passes/contributed.def"
#undef CONTRIBUTED
};

/* Those of ai.onnx that ONNX has not are in com.microsoft under the same name. */
static bool is_contributed(const graph_node *node)
{
    const char *domain = node->info.domain.data, *op = node->info.op_type.data;

    return strcmp(domain, "com.microsoft") == 0 ||
           (strcmp(domain, "ai.onnx") == 0 && (strcmp(op, "SimplifiedLayerNormalization") == 0 ||
                                               strcmp(op, "ImageScaler") == 0 || strcmp(op, "SwiGLU") == 0));
}

static inlay_status match(struct rewrite *rewrite, graph_node *node)
{
    struct spell spell = { .rewrite = rewrite, .node = node };

    if (node->schema == NULL || !is_contributed(node))
        return INLAY_OK;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (strcmp(node->info.op_type.data, table[i].name) != 0)
            continue;
        table[i].spell(&spell);
        return spell.status != INLAY_OK || spell.last == NULL ? spell.status : spell_end(&spell);
    }
    return INLAY_OK;
}

inlay_status pass_contributed(pass_ctx *ctx, bool *out_changed)
{
    return rewrite_each_graph(ctx, match, out_changed);
}

/* ------------------------------------------------------------------ activations */

static uint32_t gelu(struct spell *spell, uint32_t input, bool tanh)
{
    uint32_t output = spell_op(spell, "Gelu", 20, input);

    spell_string(spell, "approximate", tanh ? "tanh" : "none");
    return output;
}

void spell_gelu(struct spell *spell)
{
    spell_output(spell, 0, gelu(spell, spell_in(spell, 0), false));
}

void spell_bias_gelu(struct spell *spell)
{
    uint32_t input = spell_in(spell, 0);

    if (spell_in(spell, 1) != INLAY_NONE)
        input = spell_op(spell, "Add", 14, input, spell_in(spell, 1));
    spell_output(spell, 0, gelu(spell, input, strcmp(spell->node->info.op_type.data, "FastGelu") == 0));
}

void spell_quick_gelu(struct spell *spell)
{
    const uint32_t input = spell_in(spell, 0);
    uint32_t scaled =
        spell_op(spell, "Mul", 14, input,
                 spell_number(spell, spell_dtype(spell, input), rw_attr_float(spell->node, "alpha", 1.702)));

    spell_output(spell, 0, spell_op(spell, "Mul", 14, input, spell_op(spell, "Sigmoid", 13, scaled)));
}

/* SwiGLU-28: Swish(A) B. */
void spell_swiglu(struct spell *spell)
{
    uint32_t gate = spell_op(spell, "Swish", 24, spell_in(spell, 0));

    spell_float(spell, "alpha", rw_attr_float(spell->node, "alpha", 1));
    spell_output(spell, 0, spell_op(spell, "Mul", 14, gate, spell_in(spell, 1)));
}

uint32_t contributed_activation(struct spell *spell, const char *name, uint32_t input, const double *params,
                                uint32_t count)
{
    uint32_t output;

    if (strcmp(name, "Clip") == 0) {
        const inlay_dtype dtype = spell_dtype(spell, input);
        const uint32_t low = count > 0 ? spell_number(spell, dtype, params[0]) : INLAY_NONE;

        return spell_op(spell, "Clip", 13, input, low, count > 1 ? spell_number(spell, dtype, params[1]) : INLAY_NONE);
    }
    output = spell_op(spell, name, strcmp(name, "HardSigmoid") == 0 || strcmp(name, "LeakyRelu") == 0 ? 6 : 13, input);
    if (count > 0)
        spell_float(spell, "alpha", params[0]);
    if (count > 1)
        spell_float(spell, "beta", params[1]);
    return output;
}

/* ------------------------------------------------------------------ the same under another name, or nearly */

void spell_same(struct spell *spell)
{
    static const char *const attributes[] = { "mode", "padding_mode", "align_corners", "upper", NULL };
    const char *op = spell->node->info.op_type.data;
    uint32_t output =
        spell_make(spell, op, strcmp(op, "GridSample") == 0 ? 16 : 14, INLAY_UNDEFINED, 1,
                   (const uint32_t[]){ spell_in(spell, 0), spell_in(spell, 1), spell_in(spell, 2), SPELL_END });

    spell_copy(spell, attributes);
    spell_output(spell, 0, output);
}

void spell_range(struct spell *spell)
{
    const uint32_t start = spell_in(spell, 0), step = spell_in(spell, 2);
    uint32_t output =
        spell_op(spell, "Range", 11, start, spell_in(spell, 1),
                 step != INLAY_NONE ? step
                                    : spell_cast(spell, spell_op(spell, "Squeeze", 13, spell_list(spell, 1)),
                                                 spell_dtype(spell, start)));

    spell_output(spell, 0, output);
}

void spell_unique(struct spell *spell)
{
    uint32_t output =
        spell_make(spell, "Unique", 11, INLAY_UNDEFINED, 4, (const uint32_t[]){ spell_in(spell, 0), SPELL_END });

    spell_int(spell, "sorted", 0);
    spell_output(spell, 0, output);
    if (spell->status == INLAY_OK) {
        spell->rewrite->graph->values[spell_out(spell, 2)].info.dtype =
            spell->rewrite->graph->values[spell_out(spell, 3)].info.dtype = INLAY_INT64;
        spell_output(spell, 1, spell->last->info.outputs[2]);
        spell_output(spell, 2, spell->last->info.outputs[3]);
    }
}

void spell_expand_dims(struct spell *spell)
{
    uint32_t axis = spell_cast(spell, spell_in(spell, 1), INLAY_INT64);

    axis = spell_op(spell, "Reshape", 13, axis, spell_list(spell, 1));
    spell_output(spell, 0, spell_op(spell, "Unsqueeze", 13, spell_in(spell, 0), axis));
}

void spell_pad(struct spell *spell)
{
    static const char *const attributes[] = { "mode", NULL };
    const uint32_t pads =
        spell_op(spell, "Reshape", 13, spell_in(spell, 1), spell_list(spell, -1)); /* may be [1, 2 * rank] */
    uint32_t value = spell_in(spell, 2), output;

    if (value != INLAY_NONE)
        value = spell_op(spell, "Reshape", 13, value, spell_integers(spell, NULL, 0));
    output = spell_op(spell, "Pad", 13, spell_in(spell, 0), pads, value);
    spell_copy(spell, attributes);
    spell_output(spell, 0, output);
}

void spell_image_scaler(struct spell *spell)
{
    const uint32_t input = spell_in(spell, 0);
    uint32_t count = 0, bias;
    const inlay_attr_info *list = graph_attr(spell->node, "bias");
    const int64_t dims[3] = { list == NULL ? 0 : list->count, 1, 1 };
    uint32_t output = spell_op(spell, "Mul", 13, input,
                               spell_number(spell, spell_dtype(spell, input), rw_attr_float(spell->node, "scale", 1)));

    count = list == NULL ? 0 : list->count;
    if (count > 0) {
        bias = spell->status != INLAY_OK
                   ? INLAY_NONE
                   : rw_constant(spell->rewrite, INLAY_FLOAT, 3, dims, list->floats, (uint64_t)count * sizeof(float));
        if (bias == INLAY_NONE)
            spell->status = spell->status == INLAY_OK ? rw_no_memory(spell->rewrite) : spell->status;
        output = spell_op(spell, "Add", 13, output, spell_cast(spell, bias, spell_dtype(spell, input)));
    }
    spell_output(spell, 0, output);
}

/* ------------------------------------------------------------------ normalisations */

void spell_simplified(struct spell *spell)
{
    static const char *const attributes[] = { "axis", "epsilon", "stash_type", NULL };
    const uint32_t input = spell_in(spell, 0), scale = spell_in(spell, 1);
    const inlay_dtype dtype = spell_dtype(spell, input);
    const int64_t axis = rw_attr_int(spell->node, "axis", -1);
    uint32_t output, spread;

    output = spell_op(spell, "RMSNormalization", 23, input, spell_cast(spell, scale, dtype));
    spell_copy(spell, attributes);
    spell_output(spell, 0, spell_cast(spell, output, spell_dtype(spell, scale)));
    if (!spell_wants(spell, 1) || (axis != -1 && axis + 1 != (int64_t)spell_rank(spell, input)))
        return;
    spread = spell_cast(spell, input, INLAY_FLOAT);
    spread = spell_op(spell, "ReduceMean", 18, spell_op(spell, "Mul", 14, spread, spread), spell_list(spell, -1));
    spread = spell_op(spell, "Add", 14, spread,
                      spell_number(spell, INLAY_FLOAT, rw_attr_float(spell->node, "epsilon", 1e-5)));
    spell_output(spell, 1, spell_op(spell, "Reciprocal", 13, spell_op(spell, "Sqrt", 13, spread)));
}

/* Rows of a table, of bytes with a scale and a zero point in the quantized form. */
static uint32_t rows_of(struct spell *spell, uint32_t from, uint32_t ids, uint32_t scale, uint32_t zero)
{
    uint32_t rows = spell_op(spell, "Gather", 13, from, ids);

    return scale == INLAY_NONE ? rows : spell_typed(spell, "DequantizeLinear", 13, INLAY_FLOAT, rows, scale, zero);
}

/* Inputs: word ids, segment ids?, tables of words, positions and segments?, gamma, beta, then mask?, position ids?; the
 * quantized form has the scales of the five, then their zero points, between mask and position ids' place. */
void spell_embed(struct spell *spell)
{
    const bool quantized = spell->node->info.op_type.data[0] == 'Q';
    const uint32_t ids = spell_in(spell, 0), segments = spell_in(spell, 1), mask = spell_in(spell, 7);
    uint32_t positions = quantized ? INLAY_NONE : spell_in(spell, 8), q[5], z[5], sum, output, gamma, beta;

    for (uint32_t i = 0; i < 5; i++) {
        q[i] = quantized ? spell_in(spell, 8 + i) : INLAY_NONE;
        z[i] = quantized ? spell_in(spell, 13 + i) : INLAY_NONE;
    }
    sum = rows_of(spell, spell_in(spell, 2), ids, q[0], z[0]);
    if (positions == INLAY_NONE) {
        const uint32_t shape = spell_typed(spell, "Shape", 13, INLAY_INT64, ids);
        const uint32_t length =
            spell_op(spell, "Gather", 13, shape, spell_op(spell, "Squeeze", 13, spell_list(spell, 1)));
        const uint32_t one = spell_op(spell, "Squeeze", 13, spell_list(spell, 1));

        positions = spell_op(spell, "Range", 11, spell_op(spell, "Sub", 14, one, one), length, one);
    }
    sum = spell_op(spell, "Add", 14, sum, rows_of(spell, spell_in(spell, 3), positions, q[1], z[1]));
    if (segments != INLAY_NONE)
        sum = spell_op(spell, "Add", 14, sum, rows_of(spell, spell_in(spell, 4), segments, q[2], z[2]));
    gamma = spell_in(spell, 5);
    beta = spell_in(spell, 6);
    if (quantized) {
        gamma = spell_typed(spell, "DequantizeLinear", 13, INLAY_FLOAT, gamma, q[3], z[3]);
        beta = spell_typed(spell, "DequantizeLinear", 13, INLAY_FLOAT, beta, q[4], z[4]);
    }
    output = spell_op(spell, "LayerNormalization", 17, sum, gamma, beta);
    spell_int(spell, "axis", -1);
    spell_float(spell, "epsilon", rw_attr_float(spell->node, "epsilon", 1e-12));
    spell_output(spell, 0, output);
    if (spell_wants(spell, 1)) { /* how many ids of each row count */
        const uint32_t count = mask == INLAY_NONE ? spell_op(spell, "Sub", 14, ids, ids) : mask;
        const uint32_t total = spell_op(spell, "ReduceSum", 13, count, spell_list(spell, 1));

        spell_int(spell, "keepdims", 0);
        spell_output(spell, 1, spell_cast(spell, total, INLAY_INT32));
    }
    spell_output(spell, 2, sum);
}
