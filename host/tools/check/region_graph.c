#include "check/region_graph.h"
#include <stdlib.h>
#include <string.h>

enum { CASES_EACH = 2, PICKS = 24 };

uint32_t region_roll(struct regions *r, uint32_t sides)
{
    return (uint32_t)(case_random(&r->state) % sides);
}

/* ------------------------------------------------------------------ nodes that run alone */

static bool run_alone(struct regions *r, const op_case *k, bench_result *out, uint32_t *out_flags)
{
    const bench_how how = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    case_one one;
    inlay_status status;
    struct bench b;

    memset(out, 0, sizeof *out);
    if (case_graph(k, &r->w->operators, CASE_SIZES, &one, &diag) != INLAY_OK)
        return false;
    status = bench_open(r->c, r->p, &one, k, 1, &b, &diag);
    if (status == INLAY_OK) {
        *out_flags = b.answer.offer.flags;
        status = bench_run(&b, &how, out, &diag);
        bench_close(&b);
        if (status != INLAY_OK || out->fault[0] != '\0') {
            bench_result_deinit(out);
            status = INLAY_INTERNAL;
        }
    }
    case_one_deinit(&one);
    return status == INLAY_OK;
}

static bool take_case(void *user, op_case *k)
{
    struct regions *r = user;
    bench_result made;
    uint32_t flags = 0;

    if (r->count == POOL || r->of_source == CASES_EACH)
        return false;
    if (k->random || k->out_count > 4 || !run_alone(r, k, &made, &flags))
        return true;
    bench_result_deinit(&made);
    if ((flags & INLAY_OFFER_MERGE) == 0)
        return true;
    r->of_source++;
    r->pool[r->count++] = *k;
    k->a = (struct arena){ 0 }; /* it is the pool's now */
    return true;
}

bool region_take_source(void *user, const case_source *source)
{
    struct regions *r = user;
    const case_range range = { .seed = r->c->args->seed, .scale = 1, .quick = true };

    r->of_source = 0;
    check_subject(r->c, "%s-%lld alone", source->op_type, (long long)source->opset);
    generate_cases(source, &range, take_case, r);
    return r->count < POOL;
}

/* ------------------------------------------------------------------ several of them */

static bool is_free(const case_tensor *t)
{
    return !t->constant && t->given == NULL &&
           (t->dtype == INLAY_FLOAT || t->dtype == INLAY_DOUBLE || t->dtype == INLAY_FLOAT16 ||
            t->dtype == INLAY_BFLOAT16);
}

static bool same_type(const case_tensor *t, inlay_dtype dtype, uint32_t rank, const int64_t *dims)
{
    return t->dtype == dtype && t->rank == rank && (rank == 0 || memcmp(t->dims, dims, rank * sizeof *dims) == 0);
}

/* Has input i of the part at hand read what an earlier one makes. */
static bool link_to_output(struct regions *r, struct part *p, uint32_t i)
{
    uint32_t tries = 3 * r->part_count;

    while (tries-- > 0) {
        uint32_t m = region_roll(r, r->part_count), o;
        const bench_result *made = &r->parts[m].made;

        if (made->out_count == 0)
            continue;
        o = region_roll(r, made->out_count);
        if (!same_type(&p->k.in[i], made->out[o].dtype, made->out[o].rank, made->out[o].dims))
            continue;
        p->from[i] = m;
        p->of[i] = o;
        p->k.in[i].data = made->out[o].data;
        return true;
    }
    return false;
}

/* Has it read what another input, perhaps of the same node, reads. */
static void link_to_input(struct regions *r, struct part *p, uint32_t i)
{
    uint32_t m = region_roll(r, r->part_count + 1), k;
    const struct part *other = m == r->part_count ? p : &r->parts[m];
    const case_tensor *t;

    if (other->k.in_count == 0 || (other == p && i == 0))
        return;
    k = other == p ? region_roll(r, i) : region_roll(r, other->k.in_count);
    t = &other->k.in[k];
    if (t->constant || other->from[k] != INLAY_NONE || other->twin[k] != INLAY_NONE ||
        !same_type(&p->k.in[i], t->dtype, t->rank, t->dims))
        return;
    p->twin[i] = m;
    p->twin_of[i] = k;
    p->k.in[i].data = t->data;
}

/* A case of the pool; most often one that can read what an earlier part makes. */
static const op_case *pick_case(struct regions *r)
{
    const uint32_t start = region_roll(r, r->count);
    const bench_result *made = r->part_count > 0 ? &r->parts[region_roll(r, r->part_count)].made : NULL;
    const bench_output *o;

    if (made == NULL || made->out_count == 0 || region_roll(r, 4) == 0)
        return &r->pool[start];
    o = &made->out[region_roll(r, made->out_count)];
    for (uint32_t k = 0; k < r->count; k++) {
        const op_case *candidate = &r->pool[(start + k) % r->count];

        for (uint32_t i = 0; i < candidate->in_count; i++)
            if (is_free(&candidate->in[i]) && same_type(&candidate->in[i], o->dtype, o->rank, o->dims))
                return candidate;
    }
    return &r->pool[start];
}

bool region_add_part(struct regions *r)
{
    struct part *p = &r->parts[r->part_count];
    uint32_t flags;

    for (uint32_t tries = 0; tries < PICKS; tries++) {
        memset(p, 0, sizeof *p);
        memset(p->from, 0xff, sizeof p->from);
        memset(p->twin, 0xff, sizeof p->twin);
        p->k = *pick_case(r);
        for (uint32_t i = 0; i < p->k.in_count; i++) {
            if (!is_free(&p->k.in[i]))
                continue;
            if (r->part_count == 0 || region_roll(r, 5) == 0 || !link_to_output(r, p, i))
                if (region_roll(r, 2) == 0)
                    link_to_input(r, p, i);
        }
        if (run_alone(r, &p->k, &p->made, &flags)) {
            r->part_count++;
            return true;
        }
    }
    return false;
}

void region_drop_parts(struct regions *r)
{
    for (uint32_t j = 0; j < r->part_count; j++)
        bench_result_deinit(&r->parts[j].made);
    r->part_count = 0;
}

/* ------------------------------------------------------------------ the graph */

static void set_input(graph_node *n, uint32_t input, uint32_t value)
{
    ((uint32_t *)(uintptr_t)n->info.inputs)[input] = value;
}

/* What is an output of the graph: what nobody reads, and some of the rest. */
static bool choose_outputs(struct regions *r, struct graph *g)
{
    g->outputs = arena_array(&g->model->arena, (size_t)PARTS * CASE_OUTPUTS, sizeof *g->outputs);
    g->output_count = 0;
    for (uint32_t j = 0; g->outputs != NULL && j < r->part_count; j++)
        for (uint32_t o = 0; o < r->parts[j].n->info.output_count; o++) {
            bool read = false;

            for (uint32_t k = j + 1; k < r->part_count; k++)
                for (uint32_t i = 0; i < r->parts[k].k.in_count; i++)
                    read |= r->parts[k].from[i] == j && r->parts[k].of[i] == o;
            if (!read || region_roll(r, 2) == 0)
                g->outputs[g->output_count++] = r->parts[j].n->info.outputs[o];
        }
    return g->outputs != NULL;
}

bool region_make_model(struct regions *r, case_one *one)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    graph_model *model = graph_model_create();

    memset(one, 0, sizeof *one);
    one->model = model;
    for (uint32_t j = 0; model != NULL && j < r->part_count; j++) {
        struct part *p = &r->parts[j];

        if (case_import(&p->k, model) != INLAY_OK || (p->n = case_add(&p->k, model->main, CASE_SIZES)) == NULL)
            return false;
        for (uint32_t i = 0; i < p->k.in_count; i++) {
            if (p->from[i] != INLAY_NONE)
                set_input(p->n, i, r->parts[p->from[i]].n->info.outputs[p->of[i]]);
            else if (p->twin[i] != INLAY_NONE)
                set_input(p->n, i, r->parts[p->twin[i]].n->info.inputs[p->twin_of[i]]);
        }
    }
    if (model == NULL || !choose_outputs(r, model->main) || graph_finish(model->main, &diag) != INLAY_OK ||
        graph_bind(model, &r->w->operators, &diag) != INLAY_OK || graph_infer(model, &diag) != INLAY_OK ||
        graph_snapshot(model->main, &one->a, &one->snapshot, &diag) != INLAY_OK)
        return false;
    for (uint32_t j = 0; j < r->part_count; j++)
        for (uint32_t n = 0; n < model->main->node_count; n++)
            if (model->main->nodes[n] == r->parts[j].n)
                r->parts[j].index = n;
    return true;
}

bool region_sizes_known(const inlay_value_info *v)
{
    for (uint32_t d = 0; v->rank != INLAY_RANK_UNKNOWN && d < v->rank; d++)
        if (v->dims[d].kind != INLAY_DIM_FIXED)
            return false;
    return v->rank != INLAY_RANK_UNKNOWN;
}

/* The shapes of all values, as a plan knows them. */
bool region_make_states(case_one *one)
{
    const inlay_graph *s = &one->snapshot;

    one->states = arena_array(&one->a, s->value_count + (size_t)1, sizeof *one->states);
    for (uint32_t v = 0; one->states != NULL && v < s->value_count; v++) {
        const inlay_value_info *info = inlay_graph_value(s, v);
        int64_t *dims =
            info->rank == INLAY_RANK_UNKNOWN ? NULL : arena_array(&one->a, info->rank + (size_t)1, sizeof *dims);
        one->states[v] = (inlay_value_state){ .rank = info->rank, .dtype = info->dtype };
        for (uint32_t d = 0; dims != NULL && d < info->rank; d++)
            dims[d] = info->dims[d].kind == INLAY_DIM_FIXED ? info->dims[d].value : -1;
        one->states[v].dims = dims;
        if ((info->flags & INLAY_VALUE_CONSTANT) != 0) {
            one->states[v].data = info->data;
            one->states[v].data_bytes = info->data_bytes;
        }
    }
    return one->states != NULL;
}
