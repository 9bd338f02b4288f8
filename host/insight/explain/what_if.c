/* What-if: the assignment under other rules with the same offers, as for a session created with these rules. */
#include "base/nearest.h"
#include "inlay/check.h"
#include "base/memory.h"
#include "explain/facts.h"
#include <stdlib.h>
#include <string.h>

/* The changed rules and the resulting assignments. */
struct scenario {
    struct facts *facts;
    partition_rules rules;
    node_rule *pins, *forbids; /* rules.pins and rules.forbids */
    uint32_t max_threads;      /* 0 = unchanged */
    struct partition *choices; /* [graph_count] */
    struct arena scratch;      /* of the choices */
};

static const char *nth_provider(const void *ctx, uint32_t i)
{
    return facts_provider_name(ctx, i);
}

static inlay_status check_provider(const struct facts *facts, const char *rule, const char *name, inlay_diag *diag)
{
    const char *nearest;

    for (uint32_t i = 0; i < facts->provider_count; i++)
        if (strcmp(facts_provider_name(facts, i), name) == 0)
            return INLAY_OK;
    nearest = nearest_name(name, nth_provider, facts, facts->provider_count);
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "what-if %s: the session has no provider '%s'%s%s%s", rule, name,
                      nearest != NULL ? "; did you mean '" : "", nearest != NULL ? nearest : "",
                      nearest != NULL ? "'?" : "");
}

static inlay_status set_policy(struct scenario *scenario, const char *rule, const char *value, inlay_diag *diag)
{
    scenario->rules.by_priority = strcmp(value, "priority") == 0;
    if (scenario->rules.by_priority || strcmp(value, "cost") == 0)
        return INLAY_OK;
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "what-if %s: policy must be cost or priority", rule);
}

static inlay_status set_objective(struct scenario *scenario, const char *rule, const char *value, inlay_diag *diag)
{
    const struct facts *facts = scenario->facts;
    uint32_t objective = 0;

    while (objective < OBJECTIVE_COUNT && strcmp(partition_objective_name(objective), value) != 0)
        objective++;
    if (objective == OBJECTIVE_COUNT)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "what-if %s: objective must be latency, energy or memory",
                          rule);
    for (uint32_t i = 0; objective == OBJECTIVE_ENERGY && i < facts->provider_count; i++)
        if (facts->session->providers[i].watts == 0)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "what-if %s: the power of %s is unknown; set power_watts to %s=WATTS", rule,
                              facts_provider_name(facts, i), facts_provider_name(facts, i));
    scenario->rules.objective = objective;
    if (objective != OBJECTIVE_LATENCY)
        scenario->rules.left_out = NULL; /* `inlay tune` compared times */
    return INLAY_OK;
}

static inlay_status set_margins(struct scenario *scenario, const char *rule, const char *value, inlay_diag *diag)
{
    if (strcmp(value, "none") != 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "what-if %s: margins must be none", rule);
    scenario->rules.no_margins = true;
    return INLAY_OK;
}

static inlay_status set_threads(struct scenario *scenario, const char *rule, const char *value, inlay_diag *diag)
{
    char *end = NULL;
    long threads = strtol(value, &end, 10);

    if (value[0] == '\0' || *end != '\0' || threads < 1 || threads > 4096)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "what-if %s: threads must be a number from 1 to 4096", rule);
    scenario->max_threads = (uint32_t)threads;
    return INLAY_OK;
}

/* Adds the pin of "PATTERN=PROVIDER" or the forbid of "PATTERN!=PROVIDER". Names of nodes may contain '=', names of
 * providers do not. */
static inlay_status add_node_rule(struct scenario *scenario, const char *rule, inlay_diag *diag)
{
    const char *equals = strrchr(rule, '=');
    bool forbid = equals != NULL && equals > rule && equals[-1] == '!';
    char *pattern;
    inlay_status status;

    if (equals == NULL || equals == rule + forbid)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "what-if %s: expected PATTERN=PROVIDER, PATTERN!=PROVIDER, -PROVIDER, policy=NAME, "
                          "objective=NAME, margins=none or threads=N",
                          rule);
    pattern = arena_string_n(&scenario->facts->arena, rule, (size_t)(equals - rule) - forbid);
    if (pattern == NULL)
        return no_memory(diag, "for what-if %s", rule);
    status = check_provider(scenario->facts, rule, equals + 1, diag);
    if (status == INLAY_OK)
        status = facts_check_pattern(scenario->facts, "what-if", pattern, diag);
    if (status != INLAY_OK)
        return status;
    if (forbid)
        scenario->forbids[scenario->rules.forbid_count++] = (node_rule){ pattern, equals + 1 };
    else
        scenario->pins[scenario->rules.pin_count++] = (node_rule){ pattern, equals + 1 };
    return INLAY_OK;
}

static inlay_status add_rule(struct scenario *scenario, const char *rule, inlay_diag *diag)
{
    inlay_status status;

    if (strncmp(rule, "policy=", 7) == 0)
        return set_policy(scenario, rule, rule + 7, diag);
    if (strncmp(rule, "objective=", 10) == 0)
        return set_objective(scenario, rule, rule + 10, diag);
    if (strncmp(rule, "margins=", 8) == 0)
        return set_margins(scenario, rule, rule + 8, diag);
    if (strncmp(rule, "threads=", 8) == 0)
        return set_threads(scenario, rule, rule + 8, diag);
    if (rule[0] != '-' || strchr(rule, '=') != NULL)
        return add_node_rule(scenario, rule, diag);
    status = check_provider(scenario->facts, rule, rule + 1, diag);
    if (status == INLAY_OK)
        scenario->forbids[scenario->rules.forbid_count++] = (node_rule){ "*", rule + 1 };
    return status;
}

/* The session's rules after the new rules: the first pin that matches applies. */
static inlay_status make_rules(struct scenario *scenario, const char *const *rules, uint32_t count, inlay_diag *diag)
{
    const partition_rules *old = scenario->facts->session->env.rules;
    partition_rules none = { 0 };
    inlay_status status = INLAY_OK;

    old = old != NULL ? old : &none;
    scenario->rules = *old;
    scenario->rules.saved_plan = NULL;
    scenario->rules.pin_count = scenario->rules.forbid_count = 0;
    scenario->pins = arena_array(&scenario->facts->arena, (size_t)old->pin_count + count + 1, sizeof *scenario->pins);
    scenario->forbids =
        arena_array(&scenario->facts->arena, (size_t)old->forbid_count + count + 1, sizeof *scenario->forbids);
    if (scenario->pins == NULL || scenario->forbids == NULL)
        return no_memory(diag, "for the rules of a what-if");
    for (uint32_t i = 0; i < count && status == INLAY_OK; i++)
        status = add_rule(scenario, rules[i], diag);
    for (uint32_t i = 0; i < old->pin_count; i++)
        scenario->pins[scenario->rules.pin_count++] = old->pins[i];
    for (uint32_t i = 0; i < old->forbid_count; i++)
        scenario->forbids[scenario->rules.forbid_count++] = old->forbids[i];
    scenario->rules.pins = scenario->pins;
    scenario->rules.forbids = scenario->forbids;
    return status;
}

const struct partition *facts_at_threads(const facts_graph *graph, uint32_t threads, struct arena *arena)
{
    const partition_request request = facts_request(graph);
    struct partition *base = arena_copy(arena, graph->parts, sizeof *base);

    if (base == NULL)
        return NULL;
    base->offers = arena_copy(arena, base->offers, base->offer_count * sizeof *base->offers);
    for (uint32_t i = 0; base->offers != NULL && i < base->offer_count; i++) {
        partition_offer *offer = &base->offers[i];
        const cost_question question = { .graph = request.snapshot,
                                         .provider = &request.providers[offer->provider],
                                         .offer = offer,
                                         .values = base->profile,
                                         .max_threads = threads,
                                         .weight_bytes = base->weight_bytes };
        cost_price_offer(request.costs, &question, offer);
    }
    return base->offers == NULL && base->offer_count > 0 ? NULL : base;
}

/* *out_possible: false if no assignment satisfies the rules; diag then has the reason. */
static inlay_status assign_again(struct scenario *scenario, uint32_t index, bool *out_possible, inlay_diag *diag)
{
    const facts_graph *graph = scenario->facts->graphs[index];
    partition_request request = facts_request(graph);
    const struct partition *base = graph->parts;
    inlay_status status;

    request.rules = &scenario->rules;
    if (scenario->max_threads != 0) {
        request.max_threads = scenario->max_threads;
        base = facts_at_threads(graph, scenario->max_threads, &scenario->scratch);
    }
    if (base == NULL)
        return no_memory(diag, "for a what-if");
    status = partition_again(&request, base, &scenario->scratch, &scenario->choices[index], diag);
    *out_possible = status == INLAY_OK;
    return status == INLAY_OUT_OF_MEMORY ? status : INLAY_OK;
}

/* Adds up the graphs, bodies before the graph that contains them. */
static void add_up(struct scenario *scenario, double *totals, double *energies, facts_outcome *out)
{
    const struct facts *facts = scenario->facts;

    for (uint32_t i = facts->graph_count; i-- > 0;) {
        const facts_graph *graph = facts->graphs[i];
        const struct partition *choice = &scenario->choices[i];

        totals[i] = facts_displayed_sum(choice);
        energies[i] = facts_displayed_energy(facts, choice);
        for (uint32_t region = 0; region < graph->region_count; region++)
            for (uint32_t b = 0; b < graph->regions[region].body_count; b++) {
                const facts_graph *body = graph->regions[region].bodies[b];
                const struct partition *inner = &scenario->choices[body->index];

                totals[i] += facts_repeated_ns(body, totals[body->index], inner->once_ns);
                energies[i] += facts_repeated_ns(body, energies[body->index], inner->once_nj);
            }
        out->kept_bytes += choice->kept_bytes;
        out->compared_gain_ns += graph->parts->cost_ns - choice->cost_ns;
        INLAY_CHECK(choice->region_count > 0 || graph->region_count == 0);
        out->copy_count += choice->copy_count - choice->import_count;
        out->copies_ns += facts_copies_per_run(graph, facts_sum_of_copies(choice), choice->once_ns);
    }
    out->ns = totals[0];
    out->energy_nj = energies[0];
}

/* Records a node that moves to provider `to`. */
static void add_move(facts_outcome *out, uint32_t from, uint32_t to, const char *name)
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

static int by_descending_count(const void *a, const void *b)
{
    const facts_move *first = a, *second = b;

    if (first->count != second->count)
        return first->count < second->count ? 1 : -1;
    if (first->from != second->from)
        return first->from < second->from ? -1 : 1;
    return (first->to > second->to) - (first->to < second->to);
}

static void find_moves(struct scenario *scenario, facts_outcome *out)
{
    for (uint32_t i = 0; i < scenario->facts->graph_count; i++) {
        const facts_graph *graph = scenario->facts->graphs[i];
        for (uint32_t region_index = 0; region_index < scenario->choices[i].region_count; region_index++) {
            const partition_region *region = &scenario->choices[i].regions[region_index];
            for (uint32_t node = 0; node < region->node_count; node++) {
                uint32_t from = graph->regions[graph->nodes[region->nodes[node]].region].region->provider;
                if (from != region->provider)
                    add_move(out, from, region->provider, facts_node_info(graph, region->nodes[node])->name.data);
            }
        }
    }
    qsort(out->moves, out->move_count, sizeof *out->moves, by_descending_count);
}

inlay_status facts_what_if(struct facts *facts, const char *const *rules, uint32_t count, facts_outcome **out,
                           inlay_diag *diag)
{
    struct scenario scenario = { .facts = facts };
    inlay_diag why = INLAY_DIAG_INIT;
    inlay_status status = INLAY_OK;
    facts_outcome *outcome = arena_alloc(&facts->arena, sizeof *outcome);
    double *totals = arena_array(&facts->arena, (size_t)facts->graph_count + 1, sizeof *totals);
    double *energies = arena_array(&facts->arena, (size_t)facts->graph_count + 1, sizeof *energies);
    bool possible = true;

    *out = outcome;
    scenario.choices = arena_array(&facts->arena, (size_t)facts->graph_count + 1, sizeof *scenario.choices);
    if (outcome == NULL || totals == NULL || energies == NULL || scenario.choices == NULL)
        return no_memory(diag, "for a what-if");
    *outcome = (facts_outcome){ 0 };
    outcome->moves = arena_array(&facts->arena, ((size_t)facts->provider_count + 1) * (facts->provider_count + 1),
                                 sizeof *outcome->moves);
    if (outcome->moves == NULL)
        return no_memory(diag, "for a what-if");
    INLAY_TRY(make_rules(&scenario, rules, count, diag));
    for (uint32_t i = 0; i < facts->graph_count && possible; i++)
        if ((status = assign_again(&scenario, i, &possible, &why)) != INLAY_OK)
            break;
    if (status == INLAY_OK && !possible)
        outcome->impossible = arena_string(&facts->arena, why.text);
    if (status != INLAY_OK || (!possible && outcome->impossible == NULL)) {
        status = no_memory(diag, "for a what-if");
        goto done;
    }
    if (possible) {
        add_up(&scenario, totals, energies, outcome);
        find_moves(&scenario, outcome);
    }
done:
    arena_deinit(&scenario.scratch);
    return status;
}

inlay_status facts_find_kept_back(struct facts *facts, inlay_diag *diag)
{
    static const char *const rules[] = { "margins=none" };
    const partition_rules *session = &facts->session->rules;
    facts_outcome *outcome = NULL;
    inlay_status status;

    if (session->by_priority || session->saved_plan != NULL || session->objective != OBJECTIVE_LATENCY)
        return INLAY_OK;
    status = facts_what_if(facts, rules, 1, &outcome, diag);
    if (status == INLAY_OK && outcome->impossible == NULL && outcome->compared_gain_ns > FACTS_TIE_NS &&
        facts->ns - outcome->ns > FACTS_TIE_NS)
        facts->kept_back_ns = facts->ns - outcome->ns;
    return status;
}

inlay_status facts_objectives(struct facts *facts, facts_outcome ***out, inlay_diag *diag)
{
    facts_outcome **outcomes = arena_array(&facts->arena, OBJECTIVE_COUNT, sizeof(facts_outcome *));
    inlay_status status = INLAY_OK;

    *out = outcomes;
    if (outcomes == NULL)
        return no_memory(diag, "for the objectives");
    for (uint32_t objective = 0; objective < OBJECTIVE_COUNT && status == INLAY_OK; objective++) {
        inlay_diag why = INLAY_DIAG_INIT;
        char rule[32];
        const char *const rules[] = { rule };

        (void)snprintf(rule, sizeof rule, "objective=%s", partition_objective_name(objective));
        status = facts_what_if(facts, rules, 1, &outcomes[objective], &why);
        if (status == INLAY_INVALID_ARGUMENT) { /* the power of a device is unknown */
            outcomes[objective]->impossible = arena_string(&facts->arena, strchr(why.text, ':') + 2);
            status = outcomes[objective]->impossible != NULL ? INLAY_OK : INLAY_OUT_OF_MEMORY;
        }
        if (status != INLAY_OK)
            return no_memory(diag, "for the objectives");
    }
    return status;
}
