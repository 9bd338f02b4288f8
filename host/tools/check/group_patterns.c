/* Runs the groups of nodes that a provider offers together, in graphs that differ from the usual one: a value inside
 * that other nodes read, that is an output of the graph, or that is read twice; several matches in one region, with the
 * same or other constants; operands in another order, of another shape, from another branch. The results are compared
 * with those of the nodes on another provider. */
#include "base/random.h"
#include "check/data.h"
#include "check/mutate.h"
#include "check/patterns.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

enum { RUNS = 240, QUICK_RUNS = 120, QUICK_TOTAL = 1400, TRIES_EACH = 6, MOST_FAILURES = 4, MOST_CHANGES = 3 };

struct variation {
    struct regions *regions;
    const struct patterns *patterns;
    const struct pattern *pattern;
};

static uint32_t below(const struct variation *v, uint32_t count)
{
    return region_roll(v->regions, count);
}

static struct part *any_part(const struct variation *v)
{
    return &v->regions->parts[below(v, v->regions->part_count)];
}

/* An input of the part that is present and not linked. INLAY_NONE: none was found. */
static uint32_t any_free_input(const struct variation *v, const struct part *part)
{
    const uint32_t count = part->entry.in_count, first = count > 0 ? below(v, count) : 0;

    for (uint32_t k = 0; k < count; k++) {
        const uint32_t i = (first + k) % count;

        if (part->entry.in[i].dtype != INLAY_UNDEFINED && part->producer[i] == INLAY_NONE &&
            part->shared[i] == INLAY_NONE)
            return i;
    }
    return INLAY_NONE;
}

static void as_it_is(const struct variation *v)
{
    (void)v;
}

/* Values inside of the group are outputs of the graph. */
static void show_inside(const struct variation *v)
{
    struct part *part = any_part(v);

    part->shown = UINT32_MAX;
    for (uint32_t j = 0; j < v->regions->part_count && below(v, 2) == 0; j++)
        v->regions->parts[j].shown = UINT32_MAX;
}

/* A node outside of the group reads a value inside. */
static void read_outside(const struct variation *v)
{
    const struct pattern_source *identity = patterns_source(v->patterns, "Identity");

    if (identity != NULL)
        (void)patterns_append(v->regions, &identity->usual[0], 0, below(v, v->regions->part_count));
}

/* The last node once more, for the same inputs: two matches share the nodes in front. */
static void repeat_last(const struct variation *v)
{
    const uint32_t last = v->pattern->count - 1;
    struct regions *regions = v->regions;

    if (!patterns_place(regions, &v->pattern->parts[last], 1))
        return;
    for (uint32_t i = 0; i < CASE_INPUTS; i++) { /* patterns_place() has moved the links */
        struct part *part = &regions->parts[regions->part_count - 1];

        part->producer[i] = v->pattern->parts[last].producer[i];
        part->shared[i] = v->pattern->parts[last].shared[i];
    }
}

/* Another match, with constants and inputs of its own. */
static void add_match(const struct variation *v)
{
    (void)patterns_place(v->regions, v->pattern->parts, v->pattern->count);
}

/* Another match that reads the constants or the inputs of the first one. */
static void add_sharing_match(const struct variation *v)
{
    const uint32_t first = v->regions->part_count;
    const bool constants = below(v, 2) == 0;

    if (!patterns_place(v->regions, v->pattern->parts, v->pattern->count))
        return;
    for (uint32_t j = 0; j < v->pattern->count; j++)
        for (uint32_t i = 0; i < v->pattern->parts[j].entry.in_count; i++) {
            struct part *part = &v->regions->parts[first + j];

            if (part->producer[i] != INLAY_NONE || part->shared[i] != INLAY_NONE ||
                part->entry.in[i].dtype == INLAY_UNDEFINED || part->entry.in[i].constant != constants)
                continue;
            part->shared[i] = j;
            part->shared_input[i] = i;
        }
}

/* Another match behind: it reads the result of the first one. */
static void chain_match(const struct variation *v)
{
    const uint32_t first = v->regions->part_count;
    struct part *part;
    uint32_t i;

    if (first == 0 || !patterns_place(v->regions, v->pattern->parts, v->pattern->count))
        return;
    part = &v->regions->parts[first + below(v, v->pattern->count)];
    i = any_free_input(v, part);
    if (i == INLAY_NONE)
        return;
    part->producer[i] = v->pattern->count - 1;
    part->producer_output[i] = 0;
}

/* An input reads a value of its own instead of one that others read or write, too. */
static void split_value(const struct variation *v)
{
    const uint32_t count = v->regions->part_count, first = below(v, count), at = below(v, CASE_INPUTS);

    for (uint32_t k = 0; k < count; k++) {
        struct part *part = &v->regions->parts[(first + k) % count];

        for (uint32_t n = 0; n < part->entry.in_count; n++) {
            const uint32_t i = (at + n) % part->entry.in_count;

            if (part->producer[i] == INLAY_NONE && part->shared[i] == INLAY_NONE)
                continue;
            part->producer[i] = part->shared[i] = INLAY_NONE;
            part->entry.in[i].data = NULL; /* the sizes are those of the pattern */
            return;
        }
    }
}

/* An input reads the value of another input, or the result of an earlier node. */
static void join_values(const struct variation *v)
{
    struct part *part = any_part(v), *other;
    const uint32_t j = (uint32_t)(part - v->regions->parts), i = any_free_input(v, part);
    uint32_t m;

    if (i == INLAY_NONE)
        return;
    if (j > 0 && below(v, 2) == 0) {
        part->producer[i] = below(v, j);
        part->producer_output[i] = 0;
        return;
    }
    m = below(v, j + 1);
    other = &v->regions->parts[m];
    if ((m == j && i == 0) || other->entry.in_count == 0)
        return;
    part->shared[i] = m;
    part->shared_input[i] = below(v, m == j ? i : other->entry.in_count);
}

static void swap_indices(uint32_t *list)
{
    const uint32_t first = list[0];

    list[0] = list[1];
    list[1] = first;
}

/* The first two operands of a node change places. */
static void swap_operands(const struct variation *v)
{
    struct part *part = any_part(v);
    const uint32_t j = (uint32_t)(part - v->regions->parts);
    const case_tensor first = part->entry.in[0];

    if (part->entry.in_count < 2 || part->shared[0] == j || part->shared[1] == j)
        return;
    part->entry.in[0] = part->entry.in[1];
    part->entry.in[1] = first;
    swap_indices(part->producer);
    swap_indices(part->producer_output);
    swap_indices(part->shared);
    swap_indices(part->shared_input);
    for (uint32_t k = j + 1; k < v->regions->part_count; k++)
        for (uint32_t i = 0; i < v->regions->parts[k].entry.in_count; i++)
            if (v->regions->parts[k].shared[i] == j && v->regions->parts[k].shared_input[i] < 2)
                v->regions->parts[k].shared_input[i] ^= 1;
}

/* A constant becomes an input, or an input a constant. */
static void change_constant(const struct variation *v)
{
    struct part *part = any_part(v);
    const uint32_t i = any_free_input(v, part);

    if (i != INLAY_NONE && part->entry.in[i].dtype != INLAY_STRING)
        part->entry.in[i].constant = !part->entry.in[i].constant;
}

/* An operand of another shape that broadcasts. */
static void change_form(const struct variation *v)
{
    struct part *part = any_part(v);
    const uint32_t i = any_free_input(v, part);

    if (i != INLAY_NONE)
        part->form[i] = (uint8_t)(1 + below(v, FORMS - 1));
}

/* Another size: of one dim, or of all free inputs with that size. */
static void change_size(const struct variation *v)
{
    static const int64_t sizes[] = { 0, 1, 1, 2, 5, 17 };
    struct part *part = any_part(v);
    const uint32_t i = any_free_input(v, part);
    const int64_t to = sizes[below(v, sizeof sizes / sizeof sizes[0])];
    const bool all = below(v, 4) > 0;
    case_tensor *tensor;
    int64_t from, *dim;

    if (i == INLAY_NONE || part->entry.in[i].rank == 0 || part->entry.in[i].given_count > 0)
        return;
    tensor = &part->entry.in[i];
    dim = &tensor->dims[below(v, tensor->rank)];
    from = *dim;
    *dim = to;
    for (uint32_t j = 0; all && j < v->regions->part_count; j++)
        for (uint32_t k = 0; k < v->regions->parts[j].entry.in_count; k++) {
            case_tensor *other = &v->regions->parts[j].entry.in[k];

            for (uint32_t d = 0; d < other->rank && other->given_count == 0; d++)
                if (other->dims[d] == from) {
                    other->dims[d] = to;
                    other->data = NULL;
                }
        }
    tensor->data = NULL;
}

/* Opens a place for a part at `at`. */
static bool open_place(struct regions *regions, uint32_t at)
{
    if (regions->part_count == MAX_PARTS)
        return false;
    memmove(&regions->parts[at + 1], &regions->parts[at], (regions->part_count - at) * sizeof regions->parts[0]);
    regions->part_count++;
    for (uint32_t j = at + 1; j < regions->part_count; j++)
        for (uint32_t i = 0; i < CASE_INPUTS; i++) {
            struct part *part = &regions->parts[j];

            part->producer[i] += part->producer[i] != INLAY_NONE && part->producer[i] >= at;
            part->shared[i] += part->shared[i] != INLAY_NONE && part->shared[i] >= at;
        }
    return true;
}

/* An operand comes from another branch, whose node is between those of the group. */
static void insert_branch(const struct variation *v)
{
    struct regions *regions = v->regions;
    const uint32_t j = below(v, regions->part_count), i = any_free_input(v, &regions->parts[j]);
    const struct pattern_source *between = NULL;
    struct part moved;

    if (i == INLAY_NONE || regions->parts[j].entry.in[i].constant || regions->parts[j].entry.in[i].given_count > 0)
        return;
    between = patterns_source(v->patterns, regions->parts[j].entry.in[i].dtype == INLAY_FLOAT ? "Neg" : "Identity");
    if (between == NULL || !patterns_append(regions, &between->usual[0], 0, INLAY_NONE))
        return;
    moved = regions->parts[--regions->part_count];
    moved.entry.in[0] = regions->parts[j].entry.in[i];
    moved.entry.in[0].data = NULL;
    if (!open_place(regions, j))
        return;
    regions->parts[j] = moved;
    regions->parts[j + 1].producer[i] = j;
    regions->parts[j + 1].producer_output[i] = 0;
}

/* Other attributes, sizes or types of a node. */
static void change_node(const struct variation *v)
{
    struct part *part = any_part(v);
    const struct pattern_source *source = patterns_source(v->patterns, part->entry.op_type);
    const op_attr *attr = NULL;
    op_case changed;

    if (source != NULL && source->schema.attr_count > 0 && below(v, 3) > 0)
        attr = &source->schema.attrs[below(v, source->schema.attr_count)];
    if (source == NULL || !mutate_case(&part->entry, &source->source, attr, false, &v->regions->state, &changed))
        return;
    case_deinit(&part->entry);
    part->entry = changed;
    for (uint32_t i = 0; i < part->entry.in_count; i++) {
        part->entry.in[i].data = NULL;
        part->entry.in[i].same_as = 0; /* `shared` says which inputs are one value */
    }
    for (uint32_t i = part->entry.in_count; i < CASE_INPUTS; i++)
        part->producer[i] = part->shared[i] = INLAY_NONE;
}

static void (*const changes[])(const struct variation *v) = {
    as_it_is,          show_inside,   read_outside, repeat_last, change_form,   add_match,
    add_sharing_match, chain_match,   split_value,  join_values, swap_operands, change_constant,
    change_form,       insert_branch, change_node,  change_node, change_size
};
enum { CHANGES = sizeof changes / sizeof changes[0] };

/* Runs what the provider offers for the graph of the parts. */
static void run_offers(struct regions *regions)
{
    case_instance built = { .model = NULL };
    uint32_t groups = 0;

    if (region_make_model(regions, &built) && region_make_states(&built) && region_assess(regions, &built)) {
        for (uint32_t i = 0; i < regions->offer_count && regions->failed < MOST_FAILURES; i++)
            if (regions->offers[i].node_count > 1 && ++groups <= 3 && region_choose_offer(regions, &built.snapshot, i))
                region_run(regions, &built);
        if (groups > 0 && regions->offer_count > 1 && regions->failed < MOST_FAILURES &&
            region_choose(regions, &built.snapshot, 1))
            region_run(regions, &built);
    }
    case_instance_deinit(&built);
}

/* Runs each offer for a model of --data, of one node, too, and what may be merged. */
static void run_model(struct regions *regions, const char *name)
{
    case_instance built = { .model = NULL };

    if (!check_unit(regions->check, "%s: %s", regions->provider->name, name) || !patterns_evaluate(regions))
        return;
    if (region_make_model(regions, &built) && region_make_states(&built) && region_assess(regions, &built)) {
        regions->models += regions->offer_count > 0;
        for (uint32_t i = 0; i < regions->offer_count && regions->failed < MOST_FAILURES; i++)
            if (region_choose_offer(regions, &built.snapshot, i))
                region_run(regions, &built);
        if (regions->failed < MOST_FAILURES && region_choose(regions, &built.snapshot, 1))
            region_run(regions, &built);
    }
    case_instance_deinit(&built);
}

static void run_models(struct regions *regions)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    uint32_t count;

    /* Group `results` reports a folder without cases. */
    if (data_graphs(regions->check->args->data, regions, run_model, &count, &diag) == INLAY_OK &&
        regions->failed == 0 && count > 0)
        check_pass(regions->check, "patterns", regions->check->args->data,
                   "%u of its %u models of 2 to %d operators have offers: %u regions run", regions->models, count,
                   MAX_PARTS, regions->tried);
    regions->tried = regions->declined = regions->compared = 0;
}

/* Each change alone first, then up to three at a time. */
static void try_pattern(const struct variation *v, uint32_t wanted)
{
    struct regions *regions = v->regions;
    const uint32_t before = regions->tried, left_out = regions->check->compiles.left_out;

    for (uint32_t n = 0; n < TRIES_EACH * wanted && regions->tried - before < wanted &&
                         regions->failed < MOST_FAILURES && regions->check->compiles.left_out == left_out;
         n++) {
        regions->state = regions->check->args->seed * 1000 + regions->check->unit * UINT64_C(100000) + n;
        check_tick(regions->check);
        if (patterns_place(regions, v->pattern->parts, v->pattern->count)) {
            if (n < 2 * CHANGES)
                changes[n % CHANGES](v);
            for (uint32_t i = n < 2 * CHANGES ? 0 : 1 + below(v, MOST_CHANGES); i > 0; i--)
                changes[below(v, CHANGES)](v);
            if (patterns_evaluate(regions))
                run_offers(regions);
        }
        region_drop_parts(regions);
    }
}

static void report(const struct regions *regions, const struct patterns *patterns, bool is_first_process)
{
    const char *name = regions->provider->name;

    if (patterns->count == 0)
        check_skip(regions->check, "patterns", name, "it offers no group of nodes");
    else if (regions->failed > 0 || !is_first_process)
        return;
    else if (regions->compared == 0)
        check_fail(regions->check, "patterns", name, "a group of nodes whose results are compared",
                   "offer only groups that compile accepts",
                   "%u groups are offered, such as %s; %u of %u regions were declined", patterns->count,
                   patterns->list[0].name, regions->declined, regions->tried);
    else
        check_pass(regions->check, "patterns", name,
                   "%u regions of %u groups of nodes, such as %.120s: same results as the nodes alone, %u declined",
                   regions->tried, patterns->count, patterns->list[0].name, regions->declined);
}

static void try_provider(struct check *check, const struct fixture *fixture, const loaded_provider *provider,
                         const inlay_operator *const *custom, uint32_t custom_count)
{
    struct regions *regions = calloc(1, sizeof *regions);
    struct patterns *patterns = calloc(1, sizeof *patterns);
    uint32_t share;

    if (regions == NULL || patterns == NULL)
        goto done;
    *regions = (struct regions){ .check = check, .name = "patterns", .fixture = fixture, .provider = provider };
    patterns->regions = regions;
    if (check->args->data != NULL)
        run_models(regions);
    check_subject(check, "%s: groups of nodes", provider->name);
    if (patterns_find(patterns, custom, custom_count)) {
        share = QUICK_TOTAL / (patterns->count + 1);
        share = !check->args->quick ? RUNS : share < QUICK_RUNS ? share : QUICK_RUNS;
        for (uint32_t p = 0; p < patterns->count && regions->failed < MOST_FAILURES; p++)
            if (check_unit(check, "%s: %s", provider->name, patterns->list[p].name))
                try_pattern(&(struct variation){ regions, patterns, &patterns->list[p] }, share);
        if (patterns->count == MOST_PATTERNS && check->args->child.from == 0)
            check_skip(check, "patterns", provider->name,
                       "further groups of nodes: the search ended at %d; --op GLOB finds those of other operators",
                       MOST_PATTERNS);
        report(regions, patterns, check->args->child.from == 0);
    }
    patterns_deinit(patterns);
done:
    free(patterns);
    free(regions);
}

void check_group_patterns(struct check *check)
{
    const inlay_operator *custom[64];
    struct fixture fixture;
    uint32_t custom_count;

    if (!fixture_open(check, "patterns", true, &fixture))
        return;
    custom_count = fixture_operators(&fixture, custom, 64);
    for (uint32_t i = 0; i < fixture.own_count; i++)
        try_provider(check, &fixture, &fixture.own[i], custom, custom_count);
    fixture_close(&fixture);
}
