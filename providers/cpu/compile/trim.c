/* Extension inlay.control/1: frees what later builds of instances would reuse (INLAY_CONTROL_TRIM). That is, of each
 * region, the newest instance if no run uses it, packed weights that no instance reads and that can be made again, and
 * the arenas of builds. The instance that compile made stays with its packed weights. */
#include "cpu/compile/compile.h"
#include "inlay/extensions.h"
#include "inlay/plugin.h"
#include "cpu/weights/packs.h"
#include "simd/at_fork.h"

/* guards all lists of regions: a provider outlives sessions */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static __attribute__((constructor)) void guard_lock(void)
{
    lock_at_fork(&lock);
}

void cpu_region_list(inlay_compiled *compiled)
{
    inlay_compiled **first = compiled->state->regions;

    if (first == NULL)
        return;
    (void)pthread_mutex_lock(&lock);
    compiled->next = *first;
    compiled->link = first;
    if (compiled->next != NULL)
        compiled->next->link = &compiled->next;
    *first = compiled;
    (void)pthread_mutex_unlock(&lock);
}

void cpu_region_unlist(inlay_compiled *compiled)
{
    if (compiled->link == NULL)
        return;
    (void)pthread_mutex_lock(&lock);
    *compiled->link = compiled->next;
    if (compiled->next != NULL)
        compiled->next->link = compiled->link;
    (void)pthread_mutex_unlock(&lock);
}

/* Takes the newest instance out of the region if nothing else uses it. Under compiled->lock. */
static inlay_instance *take_last(inlay_compiled *compiled)
{
    inlay_instance *last = compiled->last;

    if (last == NULL || last->references > 1)
        return NULL;
    compiled->last = NULL;
    return last;
}

/* Trims a region, unless an instance of it is being built. */
static uint64_t trim_region(inlay_compiled *compiled, uint64_t *inout_spare)
{
    uint64_t freed = 0;

    if (pthread_mutex_trylock(&compiled->lock) != 0)
        return 0;
    cpu_instance_destroy(take_last(compiled));
    for (uint32_t i = 0; i < compiled->constant_count; i++)
        freed += cpu_constant_trim(&compiled->constants[i], inout_spare);
    (void)pthread_mutex_unlock(&compiled->lock);
    cpu_scratch_drop(&compiled->spare);
    return freed;
}

inlay_status cpu_control(void *state_, inlay_control_args *args, inlay_diag *diag)
{
    const cpu_state *state = state_;
    uint64_t spare = args->bytes;

    if (args->action != INLAY_CONTROL_TRIM)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "provider cpu can only release unused memory");
    (void)pthread_mutex_lock(&lock);
    for (inlay_compiled *compiled = *state->regions; compiled != NULL; compiled = compiled->next)
        args->freed_bytes += trim_region(compiled, &spare);
    (void)pthread_mutex_unlock(&lock);
    cpu_scratch_drop(state->scratch);
    return INLAY_OK;
}
