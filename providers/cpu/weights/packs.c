/* The list of a constant's packs, and their memory, which may be in the host's cache. */
#include "cpu/weights/packs.h"
#include "inlay/extensions.h"
#include "cpu/weights/nbits_weights.h"
#include "kit/large_pages.h"

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

bool cpu_constant_has_pack(const cpu_constant *constant, const tensor_layout *layout)
{
    const cpu_pack *pack = constant->packs;

    while (pack != NULL && (pack->trial || !layout_equal(&pack->layout, layout)))
        pack = pack->next;
    return pack != NULL;
}

uint64_t cpu_constant_excess(const cpu_constant *constant)
{
    uint64_t bytes = 0;

    for (const cpu_pack *pack = constant->packs; pack != NULL; pack = pack->next)
        bytes += pack->bytes;
    return bytes > constant->bytes ? bytes - constant->bytes : 0;
}

uint64_t cpu_constant_trim(cpu_constant *constant, uint64_t *inout_spare)
{
    uint64_t freed = 0;

    for (cpu_pack **at = &constant->packs; *at != NULL;) {
        cpu_pack *pack = *at;
        const bool unused = pack->late && __atomic_load_n(&pack->users, __ATOMIC_ACQUIRE) == 0;

        if (!unused || pack->bytes <= *inout_spare) {
            *inout_spare -= unused ? pack->bytes : 0;
            at = &pack->next;
            continue;
        }
        freed += pack->bytes;
        *at = pack->next;
        pack_destroy(pack);
    }
    return freed;
}

const cpu_pack *pack_to_unpack(const cpu_constant *constant)
{
    for (const cpu_pack *pack = constant->packs; pack != NULL && constant->shift == 0; pack = pack->next)
        if (!pack->trial && pack->layout.kind == LAYOUT_STRIDED && pack->layout.rank == pack->plain.rank &&
            layout_bytes(&pack->plain) == constant->bytes)
            return pack;
    return NULL;
}

bool pack_replaces(const inlay_compiled *compiled, const cpu_constant *constant)
{
    return !constant->plain_used &&
           (pack_to_unpack(constant) != NULL || (compiled->state->regions == NULL && constant->packs != NULL));
}

typedef struct pack_words {
    int64_t word[12 + 6 * TENSOR_MAX_RANK];
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
static bool add_layout(pack_words *words, const tensor_layout *layout)
{
    int rank = layout->rank;

    if (rank <= 0 || rank > TENSOR_MAX_RANK)
        return false;
    add_words(words, (const int64_t[]){ rank, layout->type, layout->kind, layout->block_count }, 4);
    add_words(words, layout->dims, rank);
    add_words(words, layout->padded_dims, rank);
    if (layout->kind == LAYOUT_STRIDED) {
        add_words(words, layout->strides, rank);
        add_words(words, layout->blocks, layout->block_count);
        add_words(words, layout->block_axes, layout->block_count);
        return true;
    }
    if (nbits_is_pack(layout)) {
        add_words(words, (const int64_t[]){ layout->packing, (int64_t)layout->packed_bytes }, 2);
        return true;
    }
    return false;
}

inlay_status pack_allocate(inlay_compiled *compiled, const cpu_constant *constant, cpu_pack *pack, uint64_t bytes,
                           bool *out_known, inlay_diag *diag)
{
    pack_words from = { .count = 0 }, to = { .count = 0 };
    uint64_t key[3 + 2 * (sizeof from.word / sizeof from.word[0])];
    uint32_t count = 0, known = 0;
    inlay_status status = INLAY_UNSUPPORTED;

    *out_known = false;
    if (compiled->compiling != NULL && compiled->state->packs != NULL && constant->content_hash != 0 &&
        add_layout(&from, &pack->plain) && add_layout(&to, &pack->layout)) {
        key[count++] = constant->content_hash;
        key[count++] = constant->shift;
        key[count++] = 0; /* kept, so that packs in caches stay valid */
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
    if (pack->hosts)
        return INLAY_OK;
    if (posix_memalign(&pack->data, bytes >= PAGES_LARGE ? PAGES_LARGE : 64, bytes > 0 ? bytes : 1) != 0) {
        pack->data = NULL;
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "packing a constant of %llu bytes", (unsigned long long)bytes);
    }
    pages_large(pack->data, bytes);
    return INLAY_OK;
}

void *cpu_constant_fact(const inlay_compiled *compiled, const cpu_constant *constant, const uint64_t *key,
                        uint32_t key_count, uint64_t bytes, bool *out_known)
{
    void *data = NULL;
    uint32_t known = 0;

    INLAY_CHECK(key_count > 0 && key[0] == constant->content_hash);
    *out_known = false;
    if (compiled->compiling == NULL || compiled->state->packs == NULL || constant->content_hash == 0 ||
        compiled->state->packs->take(compiled->state->host->ctx, compiled->compiling, key, key_count * sizeof *key,
                                     bytes, &data, &known) != INLAY_OK)
        return NULL;
    *out_known = known != 0;
    return data;
}

bool pack_by_kernel(const cpu_state *state, inlay_run *run, const tensor_layout *plain, const void *source,
                    const tensor_layout *layout, void *target)
{
    for (const cpu_packer *pack = cpu_packers; *pack != NULL; pack++)
        if ((*pack)(state, run, plain, source, layout, target))
            return true;
    return false;
}
