/* plan/layout/concurrent_branches.c - finds steps of a plan that may run concurrently.
 *
 * A group is a sequence of consecutive steps that form independent branches: none uses a result of another. Run
 * concurrently, each branch has one thread; run sequentially, each step has all threads. The groups worth the overhead
 * are found once per program, as the cheapest path through its steps at the sizes that it was priced for: a single step
 * costs its price with all threads, a group costs its critical path with one thread per branch, plus the fork. Later
 * plans have the same groups, but their own branches. */
#include "inlay/check.h"
#include "inlay/extensions.h"
#include "inlay/plugin.h"
#include "partition/cost/cost.h"
#include "plan/layout/planner.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_GROUP_STEPS = 64, MAX_BRANCHES = 64, ROOM_BYTES = 1 << 20 /* see fits_in_memory() */ };
#define FORK_NS 1500.0 /* waking up the other threads, and waiting for the last one */
#define GAIN 0.95      /* maximum time of a group relative to sequential execution */

/* State for splitting a sequence of steps into branches. If several steps write a place, all steps that use it are in
 * one branch. */
typedef struct branch_search {
    struct planner *planner;
    uint32_t *writers;      /* [place_count] number of steps that write the place */
    uint32_t *user;         /* [place_count] a step of the branch that uses the place; INLAY_NONE: none yet */
    uint32_t *parent;       /* [step_count] union-find */
    double *one_thread_ns;  /* [step_count] time on one thread; negative: the step cannot be in a group */
    double *all_threads_ns; /* [step_count] time on all threads */
    double *branch_ns;      /* [step_count] time of the branch whose representative the step is */
    bool forced;            /* option inter_threads: every sequence with branches is a group */
} branch_search;

static uint32_t root_of(branch_search *search, uint32_t step)
{
    while (search->parent[step] != step)
        step = search->parent[step] = search->parent[search->parent[step]];
    return step;
}

/* The price of a step on `threads` threads; negative: unknown. *guessed: a part of it is a guess, which does not model
 * how a kernel scales with threads. */
static double price_step(const struct program *prog, const program_step *step, uint32_t threads, bool *guessed)
{
    double ns = 0;

    *guessed = false;

    for (uint32_t i = 0; i < step->region->offer_count; i++) {
        const cost_question question = { .graph = &prog->snapshot,
                                         .provider = step->provider,
                                         .offer = &prog->parts.offers[step->region->offers[i]],
                                         .values = prog->parts.profile,
                                         .max_threads = threads,
                                         .weight_bytes = prog->parts.weight_bytes,
                                         .runs = true };
        inlay_cost cost = { .struct_size = sizeof cost };
        double error;
        const uint32_t source = prog->parts.profile == NULL ? (uint32_t)COST_NONE
                                                            : cost_of_offer(prog->env->costs, &question, &cost, &error);

        if (source == COST_NONE)
            return -1;
        *guessed |= source == COST_GUESS;
        ns += cost.ns;
    }
    return ns;
}

static bool all_in_host_memory(const struct plan *plan, const uint32_t *places, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (plan->places[places[i]].domain != INLAY_DOMAIN_HOST || plan->places[places[i]].source == PLACE_VIEW ||
            plan->places[places[i]].viewed)
            return false;
    return true;
}

/* Returns whether the step can run concurrently with others. */
static bool can_run_concurrently(const struct planner *planner, const plan_step *step)
{
    const inlay_ext_branches *branches;
    const inlay_provider *table;

    if (step->kind != PLAN_EXEC)
        return false;
    table = step->step->provider->table;
    branches = table->extension == NULL || (table->flags & INLAY_PROVIDER_ASYNC) != 0
                   ? NULL
                   : table->extension(step->step->provider->state, INLAY_EXT_BRANCHES);
    return branches != NULL && all_in_host_memory(planner->plan, step->in, step->step->region->input_count) &&
           all_in_host_memory(planner->plan, step->out, step->step->region->output_count) &&
           branches->may(step->step->provider->state, step->step->compiled, step->instance) != 0;
}

/* Records that step j uses a place: merges j with the branch that writes the place in the sequence from `first` on. */
static void use_place(branch_search *search, uint32_t first, uint32_t j, uint32_t place, bool writes)
{
    const bool shared = search->writers[place] > 1;

    if ((writes || shared) &&
        (search->user[place] == INLAY_NONE || search->user[place] < first || search->user[place] > j))
        search->user[place] = j;
    if (search->user[place] == INLAY_NONE || search->user[place] < first || search->user[place] >= j)
        return;
    {
        const uint32_t input = root_of(search, search->user[place]), output = root_of(search, j);

        if (input != output) {
            search->parent[output] = input;
            search->branch_ns[input] += search->branch_ns[output];
        }
    }
    if (shared)
        search->user[place] = j;
}

/* Adds step j to the sequence that begins with `first`. */
static void add_step(branch_search *search, uint32_t first, uint32_t j)
{
    const plan_step *step = &search->planner->plan->steps[j];

    INLAY_CHECK(step->kind == PLAN_EXEC && first <= j);
    search->parent[j] = j;
    search->branch_ns[j] = search->one_thread_ns[j];
    for (uint32_t i = 0; i < step->step->region->input_count; i++)
        use_place(search, first, j, step->in[i], false);
    for (uint32_t i = 0; i < step->step->region->output_count; i++)
        use_place(search, first, j, step->out[i], true);
}

static uint32_t branch_threads(const struct program *prog)
{
    const uint32_t most = prog->env->max_threads < MAX_BRANCHES ? prog->env->max_threads : MAX_BRANCHES;

    return prog->env->runs.inter_threads == 0 || prog->env->runs.inter_threads > most ? most
                                                                                      : prog->env->runs.inter_threads;
}

static int longer_first(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;

    return left < right ? 1 : left > right ? -1 : 0;
}

/* The critical path of steps [first, end), which have been added: branches, the longest first, are assigned to the
 * least loaded thread. Negative: fewer than two branches. */
static double path_ns(branch_search *search, uint32_t first, uint32_t end)
{
    const uint32_t threads = branch_threads(search->planner->prog);
    double branches[MAX_GROUP_STEPS] = { 0 }, load[MAX_BRANCHES] = { 0 }, longest = 0;
    uint32_t count = 0;

    for (uint32_t j = first; j < end; j++)
        if (search->parent[j] == j)
            branches[count++] = search->branch_ns[j];
    if (count < 2)
        return -1;
    qsort(branches, count, sizeof *branches, longer_first);
    for (uint32_t k = 0; k < count; k++) {
        uint32_t least = 0;

        for (uint32_t thread = 1; thread < threads; thread++)
            least = load[thread] < load[least] ? thread : least;
        load[least] += branches[k];
        longest = load[least] > longest ? load[least] : longest;
    }
    return longest;
}

/* Stores the groups of the cheapest path through the steps in planning.branch_groups. */
static inlay_status choose_groups(branch_search *search, uint32_t *out_count)
{
    const struct plan *plan = search->planner->plan;
    const uint32_t count = plan->step_count;
    double *best = arena_array(search->planner->scratch, (size_t)count + 1, sizeof *best);
    uint32_t *from = arena_array(search->planner->scratch, (size_t)count + 1, sizeof *from);

    *out_count = 0;
    if (best == NULL || from == NULL)
        return planner_no_memory(search->planner);
    for (uint32_t j = 0; j <= count; j++)
        best[j] = j == 0 ? 0 : -1;
    for (uint32_t i = 0; i < count; i++) {
        const double one = search->all_threads_ns[i] < 0 ? 0 : search->all_threads_ns[i];
        double sequential = 0;

        if (best[i + 1] < 0 || best[i] + one < best[i + 1]) {
            best[i + 1] = best[i] + one;
            from[i + 1] = i;
        }
        for (uint32_t j = i; j < count && j < i + MAX_GROUP_STEPS && search->one_thread_ns[j] >= 0; j++) {
            double path;

            add_step(search, i, j);
            sequential += search->all_threads_ns[j];
            path = j == i ? -1 : path_ns(search, i, j + 1);
            if (path < 0 || (!search->forced && path + FORK_NS > sequential * GAIN))
                continue;
            path += search->forced ? 0 : FORK_NS;
            if (best[j + 1] < 0 || best[i] + path < best[j + 1]) {
                best[j + 1] = best[i] + path;
                from[j + 1] = i;
            }
        }
    }
    for (uint32_t j = count; j > 0; j = from[j])
        if (j - from[j] > 1) {
            ++*out_count;
            for (uint32_t i = from[j]; i < j; i++)
                search->planner->prog->planning.branch_groups[plan->steps[i].step - search->planner->prog->steps] =
                    *out_count;
        }
    return INLAY_OK;
}

/* Sets the prices of the steps that may be in a group. Without measurements, kernels are assumed not to scale with
 * threads, and measurements of runs decide (exec/loop/parallel_branches.c). If concurrency is forced, all steps have
 * the same price. */
static void price_all_steps(branch_search *search)
{
    const struct plan *plan = search->planner->plan;
    struct program *prog = search->planner->prog;
    uint32_t able = 0;

    for (uint32_t j = 0; j < plan->step_count; j++) {
        search->one_thread_ns[j] = can_run_concurrently(search->planner, &plan->steps[j]) ? 1 : -1;
        search->all_threads_ns[j] = search->one_thread_ns[j];
        able += search->one_thread_ns[j] > 0;
    }
    for (uint32_t j = 0; able > 1 && !search->forced && j < plan->step_count; j++) {
        const program_step *step = plan->steps[j].step;
        bool guessed;

        if (search->one_thread_ns[j] < 0)
            continue;
        search->one_thread_ns[j] = price_step(prog, step, 1, &guessed);
        search->all_threads_ns[j] =
            guessed ? search->one_thread_ns[j] : price_step(prog, step, prog->env->max_threads, &guessed);
        if (search->all_threads_ns[j] < 0)
            search->one_thread_ns[j] = -1;
    }
    for (uint32_t j = 0; j < plan->step_count; j++)
        if (plan->steps[j].step != NULL)
            prog->planning.alone_ns[plan->steps[j].step - prog->steps] = search->one_thread_ns[j];
}

/* Finds the groups of the program, with its first plan. */
static inlay_status find_groups(branch_search *search)
{
    struct program *prog = search->planner->prog;
    uint32_t groups = 0;
    inlay_status status;

    prog->planning.branch_groups =
        arena_array(&prog->arena, (size_t)prog->step_count + 1, sizeof *prog->planning.branch_groups);
    prog->planning.alone_ns = arena_array(&prog->arena, (size_t)prog->step_count + 1, sizeof *prog->planning.alone_ns);
    if (prog->planning.branch_groups == NULL || prog->planning.alone_ns == NULL) {
        prog->planning.branch_groups = NULL;
        return planner_no_memory(search->planner);
    }
    price_all_steps(search);
    status = choose_groups(search, &groups);
    prog->planning.no_branch_groups = status == INLAY_OK && groups == 0;
    memset(search->user, 0xff, ((size_t)search->planner->plan->place_count + 1) * sizeof *search->user);
    return status;
}

/* Returns whether the step overwrites a place that it reads. */
static bool overwrites_input(const plan_step *step, uint32_t place)
{
    for (uint32_t i = 0; i < step->step->region->input_count; i++)
        if (step->in[i] == place)
            return true;
    return false;
}

static bool search_init(branch_search *search)
{
    const struct plan *plan = search->planner->plan;
    const size_t places = (size_t)plan->place_count + 1, steps = (size_t)plan->step_count + 1;

    search->writers = arena_array(search->planner->scratch, places, sizeof *search->writers);
    search->user = arena_array(search->planner->scratch, places, sizeof *search->user);
    search->parent = arena_array(search->planner->scratch, steps, sizeof *search->parent);
    search->one_thread_ns = arena_array(search->planner->scratch, steps, sizeof *search->one_thread_ns);
    search->all_threads_ns = arena_array(search->planner->scratch, steps, sizeof *search->all_threads_ns);
    search->branch_ns = arena_array(search->planner->scratch, steps, sizeof *search->branch_ns);
    if (search->writers == NULL || search->user == NULL || search->parent == NULL || search->one_thread_ns == NULL ||
        search->all_threads_ns == NULL || search->branch_ns == NULL)
        return false;
    for (uint32_t j = 0; j < plan->step_count; j++)
        for (uint32_t i = 0; plan->steps[j].kind == PLAN_EXEC && i < plan->steps[j].step->region->output_count; i++)
            search->writers[plan->steps[j].out[i]] +=
                1 + (uint32_t)overwrites_input(&plan->steps[j], plan->steps[j].out[i]);
    memset(search->user, 0xff, places * sizeof *search->user);
    return true;
}

/* Adds the group of steps [first, end) with its branches, each assigned to the least loaded thread. Adds nothing if
 * there is only one branch. */
static inlay_status add_group(branch_search *search, uint32_t first, uint32_t end)
{
    struct plan *plan = search->planner->plan;
    const uint32_t threads = branch_threads(search->planner->prog), count = end - first;
    branch_group *group = &plan->branch_groups[plan->branch_group_count];
    uint32_t *thread = arena_array(search->planner->scratch, count, sizeof *thread);
    double load[MAX_BRANCHES] = { 0 };
    uint32_t branches = 0;

    group->steps = arena_array(&plan->arena, count, sizeof *group->steps);
    group->begins = arena_array(&plan->arena, (size_t)threads + 1, sizeof *group->begins);
    if (thread == NULL || group->steps == NULL || group->begins == NULL)
        return planner_no_memory(search->planner);
    INLAY_CHECK(count >= 2 && end <= plan->step_count);
    for (uint32_t j = first; j < end; j++)
        add_step(search, first, j);
    for (uint32_t j = first; j < end; j++)
        branches += search->parent[j] == j;
    if (branches < 2)
        return INLAY_OK;
    for (;;) { /* assigns the longest branch that has no thread yet */
        uint32_t longest = INLAY_NONE, least = 0;

        for (uint32_t j = first; j < end; j++)
            if (search->parent[j] == j && search->branch_ns[j] >= 0 &&
                (longest == INLAY_NONE || search->branch_ns[j] > search->branch_ns[longest]))
                longest = j;
        if (longest == INLAY_NONE)
            break;
        for (uint32_t slot = 1; slot < threads; slot++)
            least = load[slot] < load[least] ? slot : least;
        load[least] += search->branch_ns[longest];
        thread[longest - first] = least;
        search->branch_ns[longest] = -1;
    }
    group->first = first;
    group->end = end;
    for (uint32_t slot = 0, at = 0; slot < threads; slot++) {
        group->begins[group->branch_count] = at;
        for (uint32_t j = first; j < end; j++)
            if (thread[root_of(search, j) - first] == slot)
                group->steps[at++] = j;
        group->branch_count += at > group->begins[group->branch_count];
        group->begins[group->branch_count] = at;
    }
    INLAY_CHECK(group->branch_count >= 1 && group->begins[group->branch_count] == count);
    plan->branch_group_count++;
    return INLAY_OK;
}

/* The group that a step belongs to; NULL: none. */
static const branch_group *group_at(const struct plan *plan, uint32_t step)
{
    INLAY_CHECK(step <= plan->step_count);
    for (uint32_t k = 0; k < plan->branch_group_count; k++)
        if (step >= plan->branch_groups[k].first && step < plan->branch_groups[k].end)
            return &plan->branch_groups[k];
    return NULL;
}

/* The lifetime of the place, extended to whole groups: a place that is used in a group is in use during all of it. */
static void extend_to_group(const struct plan *plan, const plan_place *place, uint32_t *first, uint32_t *last)
{
    const branch_group *begin = group_at(plan, place->first), *end = group_at(plan, place->last);

    *first = begin != NULL ? begin->first : place->first;
    *last = end != NULL ? end->end - 1 : place->last;
}

/* Returns whether groups increase the maximum of live host bytes by at most an eighth plus ROOM_BYTES. */
static bool fits_in_memory(const struct planner *planner)
{
    const struct plan *plan = planner->plan;
    int64_t *delta = arena_array(planner->scratch, 2 * ((size_t)plan->step_count + 3), sizeof *delta);
    int64_t now[2] = { 0 }, most[2] = { 0 };

    if (delta == NULL)
        return false;
    for (uint32_t i = 0; i < plan->place_count; i++) {
        const plan_place *place = &plan->places[i];
        uint32_t first, last;

        if (place->source != PLACE_SLAB || place->memory_domain != INLAY_DOMAIN_HOST || place->bytes > INT64_MAX / 4)
            continue;
        extend_to_group(plan, place, &first, &last);
        delta[2 * place->first] += (int64_t)place->bytes;
        delta[2 * (place->last + 1)] -= (int64_t)place->bytes;
        delta[2 * first + 1] += (int64_t)place->bytes;
        delta[2 * (last + 1) + 1] -= (int64_t)place->bytes;
    }
    for (uint32_t j = 0; j <= plan->step_count; j++)
        for (int k = 0; k < 2; k++) {
            now[k] += delta[2 * j + (uint32_t)k];
            most[k] = now[k] > most[k] ? now[k] : most[k];
        }
    return most[1] <= most[0] + most[0] / 8 + ROOM_BYTES;
}

static uint32_t group_of(const struct planner *planner, uint32_t step)
{
    return planner->prog->planning.branch_groups[planner->plan->steps[step].step - planner->prog->steps];
}

inlay_status planner_find_concurrent_branches(struct planner *planner)
{
    struct program *prog = planner->prog;
    struct plan *plan = planner->plan;
    branch_search search = { .planner = planner, .forced = prog->env->runs.inter_threads > 1 };
    inlay_status status = INLAY_OK;

    plan->branch_group_count = 0;
    if (branch_threads(prog) < 2 || prog->planning.no_branch_groups || plan->step_count < 2 ||
        prog->env->state_count > 0)
        return INLAY_OK;
    if (!search_init(&search))
        return planner_no_memory(planner);
    if (prog->planning.branch_groups == NULL)
        status = find_groups(&search);
    if (status != INLAY_OK || prog->planning.no_branch_groups)
        return status;
    plan->branch_groups = arena_array(&plan->arena, (size_t)prog->step_count + 1, sizeof *plan->branch_groups);
    if (plan->branch_groups == NULL)
        return planner_no_memory(planner);
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const uint32_t k = plan->steps[i].step == NULL ? INLAY_NONE : (uint32_t)(plan->steps[i].step - prog->steps);

        search.one_thread_ns[i] =
            k != INLAY_NONE && prog->planning.branch_groups[k] > 0 && can_run_concurrently(planner, &plan->steps[i])
                ? prog->planning.alone_ns[k]
                : -1;
    }
    for (uint32_t i = 0, end; i < plan->step_count; i = end) {
        end = i + 1;
        if (search.one_thread_ns[i] < 0)
            continue;
        while (end < plan->step_count && search.one_thread_ns[end] >= 0 &&
               group_of(planner, end) == group_of(planner, i))
            end++;
        status = end - i < 2 ? INLAY_OK : add_group(&search, i, end);
        if (status != INLAY_OK)
            return status;
    }
    if (plan->branch_group_count > 0 && !search.forced && !fits_in_memory(planner))
        plan->branch_group_count = 0;
    for (uint32_t i = 0; plan->branch_group_count > 0 && i < plan->place_count; i++)
        if (plan->places[i].source == PLACE_SLAB)
            extend_to_group(plan, &plan->places[i], &plan->places[i].first, &plan->places[i].last);
    return INLAY_OK;
}
