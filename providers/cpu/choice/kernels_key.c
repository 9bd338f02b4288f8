/* By what the timings of a layer's kernels are found again. */
#include "choice/kernels.h"
#include <string.h>

static void mix(kn_key_words *k, uint64_t value)
{
    for (int i = 0; i < 2; i++) {
        k->word[i] = (k->word[i] ^ value) * UINT64_C(0x9e3779b97f4a7c15);
        k->word[i] ^= k->word[i] >> (29 + 3 * i);
    }
}

static void mix_dims(kn_key_words *k, const rg_build *b, uint32_t value)
{
    mix(k, b->ranks[value]);
    for (uint32_t d = 0; d < b->ranks[value]; d++)
        mix(k, (uint64_t)b->dims[value][d]);
}

/* How elements lie, as far as it matters to who reads them. */
static uint64_t layout_class(const rg_md *md)
{
    return rg_md_is_blocked(md) ? 3 : rg_md_is_plain(md) ? 0 : tiles_lie_well(md) ? rg_md_is_dense(md) ? 1 : 2 : 4;
}

static void mix_window(kn_key_words *k, const rg_build *b, const kn_case *c)
{
    const rg_op *op = b->op;
    dn_dims begins = { 0 }, ends = { 0 };

    rg_window_pads(op, b->dims[op->in[0]] + 2, b->dims[op->out[0]] + 2, op->window.kernel, begins, ends);
    mix(k, (uint64_t)op->window.group);
    mix_dims(k, b, op->in[0]);
    mix_dims(k, b, op->out[0]);
    for (uint32_t i = 0; i < op->window.spatial; i++) {
        mix(k, (uint64_t)op->window.kernel[i]);
        mix(k, (uint64_t)op->window.strides[i]);
        mix(k, (uint64_t)op->window.dilations[i]);
        mix(k, (uint64_t)begins[i]);
        mix(k, (uint64_t)ends[i]);
    }
    mix(k, c->bias_value != INLAY_NONE);
    mix(k, layout_class(&c->x.md));
    mix(k, c->w.home);
    mix(k, b->scales[op->in[0]] != INLAY_NONE);
    if (b->ahead[op->in[0]] != NULL)
        mix_dims(k, b, b->c->ops[b->ahead[op->in[0]]->group->op].in[0]);
}

static void mix_product(kn_key_words *k, const rg_build *b, const kn_case *c)
{
    const rg_op *op = b->op;

    mix(k, c->p.packed);
    mix_dims(k, b, op->in[0]);
    mix_dims(k, b, op->in[1]);
    for (uint32_t i = 0; i < 2; i++)
        mix(k, b->places[op->in[i]].buffer != INLAY_NONE ? layout_class(&b->places[op->in[i]].md) : 5);
    mix(k, op->product.trans_a);
    mix(k, op->product.trans_b);
    mix(k, op->in_count > 2 && op->in[2] != INLAY_NONE);
}

void kn_layer_key(const rg_build *b, const rg_group *group, const kn_case *c, uint64_t out[2])
{
    kn_key_words k = { { 0x6b65726e656c7331u, c->product ? 0x70726f6475637431u : 0x636f6e766f6c7665u } };

    mix(&k, b->instance->threads);
    if (c->product)
        mix_product(&k, b, c);
    else
        mix_window(&k, b, c);
    mix(&k, group->bias != INLAY_NONE);
    for (uint32_t p = 0; p < group->post_count; p++) {
        const rg_post *post = &group->posts[p];

        mix(&k, post->kind);
        mix(&k, post->kind == RG_POST_ELTWISE ? (uint64_t)post->eltwise.alg : (uint64_t)post->alg);
        if (post->kind == RG_POST_ELTWISE)
            continue;
        mix_dims(&k, b, post->other);
        mix(&k, rg_is_last_use(b, post->other));
        mix(&k, b->places[post->other].buffer != INLAY_NONE ? layout_class(&b->places[post->other].md) : 5);
    }
    memcpy(out, k.word, sizeof k.word);
}

void kn_key(const kn_choice *choice, uint32_t kernel, uint64_t out[2])
{
    kn_key_words k = { { choice->key[0], choice->key[1] } };

    for (const char *c = kn_kernels[kernel].name; *c != '\0'; c++)
        mix(&k, (uint64_t)(unsigned char)*c);
    memcpy(out, k.word, sizeof k.word);
}
