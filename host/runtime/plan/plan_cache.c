/* plan/plan_cache.c - the plans of a program: found by the shapes of the inputs, kept while they are used. */
#include "base/heap.h"
#include "plan/plan.h"
#include "base/hash.h"
#include <stdlib.h>
#include <string.h>

static uint32_t key_length(const plan_input *inputs, uint32_t count)
{
    uint32_t n = 2 * count;

    for (uint32_t i = 0; i < count; i++)
        n += inputs[i].rank == INLAY_RANK_UNKNOWN ? 0 : inputs[i].rank;
    return n;
}

/* Type, rank and place of an input in one number. */
static int64_t kind_of(const plan_input *x)
{
    return ((int64_t)x->also << 52) | ((int64_t)x->domain << 40) | ((int64_t)x->dtype << 32) | x->rank;
}

bool plan_set_key(plan *p, const plan_input *inputs, uint32_t count)
{
    int64_t *k;

    p->key_count = key_length(inputs, count);
    k = p->key = arena_array(&p->a, (size_t)p->key_count + 1, sizeof *p->key);
    if (k == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t rank = inputs[i].rank == INLAY_RANK_UNKNOWN ? 0 : inputs[i].rank;
        *k++ = kind_of(&inputs[i]);
        *k++ = (int64_t)inputs[i].room;
        if (rank > 0)
            memcpy(k, inputs[i].dims, rank * sizeof *k);
        k += rank;
    }
    return true;
}

/* The shapes in one number. */
static uint64_t key_hash(const plan_input *inputs, uint32_t count)
{
    uint64_t h = 0;

    for (uint32_t i = 0; i < count; i++) {
        h = hash_u64(h, (uint64_t)kind_of(&inputs[i]));
        h = hash_u64(h, inputs[i].room);
        for (uint32_t d = 0; inputs[i].rank != INLAY_RANK_UNKNOWN && d < inputs[i].rank; d++)
            h = hash_u64(h, (uint64_t)inputs[i].dims[d]);
    }
    return h;
}

bool plan_fits(const plan *p, const plan_input *inputs, uint32_t count)
{
    const int64_t *k = p->key, *end = p->key + p->key_count;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t rank = inputs[i].rank == INLAY_RANK_UNKNOWN ? 0 : inputs[i].rank;
        if (end - k < (int64_t)rank + 2 || k[0] != kind_of(&inputs[i]) || k[1] != (int64_t)inputs[i].room)
            return false;
        k += 2;
        for (uint32_t d = 0; d < rank; d++)
            if (*k++ != inputs[i].dims[d])
                return false;
    }
    return k == end;
}

/* Plans of one program are alike: what one had is enough for the next, and no pages are new. */
static void keep_memory(plan *p)
{
    enum { KEPT_BYTES = 4 << 20 };
    program *prog = p->program;
    arena memory = p->a;
    plan *other = p;

    if (memory.total_bytes <= KEPT_BYTES) {
        arena_reset(&memory);
        *p = (plan){ .a = memory };
        other = __atomic_exchange_n(&prog->spare, p, __ATOMIC_ACQ_REL);
    }
    if (other != NULL)
        arena_deinit(&other->a);
    free(other);
}

void plan_unref(plan *p)
{
    if (p == NULL || __atomic_sub_fetch(&p->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    for (uint32_t i = 0; i < p->step_count; i++) {
        const program_step *s = p->steps[i].step;
        if (p->steps[i].instance != NULL)
            s->provider->table->release_instance(s->provider->state, s->compiled, p->steps[i].instance);
    }
    if (p->held_bytes > 0)
        (void)__atomic_sub_fetch(p->program->env->held_bytes, p->held_bytes, __ATOMIC_RELAXED);
    keep_memory(p);
}

static uint32_t most_plans(const program *prog)
{
    return prog->graph->parent != NULL ? BODY_PLANS_KEPT : PLANS_KEPT;
}

static bool keeps_too_many(const program *prog)
{
    if (prog->plan_count <= FEW_PLANS_KEPT)
        return false;
    return !prog->sizes_return || prog->plan_count > most_plans(prog) || prog->plan_bytes > PLANS_BYTES;
}

/* Is it the key of a plan that has gone? Then sizes come again, and more plans are worth their memory. */
static bool has_gone(const program *prog, uint64_t hash)
{
    const uint64_t kept = prog->plans_gone < PLANS_REMEMBERED ? prog->plans_gone : PLANS_REMEMBERED;

    for (uint64_t i = 0; i < kept; i++)
        if (prog->gone[i] == hash)
            return true;
    return false;
}

uint64_t plan_run_bytes(const plan *p)
{
    uint64_t sum = p->slab_bytes[INLAY_DOMAIN_HOST];

    for (uint32_t i = 0; i < p->place_count; i++)
        if (p->places[i].source == PLACE_OUTPUT && p->places[i].domain == INLAY_DOMAIN_HOST)
            sum += p->places[i].bytes;
    return sum;
}

void plan_drop_idle(program *prog)
{
    plan *gone = NULL;

    pthread_mutex_lock(&prog->plan_lock);
    for (plan **link = &prog->plans; *link != NULL;) {
        plan *p = *link;

        if (__atomic_load_n(&p->references, __ATOMIC_RELAXED) > 1) {
            link = &p->next;
            continue;
        }
        *link = p->next;
        prog->plan_count--;
        prog->plan_bytes -= p->a.total_bytes;
        p->next = gone;
        gone = p;
    }
    pthread_mutex_unlock(&prog->plan_lock);
    while (gone != NULL) {
        plan *next = gone->next;

        plan_unref(gone);
        gone = next;
    }
    for (uint32_t i = 0; i < prog->body_count; i++)
        plan_drop_idle(prog->bodies[i]);
}

/* The least recently used plan leaves the list; runs that hold it keep it alive. */
static void drop_oldest(program *prog)
{
    plan **link = &prog->plans, *oldest;

    while ((*link)->next != NULL)
        link = &(*link)->next;
    oldest = *link;
    *link = NULL;
    prog->plan_count--;
    prog->plan_bytes -= oldest->a.total_bytes;
    prog->gone[prog->plans_gone++ % PLANS_REMEMBERED] = oldest->hash;
    plan_unref(oldest);
}

inlay_status plan_get(program *prog, const plan_input *inputs, uint32_t count, plan **out_plan, inlay_diag *diag)
{
    const uint64_t hash = key_hash(inputs, count);
    inlay_status status = INLAY_OK;
    plan *found = NULL;

    pthread_mutex_lock(&prog->plan_lock);
    for (plan **link = &prog->plans; *link != NULL; link = &(*link)->next) {
        if ((*link)->hash == hash && plan_fits(*link, inputs, count)) {
            found = *link;
            *link = found->next;
            break;
        }
    }
    if (found == NULL) {
        const uint64_t before = prog->env->held_bytes != NULL ? heap_bytes() : 0;

        status = plan_build(prog, inputs, count, &found, diag);
        if (status == INLAY_OK) {
            found->held_bytes = heap_count(prog->env->held_bytes, before, 0);
            found->hash = hash;
            prog->sizes_return = prog->sizes_return || has_gone(prog, hash);
            prog->plan_count++;
            prog->plan_bytes += found->a.total_bytes;
            prog->plans_made++;
        }
    }
    if (found != NULL) {
        found->next = prog->plans;
        prog->plans = found;
        (void)__atomic_add_fetch(&found->references, 1, __ATOMIC_RELAXED);
        while (keeps_too_many(prog))
            drop_oldest(prog);
    }
    pthread_mutex_unlock(&prog->plan_lock);
    *out_plan = found;
    return status;
}
