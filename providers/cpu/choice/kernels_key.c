/* Keys under which the timings of a layer's kernels are stored. */
#include "cpu/choice/kernels.h"
#include "cpu/region/window.h"
#include "inlay/check.h"
#include <string.h>

static void mix(kernel_key_words *words, uint64_t value)
{
    for (int i = 0; i < 2; i++) {
        words->word[i] = (words->word[i] ^ value) * UINT64_C(0x9e3779b97f4a7c15);
        words->word[i] ^= words->word[i] >> (29 + 3 * i);
    }
}

static void mix_dims(kernel_key_words *words, const cpu_build *build, uint32_t value)
{
    mix(words, build->ranks[value]);
    for (uint32_t d = 0; d < build->ranks[value]; d++)
        mix(words, (uint64_t)build->dims[value][d]);
}

/* Class of a layout, as far as it affects the speed of its consumer. */
static uint64_t layout_class(const tensor_layout *layout)
{
    return layout_is_plain(layout) ? 0 : tiles_accept_layout(layout) ? layout_is_dense(layout) ? 1 : 2 : 4;
}

static void mix_window(kernel_key_words *words, const cpu_build *build, const kernel_layer *layer)
{
    const cpu_op *op = build->op;
    tensor_dims begins = { 0 }, ends = { 0 };

    cpu_window_pads(op, build->dims[op->in[0]] + 2, build->dims[op->out[0]] + 2, op->window.kernel, begins, ends);
    mix(words, (uint64_t)op->window.group);
    mix_dims(words, build, op->in[0]);
    mix_dims(words, build, op->out[0]);
    for (uint32_t i = 0; i < op->window.spatial; i++) {
        mix(words, (uint64_t)op->window.kernel[i]);
        mix(words, (uint64_t)op->window.strides[i]);
        mix(words, (uint64_t)op->window.dilations[i]);
        mix(words, (uint64_t)begins[i]);
        mix(words, (uint64_t)ends[i]);
    }
    mix(words, layer->bias_value != INLAY_NONE);
    mix(words, layout_class(&layer->input.layout));
    mix(words, layer->window.in_concat);
    mix(words, build->scales[op->in[0]] != INLAY_NONE);
    if (build->ahead[op->in[0]] != NULL)
        mix_dims(words, build, build->compiled->ops[build->ahead[op->in[0]]->group->op].in[0]);
}

static void mix_product(kernel_key_words *words, const cpu_build *build, const kernel_layer *layer)
{
    const cpu_op *op = build->op;

    mix(words, layer->gemm.packed);
    mix_dims(words, build, op->in[0]);
    mix_dims(words, build, op->in[1]);
    for (uint32_t i = 0; i < 2; i++)
        mix(words, build->places[op->in[i]].buffer != INLAY_NONE ? layout_class(&build->places[op->in[i]].layout) : 5);
    mix(words, op->product.trans_a);
    mix(words, op->product.trans_b);
    mix(words, op->in_count > 2 && op->in[2] != INLAY_NONE);
}

void kernel_layer_key(const cpu_build *build, const cpu_group *group, const kernel_layer *layer, uint64_t out[2])
{
    kernel_key_words words = { { 0x6b65726e656c7331u, layer->product ? 0x70726f6475637431u : 0x636f6e766f6c7665u } };

    mix(&words, build->instance->threads);
    if (layer->product)
        mix_product(&words, build, layer);
    else
        mix_window(&words, build, layer);
    mix(&words, group->bias != INLAY_NONE);
    for (uint32_t post_index = 0; post_index < group->post_count; post_index++) {
        const cpu_post *post = &group->posts[post_index];

        mix(&words, post->kind);
        mix(&words, post->kind == CPU_POST_UNARY ? (uint64_t)post->unary.function : (uint64_t)post->function);
        if (post->kind == CPU_POST_UNARY)
            continue;
        mix_dims(&words, build, post->other);
        mix(&words, cpu_is_last_use(build, post->other));
        mix(&words,
            build->places[post->other].buffer != INLAY_NONE ? layout_class(&build->places[post->other].layout) : 5);
    }
    memcpy(out, words.word, sizeof words.word);
}

void kernel_key(const kernel_choice *choice, uint32_t kernel, uint64_t out[2])
{
    kernel_key_words words = { { choice->key[0], choice->key[1] } };

    INLAY_CHECK(kernel < KERNEL_COUNT);

    for (const char *letter = kernel_table[kernel].name; *letter != '\0'; letter++)
        mix(&words, (uint64_t)(unsigned char)*letter);
    memcpy(out, words.word, sizeof words.word);
}
