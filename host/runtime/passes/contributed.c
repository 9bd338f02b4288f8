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
static bool is_contributed(const graph_node *n)
{
    const char *domain = n->info.domain.data, *op = n->info.op_type.data;

    return strcmp(domain, "com.microsoft") == 0 ||
           (strcmp(domain, "ai.onnx") == 0 && (strcmp(op, "SimplifiedLayerNormalization") == 0 ||
                                               strcmp(op, "ImageScaler") == 0 || strcmp(op, "SwiGLU") == 0));
}

static inlay_status match(struct rewrite *w, graph_node *n)
{
    struct spell b = { .w = w, .n = n };

    if (n->schema == NULL || !is_contributed(n))
        return INLAY_OK;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (strcmp(n->info.op_type.data, table[i].name) != 0)
            continue;
        table[i].spell(&b);
        return b.status != INLAY_OK || b.last == NULL ? b.status : spell_end(&b);
    }
    return INLAY_OK;
}

inlay_status pass_contributed(pass_ctx *ctx, bool *out_changed)
{
    return rewrite_each_graph(ctx, match, out_changed);
}

/* ------------------------------------------------------------------ activations */

static uint32_t gelu(struct spell *b, uint32_t x, bool tanh)
{
    uint32_t y = spell_op(b, "Gelu", 20, x);

    spell_string(b, "approximate", tanh ? "tanh" : "none");
    return y;
}

void spell_gelu(struct spell *b)
{
    spell_output(b, 0, gelu(b, spell_in(b, 0), false));
}

void spell_bias_gelu(struct spell *b)
{
    uint32_t x = spell_in(b, 0);

    if (spell_in(b, 1) != INLAY_NONE)
        x = spell_op(b, "Add", 14, x, spell_in(b, 1));
    spell_output(b, 0, gelu(b, x, strcmp(b->n->info.op_type.data, "FastGelu") == 0));
}

void spell_quick_gelu(struct spell *b)
{
    const uint32_t x = spell_in(b, 0);
    uint32_t scaled =
        spell_op(b, "Mul", 14, x, spell_number(b, spell_dtype(b, x), rw_attr_float(b->n, "alpha", 1.702)));

    spell_output(b, 0, spell_op(b, "Mul", 14, x, spell_op(b, "Sigmoid", 13, scaled)));
}

/* SwiGLU-28: Swish(A) B. */
void spell_swiglu(struct spell *b)
{
    uint32_t gate = spell_op(b, "Swish", 24, spell_in(b, 0));

    spell_float(b, "alpha", rw_attr_float(b->n, "alpha", 1));
    spell_output(b, 0, spell_op(b, "Mul", 14, gate, spell_in(b, 1)));
}

uint32_t contributed_activation(struct spell *b, const char *name, uint32_t x, const double *params, uint32_t count)
{
    uint32_t y;

    if (strcmp(name, "Clip") == 0) {
        const inlay_dtype dtype = spell_dtype(b, x);
        const uint32_t low = count > 0 ? spell_number(b, dtype, params[0]) : INLAY_NONE;

        return spell_op(b, "Clip", 13, x, low, count > 1 ? spell_number(b, dtype, params[1]) : INLAY_NONE);
    }
    y = spell_op(b, name, strcmp(name, "HardSigmoid") == 0 || strcmp(name, "LeakyRelu") == 0 ? 6 : 13, x);
    if (count > 0)
        spell_float(b, "alpha", params[0]);
    if (count > 1)
        spell_float(b, "beta", params[1]);
    return y;
}

/* ------------------------------------------------------------------ the same under another name, or nearly */

void spell_same(struct spell *b)
{
    static const char *const attributes[] = { "mode", "padding_mode", "align_corners", "upper", NULL };
    const char *op = b->n->info.op_type.data;
    uint32_t y = spell_make(b, op, strcmp(op, "GridSample") == 0 ? 16 : 14, INLAY_UNDEFINED, 1,
                            (const uint32_t[]){ spell_in(b, 0), spell_in(b, 1), spell_in(b, 2), SPELL_END });

    spell_copy(b, attributes);
    spell_output(b, 0, y);
}

void spell_range(struct spell *b)
{
    const uint32_t start = spell_in(b, 0), step = spell_in(b, 2);
    uint32_t y = spell_op(
        b, "Range", 11, start, spell_in(b, 1),
        step != INLAY_NONE ? step : spell_cast(b, spell_op(b, "Squeeze", 13, spell_list(b, 1)), spell_dtype(b, start)));

    spell_output(b, 0, y);
}

void spell_unique(struct spell *b)
{
    uint32_t y = spell_make(b, "Unique", 11, INLAY_UNDEFINED, 4, (const uint32_t[]){ spell_in(b, 0), SPELL_END });

    spell_int(b, "sorted", 0);
    spell_output(b, 0, y);
    if (b->status == INLAY_OK) {
        b->w->g->values[spell_out(b, 2)].info.dtype = b->w->g->values[spell_out(b, 3)].info.dtype = INLAY_INT64;
        spell_output(b, 1, b->last->info.outputs[2]);
        spell_output(b, 2, b->last->info.outputs[3]);
    }
}

void spell_expand_dims(struct spell *b)
{
    uint32_t axis = spell_cast(b, spell_in(b, 1), INLAY_INT64);

    axis = spell_op(b, "Reshape", 13, axis, spell_list(b, 1));
    spell_output(b, 0, spell_op(b, "Unsqueeze", 13, spell_in(b, 0), axis));
}

void spell_pad(struct spell *b)
{
    static const char *const attributes[] = { "mode", NULL };
    const uint32_t pads = spell_op(b, "Reshape", 13, spell_in(b, 1), spell_list(b, -1)); /* may be [1, 2 * rank] */
    uint32_t value = spell_in(b, 2), y;

    if (value != INLAY_NONE)
        value = spell_op(b, "Reshape", 13, value, spell_integers(b, NULL, 0));
    y = spell_op(b, "Pad", 13, spell_in(b, 0), pads, value);
    spell_copy(b, attributes);
    spell_output(b, 0, y);
}

void spell_image_scaler(struct spell *b)
{
    const uint32_t x = spell_in(b, 0);
    uint32_t count = 0, bias;
    const inlay_attr_info *list = graph_attr(b->n, "bias");
    const int64_t dims[3] = { list == NULL ? 0 : list->count, 1, 1 };
    uint32_t y = spell_op(b, "Mul", 13, x, spell_number(b, spell_dtype(b, x), rw_attr_float(b->n, "scale", 1)));

    count = list == NULL ? 0 : list->count;
    if (count > 0) {
        bias = b->status != INLAY_OK
                   ? INLAY_NONE
                   : rw_constant(b->w, INLAY_FLOAT, 3, dims, list->floats, (uint64_t)count * sizeof(float));
        if (bias == INLAY_NONE)
            b->status = b->status == INLAY_OK ? rw_no_memory(b->w) : b->status;
        y = spell_op(b, "Add", 13, y, spell_cast(b, bias, spell_dtype(b, x)));
    }
    spell_output(b, 0, y);
}

/* ------------------------------------------------------------------ normalisations */

void spell_simplified(struct spell *b)
{
    static const char *const attributes[] = { "axis", "epsilon", "stash_type", NULL };
    const uint32_t x = spell_in(b, 0), scale = spell_in(b, 1);
    const inlay_dtype dtype = spell_dtype(b, x);
    const int64_t axis = rw_attr_int(b->n, "axis", -1);
    uint32_t y, spread;

    y = spell_op(b, "RMSNormalization", 23, x, spell_cast(b, scale, dtype));
    spell_copy(b, attributes);
    spell_output(b, 0, spell_cast(b, y, spell_dtype(b, scale)));
    if (!spell_wants(b, 1) || (axis != -1 && axis + 1 != (int64_t)spell_rank(b, x)))
        return;
    spread = spell_cast(b, x, INLAY_FLOAT);
    spread = spell_op(b, "ReduceMean", 18, spell_op(b, "Mul", 14, spread, spread), spell_list(b, -1));
    spread = spell_op(b, "Add", 14, spread, spell_number(b, INLAY_FLOAT, rw_attr_float(b->n, "epsilon", 1e-5)));
    spell_output(b, 1, spell_op(b, "Reciprocal", 13, spell_op(b, "Sqrt", 13, spread)));
}

/* Rows of a table, of bytes with a scale and a zero point in the quantized form. */
static uint32_t rows_of(struct spell *b, uint32_t from, uint32_t ids, uint32_t scale, uint32_t zero)
{
    uint32_t rows = spell_op(b, "Gather", 13, from, ids);

    return scale == INLAY_NONE ? rows : spell_typed(b, "DequantizeLinear", 13, INLAY_FLOAT, rows, scale, zero);
}

/* Inputs: word ids, segment ids?, tables of words, positions and segments?, gamma, beta, then mask?, position ids?; the
 * quantized form has the scales of the five, then their zero points, between mask and position ids' place. */
void spell_embed(struct spell *b)
{
    const bool quantized = b->n->info.op_type.data[0] == 'Q';
    const uint32_t ids = spell_in(b, 0), segments = spell_in(b, 1), mask = spell_in(b, 7);
    uint32_t positions = quantized ? INLAY_NONE : spell_in(b, 8), q[5], z[5], sum, y, gamma, beta;

    for (uint32_t i = 0; i < 5; i++) {
        q[i] = quantized ? spell_in(b, 8 + i) : INLAY_NONE;
        z[i] = quantized ? spell_in(b, 13 + i) : INLAY_NONE;
    }
    sum = rows_of(b, spell_in(b, 2), ids, q[0], z[0]);
    if (positions == INLAY_NONE) {
        const uint32_t shape = spell_typed(b, "Shape", 13, INLAY_INT64, ids);
        const uint32_t length = spell_op(b, "Gather", 13, shape, spell_op(b, "Squeeze", 13, spell_list(b, 1)));
        const uint32_t one = spell_op(b, "Squeeze", 13, spell_list(b, 1));

        positions = spell_op(b, "Range", 11, spell_op(b, "Sub", 14, one, one), length, one);
    }
    sum = spell_op(b, "Add", 14, sum, rows_of(b, spell_in(b, 3), positions, q[1], z[1]));
    if (segments != INLAY_NONE)
        sum = spell_op(b, "Add", 14, sum, rows_of(b, spell_in(b, 4), segments, q[2], z[2]));
    gamma = spell_in(b, 5);
    beta = spell_in(b, 6);
    if (quantized) {
        gamma = spell_typed(b, "DequantizeLinear", 13, INLAY_FLOAT, gamma, q[3], z[3]);
        beta = spell_typed(b, "DequantizeLinear", 13, INLAY_FLOAT, beta, q[4], z[4]);
    }
    y = spell_op(b, "LayerNormalization", 17, sum, gamma, beta);
    spell_int(b, "axis", -1);
    spell_float(b, "epsilon", rw_attr_float(b->n, "epsilon", 1e-12));
    spell_output(b, 0, y);
    if (spell_wants(b, 1)) { /* how many ids of each row count */
        const uint32_t count = mask == INLAY_NONE ? spell_op(b, "Sub", 14, ids, ids) : mask;
        const uint32_t total = spell_op(b, "ReduceSum", 13, count, spell_list(b, 1));

        spell_int(b, "keepdims", 0);
        spell_output(b, 1, spell_cast(b, total, INLAY_INT32));
    }
    spell_output(b, 2, sum);
}
