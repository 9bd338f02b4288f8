/* inlay advise: the kinds of CPUs, threads and precisions that run a model in a given time.
 *
 * The kind of CPU belongs to the process (base/core_kind.h), so each kind is asked in a child process. */
#include "base/core_kind.h"
#include "cli/cells.h"
#include "cli/cli.h"
#include "cli/on_kind.h"
#include "config/options.h"
#include "inlay/check.h"
#include "base/strbuf.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const char doc_advise[] =
    "Predicts the time of a run of MODEL on every kind of CPU that inlay knows, and lists the kinds, threads and "
    "precisions that need at most the given time, cheapest first.\v"
    "With --price, the cheapest is the one with the lowest price of its threads; without, the one with the fewest. A "
    "kind is listed with the fewest threads that suffice, and with reduced precision if that needs fewer.\n\n"
    "On a Zen 4, 95 % of the times expected for 14 networks were within 25 % of the measured ones on one thread, and "
    "within 45 % on two. \"up to\" is the longest time that such an error allows, for kinds whose speeds were "
    "measured. "
    "Other times are guesses, from published speeds. Nothing is measured, and the model is not run. Open dimensions "
    "have the sizes that --dim NAME~=N states.\n\n"
    "Examples:\n"
    "  inlay advise model.onnx --deadline-ms 20\n"
    "  inlay advise model.onnx --deadline-ms 5 --on zen4,amx,n2 --threads 1,2,4\n"
    "  inlay advise model.onnx --deadline-ms 20 --price zen4=0.04 --price n2=0.03\n"
    "  inlay advise model.onnx --deadline-ms 20 --all --json\n";

enum { MOST_THREADS = 8, MOST_KINDS = 32, MEASURED_THREADS = 2 };
/* The error |expected / measured - 1| of 95 % of the networks in tests/bench/results.md, on one thread and on two. */
#define ONE_THREAD_ERROR 0.25
#define TWO_THREADS_ERROR 0.45
/* Smaller gains of reduced precision do not count. */
#define LEAST_GAIN 0.02

/* Without --precision. */
enum { PRECISIONS = 2 };
static const char *const usual_precisions[PRECISIONS] = { "f32", "reduced" };

typedef struct advise_args {
    const char *model;
    double deadline_ms;
    bool all;
    const core_kind *kinds[MOST_KINDS];
    double prices[MOST_KINDS]; /* of one core for an hour; negative: not known */
    uint32_t kind_count;
    uint32_t threads[MOST_THREADS];
    uint32_t thread_count;
    const char *precisions[PRECISIONS];
    uint32_t precision_count;
    const core_kind *priced[MOST_KINDS]; /* of --price */
    double amounts[MOST_KINDS];
    uint32_t priced_count;
} advise_args;

static const core_kind *kind_of(struct argp_state *state, const char *name)
{
    const core_kind *kind;
    inlay_diag diag = INLAY_DIAG_INIT;

    if (core_kind_get(name, &kind, &diag) != INLAY_OK)
        cli_refuse(state, CLI_USAGE, "%s", diag.text);
    return kind;
}

static error_t take_kinds(const cli_option *option, void *field, char *list, struct argp_state *state)
{
    advise_args *args = field;
    char *copy = strdup(list), *next = NULL;

    (void)option;
    args->kind_count = 0;
    for (char *name = copy == NULL ? NULL : strtok_r(copy, ",", &next); name != NULL;
         name = strtok_r(NULL, ",", &next)) {
        if (args->kind_count == MOST_KINDS)
            cli_refuse(state, CLI_USAGE, "--on %s: more than %d kinds", list, MOST_KINDS);
        args->kinds[args->kind_count++] = kind_of(state, name);
    }
    free(copy);
    return 0;
}

static error_t take_threads(const cli_option *option, void *field, char *list, struct argp_state *state)
{
    advise_args *args = field;

    (void)option;
    args->thread_count = cli_whole_numbers(state, "--threads", list, 1, 4096, MOST_THREADS, args->threads);
    return 0;
}

static error_t take_price(const cli_option *option, void *field, char *text, struct argp_state *state)
{
    advise_args *args = field;
    char *equals = strchr(text, '=');

    (void)option;
    if (equals == NULL)
        cli_refuse(state, CLI_USAGE, "--price %s: expected KIND=AMOUNT", text);
    if (args->priced_count == MOST_KINDS)
        cli_refuse(state, CLI_USAGE, "--price: more than %d kinds", MOST_KINDS);
    *equals = '\0';
    args->priced[args->priced_count] = kind_of(state, text);
    args->amounts[args->priced_count++] = cli_number(state, "--price", equals + 1, 0, 1e9);
    *equals = '=';
    return 0;
}

static const cli_option options_of_advise[] = {
    { "deadline-ms", "MS", "The time that a run may take, in milliseconds",
      CLI_NUMBER(advise_args, deadline_ms, 1e-6, 1e9) },
    { "on", "KIND,...", "Predict for these kinds of CPUs (default: all of the table)", CLI_CALL_ALL(take_kinds) },
    { "threads", "LIST", "Numbers of threads, comma-separated (default: 1,2,4,8,16)", CLI_CALL_ALL(take_threads) },
    { "price", "KIND=AMOUNT", "Price of one core of this kind for an hour, in any currency", CLI_CALL_ALL(take_price) },
    { "all", NULL, "List every kind, number of threads and precision, also those that take longer",
      CLI_SET(advise_args, all) },
    CLI_MODEL(advise_args, model),
    { 0 },
};

static bool finish(void *user, struct argp_state *state)
{
    advise_args *args = user;
    const bool all_kinds = args->kind_count == 0;

    if (!(args->deadline_ms > 0))
        cli_refuse(state, CLI_USAGE, "no time given: state it by --deadline-ms");
    for (uint32_t i = 0; all_kinds && core_kind_at(i) != NULL; i++)
        if (core_kind_at(i)->architecture != 0)
            args->kinds[args->kind_count++] = core_kind_at(i);
    for (uint32_t i = 0; i < args->kind_count; i++) {
        args->prices[i] = -1;
        for (uint32_t k = 0; k < args->priced_count; k++)
            args->prices[i] = args->priced[k] == args->kinds[i] ? args->amounts[k] : args->prices[i];
    }
    return true;
}

/* The threads and precisions that are compared: those that the session options state, or the usual ones. */
static void choose_settings(advise_args *args, const inlay_options *options)
{
    static const uint32_t usual[] = { 1, 2, 4, 8, 16 };
    const int64_t threads = options_int(options, OPTION_intra_threads);
    const char *precision = options_text(options, OPTION_precision);

    if (args->thread_count == 0 && threads > 0)
        args->threads[args->thread_count++] = (uint32_t)threads;
    for (size_t i = 0; args->thread_count == i && i < sizeof usual / sizeof usual[0]; i++)
        args->threads[args->thread_count++] = usual[i];
    if (strcmp(precision, usual_precisions[0]) != 0)
        args->precisions[args->precision_count++] = precision;
    for (uint32_t i = 0; args->precision_count == i && i < PRECISIONS; i++)
        args->precisions[args->precision_count++] = usual_precisions[i];
}

/* What a child process finds out about a kind. */
struct answer {
    inlay_status status;
    inlay_diag diag;
    double ns[MOST_THREADS]; /* of a run, for each number of threads */
};

/* Reads the predicted time at that number of threads. */
static inlay_status predict(const inlay_session *session, uint32_t threads, double *out_ns, inlay_diag *diag)
{
    char rule[32];
    const char *const rules[] = { rule };
    const inlay_explain_options options = {
        .struct_size = sizeof options, .format = "json", .what_ifs = rules, .what_if_count = 1
    };
    struct strbuf text = { 0 };
    json_t *root = NULL;
    inlay_status status;

    (void)snprintf(rule, sizeof rule, "threads=%u", threads);
    INLAY_TRY(inlay_session_explain(session, &options, strbuf_write, &text, diag));
    root = text.failed ? NULL : json_loadb(text.data, text.size, 0, NULL);
    *out_ns = json_number_value(json_object_get(json_object_get(root, "what_if"), "cost_ns"));
    if (root == NULL)
        status = no_memory(diag, "for the prediction");
done:
    json_decref(root);
    strbuf_deinit(&text);
    return status;
}

static inlay_status answer_for(const advise_args *args, cli_common *common, const char *kind, const char *precision,
                               struct answer *answer)
{
    inlay_diag *diag = &answer->diag;
    inlay_session *session = NULL;
    inlay_status status;

    INLAY_TRY(inlay_options_set(common->options, "precision", precision, diag));
    INLAY_TRY(inlay_options_set(common->options, "cache_dir", "", diag)); /* no packs for other CPUs */
    INLAY_TRY(on_kind_open(kind, common, args->model, &session, diag));
    for (uint32_t i = 0; i < args->thread_count; i++)
        INLAY_TRY(predict(session, args->threads[i], &answer->ns[i], diag));
done:
    inlay_session_destroy(session);
    return status;
}

/* Asks for one kind and precision in a child process. */
static inlay_status ask(const advise_args *args, cli_common *common, const char *kind, const char *precision,
                        struct answer *answer)
{
    int ends[2], state;
    size_t got = 0;
    pid_t pid;

    *answer = (struct answer){ .diag = INLAY_DIAG_INIT };
    if (pipe(ends) != 0)
        return inlay_fail(&answer->diag, INLAY_INTERNAL, "pipe: %s", strerror(errno));
    pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)close(ends[0]);
        answer->status = answer_for(args, common, kind, precision, answer);
        _exit(write(ends[1], answer, sizeof *answer) == (ssize_t)sizeof *answer ? 0 : 1);
    }
    (void)close(ends[1]);
    while (pid > 0 && got < sizeof *answer) {
        const ssize_t count = read(ends[0], (char *)answer + got, sizeof *answer - got);

        if (count == 0 || (count < 0 && errno != EINTR))
            break;
        got += count > 0 ? (size_t)count : 0;
    }
    (void)close(ends[0]);
    while (pid > 0 && waitpid(pid, &state, 0) < 0 && errno == EINTR)
        ;
    if (got < sizeof *answer) {
        *answer = (struct answer){ .diag = INLAY_DIAG_INIT };
        return inlay_fail(&answer->diag, INLAY_INTERNAL, "the process that predicts for %s ended early", kind);
    }
    return answer->status;
}

struct advice {
    const core_kind *kind;
    const char *precision;
    uint32_t threads;
    double ms, price; /* price of the threads for an hour; negative: not known */
    bool listed;
};

static bool is_measured(const struct advice *row)
{
    return row->kind->measured && row->threads <= MEASURED_THREADS;
}

/* Known prices come first, then few threads. */
static int by_price(const void *a, const void *b)
{
    const struct advice *first = a, *second = b;

    if ((first->price >= 0) != (second->price >= 0))
        return first->price >= 0 ? -1 : 1;
    if (first->price != second->price)
        return first->price < second->price ? -1 : 1;
    if (first->threads != second->threads)
        return first->threads < second->threads ? -1 : 1;
    return first->ms < second->ms ? -1 : first->ms > second->ms;
}

/* Adds the rows of a kind; `from`: its first one. A number of threads, or reduced precision, is listed if no cheaper
 * row of the kind suffices. */
static void add_rows(const advise_args *args, uint32_t kind, uint32_t precision, const struct answer *answer,
                     struct advice *rows, uint32_t from, uint32_t *count)
{
    for (uint32_t i = 0; i < args->thread_count; i++) {
        struct advice row = { args->kinds[kind],
                              args->precisions[precision],
                              args->threads[i],
                              answer->ns[i] / 1e6,
                              args->prices[kind] < 0 ? -1 : args->prices[kind] * args->threads[i],
                              true };
        bool gains = true;

        for (uint32_t k = from; k < *count; k++) {
            gains &= rows[k].threads != row.threads || row.ms < rows[k].ms * (1 - LEAST_GAIN);
            row.listed &= rows[k].ms > args->deadline_ms || rows[k].threads > row.threads;
        }
        row.listed = args->all || (row.listed && row.ms <= args->deadline_ms);
        for (uint32_t k = from; !args->all && row.listed && k < *count; k++)
            rows[k].listed &= rows[k].precision != row.precision || rows[k].threads < row.threads;
        if (gains)
            rows[(*count)++] = row;
    }
}

enum { KIND, TITLE, THREADS, PRECISION, EXPECTED, UP_TO, PRICE, MEETS, BASIS, COLUMNS };
static const table_column columns[COLUMNS] = {
    [KIND] = { "kind", "kind", TABLE_NAME },
    [TITLE] = { "", "title", TABLE_NAME },
    [THREADS] = { "threads", "threads", TABLE_NUMBER },
    [PRECISION] = { "precision", "precision", TABLE_NAME },
    [EXPECTED] = { "expected", "expected_ms", TABLE_NUMBER },
    [UP_TO] = { "up to", "up_to_ms", TABLE_NUMBER },
    [PRICE] = { "an hour", "price_per_hour", TABLE_NUMBER },
    [MEETS] = { NULL, "meets", TABLE_NAME },
    [BASIS] = { "speeds", "speeds", TABLE_NAME },
};

static void add_row(struct table *table, const struct advice *row, double deadline_ms)
{
    const double most_ms = row->ms / (1 - (row->threads == 1 ? ONE_THREAD_ERROR : TWO_THREADS_ERROR));
    char text[FORMATTED_BYTES];

    table_row(table);
    table_text(table, KIND, row->kind->name);
    table_text(table, TITLE, row->kind->title);
    table_whole(table, THREADS, row->threads);
    table_text(table, PRECISION, row->precision);
    table_real(table, EXPECTED, row->ms, "%s", format_ns(row->ms * 1e6, text));
    if (is_measured(row))
        table_real(table, UP_TO, most_ms, "%s", format_ns(most_ms * 1e6, text));
    if (row->price >= 0)
        table_real(table, PRICE, row->price, "%.4g", row->price);
    table_truth(table, MEETS, row->ms <= deadline_ms, NULL);
    table_text(table, BASIS, is_measured(row) ? "measured" : "guess");
}

static int print(const advise_args *args, const cli_common *common, struct advice *rows, uint32_t count)
{
    struct table table = { .columns = columns, .column_count = COLUMNS };
    const struct advice *fastest = NULL;
    uint32_t meets = 0;
    char text[FORMATTED_BYTES];

    for (uint32_t i = 0; i < count; i++) {
        fastest = fastest == NULL || rows[i].ms < fastest->ms ? &rows[i] : fastest;
        meets += rows[i].ms <= args->deadline_ms;
    }
    INLAY_CHECK(fastest != NULL);
    if (meets == 0)
        cli_say(common, "none meets %.4g ms: the fastest is %s on %u thread%s, with %s expected", args->deadline_ms,
                fastest->kind->name, fastest->threads, fastest->threads == 1 ? "" : "s",
                format_ns(fastest->ms * 1e6, text));
    qsort(rows, count, sizeof *rows, by_price);
    for (uint32_t i = 0; i < count; i++)
        if (rows[i].listed)
            add_row(&table, &rows[i], args->deadline_ms);
    if (common->json)
        return cli_print_json(common,
                              json_pack("{s:s, s:f, s:o}", "model", cli_text(args->model), "deadline_ms",
                                        args->deadline_ms, "list", cells_json(&table)),
                              meets > 0 ? CLI_OK : CLI_FAILED);
    cells_print(&table);
    return meets > 0 ? CLI_OK : CLI_FAILED;
}

static int advise(const advise_args *args, cli_common *common)
{
    struct advice *rows = calloc((size_t)args->kind_count * PRECISIONS * args->thread_count + 1, sizeof *rows);
    uint32_t count = 0, asked = 0;
    struct answer answer;
    int code = rows == NULL ? CLI_FAILED : CLI_OK;

    common->many_sessions = true;
    for (uint32_t kind = 0; kind < args->kind_count && code == CLI_OK; kind++) {
        const uint32_t from = count;

        for (uint32_t precision = 0; precision < args->precision_count && code == CLI_OK; precision++) {
            (void)cli_progress(NULL, (double)asked++ / (args->kind_count * args->precision_count), "predicting");
            if (cli_cancelled())
                code = CLI_CANCELLED;
            else if (ask(args, common, args->kinds[kind]->name, args->precisions[precision], &answer) != INLAY_OK) {
                cli_progress_clear();
                code = cli_fail(common, &answer.diag);
            } else
                add_rows(args, kind, precision, &answer, rows, from, &count);
        }
    }
    cli_progress_clear();
    if (code == CLI_OK)
        code = print(args, common, rows, count);
    free(rows);
    return code;
}

int cmd_advise(int argc, char **argv)
{
    static const cli_verb verb = { "MODEL", doc_advise, options_of_advise, finish };
    advise_args args = { 0 };
    cli_common common;
    int code;

    cli_parse(&verb, CLI_SETTINGS_SESSION, argc, argv, &common, &args);
    choose_settings(&args, common.options);
    code = advise(&args, &common);
    cli_common_deinit(&common);
    return code;
}
