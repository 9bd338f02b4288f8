/* The kernel that large weights are packed for. The weights of one session are packed once for all shapes and all
 * regions that read them (for instance the branches of an If), where that costs little time. */
#include "cpu/choice/kernels.h"
#include "inlay/check.h"
#include "simd/at_fork.h"
#include <stdlib.h>

enum { BUCKETS = 64, MIN_BYTES = 1 << 16 };

struct pack_record {
    struct pack_record *next;
    uint64_t content;
    uint8_t kernel;
};

/* guards all registries: a provider's registry outlives a session */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static __attribute__((constructor)) void guard_lock(void)
{
    lock_at_fork(&lock);
}

struct pack_registry {
    struct pack_record *buckets[BUCKETS];
};

pack_registry *pack_registry_create(void)
{
    return calloc(1, sizeof(pack_registry));
}

void pack_registry_destroy(pack_registry *packs)
{
    if (packs == NULL)
        return;
    for (uint32_t i = 0; i < BUCKETS; i++)
        while (packs->buckets[i] != NULL) {
            struct pack_record *next = packs->buckets[i]->next;

            free(packs->buckets[i]);
            packs->buckets[i] = next;
        }
    free(packs);
}

/* The large constant that is the weights operand of build->op; NULL: none. */
static const cpu_constant *large_weights(const cpu_build *build)
{
    const uint32_t own = build->op->in_count > 1 ? build->compiled->values[build->op->in[1]].constant : INLAY_NONE;
    const cpu_constant *constant = own != INLAY_NONE ? &build->compiled->constants[own] : NULL;

    return constant != NULL && constant->content_hash != 0 && constant->bytes >= MIN_BYTES ? constant : NULL;
}

static struct pack_record *find(const pack_registry *packs, uint64_t content)
{
    struct pack_record *pack_record = packs->buckets[content % BUCKETS];

    while (pack_record != NULL && pack_record->content != content)
        pack_record = pack_record->next;
    return pack_record;
}

uint32_t kernel_packs_find(const cpu_build *build)
{
    pack_registry *packs = build->state->packed_for;
    const cpu_constant *constant = large_weights(build);
    const struct pack_record *pack_record;
    uint32_t kernel;

    if (constant == NULL)
        return KERNEL_COUNT;
    (void)pthread_mutex_lock(&lock);
    pack_record = find(packs, constant->content_hash);
    kernel = pack_record != NULL ? pack_record->kernel : KERNEL_COUNT;
    (void)pthread_mutex_unlock(&lock);
    return kernel;
}

void kernel_packs_note(const cpu_build *build, uint8_t kernel)
{
    pack_registry *packs = build->state->packed_for;
    const cpu_constant *constant = large_weights(build);
    struct pack_record *pack_record;

    INLAY_CHECK(kernel < KERNEL_COUNT);

    if (constant == NULL)
        return;
    (void)pthread_mutex_lock(&lock);
    pack_record = find(packs, constant->content_hash) == NULL ? malloc(sizeof *pack_record) : NULL;
    if (pack_record != NULL) { /* out of memory: the next layer chooses independently */
        *pack_record = (struct pack_record){ .next = packs->buckets[constant->content_hash % BUCKETS],
                                             .content = constant->content_hash,
                                             .kernel = kernel };
        packs->buckets[constant->content_hash % BUCKETS] = pack_record;
    }
    (void)pthread_mutex_unlock(&lock);
}
