#include "plan/program/declined.h"
#include "plan/layout/planner.h"
#include <stdlib.h>
#include <string.h>

enum { FOLD_MAX_BYTES = 1 << 20 }; /* shape arithmetic is small; what is larger is computed in the run */

/* What no provider means: sums of sizes stay far from overflow. */
static const uint64_t WORKSPACE_MAX_BYTES = UINT64_C(1) << 46, WORKSPACE_MAX_ALIGNMENT = UINT64_C(1) << 21;

/* ------------------------------------------------------------------ steps at plan time */

/* Runs the region now when everything it reads is known. *out_folded says whether it was. */
static inlay_status try_fold(struct planner *b, const program_step *s, bool *out_folded)
{
    const part_region *r = s->region;
    once_tensor *in = arena_array(b->scratch, (size_t)r->input_count + 1, sizeof *in);
    once_tensor *out = arena_array(b->scratch, (size_t)r->output_count + 1, sizeof *out);
    inlay_diag quiet = INLAY_DIAG_INIT;
    inlay_status status;

    *out_folded = false;
    if (in == NULL || out == NULL)
        return planner_no_memory(b);
    for (uint32_t i = 0; i < r->input_count; i++) {
        const inlay_value_state *st = &b->p->states[r->inputs[i]];
        if (st->data == NULL || st->data_bytes > FOLD_MAX_BYTES)
            return INLAY_OK;
        in[i] = (once_tensor){ st->dtype, st->rank, st->dims, (void *)(uintptr_t)st->data, st->data_bytes };
    }
    for (uint32_t i = 0; i < r->output_count; i++) {
        const inlay_value_state *st = &b->p->states[r->outputs[i]];
        if (b->infos[r->outputs[i]].dtype == INLAY_STRING)
            return INLAY_OK;
        out[i] = (once_tensor){ .dtype = st->dtype, .rank = st->rank, .dims = st->dims };
    }
    status = program_run_once(&(once_run){ .provider = s->provider,
                                           .compiled = s->compiled,
                                           .values = b->p->states,
                                           .value_count = b->prog->graph->value_count,
                                           .inputs = in,
                                           .input_count = r->input_count,
                                           .outputs = out,
                                           .output_count = r->output_count,
                                           .max_threads = b->prog->env->max_threads,
                                           .max_bytes = FOLD_MAX_BYTES,
                                           .a = &b->p->a },
                              &quiet);
    if (status == INLAY_LIMIT_EXCEEDED || status == INLAY_UNSUPPORTED)
        return INLAY_OK;
    if (status != INLAY_OK) {
        if (b->diag != NULL)
            *b->diag = quiet;
        return program_step_failed(b->prog->graph, s, status, b->diag);
    }
    for (uint32_t i = 0; i < r->output_count; i++) {
        uint32_t v = r->outputs[i];
        inlay_value_info *info = &b->infos[v];
        inlay_dim *dims = arena_array(&b->p->a, (size_t)out[i].rank + 1, sizeof *dims);
        if (dims == NULL)
            return planner_no_memory(b);
        for (uint32_t d = 0; d < out[i].rank; d++)
            dims[d] = (inlay_dim){ .value = out[i].dims[d], .kind = INLAY_DIM_FIXED };
        info->rank = out[i].rank;
        info->dims = dims;
        info->data = out[i].data;
        info->data_bytes = out[i].bytes;
        if (!planner_settle(b, v))
            return planner_no_memory(b);
    }
    *out_folded = true;
    return INLAY_OK;
}

static inlay_status place_folded(struct planner *b, const part_region *r)
{
    for (uint32_t i = 0; i < r->output_count; i++) {
        const inlay_value_info *info = &b->infos[r->outputs[i]];
        uint32_t place = planner_data_place(b, info->data, info->data_bytes);
        if (place == INLAY_NONE)
            return planner_no_memory(b);
        b->p->values[r->outputs[i]].place = place;
    }
    return INLAY_OK;
}

/* The place that a step that is sized in the run reads v at. What has no place yet is brought there when it is reached.
 */
static uint32_t read_at(struct planner *b, const program_step *s, uint32_t i)
{
    const uint32_t v = s->region->inputs[i], now = b->p->values[v].place;
    const bool has_place = b->p->places[now].source != PLACE_DYNAMIC && b->p->values[v].known;

    if (has_place && program_hands_on(s, v)) {
        planner_lend(b, now, b->prog->uses.read_in[v]);
        return now;
    }
    return planner_place_in(b, v,
                            has_place && s->provider != NULL ? s->placements[i].domain : (uint32_t)INLAY_DOMAIN_HOST);
}

/* Sized when it is reached: everything that it leaves is the run's. Outputs of known shape still get a place in the
 * slab, so that what follows can be planned. */
static inlay_status add_dynamic(struct planner *b, const program_step *s, uint32_t kind)
{
    const part_region *r = s->region;
    uint32_t *in = arena_array(&b->p->a, (size_t)r->input_count + 1, sizeof *in);
    plan_step *step;

    if (in == NULL)
        return planner_no_memory(b);
    for (uint32_t i = 0; i < r->input_count; i++) {
        in[i] = read_at(b, s, i);
        if (in[i] == INLAY_NONE)
            return planner_no_memory(b);
    }
    for (uint32_t i = 0; i < r->input_count; i++)
        planner_touch(b, in[i]);
    for (uint32_t i = 0; i < r->output_count; i++) {
        uint32_t v = r->outputs[i], place;
        const bool fixed = kind == PLAN_DYNAMIC && b->p->values[v].known && b->output_of[v] == INLAY_NONE;

        if (kind == PLAN_HOST)
            b->p->values[v].known = false;
        place = fixed ? planner_output_place(b, v, s->placements[r->input_count + i].domain, INLAY_UNDEFINED)
                      : planner_dynamic_place(b, v);
        if (place == INLAY_NONE)
            return planner_no_memory(b);
        b->p->values[v].place = place;
        if (!fixed) {
            b->p->values[v].known = false;
            b->p->states[v].data = NULL;
            b->infos[v].data = NULL;
        }
    }
    b->p->dynamic_count++;
    step = planner_step(b, kind, s);
    if (step == NULL)
        return planner_no_memory(b);
    step->in = in;
    return INLAY_OK;
}

static bool region_known(const struct planner *b, const part_region *r)
{
    for (uint32_t i = 0; i < r->input_count; i++)
        if (!b->p->values[r->inputs[i]].known)
            return false;
    for (uint32_t i = 0; i < r->output_count; i++)
        if (!b->p->values[r->outputs[i]].known)
            return false;
    return true;
}

/* May the output take over the bytes of input `alias`? Only if nobody reads them later, they are the run's own, and no
 * other input of the step is a view of them: the kernel has promised nothing for that. */
static bool can_reuse(const struct planner *b, uint32_t step_index, const uint32_t *in, uint32_t in_count,
                      uint32_t alias, uint32_t out_value, const inlay_placement *to)
{
    const plan_place *pl = &b->p->places[in[alias]];
    size_t bytes;

    for (uint32_t i = 0; i < in_count; i++)
        if (i != alias && in[i] == in[alias])
            return false;
    return pl->source == PLACE_SLAB && !pl->kept && !(pl->viewed && b->output_of[out_value] != INLAY_NONE) &&
           pl->domain == to->domain && pl->last_use <= step_index &&
           plan_info_bytes_as(&b->infos[out_value], to->dtype, &bytes) && bytes == pl->bytes;
}

static inlay_status add_exec(struct planner *b, uint32_t step_index, inlay_instance *instance,
                             const inlay_specialize_request *request)
{
    const program_step *s = &b->prog->steps[step_index];
    const part_region *r = s->region;
    uint32_t *in = arena_array(&b->p->a, (size_t)r->input_count + 1, sizeof *in);
    uint32_t *out = arena_array(&b->p->a, (size_t)r->output_count + 1, sizeof *out);
    uint32_t workspace = INLAY_NONE, domain = part_default_domain(s->provider);
    plan_step *step = NULL;

    if (in == NULL || out == NULL)
        goto fail;
    for (uint32_t i = 0; i < r->input_count; i++) {
        in[i] = planner_place_in(b, r->inputs[i], s->placements[i].domain);
        if (in[i] == INLAY_NONE)
            goto fail;
    }
    for (uint32_t i = 0; i < r->input_count; i++)
        planner_touch(b, in[i]);
    for (uint32_t i = 0; i < r->output_count; i++) {
        const inlay_placement *to = &s->placements[r->input_count + i];
        uint32_t v = r->outputs[i], alias = request->outputs[i].alias;
        bool reuse = alias < r->input_count && can_reuse(b, step_index, in, r->input_count, alias, v, to);

        for (uint32_t k = 0; reuse && k < i; k++)
            reuse = out[k] != in[alias];
        if (reuse) {
            planner_share_place(b, v, in[alias]);
            out[i] = in[alias];
        } else {
            out[i] = planner_output_place(b, v, to->domain, to->dtype);
            if (out[i] == INLAY_NONE)
                goto fail;
            b->p->values[v].place = out[i];
        }
    }
    if (request->workspace_bytes > 0) {
        uint64_t extra = request->workspace_alignment > 64 ? request->workspace_alignment : 0;
        if (request->workspace_bytes > UINT64_MAX / 2)
            extra = 0; /* lay_out refuses it; the sum must not wrap before that */
        workspace = planner_place(b, (plan_place){ .source = PLACE_SLAB,
                                                   .domain = domain,
                                                   .bytes = request->workspace_bytes + extra,
                                                   .first = b->p->step_count,
                                                   .last = b->p->step_count });
        if (workspace == INLAY_NONE)
            goto fail;
    }
    step = planner_step(b, PLAN_EXEC, s);
    if (step == NULL)
        goto fail;
    step->instance = instance;
    step->in = in;
    step->out = out;
    step->workspace = workspace;
    step->workspace_alignment = (uint32_t)request->workspace_alignment;
    return INLAY_OK;
fail:
    s->provider->table->release_instance(s->provider->state, s->compiled, instance);
    return planner_no_memory(b);
}

/* The provider takes its offer back, for these shapes. The rest is planned nonetheless, to hear all who decline. */
static inlay_status decline(struct planner *b, uint32_t step_index, const inlay_diag *why)
{
    const program_step *s = &b->prog->steps[step_index];

    if (b->declined == NULL) {
        b->declined = arena_array(&b->p->a, (size_t)b->prog->parts.offer_count + 1, sizeof *b->declined);
        if (b->declined == NULL)
            return planner_no_memory(b);
        b->declined_why = (inlay_diag)INLAY_DIAG_INIT;
        (void)inlay_fail(&b->declined_why, INLAY_UNSUPPORTED, "can't prepare %s node '%s' for these shapes: %.300s",
                         s->node->info.op_type.data, s->node->info.name.data, why->text);
    }
    declined_mark(b->prog, step_index, why, b->declined);
    return add_dynamic(b, s, PLAN_DYNAMIC);
}

/* The states that the step appends to in place, or reads there: *out_rooms is [input_count] of the region, NULL where
 * there is none. */
static inlay_status find_rooms(struct planner *b, uint32_t step_index, uint64_t **out_rooms)
{
    const struct program *prog = b->prog;
    const part_region *r = prog->steps[step_index].region;

    *out_rooms = NULL;
    for (uint32_t k = 0; prog->state_steps != NULL && k < prog->env->state_count; k++) {
        const program_state *state = &prog->env->states[k];
        const uint64_t room = b->inputs[state->input].room;
        const uint32_t past = prog->graph->inputs[state->input], present = prog->graph->outputs[state->output];
        const bool makes = prog->state_steps[k] == step_index;
        const uint32_t v = makes ? past : present; /* what was appended to is read elsewhere, too */
        bool is_read = makes;

        for (uint32_t i = 0; !is_read && i < r->input_count; i++)
            is_read = r->inputs[i] == v;
        if (prog->state_steps[k] == INLAY_NONE || room == 0 || !is_read)
            continue;
        if (!region_known(b, r))
            return inlay_fail(b->diag, INLAY_BUSY, "state '%s' can't be in place: its size depends on data",
                              b->infos[past].name.data);
        if (b->p->states[present].dims[state->axis] > (int64_t)room)
            return inlay_fail(b->diag, INLAY_NOT_FOUND, "state '%s' has room for %llu rows, and needs %lld",
                              b->infos[past].name.data, (unsigned long long)room,
                              (long long)b->p->states[present].dims[state->axis]);
        if (*out_rooms == NULL)
            *out_rooms = arena_array(b->scratch, (size_t)r->input_count + 1, sizeof **out_rooms);
        if (*out_rooms == NULL)
            return planner_no_memory(b);
        for (uint32_t i = 0; i < r->input_count; i++)
            if (r->inputs[i] == v)
                (*out_rooms)[i] = room;
    }
    return INLAY_OK;
}

/* A step that is sized in the run passes on what the model has. */
static inlay_status refuse_odd(struct planner *b, const program_step *s)
{
    const part_region *r = s->region;

    for (uint32_t i = 0; i < r->input_count + r->output_count; i++)
        if (s->placements[i].dtype != INLAY_UNDEFINED)
            return inlay_fail(b->diag, INLAY_INTERNAL,
                              "provider %s asked for other elements at the border of %s node "
                              "'%s', whose sizes depend on data",
                              s->provider->name, s->node->info.op_type.data, s->node->info.name.data);
    return INLAY_OK;
}

/* Specialises a region whose shapes are known, or leaves it to the run when its outputs are the kernel's to size. */
static inlay_status plan_region(struct planner *b, uint32_t step_index, const uint64_t *rooms)
{
    const program_step *s = &b->prog->steps[step_index];
    const part_region *r = s->region;
    inlay_output_plan *outputs = arena_array(b->scratch, (size_t)r->output_count + 1, sizeof *outputs);
    inlay_specialize_request request = { .struct_size = sizeof request,
                                         .values = b->p->states,
                                         .value_count = b->prog->graph->value_count,
                                         .value_stride = sizeof *b->p->states,
                                         .max_threads = b->prog->env->max_threads,
                                         .workspace_alignment = 64,
                                         .outputs = outputs,
                                         .output_count = r->output_count,
                                         .output_stride = sizeof *outputs,
                                         .rooms = rooms };
    inlay_diag why = INLAY_DIAG_INIT;
    inlay_instance *instance = NULL;
    inlay_status status;

    if (outputs == NULL)
        return planner_no_memory(b);
    for (uint32_t i = 0; i < r->output_count; i++)
        outputs[i].alias = INLAY_NONE;
    status = s->provider->table->specialize(s->provider->state, s->compiled, &request, &instance, &why);
    if (status == INLAY_UNSUPPORTED || (b->prog->env->without_failed && s->provider->table->domain_count > 0 &&
                                        (status == INLAY_DEVICE_LOST || status == INLAY_OUT_OF_MEMORY)))
        return decline(b, step_index, &why); /* others run it, see option device_failure */
    if (status != INLAY_OK) {
        if (b->diag != NULL)
            *b->diag = why;
        return program_step_failed(b->prog->graph, s, status, b->diag);
    }
    if (request.workspace_bytes > WORKSPACE_MAX_BYTES || request.workspace_alignment > WORKSPACE_MAX_ALIGNMENT) {
        s->provider->table->release_instance(s->provider->state, s->compiled, instance);
        return inlay_fail(b->diag, INLAY_LIMIT_EXCEEDED,
                          "provider %s wants %llu bytes of workspace, aligned to %llu, "
                          "for %s node '%s'",
                          s->provider->name, (unsigned long long)request.workspace_bytes,
                          (unsigned long long)request.workspace_alignment, s->node->info.op_type.data,
                          s->node->info.name.data);
    }
    for (uint32_t i = 0; i < r->output_count; i++) {
        if (outputs[i].kind != INLAY_OUTPUT_KNOWN) {
            s->provider->table->release_instance(s->provider->state, s->compiled, instance);
            status = refuse_odd(b, s);
            return status == INLAY_OK ? add_dynamic(b, s, PLAN_DYNAMIC) : status;
        }
    }
    return add_exec(b, step_index, instance, &request);
}

static bool has_all_data(const struct planner *b, const part_region *r)
{
    for (uint32_t i = 0; i < r->output_count; i++)
        if (b->p->states[r->outputs[i]].data == NULL)
            return false;
    return r->output_count > 0;
}

/* Can the one output of a view be the memory of its input, wherever that is? */
static bool is_viewable(const struct planner *b, const part_region *r, const graph_node *n)
{
    const plan_place *pl;
    size_t bytes;

    if (r->input_count == 0 || r->inputs[0] != n->info.inputs[0])
        return false; /* of a constant */
    pl = &b->p->places[b->p->values[r->inputs[0]].place];
    return pl->source != PLACE_DYNAMIC && plan_info_bytes(&b->infos[r->outputs[0]], &bytes) && bytes == pl->bytes;
}

static inlay_status plan_program_step(struct planner *b, uint32_t i)
{
    const program_step *s = &b->prog->steps[i];
    const part_region *r = s->region;
    uint64_t *rooms;
    inlay_status status;
    bool folded;

    if (s->provider == NULL)
        return add_dynamic(b, s, PLAN_HOST);
    status = plan_infer_region(b->prog, r, b->infos, b->scratch, b->diag);
    if (status != INLAY_OK)
        return status;
    for (uint32_t k = 0; k < r->node_count; k++) {
        const graph_node *n = b->prog->graph->nodes[r->nodes[k]];
        for (uint32_t o = 0; o < n->info.output_count; o++)
            if (n->info.outputs[o] != INLAY_NONE && !planner_settle(b, n->info.outputs[o]))
                return planner_no_memory(b);
    }
    if (s->foldable) {
        folded = has_all_data(b, r);
        status = folded ? INLAY_OK : try_fold(b, s, &folded);
        if (status != INLAY_OK || folded)
            return status != INLAY_OK ? status : place_folded(b, r);
    }
    INLAY_TRY(find_rooms(b, i, &rooms));
    if (!region_known(b, r)) {
        INLAY_TRY(refuse_odd(b, s));
        return add_dynamic(b, s, PLAN_DYNAMIC);
    }
    if (s->view && is_viewable(b, r, s->node)) {
        planner_share_place(b, r->outputs[0], b->p->values[r->inputs[0]].place);
        return INLAY_OK;
    }
    status = plan_region(b, i, rooms);
done:
    return status;
}

/* ------------------------------------------------------------------ the whole */

/* Types, shapes and places of what comes in. */
static inlay_status start_inputs(struct planner *b, const plan_input *inputs, uint32_t count)
{
    const struct graph *g = b->prog->graph;
    struct plan *p = b->p;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t v = i < g->input_count ? g->inputs[i] : g->captured[i - g->input_count];
        size_t bytes = 0;

        if ((b->infos[v].flags & INLAY_VALUE_CONSTANT) != 0)
            continue; /* captured constants are the body's own */
        /* Regions were compiled for the type that inference found. */
        if (b->infos[v].kind == INLAY_VALUE_TENSOR && b->infos[v].dtype != INLAY_UNDEFINED &&
            (inputs[i].rank == INLAY_RANK_UNKNOWN || inputs[i].dtype != b->infos[v].dtype))
            return inlay_fail(b->diag, INLAY_INVALID_MODEL,
                              "graph '%s': '%s' is %s%s where a tensor of %s was expected", g->name,
                              b->infos[v].name.data, inputs[i].rank == INLAY_RANK_UNKNOWN ? "no tensor, but of " : "",
                              inlay_dtype_name(inputs[i].dtype), inlay_dtype_name(b->infos[v].dtype));
        if (inputs[i].rank != INLAY_RANK_UNKNOWN) {
            inlay_dim *dims = arena_array(&p->a, (size_t)inputs[i].rank + 1, sizeof *dims);
            if (dims == NULL)
                return planner_no_memory(b);
            for (uint32_t d = 0; d < inputs[i].rank; d++)
                dims[d] = (inlay_dim){ .value = inputs[i].dims[d], .kind = INLAY_DIM_FIXED };
            b->infos[v].rank = inputs[i].rank;
            b->infos[v].dims = dims;
            b->infos[v].dtype = inputs[i].dtype;
            if (!planner_settle(b, v) || !plan_info_bytes(&b->infos[v], &bytes))
                return planner_no_memory(b);
        }
        p->values[v].place = planner_place(
            b, (plan_place){ .source = PLACE_INPUT, .index = i, .bytes = bytes, .domain = inputs[i].domain });
        if (p->values[v].place == INLAY_NONE)
            return planner_no_memory(b);
    }
    return INLAY_OK;
}

/* Constants that go into a body, or out to the caller, are read there as any tensor is: at an aligned address. */
static void mark_handed_on(struct program *prog)
{
    const struct graph *g = prog->graph;

    for (uint32_t i = 0; i < g->output_count; i++)
        if (g->outputs[i] != INLAY_NONE)
            prog->planning.handed_on[g->outputs[i]] = true;
    for (uint32_t i = 0; i < prog->step_count; i++) {
        const graph_node *n = prog->steps[i].node;

        if (prog->steps[i].provider != NULL)
            continue;
        for (uint32_t k = 0; k < n->info.input_count; k++)
            if (n->info.inputs[k] != INLAY_NONE)
                prog->planning.handed_on[n->info.inputs[k]] = true;
        for (uint32_t k = 0; k < n->capture_count; k++)
            prog->planning.handed_on[n->captures[k]] = true;
    }
}

/* What is the same for all plans of a program. */
static bool start_program(struct planner *b)
{
    struct program *prog = b->prog;
    const struct graph *g = prog->graph;
    uint32_t domains = 1;

    if (prog->planning.first_infos != NULL)
        return true;
    for (uint32_t i = 0; i < prog->env->provider_count; i++) {
        const part_provider *pr = &prog->env->providers[i];
        if (pr->table->domain_count > 0 && pr->first_domain + pr->table->domain_count > domains)
            domains = pr->first_domain + pr->table->domain_count;
    }
    prog->planning.domain_count = domains;
    prog->planning.handed_on = arena_array(&prog->a, (size_t)g->value_count + 1, sizeof *prog->planning.handed_on);
    prog->output_of = arena_array(&prog->a, (size_t)g->value_count + 1, sizeof *prog->output_of);
    prog->planning.infos = arena_array(&prog->a, (size_t)g->value_count + 1, sizeof *prog->planning.infos);
    prog->planning.copies = arena_array(&prog->a, (size_t)g->value_count * domains + 1, sizeof *prog->planning.copies);
    if (prog->planning.handed_on == NULL || prog->output_of == NULL || prog->planning.infos == NULL ||
        prog->planning.copies == NULL)
        return false;
    mark_handed_on(prog);
    memset(prog->output_of, 0xff, g->value_count * sizeof *prog->output_of);
    for (uint32_t k = g->output_count; k-- > 0;)
        if (g->outputs[k] != INLAY_NONE)
            prog->output_of[g->outputs[k]] = k;
    return planner_settle_constants(b);
}

/* The arrays of the plan; constants have places, all else is yet unknown. */
static inlay_status start_values(struct planner *b)
{
    const struct graph *g = b->prog->graph;
    struct plan *p = b->p;

    if (!start_program(b))
        return planner_no_memory(b);
    b->infos = b->prog->planning.infos;
    b->output_of = b->prog->output_of;
    b->copies = b->prog->planning.copies;
    p->domain_count = b->prog->planning.domain_count;
    p->states = arena_copy(&p->a, b->prog->planning.first_states, ((size_t)g->value_count + 1) * sizeof *p->states);
    p->values = arena_array(&p->a, (size_t)g->value_count + 1, sizeof *p->values);
    p->slab_bytes = arena_array(&p->a, p->domain_count, sizeof *p->slab_bytes);
    if (p->states == NULL || p->values == NULL || p->slab_bytes == NULL)
        return planner_no_memory(b);
    memset(b->copies, 0xff, (size_t)g->value_count * p->domain_count * sizeof *b->copies);
    memcpy(b->infos, b->prog->planning.first_infos, g->value_count * sizeof *b->infos);
    for (uint32_t v = 0; v < g->value_count; v++) {
        const void *data;

        p->values[v].place = INLAY_NONE;
        if ((b->infos[v].flags & INLAY_VALUE_CONSTANT) == 0)
            continue;
        data = b->prog->planning.handed_on[v] ? program_constant(b->prog, v) : b->infos[v].data;
        p->values[v].place = data == NULL ? INLAY_NONE : planner_data_place(b, data, b->infos[v].data_bytes);
        if (p->values[v].place == INLAY_NONE)
            return planner_no_memory(b);
        p->values[v].known = true;
    }
    return INLAY_OK;
}

inlay_status plan_build(struct program *prog, const plan_input *inputs, uint32_t count, struct plan **out_plan,
                        inlay_diag *diag)
{
    const uint32_t incoming = prog->graph->input_count + prog->graph->captured_count;
    struct planner b = { .prog = prog,
                         .scratch = &prog->planning.scratch,
                         .inputs = inputs,
                         .diag = diag,
                         .wanted = count > incoming ? inputs + incoming : NULL };
    inlay_status status = INLAY_OK;

    *out_plan = NULL;
    b.p = __atomic_exchange_n(&prog->kept.spare, NULL, __ATOMIC_ACQUIRE);
    if (b.p == NULL)
        b.p = calloc(1, sizeof *b.p);
    if (b.p == NULL)
        return planner_no_memory(&b);
    b.p->references = 1;
    b.p->program = prog;
    if (!plan_set_key(b.p, inputs, count)) {
        status = planner_no_memory(&b);
        goto done;
    }
    INLAY_TRY(start_values(&b));
    INLAY_TRY(start_inputs(&b, inputs, count < incoming ? count : incoming));
    for (uint32_t i = 0; i < prog->step_count; i++) {
        INLAY_TRY(plan_program_step(&b, i));
        arena_reset(b.scratch);
    }
    if (b.declined != NULL) {
        INLAY_TRY(declined_remember(prog, inputs, count, b.declined, b.declined_why.text, diag));
        status = inlay_fail(diag, INLAY_UNSUPPORTED, "%s", b.declined_why.text);
        goto done;
    }
    INLAY_TRY(planner_keep_outputs(&b));
    INLAY_TRY(planner_begin_early(&b));
    INLAY_TRY(planner_find_waves(&b));
    INLAY_TRY(planner_lay_out(&b));
    if (b.p->dynamic_count > 0) { /* steps that are sized in the run go on inferring */
        b.p->infos = arena_copy(&b.p->a, b.infos, ((size_t)prog->graph->value_count + 1) * sizeof *b.infos);
        if (b.p->infos == NULL) {
            status = planner_no_memory(&b);
            goto done;
        }
    }
    prog->planning.place_hint = b.p->place_count;
    prog->planning.step_hint = b.p->step_count;
    *out_plan = b.p;
    b.p = NULL;
done:
    arena_reset(b.scratch);
    plan_unref(b.p);
    return status;
}
