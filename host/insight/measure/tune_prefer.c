/* Times whole runs of the model without some of the providers.
 *
 * Prices of kernels do not show everything that a provider costs a run: copies, regions of others that it splits, and
 * kernels whose time depends on what ran before them. So the assignment that follows from the measurements is timed
 * against the assignments without each provider that it uses, and with each provider alone and the reference provider.
 * If one of these assignments is faster, a record for each provider that it does not use (cost_key_without()) makes
 * later sessions leave this provider out, as long as they have the providers that the assignment uses. The comparison
 * is then repeated from that assignment. A provider that was not compared keeps its prices. */
#include "base/clock.h"
#include "base/memory.h"
#include "inlay/check.h"
#include "measure/tune.h"
#include "measure/tune_variant.h"
#include "plan/create/create.h"
#include <stdlib.h>
#include <string.h>

static const double TIME_SHARE = 0.5;  /* of the budget, on top of it: the time for comparing */
static const double RELEVANT = 0.5;    /* a provider that runs alone must offer this share of the assignment's price */
static const double RUNS_OF_ROUND = 4; /* of a slow model; a run that is expected to exceed its time is skipped */
static const double FAR_SLOWER = 0.25; /* one round that is this much slower ends a comparison */
static const double CLEARLY_SLOWER = 0.9, CLEARLY_FASTER = 1.25; /* if all rounds are, no more are needed */
static const double BETTER = 1.01;                               /* the median of the rounds must exceed this ratio */
static const double WON_ROUNDS = 0.7;  /* share of the rounds in which an assignment must be faster */
static const double SURE_ROUNDS = 0.9; /* share that needs no more rounds */
enum { MIN_ROUNDS = 3, SOME_ROUNDS = 7, MAX_ROUNDS = 25, MAX_LEVELS = 3 };

/* An assignment without some of the providers. */
struct alternative {
    program_env env; /* of program */
    partition_rules rules;
    cost_sizes sizes;
    uint8_t *left_out;       /* [provider_count]; in the tuning's arena */
    uint32_t alone;          /* the provider that runs alone; INLAY_NONE: one provider is left out */
    struct program *program; /* NULL: not assigned */
    double ratio;            /* how many times as fast as the present assignment: the median of the rounds */
    inlay_tune_run run;      /* for the report */
};

struct comparison {
    struct tuning *tuning;
    cost_book *book;
    inlay_value **inputs;
    inlay_tune_run *runs; /* [2 * provider_count * MAX_LEVELS] */
    uint32_t run_count;
    uint32_t providers;
    inlay_status status; /* OUT_OF_MEMORY or DEVICE_LOST ends the tuning */
};

static double seconds(void)
{
    return (double)clock_ns() * 1e-9;
}

static bool uses(const struct program *program, uint32_t provider)
{
    for (uint32_t i = 0; i < program->parts.region_count; i++)
        if (program->parts.regions[i].provider == provider)
            return true;
    for (uint32_t i = 0; i < program->body_count; i++)
        if (!program->bodies[i]->parts.idle && uses(program->bodies[i], provider))
            return true;
    return false;
}

static double price_of(const struct program *program)
{
    double ns = program->parts.cost_ns;

    for (uint32_t i = 0; i < program->body_count; i++)
        ns += price_of(program->bodies[i]);
    return ns;
}

/* The price, as assigned now, of the nodes that the provider offers one by one. Negative: out of memory. */
static double offered_ns(const struct program *program, uint32_t provider)
{
    const struct partition *parts = &program->parts;
    struct arena scratch = { 0 };
    double *node_ns = arena_array(&scratch, (size_t)program->graph->node_count + 1, sizeof *node_ns), ns = 0;

    for (uint32_t i = 0; node_ns != NULL && i < parts->offer_count; i++)
        for (uint32_t k = 0; parts->offers[i].chosen && k < parts->offers[i].node_count; k++)
            node_ns[parts->offers[i].nodes[k]] = parts->offers[i].cost.ns / parts->offers[i].node_count;
    for (uint32_t i = 0; node_ns != NULL && i < parts->offer_count; i++) {
        if (parts->offers[i].provider != provider || parts->offers[i].node_count != 1)
            continue;
        ns += node_ns[parts->offers[i].nodes[0]];
        node_ns[parts->offers[i].nodes[0]] = 0; /* further offers for the same node do not count */
    }
    if (node_ns == NULL)
        ns = -1;
    arena_deinit(&scratch);
    for (uint32_t i = 0; ns >= 0 && i < program->body_count; i++) {
        const double more = offered_ns(program->bodies[i], provider);
        ns = more < 0 ? -1 : ns + more;
    }
    return ns;
}

static void alternative_destroy(struct comparison *comparison, struct alternative *alternative)
{
    if (alternative == NULL || comparison->tuning->session->abandoned)
        return; /* a hanging device may still use the program */
    program_destroy(alternative->program);
    cost_sizes_deinit(&alternative->sizes);
    free(alternative);
}

/* Partitions the model without the marked providers, and compiles nothing. alternative->program is NULL if there is no
 * such assignment. NULL: out of memory. */
static struct alternative *alternative_create(struct comparison *comparison, const uint8_t *left_out)
{
    const struct tuning *tuning = comparison->tuning;
    struct alternative *alternative = calloc(1, sizeof *alternative);
    inlay_status status;

    if (alternative == NULL)
        return NULL;
    *alternative =
        (struct alternative){ .env = tuning->session->env,
                              .rules = *tuning->session->env.rules,
                              .sizes = tune_fresh_sizes(tuning),
                              .alone = INLAY_NONE,
                              .left_out = arena_copy(&comparison->tuning->arena, left_out, comparison->providers) };
    alternative->rules.left_out = alternative->left_out;
    alternative->env.rules = &alternative->rules;
    alternative->env.costs = comparison->book;
    alternative->env.sizes = &alternative->sizes;
    alternative->env.progress = NULL;
    alternative->env.cache_dir = NULL;
    status = alternative->left_out == NULL
                 ? INLAY_OUT_OF_MEMORY
                 : program_assign(tuning->session->main->graph, &alternative->env, true, &alternative->program, NULL);
    if (status == INLAY_OK)
        return alternative;
    program_destroy(alternative->program);
    alternative->program = NULL;
    if (status != INLAY_OUT_OF_MEMORY)
        return alternative;
    alternative_destroy(comparison, alternative);
    return NULL;
}

static bool compile(struct comparison *comparison, struct alternative *alternative)
{
    struct assignment assignment = { .graph = comparison->tuning->session->main->graph,
                                     .env = &alternative->env,
                                     .program = alternative->program,
                                     .shares_graph = true };
    inlay_status status = assign_until_stable(&assignment, NULL);

    alternative->program = assignment.program;
    if (status == INLAY_OUT_OF_MEMORY)
        comparison->status = status;
    return status == INLAY_OK;
}

static int ascending(const void *a, const void *b)
{
    const double first = *(const double *)a, second = *(const double *)b;

    return (first > second) - (first < second);
}

/* Returns whether more rounds are not needed: a large difference is clear soon, a small one needs more of them. */
static bool is_clear(const double *ratios, uint32_t rounds)
{
    bool slower = true, faster = true;
    uint32_t won = 0;

    for (uint32_t i = 0; i < rounds; i++) {
        slower = slower && ratios[i] < CLEARLY_SLOWER;
        faster = faster && ratios[i] > CLEARLY_FASTER;
        won += ratios[i] > 1;
    }
    if (rounds == MAX_ROUNDS || ratios[0] < FAR_SLOWER || (rounds >= MIN_ROUNDS && (slower || faster)))
        return true;
    return rounds >= SOME_ROUNDS && (2 * won < rounds || won >= SURE_ROUNDS * rounds);
}

/* Runs blocks of both assignments alternately until `end`, and sets the times and the ratio. An alternative that does
 * not run, or not often enough, keeps ratio 0. */
static void time_rounds(struct comparison *comparison, struct alternative *present, struct alternative *other,
                        double end)
{
    double present_ns[MAX_ROUNDS], other_ns[MAX_ROUNDS], ratios[MAX_ROUNDS];
    struct tuning *tuning = comparison->tuning;
    tune_variant *first = NULL, *second = NULL;
    inlay_status status = tune_variant_open(tuning, present->program, comparison->inputs, &first);
    uint32_t rounds = 0, won = 0;

    tuning->end = end;
    if (status == INLAY_OK)
        status = tune_variant_open(tuning, other->program, comparison->inputs, &second);
    while (status == INLAY_OK && (rounds == 0 || !is_clear(ratios, rounds))) {
        status = tune_variant_block(first, tune_stop, &present_ns[rounds]);
        if (status == INLAY_OK)
            status = tune_variant_block(second, tune_stop, &other_ns[rounds]);
        if (status != INLAY_OK)
            break;
        ratios[rounds] = present_ns[rounds] / other_ns[rounds];
        won += ratios[rounds] > 1;
        rounds++;
    }
    tune_variant_close(first);
    tune_variant_close(second);
    if (status == INLAY_OUT_OF_MEMORY || status == INLAY_DEVICE_LOST)
        comparison->status = status;
    if (rounds == 0)
        return;
    qsort(present_ns, rounds, sizeof *present_ns, ascending);
    qsort(other_ns, rounds, sizeof *other_ns, ascending);
    qsort(ratios, rounds, sizeof *ratios, ascending);
    other->run.assigned_ns = present_ns[rounds / 2];
    other->run.ns = other_ns[rounds / 2];
    other->run.rounds = rounds;
    if (rounds >= MIN_ROUNDS && won >= WON_ROUNDS * rounds)
        other->ratio = ratios[rounds / 2];
}

/* "a b": the marked providers. */
static const char *names_of(struct comparison *comparison, const uint8_t *marked)
{
    const program_env *env = &comparison->tuning->session->env;
    const char *text = "";

    for (uint32_t i = 0; text != NULL && i < comparison->providers; i++)
        if (marked[i])
            text = arena_format(&comparison->tuning->arena, "%s%s%s", text, text[0] != '\0' ? " " : "",
                                env->providers[i].name);
    return text;
}

/* Compares an alternative with the present assignment until `end`, and lists it for the report. Returns whether it was
 * run. */
static bool compare(struct comparison *comparison, struct alternative *present, struct alternative *other, double end)
{
    struct tuning *tuning = comparison->tuning;
    const program_env *env = &tuning->session->env;

    if (other->program == NULL || tune_equal_regions(present->program, other->program) ||
        price_of(other->program) * RUNS_OF_ROUND > (end - seconds()) * 1e9)
        return false;
    other->run.struct_size = sizeof other->run;
    other->run.left_out = names_of(comparison, other->left_out);
    other->run.alone = other->alone == INLAY_NONE ? NULL : env->providers[other->alone].name;
    if (other->run.left_out == NULL) {
        comparison->status = INLAY_OUT_OF_MEMORY;
        return false;
    }
    (void)snprintf(tuning->activity, sizeof tuning->activity, "runs %s %.60s",
                   other->alone == INLAY_NONE ? "without" : "with only",
                   other->alone == INLAY_NONE ? other->run.left_out : other->run.alone);
    if (!tune_stop(tuning) && compile(comparison, other))
        time_rounds(comparison, present, other, end);
    if (other->run.rounds == 0)
        return false;
    comparison->runs[comparison->run_count++] = other->run;
    return true;
}

/* Marks what runs without the provider, or with it alone, leave out in addition to `present`. False: there is nothing
 * to compare. */
static bool mark(const struct comparison *comparison, const struct alternative *present, uint32_t provider, bool alone,
                 uint8_t *out)
{
    const program_env *env = &comparison->tuning->session->env;
    const bool is_fallback = strcmp(env->providers[provider].name, "reference") == 0;
    uint32_t more = 0;

    memcpy(out, present->left_out, comparison->providers);
    if (present->left_out[provider] || is_fallback)
        return false;
    if (!alone) {
        out[provider] = 1;
        return uses(present->program, provider);
    }
    for (uint32_t i = 0; i < comparison->providers; i++) {
        out[i] = i != provider && strcmp(env->providers[i].name, "reference") != 0;
        more += out[i] && !present->left_out[i] && uses(present->program, i);
    }
    return more > 1 && /* with two, leaving one out already runs the other one alone */
           offered_ns(present->program, provider) >= RELEVANT * price_of(present->program);
}

/* Compares the present assignment with the others; returns the fastest, or NULL if none is faster. */
static struct alternative *find_faster(struct comparison *comparison, struct alternative *present, double end)
{
    struct tuning *tuning = comparison->tuning;
    uint8_t *left_out = arena_alloc(&tuning->arena, (size_t)comparison->providers + 1);
    struct alternative *best = NULL;

    tuning->runs.count = 2 * comparison->providers;
    if (left_out == NULL)
        comparison->status = INLAY_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < tuning->runs.count && comparison->status == INLAY_OK && !tuning->stopped; i++) {
        const bool alone = i >= comparison->providers;
        const uint32_t provider = i % comparison->providers;
        const double now = seconds();
        struct alternative *other;

        tuning->runs.index = i;
        tuning->end = end;
        if (now >= end || !mark(comparison, present, provider, alone, left_out))
            continue;
        other = alternative_create(comparison, left_out);
        if (other == NULL) {
            comparison->status = INLAY_OUT_OF_MEMORY;
            break;
        }
        other->alone = alone ? provider : INLAY_NONE;
        (void)compare(comparison, present, other, now + (end - now) / (tuning->runs.count - i));
        if (other->ratio >= BETTER && (best == NULL || other->ratio >= best->ratio * BETTER)) {
            alternative_destroy(comparison, best);
            best = other;
        } else {
            alternative_destroy(comparison, other);
        }
    }
    tuning->runs.index = tuning->runs.count;
    return best;
}

/* Adds the result to the list of measurements, for inputs of these sizes: a record for each pair of a provider to leave
 * out and a provider that runs instead, and 0 for the pairs of earlier results. */
static bool record_at(struct comparison *comparison, const struct alternative *chosen, const inlay_value_state *values)
{
    struct tuning *tuning = comparison->tuning;
    const program_env *env = &tuning->session->env;
    const cost_whole_model model = { .hash = tuning->session->costs.model_hash,
                                     .graph = tuning->session->main->graph,
                                     .values = values,
                                     .providers = env->providers,
                                     .provider_count = env->provider_count,
                                     .max_threads = env->max_threads };
    const int64_t now = (int64_t)time(NULL);
    uint32_t used = 0;

    for (uint32_t i = 0; i < comparison->providers; i++)
        used += uses(chosen->program, i);
    for (uint32_t i = 0; i < comparison->providers * comparison->providers; i++) {
        const uint32_t without = i / comparison->providers, with = i % comparison->providers;
        const bool valid = chosen->left_out[without] && uses(chosen->program, with);
        cost_record record = { .key = cost_key_without(&model, without, with),
                               .ns = valid ? used : 0,
                               .samples = 1,
                               .when = now,
                               .what = "without a provider" };

        if ((!valid && cost_store_find(&tuning->store, record.key) == NULL) ||
            cost_list_find(&tuning->list, record.key) != NULL)
            continue;
        if (!cost_list_add(&tuning->list, &record))
            return false;
    }
    return true;
}

/* Records the result for the sizes of the tuned inputs, and for those that sessions with these options assume: such a
 * session is assigned before it knows its inputs. False: out of memory. */
static bool record_result(struct comparison *comparison, const struct alternative *chosen)
{
    struct tuning *tuning = comparison->tuning;
    const struct program *program = tuning->session->main;
    cost_sizes sizes = { .assumed = tuning->sizes.assumed, .assumed_count = tuning->sizes.assumed_count };
    const inlay_value_state *assumed = cost_shapes(program->graph, &program->snapshot, &sizes, &tuning->arena);

    cost_sizes_deinit(&sizes);
    for (uint32_t i = 0; i < comparison->providers; i++)
        tuning->result.left_out_count += chosen->left_out[i];
    tuning->runs.left_out = chosen->left_out;
    return assumed != NULL && record_at(comparison, chosen, tuning->graphs[0].values) &&
           record_at(comparison, chosen, assumed);
}

/* Follows faster assignments until there is none. *inout_present: the assignment that follows from the prices. */
static void improve(struct comparison *comparison, struct alternative **inout_present)
{
    struct tuning *tuning = comparison->tuning;
    const double end = seconds() + TIME_SHARE * tuning->options.budget_s;
    uint32_t last = INLAY_NONE;

    for (int level = 0; level < MAX_LEVELS; level++) {
        struct alternative *faster = find_faster(comparison, *inout_present, end);

        if (faster == NULL)
            break;
        for (uint32_t i = 0; i < comparison->run_count; i++)
            if (strcmp(comparison->runs[i].left_out, faster->run.left_out) == 0)
                last = i;
        alternative_destroy(comparison, *inout_present);
        *inout_present = faster;
    }
    if (comparison->status != INLAY_OK || tuning->stopped)
        return;
    if (last != INLAY_NONE)
        comparison->runs[last].chosen = 1;
    if (!record_result(comparison, *inout_present))
        comparison->status = INLAY_OUT_OF_MEMORY;
    for (uint32_t i = 0; tuning->options.run != NULL && i < comparison->run_count; i++)
        tuning->options.run(tuning->options.run_user, &comparison->runs[i]);
}

inlay_status tune_prefer(struct tuning *tuning, const char *folder, inlay_value **inputs)
{
    const program_env *env = &tuning->session->env;
    cost_book_request open = { .folder = folder,
                               .providers = env->providers,
                               .provider_count = env->provider_count,
                               .max_threads = env->max_threads,
                               .fresh = tuning->list.records,
                               .fresh_count = tuning->list.count };
    struct comparison comparison = {
        .tuning = tuning, .inputs = inputs, .providers = env->provider_count, .status = INLAY_OK
    };
    uint8_t *nothing = arena_alloc(&tuning->arena, (size_t)comparison.providers + 1);
    struct alternative *present = NULL;
    inlay_status status = INLAY_OK;

    if (tuning->stopped || env->provider_count < 2 || env->rules->by_priority)
        return INLAY_OK;
    comparison.runs =
        arena_array(&tuning->arena, (size_t)2 * comparison.providers * MAX_LEVELS, sizeof *comparison.runs);
    if (nothing == NULL || comparison.runs == NULL)
        return no_memory(tuning->diag, "to tune");
    INLAY_TRY(cost_book_open(&open, &comparison.book, tuning->diag));
    present = alternative_create(&comparison, nothing);
    if (present == NULL)
        comparison.status = INLAY_OUT_OF_MEMORY;
    else if (present->program != NULL && compile(&comparison, present))
        improve(&comparison, &present);
    status = comparison.status == INLAY_OUT_OF_MEMORY ? no_memory(tuning->diag, "to tune") : comparison.status;
done:
    alternative_destroy(&comparison, present);
    cost_book_close(comparison.book);
    return status;
}
