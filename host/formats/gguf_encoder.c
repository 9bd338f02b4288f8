/* gguf_encoder.c - the graphs of encoders, whose tokens see all tokens of the text: BERT, with learned positions;
 * Nomic's BERT and Jina's third one, which rotate queries and keys; and Jina's second one, whose scores fall with the
 * distance of tokens (ALiBi). Norms are behind the parts of a layer. */
#include "formats/gguf_encoder.h"
#include "formats/onnx_write.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_ENCODER_CONTEXT = 1 << 20, RANKS = 4 /* of the key pooling_type */ };

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
        gguf_fail_key(gguf, GGUF_HEADS, "has a width that its heads do not divide into even sizes, by the key");
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
        gguf_builder_refuse_tensor(b, name);
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
        gguf_builder_refuse_tensor(b, "token_embd.weight");
    if (b->gguf->status == INLAY_OK)
        b->gguf->status = gguf_write_rows(b->gguf, tokens, "input_ids", "tokens", b->out, b->gguf->diag);
    if (gguf_builder_has(b, "token_types.weight")) {
        onnx_tensor(b->out, "first_type", INLAY_INT64, (int64_t[]){ 1 }, 1, &first, sizeof first);
        look_up(b, "token_types.weight", "first_type", "type_row");
        gguf_builder_node(b, "Add", "tokens type_row -> typed");
        sum = "typed";
    }
    if (!b->turns && !b->architecture->alibi) {
        struct gguf_tensor *positions = gguf_tensor(b->gguf, "position_embd.weight");

        look_up(b, "position_embd.weight", "new_range", "position_rows");
        gguf_builder_node(b, "Add", "%s position_rows -> placed", sum);
        sum = "placed";
        if (b->gguf->status == INLAY_OK && positions->dims[1] < b->context)
            gguf_builder_refuse(b, INLAY_INVALID_MODEL, "has fewer positions than its context in",
                                "position_embd.weight");
    }
    gguf_builder_layer_norm(b, "token_embd_norm", b->width, sum, "embeddings");
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
        bool normed;

        (void)snprintf(turned, sizeof turned, "%s%s_norm.weight", layer, parts[i]);
        normed = i < 2 && gguf_builder_has(b, turned);
        (void)snprintf(prefix, sizeof prefix, "%s%s", layer, fused ? "attn_qkv" : parts[i]);
        (void)snprintf(output, sizeof output, "%s%s%s", layer, parts[i], normed ? ".raw" : turns ? ".still" : "");
        gguf_builder_linear(b, prefix, b->width, fused ? 3 * b->width : b->width, fused ? i * b->width : 0, b->width,
                            input, output);
        if (normed) { /* all heads of a token together */
            (void)snprintf(prefix, sizeof prefix, "%s%s_norm", layer, parts[i]);
            (void)snprintf(turned, sizeof turned, "%s%s%s", layer, parts[i], turns ? ".still" : "");
            gguf_builder_layer_norm(b, prefix, b->width, output, turned);
            memcpy(output, turned, sizeof output);
        }
        (void)snprintf(turned, sizeof turned, "%s%s", layer, parts[i]);
        if (turns)
            gguf_builder_turn(b, "rotary.row", "rotary", b->heads, false, output, turned);
    }
}

/* output = up(x), GELU of it, and down; or a gated network. */
static void feed_forward(struct builder *b, const char *layer, const char *input, const char *output)
{
    char up[GGUF_NAME], gate[GGUF_NAME];
    const struct gguf_tensor *both;

    (void)snprintf(gate, sizeof gate, "%sffn_gate.weight", layer);
    (void)snprintf(up, sizeof up, "%sffn_up.weight", layer);
    both = gguf_tensor(b->gguf, up);
    if (gguf_builder_has(b, gate) || (both != NULL && both->rank == 2 && both->dims[1] == 2 * b->hidden)) {
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
    gguf_builder_layer_norm(b, name, b->width, inputs, name);
    (void)snprintf(norm, sizeof norm, "%sattn_norm_2.weight", prefix);
    if (gguf_builder_has(b, norm)) { /* another sum with the input of the layer */
        (void)snprintf(norm, sizeof norm, "%sattn_norm_2", prefix);
        gguf_builder_node(b, "Add", "%s %s -> %s.sum", name, input, norm);
        (void)snprintf(inputs, sizeof inputs, "%s.sum", norm);
        gguf_builder_layer_norm(b, norm, b->width, inputs, norm);
        (void)snprintf(name, sizeof name, "%s", norm);
    }
    (void)snprintf(norm, sizeof norm, "%sffn_down", prefix);
    feed_forward(b, prefix, name, norm);
    gguf_builder_node(b, "Add", "%s %s -> %s.sum", name, norm, norm);
    (void)snprintf(inputs, sizeof inputs, "%s.sum", norm);
    (void)snprintf(name, sizeof name, "%slayer_output_norm", prefix);
    gguf_builder_layer_norm(b, name, b->width, inputs, output);
}

/* alibi [1, heads, tokens, tokens]: what scores lose by the distance of two tokens, in each head at another rate: those
 * of the paper for 8 heads, and between them for numbers of heads that are no power of two. */
static void write_alibi(struct builder *b)
{
    const int64_t dims[] = { 1, b->heads, 1, 1 };
    float rates[MAX_HEADS];
    int64_t regular = 1;

    while (2 * regular <= b->heads)
        regular *= 2;
    for (int64_t i = 0; i < b->heads; i++)
        rates[i] = -(float)(i < regular ? exp2(-8.0 * (double)(i + 1) / (double)regular)
                                        : exp2(-4.0 * (double)(2 * (i - regular) + 1) / (double)regular));
    gguf_builder_list(b, "alibi.axis", (int64_t[]){ 1 }, 1);
    onnx_tensor(b->out, "alibi.rates", INLAY_FLOAT, dims, 4, rates, (size_t)b->heads * sizeof *rates);
    gguf_builder_program(b,
                         "Unsqueeze new_range alibi.axis > alibi.column;Sub alibi.column new_range > alibi.signed;"
                         "Abs alibi.signed > alibi.distance;Cast alibi.distance > alibi.float to=1;"
                         "Mul alibi.float alibi.rates > alibi;",
                         "");
}

void gguf_begin_both_ways(struct builder *b)
{
    const int64_t half = b->window / 2;

    if (gguf_int_or(b->gguf, GGUF_TURN_SIZE, b->head_size) != b->head_size)
        gguf_fail_key(b->gguf, GGUF_TURN_SIZE, "rotates a part of a head, which is not supported here, by the key");
    if (b->window < 1)
        gguf_fail_key(b->gguf, GGUF_WINDOW, "lacks the key, or its value is out of range:");
    gguf_builder_program(b, "Cast attention_mask > key_mask to=6;[0,1] > window.axes;", "");
    onnx_tensor(b->out, "window.half", INLAY_INT64, NULL, 0, &half, sizeof half);
    gguf_builder_program(b,
                         "-1e30 > window.none;0 > window.zero;Unsqueeze new_range axis_one > window.column;"
                         "Sub window.column new_range > window.distance;Abs window.distance > window.far;"
                         "Greater window.far window.half > window.beyond;"
                         "Where window.beyond window.none window.zero > window.flat;"
                         "Unsqueeze window.flat window.axes > window;",
                         "");
    gguf_builder_list(b, "shared.apart", (int64_t[]){ 0, 0, b->key_heads, 1, b->head_size }, 5);
    gguf_builder_list(b, "shared.each", (int64_t[]){ 1, 1, b->key_heads, b->heads / b->key_heads, b->head_size }, 5);
    gguf_builder_list(b, "shared.joined", (int64_t[]){ 0, 0, b->heads * b->head_size }, 3);
}

/* NAME.all: keys or values, once for each head of queries. */
static void repeat(struct builder *b, const char *name)
{
    gguf_builder_program(b,
                         "Reshape $ shared.apart > $.apart;Expand $.apart shared.each > $.each;"
                         "Reshape $.each shared.joined > $.all;",
                         name);
}

void gguf_write_both_ways(struct builder *b, const char *layer, bool is_local)
{
    const char *angles = is_local && b->has_local_base ? "local" : "rotary";
    const onnx_attribute attributes[] = { { "num_heads", false, b->heads, 0 },
                                          { "scale", true, 0, (float)b->scales.attention } };
    char queries[GGUF_NAME], keys[GGUF_NAME], values[GGUF_NAME], turned[2][GGUF_NAME + 8], inputs[2 * TEXT];

    (void)snprintf(queries, sizeof queries, "%sattn_q", layer);
    (void)snprintf(keys, sizeof keys, "%sattn_k", layer);
    (void)snprintf(values, sizeof values, "%sattn_v", layer);
    (void)snprintf(turned[0], sizeof turned[0], "%s.turned", queries);
    (void)snprintf(turned[1], sizeof turned[1], "%s.turned", keys);
    gguf_builder_turn(b, "rotary.row", angles, b->heads, false, queries, turned[0]);
    gguf_builder_turn(b, "rotary.row", angles, b->key_heads, false, keys, turned[1]);
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
    gguf_builder_program(b,
                         "Cast attention_mask > mask.float to=1;Cast lengths > lengths.float to=1;[2] > mask.axis;"
                         "Unsqueeze mask.float mask.axis > mask.column;"
                         "Unsqueeze lengths.float axis_one > lengths.column;Mul $ mask.column > pooled.tokens;",
                         input);
    (void)snprintf(inputs, sizeof inputs, "pooled.tokens axis_one");
    gguf_builder_node_of(b, "ReduceSum", inputs, "pooled.sum", "keepdims", 0);
    gguf_builder_node(b, "Div", "pooled.sum lengths.column -> pooled");
    gguf_builder_linear(b, "dense_2", b->width, between, 0, between, "pooled", "dense_2");
    gguf_builder_linear(b, "dense_3", between, b->width, 0, b->width, "dense_2", "sentence_embedding");
}

bool gguf_ranks(struct builder *b)
{
    const bool ranks = gguf_int(b->gguf, GGUF_POOLING) == RANKS;

    if (ranks && b->architecture->kind != GGUF_IS_ENCODER && !b->architecture->ranks)
        gguf_fail_key(b->gguf, GGUF_POOLING, "compares texts, which is not supported for its architecture, by the key");
    return ranks;
}

/* output = input x the rows of NAME.weight, how many there may be. Returns how many there are. */
static int64_t rank_product(struct builder *b, const char *name, const char *input, const char *output)
{
    const struct gguf_tensor *weight;
    char full[GGUF_NAME];
    int64_t rows;

    (void)snprintf(full, sizeof full, "%s.weight", name);
    weight = gguf_tensor(b->gguf, full);
    rows = weight != NULL && weight->rank == 2 ? weight->dims[1] : 1;
    gguf_builder_linear(b, name, b->width, rows, 0, rows, input, output);
    return rows;
}

void gguf_write_ranks(struct builder *b, const char *input, const char *last)
{
    const int64_t first = 0;
    const bool has_output = gguf_builder_has(b, "cls.output.weight");
    const char *row = "ranks.row";
    int64_t labels = 0;
    char inputs[TEXT], dims[TEXT];

    if (last != NULL) {
        gguf_builder_node(b, "Unsqueeze", "%s axis_one -> ranks.place", last);
        (void)snprintf(inputs, sizeof inputs, "%s ranks.place", input);
        gguf_builder_node_of(b, "GatherND", inputs, row, "batch_dims", 1);
    } else {
        onnx_tensor(b->out, "ranks.place", INLAY_INT64, NULL, 0, &first, sizeof first);
        (void)snprintf(inputs, sizeof inputs, "%s ranks.place", input);
        gguf_builder_node_of(b, "Gather", inputs, row, "axis", 1);
    }
    if (gguf_builder_has(b, "cls.weight") || !has_output) {
        labels = rank_product(b, "cls", row, "ranks.product");
        gguf_builder_node(b, "Tanh", "ranks.product -> %s", has_output ? "ranks.dense" : "logits");
        row = "ranks.dense";
    }
    if (has_output)
        labels = rank_product(b, "cls.output", row, last != NULL ? "ranks.labels" : "logits");
    if (last != NULL) { /* the first label of a decoder is "yes" */
        gguf_builder_list(b, "ranks.from", (int64_t[]){ 0 }, 1);
        gguf_builder_program(b,
                             "[1] > ranks.to;Softmax ranks.labels > ranks.shares axis=-1;"
                             "Slice ranks.shares ranks.from ranks.to ranks.to > logits;",
                             "");
        labels = 1;
    }
    (void)snprintf(dims, sizeof dims, "batch_size %" PRId64, labels);
    onnx_value(b->out, ONNX_OUTPUT, "logits", INLAY_FLOAT, dims);
}

void gguf_write_pooling(struct gguf *gguf, struct wire *out)
{
    static const char *const kinds[] = { NULL, "pooling_mode_mean_tokens", "pooling_mode_cls_token",
                                         "pooling_mode_lasttoken" };
    const int64_t kind = gguf_int(gguf, GGUF_POOLING);
    char text[64];

    if (kind == RANKS) /* makes no embeddings */
        return;
    if (kind < 0 || kind > 3) {
        gguf_fail_key(gguf, GGUF_POOLING, "pools embeddings in another way than 0 to 4 by the key");
        return;
    }
    (void)snprintf(text, sizeof text, "{\"%s\": true}", kinds[kind == 0 ? 1 : kind]);
    onnx_property(out, "1_Pooling/config.json", text, strlen(text));
}

void gguf_write_encoder(struct builder *b)
{
    const bool ranks = gguf_ranks(b);
    const char *last = ranks ? "hidden" : "last_hidden_state";
    char dims[TEXT], names[2][32] = { "embeddings", "" };

    read_sizes(b);
    b->embeds = true;
    b->turns = b->architecture->rotary.halves;
    if (b->gguf->status != INLAY_OK)
        return;
    onnx_value(b->out, ONNX_INPUT, "input_ids", INLAY_INT64, "batch_size sequence_length");
    onnx_value(b->out, ONNX_INPUT, "attention_mask", INLAY_INT64, "batch_size sequence_length");
    (void)snprintf(dims, sizeof dims, "batch_size sequence_length %" PRId64, b->width);
    if (!ranks)
        onnx_value(b->out, ONNX_OUTPUT, last, INLAY_FLOAT, dims);
    gguf_builder_lengths(b);
    if (b->turns)
        gguf_builder_rotary(b);
    else
        gguf_write_positions(b->context, b->out);
    gguf_builder_node_of(b, "Cast", "attention_mask", "key_mask", "to", INLAY_INT32);
    embed(b);
    if (b->architecture->alibi)
        write_alibi(b);
    for (int64_t layer = 0; layer < b->layers && b->gguf->status == INLAY_OK; layer++) {
        (void)snprintf(names[(layer + 1) % 2], sizeof names[0], "layer.%" PRId64, layer);
        write_layer(b, layer, names[layer % 2], layer + 1 < b->layers ? names[(layer + 1) % 2] : last);
    }
    if (ranks)
        gguf_write_ranks(b, last, NULL);
}
