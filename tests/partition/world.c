#include "world.h"
#include "base/device_link.h"
#include "inlay/plugin.h"
#include <stdlib.h>
#include <string.h>

uint64_t world_seed = 7;

static inlay_status assess(void *state, const inlay_assess_request *request, inlay_diag *diag)
{
    const inlay_assess_sink *sink = request->sink;
    const struct fake *fake = state;

    (void)diag;
    for (uint32_t i = 0; i < fake->offer_count; i++) {
        const fake_offer *planned = &fake->offers[i];
        inlay_offer offer = { .struct_size = sizeof offer,
                              .cookie = i,
                              .nodes = planned->nodes,
                              .node_count = planned->node_count,
                              .flags = planned->flags,
                              .workspace_bytes = planned->workspace,
                              .resident_bytes = planned->resident,
                              .max_nodes = planned->max_nodes,
                              .max_inputs = planned->max_inputs,
                              .max_outputs = planned->max_outputs,
                              .reserved = planned->reserved,
                              .max_resident_bytes = planned->max_resident };
        inlay_status status;

        if (planned->placement.value != INLAY_NONE) {
            offer.placements = &planned->placement;
            offer.placement_count = 1;
            offer.placement_stride = sizeof planned->placement;
        }
        status = sink->offer(sink->ctx, &offer);
        if (status != INLAY_OK)
            return status;
    }
    if (fake->refused != INLAY_NONE) {
        inlay_refusal refusal = { .struct_size = sizeof refusal,
                                  .node = fake->refused,
                                  .code = fake->refused_code != 0 ? fake->refused_code : INLAY_REFUSE_DTYPE,
                                  .text = "not my type",
                                  .accepted_if = "insert a Cast" };
        return sink->refuse(sink->ctx, &refusal);
    }
    return INLAY_OK;
}

static inlay_status cost(void *state, const inlay_cost_request *request, inlay_cost *out, inlay_diag *diag)
{
    struct fake *fake = state;

    (void)diag;
    fake->cost_calls++;
    out->ns = fake->offers[request->offer->cookie].ns;
    out->enter_ns = fake->offers[request->offer->cookie].enter_ns;
    out->leave_ns = fake->offers[request->offer->cookie].leave_ns;
    out->confidence = fake->confidence;
    return INLAY_OK;
}

static inlay_status cost_region(void *state, const inlay_region_cost_request *request, inlay_cost *out,
                                inlay_diag *diag)
{
    struct fake *fake = state;

    fake->region_calls++;
    assert_true(request->struct_size == sizeof *request);
    assert_true(request->offer_count > 1 && request->node_count >= request->offer_count);
    assert_true(request->value_count == request->graph->value_count && request->max_threads > 0);
    assert_true(request->input_count > 0 && request->output_count > 0);
    for (uint32_t i = 0; i < request->input_count; i++)
        assert_true(request->inputs[i] < request->graph->value_count);
    for (uint32_t i = 0; i < request->output_count; i++)
        assert_true(INLAY_AT(inlay_value_state, request->values, request->value_stride, request->outputs[i])->rank ==
                    1);
    if (fake->region_factor < 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "the sum is right");
    for (uint32_t i = 0; i < request->offer_count; i++) {
        const fake_offer *offer = &fake->offers[request->cookies[i]];
        bool inside = false;

        for (uint32_t k = 0; k < request->node_count; k++)
            inside |= request->nodes[k] == offer->nodes[0];
        assert_true(inside);
        out->ns += offer->ns * fake->region_factor;
    }
    return INLAY_OK;
}

void world_price_regions(struct world *world, uint32_t provider, double factor)
{
    world->fakes[provider].table.cost_region = cost_region;
    world->fakes[provider].region_factor = factor;
}

fake_offer *world_offer(struct world *world, uint32_t provider, double ns, uint32_t flags, uint32_t count,
                        const uint32_t *nodes)
{
    struct fake *fake = &world->fakes[provider];
    fake_offer *offer;

    if (fake->offer_count == fake->offer_capacity) {
        fake->offer_capacity = fake->offer_capacity == 0 ? 64 : fake->offer_capacity * 2;
        fake->offers = realloc(fake->offers, fake->offer_capacity * sizeof *fake->offers);
        assert_non_null(fake->offers);
    }
    offer = &fake->offers[fake->offer_count++];
    *offer = (fake_offer){ .node_count = count, .flags = flags, .ns = ns, .placement = { .value = INLAY_NONE } };
    offer->nodes = arena_copy(&world->model->arena, nodes, count * sizeof *nodes);
    assert_non_null(offer->nodes);
    return offer;
}

static void keep_log(void *ctx, uint32_t level, const char *text)
{
    struct world *world = ctx;
    size_t used = strlen(world->log);

    (void)level;
    (void)snprintf(world->log + used, sizeof world->log - used, "%s\n", text);
}

static uint32_t tensor(struct world *world, int64_t length)
{
    uint32_t value = graph_add_value(world->graph, NULL, 0);
    inlay_dim *dim = arena_alloc(&world->model->arena, sizeof *dim);

    *dim = (inlay_dim){ .value = length, .kind = INLAY_DIM_FIXED };
    world->graph->values[value].info.kind = INLAY_VALUE_TENSOR;
    world->graph->values[value].info.dtype = INLAY_FLOAT;
    world->graph->values[value].info.rank = 1;
    world->graph->values[value].info.dims = dim;
    return value;
}

static void make_graph(struct world *world, const uint32_t *reads, const int64_t *lengths)
{
    uint32_t nodes = world->node_count, input = tensor(world, 16);
    uint8_t *read = arena_alloc(&world->model->arena, nodes + 1);

    world->graph->inputs = arena_copy(&world->model->arena, &input, sizeof input);
    world->graph->input_count = 1;
    world->graph->outputs = arena_array(&world->model->arena, nodes, sizeof *world->graph->outputs);
    for (uint32_t node_index = 0; node_index < nodes; node_index++) {
        uint32_t count = 0;
        char name[32];
        graph_node *node;

        while (count < 4 && reads[node_index * 4 + count] != INLAY_NONE)
            count++;
        (void)snprintf(name, sizeof name, "n%u", node_index);
        node =
            graph_add_node(world->graph, node_index % 2 == 0 ? "Even" : "Odd", "test", name, count > 0 ? count : 1, 1);
        world->made[node_index] = tensor(world, lengths != NULL ? lengths[node_index] : 16);
        ((uint32_t *)(uintptr_t)node->info.inputs)[0] = input;
        for (uint32_t k = 0; k < count; k++) {
            ((uint32_t *)(uintptr_t)node->info.inputs)[k] = world->made[reads[node_index * 4 + k]];
            read[reads[node_index * 4 + k]] = 1;
        }
        ((uint32_t *)(uintptr_t)node->info.outputs)[0] = world->made[node_index];
    }
    for (uint32_t node_index = 0; node_index < nodes; node_index++)
        if (!read[node_index])
            world->graph->outputs[world->graph->output_count++] = world->made[node_index];
}

void world_init(struct world *world, uint32_t nodes, const uint32_t *reads, const int64_t *lengths, uint32_t providers)
{
    static const char *const names[] = { "p0", "p1", "p2", "p3", "p4" };
    inlay_diag diag = INLAY_DIAG_INIT;

    *world = (struct world){ .model = graph_model_create(), .node_count = nodes };
    assert_non_null(world->model);
    world->graph = world->model->main;
    world->made = arena_array(&world->model->arena, nodes, sizeof *world->made);
    make_graph(world, reads, lengths);
    if (graph_finish(world->graph, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    assert_int_equal(graph_snapshot(world->graph, &world->arena, &world->snapshot, &diag), INLAY_OK);
    for (uint32_t provider = 0; provider < providers; provider++) {
        struct fake *fake = &world->fakes[provider];
        fake->refused = INLAY_NONE;
        fake->confidence = INLAY_CONFIDENCE_MODEL;
        fake->table = (inlay_provider){ .struct_size = sizeof fake->table,
                                        .flags = INLAY_PROVIDER_REFERENCE_CORE, /* the prices are comparable */
                                        .name = names[provider],
                                        .assess = assess,
                                        .cost = cost,
                                        .device_kind = INLAY_DEVICE_CPU };
        world->providers[provider] =
            (partition_provider){ .table = &fake->table, .state = fake, .name = names[provider], .place = provider };
    }
    world->request = (partition_request){ .graph = world->graph,
                                          .snapshot = &world->snapshot,
                                          .providers = world->providers,
                                          .provider_count = providers,
                                          .max_threads = 1,
                                          .rules = &world->rules,
                                          .log = keep_log,
                                          .log_ctx = world };
}

void world_device(struct world *world, uint32_t provider)
{
    struct fake *fake = &world->fakes[provider];

    fake->domain = (inlay_domain_info){ .name = "device", .alignment = 64 };
    fake->table.domains = &fake->domain;
    fake->table.domain_count = 1;
    fake->table.domain_stride = sizeof fake->domain;
    fake->table.default_domain = 1;
    fake->table.device_kind = INLAY_DEVICE_GPU;
    world->providers[provider].first_domain = 1 + provider;
}

static inlay_status buffer_alloc(void *state, const inlay_alloc_request *request, inlay_buffer *out, inlay_diag *diag)
{
    (void)state, (void)diag;
    *out = (inlay_buffer){ .handle = 1, .domain = request->domain };
    return INLAY_OK;
}

static void buffer_free(void *state, const inlay_free_request *request)
{
    (void)state, (void)request;
}

static inlay_status buffer_export(void *state, const inlay_export_request *request, inlay_native_memory *out,
                                  inlay_diag *diag)
{
    (void)state, (void)diag;
    out->kind = request->kind;
    out->bytes = request->buffer->bytes;
    return INLAY_OK;
}

static inlay_status buffer_import(void *state, const inlay_import_request *request, inlay_buffer *out, inlay_diag *diag)
{
    (void)state, (void)diag;
    *out = (inlay_buffer){ .handle = 2, .domain = request->domain };
    return INLAY_OK;
}

void world_share(struct world *world, uint32_t provider, bool exports, bool imports)
{
    struct fake *fake = &world->fakes[provider];

    fake->domain.exports = exports ? INLAY_MEMORY_BIT(INLAY_MEMORY_SHARED_FD) : 0;
    fake->domain.imports = imports ? INLAY_MEMORY_BIT(INLAY_MEMORY_SHARED_FD) : 0;
    fake->table.buffer_alloc = buffer_alloc;
    fake->table.buffer_free = buffer_free;
    fake->table.buffer_export = buffer_export;
    fake->table.buffer_import = buffer_import;
}

void world_deinit(struct world *world)
{
    for (uint32_t provider = 0; provider < WORLD_PROVIDERS; provider++)
        free(world->fakes[provider].offers);
    arena_deinit(&world->arena);
    graph_model_destroy(world->model);
}

void world_partition(struct world *world)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    if (partition_graph(&world->request, &world->arena, &world->out, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
}

static bool listed(const uint32_t *list, uint32_t count, uint32_t x)
{
    for (uint32_t i = 0; i < count; i++)
        if (list[i] == x)
            return true;
    return false;
}

/* Checks the limits that the offers of the region state. */
static void check_limits(const struct world *world, const struct partition *partition, const partition_region *region)
{
    uint64_t resident = 0;

    for (uint32_t k = 0; k < region->offer_count; k++)
        resident += partition->offers[region->offers[k]].resident_bytes;
    for (uint32_t k = 0; k < region->offer_count; k++) {
        const partition_offer *offer = &partition->offers[region->offers[k]];
        const fake_offer *planned = &world->fakes[region->provider].offers[offer->cookie];

        assert_true(planned->max_nodes == 0 || region->node_count <= planned->max_nodes);
        assert_true(planned->max_inputs == 0 || region->input_count <= planned->max_inputs);
        assert_true(planned->max_outputs == 0 || region->output_count <= planned->max_outputs);
        assert_true(planned->max_resident == 0 || resident <= planned->max_resident);
    }
}

static void check_regions(const struct world *world, const struct partition *partition, uint32_t *region_of)
{
    memset(region_of, 0xff, world->node_count * sizeof *region_of);
    for (uint32_t i = 0; i < partition->region_count; i++) {
        const partition_region *region = &partition->regions[i];
        uint32_t covered = 0;

        for (uint32_t k = 0; k < region->node_count; k++) {
            assert_int_equal(region_of[region->nodes[k]], INLAY_NONE);
            assert_true(k == 0 || region->nodes[k] > region->nodes[k - 1]);
            region_of[region->nodes[k]] = i;
        }
        for (uint32_t k = 0; k < region->offer_count; k++) {
            const partition_offer *offer = &partition->offers[region->offers[k]];
            assert_true(offer->chosen && offer->provider == region->provider);
            assert_true(region->offer_count == 1 || (offer->flags & INLAY_OFFER_MERGE) != 0);
            covered += offer->node_count;
            for (uint32_t m = 0; m < offer->node_count; m++)
                assert_int_equal(region_of[offer->nodes[m]], i);
        }
        assert_int_equal(covered, region->node_count);
        check_limits(world, partition, region);
    }
}

static void check_borders(const struct world *world, const struct partition *partition, const uint32_t *region_of)
{
    for (uint32_t node = 0; node < world->node_count; node++) {
        const inlay_node_info *info = &world->graph->nodes[node]->info;
        const partition_region *region = &partition->regions[region_of[node]];

        assert_int_not_equal(region_of[node], INLAY_NONE);
        for (uint32_t i = 0; i < info->input_count; i++) {
            uint32_t maker = world->graph->values[info->inputs[i]].info.producer;
            bool inside = maker != INLAY_NONE && region_of[maker] == region_of[node];

            assert_int_equal(listed(region->inputs, region->input_count, info->inputs[i]), !inside);
            if (inside || maker == INLAY_NONE)
                continue;
            assert_true(region_of[maker] < region_of[node]);
            assert_true(listed(partition->regions[region_of[maker]].outputs,
                               partition->regions[region_of[maker]].output_count, info->inputs[i]));
        }
    }
    for (uint32_t k = 0; k < world->graph->output_count; k++) {
        const partition_region *region =
            &partition->regions[region_of[world->graph->values[world->graph->outputs[k]].info.producer]];
        assert_true(listed(region->outputs, region->output_count, world->graph->outputs[k]));
    }
}

/* Returns the domain in which a region has a value, as program.c negotiates it. */
static uint32_t domain_in(const struct world *world, const struct partition *partition, const partition_region *region,
                          uint32_t v)
{
    for (uint32_t k = 0; k < region->offer_count; k++) {
        const partition_offer *offer = &partition->offers[region->offers[k]];
        for (uint32_t m = 0; m < offer->placement_count; m++)
            if (offer->placements[m].value == v)
                return offer->placements[m].domain;
    }
    return partition_default_domain(&world->providers[region->provider]);
}

static bool is_copied(const struct partition *partition, uint32_t v, uint32_t domain)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < partition->copy_count; i++)
        found += partition->copies[i].value == v && partition->copies[i].to_domain == domain;
    assert_true(found <= 1);
    return found == 1;
}

/* Checks that every value is available where it is read, and that every copy has a consumer. */
static void check_copies(const struct world *world, const struct partition *partition, const uint32_t *region_of)
{
    uint32_t needed = 0;

    for (uint32_t value = 0; value < world->graph->value_count; value++) {
        uint32_t maker = world->graph->values[value].info.producer, home = INLAY_DOMAIN_HOST, domains[16] = { 0 };
        bool through_host = false;

        if (maker != INLAY_NONE)
            home = domain_in(world, partition, &partition->regions[region_of[maker]], value);
        for (uint32_t k = 0; k < world->graph->output_count; k++)
            domains[0] |= world->graph->outputs[k] == value;
        for (uint32_t i = 0; i < partition->region_count; i++)
            if (listed(partition->regions[i].inputs, partition->regions[i].input_count, value))
                domains[domain_in(world, partition, &partition->regions[i], value)] = 1;
        for (uint32_t d = 1; d < 16; d++)
            through_host |= domains[d] && d != home && home != INLAY_DOMAIN_HOST &&
                            cost_link(world->providers, world->request.provider_count, home, d) == LINK_HOST;
        domains[0] |= through_host;
        for (uint32_t d = 0; d < 16; d++) {
            if (!domains[d] || d == home)
                continue;
            assert_true(is_copied(partition, value, d));
            needed++;
        }
    }
    assert_int_equal(partition->copy_count, needed);
}

void world_check(const struct world *world, const struct partition *partition)
{
    uint32_t *region_of = calloc(world->node_count + 1, sizeof *region_of);
    double ns = 0;

    assert_non_null(region_of);
    check_regions(world, partition, region_of);
    check_borders(world, partition, region_of);
    check_copies(world, partition, region_of);
    for (uint32_t i = 0; i < partition->region_count; i++) {
        double own = 0;
        for (uint32_t k = 0; k < partition->regions[i].offer_count; k++)
            own += partition->offers[partition->regions[i].offers[k]].cost.ns;
        assert_float_equal(own, partition->regions[i].cost_ns, 1e-6 * own + 1e-9);
        assert_true(partition->regions[i].border_ns >= 0);
        ns += own + partition->regions[i].launch_ns + partition->regions[i].border_ns;
    }
    for (uint32_t i = 0; i < partition->copy_count; i++)
        ns += partition->copies[i].ns;
    assert_float_equal(ns, partition->cost_ns, 1e-9 * ns + 1e-9);
    free(region_of);
}

/* The provider that owns the domain; INLAY_NONE: the host. */
static uint32_t owner_of(const struct world *world, uint32_t domain)
{
    for (uint32_t provider = 0; provider < world->request.provider_count; provider++)
        if (world->fakes[provider].table.domain_count > 0 && world->providers[provider].first_domain == domain)
            return provider;
    return INLAY_NONE;
}

static bool is_read_outside(const struct world *world, const partition_offer *offer, uint32_t value)
{
    for (uint32_t node = 0; node < world->node_count; node++) {
        const inlay_node_info *info = &world->graph->nodes[node]->info;

        if (!listed(offer->nodes, offer->node_count, node) && listed(info->inputs, info->input_count, value))
            return true;
    }
    return listed(world->graph->outputs, world->graph->output_count, value);
}

void world_check_totals(const struct world *world, const struct partition *partition)
{
    double energy = 0, bytes = 0;

    for (uint32_t i = 0; i < partition->region_count; i++)
        energy += (partition->regions[i].cost_ns + partition->regions[i].launch_ns) *
                  world->providers[partition->regions[i].provider].watts;
    for (uint32_t i = 0; i < partition->offer_count; i++) {
        const partition_offer *offer = &partition->offers[i];

        bytes += offer->chosen ? (double)offer->resident_bytes : 0;
        for (uint32_t k = 0; offer->chosen && k < offer->node_count; k++)
            if (is_read_outside(world, offer, world->made[offer->nodes[k]]))
                bytes += (double)cost_value_bytes(&partition->profile[world->made[offer->nodes[k]]]);
    }
    for (uint32_t i = 0; i < partition->copy_count; i++) {
        const partition_copy *copy = &partition->copies[i];
        const uint32_t device = copy->from_domain != INLAY_DOMAIN_HOST ? copy->from_domain : copy->to_domain;

        energy += copy->ns * world->providers[owner_of(world, device)].watts;
        bytes += copy->ns > 0 ? (double)copy->bytes : 0;
    }
    assert_float_equal(energy, partition->energy_nj, 1e-9 * energy);
    assert_float_equal(bytes, partition->kept_bytes, 1e-9 * bytes);
}

static void random_groups(struct world *world, const world_mix *mix)
{
    uint32_t count = random_below(&world_seed, mix->nodes > 12 ? mix->nodes / 2 : 6);

    for (uint32_t k = 0; k < count; k++) {
        uint32_t members[8], size = 0, provider = random_below(&world_seed, mix->providers);
        double sum = 0;

        for (uint32_t n = random_below(&world_seed, mix->nodes); n < mix->nodes && size < 2 + k % 4;
             n += 1 + random_below(&world_seed, 3) / 2)
            members[size++] = n;
        for (uint32_t i = 0; i < world->fakes[provider].offer_count; i++)
            for (uint32_t m = 0; m < size; m++)
                if (world->fakes[provider].offers[i].node_count == 1 &&
                    world->fakes[provider].offers[i].nodes[0] == members[m])
                    sum += world->fakes[provider].offers[i].ns;
        if (size > 1)
            (void)world_offer(world, provider, (sum + 1) * (20 + random_below(&world_seed, 100)) / 100,
                              random_below(&world_seed, 2) != 0 && mix->merge ? INLAY_OFFER_MERGE : 0, size, members);
    }
}

/* Sets limits that the offer keeps alone: a node reads at most three values and has one output. */
static void random_limits(fake_offer *offer)
{
    const uint32_t count = offer->node_count;

    offer->max_nodes = random_below(&world_seed, 3) == 0 ? count + random_below(&world_seed, 6) : 0;
    offer->max_inputs = random_below(&world_seed, 3) == 0 ? 3 * count + random_below(&world_seed, 4) : 0;
    offer->max_outputs = random_below(&world_seed, 3) == 0 ? count + random_below(&world_seed, 3) : 0;
    offer->max_resident =
        random_below(&world_seed, 3) == 0 ? offer->resident + 1 + random_below(&world_seed, 1000000) : 0;
}

void world_random(struct world *world, const world_mix *mix)
{
    uint32_t *reads = malloc(mix->nodes * 4 * sizeof *reads);
    int64_t *lengths = malloc(mix->nodes * sizeof *lengths);

    assert_true(reads != NULL && lengths != NULL);
    memset(reads, 0xff, mix->nodes * 4 * sizeof *reads);
    for (uint32_t n = 0; n < mix->nodes; n++) {
        uint32_t count = 0, reach = n < 20 ? n : 20;

        lengths[n] = mix->sizes ? 1 + (int64_t)random_below(&world_seed, 100) * random_below(&world_seed, 4000) : 16;
        for (uint32_t k = random_below(&world_seed, 4); n > 0 && k > 0; k--) {
            uint32_t maker = n - 1 - random_below(&world_seed, reach);
            bool again = false;
            for (uint32_t i = 0; i < count; i++)
                again |= reads[n * 4 + i] == maker;
            if (!again)
                reads[n * 4 + count++] = maker;
        }
    }
    world_init(world, mix->nodes, reads, lengths, mix->providers);
    for (uint32_t provider = 1; mix->devices && provider < mix->providers; provider++)
        if (random_below(&world_seed, 3) != 0 || provider == 1)
            world_device(world, provider);
    for (uint32_t provider = 0; mix->shares && provider < mix->providers; provider++) {
        if (provider == 0)
            world_device(world, provider);
        if (world->fakes[provider].table.domain_count > 0)
            world_share(world, provider, random_below(&world_seed, 3) != 0, random_below(&world_seed, 3) != 0);
    }
    for (uint32_t node = 0; node < mix->nodes; node++) {
        for (uint32_t provider = 0; provider < mix->providers; provider++) {
            uint32_t flags = mix->merge && random_below(&world_seed, 3) != 0 ? INLAY_OFFER_MERGE : 0;

            if (mix->gaps && provider > 0 && random_below(&world_seed, 5) == 0)
                continue;
            (void)world_offer(world, provider, 1000 + random_below(&world_seed, 60000), flags, 1, &node);
            if (mix->borders && provider > 0 && flags != 0) {
                world->fakes[provider].offers[world->fakes[provider].offer_count - 1].enter_ns =
                    random_below(&world_seed, 20000);
                world->fakes[provider].offers[world->fakes[provider].offer_count - 1].leave_ns =
                    random_below(&world_seed, 20000);
            }
            if (mix->odd && world->fakes[provider].table.domain_count > 0 && random_below(&world_seed, 4) == 0)
                world_offer(world, provider, 1000 + random_below(&world_seed, 60000), 0, 1, &node)->placement =
                    (inlay_placement){ .value = random_below(&world_seed, 2) != 0
                                                    ? world->made[node]
                                                    : world->graph->nodes[node]->info.inputs[0] };
            world->fakes[provider].offers[world->fakes[provider].offer_count - 1].resident =
                mix->sizes ? random_below(&world_seed, 500000) : 0;
            world->fakes[provider].offers[world->fakes[provider].offer_count - 1].workspace =
                mix->sizes ? random_below(&world_seed, 100000) : 0;
        }
    }
    if (mix->groups)
        random_groups(world, mix);
    for (uint32_t provider = 0; mix->limits && provider < mix->providers; provider++)
        for (uint32_t i = 0; i < world->fakes[provider].offer_count; i++)
            random_limits(&world->fakes[provider].offers[i]);
    world->rules.objective = mix->objective;
    for (uint32_t provider = 0; mix->objective != OBJECTIVE_LATENCY && provider < mix->providers; provider++)
        world->providers[provider].watts = 1 + random_below(&world_seed, 200);
    free(reads);
    free(lengths);
}
