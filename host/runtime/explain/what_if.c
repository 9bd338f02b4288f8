/* Other rules, the same offers: what a session created with them would have chosen. */
#include "base/nearest.h"
#include "base/memory.h"
#include "explain/facts.h"
#include <stdlib.h>
#include <string.h>

/* The rules after the change; what else a rule can change. */
struct scenario {
    struct facts *f;
    part_rules rules;
    part_wish *pins, *forbids; /* rules.pins and rules.forbids */
    uint32_t max_threads;      /* 0 = as it is */
    struct partition *choices; /* [graph_count] */
    struct arena scratch;      /* of the choices */
};

/* ------------------------------------------------------------------ rules */

static const char *nth_provider(const void *ctx, uint32_t i)
{
    return facts_provider_name(ctx, i);
}

static inlay_status check_provider(const struct facts *f, const char *rule, const char *name, inlay_diag *diag)
{
    const char *near;

    for (uint32_t i = 0; i < f->provider_count; i++)
        if (strcmp(facts_provider_name(f, i), name) == 0)
            return INLAY_OK;
    near = nearest_name(name, nth_provider, f, f->provider_count);
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "what-if %s: the session has no provider '%s'%s%s%s", rule, name,
                      near != NULL ? "; did you mean '" : "", near != NULL ? near : "", near != NULL ? "'?" : "");
}

static inlay_status set_policy(struct scenario *x, const char *rule, const char *value, inlay_diag *diag)
{
    x->rules.by_priority = strcmp(value, "priority") == 0;
    if (x->rules.by_priority || strcmp(value, "cost") == 0)
        return INLAY_OK;
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "what-if %s: a policy is cost or priority", rule);
}

static inlay_status set_threads(struct scenario *x, const char *rule, const char *value, inlay_diag *diag)
{
    char *end = NULL;
    long threads = strtol(value, &end, 10);

    if (value[0] == '\0' || *end != '\0' || threads < 1 || threads > 4096)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "what-if %s: threads is a number from 1 to 4096", rule);
    x->max_threads = (uint32_t)threads;
    return INLAY_OK;
}

/* "PATTERN=PROVIDER", "PATTERN!=PROVIDER": names of nodes may hold '=', names of providers don't. */
static inlay_status add_wish(struct scenario *x, const char *rule, inlay_diag *diag)
{
    const char *equals = strrchr(rule, '=');
    bool forbid = equals != NULL && equals > rule && equals[-1] == '!';
    char *pattern;
    inlay_status status;

    if (equals == NULL || equals == rule + forbid)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "what-if %s: expected PATTERN=PROVIDER, PATTERN!=PROVIDER, -PROVIDER, policy=NAME or "
                          "threads=N",
                          rule);
    pattern = arena_string_n(&x->f->a, rule, (size_t)(equals - rule) - forbid);
    if (pattern == NULL)
        return no_memory(diag, "for what-if %s", rule);
    status = check_provider(x->f, rule, equals + 1, diag);
    if (status == INLAY_OK)
        status = facts_check_pattern(x->f, "what-if", pattern, diag);
    if (status != INLAY_OK)
        return status;
    if (forbid)
        x->forbids[x->rules.forbid_count++] = (part_wish){ pattern, equals + 1 };
    else
        x->pins[x->rules.pin_count++] = (part_wish){ pattern, equals + 1 };
    return INLAY_OK;
}

static inlay_status add_rule(struct scenario *x, const char *rule, inlay_diag *diag)
{
    inlay_status status;

    if (strncmp(rule, "policy=", 7) == 0)
        return set_policy(x, rule, rule + 7, diag);
    if (strncmp(rule, "threads=", 8) == 0)
        return set_threads(x, rule, rule + 8, diag);
    if (rule[0] != '-' || strchr(rule, '=') != NULL)
        return add_wish(x, rule, diag);
    status = check_provider(x->f, rule, rule + 1, diag);
    if (status == INLAY_OK)
        x->forbids[x->rules.forbid_count++] = (part_wish){ "*", rule + 1 };
    return status;
}

/* The session's rules, with the changes before them: the first pin that matches counts. */
static inlay_status make_rules(struct scenario *x, const char *const *rules, uint32_t count, inlay_diag *diag)
{
    const part_rules *old = x->f->session->env.rules;
    part_rules none = { 0 };
    inlay_status status = INLAY_OK;

    old = old != NULL ? old : &none;
    x->rules = *old;
    x->rules.saved_plan = NULL;
    x->rules.pin_count = x->rules.forbid_count = 0;
    x->pins = arena_array(&x->f->a, (size_t)old->pin_count + count + 1, sizeof *x->pins);
    x->forbids = arena_array(&x->f->a, (size_t)old->forbid_count + count + 1, sizeof *x->forbids);
    if (x->pins == NULL || x->forbids == NULL)
        return no_memory(diag, "for the rules of a what-if");
    for (uint32_t i = 0; i < count && status == INLAY_OK; i++)
        status = add_rule(x, rules[i], diag);
    for (uint32_t i = 0; i < old->pin_count; i++)
        x->pins[x->rules.pin_count++] = old->pins[i];
    for (uint32_t i = 0; i < old->forbid_count; i++)
        x->forbids[x->rules.forbid_count++] = old->forbids[i];
    x->rules.pins = x->pins;
    x->rules.forbids = x->forbids;
    return status;
}

/* ------------------------------------------------------------------ choosing */

/* The offers of g at prices for another number of threads. */
static const struct partition *at_threads(struct scenario *x, const facts_graph *g, const part_request *r)
{
    struct partition *base = arena_copy(&x->scratch, g->parts, sizeof *base);

    if (base == NULL || x->max_threads == 0)
        return base;
    base->offers = arena_copy(&x->scratch, base->offers, base->offer_count * sizeof *base->offers);
    for (uint32_t i = 0; base->offers != NULL && i < base->offer_count; i++) {
        part_offer *o = &base->offers[i];
        cost_question q = { .graph = r->snapshot,
                            .provider = &r->providers[o->provider],
                            .offer = o,
                            .values = base->profile,
                            .max_threads = r->max_threads,
                            .weight_bytes = base->weight_bytes };
        o->cost_source = cost_of_offer(r->costs, &q, &o->cost, &o->cost_error);
    }
    return base->offers == NULL && base->offer_count > 0 ? NULL : base;
}

/* *out_possible: false when the rules can't be kept, and diag says why. */
static inlay_status choose(struct scenario *x, uint32_t index, bool *out_possible, inlay_diag *diag)
{
    const facts_graph *g = x->f->graphs[index];
    part_request request = facts_request(g);
    const struct partition *base;
    inlay_status status;

    request.rules = &x->rules;
    request.max_threads = x->max_threads != 0 ? x->max_threads : request.max_threads;
    base = at_threads(x, g, &request);
    if (base == NULL)
        return no_memory(diag, "for a what-if");
    status = partition_again(&request, base, &x->scratch, &x->choices[index], diag);
    *out_possible = status == INLAY_OK;
    return status == INLAY_OUT_OF_MEMORY ? status : INLAY_OK;
}

/* ------------------------------------------------------------------ what comes of it */

/* Totals of the graphs, bodies before the graph that has them. */
static void add_up(struct scenario *x, double *totals, facts_outcome *out)
{
    const struct facts *f = x->f;

    for (uint32_t i = f->graph_count; i-- > 0;) {
        const facts_graph *g = f->graphs[i];
        const struct partition *choice = &x->choices[i];

        totals[i] = facts_told_sum(f, choice);
        for (uint32_t r = 0; r < g->region_count; r++)
            for (uint32_t b = 0; b < g->regions[r].body_count; b++)
                totals[i] += facts_rounds(g->regions[r].bodies[b], totals[g->regions[r].bodies[b]->index],
                                          x->choices[g->regions[r].bodies[b]->index].once_ns);
        out->copy_count += choice->copy_count;
        out->copies_ns += facts_copies_per_run(g, facts_sum_of_copies(choice), choice->once_ns);
    }
    out->ns = totals[0];
}

/* Takes note of the node, which `to` runs now. */
static void note_move(facts_outcome *out, uint32_t from, uint32_t to, const char *name)
{
    uint32_t i = 0;

    while (i < out->move_count && (out->moves[i].from != from || out->moves[i].to != to))
        i++;
    if (i == out->move_count)
        out->moves[out->move_count++] = (facts_move){ .from = from, .to = to };
    if (out->moves[i].count < sizeof out->moves[i].names / sizeof out->moves[i].names[0])
        out->moves[i].names[out->moves[i].count] = name;
    out->moves[i].count++;
    out->moved_count++;
}

static int most_first(const void *a, const void *b)
{
    const facts_move *x = a, *y = b;

    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    return x->from != y->from ? (x->from < y->from ? -1 : 1) : (x->to > y->to) - (x->to < y->to);
}

static void find_moves(struct scenario *x, facts_outcome *out)
{
    for (uint32_t i = 0; i < x->f->graph_count; i++) {
        const facts_graph *g = x->f->graphs[i];
        for (uint32_t r = 0; r < x->choices[i].region_count; r++) {
            const part_region *region = &x->choices[i].regions[r];
            for (uint32_t n = 0; n < region->node_count; n++) {
                uint32_t from = g->regions[g->nodes[region->nodes[n]].region].region->provider;
                if (from != region->provider)
                    note_move(out, from, region->provider, facts_node_info(g, region->nodes[n])->name.data);
            }
        }
    }
    qsort(out->moves, out->move_count, sizeof *out->moves, most_first);
}

inlay_status facts_what_if(struct facts *f, const char *const *rules, uint32_t count, facts_outcome **out,
                           inlay_diag *diag)
{
    struct scenario x = { .f = f };
    inlay_diag why = INLAY_DIAG_INIT;
    inlay_status status = INLAY_OK;
    facts_outcome *o = arena_alloc(&f->a, sizeof *o);
    double *totals = arena_array(&f->a, (size_t)f->graph_count + 1, sizeof *totals);
    bool possible = true;

    *out = o;
    x.choices = arena_array(&f->a, (size_t)f->graph_count + 1, sizeof *x.choices);
    if (o == NULL || totals == NULL || x.choices == NULL)
        return no_memory(diag, "for a what-if");
    *o = (facts_outcome){ 0 };
    o->moves = arena_array(&f->a, ((size_t)f->provider_count + 1) * (f->provider_count + 1), sizeof *o->moves);
    if (o->moves == NULL)
        return no_memory(diag, "for a what-if");
    INLAY_TRY(make_rules(&x, rules, count, diag));
    for (uint32_t i = 0; i < f->graph_count && possible; i++)
        if ((status = choose(&x, i, &possible, &why)) != INLAY_OK)
            break;
    if (status == INLAY_OK && !possible)
        o->impossible = arena_string(&f->a, why.text);
    if (status != INLAY_OK || (!possible && o->impossible == NULL)) {
        status = no_memory(diag, "for a what-if");
        goto done;
    }
    if (possible) {
        add_up(&x, totals, o);
        find_moves(&x, o);
    }
done:
    arena_deinit(&x.scratch);
    return status;
}
