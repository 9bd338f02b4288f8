/* The file of a record. */
#include "lock/lock.h"
#include "base/memory.h"
#include "base/output.h"
#include "base/path.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { FORMAT = 2 };

/* Does the output have a hash, and values if any, for each sample? A shorter list would be compared with nothing. */
static bool is_whole(const json_t *output, size_t samples)
{
    const json_t *values = json_object_get(output, "values");

    return json_array_size(json_object_get(output, "sha256")) == samples &&
           (values == NULL || json_array_size(values) == samples);
}

/* The members of a record of this format; a member that is unknown, missing or of another type is named. */
static inlay_status check_members(const char *path, const json_t *record, inlay_diag *diag)
{
    static const char *const arrays[] = { "settings", "inputs", "outputs", "regions", "warnings" };
    json_error_t error;
    json_t *output;
    size_t i;

    if (json_unpack_ex((json_t *)record, &error, JSON_VALIDATE_ONLY,
                       "{s:i, s:{s:s, s:s, s:s !}, s:{s:s, s:s !}, s?s, s:o, s:o, s:o, s:o, s:o, s:o,"
                       " s:{s:F, s:F, s?F !}, s:{s:F, s:F, s:F !}, s?{s:o !} !}",
                       "inlay_lock", "made", "inlay", "date", "cpu", "model", "sha256", "path", "data", "settings",
                       "inputs", "outputs", "providers", "regions", "warnings", "memory", "planned_bytes",
                       "constant_bytes", "peak_bytes", "limits", "error", "time", "memory", "time", "ratios") != 0)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: %s; write it again with inlay lock MODEL -o %s", path, error.text,
                          path);
    for (i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        if (!json_is_array(json_object_get(record, arrays[i])))
            return inlay_fail(diag, INLAY_IO_ERROR,
                              "%s: \"%s\" is no array; write it again with inlay lock MODEL -o %s", path, arrays[i],
                              path);
    if (json_array_size(json_object_get(record, "inputs")) == 0 ||
        json_array_size(json_object_get(record, "outputs")) == 0)
        return inlay_fail(diag, INLAY_IO_ERROR,
                          "%s: \"inputs\" or \"outputs\" is empty; write it again with inlay lock MODEL -o %s", path,
                          path);
    json_array_foreach(json_object_get(record, "outputs"), i, output) {
        if (json_unpack_ex(output, &error, JSON_VALIDATE_ONLY, "{s:s, s:s, s:o, s?o, s?s, s?s !}", "name", "metric",
                           "sha256", "values", "dtype", "type") != 0)
            return inlay_fail(diag, INLAY_IO_ERROR, "%s: output %zu: %s; write it again with inlay lock MODEL -o %s",
                              path, i, error.text, path);
        if (!is_whole(output, json_array_size(json_object_get(record, "inputs"))))
            return inlay_fail(diag, INLAY_IO_ERROR,
                              "%s: output %zu: \"sha256\" or \"values\" has not one element for each sample; write it "
                              "again with inlay lock MODEL -o %s",
                              path, i, path);
    }
    return INLAY_OK;
}

inlay_status lock_load(const char *path, json_t **out_record, inlay_diag *diag)
{
    json_error_t error;
    json_t *record = json_load_file(path, 0, &error);
    const json_int_t format = json_integer_value(json_object_get(record, "inlay_lock"));
    inlay_status status = INLAY_OK;

    *out_record = NULL;
    output_note_read_path(path);
    if (record == NULL)
        return error.line > 0
                   ? inlay_fail(diag, INLAY_IO_ERROR,
                                "%s:%d: not a file of inlay lock (%s): write one with inlay lock MODEL -o FILE", path,
                                error.line, error.text)
                   : inlay_fail(diag, INLAY_IO_ERROR, "%s", error.text);
    if (format != FORMAT)
        status =
            format > 0 && format < FORMAT
                ? inlay_fail(diag, INLAY_IO_ERROR, "%s has format %lld, and this version reads %d; record it again",
                             path, (long long)format, FORMAT)
            : format > FORMAT
                ? inlay_fail(diag, INLAY_IO_ERROR, "%s has format %lld, and this version reads %d; use a newer inlay",
                             path, (long long)format, FORMAT)
                : inlay_fail(diag, INLAY_IO_ERROR,
                             "%s is not a file of inlay lock: write one with inlay lock MODEL -o FILE", path);
    if (status == INLAY_OK)
        status = check_members(path, record, diag);
    if (status != INLAY_OK)
        json_decref(record);
    else
        *out_record = record;
    return status;
}

static int write_piece(const char *text, size_t bytes, void *file)
{
    return fwrite(text, 1, bytes, file) == bytes ? 0 : -1;
}

inlay_status lock_write_json(const char *path, const json_t *json, inlay_diag *diag)
{
    output_file file = { .fd = -1 };
    inlay_status status;

    INLAY_TRY(output_open_stream(&file, path, diag));
    if (json_dump_callback(json, write_piece, file.to, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) != 0 ||
        fputc('\n', file.to) == EOF) {
        status = output_failed(&file, diag);
        goto done;
    }
    status = output_commit(&file, NULL, diag);
done:
    output_drop(&file);
    return status;
}

inlay_status lock_save(const char *path, const json_t *record, inlay_diag *diag)
{
    json_t *all = json_pack("{s:i}", "inlay_lock", FORMAT);
    inlay_status status;

    if (all == NULL || json_object_update(all, (json_t *)record) != 0)
        status = no_memory(diag, "for a record");
    else
        status = lock_write_json(path, all, diag);
    json_decref(all);
    return status;
}

/* The absolute path of the folder of a file, which may not exist yet; the working directory for streams. */
static bool folder_of(const char *path, char out[PATH_MAX])
{
    char folder[PATH_MAX], target[PATH_MAX];
    const char *slash = strrchr(path, '/');

    if (!output_target(path, target))
        slash = NULL;

    if (slash == NULL)
        return realpath(".", out) != NULL;
    if ((size_t)snprintf(folder, sizeof folder, "%.*s", slash == path ? 1 : (int)(slash - path), path) >= sizeof folder)
        return false;
    return realpath(folder, out) != NULL;
}

bool lock_path_in(const char *record, const char *path, char *out)
{
    char folder[PATH_MAX], target[PATH_MAX];
    size_t common = 0, used = 0;

    if (!folder_of(record, folder) || realpath(path, target) == NULL)
        return false;
    for (size_t i = 0;; i++) { /* `common`: the length of the shared folders */
        if ((folder[i] == '/' || folder[i] == '\0') && (target[i] == '/' || target[i] == '\0'))
            common = i;
        if (folder[i] != target[i] || folder[i] == '\0')
            break;
    }
    out[0] = '\0';
    for (const char *rest = folder + common; *rest != '\0' && strcmp(rest, "/") != 0 && used + 4 < PATH_MAX;) {
        used += (size_t)snprintf(out + used, PATH_MAX - used, "../");
        rest += 1 + strcspn(rest + 1, "/");
    }
    return (size_t)snprintf(out + used, PATH_MAX - used, "%s", target + common + (target[common] == '/')) <
           PATH_MAX - used;
}

bool lock_path_from(const char *record, const char *path, char *out)
{
    const char *slash = strrchr(record, '/');

    if (path_is_absolute(path) || slash == NULL)
        return (size_t)snprintf(out, PATH_MAX, "%s", path) < PATH_MAX;
    return (size_t)snprintf(out, PATH_MAX, "%.*s/%s", (int)(slash - record), record, path) < PATH_MAX;
}
