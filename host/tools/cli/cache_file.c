#include "cli/cache_file.h"
#include "base/cache_folder.h"
#include "base/cpus.h"
#include "base/json_text.h"
#include "base/sha256.h"
#include "cli/cache_part.h"
#include "config/dirs.h"
#include "partition/cost/cost_profile.h"
#include "partition/cost/cost_store.h"
#include "data/scratch.h"
#include "base/output.h"
#include "inlay/check.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The folder for a kind of file. If the user named the cache folder, compiled regions are stored directly in it. */
static bool folder_for(const inlay_options *options, const char *kind, char *text, size_t bytes)
{
    if (strcmp(kind, "compiled") == 0)
        return config_blob_dir(options, text, bytes);
    return config_cache_folder(options, kind, text, bytes);
}

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
            /* A name that is not UTF-8 is not a file of a cache. */
            good &= file != NULL ? json_array_append_new(files, file) == 0
                                 : json_error_code(&error) == json_error_invalid_utf8;
        }
        free(entries[i]);
    }
    free(entries);
    if (!good)
        return no_memory(diag, "to list the files of the cache");
    return json_array_size(files) <= CACHE_PART_MOST_FILES
               ? INLAY_OK
               : inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "the cache has more than %d files", CACHE_PART_MOST_FILES);
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
                     "order", cache_part_byte_order(), "files", files);
}

/* The first line holds the checksum of everything after it. All files are therefore read twice, the first time only for
 * the checksum, so that the output may be a pipe. */
static inlay_status write_all(FILE *to, const inlay_options *options, const json_t *files, const char *head,
                              inlay_diag *diag)
{
    const size_t bytes = strlen(head), count = json_array_size(files);
    char line[CACHE_PART_LINE], sum[2][65];
    inlay_status status = INLAY_OK;

    for (int pass = 0; pass < 2; pass++) {
        struct sink sink = { .to = pass == 0 ? NULL : to };
        const json_t *file;
        size_t i;

        if (pass == 1) {
            (void)snprintf(line, sizeof line, CACHE_PART_MAGIC " %d %s %zu", CACHE_PART_VERSION, sum[0], bytes);
            (void)fprintf(to, "%-*s\n", CACHE_PART_LINE - 1, line);
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
        if (!cache_part_has_costs(json_string_value(json_object_get(file, "name"))))
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

static inlay_status open_file(const char *path, FILE **out_file, inlay_diag *diag)
{
    *out_file = fopen(path, "re");
    if (*out_file != NULL)
        output_note_read(fileno(*out_file));
    return *out_file != NULL ? INLAY_OK : inlay_fail(diag, INLAY_IO_ERROR, "%.300s: %s", path, strerror(errno));
}

static void close_file(FILE *file, cache_part *part)
{
    cache_part_deinit(part);
    if (file != NULL)
        (void)fclose(file);
}

/* Why no part can be used: the only part's reason, or that of a part of this kind of machine, or the kinds. */
static inlay_status refuse(const cache_file_facts *facts, const char *path, const inlay_diag *reasons, inlay_diag *diag)
{
    char cpu[160], kinds[400] = "";

    profile_cpu(cpu, sizeof cpu);
    for (uint32_t i = 0; i < facts->part_count; i++) {
        const size_t used = strlen(kinds);

        if (facts->part_count == 1 || strcmp(facts->parts[i].machine.cpu, cpu) == 0)
            return inlay_fail(diag, INLAY_UNSUPPORTED, "%s", reasons[i].text);
        (void)snprintf(kinds + used, sizeof kinds - used, "%s'%s'", used > 0 ? ", " : "", facts->parts[i].machine.cpu);
    }
    return inlay_fail(diag, INLAY_UNSUPPORTED, "%.200s has no part for this machine, '%.100s'; it has parts for %s",
                      path, cpu, kinds);
}

/* Copies a text of a head; control characters, which terminals interpret, become '?'. */
static void copy_text(char *to, size_t bytes, const char *text)
{
    (void)snprintf(to, bytes, "%s", text);
    for (; *to != '\0'; to++)
        *to = iscntrl((unsigned char)*to) ? '?' : *to;
}

/* The machine that a part is from. */
static void read_machine(const json_t *head, cache_file_machine *out)
{
    const json_int_t threads = json_integer_value(json_object_get(head, "threads"));

    copy_text(out->cpu, sizeof out->cpu, json_text_of(head, "cpu"));
    out->threads = threads < 0 || threads > 4096 ? 0 : (uint32_t)threads;
}

/* Reads the heads of all parts; with `whole`, compares the parts with their checksums. Fails if a part is damaged, or
 * if no part can be used here. */
static inlay_status survey(FILE *from, const char *path, bool whole, cache_file_facts *out, inlay_diag *diag)
{
    inlay_diag *reasons = calloc(CACHE_FILE_PARTS, sizeof *reasons);
    cache_part part = { .head = NULL };
    bool found = false;
    inlay_status status;

    *out = (cache_file_facts){ 0 };
    if (reasons == NULL)
        return no_memory(diag, "to read %.300s", path);
    while ((status = cache_part_next(from, path, &part, diag)) == INLAY_OK && part.head != NULL) {
        cache_file_part *one = &out->parts[out->part_count];

        if (out->part_count == CACHE_FILE_PARTS) {
            status = inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "%.300s has more than %d parts", path, CACHE_FILE_PARTS);
            goto done;
        }
        if (whole)
            INLAY_TRY(cache_part_copy(from, path, &part, NULL, diag));
        reasons[out->part_count] = (inlay_diag)INLAY_DIAG_INIT;
        *one = (cache_file_part){ .files = (uint32_t)json_array_size(json_object_get(part.head, "files")),
                                  .compiled = part.compiled,
                                  .packed = part.packed,
                                  .bytes = part.bytes };
        read_machine(part.head, &one->machine);
        copy_text(one->version, sizeof one->version, json_text_of(part.head, "inlay"));
        one->valid = cache_part_check(&part, path, false, &reasons[out->part_count]) == INLAY_OK;
        found |= one->valid;
        out->part_count++;
    }
    if (status == INLAY_OK && !found)
        status = refuse(out, path, reasons, diag);
done:
    cache_part_deinit(&part);
    free(reasons);
    return status;
}

/* Reads the next file of the list; the caller frees *out_data. */
static inlay_status read_file(FILE *from, const char *path, const json_t *file, void **out_data, inlay_diag *diag)
{
    const size_t bytes = (size_t)json_integer_value(json_object_get(file, "bytes"));

    *out_data = malloc(bytes + 1);
    if (*out_data == NULL)
        return no_memory(diag, "to read '%.100s' of %zu bytes", json_text_of(file, "name"), bytes);
    if (fread(*out_data, 1, bytes, from) == bytes)
        return INLAY_OK;
    return inlay_fail(diag, INLAY_INVALID_MODEL, "%.300s: '%.100s' cannot be read", path, json_text_of(file, "name"));
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

    INLAY_CHECK(slash != NULL); /* cache_part_next() has verified the name */
    (void)snprintf(kind, sizeof kind, "%.*s", (int)(slash - name), name);
    if (!folder_for(options, kind, folder, sizeof folder))
        return inlay_fail(diag, INLAY_IO_ERROR, "the cache has no writable folder '%s'", kind);
    (void)snprintf(path, sizeof path, "%.2000s/%.250s", folder, slash + 1);
    if (strcmp(name, cache_part_measured) == 0) {
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

/* Imports the files of a part. */
static inlay_status take_part(FILE *from, const char *path, const cache_part *part, const cli_common *common,
                              bool replace, cache_file_result *out, inlay_diag *diag)
{
    const json_t *files = json_object_get(part->head, "files"), *file;
    void *data = NULL;
    inlay_status status = INLAY_OK;
    size_t i;

    json_array_foreach(files, i, file) {
        if (cli_progress(NULL, (double)i / (double)json_array_size(files), "importing") != 0) {
            status = inlay_fail(diag, INLAY_CANCELLED, "stopped");
            goto done;
        }
        free(data);
        INLAY_TRY(read_file(from, path, file, &data, diag));
        INLAY_TRY(take_file(common->options, json_text_of(file, "name"), data,
                            (size_t)json_integer_value(json_object_get(file, "bytes")), replace, out, diag));
    }
done:
    free(data);
    return status;
}

inlay_status cache_file_import(const cli_common *common, const char *path, bool replace, cache_file_result *out,
                               inlay_diag *diag)
{
    cache_file_facts *facts = calloc(1, sizeof *facts);
    cache_part part = { .head = NULL };
    FILE *from = NULL;
    inlay_status status;

    *out = (cache_file_result){ 0 };
    if (facts == NULL)
        return no_memory(diag, "to import %.300s", path);
    INLAY_TRY(open_file(path, &from, diag));
    INLAY_TRY(survey(from, path, true, facts, diag));
    rewind(from);
    for (uint32_t i = 0; i < facts->part_count; i++) {
        INLAY_TRY(cache_part_next(from, path, &part, diag));
        if (facts->parts[i].valid && part.head != NULL)
            INLAY_TRY(take_part(from, path, &part, common, replace, out, diag));
    }
done:
    cli_progress_clear();
    close_file(from, &part);
    free(facts);
    return status;
}

inlay_status cache_file_costs(const char *path, char *folder, cache_file_machine *out, inlay_diag *diag)
{
    char costs[PATH_MAX];
    cache_part part = { .head = NULL }, other = { .head = NULL };
    const json_t *file;
    void *data = NULL;
    FILE *from = NULL;
    uint32_t found = 0;
    inlay_status status;
    size_t i;

    folder[0] = '\0';
    INLAY_TRY(open_file(path, &from, diag));
    INLAY_TRY(cache_part_next(from, path, &part, diag));
    other.end = part.end;
    INLAY_TRY(cache_part_next(from, path, &other, diag));
    if (other.head != NULL) {
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                            "%.200s has parts for several machines ('%.80s', '%.80s'); name a file of one machine, as "
                            "inlay cache export writes it",
                            path, json_text_of(part.head, "cpu"), json_text_of(other.head, "cpu"));
        goto done;
    }
    INLAY_TRY(cache_part_copy(from, path, &part, NULL, diag));
    INLAY_TRY(cache_part_check(&part, path, true, diag));
    read_machine(part.head, out);
    INLAY_TRY(make_aside(folder, diag));
    (void)snprintf(costs, sizeof costs, "%.3900s/costs", folder);
    if (mkdir(costs, 0700) != 0) {
        status = inlay_fail(diag, INLAY_IO_ERROR, "%.300s: %s", costs, strerror(errno));
        goto done;
    }
    json_array_foreach(json_object_get(part.head, "files"), i, file) {
        if (!cache_part_has_costs(json_text_of(file, "name")))
            break; /* files of costs come first */
        free(data);
        INLAY_TRY(read_file(from, path, file, &data, diag));
        INLAY_TRY(cost_file_write(costs, strchr(json_text_of(file, "name"), '/') + 1, data,
                                  (size_t)json_integer_value(json_object_get(file, "bytes")), diag));
        found++;
    }
    if (found == 0 || out->cpu[0] == '\0')
        status = inlay_fail(diag, INLAY_NOT_FOUND, "%.300s has no measurements; inlay tune makes them", path);
done:
    free(data);
    cache_part_deinit(&other);
    close_file(from, &part);
    return status;
}

inlay_status cache_file_check(const char *path, cache_file_facts *out, inlay_diag *diag)
{
    FILE *from;
    inlay_status status;

    INLAY_TRY(open_file(path, &from, diag));
    status = survey(from, path, false, out, diag);
    (void)fclose(from);
done:
    return status;
}

/* Copies the parts of a file that have none of the checksums in `sums`, and adds theirs. */
static inlay_status merge_file(const char *path, char (*sums)[65], FILE *to, cache_file_result *out, inlay_diag *diag)
{
    cache_part part = { .head = NULL };
    FILE *from;
    inlay_status status;

    INLAY_TRY(open_file(path, &from, diag));
    while ((status = cache_part_next(from, path, &part, diag)) == INLAY_OK && part.head != NULL) {
        bool known = false;

        for (uint32_t i = 0; i < out->files; i++)
            known |= strcmp(sums[i], part.sum) == 0;
        if (!known && out->files == CACHE_FILE_PARTS) {
            status = inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "%.300s: the result would have more than %d parts", path,
                                CACHE_FILE_PARTS);
            goto done;
        }
        INLAY_TRY(cache_part_copy(from, path, &part, known ? NULL : to, diag));
        if (known) {
            out->kept++;
            continue;
        }
        memcpy(sums[out->files++], part.sum, sizeof part.sum);
        out->bytes += part.bytes;
    }
done:
    close_file(from, &part);
    return status;
}

inlay_status cache_file_merge(const char *const *paths, uint32_t count, const char *output, cache_file_result *out,
                              inlay_diag *diag)
{
    char sums[CACHE_FILE_PARTS][65];
    output_file to;
    inlay_status status = output_open_stream(&to, output, diag);

    *out = (cache_file_result){ 0 };
    if (status != INLAY_OK)
        return status;
    for (uint32_t i = 0; i < count && status == INLAY_OK; i++)
        status = merge_file(paths[i], sums, to.to, out, diag);
    if (status == INLAY_OK)
        return output_commit(&to, NULL, diag);
    output_drop(&to);
    return status;
}
