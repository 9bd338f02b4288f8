/* The extensions of a provider: found by name, inlay.control/1; and compiles that are cancelled. */
#include "check/compare_results.h"
#include "check/generate.h"
#include "check/process.h"
#include "inlay/extensions.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

enum { CANCELLED_COMPILES = 8, UNKNOWN_ACTION = 77 };

struct control_test {
    struct check *check;
    const struct fixture *fixture;
    const loaded_provider *provider;
    op_case entry; /* the first one that the provider offers */
    case_instance built;
    bool found, failed;
};

INLAY_PRINTF(4, 5)
static void fail(struct control_test *test, const char *expected, const char *fix, const char *format, ...)
{
    char got[400];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(got, sizeof got, format, args);
    va_end(args);
    test->failed = true;
    check_fail(test->check, "control", test->provider->name, expected, fix, "%s", got);
}

static const void *find_extension(const struct control_test *test, const char *name)
{
    const inlay_provider *table = test->provider->table;

    return table->extension != NULL ? table->extension(test->provider->state, name) : NULL;
}

static void check_names(struct control_test *test)
{
    static const char *const names[] = { INLAY_EXT_KERNELS, INLAY_EXT_INTEGERS, INLAY_EXT_SOURCES,
                                         INLAY_EXT_WEIGHTS, INLAY_EXT_STATES,   INLAY_EXT_BODIES,
                                         INLAY_EXT_STREAMS, INLAY_EXT_BRANCHES, INLAY_EXT_CONTROL };
    const char *fix = "compare the whole name, and return the address of a static table";

    check_phase(test->check, "extension");
    if (find_extension(test, "inlay.unheard_of/1") != NULL || find_extension(test, "inlay.control/99") != NULL)
        fail(test, "NULL for an extension that does not exist", fix,
             "a table for 'inlay.unheard_of/1' or 'inlay.control/99'");
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !test->failed; i++) {
        const uint64_t *table = find_extension(test, names[i]); /* begins with struct_size */

        if (table == NULL)
            continue;
        if (*table < 2 * sizeof *table || *table % 8 != 0 || *table > 65536)
            fail(test, "struct_size = sizeof(the struct)", "set .struct_size = sizeof(the struct)",
                 "%s: struct_size is %llu", names[i], (unsigned long long)*table);
        else if (find_extension(test, names[i]) != table)
            fail(test, "a table that lives as long as the state", fix, "%s: another address each time", names[i]);
    }
    check_phase(test->check, "the checker");
}

static inlay_status control(const struct control_test *test, const inlay_ext_control *table, uint32_t action,
                            inlay_diag *diag)
{
    inlay_control_args args = { .struct_size = sizeof args,
                                .action = action,
                                .option_bytes = sizeof(inlay_option_value) };

    *diag = (inlay_diag)INLAY_DIAG_INIT;
    return table->control(test->provider->state, &args, diag);
}

/* INLAY_BUSY: the compiles of the check have used up their time. */
static inlay_status run(const struct control_test *test, harness_result *out, inlay_diag *diag)
{
    const harness_options options = { 0 };
    struct harness harness;
    inlay_status status;

    memset(out, 0, sizeof *out);
    status = harness_open(test->check, test->provider, &test->built, &test->entry, 1, &harness, diag);
    if (status != INLAY_OK)
        return status;
    status = harness_run(&harness, &options, out, diag);
    harness_close(&harness);
    return status;
}

static void check_control(struct control_test *test)
{
    const inlay_ext_control *table = find_extension(test, INLAY_EXT_CONTROL);
    inlay_diag diag, ignored = INLAY_DIAG_INIT;
    harness_result want, got = { .out_count = 0 };
    inlay_status status;
    char text[300];

    if (table == NULL || test->failed || !INLAY_HAS(table, control) || table->control == NULL)
        return;
    check_phase(test->check, "control");
    status = control(test, table, UNKNOWN_ACTION, &diag);
    harness_check_answer(test->check, test->provider, "control", status, &diag);
    if (status != INLAY_UNSUPPORTED)
        fail(test, "INLAY_UNSUPPORTED for an unknown action", "answer it for every action that is not implemented",
             "'%s' for action %d", inlay_status_text(status), UNKNOWN_ACTION);
    status = control(test, table, INLAY_CONTROL_TRIM, &diag);
    harness_check_answer(test->check, test->provider, "control", status, &diag);
    if (!test->found || run(test, &want, &ignored) != INLAY_OK)
        return;
    check_phase(test->check, "control");
    status = control(test, table, INLAY_CONTROL_SUSPEND, &diag);
    harness_check_answer(test->check, test->provider, "control", status, &diag);
    if (status == INLAY_OK) {
        status = control(test, table, INLAY_CONTROL_RESUME, &diag);
        if (status != INLAY_OK)
            fail(test, "RESUME ends SUSPEND", "restore what SUSPEND gave up", "'%s': %.200s", inlay_status_text(status),
                 diag.text);
        else if ((status = run(test, &got, &diag)) == INLAY_OK && !compare_results(&got, &want, text, sizeof text))
            fail(test, "the results from before SUSPEND", "restore what SUSPEND gave up", "%s", text);
        else if (status != INLAY_OK && status != INLAY_BUSY)
            fail(test, "a provider that runs after RESUME", "restore what SUSPEND gave up", "%.300s", diag.text);
        harness_result_deinit(&got);
    }
    harness_result_deinit(&want);
}

/* Every function of the requests may be NULL. */
static void check_bare(struct control_test *test)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    harness_result result;

    check_subject(test->check, "%s, without store functions, progress and poll", test->provider->name);
    test->check->bare = true;
    (void)!run(test, &result, &diag); /* a call of NULL crashes */
    harness_result_deinit(&result);
    test->check->bare = false;
}

static void check_cancelled(struct control_test *test)
{
    struct check_polls polls = { .answer = INLAY_CANCELLED };
    const uint64_t before = heap_read_counts().all_blocks;
    inlay_status status = INLAY_OK;
    uint64_t left;
    char at[64];

    heap_mark();
    for (int i = 0; i < CANCELLED_COMPILES; i++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        struct harness harness;

        test->check->polls = &polls;
        status = harness_open(test->check, test->provider, &test->built, &test->entry, 1, &harness, &diag);
        test->check->polls = NULL;
        if (status == INLAY_OK)
            harness_close(&harness);
    }
    left = heap_read_counts().all_blocks - before;
    heap_main_caller(at, sizeof at);
    if (polls.count > 0 && status != INLAY_CANCELLED && status != INLAY_BUSY)
        fail(test, "the status that poll returned", "end compile and specialize with it",
             "poll said that the user cancelled, but the call returned '%s'", inlay_status_text(status));
    else if (status != INLAY_OK && (int64_t)left >= CANCELLED_COMPILES)
        fail(test, "no block is leaked", "free what the call allocated before it fails",
             "%llu blocks after %d cancelled compiles, most allocated at offset %s of the file",
             (unsigned long long)left, CANCELLED_COMPILES, at);
}

static bool take_case(void *user, op_case *entry)
{
    struct control_test *test = user;
    inlay_diag diag = INLAY_DIAG_INIT;
    harness_answer answer;

    test->entry = *entry;
    if (entry->random ||
        case_graph(&test->entry, &test->fixture->operators, CASE_SIZES, &test->built, &diag) != INLAY_OK)
        return true;
    harness_assess(test->provider, &test->built, &answer);
    test->found = answer.kind == HARNESS_OFFERED;
    if (test->found)
        entry->arena = (struct arena){ 0 }; /* the test owns it now */
    else
        case_instance_deinit(&test->built);
    return !test->found;
}

static bool take_source(void *user, const case_source *source)
{
    struct control_test *test = user;
    const case_range range = { .seed = test->check->args->seed, .scale = 1, .quick = true };

    check_phase(test->check, "assess");
    generate_cases(source, &range, take_case, test);
    return !test->found;
}

static void try_provider(struct check *check, const struct fixture *fixture, const loaded_provider *provider,
                         const inlay_operator *const *custom, uint32_t custom_count)
{
    struct control_test *test;

    if (!check_unit(check, "%s", provider->name) || (test = calloc(1, sizeof *test)) == NULL)
        return;
    *test = (struct control_test){ .check = check, .fixture = fixture, .provider = provider };
    generate_sources(custom, custom_count, check->args->op, true, take_source, test);
    check_names(test);
    check_control(test);
    if (test->found && !test->failed)
        check_bare(test);
    if (test->found && heap_watch(fixture->plugins[0].handle) && !test->failed)
        check_cancelled(test);
    if (!test->failed)
        check_pass(check, "control", provider->name,
                   "extensions are found by their names; a cancelled compile leaves nothing behind");
    if (test->found) {
        case_instance_deinit(&test->built);
        case_deinit(&test->entry);
    }
    free(test);
}

void check_group_control(struct check *check)
{
    fixture_each(check, "control", try_provider);
}
