/* Who runs what, with providers made up here: offers that break rules; groups that would close a circle only together;
 * ties, priority, refusals. */
#include "cmocka_all.h"
#include "partition/partition.h"
#include <stdlib.h>

enum { MAX_NODES = 12, MAX_OFFERS = 64 };

/* ------------------------------------------------------------------ a provider that says what the test tells it */

typedef struct fake_offer {
    uint32_t nodes[MAX_NODES], node_count, flags;
    double ns;
    inlay_placement placement; /* value INLAY_NONE: none */
} fake_offer;

typedef struct fake {
    fake_offer offers[MAX_OFFERS];
    uint32_t offer_count;
    uint32_t refused; /* node, INLAY_NONE */
} fake;

static inlay_status assess(void *state, const inlay_graph *snapshot, const uint8_t *candidates,
                           const inlay_assess_sink *sink, inlay_diag *diag)
{
    const fake *f = state;

    (void)snapshot;
    (void)candidates;
    (void)diag;
    for (uint32_t i = 0; i < f->offer_count; i++) {
        const fake_offer *x = &f->offers[i];
        inlay_offer offer = { .struct_size = sizeof offer, .cookie = i, .nodes = x->nodes, .node_count = x->node_count,
                              .flags = x->flags };
        inlay_status status;

        if (x->placement.value != INLAY_NONE) {
            offer.placements = &x->placement;
            offer.placement_count = 1;
            offer.placement_stride = sizeof x->placement;
        }
        status = sink->offer(sink->ctx, &offer);
        if (status != INLAY_OK)
            return status;
    }
    if (f->refused != INLAY_NONE) {
        inlay_refusal refusal = { .struct_size = sizeof refusal, .node = f->refused, .code = INLAY_REFUSE_DTYPE,
                                  .text = "not my type", .accepted_if = "insert a Cast" };
        return sink->refuse(sink->ctx, &refusal);
    }
    return INLAY_OK;
}

static inlay_status cost(void *state, const inlay_cost_request *request, inlay_cost *out)
{
    const fake *f = state;

    out->ns = f->offers[request->offer->cookie].ns;
    return INLAY_OK;
}

static const inlay_provider host_table = { .struct_size = sizeof host_table, .assess = assess, .cost = cost };
static const inlay_provider device_table = { .struct_size = sizeof device_table, .assess = assess, .cost = cost,
                                             .domain_count = 1, .default_domain = 1 };

static fake_offer *add_offer(fake *f, double ns, uint32_t flags, uint32_t count, const uint32_t *nodes)
{
    fake_offer *x = &f->offers[f->offer_count++];

    *x = (fake_offer){ .node_count = count, .flags = flags, .ns = ns, .placement = { .value = INLAY_NONE } };
    memcpy(x->nodes, nodes, count * sizeof *nodes);
    return x;
}

/* ------------------------------------------------------------------ graphs */

typedef struct world {
    graph_model *model;
    graph *g;
    inlay_graph snapshot;
    arena a;
    fake fakes[3];
    part_provider providers[3];
    part_request request;
    partition out;
    char log[1024];
} world;

static void keep_log(void *ctx, uint32_t level, const char *text)
{
    world *w = ctx;
    size_t used = strlen(w->log);

    (void)level;
    (void)snprintf(w->log + used, sizeof w->log - used, "%s\n", text);
}

static uint32_t tensor(world *w, int64_t length)
{
    uint32_t v = graph_add_value(w->g, NULL, 0);
    inlay_dim *dim = arena_alloc(&w->model->arena, sizeof *dim);

    *dim = (inlay_dim){ .value = length, .kind = INLAY_DIM_FIXED };
    w->g->values[v].info.kind = INLAY_VALUE_TENSOR;
    w->g->values[v].info.dtype = INLAY_FLOAT;
    w->g->values[v].info.rank = 1;
    w->g->values[v].info.dims = dim;
    return v;
}

/* Nodes of one output; node n reads the makers that bit-sets in reads[n] name, or the graph's input if there are none.
 * What nobody reads is an output of the graph. */
static void make_world(world *w, uint32_t nodes, const uint32_t *reads, uint32_t provider_count)
{
    uint32_t made[MAX_NODES], input, all = 0;
    inlay_diag diag = INLAY_DIAG_INIT;

    *w = (world){ .model = graph_model_create() };
    assert_non_null(w->model);
    w->g = w->model->main;
    input = tensor(w, 16);
    w->g->inputs = arena_copy(&w->model->arena, &input, sizeof input);
    w->g->input_count = 1;
    w->g->outputs = arena_array(&w->model->arena, MAX_NODES, sizeof *w->g->outputs);
    for (uint32_t n = 0; n < nodes; n++) {
        uint32_t count = (uint32_t)__builtin_popcount(reads[n]), k = 0;
        graph_node *node = graph_add_node(w->g, "Any", "test", NULL, count > 0 ? count : 1, 1);

        made[n] = tensor(w, 16);
        ((uint32_t *)(uintptr_t)node->info.inputs)[0] = input;
        for (uint32_t m = 0; m < n; m++)
            if ((reads[n] >> m & 1) != 0)
                ((uint32_t *)(uintptr_t)node->info.inputs)[k++] = made[m];
        ((uint32_t *)(uintptr_t)node->info.outputs)[0] = made[n];
        all |= reads[n];
    }
    for (uint32_t n = 0; n < nodes; n++)
        if ((all >> n & 1) == 0)
            w->g->outputs[w->g->output_count++] = made[n];
    if (graph_finish(w->g, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    assert_int_equal(graph_snapshot(w->g, &w->a, &w->snapshot, &diag), INLAY_OK);
    for (uint32_t p = 0; p < provider_count; p++) {
        w->fakes[p].refused = INLAY_NONE;
        w->providers[p] = (part_provider){ .table = &host_table, .state = &w->fakes[p], .name = p == 0 ? "p0" : "p1" };
    }
    w->request = (part_request){ .graph = w->g, .snapshot = &w->snapshot, .providers = w->providers,
                                 .provider_count = provider_count, .max_threads = 1, .log = keep_log, .log_ctx = w };
}

static void free_world(world *w)
{
    arena_deinit(&w->a);
    graph_model_destroy(w->model);
}

static void add_single(world *w, uint32_t provider, double ns, uint32_t flags, uint32_t node)
{
    (void)add_offer(&w->fakes[provider], ns, flags, 1, &node);
}

static void make_partition(world *w)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    if (partition_graph(&w->request, &w->a, &w->out, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
}

static bool listed(const uint32_t *list, uint32_t count, uint32_t x)
{
    for (uint32_t i = 0; i < count; i++)
        if (list[i] == x)
            return true;
    return false;
}

/* Whatever was chosen: every node once, regions in an order that can be executed, their borders complete, and nothing
 * merged that did not ask for it. */
static void check_partition(const world *w)
{
    uint32_t region_of[MAX_NODES];
    const partition *p = &w->out;

    memset(region_of, 0xff, sizeof region_of);
    for (uint32_t i = 0; i < p->region_count; i++) {
        const part_region *r = &p->regions[i];
        uint32_t covered = 0;

        for (uint32_t k = 0; k < r->node_count; k++) {
            assert_int_equal(region_of[r->nodes[k]], INLAY_NONE);
            assert_true(k == 0 || r->nodes[k] > r->nodes[k - 1]);
            region_of[r->nodes[k]] = i;
        }
        for (uint32_t k = 0; k < r->offer_count; k++) {
            const part_offer *o = &p->offers[r->offers[k]];
            assert_true(o->chosen && o->provider == r->provider);
            assert_true(r->offer_count == 1 || (o->flags & INLAY_OFFER_MERGE) != 0);
            covered += o->node_count;
            for (uint32_t m = 0; m < o->node_count; m++)
                assert_int_equal(region_of[o->nodes[m]], i);
        }
        assert_int_equal(covered, r->node_count);
    }
    for (uint32_t n = 0; n < w->g->node_count; n++) {
        const inlay_node_info *info = &w->g->nodes[n]->info;
        const part_region *r = &p->regions[region_of[n]];

        assert_int_not_equal(region_of[n], INLAY_NONE);
        for (uint32_t i = 0; i < info->input_count; i++) {
            uint32_t maker = w->g->values[info->inputs[i]].info.producer;
            bool inside = maker != INLAY_NONE && region_of[maker] == region_of[n];

            assert_int_equal(listed(r->inputs, r->input_count, info->inputs[i]), !inside);
            if (inside || maker == INLAY_NONE)
                continue;
            assert_true(region_of[maker] < region_of[n]);
            assert_true(listed(p->regions[region_of[maker]].outputs, p->regions[region_of[maker]].output_count,
                               info->inputs[i]));
        }
    }
    for (uint32_t k = 0; k < w->g->output_count; k++) {
        const part_region *r = &p->regions[region_of[w->g->values[w->g->outputs[k]].info.producer]];
        assert_true(listed(r->outputs, r->output_count, w->g->outputs[k]));
    }
}

/* ------------------------------------------------------------------ the tests */

/* Each pair is convex, but one needs the other and the other way round: one of them must do without. */
static void groups_that_close_a_circle_together(void **state)
{
    /* a1 -> b1, b2 -> a2; {a1, a2} = {0, 3}, {b1, b2} = {1, 2} */
    static const uint32_t reads[] = { 0, 1u << 0, 0, 1u << 2 };
    world w;

    (void)state;
    make_world(&w, 4, reads, 1);
    for (uint32_t n = 0; n < 4; n++)
        add_single(&w, 0, 10, 0, n);
    (void)add_offer(&w.fakes[0], 1, 0, 2, (uint32_t[]){ 0, 3 });
    (void)add_offer(&w.fakes[0], 1, 0, 2, (uint32_t[]){ 1, 2 });
    make_partition(&w);
    check_partition(&w);
    assert_int_equal(w.out.region_count, 3);
    assert_non_null(strstr(w.log, "cycle"));
    free_world(&w);
}

/* Neighbours that would be merged but for the group between them: 0 -> 2, 1 -> 3 with the group {0, 3}. */
static void a_group_between_neighbours(void **state)
{
    static const uint32_t reads[] = { 0, 0, 1u << 0, 1u << 1 };
    world w;

    (void)state;
    make_world(&w, 4, reads, 1);
    for (uint32_t n = 0; n < 4; n++)
        add_single(&w, 0, 10, INLAY_OFFER_MERGE, n);
    (void)add_offer(&w.fakes[0], 1, 0, 2, (uint32_t[]){ 0, 3 });
    make_partition(&w);
    check_partition(&w);
    assert_int_equal(w.out.region_count, 3);
    free_world(&w);
}

/* Node 2 is in one group only: that group goes first, however cheap the other is. */
static void a_group_that_is_needed(void **state)
{
    static const uint32_t reads[] = { 0, 1u << 0, 1u << 1 };
    world w;

    (void)state;
    make_world(&w, 3, reads, 1);
    add_single(&w, 0, 10, 0, 0);
    add_single(&w, 0, 10, 0, 1);
    (void)add_offer(&w.fakes[0], 1, 0, 2, (uint32_t[]){ 0, 1 });
    (void)add_offer(&w.fakes[0], 50, 0, 2, (uint32_t[]){ 1, 2 });
    make_partition(&w);
    check_partition(&w);
    assert_int_equal(w.out.region_count, 2);
    free_world(&w);
}

/* Faster on the device, but not by what bringing the input there costs. */
static void groups_pay_for_copies(void **state)
{
    static const uint32_t reads[] = { 0, 1u << 0 };
    world w;

    (void)state;
    for (int dear = 0; dear < 2; dear++) {
        make_world(&w, 2, reads, 2);
        w.providers[1].table = &device_table;
        w.providers[1].first_domain = 1;
        add_single(&w, 0, dear ? 1000 : 100000, 0, 0);
        add_single(&w, 0, dear ? 1000 : 100000, 0, 1);
        (void)add_offer(&w.fakes[1], 10, 0, 2, (uint32_t[]){ 0, 1 });
        make_partition(&w);
        check_partition(&w);
        assert_int_equal(w.out.regions[0].provider, dear ? 0 : 1);
        free_world(&w);
    }
}

static void ties_and_priority(void **state)
{
    static const uint32_t reads[] = { 0, 1u << 0, 1u << 1 };
    world w;

    (void)state;
    for (int priority = 0; priority < 2; priority++) {
        make_world(&w, 3, reads, 2);
        part_rules rules = { .by_priority = priority != 0 };
        w.request.rules = &rules;
        add_single(&w, 0, 10, 0, 0);
        add_single(&w, 1, 10, 0, 0); /* a tie: the first */
        add_single(&w, 0, 10, 0, 1);
        add_single(&w, 1, 5, 0, 1);  /* cheaper: the first only by priority */
        add_single(&w, 1, 5, 0, 2);  /* alone */
        make_partition(&w);
        check_partition(&w);
        assert_int_equal(w.out.regions[0].provider, 0);
        assert_int_equal(w.out.regions[1].provider, priority ? 0 : 1);
        assert_int_equal(w.out.regions[2].provider, 1);
        free_world(&w);
    }
}

/* An offer that breaks a rule voids itself, with a line in the log; what else the provider offers stands. */
static void bad_offers_void_themselves(void **state)
{
    static const uint32_t reads[] = { 0, 1u << 0, 1u << 1 };
    static const struct {
        fake_offer offer;
        const char *said;
    } rows[] = {
        { { .node_count = 0, .placement = { .value = INLAY_NONE } }, "no node" },
        { { .nodes = { 7 }, .node_count = 1, .placement = { .value = INLAY_NONE } }, "out of range" },
        { { .nodes = { 1, 0 }, .node_count = 2, .placement = { .value = INLAY_NONE } }, "ascend" },
        { { .nodes = { 1, 1 }, .node_count = 2, .placement = { .value = INLAY_NONE } }, "ascend" },
        { { .nodes = { 1 }, .node_count = 1, .flags = 1u << 9, .placement = { .value = INLAY_NONE } }, "flag" },
        { { .nodes = { 1 }, .node_count = 1, .placement = { .value = 99 } }, "does not exist" },
        { { .nodes = { 1 }, .node_count = 1, .placement = { .value = 1, .domain = 5 } }, "domain" },
        { { .nodes = { 0, 2 }, .node_count = 2, .placement = { .value = INLAY_NONE } }, "cycle" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        world w;

        make_world(&w, 3, reads, 1);
        w.fakes[0].offers[w.fakes[0].offer_count++] = rows[i].offer;
        for (uint32_t n = 0; n < 3; n++)
            add_single(&w, 0, 10, 0, n);
        make_partition(&w);
        check_partition(&w);
        assert_int_equal(w.out.region_count, 3);
        assert_float_equal(w.out.cost_ns, 30, 1e-9);
        if (strstr(w.log, rows[i].said) == NULL)
            fail_msg("row %zu: the log says '%s'", i, w.log);
        free_world(&w);
    }
}

/* Refusals are kept; who keeps silent is noted as having done so; and a node that nobody runs quotes them all. */
static void refusals_are_quoted(void **state)
{
    static const uint32_t reads[] = { 0, 1u << 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    world w;

    (void)state;
    make_world(&w, 2, reads, 2);
    add_single(&w, 0, 10, 0, 0);
    w.fakes[0].refused = 1;
    assert_int_equal(partition_graph(&w.request, &w.a, &w.out, &diag), INLAY_UNSUPPORTED);
    assert_int_equal(w.out.refusal_count, 3);
    assert_string_equal(w.out.refusals[0].accepted_if, "insert a Cast");
    assert_non_null(strstr(diag.text, "not my type"));
    assert_non_null(strstr(diag.text, "p1 says: the provider gave no answer"));
    free_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_that_close_a_circle_together), cmocka_unit_test(a_group_between_neighbours),
        cmocka_unit_test(a_group_that_is_needed),
        cmocka_unit_test(groups_pay_for_copies), cmocka_unit_test(ties_and_priority),
        cmocka_unit_test(bad_offers_void_themselves), cmocka_unit_test(refusals_are_quoted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
