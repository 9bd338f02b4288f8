#include "plan/borders.h"
#include "plan/program.h"
#include "inlay/extensions.h"
#include "partition/cost.h"
#include "plan/blob_cache.h"
#include "plan/late.h"
#include "plan/plan.h"
#include "plan/settle.h"
#include "threads/run.h"
#include "threads/threads.h"
#include <stdlib.h>
#include <string.h>

/* Operators whose output is their input under another shape; the planner makes them cost nothing. */
static bool is_view(const graph_node *n)
{
    static const char *const names[] = { "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity" };

    if (strcmp(n->info.domain.data, "ai.onnx") != 0 || n->info.output_count != 1)
        return false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(n->info.op_type.data, names[i]) == 0)
            return true;
    return false;
}

/* ------------------------------------------------------------------ compiling */

/* What a compile's callbacks and hooks get as ctx. */
typedef struct compile_call {
    blob_slot slot; /* first: it is store_cache's ctx, and all three share the pointer */
    run_compile_hooks hooks;
    program *p;
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
    const program *p = ((compile_call *)ctx)->p;

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
    const program *p = ((compile_call *)ctx)->p;

    (void)fraction; /* a region is one step of the session's bar */
    if (p->env->progress != NULL)
        (void)p->env->progress(p->env->progress_ctx, what, 0);
}

static inlay_status poll_user(void *ctx)
{
    const program *p = ((compile_call *)ctx)->p;
    const inlay_status status = within_limit(ctx, 0);

    return status != INLAY_OK || p->env->progress == NULL ? status
                                                          : p->env->progress(p->env->progress_ctx, "compiling", 0);
}

/* The provider has copies of these constants: their pages may go. Clears the fates for the next region. */
static void forget_constants(const program *p, const part_region *r, uint8_t *fates)
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

static void count_resident(const program_env *env, const program_step *s, bool released)
{
    uint64_t *all = env->resident_bytes != NULL ? &env->resident_bytes[s->provider - env->providers] : NULL;

    if (all != NULL)
        (void)__atomic_add_fetch(all, released ? 0 - s->resident_bytes : s->resident_bytes, __ATOMIC_RELAXED);
}

void program_release_step(const program_env *env, program_step *s)
{
    if (s->compiled == NULL || s->borrowed)
        return;
    count_resident(env, s, true);
    s->provider->table->release_compiled(s->provider->state, s->compiled);
    s->compiled = NULL;
}

static void tell(inlay_diag *diag, inlay_diag *why)
{
    if (diag == NULL || diag->struct_size < sizeof *why)
        return;
    why->struct_size = diag->struct_size;
    *diag = *why;
}

static inlay_status compile_region(program *p, program_step *step, uint8_t *fates, const inlay_value_state *profile,
                                   arena *scratch, inlay_diag *diag)
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
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to compile a region of graph '%s'", p->graph->name);
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
    request.profile = profile;
    request.profile_stride = sizeof *profile;
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
            tell(diag, &call.over);
            return INLAY_LIMIT_EXCEEDED;
        }
        status = inlay_fail(diag, status, "can't compile %s node '%s' of graph '%s': %.300s", n->info.op_type.data,
                            n->info.name.data, p->graph->name, own.text);
        if (status == INLAY_UNSUPPORTED)
            *p->declined = own;
        return status;
    }
    count_resident(p->env, step, false);
    forget_constants(p, r, fates);
    return INLAY_OK;
}

static inlay_status out_of_memory(const graph *g, inlay_diag *diag)
{
    return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the program of graph '%s'", g->name);
}

/* A provider was to run the node that p is a body of, and declined: now p is assigned, too. */
static inlay_status assign_idle(program *p, inlay_diag *diag)
{
    const cost_sizes *known = p->env->sizes;
    part_rules rules = p->env->rules != NULL ? *p->env->rules : (part_rules){ 0 };
    cost_sizes sizes = { 0 }; /* of our own: the session's are for one thread, and this may be a run */
    uint32_t count = program_count(p);
    part_job *jobs = malloc(count * sizeof *jobs);
    inlay_status status;

    if (jobs == NULL)
        return out_of_memory(p->graph, diag);
    if (known != NULL) {
        sizes.assumed = known->assumed;
        sizes.assumed_count = known->assumed_count;
    }
    rules.saved_plan = NULL; /* it gives the node to that provider */
    rules.require_count = 0; /* all graphs together keep it */
    (void)program_jobs(p, jobs);
    for (uint32_t j = 0; j < count; j++) {
        jobs[j].request.rules = &rules;
        jobs[j].request.sizes = &sizes;
    }
    jobs[0].request.again = true;
    status = partition_all(jobs, count, diag);
    cost_sizes_deinit(&sizes);
    free(jobs);
    return status;
}

/* Compiles what runs inside a node of the host's. */
static inlay_status make_bodies(program *p, program_step *step, inlay_diag *diag)
{
    step->bodies = p->bodies_of[step->region->nodes[0]];
    for (uint32_t i = 0; i < step->node->body_count; i++) {
        inlay_status status = step->bodies[i]->parts.idle ? assign_idle(step->bodies[i], diag) : INLAY_OK;

        if (status == INLAY_OK)
            status = program_compile(step->bodies[i], diag);
        if (status != INLAY_OK)
            return status;
    }
    return INLAY_OK;
}

static bool runs_on_host(const part_provider *provider)
{
    return part_default_domain(provider) == INLAY_DOMAIN_HOST && (provider->table->flags & INLAY_PROVIDER_ASYNC) == 0;
}

static inlay_status make_step(program *p, uint32_t i, uint8_t *fates, arena *scratch, inlay_diag *diag)
{
    program_step *step = &p->steps[i];
    const part_region *r = &p->parts.regions[i];

    step->region = r;
    step->node = p->graph->nodes[r->nodes[0]];
    if (r->provider == INLAY_NONE)
        return make_bodies(p, step, diag);
    step->provider = &p->env->providers[r->provider];
    step->foldable = r->node_count == 1 && runs_on_host(step->provider) && !graph_node_is_random(step->node) &&
                     step->node->body_count == 0;
    step->view = r->node_count == 1 && runs_on_host(step->provider) && is_view(step->node);
    return step->compiled != NULL ? INLAY_OK : compile_region(p, step, fates, p->parts.compiled_for, scratch, diag);
}

static bool find_last_uses(program *p)
{
    p->last_use = arena_array(&p->a, (size_t)p->graph->value_count + 1, sizeof *p->last_use);
    if (p->last_use == NULL)
        return false;
    memset(p->last_use, 0xff, p->graph->value_count * sizeof *p->last_use);
    for (uint32_t i = 0; i < p->step_count; i++)
        for (uint32_t k = 0; k < p->steps[i].region->input_count; k++)
            p->last_use[p->steps[i].region->inputs[k]] = i;
    for (uint32_t k = 0; k < p->graph->output_count; k++)
        if (p->graph->outputs[k] != INLAY_NONE)
            p->last_use[p->graph->outputs[k]] = p->step_count;
    return true;
}

bool program_hands_on(const program_step *s, uint32_t v)
{
    return s->provider == NULL && part_hands_on(s->node, v);
}

/* Where the bodies of a node read v, in which they are handed it as it is. */
static uint32_t read_in_bodies(const program_step *s, uint32_t v)
{
    uint32_t domain = INLAY_DOMAIN_HOST;

    for (uint32_t k = 0; k < s->node->body_count && program_hands_on(s, v); k++) {
        const graph_body *body = &s->node->bodies[k];
        const program *p = s->bodies[k];

        for (uint32_t i = 0; i < body->capture_count && domain == INLAY_DOMAIN_HOST; i++)
            if (body->capture_outer[i] == v)
                domain = p->read_in[body->capture_inner[i]];
        for (uint32_t i = 0; i < s->node->info.input_count && domain == INLAY_DOMAIN_HOST; i++)
            if (s->node->info.inputs[i] == v && i < p->graph->input_count)
                domain = p->read_in[p->graph->inputs[i]];
    }
    return domain;
}

static bool find_readers(program *p)
{
    p->read_in = arena_array(&p->a, (size_t)p->graph->value_count + 1, sizeof *p->read_in);
    p->taken_in = arena_array(&p->a, (size_t)p->graph->value_count + 1, sizeof *p->taken_in);
    p->read_here = arena_array(&p->a, (size_t)p->graph->value_count + 1, sizeof *p->read_here);
    if (p->read_in == NULL || p->taken_in == NULL || p->read_here == NULL)
        return false;
    for (uint32_t i = 0; i < p->step_count; i++) {
        const program_step *s = &p->steps[i];

        for (uint32_t k = 0; k < s->region->input_count; k++) {
            const uint32_t v = s->region->inputs[k];
            const uint32_t domain = s->provider != NULL ? s->placements[k].domain : read_in_bodies(s, v);

            if (domain != INLAY_DOMAIN_HOST)
                p->read_in[v] = domain;
            if (domain != INLAY_DOMAIN_HOST && s->provider != NULL)
                p->taken_in[v] = domain;
            p->read_here[v] |= domain == INLAY_DOMAIN_HOST || s->provider == NULL; /* bodies: some of them perhaps */
        }
    }
    for (uint32_t k = 0; k < p->graph->output_count; k++)
        if (p->graph->outputs[k] != INLAY_NONE)
            p->read_here[p->graph->outputs[k]] = true;
    return true;
}

/* Makes the steps; *out_declined is the one whose compile declined, when status is INLAY_UNSUPPORTED. */
static inlay_status make_steps(program *p, uint8_t *fates, uint32_t *out_declined, inlay_diag *diag)
{
    const program_env *env = p->env;
    inlay_status status = INLAY_OK;
    arena scratch = { 0 };

    *out_declined = INLAY_NONE;
    for (uint32_t i = 0; i < p->parts.region_count; i++) {
        if (env->progress != NULL && p->base == NULL && p->steps[i].compiled == NULL)
            INLAY_TRY(env->progress(env->progress_ctx, "compiling", 1));
        p->declined->code = INLAY_OK;
        status = make_step(p, i, fates, &scratch, diag);
        if (status == INLAY_UNSUPPORTED && p->declined->code != INLAY_OK)
            *out_declined = i;
        if (status != INLAY_OK)
            goto done;
        arena_reset(&scratch);
    }
done:
    arena_deinit(&scratch);
    return status;
}

/* From regions to compiled steps, bodies included. Offers that compile declines go to the runner-up. */
inlay_status program_compile(program *p, inlay_diag *diag)
{
    inlay_diag declined = INLAY_DIAG_INIT, quiet = INLAY_DIAG_INIT;
    inlay_status status;
    uint32_t which;
    uint8_t *fates = arena_alloc(&p->a, (size_t)p->graph->value_count + 1);

    if (p->compiled)
        return INLAY_OK;
    p->declined = &declined;
    p->aligned = arena_array(&p->a, (size_t)p->graph->value_count + 1, sizeof(void *));
    if (p->steps == NULL)
        p->steps = arena_array(&p->a, (size_t)p->parts.region_count + 1, sizeof *p->steps);
    if (p->steps == NULL || p->aligned == NULL || fates == NULL)
        return out_of_memory(p->graph, diag);
    p->step_count = p->parts.region_count; /* destroy releases what was compiled */
    do {
        status = make_steps(p, fates, &which, diag);
    } while (status == INLAY_UNSUPPORTED && which != INLAY_NONE &&
             late_assign(p, which, &declined, &quiet) == INLAY_OK);
    p->declined = NULL;
    if (status == INLAY_OK && (!find_last_uses(p) || !find_readers(p) || !program_find_states(p)))
        status = out_of_memory(p->graph, diag);
    p->compiled = status == INLAY_OK;
    if (status == INLAY_CANCELLED)
        status = inlay_fail(diag, INLAY_CANCELLED, "cancelled while compiling graph '%s'", p->graph->name);
    return status;
}

/* The bodies of node n, whose programs are there, become part of the snapshot. */
static inlay_status show_bodies(program *p, uint32_t n, inlay_diag *diag)
{
    inlay_node_info *info = (inlay_node_info *)(uintptr_t)&p->snapshot.nodes[n];
    const graph_node *node = p->graph->nodes[n];
    inlay_body *list = arena_array(&p->a, node->body_count, sizeof *list);

    if (list == NULL)
        return out_of_memory(p->graph, diag);
    for (uint32_t i = 0; i < node->body_count; i++) {
        const graph_body *b = &node->bodies[i];

        list[i] = (inlay_body){ .attr = { b->attr, strlen(b->attr) },
                                .graph = &p->bodies_of[n][i]->snapshot,
                                .capture_outer = b->capture_outer,
                                .capture_inner = b->capture_inner,
                                .capture_count = b->capture_count };
    }
    info->bodies = list;
    info->body_count = node->body_count;
    info->body_stride = sizeof *list;
    return INLAY_OK;
}

/* The programs of a graph and, behind it, of its bodies, before anything is assigned. */
static inlay_status start(graph *g, const program_env *env, const char *path, program **out_program, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    program *p = calloc(1, sizeof *p);
    uint32_t bodies = 0;

    *out_program = p;
    if (p == NULL)
        return out_of_memory(g, diag);
    p->graph = g;
    p->model = g->model;
    p->env = env;
    (void)pthread_mutex_init(&p->lock, NULL);
    (void)pthread_mutex_init(&p->plan_lock, NULL);
    p->path = arena_string(&p->a, path);
    INLAY_TRY(graph_snapshot(g, &p->a, &p->snapshot, diag));
    p->bodies_of = arena_array(&p->a, (size_t)g->node_count + 1, sizeof *p->bodies_of);
    if (p->bodies_of == NULL || p->path == NULL)
        return out_of_memory(g, diag);
    for (uint32_t n = 0; n < g->node_count; n++)
        bodies += g->nodes[n]->body_count;
    p->bodies = arena_array(&p->a, (size_t)bodies + 1, sizeof *p->bodies);
    if (p->bodies == NULL)
        return out_of_memory(g, diag);
    for (uint32_t n = 0; n < g->node_count; n++) {
        const graph_node *node = g->nodes[n];

        if (node->body_count == 0)
            continue;
        p->bodies_of[n] = arena_array(&p->a, node->body_count, sizeof *p->bodies_of[n]);
        if (p->bodies_of[n] == NULL)
            return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the bodies of node '%s'", node->info.name.data);
        for (uint32_t i = 0; i < node->body_count; i++) {
            const char *below = arena_format(&p->a, "%s%s%s.%s", path, path[0] != '\0' ? "/" : "", node->info.name.data,
                                             node->bodies[i].attr);
            if (below == NULL)
                return out_of_memory(g, diag);
            status = start(node->bodies[i].graph, env, below, &p->bodies_of[n][i], diag);
            p->bodies[p->body_count++] = p->bodies_of[n][i];
            if (status != INLAY_OK)
                goto done;
        }
        INLAY_TRY(show_bodies(p, n, diag));
    }
done:
    return status;
}

uint32_t program_count(const program *p)
{
    uint32_t count = 1;

    for (uint32_t i = 0; i < p->body_count; i++)
        count += program_count(p->bodies[i]);
    return count;
}

part_request program_request(const program *p)
{
    const program_env *env = p->env;

    return (part_request){ .graph = p->graph,
                           .snapshot = &p->snapshot,
                           .providers = env->providers,
                           .provider_count = env->provider_count,
                           .max_threads = env->max_threads,
                           .rules = env->rules,
                           .costs = env->costs,
                           .sizes = env->sizes,
                           .log = env->log,
                           .log_ctx = env->log_ctx };
}

part_job *program_jobs(program *p, part_job *next)
{
    *next++ = (part_job){ .path = p->path, .a = &p->a, .out = &p->parts, .request = program_request(p) };
    for (uint32_t i = 0; i < p->body_count; i++)
        next = program_jobs(p->bodies[i], next);
    return next;
}

/* All graphs of a model share them; the main one's program closes them, after everybody's regions. */
static void use_packs(program *p, packs *shared)
{
    p->packs = shared;
    for (uint32_t i = 0; i < p->body_count; i++)
        use_packs(p->bodies[i], shared);
}

inlay_status program_assign(graph *g, const program_env *env, bool again, program **out_program, inlay_diag *diag)
{
    inlay_status status = start(g, env, "", out_program, diag);
    part_job *jobs = NULL;
    uint32_t count;

    if (status != INLAY_OK) {
        program_destroy(*out_program);
        *out_program = NULL;
        return status;
    }
    count = program_count(*out_program);
    jobs = malloc(count * sizeof *jobs);
    if (jobs == NULL)
        return out_of_memory(g, diag);
    (void)program_jobs(*out_program, jobs);
    jobs[0].request.again = again;
    status = partition_all(jobs, count, diag);
    free(jobs);
    return status;
}

inlay_status program_create(graph *g, const program_env *env, program **out_program, inlay_diag *diag)
{
    uint32_t held = threads_hold(env->max_threads);
    program *p = NULL;
    inlay_diag why = INLAY_DIAG_INIT;
    inlay_status status;
    bool again = false;

    *out_program = NULL;
    do {
        program_destroy(p);
        status = settle(g, env, again, &p, &why);
        if (status == INLAY_OK) {
            use_packs(p, packs_open(&env->packs, p->snapshot.content_hash, env->providers, env->provider_count));
            status = program_compile(p, &why);
        }
        again = status == INLAY_UNSUPPORTED && p != NULL && settle_stuck(p);
    } while (again);
    if (status != INLAY_OK)
        tell(diag, &why);
    if (status == INLAY_OK) {
        packs_commit(p->packs);
        *out_program = p;
        p = NULL;
    }
    (void)threads_hold(held);
    program_destroy(p);
    return status;
}

const part_provider *program_device(const program *p)
{
    const part_provider *found = NULL;

    for (uint32_t i = 0; p != NULL && found == NULL && i < p->step_count; i++)
        if (p->steps[i].provider != NULL && p->steps[i].provider->table->domain_count > 0)
            found = p->steps[i].provider;
    for (uint32_t i = 0; p != NULL && found == NULL && p->base == NULL && i < p->body_count; i++)
        found = program_device(p->bodies[i]);
    for (const program *o = p != NULL ? p->instead : NULL; found == NULL && o != NULL; o = o->next_instead)
        found = program_device(o);
    return found;
}

static bool is_free(pthread_mutex_t *lock)
{
    if (pthread_mutex_trylock(lock) != 0)
        return false;
    (void)pthread_mutex_unlock(lock);
    return true;
}

bool program_inherit(program *p)
{
    bool idle = p == NULL || (is_free(&p->lock) && is_free(&p->plan_lock));

    if (p == NULL)
        return true;
    for (uint32_t i = 0; idle && p->base == NULL && i < p->body_count; i++)
        idle = program_inherit(p->bodies[i]);
    for (program *other = p->instead; idle && other != NULL; other = other->next_instead)
        idle = program_inherit(other);
    if (idle && p->graph->parent == NULL && p->base == NULL)
        packs_inherit(p->packs);
    return idle;
}

void program_destroy(program *p)
{
    if (p == NULL)
        return;
    late_forget(p);
    while (p->plans != NULL) {
        plan *next = p->plans->next;
        plan_unref(p->plans);
        p->plans = next;
    }
    for (uint32_t i = 0; p->steps != NULL && i < p->step_count; i++)
        program_release_step(p->env, &p->steps[i]);
    for (uint32_t i = 0; p->base == NULL && i < p->body_count; i++)
        program_destroy(p->bodies[i]);
    for (uint32_t i = 0; i < p->owned_count; i++)
        free(p->owned[i]);
    free(p->owned);
    if (p->graph->parent == NULL && p->base == NULL)
        packs_close(p->packs);
    if (p->spare != NULL)
        arena_deinit(&p->spare->a);
    free(p->spare);
    arena_deinit(&p->scratch);
    arena_deinit(&p->a);
    (void)pthread_mutex_destroy(&p->lock);
    (void)pthread_mutex_destroy(&p->plan_lock);
    free(p);
}
