/* Regions of odd forms, for providers whose offers ask to be merged: unconnected parts, nodes of other shapes side by
 * side, a value that is read twice, many outputs, foreign nodes between. What a region computes is compared with its
 * nodes, run one by one on the same provider. */
#include "check/agree.h"
#include "check/region_graph.h"
#include <stdlib.h>
#include <string.h>

enum { REGIONS = 400, QUICK_REGIONS = 60 };

/* ------------------------------------------------------------------ offers */

static inlay_status hear_offer(void *ctx, const inlay_offer *offer)
{
    struct regions *r = ctx;
    struct offered *o = &r->offers[r->offer_count];

    if (r->offer_count == OFFERS || offer->node_count == 0 || offer->node_count > PARTS ||
        (offer->flags & INLAY_OFFER_MERGE) == 0)
        return INLAY_OK;
    *o = (struct offered){ .cookie = offer->cookie, .node_count = offer->node_count, .flags = offer->flags };
    memcpy(o->nodes, offer->nodes, offer->node_count * sizeof *offer->nodes);
    for (uint32_t i = 0; INLAY_HAS(offer, placement_stride) && i < offer->placement_count; i++)
        if (o->placement_count < CASE_INPUTS + CASE_OUTPUTS)
            o->placements[o->placement_count++] =
                *INLAY_AT(inlay_placement, offer->placements, offer->placement_stride, i);
    r->offer_count++;
    return INLAY_OK;
}

static inlay_status hear_refusal(void *ctx, const inlay_refusal *refusal)
{
    (void)ctx, (void)refusal;
    return INLAY_OK;
}

static struct part *part_at(struct regions *r, uint32_t index)
{
    for (uint32_t j = 0; j < r->part_count; j++)
        if (r->parts[j].index == index)
            return &r->parts[j];
    return NULL;
}

static struct offered *single_of(struct regions *r, const struct part *p)
{
    for (uint32_t o = 0; o < r->offer_count; o++)
        if (r->offers[o].node_count == 1 && r->offers[o].nodes[0] == p->index)
            return &r->offers[o];
    return NULL;
}

/* Takes out of the region what a value would come back to from outside. Parts stand in an order that can be run. */
static void make_convex(struct regions *r)
{
    bool behind[PARTS] = { false }; /* it depends on the region, and is not of it */

    for (uint32_t j = 0; j < r->part_count; j++) {
        struct part *p = &r->parts[j];
        bool reads_behind = false, reads_inside = false;

        for (uint32_t i = 0; i < p->k.in_count; i++) {
            if (p->from[i] == INLAY_NONE)
                continue;
            reads_behind |= behind[p->from[i]];
            reads_inside |= r->parts[p->from[i]].inside;
        }
        if (reads_behind)
            p->inside = false;
        behind[j] = reads_behind || (reads_inside && !p->inside);
    }
}

static bool linked(const struct regions *r, uint32_t a, uint32_t b)
{
    for (uint32_t i = 0; i < r->parts[b].k.in_count; i++)
        if (r->parts[b].from[i] == a)
            return true;
    return false;
}

/* The parts that hang together with part `first`; returns whether that is all of the region. */
static bool find_connected(const struct regions *r, uint32_t first, bool *in)
{
    bool more = true, all = true;

    memset(in, 0, PARTS * sizeof *in);
    in[first] = true;
    while (more) {
        more = false;
        for (uint32_t a = 0; a < r->part_count; a++)
            for (uint32_t b = a + 1; b < r->part_count; b++)
                if (r->parts[a].inside && r->parts[b].inside && in[a] != in[b] && linked(r, a, b))
                    in[a] = in[b] = more = true;
    }
    for (uint32_t j = 0; j < r->part_count; j++)
        all &= in[j] || !r->parts[j].inside;
    return all;
}

static void keep_connected(struct regions *r)
{
    uint32_t first = 0;
    bool in[PARTS], asked = false;

    while (first < r->part_count && !r->parts[first].inside)
        first++;
    if (first == r->part_count || find_connected(r, first, in))
        return;
    for (uint32_t j = 0; j < r->part_count; j++)
        asked |= r->parts[j].inside && (single_of(r, &r->parts[j])->flags & INLAY_OFFER_CONNECTED) != 0;
    r->unconnected += !asked;
    for (uint32_t j = 0; asked && j < r->part_count; j++)
        r->parts[j].inside &= in[j];
}

static bool has_known_sizes(const inlay_graph *s, const struct part *p)
{
    for (uint32_t o = 0; o < p->n->info.output_count; o++)
        if (!region_sizes_known(inlay_graph_value(s, p->n->info.outputs[o])))
            return false;
    return true;
}

/* Which parts make the region, and by which offers. False: fewer than two. */
static bool choose_region(struct regions *r, const inlay_graph *s)
{
    bool taken[PARTS] = { false };
    uint32_t inside = 0;

    for (uint32_t j = 0; j < r->part_count; j++)
        r->parts[j].inside =
            single_of(r, &r->parts[j]) != NULL && has_known_sizes(s, &r->parts[j]) && region_roll(r, 6) != 0;
    make_convex(r);
    keep_connected(r);
    for (uint32_t o = 0; o < r->offer_count; o++) {
        struct offered *f = &r->offers[o];
        bool fits = f->node_count > 1 && region_roll(r, 2) == 0;

        for (uint32_t k = 0; fits && k < f->node_count; k++) {
            const struct part *p = part_at(r, f->nodes[k]);

            fits = p != NULL && p->inside && !taken[p - r->parts];
        }
        f->used = fits;
        for (uint32_t k = 0; fits && k < f->node_count; k++)
            taken[part_at(r, f->nodes[k]) - r->parts] = true;
    }
    for (uint32_t j = 0; j < r->part_count; j++) {
        inside += r->parts[j].inside;
        if (r->parts[j].inside && !taken[j])
            single_of(r, &r->parts[j])->used = true;
    }
    return inside >= 2;
}

/* ------------------------------------------------------------------ the region */

static bool is_listed(const uint32_t *list, uint32_t count, uint32_t value)
{
    for (uint32_t i = 0; i < count; i++)
        if (list[i] == value)
            return true;
    return false;
}

/* What enters, as inputs of a case; in the order of the host: by node, each value once. */
static bool find_inputs(struct regions *r, case_one *one, op_case *whole)
{
    for (uint32_t n = 0; n < one->snapshot.node_count; n++) {
        const struct part *p = part_at(r, n);

        for (uint32_t i = 0; p != NULL && p->inside && i < p->k.in_count; i++) {
            uint32_t v = p->n->info.inputs[i];

            if (v == INLAY_NONE || p->k.in[i].constant || is_listed(one->inputs, one->input_count, v) ||
                (p->from[i] != INLAY_NONE && r->parts[p->from[i]].inside))
                continue;
            if (one->input_count == CASE_INPUTS)
                return false;
            whole->in[whole->in_count] = p->k.in[i];
            one->input_of[one->input_count] = whole->in_count++;
            one->inputs[one->input_count++] = v;
        }
    }
    return true;
}

/* What leaves, and what it has to be. */
static bool find_outputs(struct regions *r, case_one *one, bench_result *want)
{
    const inlay_graph *s = &one->snapshot;

    for (uint32_t n = 0; n < s->node_count; n++) {
        const struct part *p = part_at(r, n);

        for (uint32_t o = 0; p != NULL && p->inside && o < p->n->info.output_count; o++) {
            uint32_t v = p->n->info.outputs[o];
            bool leaves = (inlay_graph_value(s, v)->flags & INLAY_VALUE_GRAPH_OUTPUT) != 0;

            for (uint32_t k = 0; k < r->part_count; k++)
                for (uint32_t i = 0; !r->parts[k].inside && i < r->parts[k].k.in_count; i++)
                    leaves |= r->parts[k].n->info.inputs[i] == v;
            if (!leaves)
                continue;
            if (one->output_count == CASE_OUTPUTS || o >= p->made.out_count)
                return false;
            want->out[want->out_count++] = p->made.out[o];
            one->outputs[one->output_count++] = v;
        }
    }
    return true;
}

/* The region as the bench takes it. */
static bool describe(struct regions *r, case_one *one, bench_region *out, inlay_placement *placements, uint32_t *count)
{
    uint32_t *nodes = arena_array(&one->a, PARTS, sizeof *nodes);
    uint64_t *cookies = arena_array(&one->a, OFFERS, sizeof *cookies);

    *out = (bench_region){ .nodes = nodes, .cookies = cookies };
    *count = 0;
    if (nodes == NULL || cookies == NULL)
        return false;
    for (uint32_t n = 0; n < one->snapshot.node_count; n++)
        if (part_at(r, n) != NULL && part_at(r, n)->inside)
            nodes[out->node_count++] = n;
    for (uint32_t o = 0; o < r->offer_count; o++) {
        const struct offered *f = &r->offers[o];

        if (!f->used)
            continue;
        cookies[out->offer_count++] = f->cookie;
        for (uint32_t i = 0; i < f->placement_count; i++)
            if (*count < CASE_INPUTS + CASE_OUTPUTS &&
                (is_listed(one->inputs, one->input_count, f->placements[i].value) ||
                 is_listed(one->outputs, one->output_count, f->placements[i].value)))
                placements[(*count)++] = f->placements[i];
    }
    return true;
}

static void name_nodes(const struct regions *r, char *text, size_t bytes)
{
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t j = 0; j < r->part_count && used < bytes; j++) {
        const struct part *p = &r->parts[j];

        used +=
            (size_t)snprintf(text + used, bytes - used, "%s%s%s", j > 0 ? " " : "", p->inside ? "" : "(", p->k.op_type);
        for (uint32_t i = 0; i < p->k.in_count && used < bytes; i++)
            if (p->from[i] != INLAY_NONE || p->twin[i] != INLAY_NONE)
                used += (size_t)snprintf(text + used, bytes - used, "%c%u", p->from[i] != INLAY_NONE ? '<' : '=',
                                         p->from[i] != INLAY_NONE ? p->from[i] : p->twin[i]);
        if (!p->inside && used < bytes)
            used += (size_t)snprintf(text + used, bytes - used, ")");
    }
}

static void complain(struct regions *r, const char *expected, const char *fix, const char *got)
{
    char nodes[200];

    r->failed++;
    if (r->failed > 2)
        return;
    name_nodes(r, nodes, sizeof nodes);
    check_fail(r->c, "regions", r->p->name, expected, fix,
               "%s: %.400s (region: nodes without brackets; <k reads what "
               "node k makes, =k what it reads)",
               nodes, got);
}

static void run_region(struct regions *r, const case_one *one, const op_case *whole, const bench_region *region,
                       const inlay_placement *placements, uint32_t placement_count, const bench_result *want)
{
    const bench_how hows[2] = { { 0 }, { .tight = true, .fill = 0xff } };
    inlay_diag diag = INLAY_DIAG_INIT;
    char text[400];
    struct bench b;
    inlay_status status = bench_open_region(r->c, r->p, one, whole, region, placements, placement_count, &b, &diag);

    r->tried++;
    if (status == INLAY_UNSUPPORTED) {
        r->declined++;
        return;
    }
    if (status != INLAY_OK) {
        (void)snprintf(text, sizeof text, "%s returned '%s': %.300s", b.phase, inlay_status_text(status), diag.text);
        complain(r, "that a region of merged offers compiles, or is declined with INLAY_UNSUPPORTED",
                 "see \"Regions\" in inlay/plugin.h; INLAY_OFFER_CONNECTED asks for connected ones", text);
        return;
    }
    for (int i = 0; i < 2 && r->failed < 4; i++) {
        bench_result got;

        status = bench_run(&b, &hows[i], &got, &diag);
        if (got.fault[0] != '\0')
            complain(r, "that the contract of execute is kept", got.fault_fix, got.fault);
        else if (status != INLAY_OK)
            complain(r, "that a region that compiles runs", "decline in compile what cannot be run", diag.text);
        else if (!agree(&got, want, text, sizeof text))
            complain(r, "what its nodes compute one by one",
                     "see \"Regions\" in inlay/plugin.h: which forms a region may have", text);
        bench_result_deinit(&got);
    }
    bench_close(&b);
}

static void try_region(struct regions *r)
{
    const inlay_assess_sink sink = {
        .struct_size = sizeof sink, .ctx = r, .offer = hear_offer, .refuse = hear_refusal
    };
    static const uint8_t candidates[PARTS] = { 1, 1, 1, 1, 1, 1, 1 };
    inlay_placement placements[CASE_INPUTS + CASE_OUTPUTS];
    inlay_diag diag = INLAY_DIAG_INIT;
    bench_result *want = calloc(1, sizeof *want);
    op_case *whole = calloc(1, sizeof *whole);
    const uint32_t parts = 2 + region_roll(r, PARTS - 1);
    uint32_t placement_count;
    bench_region region;
    case_one one = { .model = NULL };

    while (want != NULL && whole != NULL && r->part_count < parts && region_add_part(r))
        continue;
    r->offer_count = 0;
    if (r->part_count >= 2 && region_make_model(r, &one) && region_make_states(&one)) {
        check_phase(r->c, "assess");
        if (r->p->table->assess(r->p->state, &one.snapshot, candidates, &sink, &diag) == INLAY_OK &&
            choose_region(r, &one.snapshot)) {
            case_init(whole, "", "region", 0);
            if (find_inputs(r, &one, whole) && find_outputs(r, &one, want) && one.output_count > 0 &&
                describe(r, &one, &region, placements, &placement_count))
                run_region(r, &one, whole, &region, placements, placement_count, want);
        }
        check_phase(r->c, "the checker");
    }
    case_one_deinit(&one);
    region_drop_parts(r);
    free(want);
    free(whole);
}

static void try_provider(struct check *c, const struct world *w, const loaded_provider *p,
                         const inlay_operator *const *custom, uint32_t custom_count)
{
    struct regions *r = calloc(1, sizeof *r);
    const uint32_t count = c->args->quick ? QUICK_REGIONS : REGIONS;

    if (r == NULL)
        return;
    *r = (struct regions){ .c = c, .w = w, .p = p, .pool = calloc(POOL, sizeof *r->pool) };
    if (r->pool != NULL)
        generate_sources(custom, custom_count, c->args->op, true, region_take_source, r);
    for (uint32_t i = 0; r->count > 0 && i < count && r->failed < 4; i++) {
        r->state = c->args->seed * 1000 + i;
        if (check_unit(c, "%s: region %u", p->name, i))
            try_region(r);
    }
    if (r->count == 0)
        check_skip(c, "regions", p->name, "no offer asks to be merged: each is compiled alone");
    else if (r->tried > 0 && r->declined == r->tried)
        check_warn(c, "regions", p->name, "that some region of several offers compiles",
                   "offer without INLAY_OFFER_MERGE what compiles alone only", "all %u regions were declined",
                   r->tried);
    else if (r->failed == 0 && r->tried > 0)
        check_pass(c, "regions", p->name,
                   "%u regions of %u kinds of node, %u of them not connected, %u declined: what "
                   "the nodes compute alone",
                   r->tried, r->count, r->unconnected, r->declined);
    for (uint32_t i = 0; i < r->count; i++)
        case_deinit(&r->pool[i]);
    free(r->pool);
    free(r);
}

void check_group_regions(struct check *c)
{
    world_each(c, "regions", try_provider);
}
