/* gguf_delta.c - layers that have a recurrent state instead of attention. Those of LFM2: a causal convolution between
 * two gates. Those of Mamba 2: a causal convolution, then a state that decays. Those of Qwen3-Next and Qwen3.5: a
 * causal convolution, then the gated delta rule. In both, keys and values of a token change the state of each head,
 * which the query reads (LinearAttention). */
#include "formats/gguf_delta.h"
#include "formats/onnx_write.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TAPS = 64 };

static void read_mamba(struct builder *b)
{
    struct delta *d = &b->delta;
    const int64_t inner = gguf_builder_size(b, GGUF_STATE_WIDTH, 1 << 24);

    d->taps = gguf_builder_size(b, GGUF_TAPS, MAX_TAPS);
    d->rows = gguf_builder_size(b, GGUF_STATE_SIZE, MAX_HEAD_SIZE);
    d->keys = gguf_builder_size(b, GGUF_STATE_GROUPS, MAX_HEADS);
    d->values = gguf_builder_size(b, GGUF_STATE_HEADS, MAX_HEADS);
    if (b->gguf->status != INLAY_OK)
        return;
    d->size = inner / d->values;
    if (d->values % d->keys != 0)
        gguf_fail_key(b->gguf, GGUF_STATE_HEADS, "has heads that are not a multiple of the groups by the key");
    if (inner % d->values != 0 || (b->architecture->recurrent.gaps && inner != 2 * b->width))
        gguf_fail_key(b->gguf, GGUF_STATE_WIDTH,
                      "has a width that its heads do not divide, or that is not two times that of the model, by the "
                      "key");
}

void gguf_read_delta(struct builder *b)
{
    struct delta *d = &b->delta;

    if (b->architecture->recurrent.gaps) {
        d->recurrent = gguf_find(b->gguf, GGUF_KEY_HEADS);
        if (d->recurrent != NULL && d->recurrent->type == GGUF_ARRAY && d->recurrent->count < (uint64_t)b->layers)
            gguf_fail_key(b->gguf, GGUF_KEY_HEADS, "has not a value for each layer for the key");
    }
    if (b->architecture->recurrent.mamba) {
        read_mamba(b);
        return;
    }
    if (b->architecture->recurrent.gaps) {
        d->taps = gguf_builder_size(b, GGUF_SHORT_TAPS, MAX_TAPS);
        if (d->taps < 2)
            gguf_fail_key(b->gguf, GGUF_SHORT_TAPS, "has a value that is out of range for the key");
        return;
    }
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

    if (b->architecture->recurrent.gaps)
        return d->recurrent != NULL && d->recurrent->type == GGUF_ARRAY &&
               gguf_item(d->recurrent, (uint64_t)layer) == 0;
    if (!b->architecture->recurrent.delta)
        return false;
    if (d->recurrent != NULL)
        return gguf_item(d->recurrent, d->recurrent->type == GGUF_ARRAY ? (uint64_t)layer : 0) != 0;
    return (layer + 1) % d->step != 0;
}

static void begin_rule(struct builder *b)
{
    const struct delta *d = &b->delta;
    const int64_t shares = d->values / d->keys, repeats = b->architecture->recurrent.tiles_keys ? shares : 1, last = -1;

    gguf_builder_list(b, "delta.parts", (int64_t[]){ d->keys * d->size, d->keys * d->size, d->values * d->size }, 3);
    gguf_builder_list(b, "delta.heads", (int64_t[]){ 0, 0, d->keys, d->size }, 4);
    gguf_builder_list(b, "delta.joined", (int64_t[]){ 0, 0, repeats * d->keys * d->size }, 3);
    gguf_builder_list(b, "delta.repeats", (int64_t[]){ 1, 1, repeats, 1 }, 4);
    gguf_builder_list(b, "delta.last", &last, 1);
    gguf_builder_list(b, "delta.groups", (int64_t[]){ 0, 0, d->keys, 2 * shares }, 4);
    gguf_builder_list(b, "delta.each", (int64_t[]){ 0, 0, d->values }, 3);
    gguf_builder_scalar(b, "delta.least", (double)b->epsilon);
    gguf_builder_list(b, "gated.heads", (int64_t[]){ 0, 0, b->heads, 2 * b->head_size }, 4);
    gguf_builder_list(b, "gated.joined", (int64_t[]){ 0, 0, b->heads * b->head_size }, 3);
}

static void begin_mamba(struct builder *b)
{
    const struct delta *d = &b->delta;
    const int64_t inner = d->values * d->size, part = d->keys * d->rows, last = -1, group = inner / d->keys;
    float *ones = malloc((size_t)group * sizeof *ones);

    gguf_builder_list(b, "mamba.parts", (int64_t[]){ inner, inner + 2 * part, d->values }, 3);
    gguf_builder_list(b, "mamba.inputs", (int64_t[]){ inner, part, part }, 3);
    gguf_builder_list(b, "mamba.heads", (int64_t[]){ 0, 0, d->values, d->size }, 4);
    gguf_builder_list(b, "mamba.each", (int64_t[]){ d->values }, 1);
    gguf_builder_list(b, "mamba.column", (int64_t[]){ d->values, 1 }, 2);
    gguf_builder_list(b, "mamba.joined", (int64_t[]){ 0, 0, inner }, 3);
    gguf_builder_list(b, "mamba.groups", (int64_t[]){ 0, 0, d->keys, group }, 4);
    gguf_builder_list(b, "mamba.last", &last, 1);
    for (int64_t i = 0; ones != NULL && i < group; i++)
        ones[i] = 1;
    if (ones != NULL)
        onnx_tensor(b->out, "mamba.ones", INLAY_FLOAT, &group, 1, ones, (size_t)group * sizeof *ones);
    b->out->failed |= ones == NULL;
    free(ones);
}

void gguf_begin_delta(struct builder *b)
{
    if (b->architecture->recurrent.mamba)
        begin_mamba(b);
    else if (b->architecture->recurrent.gaps)
        gguf_builder_list(b, "delta.parts", (int64_t[]){ b->width, b->width, b->width }, 3);
    else
        begin_rule(b);
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
    gguf_builder_program(b, "Reshape $.heads gated.joined > $;Reshape $.gates gated.joined > $.gate;", queries);
    gguf_builder_node(b, "Sigmoid", "%s.gate -> %sattn.share", queries, layer);
}

/* Queries or keys as unit vectors, and for architectures whose heads share them in turns, all of them once for each
 * turn. */
static void write_units(struct builder *b, const char *layer, const char *part)
{
    const bool repeats = b->architecture->recurrent.tiles_keys && b->delta.values != b->delta.keys;
    char name[GGUF_NAME];

    (void)snprintf(name, sizeof name, "%sdelta_%s", layer, part);
    gguf_builder_program(b,
                         "Reshape $ delta.heads > $.heads;ReduceL2 $.heads delta.last > $.length;"
                         "Max $.length delta.least > $.divisor;Div $.heads $.divisor > $.units;",
                         name);
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
    if (b->architecture->recurrent.tiles_keys) {
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

/* output = the causal convolution of the input, [.., width], with the taps of that name. */
static void write_convolution(struct builder *b, int64_t layer, const char *name, int64_t width, bool silu,
                              const char *input, const char *output)
{
    const struct delta *d = &b->delta;
    const struct gguf_tensor *taps = gguf_builder_tensor(b, name, d->taps, width);
    char text[2 * TEXT], outputs[TEXT], bias[GGUF_NAME];
    bool biased;

    if (b->gguf->status != INLAY_OK)
        return;
    b->gguf->status = gguf_write_floats(taps, name, b->out, b->gguf->diag);
    (void)snprintf(bias, sizeof bias, "%.*s.bias", (int)(strlen(name) - strlen(".weight")), name);
    biased = b->architecture->recurrent.mamba && gguf_builder_has(b, bias);
    if (biased)
        gguf_builder_vector(b, bias, width);
    gguf_builder_node(b, "Unsqueeze", "%s axis_one -> %s.taps", name, name);
    (void)snprintf(text, sizeof text, "batch_size %" PRId64 " %" PRId64, d->taps - 1, width);
    write_state(b, layer, "conv", text);
    (void)snprintf(text, sizeof text, "%s %s.taps %s past_key_values.%" PRId64 ".conv", input, name,
                   biased ? bias : "-", layer);
    (void)snprintf(outputs, sizeof outputs, "%s present.%" PRId64 ".conv", output, layer);
    if (b->gguf->status == INLAY_OK)
        onnx_node(b->out, "com.microsoft.CausalConvWithState", text, outputs,
                  (onnx_attribute[]){ { "channels_last", false, 1, 0 }, { "activation=silu", false, 0, 0 } },
                  silu ? 2 : 1);
}

/* output = out(c * convolution(b * x)), where b, c and x are the parts of in(input). */
static void write_short(struct builder *b, int64_t layer, const char *prefix, const char *input, const char *output)
{
    const int64_t width = b->width;
    char name[GGUF_NAME], text[TEXT], outputs[2 * TEXT];

    (void)snprintf(name, sizeof name, "%sshortconv.in_proj", prefix);
    gguf_builder_linear(b, name, width, 3 * width, 0, 3 * width, input, name);
    (void)snprintf(outputs, sizeof outputs, "%sshort.b %sshort.c %sshort.x", prefix, prefix, prefix);
    gguf_builder_split(b, name, "delta.parts", outputs);
    gguf_builder_node(b, "Mul", "%sshort.b %sshort.x -> %sshort.bx", prefix, prefix, prefix);
    (void)snprintf(name, sizeof name, "%sshortconv.conv.weight", prefix);
    (void)snprintf(text, sizeof text, "%sshort.bx", prefix);
    (void)snprintf(outputs, sizeof outputs, "%sshort.sum", prefix);
    write_convolution(b, layer, name, width, false, text, outputs);
    gguf_builder_node(b, "Mul", "%sshort.c %sshort.sum -> %sshort", prefix, prefix, prefix);
    (void)snprintf(name, sizeof name, "%sshortconv.out_proj", prefix);
    (void)snprintf(text, sizeof text, "%sshort", prefix);
    gguf_builder_linear(b, name, width, width, 0, width, text, output);
}

/* PREFIXNAME, one number for each head of a state, as floats of the shape that the constant SHAPE has. */
static void write_column(struct builder *b, const char *prefix, const char *name, const char *shape)
{
    char full[GGUF_NAME];
    const struct gguf_tensor *tensor;

    (void)snprintf(full, sizeof full, "%s%s", prefix, name);
    tensor = gguf_builder_tensor(b, full, 1, b->delta.values);
    if (b->gguf->status == INLAY_OK)
        b->gguf->status = gguf_write_floats(tensor, full, b->out, b->gguf->diag);
    gguf_builder_node(b, "Reshape", "%s %s -> %s.each", full, shape, full);
}

/* A layer of Mamba 2. A token's x is written into the state with its b, read with its c, and the state decays; both by
 * a step dt of the token. */
static void write_mamba(struct builder *b, int64_t layer, const char *prefix, const char *input, const char *output)
{
    const struct delta *d = &b->delta;
    const int64_t inner = d->values * d->size, part = d->keys * d->rows, all = 2 * inner + 2 * part + d->values;
    const onnx_attribute attributes[] = { { "update_rule=gated", false, 0, 0 },
                                          { "q_num_heads", false, d->keys, 0 },
                                          { "kv_num_heads", false, d->values, 0 },
                                          { "scale", true, 0, 1 } };
    const onnx_attribute norm[] = { { "epsilon", true, 0, b->epsilon }, { "axis", false, -1, 0 } };
    const struct gguf_tensor *weights;
    char name[GGUF_NAME], text[2 * TEXT], outputs[TEXT];
    bool normed;

    (void)snprintf(name, sizeof name, "%sssm_in", prefix);
    gguf_builder_linear(b, name, b->width, all, 0, all, input, name);
    (void)snprintf(outputs, sizeof outputs, "%smamba.z %smamba.xbc %smamba.dt", prefix, prefix, prefix);
    gguf_builder_split(b, name, "mamba.parts", outputs);
    (void)snprintf(name, sizeof name, "%sssm_conv1d.weight", prefix);
    (void)snprintf(text, sizeof text, "%smamba.xbc", prefix);
    (void)snprintf(outputs, sizeof outputs, "%smamba.inputs", prefix);
    write_convolution(b, layer, name, inner + 2 * part, true, text, outputs);
    (void)snprintf(text, sizeof text, "%smamba.x %smamba.b %smamba.c", prefix, prefix, prefix);
    gguf_builder_split(b, outputs, "mamba.inputs", text);
    (void)snprintf(name, sizeof name, "%sssm_dt.bias", prefix);
    gguf_builder_vector(b, name, d->values);
    write_column(b, prefix, "ssm_a", "mamba.each");
    write_column(b, prefix, "ssm_d", "mamba.column");
    gguf_builder_node(b, "Add", "%smamba.dt %s -> %smamba.biased", prefix, name, prefix);
    gguf_builder_program(b,
                         "Softplus $mamba.biased > $mamba.step;Mul $mamba.step $ssm_a.each > $mamba.decay;"
                         "Reshape $mamba.x mamba.heads > $mamba.x.heads;"
                         "Unsqueeze $mamba.step mamba.last > $mamba.step.column;"
                         "Mul $mamba.x.heads $mamba.step.column > $mamba.v.heads;"
                         "Reshape $mamba.v.heads mamba.joined > $mamba.v;",
                         prefix);
    if (b->gguf->status != INLAY_OK)
        return;
    (void)snprintf(text, sizeof text, "batch_size %" PRId64 " %" PRId64 " %" PRId64, d->values, d->rows, d->size);
    write_state(b, layer, "recurrent", text);
    (void)snprintf(text, sizeof text,
                   "%smamba.c %smamba.b %smamba.v past_key_values.%" PRId64 ".recurrent %smamba.decay", prefix, prefix,
                   prefix, layer, prefix);
    (void)snprintf(outputs, sizeof outputs, "%smamba.y present.%" PRId64 ".recurrent", prefix, layer);
    onnx_node(b->out, "com.microsoft.LinearAttention", text, outputs, attributes, 4);
    gguf_builder_program(b,
                         "Reshape $mamba.y mamba.heads > $mamba.y.heads;"
                         "Mul $mamba.x.heads $ssm_d.each > $mamba.through;"
                         "Add $mamba.y.heads $mamba.through > $mamba.sum;"
                         "Reshape $mamba.sum mamba.joined > $mamba.all;Sigmoid $mamba.z > $mamba.z.sigmoid;"
                         "Mul $mamba.z $mamba.z.sigmoid > $mamba.gate;Mul $mamba.all $mamba.gate > $mamba.gated;"
                         "Reshape $mamba.gated mamba.groups > $mamba.apart;",
                         prefix);
    (void)snprintf(name, sizeof name, "%sssm_norm.weight", prefix);
    normed = !b->architecture->recurrent.parallel || gguf_builder_has(b, name);
    if (normed) {
        (void)snprintf(text, sizeof text, "%smamba.apart mamba.ones", prefix);
        (void)snprintf(outputs, sizeof outputs, "%smamba.normal", prefix);
        onnx_node(b->out, "SimplifiedLayerNormalization", text, outputs, norm, 2);
        weights = gguf_builder_tensor(b, name, inner / d->keys, d->keys);
        if (b->gguf->status == INLAY_OK)
            b->gguf->status = gguf_write_floats(weights, name, b->out, b->gguf->diag);
        gguf_builder_node(b, "Mul", "%smamba.normal %s -> %smamba.scaled", prefix, name, prefix);
        gguf_builder_node(b, "Reshape", "%smamba.scaled mamba.joined -> %smamba.out", prefix, prefix);
    }
    (void)snprintf(name, sizeof name, "%sssm_out", prefix);
    (void)snprintf(text, sizeof text, "%smamba.%s", prefix, normed ? "out" : "gated");
    gguf_builder_linear(b, name, inner, b->width, 0, b->width, text, output);
}

void gguf_write_delta(struct builder *b, int64_t layer, const char *prefix, const char *input, const char *output)
{
    const struct delta *d = &b->delta;
    const int64_t values = d->values * d->size, all = 2 * d->keys * d->size + values;
    const int64_t queries = b->architecture->recurrent.tiles_keys ? d->values : d->keys;
    const onnx_attribute heads[] = { { "q_num_heads", false, queries, 0 }, { "kv_num_heads", false, d->values, 0 } };
    const onnx_attribute epsilon = { "epsilon", true, 0, b->epsilon };
    char name[GGUF_NAME], text[2 * TEXT], outputs[TEXT];

    if (b->architecture->recurrent.gaps || b->architecture->recurrent.mamba) {
        (b->architecture->recurrent.mamba ? write_mamba : write_short)(b, layer, prefix, input, output);
        return;
    }
    (void)snprintf(name, sizeof name, "%sattn_qkv", prefix);
    gguf_builder_linear(b, name, b->width, all, 0, all, input, name);
    (void)snprintf(name, sizeof name, "%sattn_gate", prefix);
    gguf_builder_linear(b, name, b->width, values, 0, values, input, name);
    write_gates(b, prefix, input);
    (void)snprintf(name, sizeof name, "%sssm_conv1d.weight", prefix);
    (void)snprintf(text, sizeof text, "%sattn_qkv", prefix);
    (void)snprintf(outputs, sizeof outputs, "%sdelta_qkv", prefix);
    write_convolution(b, layer, name, all, true, text, outputs);
    (void)snprintf(text, sizeof text, "%sdelta_qkv", prefix);
    (void)snprintf(outputs, sizeof outputs, "%sdelta_q %sdelta_k %sdelta_v", prefix, prefix, prefix);
    gguf_builder_split(b, text, "delta.parts", outputs);
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
