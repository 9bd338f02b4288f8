/* gguf_builder.c - what the graphs of decoders and encoders have in common. */
#include "formats/gguf_builder.h"
#include "formats/onnx_write.h"
#include "inlay/check.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void gguf_builder_refuse(struct builder *b, inlay_status status, const char *text, const char *which)
{
    gguf_refuse(b->gguf, status, text, which);
}

void gguf_builder_refuse_tensor(struct builder *b, const char *name)
{
    gguf_builder_refuse(b, INLAY_INVALID_MODEL, "has no tensor of the expected name and shape:", name);
}

void gguf_builder_node(struct builder *b, const char *op, const char *format, ...)
{
    char text[2 * TEXT], *arrow;
    va_list list;

    va_start(list, format);
    (void)vsnprintf(text, sizeof text, format, list);
    va_end(list);
    arrow = strstr(text, " -> ");
    INLAY_CHECK(arrow != NULL);
    *arrow = '\0';
    if (b->gguf->status == INLAY_OK)
        onnx_node(b->out, op, text, arrow + 4, NULL, 0);
}

void gguf_builder_program(struct builder *b, const char *program, const char *name)
{
    if (b->gguf->status == INLAY_OK)
        onnx_program(b->out, program, name);
}

void gguf_builder_node_of(struct builder *b, const char *op, const char *inputs, const char *outputs,
                          const char *attribute, int64_t number)
{
    if (b->gguf->status == INLAY_OK)
        onnx_node(b->out, op, inputs, outputs, &(onnx_attribute){ attribute, false, number, 0 }, 1);
}

void gguf_builder_numbers(struct builder *b, const char *program, const int64_t *numbers)
{
    char text[2 * TEXT];
    size_t used = 0;

    for (; *program != '\0'; program++) {
        INLAY_CHECK(used + 24 < sizeof text);
        if (*program == '#')
            used += (size_t)snprintf(text + used, sizeof text - used, "%" PRId64, *numbers++);
        else
            text[used++] = *program;
    }
    text[used] = '\0';
    gguf_builder_program(b, text, "");
}

void gguf_builder_split(struct builder *b, const char *input, const char *sizes, const char *outputs)
{
    char inputs[TEXT];

    (void)snprintf(inputs, sizeof inputs, "%s %s", input, sizes);
    gguf_builder_node_of(b, "Split", inputs, outputs, "axis", -1);
}

struct gguf_tensor *gguf_builder_tensor(struct builder *b, const char *name, int64_t columns, int64_t rows)
{
    struct gguf_tensor *tensor = gguf_tensor(b->gguf, name);

    if (tensor == NULL) {
        gguf_builder_refuse(b, INLAY_INVALID_MODEL, "lacks the tensor", name);
        return NULL;
    }
    if (tensor->rank != (rows == 0 ? 1 : 2) || tensor->dims[0] != columns || (rows > 0 && tensor->dims[1] != rows)) {
        gguf_builder_refuse(b, INLAY_INVALID_MODEL, "has a shape that does not match its metadata for the tensor",
                            name);
        return NULL;
    }
    return tensor;
}

bool gguf_builder_has(struct builder *b, const char *name)
{
    return gguf_tensor(b->gguf, name) != NULL;
}

void gguf_builder_vector(struct builder *b, const char *name, int64_t count)
{
    const struct gguf_tensor *tensor = gguf_builder_tensor(b, name, count, 0);

    if (tensor != NULL && b->gguf->status == INLAY_OK)
        b->gguf->status = gguf_write_floats(tensor, name, b->out, b->gguf->diag);
}

void gguf_builder_scalar(struct builder *b, const char *name, double value)
{
    const float number = (float)value;

    onnx_tensor(b->out, name, INLAY_FLOAT, NULL, 0, &number, sizeof number);
}

void gguf_builder_list(struct builder *b, const char *name, const int64_t *values, int64_t count)
{
    onnx_tensor(b->out, name, INLAY_INT64, &count, 1, values, (size_t)count * sizeof *values);
}

bool gguf_module_name(const char *prefix, char *out, size_t bytes)
{
    static const struct {
        const char *part, *module;
    } modules[] = { { "attn_q", "self_attn/q_proj" },
                    { "attn_k", "self_attn/k_proj" },
                    { "attn_v", "self_attn/v_proj" },
                    { "attn_output", "self_attn/o_proj" },
                    { "ffn_gate", "mlp/gate_proj" },
                    { "ffn_up", "mlp/up_proj" },
                    { "ffn_down", "mlp/down_proj" },
                    { "ffn_gate_shexp", "mlp/shared_expert/gate_proj" },
                    { "ffn_up_shexp", "mlp/shared_expert/up_proj" },
                    { "ffn_down_shexp", "mlp/shared_expert/down_proj" } };
    const char *part = strrchr(prefix, '.');

    if (part == NULL) {
        (void)snprintf(out, bytes, "%s", "/lm_head/MatMul");
        return strcmp(prefix, "output") == 0 || strcmp(prefix, "token_embd") == 0;
    }
    if (strncmp(prefix, "blk.", 4) != 0)
        return false;
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
        if (strcmp(part + 1, modules[i].part) == 0) {
            (void)snprintf(out, bytes, "/model/layers.%d/%s/MatMul", atoi(prefix + strlen("blk.")), modules[i].module);
            return true;
        }
    return false;
}

void gguf_builder_linear(struct builder *b, const char *prefix, int64_t columns, int64_t all, int64_t first,
                         int64_t count, const char *input, const char *output)
{
    char name[TEXT], bias[TEXT], scale[TEXT], product[TEXT + 16], scaled[TEXT + 8], module[TEXT];
    struct gguf_product rows = { .first = first, .count = count, .name = name };
    bool biased, has_scale;

    (void)snprintf(name, sizeof name, "%s.weight", prefix);
    (void)snprintf(bias, sizeof bias, "%s.bias", prefix);
    (void)snprintf(scale, sizeof scale, "%s.scale", prefix);
    rows.tensor = gguf_builder_tensor(b, name, columns, all);
    biased = gguf_builder_has(b, bias);
    has_scale = gguf_builder_has(b, scale);
    if (b->gguf->status != INLAY_OK)
        return;
    (void)snprintf(scaled, sizeof scaled, "%s%s", output, biased ? ".product" : "");
    (void)snprintf(product, sizeof product, "%s%s", scaled, has_scale ? ".small" : "");
    if (count != all)
        (void)snprintf(name, sizeof name, "%s.weight", output);
    else if (gguf_module_name(prefix, module, sizeof module))
        rows.node = module;
    b->gguf->status = gguf_write_product(b->gguf, &rows, input, product, b->out, b->gguf->diag);
    if (has_scale) {
        gguf_builder_vector(b, scale, 1);
        gguf_builder_node(b, "Mul", "%s %s -> %s", product, scale, scaled);
    }
    if (biased) {
        const struct gguf_tensor *vector = gguf_builder_tensor(b, bias, all, 0);

        if (count != all)
            (void)snprintf(bias, sizeof bias, "%s.bias", output);
        if (b->gguf->status == INLAY_OK)
            b->gguf->status = gguf_write_part(vector, bias, first, count, b->out, b->gguf->diag);
        gguf_builder_node(b, "Add", "%s %s -> %s", scaled, bias, output);
    }
}

void gguf_builder_rms_norm(struct builder *b, const char *weight, int64_t size, const char *input, const char *output)
{
    const onnx_attribute attributes[] = { { "epsilon", true, 0, b->epsilon }, { "axis", false, -1, 0 } };
    char inputs[2 * TEXT];

    gguf_builder_vector(b, weight, size);
    (void)snprintf(inputs, sizeof inputs, "%s %s", input, weight);
    if (b->gguf->status == INLAY_OK)
        onnx_node(b->out, "SimplifiedLayerNormalization", inputs, output, attributes, 2);
}

void gguf_builder_layer_norm(struct builder *b, const char *norm, int64_t size, const char *input, const char *output)
{
    const onnx_attribute attributes[] = { { "epsilon", true, 0, b->epsilon }, { "axis", false, -1, 0 } };
    char weight[TEXT], bias[TEXT], inputs[4 * TEXT];

    (void)snprintf(weight, sizeof weight, "%s.weight", norm);
    (void)snprintf(bias, sizeof bias, "%s.bias", norm);
    gguf_builder_vector(b, weight, size);
    gguf_builder_vector(b, bias, size);
    (void)snprintf(inputs, sizeof inputs, "%s %s %s", input, weight, bias);
    if (b->gguf->status == INLAY_OK)
        onnx_node(b->out, "LayerNormalization", inputs, output, attributes, 2);
}

void gguf_builder_turn(struct builder *b, const char *row, const char *angles, int64_t heads, bool pairs,
                       const char *input, const char *output)
{
    char inputs[2 * TEXT];

    (void)snprintf(inputs, sizeof inputs, "%s %s %s.cos %s.sin", input, row, angles, angles);
    if (b->gguf->status == INLAY_OK)
        onnx_node(b->out, "com.microsoft.RotaryEmbedding", inputs, output,
                  (onnx_attribute[]){ { "num_heads", false, heads, 0 }, { "interleaved", false, pairs, 0 } }, 2);
}

void gguf_builder_add_scaled(struct builder *b, const char *scale, const char *input, const char *part,
                             const char *output)
{
    char weight[GGUF_NAME];

    (void)snprintf(weight, sizeof weight, "%s.weight", scale);
    if (gguf_builder_has(b, weight)) {
        gguf_builder_vector(b, weight, b->width);
        gguf_builder_node(b, "Mul", "%s %s -> %s.part", part, weight, output);
        gguf_builder_node(b, "Add", "%s %s.part -> %s", input, output, output);
    } else {
        gguf_builder_node(b, "Add", "%s %s -> %s", input, part, output);
    }
}

void gguf_builder_attention(struct builder *b, const char *layer, const char *mask, const char *input,
                            const char *output)
{
    const onnx_attribute heads = { "num_heads", false, b->heads, 0 };
    char inputs[2 * TEXT], name[GGUF_NAME], product[GGUF_NAME];

    (void)snprintf(inputs, sizeof inputs, "%sattn_q %sattn_k %sattn_v%s%s%s", layer, layer, layer,
                   mask != NULL ? " - " : "", mask != NULL ? mask : "", b->architecture->alibi ? " alibi" : "");
    (void)snprintf(name, sizeof name, "%sattn", layer);
    (void)snprintf(product, sizeof product, "%s%s", layer, output);
    if (b->gguf->status == INLAY_OK)
        onnx_node(b->out, "com.microsoft.MultiHeadAttention", inputs, name, &heads, 1);
    gguf_builder_linear(b, product, b->width, b->width, 0, b->width, name, product);
    (void)snprintf(name, sizeof name, "%sls1", layer);
    (void)snprintf(inputs, sizeof inputs, "%s.sum", product);
    gguf_builder_add_scaled(b, name, input, product, inputs);
}

/* output = what the elements of the gate exceed: their mean and 1.64 standard deviations, which 5 of 100 do. The
 * constants are those of gguf_begin_altup(). */
static void write_sparse_gate(struct builder *b, const char *gate, const char *output)
{
    char inputs[TEXT], mean[TEXT], squares[TEXT];

    (void)snprintf(inputs, sizeof inputs, "%.200s altup.last", gate);
    (void)snprintf(mean, sizeof mean, "%.200s.mean", output);
    gguf_builder_node_of(b, "ReduceMean", inputs, mean, "keepdims", 1);
    gguf_builder_node(b, "Sub", "%s %s -> %s.distance", gate, mean, output);
    (void)snprintf(inputs, sizeof inputs, "%.200s.distance altup.last", output);
    (void)snprintf(squares, sizeof squares, "%.200s.squares", output);
    gguf_builder_node_of(b, "ReduceSumSquare", inputs, squares, "keepdims", 1);
    gguf_builder_node(b, "Mul", "%s sparse.count -> %s.variance", squares, output);
    gguf_builder_program(b,
                         "Sqrt $.variance > $.deviation;Mul $.deviation sparse.deviations > $.above;"
                         "Sub $.distance $.above > $.excess;Relu $.excess > $;",
                         output);
}

void gguf_builder_gated_network(struct builder *b, const char *layer, const char *suffix, int64_t hidden,
                                const char *input, const char *output)
{
    char gate[GGUF_NAME], up[GGUF_NAME], down[GGUF_NAME], weight[TEXT], act[GGUF_NAME], both[GGUF_NAME];
    bool fused;

    (void)snprintf(gate, sizeof gate, "%sffn_gate%s", layer, suffix);
    (void)snprintf(up, sizeof up, "%sffn_up%s", layer, suffix);
    (void)snprintf(down, sizeof down, "%sffn_down%s", layer, suffix);
    (void)snprintf(act, sizeof act, "%sffn_act%s", layer, suffix);
    (void)snprintf(both, sizeof both, "%sffn_both%s", layer, suffix);
    (void)snprintf(weight, sizeof weight, "%s.weight", gate);
    fused = !gguf_builder_has(b, weight);
    gguf_builder_linear(b, fused ? up : gate, b->width, fused ? 2 * hidden : hidden, 0, hidden, input, gate);
    gguf_builder_linear(b, up, b->width, fused ? 2 * hidden : hidden, fused ? hidden : 0, hidden, input, up);
    if (b->sparse) {
        (void)snprintf(weight, sizeof weight, "%s.sparse", gate);
        write_sparse_gate(b, gate, weight);
        (void)snprintf(gate, sizeof gate, "%sffn_gate%s.sparse", layer, suffix);
    }
    if (b->architecture->gelu) {
        if (b->gguf->status == INLAY_OK)
            onnx_node(b->out, "com.microsoft.FastGelu", gate, act, NULL, 0);
    } else {
        gguf_builder_node(b, "Sigmoid", "%s -> %s.sigmoid", gate, gate);
        gguf_builder_node(b, "Mul", "%s %s.sigmoid -> %s", gate, gate, act);
    }
    gguf_builder_node(b, "Mul", "%s %s -> %s", act, up, both);
    gguf_builder_linear(b, down, hidden, b->width, 0, b->width, both, output);
}

const char *gguf_builder_stream(struct builder *b, const char *output)
{
    if (b->pending[0] != '\0') {
        gguf_builder_node(b, "Add", "%s %s -> %s", b->stream, b->pending, output);
        (void)snprintf(b->stream, sizeof b->stream, "%s", output);
        b->pending[0] = '\0';
    }
    return b->stream;
}

void gguf_builder_lengths(struct builder *b)
{
    gguf_builder_program(b,
                         "(1) > one;[1] > axis_one;ReduceSum attention_mask axis_one > lengths keepdims=0;"
                         "Sub lengths one > last_positions.wide;Cast last_positions.wide > last_positions to=6;"
                         "Shape attention_mask > mask_shape;Gather mask_shape one > total_length.wide;"
                         "Cast total_length.wide > total_length to=6;",
                         "");
}

int64_t gguf_builder_size_or(struct builder *b, enum gguf_key key, int64_t otherwise, int64_t most)
{
    const int64_t size = gguf_int_or(b->gguf, key, otherwise);

    if (size < 1 || size > most)
        gguf_fail_key(b->gguf, key, "has a value that is out of range for the key");
    return size;
}

int64_t gguf_builder_size(struct builder *b, enum gguf_key key, int64_t most)
{
    return gguf_builder_size_or(b, key, gguf_int(b->gguf, key), most);
}

/* The divisors of angles that the file has; NULL: none. Files for long contexts have those of short texts, too. */
static const struct gguf_tensor *divisors(struct builder *b, const struct gguf_turning *turning)
{
    static const char *const names[] = { "rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight" };
    const struct gguf_tensor *tensors[3], *one;

    for (int i = 0; i < 3; i++) {
        tensors[i] = gguf_tensor(b->gguf, names[i]);
        if (tensors[i] != NULL &&
            (tensors[i]->type != 0 || tensors[i]->rank != 1 || tensors[i]->dims[0] != turning->size / 2))
            gguf_builder_refuse(b, INLAY_UNSUPPORTED, "has another type or shape than F32, a factor for each pair, in",
                                names[i]);
    }
    one = tensors[0] != NULL ? tensors[0] : tensors[turning->context > turning->original_context ? 1 : 2];
    return b->gguf->status == INLAY_OK ? one : NULL;
}

double gguf_builder_stretch(struct builder *b)
{
    const struct gguf_text scaling = gguf_string(b->gguf, GGUF_TURN_SCALING);
    const double factor = gguf_float_or(b->gguf, GGUF_TURN_FACTOR, gguf_float(b->gguf, GGUF_TURN_SCALE_OLD));

    return gguf_text_is(scaling, "none") || factor == 0 ? 1 : factor;
}

/* By the key, whose fourth number is that of pairs that do not turn. */
static void write_sections(struct builder *b, int64_t pairs)
{
    const struct gguf_value *value = gguf_find(b->gguf, GGUF_TURN_SECTIONS);
    int64_t sections[GGUF_SECTIONS], sum = 0;

    for (uint64_t i = 0; value != NULL && i < GGUF_SECTIONS && i < value->count; i++) {
        sections[i] = (int64_t)gguf_item(value, i);
        sum = sections[i] >= 0 && sum >= 0 ? sum + sections[i] : -1;
    }
    if (value == NULL || value->count < GGUF_SECTIONS || sum < 1 ||
        (value->count > GGUF_SECTIONS && gguf_item(value, GGUF_SECTIONS) != 0))
        gguf_fail_key(b->gguf, GGUF_TURN_SECTIONS,
                      "has not the numbers of the pairs that turn by time, row and column in");
    else
        gguf_write_sections(sections, pairs, b->architecture->rotary.alternates, b->out);
}

void gguf_builder_rotary(struct builder *b)
{
    struct gguf *gguf = b->gguf;
    const struct gguf_text scaling = gguf_string(gguf, GGUF_TURN_SCALING);
    struct gguf_turning turning = { .context = b->context,
                                    .original_context = gguf_int_or(gguf, GGUF_TURN_CONTEXT, b->context),
                                    .size = gguf_int_or(gguf, GGUF_TURN_SIZE, b->head_size),
                                    .base = gguf_float(gguf, GGUF_TURN_BASE),
                                    .factor = gguf_builder_stretch(b),
                                    .amplitude = gguf_float(gguf, GGUF_TURN_ATTENTION),
                                    .fast = gguf_float(gguf, GGUF_TURN_FAST),
                                    .slow = gguf_float(gguf, GGUF_TURN_SLOW),
                                    .yarn = gguf_text_is(scaling, "yarn") };
    const double given = gguf_float(gguf, GGUF_TURN_MULTIPLIER);
    const double multiplier = b->architecture->latent && given != 0 ? 1 : given; /* its scores grow instead */
    const double local = b->architecture->windows.base > 0 ? b->architecture->windows.base : turning.base;

    if (scaling.data != NULL && !turning.yarn && !gguf_text_is(scaling, "none") && !gguf_text_is(scaling, "linear") &&
        !gguf_text_is(scaling, "longrope"))
        gguf_fail_key(gguf, GGUF_TURN_SCALING, "has another value than none, linear, yarn and longrope for the key");
    if (turning.size < 2 || turning.size > b->head_size || turning.size % 2 != 0 ||
        (turning.size != b->head_size && !b->architecture->rotary.halves && !b->architecture->rotary.pairs))
        gguf_fail_key(gguf, GGUF_TURN_SIZE, "rotates a part of a head that is odd or not supported by the key");
    if (!(turning.base > 0) || !(turning.factor > 0) || !(turning.amplitude > 0) || turning.original_context < 1 ||
        !(turning.slow > 0) || !(turning.fast > 0) || !(multiplier >= 0))
        gguf_builder_refuse(b, INLAY_INVALID_MODEL, "has a frequency or a factor that is not positive in", "rope.*");
    turning.slower = divisors(b, &turning);
    if (gguf->status != INLAY_OK)
        return;
    gguf_write_positions(b->context, b->out);
    if (turning.yarn && turning.factor > 1)
        turning.amplitude *= (1 + 0.1 * log(turning.factor)) / (1 + 0.1 * multiplier * log(turning.factor));
    gguf_write_turning(gguf, "rotary", &turning, b->out);
    if (b->architecture->rotary.image_places)
        write_sections(b, turning.size / 2);
    if (!b->has_local_base)
        return;
    if (b->architecture->windows.unscaled) {
        turning.factor = 1;
        turning.amplitude = gguf_float(gguf, GGUF_TURN_ATTENTION);
    }
    turning.base = gguf_float_or(gguf, GGUF_TURN_BASE_LOCAL, local);
    if (!(turning.base > 0))
        gguf_fail_key(gguf, GGUF_TURN_BASE_LOCAL, "has a value that is not positive for the key");
    else
        gguf_write_turning(gguf, "local", &turning, b->out);
}
