#include "quantize/stats.h"
#include "base/hash.h"
#include "base/output.h"
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { VERSION = 2 };

struct stats {
    const char *path;
    json_t *root;
    bool changed;
    time_t saved;
};

static inlay_status hash_file(const char *path, uint64_t *io_hash, inlay_diag *diag)
{
    static char block[1 << 16];
    FILE *file = fopen(path, "rb");
    size_t got;

    if (file == NULL)
        return inlay_fail(diag, INLAY_IO_ERROR, "%.200s: %s", path, strerror(errno));
    while ((got = fread(block, 1, sizeof block, file)) > 0)
        *io_hash = hash_bytes(block, got, *io_hash);
    (void)fclose(file);
    return INLAY_OK;
}

static inlay_status hash_sample(const struct samples *set, uint32_t i, uint64_t *io_hash, inlay_diag *diag)
{
    inlay_value **values = NULL;
    inlay_status status = samples_load(set, i, &values, diag);

    for (uint32_t k = 0; status == INLAY_OK && k < inlay_session_input_count(set->of); k++) {
        inlay_tensor_view view;

        if (values[k] != NULL && evaluate_view(values[k], &view) && view.dtype != INLAY_STRING && view.bytes > 0)
            *io_hash = hash_bytes(view.data, (size_t)view.bytes, *io_hash);
    }
    samples_release(set, values);
    return status;
}

static inlay_status make_key(const char *model, const struct samples *set, agree_metric metric, char key[80],
                             inlay_diag *diag)
{
    uint64_t hash = VERSION;
    inlay_status status;

    INLAY_TRY(hash_file(model, &hash, diag));
    for (uint32_t sample = 0; sample < set->count; sample++)
        INLAY_TRY(hash_sample(set, sample, &hash, diag));
    (void)snprintf(key, 80, "%016" PRIx64 " %u %s", hash, set->count, agree_metric_name(metric));
done:
    return status;
}

static json_t *new_root(const char *key)
{
    return json_pack("{s:i, s:s, s:{}, s:{}, s:{}}", "version", VERSION, "of", key, "verdicts", "ranges", "gains");
}

inlay_status stats_open(const char *path, const char *model, const struct samples *set, agree_metric metric,
                        struct stats **out, inlay_diag *diag)
{
    struct stats *stats;
    json_error_t error;
    char key[80];
    const char *of;
    inlay_status status;

    *out = NULL;
    if (path == NULL)
        return INLAY_OK;
    status = make_key(model, set, metric, key, diag);
    if (status != INLAY_OK)
        return status;
    stats = calloc(1, sizeof *stats);
    if (stats == NULL)
        return no_memory(diag, "for %.200s", path);
    stats->path = path;
    stats->root = json_load_file(path, 0, &error);
    of = json_string_value(json_object_get(stats->root, "of"));
    if (stats->root == NULL && json_error_code(&error) == json_error_cannot_open_file) {
        stats->root = new_root(key);
    } else if (stats->root == NULL || of == NULL || !json_is_object(json_object_get(stats->root, "verdicts")) ||
               !json_is_object(json_object_get(stats->root, "ranges")) ||
               !json_is_object(json_object_get(stats->root, "gains"))) {
        status =
            inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                       "--stats %.200s: not a file of inlay quantize --stats; remove it, or name another file", path);
    } else if (strcmp(of, key) != 0) {
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                            "--stats %.200s: belongs to another model, other samples or another metric; remove it, or "
                            "name another file",
                            path);
    }
    if (status == INLAY_OK && stats->root == NULL)
        status = no_memory(diag, "for %.200s", path);
    if (status == INLAY_OK)
        *out = stats;
    else
        stats_close(stats);
    return status;
}

void stats_close(struct stats *stats)
{
    if (stats != NULL)
        json_decref(stats->root);
    free(stats);
}

inlay_status stats_save(struct stats *stats, bool now, inlay_diag *diag)
{
    output_file file = { .fd = -1 };
    char *text;
    inlay_status status;

    if (stats == NULL || !stats->changed || (!now && time(NULL) <= stats->saved))
        return INLAY_OK;
    text = json_dumps(stats->root, JSON_COMPACT | JSON_REAL_PRECISION(17));
    if (text == NULL)
        return no_memory(diag, "for %.200s", stats->path);
    INLAY_TRY(output_open(&file, stats->path, diag));
    if (output_write(file.fd, text, strlen(text)))
        status = output_commit(&file, NULL, diag);
    else
        status = output_failed(&file, diag);
    INLAY_TRY(status);
    stats->changed = false;
    stats->saved = time(NULL);
done:
    output_drop(&file);
    free(text);
    return status;
}

/* A verdict with infinity or NaN is not stored, because JSON has neither. */
void stats_add_verdict(struct stats *stats, uint64_t digest, const struct verdict *verdict)
{
    char name[20];
    json_t *item;

    if (stats == NULL)
        return;
    (void)snprintf(name, sizeof name, "%016" PRIx64, digest);
    item =
        json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:s, s:i}", "metric", agree_metric_name(verdict->metric), "score",
                  verdict->score.value, "low", verdict->score.low, "high", verdict->score.high, "error", verdict->error,
                  "relative", verdict->relative, "output", verdict->output, "samples", (int)verdict->samples);
    if (item != NULL && json_object_set_new(json_object_get(stats->root, "verdicts"), name, item) == 0)
        stats->changed = true;
}

bool stats_verdict(const struct stats *stats, uint64_t digest, struct verdict *out)
{
    char name[20];
    const char *metric, *output;
    json_t *item;
    int count;

    if (stats == NULL)
        return false;
    (void)snprintf(name, sizeof name, "%016" PRIx64, digest);
    item = json_object_get(json_object_get(stats->root, "verdicts"), name);
    *out = (struct verdict){ 0 };
    if (item == NULL || json_unpack(item, "{s:s, s:F, s:F, s:F, s:F, s:F, s:s, s:i}", "metric", &metric, "score",
                                    &out->score.value, "low", &out->score.low, "high", &out->score.high, "error",
                                    &out->error, "relative", &out->relative, "output", &output, "samples", &count) != 0)
        return false;
    out->metric = agree_metric_find(metric);
    out->samples = (uint32_t)count;
    (void)snprintf(out->output, sizeof out->output, "%s", output);
    return out->metric < AGREE_METRIC_COUNT;
}

bool stats_gains(const struct stats *stats, const char *const *names, uint32_t count, double *out)
{
    for (uint32_t i = 0; stats != NULL && i < count; i++) {
        const json_t *ns = json_object_get(json_object_get(stats->root, "gains"), names[i]);

        if (ns == NULL)
            return false;
        out[i] = json_number_value(ns);
    }
    return stats != NULL;
}

void stats_add_gain(struct stats *stats, const char *name, double ns)
{
    if (stats != NULL && json_object_set_new(json_object_get(stats->root, "gains"), name, json_real(ns)) == 0)
        stats->changed = true;
}

void stats_add_ranges(struct stats *stats, const struct calibration *calibration)
{
    json_t *all = stats == NULL ? NULL : json_object_get(stats->root, "ranges");

    for (uint32_t i = 0; stats != NULL && i < calibration->count; i++) {
        const tensor_range *range = &calibration->ranges[i];
        json_t *bins = json_array(), *means = json_array(), *item;

        for (int k = 0; k < CALIBRATE_BINS; k++)
            (void)json_array_append_new(bins, json_integer((json_int_t)range->bins[k]));
        for (int64_t k = 0; k < range->channels; k++)
            (void)json_array_append_new(means, json_real(range->means[k]));
        item = range->low <= range->high
                   ? json_pack("{s:f, s:f, s:I, s:I, s:o, s:o}", "low", (double)range->low, "high", (double)range->high,
                               "broken", (json_int_t)range->broken, "count", (json_int_t)range->count, "bins", bins,
                               "means", means)
                   : json_pack("{s:I, s:o, s:o}", "broken", (json_int_t)range->broken, "bins", bins, "means", means);
        if (item != NULL && json_object_set_new(all, range->name, item) == 0)
            stats->changed = true;
    }
}

static bool read_range(const json_t *item, struct calibration *calibration, tensor_range *range)
{
    const json_t *bins = json_object_get(item, "bins"), *means = json_object_get(item, "means");

    if (item == NULL || json_array_size(bins) != CALIBRATE_BINS)
        return false;
    if (json_object_get(item, "low") != NULL) {
        range->low = (float)json_number_value(json_object_get(item, "low"));
        range->high = (float)json_number_value(json_object_get(item, "high"));
    }
    range->broken = (uint64_t)json_integer_value(json_object_get(item, "broken"));
    range->count = (uint64_t)json_integer_value(json_object_get(item, "count"));
    range->bins = arena_array(&calibration->arena, CALIBRATE_BINS, sizeof *range->bins);
    range->channels = (int64_t)json_array_size(means);
    range->means =
        range->channels == 0 ? NULL : arena_array(&calibration->arena, (size_t)range->channels, sizeof *range->means);
    if (range->bins == NULL || (range->channels > 0 && range->means == NULL))
        return false;
    for (size_t k = 0; k < CALIBRATE_BINS; k++)
        range->bins[k] = (uint64_t)json_integer_value(json_array_get(bins, k));
    for (int64_t k = 0; k < range->channels; k++)
        range->means[k] = json_number_value(json_array_get(means, (size_t)k));
    return true;
}

bool stats_ranges(const struct stats *stats, const calibrate_value *values, uint32_t count, struct calibration *out)
{
    const json_t *all = stats == NULL ? NULL : json_object_get(stats->root, "ranges");
    bool ok;

    *out = (struct calibration){ 0 };
    if (stats == NULL || count == 0)
        return false;
    out->ranges = arena_array(&out->arena, count, sizeof *out->ranges);
    ok = out->ranges != NULL;
    for (uint32_t i = 0; ok && i < count; i++) {
        out->ranges[i] =
            (tensor_range){ .name = arena_string(&out->arena, values[i].name), .low = INFINITY, .high = -INFINITY };
        ok = out->ranges[i].name != NULL && read_range(json_object_get(all, values[i].name), out, &out->ranges[i]);
    }
    out->count = ok ? count : 0;
    if (!ok)
        calibration_end(out);
    return ok;
}
