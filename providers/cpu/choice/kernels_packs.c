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

struct kn_packs {
    struct noted *buckets[BUCKETS];
};

kn_packs *kn_packs_create(void)
{
    return calloc(1, sizeof(kn_packs));
}

void kn_packs_destroy(kn_packs *p)
{
    if (p == NULL)
        return;
    for (uint32_t i = 0; i < BUCKETS; i++)
        while (p->buckets[i] != NULL) {
            struct noted *next = p->buckets[i]->next;

            free(p->buckets[i]);
            p->buckets[i] = next;
        }
    free(p);
}

/* The large constant that the op in hand has as its weights; NULL: none. */
static const rg_constant *weights_of(const rg_build *b)
{
    const uint32_t own = b->op->in_count > 1 ? b->c->values[b->op->in[1]].constant : INLAY_NONE;
    const rg_constant *k = own != INLAY_NONE ? &b->c->constants[own] : NULL;

    return k != NULL && k->content_hash != 0 && k->bytes >= LEAST_BYTES ? k : NULL;
}

static struct noted *find(const kn_packs *p, uint64_t content)
{
    struct noted *n = p->buckets[content % BUCKETS];

    while (n != NULL && n->content != content)
        n = n->next;
    return n;
}

uint32_t kn_packs_find(const rg_build *b)
{
    kn_packs *p = b->state->packed_for;
    const rg_constant *k = weights_of(b);
    const struct noted *n;
    uint32_t kernel;

    if (k == NULL)
        return KN_COUNT;
    (void)pthread_mutex_lock(&lock);
    n = find(p, k->content_hash);
    kernel = n != NULL ? n->kernel : KN_COUNT;
    (void)pthread_mutex_unlock(&lock);
    return kernel;
}

void kn_packs_note(const rg_build *b, uint8_t kernel)
{
    kn_packs *p = b->state->packed_for;
    const rg_constant *k = weights_of(b);
    struct noted *n;

    if (k == NULL)
        return;
    (void)pthread_mutex_lock(&lock);
    n = find(p, k->content_hash) == NULL ? malloc(sizeof *n) : NULL;
    if (n != NULL) { /* without memory for it, the next one chooses for itself */
        *n = (struct noted){ .next = p->buckets[k->content_hash % BUCKETS],
                             .content = k->content_hash,
                             .kernel = kernel };
        p->buckets[k->content_hash % BUCKETS] = n;
    }
    (void)pthread_mutex_unlock(&lock);
}
