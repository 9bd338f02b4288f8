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

typedef struct trial {
    problem x;
    arena a;
    uint8_t *usable, *candidates;
    uint32_t *choice;
    double best;
} trial;

static void trial_init(trial *t, const world *w)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    partition *p = (partition *)(uintptr_t)&w->out;

    *t = (trial){ .best = 1e300 };
    t->usable = arena_alloc(&t->a, p->offer_count + 1);
    t->candidates = arena_alloc(&t->a, w->node_count + 1);
    t->choice = arena_array(&t->a, w->node_count + 1, sizeof *t->choice);
    memset(t->candidates, 1, w->node_count);
    assert_int_equal(part_apply_rules(&w->request, p, t->candidates, &t->a, t->usable, &diag), INLAY_OK);
    assert_true(problem_init(&t->x, &w->request, p, t->candidates, t->usable, &t->a));
    memset(t->choice, 0xff, w->node_count * sizeof *t->choice);
}

static void try_all(trial *t, uint32_t n, double spent)
{
    problem *x = &t->x;

    while (n < x->nodes && t->choice[n] != INLAY_NONE)
        n++;
    if (spent >= t->best) /* everything else only adds */
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
        try_all(t, n + 1, spent + x->price[o]);
        for (uint32_t k = 0; k < offer->node_count; k++)
            t->choice[offer->nodes[k]] = INLAY_NONE;
    }
}

/* The price of what was chosen, by the objective. */
static double price_of(trial *t, const partition *p)
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

typedef struct tally {
    uint32_t rounds, equal;
    double worst;
} tally;

static void count_round(tally *t, double got, double best)
{
    assert_true(got >= best * (1 - 1e-9));
    t->rounds++;
    t->equal += got <= best * (1 + 1e-9) + 1e-6;
    if (best > 0 && got / best > t->worst)
        t->worst = got / best;
}

/* One random world: the solver with and without its exhaustive end, against all there is. */
static void compare(const world_mix *mix, tally *whole, tally *moves)
{
    uint32_t uncovered;
    part_verdict v;
    trial t;
    world w;

    world_random(&w, mix);
    world_partition(&w);
    world_check(&w, &w.out);
    trial_init(&t, &w);
    try_all(&t, 0, 0);
    count_round(whole, price_of(&t, &w.out), t.best);
    t.x.exact_steps = 0;
    assert_true(part_solve(&t.x, t.choice, &uncovered));
    assert_int_equal(uncovered, INLAY_NONE);
    v = part_judge(&t.x, t.choice);
    count_round(moves, v.price, t.best);
    arena_deinit(&t.a);
    world_deinit(&w);
}

static void report(const char *name, const tally *t)
{
    print_message("%-34s %5u rounds, %5u best, worst %.4f\n", name, t->rounds, t->equal, t->worst);
}

/* Two providers, copies, and neither groups nor launches: moves alone find the best. */
static void two_providers_exactly(void **state)
{
    tally whole = { 0 }, moves = { 0 };

    (void)state;
    set_launches(false);
    for (uint32_t round = 0; round < 1000; round++) {
        world_mix mix = { .nodes = 2 + dice(11), .providers = 2, .devices = round % 4 != 0, .sizes = true, .gaps = true };
        compare(&mix, &whole, &moves);
    }
    report("two providers", &whole);
    report("two providers, moves only", &moves);
    assert_int_equal(whole.equal, whole.rounds);
    assert_int_equal(moves.equal, moves.rounds);
}

static void everything_within_a_hundredth(void **state)
{
    static const char *const names[] = { "labels", "groups", "groups, one domain", "launches", "placements", "all" };
    static const world_mix mixes[] = {
        { .devices = true, .sizes = true, .gaps = true },
        { .devices = true, .sizes = true, .gaps = true, .groups = true },
        { .groups = true, .gaps = true },
        { .devices = true, .sizes = true, .merge = true },
        { .devices = true, .sizes = true, .odd = true },
        { .devices = true, .sizes = true, .gaps = true, .groups = true, .merge = true, .odd = true },
    };

    (void)state;
    for (size_t m = 0; m < sizeof mixes / sizeof mixes[0]; m++) {
        tally whole = { 0 }, moves = { 0 };

        for (uint32_t round = 0; round < 400; round++) {
            world_mix mix = mixes[m];
            mix.providers = 2 + round % 3;
            mix.nodes = 2 + dice(mix.providers == 2 ? 11 : mix.providers == 3 ? 9 : 7);
            set_launches(mix.merge);
            compare(&mix, &whole, &moves);
        }
        report(names[m], &whole);
        report("    moves only", &moves);
        assert_true(whole.worst <= 1.01);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_providers_exactly),
        cmocka_unit_test(everything_within_a_hundredth),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
