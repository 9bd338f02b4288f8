/* Constants in oneDNN's layouts: packed once, shared by all shapes. */
#include "weights/halves.h"
#include "weights/narrow.h"
#include "weights/nbits_weights.h"
#include "weights/packs.h"
#include "weights/sparse_weights.h"
#include "choice/trust.h"

/* Files lay elements at any address. x86 loads them from there; elsewhere a constant is copied first. */
#if defined(__x86_64__) || defined(__i386__)
enum { MUST_ALIGN = 0 };
#else
enum { MUST_ALIGN = 1 };
#endif

void rg_constant_deinit(rg_constant *k)
{
    while (k->packs != NULL) {
        rg_pack *next = k->packs->next;

        pack_destroy(k->packs);
        k->packs = next;
    }
    for (size_t i = 0; i < KIT_COUNT(k->trusts); i++)
        free(k->trusts[i]);
    free(k->copy);
    free(k->sums);
    narrow_destroy(k->narrow);
}

/* Elements of the original at dense strides, from a pack, when the original has gone. */
static inlay_status unpack(const inlay_compiled *c, const rg_constant *k, void **out_plain, inlay_diag *diag)
{
    const rg_pack *from = pack_to_unpack(k);
    inlay_status status;

    *out_plain = NULL;
    if (from == NULL)
        return inlay_fail(diag, INLAY_INTERNAL, "a constant that was dropped is needed again");
    if (posix_memalign(out_plain, 64, k->bytes + 64) != 0) {
        *out_plain = NULL;
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "a constant of %llu bytes", (unsigned long long)k->bytes);
    }
    status = rg_reorder_now(c->state, &from->md, from->data, &from->plain, *out_plain, diag);
    if (status != INLAY_OK) {
        free(*out_plain);
        *out_plain = NULL;
    }
    return status;
}

/* uint8 as int8, which is what oneDNN wants weights to be: 128 less each. */
static inlay_status shift(const rg_constant *k, void **out, inlay_diag *diag)
{
    const uint8_t *from = k->data;
    uint8_t *to;

    if (posix_memalign(out, 64, k->bytes + 64) != 0) {
        *out = NULL;
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "a constant of %llu bytes", (unsigned long long)k->bytes);
    }
    to = *out;
    for (uint64_t i = 0; i < k->bytes; i++)
        to[i] = from[i] ^ 0x80;
    return INLAY_OK;
}

static void let_go(const inlay_compiled *c, const rg_constant *k)
{
    for (int i = 0;
         i < 2 && (k->entries.count > 0 || k->halves != NULL) && c->compiling != NULL && c->state->constants != NULL;
         i++)
        c->state->constants->release(c->state->host->ctx, c->compiling, k->sources[i]);
    if (c->compiling != NULL && c->state->constants != NULL && k->data != NULL && k->copy == NULL)
        c->state->constants->release(c->state->host->ctx, c->compiling, k->value);
}

/* A large matrix slice by slice along its rows in the file, each of which leaves memory before the next comes: original
 * and pack are never both there. false: not for these layouts; nothing has been lost. */
static bool reorder_slices(const inlay_compiled *c, const rg_constant *k, const rg_pack *p, const void *source)
{
    enum { SLICE_BYTES = 16 << 20, BLOCK = 64 };
    const int64_t *strides = p->plain.strides;
    int axis = strides[0] >= strides[1] ? 0 : 1;
    int64_t rows = p->plain.dims[axis], step;

    if (source != k->data || k->bytes < 2 * SLICE_BYTES || p->plain.ndims != 2 || p->md.ndims != 2 ||
        p->plain.kind != RG_BLOCKED || p->md.kind != RG_BLOCKED || rows * strides[axis] <= 0)
        return false;
    step = SLICE_BYTES / (strides[axis] * (int64_t)sizeof(float)) / BLOCK * BLOCK;
    step = step < BLOCK ? BLOCK : step;
    for (int64_t at = 0; at < rows; at += step) {
        dn_dims dims = { p->plain.dims[0], p->plain.dims[1] }, offsets = { 0, 0 };

        dims[axis] = rows - at < step ? rows - at : step;
        offsets[axis] = at;
        if (weights_reorder_part(c->state, &p->plain, source, &p->md, p->data, dims, offsets) != DN_SUCCESS)
            return false;
        let_go(c, k);
    }
    return true;
}

/* The original's elements, or a copy of them: *out_copy, which the caller frees; NULL: none was needed. */
static inlay_status read_source(const inlay_compiled *c, const rg_constant *k, const void **out_source, void **out_copy,
                                inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    *out_copy = NULL;
    *out_source = k->data;
    if (k->entries.count > 0) {
        status = sparse_unfold(k, out_copy, diag);
    } else if (k->halves != NULL) {
        status = halves_floats(k, out_copy, diag);
    } else if (k->narrow != NULL) {
        status = narrow_floats(c, k, out_copy, diag);
    } else if (k->data == NULL) {
        status = unpack(c, k, out_copy, diag);
    } else if (k->shifted) {
        status = shift(k, out_copy, diag);
    } else if (MUST_ALIGN && (uintptr_t)k->data % sizeof(float) != 0) {
        if (posix_memalign(out_copy, 64, k->bytes) != 0) {
            *out_copy = NULL;
            return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "a constant of %llu bytes", (unsigned long long)k->bytes);
        }
        memcpy(*out_copy, k->data, k->bytes);
    }
    *out_source = *out_copy != NULL ? *out_copy : k->data;
    return status;
}

static inlay_status fill_pack(inlay_compiled *c, const rg_constant *k, rg_pack *p, inlay_diag *diag)
{
    void *unpacked = NULL;
    const void *source;
    inlay_status status = INLAY_OK;

    if (k->entries.count > 0 && sparse_pack_entries(k, &p->plain, &p->md, p->data))
        goto made;
    INLAY_TRY(read_source(c, k, &source, &unpacked, diag));
    if (rg_md_equal(&p->plain, &p->md))
        memcpy(p->data, source, rg_md_bytes(&p->md));
    else if (nbits_is_pack(&p->md))
        nbits_pack(c->state, source, &p->md, p->data);
    else if (!pack_by_kernel(c->state, NULL, &p->plain, source, &p->md, p->data) &&
             !dn_in_use->pack_winograd(c->state, &p->plain, source, &p->md, p->data) &&
             !rg_md_copy(&p->plain, source, &p->md, p->data) && !reorder_slices(c, k, p, source))
        INLAY_TRY(rg_reorder_now(c->state, &p->plain, source, &p->md, p->data, diag));
made:
    if (p->hosts)
        c->state->packs->keep(c->state->host->ctx, c->compiling, p->data);
    let_go(c, k);
done:
    free(unpacked);
    return status;
}

inlay_status rg_constant_pack(inlay_compiled *c, rg_constant *k, const rg_md *plain, const rg_md *md,
                              const rg_pack **out_pack, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    bool known;
    rg_pack *p;

    *out_pack = NULL;
    if (rg_md_bytes(plain) > k->bytes) /* shapes that were assumed need not go together */
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "a constant of %llu bytes is to be read as one of %llu",
                          (unsigned long long)k->bytes, (unsigned long long)rg_md_bytes(plain));
    for (rg_pack *made = k->packs; made != NULL; made = made->next) {
        if (rg_md_equal(&made->md, md) && rg_md_equal(&made->plain, plain)) {
            made->trial = made->trial && c->trying;
            *out_pack = made;
            return INLAY_OK;
        }
    }
    p = calloc(1, sizeof *p);
    if (p == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to pack a constant");
    p->plain = *plain;
    p->md = *md;
    p->trial = c->trying;
    if (k->narrow != NULL) {
        INLAY_TRY(narrow_pack(c, k, plain, md, &p->data, diag));
        known = true;
    } else {
        INLAY_TRY(pack_room(c, k, p, rg_md_bytes(md), &known, diag));
    }
    if (!known)
        INLAY_TRY(fill_pack(c, k, p, diag));
    else
        let_go(c, k); /* what was hashed has been read */
    p->next = k->packs;
    k->packs = p;
    *out_pack = p;
    p = NULL;
done:
    pack_destroy(p);
    return status;
}

/* ------------------------------------------------------------------ measurements that the host keeps */

inlay_status rg_constant_trust(inlay_compiled *c, rg_constant *k, const rg_md *plain, int64_t points,
                               const tile_trust **out_trust, inlay_diag *diag)
{
    const bool kept = c->compiling != NULL && c->state->packs != NULL && k->copy == NULL && k->content_hash != 0;
    const uint64_t key[] = { k->content_hash, UINT64_C(0x7472757374000001), (uint64_t)points, (uint64_t)plain->dims[0],
                             (uint64_t)plain->dims[1] };
    const uint64_t bytes = tiles_trust_bytes(plain->ndims > 1 ? plain->dims[1] : 0);
    tile_trust **known = &k->trusts[points == 6], *trust = NULL;
    const void *source;
    void *copy = NULL, *room = NULL;
    uint32_t found = 0;
    inlay_status status = INLAY_OK;

    *out_trust = *known;
    if (*known != NULL)
        return INLAY_OK;
    trust = malloc(bytes);
    if (trust == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to measure what weights do to an error");
    if (kept &&
        c->state->packs->take(c->state->host->ctx, c->compiling, key, sizeof key, bytes, &room, &found) != INLAY_OK)
        room = NULL;
    if (room != NULL && found != 0) {
        memcpy(trust, room, bytes);
    } else {
        status = read_source(c, k, &source, &copy, diag);
        if (status != INLAY_OK)
            goto done;
        if (!tiles_measure_trust(c->state, plain, source, points, trust)) {
            status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to measure what weights do to an error");
            goto done;
        }
        if (room != NULL) {
            memcpy(room, trust, bytes);
            c->state->packs->keep(c->state->host->ctx, c->compiling, room);
        }
    }
    *out_trust = *known = trust;
    trust = NULL;
done:
    free(trust);
    free(copy);
    return status;
}
