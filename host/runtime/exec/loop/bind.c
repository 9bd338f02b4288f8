/* exec/loop/bind.c - a plan gets memory: the slab, and every address that a step reads or writes. */
#include "base/memory.h"
#include "base/pages.h"
#include "exec/device/device_memory.h"
#include "exec/loop/bound.h"
#include "exec/loop/side.h"
#include "plugin/plugin.h"
#include "threads/fence.h"
#include <stdlib.h>
#include <string.h>

enum { SLAB_ALIGN = 64, SLAB_SMALL = 1 << 20, SMALL_COPY = 1 << 16 };

/* Bytes of a slab that an asynchronous step reads or writes: they may be in use until its fence is reached. */
typedef struct busy_range {
    uint64_t begin, end;
    uint32_t domain;
    uint32_t step;
} busy_range;

struct binder {
    struct runner *r;
    struct bound *b;
    uint32_t *maker;  /* [place_count] asynchronous step that fills the place, INLAY_NONE */
    busy_range *busy; /* what the steps before this one may still use */
    uint32_t busy_count;
    uint32_t *waits; /* [step_count] what this step waits for so far ... */
    uint32_t wait_count;
    uint32_t port_count; /* places on devices that are the caller's, which it uses */
    uint32_t *waits_of;  /* ... [step_count] and who has it in that list: 1 + the number of the step */
    uint32_t leader;     /* the copy that those behind it go with, INLAY_NONE */
    inlay_diag *diag;
};

/* Is the slab much larger than what any plan of the runner needs, or `bytes`? One run of large inputs is no reason to
 * hold their memory for good. */
static bool is_oversized(const struct runner *r, uint64_t bytes)
{
    for (uint32_t i = 0; i < BOUNDS_KEPT; i++)
        if (r->plans.kept[i] != NULL && r->plans.kept[i]->plan->slab_bytes[0] > bytes)
            bytes = r->plans.kept[i]->plan->slab_bytes[0];
    return r->plans.slab_bytes > SLAB_SMALL && r->plans.slab_bytes / 4 > bytes;
}

/* One slab for all plans of a runner, as large as the largest needs it. Where sizes grow from run to run there is some
 * room for the next ones: fresh pages cost more than what a small plan computes in them. */
static inlay_status reserve_slab(struct runner *r, uint64_t bytes, inlay_diag *diag)
{
    bool grows =
        r->plans.slab != NULL && r->plans.slab_bytes < bytes && run_memory_held(r->shared->tensors.memory) == NULL;
    uint64_t room = (bytes + (grows ? bytes / 4 : 0) + SLAB_ALIGN - 1) / SLAB_ALIGN * SLAB_ALIGN;
    inlay_status status;

    if (bytes <= r->plans.slab_bytes && !is_oversized(r, bytes))
        return INLAY_OK;
    run_memory_give(r->shared->tensors.memory, r->plans.slab, r->plans.slab_bytes);
    r->plans.slab_bytes = 0;
    status = run_take(r->shared, room, SLAB_ALIGN, &r->plans.slab, diag);
    if (status == INLAY_OUT_OF_MEMORY)
        return no_memory(diag, "for the %llu bytes that graph '%s' needs to run", (unsigned long long)bytes,
                         r->prog->graph->name);
    if (status != INLAY_OK)
        return status;
    r->plans.slab_bytes = room;
    pages_large(r->plans.slab, room);
    return INLAY_OK;
}

static inlay_status bind_devices(struct binder *k)
{
    const struct plan *p = k->b->plan;
    const program_env *env = k->r->prog->env;
    inlay_status status = INLAY_OK;

    for (uint32_t d = 1; d < p->domain_count && status == INLAY_OK; d++) {
        const uint32_t i = plan_owner_of(env, d);

        if (p->slab_bytes[d] == 0)
            continue;
        status = device_take(k->r, i, d, p->slab_bytes[d], &k->b->memory.slabs[d], k->diag);
        if (status == INLAY_OK && plan_is_unified(env, d))
            status = env->providers[i].table->buffer_map(env->providers[i].state, &k->b->memory.slabs[d],
                                                         &k->b->memory.maps[d], k->diag);
    }
    return status;
}

/* Where each place lies, but for inputs and outputs. */
static void write_places(const struct runner *r, struct bound *b)
{
    const struct plan *p = b->plan;

    for (uint32_t i = 0; i < p->place_count; i++) {
        const plan_place *pl = &p->places[i];
        inlay_buffer *out = &b->memory.buffers[i];

        *out = (inlay_buffer){ .bytes = pl->bytes, .domain = pl->domain };
        if (pl->source == PLACE_SLAB) {
            *out = bound_in_slab(r, b, pl, pl->domain);
        } else if (pl->source == PLACE_VIEW && p->places[pl->index].source == PLACE_SLAB) {
            *out = bound_in_slab(r, b, &p->places[pl->index], pl->domain);
        } else if (pl->source == PLACE_DATA) {
            out->handle = (uintptr_t)(pl->data != NULL ? pl->data : (const void *)&b->memory.base);
        }
    }
    b->memory.base = r->plans.slab;
}

static void write_args(struct bound *b, bound_step *s)
{
    const plan_step *ps = s->plan;
    const part_region *r = ps->step->region;
    inlay_tensor_arg *args = s->args.outputs - r->input_count;

    for (uint32_t i = 0; i < r->input_count; i++)
        args[i].buffer = b->memory.buffers[ps->in[i]];
    for (uint32_t i = 0; i < r->output_count; i++)
        args[r->input_count + i].buffer = b->memory.buffers[ps->out[i]];
    if (ps->workspace == INLAY_NONE)
        return;
    s->args.workspace = b->memory.buffers[ps->workspace];
    if (s->args.workspace.domain == INLAY_DOMAIN_HOST) {
        uint64_t alignment = ps->workspace_alignment, at = s->args.workspace.handle;
        s->args.workspace.offset = alignment > SLAB_ALIGN ? (alignment - at % alignment) % alignment : 0;
        s->args.workspace.bytes -= s->args.workspace.offset;
    }
}

/* What the provider keeps for these addresses. */
static inlay_status make_binding(bound_step *s, inlay_diag *diag)
{
    const part_provider *p = s->plan->step->provider;
    const inlay_bind_args args = { .struct_size = sizeof args,
                                   .inputs = s->args.inputs,
                                   .outputs = s->args.outputs,
                                   .input_count = s->args.input_count,
                                   .output_count = s->args.output_count,
                                   .arg_stride = s->args.arg_stride,
                                   .workspace = s->args.workspace };
    inlay_status status;

    if (p->table->bind == NULL)
        return INLAY_OK;
    status = p->table->bind(p->state, s->compiled, s->instance, &args, &s->args.binding, diag);
    return status == INLAY_UNSUPPORTED ? INLAY_OK : status;
}

static inlay_status write_addresses(const struct runner *r, struct bound *b, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    write_places(r, b);
    for (uint32_t i = 0; i < b->plan->step_count && status == INLAY_OK; i++) {
        if (b->steps[i].plan->kind != PLAN_EXEC)
            continue;
        bound_release_binding(&b->steps[i]);
        write_args(b, &b->steps[i]);
        status = make_binding(&b->steps[i], diag);
    }
    return status;
}

inlay_status bound_settle(struct runner *r, struct bound *b, inlay_diag *diag)
{
    inlay_status status = runner_keep_limit(r, b, diag);

    if (status == INLAY_OK && r->plans.slab_bytes < b->plan->slab_bytes[0])
        status = reserve_slab(r, b->plan->slab_bytes[0], diag);
    if (status == INLAY_OK && b->memory.base != r->plans.slab)
        status = write_addresses(r, b, diag);
    return status;
}

static void add_patch(struct binder *k, uint32_t place, inlay_buffer *target)
{
    const plan_place *pl = &k->b->plan->places[plan_bytes_of(k->b->plan, place)];

    if (pl->source == PLACE_INPUT || pl->source == PLACE_OUTPUT)
        k->b->ports.patches[k->b->ports.patch_count++] = (struct patch){ place, target };
}

/* ------------------------------------------------------------------ who waits for whom
 *
 * A step waits for the makers of what it reads. Places share bytes, so one that writes also waits for those that read
 * or wrote the same bytes before, where they work behind the host's back. */

static void add_wait(struct binder *k, uint32_t index, uint32_t step)
{
    if (step == INLAY_NONE || k->waits_of[step] == index + 1)
        return;
    k->waits_of[step] = index + 1;
    k->waits[k->wait_count++] = step;
}

static void count_port(struct binder *k, uint32_t place)
{
    const plan_place *pl = &k->b->plan->places[place];

    k->port_count += pl->domain != INLAY_DOMAIN_HOST && (pl->source == PLACE_INPUT || pl->source == PLACE_OUTPUT);
}

/* The step writes the place, which nobody may be using then; whoever was has gone. */
static void wait_for_bytes(struct binder *k, uint32_t index, uint32_t place)
{
    const plan_place *pl = &k->b->plan->places[plan_bytes_of(k->b->plan, place)];
    const uint64_t end = pl->offset + pl->bytes;
    uint32_t kept = 0;

    for (uint32_t i = 0; pl->source == PLACE_SLAB && i < k->busy_count; i++) {
        const busy_range *x = &k->busy[i];
        const bool meets = x->domain == pl->lies_in && x->begin < end && pl->offset < x->end;

        if (meets && x->step != index)
            add_wait(k, index, x->step);
        if (!meets || x->begin < pl->offset || x->end > end)
            k->busy[kept++] = *x;
    }
    if (pl->source == PLACE_SLAB)
        k->busy_count = kept;
}

static void use_bytes(struct binder *k, uint32_t index, uint32_t place)
{
    const plan_place *pl = &k->b->plan->places[plan_bytes_of(k->b->plan, place)];

    if (pl->source == PLACE_SLAB && pl->bytes > 0)
        k->busy[k->busy_count++] = (busy_range){ pl->offset, pl->offset + pl->bytes, pl->lies_in, index };
}

/* The places that a step writes: those of a region that is sized in the run are in the plan where it could know them.
 */
static uint32_t written(const struct bound *b, const plan_step *ps, uint32_t i)
{
    const uint32_t v = ps->kind == PLAN_COPY ? INLAY_NONE : ps->step->region->outputs[i];

    if (ps->kind == PLAN_COPY || ps->kind == PLAN_EXEC)
        return ps->out[i];
    return b->plan->values[v].place;
}

/* Whose step it is; NULL: the host's. */
static const part_provider *provider_of(const struct binder *k, const plan_step *ps)
{
    return ps->kind == PLAN_COPY ? &k->r->prog->env->providers[ps->copy_provider] : ps->step->provider;
}

static bool places_meet(const struct bound *b, uint32_t x, uint32_t y)
{
    const plan_place *p = &b->plan->places[plan_bytes_of(b->plan, x)];
    const plan_place *q = &b->plan->places[plan_bytes_of(b->plan, y)];

    return x == y || (p->source == PLACE_SLAB && q->source == PLACE_SLAB && p->lies_in == q->lies_in &&
                      p->offset < q->offset + q->bytes && q->offset < p->offset + p->bytes);
}

/* May the copy go with those before it, as one request? None may depend on another, and none that is read first waits
 * for large ones that are read later. */
static bool joins_copies(const struct binder *k, uint32_t index)
{
    const struct bound *b = k->b;
    const plan_step *ps = &b->plan->steps[index];

    if (k->leader == INLAY_NONE || ps->kind != PLAN_COPY ||
        b->plan->steps[k->leader].copy_provider != ps->copy_provider ||
        (b->plan->steps[k->leader].group != ps->group && ps->copy_bytes > SMALL_COPY))
        return false;
    for (uint32_t i = k->leader; i < index; i++) {
        const plan_step *x = &b->plan->steps[i];

        if (places_meet(b, x->out[0], ps->in[0]) || places_meet(b, x->out[0], ps->out[0]) ||
            places_meet(b, x->in[0], ps->out[0]))
            return false;
    }
    return true;
}

/* The step's list of whom it waits for, its own provider's steps first. */
static inlay_status keep_waits(struct binder *k, bound_step *s)
{
    const part_provider *own = provider_of(k, s->plan);

    if (k->wait_count + k->port_count == 0)
        return INLAY_OK;
    s->wait_steps = arena_array(&k->b->a, k->wait_count + 1, sizeof *s->wait_steps);
    s->waits = arena_array(&k->b->a, k->wait_count + k->port_count + 1, sizeof *s->waits);
    if (s->wait_steps == NULL || s->waits == NULL)
        return no_memory(k->diag, "to bind a plan");
    s->wait_step_count = 0;
    for (int others = 0; others < 2; others++) {
        for (uint32_t i = 0; i < k->wait_count; i++)
            if ((provider_of(k, k->b->steps[k->waits[i]].plan) != own) == (others != 0))
                s->wait_steps[s->wait_step_count++] = k->waits[i];
        if (others == 0)
            s->own_wait_count = s->wait_step_count;
    }
    return INLAY_OK;
}

/* index: who waits, and uses the bytes; of a copy that goes with others, the first of them. */
static inlay_status bind_waits(struct binder *k, uint32_t step, uint32_t index, bool is_async)
{
    struct bound *b = k->b;
    bound_step *s = &b->steps[index];
    const plan_step *ps = b->steps[step].plan;
    const uint32_t ins = ps->kind == PLAN_COPY ? 1 : ps->step->region->input_count;
    const uint32_t outs = ps->kind == PLAN_COPY ? 1 : ps->step->region->output_count;

    if (step == index)
        k->wait_count = k->port_count = 0;
    for (uint32_t i = 0; i < ins; i++) {
        add_wait(k, index, k->maker[plan_bytes_of(b->plan, ps->in[i])]);
        count_port(k, ps->in[i]);
    }
    for (uint32_t i = 0; i < outs; i++) {
        wait_for_bytes(k, index, written(b, ps, i));
        count_port(k, written(b, ps, i));
    }
    if (ps->workspace != INLAY_NONE)
        wait_for_bytes(k, index, ps->workspace);
    for (uint32_t i = 0; is_async && i < ins; i++)
        use_bytes(k, index, ps->in[i]);
    for (uint32_t i = 0; is_async && i < outs; i++)
        use_bytes(k, index, written(b, ps, i));
    if (is_async && ps->workspace != INLAY_NONE)
        use_bytes(k, index, ps->workspace);
    return keep_waits(k, s);
}

/* Does some provider answer before it is done? Otherwise no step waits for another. */
static bool works_behind(const program_env *env)
{
    for (uint32_t i = 0; i < env->provider_count; i++)
        if ((env->providers[i].table->flags & INLAY_PROVIDER_ASYNC) != 0)
            return true;
    return false;
}

/* Lists for bind_waits; false: no memory. */
static bool start_waits(struct binder *k, const struct plan *p)
{
    size_t uses = 1;

    for (uint32_t i = 0; i < p->step_count; i++)
        uses += p->steps[i].kind == PLAN_COPY
                    ? 2
                    : p->steps[i].step->region->input_count + p->steps[i].step->region->output_count + 1;
    k->busy = malloc(uses * sizeof *k->busy);
    k->waits = calloc((size_t)p->step_count + 1, sizeof *k->waits);
    k->waits_of = calloc((size_t)p->step_count + 1, sizeof *k->waits_of);
    return k->busy != NULL && k->waits != NULL && k->waits_of != NULL;
}

static void fill_arg(inlay_tensor_arg *arg, const inlay_value_state *st, const inlay_placement *at)
{
    arg->dims = (int64_t *)(uintptr_t)st->dims; /* written for BOUNDED outputs only, which no EXEC step has */
    arg->rank = st->rank;
    arg->dtype = at->dtype != INLAY_UNDEFINED ? at->dtype : st->dtype;
}

/* Everything but the addresses. */
static inlay_status bind_exec(struct binder *k, uint32_t index)
{
    struct bound *b = k->b;
    bound_step *s = &b->steps[index];
    const plan_step *ps = s->plan;
    const part_region *r = ps->step->region;
    inlay_tensor_arg *args = arena_array(&b->a, (size_t)r->input_count + r->output_count + 1, sizeof *args);

    if (args == NULL)
        return no_memory(k->diag, "to bind a plan");
    s->state = ps->step->provider->state;
    s->execute = provider_direct(ps->step->provider->table, &s->state);
    s->compiled = ps->step->compiled;
    s->instance = ps->instance;
    s->args = (inlay_exec_args){ .struct_size = sizeof s->args,
                                 .run = &k->r->shared->run,
                                 .inputs = args,
                                 .outputs = args + r->input_count,
                                 .input_count = r->input_count,
                                 .output_count = r->output_count,
                                 .arg_stride = sizeof *args,
                                 .diag = &k->r->shared->diag };
    for (uint32_t i = 0; i < r->input_count; i++) {
        fill_arg(&args[i], &b->plan->states[r->inputs[i]], &ps->step->placements[i]);
        add_patch(k, ps->in[i], &args[i].buffer);
    }
    for (uint32_t i = 0; i < r->output_count; i++) {
        fill_arg(&args[r->input_count + i], &b->plan->states[r->outputs[i]], &ps->step->placements[r->input_count + i]);
        add_patch(k, ps->out[i], &args[r->input_count + i].buffer);
    }
    return INLAY_OK;
}

static inlay_status bind_step(struct binder *k, uint32_t index)
{
    struct bound *b = k->b;
    bound_step *s = &b->steps[index];
    const plan_step *ps = &b->plan->steps[index];
    const part_provider *async_provider = NULL;
    inlay_status status = INLAY_OK;
    uint32_t leader = index;

    s->plan = ps;
    if (joins_copies(k, index))
        leader = k->leader;
    else
        k->leader = ps->kind == PLAN_COPY && provider_of(k, ps)->table->buffer_copies != NULL ? index : INLAY_NONE;
    b->steps[leader].copy_count++;
    if (ps->kind == PLAN_EXEC) {
        status = bind_exec(k, index);
        async_provider = ps->step->provider;
    } else if (ps->kind == PLAN_COPY) {
        async_provider = &k->r->prog->env->providers[ps->copy_provider];
    }
    if (status != INLAY_OK)
        return status;
    if (async_provider != NULL && (async_provider->table->flags & INLAY_PROVIDER_ASYNC) == 0)
        async_provider = NULL;
    if (k->busy != NULL)
        status = bind_waits(k, index, leader, async_provider != NULL);
    if (status != INLAY_OK)
        return status;
    if (async_provider != NULL && leader != index) {
        k->maker[ps->out[0]] = leader;
        return INLAY_OK;
    }
    if (async_provider != NULL) {
        status = timeline_create(&s->fence.timeline, k->diag);
        if (status != INLAY_OK)
            return status;
        s->async = true;
        b->flight.has_async = true;
        for (uint32_t i = 0; i < (ps->kind == PLAN_COPY ? 1 : ps->step->region->output_count); i++)
            k->maker[ps->out[i]] = index;
    }
    s->simple = ps->kind == PLAN_EXEC && !s->async && s->wait_step_count == 0;
    return INLAY_OK;
}

static inlay_status make_room_for_copies(struct bound *b, inlay_diag *diag)
{
    for (uint32_t i = 0; i < b->plan->step_count; i++) {
        bound_step *s = &b->steps[i];

        if (s->plan->kind != PLAN_COPY || s->copy_count < 2)
            continue;
        s->copies = arena_array(&b->a, s->copy_count, sizeof *s->copies);
        if (s->copies == NULL)
            return no_memory(diag, "to bind a plan");
    }
    return INLAY_OK;
}

inlay_status bound_create(struct runner *r, struct plan *p, struct bound **out_bound, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    struct bound *b = r->plans.spare != NULL ? r->plans.spare : calloc(1, sizeof *b);
    struct binder k = { .r = r, .b = b, .leader = INLAY_NONE, .diag = diag };
    size_t most_patches = 0;
    uint32_t values = r->prog->graph->value_count;
    bool has_room = true;

    *out_bound = NULL;
    if (b == NULL) {
        plan_unref(p);
        return no_memory(diag, "to bind a plan");
    }
    b->plan = p;
    r->plans.spare = NULL;
    for (uint32_t i = 0; i < p->step_count; i++)
        most_patches += p->steps[i].kind != PLAN_EXEC
                            ? 0
                            : p->steps[i].step->region->input_count + p->steps[i].step->region->output_count;
    b->memory.slabs = arena_array(&b->a, p->domain_count, sizeof *b->memory.slabs);
    b->memory.maps = arena_array(&b->a, p->domain_count, sizeof *b->memory.maps);
    b->memory.buffers = arena_array(&b->a, (size_t)p->place_count + 1, sizeof *b->memory.buffers);
    b->ports.patches = arena_array(&b->a, most_patches + 1, sizeof *b->ports.patches);
    b->made.values = arena_array(&b->a, (size_t)values + 1, sizeof *b->made.values);
    k.maker = arena_array(&b->a, (size_t)p->place_count + 1, sizeof *k.maker);
    if (p->dynamic_count > 0) {
        b->made.states = arena_copy(&b->a, p->states, values * sizeof *b->made.states);
        b->made.infos = arena_copy(&b->a, p->infos, values * sizeof *b->made.infos);
        b->made.twins = arena_array(&b->a, values, sizeof(inlay_value *));
        b->made.arrivals = arena_array(&b->a, values, sizeof *b->made.arrivals);
        has_room = b->made.twins != NULL && b->made.arrivals != NULL && seen_create(b, values);
    }
    b->steps = arena_array(&b->a, (size_t)p->step_count + 1, sizeof *b->steps);
    if (b->memory.slabs == NULL || b->memory.maps == NULL || b->memory.buffers == NULL || b->ports.patches == NULL ||
        b->made.values == NULL || k.maker == NULL || b->steps == NULL ||
        (p->dynamic_count > 0 && (b->made.states == NULL || b->made.infos == NULL || !has_room))) {
        status = no_memory(diag, "to bind a plan");
        goto done;
    }
    memset(k.maker, 0xff, p->place_count * sizeof *k.maker);
    if (works_behind(r->prog->env) && !start_waits(&k, p)) {
        status = no_memory(diag, "to bind a plan");
        goto done;
    }
    INLAY_TRY(bind_devices(&k));
    for (uint32_t i = 0; i < p->step_count; i++)
        INLAY_TRY(bind_step(&k, i));
    INLAY_TRY(make_room_for_copies(b, diag));
    if (r->prog->env->held_bytes != NULL) {
        b->memory.counted_bytes = b->a.total_bytes;
        (void)__atomic_add_fetch(r->prog->env->held_bytes, b->memory.counted_bytes, __ATOMIC_RELAXED);
    }
    INLAY_TRY(runner_keep_limit(r, b, diag));
    INLAY_TRY(side_create(b, diag));
    INLAY_TRY(reserve_slab(r, p->slab_bytes[0], diag));
    INLAY_TRY(write_addresses(r, b, diag));
    *out_bound = b;
    b = NULL;
done:
    free(k.busy);
    free(k.waits);
    free(k.waits_of);
    bound_destroy(r, b);
    return status;
}
