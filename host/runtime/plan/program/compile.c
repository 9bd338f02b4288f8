/* plan/program/compile.c - the regions of a program, compiled by their providers. */
#include "plan/program/compile.h"
#include "base/among.h"
#include "base/memory.h"
#include "inlay/extensions.h"
#include "partition/cost/cost.h"
#include "plan/program/blob_cache.h"
#include "plan/program/borders.h"
#include "plan/program/declined.h"
#include "threads/run.h"
#include <stdlib.h>
#include <string.h>

/* Operators whose output is their input under another shape; the planner makes them cost nothing. */
static bool is_view(const graph_node *n)
{
    return strcmp(n->info.domain.data, "ai.onnx") == 0 && n->info.output_count == 1 &&
           is_among(n->info.op_type.data, "Reshape Flatten Squeeze Unsqueeze Identity");
}

/* ------------------------------------------------------------------ compiling */

/* What a compile's callbacks and hooks get as ctx. */
typedef struct compile_call {
    blob_slot slot; /* first: it is store_cache's ctx, and all three share the pointer */
    run_compile_hooks hooks;
    struct program *p;
    const part_provider *provider;
    uint64_t coming; /* program_coming() */
    inlay_diag over; /* why there is no room */
} compile_call;

/* May the session take so many bytes? */
static inlay_status within_limit(compile_call *call, uint64_t more)
{
    const program_env *env = call->p->env;

    if (env->room == NULL ||
        env->room(env->room_ctx, more + packs_counted(call->p->packs).mapped_bytes, call->coming, &call->over) > 0)
        return INLAY_OK;
    return INLAY_LIMIT_EXCEEDED;
}

static const void *align_for_region(void *ctx, uint32_t value, uint32_t alignment)
{
    return program_align_constant(((compile_call *)ctx)->p, value, alignment);
}

static void release_constant(void *ctx, uint32_t value)
{
    const struct program *p = ((compile_call *)ctx)->p;

    if (value < p->graph->value_count && p->graph->values[value].info.data != NULL)
        graph_blob_forget(p->model, p->graph->values[value].info.data, (size_t)p->graph->values[value].info.data_bytes);
}

static inlay_status take_pack(void *ctx, const void *key, uint64_t key_bytes, uint64_t bytes, void **out_data,
                              uint32_t *out_known)
{
    compile_call *call = ctx;
    const inlay_status status = within_limit(call, bytes);

    return status != INLAY_OK ? status
                              : packs_take(call->p->packs, call->provider, key, key_bytes, bytes, out_data, out_known);
}

static void keep_pack(void *ctx, const void *data)
{
    packs_keep(((compile_call *)ctx)->p->packs, data);
}

static void tell_progress(void *ctx, double fraction, const char *what)
{
    const struct program *p = ((compile_call *)ctx)->p;

    (void)fraction; /* a region is one step of the session's bar */
    if (p->env->progress != NULL)
        (void)p->env->progress(p->env->progress_ctx, what, 0);
}

static inlay_status poll_user(void *ctx)
{
    const struct program *p = ((compile_call *)ctx)->p;
    const inlay_status status = within_limit(ctx, 0);

    return status != INLAY_OK || p->env->progress == NULL ? status
                                                          : p->env->progress(p->env->progress_ctx, "compiling", 0);
}

/* The provider has copies of these constants: their pages may go. Clears the fates for the next region. */
static void forget_constants(const struct program *p, const part_region *r, uint8_t *fates)
{
    for (uint32_t k = 0; k < r->node_count; k++) {
        const inlay_node_info *n = &p->graph->nodes[r->nodes[k]]->info;
        for (uint32_t i = 0; i < n->input_count; i++) {
            uint32_t v = n->inputs[i];
            if (v == INLAY_NONE || fates[v] == INLAY_CONST_BORROWED)
                continue;
            program_forget(p, &p->graph->values[v].info);
            fates[v] = INLAY_CONST_BORROWED;
        }
    }
}

/* Remembers which offers of a region its provider has declined; without memory, none. */
static void note_declined(struct program *p, const program_step *step, const inlay_diag *why, program_declined *out)
{
    uint8_t *offers = arena_array(&p->a, (size_t)p->parts.offer_count + 1, sizeof *offers);
    const char *text = arena_string(&p->a, why->text);

    if (offers == NULL || text == NULL)
        return;
    declined_mark(p, (uint32_t)(step - p->steps), why, offers);
    *out = (program_declined){ p, offers, "compile", text };
}

static inlay_status compile_region(struct program *p, program_step *step, uint8_t *fates, struct arena *scratch,
                                   program_declined *out_declined, inlay_diag *diag)
{
    const part_region *r = step->region;
    compile_call call = { .hooks = { .ctx = &call,
                                     .align_constant = align_for_region,
                                     .release_constant = release_constant,
                                     .take_pack = take_pack,
                                     .keep_pack = keep_pack },
                          .p = p,
                          .provider = step->provider,
                          .coming = p->env->room != NULL ? program_coming(p, (uint32_t)(step - p->steps)) : 0,
                          .over = INLAY_DIAG_INIT };
    uint64_t *cookies = arena_array(scratch, (size_t)r->offer_count + 1, sizeof *cookies);
    inlay_placement *placements = borders_negotiate(p, r, &p->a);
    inlay_compile_request request = { .struct_size = sizeof request };
    inlay_diag own = INLAY_DIAG_INIT;
    inlay_status status;

    if (cookies == NULL || placements == NULL)
        return no_memory(diag, "to compile a region of graph '%s'", p->graph->name);
    step->resident_bytes = 0;
    for (uint32_t i = 0; i < r->offer_count; i++) {
        const part_offer *o = &p->parts.offers[r->offers[i]];

        cookies[i] = o->cookie;
        if (__builtin_add_overflow(step->resident_bytes, o->resident_bytes, &step->resident_bytes))
            step->resident_bytes = UINT64_MAX / 2;
    }
    request.resident_bytes = &step->resident_bytes;
    call.hooks.timings = program_timings(p, step->provider);
    request.handle = &call.hooks;
    request.graph = &p->snapshot;
    request.nodes = r->nodes;
    request.node_count = r->node_count;
    request.cookies = cookies;
    request.offer_count = r->offer_count;
    request.inputs = r->inputs;
    request.input_count = r->input_count;
    request.outputs = r->outputs;
    request.output_count = r->output_count;
    request.placements = placements;
    request.placement_stride = sizeof *placements;
    request.constants = fates;
    request.max_threads = p->env->max_threads;
    request.profile = p->parts.compiled_for;
    request.profile_stride = sizeof *request.profile;
    request.progress = tell_progress;
    request.poll = poll_user;
    request.ctx = &call;
    step->placements = placements;
    blob_slot_open(&call.slot, p->env, step->provider, &request);
    status = step->provider->table->compile(step->provider->state, &request, &step->compiled, &own);
    blob_slot_close(&call.slot);
    if (status != INLAY_OK) {
        const graph_node *n = p->graph->nodes[r->nodes[0]];

        step->compiled = NULL;
        if (call.over.code != INLAY_OK) {
            program_tell(diag, &call.over);
            return INLAY_LIMIT_EXCEEDED;
        }
        status = inlay_fail(diag, status, "can't compile %s node '%s' of graph '%s': %.300s", n->info.op_type.data,
                            n->info.name.data, p->graph->name, own.text);
        if (status == INLAY_UNSUPPORTED)
            note_declined(p, step, &own, out_declined);
        return status;
    }
    program_count_resident(p->env, step, false);
    forget_constants(p, r, fates);
    return INLAY_OK;
}

/* Compiles what runs inside a node of the host's. */
static inlay_status make_bodies(struct program *p, program_step *step, program_declined *out_declined, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    step->bodies = p->bodies_of[step->region->nodes[0]];
    for (uint32_t i = 0; i < step->node->body_count && status == INLAY_OK; i++)
        status = program_compile(step->bodies[i], out_declined, diag);
    return status;
}

static bool runs_on_host(const part_provider *provider)
{
    return part_default_domain(provider) == INLAY_DOMAIN_HOST && (provider->table->flags & INLAY_PROVIDER_ASYNC) == 0;
}

static inlay_status make_step(struct program *p, uint32_t i, uint8_t *fates, struct arena *scratch,
                              program_declined *out_declined, inlay_diag *diag)
{
    program_step *step = &p->steps[i];
    const part_region *r = &p->parts.regions[i];

    step->region = r;
    step->node = p->graph->nodes[r->nodes[0]];
    if (r->provider == INLAY_NONE)
        return make_bodies(p, step, out_declined, diag);
    step->provider = &p->env->providers[r->provider];
    step->foldable = r->node_count == 1 && runs_on_host(step->provider) && !graph_node_is_random(step->node) &&
                     step->node->body_count == 0;
    step->view = r->node_count == 1 && runs_on_host(step->provider) && is_view(step->node);
    return step->compiled != NULL ? INLAY_OK : compile_region(p, step, fates, scratch, out_declined, diag);
}

static bool find_last_uses(struct program *p)
{
    p->uses.last = arena_array(&p->a, (size_t)p->graph->value_count + 1, sizeof *p->uses.last);
    if (p->uses.last == NULL)
        return false;
    memset(p->uses.last, 0xff, p->graph->value_count * sizeof *p->uses.last);
    for (uint32_t i = 0; i < p->step_count; i++)
        for (uint32_t k = 0; k < p->steps[i].region->input_count; k++)
            p->uses.last[p->steps[i].region->inputs[k]] = i;
    for (uint32_t k = 0; k < p->graph->output_count; k++)
        if (p->graph->outputs[k] != INLAY_NONE)
            p->uses.last[p->graph->outputs[k]] = p->step_count;
    return true;
}

/* Where the bodies of a node read v, in which they are handed it as it is. */
static uint32_t read_in_bodies(const program_step *s, uint32_t v)
{
    uint32_t domain = INLAY_DOMAIN_HOST;

    for (uint32_t k = 0; k < s->node->body_count && program_hands_on(s, v); k++) {
        const graph_body *body = &s->node->bodies[k];
        const struct program *p = s->bodies[k];

        for (uint32_t i = 0; i < body->capture_count && domain == INLAY_DOMAIN_HOST; i++)
            if (body->capture_outer[i] == v)
                domain = p->uses.read_in[body->capture_inner[i]];
        for (uint32_t i = 0; i < s->node->info.input_count && domain == INLAY_DOMAIN_HOST; i++)
            if (i < p->graph->input_count && s->node->info.inputs[i] == v)
                domain = p->uses.read_in[p->graph->inputs[i]];
    }
    return domain;
}

static bool find_readers(struct program *p)
{
    p->uses.read_in = arena_array(&p->a, (size_t)p->graph->value_count + 1, sizeof *p->uses.read_in);
    p->uses.taken_in = arena_array(&p->a, (size_t)p->graph->value_count + 1, sizeof *p->uses.taken_in);
    p->uses.read_here = arena_array(&p->a, (size_t)p->graph->value_count + 1, sizeof *p->uses.read_here);
    if (p->uses.read_in == NULL || p->uses.taken_in == NULL || p->uses.read_here == NULL)
        return false;
    for (uint32_t i = 0; i < p->step_count; i++) {
        const program_step *s = &p->steps[i];

        for (uint32_t k = 0; k < s->region->input_count; k++) {
            const uint32_t v = s->region->inputs[k];
            const uint32_t domain = s->provider != NULL ? s->placements[k].domain : read_in_bodies(s, v);

            if (domain != INLAY_DOMAIN_HOST)
                p->uses.read_in[v] = domain;
            if (domain != INLAY_DOMAIN_HOST && s->provider != NULL)
                p->uses.taken_in[v] = domain;
            p->uses.read_here[v] |=
                domain == INLAY_DOMAIN_HOST || s->provider == NULL; /* bodies: some of them perhaps */
        }
    }
    for (uint32_t k = 0; k < p->graph->output_count; k++)
        if (p->graph->outputs[k] != INLAY_NONE)
            p->uses.read_here[p->graph->outputs[k]] = true;
    return true;
}

/* A step is one of the session's progress bar when it is made for the first time. */
static bool is_new(const struct program *p, uint32_t i)
{
    return p->fallback.base == NULL && p->steps[i].region == NULL && p->steps[i].compiled == NULL;
}

static inlay_status make_steps(struct program *p, uint8_t *fates, program_declined *out_declined, inlay_diag *diag)
{
    const program_env *env = p->env;
    inlay_status status = INLAY_OK;
    struct arena scratch = { 0 };

    for (uint32_t i = 0; i < p->parts.region_count; i++) {
        if (env->progress != NULL && is_new(p, i))
            INLAY_TRY(env->progress(env->progress_ctx, "compiling", 1));
        INLAY_TRY(make_step(p, i, fates, &scratch, out_declined, diag));
        arena_reset(&scratch);
    }
done:
    arena_deinit(&scratch);
    return status;
}

inlay_status program_compile(struct program *p, program_declined *out_declined, inlay_diag *diag)
{
    inlay_status status;
    uint8_t *fates;

    if (p->compiled)
        return INLAY_OK;
    fates = arena_alloc(&p->a, (size_t)p->graph->value_count + 1);
    if (p->constants.aligned == NULL)
        p->constants.aligned = arena_array(&p->a, (size_t)p->graph->value_count + 1, sizeof(void *));
    if (p->steps == NULL)
        p->steps = arena_array(&p->a, (size_t)p->parts.region_count + 1, sizeof *p->steps);
    if (p->steps == NULL || p->constants.aligned == NULL || fates == NULL)
        return program_no_memory(p->graph, diag);
    p->step_count = p->parts.region_count; /* destroy releases what was compiled */
    status = make_steps(p, fates, out_declined, diag);
    if (status == INLAY_OK && (!find_last_uses(p) || !find_readers(p) || !program_find_states(p)))
        status = program_no_memory(p->graph, diag);
    p->compiled = status == INLAY_OK;
    if (status == INLAY_CANCELLED)
        status = inlay_fail(diag, INLAY_CANCELLED, "cancelled while compiling graph '%s'", p->graph->name);
    return status;
}
