/* plan/layout/plan_cache.c - the plan cache of a program: plans are found by the shapes of the inputs. */
#include "base/heap.h"
#include "inlay/check.h"
#include "inlay/execution.h"
#include "plan/plan.h"
#include <stdlib.h>

static uint32_t max_plans(const struct program *prog)
{
    return prog->graph->parent != NULL ? BODY_PLANS_KEPT : PLANS_KEPT;
}

static bool has_too_many(const struct program *prog)
{
    if (prog->kept.plan_count <= FEW_PLANS_KEPT)
        return false;
    return !prog->kept.sizes_return || prog->kept.plan_count > max_plans(prog) || prog->kept.bytes > PLANS_BYTES;
}

/* Returns whether a plan with this key was dropped before. Then sizes recur, and caching more plans is worth the
 * memory. */
static bool was_dropped(const struct program *prog, uint64_t hash)
{
    const uint64_t kept = prog->kept.gone < PLANS_REMEMBERED ? prog->kept.gone : PLANS_REMEMBERED;

    for (uint64_t i = 0; i < kept; i++)
        if (prog->kept.hash[i] == hash)
            return true;
    return false;
}

/* Adds the plan to the counts of the cache, or subtracts it. */
static void count_plan(struct program *prog, const struct plan *plan, int sign)
{
    if (plan->pinned)
        return;
    prog->kept.plan_count += (uint32_t)sign;
    prog->kept.bytes += (uint64_t)sign * plan->arena.total_bytes;
}

void plan_pin(struct plan *plan)
{
    struct program *prog = plan->program;

    (void)pthread_mutex_lock(&prog->kept.lock);
    count_plan(prog, plan, -1);
    plan->pinned = true;
    (void)pthread_mutex_unlock(&prog->kept.lock);
}

/* Drops the plans that no run uses; with `pinned` also those that plan_pin() keeps. */
static void drop_idle(struct program *prog, bool pinned)
{
    struct plan *gone = NULL;

    pthread_mutex_lock(&prog->kept.lock);
    for (struct plan **link = &prog->kept.plans; *link != NULL;) {
        struct plan *plan = *link;

        if (__atomic_load_n(&plan->references, __ATOMIC_RELAXED) > 1 || (plan->pinned && !pinned)) {
            link = &plan->next;
            continue;
        }
        *link = plan->next;
        count_plan(prog, plan, -1);
        plan->next = gone;
        gone = plan;
    }
    pthread_mutex_unlock(&prog->kept.lock);
    while (gone != NULL) {
        struct plan *next = gone->next;

        plan_unref(gone);
        gone = next;
    }
}

/* Frees the memory that is kept for creating the next plan. Returns the first fallback program. */
static struct program *free_spare(struct program *prog)
{
    struct plan *spare = __atomic_exchange_n(&prog->kept.spare, NULL, __ATOMIC_ACQUIRE);
    struct program *fallback;

    if (spare != NULL)
        arena_deinit(&spare->arena);
    free(spare);
    pthread_mutex_lock(&prog->kept.lock);
    arena_deinit(&prog->planning.scratch);
    arena_deinit(&prog->planning.shapes);
    prog->planning.rooms = NULL;
    prog->planning.inferred = false;
    fallback = prog->fallback.programs;
    pthread_mutex_unlock(&prog->kept.lock);
    return fallback;
}

void plan_drop_idle(struct program *prog, bool pinned)
{
    struct program *fallback;

    drop_idle(prog, pinned);
    for (fallback = free_spare(prog); fallback != NULL;
         fallback = fallback->fallback.next) /* programs are only added */
        plan_drop_idle(fallback, pinned);
    for (uint32_t i = 0; i < prog->body_count; i++)
        plan_drop_idle(prog->bodies[i], pinned);
}

/* Drops the least recently used plan that is not pinned; runs that hold it keep it alive. */
static void drop_oldest(struct program *prog)
{
    struct plan **found = NULL, *oldest;

    for (struct plan **link = &prog->kept.plans; *link != NULL; link = &(*link)->next)
        if (!(*link)->pinned)
            found = link;
    INLAY_CHECK(found != NULL && prog->kept.plan_count > 0);
    oldest = *found;
    *found = oldest->next;
    count_plan(prog, oldest, -1);
    prog->kept.hash[prog->kept.gone++ % PLANS_REMEMBERED] = oldest->hash;
    plan_unref(oldest);
}

inlay_status plan_get(struct program *prog, const plan_input *inputs, uint32_t count, const inlay_run *run,
                      struct plan **out_plan, inlay_diag *diag)
{
    const uint64_t hash = plan_key_hash(inputs, count);
    inlay_status status = INLAY_OK;
    struct plan *found = NULL;

    pthread_mutex_lock(&prog->kept.lock);
    for (struct plan **link = &prog->kept.plans; *link != NULL; link = &(*link)->next) {
        if ((*link)->hash == hash && plan_fits(*link, inputs, count)) {
            found = *link;
            *link = found->next;
            break;
        }
    }
    if (found == NULL) {
        const uint64_t before = prog->env->memory.held_bytes != NULL ? heap_bytes() : 0;

        status = plan_build(prog, inputs, count, run, &found, diag);
        if (status == INLAY_OK) {
            found->held_bytes = heap_count(prog->env->memory.held_bytes, before, 0);
            found->hash = hash;
            prog->kept.sizes_return = prog->kept.sizes_return || was_dropped(prog, hash);
            count_plan(prog, found, 1);
            prog->kept.made++;
        }
    }
    if (found != NULL) {
        INLAY_CHECK(found->program == prog);
        found->next = prog->kept.plans;
        prog->kept.plans = found;
        (void)__atomic_add_fetch(&found->references, 1, __ATOMIC_RELAXED);
        while (has_too_many(prog))
            drop_oldest(prog);
    }
    pthread_mutex_unlock(&prog->kept.lock);
    *out_plan = found;
    return status;
}
