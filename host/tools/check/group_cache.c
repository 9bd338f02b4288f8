/* The engine cache of a provider: its fingerprint; blobs that are valid, truncated or of another version,
 * as from a build of the provider with the same fingerprint. A blob of another region is never passed to a provider. */
#include "check/compare_results.h"
#include "base/random.h"
#include "check/engines.h"
#include "check/generate.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

enum { GARBAGE_BYTES = 4096, HEAD = 16 };

struct cache_test {
    struct check *check;
    const struct fixture *fixture;
    const loaded_provider *provider;
    op_case entry; /* a case that the provider offers */
    case_instance built;
    bool has_case;
    harness_result want; /* of the case */
    bool failed;
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
        fail(test, "the same fingerprint whenever the provider is created", "leave out addresses and times",
             "fingerprint", "a second provider gave different bytes, so nothing would ever be found in the cache");
    loaded_destroy(&other);
    if (!engines_same_print(test->check, test->provider))
        fail(test, "the same fingerprint in every process", "leave out addresses, times and numbers of processes",
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
        if (!test->failed)
            check_pass(test->check, "cache", test->provider->name,
                       "a stored blob of %llu bytes compiles again; damaged ones do no harm",
                       (unsigned long long)mine.stored_bytes);
    }
    harness_result_deinit(&test->want);
    arena_deinit(&mine.arena);
}

static void try_provider(struct check *check, const struct fixture *fixture, const loaded_provider *provider,
                         const inlay_operator *const *custom, uint32_t custom_count)
{
    struct cache_test *test;

    if (provider->table->fingerprint == NULL || provider->table->cache_verdict == NULL ||
        !check_unit(check, "%s", provider->name))
        return;
    test = calloc(1, sizeof *test);
    if (test == NULL)
        return;
    *test = (struct cache_test){ .check = check, .fixture = fixture, .provider = provider };
    generate_sources(custom, custom_count, check->args->op, true, take_source, test);
    if (check_fingerprint(test) && test->has_case)
        check_blobs(test);
    if (test->has_case) {
        case_instance_deinit(&test->built);
        case_deinit(&test->entry);
    }
    free(test);
}

void check_group_cache(struct check *check)
{
    fixture_each(check, "cache", try_provider);
}
