/* Packs of a constant: which there are, and where their bytes lie, perhaps in memory that the host keeps. */
#include "weights/packs.h"
#include "weights/nbits_weights.h"

void pack_destroy(rg_pack *p)
{
    if (p == NULL)
        return;
    if (!p->hosts)
        free(p->data);
    free(p);
}

void rg_constant_drop_trials(rg_constant *k)
{
    for (rg_pack **at = &k->packs; *at != NULL;) {
        rg_pack *p = *at;

        if (!p->trial) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        pack_destroy(p);
    }
}

const rg_pack *pack_to_unpack(const rg_constant *k)
{
    for (const rg_pack *p = k->packs; p != NULL; p = p->next)
        if (p->md.kind == RG_BLOCKED && p->md.ndims == p->plain.ndims)
            return p;
    return NULL;
}

/* Weights of a few bits are never needed in another layout. */
bool rg_constant_is_packed(const rg_constant *k)
{
    for (const rg_pack *p = k->packs; p != NULL; p = p->next)
        if (nbits_is_pack(&p->md))
            return true;
    return pack_to_unpack(k) != NULL;
}

/* ------------------------------------------------------------------ packs that the host keeps */

typedef struct pack_words {
    int64_t word[12 + 6 * DN_MAX_NDIMS];
    uint32_t count;
} pack_words;

static void add_words(pack_words *w, const int64_t *words, int count)
{
    for (int i = 0; i < count; i++)
        w->word[w->count++] = words[i];
}

/* All that a layout is, without the bytes between and behind what counts. false: none that may be kept, since more than
 * this decides it. */
static bool add_layout(pack_words *w, const rg_md *md)
{
    int n = md->ndims, opaque;

    if (n <= 0 || n > DN_MAX_NDIMS)
        return false;
    add_words(w, (const int64_t[]){ n, md->data_type, md->kind, md->inner_nblks }, 4);
    add_words(w, md->dims, n);
    add_words(w, md->padded_dims, n);
    if (md->kind == RG_BLOCKED) {
        add_words(w, md->strides, n);
        add_words(w, md->inner_blks, md->inner_nblks);
        add_words(w, md->inner_idxs, md->inner_nblks);
        return true;
    }
    if (nbits_is_pack(md)) {
        add_words(w, (const int64_t[]){ md->opaque, (int64_t)md->opaque_bytes }, 2);
        return true;
    }
    opaque = dn_opaque_words(md, w->word + w->count, (int)(sizeof w->word / sizeof w->word[0] - w->count));
    w->count += (uint32_t)opaque;
    return opaque > 0;
}

inlay_status pack_room(inlay_compiled *c, const rg_constant *k, rg_pack *p, uint64_t bytes, bool *out_known,
                       inlay_diag *diag)
{
    pack_words from = { .count = 0 }, to = { .count = 0 };
    uint64_t key[3 + 2 * (sizeof from.word / sizeof from.word[0])];
    uint32_t count = 0, known = 0;
    inlay_status status = INLAY_UNSUPPORTED;

    *out_known = false;
    if (c->compiling != NULL && c->state->packs != NULL && k->copy == NULL && k->content_hash != 0 &&
        add_layout(&from, &p->plain) && add_layout(&to, &p->md)) {
        key[count++] = k->content_hash;
        key[count++] = k->shifted;
        key[count++] = p->md.kind == RG_OPAQUE ? dn_version() : 0; /* strides and blocks say all of others */
        memcpy(&key[count], from.word, from.count * sizeof *key);
        count += from.count;
        memcpy(&key[count], to.word, to.count * sizeof *key);
        count += to.count;
        status =
            c->state->packs->take(c->state->host->ctx, c->compiling, key, count * sizeof *key, bytes, &p->data, &known);
    }
    p->hosts = status == INLAY_OK;
    *out_known = p->hosts && known != 0;
    if (!p->hosts && posix_memalign(&p->data, 64, bytes > 0 ? bytes : 1) != 0) {
        p->data = NULL;
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "packing a constant of %llu bytes", (unsigned long long)bytes);
    }
    return INLAY_OK;
}

bool pack_by_kernel(const rg_state *state, inlay_run *run, const rg_md *plain, const void *source, const rg_md *md,
                    void *target)
{
    for (const rg_packer *pack = rg_packers; *pack != NULL; pack++)
        if ((*pack)(state, run, plain, source, md, target))
            return true;
    return false;
}
