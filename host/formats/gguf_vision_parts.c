/* gguf_vision_parts.c - what the graphs of vision parts have in common. */
#include "formats/gguf_vision.h"
#include "formats/onnx_write.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void gguf_resample(const struct vision *v, const char *input, const char *sizes, const char *output)
{
    const onnx_attribute attributes[] = { { v->projector->kind == PROJECTOR_MEANS ? "mode=linear" : "mode=cubic", false,
                                            0, 0 },
                                          { "cubic_coeff_a", true, 0, -0.5F },
                                          { "antialias", false, 1, 0 },
                                          { "exclude_outside", false, 1, 0 } };
    struct builder *b = v->b;
    char inputs[TEXT], exact[TEXT];

    (void)snprintf(inputs, sizeof inputs, "%s - - %s", input, sizes);
    (void)snprintf(exact, sizeof exact, "%s.exact", output);
    onnx_node(b->out, "Resize", inputs, exact, attributes, sizeof attributes / sizeof *attributes);
    gguf_builder_program(b,
                         "Add $.exact image.half > $.up;Floor $.up > $.rounded;"
                         "Clip $.rounded image.darkest image.brightest > $;",
                         output);
}

void gguf_write_patches(const struct vision *v, const char *weight, const char *input, const char *output)
{
    struct builder *b = v->b;
    struct gguf_tensor *tensor = gguf_tensor(b->gguf, weight), flat;
    const struct gguf_product product = { &flat, 0, b->width, weight, NULL };

    if (tensor == NULL || tensor->rank != 4 || tensor->dims[0] != v->patch || tensor->dims[1] != v->patch ||
        tensor->dims[2] != 3 || tensor->dims[3] != b->width) {
        gguf_builder_refuse_tensor(b, weight);
        return;
    }
    flat = *tensor;
    flat.rank = 2;
    flat.dims[0] = 3 * v->patch * v->patch;
    flat.dims[1] = b->width;
    if (gguf_type_of(tensor)->unpack != NULL)
        gguf_builder_refuse(b, INLAY_UNSUPPORTED, "has another type than F32, F16 and BF16 in", tensor->name);
    if (b->gguf->status == INLAY_OK)
        b->gguf->status = gguf_write_product(b->gguf, &product, input, output, b->out, b->gguf->diag);
}

static void activate(struct builder *b, const char *kind, const char *input, const char *output)
{
    if (strcmp(kind, "silu") == 0) {
        gguf_builder_node(b, "Sigmoid", "%s -> %s.sigmoid", input, input);
        gguf_builder_node(b, "Mul", "%s %s.sigmoid -> %s", input, input, output);
    } else if (strcmp(kind, "gelu") == 0) {
        gguf_builder_node(b, "com.microsoft.FastGelu", "%s -> %s", input, output);
    } else if (b->gguf->status == INLAY_OK) {
        onnx_node(b->out, "com.microsoft.QuickGelu", input, output, &(onnx_attribute){ "alpha", true, 0, 1.702F }, 1);
    }
}

void gguf_write_vision_norm(const struct vision *v, const char *norm, const char *input, const char *output)
{
    char weight[GGUF_NAME + 8];

    (void)snprintf(weight, sizeof weight, "%s.weight", norm);
    if (v->projector->rms)
        gguf_builder_rms_norm(v->b, weight, v->b->width, input, output);
    else
        gguf_builder_layer_norm(v->b, norm, v->b->width, input, output);
}

/* output = the second product of the activated first one, times the product of a gate if the file has it. Older files
 * have the names of the products exchanged. */
static void write_network(const struct vision *v, const char *layer, const char *input, const char *output)
{
    struct builder *b = v->b;
    char gate[GGUF_NAME], first[GGUF_NAME], second[GGUF_NAME], act[GGUF_NAME], weight[GGUF_NAME + 8];
    const struct gguf_tensor *down;
    bool gated;

    (void)snprintf(gate, sizeof gate, "%sffn_gate", layer);
    (void)snprintf(first, sizeof first, "%sffn_up", layer);
    (void)snprintf(second, sizeof second, "%sffn_down", layer);
    (void)snprintf(act, sizeof act, "%sffn_act", layer);
    (void)snprintf(weight, sizeof weight, "%s.weight", gate);
    gated = gguf_builder_has(b, weight);
    (void)snprintf(weight, sizeof weight, "%s.weight", second);
    down = gguf_tensor(b->gguf, weight);
    if (!gated && down != NULL && down->dims[0] == b->width && b->width != b->hidden) {
        (void)snprintf(first, sizeof first, "%sffn_down", layer);
        (void)snprintf(second, sizeof second, "%sffn_up", layer);
    }
    gguf_builder_linear(b, first, b->width, b->hidden, 0, b->hidden, input, first);
    if (gated) {
        gguf_builder_linear(b, gate, b->width, b->hidden, 0, b->hidden, input, gate);
        activate(b, v->activation, gate, act);
        (void)snprintf(gate, sizeof gate, "%sffn_both", layer);
        gguf_builder_node(b, "Mul", "%s %s -> %s", act, first, gate);
    } else {
        activate(b, v->activation, first, act);
    }
    gguf_builder_linear(b, second, b->hidden, b->width, 0, b->width, gated ? gate : act, output);
}

/* Queries, keys and values, from weights of their own or fused ones. */
static void project(const struct vision *v, const char *layer, const char *sees, const char *input)
{
    struct builder *b = v->b;
    char fused[GGUF_NAME], name[GGUF_NAME], still[GGUF_NAME + 8], row[16];
    bool is_fused;

    (void)snprintf(fused, sizeof fused, "%sattn_qkv.weight", layer);
    is_fused = gguf_builder_has(b, fused);
    (void)snprintf(fused, sizeof fused, "%sattn_qkv", layer);
    (void)snprintf(row, sizeof row, "%s.row", sees != NULL ? sees : "");
    for (int i = 0; i < 3; i++) {
        const bool turns = sees != NULL && i < 2;

        (void)snprintf(name, sizeof name, "%sattn_%c", layer, "qkv"[i]);
        (void)snprintf(still, sizeof still, "%s%s", name, turns ? ".still" : "");
        gguf_builder_linear(b, is_fused ? fused : name, b->width, is_fused ? 3 * b->width : b->width,
                            is_fused ? i * b->width : 0, b->width, input, still);
        if (turns)
            gguf_builder_turn(b, row, "rotary", b->heads, v->projector->kind == PROJECTOR_LINES, still, name);
    }
}

void gguf_write_vision_layer(const struct vision *v, int64_t layer, const char *sees, const char *input,
                             const char *output)
{
    struct builder *b = v->b;
    char prefix[32], name[GGUF_NAME], part[GGUF_NAME], sum[TEXT], mask[16];

    (void)snprintf(prefix, sizeof prefix, "v.blk.%" PRId64 ".", layer);
    (void)snprintf(mask, sizeof mask, "%s.mask", sees != NULL ? sees : "");
    (void)snprintf(name, sizeof name, "%sln1", prefix);
    gguf_write_vision_norm(v, name, input, name);
    project(v, prefix, sees, name);
    gguf_builder_attention(b, prefix, sees != NULL ? mask : NULL, input, "attn_out");
    (void)snprintf(sum, sizeof sum, "%sattn_out.sum", prefix);
    (void)snprintf(name, sizeof name, "%sln2", prefix);
    gguf_write_vision_norm(v, name, sum, name);
    (void)snprintf(part, sizeof part, "%sffn", prefix);
    write_network(v, prefix, name, part);
    (void)snprintf(name, sizeof name, "%sls2", prefix);
    gguf_builder_add_scaled(b, name, sum, part, output);
}

void gguf_write_image_rows(struct builder *b, const char *input, int64_t width)
{
    char dims[TEXT];

    gguf_builder_list(b, "rows.shape", (int64_t[]){ -1, width }, 2);
    gguf_builder_node(b, "Reshape", "%s rows.shape -> image_rows", input);
    (void)snprintf(dims, sizeof dims, "image_tokens %" PRId64, width);
    onnx_value(b->out, ONNX_OUTPUT, "image_rows", INLAY_FLOAT, dims);
}

/* The rows of NAME.weight. 0: the file lacks it, which is a failure unless it is optional. */
static int64_t rows_of(struct builder *b, const char *name, bool optional)
{
    char weight[GGUF_NAME];
    const struct gguf_tensor *tensor;

    (void)snprintf(weight, sizeof weight, "%s.weight", name);
    tensor = gguf_tensor(b->gguf, weight);
    if (tensor == NULL ? !optional : tensor->rank != 2 || tensor->dims[1] > 1 << 24)
        gguf_builder_refuse_tensor(b, weight);
    return tensor != NULL ? tensor->dims[1] : 0;
}

int64_t gguf_write_vision_products(const struct vision *v, const char *first, const char *second, int64_t columns,
                                   const char *input, const char *output)
{
    struct builder *b = v->b;
    const int64_t hidden = rows_of(b, first, false),
                  width = rows_of(b, second, v->projector->kind == PROJECTOR_PRODUCTS);
    char act[GGUF_NAME];

    (void)snprintf(act, sizeof act, "%s.act", first);
    gguf_builder_linear(b, first, columns, hidden, 0, hidden, input, first);
    activate(b, "gelu", first, width > 0 ? act : output);
    if (width == 0)
        return hidden;
    gguf_builder_linear(b, second, hidden, width, 0, width, act, output);
    return width;
}
