/* gguf_latent.c - latent attention, of DeepSeek V2 and later. Keys and values of all heads are products of one vector
 * of a token, the latent. Queries are multiplied by the matrix of the keys instead, and sums of latents by that of the
 * values, so there is one head of keys: a part that rotates, then the latent. */
#include "formats/gguf_latent.h"
#include "formats/onnx_write.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* What scores are multiplied by. Angles that are stretched make it larger, as llama.cpp has it. */
static double scale_of(struct builder *b)
{
    const double multiplier = gguf_float(b->gguf, GGUF_TURN_MULTIPLIER) * 10; /* files have a tenth of it */
    const double growth = 0.1 * log(gguf_builder_stretch(b)), amplitude = gguf_float(b->gguf, GGUF_TURN_ATTENTION);
    const bool yarn = gguf_text_is(gguf_string(b->gguf, GGUF_TURN_SCALING), "yarn");
    const double own = yarn && (multiplier != 0 || growth < 0) ? 1 : 1 + growth;
    const double all = own * amplitude * (1 + multiplier * growth);

    return all * all / sqrt((double)b->latent.key);
}

void gguf_read_latent(struct builder *b)
{
    struct latent *l = &b->latent;

    l->rank = gguf_builder_size(b, GGUF_LATENT_SIZE, MAX_HEAD_SIZE);
    l->queries = gguf_builder_has(b, "blk.0.attn_q_a.weight") ? gguf_builder_size(b, GGUF_LATENT_QUERIES, 1 << 24) : 0;
    l->joined = gguf_find(b->gguf, GGUF_LATENT_KEY) == NULL && gguf_find(b->gguf, GGUF_LATENT_VALUE) == NULL;
    l->key = l->joined ? b->head_size : gguf_builder_size_or(b, GGUF_LATENT_KEY, 0, MAX_HEAD_SIZE);
    l->value = gguf_builder_size_or(b, l->joined ? GGUF_VALUE_SIZE : GGUF_LATENT_VALUE,
                                    l->joined ? b->width / b->heads : 0, MAX_HEAD_SIZE);
    l->turning = gguf_builder_size_or(b, GGUF_TURN_SIZE, b->head_size, MAX_HEAD_SIZE);
    if (l->turning >= l->key)
        gguf_fail_key(b->gguf, GGUF_TURN_SIZE, "has a value that is out of range for the key");
    if (!l->joined && b->head_size != l->rank + l->turning)
        gguf_fail_key(b->gguf, GGUF_KEY_SIZE,
                      "has keys of another size than the latent with the part that rotates by the key");
    if (b->key_heads != (l->joined ? b->heads : 1))
        gguf_fail_key(b->gguf, GGUF_KEY_HEADS, "has another number of heads of keys than such a file by the key");
    b->head_size = l->rank + l->turning;
    b->key_heads = 1;
    b->scales.attention = scale_of(b);
}

void gguf_begin_latent(struct builder *b)
{
    const struct latent *l = &b->latent;

    gguf_builder_list(b, "latent.queries", (int64_t[]){ 0, 0, b->heads, l->key }, 4);
    gguf_builder_list(b, "latent.parts", (int64_t[]){ l->key - l->turning, l->turning }, 2);
    gguf_builder_list(b, "latent.joined", (int64_t[]){ 0, 0, b->heads * b->head_size }, 3);
    gguf_builder_list(b, "latent.sizes", (int64_t[]){ l->rank, l->turning }, 2);
    gguf_builder_list(b, "latent.heads", (int64_t[]){ 0, 0, b->heads, b->head_size }, 4);
    gguf_builder_list(b, "latent.ends", (int64_t[]){ l->turning, l->rank }, 2);
    gguf_builder_list(b, "latent.values", (int64_t[]){ 0, 0, b->heads * l->value }, 3);
}

/* Weights of the heads: those of a head are rows [first, first + rows) of `all` rows of a tensor. */
struct heads {
    const char *name;
    int64_t columns, rows, first, all;
    bool turned; /* a head's product is x W instead of x W^T */
};

/* output [batch, length, heads, ..] = the product of each head of the input [batch, length, heads, ..] with its
 * weights. */
static void write_heads(struct builder *b, const struct heads *heads, const char *input, const char *output)
{
    const struct gguf_tensor *tensor = gguf_tensor(b->gguf, heads->name);
    const bool stacked = !b->latent.joined;
    struct strbuf parts = { 0 }, products = { 0 };
    char part[TEXT], product[TEXT], weights[TEXT], inputs[2 * TEXT];

    if (tensor == NULL || tensor->rank != (stacked ? 3 : 2) || tensor->dims[0] != heads->columns ||
        tensor->dims[1] != heads->all * (stacked ? 1 : b->heads) || (stacked && tensor->dims[2] != b->heads))
        gguf_builder_refuse_tensor(b, heads->name);
    for (int64_t head = 0; head < b->heads; head++) {
        strbuf_format(&parts, "%s%s.%" PRId64, head > 0 ? " " : "", input, head);
        strbuf_format(&products, "%s%s.%" PRId64, head > 0 ? " " : "", output, head);
    }
    if (b->gguf->status == INLAY_OK && (parts.failed || products.failed))
        b->gguf->status = inlay_fail(b->gguf->diag, INLAY_OUT_OF_MEMORY, "no memory for the names of heads");
    if (b->gguf->status == INLAY_OK)
        onnx_node(b->out, "Split", input, parts.data,
                  (onnx_attribute[]){ { "axis", false, 2, 0 }, { "num_outputs", false, b->heads, 0 } }, 2);
    for (int64_t head = 0; head < b->heads && b->gguf->status == INLAY_OK; head++) {
        const int64_t first = head * heads->all + heads->first;
        const struct gguf_product of_head = { tensor, first, heads->rows, weights, NULL };

        (void)snprintf(part, sizeof part, "%s.%" PRId64, input, head);
        (void)snprintf(product, sizeof product, "%s.%" PRId64, output, head);
        (void)snprintf(weights, sizeof weights, "%s.%s%" PRId64, heads->name, heads->turned ? "k" : "", head);
        if (!heads->turned) {
            b->gguf->status = gguf_write_product(b->gguf, &of_head, part, product, b->out, b->gguf->diag);
            continue;
        }
        b->gguf->status = gguf_write_matrix(b->gguf, tensor, first, heads->rows, weights, b->out, b->gguf->diag);
        (void)snprintf(inputs, sizeof inputs, "%s %s", part, weights);
        onnx_node(b->out, "MatMul", inputs, product, NULL, 0);
    }
    if (b->gguf->status == INLAY_OK)
        gguf_builder_node_of(b, "Concat", products.data, output, "axis", 2);
    strbuf_deinit(&parts);
    strbuf_deinit(&products);
}

void gguf_write_latent(struct builder *b, const char *layer, const char *input)
{
    const struct latent *l = &b->latent;
    const int64_t queries = b->heads * l->key, both = l->rank + l->turning, still = l->key - l->turning;
    char name[GGUF_NAME], norm[GGUF_NAME], text[TEXT], other[TEXT];

    (void)snprintf(name, sizeof name, "%sattn_q", layer);
    if (l->queries > 0) {
        (void)snprintf(name, sizeof name, "%sattn_q_a", layer);
        (void)snprintf(norm, sizeof norm, "%sattn_q_a_norm.weight", layer);
        (void)snprintf(text, sizeof text, "%sattn_q_a.normal", layer);
        gguf_builder_linear(b, name, b->width, l->queries, 0, l->queries, input, name);
        gguf_builder_rms_norm(b, norm, l->queries, name, text);
        (void)snprintf(name, sizeof name, "%sattn_q_b", layer);
    }
    (void)snprintf(other, sizeof other, "%sattn_q.all", layer);
    gguf_builder_linear(b, name, l->queries > 0 ? l->queries : b->width, queries, 0, queries,
                        l->queries > 0 ? text : input, other);
    gguf_builder_node(b, "Reshape", "%s latent.queries -> %sattn_q.apart", other, layer);
    (void)snprintf(text, sizeof text, "%sattn_q.apart", layer);
    (void)snprintf(other, sizeof other, "%sattn_q.still %sattn_q.turning", layer, layer);
    gguf_builder_split(b, text, "latent.parts", other);
    (void)snprintf(name, sizeof name, "%sattn_%s.weight", layer, l->joined ? "kv_b" : "k_b");
    (void)snprintf(text, sizeof text, "%sattn_q.still", layer);
    (void)snprintf(other, sizeof other, "%sattn_q.latent", layer);
    write_heads(b,
                l->joined ? &(struct heads){ name, l->rank, still, 0, still + l->value, true }
                          : &(struct heads){ name, still, l->rank, 0, l->rank, false },
                text, other);
    (void)snprintf(text, sizeof text, "%sattn_q.turning %sattn_q.latent", layer, layer);
    (void)snprintf(other, sizeof other, "%sattn_q.heads", layer);
    gguf_builder_node_of(b, "Concat", text, other, "axis", -1);
    gguf_builder_node(b, "Reshape", "%sattn_q.heads latent.joined -> %sattn_q", layer, layer);

    (void)snprintf(name, sizeof name, "%sattn_kv_a_mqa", layer);
    gguf_builder_linear(b, name, b->width, both, 0, both, input, name);
    (void)snprintf(other, sizeof other, "%sattn_k.latent %sattn_k.turning", layer, layer);
    gguf_builder_split(b, name, "latent.sizes", other);
    (void)snprintf(norm, sizeof norm, "%sattn_kv_a_norm.weight", layer);
    (void)snprintf(text, sizeof text, "%sattn_k.latent", layer);
    (void)snprintf(other, sizeof other, "%sattn_k.normal", layer);
    gguf_builder_rms_norm(b, norm, l->rank, text, other);
    (void)snprintf(text, sizeof text, "%sattn_k.turning %sattn_k.normal", layer, layer);
    (void)snprintf(other, sizeof other, "%sattn_k", layer);
    gguf_builder_node_of(b, "Concat", text, other, "axis", -1);
    gguf_builder_node(b, "Identity", "%sattn_k -> %sattn_v", layer, layer);
}

void gguf_write_latent_values(struct builder *b, const char *layer)
{
    const struct latent *l = &b->latent;
    const int64_t still = l->joined ? l->key - l->turning : 0;
    char name[GGUF_NAME], text[TEXT], other[TEXT];

    gguf_builder_node(b, "Reshape", "%sattn latent.heads -> %sattn.heads", layer, layer);
    (void)snprintf(text, sizeof text, "%sattn.heads", layer);
    (void)snprintf(other, sizeof other, "%sattn.turned %sattn.latent", layer, layer);
    gguf_builder_split(b, text, "latent.ends", other);
    (void)snprintf(name, sizeof name, "%sattn_%s.weight", layer, l->joined ? "kv_b" : "v_b");
    (void)snprintf(text, sizeof text, "%sattn.latent", layer);
    (void)snprintf(other, sizeof other, "%sattn.each", layer);
    write_heads(b, &(struct heads){ name, l->rank, l->value, still, still + l->value, false }, text, other);
    gguf_builder_node(b, "Reshape", "%sattn.each latent.values -> %sattn.values", layer, layer);
}
