/* gguf_delta.c - the layers of Qwen3-Next and Qwen3.5 that have a recurrent state instead of attention: a causal
 * convolution, then the gated delta rule (LinearAttention). Keys and values of a token change the state [size, size] of
 * each head, which the query reads. */
#include "formats/gguf_delta.h"
#include "formats/onnx_write.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAX_TAPS = 64 };

void gguf_read_delta(struct builder *b)
{
    struct delta *d = &b->delta;

    d->taps = gguf_builder_size(b, GGUF_TAPS, MAX_TAPS);
    d->size = gguf_builder_size(b, GGUF_STATE_SIZE, MAX_HEAD_SIZE);
    d->keys = gguf_builder_size(b, GGUF_STATE_GROUPS, MAX_HEADS);
    d->values = gguf_builder_size(b, GGUF_STATE_HEADS, MAX_HEADS);
    d->step = gguf_builder_size(b, GGUF_ATTENTION_STEP, MAX_LAYERS);
    d->recurrent = gguf_find(b->gguf, GGUF_RECURRENT);
    if (d->recurrent != NULL && d->recurrent->type == GGUF_ARRAY && d->recurrent->count < (uint64_t)b->layers)
        gguf_fail_key(b->gguf, GGUF_RECURRENT, "has not a value for each layer for the key");
    if (b->gguf->status == INLAY_OK && d->values % d->keys != 0)
        gguf_fail_key(b->gguf, GGUF_STATE_HEADS, "has heads that are not a multiple of the groups by the key");
    if (gguf_builder_size(b, GGUF_STATE_WIDTH, 1 << 24) != d->values * d->size)
        gguf_fail_key(b->gguf, GGUF_STATE_WIDTH, "has another width than its heads together by the key");
}

bool gguf_is_delta(const struct builder *b, int64_t layer)
{
    const struct delta *d = &b->delta;

    if (!b->architecture->delta)
        return false;
    if (d->recurrent != NULL)
        return gguf_item(d->recurrent, d->recurrent->type == GGUF_ARRAY ? (uint64_t)layer : 0) != 0;
    return (layer + 1) % d->step != 0;
}

static void write_list(struct builder *b, const char *name, const int64_t *values, int64_t count)
{
    onnx_tensor(b->out, name, INLAY_INT64, &count, 1, values, (size_t)count * sizeof *values);
}

void gguf_begin_delta(struct builder *b)
{
    const struct delta *d = &b->delta;
    const int64_t shares = d->values / d->keys, repeats = b->architecture->tiles_keys ? shares : 1, last = -1;

    write_list(b, "delta.parts", (int64_t[]){ d->keys * d->size, d->keys * d->size, d->values * d->size }, 3);
    write_list(b, "delta.heads", (int64_t[]){ 0, 0, d->keys, d->size }, 4);
    write_list(b, "delta.joined", (int64_t[]){ 0, 0, repeats * d->keys * d->size }, 3);
    write_list(b, "delta.repeats", (int64_t[]){ 1, 1, repeats, 1 }, 4);
    write_list(b, "delta.last", &last, 1);
    write_list(b, "delta.groups", (int64_t[]){ 0, 0, d->keys, 2 * shares }, 4);
    write_list(b, "delta.each", (int64_t[]){ 0, 0, d->values }, 3);
    gguf_builder_scalar(b, "delta.least", (double)b->epsilon);
    write_list(b, "gated.heads", (int64_t[]){ 0, 0, b->heads, 2 * b->head_size }, 4);
    write_list(b, "gated.joined", (int64_t[]){ 0, 0, b->heads * b->head_size }, 3);
}

/* An input of the graph and the output that is its value in the next run. */
static void write_state(struct builder *b, int64_t layer, const char *part, const char *dims)
{
    char name[TEXT];

    (void)snprintf(name, sizeof name, "past_key_values.%" PRId64 ".%s", layer, part);
    onnx_value(b->out, ONNX_INPUT, name, INLAY_FLOAT, dims);
    (void)snprintf(name, sizeof name, "present.%" PRId64 ".%s", layer, part);
    onnx_value(b->out, ONNX_OUTPUT, name, INLAY_FLOAT, dims);
}

/* Two halves along the last axis. */
static void write_halves(struct builder *b, const char *input, const char *outputs)
{
    if (b->gguf->status == INLAY_OK)
        onnx_node(b->out, "Split", input, outputs,
                  (onnx_attribute[]){ { "axis", false, -1, 0 }, { "num_outputs", false, 2, 0 } }, 2);
}

void gguf_split_gates(struct builder *b, const char *layer, const char *queries)
{
    char inputs[TEXT], outputs[TEXT];

    gguf_builder_node(b, "Reshape", "%s.both gated.heads -> %s.pairs", queries, queries);
    (void)snprintf(inputs, sizeof inputs, "%s.pairs", queries);
    (void)snprintf(outputs, sizeof outputs, "%s.heads %s.gates", queries, queries);
    write_halves(b, inputs, outputs);
    gguf_builder_node(b, "Reshape", "%s.heads gated.joined -> %s", queries, queries);
    gguf_builder_node(b, "Reshape", "%s.gates gated.joined -> %s.gate", queries, queries);
    gguf_builder_node(b, "Sigmoid", "%s.gate -> %sattn.share", queries, layer);
}

/* Queries or keys as unit vectors, and for architectures whose heads share them in turns, all of them once for each
 * turn. */
static void write_units(struct builder *b, const char *layer, const char *part)
{
    const bool repeats = b->architecture->tiles_keys && b->delta.values != b->delta.keys;
    char name[GGUF_NAME];

    (void)snprintf(name, sizeof name, "%sdelta_%s", layer, part);
    gguf_builder_node(b, "Reshape", "%s delta.heads -> %s.heads", name, name);
    gguf_builder_node(b, "ReduceL2", "%s.heads delta.last -> %s.length", name, name);
    gguf_builder_node(b, "Max", "%s.length delta.least -> %s.divisor", name, name);
    gguf_builder_node(b, "Div", "%s.heads %s.divisor -> %s.units", name, name, name);
    if (repeats)
        gguf_builder_node(b, "Tile", "%s.units delta.repeats -> %s.all", name, name);
    gguf_builder_node(b, "Reshape", "%s.%s delta.joined -> %s.joined", name, repeats ? "all" : "units", name);
}

/* How much of the state remains, and how much of a value is written. */
static void write_gates(struct builder *b, const char *layer, const char *input)
{
    const int64_t heads = b->delta.values;
    char alpha[GGUF_NAME], beta[GGUF_NAME], name[GGUF_NAME], inputs[TEXT], outputs[TEXT];

    (void)snprintf(name, sizeof name, "%sssm_ba", layer);
    (void)snprintf(alpha, sizeof alpha, "%sssm_alpha", layer);
    (void)snprintf(beta, sizeof beta, "%sssm_beta", layer);
    if (b->architecture->tiles_keys) {
        gguf_builder_linear(b, alpha, b->width, heads, 0, heads, input, alpha);
        gguf_builder_linear(b, beta, b->width, heads, 0, heads, input, beta);
    } else {
        gguf_builder_linear(b, name, b->width, 2 * heads, 0, 2 * heads, input, name);
        gguf_builder_node(b, "Reshape", "%s delta.groups -> %s.groups", name, name);
        (void)snprintf(inputs, sizeof inputs, "%s.groups", name);
        (void)snprintf(outputs, sizeof outputs, "%s.group %s.group", beta, alpha);
        write_halves(b, inputs, outputs);
        gguf_builder_node(b, "Reshape", "%s.group delta.each -> %s", alpha, alpha);
        gguf_builder_node(b, "Reshape", "%s.group delta.each -> %s", beta, beta);
    }
    (void)snprintf(inputs, sizeof inputs, "%sssm_dt.bias", layer);
    gguf_builder_vector(b, inputs, heads);
    (void)snprintf(name, sizeof name, "%sssm_a", layer);
    gguf_builder_vector(b, name, heads);
    (void)snprintf(inputs, sizeof inputs, "%s %sssm_dt.bias %s %s", alpha, layer, name, beta);
    (void)snprintf(outputs, sizeof outputs, "%s.decay %s.share", alpha, beta);
    if (b->gguf->status == INLAY_OK)
        onnx_node(b->out, "com.microsoft.LinearAttentionGate", inputs, outputs, NULL, 0);
}

/* The convolution of queries, keys and values together. */
static void write_convolution(struct builder *b, int64_t layer, const char *prefix)
{
    const struct delta *d = &b->delta;
    const int64_t width = (2 * d->keys + d->values) * d->size;
    const struct gguf_tensor *taps;
    char name[GGUF_NAME], text[2 * TEXT], outputs[TEXT];

    (void)snprintf(name, sizeof name, "%sssm_conv1d.weight", prefix);
    taps = gguf_builder_tensor(b, name, d->taps, width);
    if (b->gguf->status != INLAY_OK)
        return;
    b->gguf->status = gguf_write_floats(taps, name, b->out, b->gguf->diag);
    gguf_builder_node(b, "Unsqueeze", "%s axis_one -> %s.taps", name, name);
    (void)snprintf(text, sizeof text, "batch_size %" PRId64 " %" PRId64, d->taps - 1, width);
    write_state(b, layer, "conv", text);
    (void)snprintf(text, sizeof text, "%sattn_qkv %s.taps - past_key_values.%" PRId64 ".conv", prefix, name, layer);
    (void)snprintf(outputs, sizeof outputs, "%sdelta_qkv present.%" PRId64 ".conv", prefix, layer);
    onnx_node(b->out, "com.microsoft.CausalConvWithState", text, outputs,
              (onnx_attribute[]){ { "activation=silu", false, 0, 0 }, { "channels_last", false, 1, 0 } }, 2);
    (void)snprintf(text, sizeof text, "%sdelta_qkv delta.parts", prefix);
    (void)snprintf(outputs, sizeof outputs, "%sdelta_q %sdelta_k %sdelta_v", prefix, prefix, prefix);
    onnx_node(b->out, "Split", text, outputs, &(onnx_attribute){ "axis", false, -1, 0 }, 1);
}

void gguf_write_delta(struct builder *b, int64_t layer, const char *prefix, const char *input, const char *output)
{
    const struct delta *d = &b->delta;
    const int64_t values = d->values * d->size, all = 2 * d->keys * d->size + values;
    const int64_t queries = b->architecture->tiles_keys ? d->values : d->keys;
    const onnx_attribute heads[] = { { "q_num_heads", false, queries, 0 }, { "kv_num_heads", false, d->values, 0 } };
    const onnx_attribute epsilon = { "epsilon", true, 0, b->epsilon };
    char name[GGUF_NAME], text[2 * TEXT], outputs[TEXT];

    (void)snprintf(name, sizeof name, "%sattn_qkv", prefix);
    gguf_builder_linear(b, name, b->width, all, 0, all, input, name);
    (void)snprintf(name, sizeof name, "%sattn_gate", prefix);
    gguf_builder_linear(b, name, b->width, values, 0, values, input, name);
    write_gates(b, prefix, input);
    write_convolution(b, layer, prefix);
    write_units(b, prefix, "q");
    write_units(b, prefix, "k");
    (void)snprintf(name, sizeof name, "%sssm_norm.weight", prefix);
    gguf_builder_vector(b, name, d->size);
    if (b->gguf->status != INLAY_OK)
        return;
    (void)snprintf(text, sizeof text, "batch_size %" PRId64 " %" PRId64 " %" PRId64, d->values, d->size, d->size);
    write_state(b, layer, "recurrent", text);
    (void)snprintf(text, sizeof text,
                   "%sdelta_q.joined %sdelta_k.joined %sdelta_v past_key_values.%" PRId64
                   ".recurrent %sssm_alpha.decay %sssm_beta.share",
                   prefix, prefix, prefix, layer, prefix, prefix);
    (void)snprintf(outputs, sizeof outputs, "%sdelta present.%" PRId64 ".recurrent", prefix, layer);
    onnx_node(b->out, "com.microsoft.LinearAttention", text, outputs, heads, 2);
    (void)snprintf(text, sizeof text, "%sdelta %s %sattn_gate", prefix, name, prefix);
    (void)snprintf(outputs, sizeof outputs, "%sdelta_normal", prefix);
    onnx_node(b->out, "com.microsoft.GatedRMSNorm", text, outputs, &epsilon, 1);
    (void)snprintf(name, sizeof name, "%sssm_out", prefix);
    gguf_builder_linear(b, name, values, b->width, 0, b->width, outputs, output);
}
