/* Calls assess and cost on random graphs with nodes of all operators in unusual shapes. */
#include "base/hash.h"
#include "base/provider_calls.h"
#include "base/random.h"
#include "check/harness.h"
#include "check/generate.h"
#include "inlay/check.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_POOL = 2048, CASES_EACH = 3, MANY_NODES = 3000, FEW_NODES = 24, QUICK_GRAPHS = 40, GRAPHS = 400 };

/* Cases to build graphs from: a few of each operator; the cases that the provider offers come first. */
struct pool {
    struct check *check;
    const struct fixture *fixture;
    const loaded_provider *provider;
    op_case *cases; /* [count] */
    uint32_t count, offered;
    uint32_t source_cases; /* taken from the current operator */
    uint64_t state;
};

static bool take_case(void *user, op_case *entry)
{
    struct pool *pool = user;
    inlay_diag diag = INLAY_DIAG_INIT;
    harness_answer answer = { .kind = HARNESS_REFUSED };
    case_instance built;

    if (pool->count == MAX_POOL || pool->source_cases == CASES_EACH)
        return false;
    if (random_bits(&pool->state) % 3 == 0 ||
        case_graph(entry, &pool->fixture->operators, CASE_SIZES, &built, &diag) != INLAY_OK)
        return true;
    check_phase(pool->check, "assess");
    harness_assess(pool->provider, &built, &answer);
    case_instance_deinit(&built);
    pool->source_cases++;
    INLAY_CHECK(pool->offered <= pool->count && pool->count < MAX_POOL);
    pool->cases[pool->count] = *entry;
    entry->arena = (struct arena){ 0 }; /* the pool owns it now */
    if (answer.kind == HARNESS_OFFERED) {
        op_case swap = pool->cases[pool->offered];

        pool->cases[pool->offered++] = pool->cases[pool->count];
        pool->cases[pool->count] = swap;
    }
    pool->count++;
    return true;
}

static bool take_source(void *user, const case_source *source)
{
    struct pool *pool = user;
    const case_range range = { .seed = pool->check->args->seed, .scale = 1, .quick = true };

    pool->source_cases = 0;
    check_subject(pool->check, "%s-%lld", source->op_type, (long long)source->opset);
    generate_cases(source, &range, take_case, pool);
    return pool->count < MAX_POOL;
}

/* Changes a copy of a case at random and returns how much of its shapes the graph states (CASE_SIZES ...). The caller
 * skips cases that the host then refuses. */
static uint32_t mutate(op_case *entry, uint64_t *state)
{
    static const int64_t sizes[] = { 0, 1, 2, 1 << 20, (int64_t)1 << 40 };
    static const int64_t numbers[] = { -1, 0, 1, 2, -100, INT32_MAX, INT64_MIN, INT64_MAX };
    uint64_t dice = random_bits(state) % 8;

    if (dice == 0 && entry->in_count > 0) {
        case_tensor *tensor = &entry->in[random_bits(state) % entry->in_count];

        if (!tensor->constant && tensor->rank > 0)
            tensor->dims[random_bits(state) % tensor->rank] = sizes[random_bits(state) % 5];
    } else if (dice == 1 && entry->attr_count > 0) {
        entry->attrs[random_bits(state) % entry->attr_count].i = numbers[random_bits(state) % 8];
    } else if (dice == 2 && entry->in_count > 1) {
        entry->in[entry->in_count - 1].dtype = INLAY_UNDEFINED;
    }
    return dice == 3 ? CASE_RANK_UNKNOWN : dice == 4 || dice == 5 ? CASE_SYMBOLS : CASE_SIZES;
}

/* Does the host accept the case? */
static bool is_legal(const struct pool *pool, const op_case *entry, uint32_t known)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    graph_model *model = graph_model_create();
    bool ok = model != NULL && case_import(entry, model) == INLAY_OK && case_add(entry, model->main, known) != NULL &&
              graph_finish(model->main, &diag) == INLAY_OK &&
              graph_bind(model, &pool->fixture->operators, &diag) == INLAY_OK && graph_infer(model, &diag) == INLAY_OK;

    graph_model_destroy(model);
    return ok;
}

/* Connects inputs of nodes to outputs of earlier nodes with the same type and shape. */
static void connect_nodes(struct graph *graph, uint64_t *state)
{
    for (uint32_t node = 1; node < graph->node_count && node < 200; node++) {
        uint32_t producer = (uint32_t)(random_bits(state) % node), input = 0;
        const inlay_node_info *from = &graph->nodes[producer]->info, *to = &graph->nodes[node]->info;

        if (from->output_count == 0 || to->input_count == 0 || from->outputs[0] == INLAY_NONE)
            continue;
        input = (uint32_t)(random_bits(state) % to->input_count);
        if (to->inputs[input] != INLAY_NONE && graph->values[to->inputs[input]].info.data == NULL &&
            graph->values[to->inputs[input]].info.dtype == graph->values[from->outputs[0]].info.dtype &&
            graph_same_sizes(&graph->values[to->inputs[input]].info, &graph->values[from->outputs[0]].info))
            ((uint32_t *)(uintptr_t)to->inputs)[input] = from->outputs[0];
    }
}

/* Builds a graph of at most count nodes. NULL: no memory, or an invalid graph. */
static graph_model *make_graph(const struct pool *pool, uint32_t count, uint64_t *state, inlay_diag *diag)
{
    graph_model *model = graph_model_create();

    if (model == NULL)
        return NULL;
    for (uint32_t n = 0; n < count && pool->count > 0; n++) {
        uint32_t among = pool->offered > 0 && random_bits(state) % 4 != 0 ? pool->offered : pool->count;
        op_case entry = pool->cases[random_bits(state) % among]; /* shares the arena, and is never deinitialised */
        uint32_t known = count > FEW_NODES ? CASE_SIZES : mutate(&entry, state);

        if (count <= FEW_NODES && !is_legal(pool, &entry, known))
            continue;
        if (case_import(&entry, model) != INLAY_OK || case_add(&entry, model->main, known) == NULL) {
            graph_model_destroy(model);
            return NULL;
        }
    }
    if (graph_finish(model->main, diag) == INLAY_OK && graph_bind(model, &pool->fixture->operators, diag) == INLAY_OK &&
        graph_infer(model, diag) == INLAY_OK) {
        connect_nodes(model->main, state);
        if (graph_finish(model->main, diag) == INLAY_OK)
            return model;
    }
    graph_model_destroy(model);
    return NULL;
}

struct assessment {
    const inlay_graph *graph;
    const uint8_t *candidates;
    uint8_t *answered; /* [node_count] flags: 1 = offered, 2 = refused, 4 = offered alone */
    uint64_t hash;
    uint32_t offers;
    uint64_t cookie; /* of the first offer with a single node ... */
    uint32_t node;   /* ... and that node; INLAY_NONE: none yet */
    char fault[300];
    const char *fix;
};

INLAY_PRINTF(3, 4)
static void fault(struct assessment *assessment, const char *fix, const char *format, ...)
{
    va_list args;

    if (assessment->fault[0] != '\0')
        return;
    va_start(args, format);
    (void)vsnprintf(assessment->fault, sizeof assessment->fault, format, args);
    va_end(args);
    assessment->fix = fix;
}

static const char *op_of(const struct assessment *assessment, uint32_t node)
{
    return inlay_graph_node(assessment->graph, node)->op_type.data;
}

/* Values that enter the nodes of an offer, without constants. */
static uint32_t count_inputs(const inlay_graph *graph, const inlay_offer *offer)
{
    enum { MOST = 256 };
    uint32_t seen[MOST], count = 0;

    for (uint32_t i = 0; i < offer->node_count; i++) {
        const inlay_node_info *node = inlay_graph_node(graph, offer->nodes[i]);

        for (uint32_t k = 0; k < node->input_count; k++) {
            const inlay_value_info *value = inlay_graph_value(graph, node->inputs[k]);
            bool counts = value != NULL && (value->flags & INLAY_VALUE_CONSTANT) == 0 && count < MOST;

            for (uint32_t m = 0; m < offer->node_count && counts; m++)
                counts = value->producer != offer->nodes[m];
            for (uint32_t m = 0; m < count && counts; m++)
                counts = seen[m] != node->inputs[k];
            if (counts)
                seen[count++] = node->inputs[k];
        }
    }
    return count;
}

static void check_limits(struct assessment *assessment, const inlay_offer *offer)
{
    if (assessment->fault[0] != '\0' || !INLAY_HAS(offer, max_resident_bytes))
        return;
    if ((offer->max_nodes != 0 && offer->node_count > offer->max_nodes) ||
        (offer->max_inputs != 0 && count_inputs(assessment->graph, offer) > offer->max_inputs) ||
        (offer->max_resident_bytes != 0 && offer->resident_bytes > offer->max_resident_bytes))
        fault(assessment, "hosts ignore an offer that breaks its own limits: refuse the node",
              "an offer of %u nodes (%s), %u inputs and %llu resident bytes has the limits %u, %u and %llu",
              offer->node_count, op_of(assessment, offer->nodes[0]), count_inputs(assessment->graph, offer),
              (unsigned long long)offer->resident_bytes, offer->max_nodes, offer->max_inputs,
              (unsigned long long)offer->max_resident_bytes);
}

static inlay_status collect_offer(void *ctx, const inlay_offer *offer)
{
    struct assessment *assessment = ctx;

    assessment->offers++;
    if (offer->struct_size < offsetof(inlay_offer, resident_bytes) + sizeof offer->resident_bytes) {
        fault(assessment, "set .struct_size = sizeof(inlay_offer)", "an offer has struct_size %llu",
              (unsigned long long)offer->struct_size);
        return INLAY_OK;
    }
    if (offer->node_count == 0 || offer->nodes == NULL)
        fault(assessment, "name the nodes that are offered", "an offer names no node");
    for (uint32_t i = 0; i < offer->node_count && assessment->fault[0] == '\0'; i++) {
        uint32_t n = offer->nodes[i];

        if (n >= assessment->graph->node_count)
            fault(assessment, "offer indexes of graph->nodes", "an offer names node %u of %u", n,
                  assessment->graph->node_count);
        else if (assessment->candidates[n] == 0)
            fault(assessment, "look at candidates[] before offering",
                  "node %u (%s) was offered, but is not a candidate", n, op_of(assessment, n));
        else if (i > 0 && n <= offer->nodes[i - 1])
            fault(assessment, "sort the indexes", "the node indexes of an offer do not ascend");
        else
            assessment->answered[n] |= offer->node_count == 1 ? 1 | 4 : 1;
        assessment->hash = hash_u64(assessment->hash, n);
    }
    if ((offer->flags & 0xffffu & ~(uint32_t)INLAY_OFFER_MERGE) != 0)
        fault(assessment, "use INLAY_OFFER_... only", "an offer has flags 0x%x", offer->flags);
    for (uint32_t i = 0; i < offer->placement_count && assessment->fault[0] == '\0'; i++) {
        if (offer->placements == NULL || offer->placement_stride < offsetof(inlay_placement, dtype))
            fault(assessment, "set placement_stride to sizeof placements[0]", "an offer's placements cannot be read");
        else if (INLAY_AT(inlay_placement, offer->placements, offer->placement_stride, i)->value >=
                 assessment->graph->value_count)
            fault(assessment, "place values of the snapshot", "an offer places a value that does not exist");
    }
    check_limits(assessment, offer);
    if (assessment->node == INLAY_NONE && offer->node_count == 1 && assessment->fault[0] == '\0') {
        assessment->node = offer->nodes[0];
        assessment->cookie = offer->cookie;
    }
    assessment->hash = hash_u64(assessment->hash, offer->flags);
    return INLAY_OK;
}

static inlay_status collect_refusal(void *ctx, const inlay_refusal *refusal)
{
    struct assessment *assessment = ctx;

    if (refusal->struct_size < offsetof(inlay_refusal, accepted_if) + sizeof refusal->accepted_if) {
        fault(assessment, "set .struct_size = sizeof(inlay_refusal)", "a refusal has struct_size %llu",
              (unsigned long long)refusal->struct_size);
    } else if (refusal->node >= assessment->graph->node_count) {
        fault(assessment, "refuse indexes of graph->nodes", "a refusal names node %u of %u", refusal->node,
              assessment->graph->node_count);
    } else if (refusal->text == NULL || refusal->text[0] == '\0') {
        fault(assessment, "write the reason: `inlay explain` shows it", "node %u (%s) was refused without a reason",
              refusal->node, op_of(assessment, refusal->node));
    } else if (refusal->code < INLAY_REFUSE_OPERATOR || refusal->code > INLAY_REFUSE_PATTERN ||
               refusal->code == INLAY_REFUSE_LATE) {
        fault(assessment, "use INLAY_REFUSE_...", "node %u (%s) was refused with code %u", refusal->node,
              op_of(assessment, refusal->node), refusal->code);
    } else {
        assessment->answered[refusal->node] |= 2;
        assessment->hash = hash_bytes(refusal->text, strlen(refusal->text), hash_u64(assessment->hash, refusal->node));
    }
    return INLAY_OK;
}

struct offer_check {
    struct check *check;
    const loaded_provider *provider;
    const uint8_t *candidates;
    uint32_t node_count, offers;
    uint32_t both;            /* nodes that were both offered alone and refused ... */
    char example_of_both[80]; /* ... one of them */
    bool failed;
};

static void report_failure(struct offer_check *test, const char *expected, const char *fix, const char *got)
{
    test->failed = true;
    check_fail(test->check, "offers", test->provider->name, expected, fix, "%s", got);
}

/* Collects the provider's offers and refusals. False: a violation of the contract was reported, or no memory. */
static bool assess_graph(struct offer_check *test, const inlay_graph *graph, struct assessment *assessment,
                         const char *when)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    const inlay_assess_sink sink = {
        .struct_size = sizeof sink, .ctx = assessment, .offer = collect_offer, .refuse = collect_refusal
    };
    inlay_status status;
    char got[700];

    *assessment = (struct assessment){ .graph = graph,
                                       .candidates = test->candidates,
                                       .node = INLAY_NONE,
                                       .hash = 1,
                                       .answered = calloc(graph->node_count + (size_t)1, 1) };
    if (assessment->answered == NULL)
        return false;
    check_phase(test->check, when);
    status = call_assess(test->provider->table, test->provider->state, graph, test->candidates, &sink, &diag);
    check_phase(test->check, "the checker");
    if (status != INLAY_OK) {
        (void)snprintf(got, sizeof got, "%s returned '%s': %.300s", when, inlay_status_text(status), diag.text);
        report_failure(test, "INLAY_OK and an answer for each node", "refuse a node that cannot be run; do not fail",
                       got);
        return false;
    }
    for (uint32_t n = 0; n < graph->node_count && assessment->fault[0] == '\0'; n++)
        if (test->candidates[n] != 0 && assessment->answered[n] == 0)
            fault(assessment, "call sink->refuse with a code and a reason for every node that is in no offer",
                  "node %u (%s) is neither offered nor refused", n, op_of(assessment, n));
    for (uint32_t n = 0; n < graph->node_count; n++)
        if (assessment->answered[n] == (1 | 2 | 4) && test->both++ == 0)
            (void)snprintf(test->example_of_both, sizeof test->example_of_both, "%s", op_of(assessment, n));
    if (assessment->fault[0] != '\0')
        report_failure(test, "offers and refusals as inlay/plugin.h describes them", assessment->fix,
                       assessment->fault);
    return assessment->fault[0] == '\0';
}

static bool is_number(double x)
{
    return isfinite(x) && x >= 0;
}

/* cost with unknown sizes and with unknown ranks must return a valid cost or an error, and never crash. */
static void query_cost(struct offer_check *test, const inlay_graph *graph, const struct assessment *assessment)
{
    inlay_value_state *states = calloc(graph->value_count + (size_t)1, sizeof *states);
    const inlay_offer offer = {
        .struct_size = sizeof offer, .cookie = assessment->cookie, .nodes = &assessment->node, .node_count = 1
    };
    const inlay_cost_request request = { .struct_size = sizeof request,
                                         .graph = graph,
                                         .offer = &offer,
                                         .values = states,
                                         .value_count = graph->value_count,
                                         .value_stride = sizeof *states,
                                         .max_threads = 1 };
    static const int64_t unknown[INLAY_MAX_RANK] = { -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1 };
    inlay_diag diag = INLAY_DIAG_INIT;
    char got[300];

    INLAY_CHECK(assessment->node < graph->node_count);
    for (uint32_t value = 0; states != NULL && value < graph->value_count; value++) {
        const inlay_value_info *info = inlay_graph_value(graph, value);

        states[value] = (inlay_value_state){ .dims = info->rank == INLAY_RANK_UNKNOWN ? NULL : unknown,
                                             .rank = info->rank,
                                             .dtype = info->dtype };
    }
    for (int known = 0; states != NULL && known < 2; known++) {
        inlay_cost cost = { .struct_size = sizeof cost };

        check_phase(test->check, known ? "cost with an unknown rank" : "cost with unknown sizes");
        if (test->provider->table->cost(test->provider->state, &request, &cost, &diag) == INLAY_OK &&
            (!is_number(cost.ns) || !is_number(cost.flops) || cost.confidence > INLAY_CONFIDENCE_MEASURED)) {
            (void)snprintf(got, sizeof got, "%s: %g ns, %g operations, confidence %u",
                           op_of(assessment, assessment->node), cost.ns, cost.flops, cost.confidence);
            report_failure(test, "finite numbers >= 0 and a confidence of 0 to 2 for all shapes",
                           "give an upper bound or a guess where sizes are -1", got);
        }
        for (uint32_t value = 0; value < graph->value_count; value++) {
            states[value].rank = INLAY_RANK_UNKNOWN;
            states[value].dims = NULL;
        }
    }
    check_phase(test->check, "the checker");
    free(states);
}

static void try_snapshot(struct offer_check *test, const inlay_graph *graph)
{
    struct assessment first = { 0 }, second = { 0 }, wide = { 0 };
    struct frozen plain, wider;

    if (!frozen_create(graph, 0, false, &plain))
        return;
    if (assess_graph(test, plain.graph, &first, "assess") &&
        assess_graph(test, plain.graph, &second, "a second assess of the same graph")) {
        if (first.hash != second.hash)
            report_failure(test, "the same answers for the same graph", "let assess depend on its arguments only",
                           "a second assess of the same graph gave other answers");
        test->offers += first.offers;
        if (first.node != INLAY_NONE)
            query_cost(test, plain.graph, &first);
    }
    if (!test->failed && frozen_create(graph, 32, false, &wider)) {
        if (assess_graph(test, wider.graph, &wide, "assess with longer structs, as later hosts have them") &&
            wide.hash != first.hash)
            report_failure(test, "the same answers if structs and array elements are longer",
                           "walk arrays with their stride (inlay_graph_node, inlay_graph_value, INLAY_AT)",
                           "assess gave other answers");
        frozen_destroy(&wider);
    }
    free(first.answered);
    free(second.answered);
    free(wide.answered);
    frozen_destroy(&plain);
}

static void try_graph(const struct pool *pool, uint32_t count, uint64_t seed, struct offer_check *test)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    uint64_t state = seed;
    graph_model *model = make_graph(pool, count, &state, &diag);
    uint8_t *candidates;
    struct guarded memory = { .map = NULL };
    struct arena arena = { 0 };
    inlay_graph snapshot;

    if (model == NULL)
        return;
    if (guarded_alloc(model->main->node_count, 1, 0, "past the end of candidates", &memory) &&
        graph_snapshot(model->main, &arena, &snapshot, &diag) == INLAY_OK) {
        candidates = (uint8_t *)memory.data;
        for (uint32_t n = 0; n < snapshot.node_count; n++)
            candidates[n] = seed % 4 == 3 ? random_bits(&state) % 4 == 0 : random_bits(&state) % 8 != 0;
        guarded_protect(&memory, true);
        test->candidates = candidates;
        test->node_count += snapshot.node_count;
        try_snapshot(test, &snapshot);
    }
    guarded_free(&memory);
    arena_deinit(&arena);
    graph_model_destroy(model);
}

static void try_provider(struct check *check, const struct fixture *fixture, const loaded_provider *provider,
                         const inlay_operator *const *custom, uint32_t custom_count)
{
    struct pool all = { .check = check,
                        .fixture = fixture,
                        .provider = provider,
                        .state = check->args->seed,
                        .cases = calloc(MAX_POOL, sizeof *all.cases) };
    const uint32_t graphs = check->args->quick ? QUICK_GRAPHS : GRAPHS;
    struct offer_check test = { .check = check, .provider = provider };
    uint32_t tried = 0;

    if (all.cases == NULL)
        return;
    generate_sources(custom, custom_count, NULL, check->args->quick, take_source, &all);
    if (all.offered == 0)
        check_warn(check, "offers", provider->name, "at least one operator",
                   "see what assess refuses: inlay explain MODEL",
                   "none of %u cases of operators in common shapes is offered", all.count);
    for (uint32_t i = 0; i < graphs && !test.failed; i++) {
        uint64_t seed = check->args->seed * 1000 + i;
        uint32_t count = i == 0 ? 0 : i == 1 ? 1 : i == 2 ? MANY_NODES : 1 + (uint32_t)(seed * 7 % FEW_NODES);

        if (!check_unit(check, "%s: graph %u of %u nodes", provider->name, i, count))
            continue;
        try_graph(&all, count, seed, &test);
        tried++;
    }
    if (!test.failed && tried > 0)
        check_pass(check, "offers", provider->name, "%u graphs, %u nodes, %u offers: every node answered, consistently",
                   tried, test.node_count, test.offers);
    if (test.both > 0)
        check_warn(check, "offers", provider->name, "an offer or a refusal",
                   "refuse only nodes that are in no offer: the refusal of an "
                   "offered node is not shown",
                   "%u nodes are both offered and refused, such as %s", test.both, test.example_of_both);
    for (uint32_t i = 0; i < all.count; i++)
        case_deinit(&all.cases[i]);
    free(all.cases);
}

void check_group_offers(struct check *check)
{
    fixture_each(check, "offers", try_provider);
}
