/* The solver against exhaustive search on small random graphs, and against what must hold on large ones. */
#include "world.h"
#include <stdlib.h>

/* Launches as the test wants them, in place of the machine profile's. */
static double launch_ns[WORLD_PROVIDERS];
double __wrap_cost_launch_ns(const cost_book *book, const part_provider *provider);
double __wrap_cost_launch_ns(const cost_book *book, const part_provider *provider)
{
    (void)book;
    return launch_ns[provider->name[1] - '0'];
}

static void set_launches(bool on)
{
    for (uint32_t p = 0; p < WORLD_PROVIDERS; p++)
        launch_ns[p] = on ? 500 + dice(20000) : 0;
}

/* ------------------------------------------------------------------ trying everything */

struct trial {
    struct problem x;
    struct arena a;
    uint8_t *usable, *candidates;
    uint32_t *choice;
    double *least; /* [nodes] what each costs at least */
    double best;
};

static void trial_init(struct trial *t, const struct world *w)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct partition *p = (struct partition *)(uintptr_t)&w->out;

    *t = (struct trial){ .best = 1e300 };
    t->usable = arena_alloc(&t->a, p->offer_count + 1);
    t->candidates = arena_alloc(&t->a, w->node_count + 1);
    t->choice = arena_array(&t->a, w->node_count + 1, sizeof *t->choice);
    memset(t->candidates, 1, w->node_count);
    assert_int_equal(part_apply_rules(&w->request, p, &t->a, t->usable, &diag), INLAY_OK);
    assert_true(problem_init(&t->x, &w->request, p, t->candidates, t->usable, &t->a));
    memset(t->choice, 0xff, w->node_count * sizeof *t->choice);
    t->least = arena_array(&t->a, w->node_count + 1, sizeof *t->least);
    for (uint32_t n = 0; n < w->node_count; n++)
        t->least[n] = 1e300;
    for (uint32_t o = 0; o < p->offer_count; o++)
        for (uint32_t k = 0; t->usable[o] && k < p->offers[o].node_count; k++) {
            double *least = &t->least[p->offers[o].nodes[k]];
            double share = t->x.prices.offer[o] / p->offers[o].node_count;
            *least = share < *least ? share : *least;
        }
}

/* Everything that may be cheaper than best: what is left costs at least its offers. */
static void try_all(struct trial *t, uint32_t n, double spent)
{
    struct problem *x = &t->x;
    double rest = 0;

    while (n < x->nodes && t->choice[n] != INLAY_NONE)
        n++;
    for (uint32_t m = n; m < x->nodes; m++)
        rest += t->choice[m] == INLAY_NONE ? t->least[m] : 0;
    if (spent + rest >= t->best)
        return;
    if (n == x->nodes) {
        part_verdict v = part_judge(x, t->choice);
        if (v.runs && v.feasible && v.price < t->best)
            t->best = v.price;
        return;
    }
    for (uint32_t o = 0; o < x->offers; o++) {
        const part_offer *offer = &x->p->offers[o];
        bool open = x->usable[o] && offer->nodes[0] == n;

        for (uint32_t k = 0; open && k < offer->node_count; k++)
            open = t->choice[offer->nodes[k]] == INLAY_NONE;
        if (!open)
            continue;
        for (uint32_t k = 0; k < offer->node_count; k++)
            t->choice[offer->nodes[k]] = o;
        try_all(t, n + 1, spent + x->prices.offer[o]);
        for (uint32_t k = 0; k < offer->node_count; k++)
            t->choice[offer->nodes[k]] = INLAY_NONE;
    }
}

/* The price of what was chosen, by the objective. */
static double price_of(struct trial *t, const struct partition *p)
{
    part_verdict v;

    for (uint32_t o = 0; o < p->offer_count; o++)
        for (uint32_t k = 0; p->offers[o].chosen && k < p->offers[o].node_count; k++)
            t->choice[p->offers[o].nodes[k]] = o;
    v = part_judge(&t->x, t->choice);
    memset(t->choice, 0xff, t->x.nodes * sizeof *t->choice);
    assert_true(v.runs && v.feasible);
    return v.price;
}

struct tally {
    uint32_t rounds, equal;
    double worst;
};

static void count_round(struct tally *t, double got, double best)
{
    assert_true(got >= best * (1 - 1e-9));
    t->rounds++;
    t->equal += got <= best * (1 + 1e-9) + 1e-6;
    if (best > 0 && got / best > t->worst)
        t->worst = got / best;
}

static double solve(struct trial *t)
{
    uint32_t uncovered;
    part_verdict v;

    assert_true(part_solve(&t->x, t->choice, &uncovered));
    assert_int_equal(uncovered, INLAY_NONE);
    v = part_judge(&t->x, t->choice);
    memset(t->choice, 0xff, t->x.nodes * sizeof *t->choice);
    assert_true(v.runs && v.feasible);
    return v.price;
}

/* One random world: the solver with and without its exhaustive end, and what is kept of its changes (steady.c), against
 * all there is. */
static void compare(const world_mix *mix, struct tally *whole, struct tally *moves)
{
    double got, kept;
    struct trial t;
    struct world w;

    world_random(&w, mix);
    world_partition(&w);
    world_check(&w, &w.out);
    trial_init(&t, &w);
    kept = price_of(&t, &w.out);
    t.best = got = solve(&t); /* is there anything below? */
    try_all(&t, 0, 0);
    count_round(whole, got, t.best);
    assert_true(kept <= t.best * 1.0151); /* a tenth of what prices of a model may be off by */
    t.x.exact_steps = 0;
    count_round(moves, solve(&t), t.best);
    arena_deinit(&t.a);
    world_deinit(&w);
}

static void report(const char *name, const struct tally *t)
{
    print_message("%-34s %5u rounds, %5u best, worst %.4f\n", name, t->rounds, t->equal, t->worst);
}

/* Two providers, copies, and neither groups nor launches: moves alone find the best. */
static void two_providers_exactly(void **state)
{
    struct tally whole = { 0 }, moves = { 0 };

    (void)state;
    set_launches(false);
    for (uint32_t round = 0; round < 1000; round++) {
        world_mix mix = {
            .nodes = 2 + dice(11), .providers = 2, .devices = round % 4 != 0, .sizes = true, .gaps = true
        };
        compare(&mix, &whole, &moves);
    }
    report("two providers", &whole);
    report("two providers, moves only", &moves);
    assert_int_equal(whole.equal, whole.rounds);
    assert_int_equal(moves.equal, moves.rounds);
}

static void everything_within_a_hundredth(void **state)
{
    static const char *const names[] = { "labels",     "groups",  "groups, one domain",
                                         "launches",   "borders", "borders, one domain",
                                         "placements", "all" };
    static const world_mix mixes[] = {
        { .devices = true, .sizes = true, .gaps = true },
        { .devices = true, .sizes = true, .gaps = true, .groups = true },
        { .groups = true, .gaps = true },
        { .devices = true, .sizes = true, .merge = true },
        { .devices = true, .sizes = true, .merge = true, .borders = true, .gaps = true },
        { .sizes = true, .merge = true, .borders = true },
        { .devices = true, .sizes = true, .odd = true },
        { .devices = true, .sizes = true, .gaps = true, .groups = true, .merge = true, .odd = true, .borders = true },
    };

    (void)state;
    for (size_t m = 0; m < sizeof mixes / sizeof mixes[0]; m++) {
        struct tally whole = { 0 }, moves = { 0 };

        for (uint32_t round = 0; round < 400; round++) {
            world_mix mix = mixes[m];
            mix.providers = 2 + round % 3;
            mix.nodes = 2 + dice(mix.providers == 2 || round % 64 == 0 ? 11 : mix.providers == 3 ? 8 : 6);
            set_launches(mix.merge);
            compare(&mix, &whole, &moves);
        }
        report(names[m], &whole);
        report("    moves only", &moves);
        assert_true(whole.worst <= 1.01);
    }
}

/* A node in the middle of a region is not given away for a little when its values would have to leave and come back; a
 * region that costs more at its borders than it saves inside is not begun. */
static void borders_hold_regions_together(void **state)
{
    static const uint32_t reads[] = { INLAY_NONE, 0, 0, 0, 0, INLAY_NONE, 0, 0, 1, INLAY_NONE, 0, 0 };
    static const int64_t lengths[] = { 1000, 1000, 1000 };

    (void)state;
    set_launches(false);
    for (uint32_t dear = 0; dear < 2; dear++) {
        struct world w;

        world_init(&w, 3, reads, lengths, 2);
        for (uint32_t n = 0; n < 3; n++) {
            fake_offer *x = world_offer(&w, 1, n == 1 ? 900 : 1000, INLAY_OFFER_MERGE, 1, &n);

            x->enter_ns = x->leave_ns = dear ? 30000 : 3000;
            (void)world_offer(&w, 0, n == 1 ? 100 : 10000, 0, 1, &n);
        }
        world_partition(&w);
        world_check(&w, &w.out);
        assert_int_equal(w.out.region_count, dear ? 3 : 1);
        assert_int_equal(w.out.regions[0].provider, dear ? 0 : 1);
        if (!dear)
            assert_float_equal(w.out.regions[0].border_ns, 6000, 1e-6);
        world_deinit(&w);
    }
}

/* ------------------------------------------------------------------ bounds */

/* A bound that bites: some share of what the cheapest choice takes. */
static void bound(struct world *w, uint32_t round, part_limit *limit)
{
    uint32_t p = 1 + dice(w->request.provider_count - 1);

    limit->provider = w->providers[p].name;
    limit->bytes = (w->out.memory[p].resident_bytes + w->out.memory[p].peak_bytes) * (10 + dice(90)) / 100 + 1;
    if (round % 3 != 1) {
        w->rules.limits = limit;
        w->rules.limit_count = 1;
    }
    if (round % 3 != 0)
        w->rules.max_partitions = 1 + dice(w->out.stretch_count);
    if (round % 5 == 0)
        w->request.must_run = w->providers[dice(w->request.provider_count)].name;
}

/* Within the bounds, whatever there is that keeps them is found; where nothing does, that is said. */
static void bounds_are_kept(void **state)
{
    struct tally whole = { 0 };
    uint32_t impossible = 0;

    (void)state;
    for (uint32_t round = 0; round < 600; round++) {
        world_mix mix = { .nodes = 2 + dice(7),
                          .providers = 2 + round % 2,
                          .devices = true,
                          .sizes = true,
                          .gaps = true,
                          .groups = round % 4 == 0,
                          .merge = round % 2 == 0,
                          .borders = round % 4 == 2 };
        inlay_diag diag = INLAY_DIAG_INIT;
        inlay_status status;
        part_limit limit;
        struct partition again;
        struct trial t;
        struct world w;

        set_launches(mix.merge);
        world_random(&w, &mix);
        world_partition(&w);
        bound(&w, round, &limit);
        trial_init(&t, &w);
        try_all(&t, 0, 0);
        status = partition_again(&w.request, &w.out, &w.a, &again, &diag);
        if (t.best > 1e299) {
            assert_true(status == INLAY_LIMIT_EXCEEDED || (status == INLAY_UNSUPPORTED && w.request.must_run != NULL));
            impossible++;
        } else {
            if (status != INLAY_OK)
                fail_msg("round %u: %s", round, diag.text);
            world_check(&w, &again);
            count_round(&whole, price_of(&t, &again), t.best);
        }
        arena_deinit(&t.a);
        world_deinit(&w);
    }
    report("bounds", &whole);
    print_message("%-34s %5u rounds\n", "bounds, impossible", impossible);
    assert_true(whole.worst <= 1.01);
}

/* ------------------------------------------------------------------ large graphs */

static void large_graphs_hold_together(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 16; round++) {
        world_mix mix = { .nodes = 500,
                          .providers = 2 + round % 4,
                          .devices = round % 3 != 0,
                          .sizes = true,
                          .gaps = true,
                          .groups = round % 2 == 0,
                          .merge = round % 4 < 3,
                          .odd = round % 8 == 3,
                          .borders = round % 5 > 2 };
        inlay_diag diag = INLAY_DIAG_INIT;
        part_limit limit;
        struct partition again;
        double cheapest;
        struct world w;

        set_launches(mix.merge);
        world_random(&w, &mix);
        world_partition(&w);
        world_check(&w, &w.out);
        cheapest = w.out.cost_ns;
        w.rules.by_priority = true;
        assert_int_equal(partition_again(&w.request, &w.out, &w.a, &again, &diag), INLAY_OK);
        world_check(&w, &again);
        assert_true(cheapest <= again.cost_ns * 1.1); /* margins may hold it back a little */
        w.rules.by_priority = false;
        /* The host can run everything, so that half of the memory always suffices. */
        limit = (part_limit){ w.providers[1].name,
                              (w.out.memory[1].resident_bytes + w.out.memory[1].peak_bytes) / 2 + 4096 };
        w.rules.limits = &limit;
        w.rules.limit_count = 1;
        if (partition_again(&w.request, &w.out, &w.a, &again, &diag) != INLAY_OK)
            fail_msg("round %u: %s", round, diag.text);
        world_check(&w, &again);
        assert_true(again.memory[1].resident_bytes + again.memory[1].peak_bytes <= limit.bytes);
        w.rules.limit_count = 0;
        w.rules.max_partitions = w.out.stretch_count / 3 + 1;
        if (partition_again(&w.request, &w.out, &w.a, &again, &diag) != INLAY_OK)
            fail_msg("round %u: %s", round, diag.text);
        world_check(&w, &again);
        assert_true(again.stretch_count <= w.rules.max_partitions);
        world_deinit(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_providers_exactly),         cmocka_unit_test(everything_within_a_hundredth),
        cmocka_unit_test(borders_hold_regions_together), cmocka_unit_test(bounds_are_kept),
        cmocka_unit_test(large_graphs_hold_together),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
