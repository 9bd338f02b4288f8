/* gguf_encoder.c - the graphs of encoders, whose tokens see all tokens of the text: BERT, with learned positions, and
 * Nomic's BERT, which rotates queries and keys and has gated networks. Norms are behind the parts of a layer. */
#include "formats/gguf_encoder.h"
#include "formats/onnx_write.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAX_ENCODER_CONTEXT = 1 << 20 };

static void read_sizes(struct builder *b)
{
    struct gguf *gguf = b->gguf;

    b->layers = gguf_builder_size(b, GGUF_LAYERS, MAX_LAYERS);
    b->width = gguf_builder_size(b, GGUF_WIDTH, 1 << 24);
    b->hidden = gguf_builder_size(b, GGUF_HIDDEN, 1 << 24);
    b->context = gguf_builder_size(b, GGUF_CONTEXT, MAX_ENCODER_CONTEXT);
    b->heads = gguf_builder_size(b, GGUF_HEADS, MAX_HEADS);
    b->head_size = b->heads > 0 ? b->width / b->heads : 0;
    b->epsilon = (float)gguf_float(gguf, GGUF_LAYER_EPSILON);
    if (gguf->status == INLAY_OK && b->width % (2 * b->heads) != 0)
        gguf_fail_key(gguf, GGUF_HEADS, "has heads that do not divide the width into even sizes by the key");
    if (gguf_int_or(gguf, GGUF_KEY_HEADS, b->heads) != b->heads)
        gguf_fail_key(gguf, GGUF_KEY_HEADS, "has fewer key heads than heads, which is not supported here, by the key");
    if (gguf_int(gguf, GGUF_CAUSAL) != 0)
        gguf_fail_key(gguf, GGUF_CAUSAL,
                      "has tokens that do not see later ones, which is not supported here, by the key");
    if (gguf_int(gguf, GGUF_EXPERTS) != 0)
        gguf_fail_key(gguf, GGUF_EXPERTS, "has experts, which are not supported here, by the key");
    if (!(b->epsilon > 0))
        gguf_fail_key(gguf, GGUF_LAYER_EPSILON, "has a value that is not positive for the key");
}

/* output = the rows of a table of floats at the indices. */
static void look_up(struct builder *b, const char *name, const char *indices, const char *output)
{
    struct gguf_tensor *table = gguf_tensor(b->gguf, name);

    if (table == NULL || table->rank != 2 || table->dims[0] != b->width)
        gguf_builder_refuse(b, INLAY_INVALID_MODEL, "lacks a tensor, or it has another shape:", name);
    else if (b->gguf->status == INLAY_OK)
        b->gguf->status = gguf_write_floats(table, name, b->out, b->gguf->diag);
    gguf_builder_node(b, "Gather", "%s %s -> %s", name, indices, output);
}

/* The sum of the rows of the tokens, of the first type of tokens, and of the positions. */
static void embed(struct builder *b)
{
    const int64_t first = 0;
    const char *sum = "tokens";
    struct gguf_tensor *tokens = gguf_tensor(b->gguf, "token_embd.weight");

    if (tokens == NULL || tokens->rank != 2 || tokens->dims[0] != b->width)
        gguf_builder_refuse(b, INLAY_INVALID_MODEL, "lacks a tensor, or it has another shape:", "token_embd.weight");
    if (b->gguf->status == INLAY_OK)
        b->gguf->status = gguf_write_rows(b->gguf, tokens, "input_ids", "tokens", b->out, b->gguf->diag);
    if (gguf_builder_has(b, "token_types.weight")) {
        onnx_tensor(b->out, "first_type", INLAY_INT64, (int64_t[]){ 1 }, 1, &first, sizeof first);
        look_up(b, "token_types.weight", "first_type", "type_row");
        gguf_builder_node(b, "Add", "tokens type_row -> typed");
        sum = "typed";
    }
    if (!b->turns) {
        struct gguf_tensor *positions = gguf_tensor(b->gguf, "position_embd.weight");

        look_up(b, "position_embd.weight", "new_range", "position_rows");
        gguf_builder_node(b, "Add", "%s position_rows -> placed", sum);
        sum = "placed";
        if (b->gguf->status == INLAY_OK && positions->dims[1] < b->context)
            gguf_builder_refuse(b, INLAY_INVALID_MODEL, "has fewer positions than its context in",
                                "position_embd.weight");
    }
    gguf_builder_layer_norm(b, "token_embd_norm", sum, "embeddings");
}

/* output = queries or keys, rotated by the angles of that name. */
static void turn(struct builder *b, const char *angles, int64_t heads, const char *input, const char *output)
{
    char inputs[2 * TEXT];

    (void)snprintf(inputs, sizeof inputs, "%s rotary.row %s.cos %s.sin", input, angles, angles);
    if (b->gguf->status == INLAY_OK)
        onnx_node(b->out, "com.microsoft.RotaryEmbedding", inputs, output,
                  (onnx_attribute[]){ { "num_heads", false, heads, 0 }, { "interleaved", false, 0, 0 } }, 2);
}

/* Queries, keys and values; queries and keys rotate. */
static void project(struct builder *b, const char *layer, const char *input)
{
    static const char *const parts[] = { "attn_q", "attn_k", "attn_v" };
    char prefix[GGUF_NAME], output[GGUF_NAME], turned[GGUF_NAME], fused_name[GGUF_NAME];
    bool fused;

    (void)snprintf(fused_name, sizeof fused_name, "%sattn_qkv.weight", layer);
    fused = gguf_builder_has(b, fused_name);
    for (int i = 0; i < 3; i++) {
        const bool turns = i < 2 && b->turns;

        (void)snprintf(prefix, sizeof prefix, "%s%s", layer, fused ? "attn_qkv" : parts[i]);
        (void)snprintf(output, sizeof output, "%s%s%s", layer, parts[i], turns ? ".still" : "");
        gguf_builder_linear(b, prefix, b->width, fused ? 3 * b->width : b->width, fused ? i * b->width : 0, b->width,
                            input, output);
        (void)snprintf(turned, sizeof turned, "%s%s", layer, parts[i]);
        if (turns)
            turn(b, "rotary", b->heads, output, turned);
    }
}

/* output = up(x), GELU of it, and down; or a gated network. */
static void feed_forward(struct builder *b, const char *layer, const char *input, const char *output)
{
    char up[GGUF_NAME], gate[GGUF_NAME];

    (void)snprintf(gate, sizeof gate, "%sffn_gate.weight", layer);
    if (gguf_builder_has(b, gate)) {
        gguf_builder_gated_network(b, layer, "", b->hidden, input, output);
        return;
    }
    (void)snprintf(up, sizeof up, "%sffn_up", layer);
    gguf_builder_linear(b, up, b->width, b->hidden, 0, b->hidden, input, up);
    if (b->gguf->status == INLAY_OK) {
        char act[GGUF_NAME], down[GGUF_NAME];

        (void)snprintf(act, sizeof act, "%sffn_act", layer);
        (void)snprintf(down, sizeof down, "%sffn_down", layer);
        onnx_node(b->out, "com.microsoft.Gelu", up, act, NULL, 0);
        gguf_builder_linear(b, down, b->hidden, b->width, 0, b->width, act, output);
    }
}

static void write_layer(struct builder *b, int64_t layer, const char *input, const char *output)
{
    char prefix[32], name[GGUF_NAME], norm[GGUF_NAME], inputs[TEXT];

    (void)snprintf(prefix, sizeof prefix, "blk.%" PRId64 ".", layer);
    project(b, prefix, input);
    gguf_builder_attention(b, prefix, "key_mask", input, "attn_output");
    (void)snprintf(inputs, sizeof inputs, "%sattn_output.sum", prefix);
    (void)snprintf(name, sizeof name, "%sattn_output_norm", prefix);
    gguf_builder_layer_norm(b, name, inputs, name);
    (void)snprintf(norm, sizeof norm, "%sffn_down", prefix);
    feed_forward(b, prefix, name, norm);
    gguf_builder_node(b, "Add", "%s %s -> %s.sum", name, norm, norm);
    (void)snprintf(inputs, sizeof inputs, "%s.sum", norm);
    (void)snprintf(name, sizeof name, "%slayer_output_norm", prefix);
    gguf_builder_layer_norm(b, name, inputs, output);
}

static void write_list(struct builder *b, const char *name, const int64_t *values, int64_t count)
{
    onnx_tensor(b->out, name, INLAY_INT64, &count, 1, values, (size_t)count * sizeof *values);
}

void gguf_begin_both_ways(struct builder *b)
{
    const int64_t half = b->window / 2;

    if (gguf_int_or(b->gguf, GGUF_TURN_SIZE, b->head_size) != b->head_size)
        gguf_fail_key(b->gguf, GGUF_TURN_SIZE, "rotates a part of a head, which is not supported here, by the key");
    if (b->window < 1)
        gguf_fail_key(b->gguf, GGUF_WINDOW, "lacks the key, or its value is out of range:");
    onnx_node(b->out, "Cast", "attention_mask", "key_mask", &(onnx_attribute){ "to", false, INLAY_INT32, 0 }, 1);
    write_list(b, "window.axes", (int64_t[]){ 0, 1 }, 2);
    onnx_tensor(b->out, "window.half", INLAY_INT64, NULL, 0, &half, sizeof half);
    gguf_builder_scalar(b, "window.none", -1e30);
    gguf_builder_scalar(b, "window.zero", 0);
    gguf_builder_node(b, "Unsqueeze", "new_range axis_one -> window.column");
    gguf_builder_node(b, "Sub", "window.column new_range -> window.distance");
    gguf_builder_node(b, "Abs", "window.distance -> window.far");
    gguf_builder_node(b, "Greater", "window.far window.half -> window.beyond");
    gguf_builder_node(b, "Where", "window.beyond window.none window.zero -> window.flat");
    gguf_builder_node(b, "Unsqueeze", "window.flat window.axes -> window");
    write_list(b, "shared.apart", (int64_t[]){ 0, 0, b->key_heads, 1, b->head_size }, 5);
    write_list(b, "shared.each", (int64_t[]){ 1, 1, b->key_heads, b->heads / b->key_heads, b->head_size }, 5);
    write_list(b, "shared.joined", (int64_t[]){ 0, 0, b->heads * b->head_size }, 3);
}

/* NAME.all: keys or values, once for each head of queries. */
static void repeat(struct builder *b, const char *name)
{
    gguf_builder_node(b, "Reshape", "%s shared.apart -> %s.apart", name, name);
    gguf_builder_node(b, "Expand", "%s.apart shared.each -> %s.each", name, name);
    gguf_builder_node(b, "Reshape", "%s.each shared.joined -> %s.all", name, name);
}

void gguf_write_both_ways(struct builder *b, const char *layer, bool is_local)
{
    const char *angles = is_local && b->has_local_base ? "local" : "rotary";
    const onnx_attribute attributes[] = { { "num_heads", false, b->heads, 0 },
                                          { "scale", true, 0, (float)b->attention_scale } };
    char queries[GGUF_NAME], keys[GGUF_NAME], values[GGUF_NAME], turned[2][GGUF_NAME + 8], inputs[2 * TEXT];

    (void)snprintf(queries, sizeof queries, "%sattn_q", layer);
    (void)snprintf(keys, sizeof keys, "%sattn_k", layer);
    (void)snprintf(values, sizeof values, "%sattn_v", layer);
    (void)snprintf(turned[0], sizeof turned[0], "%s.turned", queries);
    (void)snprintf(turned[1], sizeof turned[1], "%s.turned", keys);
    turn(b, angles, b->heads, queries, turned[0]);
    turn(b, angles, b->key_heads, keys, turned[1]);
    repeat(b, turned[1]);
    repeat(b, values);
    (void)snprintf(inputs, sizeof inputs, "%s %s.all %s.all - key_mask%s", turned[0], turned[1], values,
                   is_local ? " window" : "");
    (void)snprintf(queries, sizeof queries, "%sattn", layer);
    if (b->gguf->status == INLAY_OK)
        onnx_node(b->out, "com.microsoft.MultiHeadAttention", inputs, queries, attributes, 2);
}

bool gguf_has_dense(struct builder *b)
{
    return (b->architecture->readers & GGUF_READ_BY_DENSE) != 0 && gguf_builder_has(b, "dense_2.weight") &&
           gguf_builder_has(b, "dense_3.weight");
}

void gguf_write_dense(struct builder *b, const char *input)
{
    const int64_t between = gguf_int(b->gguf, GGUF_DENSE_2_OUT);
    char inputs[TEXT];

    if (gguf_int(b->gguf, GGUF_POOLING) > 1)
        gguf_fail_key(b->gguf, GGUF_POOLING, "has products of another sum than the mean of the tokens, by the key");
    if (gguf_int_or(b->gguf, GGUF_DENSE_2_IN, b->width) != b->width || gguf_int(b->gguf, GGUF_DENSE_3_IN) != between ||
        gguf_int_or(b->gguf, GGUF_DENSE_3_OUT, b->width) != b->width)
        gguf_fail_key(b->gguf, GGUF_DENSE_2_OUT, "has products of sizes that do not follow one another, by the key");
    onnx_node(b->out, "Cast", "attention_mask", "mask.float", &(onnx_attribute){ "to", false, INLAY_FLOAT, 0 }, 1);
    onnx_node(b->out, "Cast", "lengths", "lengths.float", &(onnx_attribute){ "to", false, INLAY_FLOAT, 0 }, 1);
    write_list(b, "mask.axis", (int64_t[]){ 2 }, 1);
    gguf_builder_node(b, "Unsqueeze", "mask.float mask.axis -> mask.column");
    gguf_builder_node(b, "Unsqueeze", "lengths.float axis_one -> lengths.column");
    gguf_builder_node(b, "Mul", "%s mask.column -> pooled.tokens", input);
    (void)snprintf(inputs, sizeof inputs, "pooled.tokens axis_one");
    if (b->gguf->status == INLAY_OK)
        onnx_node(b->out, "ReduceSum", inputs, "pooled.sum", &(onnx_attribute){ "keepdims", false, 0, 0 }, 1);
    gguf_builder_node(b, "Div", "pooled.sum lengths.column -> pooled");
    gguf_builder_linear(b, "dense_2", b->width, between, 0, between, "pooled", "dense_2");
    gguf_builder_linear(b, "dense_3", between, b->width, 0, b->width, "dense_2", "sentence_embedding");
}

void gguf_write_pooling(struct gguf *gguf, struct wire *out)
{
    static const char *const kinds[] = { NULL, "pooling_mode_mean_tokens", "pooling_mode_cls_token",
                                         "pooling_mode_lasttoken" };
    const int64_t kind = gguf_int(gguf, GGUF_POOLING);
    char text[64];

    if (kind < 0 || kind > 3) {
        gguf_fail_key(gguf, GGUF_POOLING, "makes no embeddings, or pools them in another way than 0 to 3, by the key");
        return;
    }
    (void)snprintf(text, sizeof text, "{\"%s\": true}", kinds[kind == 0 ? 1 : kind]);
    onnx_property(out, "1_Pooling/config.json", text, strlen(text));
}

void gguf_write_encoder(struct builder *b)
{
    char dims[TEXT], names[2][32] = { "embeddings", "" };

    read_sizes(b);
    b->embeds = true;
    b->turns = !gguf_builder_has(b, "position_embd.weight");
    if (b->gguf->status != INLAY_OK)
        return;
    onnx_value(b->out, ONNX_INPUT, "input_ids", INLAY_INT64, "batch_size sequence_length");
    onnx_value(b->out, ONNX_INPUT, "attention_mask", INLAY_INT64, "batch_size sequence_length");
    (void)snprintf(dims, sizeof dims, "batch_size sequence_length %" PRId64, b->width);
    onnx_value(b->out, ONNX_OUTPUT, "last_hidden_state", INLAY_FLOAT, dims);
    gguf_builder_lengths(b);
    if (b->turns)
        gguf_builder_rotary(b);
    else
        gguf_write_positions(b->context, b->out);
    onnx_node(b->out, "Cast", "attention_mask", "key_mask", &(onnx_attribute){ "to", false, INLAY_INT32, 0 }, 1);
    embed(b);
    for (int64_t layer = 0; layer < b->layers && b->gguf->status == INLAY_OK; layer++) {
        (void)snprintf(names[(layer + 1) % 2], sizeof names[0], "layer.%" PRId64, layer);
        write_layer(b, layer, names[layer % 2], layer + 1 < b->layers ? names[(layer + 1) % 2] : "last_hidden_state");
    }
}
