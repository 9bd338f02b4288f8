#include "cli/cache_file.h"
#include "base/cache_folder.h"
#include "base/cpus.h"
#include "base/sha256.h"
#include "config/dirs.h"
#include "partition/cost/cost_profile.h"
#include "partition/cost/cost_store.h"
#include "data/scratch.h"
#include "base/output.h"
#include "inlay/check.h"
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC "inlay-cache"
enum { VERSION = 1, MOST_FILES = 65536, MOST_HEAD = 64 << 20, FIRST_LINE = 128 }; /* MOST_HEAD, FIRST_LINE: bytes */
/* Limit for all files together. */
#define MOST_BYTES (UINT64_C(64) << 30)
static const char measured[] = "costs/measured.bin", profile[] = "costs/machine.json";

static const char *byte_order(void)
{
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? "little" : "big";
}

/* The folder for a kind of file. If the user named the cache folder, compiled regions are stored directly in it. */
static bool folder_for(const inlay_options *options, const char *kind, char *text, size_t bytes)
{
    if (strcmp(kind, "compiled") == 0)
        return config_blob_dir(options, text, bytes);
    return config_cache_folder(options, kind, text, bytes);
}

/* ------------------------------------------------------------------ export */

/* Writes and hashes the same bytes; with to == NULL it only hashes. */
struct sink {
    FILE *to;
    struct sha256 sum;
};

static void put(struct sink *sink, const void *data, size_t bytes)
{
    sha256_update(&sink->sum, data, bytes);
    if (sink->to != NULL)
        (void)fwrite(data, 1, bytes, sink->to);
}

/* Adds the plain files of a folder to the list, in the order of their names. */
static inlay_status list_folder(const inlay_options *options, const char *kind, json_t *files, uint64_t *bytes,
                                inlay_diag *diag)
{
    char folder[PATH_MAX], name[PATH_MAX];
    struct dirent **entries = NULL;
    bool good = true;
    int count;

    if (!folder_for(options, kind, folder, sizeof folder))
        return INLAY_OK;
    count = scandir(folder, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        struct stat st;
        json_error_t error;
        json_t *file;

        (void)snprintf(name, sizeof name, "%.2000s/%s", folder, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.' && lstat(name, &st) == 0 && S_ISREG(st.st_mode) &&
            strlen(entries[i]->d_name) < 200) {
            (void)snprintf(name, sizeof name, "%s/%s", kind, entries[i]->d_name);
            file = json_pack_ex(&error, 0, "{s:s, s:I}", "name", name, "bytes", (json_int_t)st.st_size);
            if (file != NULL)
                *bytes += (uint64_t)st.st_size;
            /* A name that is not UTF-8 is no file of a cache. */
            good &= file != NULL ? json_array_append_new(files, file) == 0
                                 : json_error_code(&error) == json_error_invalid_utf8;
        }
        free(entries[i]);
    }
    free(entries);
    if (!good)
        return no_memory(diag, "to list the files of the cache");
    return json_array_size(files) <= MOST_FILES
               ? INLAY_OK
               : inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "the cache has more than %d files", MOST_FILES);
}

/* The costs folder also has files that are not exported, such as locks and leftovers of interrupted writes. */
static bool is_cost_file(const char *name)
{
    return strcmp(name, measured) == 0 || strcmp(name, profile) == 0;
}

static inlay_status put_file(struct sink *sink, const inlay_options *options, const json_t *file, inlay_diag *diag)
{
    const char *name = json_string_value(json_object_get(file, "name")), *slash = strchr(name, '/');
    uint64_t left = (uint64_t)json_integer_value(json_object_get(file, "bytes"));
    char kind[16], path[PATH_MAX], folder[PATH_MAX], block[65536];
    FILE *from;

    INLAY_CHECK(slash != NULL); /* list_folder() builds the names */
    (void)snprintf(kind, sizeof kind, "%.*s", (int)(slash - name), name);
    if (!folder_for(options, kind, folder, sizeof folder))
        return inlay_fail(diag, INLAY_IO_ERROR, "the cache has no folder '%s' any longer", kind);
    (void)snprintf(path, sizeof path, "%.2000s/%.250s", folder, slash + 1);
    from = fopen(path, "re");
    while (from != NULL && left > 0) {
        const size_t got = fread(block, 1, left < sizeof block ? (size_t)left : sizeof block, from);

        if (got == 0)
            break;
        put(sink, block, got);
        left -= got;
    }
    if (from != NULL)
        (void)fclose(from);
    return left == 0 && from != NULL
               ? INLAY_OK
               : inlay_fail(diag, INLAY_IO_ERROR, "%.300s changed while it was read; export again", path);
}

static json_t *make_head(json_t *files)
{
    char cpu[160];

    profile_cpu(cpu, sizeof cpu);
    return json_pack("{s:s, s:s, s:i, s:s, s:O}", "inlay", inlay_version(), "cpu", cpu, "threads", (int)cpus_allowed(),
                     "order", byte_order(), "files", files);
}

/* The first line holds the checksum of everything after it. All files are therefore read twice, the first time only for
 * the checksum, so that the output may be a pipe. */
static inlay_status write_all(FILE *to, const inlay_options *options, const json_t *files, const char *head,
                              inlay_diag *diag)
{
    const size_t bytes = strlen(head), count = json_array_size(files);
    char line[FIRST_LINE], sum[2][65];
    inlay_status status = INLAY_OK;

    for (int pass = 0; pass < 2; pass++) {
        struct sink sink = { .to = pass == 0 ? NULL : to };
        const json_t *file;
        size_t i;

        if (pass == 1) {
            (void)snprintf(line, sizeof line, MAGIC " %d %s %zu", VERSION, sum[0], bytes);
            (void)fprintf(to, "%-*s\n", FIRST_LINE - 1, line);
        }
        sha256_init(&sink.sum);
        put(&sink, head, bytes);
        put(&sink, "\n", 1);
        json_array_foreach(files, i, file) {
            if (cli_progress(NULL, ((double)i / (double)count + pass) / 2, "exporting") != 0)
                return inlay_fail(diag, INLAY_CANCELLED, "stopped");
            INLAY_TRY(put_file(&sink, options, file, diag));
        }
        sha256_hex(&sink.sum, sum[pass]);
    }
    if (strcmp(sum[0], sum[1]) != 0)
        status = inlay_fail(diag, INLAY_IO_ERROR, "the cache changed while it was read; export again");
done:
    return status;
}

inlay_status cache_file_export(const cli_common *common, const char *path, bool all, cache_file_result *out,
                               inlay_diag *diag)
{
    json_t *files = json_array(), *costs = json_array(), *head = NULL, *file;
    char *text = NULL;
    output_file file_out = { .to = NULL };
    inlay_status status;
    size_t i;

    *out = (cache_file_result){ 0 };
    INLAY_TRY(list_folder(common->options, "costs", costs, &out->bytes, diag));
    out->bytes = 0;
    json_array_foreach(costs, i, file) {
        if (!is_cost_file(json_string_value(json_object_get(file, "name"))))
            continue;
        if (json_array_append(files, file) != 0) {
            status = no_memory(diag, "to export the cache");
            goto done;
        }
        out->bytes += (uint64_t)json_integer_value(json_object_get(file, "bytes"));
    }
    if (all) {
        INLAY_TRY(list_folder(common->options, "packs", files, &out->bytes, diag));
        INLAY_TRY(list_folder(common->options, "compiled", files, &out->bytes, diag));
    }
    out->files = (uint32_t)json_array_size(files);
    if (out->files == 0) {
        status = inlay_fail(diag, INLAY_NOT_FOUND,
                            "the cache has nothing to export; inlay tune measures models and this machine");
        goto done;
    }
    head = make_head(files);
    text = head != NULL ? json_dumps(head, JSON_COMPACT) : NULL;
    if (text == NULL) {
        status = no_memory(diag, "to export the cache");
        goto done;
    }
    INLAY_TRY(output_open_stream(&file_out, path, diag));
    INLAY_TRY(write_all(file_out.to, common->options, files, text, diag));
done:
    cli_progress_clear();
    if (status == INLAY_OK)
        status = output_commit(&file_out, NULL, diag);
    else
        output_drop(&file_out);
    free(text);
    json_decref(head);
    json_decref(costs);
    json_decref(files);
    return status;
}

/* ------------------------------------------------------------------ import */

/* Reads the first line and the head; with `whole`, verifies the checksum of the file. Leaves `from` at the first
 * file. */
static inlay_status read_head(FILE *from, const char *path, bool whole, json_t **out_head, inlay_diag *diag)
{
    char line[FIRST_LINE + 1] = "", sum[65] = "", want[65], block[65536];
    unsigned long head_bytes = 0;
    int version = 0;
    size_t got;
    char *text;
    json_error_t error = { .line = 0 };
    struct sha256 sha256;

    if (fread(line, 1, FIRST_LINE, from) != FIRST_LINE || sscanf(line, MAGIC " %d", &version) != 1)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "%.300s: not a file written by inlay cache export", path);
    if (version != VERSION)
        return inlay_fail(diag, INLAY_INVALID_MODEL,
                          "%.300s: version %d of the file format; this inlay reads version %d", path, version, VERSION);
    if (sscanf(line, MAGIC " %d %64[0-9a-f] %lu", &version, want, &head_bytes) != 3 || head_bytes > MOST_HEAD)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "%.300s: damaged: the first line is invalid", path);
    sha256_init(&sha256);
    while (whole && (got = fread(block, 1, sizeof block, from)) > 0)
        sha256_update(&sha256, block, got);
    sha256_hex(&sha256, sum);
    if (whole && strcmp(sum, want) != 0)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "%.300s: damaged: wrong checksum; copy the file again", path);
    text = malloc(head_bytes + 1);
    *out_head = NULL;
    if (text == NULL)
        return no_memory(diag, "for the head of %.300s", path);
    if (fseek(from, FIRST_LINE, SEEK_SET) == 0 && fread(text, 1, head_bytes + 1, from) == head_bytes + 1)
        *out_head = json_loadb(text, head_bytes, 0, &error);
    free(text);
    if (*out_head == NULL && json_error_code(&error) == json_error_out_of_memory)
        return no_memory(diag, "for the head of %.300s", path);
    return *out_head != NULL ? INLAY_OK
                             : inlay_fail(diag, INLAY_INVALID_MODEL, "%.300s: the head is not valid JSON", path);
}

static const char *text_at(const json_t *head, const char *key)
{
    const char *text = json_string_value(json_object_get(head, key));

    return text != NULL ? text : "";
}

/* Was the file written on this kind of machine? */
static inlay_status check_machine(const json_t *head, const char *path, inlay_diag *diag)
{
    char cpu[160];

    profile_cpu(cpu, sizeof cpu);
    if (strcmp(text_at(head, "cpu"), cpu) != 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "%.200s was exported on another machine, '%.100s'; this one is '%.100s'", path,
                          text_at(head, "cpu"), cpu);
    return INLAY_OK;
}

/* Can the files be read here? With `with_code`, packed weights and compiled regions, too, which need the same version of
 * inlay. */
static inlay_status check_files(const json_t *head, const char *path, bool with_code, inlay_diag *diag)
{
    const json_t *file;
    uint64_t bytes = 0;
    size_t i;

    if (strcmp(text_at(head, "order"), byte_order()) != 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "%.200s was exported on a machine with the other byte order", path);
    if (json_array_size(json_object_get(head, "files")) > MOST_FILES)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "%.200s has more than %d files", path, MOST_FILES);
    json_array_foreach(json_object_get(head, "files"), i, file) {
        const char *name = text_at(file, "name"), *slash = strchr(name, '/');
        const json_int_t size = json_integer_value(json_object_get(file, "bytes"));
        const bool code = strncmp(name, "packs/", 6) == 0 || strncmp(name, "compiled/", 9) == 0;

        if ((!code && !is_cost_file(name)) || slash == NULL || slash[1] == '.' || slash[1] == '\0' ||
            strchr(slash + 1, '/') != NULL || strlen(name) > 220 || size < 0 || (bytes += (uint64_t)size) > MOST_BYTES)
            return inlay_fail(diag, INLAY_INVALID_MODEL, "%.200s: '%.100s' is not a file of a cache", path, name);
        if (code && with_code && strcmp(text_at(head, "inlay"), inlay_version()) != 0)
            return inlay_fail(diag, INLAY_UNSUPPORTED,
                              "%.200s has packed weights of inlay %.40s; this is inlay %s: export it again, or without "
                              "--all",
                              path, text_at(head, "inlay"), inlay_version());
    }
    return INLAY_OK;
}

/* Opens the file and reads its head. whole: verifies the checksum; elsewhere: it may be of another kind of machine. On
 * failure, too, the caller closes *out_file and releases *out_head. */
static inlay_status open_file(const char *path, bool whole, bool elsewhere, FILE **out_file, json_t **out_head,
                              inlay_diag *diag)
{
    inlay_status status;

    *out_head = NULL;
    *out_file = fopen(path, "re");
    if (*out_file == NULL)
        return inlay_fail(diag, INLAY_IO_ERROR, "%.300s: %s", path, strerror(errno));
    INLAY_TRY(read_head(*out_file, path, whole, out_head, diag));
    if (!elsewhere)
        INLAY_TRY(check_machine(*out_head, path, diag));
    INLAY_TRY(check_files(*out_head, path, !elsewhere, diag));
done:
    return status;
}

static void close_file(FILE *file, json_t *head)
{
    json_decref(head);
    if (file != NULL)
        (void)fclose(file);
}

/* Reads the next file of the list; the caller frees *out_data. */
static inlay_status read_file(FILE *from, const char *path, const json_t *file, void **out_data, inlay_diag *diag)
{
    const size_t bytes = (size_t)json_integer_value(json_object_get(file, "bytes"));

    *out_data = malloc(bytes + 1);
    if (*out_data == NULL)
        return no_memory(diag, "to read '%.100s' of %zu bytes", text_at(file, "name"), bytes);
    if (fread(*out_data, 1, bytes, from) == bytes)
        return INLAY_OK;
    return inlay_fail(diag, INLAY_INVALID_MODEL, "%.300s: '%.100s' cannot be read", path, text_at(file, "name"));
}

/* Creates an empty folder for temporary files; text is [PATH_MAX]. */
static inlay_status make_aside(char *text, inlay_diag *diag)
{
    const char *tmp = getenv("TMPDIR");

    (void)snprintf(text, PATH_MAX, "%.3000s/inlay-cache.XXXXXX", tmp != NULL && tmp[0] == '/' ? tmp : "/tmp");
    return mkdtemp(text) != NULL ? INLAY_OK : inlay_fail(diag, INLAY_IO_ERROR, "%.300s: %s", text, strerror(errno));
}

/* Merges the measurements of the file into those of the cache. */
static inlay_status merge_measured(const inlay_options *options, const void *data, size_t bytes, inlay_diag *diag)
{
    const cost_log quiet = { NULL, NULL };
    char folder[PATH_MAX], aside[PATH_MAX];
    cost_store store = { 0 };
    inlay_status status;

    if (!config_cache_folder(options, "costs", folder, sizeof folder))
        return inlay_fail(diag, INLAY_IO_ERROR, "the cache has no folder for costs");
    status = make_aside(aside, diag);
    if (status != INLAY_OK)
        return status;
    INLAY_TRY(cost_file_write(aside, "measured.bin", data, bytes, diag));
    INLAY_TRY(cost_store_load(aside, &quiet, &store));
    if (store.count > 0)
        status = cost_store_merge(folder, store.records, store.count, &quiet, diag);
done:
    cost_store_deinit(&store);
    scratch_remove_folder(aside);
    return status;
}

static inlay_status take_file(const inlay_options *options, const char *name, const void *data, size_t bytes,
                              bool replace, cache_file_result *out, inlay_diag *diag)
{
    const char *slash = strchr(name, '/');
    const cache_folder_part part = { data, bytes };
    char kind[16], folder[PATH_MAX], path[PATH_MAX];
    inlay_status status = INLAY_OK;

    INLAY_CHECK(slash != NULL); /* check_head() has verified the name */
    (void)snprintf(kind, sizeof kind, "%.*s", (int)(slash - name), name);
    if (!folder_for(options, kind, folder, sizeof folder))
        return inlay_fail(diag, INLAY_IO_ERROR, "the cache has no writable folder '%s'", kind);
    (void)snprintf(path, sizeof path, "%.2000s/%.250s", folder, slash + 1);
    if (strcmp(name, measured) == 0) {
        INLAY_TRY(merge_measured(options, data, bytes, diag));
    } else if (!replace && access(path, F_OK) == 0) {
        out->kept++;
        return INLAY_OK;
    } else if (!cache_folder_write(path, &part, 1)) {
        return inlay_fail(diag, INLAY_IO_ERROR, "%.300s: %s", path, strerror(errno));
    }
    out->files++;
    out->bytes += bytes;
done:
    return status;
}

inlay_status cache_file_import(const cli_common *common, const char *path, bool replace, cache_file_result *out,
                               inlay_diag *diag)
{
    json_t *head;
    const json_t *file;
    void *data = NULL;
    FILE *from;
    inlay_status status;
    size_t i;

    *out = (cache_file_result){ 0 };
    INLAY_TRY(open_file(path, true, false, &from, &head, diag));
    json_array_foreach(json_object_get(head, "files"), i, file) {
        const size_t bytes = (size_t)json_integer_value(json_object_get(file, "bytes"));

        if (cli_progress(NULL, (double)i / (double)json_array_size(json_object_get(head, "files")), "importing") != 0) {
            status = inlay_fail(diag, INLAY_CANCELLED, "stopped");
            goto done;
        }
        free(data);
        INLAY_TRY(read_file(from, path, file, &data, diag));
        INLAY_TRY(take_file(common->options, text_at(file, "name"), data, bytes, replace, out, diag));
    }
done:
    cli_progress_clear();
    free(data);
    close_file(from, head);
    return status;
}

/* ------------------------------------------------------------------ costs of another machine */

inlay_status cache_file_costs(const char *path, char *folder, cache_file_machine *out, inlay_diag *diag)
{
    char costs[PATH_MAX];
    const json_t *file;
    json_t *head;
    void *data = NULL;
    FILE *from;
    json_int_t threads;
    uint32_t found = 0;
    inlay_status status;
    size_t i;

    folder[0] = '\0';
    INLAY_TRY(open_file(path, true, true, &from, &head, diag));
    (void)snprintf(out->cpu, sizeof out->cpu, "%s", text_at(head, "cpu"));
    threads = json_integer_value(json_object_get(head, "threads"));
    out->threads = threads < 0 || threads > 4096 ? 0 : (uint32_t)threads;
    INLAY_TRY(make_aside(folder, diag));
    (void)snprintf(costs, sizeof costs, "%.3900s/costs", folder);
    if (mkdir(costs, 0700) != 0) {
        status = inlay_fail(diag, INLAY_IO_ERROR, "%.300s: %s", costs, strerror(errno));
        goto done;
    }
    json_array_foreach(json_object_get(head, "files"), i, file) {
        if (!is_cost_file(text_at(file, "name")))
            break; /* they are the first ones */
        free(data);
        INLAY_TRY(read_file(from, path, file, &data, diag));
        INLAY_TRY(cost_file_write(costs, strchr(text_at(file, "name"), '/') + 1, data,
                                  (size_t)json_integer_value(json_object_get(file, "bytes")), diag));
        found++;
    }
    if (found == 0 || out->cpu[0] == '\0')
        status = inlay_fail(diag, INLAY_NOT_FOUND, "%.300s has no measurements; inlay tune makes them", path);
done:
    free(data);
    close_file(from, head);
    return status;
}

/* ------------------------------------------------------------------ check */

inlay_status cache_file_check(const char *path, cache_file_facts *out, inlay_diag *diag)
{
    json_t *head;
    const json_t *file;
    FILE *from;
    uint64_t begin;
    struct stat facts;
    inlay_status status;
    size_t i;

    *out = (cache_file_facts){ 0 };
    INLAY_TRY(open_file(path, false, false, &from, &head, diag));
    begin = (uint64_t)ftell(from);
    json_array_foreach(json_object_get(head, "files"), i, file) {
        out->files++;
        out->compiled += strncmp(text_at(file, "name"), "compiled/", 9) == 0;
        out->packed += strncmp(text_at(file, "name"), "packs/", 6) == 0;
        out->bytes += (uint64_t)json_integer_value(json_object_get(file, "bytes"));
    }
    if (fstat(fileno(from), &facts) != 0)
        status = inlay_fail(diag, INLAY_IO_ERROR, "%.300s: %s", path, strerror(errno));
    else if ((uint64_t)facts.st_size != begin + out->bytes)
        status = inlay_fail(diag, INLAY_INVALID_MODEL,
                            "%.300s: damaged: has %llu bytes and should have %llu; copy the file again", path,
                            (unsigned long long)facts.st_size, (unsigned long long)(begin + out->bytes));
done:
    close_file(from, head);
    return status;
}
