/* Bounds that no price keeps by itself: device memory, max_partitions, a provider that must run something.
 *
 * Each bound that is broken gets a multiplier, so much for a byte of the device or for a change of provider, and the
 * search is made again, until the bound is kept; then the multipliers shrink as far as it stays kept. Where that does
 * not suffice, for memory is taken in lumps, offers leave the device one after the other, the cheapest a byte first. */
#include "base/memory.h"
#include "partition/search/search.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_ROUNDS = 14, SHRINK_ROUNDS = 5, POLISH_NODES = 192, GIVE_BACK = 48 };

struct bounds {
    struct problem *x;
    uint32_t *best, *trial; /* [nodes] */
    part_verdict verdict;   /* of best, at true prices */
    double *per_byte;       /* [providers] multipliers in use */
    double boundary_ns;
    uint32_t fewest;        /* stretches of any choice seen */
    uint64_t *least_excess; /* [providers] bytes above the limit, of any choice seen */
};

static bool is_better(part_verdict a, part_verdict b)
{
    if (!a.runs || a.feasible != b.feasible)
        return a.runs && a.feasible;
    return !b.runs || a.price < b.price * (1 - 1e-12) - 1e-9;
}

/* Bytes above the limit. */
static uint64_t excess_of(const struct problem *x, uint32_t p)
{
    const part_memory *m = &x->memory[p];
    uint64_t need;

    if (__builtin_add_overflow(m->resident_bytes, m->peak_bytes, &need))
        need = UINT64_MAX;
    return need > x->bounds.limit[p] ? need - x->bounds.limit[p] : 0;
}

/* At true prices. */
static part_verdict judge(struct bounds *b, const uint32_t *choice)
{
    struct problem *x = b->x;
    part_verdict v;

    x->prices.boundary_ns = 0;
    problem_set_prices(x, NULL);
    v = part_judge(x, choice);
    if (!v.runs)
        return v;
    if (x->bounds.max_partitions > 0 && x->schedule.stretches < b->fewest)
        b->fewest = x->schedule.stretches;
    for (uint32_t p = 0; x->bounds.limited && p < x->providers; p++)
        if (excess_of(x, p) < b->least_excess[p])
            b->least_excess[p] = excess_of(x, p);
    return v;
}

/* Keeps the trial if it is better. */
static part_verdict offer_trial(struct bounds *b)
{
    part_verdict v = judge(b, b->trial);

    if (is_better(v, b->verdict)) {
        b->verdict = v;
        memcpy(b->best, b->trial, b->x->nodes * sizeof *b->best);
    }
    return v;
}

/* ------------------------------------------------------------------ one node elsewhere */

/* What the copies around the offer's nodes cost; a value that several of them touch counts as often. */
static double copies_around(struct problem *x, const uint32_t *choice, const part_offer *o)
{
    double ns = 0;

    for (uint32_t k = 0; x->domains.count > 1 && k < o->node_count; k++) {
        const graph_node *n = x->g->nodes[o->nodes[k]];
        for (uint32_t i = 0; i < part_reads(n) + n->info.output_count; i++) {
            uint32_t v = i < part_reads(n) ? part_read_at(n, i) : n->info.outputs[i - part_reads(n)];
            for (uint32_t c = v == INLAY_NONE ? 0 : part_hops(x, choice, v); c > 0; c--)
                ns += part_hop_ns(x, v, x->domains.hops[c - 1]) * part_share(x, x->domains.hops[c - 1].once);
        }
    }
    return ns;
}

/* The cheapest usual offer of another provider. */
static uint32_t elsewhere(const struct problem *x, uint32_t node, uint32_t provider)
{
    uint32_t best = INLAY_NONE;

    for (uint32_t p = 0; p < x->providers; p++) {
        uint32_t o = x->picks.cheapest[(size_t)p * x->nodes + node];
        if (p == provider || o == INLAY_NONE)
            continue;
        if (best == INLAY_NONE || (!part_by_priority(x->request) && x->prices.offer[o] < x->prices.offer[best]))
            best = o;
    }
    return best;
}

static void put(uint32_t *choice, const part_offer *o, uint32_t offer)
{
    for (uint32_t k = 0; k < o->node_count; k++)
        choice[o->nodes[k]] = offer;
}

/* Moves the offer's nodes off its provider; false if some have nowhere to go. *loss is what that costs. */
static bool move_off(struct problem *x, uint32_t *choice, uint32_t offer, double *loss)
{
    const part_offer *o = &x->p->offers[offer];
    double ns = -x->prices.offer[offer];

    for (uint32_t k = 0; k < o->node_count; k++)
        if (elsewhere(x, o->nodes[k], o->provider) == INLAY_NONE)
            return false;
    ns -= copies_around(x, choice, o);
    for (uint32_t k = 0; k < o->node_count; k++) {
        choice[o->nodes[k]] = elsewhere(x, o->nodes[k], o->provider);
        ns += x->prices.offer[choice[o->nodes[k]]];
    }
    *loss = ns + copies_around(x, choice, o);
    return true;
}

static double weight_of(const struct problem *x, const part_offer *o)
{
    double bytes = (double)o->resident_bytes + (double)o->workspace_bytes;

    for (uint32_t k = 0; k < o->node_count; k++) {
        const inlay_node_info *n = &x->g->nodes[o->nodes[k]]->info;
        for (uint32_t i = 0; i < n->output_count; i++)
            bytes += n->outputs[i] == INLAY_NONE ? 0 : (double)cost_value_bytes(&x->p->profile[n->outputs[i]]);
    }
    return bytes;
}

/* ------------------------------------------------------------------ memory: repair */

struct leaver {
    double per_byte, bytes;
    uint32_t offer;
};

static int by_price(const void *a, const void *b)
{
    const struct leaver *p = a, *q = b;

    if (p->per_byte != q->per_byte)
        return p->per_byte < q->per_byte ? -1 : 1;
    return p->offer < q->offer ? -1 : p->offer > q->offer;
}

/* Sends offers off provider p until about `excess` bytes are free; false: none can go. */
static bool relieve(struct bounds *b, uint32_t p, uint64_t excess, struct leaver *list)
{
    struct problem *x = b->x;
    uint32_t count = 0;
    double freed = 0;

    for (uint32_t n = 0; n < x->nodes; n++) {
        uint32_t offer = b->trial[n];
        const part_offer *o = offer == INLAY_NONE ? NULL : &x->p->offers[offer];
        double loss;

        if (o == NULL || o->provider != p || o->nodes[0] != n || !move_off(x, b->trial, offer, &loss))
            continue;
        put(b->trial, o, offer);
        list[count] = (struct leaver){ .offer = offer, .bytes = weight_of(x, o) };
        list[count].per_byte = loss / (list[count].bytes + 1);
        count++;
    }
    qsort(list, count, sizeof *list, by_price);
    for (uint32_t i = 0; i < count && (i == 0 || freed < (double)excess) && i <= count / 16; i++) {
        double loss;
        (void)move_off(x, b->trial, list[i].offer, &loss);
        freed += list[i].bytes;
    }
    return count > 0;
}

static bool repair(struct bounds *b)
{
    struct problem *x = b->x;
    struct leaver *list = arena_array(x->scratch, (size_t)x->nodes + 1, sizeof *list);

    if (list == NULL) {
        x->failed = true;
        return false;
    }
    for (;;) {
        part_verdict v = offer_trial(b);
        uint32_t worst = INLAY_NONE;

        if (!v.runs || v.feasible || x->failed)
            return v.runs && v.feasible;
        for (uint32_t p = 0; x->bounds.limited && p < x->providers; p++)
            if (excess_of(x, p) > 0 && (worst == INLAY_NONE || excess_of(x, p) > excess_of(x, worst)))
                worst = p;
        if (worst == INLAY_NONE || !relieve(b, worst, excess_of(x, worst), list))
            return false;
    }
}

/* ------------------------------------------------------------------ a provider that must run something */

/* Gives the required provider the offer that costs least to give. */
static void force_required(struct bounds *b)
{
    struct problem *x = b->x;
    uint32_t *from = arena_array(x->scratch, (size_t)x->nodes + 1, sizeof *from), best = INLAY_NONE;
    double least = 0;

    if (from == NULL) {
        x->failed = true;
        return;
    }
    memcpy(from, b->trial, x->nodes * sizeof *from);
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t offer = 0; offer < x->offers; offer++) {
            const part_offer *o = &x->p->offers[offer];
            bool fits = x->usable[offer] && o->provider == x->bounds.required && (round == 0 || offer == best);
            double ns;

            /* Groups that the offer cuts into fall back to single offers. */
            for (uint32_t k = 0; fits && k < o->node_count; k++) {
                const part_offer *g = &x->p->offers[from[o->nodes[k]]];
                for (uint32_t m = 0; fits && g->node_count > 1 && m < g->node_count; m++) {
                    uint32_t single = elsewhere(x, g->nodes[m], INLAY_NONE);
                    fits = single != INLAY_NONE;
                    b->trial[g->nodes[m]] = single;
                }
            }
            if (fits) {
                ns = x->prices.offer[offer] - copies_around(x, from, o);
                for (uint32_t k = 0; k < o->node_count; k++)
                    ns -= x->prices.offer[b->trial[o->nodes[k]]];
                put(b->trial, o, offer);
                ns += copies_around(x, b->trial, o);
                if (round == 0 && (best == INLAY_NONE || ns < least)) {
                    best = offer;
                    least = ns;
                }
                if (round == 1)
                    return;
            }
            if (o->provider == x->bounds.required)
                memcpy(b->trial, from, x->nodes * sizeof *from);
        }
    }
}

/* ------------------------------------------------------------------ multipliers */

/* Searches at the multipliers in use, and judges what comes out at true prices. */
static part_verdict search_again(struct bounds *b)
{
    struct problem *x = b->x;
    uint32_t uncovered, steps = x->exact_steps;
    bool ok;

    x->prices.boundary_ns = b->boundary_ns;
    problem_set_prices(x, b->per_byte);
    x->exact_steps = 0;
    ok = part_solve(x, b->trial, &uncovered);
    x->exact_steps = steps;
    if (!ok || uncovered != INLAY_NONE)
        return (part_verdict){ 0 };
    if (!part_has_required(x, b->trial))
        force_required(b);
    return offer_trial(b);
}

/* Raises the multipliers of the bounds that the choice judged last breaks. */
static bool raise_multipliers(struct bounds *b, double total_ns)
{
    struct problem *x = b->x;
    bool raised = false;

    for (uint32_t p = 0; x->bounds.limited && p < x->providers; p++) {
        if (excess_of(x, p) == 0)
            continue;
        raised = true;
        b->per_byte[p] = b->per_byte[p] > 0 ? b->per_byte[p] * 4 : total_ns / 64 / ((double)excess_of(x, p) + 1);
    }
    if (x->bounds.max_partitions > 0 && x->schedule.stretches > x->bounds.max_partitions) {
        raised = true;
        b->boundary_ns = b->boundary_ns > 0 ? b->boundary_ns * 4 : total_ns / 64 / x->schedule.stretches + 1;
    }
    return raised;
}

static void search_with_multipliers(struct bounds *b)
{
    struct problem *x = b->x;
    double total_ns = b->verdict.price;
    part_verdict v = judge(b, b->best);

    for (uint32_t round = 0; round < MOST_ROUNDS && v.runs && !v.feasible && !x->failed; round++) {
        if (!raise_multipliers(b, total_ns))
            return;
        v = search_again(b);
    }
    /* Everything by one factor, between a quarter and one. */
    for (uint32_t round = 0; round < SHRINK_ROUNDS && b->verdict.feasible && !x->failed; round++) {
        double step = round == 0 ? 0.5 : v.feasible ? 1 - 0.25 / round : 1 + 0.25 / round;

        for (uint32_t p = 0; p < x->providers; p++)
            b->per_byte[p] *= step;
        b->boundary_ns *= step;
        v = search_again(b);
    }
}

/* ------------------------------------------------------------------ the last steps */

/* Everything on one provider as far as it can: the fewest partitions there are, or nearly. */
static void try_one_provider(struct bounds *b)
{
    struct problem *x = b->x;

    for (uint32_t p = 0; p < x->providers && !x->failed; p++) {
        uint32_t missing = part_first_choice(x, true, b->trial);
        if (missing != INLAY_NONE)
            return;
        for (uint32_t n = 0; n < x->nodes; n++) {
            uint32_t o = x->picks.cheapest[(size_t)p * x->nodes + n];
            if (o != INLAY_NONE && b->trial[n] != INLAY_NONE && x->p->offers[b->trial[n]].node_count == 1)
                b->trial[n] = o;
        }
        if (!part_has_required(x, b->trial))
            force_required(b);
        (void)offer_trial(b);
    }
}

/* Single steps that keep the bounds. */
static void polish(struct bounds *b)
{
    struct problem *x = b->x;
    uint32_t tries = 0;

    for (uint32_t n = 0; n < x->nodes && b->verdict.feasible && !x->failed; n++) {
        if (x->nodes > POLISH_NODES && tries >= GIVE_BACK)
            return;
        for (uint32_t i = x->picks.first_single[n]; i < x->picks.first_single[n + 1]; i++) {
            uint32_t o = x->picks.singles[i];

            if (b->best[n] == INLAY_NONE || x->p->offers[b->best[n]].node_count > 1 || o == b->best[n] ||
                (x->nodes > POLISH_NODES && x->prices.offer[o] >= x->prices.offer[b->best[n]]))
                continue;
            memcpy(b->trial, b->best, x->nodes * sizeof *b->trial);
            b->trial[n] = o;
            tries++;
            (void)offer_trial(b);
        }
    }
}

static inlay_status out_of_bounds(const struct bounds *b, inlay_diag *diag)
{
    const struct problem *x = b->x;
    const part_request *r = x->request;

    for (uint32_t p = 0; x->bounds.limited && p < x->providers; p++)
        if (b->least_excess[p] > 0)
            return inlay_fail(diag, INLAY_LIMIT_EXCEEDED,
                              "provider %s lacks %llu bytes for graph '%s': its memory is limited to %llu, and what it "
                              "alone can run, or must, needs more; raise memory_limit, or unpin nodes from it",
                              r->providers[p].name, (unsigned long long)b->least_excess[p], r->graph->name,
                              (unsigned long long)x->bounds.limit[p]);
    if (x->bounds.max_partitions > 0 && b->fewest > x->bounds.max_partitions)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED,
                          "max_partitions: graph '%s' needs %u partitions where %u are allowed; raise the limit, or "
                          "name a provider that runs more of its operators",
                          r->graph->name, b->fewest, x->bounds.max_partitions);
    if (x->bounds.required != INLAY_NONE && !part_has_required(x, b->best))
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "require: provider %s can run no node of graph '%s' within the "
                          "other rules",
                          r->providers[x->bounds.required].name, r->graph->name);
    return inlay_fail(diag, INLAY_LIMIT_EXCEEDED,
                      "graph '%s': each limit can be kept, but not all at once; relax "
                      "memory_limit, max_partitions or require",
                      r->graph->name);
}

inlay_status part_keep_limits(struct problem *x, uint32_t *choice, inlay_diag *diag)
{
    struct bounds b = { .x = x, .best = choice, .fewest = UINT32_MAX };

    if (!x->bounds.limited && x->bounds.max_partitions == 0 && x->bounds.required == INLAY_NONE)
        return INLAY_OK;
    b.trial = arena_array(x->scratch, (size_t)x->nodes + 1, sizeof *b.trial);
    b.per_byte = arena_array(x->scratch, (size_t)x->providers + 1, sizeof *b.per_byte);
    b.least_excess = arena_array(x->scratch, (size_t)x->providers + 1, sizeof *b.least_excess);
    if (b.trial == NULL || b.per_byte == NULL || b.least_excess == NULL)
        goto no_memory;
    memset(b.least_excess, 0xff, x->providers * sizeof *b.least_excess);
    b.verdict = judge(&b, choice);
    if (b.verdict.feasible && !x->failed)
        return INLAY_OK;
    memcpy(b.trial, choice, x->nodes * sizeof *b.trial);
    if (!part_has_required(x, b.trial)) {
        force_required(&b);
        (void)offer_trial(&b);
    }
    if (!part_by_priority(x->request) && !b.verdict.feasible)
        search_with_multipliers(&b);
    if (!b.verdict.feasible && !x->failed)
        (void)repair(&b);
    if (!b.verdict.feasible && x->bounds.max_partitions > 0 && !x->failed)
        try_one_provider(&b);
    if (!part_by_priority(x->request)) {
        polish(&b);
        (void)judge(&b, b.best); /* true prices from here on */
        if (x->nodes <= 24 && !x->failed)
            (void)part_exact(x, x->exact_steps, b.best, &b.verdict);
    }
    if (x->failed)
        goto no_memory;
    return b.verdict.feasible ? INLAY_OK : out_of_bounds(&b, diag);
no_memory:
    return no_memory(diag, "to partition graph '%s'", x->g->name);
}
