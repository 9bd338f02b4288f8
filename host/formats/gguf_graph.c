/* gguf_graph.c - the graphs of the architectures. */
#include "formats/formats.h"
#include "formats/gguf_altup.h"
#include "formats/gguf_delta.h"
#include "formats/gguf_encoder.h"
#include "formats/gguf_experts.h"
#include "formats/gguf_latent.h"
#include "formats/gguf_vision.h"
#include "formats/onnx_write.h"
#include "inlay/check.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_IMAGE_LAYERS = 15 };

#define UNIT_HEAD "unit_head" /* ones for the elements of a head */

static const struct architecture architectures[] = {
    { .name = "llama", .experts = true }, /* also Mistral, Mixtral and SmolLM */
    { .name = "qwen2", .rotary = { .halves = true } },
    { .name = "qwen2vl", .rotary = { .halves = true, .image_places = true }, .readers = GGUF_READ_BY_PLACES },
    { .name = "qwen2moe",
      .rotary = { .halves = true },
      .experts = true,
      .keeps_shares = true,
      .readers = GGUF_READ_BY_QWEN_MOE | GGUF_READ_BY_SHARED },
    { .name = "qwen3", .rotary = { .halves = true }, .ranks = true },
    { .name = "qwen3vl",
      .rotary = { .halves = true, .image_places = true, .alternates = true },
      .readers = GGUF_READ_BY_PLACES | GGUF_READ_BY_STACK },
    { .name = "qwen3moe", .rotary = { .halves = true }, .experts = true, .readers = GGUF_READ_BY_QWEN_MOE },
    { .name = "qwen3vlmoe",
      .rotary = { .halves = true, .image_places = true, .alternates = true },
      .experts = true,
      .readers = GGUF_READ_BY_QWEN_MOE | GGUF_READ_BY_PLACES | GGUF_READ_BY_STACK },
    { .name = "gemma", .rotary = { .halves = true }, .gelu = true, .scales_embeddings = true },
    { .name = "gemma2",
      .rotary = { .halves = true },
      .gelu = true,
      .scales_embeddings = true,
      .readers = GGUF_READ_BY_WINDOWS | GGUF_READ_BY_CAPS | GGUF_READ_BY_GEMMA2,
      .windows = { .pattern = 2, .size = 4096 },
      .logit_cap = 30,
      .wide_layers = 46 },
    { .name = "gemma3",
      .rotary = { .halves = true },
      .gelu = true,
      .scales_embeddings = true,
      .readers = GGUF_READ_BY_WINDOWS | GGUF_READ_BY_CAPS,
      .windows = { .pattern = 6, .base = 10000, .unscaled = true },
      .whole_images = true,
      .wide_layers = 62 },
    { .name = "gemma3n",
      .rotary = { .halves = true },
      .gelu = true,
      .scales_embeddings = true,
      .altup = true,
      .readers = GGUF_READ_BY_WINDOWS,
      .windows = { .pattern = 5, .base = 10000, .unscaled = true },
      .logit_cap = 30 },
    { .name = "gemma-embedding",
      .rotary = { .halves = true },
      .gelu = true,
      .scales_embeddings = true,
      .both_ways = true,
      .readers = GGUF_READ_BY_WINDOWS | GGUF_READ_BY_DENSE,
      .windows = { .pattern = 6 } },
    { .name = "phi3", .rotary = { .halves = true } },
    { .name = "granite",
      .readers = GGUF_READ_BY_SCALES | GGUF_READ_BY_GRANITE | GGUF_READ_BY_GRANITE_DENSE | GGUF_READ_BY_SHARED },
    { .name = "granitemoe",
      .experts = true,
      .readers = GGUF_READ_BY_SCALES | GGUF_READ_BY_GRANITE | GGUF_READ_BY_SHARED },
    { .name = "granitehybrid",
      .recurrent = { .gaps = true, .mamba = true },
      .experts = true,
      .readers = GGUF_READ_BY_SCALES | GGUF_READ_BY_GRANITE | GGUF_READ_BY_GRANITE_DENSE | GGUF_READ_BY_SHARED |
                 GGUF_READ_BY_GAPS | GGUF_READ_BY_STATES },
    { .name = "falcon-h1",
      .rotary = { .halves = true },
      .recurrent = { .mamba = true, .parallel = true },
      .readers = GGUF_READ_BY_STATES },
    { .name = "command-r", .rotary = { .pairs = true }, .cohere = true, .readers = GGUF_READ_BY_COHERE },
    { .name = "cohere2",
      .rotary = { .pairs = true },
      .cohere = true,
      .windows = { .pattern = 4, .only_rotary = true },
      .readers = GGUF_READ_BY_WINDOWS | GGUF_READ_BY_COHERE },
    { .name = "llama4",
      .experts = true,
      .llama4 = true,
      .readers = GGUF_READ_BY_WINDOWS | GGUF_READ_BY_QWEN_MOE | GGUF_READ_BY_STEPS,
      .windows = { .pattern = 4, .size = 8192 },
      .rotary = { .still_step = 4 } },
    { .name = "minicpm", .minicpm = true, .readers = GGUF_READ_BY_SCALES },
    { .name = "smollm3", .rotary = { .still_step = 4 } },
    { .name = "seed_oss", .rotary = { .halves = true }, .next_norm = true },
    { .name = "glm4", .rotary = { .pairs = true } },
    { .name = "olmo2",
      .rotary = { .halves = true },
      .norms_after = true,
      .windows = { .pattern = 4, .unscaled = true },
      .readers = GGUF_READ_BY_WINDOWS },
    { .name = "exaone4",
      .rotary = { .halves = true },
      .norms_after = true,
      .windows = { .pattern = 4, .size = 4096, .model_layers = 64, .only_rotary = true },
      .readers = GGUF_READ_BY_WINDOWS },
    { .name = "gpt-oss",
      .rotary = { .halves = true },
      .experts = true,
      .next_norm = true,
      .oai = true,
      .readers = GGUF_READ_BY_WINDOWS | GGUF_READ_BY_QWEN_MOE,
      .windows = { .pattern = 2 } },
    { .name = "qwen3next",
      .rotary = { .halves = true },
      .experts = true,
      .next_norm = true,
      .recurrent = { .delta = true },
      .readers = GGUF_READ_BY_QWEN_MOE | GGUF_READ_BY_SHARED | GGUF_READ_BY_DELTA | GGUF_READ_BY_STATES },
    { .name = "qwen35",
      .rotary = { .halves = true, .image_places = true, .alternates = true },
      .next_norm = true,
      .recurrent = { .delta = true, .tiles_keys = true },
      .readers = GGUF_READ_BY_DELTA | GGUF_READ_BY_STATES | GGUF_READ_BY_PLACES },
    { .name = "qwen35moe",
      .rotary = { .halves = true, .image_places = true, .alternates = true },
      .experts = true,
      .next_norm = true,
      .recurrent = { .delta = true, .tiles_keys = true },
      .readers = GGUF_READ_BY_QWEN_MOE | GGUF_READ_BY_SHARED | GGUF_READ_BY_DELTA | GGUF_READ_BY_STATES |
                 GGUF_READ_BY_PLACES },
    { .name = "lfm2",
      .rotary = { .halves = true },
      .recurrent = { .gaps = true },
      .readers = GGUF_READ_BY_WINDOWS | GGUF_READ_BY_GAPS | GGUF_READ_BY_SHORT },
    { .name = "lfm2moe",
      .rotary = { .halves = true },
      .recurrent = { .gaps = true },
      .experts = true,
      .readers = GGUF_READ_BY_GAPS | GGUF_READ_BY_SHORT | GGUF_READ_BY_QWEN_MOE | GGUF_READ_BY_ROUTED },
    { .name = "mistral3", .experts = true, .readers = GGUF_READ_BY_YARN },
    { .name = "deepseek2",
      .experts = true,
      .rotary = { .pairs = true },
      .latent = true,
      .readers = GGUF_READ_BY_QWEN_MOE | GGUF_READ_BY_YARN | GGUF_READ_BY_LATENT | GGUF_READ_BY_ROUTED },
    { .name = "bert", .kind = GGUF_IS_ENCODER, .readers = GGUF_READ_BY_ENCODERS },
    { .name = "nomic-bert", .kind = GGUF_IS_ENCODER, .rotary = { .halves = true }, .readers = GGUF_READ_BY_ENCODERS },
    { .name = "jina-bert-v2", .kind = GGUF_IS_ENCODER, .gelu = true, .alibi = true, .readers = GGUF_READ_BY_ENCODERS },
    { .name = "jina-bert-v3", .kind = GGUF_IS_ENCODER, .rotary = { .halves = true }, .readers = GGUF_READ_BY_ENCODERS },
    { .name = "clip", .kind = GGUF_IS_VISION, .rotary = { .pairs = true }, .readers = GGUF_READ_BY_VISION },
};

/* output = RMS normalization, or that of Cohere, of the hidden states, to which what is pending is added first. */
static void normalize(struct builder *b, const char *weight, const char *output)
{
    const onnx_attribute attributes[] = { { "epsilon", true, 0, b->epsilon }, { "axis", false, -1, 0 } };
    char text[3 * TEXT], sum[TEXT];

    gguf_builder_vector(b, weight, b->width);
    if (b->gguf->status != INLAY_OK)
        return;
    if (b->architecture->cohere) {
        (void)snprintf(sum, sizeof sum, "%.200s.sum", output);
        (void)snprintf(text, sizeof text, "%s %s", gguf_builder_stream(b, sum), weight);
        onnx_node(b->out, "LayerNormalization", text, output, attributes, 2);
        return;
    }
    if (b->pending[0] == '\0') {
        (void)snprintf(text, sizeof text, "%s %s", b->stream, weight);
        onnx_node(b->out, "SimplifiedLayerNormalization", text, output, attributes, 2);
        return;
    }
    (void)snprintf(sum, sizeof sum, "%.200s.sum", output);
    (void)snprintf(text, sizeof text, "%s - - %s", output, sum);
    {
        char inputs[3 * TEXT];

        (void)snprintf(inputs, sizeof inputs, "%s %s %s", b->stream, b->pending, weight);
        onnx_node(b->out, "com.microsoft.SkipSimplifiedLayerNormalization", inputs, text, attributes, 1);
    }
    memcpy(b->stream, sum, sizeof sum);
    b->pending[0] = '\0';
}

/* Adds a value to the hidden states with the next normalization. */
static void add_later(struct builder *b, const char *value)
{
    if (b->gguf->status != INLAY_OK)
        return;
    INLAY_CHECK(b->pending[0] == '\0');
    if (b->scales.residual != 1) {
        (void)snprintf(b->pending, sizeof b->pending, "%.200s.scaled", value);
        gguf_builder_node(b, "Mul", "%s residual_scale -> %s", value, b->pending);
    } else {
        (void)snprintf(b->pending, sizeof b->pending, "%s", value);
    }
}

/* Adds another value with the pending one. */
static void add_beside(struct builder *b, const char *value)
{
    char sum[TEXT];

    (void)snprintf(sum, sizeof sum, "%.200s.beside", value);
    gguf_builder_node(b, "Add", "%s %s -> %s", b->pending, value, sum);
    memcpy(b->pending, sum, sizeof sum);
}

/* Adds the output of a part of a layer, which a norm of the file may change first. */
static void add_normalized(struct builder *b, const char *norm, const char *value)
{
    char normal[TEXT];

    if (!gguf_builder_has(b, norm)) {
        add_later(b, value);
        return;
    }
    (void)snprintf(normal, sizeof normal, "%.200s.normal", value);
    gguf_builder_rms_norm(b, norm, b->width, value, normal);
    add_later(b, normal);
}

/* Normalizes each head of queries or keys, by a vector of the file, or by ones (weight: unit_head). */
static void normalize_heads(struct builder *b, const char *weight, int64_t heads, const char *input, const char *output)
{
    const onnx_attribute attributes[] = { { "epsilon", true, 0, b->epsilon }, { "axis", false, -1, 0 } };
    const int64_t apart[4] = { 0, 0, heads, b->head_size }, joined[3] = { 0, 0, heads * b->head_size };
    char text[3 * TEXT];

    if (strcmp(weight, UNIT_HEAD) != 0)
        gguf_builder_vector(b, weight, b->head_size);
    if (b->gguf->status != INLAY_OK)
        return;
    (void)snprintf(text, sizeof text, "%s.apart", output);
    onnx_tensor(b->out, text, INLAY_INT64, (int64_t[]){ 4 }, 1, apart, sizeof apart);
    (void)snprintf(text, sizeof text, "%s.joined", output);
    onnx_tensor(b->out, text, INLAY_INT64, (int64_t[]){ 3 }, 1, joined, sizeof joined);
    gguf_builder_node(b, "Reshape", "%s %s.apart -> %s.heads", input, output, output);
    (void)snprintf(text, sizeof text, "%s.heads %s", output, weight);
    {
        char normal[TEXT + 8];

        (void)snprintf(normal, sizeof normal, "%s.normal", output);
        onnx_node(b->out, "SimplifiedLayerNormalization", text, normal, attributes, 2);
    }
    gguf_builder_node(b, "Reshape", "%s.normal %s.joined -> %s", output, output, output);
}

/* Whether a layer attends to the keys and values of another one. */
static bool shares_keys(const struct builder *b, int64_t layer)
{
    return b->architecture->altup && layer >= GGUF_ALTUP_KEY_LAYERS;
}

/* Tensors of a layer that files have, and that are not used. */
static void leave_out_keys(struct builder *b, const char *layer)
{
    static const char *const parts[] = { "attn_k", "attn_v", "attn_k_norm" };
    char name[GGUF_NAME];

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        (void)snprintf(name, sizeof name, "%s%s.weight", layer, parts[i]);
        (void)gguf_builder_has(b, name);
    }
}

/* Queries and, unless the layer shares those of another one, keys and values of a layer, from weights of their own or
 * fused ones. units: queries and keys without a norm become vectors of the same length; turning does not change it. */
static void project(struct builder *b, const char *layer, bool units, bool shares, const char *input)
{
    static const char *const parts[] = { "attn_q", "attn_k", "attn_v" };
    const bool gated = b->architecture->recurrent.delta;
    const int64_t sizes[] = { b->heads * b->head_size * (gated ? 2 : 1), b->key_heads * b->head_size,
                              b->key_heads * b->head_size };
    const int64_t all = sizes[0] + sizes[1] + sizes[2];
    char prefix[GGUF_NAME], output[GGUF_NAME], norm[GGUF_NAME], rows[TEXT];
    int64_t first = 0;
    bool fused;

    (void)snprintf(prefix, sizeof prefix, "%sattn_qkv.weight", layer);
    fused = gguf_builder_has(b, prefix);
    if (shares)
        leave_out_keys(b, layer);
    for (int i = 0; i < (shares ? 1 : 3); i++) {
        const bool is_unit = i < 2 ? units : b->architecture->altup;

        (void)snprintf(prefix, sizeof prefix, "%s%s", layer, fused ? "attn_qkv" : parts[i]);
        (void)snprintf(norm, sizeof norm, "%s%s_norm.weight", layer, parts[i]);
        (void)snprintf(output, sizeof output, "%s%s%s", layer, parts[i],
                       is_unit || (i < 2 && gguf_builder_has(b, norm)) ? ".raw" : "");
        (void)snprintf(rows, sizeof rows, "%s%s", output, gated && i == 0 ? ".both" : "");
        gguf_builder_linear(b, prefix, b->width, fused ? all : sizes[i], fused ? first : 0, sizes[i], input, rows);
        if (gated && i == 0)
            gguf_split_gates(b, layer, output);
        if (is_unit) {
            char whole[GGUF_NAME];

            (void)snprintf(whole, sizeof whole, "%s%s", layer, parts[i]);
            normalize_heads(b, UNIT_HEAD, i == 0 ? b->heads : b->key_heads, output, whole);
        } else if (i < 2 && gguf_builder_has(b, norm)) {
            char whole[GGUF_NAME];

            (void)snprintf(whole, sizeof whole, "%s%s", layer, parts[i]);
            if (gguf_tensor(b->gguf, norm)->dims[0] == sizes[i])
                gguf_builder_rms_norm(b, norm, sizes[i], output, whole);
            else
                normalize_heads(b, norm, i == 0 ? b->heads : b->key_heads, output, whole);
        }
        first += sizes[i];
    }
}

/* Whether a layer sees a window of the text only. */
static bool sees_window(const struct builder *b, int64_t layer)
{
    int64_t pattern = b->architecture->windows.pattern;

    if (b->window == 0)
        return false;
    if (b->pattern != NULL && b->pattern->type == GGUF_ARRAY)
        return gguf_item(b->pattern, (uint64_t)layer) != 0;
    if (b->pattern != NULL)
        pattern = (int64_t)gguf_item(b->pattern, 0);
    return pattern == 0 || layer % pattern < pattern - 1;
}

/* Whether the queries and keys of a layer rotate. */
static bool rotates(const struct builder *b, int64_t layer)
{
    const struct architecture *a = b->architecture;

    return b->turns && (a->rotary.still_step == 0 || (layer + 1) % a->rotary.still_step != 0) &&
           (!a->windows.only_rotary || b->window == 0 || sees_window(b, layer));
}

/* Whether some layers see a chunk of the text only, and texts may be longer. */
static bool has_chunks(const struct builder *b)
{
    return b->architecture->llama4 && b->context > b->window;
}

/* LAYERattn: the attention to the tokens up to each one, those of earlier runs included. */
static void attend_before(struct builder *b, int64_t layer, const char *prefix)
{
    const bool is_local = sees_window(b, layer), has_chunk = is_local && has_chunks(b);
    /* that of Llama 4 is of layers that see all tokens */
    const bool has_temperature = b->temperature != 0 && !(b->architecture->llama4 && rotates(b, layer));
    const char *rotary = is_local && b->has_local_base ? "local" : "rotary";
    char sinks[GGUF_NAME], sink[GGUF_NAME + 4] = "";
    const bool shares = shares_keys(b, layer), has_states = !b->embeds && !shares;
    const int64_t owner =
        GGUF_ALTUP_KEY_LAYERS - (is_local ? 2 : 1); /* of shared keys: the last one that sees as many */
    onnx_attribute attributes[] = { { "num_heads", false, b->heads, 0 },
                                    { "kv_num_heads", false, b->key_heads, 0 },
                                    { "do_rotary", false, rotates(b, layer), 0 },
                                    { "rotary_interleaved", false, !b->architecture->rotary.halves, 0 },
                                    { "scale", true, 0, (float)b->scales.attention },
                                    { "softcap", true, 0, (float)b->scales.attention_cap },
                                    { "local_window_size", false, is_local && !b->architecture->llama4 ? b->window : -1,
                                      0 } };
    char inputs[3 * TEXT], outputs[TEXT], name[TEXT], dims[TEXT], past[TEXT];

    (void)snprintf(sinks, sizeof sinks, "%sattn_sinks.weight", prefix);
    if (b->architecture->oai) {
        gguf_builder_vector(b, sinks, b->heads);
        (void)snprintf(sink, sizeof sink, " - %s", sinks);
    }
    if (has_chunk)
        (void)snprintf(sink, sizeof sink, " chunks");
    if (b->gguf->status != INLAY_OK)
        return;
    (void)snprintf(dims, sizeof dims, "batch_size %" PRId64 " past_sequence_length %" PRId64, b->key_heads,
                   b->head_size);
    for (int i = 0; i < 2 && has_states; i++) {
        (void)snprintf(name, sizeof name, "past_key_values.%" PRId64 ".%s", layer, i == 0 ? "key" : "value");
        onnx_value(b->out, ONNX_INPUT, name, INLAY_FLOAT, dims);
    }
    (void)snprintf(dims, sizeof dims, "batch_size %" PRId64 " total_sequence_length %" PRId64, b->key_heads,
                   b->head_size);
    for (int i = 0; i < 2 && has_states; i++) {
        (void)snprintf(name, sizeof name, "present.%" PRId64 ".%s", layer, i == 0 ? "key" : "value");
        onnx_value(b->out, ONNX_OUTPUT, name, INLAY_FLOAT, dims);
    }
    (void)snprintf(past, sizeof past,
                   shares ? "present.%" PRId64 ".key present.%" PRId64 ".value"
                          : "past_key_values.%" PRId64 ".key past_key_values.%" PRId64 ".value",
                   shares ? owner : layer, shares ? owner : layer);
    if (has_temperature)
        gguf_builder_node(b, "Mul", "%sattn_q temperature -> %sattn_q.scaled", prefix, prefix);
    if (shares && sees_window(b, owner) != is_local)
        gguf_fail_key(b->gguf, GGUF_PATTERN,
                      "has no earlier layer of the same window that shares its keys, by the key");
    if (shares && layer == GGUF_ALTUP_KEY_LAYERS)
        gguf_builder_node(b, "Slice", "blk.0.attn_k no_keys.none no_keys.none axis_one -> no_keys");
    if (shares)
        (void)snprintf(name, sizeof name, "no_keys no_keys");
    else
        (void)snprintf(name, sizeof name, "%sattn_k %sattn_v", prefix, prefix);
    (void)snprintf(inputs, sizeof inputs, "%sattn_q%s %s %s last_positions total_length %s.cos %s.sin rotary.row%s",
                   prefix, has_temperature ? ".scaled" : "", name, b->embeds ? "- -" : past, rotary, rotary, sink);
    (void)snprintf(outputs, sizeof outputs,
                   !has_states ? "%sattn" : "%sattn present.%" PRId64 ".key present.%" PRId64 ".value", prefix, layer,
                   layer);
    onnx_node(b->out, "com.microsoft.GroupQueryAttention", inputs, outputs, attributes, 7);
}

static void attend(struct builder *b, int64_t layer, const char *prefix, const char *input)
{
    const struct architecture *a = b->architecture;
    char attended[GGUF_NAME + 8], name[GGUF_NAME];

    if (a->latent)
        gguf_write_latent(b, prefix, input);
    else
        project(b, prefix, a->llama4 && rotates(b, layer) && b->mixture.count != 128, /* Maverick has 128 */
                shares_keys(b, layer), input);
    if (a->both_ways)
        gguf_write_both_ways(b, prefix, sees_window(b, layer));
    else
        attend_before(b, layer, prefix);
    if (a->recurrent.delta)
        gguf_builder_node(b, "Mul", "%sattn %sattn.share -> %sattn.gated", prefix, prefix, prefix);
    if (a->latent)
        gguf_write_latent_values(b, prefix);
    (void)snprintf(attended, sizeof attended, "%sattn%s", prefix,
                   a->recurrent.delta ? ".gated"
                   : a->latent        ? ".values"
                                      : "");
    (void)snprintf(name, sizeof name, "%sattn_output", prefix);
    gguf_builder_linear(b, name, b->heads * (a->latent ? b->latent.value : b->head_size), b->width, 0, b->width,
                        attended, name);
    (void)snprintf(attended, sizeof attended, "%spost_attention_norm.weight", prefix);
    if (a->next_norm)
        add_later(b, name);
    else
        add_normalized(b, attended, name);
}

static void feed_forward(struct builder *b, int64_t number, const char *layer, const char *input)
{
    char output[GGUF_NAME], norm[GGUF_NAME];

    (void)snprintf(output, sizeof output, "%sffn_down", layer);
    (void)snprintf(norm, sizeof norm, "%spost_ffw_norm.weight", layer);
    if (b->mixture.count > 0 && number >= b->mixture.dense_layers && (number + 1) % b->mixture.step == 0)
        gguf_write_mixture(b, layer, input, output);
    else
        gguf_builder_gated_network(b, layer, "", b->hidden, input, output);
    if (b->architecture->cohere)
        add_beside(b, output);
    else
        add_normalized(b, norm, output);
}

/* Numbers by which the architectures multiply. */
static void read_scales(struct builder *b)
{
    struct gguf *gguf = b->gguf;
    const bool minicpm = b->architecture->minicpm;
    const double usual =
        1 / sqrt((double)(b->layers == b->architecture->wide_layers ? b->width / b->heads : b->head_size));

    /* Older files of MiniCPM lack these keys; the model has scale_emb 12, scale_depth 1.4, dim_model_base 256. */
    b->scales.residual = gguf_float_or(gguf, GGUF_RESIDUAL_SCALE, minicpm ? 1.4 / sqrt((double)b->layers) : 1);
    b->scales.logit = gguf_float_or(gguf, GGUF_LOGIT_SCALE,
                                    minicpm                                                  ? (double)b->width / 256
                                    : b->architecture->recurrent.mamba                       ? 1
                                    : (b->architecture->readers & GGUF_READ_BY_GRANITE) != 0 ? (double)INFINITY
                                                                                             : 1);
    b->scales.embedding = b->architecture->scales_embeddings
                              ? (double)sqrtf((float)b->width)
                              : gguf_float_or(gguf, GGUF_EMBEDDING_SCALE, minicpm ? 12 : 1);
    if (b->architecture->cohere)
        b->scales.logit =
            gguf_float_or(gguf, GGUF_LOGIT_SCALE, b->architecture->windows.only_rotary ? (double)INFINITY : 0);
    b->scales.logit =
        b->scales.logit == 0 && (b->architecture->recurrent.mamba || b->architecture->cohere) ? 1 : b->scales.logit;
    b->scales.residual = b->scales.residual == 0 ? 1 : b->scales.residual; /* "none" */
    b->scales.embedding = b->scales.embedding == 0 ? 1 : b->scales.embedding;
    b->scales.attention = gguf_float_or(gguf, GGUF_ATTENTION_SCALE, 0);
    b->scales.attention = b->architecture->altup ? 1 : b->scales.attention == 0 ? usual : b->scales.attention;
    b->scales.attention_cap = b->architecture->readers & GGUF_READ_BY_GEMMA2 ? gguf_float(gguf, GGUF_ATTENTION_CAP) : 0;
    b->scales.logit_cap = gguf_float_or(gguf, GGUF_LOGIT_CAP, b->architecture->logit_cap);
    if (!(b->scales.attention_cap >= 0))
        gguf_fail_key(gguf, GGUF_ATTENTION_CAP, "has a negative value for the key");
    if (!(b->scales.logit_cap >= 0))
        gguf_fail_key(gguf, GGUF_LOGIT_CAP, "has a negative value for the key");
    if (!(b->scales.logit > 0))
        gguf_fail_key(gguf, GGUF_LOGIT_SCALE, "has a value that is not positive for the key");
}

static void read_windows(struct builder *b)
{
    b->window = gguf_int_or(b->gguf, GGUF_WINDOW, b->architecture->windows.size);
    if (b->window < (b->architecture->windows.size > 0) || b->window > INT32_MAX)
        gguf_fail_key(b->gguf, GGUF_WINDOW, "has a value that is out of range for the key");
    if (((b->architecture->cohere && b->architecture->windows.only_rotary) || b->architecture->altup) && b->window < 1)
        gguf_fail_key(b->gguf, GGUF_WINDOW, "lacks the key, or its value is out of range:");
    if (b->architecture->llama4) /* chunks of this size, whatever the key says */
        b->window = b->architecture->windows.size;
    if (b->architecture->windows.model_layers > 0 && b->layers != b->architecture->windows.model_layers)
        b->window = 0;
    b->pattern = gguf_find(b->gguf, GGUF_PATTERN);
    if (b->pattern != NULL &&
        (b->pattern->type == GGUF_ARRAY ? b->pattern->count < (uint64_t)b->layers : !(gguf_item(b->pattern, 0) >= 0)))
        gguf_fail_key(b->gguf, GGUF_PATTERN, "has a negative number, or not one for each layer, for the key");
    b->has_local_base = b->window > 0 && !b->architecture->cohere &&
                        (b->architecture->windows.unscaled || gguf_find(b->gguf, GGUF_TURN_BASE_LOCAL) != NULL);
}

/* The layers for guesses of the next tokens, behind the others, and their tensors are left out. */
static void leave_out_guesses(struct builder *b)
{
    const int64_t guesses = gguf_int(b->gguf, GGUF_NEXT_LAYERS);

    if (guesses < 0 || guesses >= b->layers)
        gguf_fail_key(b->gguf, GGUF_NEXT_LAYERS, "has a value that is out of range for the key");
    else
        b->layers -= guesses;
    for (uint64_t i = 0; i < b->gguf->tensor_count; i++) {
        struct gguf_tensor *tensor = &b->gguf->tensors[i];

        tensor->used |= guesses > 0 && strncmp(tensor->name, "blk.", 4) == 0 && atoll(tensor->name + 4) >= b->layers;
    }
}

static void read_sizes(struct builder *b)
{
    struct gguf *gguf = b->gguf;
    const struct gguf_tensor *embedding = gguf_tensor(gguf, "token_embd.weight");

    gguf->readers = b->architecture->readers;
    b->layers = gguf_builder_size(b, GGUF_LAYERS, MAX_LAYERS);
    b->width = gguf_builder_size(b, GGUF_WIDTH, 1 << 24);
    b->hidden = b->architecture->recurrent.delta && b->architecture->experts /* Qwen3.5 has no other networks */
                    ? gguf_builder_size_or(b, GGUF_HIDDEN, gguf_int_or(gguf, GGUF_EXPERT_HIDDEN, 0), 1 << 24)
                    : gguf_builder_size(b, GGUF_HIDDEN, 1 << 24);
    b->context = gguf_builder_size(b, GGUF_CONTEXT, MAX_CONTEXT);
    b->heads = gguf_builder_size(b, GGUF_HEADS, MAX_HEADS);
    b->key_heads = gguf_builder_size_or(b, GGUF_KEY_HEADS, b->heads, MAX_HEADS);
    b->head_size = gguf_builder_size_or(b, GGUF_KEY_SIZE, b->heads > 0 ? b->width / b->heads : 0, MAX_HEAD_SIZE);
    b->epsilon = (float)gguf_float(gguf, b->architecture->cohere ? GGUF_LAYER_EPSILON : GGUF_EPSILON);
    b->turns = gguf_int(gguf, GGUF_TURNS) != 0;
    b->embeds = b->architecture->both_ways || gguf_int(gguf, GGUF_POOLING) != 0;
    b->temperature = b->architecture->llama4 ? 0.1 : gguf_float(gguf, GGUF_TEMPERATURE);
    b->image_layers = gguf_int(gguf, GGUF_DEEPSTACK);
    if (b->image_layers < 0 || b->image_layers > b->layers || b->image_layers > MOST_IMAGE_LAYERS)
        gguf_fail_key(gguf, GGUF_DEEPSTACK, "has a value that is out of range for the key");
    gguf_read_experts(b);
    read_windows(b);
    if (b->architecture->recurrent.delta)
        leave_out_guesses(b);
    else if (gguf_int(gguf, GGUF_NEXT_LAYERS) != 0)
        gguf_fail_key(gguf, GGUF_NEXT_LAYERS, "has layers for guesses, which are not supported, by the key");
    if (b->architecture->recurrent.delta || b->architecture->recurrent.gaps || b->architecture->recurrent.parallel)
        gguf_read_delta(b);
    if (gguf->status != INLAY_OK)
        return;
    read_scales(b);
    if (b->architecture->latent)
        gguf_read_latent(b);
    if (gguf_int(gguf, GGUF_CAUSAL) == 0 && !b->architecture->both_ways)
        gguf_fail_key(gguf, GGUF_CAUSAL, "has tokens that see later ones, which is not supported, by the key");
    if (!b->architecture->latent &&
        (gguf_int_or(gguf, GGUF_VALUE_SIZE, b->width / b->heads) != b->head_size || b->head_size % 2 != 0))
        gguf_fail_key(gguf, GGUF_VALUE_SIZE, "has values of another size than keys, or an odd one, by the key");
    if (b->heads % b->key_heads != 0)
        gguf_fail_key(gguf, GGUF_KEY_HEADS, "has heads that are not a multiple of the key heads by the key");
    if (!(b->epsilon > 0))
        gguf_fail_key(gguf, GGUF_EPSILON, "has a value that is not positive for the key");
    if (embedding == NULL || embedding->rank != 2 || embedding->dims[0] != b->width)
        gguf_builder_refuse_tensor(b, "token_embd.weight");
}

/* The input of a part of a layer: the hidden states, normalized unless the norms are behind the parts. */
static const char *before_part(struct builder *b, const char *weight, const char *output)
{
    if (b->architecture->norms_after)
        return gguf_builder_stream(b, output);
    normalize(b, weight, output);
    return output;
}

/* The rows of the tokens. The value `inputs_embeds` is the one that rows of images may replace (option image_rows):
 * Gemma does not scale these, the others do. */
static void embed(struct builder *b, struct gguf_tensor *embedding)
{
    const bool is_scaled = b->scales.embedding != 1, of_tokens = b->architecture->scales_embeddings;
    const char *rows = is_scaled && of_tokens ? "embeddings.raw" : "inputs_embeds";

    if (b->gguf->status == INLAY_OK)
        b->gguf->status = gguf_write_rows(b->gguf, embedding, "input_ids", rows, b->out, b->gguf->diag);
    (void)snprintf(b->stream, sizeof b->stream, "%s", rows);
    if (!is_scaled)
        return;
    (void)snprintf(b->stream, sizeof b->stream, "%s", of_tokens ? "inputs_embeds" : "embeddings.scaled");
    gguf_builder_scalar(b, "embedding_scale", b->scales.embedding);
    gguf_builder_node(b, "Mul", "%s embedding_scale -> %s", rows, b->stream);
}

/* What queries are multiplied by: 1 + the key's value * ln(1 + the number of original contexts before the position).
 * Llama 4 counts from the next position on. */
static void write_temperature(struct builder *b)
{
    const bool llama4 = b->architecture->llama4;
    const int64_t last = -1, context = b->architecture->latent
                                           ? gguf_builder_size(b, GGUF_TEMPERATURE_STEP, MAX_CONTEXT)
                                       : llama4 ? b->window
                                                : gguf_int_or(b->gguf, GGUF_TURN_CONTEXT, b->context);

    onnx_tensor(b->out, "temperature.axis", INLAY_INT64, (int64_t[]){ 1 }, 1, &last, sizeof last);
    onnx_tensor(b->out, "temperature.context", INLAY_INT64, NULL, 0, &context, sizeof context);
    gguf_builder_scalar(b, "temperature.one", 1);
    gguf_builder_scalar(b, "temperature.scale", b->temperature);
    if (llama4)
        gguf_builder_node(b, "Add", "positions one -> temperature.next");
    gguf_builder_node(b, "Div", "%s temperature.context -> temperature.contexts",
                      llama4 ? "temperature.next" : "positions");
    gguf_builder_program(b,
                         "Cast temperature.contexts > temperature.float to=1;"
                         "Add temperature.float temperature.one > temperature.count;"
                         "Log temperature.count > temperature.log;"
                         "Mul temperature.log temperature.scale > temperature.part;"
                         "Add temperature.part temperature.one > temperature.rows;"
                         "Unsqueeze temperature.rows temperature.axis > temperature;",
                         "");
}

/* chunks [batch, 1, new tokens, tokens]: hides the keys of earlier chunks. */
static void write_chunks(struct builder *b)
{
    onnx_tensor(b->out, "chunks.size", INLAY_INT64, NULL, 0, &b->window, sizeof b->window);
    gguf_builder_program(b,
                         "[1,3] > chunks.axes;-1e30 > chunks.hidden;0 > chunks.visible;"
                         "Range zero total_length.wide one > chunks.keys;Div positions chunks.size > chunks.number;"
                         "Mul chunks.number chunks.size > chunks.first;"
                         "Unsqueeze chunks.first chunks.axes > chunks.begin;"
                         "Less chunks.keys chunks.begin > chunks.earlier;"
                         "Where chunks.earlier chunks.hidden chunks.visible > chunks;",
                         "");
}

static void write_unit_head(struct builder *b)
{
    float ones[MAX_HEAD_SIZE];

    for (int64_t i = 0; i < b->head_size; i++)
        ones[i] = 1;
    onnx_tensor(b->out, UNIT_HEAD, INLAY_FLOAT, &b->head_size, 1, ones, (size_t)b->head_size * sizeof *ones);
}

/* image_rows.0, image_rows.1 and so on, which option image_rows makes of the parts of the rows of images: it adds all
 * but the first ones to deepstack.0 and so on, the outputs of the first layers. */
static void write_image_parts(struct builder *b)
{
    const int64_t shape[] = { 1, (1 + b->image_layers) * b->width };
    char outputs[TEXT] = "";
    int64_t sizes[MOST_IMAGE_LAYERS + 1];

    gguf_builder_list(b, "image_rows.shape", shape, 2);
    gguf_builder_node(b, "ConstantOfShape", "image_rows.shape -> image_rows.none");
    for (int64_t i = 0; i <= b->image_layers; i++) {
        const size_t used = strlen(outputs);

        sizes[i] = b->width;
        (void)snprintf(outputs + used, sizeof outputs - used, "%simage_rows.%" PRId64, i > 0 ? " " : "", i);
    }
    gguf_builder_list(b, "image_rows.sizes", sizes, b->image_layers + 1);
    gguf_builder_split(b, "image_rows.none", "image_rows.sizes", outputs);
}

static void write_graph(struct builder *b)
{
    struct gguf_tensor *embedding = gguf_tensor(b->gguf, "token_embd.weight");
    const bool dense = b->embeds && gguf_has_dense(b), ranks = b->embeds && gguf_ranks(b);
    char prefix[32], name[GGUF_NAME], norm[GGUF_NAME], dims[TEXT];

    onnx_value(b->out, ONNX_INPUT, "input_ids", INLAY_INT64, "batch_size sequence_length");
    onnx_value(b->out, ONNX_INPUT, "attention_mask", INLAY_INT64, "batch_size total_sequence_length");
    (void)snprintf(dims, sizeof dims, "batch_size sequence_length %" PRId64, embedding->dims[1]);
    if (b->embeds)
        (void)snprintf(dims, sizeof dims, "batch_size sequence_length %" PRId64, b->width);
    if (dense)
        (void)snprintf(dims, sizeof dims, "batch_size %" PRId64, b->width);
    if (!ranks)
        onnx_value(b->out, ONNX_OUTPUT,
                   !b->embeds ? "logits"
                   : dense    ? "sentence_embedding"
                              : "last_hidden_state",
                   INLAY_FLOAT, dims);
    gguf_builder_lengths(b);
    b->image.whole = b->architecture->whole_images;
    if (b->image.whole) /* read if the model has option image_rows */
        gguf_builder_node(b, "Unsqueeze", "last_positions.wide axis_one -> image_rows_last");
    gguf_builder_rotary(b);
    if (b->image_layers > 0)
        write_image_parts(b);
    if (b->temperature != 0)
        write_temperature(b);
    if (has_chunks(b))
        write_chunks(b);
    if (b->architecture->recurrent.delta || b->architecture->recurrent.gaps || b->architecture->recurrent.parallel)
        gguf_begin_delta(b);
    if (b->architecture->llama4 || b->architecture->altup)
        write_unit_head(b);
    if (b->architecture->latent)
        gguf_begin_latent(b);
    if (b->mixture.count > 0)
        gguf_begin_experts(b);
    if (b->architecture->both_ways)
        gguf_begin_both_ways(b);
    if (b->scales.residual != 1)
        gguf_builder_scalar(b, "residual_scale", b->scales.residual);
    embed(b, embedding);
    if (b->architecture->altup)
        gguf_begin_altup(b);
    for (int64_t layer = 0; layer < b->layers && b->gguf->status == INLAY_OK; layer++) {
        (void)snprintf(prefix, sizeof prefix, "blk.%" PRId64 ".", layer);
        (void)snprintf(name, sizeof name, "%sattn_norm.weight", prefix);
        (void)snprintf(norm, sizeof norm, "%sattn_normal", prefix);
        if (b->architecture->altup)
            gguf_begin_altup_layer(b, layer, prefix);
        if (gguf_is_delta(b, layer)) {
            const char *input = before_part(b, name, norm);

            (void)snprintf(name, sizeof name, "%sssm_out", prefix);
            gguf_write_delta(b, layer, prefix, input, name);
            add_later(b, name);
        } else {
            const char *input = before_part(b, name, norm);

            attend(b, layer, prefix, input);
            if (b->architecture->altup)
                gguf_write_laurel(b, prefix, input);
            if (b->architecture->recurrent.parallel) {
                (void)snprintf(name, sizeof name, "%sssm_out", prefix);
                gguf_write_delta(b, layer, prefix, input, name);
                add_beside(b, name);
            }
        }
        if (b->architecture->cohere) {
            feed_forward(b, layer, prefix, norm);
            continue;
        }
        (void)snprintf(name, sizeof name, "%s%s%s", prefix,
                       b->architecture->next_norm ? "post_attention_norm" : "ffn_norm",
                       b->architecture->recurrent.parallel ? "" : ".weight");
        (void)snprintf(norm, sizeof norm, "%sffn_normal", prefix);
        feed_forward(b, layer, prefix, before_part(b, name, norm));
        if (b->architecture->altup)
            gguf_end_altup_layer(b, layer, prefix);
        if (layer < b->image_layers) {
            (void)snprintf(name, sizeof name, "deepstack.%" PRId64, layer);
            (void)gguf_builder_stream(b, name);
        }
    }
    if (b->architecture->altup)
        gguf_end_altup(b);
    /* llama.cpp's converter gives LFM2's norm of the output the name of another one */
    normalize(b,
              b->architecture->recurrent.gaps && !b->architecture->recurrent.mamba ? "token_embd_norm.weight"
                                                                                   : "output_norm.weight",
              !b->embeds       ? "output_normal"
              : dense || ranks ? "hidden"
                               : "last_hidden_state");
    if (dense)
        gguf_write_dense(b, "hidden");
    if (ranks)
        gguf_write_ranks(b, "hidden", "last_positions.wide");
    if (b->embeds) {
        (void)gguf_builder_has(b, "output.weight"); /* its logits are not used */
        return;
    }
    gguf_builder_linear(b, gguf_builder_has(b, "output.weight") ? "output" : "token_embd", b->width, embedding->dims[1],
                        0, embedding->dims[1], "output_normal",
                        b->scales.logit != 1 || b->scales.logit_cap > 0 ? "logits.large" : "logits");
    if (b->scales.logit != 1) { /* Granite divides by it */
        gguf_builder_scalar(b, "logit_scale", b->scales.logit);
        gguf_builder_node(b, b->architecture->cohere ? "Mul" : "Div", "logits.large logit_scale -> logits");
    } else if (b->scales.logit_cap > 0) { /* tanh(x / cap) * cap */
        gguf_builder_scalar(b, "logit_cap", b->scales.logit_cap);
        gguf_builder_program(b,
                             "Div logits.large logit_cap > logits.part;Tanh logits.part > logits.capped;"
                             "Mul logits.capped logit_cap > logits;",
                             "");
    }
}

/* What texts with images need to know of the language model and of its vision part. */
static void write_image_properties(const struct builder *b)
{
    if (b->image.whole)
        onnx_property(b->out, "image_rows", "whole", strlen("whole"));
    if (b->image.begin != NULL && b->image.begin[0] != '\0')
        onnx_property(b->out, "image_begin", b->image.begin, strlen(b->image.begin));
    if (b->image.end != NULL && b->image.end[0] != '\0')
        onnx_property(b->out, "image_end", b->image.end, strlen(b->image.end));
}

/* Every tensor and every key of the architecture must have been used. */
static void check_all_used(struct builder *b)
{
    const struct gguf *gguf = b->gguf;
    struct strbuf ignored = { 0 };

    for (uint64_t i = 0; i < gguf->tensor_count; i++)
        if (!gguf->tensors[i].used)
            gguf_builder_refuse(b, INLAY_UNSUPPORTED,
                                "has a tensor that its architecture does not use here:", gguf->tensors[i].name);
    gguf_check_keys(b->gguf, &ignored);
    if (ignored.size > 0)
        onnx_property(b->out, "ignored keys", ignored.data, ignored.size);
    b->out->failed |= ignored.failed;
    strbuf_deinit(&ignored);
}

static const struct architecture *architecture_of(const struct gguf *gguf)
{
    for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++)
        if (gguf_text_is(gguf->architecture, architectures[i].name))
            return &architectures[i];
    return NULL;
}

static void refuse_architecture(struct gguf *gguf)
{
    struct strbuf names = { 0 };

    for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++)
        strbuf_format(&names, "%s%s", i > 0 ? ", " : "", architectures[i].name);
    gguf->status = inlay_fail(gguf->diag, INLAY_UNSUPPORTED, "has the architecture '%.*s'; supported are %s",
                              (int)(gguf->architecture.bytes < 60 ? gguf->architecture.bytes : 60),
                              gguf->architecture.data, names.data != NULL ? names.data : "");
    strbuf_deinit(&names);
}

/* gguf_format.translate */
static inlay_status translate(const format_file *file, struct wire *out, inlay_diag *diag)
{
    struct gguf gguf;
    struct builder b = { .gguf = &gguf, .out = out };
    wire_mark graph;
    inlay_status status;

    INLAY_TRY(gguf_open(file, &gguf, diag));
    b.architecture = architecture_of(&gguf);
    if (b.architecture == NULL)
        refuse_architecture(&gguf);
    else if (b.architecture->kind == GGUF_IS_DECODER)
        read_sizes(&b);
    if (gguf.status == INLAY_OK) {
        graph = onnx_begin(out, "GGUF", gguf.file->keeps_blocks);
        gguf.readers = b.architecture->readers;
        if (b.architecture->kind == GGUF_IS_ENCODER)
            gguf_write_encoder(&b);
        else if (b.architecture->kind == GGUF_IS_VISION)
            gguf_write_vision(&b);
        else
            write_graph(&b);
        onnx_end(out, graph);
        if (b.embeds)
            gguf_write_pooling(&gguf, out);
        write_image_properties(&b);
        if (!b.architecture->rotary.halves &&
            !b.architecture->rotary.pairs) /* whose rows the converters of llama.cpp permute */
            onnx_property(out, FORMAT_PAIRED_ROWS, "true", 4);
        check_all_used(&b);
    }
    gguf.context = b.context;
    if (gguf.status == INLAY_OK)
        gguf_write_tokenizer(&gguf, out);
    status = gguf.status;
done:
    gguf_deinit(&gguf);
    return status;
}

const model_format gguf_format = { "GGUF", gguf_is_file, translate, gguf_read_adapter };
