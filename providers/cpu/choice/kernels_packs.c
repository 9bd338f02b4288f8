/* Which kernel large weights are packed for: those of one session are packed once, for all sizes and all regions that
 * read them (the branches of an If, say), where that costs little. */
#include "choice/kernels.h"
#include "simd/at_fork.h"
#include <stdlib.h>

enum { BUCKETS = 64, LEAST_BYTES = 1 << 16 };

struct noted {
    struct noted *next;
    uint64_t content;
    uint8_t kernel;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all lists: a provider's outlives a session */

static __attribute__((constructor)) void guard_lock(void)
{
    lock_at_fork(&lock);
}

struct kernel_packs {
    struct noted *buckets[BUCKETS];
};

kernel_packs *kernel_packs_create(void)
{
    return calloc(1, sizeof(kernel_packs));
}

void kernel_packs_destroy(kernel_packs *packs)
{
    if (packs == NULL)
        return;
    for (uint32_t i = 0; i < BUCKETS; i++)
        while (packs->buckets[i] != NULL) {
            struct noted *next = packs->buckets[i]->next;

            free(packs->buckets[i]);
            packs->buckets[i] = next;
        }
    free(packs);
}

/* The large constant that the op in hand has as its weights; NULL: none. */
static const cpu_constant *weights_of(const cpu_build *build)
{
    const uint32_t own = build->op->in_count > 1 ? build->compiled->values[build->op->in[1]].constant : INLAY_NONE;
    const cpu_constant *constant = own != INLAY_NONE ? &build->compiled->constants[own] : NULL;

    return constant != NULL && constant->content_hash != 0 && constant->bytes >= LEAST_BYTES ? constant : NULL;
}

static struct noted *find(const kernel_packs *packs, uint64_t content)
{
    struct noted *noted = packs->buckets[content % BUCKETS];

    while (noted != NULL && noted->content != content)
        noted = noted->next;
    return noted;
}

uint32_t kernel_packs_find(const cpu_build *build)
{
    kernel_packs *packs = build->state->packed_for;
    const cpu_constant *constant = weights_of(build);
    const struct noted *noted;
    uint32_t kernel;

    if (constant == NULL)
        return KERNEL_COUNT;
    (void)pthread_mutex_lock(&lock);
    noted = find(packs, constant->content_hash);
    kernel = noted != NULL ? noted->kernel : KERNEL_COUNT;
    (void)pthread_mutex_unlock(&lock);
    return kernel;
}

void kernel_packs_note(const cpu_build *build, uint8_t kernel)
{
    kernel_packs *packs = build->state->packed_for;
    const cpu_constant *constant = weights_of(build);
    struct noted *noted;

    if (constant == NULL)
        return;
    (void)pthread_mutex_lock(&lock);
    noted = find(packs, constant->content_hash) == NULL ? malloc(sizeof *noted) : NULL;
    if (noted != NULL) { /* without memory for it, the next one chooses for itself */
        *noted = (struct noted){ .next = packs->buckets[constant->content_hash % BUCKETS],
                                 .content = constant->content_hash,
                                 .kernel = kernel };
        packs->buckets[constant->content_hash % BUCKETS] = noted;
    }
    (void)pthread_mutex_unlock(&lock);
}
