/* Runs offers on random cases: a walk from the cases of recipes.def and the nodes of the models of --model, in which
 * each step changes sizes, attributes, types, omitted inputs and constants (mutate.h). A case is legal if another
 * provider runs it; the walk continues from offered cases, and prefers attributes, inputs and types that few offers
 * had. Threads, alignment, aliases and the contents of memory are random, too. */
#include "base/element.h"
#include "base/random.h"
#include "check/certify.h"
#include "check/compare_results.h"
#include "check/concurrent.h"
#include "check/coverage.h"
#include "check/defined.h"
#include "check/engines.h"
#include "check/features.h"
#include "check/host.h"
#include "check/models.h"
#include "check/mutate.h"
#include "check/peers.h"
#include "check/special.h"
#include "inlay/check.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SEEDS = 64,
    MODEL_SEEDS = 48, /* nodes of models that the walk starts from, too */
    POOL = 192,
    CANDIDATES = 4,     /* changed cases, of which the walk takes the newest */
    ATTEMPTS_EACH = 40, /* changes that are tried for each run */
    RUNS = 1500,        /* offers of an operator that are run ... */
    QUICK_RUNS = 600,   /* ... with --quick, where all operators together have QUICK_TOTAL, and each at least ... */
    QUICK_TOTAL = 12000,
    QUICK_LEAST = 40,
    QUICK_OLDER = 5,    /* an older version has this part of the runs */
    FEW_RUNS = 4,       /* offers with a trait that are enough */
    MOST_TRIES = 1000,  /* cases with a trait that are tried before the walk gives up on having enough offers */
    RUN_TRIES = 64,     /* tries that count as much as a run when the walk chooses a trait */
    CERTIFIED_RUNS = 5, /* half as many: a certificate has more runs */
    LARGE_SCALE = 24,   /* n of recipes.def in the cases with many elements of a certificate */
    QUICK_LARGE_SCALE = 12,
    LARGE_CASES = 2,
    MOST_FAILURES = 2,         /* ... that are reported */
    CERTIFIED_FAILURES = 4000, /* after which the walk ends if it looks for where results differ */
    MOST_RESULT = 1 << 15,     /* elements */
    TRAITS = OP_MAX_ATTRS + 2 * CASE_INPUTS
};

/* What a case of an operator can have: an attribute that is not the default, an optional input, a constant input. */
struct trait {
    const char *name;
    uint32_t legal, ran, tries;
    uint32_t asked; /* cases that another provider ran and this one refused, while it had not offered any */
    bool is_constant;
};

struct walk {
    struct check *check;
    const struct fixture *fixture;
    const loaded_provider *provider;
    const case_source *source;
    op_case pool[POOL]; /* [count] legal cases, the first of them from recipes */
    bool offered[POOL];
    uint32_t count, kept; /* the first cases, which stay in the pool */
    const model_set *models;
    bool has_model_node; /* of the current operator and version */
    uint64_t state;
    uint32_t left_out; /* compiles when the operator began; one more, and its other cases would be left out, too */
    uint32_t wanted, runs, special;
    case_failures failures;
    struct trait traits[TRAITS];
    uint32_t trait_count;
    uint32_t types[INLAY_DTYPE_COUNT]; /* of the first input */
    bool is_known;                     /* the provider knows the operator */
    bool is_large;                     /* the current case may have more than MOST_RESULT elements */
    feature_map *features;             /* NULL: no memory */
    uint32_t large;                    /* such cases so far */
};

static bool is_default(const op_attr *formal, const inlay_attr_info *attr)
{
    if (!formal->has_default)
        return false;
    switch (formal->kind) {
    case INLAY_ATTR_INT:
        return attr->i == formal->i;
    case INLAY_ATTR_FLOAT:
        return fabs(attr->f - formal->f) <= 1e-6 * fabs(formal->f);
    case INLAY_ATTR_STRING:
        return strcmp(attr->s.data, formal->s) == 0;
    default:
        return false;
    }
}

/* A list that means "nothing special": strides and dilations of 1, pads of 0. */
static bool is_neutral(const inlay_attr_info *attr)
{
    const int64_t neutral = strcmp(attr->name.data, "pads") == 0 ? 0 : 1;
    static const char *const names[] = { "pads", "strides", "dilations" };
    bool found = false;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        found = found || strcmp(attr->name.data, names[i]) == 0;
    for (uint32_t i = 0; found && i < attr->count; i++)
        found = attr->ints[i] == neutral;
    return found;
}

static bool has_attr(const op_case *entry, const op_attr *formal)
{
    for (uint32_t i = 0; i < entry->attr_count; i++)
        if (strcmp(entry->attrs[i].name.data, formal->name) == 0)
            return !is_default(formal, &entry->attrs[i]) && !is_neutral(&entry->attrs[i]);
    return false;
}

static void add_trait(struct walk *walk, const char *name, bool is_constant)
{
    INLAY_CHECK(walk->trait_count < TRAITS);
    walk->traits[walk->trait_count++] = (struct trait){ .name = name, .is_constant = is_constant };
}

/* The traits of the operator: its attributes first. */
static void list_traits(struct walk *walk)
{
    const op_schema *schema = walk->source->schema;

    walk->trait_count = 0;
    for (uint32_t i = 0; i < schema->attr_count; i++)
        add_trait(walk, schema->attrs[i].name, false);
    for (uint32_t i = 0; i < schema->input_count && i < CASE_INPUTS; i++)
        add_trait(walk, schema->inputs[i].name, true);
    for (uint32_t i = 0; i < schema->input_count && i < CASE_INPUTS; i++)
        add_trait(walk, schema->inputs[i].option == OP_OPTIONAL ? schema->inputs[i].name : NULL, false);
}

static bool has_trait(const struct walk *walk, const op_case *entry, uint32_t trait)
{
    const op_schema *schema = walk->source->schema;
    const uint32_t inputs = schema->input_count < CASE_INPUTS ? schema->input_count : CASE_INPUTS;
    uint32_t input;

    INLAY_CHECK(trait < walk->trait_count);
    if (trait < schema->attr_count)
        return has_attr(entry, &schema->attrs[trait]);
    input = (trait - schema->attr_count) % inputs;
    return input < entry->in_count && entry->in[input].dtype != INLAY_UNDEFINED &&
           (!walk->traits[trait].is_constant || entry->in[input].constant);
}

static void count_traits(struct walk *walk, const op_case *entry, bool ran)
{
    for (uint32_t t = 0; t < walk->trait_count; t++) {
        const bool has = has_trait(walk, entry, t);

        walk->traits[t].legal += has;
        walk->traits[t].ran += has && ran;
    }
}

/* Whether the case has a trait that no offered case had so far, and no case that this provider refused although another
 * one runs it. */
static bool has_open_trait(const struct walk *walk, const op_case *entry)
{
    for (uint32_t t = 0; t < walk->trait_count; t++)
        if (walk->traits[t].name != NULL && walk->traits[t].ran == 0 && walk->traits[t].asked == 0 &&
            has_trait(walk, entry, t))
            return true;
    return false;
}

static void count_asked(struct walk *walk, const op_case *entry)
{
    for (uint32_t t = 0; t < walk->trait_count; t++)
        walk->traits[t].asked += has_trait(walk, entry, t);
}

/* Adds traits to the text: with the number of offers, "strides 12, pads 30", those that were refused, "never offered:
 * group", or those that no legal case had, "never asked: dilations". */
enum { TRAITS_OFFERED, TRAITS_REFUSED, TRAITS_NOT_ASKED, TRAIT_KINDS };
static size_t put_traits(const struct walk *walk, uint32_t kind, char *text, size_t bytes, size_t used)
{
    static const char *const heads[] = { "; ", "; never offered: ", "; never asked: " };
    bool first = true;

    for (uint32_t t = 0; t < walk->trait_count && used < bytes; t++) {
        const struct trait *trait = &walk->traits[t];
        const uint32_t is = trait->ran > 0 ? TRAITS_OFFERED : trait->asked > 0 ? TRAITS_REFUSED : TRAITS_NOT_ASKED;

        if (trait->name == NULL || is != kind)
            continue;
        used += (size_t)snprintf(text + used, bytes - used, "%s%s%s", first ? heads[kind] : ", ",
                                 trait->is_constant ? "constant " : "", trait->name);
        if (kind == TRAITS_OFFERED && used < bytes)
            used += (size_t)snprintf(text + used, bytes - used, " %u", trait->ran);
        first = false;
    }
    return used < bytes ? used : bytes;
}

static void report_source(const struct walk *walk, const char *subject)
{
    char text[680];
    size_t used = (size_t)snprintf(text, sizeof text, "%u offers run (", walk->runs);

    for (uint32_t dtype = 1, first = 1; dtype < INLAY_DTYPE_COUNT && used < sizeof text; dtype++)
        if (walk->types[dtype] > 0) {
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s %u", first ? "" : ", ",
                                     inlay_dtype_name((inlay_dtype)dtype), walk->types[dtype]);
            first = 0;
        }
    if (used < sizeof text)
        used += (size_t)snprintf(text + used, sizeof text - used, "), %u with NaN", walk->special);
    used = used < sizeof text ? used : sizeof text;
    for (uint32_t kind = 0; kind < TRAIT_KINDS; kind++)
        used = put_traits(walk, kind, text, sizeof text, used);
    check_pass(walk->check, "random", subject, "%s", text);
}

/* Does the node read a value at two inputs? */
static bool has_same(const op_case *entry)
{
    for (uint32_t i = 0; i < entry->in_count; i++)
        if (entry->in[i].same_as > 0)
            return true;
    return false;
}

/* Runs with one NaN in the inputs: the results must have NaN where the results of the other provider have it. */
static void run_special(struct walk *walk, const struct harness *harness)
{
    const uint32_t masked = special_rules(harness->entry->op_type, 1);
    const uint32_t all =
        masked != 0 && random_below(&walk->state, 2) == 0 ? masked : special_rules(harness->entry->op_type, 0);
    /* Attributes such as an alpha of 0 leave open whether a sum has the NaN of a term. */
    const uint32_t rules = (all & SPECIAL_ONE_NAN) != 0 ? all | SPECIAL_LOST : all;
    const harness_options options = { .fill = 0x11 };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct harness other = *harness;
    harness_result want, got;
    op_case entry;
    char text[400];

    /* A weight that is NaN meets padding, which kernels may skip. */
    if (rules == 0 || harness->entry->in_count == 0 || harness->entry->in[0].constant || has_same(harness->entry) ||
        !case_special(harness->entry, special_values(rules), &entry))
        return;
    other.entry = &entry;
    if (peers_run(walk->check, walk->fixture, harness->built, &entry, &want)) {
        const uint32_t failures = walk->failures.count;

        walk->special++;
        certify_begin(walk->check, walk->provider, harness->built, &entry, true);
        if (harness_run(&other, &options, &got, &diag) != INLAY_OK)
            case_fail(&walk->failures, &entry, "a run with NaN and infinities", "they are ordinary values", "%s",
                      diag.text);
        else if (special_compare(&got, &want, rules, text, sizeof text) == SPECIAL_DIFFERENT)
            case_fail(&walk->failures, &entry, "the result of the other provider for NaN, infinities and zeros",
                      "compare so that NaN passes through; do not saturate at the largest number", "%s", text);
        certify_end(walk->check, walk->failures.count == failures, 0);
        harness_result_deinit(&got);
        harness_result_deinit(&want);
    }
    case_deinit(&entry);
}

static void run_concurrently(struct walk *walk, const struct harness *harness, const harness_result *want)
{
    concurrent_run run[CONCURRENT_RUNS];
    const uint32_t started = concurrent_runs(harness, run);
    char text[400];

    for (uint32_t i = 0; i < started; i++) {
        if (run[i].status != INLAY_OK)
            case_fail(&walk->failures, harness->entry, "two threads can run it concurrently",
                      "keep mutable data of a run in its workspace, not in the state", "%s", run[i].diag.text);
        else if (!compare_results(&run[i].result, want, text, sizeof text))
            case_fail(&walk->failures, harness->entry, "the same results on two threads concurrently",
                      "keep mutable data of a run in its workspace, not in the state", "%s", text);
        harness_result_deinit(&run[i].result);
    }
}

static bool same_results(const op_case *entry, const harness_result *got, const harness_result *want, char *text,
                         size_t bytes)
{
    for (uint32_t o = 0; o < want->out_count && o < got->out_count; o++)
        if (!compare_one_result(got, want, o, case_rounding(entry), text, bytes))
            return false;
    return true;
}

/* Runs the case once with random options, and now and then in further ways. */
static void run_compiled(struct walk *walk, const struct harness *harness, const harness_result *want)
{
    const bool serial = (harness->provider->table->flags & INLAY_PROVIDER_SERIAL_EXECUTE) != 0;
    const uint32_t failures = walk->failures.count;
    const bool scattered = harness->threads > 1 && random_below(&walk->state, 4) == 0;
    inlay_diag diag = INLAY_DIAG_INIT;
    harness_options options = { .tight = random_below(&walk->state, 2) == 0,
                                .in_place = random_below(&walk->state, 2) == 0,
                                .unbound = random_below(&walk->state, 4) == 0,
                                .poisoned = random_below(&walk->state, 2) == 0,
                                .fill = (uint8_t)random_bits(&walk->state) };
    harness_result got;
    char text[400];
    inlay_status status;

    certify_begin(walk->check, walk->provider, harness->built, harness->entry, false);
    if (random_below(&walk->state, 3) == 0)
        options.then = harness->entry; /* a second run in the same memory */
    check_host_scatter_loops(scattered);
    status = harness_run(harness, &options, &got, &diag);
    check_host_scatter_loops(false);
    walk->runs++;
    walk->types[harness->entry->in_count > 0 ? (uint32_t)harness->entry->in[0].dtype : 0]++;
    if (status != INLAY_OK)
        case_fail(&walk->failures, harness->entry, "execute runs each case that was offered, compiled and specialised",
                  "refuse in assess (kit: supports) what cannot be run", "execute returned '%s': %.300s",
                  inlay_status_text(status), diag.text);
    else if (got.fault[0] != '\0')
        case_fail(&walk->failures, harness->entry, "the contract of execute is kept", got.fault_fix, "%s", got.fault);
    else if (!same_results(harness->entry, &got, want, text, sizeof text))
        case_fail(&walk->failures, harness->entry, "the result of the other provider",
                  "refuse in assess (kit: supports) the attributes and shapes that the kernel does not support",
                  "with %u thread%s%s%s%s%s: %s", harness->threads, harness->threads == 1 ? "" : "s",
                  scattered ? ", ranges in another order" : "", options.tight ? ", unaligned buffers" : "",
                  options.in_place ? ", in place where allowed" : "",
                  options.then != NULL ? ", the second run in the same memory" : "", text);
    if (walk->failures.count == failures && !serial && random_below(&walk->state, 6) == 0)
        run_concurrently(walk, harness, want);
    certify_end(walk->check, walk->failures.count == failures,
                walk->check->args->child.certify && status == INLAY_OK ? result_distance(&got, want) : 0);
    harness_result_deinit(&got);
    if (walk->failures.count == failures && random_below(&walk->state, 4) == 0)
        run_special(walk, harness);
}

static void run_offered(struct walk *walk, const op_case *entry, const case_instance *built, const harness_result *want)
{
    static const uint32_t threads[] = { 1, 1, 2, 3, 4, 5, 16 };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct harness harness;
    inlay_status status =
        harness_open(walk->check, walk->provider, built, entry,
                     threads[random_below(&walk->state, sizeof threads / sizeof threads[0])], &harness, &diag);

    if (status == INLAY_OK) {
        run_compiled(walk, &harness, want);
        harness_close(&harness);
    } else if (status != INLAY_UNSUPPORTED && strcmp(harness.phase, "budget") != 0) {
        case_fail(&walk->failures, entry, "an offered case can be compiled and specialised",
                  "refuse in assess (kit: supports) what cannot be run", "%s returned '%s': %.300s", harness.phase,
                  inlay_status_text(status), diag.text);
    }
}

/* The result of another provider; of a plugin's own operator, for which there may be none, that of a plain run. */
static bool find_expected(struct walk *walk, const op_case *entry, const case_instance *built, harness_result *out)
{
    const harness_options options = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct harness harness;
    bool found;

    if (peers_run(walk->check, walk->fixture, built, entry, out))
        return true;
    if (walk->source->own == NULL ||
        harness_open(walk->check, walk->provider, built, entry, 1, &harness, &diag) != INLAY_OK)
        return false;
    found = harness_run(&harness, &options, out, &diag) == INLAY_OK && out->fault[0] == '\0';
    if (!found)
        harness_result_deinit(out);
    harness_close(&harness);
    return found;
}

/* Do all results whose sizes are known have few elements? */
static bool is_small(const case_instance *built)
{
    for (uint32_t o = 0; o < built->output_count; o++) {
        const inlay_value_state *state = &built->states[built->outputs[o]];
        int64_t count = 1;

        for (uint32_t d = 0; state->rank != INLAY_RANK_UNKNOWN && d < state->rank; d++)
            if (state->dims[d] > 0 && (__builtin_mul_overflow(count, state->dims[d], &count) || count > MOST_RESULT))
                return false;
    }
    return true;
}

static bool has_rare_trait(const struct walk *walk, const op_case *entry)
{
    for (uint32_t t = 0; t < walk->trait_count; t++)
        if (walk->traits[t].name != NULL && walk->traits[t].ran < FEW_RUNS && has_trait(walk, entry, t))
            return true;
    return false;
}

/* Has an input numbers of another magnitude? */
static bool is_unusual(const op_case *entry)
{
    for (uint32_t i = 0; i < entry->in_count; i++)
        if (entry->in[i].magnitude != CASE_USUAL)
            return true;
    return false;
}

/* Whether a sum or product overflows depends on the order and the type in which it is computed. */
static bool all_finite(const harness_result *result)
{
    double re, im;

    for (uint32_t o = 0; o < result->out_count; o++)
        for (int64_t i = 0; i < result->out[o].count && element_is_float(result->out[o].dtype); i++)
            if (element_number(result->out[o].dtype, result->out[o].data, i, &re, &im) && !isfinite(re))
                return false;
    return true;
}

/* Examines a case, runs it if it is offered, and keeps it if it is legal. True: the pool owns *entry now. */
static bool visit(struct walk *walk, op_case *entry)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    harness_answer answer = { .kind = HARNESS_REFUSED };
    harness_result want;
    case_instance built;
    char text[256];
    uint32_t at;
    bool is_legal = case_graph(entry, &walk->fixture->operators, CASE_SIZES, &built, &diag) == INLAY_OK;
    const bool has_graph = is_legal;
    const uint32_t runs = walk->runs;

    if (!is_legal)
        return false;
    check_subject(walk->check, "%s", case_text(entry, text, sizeof text));
    is_legal = (walk->is_large || is_small(&built)) && case_is_defined(entry, &built);
    if (is_legal) {
        check_phase(walk->check, "assess");
        harness_assess(walk->provider, &built, &answer);
        check_phase(walk->check, "the checker");
        walk->is_known |=
            answer.kind == HARNESS_OFFERED || (answer.kind == HARNESS_REFUSED && answer.code != INLAY_REFUSE_OPERATOR);
    }
    if (answer.kind == HARNESS_OFFERED &&
        (walk->runs < walk->wanted || walk->is_large || has_rare_trait(walk, entry))) {
        is_legal = find_expected(walk, entry, &built, &want);
        if (is_legal) {
            if (!is_unusual(entry) || all_finite(&want))
                run_offered(walk, entry, &built, &want);
            harness_result_deinit(&want);
        }
    }
    if (is_legal && answer.kind == HARNESS_REFUSED && walk->is_known && has_open_trait(walk, entry)) {
        is_legal = peers_run(walk->check, walk->fixture, &built, entry, &want);
        if (is_legal) {
            count_asked(walk, entry);
            harness_result_deinit(&want);
        }
    }
    if (has_graph)
        case_instance_deinit(&built);
    if (!is_legal)
        return false;
    count_traits(walk, entry, walk->runs > runs);
    if (walk->count < POOL) {
        at = walk->count++;
    } else { /* in place of one that the walk has found */
        at = walk->kept + random_below(&walk->state, POOL - walk->kept);
        case_deinit(&walk->pool[at]);
    }
    walk->offered[at] = answer.kind == HARNESS_OFFERED;
    walk->pool[at] = *entry;
    return true;
}

/* Failures after which the walk ends. A certificate needs cases on both sides of where results differ. */
static uint32_t most_failures(const struct check *check, uint32_t usual)
{
    return check->args->child.certify ? CERTIFIED_FAILURES : usual;
}

static bool has_left_out(const struct walk *walk)
{
    return walk->check->compiles.left_out != walk->left_out;
}

static bool take_seed(void *user, op_case *entry)
{
    struct walk *walk = user;

    if (visit(walk, entry))
        entry->arena = (struct arena){ 0 };
    return walk->count < SEEDS && walk->failures.count < most_failures(walk->check, 1) && !has_left_out(walk) &&
           (walk->is_known || walk->count < 8);
}

/* A node of a model, at small sizes. */
static bool take_model_seed(void *user, op_case *entry)
{
    struct walk *walk = user;
    const op_row *row = op_find(entry->domain, entry->op_type, entry->opset, NULL);

    if (strcmp(entry->domain, walk->source->domain) != 0 ||
        (row != NULL ? row->since_version : entry->opset) != walk->source->opset)
        return true;
    walk->has_model_node = true;
    entry->opset = walk->source->opset;
    if (visit(walk, entry))
        entry->arena = (struct arena){ 0 };
    return walk->count < SEEDS + MODEL_SEEDS && walk->failures.count < most_failures(walk->check, 1) &&
           !has_left_out(walk);
}

/* The first case from a random place on that is offered (trait NONE) or has the trait; any case if there is none. */
static const op_case *find_one_parent(struct walk *walk, uint32_t trait)
{
    uint32_t at = random_below(&walk->state, walk->count);

    for (uint32_t i = 0; i < walk->count; i++, at = (at + 1) % walk->count)
        if (trait == INLAY_NONE ? walk->offered[at] : has_trait(walk, &walk->pool[at], trait))
            break;
    return &walk->pool[at];
}

/* Of two such cases the one whose type fewer offers had, so that the walk does not stay with a type. */
static const op_case *find_parent(struct walk *walk, uint32_t trait)
{
    const op_case *one = find_one_parent(walk, trait), *other = find_one_parent(walk, trait);

    if (one->in_count == 0 || other->in_count == 0)
        return one;
    return walk->types[other->in[0].dtype] < walk->types[one->in[0].dtype] ? other : one;
}

/* The trait that the fewest offers had so far, among attributes and traits that some legal case had. NONE: none. */
static uint32_t rarest_trait(struct walk *walk)
{
    uint32_t best = INLAY_NONE, at = walk->trait_count > 0 ? random_below(&walk->state, walk->trait_count) : 0;

    for (uint32_t i = 0; i < walk->trait_count; i++, at = (at + 1) % walk->trait_count) {
        const struct trait *trait = &walk->traits[at];

        if (trait->name == NULL || (trait->legal == 0 && at >= walk->source->schema->attr_count))
            continue;
        if (best == INLAY_NONE ||
            RUN_TRIES * trait->ran + trait->tries < RUN_TRIES * walk->traits[best].ran + walk->traits[best].tries)
            best = at;
    }
    if (best != INLAY_NONE)
        walk->traits[best].tries++;
    return best;
}

/* Changes a case: half of the time an offered one, at random; otherwise towards the rarest trait, from an offered case
 * if it is an attribute that can be set, or from a case that has it. */
static bool next_case(struct walk *walk, op_case *out)
{
    const uint32_t way = random_below(&walk->state, 4), trait = way < 2 ? INLAY_NONE : rarest_trait(walk);
    const bool sets = trait != INLAY_NONE && way == 2 && trait < walk->source->schema->attr_count;

    return mutate_case(find_parent(walk, sets ? INLAY_NONE : trait), walk->source,
                       sets ? &walk->source->schema->attrs[trait] : NULL, walk->check->args->child.certify,
                       &walk->state, out);
}

/* Half of the time the newest of several changed cases. */
static bool next_new_case(struct walk *walk, op_case *out)
{
    const uint32_t candidates = walk->features != NULL && random_below(&walk->state, 2) == 0 ? CANDIDATES : 1;
    uint32_t most = 0;
    bool found = false;

    for (uint32_t c = 0; c < candidates; c++) {
        op_case entry;
        uint32_t newness;

        if (!next_case(walk, &entry))
            continue;
        newness = candidates > 1 ? features_new(walk->features, &entry) : 0;
        if (found && newness <= most) {
            case_deinit(&entry);
            continue;
        }
        if (found)
            case_deinit(out);
        *out = entry;
        most = newness;
        found = true;
    }
    if (found && walk->features != NULL)
        features_note(walk->features, out);
    return found;
}

/* Is there a trait of legal cases with fewer than FEW_RUNS offers and fewer than MOST_TRIES tries? */
static bool lacks_trait(const struct walk *walk)
{
    for (uint32_t t = 0; t < walk->trait_count; t++)
        if (walk->traits[t].legal > 0 && walk->traits[t].ran < FEW_RUNS && walk->traits[t].tries < MOST_TRIES)
            return true;
    return false;
}

static bool is_newest(const case_source *source)
{
    const op_row *row = op_find(source->domain, source->op_type, op_domain_newest(source->domain), NULL);

    return row == NULL || row->since_version == source->opset;
}

/* A case with many elements, for a certificate. */
static bool take_large(void *user, op_case *entry)
{
    struct walk *walk = user;
    const uint32_t runs = walk->runs;

    if (visit(walk, entry))
        entry->arena = (struct arena){ 0 };
    walk->large += walk->runs > runs;
    return walk->large < LARGE_CASES;
}

/* A certificate needs older versions, too, but with --quick few cases of them. */
static uint32_t wanted_runs(const struct walk *walk)
{
    const struct check *check = walk->check;
    const uint32_t share = QUICK_TOTAL / (check->compiles.operators + 1);
    const uint32_t runs = share < QUICK_LEAST ? QUICK_LEAST : share < QUICK_RUNS ? share : QUICK_RUNS;

    const uint32_t usual = !check->args->quick                               ? RUNS
                           : walk->has_model_node || is_newest(walk->source) ? runs
                                                                             : runs / QUICK_OLDER;

    return check->args->child.certify ? usual * CERTIFIED_RUNS / 2 : usual;
}

static bool try_source(void *user, const case_source *source)
{
    struct walk *walk = user;
    const case_range range = { .seed = walk->check->args->seed, .scale = 1, .quick = true };
    const case_range large = { .seed = walk->check->args->seed,
                               .scale = walk->check->args->quick ? QUICK_LARGE_SCALE : LARGE_SCALE,
                               .quick = true,
                               .scaled = true };
    char subject[160];
    op_case entry;

    (void)snprintf(subject, sizeof subject, "%s-%lld", source->op_type, (long long)source->opset);
    if (source->random || !check_unit(walk->check, "%s", subject))
        return true;
    if (engines_are_spent(walk->check))
        return false;
    walk->source = source;
    walk->has_model_node = false;
    walk->left_out = walk->check->compiles.left_out;
    walk->wanted = wanted_runs(walk);
    walk->count = walk->runs = walk->special = walk->failures.count = 0;
    walk->is_known = false;
    memset(walk->types, 0, sizeof walk->types);
    if (walk->features != NULL)
        memset(walk->features, 0, sizeof *walk->features);
    list_traits(walk);
    walk->state = walk->check->args->seed + walk->check->unit;
    generate_cases(source, &range, take_seed, walk);
    for (uint32_t i = 0; i < walk->models->count; i++)
        models_nodes(walk->models, i, source->op_type, MODELS_SMALL, take_model_seed, walk);
    walk->kept = walk->models->count == 0 ? SEEDS : walk->count < POOL / 2 ? walk->count : POOL / 2;
    walk->wanted = wanted_runs(walk);
    for (uint32_t left = walk->wanted * ATTEMPTS_EACH;
         left > 0 && !has_left_out(walk) && walk->count > 0 && walk->is_known &&
         walk->failures.count < most_failures(walk->check, MOST_FAILURES) &&
         (walk->runs < walk->wanted || lacks_trait(walk));
         left--)
        if (next_new_case(walk, &entry) && !visit(walk, &entry))
            case_deinit(&entry);
    walk->is_large = walk->check->args->child.certify;
    walk->large = 0;
    if (walk->is_large && walk->runs > 0)
        generate_cases(source, &large, take_large, walk);
    walk->is_large = false;
    if (walk->failures.count == 0 && walk->runs > 0)
        report_source(walk, subject);
    for (uint32_t i = 0; i < walk->count; i++)
        case_deinit(&walk->pool[i]);
    return true;
}

void check_group_random(struct check *check)
{
    static struct walk walk; /* too large for the stack */
    const inlay_operator *custom[64];
    struct fixture fixture;
    model_set models;
    uint32_t custom_count;

    if (!fixture_open(check, "random", true, &fixture))
        return;
    models_open(check, "random", &models);
    custom_count = fixture_operators(&fixture, custom, 64);
    if (fixture.peer_count == 0 && custom_count == 0)
        check_skip(check, "random", NULL, "there is no other provider to compare with");
    for (uint32_t i = 0; i < fixture.own_count && fixture.peer_count + custom_count > 0; i++) {
        walk = (struct walk){ .check = check,
                              .failures = { check, "random", MOST_FAILURES, 0 },
                              .fixture = &fixture,
                              .provider = &fixture.own[i],
                              .models = &models,
                              .features = malloc(sizeof(feature_map)) };
        coverage_plan(check, &fixture, walk.provider, custom, custom_count);
        generate_sources(custom, custom_count, check->args->op, check->args->quick && !check->args->child.certify,
                         try_source, &walk);
        free(walk.features);
    }
    models_close(&models);
    fixture_close(&fixture);
}
