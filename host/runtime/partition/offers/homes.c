/* Where values lie that enter and leave bodies. What If, Loop and Scan hand on stays where it is in a run
 * (exec/device/stay.c): a body reads what it captures where the graph around it has that, what is carried lies where
 * the body makes it, and what a branch leaves goes to where it is read next. */
#include "partition/offers/offers.h"
#include "partition/cost/cost.h"
#include <string.h>

/* ------------------------------------------------------------------ nodes with bodies */

static bool is_op(const graph_node *n, const char *op_type)
{
    return strcmp(n->info.op_type.data, op_type) == 0;
}

/* What a Loop, or a Scan of version 9 and later, carries and stacks. */
typedef struct loop_form {
    uint32_t carried, first_input, first_output; /* of the body; the first input of the node, too */
    bool stacks;                                 /* forwards, along the first axis: where the results lie, that is */
} loop_form;

static bool has_numbers(const graph_node *n, const char *name)
{
    const inlay_attr_info *a = graph_attr(n, name);

    for (uint32_t i = 0; a != NULL && a->kind == INLAY_ATTR_INTS && i < a->count; i++)
        if (a->ints[i] != 0)
            return true;
    return false;
}

static bool find_form(const graph_node *n, loop_form *out)
{
    const inlay_attr_info *scans = graph_attr(n, "num_scan_inputs");

    *out = (loop_form){ .stacks = true };
    if (is_op(n, "Loop")) {
        out->first_input = 2;
        out->first_output = 1;
        out->carried = n->info.input_count > 2 ? n->info.input_count - 2 : 0;
        return true;
    }
    if (!is_op(n, "Scan") || n->info.since_version < 9 || scans == NULL || scans->i < 0 ||
        scans->i > n->info.input_count)
        return false;
    out->carried = n->info.input_count - (uint32_t)scans->i;
    out->stacks = !has_numbers(n, "scan_output_axes") && !has_numbers(n, "scan_output_directions");
    return true;
}

bool part_hands_on(const graph_node *n, uint32_t v)
{
    loop_form form;
    const bool loops = n->body_count > 0 && find_form(n, &form);

    if (n->body_count == 0 || is_op(n, "SequenceMap"))
        return false;
    for (uint32_t i = 0; i < n->info.input_count; i++)
        if (n->info.inputs[i] == v && !(loops && i >= form.first_input && i - form.first_input < form.carried))
            return false;
    return true;
}

/* The number that value v holds before the run, when it is a scalar int64. */
static bool known_scalar(const struct partition *p, uint32_t v, int64_t *out)
{
    const inlay_value_state *x = v == INLAY_NONE ? NULL : &p->profile[v];

    if (x == NULL || x->data == NULL || x->dtype != INLAY_INT64 || x->data_bytes != sizeof *out)
        return false;
    memcpy(out, x->data, sizeof *out);
    return true;
}

/* A trip count beyond is a way to say "until the condition is false". */
static const int64_t MOST_TRIPS = INT32_MAX;

double part_iterations(const struct partition *p, const graph_node *n, bool *out_known)
{
    const inlay_attr_info *scans = graph_attr(n, "num_scan_inputs");
    int64_t times;

    *out_known = true;
    if (is_op(n, "Loop") && n->info.input_count > 0 && known_scalar(p, n->info.inputs[0], &times) && times >= 0 &&
        times < MOST_TRIPS)
        return (double)times;
    /* Scan-9 and later scan along axis 0 unless scan_input_axes says otherwise. */
    if (is_op(n, "Scan") && scans != NULL && graph_attr(n, "scan_input_axes") == NULL && n->info.since_version >= 9 &&
        n->info.input_count > 0 && n->info.inputs[n->info.input_count - 1] != INLAY_NONE) {
        const inlay_value_state *last = &p->profile[n->info.inputs[n->info.input_count - 1]];
        if (last->rank != INLAY_RANK_UNKNOWN && last->rank > 0 && last->dims[0] >= 0)
            return (double)last->dims[0];
    }
    *out_known = false;
    return 1;
}

/* ------------------------------------------------------------------ what is assigned */

struct finder {
    part_job *jobs;
    uint32_t count;
    bool settled;
};

/* The job of a body; NULL: it has none, or is not assigned. */
static const part_job *assigned(const struct finder *f, const struct graph *body)
{
    for (uint32_t j = 1; j < f->count; j++)
        if (f->jobs[j].request.graph == body)
            return f->jobs[j].out->regions != NULL ? &f->jobs[j] : NULL;
    return NULL;
}

/* Where the region makes or reads v. */
static uint32_t domain_in(const part_job *job, const part_region *r, uint32_t v)
{
    for (uint32_t k = 0; k < r->offer_count; k++) {
        const part_offer *o = &job->out->offers[r->offers[k]];

        for (uint32_t m = 0; m < o->placement_count; m++)
            if (o->placements[m].value == v && part_is_plain(&o->placements[m]))
                return o->placements[m].domain;
    }
    return part_default_domain(&job->request.providers[r->provider]);
}

/* The region of a provider that makes v; NULL: none does. */
static const part_region *maker_of(const part_job *job, uint32_t v)
{
    for (uint32_t i = 0; i < job->out->region_count; i++) {
        const part_region *r = &job->out->regions[i];

        for (uint32_t k = 0; r->provider != INLAY_NONE && k < r->output_count; k++)
            if (r->outputs[k] == v)
                return r;
    }
    return NULL;
}

static uint32_t made_in(const part_job *job, uint32_t v)
{
    const part_region *r = maker_of(job, v);

    return r != NULL ? domain_in(job, r, v) : (uint32_t)INLAY_DOMAIN_HOST;
}

static uint32_t lies_in(const part_job *job, uint32_t v)
{
    const part_home *homes = job->out->homes;
    const uint32_t next = homes != NULL ? homes[v].next : INLAY_NONE;

    if (v == INLAY_NONE)
        return INLAY_DOMAIN_HOST;
    if (next != INLAY_NONE)
        return homes[next].wanted == PART_ANYWHERE ? made_in(job, next) : (uint32_t)INLAY_DOMAIN_HOST;
    return homes == NULL || maker_of(job, v) != NULL ? made_in(job, v) : homes[v].lies;
}

static uint32_t read_in(const struct finder *f, const part_job *job, uint32_t v);

/* Where the bodies of a node read what it hands on to them as v. */
static uint32_t read_in_bodies(const struct finder *f, const graph_node *n, uint32_t v)
{
    uint32_t domain = INLAY_DOMAIN_HOST;

    for (uint32_t b = 0; b < n->body_count && domain == INLAY_DOMAIN_HOST; b++) {
        const graph_body *body = &n->bodies[b];
        const part_job *job = assigned(f, body->graph);

        for (uint32_t i = 0; job != NULL && i < body->capture_count && domain == INLAY_DOMAIN_HOST; i++)
            if (body->capture_outer[i] == v)
                domain = read_in(f, job, body->capture_inner[i]);
        for (uint32_t i = 0; job != NULL && i < n->info.input_count && domain == INLAY_DOMAIN_HOST; i++)
            if (i < body->graph->input_count && n->info.inputs[i] == v)
                domain = read_in(f, job, body->graph->inputs[i]);
    }
    return domain;
}

/* A domain that somebody reads v in, but the host's where nobody does: program.read_in. */
static uint32_t read_in(const struct finder *f, const part_job *job, uint32_t v)
{
    uint32_t domain = INLAY_DOMAIN_HOST;

    for (uint32_t i = 0; i < job->out->region_count; i++) {
        const part_region *r = &job->out->regions[i];
        const graph_node *n = job->request.graph->nodes[r->nodes[0]];
        uint32_t here = INLAY_DOMAIN_HOST, k = 0;

        while (k < r->input_count && r->inputs[k] != v)
            k++;
        if (k < r->input_count && r->provider != INLAY_NONE)
            here = domain_in(job, r, v);
        else if (k < r->input_count && part_hands_on(n, v))
            here = read_in_bodies(f, n, v);
        domain = here != INLAY_DOMAIN_HOST ? here : domain;
    }
    return domain;
}

/* Where a node of the host's leaves v: stay_domain(). */
static uint32_t stays_in(const struct finder *f, const part_job *job, uint32_t v)
{
    const struct graph *g = job->request.graph;
    uint32_t domain = read_in(f, job, v);

    for (uint32_t k = 0; domain == INLAY_DOMAIN_HOST && job->request.homes != NULL && k < g->output_count; k++)
        if (g->outputs[k] == v && job->request.homes[v].wanted != PART_ANYWHERE)
            domain = job->request.homes[v].wanted;
    return domain;
}

static bool can_stay(const struct graph *g, uint32_t v)
{
    uint32_t count = 0;

    for (uint32_t k = 0; v != INLAY_NONE && k < g->output_count; k++)
        count += g->outputs[k] == v;
    return count == 1 && g->values[v].info.kind == INLAY_VALUE_TENSOR && g->values[v].info.dtype != INLAY_STRING;
}

/* Where what the loop stacks as its output k is wanted, slice by slice. */
static uint32_t stacked_in(const struct finder *f, const part_job *job, const graph_node *n, const loop_form *form,
                           uint32_t k)
{
    const struct graph *g = n->bodies[0].graph;
    const uint32_t v = g->outputs[form->first_output + k];
    const part_job *body = assigned(f, g);
    uint64_t alignment = 64;
    uint32_t domain;

    if (!form->stacks || k >= n->info.output_count || n->info.outputs[k] == INLAY_NONE || !can_stay(g, v))
        return INLAY_DOMAIN_HOST;
    domain = stays_in(f, job, n->info.outputs[k]);
    for (uint32_t p = 0; domain != INLAY_DOMAIN_HOST && p < job->request.provider_count; p++) {
        const part_provider *owner = &job->request.providers[p];
        const uint32_t at = domain - owner->first_domain;

        while (at < owner->table->domain_count &&
               alignment <
                   INLAY_AT(inlay_domain_info, owner->table->domains, owner->table->domain_stride, at)->alignment)
            alignment *= 2;
    }
    /* A slice begins where the device can address it. */
    return body != NULL && cost_value_bytes(&body->out->profile[v]) % alignment != 0 ? (uint32_t)INLAY_DOMAIN_HOST
                                                                                     : domain;
}

/* ------------------------------------------------------------------ what the graph around a body says */

static void tell_loop(const struct finder *f, const part_job *around, const graph_node *n, const struct graph *g,
                      part_home *homes)
{
    loop_form form;

    if (!find_form(n, &form))
        return;
    for (uint32_t i = 0; i < form.carried && form.first_input + i < g->input_count; i++) {
        part_home *in = &homes[g->inputs[form.first_input + i]];

        if (form.first_output + i >= g->output_count || g->outputs[form.first_output + i] == INLAY_NONE)
            continue;
        in->next = g->outputs[form.first_output + i];
        in->lies = lies_in(around, n->info.inputs[form.first_input + i]);
        if (can_stay(g, in->next))
            homes[in->next].wanted = PART_ANYWHERE;
    }
    for (uint32_t k = form.carried; form.first_output + k < g->output_count; k++) {
        const uint32_t v = g->outputs[form.first_output + k];

        if (v == INLAY_NONE || homes[v].wanted != INLAY_DOMAIN_HOST)
            continue;
        homes[v].wanted = stacked_in(f, around, n, &form, k);
        homes[v].stacked = homes[v].wanted != INLAY_DOMAIN_HOST;
    }
}

/* body: of node n of the graph around it. */
static void tell_body(const struct finder *f, const part_job *around, const graph_node *n, const graph_body *body,
                      part_home *homes)
{
    const struct graph *g = body->graph;
    const bool is_if = is_op(n, "If");

    for (uint32_t i = 0; i < body->capture_count; i++) {
        homes[body->capture_inner[i]].lies = lies_in(around, body->capture_outer[i]);
        homes[body->capture_inner[i]].once = !is_if;
    }
    for (uint32_t k = 0; is_if && k < g->output_count && k < n->info.output_count; k++)
        if (n->info.outputs[k] != INLAY_NONE && can_stay(g, g->outputs[k]))
            homes[g->outputs[k]].wanted = stays_in(f, around, n->info.outputs[k]);
    if (!is_if)
        tell_loop(f, around, n, g, homes);
}

/* ------------------------------------------------------------------ and what bodies say */

/* Where the If leaves its output k. */
static uint32_t left_by_if(const struct finder *f, const part_job *job, const graph_node *n, uint32_t k)
{
    uint32_t domain = INLAY_DOMAIN_HOST;

    for (uint32_t b = 0; b < n->body_count; b++) {
        const struct graph *g = n->bodies[b].graph;
        const part_job *body = assigned(f, g);

        if (body == NULL)
            return INLAY_NONE;
        if (k >= g->output_count || !can_stay(g, g->outputs[k]))
            return INLAY_DOMAIN_HOST;
        domain = domain == INLAY_DOMAIN_HOST ? made_in(body, g->outputs[k]) : domain;
    }
    return f->settled ? stays_in(f, job, n->info.outputs[k]) : domain;
}

static uint32_t left_by_loop(const struct finder *f, const part_job *job, const graph_node *n, const loop_form *form,
                             uint32_t k)
{
    const struct graph *g = n->bodies[0].graph;
    const part_job *body = assigned(f, g);
    const uint32_t v = form->first_output + k < g->output_count ? g->outputs[form->first_output + k] : INLAY_NONE;
    uint32_t domain;

    if (body == NULL)
        return INLAY_NONE;
    if (!can_stay(g, v))
        return INLAY_DOMAIN_HOST;
    domain = made_in(body, v);
    return k < form->carried || domain == stacked_in(f, job, n, form, k) ? domain : (uint32_t)INLAY_DOMAIN_HOST;
}

/* Where bodies of n read v, or have it before they begin; INLAY_NONE: they are not assigned. */
static uint32_t taken_to(const struct finder *f, const graph_node *n, uint32_t v)
{
    const part_job *body;
    loop_form form;

    for (uint32_t b = 0; b < n->body_count; b++)
        if (assigned(f, n->bodies[b].graph) == NULL)
            return INLAY_NONE;
    if (find_form(n, &form)) {
        const struct graph *g = n->bodies[0].graph;

        body = assigned(f, g);
        for (uint32_t i = 0; i < form.carried && form.first_output + i < g->output_count; i++)
            if (n->info.inputs[form.first_input + i] == v)
                return can_stay(g, g->outputs[form.first_output + i]) ? made_in(body, g->outputs[form.first_output + i])
                                                                      : (uint32_t)INLAY_DOMAIN_HOST;
    }
    return read_in_bodies(f, n, v);
}

static void hear_bodies(const struct finder *f, const part_job *job, const graph_node *n, part_home *homes)
{
    loop_form form;
    const bool loops = find_form(n, &form);

    for (uint32_t i = 0; i < part_reads(n); i++) {
        const uint32_t v = part_read_at(n, i);
        uint32_t domain;

        if (v == INLAY_NONE || !part_hands_on(n, v))
            continue;
        domain = taken_to(f, n, v);
        if (homes[v].inside == INLAY_NONE || domain != INLAY_DOMAIN_HOST)
            homes[v].inside = domain;
    }
    for (uint32_t k = 0; k < n->info.output_count; k++) {
        if (n->info.outputs[k] == INLAY_NONE)
            continue;
        if (loops)
            homes[n->info.outputs[k]].lies = left_by_loop(f, job, n, &form, k);
        else if (is_op(n, "If"))
            homes[n->info.outputs[k]].lies = left_by_if(f, job, n, k);
    }
}

bool part_has_homes(const part_job *jobs, uint32_t count)
{
    for (uint32_t p = 0; count > 1 && p < jobs[0].request.provider_count; p++)
        if (jobs[0].request.providers[p].table->domain_count > 0)
            return true;
    return false;
}

bool part_find_homes(part_job *jobs, uint32_t count, uint32_t job, bool settled)
{
    const struct finder f = { .jobs = jobs, .count = count, .settled = settled };
    part_job *own = &jobs[job];
    const struct graph *g = own->request.graph;
    part_home *homes = arena_array(own->a, (size_t)g->value_count + 1, sizeof *homes);
    bool known;

    if (homes == NULL)
        return false;
    for (uint32_t v = 0; v < g->value_count; v++)
        homes[v].next = homes[v].inside = INLAY_NONE;
    own->request.homes = homes;
    own->request.iterations = 1;
    for (uint32_t j = 0; j < job; j++)
        for (uint32_t n = 0; jobs[j].request.graph == g->parent && n < g->parent->node_count; n++) {
            const graph_node *node = g->parent->nodes[n];

            for (uint32_t b = 0; b < node->body_count; b++) {
                if (node->bodies[b].graph != g)
                    continue;
                tell_body(&f, &jobs[j], node, &node->bodies[b], homes);
                own->request.iterations = part_iterations(jobs[j].out, node, &known);
            }
        }
    for (uint32_t n = 0; n < g->node_count; n++)
        if (g->nodes[n]->body_count > 0)
            hear_bodies(&f, own, g->nodes[n], homes);
    return true;
}
