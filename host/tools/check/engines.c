#include "check/engines.h"
#include "base/hash.h"
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The share of each group in the budget, in percent. The other groups compile little. */
static const struct {
    const char *group;
    uint32_t percent;
} shares[] = { { "fences", 5 },  { "operators", 3 }, { "results", 31 }, { "random", 13 },  { "values", 10 },
               { "sharing", 4 }, { "control", 1 },   { "regions", 6 },  { "patterns", 6 }, { "cost", 6 },
               { "cancel", 4 },  { "cache", 6 },     { "leaks", 5 } };
static const double slow_ms = 20; /* the time of a faster compiler is not limited */
enum { OPERATORS = 16 };          /* operators among which a share is divided if their number is not known */

static double share_of(const char *group)
{
    for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++)
        if (strcmp(shares[i].group, group) == 0)
            return shares[i].percent / 100.0;
    return 1;
}

/* The number of compiles that the group may do. */
static double most_compiles(const struct check *check)
{
    const struct check_compiles *compiles = &check->compiles;
    const check_args *args = check->args;
    const double share = share_of(args->child.group);
    const double mean = compiles->count > 0 ? compiles->ms / compiles->count : 0;
    double most = args->max_compiles > 0 ? args->max_compiles * share : UINT32_MAX;

    if (mean >= slow_ms && 1e3 * args->compile_budget * share / mean < most)
        most = 1e3 * args->compile_budget * share / mean;
    return most;
}

bool engines_are_spent(const struct check *check)
{
    return check->compiles.left_out > 0 && check->compiles.count + 1 > most_compiles(check);
}

bool engines_may_compile(struct check *check, const loaded_provider *provider)
{
    struct check_compiles *compiles = &check->compiles;
    const double most = most_compiles(check);
    const uint32_t operators = compiles->operators > 0 ? compiles->operators : OPERATORS;

    if (!provider->is_own || compiles->count == 0 ||
        (compiles->count + 1 <= most && compiles->in_unit < 1 + most / operators))
        return true;
    compiles->left_out++;
    return false;
}

inlay_status engines_fingerprint(const loaded_provider *provider, inlay_fingerprint *out, inlay_diag *diag)
{
    *out = (inlay_fingerprint){ .struct_size = sizeof *out };
    return provider->table->fingerprint(provider->state, out, diag);
}

inlay_status engines_verdict(const loaded_provider *provider, const void *blob, uint64_t bytes, uint32_t *out_verdict,
                             inlay_diag *diag)
{
    inlay_cache_request request = { .struct_size = sizeof request, .blob = blob, .bytes = bytes };
    const inlay_status status = provider->table->cache_verdict(provider->state, &request, diag);

    *out_verdict = request.verdict;
    return status;
}

static bool fails_at(const struct engine_call *call, uint32_t function)
{
    return call->probe != NULL && call->probe->fails == function;
}

static inlay_status store_begin(void *ctx, uint64_t bytes)
{
    struct engine_call *call = ctx;

    (void)bytes;
    if (fails_at(call, ENGINE_FAILS_BEGIN))
        return INLAY_LIMIT_EXCEEDED;
    call->stored_bytes = 0;
    call->is_storing = true;
    return INLAY_OK;
}

void engines_progress(void *ctx, double fraction, const char *what)
{
    struct engine_call *call = ctx;

    if (!(fraction >= 0 && fraction <= 1))
        check_rule(call->check, "fractions of progress from 0 to 1", "divide by the whole",
                   "compile reported a progress of %g (%.60s)", fraction, what != NULL ? what : "no text");
}

inlay_status engines_poll(void *ctx)
{
    struct engine_call *call = ctx;

    if (call->check->polls != NULL)
        call->check->polls->count++;
    return call->check->polls != NULL ? call->check->polls->answer : INLAY_OK;
}

static inlay_status store_write(void *ctx, const void *data, uint64_t bytes)
{
    struct engine_call *call = ctx;
    const uint64_t all = call->stored_bytes + bytes;

    if (!call->is_storing) {
        check_rule(call->check, "store_begin, store_write for each piece, store_end", "call store_begin first",
                   "compile called store_write outside of store_begin and store_end");
        return INLAY_INVALID_ARGUMENT;
    }
    if (fails_at(call, ENGINE_FAILS_WRITE))
        return INLAY_IO_ERROR;
    if (all > call->stored_room) {
        char *grown = all < call->stored_bytes || all > SIZE_MAX / 2 ? NULL : realloc(call->stored, (size_t)all * 2);

        if (grown == NULL)
            return INLAY_OUT_OF_MEMORY;
        call->stored = grown;
        call->stored_room = all * 2;
    }
    if (bytes > 0)
        memcpy(call->stored + call->stored_bytes, data, (size_t)bytes);
    call->stored_bytes = all;
    return INLAY_OK;
}

/* The blobs that the processes of a check have stored, one after the other in a file: a file for each takes most of the
 * time of the check where a file system is slow to create thousands. */
struct stored_blob {
    uint64_t key, bytes;
    long from; /* offset in the file, which has these numbers without `from` in front of it */
};

static struct {
    pthread_mutex_t lock;
    struct stored_blob *list; /* [count] */
    size_t count, room;
    bool is_read; /* those of earlier processes are in the list */
} index_of_blobs = { .lock = PTHREAD_MUTEX_INITIALIZER };

static FILE *open_blobs(const check_args *args, const char *mode)
{
    char path[4400];

    (void)snprintf(path, sizeof path, "%s/blobs/engines", args->child.work);
    return fopen(path, mode);
}

static bool add_blob(const struct stored_blob *blob)
{
    if (index_of_blobs.count == index_of_blobs.room) {
        const size_t room = index_of_blobs.room * 2 + 64;
        struct stored_blob *list = realloc(index_of_blobs.list, room * sizeof *list);

        if (list == NULL)
            return false;
        index_of_blobs.list = list;
        index_of_blobs.room = room;
    }
    index_of_blobs.list[index_of_blobs.count++] = *blob;
    return true;
}

/* Lists the blobs of earlier processes. A process that crashed may have left a part of one at the end. */
static void read_index(const check_args *args)
{
    FILE *file = open_blobs(args, "r+be");
    struct stored_blob blob;
    long end, from = 0;

    index_of_blobs.is_read = true;
    if (file == NULL)
        return;
    end = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : 0;
    while (fseek(file, from, SEEK_SET) == 0 && fread(&blob, offsetof(struct stored_blob, from), 1, file) == 1) {
        blob.from = from + (long)offsetof(struct stored_blob, from);
        if (blob.bytes > (uint64_t)(end - blob.from))
            break;
        if (!add_blob(&blob)) {
            end = from; /* out of memory: the file is kept, and this process does not use the rest */
            break;
        }
        from = blob.from + (long)blob.bytes;
    }
    if (from < end)
        (void)!ftruncate(fileno(file), from);
    (void)fclose(file);
}

static bool find_blob(const check_args *args, uint64_t key, struct stored_blob *out)
{
    bool found = false;

    (void)pthread_mutex_lock(&index_of_blobs.lock);
    if (!index_of_blobs.is_read)
        read_index(args);
    for (size_t i = index_of_blobs.count; i > 0 && !found; i--) {
        *out = index_of_blobs.list[i - 1];
        found = out->key == key;
    }
    (void)pthread_mutex_unlock(&index_of_blobs.lock);
    return found;
}

static bool keep_blob(const struct engine_call *call)
{
    struct stored_blob blob = { .key = call->key, .bytes = call->stored_bytes };
    FILE *file;
    bool ok = false;

    (void)pthread_mutex_lock(&index_of_blobs.lock);
    file = open_blobs(call->check->args, "abe");
    if (file != NULL) {
        ok = fseek(file, 0, SEEK_END) == 0 && (blob.from = ftell(file)) >= 0 &&
             fwrite(&blob, offsetof(struct stored_blob, from), 1, file) == 1 &&
             fwrite(call->stored, 1, (size_t)blob.bytes, file) == blob.bytes;
        blob.from += (long)offsetof(struct stored_blob, from);
        ok = fclose(file) == 0 && ok && add_blob(&blob);
    }
    (void)pthread_mutex_unlock(&index_of_blobs.lock);
    return ok;
}

static inlay_status store_end(void *ctx)
{
    struct engine_call *call = ctx;

    if (!call->is_storing)
        check_rule(call->check, "store_begin, store_write for each piece, store_end", "call store_begin first",
                   "compile called store_end without store_begin");
    call->is_storing = false;
    if (fails_at(call, ENGINE_FAILS_END))
        return INLAY_IO_ERROR;
    if (call->probe != NULL) {
        call->probe->stored = arena_copy(&call->probe->arena, call->stored, (size_t)call->stored_bytes);
        call->probe->stored_bytes = call->probe->stored != NULL ? call->stored_bytes : 0;
        return call->probe->stored != NULL ? INLAY_OK : INLAY_OUT_OF_MEMORY;
    }
    return call->is_kept && keep_blob(call) ? INLAY_OK : INLAY_IO_ERROR;
}

bool engines_same_print(struct check *check, const loaded_provider *provider)
{
    char path[4400], earlier[INLAY_MAX_FINGERPRINT_BYTES + 1];
    inlay_diag ignored = INLAY_DIAG_INIT;
    inlay_fingerprint print;
    size_t bytes = 0;
    FILE *file;

    if (check->args->child.work == NULL || provider->table->fingerprint == NULL ||
        engines_fingerprint(provider, &print, &ignored) != INLAY_OK || print.data == NULL ||
        print.bytes > INLAY_MAX_FINGERPRINT_BYTES)
        return true;
    (void)snprintf(path, sizeof path, "%s/blobs/fingerprint-%s", check->args->child.work, provider->name);
    file = fopen(path, "rbe");
    if (file != NULL) {
        bytes = fread(earlier, 1, sizeof earlier, file);
        (void)fclose(file);
        return bytes == print.bytes && memcmp(earlier, print.data, bytes) == 0;
    }
    file = fopen(path, "wbe");
    if (file != NULL) {
        (void)!fwrite(print.data, 1, (size_t)print.bytes, file);
        (void)fclose(file);
    }
    return true;
}

/* Reads the blob of an earlier compile, if the provider accepts it. */
static void load(struct engine_call *call, struct arena *arena, inlay_compile_request *request)
{
    inlay_diag why = INLAY_DIAG_INIT;
    struct stored_blob found;
    void *blob = NULL;
    uint32_t verdict;
    FILE *file;

    if (!find_blob(call->check->args, call->key, &found) || found.bytes == 0)
        return;
    file = open_blobs(call->check->args, "rbe");
    if (file == NULL)
        return;
    if (fseek(file, found.from, SEEK_SET) == 0)
        blob = arena_alloc(arena, (size_t)found.bytes);
    if (blob != NULL && fread(blob, 1, (size_t)found.bytes, file) == found.bytes &&
        engines_verdict(call->provider, blob, found.bytes, &verdict, &why) == INLAY_OK &&
        verdict == INLAY_CACHE_OPTIMAL) {
        request->cache_blob = blob;
        request->cache_bytes = found.bytes;
    }
    (void)fclose(file);
}

void engines_begin(struct check *check, const loaded_provider *provider, uint64_t key, struct arena *arena,
                   struct engine_call *call, inlay_compile_request *request)
{
    inlay_diag ignored = INLAY_DIAG_INIT;
    inlay_fingerprint print;

    *call = (struct engine_call){ .check = check, .provider = provider, .probe = check->probe };
    if (provider->is_own)
        call->begin = process_clock_start();
    if (check->bare)
        return;
    if (provider->is_own && provider->table->fingerprint != NULL && provider->table->cache_verdict != NULL) {
        request->store_begin = store_begin;
        request->store_write = store_write;
        request->store_end = store_end;
        if (call->probe != NULL) {
            request->cache_blob = call->probe->blob;
            request->cache_bytes = call->probe->blob_bytes;
        } else if (check->args->child.work != NULL && engines_fingerprint(provider, &print, &ignored) == INLAY_OK &&
                   print.bytes <= INLAY_MAX_FINGERPRINT_BYTES) {
            key = hash_bytes(print.data, print.bytes, key);
            call->key = hash_bytes(provider->name, strlen(provider->name), key);
            call->is_kept = true;
            load(call, arena, request);
        }
    }
    request->ctx = call;
    request->progress = engines_progress;
    request->poll = engines_poll;
}

void engines_end(struct engine_call *call)
{
    free(call->stored);
    call->stored = NULL;
    if (!call->provider->is_own)
        return;
    call->check->compiles.ms += process_clock_ms(&call->begin);
    call->check->compiles.count++;
    call->check->compiles.in_unit++;
}

void engines_report(struct check *check)
{
    const struct check_compiles *compiles = &check->compiles;

    if (compiles->left_out > 0)
        check_skip(check, check->args->child.group, "budget",
                   "%u compiles were skipped, %u done: one takes %.0f ms (see --compile-budget and --max-compiles)",
                   compiles->left_out, compiles->count, compiles->ms / (compiles->count > 0 ? compiles->count : 1));
}
