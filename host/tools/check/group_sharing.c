/* Runs must not write data that several runs, instances or open providers share: two instances of one region; a run in
 * the middle of another one, of the same instance and of another region; a provider that is opened a second time, with
 * other options. */
#include "check/compare_results.h"
#include "check/generate.h"
#include "check/peers.h"
#include "check/sizes.h"
#include "inlay/check.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    SIZE = 37,
    OTHER_SIZE = 101,
    MIDDLE_SIZE = 1103, /* of floats: two pages */
    LONG_SIZE = 5003,   /* several pages */
    QUICK_OPERATORS = 6,
    OPERATORS = 60,
    OPEN_TWICE = 2, /* operators that run on two open providers */
    PATIENCE_MS = 5000
};

struct sharing {
    struct check *check;
    const struct fixture *fixture;
    const loaded_provider *provider;
    struct shared_case {
        op_case entry;
        case_instance built; /* points into entry */
    } cases[2];
    struct shared_case *into; /* where take_case() puts the case */
    uint32_t known;           /* CASE_* of the case to find */
    bool found, failed;
    char subject[80];
    uint32_t operators, instances, interrupted, opened; /* tried */
};

INLAY_PRINTF(4, 5)
static void fail(struct sharing *test, const char *expected, const char *fix, const char *format, ...)
{
    char got[500];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(got, sizeof got, format, args);
    va_end(args);
    test->failed = true;
    check_fail(test->check, "sharing", test->subject, expected, fix, "%s", got);
}

static bool take_case(void *user, op_case *entry)
{
    struct sharing *test = user;
    inlay_diag diag = INLAY_DIAG_INIT;
    harness_answer answer;

    /* Other constants would make another region. */
    for (uint32_t i = 0; i < entry->in_count; i++)
        if (entry->in[i].constant && test->known == CASE_SYMBOLS)
            return true;
    test->into->entry = *entry;
    if (entry->random ||
        case_graph(&test->into->entry, &test->fixture->operators, test->known, &test->into->built, &diag) != INLAY_OK)
        return true;
    harness_assess(test->provider, &test->into->built, &answer);
    test->found = answer.kind == HARNESS_OFFERED && test->into->built.input_count > 0;
    if (test->found)
        entry->arena = (struct arena){ 0 }; /* the test owns it now */
    else
        case_instance_deinit(&test->into->built);
    return !test->found;
}

/* Finds an offered case of the operator at this size. Release it with drop_case(). NULL: none. */
static struct shared_case *find_case(struct sharing *test, const case_source *source, int64_t size, uint32_t known,
                                     uint32_t slot)
{
    test->into = &test->cases[slot];
    test->found = false;
    test->known = known;
    check_phase(test->check, "assess");
    sizes_generate(source, size, test->check->args->seed, take_case, test);
    return test->found ? test->into : NULL;
}

static void drop_case(struct shared_case *found)
{
    case_instance_deinit(&found->built);
    case_deinit(&found->entry);
}

/* The result of a run in separate memory, and that of another provider if there is one. */
static bool find_expected(struct sharing *test, const case_instance *built, const op_case *entry, harness_result *want)
{
    const harness_options options = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct harness harness;
    inlay_status status;

    if (peers_run(test->check, test->fixture, built, entry, want))
        return true;
    if (harness_open(test->check, test->provider, built, entry, 1, &harness, &diag) != INLAY_OK)
        return false;
    status = harness_run(&harness, &options, want, &diag);
    harness_close(&harness);
    if (status == INLAY_OK && want->fault[0] == '\0')
        return true;
    harness_result_deinit(want);
    return false;
}

/* Runs and compares. False: a failure was reported. */
static bool run_as_expected(struct sharing *test, const struct harness *harness, const harness_result *want,
                            const char *when, const char *fix)
{
    const harness_options options = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    harness_result got;
    char text[300];

    if (harness_run(harness, &options, &got, &diag) != INLAY_OK)
        fail(test, "runs that do not depend on each other", fix, "%s: %.300s", when, diag.text);
    else if (got.fault[0] != '\0')
        fail(test, "the contract of execute is kept", got.fault_fix, "%s: %s", when, got.fault);
    else if (!compare_results(&got, want, text, sizeof text))
        fail(test, "runs that do not depend on each other", fix, "%s: %s", when, text);
    harness_result_deinit(&got);
    return !test->failed;
}

static void check_two_instances(struct sharing *test, const case_source *source)
{
    const char *fix = "let specialize write to the instance only: all instances share the compiled region";
    harness_result want[2] = { { .out_count = 0 } };
    inlay_diag diag = INLAY_DIAG_INIT;
    const struct shared_case *small = find_case(test, source, SIZE, CASE_SYMBOLS, 0), *large;
    struct harness first, second;

    if (small == NULL)
        return;
    large = find_case(test, source, OTHER_SIZE, CASE_SYMBOLS, 1);
    if (large != NULL) {
        const bool same = large->built.snapshot.symbol_count == small->built.snapshot.symbol_count &&
                          large->built.snapshot.value_count == small->built.snapshot.value_count;

        check_subject(test->check, "%s at two sizes", test->subject);
        if (same && find_expected(test, &small->built, &small->entry, &want[0]) &&
            find_expected(test, &large->built, &large->entry, &want[1]) &&
            harness_open(test->check, test->provider, &small->built, &small->entry, 1, &first, &diag) == INLAY_OK) {
            if (harness_open_instance(&first, &large->built, &large->entry, &second, &diag) == INLAY_OK) {
                test->instances++;
                if (run_as_expected(test, &first, &want[0], "the first of two instances of a region", fix))
                    (void)run_as_expected(test, &second, &want[1], "the second of two instances of a region", fix);
                harness_close_instance(&second);
                if (!test->failed)
                    (void)run_as_expected(test, &first, &want[0], "an instance after the release of another one", fix);
            }
            harness_close(&first);
        }
        harness_result_deinit(&want[0]);
        harness_result_deinit(&want[1]);
        drop_case(&test->cases[1]);
    }
    drop_case(&test->cases[0]);
}

struct held_run {
    const struct harness *harness;
    struct crash_hold hold;
    harness_result result;
    inlay_diag diag;
    inlay_status status;
    uint32_t ended; /* atomic */
};

static void *run_held(void *user)
{
    struct held_run *held = user;
    const harness_options options = { .quiet = true, .hold = &held->hold };

    held->status = harness_run(held->harness, &options, &held->result, &held->diag);
    __atomic_store_n(&held->ended, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* Stops a run in the middle of execute, runs `other` meanwhile, and compares both. */
static void interrupt(struct sharing *test, const struct harness *harness, const harness_result *want,
                      const struct harness *other, const harness_result *want_other, const char *what, const char *fix)
{
    static const struct timespec pause = { .tv_nsec = 200000 };
    struct held_run held = { .harness = harness, .hold.patience_ms = PATIENCE_MS, .diag = INLAY_DIAG_INIT };
    const struct crash_hold *hold = &held.hold;
    char text[300];
    pthread_t thread;
    bool reached;

    if (pthread_create(&thread, NULL, run_held, &held) != 0)
        return;
    while (!(reached = __atomic_load_n(&hold->reached, __ATOMIC_ACQUIRE) != 0) &&
           __atomic_load_n(&held.ended, __ATOMIC_ACQUIRE) == 0)
        (void)nanosleep(&pause, NULL);
    if (reached)
        (void)run_as_expected(test, other, want_other, what, fix);
    __atomic_store_n(&held.hold.released, 1, __ATOMIC_RELEASE);
    (void)pthread_join(thread, NULL);
    test->interrupted += reached;
    if (reached && !test->failed) {
        if (held.status != INLAY_OK)
            fail(test, "runs that do not depend on each other", fix, "a run that was interrupted by %s: %.300s", what,
                 held.diag.text);
        else if (!compare_results(&held.result, want, text, sizeof text))
            fail(test, "runs that do not depend on each other", fix, "a run that was interrupted by %s: %s", what,
                 text);
        else if (__atomic_load_n(&hold->expired, __ATOMIC_ACQUIRE) != 0)
            check_warn(test->check, "sharing", test->subject, "two runs at once", "hold no lock while computing",
                       "%s waited until another run was over", what);
    }
    harness_result_deinit(&held.result);
}

static void check_interrupted(struct sharing *test, const case_source *source, int64_t size)
{
    const bool serial = (test->provider->table->flags & INLAY_PROVIDER_SERIAL_EXECUTE) != 0;
    harness_result want = { .out_count = 0 }, want_other = { .out_count = 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct harness harness, varied, separate;
    struct shared_case *found;
    op_case other;

    if (test->provider->table->domain_count > 0)
        return;
    found = find_case(test, source, size, CASE_SIZES, 0);
    if (found == NULL)
        return;
    if (case_vary(&found->entry, test->check->args->seed + 5, &other)) {
        check_subject(test->check, "%s, two runs at once", test->subject);
        if (find_expected(test, &found->built, &found->entry, &want) &&
            find_expected(test, &found->built, &other, &want_other) &&
            harness_open(test->check, test->provider, &found->built, &found->entry, 1, &harness, &diag) == INLAY_OK) {
            varied = harness;
            varied.entry = &other;
            if (!serial)
                interrupt(test, &harness, &want, &varied, &want_other, "a run of the same instance",
                          "keep what a run writes in its workspace, or set INLAY_PROVIDER_SERIAL_EXECUTE");
            if (!test->failed &&
                harness_open(test->check, test->provider, &found->built, &other, 1, &separate, &diag) == INLAY_OK) {
                interrupt(
                    test, &harness, &want, &separate, &want_other, "a run of another region",
                    "keep what a run writes in its workspace or instance, not in the state or in static variables");
                harness_close(&separate);
            }
            harness_close(&harness);
        }
        harness_result_deinit(&want);
        harness_result_deinit(&want_other);
        case_deinit(&other);
    }
    drop_case(found);
}

/* Other values of the options: the next number, the other word. Texts and fractions keep their values. */
static void choose_options(const struct sharing *test, char text[CHECK_OPTIONS][128], check_args *args)
{
    const inlay_provider *table = test->provider->table;

    *args = *test->check->args;
    for (uint32_t i = 0; i < table->option_count && args->option_count < CHECK_OPTIONS; i++) {
        const inlay_option *option = INLAY_AT(inlay_option, table->options, table->option_stride, i);
        const long long now = option->default_value != NULL ? strtoll(option->default_value, NULL, 0) : option->min;
        const bool bounded = option->min != 0 || option->max != 0;
        char *word = text[args->option_count];
        bool given = option->name == NULL;

        for (uint32_t k = 0; k < test->check->args->option_count && !given; k++) {
            const char *other = check_option_of(args->options[k], table->name);

            given = other != NULL && strncmp(other, option->name, strlen(option->name)) == 0;
        }
        if (given)
            continue;
        if (option->kind == INLAY_OPTION_INT)
            (void)snprintf(word, 128, "%s=%lld", option->name,
                           !bounded || now < option->max ? now + 1 : (long long)option->min);
        else if (option->kind == INLAY_OPTION_BOOL)
            (void)snprintf(word, 128, "%s=%d", option->name,
                           option->default_value == NULL || strchr("0fno", option->default_value[0]) != NULL);
        else if (option->kind == INLAY_OPTION_ENUM && option->choices != NULL)
            (void)snprintf(word, 128, "%s=%.*s", option->name, (int)strcspn(option->choices, "|"), option->choices);
        else
            continue;
        args->options[args->option_count++] = word;
    }
}

/* The cost of the case on the provider; negative: none. */
static double cost_of(const struct harness *harness)
{
    inlay_cost cost;

    return harness_cost(harness->provider, harness->built, &harness->answer, 1, &cost) == INLAY_OK &&
                   cost.confidence != INLAY_CONFIDENCE_MEASURED
               ? cost.ns + cost.enter_ns + cost.leave_ns
               : -1;
}

static void check_open_twice(struct sharing *test, const case_source *source)
{
    const char *fix = "keep everything in the state that create returns, and nothing in static variables";
    const harness_options options = { 0 };
    harness_result want = { .out_count = 0 }, ignored;
    inlay_diag diag = INLAY_DIAG_INIT;
    char text[CHECK_OPTIONS][128];
    check_args args;
    loaded_provider other;
    struct shared_case *found = find_case(test, source, SIZE, CASE_SIZES, 0);
    struct harness harness, its;
    double before;

    if (found == NULL)
        return;
    check_subject(test->check, "%s on two open providers", test->subject);
    choose_options(test, text, &args);
    if (find_expected(test, &found->built, &found->entry, &want) &&
        harness_open(test->check, test->provider, &found->built, &found->entry, 1, &harness, &diag) == INLAY_OK) {
        const uint32_t index = (uint32_t)(test->provider->table - test->provider->plugin->providers);

        before = cost_of(&harness);
        check_phase(test->check, "create, a second time");
        if (loaded_create(test->provider->plugin, index, &args, &other, &diag) == INLAY_OK) {
            test->opened++;
            if (harness_open(test->check, &other, &found->built, &found->entry, 1, &its, &diag) == INLAY_OK) {
                (void)!harness_run(&its, &options, &ignored, &diag);
                harness_result_deinit(&ignored);
                harness_close(&its);
            }
            (void)run_as_expected(test, &harness, &want, "with a second open provider with other options", fix);
            if (!test->failed && before >= 0 && cost_of(&harness) != before)
                fail(test, "costs that only the provider's own options determine", fix,
                     "%g ns, and %g ns after the provider was opened again with other options", before,
                     cost_of(&harness));
            check_phase(test->check, "destroy of a second open provider");
            loaded_destroy(&other);
            if (!test->failed)
                (void)run_as_expected(test, &harness, &want, "after a second open provider was destroyed", fix);
        }
        harness_close(&harness);
    }
    harness_result_deinit(&want);
    drop_case(found);
}

static bool try_source(void *user, const case_source *source)
{
    struct sharing *test = user;
    const uint32_t most = test->check->args->quick ? QUICK_OPERATORS : OPERATORS;
    const uint32_t before = test->instances + test->interrupted;

    if (sizes_kind(source) == SIZES_NONE || source->random)
        return true;
    (void)snprintf(test->subject, sizeof test->subject, "%.60s-%lld", source->op_type, (long long)source->opset);
    if (!check_unit(test->check, "%s", test->subject))
        return true;
    test->failed = false;
    check_two_instances(test, source);
    if (!test->failed)
        check_interrupted(test, source, LONG_SIZE);
    if (!test->failed)
        check_interrupted(test, source, MIDDLE_SIZE);
    if (!test->failed && test->opened < OPEN_TWICE)
        check_open_twice(test, source);
    test->operators += test->instances + test->interrupted > before;
    return test->operators < most && !test->failed;
}

static void try_provider(struct check *check, const struct fixture *fixture, const loaded_provider *provider,
                         const inlay_operator *const *custom, uint32_t custom_count)
{
    struct sharing *test = calloc(1, sizeof *test);

    if (test == NULL)
        return;
    *test = (struct sharing){ .check = check, .fixture = fixture, .provider = provider };
    generate_sources(custom, custom_count, check->args->op, true, try_source, test);
    if (!test->failed && test->operators > 0)
        check_pass(
            check, "sharing", provider->name,
            "%u operators: %u pairs of instances, %u runs in the middle of another one, %u on two open providers",
            test->operators, test->instances, test->interrupted, test->opened);
    free(test);
}

void check_group_sharing(struct check *check)
{
    fixture_each(check, "sharing", try_provider);
}
