/* plan/program/plan_object.c - basic functions of plans: key, memory needs, release. */
#include "base/hash.h"
#include "inlay/check.h"
#include "inlay/plugin.h"
#include "plan/plan.h"
#include <stdlib.h>
#include <string.h>

static uint32_t key_length(const plan_input *inputs, uint32_t count)
{
    uint32_t length = 2 * count;

    for (uint32_t i = 0; i < count; i++)
        length += inputs[i].rank == INLAY_RANK_UNKNOWN ? 0 : inputs[i].rank;
    return length;
}

/* Combines type, rank and domains of an input in one number. */
static int64_t kind_of(const plan_input *input)
{
    return ((int64_t)input->also << 52) | ((int64_t)input->domain << 40) | ((int64_t)input->dtype << 32) | input->rank;
}

bool plan_set_key(struct plan *plan, const plan_input *inputs, uint32_t count)
{
    int64_t *next;

    plan->key_count = key_length(inputs, count);
    next = plan->key = arena_array(&plan->arena, (size_t)plan->key_count + 1, sizeof *plan->key);
    if (next == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t rank = inputs[i].rank == INLAY_RANK_UNKNOWN ? 0 : inputs[i].rank;
        *next++ = kind_of(&inputs[i]);
        *next++ = (int64_t)inputs[i].room;
        if (rank > 0)
            memcpy(next, inputs[i].dims, rank * sizeof *next);
        next += rank;
    }
    INLAY_CHECK(next == plan->key + plan->key_count);
    return true;
}

uint64_t plan_key_hash(const plan_input *inputs, uint32_t count)
{
    uint64_t hash = 0;

    for (uint32_t i = 0; i < count; i++) {
        hash = hash_u64(hash, (uint64_t)kind_of(&inputs[i]));
        hash = hash_u64(hash, inputs[i].room);
        for (uint32_t d = 0; inputs[i].rank != INLAY_RANK_UNKNOWN && d < inputs[i].rank; d++)
            hash = hash_u64(hash, (uint64_t)inputs[i].dims[d]);
    }
    return hash;
}

bool plan_fits(const struct plan *plan, const plan_input *inputs, uint32_t count)
{
    const int64_t *next = plan->key, *end = plan->key + plan->key_count;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t rank = inputs[i].rank == INLAY_RANK_UNKNOWN ? 0 : inputs[i].rank;
        if (end - next < (int64_t)rank + 2 || next[0] != kind_of(&inputs[i]) || next[1] != (int64_t)inputs[i].room)
            return false;
        next += 2;
        for (uint32_t d = 0; d < rank; d++)
            if (*next++ != inputs[i].dims[d])
                return false;
    }
    return next == end;
}

/* Stores the memory of a dropped plan for the next one: plans of one program have similar sizes, and reused pages need
 * no page faults. */
static void reuse_memory(struct plan *plan)
{
    enum { KEPT_BYTES = 4 << 20 };
    struct program *prog = plan->program;
    struct arena memory = plan->arena;
    struct plan *other = plan;

    if (memory.total_bytes <= KEPT_BYTES) {
        arena_reset(&memory);
        *plan = (struct plan){ .arena = memory };
        other = __atomic_exchange_n(&prog->kept.spare, plan, __ATOMIC_ACQ_REL);
    }
    if (other != NULL)
        arena_deinit(&other->arena);
    free(other);
}

void plan_unref(struct plan *plan)
{
    INLAY_CHECK(plan == NULL || __atomic_load_n(&plan->references, __ATOMIC_RELAXED) > 0);
    if (plan == NULL || __atomic_sub_fetch(&plan->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const program_step *step = plan->steps[i].step;
        if (plan->steps[i].instance != NULL)
            step->provider->table->release_instance(step->provider->state, step->compiled, plan->steps[i].instance);
        blob_unmap(&plan->steps[i].blob);
    }
    if (plan->held_bytes > 0)
        (void)__atomic_sub_fetch(plan->program->env->memory.held_bytes, plan->held_bytes, __ATOMIC_RELAXED);
    reuse_memory(plan);
}

uint64_t plan_run_bytes(const struct plan *plan)
{
    uint64_t sum = plan->slab_bytes[INLAY_DOMAIN_HOST];

    for (uint32_t i = 0; i < plan->place_count; i++)
        if (plan->places[i].source == PLACE_OUTPUT && plan->places[i].domain == INLAY_DOMAIN_HOST)
            sum += plan->places[i].bytes;
    return sum;
}
