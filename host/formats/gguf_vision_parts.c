/* gguf_vision_parts.c - what the graphs of vision parts have in common. */
#include "formats/gguf_vision.h"
#include "formats/onnx_write.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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

void gguf_write_vision_network(const struct vision *v, const char *layer, const char *input, const char *output)
{
    struct builder *b = v->b;
    char first[GGUF_NAME], second[GGUF_NAME], act[GGUF_NAME], weight[GGUF_NAME + 8];
    const struct gguf_tensor *down;

    (void)snprintf(first, sizeof first, "%sffn_up", layer);
    (void)snprintf(second, sizeof second, "%sffn_down", layer);
    (void)snprintf(act, sizeof act, "%sffn_act", layer);
    (void)snprintf(weight, sizeof weight, "%sffn_gate.weight", layer);
    if (gguf_is_grid(v) && gguf_builder_has(b, weight)) {
        if (strcmp(v->activation, "silu") != 0)
            gguf_fail_key(b->gguf, GGUF_SILU, "has gates with another activation than SiLU, by the key");
        gguf_builder_gated_network(b, layer, "", b->hidden, input, output);
        return;
    }
    (void)snprintf(weight, sizeof weight, "%s.weight", second);
    down = gguf_tensor(b->gguf, weight);
    if (down != NULL && down->dims[0] == b->width && b->width != b->hidden) {
        (void)snprintf(first, sizeof first, "%sffn_down", layer);
        (void)snprintf(second, sizeof second, "%sffn_up", layer);
    }
    gguf_builder_linear(b, first, b->width, b->hidden, 0, b->hidden, input, first);
    activate(b, v->activation, first, act);
    gguf_builder_linear(b, second, b->hidden, b->width, 0, b->width, act, output);
}

void gguf_write_image_rows(struct builder *b, const char *input, int64_t width)
{
    char dims[TEXT];

    gguf_builder_list(b, "rows.shape", (int64_t[]){ -1, width }, 2);
    gguf_builder_node(b, "Reshape", "%s rows.shape -> image_rows", input);
    (void)snprintf(dims, sizeof dims, "image_tokens %" PRId64, width);
    onnx_value(b->out, ONNX_OUTPUT, "image_rows", INLAY_FLOAT, dims);
}

void gguf_write_vision_products(struct builder *b, int64_t columns, const char *input)
{
    const struct gguf_tensor *first = gguf_tensor(b->gguf, "mm.0.weight"),
                             *second = gguf_tensor(b->gguf, "mm.2.weight");
    const int64_t hidden = first != NULL && first->rank == 2 ? first->dims[1] : 0;
    const int64_t width = second != NULL && second->rank == 2 ? second->dims[1] : hidden;

    if (hidden < 1 || hidden > 1 << 24)
        gguf_builder_refuse_tensor(b, "mm.0.weight");
    gguf_builder_linear(b, "mm.0", columns, hidden, 0, hidden, input, "mm.0");
    activate(b, "gelu", "mm.0", "mm.act");
    if (second != NULL)
        gguf_builder_linear(b, "mm.2", hidden, width, 0, width, "mm.act", "mm.2");
    gguf_write_image_rows(b, second != NULL ? "mm.2" : "mm.act", width);
}
