/* The list of a constant's packs, and their memory, which may be in the host's cache. */
#include "cpu/weights/packs.h"
#include "cpu/weights/nbits_weights.h"

void pack_destroy(cpu_pack *pack)
{
    if (pack == NULL)
        return;
    if (!pack->hosts)
        free(pack->data);
    free(pack);
}

void cpu_constant_drop_trials(cpu_constant *constant)
{
    for (cpu_pack **at = &constant->packs; *at != NULL;) {
        cpu_pack *pack = *at;

        if (!pack->trial) {
            at = &pack->next;
            continue;
        }
        *at = pack->next;
        pack_destroy(pack);
    }
}

const cpu_pack *pack_to_unpack(const cpu_constant *constant)
{
    for (const cpu_pack *pack = constant->packs; pack != NULL; pack = pack->next)
        if (pack->md.kind == CPU_BLOCKED && pack->md.ndims == pack->plain.ndims)
            return pack;
    return NULL;
}

bool cpu_constant_is_packed(const cpu_constant *constant)
{
    for (const cpu_pack *pack = constant->packs; pack != NULL; pack = pack->next)
        if (nbits_is_pack(&pack->md))
            return true;
    return pack_to_unpack(constant) != NULL;
}

/* ------------------------------------------------------------------ packs in the host's cache */

typedef struct pack_words {
    int64_t word[12 + 6 * LIBRARY_MAX_NDIMS];
    uint32_t count;
} pack_words;

static void add_words(pack_words *list, const int64_t *words, int count)
{
    INLAY_CHECK(count >= 0 && list->count + (uint32_t)count <= KIT_COUNT(list->word));
    for (int i = 0; i < count; i++)
        list->word[list->count++] = words[i];
}

/* Appends the members of a layout that are in use. false: the pack cannot be cached, since these members do not
 * determine the layout. */
static bool add_layout(pack_words *words, const memory_desc *md)
{
    int rank = md->ndims, opaque;

    if (rank <= 0 || rank > LIBRARY_MAX_NDIMS)
        return false;
    add_words(words, (const int64_t[]){ rank, md->data_type, md->kind, md->inner_nblks }, 4);
    add_words(words, md->dims, rank);
    add_words(words, md->padded_dims, rank);
    if (md->kind == CPU_BLOCKED) {
        add_words(words, md->strides, rank);
        add_words(words, md->inner_blks, md->inner_nblks);
        add_words(words, md->inner_idxs, md->inner_nblks);
        return true;
    }
    if (nbits_is_pack(md)) {
        add_words(words, (const int64_t[]){ md->opaque, (int64_t)md->opaque_bytes }, 2);
        return true;
    }
    opaque = library_opaque_words(md, words->word + words->count,
                                  (int)(sizeof words->word / sizeof words->word[0] - words->count));
    words->count += (uint32_t)opaque;
    return opaque > 0;
}

inlay_status pack_allocate(inlay_compiled *compiled, const cpu_constant *constant, cpu_pack *pack, uint64_t bytes,
                           bool *out_known, inlay_diag *diag)
{
    pack_words from = { .count = 0 }, to = { .count = 0 };
    uint64_t key[3 + 2 * (sizeof from.word / sizeof from.word[0])];
    uint32_t count = 0, known = 0;
    inlay_status status = INLAY_UNSUPPORTED;

    *out_known = false;
    if (compiled->compiling != NULL && compiled->state->packs != NULL && constant->copy == NULL &&
        constant->content_hash != 0 && add_layout(&from, &pack->plain) && add_layout(&to, &pack->md)) {
        key[count++] = constant->content_hash;
        key[count++] = constant->shift;
        key[count++] = pack->md.kind == CPU_OPAQUE ? library_version() : 0; /* others do not depend on the library */
        memcpy(&key[count], from.word, from.count * sizeof *key);
        count += from.count;
        memcpy(&key[count], to.word, to.count * sizeof *key);
        count += to.count;
        INLAY_CHECK(count <= KIT_COUNT(key));
        status = compiled->state->packs->take(compiled->state->host->ctx, compiled->compiling, key, count * sizeof *key,
                                              bytes, &pack->data, &known);
    }
    pack->hosts = status == INLAY_OK;
    *out_known = pack->hosts && known != 0;
    if (!pack->hosts && posix_memalign(&pack->data, 64, bytes > 0 ? bytes : 1) != 0) {
        pack->data = NULL;
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "packing a constant of %llu bytes", (unsigned long long)bytes);
    }
    return INLAY_OK;
}

bool pack_by_kernel(const cpu_state *state, inlay_run *run, const memory_desc *plain, const void *source,
                    const memory_desc *md, void *target)
{
    for (const cpu_packer *pack = cpu_packers; *pack != NULL; pack++)
        if ((*pack)(state, run, plain, source, md, target))
            return true;
    return false;
}
