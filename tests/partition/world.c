#include "world.h"
#include <stdlib.h>
#include <string.h>

static uint64_t seed = 7;

uint32_t dice(uint32_t sides)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((seed >> 33) % sides);
}

void dice_seed(uint64_t s)
{
    seed = s;
}

/* ------------------------------------------------------------------ a provider that says what the test tells it */

static inlay_status assess(void *state, const inlay_graph *snapshot, const uint8_t *candidates,
                           const inlay_assess_sink *sink, inlay_diag *diag)
{
    const struct fake *f = state;

    (void)snapshot;
    (void)candidates;
    (void)diag;
    for (uint32_t i = 0; i < f->offer_count; i++) {
        const fake_offer *x = &f->offers[i];
        inlay_offer offer = { .struct_size = sizeof offer,
                              .cookie = i,
                              .nodes = x->nodes,
                              .node_count = x->node_count,
                              .flags = x->flags,
                              .workspace_bytes = x->workspace,
                              .resident_bytes = x->resident };
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
        inlay_refusal refusal = { .struct_size = sizeof refusal,
                                  .node = f->refused,
                                  .code = f->refused_code != 0 ? f->refused_code : INLAY_REFUSE_DTYPE,
                                  .text = "not my type",
                                  .accepted_if = "insert a Cast" };
        return sink->refuse(sink->ctx, &refusal);
    }
    return INLAY_OK;
}

static inlay_status cost(void *state, const inlay_cost_request *request, inlay_cost *out)
{
    struct fake *f = state;

    f->cost_calls++;
    out->ns = f->offers[request->offer->cookie].ns;
    out->enter_ns = f->offers[request->offer->cookie].enter_ns;
    out->leave_ns = f->offers[request->offer->cookie].leave_ns;
    out->confidence = f->confidence;
    return INLAY_OK;
}

fake_offer *world_offer(struct world *w, uint32_t p, double ns, uint32_t flags, uint32_t count, const uint32_t *nodes)
{
    struct fake *f = &w->fakes[p];
    fake_offer *x;

    if (f->offer_count == f->offer_capacity) {
        f->offer_capacity = f->offer_capacity == 0 ? 64 : f->offer_capacity * 2;
        f->offers = realloc(f->offers, f->offer_capacity * sizeof *f->offers);
        assert_non_null(f->offers);
    }
    x = &f->offers[f->offer_count++];
    *x = (fake_offer){ .node_count = count, .flags = flags, .ns = ns, .placement = { .value = INLAY_NONE } };
    x->nodes = arena_copy(&w->model->arena, nodes, count * sizeof *nodes);
    assert_non_null(x->nodes);
    return x;
}

/* ------------------------------------------------------------------ graphs */

static void keep_log(void *ctx, uint32_t level, const char *text)
{
    struct world *w = ctx;
    size_t used = strlen(w->log);

    (void)level;
    (void)snprintf(w->log + used, sizeof w->log - used, "%s\n", text);
}

static uint32_t tensor(struct world *w, int64_t length)
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

static void make_graph(struct world *w, const uint32_t *reads, const int64_t *lengths)
{
    uint32_t nodes = w->node_count, input = tensor(w, 16);
    uint8_t *read = arena_alloc(&w->model->arena, nodes + 1);

    w->g->inputs = arena_copy(&w->model->arena, &input, sizeof input);
    w->g->input_count = 1;
    w->g->outputs = arena_array(&w->model->arena, nodes, sizeof *w->g->outputs);
    for (uint32_t n = 0; n < nodes; n++) {
        uint32_t count = 0;
        char name[32];
        graph_node *node;

        while (count < 4 && reads[n * 4 + count] != INLAY_NONE)
            count++;
        (void)snprintf(name, sizeof name, "n%u", n);
        node = graph_add_node(w->g, n % 2 == 0 ? "Even" : "Odd", "test", name, count > 0 ? count : 1, 1);
        w->made[n] = tensor(w, lengths != NULL ? lengths[n] : 16);
        ((uint32_t *)(uintptr_t)node->info.inputs)[0] = input;
        for (uint32_t k = 0; k < count; k++) {
            ((uint32_t *)(uintptr_t)node->info.inputs)[k] = w->made[reads[n * 4 + k]];
            read[reads[n * 4 + k]] = 1;
        }
        ((uint32_t *)(uintptr_t)node->info.outputs)[0] = w->made[n];
    }
    for (uint32_t n = 0; n < nodes; n++)
        if (!read[n])
            w->g->outputs[w->g->output_count++] = w->made[n];
}

void world_init(struct world *w, uint32_t nodes, const uint32_t *reads, const int64_t *lengths, uint32_t providers)
{
    static const char *const names[] = { "p0", "p1", "p2", "p3", "p4" };
    inlay_diag diag = INLAY_DIAG_INIT;

    *w = (struct world){ .model = graph_model_create(), .node_count = nodes };
    assert_non_null(w->model);
    w->g = w->model->main;
    w->made = arena_array(&w->model->arena, nodes, sizeof *w->made);
    make_graph(w, reads, lengths);
    if (graph_finish(w->g, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    assert_int_equal(graph_snapshot(w->g, &w->a, &w->snapshot, &diag), INLAY_OK);
    for (uint32_t p = 0; p < providers; p++) {
        struct fake *f = &w->fakes[p];
        f->refused = INLAY_NONE;
        f->confidence = INLAY_CONFIDENCE_MODEL;
        f->table = (inlay_provider){ .struct_size = sizeof f->table,
                                     .name = names[p],
                                     .assess = assess,
                                     .cost = cost,
                                     .device_kind = INLAY_DEVICE_CPU };
        w->providers[p] = (part_provider){ .table = &f->table, .state = f, .name = names[p] };
    }
    w->request = (part_request){ .graph = w->g,
                                 .snapshot = &w->snapshot,
                                 .providers = w->providers,
                                 .provider_count = providers,
                                 .max_threads = 1,
                                 .rules = &w->rules,
                                 .log = keep_log,
                                 .log_ctx = w };
}

void world_device(struct world *w, uint32_t p)
{
    struct fake *f = &w->fakes[p];

    f->domain = (inlay_domain_info){ .name = "device", .alignment = 64 };
    f->table.domains = &f->domain;
    f->table.domain_count = 1;
    f->table.domain_stride = sizeof f->domain;
    f->table.default_domain = 1;
    f->table.device_kind = INLAY_DEVICE_GPU;
    w->providers[p].first_domain = 1 + p;
}

void world_deinit(struct world *w)
{
    for (uint32_t p = 0; p < WORLD_PROVIDERS; p++)
        free(w->fakes[p].offers);
    arena_deinit(&w->a);
    graph_model_destroy(w->model);
}

void world_partition(struct world *w)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    if (partition_graph(&w->request, &w->a, &w->out, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
}

/* ------------------------------------------------------------------ checking */

static bool listed(const uint32_t *list, uint32_t count, uint32_t x)
{
    for (uint32_t i = 0; i < count; i++)
        if (list[i] == x)
            return true;
    return false;
}

static void check_regions(const struct world *w, const struct partition *p, uint32_t *region_of)
{
    memset(region_of, 0xff, w->node_count * sizeof *region_of);
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
}

static void check_borders(const struct world *w, const struct partition *p, const uint32_t *region_of)
{
    for (uint32_t n = 0; n < w->node_count; n++) {
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

/* The domain in which a region has a value, as program.c negotiates it. */
static uint32_t domain_in(const struct world *w, const struct partition *p, const part_region *r, uint32_t v)
{
    for (uint32_t k = 0; k < r->offer_count; k++) {
        const part_offer *o = &p->offers[r->offers[k]];
        for (uint32_t m = 0; m < o->placement_count; m++)
            if (o->placements[m].value == v && o->placements[m].layout.kind == INLAY_LAYOUT_ROW_MAJOR)
                return o->placements[m].domain;
    }
    return part_default_domain(&w->providers[r->provider]);
}

static bool is_copied(const struct partition *p, uint32_t v, uint32_t domain)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < p->copy_count; i++)
        found += p->copies[i].value == v && p->copies[i].to_domain == domain;
    assert_true(found <= 1);
    return found == 1;
}

/* Every value is where it is read, and no copy is for nobody. */
static void check_copies(const struct world *w, const struct partition *p, const uint32_t *region_of)
{
    uint32_t needed = 0;

    for (uint32_t v = 0; v < w->g->value_count; v++) {
        uint32_t maker = w->g->values[v].info.producer, home = INLAY_DOMAIN_HOST, domains[16] = { 0 };
        bool through_host = false;

        if (maker != INLAY_NONE)
            home = domain_in(w, p, &p->regions[region_of[maker]], v);
        for (uint32_t k = 0; k < w->g->output_count; k++)
            domains[0] |= w->g->outputs[k] == v;
        for (uint32_t i = 0; i < p->region_count; i++)
            if (listed(p->regions[i].inputs, p->regions[i].input_count, v))
                domains[domain_in(w, p, &p->regions[i], v)] = 1;
        for (uint32_t d = 1; d < 16; d++)
            through_host |= domains[d] && d != home && home != INLAY_DOMAIN_HOST;
        domains[0] |= through_host;
        for (uint32_t d = 0; d < 16; d++) {
            if (!domains[d] || d == home)
                continue;
            assert_true(is_copied(p, v, d));
            needed++;
        }
    }
    assert_int_equal(p->copy_count, needed);
}

void world_check(const struct world *w, const struct partition *p)
{
    uint32_t *region_of = calloc(w->node_count + 1, sizeof *region_of);
    double ns = 0;

    assert_non_null(region_of);
    check_regions(w, p, region_of);
    check_borders(w, p, region_of);
    check_copies(w, p, region_of);
    for (uint32_t i = 0; i < p->region_count; i++) {
        double own = 0;
        for (uint32_t k = 0; k < p->regions[i].offer_count; k++)
            own += p->offers[p->regions[i].offers[k]].cost.ns;
        assert_float_equal(own, p->regions[i].cost_ns, 1e-6 * own + 1e-9);
        assert_true(p->regions[i].border_ns >= 0);
        ns += own + p->regions[i].launch_ns + p->regions[i].border_ns;
    }
    for (uint32_t i = 0; i < p->copy_count; i++)
        ns += p->copies[i].ns;
    assert_float_equal(ns, p->cost_ns, 1e-9 * ns + 1e-9);
    free(region_of);
}

/* ------------------------------------------------------------------ random worlds */

static void random_groups(struct world *w, const world_mix *mix)
{
    uint32_t count = dice(mix->nodes > 12 ? mix->nodes / 2 : 6);

    for (uint32_t k = 0; k < count; k++) {
        uint32_t members[8], size = 0, p = dice(mix->providers);
        double sum = 0;

        for (uint32_t n = dice(mix->nodes); n < mix->nodes && size < 2 + k % 4; n += 1 + dice(3) / 2)
            members[size++] = n;
        for (uint32_t i = 0; i < w->fakes[p].offer_count; i++)
            for (uint32_t m = 0; m < size; m++)
                if (w->fakes[p].offers[i].node_count == 1 && w->fakes[p].offers[i].nodes[0] == members[m])
                    sum += w->fakes[p].offers[i].ns;
        if (size > 1)
            (void)world_offer(w, p, (sum + 1) * (20 + dice(100)) / 100,
                              dice(2) != 0 && mix->merge ? INLAY_OFFER_MERGE : 0, size, members);
    }
}

void world_random(struct world *w, const world_mix *mix)
{
    uint32_t *reads = malloc(mix->nodes * 4 * sizeof *reads);
    int64_t *lengths = malloc(mix->nodes * sizeof *lengths);

    assert_true(reads != NULL && lengths != NULL);
    memset(reads, 0xff, mix->nodes * 4 * sizeof *reads);
    for (uint32_t n = 0; n < mix->nodes; n++) {
        uint32_t count = 0, reach = n < 20 ? n : 20;

        lengths[n] = mix->sizes ? 1 + (int64_t)dice(100) * dice(4000) : 16;
        for (uint32_t k = dice(4); n > 0 && k > 0; k--) {
            uint32_t maker = n - 1 - dice(reach);
            bool again = false;
            for (uint32_t i = 0; i < count; i++)
                again |= reads[n * 4 + i] == maker;
            if (!again)
                reads[n * 4 + count++] = maker;
        }
    }
    world_init(w, mix->nodes, reads, lengths, mix->providers);
    for (uint32_t p = 1; mix->devices && p < mix->providers; p++)
        if (dice(3) != 0 || p == 1)
            world_device(w, p);
    for (uint32_t n = 0; n < mix->nodes; n++) {
        for (uint32_t p = 0; p < mix->providers; p++) {
            uint32_t flags = mix->merge && dice(3) != 0 ? INLAY_OFFER_MERGE : 0;

            if (mix->gaps && p > 0 && dice(5) == 0)
                continue;
            (void)world_offer(w, p, 1000 + dice(60000), flags, 1, &n);
            if (mix->borders && p > 0 && flags != 0) {
                w->fakes[p].offers[w->fakes[p].offer_count - 1].enter_ns = dice(20000);
                w->fakes[p].offers[w->fakes[p].offer_count - 1].leave_ns = dice(20000);
            }
            if (mix->odd && w->fakes[p].table.domain_count > 0 && dice(4) == 0)
                world_offer(w, p, 1000 + dice(60000), 0, 1, &n)->placement =
                    (inlay_placement){ .value = dice(2) != 0 ? w->made[n] : w->g->nodes[n]->info.inputs[0] };
            w->fakes[p].offers[w->fakes[p].offer_count - 1].resident = mix->sizes ? dice(500000) : 0;
            w->fakes[p].offers[w->fakes[p].offer_count - 1].workspace = mix->sizes ? dice(100000) : 0;
        }
    }
    if (mix->groups)
        random_groups(w, mix);
    free(reads);
    free(lengths);
}
