/* The engine cache of a provider: its fingerprint; blobs that are valid, truncated or of another version,
 * as from a build of the provider with the same fingerprint. A blob of another region is never passed to a provider.
 * Blobs of several operators and attributes are loaded in the process that stored them, and in another one. */
#include "check/compare_results.h"
#include "base/random.h"
#include "check/engines.h"
#include "check/generate.h"
#include "check/mutate.h"
#include "check/operator_record.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

enum { GARBAGE_BYTES = 4096, HEAD = 16 };
enum { ENGINES = 24, QUICK_ENGINES = 12, ENGINES_OF_OPERATOR = 4, ATTEMPTS = 6 };

struct cache_test {
    struct check *check;
    const struct fixture *fixture;
    const loaded_provider *provider;
    op_case entry; /* a case that the provider offers */
    case_instance built;
    bool has_case;
    harness_result want; /* of the case */
    bool failed;
    /* Several engines: */
    op_case *engines; /* [engine_count] cases */
    uint32_t engine_count, of_operator;
    const case_source *source;
};

static bool take_case(void *user, op_case *entry)
{
    struct cache_test *test = user;
    inlay_diag diag = INLAY_DIAG_INIT;
    harness_answer answer;

    test->entry = *entry;
    if (case_graph(&test->entry, &test->fixture->operators, CASE_SIZES, &test->built, &diag) != INLAY_OK)
        return true;
    harness_assess(test->provider, &test->built, &answer);
    if (answer.kind != HARNESS_OFFERED || entry->random) {
        case_instance_deinit(&test->built);
        return true;
    }
    entry->arena = (struct arena){ 0 }; /* the test owns it now */
    test->has_case = true;
    return false;
}

static bool take_source(void *user, const case_source *source)
{
    struct cache_test *test = user;
    const case_range range = { .seed = test->check->args->seed, .scale = 1, .quick = true };

    generate_cases(source, &range, take_case, test);
    return !test->has_case;
}

static void fail(struct cache_test *test, const char *expected, const char *fix, const char *what, const char *got)
{
    test->failed = true;
    check_fail(test->check, "cache", test->provider->name, expected, fix, "%s: %.400s", what, got);
}

/* out: [INLAY_MAX_FINGERPRINT_BYTES] */
static bool read_fingerprint(struct cache_test *test, const loaded_provider *provider, char *out, uint64_t *out_bytes)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_fingerprint print;
    char got[300];
    inlay_status status;

    *out_bytes = 0;
    check_phase(test->check, "fingerprint");
    status = engines_fingerprint(provider, &print, &diag);
    check_phase(test->check, "the checker");
    if (status == INLAY_OK && print.data != NULL && print.bytes > 0 && print.bytes <= INLAY_MAX_FINGERPRINT_BYTES) {
        *out_bytes = print.bytes;
        memcpy(out, print.data, (size_t)print.bytes);
        return true;
    }
    (void)snprintf(got, sizeof got, "'%s', %llu bytes; %.200s", inlay_status_text(status),
                   (unsigned long long)print.bytes, diag.text);
    fail(test, "INLAY_OK and 1 to 4096 bytes", "hash what identifies device, driver and build", "fingerprint", got);
    return false;
}

static bool check_fingerprint(struct cache_test *test)
{
    const uint32_t index = (uint32_t)(test->provider->table - test->provider->plugin->providers);
    char first[INLAY_MAX_FINGERPRINT_BYTES], again[INLAY_MAX_FINGERPRINT_BYTES];
    inlay_diag diag = INLAY_DIAG_INIT;
    loaded_provider other;
    uint64_t bytes, more;

    if (!read_fingerprint(test, test->provider, first, &bytes) ||
        loaded_create(test->provider->plugin, index, test->check->args, &other, &diag) != INLAY_OK)
        return false;
    if (read_fingerprint(test, &other, again, &more) && (more != bytes || memcmp(first, again, bytes) != 0))
        fail(test, "the same fingerprint whenever the provider is created", "omit addresses and times", "fingerprint",
             "a second provider gave different bytes, so nothing would ever be found in the cache");
    loaded_destroy(&other);
    if (!engines_same_print(test->check, test->provider))
        fail(test, "the same fingerprint in every process", "omit addresses, times and numbers of processes",
             "fingerprint", "it was different in the process of group 'open'");
    return !test->failed;
}

/* Compiles a graph for some threads with the probe's blob and runs it with the elements of a case. */
static inlay_status run_graph(struct cache_test *test, const case_instance *built, uint32_t threads,
                              struct engine_probe *probe, harness_result *out, inlay_diag *diag)
{
    const harness_options options = { .fill = 0xff };
    struct harness harness;
    inlay_status status;

    memset(out, 0, sizeof *out);
    test->check->probe = probe;
    status = harness_open(test->check, test->provider, built, &test->entry, threads, &harness, diag);
    test->check->probe = NULL;
    if (status != INLAY_OK)
        return status;
    status = harness_run(&harness, &options, out, diag);
    harness_close(&harness);
    return status;
}

static inlay_status run_with(struct cache_test *test, struct engine_probe *probe, harness_result *out, inlay_diag *diag)
{
    return run_graph(test, &test->built, 1, probe, out, diag);
}

static const char own_blob[] = "the blob that compile stored";

/* Offers a blob to cache_verdict and, if it is accepted, to compile. */
static void try_blob(struct cache_test *test, const void *blob, uint64_t bytes, const char *what)
{
    const bool intact = strcmp(what, own_blob) == 0;
    struct engine_probe probe = { .blob = blob, .blob_bytes = bytes };
    inlay_diag why = INLAY_DIAG_INIT, diag = INLAY_DIAG_INIT;
    harness_result got;
    inlay_status status;
    uint32_t verdict;
    char text[400];

    check_subject(test->check, "%s: %s", test->provider->name, what);
    check_phase(test->check, "cache_verdict");
    status = engines_verdict(test->provider, blob, bytes, &verdict, &why);
    check_phase(test->check, "the checker");
    if (status != INLAY_OK || verdict > INLAY_CACHE_UNSUPPORTED) {
        (void)snprintf(text, sizeof text, "'%s', verdict %u", inlay_status_text(status), verdict);
        fail(test, "a verdict of INLAY_CACHE_*", "return OPTIMAL, RECOMPILE or UNSUPPORTED", what, text);
        return;
    }
    if (verdict != INLAY_CACHE_OPTIMAL) {
        if (intact)
            fail(test, "INLAY_CACHE_OPTIMAL for a blob that compile has just stored",
                 "compare device, driver and format, which fingerprint identifies", what, why.text);
        if (why.text[0] == '\0')
            check_warn(test->check, "cache", test->provider->name, "the reason of a verdict", "fill in diag",
                       "%s: verdict %u without a message", what, verdict);
        return;
    }
    status = run_with(test, &probe, &got, &diag);
    if (status == INLAY_BUSY)
        return;
    if (status != INLAY_OK) {
        fail(test, "a blob that cache_verdict calls OPTIMAL compiles",
             "check length, version and checksum in cache_verdict, and compile without a blob that does not fit", what,
             diag.text);
    } else if (!compare_results(&got, &test->want, text, sizeof text)) {
        fail(test, "the results without the cache", "check length, version and checksum in cache_verdict", what, text);
    }
    harness_result_deinit(&got);
    arena_deinit(&probe.arena);
}

static void try_blobs(struct cache_test *test, const struct engine_probe *mine)
{
    unsigned char *copy = malloc((size_t)mine->stored_bytes + GARBAGE_BYTES);
    uint64_t state = 1;

    if (copy == NULL)
        return;
    memcpy(copy, mine->stored, (size_t)mine->stored_bytes);
    try_blob(test, copy, mine->stored_bytes, own_blob);
    try_blob(test, copy, mine->stored_bytes - 1, "a blob without its last byte");
    try_blob(test, copy, mine->stored_bytes / 2, "half of a blob");
    try_blob(test, copy, 1, "one byte of a blob");
    for (uint64_t i = 0; i < HEAD && i < mine->stored_bytes; i++)
        copy[i] ^= 0x55;
    try_blob(test, copy, mine->stored_bytes, "a blob of another version (its first 16 bytes changed)");
    for (uint32_t i = 0; i < GARBAGE_BYTES; i++)
        copy[i] = (unsigned char)(random_bits(&state) >> 32);
    try_blob(test, copy, GARBAGE_BYTES, "4096 random bytes");
    free(copy);
}

/* A blob depends only on its key: it is the same for an equal region at other indices and, unless the flags of the
 * fingerprint say otherwise, for another number of threads. blob: what the provider stored for the case; a
 * deterministic compiler stores the same bytes in a second compile. */
static void try_equal_region(struct cache_test *test, const struct engine_probe *blob, const case_instance *built,
                             uint32_t threads, const char *what, const char *fix)
{
    struct engine_probe again = { .blob = NULL }, anew = { .blob = NULL },
                        reused = { .blob = blob->stored, .blob_bytes = blob->stored_bytes };
    inlay_diag diag = INLAY_DIAG_INIT;
    harness_result got;
    char text[300];
    inlay_status status = run_with(test, &again, &got, &diag);

    harness_result_deinit(&got);
    if (status == INLAY_OK) {
        status = run_graph(test, built, threads, &anew, &got, &diag);
        harness_result_deinit(&got);
    }
    if (status == INLAY_OK && again.stored_bytes == blob->stored_bytes && anew.stored_bytes > 0 &&
        memcmp(again.stored, blob->stored, (size_t)blob->stored_bytes) == 0 &&
        (anew.stored_bytes != blob->stored_bytes || memcmp(anew.stored, blob->stored, (size_t)anew.stored_bytes) != 0))
        fail(test, "blobs that depend on nothing but their key", fix, what, "compile stored another blob");
    check_subject(test->check, "%s: %s", test->provider->name, what);
    if (status == INLAY_OK && !test->failed) {
        status = run_graph(test, built, threads, &reused, &got, &diag);
        if (status != INLAY_OK && status != INLAY_BUSY)
            fail(test, "blobs that depend on nothing but their key", fix, what, diag.text);
        else if (status == INLAY_OK && !compare_results(&got, &test->want, text, sizeof text))
            fail(test, "blobs that depend on nothing but their key", fix, what, text);
        harness_result_deinit(&got);
    }
    arena_deinit(&again.arena);
    arena_deinit(&anew.arena);
    arena_deinit(&reused.arena);
}

static void check_keys(struct cache_test *test, const struct engine_probe *blob)
{
    enum { MORE_THREADS = 4 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_fingerprint print;
    case_instance behind;

    if (!test->failed && engines_fingerprint(test->provider, &print, &diag) == INLAY_OK &&
        (print.flags & INLAY_FINGERPRINT_THREADS) == 0)
        try_equal_region(test, blob, &test->built, MORE_THREADS, "a blob for another number of threads",
                         "set INLAY_FINGERPRINT_THREADS, or leave max_threads out of what is stored");
    if (!test->failed && case_graph_behind(&test->entry, &test->fixture->operators, &behind, &diag) == INLAY_OK) {
        try_equal_region(test, blob, &behind, 1, "a blob for an equal region elsewhere in a graph",
                         "store no indices and names of nodes and values, and no cookies");
        case_instance_deinit(&behind);
    }
}

/* A full cache is no error: compile succeeds without storing its blob. */
static void check_full(struct cache_test *test)
{
    static const char *const functions[] = { "", "store_begin", "store_write", "store_end" };

    for (uint32_t i = ENGINE_FAILS_BEGIN; i <= ENGINE_FAILS_END && !test->failed; i++) {
        struct engine_probe probe = { .fails = i };
        inlay_diag diag = INLAY_DIAG_INIT;
        harness_result got;
        char text[400], what[60];
        inlay_status status;

        check_subject(test->check, "%s: %s fails", test->provider->name, functions[i]);
        status = run_with(test, &probe, &got, &diag);
        (void)snprintf(what, sizeof what, "%s fails", functions[i]);
        if (status != INLAY_OK && status != INLAY_BUSY)
            fail(test, "a compile that does not need the cache", "ignore a failure of the functions that store a blob",
                 what, diag.text);
        else if (status == INLAY_OK && !compare_results(&got, &test->want, text, sizeof text))
            fail(test, "a compile that does not need the cache", "ignore a failure of the functions that store a blob",
                 what, text);
        harness_result_deinit(&got);
        arena_deinit(&probe.arena);
    }
}

static void check_blobs(struct cache_test *test)
{
    struct engine_probe mine = { .blob = NULL };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status = run_with(test, &mine, &test->want, &diag);

    if (status == INLAY_OK && mine.stored_bytes == 0) {
        check_warn(test->check, "cache", test->provider->name, "compile stores a blob",
                   "call request->store_begin, store_write and store_end, or drop fingerprint and cache_verdict",
                   "it stored none for a small case");
    } else if (status == INLAY_OK) {
        try_blobs(test, &mine);
        check_keys(test, &mine);
        check_full(test);
        if (!test->failed)
            check_pass(test->check, "cache", test->provider->name,
                       "a stored blob of %llu bytes compiles again; damaged ones do no harm",
                       (unsigned long long)mine.stored_bytes);
    }
    harness_result_deinit(&test->want);
    arena_deinit(&mine.arena);
}

/* Keeps a case that the provider offers. */
static bool keep_engine(struct cache_test *test, const op_case *entry)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    harness_answer answer;
    case_instance built;

    if (case_graph(entry, &test->fixture->operators, CASE_SIZES, &built, &diag) != INLAY_OK)
        return false;
    harness_assess(test->provider, &built, &answer);
    case_instance_deinit(&built);
    if (answer.kind != HARNESS_OFFERED)
        return false;
    test->engines[test->engine_count++] = *entry;
    test->of_operator++;
    return true;
}

/* A case as it is, and with other values of its attributes. */
static bool take_engine(void *user, op_case *entry)
{
    struct cache_test *test = user;
    const op_schema *schema = test->source->schema;
    const uint32_t most = test->check->args->quick ? QUICK_ENGINES : ENGINES;
    uint64_t state = test->check->args->seed + 1;

    if (entry->random)
        return false;
    if (!keep_engine(test, entry))
        return true;
    entry->arena = (struct arena){ 0 }; /* the test owns it now */
    for (uint32_t a = 0; a < schema->attr_count; a++)
        for (uint32_t i = 0; i < ATTEMPTS && test->of_operator < ENGINES_OF_OPERATOR && test->engine_count < most;
             i++) {
            op_case other;

            if (!mutate_case(entry, test->source, &schema->attrs[a], false, &state, &other))
                break;
            if (keep_engine(test, &other))
                break;
            case_deinit(&other);
        }
    return false;
}

static bool take_engines(void *user, const case_source *source)
{
    struct cache_test *test = user;
    const case_range range = { .seed = test->check->args->seed, .scale = 1, .quick = true };

    test->of_operator = 0;
    test->source = source;
    generate_cases(source, &range, take_engine, test);
    return test->engine_count < (test->check->args->quick ? QUICK_ENGINES : ENGINES);
}

/* The file with the blob and the results of an engine of the first process. */
static FILE *open_engine(const struct cache_test *test, uint32_t engine, const char *mode)
{
    char path[4500];

    if (test->check->args->child.work == NULL)
        return NULL;
    (void)snprintf(path, sizeof path, "%s/blobs/engine-%s-%u", test->check->args->child.work, test->provider->name,
                   engine);
    return fopen(path, mode);
}

static void write_engine(struct cache_test *test, uint32_t engine, const struct engine_probe *mine)
{
    FILE *file = open_engine(test, engine, "wbe");
    size_t bytes;
    char *record = operator_record(&test->want, &bytes);

    if (file != NULL) {
        bool ok = record != NULL && fwrite(&mine->stored_bytes, sizeof mine->stored_bytes, 1, file) == 1 &&
                  fwrite(mine->stored, 1, (size_t)mine->stored_bytes, file) == mine->stored_bytes;

        operator_record_write(file, ok ? record : NULL, bytes);
        if (fclose(file) == 0 && ok)
            test->check->progress->again = 1;
    }
    free(record);
}

/* Compiles a case with a blob and compares its results with test->want. */
static void load_engine(struct cache_test *test, const void *blob, uint64_t bytes, const char *where)
{
    struct engine_probe probe = { .blob = blob, .blob_bytes = bytes };
    inlay_diag diag = INLAY_DIAG_INIT;
    harness_result got;
    char text[400], entry[200], what[300];
    uint32_t verdict;
    inlay_status status = engines_verdict(test->provider, blob, bytes, &verdict, &diag);

    (void)snprintf(what, sizeof what, "%s, the blob of %s process", case_text(&test->entry, entry, sizeof entry),
                   where);
    check_subject(test->check, "%s", what);
    if (status != INLAY_OK || verdict != INLAY_CACHE_OPTIMAL) {
        fail(test, "INLAY_CACHE_OPTIMAL for a blob that compile has stored",
             "compare device, driver and format, which fingerprint identifies", what, diag.text);
        return;
    }
    status = run_with(test, &probe, &got, &diag);
    if (status != INLAY_OK && status != INLAY_BUSY)
        fail(test, "a stored blob compiles in every process", "store no addresses and handles", what, diag.text);
    else if (status == INLAY_OK && !compare_results(&got, &test->want, text, sizeof text))
        fail(test, "the results without the cache", "store all that the node states: attributes, types and shapes",
             what, text);
    harness_result_deinit(&got);
    arena_deinit(&probe.arena);
}

static void try_engine(struct cache_test *test, uint32_t engine)
{
    struct engine_probe mine = { .blob = NULL };
    inlay_diag diag = INLAY_DIAG_INIT;
    FILE *file;

    if (!test->check->args->child.again) {
        if (run_with(test, &mine, &test->want, &diag) == INLAY_OK && mine.stored_bytes > 0) {
            load_engine(test, mine.stored, mine.stored_bytes, "the same");
            write_engine(test, engine, &mine);
        }
        harness_result_deinit(&test->want);
    } else if ((file = open_engine(test, engine, "rbe")) != NULL) {
        if (fread(&mine.stored_bytes, sizeof mine.stored_bytes, 1, file) == 1 &&
            (mine.stored = arena_alloc(&mine.arena, (size_t)mine.stored_bytes)) != NULL &&
            fread(mine.stored, 1, (size_t)mine.stored_bytes, file) == mine.stored_bytes &&
            operator_record_read(file, &mine.arena, &test->want) && test->want.out_count > 0)
            load_engine(test, mine.stored, mine.stored_bytes, "another");
        test->want = (harness_result){ .out_count = 0 };
        (void)fclose(file);
    }
    arena_deinit(&mine.arena);
}

static void check_engines(struct cache_test *test, const inlay_operator *const *custom, uint32_t custom_count)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    uint32_t tried = 0;

    test->engines = calloc(ENGINES + 1, sizeof *test->engines);
    if (test->engines == NULL)
        return;
    check_phase(test->check, "assess");
    generate_sources(custom, custom_count, test->check->args->op, true, take_engines, test);
    for (uint32_t i = 0; i < test->engine_count; i++) {
        test->entry = test->engines[i];
        if (!test->failed && check_unit(test->check, "%s: engine %u", test->provider->name, i) &&
            case_graph(&test->entry, &test->fixture->operators, CASE_SIZES, &test->built, &diag) == INLAY_OK) {
            try_engine(test, i);
            case_instance_deinit(&test->built);
            tried++;
        }
    }
    if (!test->failed && tried > 0)
        check_pass(test->check, "cache", test->provider->name, "the blobs of %u cases compile again%s", tried,
                   test->check->args->child.again ? " in another process" : "");
    for (uint32_t i = test->engine_count; i-- > 0;)
        case_deinit(&test->engines[i]);
    free(test->engines);
}

static void try_provider(struct check *check, const struct fixture *fixture, const loaded_provider *provider,
                         const inlay_operator *const *custom, uint32_t custom_count)
{
    struct cache_test *test;

    if (provider->table->fingerprint == NULL || provider->table->cache_verdict == NULL)
        return;
    test = calloc(1, sizeof *test);
    if (test == NULL)
        return;
    *test = (struct cache_test){ .check = check, .fixture = fixture, .provider = provider };
    if (check_unit(check, "%s", provider->name) && !check->args->child.again) {
        generate_sources(custom, custom_count, check->args->op, true, take_source, test);
        if (check_fingerprint(test) && test->has_case)
            check_blobs(test);
        if (test->has_case) {
            case_instance_deinit(&test->built);
            case_deinit(&test->entry);
        }
    }
    if (!test->failed)
        check_engines(test, custom, custom_count);
    free(test);
}

void check_group_cache(struct check *check)
{
    fixture_each(check, "cache", try_provider);
}
