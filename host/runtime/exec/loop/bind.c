/* exec/loop/bind.c - binds a plan: allocates the slabs, and writes every address that a step reads or writes. */
#include "base/device_link.h"
#include "base/memory.h"
#include "base/provider_calls.h"
#include "exec/device/device_memory.h"
#include "exec/loop/bound.h"
#include "exec/loop/parallel_branches.h"
#include "inlay/check.h"
#include "plugin/plugin.h"
#include "threads/fence.h"
#include <stdlib.h>
#include <string.h>

enum { SLAB_ALIGN = 64, SLAB_SMALL = 1 << 20, SMALL_COPY = 1 << 16 };

/* Bytes of a slab, or of an output's memory, that an asynchronous step reads or writes: they may be in use until its
 * fence is reached. */
typedef struct busy_range {
    uint64_t begin, end;
    uint32_t domain;
    uint32_t output; /* the output whose memory this is; INLAY_NONE: a slab's */
    uint32_t step;
} busy_range;

struct binder {
    struct runner *runner;
    struct bound *bound;
    uint32_t *writer_of; /* [place_count] the asynchronous step that writes the place; INLAY_NONE: none */
    busy_range *busy;    /* slab ranges that earlier steps may still use */
    uint32_t busy_count;
    uint32_t *waits; /* [step_count] the steps that the current step waits for so far */
    uint32_t wait_count;
    uint32_t port_count; /* caller-owned device buffers that the step uses */
    uint32_t *listed_by; /* [step_count] 1 + the last step that listed this step in its waits */
    uint32_t leader;     /* first copy of the request that later copies may join; INLAY_NONE: none */
    inlay_diag *diag;
};

/* Returns whether the slab is more than four times as large as `bytes` and as any plan of the runner needs. The memory
 * of a single run with large inputs must not be kept forever. */
static bool is_oversized(const struct runner *runner, uint64_t bytes)
{
    for (uint32_t i = 0; i < MAX_BOUND_PLANS; i++)
        if (runner->plans.kept[i] != NULL && runner->plans.kept[i]->plan->slab_bytes[0] > bytes)
            bytes = runner->plans.kept[i]->plan->slab_bytes[0];
    return runner->plans.slab_bytes > SLAB_SMALL && runner->plans.slab_bytes / 4 > bytes;
}

/* All plans of a runner share one slab, as large as the largest plan needs. If sizes grow from run to run, it is
 * allocated a quarter larger: page faults in new pages cost more than a small plan computes. */
static inlay_status reserve_slab(struct runner *runner, uint64_t bytes, inlay_diag *diag)
{
    bool grows = runner->plans.slab != NULL && runner->plans.slab_bytes < bytes &&
                 run_memory_held(runner->shared->tensors.memory) == NULL;
    uint64_t room = (bytes + (grows ? bytes / 4 : 0) + SLAB_ALIGN - 1) / SLAB_ALIGN * SLAB_ALIGN;
    inlay_status status;

    if (bytes <= runner->plans.slab_bytes && !is_oversized(runner, bytes))
        return INLAY_OK;
    run_memory_give(runner->shared->tensors.memory, false, runner->plans.slab, runner->plans.slab_bytes);
    runner->plans.slab_bytes = 0;
    status = run_take(runner->shared, room, SLAB_ALIGN, &runner->plans.slab, diag);
    if (status == INLAY_OUT_OF_MEMORY)
        return no_memory(diag, "for the %llu bytes that graph '%s' needs to run", (unsigned long long)bytes,
                         runner->prog->graph->name);
    if (status != INLAY_OK)
        return status;
    runner->plans.slab_bytes = room;
    return INLAY_OK;
}

/* What the slab of a domain holds: INLAY_USE_*. */
static uint32_t slab_usage(const struct plan *plan, uint32_t domain)
{
    const graph_value *values = plan->program->graph->values;
    uint32_t usage = 0;

    for (uint32_t i = 0; i < plan->step_count; i++) {
        const plan_step *step = &plan->steps[i];
        const bool copies = step->kind == PLAN_COPY;
        const uint32_t outs = copies ? 1 : step->kind == PLAN_EXEC ? step->step->region->output_count : 0;

        if (step->workspace != INLAY_NONE && plan->places[step->workspace].memory_domain == domain)
            usage |= INLAY_USE_WORKSPACE;
        for (uint32_t k = 0; k < outs; k++) {
            const plan_place *place = &plan->places[plan_memory_place(plan, step->out[k])];
            const uint32_t flags = values[copies ? step->copy_value : step->step->region->outputs[k]].info.flags;

            if (place->source != PLACE_SLAB || place->memory_domain != domain)
                continue;
            usage |= copies && plan->places[step->in[0]].source == PLACE_DATA ? INLAY_USE_WEIGHTS
                     : (flags & INLAY_VALUE_GRAPH_INPUT) != 0                 ? INLAY_USE_INPUT
                     : !copies && (flags & INLAY_VALUE_GRAPH_OUTPUT) != 0     ? INLAY_USE_OUTPUT
                                                                              : INLAY_USE_INNER;
        }
    }
    return usage;
}

/* The domain that addresses a slab of another device through the place; INLAY_DOMAIN_HOST: none. */
static uint32_t importer_of(const struct plan *plan, const plan_place *place)
{
    const plan_place *slot;

    if (place->source != PLACE_VIEW)
        return INLAY_DOMAIN_HOST;
    slot = &plan->places[place->index];
    if (slot->source != PLACE_SLAB || slot->memory_domain == INLAY_DOMAIN_HOST)
        return INLAY_DOMAIN_HOST;
    return place->domain != slot->memory_domain ? place->domain : (uint32_t)INLAY_DOMAIN_HOST;
}

static bool is_imported(const struct plan *plan, uint32_t domain)
{
    for (uint32_t i = 0; i < plan->place_count; i++)
        if (importer_of(plan, &plan->places[i]) != INLAY_DOMAIN_HOST &&
            plan->places[plan->places[i].index].memory_domain == domain)
            return true;
    return false;
}

/* Imports the slab of domain `from` into domain `to`, unless it is imported already. */
static inlay_status import_slab(struct binder *binder, uint32_t from, uint32_t to)
{
    bound_memory *memory = &binder->bound->memory;
    const program_env *env = binder->runner->prog->env;
    const partition_provider *owner = &env->providers[plan_owner_of(env, from)],
                             *importer = &env->providers[plan_owner_of(env, to)];
    slab_import *made = &memory->imports[memory->import_count];
    inlay_status status;

    for (uint32_t i = 0; i < memory->import_count; i++)
        if (memory->imports[i].from == from && memory->imports[i].buffer.domain == to)
            return INLAY_OK;
    status = link_import(&(link_end){ owner->table, owner->state, owner->first_domain, from }, &memory->slabs[from],
                         &(link_end){ importer->table, importer->state, importer->first_domain, to }, &made->buffer,
                         binder->diag);
    made->from = from;
    memory->import_count += status == INLAY_OK;
    if (status != INLAY_OK)
        binder->runner->failed = importer;
    return status;
}

/* Lets devices import the slabs of other devices that they read or write. */
static inlay_status import_slabs(struct binder *binder)
{
    struct bound *bound = binder->bound;
    const struct plan *plan = bound->plan;
    uint32_t views = 0;
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < plan->place_count; i++)
        views += importer_of(plan, &plan->places[i]) != INLAY_DOMAIN_HOST;
    if (views == 0)
        return INLAY_OK;
    bound->memory.imports = arena_array(&bound->arena, views, sizeof *bound->memory.imports);
    if (bound->memory.imports == NULL)
        return no_memory(binder->diag, "to bind a plan");
    for (uint32_t i = 0; i < plan->place_count && status == INLAY_OK; i++)
        if (importer_of(plan, &plan->places[i]) != INLAY_DOMAIN_HOST &&
            plan->slab_bytes[plan->places[plan->places[i].index].memory_domain] > 0)
            status = import_slab(binder, plan->places[plan->places[i].index].memory_domain,
                                 importer_of(plan, &plan->places[i]));
    return status;
}

/* The largest alignment of a workspace in the slab of the domain; 0: there is no workspace. */
static uint64_t workspace_alignment(const struct plan *plan, uint32_t domain)
{
    uint64_t alignment = 0;

    for (uint32_t i = 0; i < plan->step_count; i++) {
        const plan_step *step = &plan->steps[i];

        if (step->workspace != INLAY_NONE && plan->places[step->workspace].memory_domain == domain &&
            step->workspace_alignment > alignment)
            alignment = step->workspace_alignment;
    }
    return alignment;
}

static inlay_status bind_devices(struct binder *binder)
{
    const struct plan *plan = binder->bound->plan;
    const program_env *env = binder->runner->prog->env;
    inlay_status status = INLAY_OK;

    for (uint32_t d = 1; d < plan->domain_count && status == INLAY_OK; d++) {
        const uint32_t i = plan_owner_of(env, d);

        if (plan->slab_bytes[d] == 0)
            continue;
        INLAY_CHECK(i < env->provider_count);
        status = device_memory_alloc(
            binder->runner, i, d, plan->slab_bytes[d],
            (buffer_use){ .usage = slab_usage(plan, d) | (is_imported(plan, d) ? INLAY_USE_SHARED : 0),
                          .lifetime = INLAY_LIFETIME_PLAN,
                          .alignment = workspace_alignment(plan, d) },
            &binder->bound->memory.slabs[d], binder->diag);
        if (status == INLAY_OK && plan_is_unified(env, d))
            status = call_map(env->providers[i].table, env->providers[i].state, &binder->bound->memory.slabs[d],
                              &binder->bound->memory.maps[d], binder->diag);
    }
    return status == INLAY_OK ? import_slabs(binder) : status;
}

/* Writes the buffer of each place, except those of graph inputs and outputs. */
static void write_places(const struct runner *runner, struct bound *bound)
{
    const struct plan *plan = bound->plan;

    for (uint32_t i = 0; i < plan->place_count; i++) {
        const plan_place *place = &plan->places[i];
        inlay_buffer *out = &bound->memory.buffers[i];

        *out = (inlay_buffer){ .bytes = place->bytes, .domain = place->domain };
        if (place->source == PLACE_SLAB) {
            *out = bound_in_slab(runner, bound, place, place->domain);
        } else if (place->source == PLACE_VIEW && plan->places[place->index].source == PLACE_SLAB) {
            *out = bound_in_slab(runner, bound, &plan->places[place->index], place->domain);
        } else if (place->source == PLACE_DATA) {
            out->handle = (uintptr_t)(place->data != NULL ? place->data : (const void *)&bound->memory.base);
        }
    }
    bound->memory.base = runner->plans.slab;
}

/* Moves the start of the workspace to a multiple of its alignment; its place has as many bytes more. */
static void align_workspace(inlay_buffer *workspace, uint64_t alignment)
{
    const uint64_t at = workspace->offset + (workspace->domain == INLAY_DOMAIN_HOST ? workspace->handle : 0);
    const uint64_t skipped = alignment > 1 ? (alignment - at % alignment) % alignment : 0;

    INLAY_CHECK(skipped < workspace->bytes);
    workspace->offset += skipped;
    workspace->bytes -= skipped;
}

static void write_args(struct bound *bound, bound_step *step)
{
    const plan_step *planned = step->plan;
    const partition_region *region = planned->step->region;
    inlay_tensor_arg *args = step->args.outputs - region->input_count;

    INLAY_CHECK(region->input_count == 0 || step->args.inputs != NULL);
    for (uint32_t i = 0; i < region->input_count; i++)
        args[i].buffer = bound->memory.buffers[planned->in[i]];
    for (uint32_t i = 0; i < region->output_count; i++)
        args[region->input_count + i].buffer = bound->memory.buffers[planned->out[i]];
    if (planned->workspace == INLAY_NONE)
        return;
    step->args.workspace = bound->memory.buffers[planned->workspace];
    align_workspace(&step->args.workspace, planned->workspace_alignment);
}

/* Lets the provider prepare its data for these addresses. */
static inlay_status make_binding(bound_step *step, inlay_diag *diag)
{
    const partition_provider *provider = step->plan->step->provider;
    const inlay_bind_args args = { .struct_size = sizeof args,
                                   .inputs = step->args.inputs,
                                   .outputs = step->args.outputs,
                                   .input_count = step->args.input_count,
                                   .output_count = step->args.output_count,
                                   .arg_stride = step->args.arg_stride,
                                   .workspace = step->args.workspace };
    inlay_status status;

    if (provider->table->bind == NULL)
        return INLAY_OK;
    status = provider->table->bind(provider->state, step->compiled, step->instance, &args, &step->args.binding, diag);
    return status == INLAY_UNSUPPORTED ? INLAY_OK : status;
}

static inlay_status write_addresses(const struct runner *runner, struct bound *bound, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    write_places(runner, bound);
    for (uint32_t i = 0; i < bound->plan->step_count && status == INLAY_OK; i++) {
        if (bound->steps[i].plan->kind != PLAN_EXEC)
            continue;
        bound_release_binding(&bound->steps[i]);
        write_args(bound, &bound->steps[i]);
        status = make_binding(&bound->steps[i], diag);
    }
    return status;
}

inlay_status bound_prepare(struct runner *runner, struct bound *bound, inlay_diag *diag)
{
    inlay_status status = runner_enforce_memory_limit(runner, bound, diag);

    INLAY_CHECK(bound->plan != NULL && bound->steps != NULL);
    if (status == INLAY_OK && runner->plans.slab_bytes < bound->plan->slab_bytes[0])
        status = reserve_slab(runner, bound->plan->slab_bytes[0], diag);
    if (status == INLAY_OK && bound->memory.base != runner->plans.slab)
        status = write_addresses(runner, bound, diag);
    return status;
}

static void add_patch(struct binder *binder, uint32_t place, inlay_buffer *target)
{
    const plan_place *slot = &binder->bound->plan->places[plan_memory_place(binder->bound->plan, place)];

    INLAY_CHECK(place < binder->bound->plan->place_count);
    if (slot->source == PLACE_INPUT || slot->source == PLACE_OUTPUT)
        binder->bound->ports.patches[binder->bound->ports.patch_count++] = (struct patch){ place, target };
}

/* Dependencies between steps.
 *
 * A step waits for the asynchronous steps that write its inputs. Places may share bytes, so a step that writes bytes
 * also waits for the asynchronous steps that read or wrote them before. */

static void add_wait(struct binder *binder, uint32_t index, uint32_t step)
{
    if (step == INLAY_NONE || binder->listed_by[step] == index + 1)
        return;
    INLAY_CHECK(step < index && index < binder->bound->plan->step_count);
    binder->listed_by[step] = index + 1;
    binder->waits[binder->wait_count++] = step;
}

static void count_port(struct binder *binder, uint32_t place)
{
    const plan_place *slot = &binder->bound->plan->places[place];

    INLAY_CHECK(place < binder->bound->plan->place_count);
    binder->port_count +=
        slot->domain != INLAY_DOMAIN_HOST && (slot->source == PLACE_INPUT || slot->source == PLACE_OUTPUT);
}

/* The bytes of a place that steps of the plan write; false: they only read it. Values that are computed in place share
 * an output's memory as they share a slab's. */
static bool written_range(const struct binder *binder, uint32_t place, uint32_t step, busy_range *out)
{
    const plan_place *pl = &binder->bound->plan->places[plan_memory_place(binder->bound->plan, place)];
    const uint64_t begin = pl->source == PLACE_SLAB ? pl->offset : 0;

    *out = (busy_range){ begin, begin + pl->bytes, pl->memory_domain,
                         pl->source == PLACE_OUTPUT ? pl->index : INLAY_NONE, step };
    return pl->source == PLACE_SLAB || pl->source == PLACE_OUTPUT;
}

/* Makes a step that writes the place wait for the steps that may still use these bytes. */
static void wait_for_users_of(struct binder *binder, uint32_t index, uint32_t place)
{
    busy_range mine;
    uint32_t kept = 0;

    if (!written_range(binder, place, index, &mine))
        return;
    for (uint32_t i = 0; i < binder->busy_count; i++) {
        const busy_range *range = &binder->busy[i];
        const bool meets = range->domain == mine.domain && range->output == mine.output && range->begin < mine.end &&
                           mine.begin < range->end;

        if (meets && range->step != index)
            add_wait(binder, index, range->step);
        if (!meets || range->begin < mine.begin || range->end > mine.end)
            binder->busy[kept++] = *range;
    }
    binder->busy_count = kept;
}

static void mark_bytes_used(struct binder *binder, uint32_t index, uint32_t place)
{
    busy_range mine;

    if (written_range(binder, place, index, &mine) && mine.end > mine.begin)
        binder->busy[binder->busy_count++] = mine;
}

/* The place of output i of a step. The outputs of dynamic and host steps have the places of their values. */
static uint32_t output_place(const struct bound *bound, const plan_step *step, uint32_t i)
{
    const uint32_t value = step->kind == PLAN_COPY ? INLAY_NONE : step->step->region->outputs[i];

    if (step->kind == PLAN_COPY || step->kind == PLAN_EXEC)
        return step->out[i];
    return bound->plan->values[value].place;
}

/* The provider that runs the step; NULL: the host. */
static const partition_provider *provider_of(const struct binder *binder, const plan_step *step)
{
    return step->kind == PLAN_COPY ? &binder->runner->prog->env->providers[step->copy_provider] : step->step->provider;
}

static bool places_meet(const struct bound *bound, uint32_t input, uint32_t output)
{
    const plan_place *place = &bound->plan->places[plan_memory_place(bound->plan, input)];
    const plan_place *other_place = &bound->plan->places[plan_memory_place(bound->plan, output)];

    return input == output || (place->source == PLACE_SLAB && other_place->source == PLACE_SLAB &&
                               place->memory_domain == other_place->memory_domain &&
                               place->offset < other_place->offset + other_place->bytes &&
                               other_place->offset < place->offset + place->bytes);
}

/* Returns whether the copy can join the preceding copies in one request. No copy of a request may depend on another
 * one, and a small copy that is read first must not wait for large ones that are read later. */
static bool can_join_copies(const struct binder *binder, uint32_t index)
{
    const struct bound *bound = binder->bound;
    const plan_step *planned = &bound->plan->steps[index];

    if (binder->leader == INLAY_NONE || planned->kind != PLAN_COPY ||
        bound->plan->steps[binder->leader].copy_provider != planned->copy_provider ||
        (bound->plan->steps[binder->leader].group != planned->group && planned->copy_bytes > SMALL_COPY))
        return false;
    for (uint32_t i = binder->leader; i < index; i++) {
        const plan_step *step = &bound->plan->steps[i];

        if (places_meet(bound, step->out[0], planned->in[0]) || places_meet(bound, step->out[0], planned->out[0]) ||
            places_meet(bound, step->in[0], planned->out[0]))
            return false;
    }
    return true;
}

/* Stores the list of steps that the step waits for, its own provider's first. */
static inlay_status store_waits(struct binder *binder, bound_step *step)
{
    const partition_provider *own = provider_of(binder, step->plan);

    if (binder->wait_count + binder->port_count == 0)
        return INLAY_OK;
    step->wait_steps = arena_array(&binder->bound->arena, binder->wait_count + 1, sizeof *step->wait_steps);
    step->waits = arena_array(&binder->bound->arena, binder->wait_count + binder->port_count + 1, sizeof *step->waits);
    if (step->wait_steps == NULL || step->waits == NULL)
        return no_memory(binder->diag, "to bind a plan");
    step->wait_step_count = 0;
    for (int others = 0; others < 2; others++) {
        for (uint32_t i = 0; i < binder->wait_count; i++)
            if ((provider_of(binder, binder->bound->steps[binder->waits[i]].plan) != own) == (others != 0))
                step->wait_steps[step->wait_step_count++] = binder->waits[i];
        if (others == 0)
            step->own_wait_count = step->wait_step_count;
    }
    INLAY_CHECK(step->own_wait_count <= step->wait_step_count && step->wait_step_count == binder->wait_count);
    return INLAY_OK;
}

/* Determines the steps that `step` waits for. index: the step that waits and uses the bytes: `step` itself, or, if
 * `step` joined a request, the first copy of that request. */
static inlay_status bind_waits(struct binder *binder, uint32_t step, uint32_t index, bool is_async)
{
    struct bound *bound = binder->bound;
    bound_step *waiting = &bound->steps[index];
    const plan_step *planned = bound->steps[step].plan;
    const uint32_t ins = planned->kind == PLAN_COPY ? 1 : planned->step->region->input_count;
    const uint32_t outs = planned->kind == PLAN_COPY ? 1 : planned->step->region->output_count;

    if (step == index)
        binder->wait_count = binder->port_count = 0;
    for (uint32_t i = 0; i < ins; i++) {
        add_wait(binder, index, binder->writer_of[plan_memory_place(bound->plan, planned->in[i])]);
        count_port(binder, planned->in[i]);
    }
    for (uint32_t i = 0; i < outs; i++) {
        wait_for_users_of(binder, index, output_place(bound, planned, i));
        count_port(binder, output_place(bound, planned, i));
    }
    if (planned->workspace != INLAY_NONE)
        wait_for_users_of(binder, index, planned->workspace);
    for (uint32_t i = 0; is_async && i < ins; i++)
        mark_bytes_used(binder, index, planned->in[i]);
    for (uint32_t i = 0; is_async && i < outs; i++)
        mark_bytes_used(binder, index, output_place(bound, planned, i));
    if (is_async && planned->workspace != INLAY_NONE)
        mark_bytes_used(binder, index, planned->workspace);
    return store_waits(binder, waiting);
}

/* Returns whether an asynchronous provider runs a step of the plan. If none does, no step waits for another one: an
 * open device that runs nothing must not slow plans that are bound in each run, such as those of bodies. */
static bool has_async_step(const struct plan *plan, const program_env *env)
{
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const plan_step *step = &plan->steps[i];
        const partition_provider *provider =
            step->kind == PLAN_COPY ? &env->providers[step->copy_provider] : step->step->provider;

        if (provider != NULL && (provider->table->flags & INLAY_PROVIDER_ASYNC) != 0)
            return true;
    }
    return false;
}

/* Allocates the lists of bind_waits(). False: out of memory. */
static bool allocate_wait_lists(struct binder *binder, const struct plan *plan)
{
    size_t uses = 1;

    for (uint32_t i = 0; i < plan->step_count; i++)
        uses += plan->steps[i].kind == PLAN_COPY
                    ? 2
                    : plan->steps[i].step->region->input_count + plan->steps[i].step->region->output_count + 1;
    binder->busy = malloc(uses * sizeof *binder->busy);
    binder->waits = calloc((size_t)plan->step_count + 1, sizeof *binder->waits);
    binder->listed_by = calloc((size_t)plan->step_count + 1, sizeof *binder->listed_by);
    return binder->busy != NULL && binder->waits != NULL && binder->listed_by != NULL;
}

static void fill_arg(inlay_tensor_arg *arg, const inlay_value_state *state, const inlay_placement *at)
{
    arg->dims = (int64_t *)(uintptr_t)state->dims; /* written only for BOUNDED outputs, which EXEC steps do not have */
    arg->rank = state->rank;
    arg->dtype = at->dtype != INLAY_UNDEFINED ? at->dtype : state->dtype;
}

/* Prepares the call of an EXEC step, except the addresses. */
static inlay_status bind_exec(struct binder *binder, uint32_t index)
{
    struct bound *bound = binder->bound;
    bound_step *step = &bound->steps[index];
    const plan_step *planned = step->plan;
    const partition_region *region = planned->step->region;
    inlay_tensor_arg *args =
        arena_array(&bound->arena, (size_t)region->input_count + region->output_count + 1, sizeof *args);

    if (args == NULL)
        return no_memory(binder->diag, "to bind a plan");
    step->state = planned->step->provider->state;
    step->execute = provider_direct(planned->step->provider->table, &step->state);
    step->compiled = planned->step->compiled;
    step->instance = planned->instance;
    step->args = (inlay_exec_args){ .struct_size = sizeof step->args,
                                    .run = &binder->runner->shared->run,
                                    .inputs = args,
                                    .outputs = args + region->input_count,
                                    .input_count = region->input_count,
                                    .output_count = region->output_count,
                                    .arg_stride = sizeof *args,
                                    .diag = &binder->runner->shared->diag };
    for (uint32_t i = 0; i < region->input_count; i++) {
        fill_arg(&args[i], &bound->plan->states[region->inputs[i]], &planned->step->placements[i]);
        add_patch(binder, planned->in[i], &args[i].buffer);
    }
    for (uint32_t i = 0; i < region->output_count; i++) {
        fill_arg(&args[region->input_count + i], &bound->plan->states[region->outputs[i]],
                 &planned->step->placements[region->input_count + i]);
        add_patch(binder, planned->out[i], &args[region->input_count + i].buffer);
    }
    return INLAY_OK;
}

static inlay_status bind_step(struct binder *binder, uint32_t index)
{
    struct bound *bound = binder->bound;
    bound_step *step = &bound->steps[index];
    const plan_step *planned = &bound->plan->steps[index];
    const partition_provider *async_provider = NULL;
    inlay_status status = INLAY_OK;
    uint32_t leader = index;

    INLAY_CHECK(binder->leader == INLAY_NONE || binder->leader < index);
    step->plan = planned;
    if (can_join_copies(binder, index))
        leader = binder->leader;
    else
        binder->leader = planned->kind == PLAN_COPY ? index : INLAY_NONE;
    bound->steps[leader].copy_count++;
    if (planned->kind == PLAN_EXEC) {
        status = bind_exec(binder, index);
        async_provider = planned->step->provider;
    } else if (planned->kind == PLAN_COPY) {
        async_provider = &binder->runner->prog->env->providers[planned->copy_provider];
    }
    if (status != INLAY_OK)
        return status;
    if (async_provider != NULL && (async_provider->table->flags & INLAY_PROVIDER_ASYNC) == 0)
        async_provider = NULL;
    if (binder->busy != NULL)
        status = bind_waits(binder, index, leader, async_provider != NULL);
    if (status != INLAY_OK)
        return status;
    if (async_provider != NULL && leader != index) {
        binder->writer_of[plan_memory_place(bound->plan, planned->out[0])] = leader;
        return INLAY_OK;
    }
    if (async_provider != NULL) {
        status = timeline_create(&step->fence.timeline, binder->diag);
        if (status != INLAY_OK)
            return status;
        step->async = true;
        bound->flight.has_async = true;
        for (uint32_t i = 0; i < (planned->kind == PLAN_COPY ? 1 : planned->step->region->output_count); i++)
            binder->writer_of[plan_memory_place(bound->plan, planned->out[i])] = index;
    }
    step->simple = bound_step_is_simple(step);
    return INLAY_OK;
}

static inlay_status allocate_copy_lists(struct bound *bound, inlay_diag *diag)
{
    for (uint32_t i = 0; i < bound->plan->step_count; i++) {
        bound_step *step = &bound->steps[i];

        if (step->plan->kind != PLAN_COPY || step->copy_count < 2)
            continue;
        step->copies = arena_array(&bound->arena, step->copy_count, sizeof *step->copies);
        if (step->copies == NULL)
            return no_memory(diag, "to bind a plan");
    }
    return INLAY_OK;
}

inlay_status bound_create(struct runner *runner, struct plan *plan, struct bound **out_bound, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    struct bound *bound = runner->plans.spare != NULL ? runner->plans.spare : calloc(1, sizeof *bound);
    struct binder binder = { .runner = runner, .bound = bound, .leader = INLAY_NONE, .diag = diag };
    size_t most_patches = 0;
    uint32_t values = runner->prog->graph->value_count;
    bool has_room = true;

    *out_bound = NULL;
    if (bound == NULL) {
        plan_unref(plan);
        return no_memory(diag, "to bind a plan");
    }
    bound->plan = plan;
    runner->plans.spare = NULL;
    for (uint32_t i = 0; i < plan->step_count; i++)
        most_patches += plan->steps[i].kind != PLAN_EXEC
                            ? 0
                            : plan->steps[i].step->region->input_count + plan->steps[i].step->region->output_count;
    bound->memory.slabs = arena_array(&bound->arena, plan->domain_count, sizeof *bound->memory.slabs);
    bound->memory.maps = arena_array(&bound->arena, plan->domain_count, sizeof *bound->memory.maps);
    bound->memory.buffers = arena_array(&bound->arena, (size_t)plan->place_count + 1, sizeof *bound->memory.buffers);
    bound->ports.patches = arena_array(&bound->arena, most_patches + 1, sizeof *bound->ports.patches);
    bound->dynamic.values = arena_array(&bound->arena, (size_t)values + 1, sizeof *bound->dynamic.values);
    binder.writer_of = arena_array(&bound->arena, (size_t)plan->place_count + 1, sizeof *binder.writer_of);
    if (plan->dynamic_count > 0) {
        bound->dynamic.states = arena_copy(&bound->arena, plan->states, values * sizeof *bound->dynamic.states);
        bound->dynamic.infos = arena_copy(&bound->arena, plan->infos, values * sizeof *bound->dynamic.infos);
        bound->dynamic.mirrors = arena_array(&bound->arena, values, sizeof(inlay_value *));
        bound->dynamic.mirror_fences = arena_array(&bound->arena, values, sizeof *bound->dynamic.mirror_fences);
        has_room = bound->dynamic.mirrors != NULL && bound->dynamic.mirror_fences != NULL &&
                   observed_shapes_create(bound, values);
    }
    bound->steps = arena_array(&bound->arena, (size_t)plan->step_count + 1, sizeof *bound->steps);
    if (bound->memory.slabs == NULL || bound->memory.maps == NULL || bound->memory.buffers == NULL ||
        bound->ports.patches == NULL || bound->dynamic.values == NULL || binder.writer_of == NULL ||
        bound->steps == NULL ||
        (plan->dynamic_count > 0 && (bound->dynamic.states == NULL || bound->dynamic.infos == NULL || !has_room))) {
        status = no_memory(diag, "to bind a plan");
        goto done;
    }
    memset(binder.writer_of, 0xff, plan->place_count * sizeof *binder.writer_of);
    if (has_async_step(plan, runner->prog->env) && !allocate_wait_lists(&binder, plan)) {
        status = no_memory(diag, "to bind a plan");
        goto done;
    }
    INLAY_TRY(bind_devices(&binder));
    for (uint32_t i = 0; i < plan->step_count; i++)
        INLAY_TRY(bind_step(&binder, i));
    INLAY_TRY(allocate_copy_lists(bound, diag));
    if (runner->prog->env->memory.held_bytes != NULL) {
        bound->memory.counted_bytes = bound->arena.total_bytes;
        (void)__atomic_add_fetch(runner->prog->env->memory.held_bytes, bound->memory.counted_bytes, __ATOMIC_RELAXED);
    }
    INLAY_TRY(runner_enforce_memory_limit(runner, bound, diag));
    INLAY_TRY(parallel_branches_create(bound, diag));
    INLAY_TRY(reserve_slab(runner, plan->slab_bytes[0], diag));
    INLAY_TRY(write_addresses(runner, bound, diag));
    *out_bound = bound;
    bound = NULL;
done:
    free(binder.busy);
    free(binder.waits);
    free(binder.listed_by);
    bound_destroy(runner, bound);
    return status;
}
